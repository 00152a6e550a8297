/**
 * The key-value store behind a network interface with rings of descriptors, and HyperPlane: any
 * hart takes the next frame of any queue, and halts while there is none.
 *
 * See ring_service_qwait.h; services/store.h has the messages.
 */
#define DMA_NIC_ENTRIES                                                                            \
  32 /* Of 64 queues together 2048 buffers, as behind the other interfaces.                        \
      */
#include <services/wire_store.h>

void prepare(void) { store_prepare_as(STORE_WIRE); }

static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  return wire_store_answer(request, bytes, reply);
}

#include <ring_service_qwait.h>

int main(void) { return ring_service(); }
