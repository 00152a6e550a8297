/**
 * nanoPU's key-value store, services/store.h, between registers and memory. A program says how the
 * words of a value go:
 *
 *     static inline void write_value(struct mica *of, const uint64_t key[2]) {
 *       ... reads them from netRX ...
 *     }
 *     static inline int read_value(const struct mica *of, const struct load_request *request,
 *                                  const uint64_t key[2]) {
 *       ... replies with the value, if there is one ...
 *     }
 */
#ifndef NANOPU_STORE_H
#define NANOPU_STORE_H

#include <nanopu/service.h>
#include <services/store.h>

/* Takes a key's new value, which is in the register's next words. */
static void write_value(struct mica *of, const uint64_t key[2]);
/* Replies with a key's value. Returns whether there is one. */
static int read_value(const struct mica *of, const struct load_request *request,
                      const uint64_t key[2]);

/* Replies with a value. */
static inline void reply_value(const struct load_request *request, const uint64_t *value) {
  request_reply(request, STORE_VALUE_WORDS);
#pragma GCC unroll 64
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    lnic_write_m(value[word]);
}

/* Serves a message by a store. */
static inline void serve_by(struct mica *of) {
  struct load_request request;
  if (!request_begin(&request, STORE_REQUEST_WORDS))
    return;
  uint64_t operation = lnic_read();
  if (!store_is_request(operation, request.words)) {
    refuse(request.header, LOAD_WORDS + 1);
    return;
  }
  uint64_t first = lnic_read(), second = lnic_read(), key[2];
  lnic_read(); /* The hash. */
  key_of_words(key, first, second);
  if (operation == STORE_WRITE) {
    write_value(of, key);
    request_reply(&request, 1);
    lnic_write_r(STORE_DONE);
  } else if (!read_value(of, &request, key)) {
    request_reply(&request, 1);
    lnic_write_r(STORE_NOT_FOUND);
  }
}

#endif
