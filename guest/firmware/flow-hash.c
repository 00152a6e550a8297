/**
 * Delivers every frame to the receive ring that its flow's hash chooses, as an interface without
 * cores does. The firmware of a programmable network interface unless another one is named.
 */
#include <interface.h>

void firmware(uint64_t core) {
  (void)core;
  for (;;) {
    interface_next();
    interface_deliver(interface_queue());
  }
}
