/**
 * Servers that know each other: who each of them is, as a client tells them.
 *
 * A server begins without knowing who it is. A message tells it:
 *
 * | message | words |
 * | --- | --- |
 * | configuration | two of the load generator, 1, this server's number, how many servers, where
 * each is | | reply | two of the load generator, 1 |
 *
 * Where a server is: its IPv4 address in bits 63 to 32, its context in bits 31 to 16, as in an
 * application header.
 */
#ifndef NANOPU_PEERS_H
#define NANOPU_PEERS_H

#include <nanopu/service.h>

enum { PEERS_CONFIGURATION = 1, PEERS_MOST = 7 };

struct peers {
  uint64_t self, count; /* No server: not configured yet. */
  uint64_t where[PEERS_MOST];
};

/** Takes a configuration, all words behind those of the load generator; returns whether it is one.
 */
static inline int peers_configure(struct peers *peers, const uint64_t *words, uint64_t count) {
  if (count < 4 || words[0] != PEERS_CONFIGURATION || words[2] > PEERS_MOST ||
      words[1] >= words[2] || count != 3 + words[2])
    return 0;
  peers->self = words[1];
  peers->count = words[2];
  for (uint64_t peer = 0; peer < peers->count; peer++)
    peers->where[peer] = words[3 + peer] & (IP_MASK | CONTEXT_MASK);
  return 1;
}

#endif
