/**
 * The receive function of DPDK 18.11 for a ConnectX-5, rxq_burst_v() in mlx5_rxtx_vec_sse.h: a
 * scalar equivalent, which notify/more/spin-mlx5.h describes.
 *
 * It processes four packets at a time. Even an empty poll reads the next four completions and the
 * next four buffers' pointers and fills in the four buffers, and only then checks which of the
 * completions are valid. Compressed completions end a burst (rx_comp.h takes them); flow marks and
 * timestamps are left out.
 */
#ifndef POLL_MODE_RX_VEC_H
#define POLL_MODE_RX_VEC_H

#include <poll_mode/port.h>

/* The packet type by packet information and type of header (mlx5_ptype_table). */
static uint32_t rx_vec_ptypes[256] __cache_aligned;

/* Posts buffers to the slots whose packets were taken (mlx5_rx_replenish_bulk_mbuf()). */
static inline void rx_vec_replenish(struct rx_queue *rxq, uint32_t count) {
  while (count > 0) {
    uint32_t first = rxq->rq_ci & rxq->mask;
    uint32_t some = min_of(min_of(count, RX_VEC_MAX_BURST), rxq->mask + 1 - first);
    struct mbuf **elts = &rxq->elts[first];
    if (unlikely(mempool_get_bulk(rxq->pool, (void **)elts, some) != 0)) {
      rxq->no_mbuf++;
      break;
    }
    for (uint32_t place = 0; place < some; place++)
      rxq->wqes[first + place].address = be64((uint64_t)elts[place]->buf_addr + PKTMBUF_HEADROOM);
    rxq->rq_ci += some;
    count -= some;
  }
  io_wmb();
  *rxq->rq_db = be32(rxq->rq_ci);
}

/* Fills in a buffer from a completion: lengths, VLAN, hash, flags and type. */
static inline __attribute__((always_inline)) void
rx_vec_fill(const struct rx_queue *rxq, const volatile struct cqe *cqe, struct mbuf *mbuf) {
  enum { CHECKSUM_FLAGS = 0x106 };
  const volatile uint8_t *bytes = (const volatile uint8_t *)cqe;
  uint64_t length = be16(*(const volatile uint16_t *)&bytes[46]);
  uint64_t vlan = be16(*(const volatile uint16_t *)&bytes[30]);
  uint64_t hash = be32(cqe->hash);
  uint64_t header_type = *(const volatile uint16_t *)&bytes[28];
  uint64_t info = (header_type & 0xfd06) | (uint64_t)(bytes[0] & 3) << 16;
  uint64_t type = info >> 10 & 0xff, good = info & CHECKSUM_FLAGS;
  uint64_t words[2] = {(rx_vec_ptypes[type] | (type >> 6 & 1) * rxq->tunnel) | length << 32,
                       length | vlan << 16 | hash << 32};
  typedef volatile uint64_t __attribute__((may_alias)) word;
  *(word *)&mbuf->pkt_type = words[0];
  *(word *)&mbuf->data_len = words[1];
  *(word *)&mbuf->rearm = rxq->rearm;
  *(word *)&mbuf->ol_flags = PKT_RX_RSS_HASH | (good << 6 | good >> 1);
}

/* rxq_burst_v(). */
static uint16_t rx_burst_vec(struct rx_queue *rxq, struct mbuf **rx_pkts, uint16_t nb_pkts) {
  uint32_t entries = rxq->mask + 1, index = rxq->cq_ci, start = index & rxq->mask;
  uint64_t owner = index & entries ? 0 : 1; /* The owner bit of invalid completions. */
  volatile struct cqe *cqe = &rxq->cqes[start];
  struct mbuf **elts = &rxq->elts[start];
  uint32_t slots = entries - (rxq->rq_ci - index);
  if (slots >= rxq->repl_thresh)
    rx_vec_replenish(rxq, slots);
  /* Not beyond the end of the ring: the next poll continues there. */
  uint32_t most = min_of((uint32_t)nb_pkts, entries - start), received = 0;
  while (received < most) {
    /* At the end of the ring, repeat the last completion. */
    uint32_t left = entries - start - received, one = left > 1, two = left > 2 ? 2 : one,
             three = left > 3 ? 3 : two;
    uint64_t last[RX_VEC_AT_ONCE];
    last[3] = cqe[three].owner;
    last[2] = cqe[two].owner;
    struct mbuf *zeroth = elts[0], *first = elts[1], *second = elts[2], *third = elts[3];
    last[1] = cqe[one].owner;
    last[0] = cqe[0].owner;
    io_rmb(); /* The other fields of a completion are read after the owner. */
    struct mbuf *volatile *to = (struct mbuf *volatile *)&rx_pkts[received];
    to[0] = zeroth;
    to[1] = first;
    to[2] = second;
    to[3] = third;
    rx_vec_fill(rxq, &cqe[three], third);
    rx_vec_fill(rxq, &cqe[two], second);
    rx_vec_fill(rxq, &cqe[one], first);
    rx_vec_fill(rxq, &cqe[0], zeroth);
    uint64_t invalid = 0;
    for (int place = 0; place < RX_VEC_AT_ONCE; place++) {
      uint64_t stale = (last[place] & 1) == owner;
      uint64_t not_written = last[place] >> 4 == CQE_INVALID;
      uint64_t compressed = (last[place] & 0x0c) == 0x0c;
      invalid |= (stale | not_written | compressed) << place;
    }
    uint32_t valid = (uint32_t)__builtin_ctzl(invalid | 1 << RX_VEC_AT_ONCE);
    valid = min_of(valid, left);
    /* rxq_handle_pending_error(): an error has another completion format. */
    for (uint32_t place = 0; place < valid; place++)
      rxq->errors += last[place] >> 4 != CQE_RECEIVED;
    received += valid;
    cqe += valid;
    elts += valid;
    if (valid != RX_VEC_AT_ONCE)
      break;
  }
  if (received == 0)
    return 0;
  received = min_of(received, most);
  rxq->cq_ci = index + received;
  rxq->packets += received;
  *rxq->cq_db = be32(rxq->cq_ci);
  return (uint16_t)received;
}

#endif
