/**
 * A client of three servers that run `chain-replication`: writes and reads, and prints the latency
 * of both.
 *
 * The servers are 10.0.0.1 to 10.0.0.3, head first, context 0, and this client is 10.0.0.4. Each
 * write is followed by a read of its key at the tail; if that returns anything else, the program
 * ends with status 1.
 */
#include <lnic.h>
#include <nanopu/chain.h>
#include <nanopu/measure.h>
#include <operations.h>

#ifndef REQUESTS
#define REQUESTS 1000
#endif

enum { SERVERS = 3, KEYS = 10000, CLIENT_CONTEXT = 0 };

static const uint64_t first_address = 0x0a000001, patience_cycles = 3200000; /* 1 ms at 3.2 GHz. */

static struct measure writes, reads;

static uint64_t exchange(uint64_t server, const uint64_t *words, uint64_t count) {
  uint64_t cycles, to = (first_address + server) << 32 | (uint64_t)SERVICE_CONTEXT << 16;
  if (measure_exchange(to, words, count, patience_cycles, &cycles) !=
      1 + CHAIN_KEY_WORDS + CHAIN_VALUE_WORDS)
    fail("Server %lu does not answer.", (unsigned long)server);
  return cycles;
}

int main(void) {
  lnic_add_context(CLIENT_CONTEXT, 0);
  for (uint64_t number = 0; number < REQUESTS; number++) {
    uint64_t words[SERVERS + CHAIN_KEY_WORDS + CHAIN_VALUE_WORDS], *word = words;
    struct chain_head head = {
        .flags = CHAIN_FROM_CLIENT | CHAIN_WRITE,
        .servers = SERVERS - 1,
        .client_context = CLIENT_CONTEXT,
        .client_address = (uint32_t)first_address + SERVERS,
    };
    *word++ = chain_word(head);
    for (uint64_t server = 1; server < SERVERS; server++)
      *word++ = (uint64_t)SERVICE_CONTEXT << 32 | (first_address + server);
    uint64_t *key = word;
    *word++ = operation_mix(number) % KEYS;
    *word++ = 0;
    *word++ = 0;
    for (uint64_t at = 0; at < CHAIN_VALUE_WORDS; at++)
      *word++ = operation_mix(number * CHAIN_VALUE_WORDS + at);
    measure_add(&writes, exchange(0, words, (uint64_t)(word - words)));

    head.flags = CHAIN_FROM_CLIENT | CHAIN_READ;
    head.servers = 0;
    uint64_t *read = key - 1; /* The key keeps its position, and the words behind it are ignored. */
    *read = chain_word(head);
    measure_add(&reads, exchange(SERVERS - 1, read, (uint64_t)(word - read)));
    for (uint64_t at = 0; at < CHAIN_VALUE_WORDS; at++)
      if (measure_reply[1 + CHAIN_KEY_WORDS + at] != operation_mix(number * CHAIN_VALUE_WORDS + at))
        fail("The tail has lost what was written.");
  }
  measure_print(&writes, "chain writes");
  measure_print(&reads, "chain reads");
  return 0;
}
