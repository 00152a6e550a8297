/* A program in the style of the published ones: it reports to its test that it is ready, and then
 * returns each message. */
#include <lnic.h>
#include <stdint.h>
#include <stdio.h>

int main(void) {
  lnic_add_context(0, 0);
  printf("Ready!\n");
  lnic_boot_msg();
  while (1) {
    lnic_wait();
    uint64_t app_hdr = lnic_read();
    lnic_write_r(app_hdr);
    for (uint64_t left = app_hdr & LEN_MASK; left; left -= LNIC_WORD_SIZE)
      lnic_copy();
    lnic_msg_done();
  }
  return 0;
}
