/**
 * An ordered key-value service in the manner of Masstree (Mao, Kohler and Morris, EuroSys 2012):
 * gets, puts and scans of keys of up to 255 bytes, over the map of masstree.h. It is independent of
 * the transport of requests.
 *
 *     void prepare(void) { ordered_store_prepare(); }
 *     ...
 *     uint32_t bytes = ordered_store_handle(request, request_bytes, reply, room);
 *
 * A scan's reply has fewer keys than requested at the end of the map, or if no more fit.
 *
 * data_plane.parameters:
 *   spare_kib  KiB that each hart has for what is put later and does not take an old value's place
 *              (1024)
 */
#ifndef ORDERED_STORE_H
#define ORDERED_STORE_H

#include <io.h>
#include <masstree.h>
#include <operations.h>
#include <runtime.h>
#include <string.h>

static struct masstree ordered_store;

/** Fills the store with the keys of the traffic, in prepare(). */
static inline void ordered_store_prepare(void) {
  uint64_t keys = (uint64_t)io_parameter("traffic.keys", 0);
  uint64_t value_bytes = (uint64_t)io_parameter("traffic.value_bytes", 0);
  double spare_kib = io_parameter("spare_kib", 1024);
  if (!(spare_kib >= 4 && spare_kib <= 1e6))
    fail("data_plane.parameters.spare_kib must be from 4 to 1000000.");
  uint64_t record_bytes = masstree_record_lines(OPERATION_KEY_BYTES, value_bytes) * LINE_BYTES;
  /* Nodes are two thirds full on average, and never less than half. */
  uint64_t node_bytes = 2 * sizeof(struct masstree_border) / MASSTREE_FANOUT + LINE_BYTES;
  masstree_make(&ordered_store, (uint64_t)(spare_kib * 1024),
                keys * (record_bytes + node_bytes) + 64 * sizeof(struct masstree_border));
  uint8_t value[1024];
  for (uint64_t number = 0; number < keys; number++) {
    uint64_t words[2];
    operation_key(number, words);
    operation_first_value(words, value, value_bytes);
    struct masstree_key key = {(const uint8_t *)words, sizeof words};
    if (!masstree_put(&ordered_store, 0, key, value, value_bytes))
      fail("There is no memory for key %lu.", number);
  }
}

/* A scan that writes pairs into a reply. */
struct ordered_store_scan {
  struct masstree_scan scan; /* The first member: both have the same address. */
  uint8_t *next, *end;
  uint16_t count;
};

static inline void *ordered_store_take(struct masstree_scan *scan, struct masstree_key key,
                                       const uint8_t *value, uint64_t value_bytes) {
  struct ordered_store_scan *reply = (struct ordered_store_scan *)scan;
  struct operation_pair *pair = (struct operation_pair *)reply->next;
  uint64_t bytes = sizeof *pair + key.length + value_bytes, filled = (bytes + 7) & -(uint64_t)8;
  if ((uint64_t)(reply->end - reply->next) < filled)
    return NULL;
  pair->key_bytes = (uint32_t)key.length;
  pair->value_bytes = (uint32_t)value_bytes;
  memcpy(pair->data, key.bytes, key.length);
  memcpy(pair->data + key.length, value, value_bytes);
  memset(reply->next + bytes, 0, filled - bytes);
  return reply->next + filled;
}

static inline void ordered_store_keep(struct masstree_scan *scan, void *taken) {
  struct ordered_store_scan *reply = (struct ordered_store_scan *)scan;
  reply->next = taken;
  reply->count++;
}

/** Writes the reply to a request, both aligned to 8, and returns its length; 0 if the request is
 * malformed. */
static inline uint32_t ordered_store_handle(const void *request_bytes, uint32_t bytes,
                                            void *reply_bytes, uint32_t room) {
  const struct operation_request *request = request_bytes;
  struct operation_reply *reply = reply_bytes;
  if (!operation_is_whole(request, bytes))
    return 0;
  struct masstree_key key = {request->key, request->key_bytes};
  uint32_t reply_length = sizeof *reply;
  reply->status = OPERATION_DONE;
  reply->operation = request->operation;
  reply->count = 0;
  reply->number = request->number;
  if (request->operation == OPERATION_GET) {
    int64_t found = masstree_get(&ordered_store, key, reply->data, room - sizeof *reply);
    if (found < 0) {
      reply->status = OPERATION_NOT_FOUND;
    } else {
      reply->count = (uint16_t)found;
      reply_length += (uint32_t)found;
    }
  } else if (request->operation == OPERATION_PUT) {
    uint64_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    const uint8_t *value = request->key + request->key_bytes;
    if (!masstree_put(&ordered_store, hart, key, value, request->more))
      reply->status = OPERATION_NO_ROOM;
  } else {
    struct ordered_store_scan scan = {
        .scan = {key, request->more, ordered_store_take, ordered_store_keep},
        .next = reply->data,
        .end = (uint8_t *)reply + room,
    };
    masstree_scan(&ordered_store, &scan.scan);
    reply->count = scan.count;
    reply_length = (uint32_t)(scan.next - (uint8_t *)reply);
  }
  return reply_length;
}

#endif
