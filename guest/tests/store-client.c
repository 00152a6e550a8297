/**
 * Sends requests to a key-value store of services/store.h, one after the other, and prints the
 * number of words of each reply and their hash. Some requests are for missing keys, and some are
 * invalid.
 *
 * Parameters: `first_key`, the first of its keys, so that several clients use different ones;
 * `rounds`, the first word of every third request, which is otherwise 0; `value_words`, words of a
 * value.
 *
 * It runs on a server with nanoPU's registers, in a rack whose first host is the store.
 */
#include <io.h>
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
  BEGIN_CYCLES = 320000, /* By then the store has created its rings. */
};

static uint64_t first_key, rounds, value_words;

void prepare(void) {
  first_key = (uint64_t)io_parameter("first_key", 0);
  rounds = (uint64_t)io_parameter("rounds", 0);
  value_words = (uint64_t)io_parameter("value_words", STORE_VALUE_WORDS);
}

static void send_word(uint64_t word) { lnic_write_r(word); }

/* Request `number`: most are for few keys, so that written values are read again. */
static void ask(uint64_t number) {
  uint64_t choice = operation_mix(number);
  uint64_t operation = choice % 2 ? STORE_WRITE : STORE_READ;
  uint64_t key = first_key + choice / 2 % FEW_KEYS + (number % 10 == 3 ? STORE_KEYS : 0);
  uint64_t words = STORE_REQUEST_WORDS + (operation == STORE_WRITE ? value_words : 0);
  if (number % 20 == 7)
    words = 3; /* Too short. */
  if (number % 20 == 17)
    operation = UNKNOWN_OPERATION;
  send_word((uint64_t)SERVER << 32 | (uint64_t)OWN_CONTEXT << 16 | words * WORD_BYTES);
  for (uint64_t word = 0; word < words; word++)
    send_word(word == 0   ? (number % 3 == 0 ? rounds : 0)
              : word == 2 ? operation
              : word == 3 ? key
              : word < 6  ? 0
                          : operation_mix(number * value_words + word));
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
