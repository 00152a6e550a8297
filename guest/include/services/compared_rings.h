/**
 * The store of services/compared_store.h behind rings of descriptors: what its programs share that
 * differ in how a hart learns of frames, and which.
 */
#ifndef SERVICES_COMPARED_RINGS_H
#define SERVICES_COMPARED_RINGS_H

#include <services/compared_store.h>
/* Above: how many entries rings have. */
#include <dma_nic.h>

static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  return compared_answer(request, bytes, reply);
}

#include <ring_answer.h>

#endif
