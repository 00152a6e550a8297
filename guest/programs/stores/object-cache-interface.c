/**
 * The object cache of object-cache.c, whose gets the network interface serves with the firmware
 * `cache-gets`: the cores publish the table's address, and halt.
 *
 * Requests are `rack.clients.load.operations` with gets only. Parameters are those of
 * object_cache.h, and:
 *   associative   1: keys lead to items through buckets of seven entries, each a line; 0: through
 *                 chains of items, as in memcached (0)
 */
#include <cache_gets.h>
#include <dma_nic.h>
#include <object_cache.h>

_Static_assert(offsetof(struct memcache_item, chain) == 8 * CACHE_GETS_CHAIN, "see cache_gets.h");
_Static_assert(offsetof(struct memcache_item, value_bytes) == 8 * CACHE_GETS_VALUE_BYTES,
               "see cache_gets.h");
_Static_assert(offsetof(struct memcache_item, key_bytes) == 8 * CACHE_GETS_VALUE_BYTES + 7,
               "see cache_gets.h");
_Static_assert(offsetof(struct memcache_item, bytes) == 8 * CACHE_GETS_KEY, "see cache_gets.h");

static struct cache_gets_table table;

typedef uint64_t bucket[CACHE_GETS_ENTRIES + 1];

/* Puts an item into the first free entry of its bucket, or of a later one. */
static void enter(bucket *buckets, const struct memcache_item *item) {
  uint64_t *words = buckets[item->hash & table.mask];
  for (;;) {
    for (int entry = 0; entry < CACHE_GETS_ENTRIES; entry++)
      if (words[entry] == 0) {
        words[entry] = cache_gets_entry((uint64_t)item, item->hash);
        return;
      }
    if (words[CACHE_GETS_ENTRIES] == 0) {
      words[CACHE_GETS_ENTRIES] = (uint64_t)aligned_alloc(LINE_BYTES, sizeof(bucket));
      if (words[CACHE_GETS_ENTRIES] == 0)
        fail("There is no memory for the buckets: server.memory_mib must be larger.");
    }
    words = (uint64_t *)words[CACHE_GETS_ENTRIES];
  }
}

void prepare(void) {
  object_cache_prepare();
  table = (struct cache_gets_table){
      .buckets = (uint64_t)object_cache.buckets,
      .mask = object_cache.bucket_mask,
      .kind = CACHE_GETS_CHAINS,
  };
  if (io_parameter("associative", 0) == 0)
    return;
  /* Four keys per bucket on average, at most six. */
  table.mask = object_cache.bucket_mask / 4;
  bucket *buckets = aligned_alloc(LINE_BYTES, (table.mask + 1) * sizeof(bucket));
  if (buckets == NULL)
    fail("There is no memory for the buckets: server.memory_mib must be larger.");
  for (uint64_t chain = 0; chain <= object_cache.bucket_mask; chain++)
    for (const struct memcache_item *item = object_cache.buckets[chain]; item; item = item->chain)
      enter(buckets, item);
  table.buckets = (uint64_t)buckets;
  table.kind = CACHE_GETS_ASSOCIATIVE;
}

int main(void) {
  const uint64_t at = DMA_NIC_SCRATCHPAD_START + CACHE_GETS_OFFSET;
  reg_write64(at + offsetof(struct cache_gets_table, buckets), table.buckets);
  reg_write64(at + offsetof(struct cache_gets_table, mask), table.mask);
  reg_write64(at + offsetof(struct cache_gets_table, kind), table.kind);
  for (;;)
    __asm__ volatile("wfi" ::: "memory");
}
