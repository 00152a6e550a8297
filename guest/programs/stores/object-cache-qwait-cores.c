/**
 * The cache of objects of object-cache.c behind a network interface with rings of descriptors:
 * any hart of a core takes the next frame of the core's queues by QWAIT.
 *
 * See object_cache.h and ring_service_qwait.h. Requests are `rack.clients.load.operations`.
 */
#define RING_QWAIT_OF_CORES

#include <services/object_cache_frames.h>

#include <ring_service_qwait.h>

int main(void) {
  dma_nic_check_buffers();
  return ring_service();
}
