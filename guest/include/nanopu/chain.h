/**
 * Chain replication (van Renesse and Schneider, OSDI 2004), as its messages travel along a chain of
 * servers that the client has written into them.
 *
 * A client sends a write to the head. Each server stores it and passes it on; the tail answers the
 * client. So a write that was answered is on all servers, and the tail, which answers reads, has
 * exactly the writes that are answered or will be.
 *
 * Messages may overtake each other: the network delivers each once, but in no order. So the head
 * numbers the writes of each key, and nobody puts an older value in place of a newer one. It passes
 * an older one on, and so its client has its answer; it is as if the newer one had come right after
 * it. The numbers have eight bits, which is enough as long as fewer than 128 writes of a key are on
 * their way.
 *
 * A chain without one of its servers goes on with the others once all that was on its way to them
 * has arrived. To see to that is for whoever configures chains, and not done here.
 *
 * A message, behind the words of the load generator:
 *
 * - A word: flags in bits 63 to 56, the write's number in 55 to 48, how many servers follow in 47
 * to 40, and the client: its context in 39 to 32, its IPv4 address in 31 to 0.
 * - A word for each of the servers that follow, in their order: context in bits 47 to 32, IPv4
 * address in 31 to 0.
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
  CHAIN_MAX_SERVERS = 6, /**< Behind the first one. */
  CHAIN_KEY_WORDS = 3,   /**< With the hash. */
  CHAIN_VALUE_WORDS = 8,
};

/** The first word, in parts. */
struct chain_head {
  uint8_t flags, number, servers, client_context;
  uint32_t client_address;
};

/** What a server has of a key: its value, and the number of the write that it is from. */
struct chain_value {
  uint64_t words[CHAIN_VALUE_WORDS];
  uint64_t number; /* Modulo 256; 0: there was none. */
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

/** Whether a message of so many words, load generator's excluded, can begin like this. */
static inline int chain_is_request(struct chain_head head, uint64_t words) {
  uint8_t operation = head.flags & (CHAIN_READ | CHAIN_WRITE);
  return (operation == CHAIN_READ || operation == CHAIN_WRITE) &&
         head.servers <= CHAIN_MAX_SERVERS && (operation == CHAIN_WRITE || head.servers == 0) &&
         words == (uint64_t)1 + head.servers + CHAIN_KEY_WORDS + CHAIN_VALUE_WORDS;
}

/** Takes a write at a server that has `there` of the key: makes it newer if it is. The head's
 * number for it is in `head` afterwards. Returns whether `there` has changed. */
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

/** Where the message goes, as an application header has it, and takes a server off the chain: the
 * next one of `servers`, or the client. */
static inline uint64_t chain_next(struct chain_head *head, const uint64_t *servers) {
  if (head->servers == 0)
    return (uint64_t)head->client_address << 32 | (uint64_t)head->client_context << 16;
  head->servers--;
  return servers[0] << 32 | (servers[0] >> 32 & 0xffff) << 16;
}

#endif
