/**
 * An ordered key-value store: gets, puts and scans of a trie of B+-trees, modelled on Masstree.
 *
 * See ordered_store.h and masstree.h. An incomplete request is passed to its tenant as an error.
 */
#include <data_plane.h>
#include <ordered_store.h>

static uint32_t room;

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  out->length = ordered_store_handle(in->packet, in->length, out->packet, room);
  if (out->length == 0)
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
}

void prepare(void) { ordered_store_prepare(); }

int main(void) {
  io_device()->items = IO_ITEMS_OPERATIONS;
  room = (uint32_t)(io_device()->slot_bytes - sizeof(struct io_slot));
  return data_plane();
}
