/**
 * Forwards every packet from the first port to the second one, unchanged: DPDK's TestPMD in its
 * default mode. Each core polls its own receive queues in turn, and has its own send queue.
 *
 * Parameters: `queues` (receive queues, 1), `cores` (1), `burst` (32), `descriptors` (of each
 * queue, 512), `rx_vec_en` (1: receive four completions at a time, 0), `rxq_cqe_comp_en` (1: also
 * compress completions, 0), `polls` (exit after this many polls by each core and print their
 * duration; 0: never), and those of windows (poll_mode/window.h), which the first core measures.
 */
#include <io.h>
#include <poll_mode/port.h>
#include <poll_mode/window.h>
#include <stdio.h>

enum { MAX_BURST = 64 };

static unsigned queues, cores, burst;
static uint64_t polls;
static struct window window;
static int is_measured;

void prepare(void) {
  lcore_begin(0);
  queues = (unsigned)io_parameter("queues", 1);
  cores = (unsigned)io_parameter("cores", 1);
  burst = (unsigned)io_parameter("burst", 32);
  eth_devargs.rx_vec_en = io_parameter("rx_vec_en", 0) != 0;
  eth_devargs.rxq_cqe_comp_en = io_parameter("rxq_cqe_comp_en", 0) != 0;
  polls = (uint64_t)io_parameter("polls", 0);
  is_measured = window_prepare(&window);
  uint32_t descriptors = (uint32_t)io_parameter("descriptors", 512);
  if (cores < 1 || cores > harts || queues < cores || burst < 1 || burst > MAX_BURST)
    fail(
        "There are %lu harts; cores must be 1 to that, queues at least as many, and burst 1 to %d.",
        harts, MAX_BURST);
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

int hart_main(int hart) {
  unsigned core = (unsigned)hart;
  if (core >= cores)
    return 0;
  lcore_begin(hart);
  struct mbuf *pkts[MAX_BURST];
  struct work work = {0};
  int measures = is_measured && core == 0;
  uint64_t begin = rdtsc();
  for (;;) {
    for (unsigned queue = core; queue < queues; queue += cores) {
      uint16_t received = eth_rx_burst(0, (uint16_t)queue, pkts, (uint16_t)burst);
      work.polls++;
      if (received) {
        work.packets += received;
        eth_tx_or_drop(1, (uint16_t)core, pkts, received);
      }
    }
    if (polls && work.polls >= polls) {
      uint64_t cycles = rdtsc() - begin;
      printf("%lu polls of %u queues took %lu cycles\n", work.polls, queues, cycles);
      return 0;
    }
    if (measures && window_update(&window, &work))
      return 0;
  }
}

int main(void) {
  eth_dev_start(0);
  eth_dev_start(1);
  if (is_measured)
    window_start(&window, get_tsc_hz());
  harts_release();
  return hart_main(0);
}
