/**
 * An object cache: gets and puts of a hash table with slabs and eviction, modelled on memcached.
 *
 * See object_cache.h and memcache.h. An incomplete request, or a scan, is passed to its tenant as
 * an error.
 */
#include <data_plane.h>
#include <object_cache.h>

static uint32_t room;

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  out->length = object_cache_handle(in->packet, in->length, out->packet, room);
  if (out->length == 0)
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
}

void prepare(void) { object_cache_prepare(); }

int main(void) {
  io_device()->items = IO_ITEMS_OPERATIONS;
  room = (uint32_t)(io_device()->slot_bytes - sizeof(struct io_slot));
  return data_plane();
}
