/**
 * Sends every frame back as it came, one at a time: what loopback.c takes longer is the time of its
 * exchange of addresses (the nanoPU paper's Section 5.2.1).
 */
#include <ice_nic.h>

int main(void) {
  static uint8_t buffer[NIC_BUFFER_BYTES] __attribute__((aligned(64)));
  for (;;) {
    int bytes = nic_recv(buffer);
    nic_send(buffer, (uint64_t)bytes);
  }
}
