/**
 * Packet buffers, and the pools that they are allocated from.
 *
 * A pool is a ring of free buffers with a cache for each core: most allocations access only the
 * cache. A buffer has two lines of metadata, of which the second one is needed to free it,
 * head-room, and data; it is one segment (DPDK's can be chains).
 */
#ifndef POLL_MODE_MBUF_H
#define POLL_MODE_MBUF_H

#include <poll_mode/ring.h>

enum {
  PKTMBUF_HEADROOM = 128,
  MBUF_DEFAULT_DATAROOM = 2048,
  MBUF_DEFAULT_BUF_SIZE = PKTMBUF_HEADROOM + MBUF_DEFAULT_DATAROOM,
  MEMPOOL_CACHE_MAX_SIZE = 512,
};

/** The cache of a core: free buffers. */
struct mempool_cache {
  uint32_t size;        /**< The target size, ... */
  uint32_t flushthresh; /**< ... the maximum size, half as much again, ... */
  uint32_t len;         /**< ... and the present size. */
  void *objs[MEMPOOL_CACHE_MAX_SIZE * 3] __cache_aligned;
} __cache_aligned;

struct mempool {
  struct ring *ring;
  uint32_t size;
  uint32_t data_room_size;
  struct mempool_cache caches[MAX_LCORE];
};

/** A packet buffer. */
struct mbuf {
  void *buf_addr;
  uint64_t rearm[0];  /**< The next three are set together when it is posted. */
  uint16_t data_off;  /**< The offset of the packet from buf_addr. */
  uint16_t refcnt;    /**< The number of users. */
  uint16_t nb_segs;   /**< 1. */
  uint16_t port;      /**< The port of its arrival. */
  uint64_t ol_flags;  /**< PKT_RX_RSS_HASH. */
  uint32_t pkt_type;  /**< 0: not classified. */
  uint32_t pkt_len;   /**< Bytes of the packet. */
  uint16_t data_len;  /**< The same. */
  uint16_t vlan_tci;  /**< 0. */
  uint32_t hash_rss;  /**< The receive-side-scaling hash. */
  uint64_t timestamp; /**< Nanoseconds of the interface's clock. */
  uint16_t buf_len;
  struct mempool *pool __cache_aligned;
  struct mbuf *next;
  uint64_t userdata; /**< For the program. */
} __cache_aligned;

enum { PKT_RX_RSS_HASH = 2 };

_Static_assert(sizeof(struct mbuf) == 2 * CACHE_LINE_SIZE, "a buffer has two lines of its own");

/** The start of the packet, as a pointer of this type. */
#define pktmbuf_mtod(mbuf, type) ((type)((uint8_t *)(mbuf)->buf_addr + (mbuf)->data_off))
/** Bytes of a packet. */
#define pktmbuf_pkt_len(mbuf) ((mbuf)->pkt_len)
#define pktmbuf_data_len(mbuf) ((mbuf)->data_len)

static inline void pktmbuf_reset(struct mbuf *mbuf) {
  mbuf->data_off = PKTMBUF_HEADROOM;
  mbuf->refcnt = 1;
  mbuf->nb_segs = 1;
  mbuf->ol_flags = 0;
  mbuf->pkt_len = mbuf->data_len = 0;
}

/** Creates a pool of `count` buffers with this much head-room and data, of which each core caches
 * up to `cache_size`; NULL if that is impossible. */
static inline struct mempool *pktmbuf_pool_create(uint32_t count, uint32_t cache_size,
                                                  uint32_t data_room_size) {
  if (cache_size > MEMPOOL_CACHE_MAX_SIZE || data_room_size < PKTMBUF_HEADROOM)
    return NULL;
  uint32_t slots = 2;
  while (slots <= count)
    slots *= 2;
  struct mempool *pool = aligned_alloc(CACHE_LINE_SIZE, sizeof *pool);
  pool->ring = ring_create(slots, 0);
  pool->size = count;
  pool->data_room_size = data_room_size;
  for (int core = 0; core < MAX_LCORE; core++) {
    pool->caches[core].size = cache_size;
    pool->caches[core].flushthresh = cache_size + cache_size / 2;
  }
  uint64_t stride = sizeof(struct mbuf) + data_room_size;
  stride = (stride + CACHE_LINE_SIZE - 1) / CACHE_LINE_SIZE * CACHE_LINE_SIZE;
  uint8_t *memory = aligned_alloc(4096, stride * count);
  for (uint32_t number = 0; number < count; number++) {
    struct mbuf *mbuf = (struct mbuf *)(memory + stride * number);
    mbuf->buf_addr = mbuf + 1;
    mbuf->buf_len = (uint16_t)data_room_size;
    mbuf->pool = pool;
    pktmbuf_reset(mbuf);
    void *object = mbuf;
    ring_enqueue(pool->ring, &object, 1, 1);
  }
  return pool;
}

/** Takes `count` buffers, or none; returns 0 on success, and otherwise -1. */
static inline int mempool_get_bulk(struct mempool *pool, void **objects, unsigned count) {
  struct mempool_cache *cache = &pool->caches[lcore_id()];
  if (unlikely(count > cache->size))
    return ring_dequeue_bulk(pool->ring, objects, count) ? 0 : -1;
  if (unlikely(cache->len < count)) {
    unsigned wanted = count + (cache->size - cache->len);
    if (ring_dequeue_bulk(pool->ring, &cache->objs[cache->len], wanted) == 0)
      return ring_dequeue_bulk(pool->ring, objects, count) ? 0 : -1;
    cache->len += wanted;
  }
  void **top = &cache->objs[cache->len];
  for (unsigned place = 0; place < count; place++)
    objects[place] = *--top;
  cache->len -= count;
  return 0;
}

/** Returns buffers to the pool. */
static inline void mempool_put_bulk(struct mempool *pool, void *const *objects, unsigned count) {
  struct mempool_cache *cache = &pool->caches[lcore_id()];
  if (unlikely(count > cache->size || cache->size == 0)) {
    ring_enqueue_bulk(pool->ring, objects, count);
    return;
  }
  void **top = &cache->objs[cache->len];
  for (unsigned place = 0; place < count; place++)
    top[place] = objects[place];
  cache->len += count;
  if (cache->len >= cache->flushthresh) {
    ring_enqueue_bulk(pool->ring, &cache->objs[cache->size], cache->len - cache->size);
    cache->len = cache->size;
  }
}

/** A buffer for a packet of the program; NULL if none is free. */
static inline struct mbuf *pktmbuf_alloc(struct mempool *pool) {
  void *object;
  if (mempool_get_bulk(pool, &object, 1) != 0)
    return NULL;
  pktmbuf_reset(object);
  return object;
}

/** The same for several: 0, or -1 if there are too few. */
static inline int pktmbuf_alloc_bulk(struct mempool *pool, struct mbuf **mbufs, unsigned count) {
  if (mempool_get_bulk(pool, (void **)mbufs, count) != 0)
    return -1;
  for (unsigned place = 0; place < count; place++)
    pktmbuf_reset(mbufs[place]);
  return 0;
}

/** Releases a buffer, and frees it if it was the last user. */
static inline void pktmbuf_free(struct mbuf *mbuf) {
  if (likely(mbuf->refcnt == 1) || __atomic_sub_fetch(&mbuf->refcnt, 1, __ATOMIC_ACQ_REL) == 0) {
    mbuf->refcnt = 1;
    void *object = mbuf;
    mempool_put_bulk(mbuf->pool, &object, 1);
  }
}

/** Prepends bytes to the packet; returns the new start, or NULL without room. */
static inline void *pktmbuf_prepend(struct mbuf *mbuf, uint16_t bytes) {
  if (bytes > mbuf->data_off)
    return NULL;
  mbuf->data_off -= bytes;
  mbuf->data_len += bytes;
  mbuf->pkt_len += bytes;
  return pktmbuf_mtod(mbuf, void *);
}

/** Removes bytes at the front; returns the new start, or NULL if the packet is shorter. */
static inline void *pktmbuf_adj(struct mbuf *mbuf, uint16_t bytes) {
  if (bytes > mbuf->data_len)
    return NULL;
  mbuf->data_off += bytes;
  mbuf->data_len -= bytes;
  mbuf->pkt_len -= bytes;
  return pktmbuf_mtod(mbuf, void *);
}

#endif
