/**
 * Two programs on one server with both of nanoPU's paths (docs/nanopu.md, "The DMA path"), whose
 * harts are statically partitioned. The last hart reads blocks for conventional clients, through
 * the on-chip interface of `dma_path = "ice-nic"`. All others serve nanoRequests for the number of
 * cycles in their first word: busy.h.
 *
 * A request for a block has the two words of a load generator and a number. The reply repeats them
 * and has the block behind them, straight from where it is in memory. Anything else is sent back as
 * a single word.
 */
#include <frames.h>
#include <ice_nic.h>
#include <lnic.h>
#define BUSY_ON_CORE
#include <nanopu/busy.h>
#include <nanopu/messages.h>
#include <runtime.h>

enum {
  BLOCKS = 1024, /**< 1 MB together: twice the L2 cache of the prototype. */
  REQUEST_WORDS = LOAD_WORDS + 1,
  BLOCK_WORDS = 128 - REQUEST_WORDS, /**< A reply of 1 KB. */
  BATCH = 30,                        /**< Frames at a time, as in frame_service.h. */
};

/* The payload of a block as it is on the wire. */
static uint64_t blocks[BLOCKS][BLOCK_WORDS];

void prepare(void) {
  for (uint64_t block = 0; block < BLOCKS; block++)
    for (uint64_t word = 0; word < BLOCK_WORDS; word++)
      blocks[block][word] = frame_word(block << 32 | word);
}

/* Posts the reply to a frame, and returns the number of its parts. */
static int answer(struct frame *frame, uint64_t payload_bytes) {
  swap_addresses(frame);
  if (payload_bytes != REQUEST_WORDS * WORD_BYTES) {
    frame->payload[0] = SERVICE_REFUSED;
    frame_set_payload_bytes(frame, WORD_BYTES);
    nic_post_send(frame, sizeof *frame + WORD_BYTES);
    return 1;
  }
  uint64_t block = frame_word(frame->payload[LOAD_WORDS]) % BLOCKS;
  frame_set_payload_bytes(frame, (REQUEST_WORDS + BLOCK_WORDS) * WORD_BYTES);
  nic_post_send_part(frame, sizeof *frame + REQUEST_WORDS * WORD_BYTES);
  nic_post_send(blocks[block], sizeof blocks[block]);
  return 2;
}

static int serve_blocks(void) {
  static uint8_t buffers[BATCH][NIC_BUFFER_BYTES] __attribute__((aligned(64)));
  for (;;) {
    int parts = 0;
    for (int place = 0; place < BATCH; place++)
      nic_post_recv(buffers[place]);
    for (int place = 0; place < BATCH; place++) {
      struct frame *frame = (struct frame *)buffers[place];
      parts += answer(frame, frame_payload_bytes(frame, (uint64_t)nic_wait_recv()));
    }
    nic_wait_send_batch(parts);
  }
  return 0;
}

static int serve_requests(void) {
  lnic_add_context(SERVICE_CONTEXT, 0);
  for (;;) {
    lnic_wait();
    busy_serve();
    lnic_msg_done();
  }
  return 0;
}

int hart_main(int hart) { return (uint64_t)hart == harts - 1 ? serve_blocks() : serve_requests(); }

int main(void) {
  if (harts < 2)
    fail("Each of the two paths needs a hart: server.fabric.cores must be at least 2.");
  busy_prepare();
  harts_release();
  return hart_main(0);
}
