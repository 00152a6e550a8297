/**
 * The key-value store on nanoPU: messages are read from a register and written to one.
 *
 * services/compared_store.h has the parameter value_bytes, and services/store.h the messages.
 */
#include <services/compared_registers.h>

int hart_main(int hart) {
  (void)hart;
  return service();
}

int main(void) {
  harts_release();
  return hart_main(0);
}
