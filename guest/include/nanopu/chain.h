/**
 * Chain replication (van Renesse and Schneider, OSDI 2004): messages carry the chain of servers,
 * which the client has written into them.
 *
 * A client sends a write to the head. Each server stores it and passes it on; the tail answers the
 * client. An answered write is therefore on all servers, and the tail, which answers reads, has
 * exactly the writes that are or will be answered.
 *
 * Messages may overtake each other: the network delivers each once, but in any order. The head
 * therefore numbers the writes of each key, and no server replaces a newer value by an older one.
 * An older one is passed on, so that its client is answered, as if the newer one had immediately
 * followed it. The numbers have eight bits, enough for fewer than 128 outstanding writes of a key.
 *
 * If a server leaves the chain, the others can continue once all messages to it have arrived. The
 * management of chains is not included.
 *
 * A message, after the words of the load generator:
 *
 * - A word: flags in bits 63 to 56, the write's number in 55 to 48, how many servers follow in 47
 *   to 40, and the client: its context in 39 to 32, its IPv4 address in 31 to 0.
 * - A word for each of the servers that follow, in their order: context in bits 47 to 32, IPv4
 *   address in 31 to 0.
 * - Two words of the key, and one of a hash, which is not used.
 * - Eight words of the value; in a read, and where a key has none, zeros.
 */
#ifndef NANOPU_CHAIN_H
#define NANOPU_CHAIN_H

#include <stdint.h>

enum {
  CHAIN_FROM_CLIENT = 1 << 7, /**< The server is the head, and numbers the write. */
  CHAIN_READ = 1 << 6,
  CHAIN_WRITE = 1 << 5,
  CHAIN_MAX_SERVERS = 6, /**< After the first one. */
  CHAIN_KEY_WORDS = 3,   /**< With the hash. */
  CHAIN_VALUE_WORDS = 8,
};

/** The first word, in parts. */
struct chain_head {
  uint8_t flags, number, servers, client_context;
  uint32_t client_address;
};

/** A server's value of a key, and the number of its write. */
struct chain_value {
  uint64_t words[CHAIN_VALUE_WORDS];
  uint64_t number; /* Modulo 256; 0: none. */
};

static inline struct chain_head chain_parse(uint64_t word) {
  return (struct chain_head){
      .flags = (uint8_t)(word >> 56),
      .number = (uint8_t)(word >> 48),
      .servers = (uint8_t)(word >> 40),
      .client_context = (uint8_t)(word >> 32),
      .client_address = (uint32_t)word,
  };
}

static inline uint64_t chain_word(struct chain_head head) {
  return (uint64_t)head.flags << 56 | (uint64_t)head.number << 48 | (uint64_t)head.servers << 40 |
         (uint64_t)head.client_context << 32 | head.client_address;
}

/** Whether a message of this length, without the load generator's words, can have this head. */
static inline int chain_is_request(struct chain_head head, uint64_t words) {
  uint8_t operation = head.flags & (CHAIN_READ | CHAIN_WRITE);
  return (operation == CHAIN_READ || operation == CHAIN_WRITE) &&
         head.servers <= CHAIN_MAX_SERVERS && (operation == CHAIN_WRITE || head.servers == 0) &&
         words == (uint64_t)1 + head.servers + CHAIN_KEY_WORDS + CHAIN_VALUE_WORDS;
}

/** Processes a write at a server that has `there` of the key: updates it if the write is newer.
 * Afterwards `head` has the head's number. Returns whether `there` has changed. */
static inline int chain_write(struct chain_head *head, struct chain_value *there,
                              const uint64_t value[CHAIN_VALUE_WORDS]) {
  if (head->flags & CHAIN_FROM_CLIENT) {
    head->flags &= (uint8_t)~CHAIN_FROM_CLIENT;
    head->number = (uint8_t)(there->number + 1);
  } else if ((int8_t)(head->number - there->number) <= 0) {
    return 0;
  }
  there->number = head->number;
  for (int word = 0; word < CHAIN_VALUE_WORDS; word++)
    there->words[word] = value[word];
  return 1;
}

/** The destination of the message, as an application header: the next one of `servers`, which is
 * removed from the chain, or the client. */
static inline uint64_t chain_next(struct chain_head *head, const uint64_t *servers) {
  if (head->servers == 0)
    return (uint64_t)head->client_address << 32 | (uint64_t)head->client_context << 16;
  head->servers--;
  return servers[0] << 32 | (servers[0] >> 32 & 0xffff) << 16;
}

#endif
