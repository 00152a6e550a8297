/**
 * Receives packets on one core and discards them, and prints the rate: the receiver of the study of
 * spinning data planes in its Figure 11.
 *
 * Parameters: `packets` (number of measured packets, 20000), `warmup` (number of packets before,
 * 2000), `burst` (32), `descriptors` (512), `rx_vec_en` (1: receive four completions at a time, 0),
 * `rxq_cqe_comp_en` (1: also compress completions, 0).
 */
#include <io.h>
#include <poll_mode/port.h>
#include <stdio.h>

enum { MAX_BURST = 64 };

static unsigned burst;
static uint64_t packets, warmup;

void prepare(void) {
  lcore_begin(0);
  packets = (uint64_t)io_parameter("packets", 20000);
  warmup = (uint64_t)io_parameter("warmup", 2000);
  burst = (unsigned)io_parameter("burst", 32);
  eth_devargs.rx_vec_en = io_parameter("rx_vec_en", 0) != 0;
  eth_devargs.rxq_cqe_comp_en = io_parameter("rxq_cqe_comp_en", 0) != 0;
  uint32_t descriptors = (uint32_t)io_parameter("descriptors", 512);
  if (burst < 1 || burst > MAX_BURST)
    fail("burst must be 1 to %d.", MAX_BURST);
  struct mempool *pool = pktmbuf_pool_create(descriptors + 1024, 256, MBUF_DEFAULT_BUF_SIZE);
  eth_dev_configure(0, 1, 0);
  if (eth_rx_queue_setup(0, 0, descriptors, pool))
    fail("descriptors must be a power of two of %d or more.", RX_REARM_THRESH);
}

/* Receives and discards at least `count` packets; returns their number. */
static uint64_t discard(uint64_t count) {
  struct mbuf *pkts[MAX_BURST];
  uint64_t received = 0;
  while (received < count) {
    uint16_t came = eth_rx_burst(0, 0, pkts, (uint16_t)burst);
    for (unsigned place = 0; place < came; place++)
      pktmbuf_free(pkts[place]);
    received += came;
  }
  return received;
}

int main(void) {
  eth_dev_start(0);
  uint64_t hz = get_tsc_hz();
  discard(warmup);
  uint64_t begin = rdtsc();
  uint64_t received = discard(packets);
  uint64_t cycles = rdtsc() - begin;
  printf("%lu packets received in %lu cycles at %lu Hz\n", received, cycles, hz);
  return 0;
}
