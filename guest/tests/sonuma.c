/**
 * The network interface by hand: each misuse and its error, one-sided operations, and a loop of its
 * own that gives each message back as it came.
 */
#include <sonuma.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *what, int64_t found, int64_t expected) {
  if (found != expected)
    fail("%s gives %ld, not %ld.", what, found, expected);
}

static uint8_t memory[2][256] __attribute__((aligned(LINE_BYTES)));

static void misuse(struct sonuma_endpoint *endpoint) {
  uint64_t nodes = sonuma_state.nodes, most = sonuma_state.max_message_bytes;
  expect("opening again", sonuma_open(), SONUMA_ALREADY_OPEN);
  expect("sending to nobody", sonuma_send(endpoint, nodes, memory, 64), SONUMA_NO_SUCH_NODE);
  expect("sending nothing", sonuma_send(endpoint, 0, memory, 0), SONUMA_EMPTY);
  expect("sending too much", sonuma_send(endpoint, 0, memory, most + 1), SONUMA_TOO_LARGE);
  expect("sending from anywhere", sonuma_send(endpoint, 0, memory[0] + 1, 64), SONUMA_MISALIGNED);
  struct sonuma_message message = {0};
  expect("replenishing nothing", sonuma_replenish(endpoint, &message), SONUMA_NOT_RECEIVED);
  expect("reading from nobody", sonuma_read(endpoint, nodes, memory, 0, 64), SONUMA_NO_SUCH_NODE);
  expect("reading nothing", sonuma_read(endpoint, 0, memory, 0, 0), SONUMA_EMPTY);
  expect("reading too much", sonuma_read(endpoint, 0, memory, 0, SONUMA_MOST_BYTES + 1),
         SONUMA_TOO_LARGE);
  expect("writing anywhere", sonuma_write(endpoint, 0, memory, 8, 64), SONUMA_MISALIGNED);
  expect("an endpoint too many", sonuma_endpoint((int)sonuma_device()->harts) != 0, 0);
  expect("the footprint", (int64_t)sonuma_footprint(200, 32, 512), 200 * 32 * (32 + 512 + 64));
}

/* What one node has been given, it has, and no other. */
static void one_sided(struct sonuma_endpoint *endpoint) {
  for (int place = 0; place < 256; place++)
    memory[0][place] = (uint8_t)(place * 7 + 1);
  expect("a write", sonuma_write(endpoint, 1, memory[0], 4096, 256), SONUMA_OK);
  expect("a read", sonuma_read(endpoint, 1, memory[1], 4096 + 64, 100), SONUMA_OK);
  expect("what was read", memcmp(memory[1], memory[0] + 64, 100), 0);
  expect("what is behind it", memory[1][100], 0);
  expect("a read of another node", sonuma_read(endpoint, 0, memory[1], 4096, 64), SONUMA_OK);
  expect("what it has", memory[1][0], 0);
}

int main(void) {
  struct sonuma_endpoint *endpoint = 0;
  struct sonuma_message none = {0};
  expect("sending before", sonuma_send(endpoint, 0, memory, 64), SONUMA_NOT_OPEN);
  expect("replenishing before", sonuma_replenish(endpoint, &none), SONUMA_NOT_OPEN);
  expect("reading before", sonuma_read(endpoint, 0, memory, 0, 64), SONUMA_NOT_OPEN);
  expect("opening", sonuma_open(), SONUMA_OK);
  endpoint = sonuma_endpoint(0);
  misuse(endpoint);
  one_sided(endpoint);
  io_device()->start = 1;
  uint8_t *reply = sonuma_memory(sonuma_state.max_message_bytes);
  int64_t slot = -1;
  uint64_t node = 0;
  for (;;) {
    struct sonuma_message message = sonuma_receive(endpoint);
    while (slot >= 0 && !sonuma_is_free(node, slot))
      ;
    memcpy(reply, message.data, message.bytes);
    node = message.node;
    slot = sonuma_send(endpoint, node, reply, message.bytes);
    if (slot < 0)
      fail("A reply to node %lu gives %ld.", node, slot);
    sonuma_replenish(endpoint, &message);
  }
}
