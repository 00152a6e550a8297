/**
 * Passes packets from receiving cores to sending cores, through one ring for each sender
 * (scale-out) or one shared ring (scale-up): Figure 15 of the study of spinning data planes.
 *
 * Each dispatcher has a receive queue of the first port, and each forwarder a send queue of the
 * second one. With separate rings, dispatcher k writes to the ring of forwarder k. (The paper does
 * not specify this assignment.)
 *
 * Parameters: `pairs` (number of dispatchers, and of forwarders, 1), `shared` (1: one ring, 0: one
 * for each, 0), `hiccup_ns` (additional time of some packets, 0), `hiccup_part` (their fraction,
 * 0.01), `burst` (32), `ring` (slots of each ring, 1024), `descriptors` (512), `threads` (1; 2: two
 * forwarders share a core, on its two hardware threads, and so do two dispatchers).
 */
#include <io.h>
#include <poll_mode/hiccup.h>
#include <poll_mode/port.h>
#include <stdio.h>

enum { MAX_BURST = 64 };

static unsigned pairs, burst, threads;
static int is_shared;
static uint64_t hz;
static struct ring *rings[MAX_LCORE];

void prepare(void) {
  lcore_begin(0);
  pairs = (unsigned)io_parameter("pairs", 1);
  is_shared = io_parameter("shared", 0) != 0;
  hiccup_prepare();
  burst = (unsigned)io_parameter("burst", 32);
  eth_devargs.rx_vec_en = io_parameter("rx_vec_en", 0) != 0;
  threads = (unsigned)io_parameter("threads", 1);
  uint32_t slots = (uint32_t)io_parameter("ring", 1024);
  uint32_t descriptors = (uint32_t)io_parameter("descriptors", 512);
  if (pairs < 1 || threads < 1 || threads > 2 || 2 * pairs > harts || burst < 1 ||
      burst > MAX_BURST || 2 * pairs / threads > server_cores)
    fail("There are %lu harts on %lu cores; there must be one for each of 2 * pairs, threads must "
         "be 1 "
         "or 2, and burst 1 to %d.",
         harts, server_cores, MAX_BURST);
  uint32_t buffers = pairs * (descriptors + slots + 512 + 6 * 256);
  struct mempool *pool = pktmbuf_pool_create(buffers, 256, MBUF_DEFAULT_BUF_SIZE);
  eth_dev_configure(0, (uint16_t)pairs, 0);
  eth_dev_configure(1, 0, (uint16_t)pairs);
  for (unsigned pair = 0; pair < pairs; pair++) {
    if (eth_rx_queue_setup(0, (uint16_t)pair, descriptors, pool))
      fail("descriptors must be a power of two of %d or more.", RX_REARM_THRESH);
    eth_tx_queue_setup(1, (uint16_t)pair, 512);
    if (!is_shared)
      rings[pair] = ring_create(slots, RING_F_SP_ENQ | RING_F_SC_DEQ);
    else
      rings[pair] = pair == 0 ? ring_create(slots, 0) : rings[0];
    if (rings[pair] == NULL)
      fail("ring must be a power of two.");
  }
}

static void dispatch(unsigned pair) {
  struct mbuf *pkts[MAX_BURST];
  for (;;) {
    uint16_t received = eth_rx_burst(0, (uint16_t)pair, pkts, (uint16_t)burst);
    if (received == 0)
      continue;
    unsigned given = ring_enqueue_burst(rings[pair], (void **)pkts, received);
    for (; unlikely(given < received); given++)
      pktmbuf_free(pkts[given]);
  }
}

static void forward(unsigned pair) {
  struct mbuf *pkts[MAX_BURST];
  uint32_t random = hiccup_seed(pair);
  for (;;) {
    unsigned taken = ring_dequeue_burst(rings[pair], (void **)pkts, burst);
    if (taken == 0)
      continue;
    hiccup(taken, &random, hz);
    eth_tx_or_drop(1, (uint16_t)pair, pkts, (uint16_t)taken);
  }
}

int hart_main(int hart) {
  /* Roles are assigned in the order of the threads of the first core, then of the second one, and
   * so on. */
  unsigned core = (unsigned)hart % (unsigned)server_cores;
  unsigned thread = (unsigned)hart / (unsigned)server_cores;
  unsigned role = core * threads + thread;
  if (thread >= threads || role >= 2 * pairs)
    return 0;
  lcore_begin(hart);
  if (role < pairs)
    dispatch(role);
  else
    forward(role - pairs);
  return 0;
}

int main(void) {
  hz = get_tsc_hz();
  eth_dev_start(0);
  eth_dev_start(1);
  harts_release();
  return hart_main(0);
}
