/**
 * Forwarding as in `io-forward`, with three ways to wait for packets: polling, as there; QWAIT; or
 * sleep until a user-level interrupt (poll_mode/wait.h). Each core has its own receive queues, or
 * all cores share all queues, which requires QWAIT; each core has its own send queue. Packets of
 * the first port leave through the second one.
 *
 * Parameters: `mechanism` (0: polling, 1: QWAIT, 2: interrupts; 0), `queues` (receive queues, 1),
 * `cores` (1), `shared` (1: each core takes packets of all queues, 0), `burst` (32), `descriptors`
 * (of each queue, 512), `rx_vec_en` (0), `hiccup_ns` (additional time of some packets, 0),
 * `hiccup_part` (their fraction, 0.01), `beside` (1: the second hardware thread of the first core
 * multiplies matrices, 0), and `span_us` (the hart after the forwarding ones ends the program after
 * this time; 0: never).
 */
#include <io.h>
#include <kernels/matrix_multiplication.h>
#include <poll_mode/hiccup.h>
#include <poll_mode/wait.h>
#include <stdlib.h>

enum { MAX_BURST = 64, POLLING = 0, WAITING = 1, INTERRUPTED = 2 };

static unsigned queues, cores, burst, mechanism;
static int is_shared, beside;
static uint64_t span_us, hz;

void prepare(void) {
  lcore_begin(0);
  mechanism = (unsigned)io_parameter("mechanism", POLLING);
  queues = (unsigned)io_parameter("queues", 1);
  cores = (unsigned)io_parameter("cores", 1);
  is_shared = io_parameter("shared", 0) != 0;
  burst = (unsigned)io_parameter("burst", 32);
  eth_devargs.rx_vec_en = io_parameter("rx_vec_en", 0) != 0;
  hiccup_prepare();
  beside = io_parameter("beside", 0) != 0;
  span_us = (uint64_t)io_parameter("span_us", 0);
  uint32_t descriptors = (uint32_t)io_parameter("descriptors", 512);
  if (cores < 1 || cores + (span_us != 0) > server_cores || burst < 1 || burst > MAX_BURST ||
      (queues < cores && !is_shared) || queues < 1)
    fail("There are %lu cores; cores must be 1 to that, or one less with span_us, queues at least "
         "as many unless they are shared, and burst 1 to %d.",
         server_cores, MAX_BURST);
  if (mechanism > INTERRUPTED || (is_shared && mechanism != WAITING) ||
      (beside && harts == server_cores))
    fail("mechanism must be 0 to 2, shared needs QWAIT (1), and beside two hardware threads of a "
         "core (server.core.threads).");
  if (!is_shared && mechanism == WAITING && cores > QWAIT_PARTITIONS)
    fail("QWAIT has queues of %d cores apart.", QWAIT_PARTITIONS);
  /* The capacity of the queues and of all cores' caches. */
  uint32_t buffers = queues * descriptors + cores * (512 + 3 * 256);
  struct mempool *pool = pktmbuf_pool_create(buffers, 256, MBUF_DEFAULT_BUF_SIZE);
  if (eth_dev_configure(0, (uint16_t)queues, 0) || eth_dev_configure(1, 0, (uint16_t)cores))
    fail("There can be %d queues at most.", MAX_QUEUES);
  for (unsigned queue = 0; queue < queues; queue++)
    if (eth_rx_queue_setup(0, (uint16_t)queue, descriptors, pool))
      fail("descriptors must be a power of two of %d or more.", RX_REARM_THRESH);
  for (unsigned queue = 0; queue < cores; queue++)
    eth_tx_queue_setup(1, (uint16_t)queue, 512);
}

/* Sends packets, some of which take additional time. */
static inline void forward(unsigned core, struct mbuf **pkts, uint16_t count, uint32_t *random) {
  hiccup(count, random, hz);
  eth_tx_or_drop(1, (uint16_t)core, pkts, count);
}

static void poll(unsigned core) {
  struct mbuf *pkts[MAX_BURST];
  uint32_t random = hiccup_seed(core);
  for (;;)
    for (unsigned queue = core; queue < queues; queue += cores) {
      uint16_t received = eth_rx_burst(0, (uint16_t)queue, pkts, (uint16_t)burst);
      if (received)
        forward(core, pkts, received, &random);
    }
}

static void wait(unsigned core) {
  struct mbuf *pkts[MAX_BURST];
  uint32_t random = hiccup_seed(core);
  uint64_t partition = is_shared ? 0 : core;
  for (;;) {
    uint16_t received = eth_rx_qwait_burst(partition, pkts, (uint16_t)burst);
    if (likely(received))
      forward(core, pkts, received, &random);
  }
}

/* The vector of a queue on its hart. */
static uint64_t vector_of(unsigned queue) { return queue / cores % RX_INTR_VECTORS; }

static void sleep(unsigned core) {
  struct mbuf *pkts[MAX_BURST];
  uint32_t random = hiccup_seed(core);
  /* Queues that have had packets since their interrupt was enabled. */
  uint8_t is_open[MAX_QUEUES] = {0};
  uint64_t pages = CQE_NIC_PAGE(rx_number(0, 0)), active = 0;
  rx_intr_begin();
  for (unsigned queue = core; queue < queues; queue += cores)
    eth_dev_rx_intr_enable(pages + 0x1000 * queue, eth_devices[0].rx_queues[queue]);
  for (;;) {
    active |= active ? rx_intr_poll() : rx_intr_wait();
    for (uint64_t left = active; left; left &= left - 1) {
      uint64_t vector = (uint64_t)__builtin_ctzl(left);
      int is_busy = 0;
      for (unsigned queue = core + (unsigned)vector * cores; queue < queues;
           queue += RX_INTR_VECTORS * cores) {
        uint16_t received = eth_rx_burst(0, (uint16_t)queue, pkts, (uint16_t)burst);
        if (received) {
          is_busy = is_open[queue] = 1;
          forward(core, pkts, received, &random);
        } else if (is_open[queue]) {
          is_open[queue] = 0;
          eth_dev_rx_intr_enable(pages + 0x1000 * queue, eth_devices[0].rx_queues[queue]);
        }
      }
      if (!is_busy)
        active &= ~(1ul << vector);
    }
  }
}

int hart_main(int hart) {
  unsigned core = (unsigned)hart;
  if (beside && core == server_cores)
    multiply_matrices();
  if (span_us && core == cores) {
    lcore_begin(hart);
    delay_ns(span_us * 1000, hz);
    exit(0);
  }
  if (core >= cores)
    return 0;
  lcore_begin(hart);
  if (mechanism == POLLING)
    poll(core);
  else if (mechanism == WAITING)
    wait(core);
  else
    sleep(core);
  return 0;
}

int main(void) {
  if (mechanism == WAITING)
    rx_qwait_begin();
  for (unsigned queue = 0; queue < queues; queue++) {
    if (mechanism == WAITING)
      eth_rx_qwait_setup(0, (uint16_t)queue, is_shared ? 0 : queue % cores);
    if (mechanism == INTERRUPTED)
      eth_dev_rx_intr_setup(0, (uint16_t)queue, queue % cores, vector_of(queue));
  }
  eth_dev_start(0);
  eth_dev_start(1);
  hz = get_tsc_hz();
  harts_release();
  return hart_main(0);
}
