/**
 * Receiving compressed completions: rxq_cq_decompress_v() of DPDK 18.11, called after
 * rxq_burst_v().
 *
 * A title is a completion with a special format, whose byte count is the number of completions that
 * it stands for. The next slot has the hash and the byte count of each, starting with the title's
 * own. The other slots are not written, so the driver invalidates them: their contents from two
 * passes before would look valid in the next one.
 */
#ifndef POLL_MODE_RX_COMP_H
#define POLL_MODE_RX_COMP_H

#include <poll_mode/rx_vec.h>

/* Takes packets of the session whose title is the next completion, if it is a title. */
static uint16_t rx_decompress(struct rx_queue *rxq, struct mbuf **rx_pkts, uint16_t nb_pkts) {
  uint32_t first = rxq->cq_ci;
  volatile struct cqe *title = &rxq->cqes[first & rxq->mask];
  uint8_t owner = title->owner;
  if ((owner & 1) != (first >> rxq->log_entries & 1) || owner >> 4 == CQE_INVALID ||
      (owner & CQE_COMPRESSED) != CQE_COMPRESSED)
    return 0;
  io_rmb(); /* The other fields are read after the owner. */
  uint32_t minis = be32(title->byte_count);
  volatile struct mini_cqe *array = (volatile struct mini_cqe *)&rxq->cqes[(first + 1) & rxq->mask];
  uint16_t count = 0;
  uint32_t next = (uint32_t)rxq->compressed_taken;
  for (; count < nb_pkts && next < minis; next++) {
    struct mbuf *mbuf = rxq->elts[(first + next) & rxq->mask];
    rx_vec_fill(rxq, title, mbuf);
    mbuf->pkt_len = be32(array[next].byte_count);
    mbuf->data_len = (uint16_t)mbuf->pkt_len;
    mbuf->hash_rss = be32(array[next].hash);
    rx_pkts[count++] = mbuf;
  }
  rxq->compressed_taken = next;
  rxq->packets += count;
  if (next < minis)
    return count;
  rxq->compressed_taken = 0;
  for (uint32_t slot = 1; slot < minis; slot++)
    rxq->cqes[(first + slot) & rxq->mask].owner = CQE_INVALID << 4 | 1;
  rxq->cq_ci = first + minis;
  io_wmb(); /* The slots are invalid before the interface may write them. */
  *rxq->cq_db = be32(rxq->cq_ci);
  return count;
}

/* rxq_burst_v() if completions may be compressed. */
static uint16_t rx_burst_comp(struct rx_queue *rxq, struct mbuf **rx_pkts, uint16_t nb_pkts) {
  uint16_t count = 0;
  if (rxq->compressed_taken == 0)
    count = rx_burst_vec(rxq, rx_pkts, nb_pkts);
  while (count < nb_pkts) {
    uint16_t more = rx_decompress(rxq, rx_pkts + count, (uint16_t)(nb_pkts - count));
    if (more == 0)
      break;
    count += more;
  }
  return count;
}

#endif
