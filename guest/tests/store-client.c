/**
 * Asks a key-value store of services/store.h, one request after the other, and prints of each reply
 * how many words it has and a hash of them. Among the requests are some for keys that the store
 * does not have, and some that are none.
 *
 * It is for a server with nanoPU's registers beside the store, which is the first host of the rack.
 */
#include <lnic.h>
#include <nanopu/clock.h>
#include <nanopu/messages.h>
#include <services/store.h>
#include <stdio.h>

enum {
  REQUESTS = 120,
  FEW_KEYS = 8,
  SERVER = 0x0a000001,
  OWN_CONTEXT = 0,
  UNKNOWN_OPERATION = 7,
  BEGIN_CYCLES = 320000, /* The store has made its rings by then. */
};

static void send_word(uint64_t word) { lnic_write_r(word); }

/* Request `number`: most are for few keys, so that what was written is read again. */
static void ask(uint64_t number) {
  uint64_t choice = operation_mix(number);
  uint64_t operation = choice % 2 ? STORE_WRITE : STORE_READ;
  uint64_t key = choice / 2 % FEW_KEYS + (number % 10 == 3 ? STORE_KEYS : 0);
  uint64_t words = STORE_REQUEST_WORDS + (operation == STORE_WRITE ? STORE_VALUE_WORDS : 0);
  if (number % 20 == 7)
    words = 3; /* Too short. */
  if (number % 20 == 17)
    operation = UNKNOWN_OPERATION;
  send_word((uint64_t)SERVER << 32 | (uint64_t)OWN_CONTEXT << 16 | words * WORD_BYTES);
  for (uint64_t word = 0; word < words; word++)
    send_word(word == 2   ? operation
              : word == 3 ? key
              : word < 6  ? 0
                          : operation_mix(number * STORE_VALUE_WORDS + word));
}

int main(void) {
  lnic_add_context(OWN_CONTEXT, 0);
  while (clock_cycles() < BEGIN_CYCLES)
    ;
  for (uint64_t number = 0; number < REQUESTS; number++) {
    ask(number);
    lnic_wait();
    uint64_t words = message_words(lnic_read()), hash = 0;
    for (uint64_t word = 0; word < words; word++)
      hash = operation_mix(hash ^ lnic_read());
    lnic_msg_done();
    printf("%lu %016lx\n", words, hash);
  }
  return 0;
}
