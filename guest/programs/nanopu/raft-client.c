/**
 * A client of three servers that run `raft`: assigns their identities, finds the leader, writes and
 * reads, and prints the latency of a write.
 *
 * The servers are 10.0.0.1 to 10.0.0.3, context 0. The nanoPU paper measures 10,000 writes of
 * random keys one after the other (Section 5.3). If a server does not answer within 1 ms, or does
 * not know the leader, the client tries the next one. At the end it reads some keys; if a value
 * differs from the last one written, the program ends with status 1.
 */
#include <lnic.h>
#include <nanopu/measure.h>
#include <operations.h>

#ifndef REQUESTS
#define REQUESTS 10000
#endif

enum {
  SERVERS = 3,
  KEYS = 10000,
  READS = 100,
  ATTEMPTS = 1000,
  CONFIGURATION = 1,
  WRITES = 2,
  READ = 3,
  DONE = 1,
  OTHER_LEADER = 3,
  VALUE_WORDS = 8,
  CLIENT_CONTEXT = 0,
};

static const uint64_t first_server = 0x0a000001, patience_cycles = 3200000; /* 1 ms at 3.2 GHz. */

static struct measure writes;
static uint64_t last_written[KEYS]; /* The number of the write, plus 1. */
static uint64_t leader;             /* The last known leader. */

static uint64_t where(uint64_t server) {
  return (first_server + server) << 32 | (uint64_t)SERVICE_CONTEXT << 16;
}

static void configure(void) {
  for (uint64_t server = 0; server < SERVERS; server++) {
    uint64_t words[] = {CONFIGURATION, server, SERVERS, where(0), where(1), where(2)}, cycles;
    int attempts = 0;
    while (measure_exchange(where(server), words, sizeof words / sizeof *words, patience_cycles,
                            &cycles) == 0)
      if (++attempts == ATTEMPTS)
        fail("Server %lu does not answer.", (unsigned long)server);
  }
}

/* Waits for a fixed time, discarding messages. */
static void pause(void) {
  uint64_t begin = clock_cycles();
  while (clock_cycles() - begin < patience_cycles) {
    if (!lnic_ready())
      continue;
    uint64_t header = lnic_read();
    for (uint64_t left = message_words(header); left > 0; left--)
      lnic_read();
    lnic_msg_done();
  }
}

/* Sends a request to the current leader; returns the duration of the attempt that was answered. */
static uint64_t ask(const uint64_t *words, uint64_t count) {
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    uint64_t cycles;
    uint64_t got = measure_exchange(where(leader), words, count, patience_cycles, &cycles);
    if (got > 0 && measure_reply[0] != OTHER_LEADER)
      return cycles;
    uint64_t named = got > 1 ? (measure_reply[1] >> 32) - first_server : SERVERS;
    if (named < SERVERS && named != leader) {
      leader = named;
    } else {
      leader = (leader + 1) % SERVERS;
      if (got > 0)
        pause(); /* An election is in progress. */
    }
  }
  fail("There is no leader.");
}

static uint64_t value_word(uint64_t number, uint64_t word) {
  return operation_mix(number * VALUE_WORDS + word);
}

int main(void) {
  lnic_add_context(CLIENT_CONTEXT, 0);
  configure();
  for (uint64_t number = 0; number < REQUESTS; number++) {
    uint64_t key = operation_mix(number) % KEYS;
    uint64_t words[3 + VALUE_WORDS] = {WRITES, key, 0};
    for (uint64_t word = 0; word < VALUE_WORDS; word++)
      words[3 + word] = value_word(number, word);
    uint64_t cycles = ask(words, sizeof words / sizeof *words);
    if (measure_reply[0] != DONE)
      fail("A write has the answer %lu.", (unsigned long)measure_reply[0]);
    measure_add(&writes, cycles);
    last_written[key] = number + 1;
  }
  for (uint64_t key = 0, reads = 0; key < KEYS && reads < READS; key++) {
    if (last_written[key] == 0)
      continue;
    reads++;
    uint64_t words[] = {READ, key, 0};
    ask(words, sizeof words / sizeof *words);
    int is_right = measure_reply[0] == DONE;
    for (uint64_t word = 0; word < VALUE_WORDS; word++)
      is_right &= measure_reply[1 + word] == value_word(last_written[key] - 1, word);
    if (!is_right)
      fail("Key %lu has lost what was written.", (unsigned long)key);
  }
  measure_print(&writes, "raft writes");
  return 0;
}
