/**
 * The object cache of object-cache.c behind a network interface with descriptor rings: each hart
 * polls its own.
 *
 * See object_cache.h and ring_service.h. Requests are `rack.clients.load.operations`.
 */
#include <services/object_cache_frames.h>

#include <ring_service.h>

int main(void) {
  dma_nic_check_buffers();
  return ring_service();
}
