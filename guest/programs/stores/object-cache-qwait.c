/**
 * The object cache of object-cache.c behind a network interface with descriptor rings: any hart
 * takes the next frame of any queue by QWAIT.
 *
 * See object_cache.h and ring_service_qwait.h. Requests are `rack.clients.load.operations`.
 */
#include <services/object_cache_frames.h>

#include <ring_service_qwait.h>

int main(void) {
  dma_nic_check_buffers();
  return ring_service();
}
