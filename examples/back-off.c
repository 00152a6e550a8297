/**
 * The smallest data plane, with a mechanism of its own: back-off.h.
 *
 *     nanoplane run examples/encapsulation.toml --set data_plane.program=examples/back-off.c
 *       --set data_plane.notify=spin
 */
#define DATA_PLANE_NOTIFY "back-off.h"
#include <data_plane.h>

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  memcpy(out->packet, in->packet, in->length);
  out->length = in->length;
}

int main(void) { return data_plane(); }
