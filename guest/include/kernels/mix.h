/**
 * A mix of kernels in place of a suite of applications, as Golestani et al. (SoCC 2019, Figure 7)
 * run Geekbench 4, "a compute- and memory-intensive benchmark suite of real-world applications". It
 * is a stand-in: Geekbench's programs are not public. Like its sections, it has integer,
 * floating-point and memory kernels, each with the branches or dependences of common applications:
 *
 * - integer: a hash of a text and a histogram, with branches that depend on the data;
 * - floating point: a sum of a polynomial, a chain of dependent operations;
 * - memory: a walk along pointers through 8 MiB in random order, with stores.
 */
#ifndef KERNELS_MIX_H
#define KERNELS_MIX_H

#include <stdint.h>

enum {
  MIX_TEXT = 16384,         /* Bytes: half of a first-level cache. */
  MIX_NODES = 8 << 20 >> 6, /* Lines of a last-level cache, beyond a second level. */
  MIX_STEPS = 256,          /* Of each kernel at a time. */
};

static struct mix {
  uint8_t text[MIX_TEXT];
  uint32_t histogram[256];
  struct mix_node {
    uint32_t next;
    uint32_t unused[15];
  } nodes[MIX_NODES];
} mix __attribute__((aligned(64)));

static inline uint32_t mix_random(uint32_t *state) {
  /* Marsaglia's xorshift ("Xorshift RNGs", 2003). */
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

/** Fills the memory of the mix, in prepare(). */
static void mix_prepare(void) {
  uint32_t state = 2463534242u;
  for (unsigned place = 0; place < MIX_TEXT; place++)
    mix.text[place] = (uint8_t)mix_random(&state);
  for (uint32_t node = 0; node < MIX_NODES; node++)
    mix.nodes[node].next = node;
  /* One cycle through all nodes: Sattolo's shuffle. */
  for (uint32_t node = MIX_NODES - 1; node > 0; node--) {
    uint32_t other = mix_random(&state) % node, next = mix.nodes[node].next;
    mix.nodes[node].next = mix.nodes[other].next;
    mix.nodes[other].next = next;
  }
}

/** Runs for ever, from kernel to kernel. */
static void run_mix(void) {
  uint32_t place = 0, node = 0, hash = 2166136261u;
  double sum = 0, x = 0.5;
  for (;;) {
    for (unsigned step = 0; step < MIX_STEPS; step++, place = (place + 1) % MIX_TEXT) {
      uint8_t letter = mix.text[place];
      hash = (hash ^ letter) * 16777619u; /* Fowler, Noll and Vo's. */
      if (letter < 96)
        mix.histogram[letter]++;
      else if (hash & 1)
        mix.histogram[hash >> 24] += letter;
    }
    for (unsigned step = 0; step < MIX_STEPS; step++) {
      x = x * 0.999 + 0.0003;
      sum = ((sum * x + 1.5) * x + 0.25) * x;
    }
    for (unsigned step = 0; step < MIX_STEPS / 32; step++) {
      node = mix.nodes[node].next;
      mix.nodes[node].unused[step % 15] = hash;
    }
    __asm__ volatile("" ::"f"(sum), "r"(&mix) : "memory");
  }
}

#endif
