/**
 * Packets of which some take longer, as in the study of spinning data planes (Figure 17).
 *
 * Parameters: `hiccup_ns` (how much longer, 0) and `hiccup_part` (how many of them, 0.01).
 */
#ifndef POLL_MODE_HICCUP_H
#define POLL_MODE_HICCUP_H

#include <io.h>
#include <poll_mode/lcore.h>

static uint64_t hiccup_ns;
/* A hiccup comes if a random number of 32 bits is below this. */
static uint64_t hiccup_below;

/** What a core draws its random numbers from. */
static inline uint32_t hiccup_seed(unsigned core) { return 2463534242u + core; }

/** In prepare(). */
static inline void hiccup_prepare(void) {
  hiccup_ns = (uint64_t)io_parameter("hiccup_ns", 0);
  hiccup_below = (uint64_t)(io_parameter("hiccup_part", 0.01) * 4294967296.0);
}

/** Takes as much longer as some of so many packets do. */
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
