/**
 * A cache in the manner of memcached 1.4 (Fitzpatrick, "Distributed caching with memcached", Linux
 * Journal 2004, and its documentation): a hash table with chaining, a slab allocator, and LRU
 * eviction.
 *
 * - *Hash table.* An array of pointers, each the head of a chain of items. The load factor is at
 *   most 1.5. The hash is MurmurHash3's of 32 bits.
 * - *Slabs.* Memory is allocated in pages of 1 MiB, which are permanently assigned to a class and
 *   divided into chunks of its size; chunks grow by a factor of 1.25 from class to class. An item
 *   takes a chunk of the smallest class that fits.
 * - *Eviction.* Each class has a list of its items, with the least recently used one at its tail.
 *   If there is neither a free chunk nor a page, one of the last five items of the class is
 *   evicted. An accessed item moves to the head, but at most once a minute.
 * - *Concurrency.* Locks for items, by hash; and a lock for each class, its list and its free
 *   chunks. A hart that holds an item's lock may take a class's; a hart that holds a class's, and
 *   evicts, only tries an item's. A reference count keeps an item that is being copied from being
 *   reused.
 *
 * Left out: expiry, compare-and-swap by clients, moving pages between classes, and growth of the
 * table, which has its final size from the beginning.
 */
#ifndef MEMCACHE_H
#define MEMCACHE_H

#include <io.h>
#include <memcache_hash.h>
#include <runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  MEMCACHE_CLASSES = 63,
  MEMCACHE_LOCKS = 4096,    /* For items, at most: memcached has 2^12 for four threads. */
  MEMCACHE_SEARCH = 5,      /* Items at a tail that are tried for eviction. */
  MEMCACHE_CLOCK_BITS = 32, /* The unit of time is 2^32 cycles: 1.07 s at 4 GHz. */
};

struct memcache_item {
  struct memcache_item *newer, *older; /* In the list of its class; or the next free chunk. */
  struct memcache_item *chain;         /* The next item of the same bucket. */
  uint32_t time;                       /* When it was last moved to the head. */
  uint32_t hash;
  uint32_t value_bytes;
  uint16_t references; /* One by the table, and one by each reader or creator. */
  uint8_t class;
  uint8_t key_bytes;
  uint64_t version; /* memcached's CAS; here it counts the sets of the key. */
  uint8_t bytes[];  /* The key, followed by the value. */
};

struct memcache_class {
  uint32_t lock;
  uint32_t chunk_bytes;
  uint64_t pages, linked, free_chunks;
  struct memcache_item *head, *tail, *free;
} __attribute__((aligned(LINE_BYTES)));

struct memcache {
  struct memcache_item **buckets;
  uint64_t bucket_mask;
  uint32_t *locks;
  uint32_t lock_mask;       /* At most the buckets: items of a bucket have the same lock. */
  uint8_t *next_page, *end; /* Pages without a class. */
  uint64_t page_bytes;
  uint32_t update_interval; /* The minimum time between moves of an item. */
  uint32_t class_count;
  struct memcache_class classes[MEMCACHE_CLASSES];
};

/* Locks. */

static inline void memcache_lock(uint32_t *lock) {
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
    while (__atomic_load_n(lock, __ATOMIC_RELAXED))
      ;
}

static inline int memcache_try_lock(uint32_t *lock) {
  return !__atomic_load_n(lock, __ATOMIC_RELAXED) &&
         !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
}

static inline void memcache_unlock(uint32_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

static inline uint32_t *memcache_lock_of(const struct memcache *cache, uint32_t hash) {
  return &cache->locks[hash & cache->lock_mask];
}

static inline uint32_t memcache_now(void) {
  uint64_t cycle;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycle));
  return (uint32_t)(cycle >> MEMCACHE_CLOCK_BITS);
}

/* Slabs. */

static inline uint64_t memcache_item_bytes(uint64_t key_bytes, uint64_t value_bytes) {
  return sizeof(struct memcache_item) + key_bytes + value_bytes;
}

/* The class of an item, or class_count if it is too large for any. */
static inline uint32_t memcache_class_of(const struct memcache *cache, uint64_t bytes) {
  uint32_t class = 0;
  while (class < cache->class_count && cache->classes[class].chunk_bytes < bytes)
    class ++;
  return class;
}

/** Makes an empty cache of `memory_bytes` in pages of `page_bytes`, with a table for this number of
 * items. */
static inline void memcache_make(struct memcache *cache, uint64_t items, uint64_t memory_bytes,
                                 uint64_t page_bytes, uint32_t update_interval) {
  uint64_t buckets = 1;
  while (buckets * 3 / 2 < items)
    buckets *= 2;
  cache->buckets = aligned_alloc(LINE_BYTES, (buckets * sizeof *cache->buckets + LINE_BYTES - 1) &
                                                 -(uint64_t)LINE_BYTES);
  cache->bucket_mask = buckets - 1;
  cache->lock_mask = (uint32_t)(buckets < MEMCACHE_LOCKS ? buckets : MEMCACHE_LOCKS) - 1;
  cache->locks = aligned_alloc(LINE_BYTES, MEMCACHE_LOCKS * sizeof *cache->locks);
  cache->page_bytes = page_bytes;
  cache->update_interval = update_interval;
  uint64_t pages = memory_bytes / page_bytes;
  cache->next_page = aligned_alloc(LINE_BYTES, pages * page_bytes);
  cache->end = cache->next_page + pages * page_bytes;
  /* The smallest chunk has room for 48 bytes, memcached's default (-n 48). */
  uint64_t bytes = sizeof(struct memcache_item) + 48;
  while (cache->class_count < MEMCACHE_CLASSES && bytes <= page_bytes / 2) {
    cache->classes[cache->class_count++].chunk_bytes = (uint32_t)bytes;
    bytes = (bytes * 5 / 4 + 7) & -(uint64_t)8;
  }
}

/* Divides a new page into free chunks of a class, which is locked. Returns whether there was a
 * page. */
static inline int memcache_add_page(struct memcache *cache, struct memcache_class *class) {
  uint8_t *page = __atomic_load_n(&cache->next_page, __ATOMIC_RELAXED);
  do {
    if (page == cache->end)
      return 0;
  } while (!__atomic_compare_exchange_n(&cache->next_page, &page, page + cache->page_bytes, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  uint64_t chunks = cache->page_bytes / class->chunk_bytes;
  for (uint64_t chunk = chunks; chunk > 0; chunk--) {
    struct memcache_item *item =
        (struct memcache_item *)(page + (chunk - 1) * (uint64_t)class->chunk_bytes);
    item->older = class->free;
    class->free = item;
  }
  class->free_chunks += chunks;
  class->pages++;
  return 1;
}

/* The lists of the classes, which are locked. */

static inline void memcache_unlist(struct memcache_class *class, struct memcache_item *item) {
  *(item->newer ? &item->newer->older : &class->head) = item->older;
  *(item->older ? &item->older->newer : &class->tail) = item->newer;
  class->linked--;
}

static inline void memcache_list(struct memcache_class *class, struct memcache_item *item) {
  item->newer = NULL;
  item->older = class->head;
  *(class->head ? &class->head->newer : &class->tail) = item;
  class->head = item;
  class->linked++;
}

static inline void memcache_free(struct memcache_class *class, struct memcache_item *item) {
  item->older = class->free;
  class->free = item;
  class->free_chunks++;
}

/* Releases a reference to an item; the last release frees its chunk. */
static inline void memcache_release(struct memcache *cache, struct memcache_item *item) {
  if (__atomic_fetch_sub(&item->references, 1, __ATOMIC_ACQ_REL) != 1)
    return;
  struct memcache_class *class = &cache->classes[item->class];
  memcache_lock(&class->lock);
  memcache_free(class, item);
  memcache_unlock(&class->lock);
}

/* The table. The item's lock is held. */

static inline struct memcache_item **memcache_bucket(const struct memcache *cache, uint32_t hash) {
  return &cache->buckets[hash & cache->bucket_mask];
}

/* Not inlined, like memcached's assoc_find(), which is in a separate file: inlining would change
 * its code. Hardware that learns from procedures and their arguments depends on it
 * (docs/critical-region.md). */
static __attribute__((noinline)) struct memcache_item *
memcache_find(const struct memcache *cache, const uint8_t *key, uint64_t key_bytes, uint32_t hash) {
  struct memcache_item *item = *memcache_bucket(cache, hash);
  while (item != NULL && (item->key_bytes != key_bytes || memcmp(item->bytes, key, key_bytes) != 0))
    item = item->chain;
  return item;
}

static inline void memcache_unchain(const struct memcache *cache, struct memcache_item *item) {
  struct memcache_item **place = memcache_bucket(cache, item->hash);
  while (*place != item)
    place = &(*place)->chain;
  *place = item->chain;
}

/* Removes an item from the table and from its class's list. */
static inline void memcache_unlink(struct memcache *cache, struct memcache_item *item) {
  struct memcache_class *class = &cache->classes[item->class];
  memcache_unchain(cache, item);
  memcache_lock(&class->lock);
  memcache_unlist(class, item);
  memcache_unlock(&class->lock);
  memcache_release(cache, item);
}

/* Evicts an item of a locked class, if one of the last is unused and unlocked, and returns its
 * chunk. */
static inline struct memcache_item *memcache_evict(struct memcache *cache,
                                                   struct memcache_class *class) {
  struct memcache_item *item = class->tail;
  for (int tried = 0; item != NULL && tried < MEMCACHE_SEARCH; tried++, item = item->newer) {
    uint32_t *lock = memcache_lock_of(cache, item->hash);
    if (!memcache_try_lock(lock))
      continue;
    if (__atomic_load_n(&item->references, __ATOMIC_ACQUIRE) != 1) {
      memcache_unlock(lock);
      continue;
    }
    memcache_unchain(cache, item);
    memcache_unlist(class, item);
    memcache_unlock(lock);
    return item;
  }
  return NULL;
}

/* A chunk for an item, owned by this hart; null if there is none, even by eviction. The hart holds
 * no lock. Counts evictions. */
static inline struct memcache_item *memcache_take(struct memcache *cache, uint32_t number,
                                                  uint64_t *evictions) {
  struct memcache_class *class = &cache->classes[number];
  memcache_lock(&class->lock);
  struct memcache_item *item = NULL;
  if (class->free != NULL || memcache_add_page(cache, class)) {
    item = class->free;
    class->free = item->older;
    class->free_chunks--;
  } else {
    item = memcache_evict(cache, class);
    *evictions += item != NULL;
  }
  memcache_unlock(&class->lock);
  return item;
}

/** Copies the value of a key to `value`, if there is room. Returns its length, or -1 if the cache
 * does not have the key, or the value does not fit. */
static inline int64_t memcache_get(struct memcache *cache, const uint8_t *key, uint64_t key_bytes,
                                   uint8_t *value, uint64_t room) {
  uint32_t hash = memcache_hash(key, key_bytes), now = memcache_now();
  uint32_t *lock = memcache_lock_of(cache, hash);
  memcache_lock(lock);
  struct memcache_item *item = memcache_find(cache, key, key_bytes, hash);
  if (item == NULL) {
    memcache_unlock(lock);
    return -1;
  }
  __atomic_fetch_add(&item->references, 1, __ATOMIC_RELAXED);
  if (now - item->time >= cache->update_interval) {
    struct memcache_class *class = &cache->classes[item->class];
    item->time = now;
    memcache_lock(&class->lock);
    memcache_unlist(class, item);
    memcache_list(class, item);
    memcache_unlock(&class->lock);
  }
  memcache_unlock(lock);
  /* Items are immutable: a set makes a new one. */
  int64_t found = item->value_bytes <= room ? (int64_t)item->value_bytes : -1;
  if (found >= 0)
    memcpy(value, item->bytes + key_bytes, item->value_bytes);
  memcache_release(cache, item);
  return found;
}

/** Sets the value of a key. Returns 0 without room: the item is larger than any chunk, or its class
 * has no page and gets none, or all candidates for eviction are in use. */
static inline int memcache_set(struct memcache *cache, const uint8_t *key, uint64_t key_bytes,
                               const uint8_t *value, uint64_t value_bytes, uint64_t *evictions) {
  uint32_t hash = memcache_hash(key, key_bytes);
  uint32_t class = memcache_class_of(cache, memcache_item_bytes(key_bytes, value_bytes));
  if (class == cache->class_count)
    return 0;
  struct memcache_item *item = memcache_take(cache, class, evictions);
  if (item == NULL)
    return 0;
  item->time = memcache_now();
  item->hash = hash;
  item->value_bytes = (uint32_t)value_bytes;
  item->references = 1;
  item->class = (uint8_t)class;
  item->key_bytes = (uint8_t)key_bytes;
  memcpy(item->bytes, key, key_bytes);
  memcpy(item->bytes + key_bytes, value, value_bytes);
  uint32_t *lock = memcache_lock_of(cache, hash);
  memcache_lock(lock);
  struct memcache_item *old = memcache_find(cache, key, key_bytes, hash);
  item->version = old != NULL ? old->version + 1 : 1;
  if (old != NULL)
    memcache_unlink(cache, old);
  struct memcache_item **bucket = memcache_bucket(cache, hash);
  item->chain = *bucket;
  *bucket = item;
  memcache_lock(&cache->classes[class].lock);
  memcache_list(&cache->classes[class], item);
  memcache_unlock(&cache->classes[class].lock);
  memcache_unlock(lock);
  return 1;
}

/** Describes an inconsistency of a cache that no hart is using; null if there is none. */
static inline const char *memcache_wrong(const struct memcache *cache) {
  uint64_t listed = 0, chained = 0;
  for (uint32_t number = 0; number < cache->class_count; number++) {
    const struct memcache_class *class = &cache->classes[number];
    const struct memcache_item *newer = NULL;
    uint64_t free_chunks = 0, linked = 0;
    for (const struct memcache_item *item = class->head; item; newer = item, item = item->older) {
      if (item->newer != newer)
        return "a list does not lead back";
      if (item->class != number || item->references != 1)
        return "an item of a list is of another class, or somebody has it";
      if (memcache_class_of(cache, memcache_item_bytes(item->key_bytes, item->value_bytes)) !=
          number)
        return "an item is not in the smallest chunk that it fits";
      if (memcache_find(cache, item->bytes, item->key_bytes, item->hash) != item ||
          memcache_hash(item->bytes, item->key_bytes) != item->hash)
        return "the table does not lead to an item";
      linked++;
    }
    if (class->tail != newer)
      return "a list ends elsewhere";
    for (const struct memcache_item *item = class->free; item; item = item->older)
      free_chunks++;
    if (linked != class->linked || free_chunks != class->free_chunks ||
        linked + free_chunks != class->pages * (cache->page_bytes / class->chunk_bytes))
      return "a class has lost a chunk, or has one twice";
    listed += linked;
  }
  for (uint64_t bucket = 0; bucket <= cache->bucket_mask; bucket++)
    for (const struct memcache_item *item = cache->buckets[bucket]; item; item = item->chain)
      chained++;
  return chained == listed ? NULL : "there are items in the table that are in no list";
}

#endif
