/**
 * A client beside a program of nanoPU, on the same simulated server: hart 1 sends messages to the
 * program, which is on hart 0, and prints what comes back. The server's interface has no network,
 * and gives it what it sends to itself.
 *
 *     #include ".../client-before.h"
 *     #include ".../guest/programs/nanopu/PROGRAM.c"
 *     #define MESSAGES ...
 *     #include ".../client.h"
 *
 * MESSAGES are words: for each message how many replies it has, its application header, and its
 * words. A reply comes out as a line for each of its words, the header first, in hexadecimal
 * digits.
 */
#undef main
#undef hart_main
#include <stdio.h>
#include <stdlib.h>

static const uint64_t messages[] = {MESSAGES};

static uint64_t replies[1 << 16], reply_words;

enum { CLIENT_CONTEXT = 1, CYCLES_TO_BIND = 20000 };

static uint64_t cycles(void) {
  uint64_t now;
  __asm__ volatile("csrr %0, mcycle" : "=r"(now));
  return now;
}

static void client(void) {
  lnic_add_context(CLIENT_CONTEXT, 0);
  while (cycles() < CYCLES_TO_BIND) /* The program binds its context meanwhile. */
    ;
  for (const uint64_t *word = messages, *end = word + sizeof messages / sizeof *word; word < end;) {
    uint64_t expected = *word++, header = *word++;
    lnic_write_r(header);
    for (uint64_t left = message_words(header); left > 0; left--)
      lnic_write_r(*word++);
    for (; expected > 0; expected--) {
      lnic_wait();
      header = lnic_read();
      replies[reply_words++] = header;
      for (uint64_t left = message_words(header); left > 0; left--)
        replies[reply_words++] = lnic_read();
      lnic_msg_done();
    }
  }
  for (uint64_t word = 0; word < reply_words; word++)
    printf("%016lx\n", replies[word]);
  exit(0);
}

int hart_main(int hart) {
  if (hart == 1)
    client();
#ifdef SERVICE_ON_ALL_HARTS
  return service_hart_main(hart);
#else
  return 0;
#endif
}

int main(void) {
  harts_release();
  return service_main();
}
