/**
 * Takes and returns packet buffers in amounts within and beyond the cache of a core, and checks
 * that none is allocated twice, that none is lost, and the fields of a buffer.
 */
#include <poll_mode/mbuf.h>
#include <runtime.h>

enum { BUFFERS = 127, CACHE = 16 };

static struct mbuf *held[BUFFERS];

static void expect(int is_so, const char *what) {
  if (!is_so)
    fail("%s", what);
}

/* Whether all allocated buffers differ. */
static int differ(unsigned count) {
  for (unsigned one = 0; one < count; one++)
    for (unsigned other = 0; other < one; other++)
      if (held[one] == held[other])
        return 0;
  return 1;
}

int main(void) {
  lcore_begin(0);
  struct mempool *pool = pktmbuf_pool_create(BUFFERS, CACHE, MBUF_DEFAULT_BUF_SIZE);
  expect(pktmbuf_pool_create(1, MEMPOOL_CACHE_MAX_SIZE + 1, 2048) == NULL,
         "the cache is too large");
  unsigned count = 0;
  for (unsigned round = 0; round < 50; round++) {
    unsigned wanted = 1 + round * 7 % 40;
    if (wanted <= BUFFERS - count && pktmbuf_alloc_bulk(pool, &held[count], wanted) == 0)
      count += wanted;
    expect(differ(count), "a buffer was handed out twice");
    for (unsigned freed = round * 5 % 30; freed > 0 && count > 0; freed--)
      pktmbuf_free(held[--count]);
  }
  while (count > 0)
    pktmbuf_free(held[--count]);
  while (count < BUFFERS && (held[count] = pktmbuf_alloc(pool)) != NULL)
    count++;
  expect(count == BUFFERS && differ(count), "a buffer is lost");
  expect(pktmbuf_alloc(pool) == NULL, "there is one too many");

  struct mbuf *mbuf = held[0];
  uint8_t *start = pktmbuf_mtod(mbuf, uint8_t *);
  expect(((uint64_t)mbuf->buf_addr & 63) == 0, "a buffer is not aligned");
  mbuf->data_len = (uint16_t)(mbuf->pkt_len = 100);
  expect(pktmbuf_prepend(mbuf, 14) == start - 14 && mbuf->pkt_len == 114, "prepend");
  expect(pktmbuf_prepend(mbuf, PKTMBUF_HEADROOM) == NULL, "prepend has no room");
  expect(pktmbuf_adj(mbuf, 34) == start + 20 && mbuf->data_len == 80, "adj");
  expect(pktmbuf_adj(mbuf, 81) == NULL, "adj has no more");
  mbuf->refcnt = 2;
  pktmbuf_free(mbuf);
  expect(pktmbuf_alloc(pool) == NULL, "a buffer that is used was freed");
  pktmbuf_free(mbuf);
  expect(pktmbuf_alloc(pool) == mbuf, "a buffer was not freed");
  return 0;
}
