/**
 * The service of object_cache.h in the messages of a load generator, for ring_service.h or
 * ring_service_qwait.h.
 */
#ifndef SERVICES_OBJECT_CACHE_FRAMES_H
#define SERVICES_OBJECT_CACHE_FRAMES_H

#define DMA_NIC_ENTRIES 64
/* The longest frames with the values of Facebook's pool ETC have 4976 bytes. An odd number of
 * lines, as in DPDK's pools, so that buffers start in all sets of the caches. */
#define DMA_NIC_BUFFER_BYTES (81 * 64)
#include <dma_nic.h>
#include <frames.h>
#include <object_cache.h>
#include <services/wire_operations.h>

void prepare(void) { object_cache_prepare(); }

static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  return wire_operations_answer(object_cache_handle, request, bytes, reply,
                                DMA_NIC_BUFFER_BYTES - sizeof(struct frame));
}

#endif
