/**
 * The key-value store on nanoPU: messages are read from a register and written to one, and a hart
 * without a message sleeps in WFI.
 *
 * The published kernel sleeps in the same way: it waits in WFI, in its own context, for the
 * interrupt of the thread scheduler. Here a hart without a message declares itself idle and selects
 * that context. The scheduler raises its interrupt when a message arrives, which ends WFI and is
 * not taken, and the hart selects the context of its messages again. A message that arrives before
 * WFI has raised the interrupt already. services/compared_store.h has the parameter value_bytes,
 * and services/store.h the messages.
 */
#include <services/compared_registers.h>

static const uint64_t scheduler_interrupt = 1 << 16;

static inline void await(void) {
  while (!lnic_ready()) {
    lnic_idle();
    lnic_write_csr(CSR_LCURCONTEXT, LNIC_KERNEL_CONTEXT);
    __asm__ volatile("wfi" ::: "memory");
    lnic_write_csr(CSR_LCURCONTEXT, SERVICE_CONTEXT);
  }
}

int hart_main(int hart) {
  (void)hart;
  lnic_add_context(SERVICE_CONTEXT, 0);
  __asm__ volatile("csrs mie, %0" : : "r"(scheduler_interrupt));
  for (;;) {
    await();
    serve();
    lnic_msg_done();
  }
  return 0;
}

int main(void) {
  harts_release();
  return hart_main(0);
}
