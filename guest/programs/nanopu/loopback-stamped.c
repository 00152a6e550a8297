/**
 * Sends every message back to its sender, with the last word of the first message in place of its
 * own. So the last reply contains the time of the first request, as in the prototype's program for
 * the paper's Figure 4.
 */
#include <lnic.h>
#include <nanopu/messages.h>

#define TWICE(statements) statements statements

/** Copies all words of a message except its last one: messages of 8 times a power of two bytes
 * without a loop, testing for the shortest length first, like the prototype's function. */
static __attribute__((noinline)) void copy_all_but_one(uint64_t bytes) {
  if (__builtin_expect(bytes == WORD_BYTES, 1))
    return;
  switch (bytes) {
  case 1024:
    TWICE(TWICE(TWICE(TWICE(FOUR_WORDS(lnic_copy());))))
    __attribute__((fallthrough));
  case 512:
    TWICE(TWICE(TWICE(FOUR_WORDS(lnic_copy());)))
    __attribute__((fallthrough));
  case 256:
    TWICE(TWICE(FOUR_WORDS(lnic_copy());))
    __attribute__((fallthrough));
  case 128:
    TWICE(FOUR_WORDS(lnic_copy());)
    __attribute__((fallthrough));
  case 64:
    FOUR_WORDS(lnic_copy());
    __attribute__((fallthrough));
  case 32:
    TWICE(lnic_copy();)
    __attribute__((fallthrough));
  case 16:
    lnic_copy();
    return;
  default:
    FOR_EACH_WORD((bytes + WORD_BYTES - 1) / WORD_BYTES - 1, lnic_copy());
  }
}

/** Sends all words of the next message except the last one. */
static inline void send_all_but_one(void) {
  lnic_wait();
  uint64_t header = lnic_read();
  lnic_write_r(header);
  copy_all_but_one(header & LEN_MASK);
}

int main(void) {
  lnic_add_context(SERVICE_CONTEXT, 0);
  send_all_but_one();
  uint64_t stamp = lnic_read();
  lnic_write_r(stamp);
  lnic_msg_done();
  for (;;) {
    send_all_but_one();
    lnic_read();
    lnic_write_r(stamp);
    lnic_msg_done();
  }
}
