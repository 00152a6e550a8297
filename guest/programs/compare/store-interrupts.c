/**
 * The key-value store behind a network interface with descriptor rings, and user-level interrupts:
 * each hart serves its own ring, and sleeps while it is empty.
 *
 * Interrupts are disabled while a hart has work, as with Linux's NAPI. A hart that finds no frame
 * reports to the interface how many it has taken, checks the ring once more, and waits. No wake-up
 * is lost: for a frame that has arrived meanwhile the interface interrupts at once, and a pending
 * interrupt ends WFI. services/compared_store.h has the parameters, and services/store.h the
 * messages.
 */
#include <services/compared_rings.h>
/* Above: the number of ring entries. */
#include <ring_queues.h>
#include <user_interrupt.h>

/* The vector of the notifications in the harts' descriptors: any. */
enum { NOTIFICATION = 0xec };

static struct user_interrupt_descriptor *descriptors;

void prepare(void) {
  compared_prepare_rings();
  compared_prepare_system();
}

/* A hart has only one queue, which need not be identified. */
static __attribute__((naked, aligned(64))) void handler(void) {
  __asm__ volatile(USER_INTERRUPT_RETURN);
}

/* Waits for a frame. */
static inline struct frame *await(struct dma_nic_queue *queue, uint64_t *bytes) {
  for (;;) {
    struct frame *frame = dma_nic_receive(queue, bytes);
    if (frame != NULL)
      return frame;
    dma_nic_interrupt(queue);
    frame = dma_nic_receive(queue, bytes);
    if (frame != NULL)
      return frame;
    __asm__ volatile("wfi" ::: "memory");
    user_interrupt_on();
    user_interrupt_off();
    compared_system();
  }
}

int hart_main(int hart) {
  struct dma_nic_queue *queue = &ring_queues[hart];
  user_interrupt_receive(&descriptors[hart], handler);
  for (;;) {
    uint64_t bytes;
    struct frame *frame = await(queue, &bytes);
    bytes = ring_answer(frame, bytes);
    dma_nic_send(queue, frame, bytes);
  }
}

int main(void) {
  ring_queues_make();
  descriptors = aligned_alloc(64, harts * sizeof *descriptors);
  struct user_interrupt_target *targets = aligned_alloc(64, harts * sizeof *targets);
  user_interrupt_write_csr(CSR_UI_TARGETS, (uint64_t)targets);
  user_interrupt_write_csr(CSR_UI_TARGET_COUNT, harts);
  for (uint64_t hart = 0; hart < harts; hart++) {
    descriptors[hart].control = user_interrupt_control(hart, NOTIFICATION);
    descriptors[hart].requests = 0;
    targets[hart] = (struct user_interrupt_target){.control = 1, .descriptor = &descriptors[hart]};
    user_interrupt_route(hart, hart);
    dma_nic_open(&ring_queues[hart], (int)hart);
  }
  harts_release();
  return hart_main(0);
}
