/**
 * The key-value store behind a network interface with rings of descriptors: each hart polls its
 * own.
 *
 * Receive-side scaling chooses the hart. See ring_service.h; services/compared_store.h has the
 * parameters, and services/store.h the messages.
 */
#include <services/compared_store.h>

void prepare(void) { compared_prepare_rings(); }

static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  return compared_answer(request, bytes, reply);
}

#include <ring_service.h>

int main(void) { return ring_service(); }
