/**
 * A key-value service in the manner of HERD (Kalia, Kaminsky and Andersen, SIGCOMM 2014): gets and
 * puts of keys of 16 bytes, which are hashes, over the table of mica.h. It is independent of the
 * transport of requests.
 *
 *     void prepare(void) { key_value_prepare(); }
 *     ...
 *     uint32_t bytes = key_value_handle(request, request_bytes, reply, room);
 *
 * data_plane.parameters:
 *   log_kib  KiB of each hart's log (the least power of two with a quarter more than its share of
 *            the traffic's keys needs)
 */
#ifndef KEY_VALUE_H
#define KEY_VALUE_H

#include <io.h>
#include <mica.h>
#include <operations.h>
#include <runtime.h>
#include <string.h>

static struct mica key_value_store;

/** Fills the store with the keys of the traffic, in prepare(). */
static inline void key_value_prepare(void) {
  uint64_t keys = (uint64_t)io_parameter("traffic.keys", 0);
  uint64_t value_bytes = (uint64_t)io_parameter("traffic.value_bytes", 0);
  double log_kib = io_parameter("log_kib", 0);
  if (io_parameter("traffic.scans", 0) > 0)
    fail("The keys of this store have no order: leave traffic.operations.scans at 0.");
  if (log_kib != 0 && !(log_kib >= 1 && log_kib <= 1e6))
    fail("data_plane.parameters.log_kib must be from 1 to 1000000.");

  uint64_t share = (keys + harts - 1) / harts * mica_item_bytes(value_bytes);
  uint64_t log_bytes = log_kib != 0 ? (uint64_t)(log_kib * 1024) : share + share / 4;
  /* One to two keys in the seven entries of a bucket: fewer than one in a thousand overflow. */
  mica_make(&key_value_store, (keys + 1) / 2, log_bytes);

  uint8_t value[1024];
  uint64_t given_up = 0;
  for (uint64_t number = 0; number < keys; number++) {
    uint64_t key[2];
    operation_key(number, key);
    operation_first_value(key, value, value_bytes);
    int gone = mica_put(&key_value_store, number % harts, key, value, value_bytes);
    if (gone < 0)
      fail("data_plane.parameters.log_kib is too small for a value of %lu bytes.", value_bytes);
    given_up += (uint64_t)gone;
  }
  *io_counter("keys_given_up_at_first") = given_up;
}

/** Writes the reply to a request, both aligned to 8, and returns its length; 0 if the request is
 * malformed. */
static inline uint32_t key_value_handle(const void *request_bytes, uint32_t bytes,
                                        void *reply_bytes, uint32_t room) {
  const struct operation_request *request = request_bytes;
  struct operation_reply *reply = reply_bytes;
  if (!operation_is_whole(request, bytes) || request->operation == OPERATION_SCAN ||
      request->key_bytes != MICA_KEY_BYTES)
    return 0;
  const uint64_t *key = (const uint64_t *)request->key;
  uint8_t status = OPERATION_DONE;
  uint16_t count = 0;
  if (request->operation == OPERATION_GET) {
    int64_t found = mica_get(&key_value_store, key, reply->data, room - sizeof *reply);
    if (found >= 0)
      count = (uint16_t)found;
    else
      status = OPERATION_NOT_FOUND;
  } else {
    uint64_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    if (mica_put(&key_value_store, hart, key, request->key + MICA_KEY_BYTES, request->more) < 0)
      status = OPERATION_NO_ROOM;
  }
  reply->status = status;
  reply->operation = request->operation;
  reply->count = count;
  reply->number = request->number;
  return (uint32_t)sizeof *reply + count;
}

#endif
