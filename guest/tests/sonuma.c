/**
 * The network interface used directly: each misuse and its error, contexts and one-sided
 * operations, and a loop that returns each message unchanged.
 *
 * Run it with one messaging domain, `server.rpcvalet.network.one_sided_contexts = 2` and
 * `segment_bytes = 8192`: the other nodes take part in contexts 0 to 2.
 */
#include <sonuma.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *what, int64_t found, int64_t expected) {
  if (found != expected)
    fail("%s gives %ld, not %ld.", what, found, expected);
}

static uint8_t memory[2][256] __attribute__((aligned(LINE_BYTES)));
static uint8_t segments[4][256] __attribute__((aligned(LINE_BYTES)));

static void misuse(struct sonuma_endpoint *endpoint) {
  uint64_t nodes = sonuma_contexts[0].nodes, most = sonuma_contexts[0].max_message_bytes;
  expect("opening again", sonuma_open(), SONUMA_ALREADY_OPEN);
  expect("sending to nobody", sonuma_send(endpoint, 0, nodes, memory, 64), SONUMA_NO_SUCH_NODE);
  expect("sending nothing", sonuma_send(endpoint, 0, 0, memory, 0), SONUMA_EMPTY);
  expect("sending too much", sonuma_send(endpoint, 0, 0, memory, most + 1), SONUMA_TOO_LARGE);
  expect("sending from anywhere", sonuma_send(endpoint, 0, 0, memory[0] + 1, 64),
         SONUMA_MISALIGNED);
  expect("sending in no context", sonuma_send(endpoint, 16, 0, memory, 64), SONUMA_NO_SUCH_CONTEXT);
  struct sonuma_message message = {0};
  expect("replenishing nothing", sonuma_replenish(endpoint, &message), SONUMA_NOT_RECEIVED);
  expect("reading from nobody", sonuma_read(endpoint, 0, nodes, memory, 0, 64),
         SONUMA_NO_SUCH_NODE);
  expect("reading nothing", sonuma_read(endpoint, 0, 0, memory, 0, 0), SONUMA_EMPTY);
  expect("reading too much", sonuma_read(endpoint, 0, 0, memory, 0, SONUMA_MAX_BYTES + 1),
         SONUMA_TOO_LARGE);
  expect("writing anywhere", sonuma_write(endpoint, 0, 0, memory, 8, 64), SONUMA_MISALIGNED);
  expect("an endpoint too many", sonuma_endpoint((int)sonuma_device(0)->harts) != 0, 0);
  expect("the footprint", (int64_t)sonuma_footprint(200, 32, 512), 200 * 32 * (32 + 512 + 64));
}

/* Contexts 1 to 3 get segments; 1 and 2 are known to the other nodes. */
static void open_contexts(struct sonuma_endpoint *endpoint) {
  uint8_t *own = segments[1];
  expect("a context too many", sonuma_open_context(16, own, 64), SONUMA_NO_SUCH_CONTEXT);
  expect("no segment", sonuma_open_context(1, own, 0), SONUMA_EMPTY);
  expect("half a line", sonuma_open_context(1, own, 96), SONUMA_MISALIGNED);
  expect("between lines", sonuma_open_context(1, own + 8, 64), SONUMA_MISALIGNED);
  expect("no memory", sonuma_open_context(1, (void *)0x40000000, 64), SONUMA_NOT_IN_MEMORY);
  expect("more than offsets", sonuma_open_context(1, own, SONUMA_MAX_SEGMENT_BYTES + 64),
         SONUMA_TOO_LARGE);
  expect("reading before", sonuma_read(endpoint, 1, 0, memory, 0, 64), SONUMA_NOT_OPEN);
  expect("a domain before its context", sonuma_open_domain(1), SONUMA_NOT_OPEN);
  expect("context 1", sonuma_open_context(1, own, 256), SONUMA_OK);
  expect("context 1 again", sonuma_open_context(1, segments[3], 256), SONUMA_ALREADY_OPEN);
  expect("no domain", sonuma_open_domain(1), SONUMA_NO_DOMAIN);
  expect("sending without one", sonuma_send(endpoint, 1, 0, memory, 64), SONUMA_NOT_OPEN);
  expect("a segment of another's", sonuma_open_context(2, own + 192, 256), SONUMA_OVERLAPS);
  expect("context 2", sonuma_open_context(2, segments[2], 256), SONUMA_OK);
  expect("context 3", sonuma_open_context(3, segments[3], 256), SONUMA_OK);
}

/* What a node has been given in one context, it has there, and no other node and no other context.
 */
static void one_sided(struct sonuma_endpoint *endpoint) {
  for (int place = 0; place < 256; place++)
    memory[0][place] = (uint8_t)(place * 7 + 1);
  expect("a write", sonuma_write(endpoint, 1, 1, memory[0], 4096, 256), SONUMA_OK);
  expect("a read", sonuma_read(endpoint, 1, 1, memory[1], 4096 + 64, 100), SONUMA_OK);
  expect("what was read", memcmp(memory[1], memory[0] + 64, 100), 0);
  expect("what is behind it", memory[1][100], 0);
  expect("a read of another node", sonuma_read(endpoint, 1, 0, memory[1], 4096, 64), SONUMA_OK);
  expect("what it has", memory[1][0], 0);
  for (uint64_t ctx_id = 0; ctx_id <= 2; ctx_id += 2) {
    memory[1][0] = 99;
    expect("a read of another context", sonuma_read(endpoint, ctx_id, 1, memory[1], 4096, 64),
           SONUMA_OK);
    expect("what that has", memory[1][0], 0);
  }
}

/* The other node refuses; earlier operations are done, and no state remains. */
static void faults(struct sonuma_endpoint *endpoint) {
  expect("an unknown context", sonuma_read(endpoint, 3, 1, memory[1], 0, 64),
         SONUMA_UNKNOWN_CONTEXT);
  expect("behind the segment", sonuma_read(endpoint, 1, 1, memory[1], 8192, 64),
         SONUMA_OUTSIDE_SEGMENT);
  expect("behind all segments",
         sonuma_read(endpoint, 1, 1, memory[1], SONUMA_MAX_SEGMENT_BYTES, 64),
         SONUMA_OUTSIDE_SEGMENT);
  memory[1][0] = 99;
  expect("over the end", sonuma_write(endpoint, 1, 1, memory[0], 8192 - 64, 256),
         SONUMA_OUTSIDE_SEGMENT);
  expect("the last line", sonuma_read(endpoint, 1, 1, memory[1], 8192 - 64, 64), SONUMA_OK);
  expect("what it has", memory[1][0], 1);
  expect("this node's segment", segments[1][0] | segments[2][0] | segments[3][0], 0);
}

int main(void) {
  struct sonuma_endpoint *endpoint = 0;
  struct sonuma_message none = {0};
  expect("sending before", sonuma_send(endpoint, 0, 0, memory, 64), SONUMA_NOT_OPEN);
  expect("replenishing before", sonuma_replenish(endpoint, &none), SONUMA_NOT_RECEIVED);
  expect("reading before", sonuma_read(endpoint, 0, 0, memory, 0, 64), SONUMA_NOT_OPEN);
  expect("a domain before", sonuma_open_domain(0), SONUMA_NOT_OPEN);
  expect("opening", sonuma_open(), SONUMA_OK);
  expect("the domain again", sonuma_open_domain(0), SONUMA_ALREADY_OPEN);
  endpoint = sonuma_endpoint(0);
  misuse(endpoint);
  open_contexts(endpoint);
  one_sided(endpoint);
  faults(endpoint);
  io_device()->start = 1;
  uint8_t *reply = sonuma_memory(sonuma_contexts[0].max_message_bytes);
  int64_t slot = -1;
  uint64_t node = 0;
  for (;;) {
    struct sonuma_message message = sonuma_receive(endpoint);
    while (slot >= 0 && !sonuma_is_free(message.ctx_id, node, slot))
      ;
    memcpy(reply, message.data, message.bytes);
    node = message.node;
    slot = sonuma_send(endpoint, message.ctx_id, node, reply, message.bytes);
    if (slot < 0)
      fail("A reply to node %lu gives %ld.", node, slot);
    sonuma_replenish(endpoint, &message);
  }
}
