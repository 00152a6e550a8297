/**
 * A caching service in the manner of memcached: gets and puts of keys of up to 255 bytes over the
 * cache of memcache.h. It is independent of the transport of requests.
 *
 *     void prepare(void) { object_cache_prepare(); }
 *     ...
 *     uint32_t bytes = object_cache_handle(request, request_bytes, reply, room);
 *
 * data_plane.parameters, or rack.servers.N.parameters:
 *   memory_mib       MiB of the slabs' pages (what the traffic's keys take, and a sixteenth more)
 *   page_kib         KiB of a page (1024)
 *   update_interval  how long an item that was asked for is not moved to the head of its list
 *                    again, in units of 2^32 cycles (60, memcached's seconds)
 */
#ifndef OBJECT_CACHE_H
#define OBJECT_CACHE_H

#include <io.h>
#include <memcache.h>
#include <operations.h>
#include <runtime.h>
#include <stdio.h>
#include <string.h>

enum { OBJECT_CACHE_QUANTILES = 256, OBJECT_CACHE_LONGEST_VALUE = 8192 };

static struct memcache object_cache;

/* How long keys and values are: that of key k is chosen by bits of its third word. */
static struct {
  uint32_t key_bytes[OBJECT_CACHE_QUANTILES], value_bytes[OBJECT_CACHE_QUANTILES];
} object_cache_sizes;

/* A number of the description with a name such as traffic.key_quantile.17. */
static inline uint32_t object_cache_quantile(const char *of, uint32_t quantile) {
  char name[40];
  uint64_t at = strlen(of);
  memcpy(name, of, at);
  for (uint32_t digit = quantile < 10 ? 1 : quantile < 100 ? 10 : 100; digit > 0; digit /= 10)
    name[at++] = (char)('0' + quantile / digit % 10);
  name[at] = 0;
  return (uint32_t)io_parameter(name, 0);
}

/* A key that traffic asks for, and its first value. */
struct object_cache_entry {
  uint64_t key_bytes, value_bytes;
  uint64_t key[32];
  uint64_t value[OBJECT_CACHE_LONGEST_VALUE / 8];
};

static inline void object_cache_size(uint64_t number, struct object_cache_entry *entry) {
  operation_key(number, entry->key);
  uint64_t sizes = operation_mix(entry->key[1]);
  entry->key_bytes = object_cache_sizes.key_bytes[sizes % OBJECT_CACHE_QUANTILES];
  entry->value_bytes =
      object_cache_sizes.value_bytes[sizes / OBJECT_CACHE_QUANTILES % OBJECT_CACHE_QUANTILES];
}

static inline void object_cache_fill(struct object_cache_entry *entry) {
  for (uint64_t word = 2; word * 8 < entry->key_bytes; word++)
    entry->key[word] = operation_mix(entry->key[word - 1]);
  /* The words of operation_first_value(). */
  for (uint64_t word = 0; word * 8 < entry->value_bytes; word++)
    entry->value[word] = operation_mix(entry->key[1] + word * 8);
}

/** Fills the cache with the keys that the traffic asks for, in prepare(). */
static inline void object_cache_prepare(void) {
  static struct object_cache_entry entry;
  uint64_t keys = (uint64_t)io_parameter("traffic.keys", 0), chunks[MEMCACHE_CLASSES] = {0};
  double memory_mib = io_parameter("memory_mib", 0), page_kib = io_parameter("page_kib", 1024);
  double update_interval = io_parameter("update_interval", 60);
  if (io_parameter("traffic.scans", 0) > 0)
    fail("The keys of this cache have no order: leave operations.scans at 0.");
  if (memory_mib != 0 && !(memory_mib >= 0.001 && memory_mib <= 16384))
    fail("parameters.memory_mib must be from 0.001 to 16384.");
  if (!(page_kib >= 4 && page_kib <= 1024))
    fail("parameters.page_kib must be from 4 to 1024.");
  if (!(update_interval >= 0 && update_interval <= 1e9))
    fail("parameters.update_interval must be from 0 to 1000000000.");
  for (uint32_t at = 0; at < OBJECT_CACHE_QUANTILES; at++) {
    object_cache_sizes.key_bytes[at] = object_cache_quantile("traffic.key_quantile.", at);
    object_cache_sizes.value_bytes[at] = object_cache_quantile("traffic.value_quantile.", at);
  }
  uint64_t page_bytes = (uint64_t)(page_kib * 1024);
  uint64_t memory_bytes = (uint64_t)(memory_mib * (1 << 20));
  if (memory_bytes == 0) {
    /* A cache without memory, for its classes: whole pages of chunks for each class's keys. */
    static struct memcache classes;
    memcache_make(&classes, 1, 0, page_bytes, 0);
    for (uint64_t number = 0; number < keys; number++) {
      object_cache_size(number, &entry);
      uint64_t bytes = memcache_item_bytes(entry.key_bytes, entry.value_bytes);
      uint32_t class = memcache_class_of(&classes, bytes);
      if (class < classes.class_count)
        chunks[class]++;
    }
    for (uint32_t class = 0; class < classes.class_count; class ++)
      if (chunks[class] > 0) {
        uint64_t in_page = page_bytes / classes.classes[class].chunk_bytes;
        uint64_t pages = (chunks[class] + in_page - 1) / in_page;
        memory_bytes += (pages + pages / 16 + 1) * page_bytes;
      }
  }
  memcache_make(&object_cache, keys, memory_bytes, page_bytes, (uint32_t)update_interval);
  uint64_t evictions = 0;
  for (uint64_t number = 0; number < keys; number++) {
    object_cache_size(number, &entry);
    object_cache_fill(&entry);
    if (!memcache_set(&object_cache, (const uint8_t *)entry.key, entry.key_bytes,
                      (const uint8_t *)entry.value, entry.value_bytes, &evictions))
      fail("There is no memory for key %lu: parameters.memory_mib must be larger.", number);
  }
  *io_counter("evicted_at_first") = evictions;
}

/** Writes the reply to a request, both aligned to 8, and returns its bytes; 0 if the request is
 * none. They may be at the same place: the reply's head takes that of the request, and a value its
 * key when it has been found. */
static inline uint32_t object_cache_handle(const void *request_bytes, uint32_t bytes,
                                           void *reply_bytes, uint32_t room) {
  const struct operation_request *request = request_bytes;
  struct operation_reply *reply = reply_bytes;
  if (!operation_is_whole(request, bytes) || request->operation > OPERATION_PUT)
    return 0;
  const struct operation_request head = *request;
  uint64_t evictions = 0;
  reply->status = OPERATION_DONE;
  reply->operation = head.operation;
  reply->count = 0;
  reply->number = head.number;
  if (head.operation == OPERATION_GET) {
    int64_t found = memcache_get(&object_cache, request->key, head.key_bytes, reply->data,
                                 room - sizeof *reply);
    if (found >= 0)
      reply->count = (uint16_t)found;
    else
      reply->status = OPERATION_NOT_FOUND;
  } else if (!memcache_set(&object_cache, request->key, head.key_bytes,
                           request->key + head.key_bytes, head.more, &evictions)) {
    reply->status = OPERATION_NO_ROOM;
  }
  return (uint32_t)sizeof *reply + reply->count;
}

#endif
