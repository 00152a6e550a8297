/**
 * The key-value store behind a network interface with one descriptor ring for all harts, which
 * claim frame numbers by fetch-and-add.
 *
 * An idle hart claims the next number, and receives the frame of that number, whenever it arrives.
 * So frames go to harts in the order in which these became idle, and each hart polls a descriptor
 * of its own. With `sleep` = 1 it sleeps on that descriptor (WRS.NTO of Zawrs). See ring_shared.h;
 * services/compared_store.h has the other parameters, and services/store.h the messages.
 */
#include <services/compared_rings.h>
/* Above: the number of ring entries. */
#include <ring_shared.h>

static struct shared_ring *ring;
static struct shared_sender *sender;
static uint8_t *buffers; /* The initial buffer of each hart. */
static uint64_t sleeps;

void prepare(void) {
  compared_prepare_rings();
  sleeps = compared_number("sleep", 0, 0, 1, 1);
}

/* Waits until the frame of a number has arrived. */
static inline void await(uint32_t number) {
  while (!shared_ring_has_come(ring, number))
    if (sleeps && (int32_t)(__atomic_load_n(&ring->given, __ATOMIC_RELAXED) - number) > 0)
      wait_while(&dma_nic_at(ring->ring.receive_ring, number)->upper, DMA_NIC_BUFFER_BYTES);
}

int hart_main(int hart) {
  uint64_t buffer = (uint64_t)buffers + (uint64_t)hart * DMA_NIC_BUFFER_BYTES, bytes;
  for (;;) {
    uint32_t number = shared_ring_number(ring);
    await(number);
    struct frame *frame = shared_ring_take(ring, number, &buffer, &bytes);
    if (frame == NULL)
      continue;
    bytes = ring_answer(frame, bytes);
    buffer = shared_sender_send(sender, frame, bytes);
  }
}

int main(void) {
  if (reg_read64(DMA_NIC_QUEUES) != 1)
    fail("The network interface must have one queue, for all harts.");
  ring = aligned_alloc(64, sizeof *ring);
  sender = aligned_alloc(64, sizeof *sender);
  struct dma_nic_queue queue;
  dma_nic_open(&queue, 0);
  shared_ring_begin(ring, &queue);
  shared_sender_begin(sender, &queue);
  buffers = aligned_alloc(64, harts * DMA_NIC_BUFFER_BYTES);
  harts_release();
  return hart_main(0);
}
