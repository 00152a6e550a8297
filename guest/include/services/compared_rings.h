/**
 * The store of services/compared_store.h behind descriptor rings: the common part of programs that
 * differ in how harts are notified of frames.
 */
#ifndef SERVICES_COMPARED_RINGS_H
#define SERVICES_COMPARED_RINGS_H

#include <services/compared_store.h>
/* Defined above: the number of a ring's entries. */
#include <dma_nic.h>

static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  return compared_answer(request, bytes, reply);
}

#include <ring_answer.h>

#endif
