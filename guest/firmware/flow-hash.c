/**
 * Delivers every frame to the receive ring selected by its flow's hash, as an interface without
 * cores does. The default firmware of a programmable network interface.
 */
#include <interface.h>

void firmware(uint64_t core) {
  (void)core;
  for (;;) {
    interface_next();
    interface_deliver(interface_queue());
  }
}
