/**
 * Routes packets from the first port to the second one by the longest prefix that matches their
 * IPv4 destination: DPDK's L3Fwd. A packet is sent with a time to live reduced by one, to the
 * Ethernet address that it came from.
 *
 * Parameters: `queues` (receive queues, 1), `cores` (1), `routes` (16384, of 24 bits each, from
 * 64.0.0.0 on), `burst` (32), `descriptors` (of each queue, 512), `rx_vec_en` (1: receive four
 * completions at a time, 0), those of windows (poll_mode/window.h), which `timed_core` (0)
 * measures, `classify` (1: also count the cycles of polls that return packets and of processing
 * these packets, as in Figure 5 of the study of spinning data planes, 0), `beside` (the kernel on
 * the second hardware thread of the first core: 1: matrix multiplication, 2: the mix of kernels, 0:
 * none) and `instead` (the same on the first thread in place of routing, 0).
 */
#include <frames.h>
#include <io.h>
#include <kernels/matrix_multiplication.h>
#include <kernels/mix.h>
#include <poll_mode/lpm.h>
#include <poll_mode/port.h>
#include <poll_mode/window.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_BURST = 64, PREFETCH_OFFSET = 3, FIRST_ROUTE = 0x40000000 };

static unsigned queues, cores, burst;
static int classifies, is_measured, beside, instead;
static unsigned timed_core;
static struct window window;
static struct lpm *lpm;

void prepare(void) {
  lcore_begin(0);
  queues = (unsigned)io_parameter("queues", 1);
  cores = (unsigned)io_parameter("cores", 1);
  burst = (unsigned)io_parameter("burst", 32);
  eth_devargs.rx_vec_en = io_parameter("rx_vec_en", 0) != 0;
  is_measured = window_prepare(&window);
  classifies = io_parameter("classify", 0) != 0;
  beside = (int)io_parameter("beside", 0);
  instead = (int)io_parameter("instead", 0);
  timed_core = (unsigned)io_parameter("timed_core", 0);
  uint32_t routes = (uint32_t)io_parameter("routes", 16384);
  uint32_t descriptors = (uint32_t)io_parameter("descriptors", 512);
  if (cores < 1 || cores > harts || queues < cores || burst < 1 || burst > MAX_BURST)
    fail(
        "There are %lu harts; cores must be 1 to that, queues at least as many, and burst 1 to %d.",
        harts, MAX_BURST);
  if (beside < 0 || beside > 2 || instead < 0 || instead > 3 || (beside && harts == server_cores))
    fail("beside must be 0 to 2, instead 0 to 3, and beside needs two hardware threads of a core "
         "(server.core.threads).");
  if (beside == 2 || instead == 2)
    mix_prepare();
  lpm = lpm_create(1);
  for (uint32_t route = 0; route < routes; route++)
    lpm_add(lpm, FIRST_ROUTE + (route << 8), 24, 1);
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

/* Routes a packet; returns the output port, or -1. */
static inline int route(struct mbuf *mbuf) {
  struct frame *frame = pktmbuf_mtod(mbuf, struct frame *);
  uint32_t next_hop;
  if (lpm_lookup(lpm, be32(frame->ipv4.dst_addr), &next_hop) || frame->ipv4.ttl <= 1)
    return -1;
  swap_eth(frame);
  frame->ipv4.ttl--;
  /* The checksum of a word with its upper byte reduced by one (RFC 1624). */
  uint32_t sum = be16(frame->ipv4.cksum) + 0x100u;
  frame->ipv4.cksum = be16((uint16_t)(sum + (sum >> 16)));
  return (int)next_hop;
}

/* Runs a kernel endlessly, if there is one. */
static void run_kernel(int kernel) {
  if (kernel == 1)
    multiply_matrices();
  if (kernel == 2)
    run_mix();
}

int hart_main(int hart) {
  unsigned core = (unsigned)hart;
  if (core == 0 && instead) {
    run_kernel(instead);
    return 0;
  }
  if (core == server_cores)
    run_kernel(beside);
  if (core >= cores)
    return 0;
  lcore_begin(hart);
  struct mbuf *pkts[MAX_BURST];
  struct work work = {0};
  int measures = is_measured && core == timed_core;
  if (measures)
    window_start(&window, get_tsc_hz());
  for (;;) {
    for (unsigned queue = core; queue < queues; queue += cores) {
      uint64_t before = classifies ? rdtsc() : 0;
      uint16_t received = eth_rx_burst(0, (uint16_t)queue, pkts, (uint16_t)burst);
      work.polls++;
      if (received == 0)
        continue;
      for (unsigned place = 0; place < min_of(received, PREFETCH_OFFSET); place++)
        prefetch0(pktmbuf_mtod(pkts[place], void *));
      uint16_t routed = 0;
      for (unsigned place = 0; place < received; place++) {
        if (place + PREFETCH_OFFSET < received)
          prefetch0(pktmbuf_mtod(pkts[place + PREFETCH_OFFSET], void *));
        struct mbuf *mbuf = pkts[place];
        if (likely(route(mbuf) >= 0))
          pkts[routed++] = mbuf;
        else
          pktmbuf_free(mbuf);
      }
      eth_tx_or_drop(1, (uint16_t)core, pkts, routed);
      work.packets += received;
      if (classifies)
        work.useful += rdtsc() - before;
    }
    if (measures && window_update(&window, &work))
      exit(0);
  }
}

int main(void) {
  eth_dev_start(0);
  eth_dev_start(1);
  harts_release();
  hart_main(0);
  for (;;) /* The timed core ends the program. */
    __asm__ volatile("wfi");
}
