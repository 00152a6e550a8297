/**
 * Sends packets as fast as one core can. The packets are built in advance, as by the generator in
 * Section 6 of the study of spin-polling data planes. Their destination is host 10.0.0.2.
 *
 * Parameters: `bytes` (packet size, 64), `flows` (source ports, in round-robin order, 1), `burst`
 * (32), `packets` (number of packets sent and measured; 0, the default: endless).
 */
#include <frames.h>
#include <io.h>
#include <poll_mode/port.h>
#include <stdio.h>

enum { MAX_BURST = 64, POOL = 2048, FROM = 0x0a000001, TO = 0x0a000002 };

static unsigned burst;
static uint32_t bytes;
static uint64_t packets;
static struct mempool *pool;

static void set_address(uint8_t *mac, uint32_t address) {
  uint32_t reversed = be32(address);
  mac[0] = 2;
  memcpy(&mac[2], &reversed, sizeof reversed);
}

void prepare(void) {
  lcore_begin(0);
  packets = (uint64_t)io_parameter("packets", 0);
  burst = (unsigned)io_parameter("burst", 32);
  bytes = (uint32_t)io_parameter("bytes", 64);
  uint32_t flows = (uint32_t)io_parameter("flows", 1);
  if (burst < 1 || burst > MAX_BURST || bytes < sizeof(struct frame) || flows < 1)
    fail("burst must be 1 to %d, bytes %lu at least, and flows 1 at least.", MAX_BURST,
         sizeof(struct frame));
  pool = pktmbuf_pool_create(POOL - 1, 256, MBUF_DEFAULT_BUF_SIZE);
  static struct mbuf *mbufs[POOL - 1];
  if (pktmbuf_alloc_bulk(pool, mbufs, POOL - 1))
    fail("There are not enough buffers.");
  for (uint32_t number = 0; number < POOL - 1; number++) {
    struct frame *frame = pktmbuf_mtod(mbufs[number], struct frame *);
    set_address(frame->eth.src_mac, FROM);
    set_address(frame->eth.dst_mac, TO);
    frame->eth.ethtype = be16(0x0800);
    frame->ipv4.ver_ihl = 0x45;
    frame->ipv4.ttl = 64;
    frame->ipv4.proto = 0x99;
    frame->ipv4.length = be16((uint16_t)(bytes - sizeof frame->eth));
    frame->ipv4.src_addr = be32(FROM);
    frame->ipv4.dst_addr = be32(TO);
    frame->lnic.flags = 1;
    frame->lnic.src = be16((uint16_t)(number % flows));
    frame->lnic.msg_len = be16((uint16_t)(bytes - sizeof *frame));
  }
  mempool_put_bulk(pool, (void **)mbufs, POOL - 1);
  eth_dev_configure(0, 0, 1);
  eth_tx_queue_setup(0, 0, 512);
}

int main(void) {
  lcore_begin(0);
  eth_dev_start(0);
  uint64_t hz = get_tsc_hz(), begin = rdtsc(), sent = 0;
  while (packets == 0 || sent < packets) {
    struct mbuf *pkts[MAX_BURST];
    if (pktmbuf_alloc_bulk(pool, pkts, burst)) {
      tx_complete(eth_devices[0].tx_queues[0]);
      continue;
    }
    for (unsigned place = 0; place < burst; place++)
      pkts[place]->data_len = (uint16_t)(pkts[place]->pkt_len = bytes);
    unsigned given = 0;
    while (given < burst)
      given += eth_tx_burst(0, 0, &pkts[given], (uint16_t)(burst - given));
    sent += burst;
  }
  uint64_t cycles = rdtsc() - begin;
  printf("%lu packets sent in %lu cycles at %lu Hz\n", sent, cycles, hz);
  return 0;
}
