/**
 * The database of transactional-store.c behind a network interface with descriptor rings: each hart
 * polls its own.
 *
 * See transactional_store.h and ring_service.h. Requests are `rack.clients.load.operations`.
 */
#include <services/transactional_store_frames.h>

#include <ring_service.h>

int main(void) {
  dma_nic_check_buffers();
  return ring_service();
}

#include <transactional_store_check.h>
