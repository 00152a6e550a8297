/**
 * Sends every frame back to its sender, one at a time: the latency is nanoPU's Figure 3.
 */
#include <frames.h>
#include <ice_nic.h>

int main(void) {
  static uint8_t buffer[NIC_BUFFER_BYTES] __attribute__((aligned(64)));
  for (;;) {
    int bytes = nic_recv(buffer);
    swap_eth((struct frame *)buffer);
    nic_send(buffer, (uint64_t)bytes);
  }
}
