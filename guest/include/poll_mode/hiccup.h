/**
 * Packets of which some take longer, as in the study of spinning data planes (Figure 17).
 *
 * Parameters: `hiccup_ns` (the additional time, 0) and `hiccup_part` (the fraction of packets,
 * 0.01).
 */
#ifndef POLL_MODE_HICCUP_H
#define POLL_MODE_HICCUP_H

#include <io.h>
#include <poll_mode/lcore.h>

static uint64_t hiccup_ns;
/* A hiccup occurs if a random number of 32 bits is below this. */
static uint64_t hiccup_below;

/** The seed of a core's random numbers. */
static inline uint32_t hiccup_seed(unsigned core) { return 2463534242u + core; }

/** Must be called in prepare(). */
static inline void hiccup_prepare(void) {
  hiccup_ns = (uint64_t)io_parameter("hiccup_ns", 0);
  hiccup_below = (uint64_t)(io_parameter("hiccup_part", 0.01) * 4294967296.0);
}

/** Takes the additional time of the hiccups among `packets` packets. */
static inline void hiccup(unsigned packets, uint32_t *random, uint64_t hz) {
  if (hiccup_ns)
    for (unsigned place = 0; place < packets; place++) {
      /* Marsaglia's xorshift ("Xorshift RNGs", 2003). */
      *random ^= *random << 13;
      *random ^= *random >> 17;
      *random ^= *random << 5;
      if (*random < hiccup_below)
        delay_ns(hiccup_ns, hz);
    }
}

#endif
