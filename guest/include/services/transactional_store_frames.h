/**
 * The service of transactional_store.h in the messages of a load generator, for ring_service.h or
 * ring_service_qwait.h.
 */
#ifndef SERVICES_TRANSACTIONAL_STORE_FRAMES_H
#define SERVICES_TRANSACTIONAL_STORE_FRAMES_H

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

#endif
