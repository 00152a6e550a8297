/**
 * A hash table for small items, in the manner of MICA (Lim, Han, Andersen and Kaminsky, NSDI 2014)
 * as a cache: a lossy index, and circular logs that hold the items.
 *
 * - *Index.* An array of buckets of one cache line: a version and seven entries, each a tag of 16
 *   bits of the key's hash and the item's location in 48 bits. A look-up reads one line of the
 *   index and, unless two keys have the same tag, one item. An entry for a full bucket replaces
 *   another one: the index loses keys instead of growing.
 * - *Logs.* Each hart appends to its own log, so that harts do not contend. When a log wraps
 *   around, a new item overwrites the oldest ones, whose keys are then lost. A value that fits into
 *   its item is replaced in place.
 * - *Concurrency.* Any hart may read and write any key (MICA's CRCW). A bucket's version is odd
 *   while a hart changes the bucket or one of its items, and serializes writers. A reader that
 *   finds it changed retries. Readers thus write nothing.
 *
 * Keys have 16 bytes and are hashes themselves, as in HERD (Kalia, Kaminsky and Andersen, SIGCOMM
 * 2014): they are not hashed again.
 */
#ifndef MICA_H
#define MICA_H

#include <io.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  MICA_KEY_BYTES = 16,
  MICA_BUCKET_ENTRIES = 7,
  MICA_TAG_BITS = 16,
  MICA_LOG_BITS = 8,     /* Of a location: the log ... */
  MICA_OFFSET_BITS = 40, /* ... and the offset in it. */
};

/* An entry is 0 if it is free; else the tag, the log plus 1, and the offset. */
struct mica_bucket {
  uint64_t version; /* Odd while it is being changed. */
  uint64_t entries[MICA_BUCKET_ENTRIES];
} __attribute__((aligned(LINE_BYTES)));

/* Items are aligned to lines, so that one with up to 40 bytes of value is in a single line. */
struct mica_item {
  uint64_t key[2];
  uint32_t value_bytes;
  uint32_t room; /* The size of the value's space in bytes; the next item follows it. */
  uint8_t value[];
};

struct mica_log {
  uint8_t *bytes;
  uint64_t size; /* A power of two. */
  /* Only its hart uses these. They do not wrap when the log does. */
  uint64_t head; /* The start of the oldest item. */
  uint64_t tail; /* The start of the next item. */
} __attribute__((aligned(LINE_BYTES)));

struct mica {
  struct mica_bucket *buckets;
  uint64_t bucket_mask;
  struct mica_log *logs; /* One for each hart. */
};

static inline uint64_t mica_power_of_two(uint64_t least) {
  uint64_t power = 1;
  while (power < least)
    power *= 2;
  return power;
}

/* The size of an item in its log. */
static inline uint64_t mica_item_bytes(uint64_t value_bytes) {
  return (sizeof(struct mica_item) + value_bytes + LINE_BYTES - 1) & -(uint64_t)LINE_BYTES;
}

/** Makes an empty store with at least these numbers of buckets, and of bytes in each hart's log.
 * Both are rounded up to a power of two. */
static inline void mica_make(struct mica *store, uint64_t buckets, uint64_t log_bytes) {
  buckets = mica_power_of_two(buckets);
  log_bytes = mica_power_of_two(log_bytes);
  store->buckets = aligned_alloc(LINE_BYTES, buckets * sizeof(struct mica_bucket));
  store->bucket_mask = buckets - 1;
  store->logs = aligned_alloc(LINE_BYTES, harts * sizeof(struct mica_log));
  for (uint64_t hart = 0; hart < harts; hart++)
    store->logs[hart] =
        (struct mica_log){.bytes = aligned_alloc(LINE_BYTES, log_bytes), .size = log_bytes};
}

static inline struct mica_bucket *mica_bucket(const struct mica *store, const uint64_t key[2]) {
  return &store->buckets[key[0] & store->bucket_mask];
}

/* The tag, in the upper bits of an entry: bits of the hash that do not select the bucket. */
static inline uint64_t mica_tag(const uint64_t key[2]) {
  return key[1] & -((uint64_t)1 << (64 - MICA_TAG_BITS));
}

static inline int mica_has_tag(uint64_t entry, uint64_t tag) {
  return (entry ^ tag) >> (64 - MICA_TAG_BITS) == 0;
}

/* The item of an entry that is not free. */
static inline struct mica_item *mica_item(const struct mica *store, uint64_t entry) {
  uint64_t log = (entry >> MICA_OFFSET_BITS & (((uint64_t)1 << MICA_LOG_BITS) - 1)) - 1;
  uint64_t offset = entry & (((uint64_t)1 << MICA_OFFSET_BITS) - 1);
  return (struct mica_item *)(store->logs[log].bytes + offset);
}

/* Waits until no hart changes the bucket; returns its version. */
static inline uint64_t mica_stable(const struct mica_bucket *bucket) {
  uint64_t version;
  do
    version = __atomic_load_n(&bucket->version, __ATOMIC_ACQUIRE);
  while (version & 1);
  return version;
}

static inline int mica_has_changed(const struct mica_bucket *bucket, uint64_t version) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE); /* Earlier reads precede this read of the version. */
  return __atomic_load_n(&bucket->version, __ATOMIC_RELAXED) != version;
}

static inline void mica_lock(struct mica_bucket *bucket) {
  uint64_t version;
  do
    version = mica_stable(bucket);
  while (!__atomic_compare_exchange_n(&bucket->version, &version, version + 1, 0, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED));
  __atomic_thread_fence(__ATOMIC_RELEASE); /* Readers see the odd version before any change. */
}

static inline void mica_unlock(struct mica_bucket *bucket) {
  __atomic_store_n(&bucket->version, bucket->version + 1, __ATOMIC_RELEASE);
}

/** Copies the value of a key, which is aligned to 8, to `value`, if there is room. Returns its
 * length, or -1 if the store does not have the key, or the value does not fit. */
static inline int64_t mica_get(const struct mica *store, const uint64_t key[2], uint8_t *value,
                               uint64_t room) {
  const struct mica_bucket *bucket = mica_bucket(store, key);
  uint64_t tag = mica_tag(key);
again:;
  uint64_t version = mica_stable(bucket);
  int64_t found = -1;
  for (int place = 0; place < MICA_BUCKET_ENTRIES && found < 0; place++) {
    uint64_t entry = bucket->entries[place];
    if (entry == 0 || !mica_has_tag(entry, tag))
      continue;
    const struct mica_item *item = mica_item(store, entry);
    uint64_t bytes = item->value_bytes; /* Arbitrary if the item is being overwritten. */
    if (item->key[0] != key[0] || item->key[1] != key[1] || bytes > room)
      continue;
    memcpy(value, item->value, bytes);
    found = (int64_t)bytes;
  }
  if (mica_has_changed(bucket, version))
    goto again;
  return found;
}

/* The index of an entry in its locked bucket; -1 if it has been removed. */
static inline int mica_place(const struct mica_bucket *bucket, uint64_t entry) {
  for (int place = 0; place < MICA_BUCKET_ENTRIES; place++)
    if (bucket->entries[place] == entry)
      return place;
  return -1;
}

static inline uint64_t mica_entry(uint64_t hart, uint64_t offset, const uint64_t key[2]) {
  return mica_tag(key) | (hart + 1) << MICA_OFFSET_BITS | offset;
}

/* Discards the oldest item in a log. */
static inline int mica_give_up(struct mica *store, uint64_t hart) {
  struct mica_log *log = &store->logs[hart];
  uint64_t offset = log->head & (log->size - 1);
  const struct mica_item *item = (const struct mica_item *)(log->bytes + offset);
  uint64_t key[2] = {item->key[0], item->key[1]};
  struct mica_bucket *bucket = mica_bucket(store, key);
  mica_lock(bucket);
  int place = mica_place(bucket, mica_entry(hart, offset, key));
  if (place >= 0) /* Otherwise a newer item has replaced it, or it is padding. */
    bucket->entries[place] = 0;
  mica_unlock(bucket);
  log->head += sizeof *item + item->room;
  return place >= 0;
}

/* Appends an item to the log of this hart, and discards older items in the way; the hart must not
 * hold a bucket's lock. Returns the item's entry, and counts discarded keys in `given_up`. */
static inline uint64_t mica_append(struct mica *store, uint64_t hart, const uint64_t key[2],
                                   const uint8_t *value, uint64_t bytes, int *given_up) {
  struct mica_log *log = &store->logs[hart];
  uint64_t item_bytes = mica_item_bytes(bytes);
  uint64_t offset = log->tail & (log->size - 1);
  uint64_t fill = offset + item_bytes > log->size ? log->size - offset : 0;
  while (log->tail + fill + item_bytes - log->head > log->size)
    *given_up += mica_give_up(store, hart);
  if (fill) { /* Items do not wrap around the end; padding fills it. */
    struct mica_item *nobody = (struct mica_item *)(log->bytes + offset);
    *nobody = (struct mica_item){.room = (uint32_t)(fill - sizeof *nobody)};
    log->tail += fill;
    offset = 0;
  }
  struct mica_item *item = (struct mica_item *)(log->bytes + offset);
  *item = (struct mica_item){
      .key = {key[0], key[1]},
      .value_bytes = (uint32_t)bytes,
      .room = (uint32_t)(item_bytes - sizeof *item),
  };
  memcpy(item->value, value, bytes);
  log->tail += item_bytes;
  return mica_entry(hart, offset, key);
}

/* The index of a key in its locked bucket; -1 if it has none. */
static inline int mica_find(const struct mica *store, const struct mica_bucket *bucket,
                            const uint64_t key[2]) {
  uint64_t tag = mica_tag(key);
  for (int place = 0; place < MICA_BUCKET_ENTRIES; place++) {
    uint64_t entry = bucket->entries[place];
    if (entry == 0 || !mica_has_tag(entry, tag))
      continue;
    const struct mica_item *item = mica_item(store, entry);
    if (item->key[0] == key[0] && item->key[1] == key[1])
      return place;
  }
  return -1;
}

/** Sets the value of a key, which is aligned to 8, on this hart. Returns the number of other keys
 * that were lost; -1 if a log is too small for the value. */
static inline int mica_put(struct mica *store, uint64_t hart, const uint64_t key[2],
                           const uint8_t *value, uint64_t bytes) {
  struct mica_bucket *bucket = mica_bucket(store, key);
  int given_up = 0;
  mica_lock(bucket);
  int place = mica_find(store, bucket, key);
  struct mica_item *item = place < 0 ? NULL : mica_item(store, bucket->entries[place]);
  if (item != NULL && bytes <= item->room) {
    item->value_bytes = (uint32_t)bytes;
    memcpy(item->value, value, bytes);
    mica_unlock(bucket);
    return 0;
  }
  mica_unlock(bucket);
  if (2 * mica_item_bytes(bytes) > store->logs[hart].size)
    return -1; /* It must fit after the padding. */
  uint64_t entry = mica_append(store, hart, key, value, bytes, &given_up);
  mica_lock(bucket);
  place = mica_find(store, bucket, key); /* Another hart may have inserted it meanwhile. */
  if (place < 0)
    place = mica_place(bucket, 0);
  if (place < 0) { /* The hash selects the victim, so that no state is needed. */
    place = (int)(key[1] % MICA_BUCKET_ENTRIES);
    given_up++;
  }
  bucket->entries[place] = entry;
  mica_unlock(bucket);
  return given_up;
}

#endif
