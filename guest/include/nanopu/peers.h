/**
 * Servers that know each other: who each of them is, as a client tells them.
 *
 * A server begins without knowing who it is. A message tells it, whose words are, behind what its
 * program wants to know it by: the server's number, how many servers there are, and where each of
 * them is. That is its IPv4 address in bits 63 to 32 and its context in bits 31 to 16, as in an
 * application header.
 */
#ifndef NANOPU_PEERS_H
#define NANOPU_PEERS_H

#include <nanopu/messages.h>

enum { PEERS_MOST = 128 };

struct peers {
  uint64_t self, count; /* No server: not configured yet. */
  uint64_t where[PEERS_MOST];
};

/** Takes a configuration; returns whether these words are one. */
static inline int peers_configure(struct peers *peers, const uint64_t *words, uint64_t count) {
  if (count < 3 || words[1] > PEERS_MOST || words[0] >= words[1] || count != 2 + words[1])
    return 0;
  peers->self = words[0];
  peers->count = words[1];
  for (uint64_t peer = 0; peer < peers->count; peer++)
    peers->where[peer] = words[2 + peer] & (IP_MASK | CONTEXT_MASK);
  return 1;
}

#endif
