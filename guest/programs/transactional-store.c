/**
 * An in-memory database: TPC-C's five transactions, with optimistic concurrency control modelled on
 * Silo over a Masstree.
 *
 * See transactional_store.h, tpcc.h and silo.h. An invalid request is passed to its tenant as an
 * error.
 */
#include <transactional_store.h>

#include <data_plane.h>

static uint32_t room;

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  out->length = transactional_store_handle(in->packet, in->length, out->packet, room);
  if (out->length == 0)
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
}

void prepare(void) { transactional_store_prepare(); }

int main(void) {
  io_device()->items = IO_ITEMS_OPERATIONS;
  room = (uint32_t)(io_device()->slot_bytes - sizeof(struct io_slot));
  return data_plane();
}

#include <transactional_store_check.h>
