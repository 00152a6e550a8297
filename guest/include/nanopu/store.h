/**
 * The replies of nanoPU's key-value store, services/store.h, to a load generator.
 */
#ifndef NANOPU_STORE_H
#define NANOPU_STORE_H

#include <nanopu/service.h>
#include <services/store.h>

/** Sends a reply of one word to a request of a load generator. */
static inline void store_reply(uint64_t header, uint64_t service_time, uint64_t sent_time,
                               uint64_t word) {
  lnic_write_r(header_to(header, LOAD_WORDS + 1));
  lnic_write_r(service_time);
  lnic_write_r(sent_time);
  lnic_write_r(word);
}

#endif
