/**
 * Ports of a network interface, and the driver for the one with completion queues (cqe_nic.h).
 *
 *     void prepare(void) {
 *       pool = pktmbuf_pool_create(8192, 256, MBUF_DEFAULT_BUF_SIZE);
 *       eth_dev_configure(0, 1, 1);
 *       eth_rx_queue_setup(0, 0, 512, pool);
 *       eth_tx_queue_setup(0, 0, 512);
 *     }
 *     int main(void) {
 *       lcore_begin(0);
 *       eth_dev_start(0);
 *       for (;;) {
 *         struct mbuf *pkts[32];
 *         uint16_t received = eth_rx_burst(0, 0, pkts, 32);
 *         ...
 *         uint16_t sent = eth_tx_burst(0, 0, pkts, received);
 *       }
 *     }
 *
 * Set-up only accesses memory, so it can be done in prepare(), where it takes no time; starting a
 * port writes to the interface. Each queue is used by one hart.
 */
#ifndef POLL_MODE_PORT_H
#define POLL_MODE_PORT_H

#include <cqe_nic.h>
#include <mmio.h>
#include <poll_mode/mbuf.h>
#include <runtime.h>
#include <stddef.h>

enum {
  MAX_ETHPORTS = 2,
  MAX_QUEUES = 1024,    /**< Of each port. */
  RX_REARM_THRESH = 32, /**< The number of buffers that are posted together. */
  TX_COMP_THRESH = 32,  /**< Packets of the work requests up to a completion, at least. */
  TX_SESSION = 30,      /**< Packets of a work request: eight blocks of it. */
  TX_BLOCKS = 8,
  RX_VEC_AT_ONCE = 4,      /**< Completions that the vector driver checks together. */
  RX_VEC_REPL_THRESH = 64, /**< It posts this many buffers, or a quarter of a queue's, together. */
  RX_VEC_MAX_BURST = 64,
};

/** From the network's byte order to the hart's, or back: Zbb's rev8, as x86 has bswap. */
static inline uint64_t be64(uint64_t value) {
  uint64_t reversed;
  __asm__(".insn i 0x13, 5, %0, %1, 0x6b8" : "=r"(reversed) : "r"(value));
  return reversed;
}
static inline uint32_t be32(uint32_t value) { return (uint32_t)(be64(value) >> 32); }
static inline uint16_t be16(uint16_t value) { return (uint16_t)(be64(value) >> 48); }

/** A receive queue. The fields that a poll reads are in the same lines as in DPDK 18.11 (struct
 * mlx5_rxq_data): five of the nine lines, and those of an array of pointers. */
struct rx_queue {
  uint32_t log_entries;
  uint32_t mask;            /**< Work requests, and completions, less 1. */
  volatile uint32_t *rq_db; /**< The doorbell record of the work requests, ... */
  volatile uint32_t *cq_db; /**< ... and that of the completions. */
  uint32_t cq_ci;           /**< Completions taken, ... */
  uint32_t rq_ci;           /**< ... and buffers posted. */
  uint32_t repl_thresh;     /**< The vector driver posts buffers if this many slots are free. */
  uint16_t port;
  uint8_t memory_regions[240 - 38];
  struct wqe_segment *wqes; /**< At 240. */
  volatile struct cqe *cqes;
  uint64_t compressed_taken; /**< Packets of the title that were taken, if some are left. */
  uint64_t compressed;
  struct mbuf **elts; /**< At 272: the buffer of each work request, and four times `fake`. */
  struct mempool *pool;
  uint64_t packets, errors, no_mbuf; /**< Counters. */
  uint64_t unused[4];
  uint64_t rearm; /**< At 344: the initial value of a received buffer's metadata. */
  uint64_t unused_too[4];
  struct mbuf fake; /**< At 384. */
  uint64_t unused_as_well[2];
  uint32_t tunnel; /**< At 528. */
} __cache_aligned;
_Static_assert(offsetof(struct rx_queue, wqes) == 240 && offsetof(struct rx_queue, elts) == 272 &&
                   offsetof(struct rx_queue, rearm) == 344 &&
                   offsetof(struct rx_queue, tunnel) == 528,
               "the fields are in the lines in which DPDK 18.11 has them");

/** A send queue. */
struct tx_queue {
  struct wqe_block *wqes;
  struct mbuf **elts;       /**< The packets that are being sent. */
  uint64_t doorbell;        /**< Its register. */
  volatile uint32_t *sq_db; /**< The doorbell record. */
  volatile struct cqe *cqes;
  volatile uint32_t *cq_db;
  uint32_t wqe_pi;    /**< Blocks written, ... */
  uint32_t wqe_ci;    /**< ... and those that are free again, modulo 2^32. */
  uint32_t elts_pi;   /**< Packets posted, ... */
  uint32_t elts_ci;   /**< ... and those whose buffers are free. */
  uint32_t elts_comp; /**< The last packet of the last work request with a completion. */
  uint32_t cq_ci;
  uint32_t elts_mask, wqe_mask, cq_mask, cq_log;
  uint32_t qpn;
  uint64_t packets, errors;
  /** For each future completion: the packets and blocks that it frees. */
  uint32_t *comp_elts, *comp_wqes;
  uint32_t comp_pi;
} __cache_aligned;

/** Takes up to `nb_pkts` packets from a queue. */
typedef uint16_t (*rx_pkt_burst_t)(struct rx_queue *rxq, struct mbuf **rx_pkts, uint16_t nb_pkts);

struct eth_dev {
  rx_pkt_burst_t rx_pkt_burst; /**< The receive function of the driver. */
  uint32_t nb_rx_queues, nb_tx_queues;
  struct rx_queue *rx_queues[MAX_QUEUES];
  struct tx_queue *tx_queues[MAX_QUEUES];
};

static struct eth_dev eth_devices[MAX_ETHPORTS];

/** Device arguments, to be set before queues are set up. `rx_vec_en` selects the receive function
 * that takes four completions at a time, like DPDK's argument of this name, where it is 1 by
 * default. With `rxq_cqe_comp_en`, another one of DPDK's, the interface compresses completions, and
 * that function takes these, too. */
static struct eth_devargs {
  int rx_vec_en;
  int rxq_cqe_comp_en;
} eth_devargs;

static inline uint32_t log_of(uint32_t entries) { return (uint32_t)__builtin_ctz(entries); }

static inline void *page_alloc(uint64_t bytes) { return aligned_alloc(4096, bytes); }

/** Invalid completions, as before the interface has written them. */
static inline volatile struct cqe *completions_alloc(uint32_t entries) {
  struct cqe *cqes = page_alloc(entries * sizeof *cqes);
  for (uint32_t entry = 0; entry < entries; entry++)
    cqes[entry].owner = CQE_INVALID << 4 | 1;
  return cqes;
}

/** Sets the number of queues of a port. */
static inline int eth_dev_configure(uint16_t port, uint16_t nb_rx_queues, uint16_t nb_tx_queues) {
  if (port >= MAX_ETHPORTS || nb_rx_queues > MAX_QUEUES || nb_tx_queues > MAX_QUEUES)
    return -1;
  eth_devices[port].nb_rx_queues = nb_rx_queues;
  eth_devices[port].nb_tx_queues = nb_tx_queues;
  return 0;
}

/* Posts the next RX_REARM_THRESH buffers to a queue, if the pool has them. */
static inline void rx_rearm(struct rx_queue *rxq) {
  struct mbuf **elts = &rxq->elts[rxq->rq_ci & rxq->mask];
  if (unlikely(mempool_get_bulk(rxq->pool, (void **)elts, RX_REARM_THRESH) != 0)) {
    rxq->no_mbuf++;
    return;
  }
  struct wqe_segment *wqes = &rxq->wqes[rxq->rq_ci & rxq->mask];
  for (unsigned place = 0; place < RX_REARM_THRESH; place++)
    wqes[place].address = be64((uint64_t)elts[place]->buf_addr + PKTMBUF_HEADROOM);
  rxq->rq_ci += RX_REARM_THRESH;
}

/* The scalar receive function: one completion at a time. */
static uint16_t rx_burst(struct rx_queue *rxq, struct mbuf **rx_pkts, uint16_t nb_pkts) {
  uint32_t ci = rxq->cq_ci;
  uint16_t count = 0;
  while (count < nb_pkts) {
    volatile struct cqe *cqe = &rxq->cqes[ci & rxq->mask];
    uint8_t owner = cqe->owner;
    if ((owner & 1) != (ci >> rxq->log_entries & 1) || owner >> 4 == CQE_INVALID)
      break;
    if (count == 0)
      io_rmb(); /* The other fields are read after the owner. */
    struct mbuf *mbuf = rxq->elts[ci & rxq->mask];
    prefetch0(rxq->elts[(ci + 1) & rxq->mask]);
    ci++;
    if (unlikely(owner >> 4 != CQE_RECEIVED)) {
      rxq->errors++;
      pktmbuf_free(mbuf);
      continue;
    }
    uint32_t bytes = be32(cqe->byte_count);
    mbuf->data_off = PKTMBUF_HEADROOM;
    mbuf->refcnt = 1;
    mbuf->nb_segs = 1;
    mbuf->port = rxq->port;
    mbuf->ol_flags = PKT_RX_RSS_HASH;
    mbuf->pkt_len = bytes;
    mbuf->data_len = (uint16_t)bytes;
    mbuf->hash_rss = be32(cqe->hash);
    rx_pkts[count++] = mbuf;
  }
  if (ci == rxq->cq_ci)
    return 0;
  rxq->cq_ci = ci;
  rxq->packets += count;
  while (rxq->rq_ci - ci <= rxq->mask + 1 - RX_REARM_THRESH) {
    uint32_t before = rxq->rq_ci;
    rx_rearm(rxq);
    if (rxq->rq_ci == before)
      break;
  }
  io_wmb(); /* All reads and writes precede the interface's notification. */
  *rxq->cq_db = be32(ci);
  *rxq->rq_db = be32(rxq->rq_ci);
  return count;
}

#include <poll_mode/rx_comp.h>
#include <poll_mode/rx_vec.h>

/** Sets up a receive queue of `nb_desc` buffers, a power of two of at least RX_REARM_THRESH.
 * Returns 0, or -1 if that is impossible or the pool has too few buffers. */
static inline int eth_rx_queue_setup(uint16_t port, uint16_t queue, uint32_t nb_desc,
                                     struct mempool *pool) {
  if (nb_desc < RX_REARM_THRESH || (nb_desc & (nb_desc - 1)) != 0 || pool == NULL)
    return -1;
  struct rx_queue *rxq = aligned_alloc(CACHE_LINE_SIZE, sizeof *rxq);
  *rxq = (struct rx_queue){
      .cqes = completions_alloc(nb_desc),
      .elts = aligned_alloc(CACHE_LINE_SIZE, (nb_desc + RX_VEC_AT_ONCE) * sizeof(struct mbuf *)),
      .wqes = page_alloc(nb_desc * sizeof(struct wqe_segment)),
      .mask = nb_desc - 1,
      .log_entries = log_of(nb_desc),
      .rq_db = aligned_alloc(CACHE_LINE_SIZE, CACHE_LINE_SIZE),
      .cq_db = aligned_alloc(CACHE_LINE_SIZE, CACHE_LINE_SIZE),
      .pool = pool,
      .port = port,
      .repl_thresh = min_of(nb_desc / 4, RX_VEC_REPL_THRESH),
      .rearm = PKTMBUF_HEADROOM | 1ul << 16 | 1ul << 32 | (uint64_t)port << 48,
  };
  for (uint32_t place = 0; place < RX_VEC_AT_ONCE; place++)
    rxq->elts[nb_desc + place] = &rxq->fake;
  for (uint32_t place = 0; place < nb_desc; place++)
    rxq->wqes[place].bytes = be32(pool->data_room_size - PKTMBUF_HEADROOM);
  while (rxq->rq_ci < nb_desc) {
    uint32_t before = rxq->rq_ci;
    rx_rearm(rxq);
    if (rxq->rq_ci == before)
      return -1;
  }
  *rxq->rq_db = be32(rxq->rq_ci);
  eth_devices[port].rx_queues[queue] = rxq;
  rx_pkt_burst_t vector = eth_devargs.rxq_cqe_comp_en ? rx_burst_comp : rx_burst_vec;
  eth_devices[port].rx_pkt_burst = eth_devargs.rx_vec_en ? vector : rx_burst;
  return 0;
}

/** Sets up a send queue for `nb_desc` packets, a power of two of at least TX_COMP_THRESH. */
static inline int eth_tx_queue_setup(uint16_t port, uint16_t queue, uint32_t nb_desc) {
  if (nb_desc < TX_COMP_THRESH || (nb_desc & (nb_desc - 1)) != 0)
    return -1;
  struct tx_queue *txq = aligned_alloc(CACHE_LINE_SIZE, sizeof *txq);
  *txq = (struct tx_queue){
      .wqes = page_alloc(nb_desc * sizeof(struct wqe_block)),
      .elts = aligned_alloc(CACHE_LINE_SIZE, nb_desc * sizeof(struct mbuf *)),
      .sq_db = aligned_alloc(CACHE_LINE_SIZE, CACHE_LINE_SIZE),
      .cqes = completions_alloc(nb_desc),
      .cq_db = aligned_alloc(CACHE_LINE_SIZE, CACHE_LINE_SIZE),
      .elts_mask = nb_desc - 1,
      .wqe_mask = nb_desc - 1,
      .cq_mask = nb_desc - 1,
      .cq_log = log_of(nb_desc),
      .comp_elts = aligned_alloc(CACHE_LINE_SIZE, nb_desc * sizeof(uint32_t)),
      .comp_wqes = aligned_alloc(CACHE_LINE_SIZE, nb_desc * sizeof(uint32_t)),
  };
  eth_devices[port].tx_queues[queue] = txq;
  return 0;
}

/* Writes a queue's addresses to the interface; `registers` is its half of the page. */
static inline void queue_start(uint64_t registers, const void *ring, const volatile void *record,
                               const volatile void *cqes, const volatile void *cq_record,
                               uint32_t entries) {
  reg_write64(registers + CQE_NIC_QUEUE_RING, (uint64_t)ring);
  reg_write64(registers + CQE_NIC_QUEUE_RECORD, (uint64_t)record);
  reg_write64(registers + CQE_NIC_QUEUE_COMPLETIONS, (uint64_t)cqes);
  reg_write64(registers + CQE_NIC_QUEUE_COMPLETIONS_RECORD, (uint64_t)cq_record);
  reg_write64(registers + CQE_NIC_QUEUE_COMPLETION_ENTRIES, entries);
  reg_write64(registers + CQE_NIC_QUEUE_ENTRIES, entries);
}

/** Starts a port: its queues, and the indirection table over all receive queues in turn. */
static inline void eth_dev_start(uint16_t port) {
  struct eth_dev *dev = &eth_devices[port];
  uint64_t pairs = reg_read64(CQE_NIC_QUEUES), ports = reg_read64(CQE_NIC_PORTS);
  if (port >= ports || dev->nb_rx_queues > pairs || dev->nb_tx_queues > pairs)
    fail("Port %u was to have %u receive and %u send queues; the interface has %lu ports with %lu "
         "of "
         "each (server.cqe_nic.queues).",
         port, dev->nb_rx_queues, dev->nb_tx_queues, ports, pairs);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (uint32_t queue = 0; queue < dev->nb_tx_queues; queue++) {
    struct tx_queue *txq = dev->tx_queues[queue];
    txq->qpn = (uint32_t)(port * pairs + queue);
    uint64_t page = CQE_NIC_PAGE(txq->qpn);
    txq->doorbell = page + CQE_NIC_DOORBELL;
    queue_start(page + CQE_NIC_SEND, txq->wqes, txq->sq_db, txq->cqes, txq->cq_db,
                txq->wqe_mask + 1);
  }
  for (uint32_t queue = 0; queue < dev->nb_rx_queues; queue++) {
    struct rx_queue *rxq = dev->rx_queues[queue];
    if (eth_devargs.rx_vec_en && eth_devargs.rxq_cqe_comp_en)
      reg_write64(CQE_NIC_PAGE(port * pairs + queue) + CQE_NIC_RECEIVE + CQE_NIC_QUEUE_COMPRESSION,
                  1);
    queue_start(CQE_NIC_PAGE(port * pairs + queue) + CQE_NIC_RECEIVE, rxq->wqes, rxq->rq_db,
                rxq->cqes, rxq->cq_db, rxq->mask + 1);
  }
  if (dev->nb_rx_queues > 1)
    for (uint64_t entry = 0; entry < CQE_NIC_INDIRECTION_ENTRIES; entry++)
      reg_write64(CQE_NIC_INDIRECTION,
                  (uint64_t)port << 32 | entry << 16 | entry % dev->nb_rx_queues);
}

/** Takes up to `nb_pkts` received packets; returns their number. */
static inline uint16_t eth_rx_burst(uint16_t port, uint16_t queue, struct mbuf **rx_pkts,
                                    uint16_t nb_pkts) {
  struct eth_dev *dev = &eth_devices[port];
  return dev->rx_pkt_burst(dev->rx_queues[queue], rx_pkts, nb_pkts);
}

/* Frees the buffers of sent packets. */
static inline void tx_complete(struct tx_queue *txq) {
  uint32_t before = txq->cq_ci;
  for (;;) {
    volatile struct cqe *cqe = &txq->cqes[txq->cq_ci & txq->cq_mask];
    uint8_t owner = cqe->owner;
    if ((owner & 1) != (txq->cq_ci >> txq->cq_log & 1) || owner >> 4 == CQE_INVALID)
      break;
    txq->errors += owner >> 4 != CQE_SENT;
    uint32_t place = txq->cq_ci++ & txq->cq_mask;
    uint32_t end = txq->comp_elts[place];
    txq->wqe_ci = txq->comp_wqes[place];
    while (txq->elts_ci != end) {
      uint32_t first = txq->elts_ci & txq->elts_mask;
      uint32_t count = min_of(end - txq->elts_ci, txq->elts_mask + 1 - first);
      count = min_of(count, TX_COMP_THRESH);
      struct mempool *pool = txq->elts[first]->pool;
      void *objects[TX_COMP_THRESH];
      uint32_t freed = 0;
      for (uint32_t number = 0; number < count; number++) {
        struct mbuf *mbuf = txq->elts[first + number];
        if (unlikely(mbuf->pool != pool || mbuf->refcnt != 1))
          pktmbuf_free(mbuf);
        else
          objects[freed++] = mbuf;
      }
      mempool_put_bulk(pool, objects, freed);
      txq->elts_ci += count;
    }
  }
  if (txq->cq_ci != before) {
    io_wmb();
    *txq->cq_db = be32(txq->cq_ci);
  }
}

/** Sends packets, whose buffers the queue frees afterwards; returns the number for which there was
 * room: the program keeps the others. */
static inline uint16_t eth_tx_burst(uint16_t port, uint16_t queue, struct mbuf **tx_pkts,
                                    uint16_t nb_pkts) {
  struct tx_queue *txq = eth_devices[port].tx_queues[queue];
  if (nb_pkts == 0)
    return 0;
  tx_complete(txq);
  uint16_t sent = 0;
  struct wqe_header *last = NULL;
  while (sent < nb_pkts) {
    uint32_t room = txq->elts_mask + 1 - (txq->elts_pi - txq->elts_ci);
    uint32_t blocks_left = txq->wqe_mask + 1 - (txq->wqe_pi - txq->wqe_ci);
    if (room == 0 || blocks_left < TX_BLOCKS)
      break;
    uint32_t count = min_of((uint32_t)(nb_pkts - sent), TX_SESSION);
    count = min_of(count, room);
    /* A work request wraps around the end of the ring, block by block. */
    uint32_t block = txq->wqe_pi;
    struct wqe_header *header = &txq->wqes[block & txq->wqe_mask].header;
    uint32_t place = 2;
    for (uint32_t number = 0; number < count; number++, place++) {
      struct mbuf *mbuf = tx_pkts[sent + number];
      struct wqe_segment *segments =
          (struct wqe_segment *)&txq->wqes[(block + place / 4) & txq->wqe_mask];
      struct wqe_segment *segment = &segments[place % 4];
      segment->bytes = be32(mbuf->data_len);
      segment->address = be64((uint64_t)pktmbuf_mtod(mbuf, void *));
      txq->elts[txq->elts_pi++ & txq->elts_mask] = mbuf;
    }
    sent += (uint16_t)count;
    txq->wqe_pi += (place + 3) / 4;
    header->operation = be32((block & 0xffff) << 8 | WQE_SEND_PACKETS);
    header->segments = be32(txq->qpn << 8 | place);
    uint32_t flags = 0;
    if (txq->elts_pi - txq->elts_comp >= TX_COMP_THRESH) {
      uint32_t comp = txq->comp_pi++ & txq->cq_mask;
      txq->comp_elts[comp] = txq->elts_comp = txq->elts_pi;
      txq->comp_wqes[comp] = txq->wqe_pi;
      flags = WQE_COMPLETES;
    }
    header->flags = be32(flags);
    last = header;
  }
  if (last == NULL)
    return 0;
  txq->packets += sent;
  *txq->sq_db = be32(txq->wqe_pi & 0xffff);
  io_wmb(); /* The work requests precede the doorbell. */
  reg_write64(txq->doorbell, *(uint64_t __attribute__((may_alias)) *)last);
  return sent;
}

/** Sends packets and frees those for which there is no room. */
static inline uint16_t eth_tx_or_drop(uint16_t port, uint16_t queue, struct mbuf **tx_pkts,
                                      uint16_t nb_pkts) {
  uint16_t sent = eth_tx_burst(port, queue, tx_pkts, nb_pkts);
  for (uint16_t place = sent; unlikely(place < nb_pkts); place++)
    pktmbuf_free(tx_pkts[place]);
  return sent;
}

#endif
