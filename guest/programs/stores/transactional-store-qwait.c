/**
 * The database of transactional-store.c behind a network interface with rings of descriptors:
 * any hart takes the next frame of any queue by QWAIT.
 *
 * See transactional_store.h and ring_service_qwait.h. Requests are `rack.clients.load.operations`.
 */
#define DMA_NIC_ENTRIES 64
#include <dma_nic.h>
#include <frames.h>
#include <services/wire_operations.h>
#include <transactional_store.h>

void prepare(void) { transactional_store_prepare(); }

static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  return wire_operations_answer(transactional_store_handle, request, bytes, reply,
                                DMA_NIC_BUFFER_BYTES - sizeof(struct frame));
}

#include <ring_service_qwait.h>

int main(void) {
  dma_nic_check_buffers();
  return ring_service();
}

#include <transactional_store_check.h>
