/**
 * A client of the server that runs `rdma`: prints the latency of each kind of one-sided operation.
 *
 * The server is 10.0.0.1, context 0. Operations are issued one after the other, at random addresses
 * (the nanoPU paper's Table 2). Reads come first, while the contents are known: if a value differs,
 * the program ends with status 1.
 */
#include <lnic.h>
#include <nanopu/measure.h>
#include <operations.h>

#ifndef REQUESTS
#define REQUESTS 1000
#endif

enum { MEMORY_WORDS = 400000, REPLY = 6, CLIENT_CONTEXT = 0 };

static const uint64_t server = (uint64_t)0x0a000001 << 32 | (uint64_t)SERVICE_CONTEXT << 16;
static const uint64_t patience_cycles = 3200000; /* 1 ms at 3.2 GHz. */

static struct measure measure;

/* The initial word at an address. */
static uint64_t first(uint64_t address) {
  return operation_mix(address / WORD_BYTES) % MEMORY_WORDS * WORD_BYTES;
}

int main(void) {
  static const struct {
    const char *name;
    uint64_t type, operands;
  } operations[] = {{"read", 1, 0},
                    {"indirect read", 5, 0},
                    {"write", 2, 1},
                    {"compare-and-swap", 3, 2},
                    {"fetch-and-add", 4, 1}};
  lnic_add_context(CLIENT_CONTEXT, 0);
  for (uint64_t number = 0; number < sizeof operations / sizeof *operations; number++) {
    uint64_t type = operations[number].type;
    measure.count = 0;
    for (uint64_t request = 0; request < REQUESTS; request++) {
      uint64_t random = operation_mix((number + 1) << 32 | request);
      uint64_t address = random % MEMORY_WORDS * WORD_BYTES, cycles;
      uint64_t words[] = {type, address, random, request};
      uint64_t got = measure_exchange(server, words, 2 + operations[number].operands,
                                      patience_cycles, &cycles);
      if (got != 2 || measure_reply[0] != REPLY)
        fail("There is no reply to a %s.", operations[number].name);
      uint64_t expected = type == 1 ? first(address) : first(first(address));
      if ((type == 1 || type == 5) && measure_reply[1] != expected)
        fail("A %s gives what is not there.", operations[number].name);
      measure_add(&measure, cycles);
    }
    measure_print(&measure, operations[number].name);
  }
  return 0;
}
