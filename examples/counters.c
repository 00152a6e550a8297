/**
 * Firmware of a programmable network interface: counters that live on the interface. A message
 * whose first word is 1 adds one to the counter that its second word names, and is answered with
 * the counter's new value by the interface alone; the server never hears of it. Every other message
 * goes to the server, by its flow's hash.
 *
 *     nanoplane run examples/programmable-interface.toml
 */
#include <interface.h>

enum {
  COUNTERS = 1024,
  LOAD_WORDS = 2, /* What a load generator puts in front of a message, and wants to have back. */
  COUNT = 1,
};

static uint64_t counters[COUNTERS]; /* In the scratchpad, where all cores see them. */

/* Words are big-endian. The cores have no instruction that reverses one. */
static uint64_t word(const struct frame *frame, int number) {
  return swap64(frame->payload[LOAD_WORDS + number]);
}

void firmware(uint64_t core) {
  (void)core;
  for (;;) {
    uint64_t bytes = interface_next();
    struct frame *frame = interface_frame();
    if (bytes < sizeof *frame + (LOAD_WORDS + 2) * 8 || word(frame, 0) != COUNT) {
      interface_deliver(interface_queue());
      continue;
    }
    uint64_t *counter = &counters[word(frame, 1) % COUNTERS];
    uint64_t value = 1 + __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    frame->payload[LOAD_WORDS + 1] = swap64(value);
    swap_addresses(frame);
    interface_send(bytes);
  }
}
