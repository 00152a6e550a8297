/**
 * Messages of nanoPU's programs: their words, and answers.
 *
 * A request of a load generator begins with two words that its reply begins with, too: how long it
 * is to be served, and when it was sent. Programs say which requests have them.
 */
#ifndef NANOPU_MESSAGES_H
#define NANOPU_MESSAGES_H

#include <lnic.h>
#include <stdint.h>

enum {
  SERVICE_CONTEXT = 0,
  WORD_BYTES = 8,
  LOAD_WORDS = 2, /**< What a load generator puts in front of a request. */
};

/** The single word of a reply to what is no request of the service. */
#define SERVICE_REFUSED (~(uint64_t)0)

/** Words of the message behind an application header. */
static inline uint64_t message_words(uint64_t header) {
  return ((header & LEN_MASK) + WORD_BYTES - 1) / WORD_BYTES;
}

#define FOUR_WORDS(statement)                                                                      \
  do {                                                                                             \
    statement;                                                                                     \
    statement;                                                                                     \
    statement;                                                                                     \
    statement;                                                                                     \
  } while (0)

/** Does what takes one word for so many words. Sixteen at a time: a loop would take three cycles a
 * word, two of them for itself, and the interface brings and takes one word in a cycle. */
#define FOR_EACH_WORD(words, statement)                                                            \
  do {                                                                                             \
    uint64_t words_left_ = (words);                                                                \
    for (; words_left_ >= 16; words_left_ -= 16) {                                                 \
      FOUR_WORDS(statement);                                                                       \
      FOUR_WORDS(statement);                                                                       \
      FOUR_WORDS(statement);                                                                       \
      FOUR_WORDS(statement);                                                                       \
    }                                                                                              \
    for (; words_left_ > 0; words_left_--)                                                         \
      statement;                                                                                   \
  } while (0)

/** The application header of a message of so many words to whom `header` names. */
static inline uint64_t header_to(uint64_t header, uint64_t words) {
  return (header & (IP_MASK | CONTEXT_MASK)) | words * WORD_BYTES;
}

/** Answers a message of which `words_read` words have been read, and which is no request: takes the
 * others too, so that the next message is read from its beginning. */
static inline void refuse(uint64_t header, uint64_t words_read) {
  for (uint64_t words = message_words(header); words_read < words; words_read++)
    lnic_read();
  lnic_write_r(header_to(header, 1));
  lnic_write_r(SERVICE_REFUSED);
}

/** Begins to read a message: its header. Returns how many words it has, or 0 if it has been refused
 * because there are fewer than `least`. */
static inline uint64_t message_begin(uint64_t *header, uint64_t least) {
  *header = lnic_read();
  uint64_t words = message_words(*header);
  if (words >= least)
    return words;
  refuse(*header, 0);
  return 0;
}

/** What a request of a load generator begins with. */
struct load_request {
  uint64_t header, words;
  uint64_t load[LOAD_WORDS];
};

/** Begins to read a request of a load generator. Returns whether it has `least` words, those of the
 * load generator among them; else it has been refused. */
static inline int request_begin(struct load_request *request, uint64_t least) {
  request->words = message_begin(&request->header, least);
  if (request->words == 0)
    return 0;
  request->load[0] = lnic_read();
  request->load[1] = lnic_read();
  return 1;
}

/** Begins a message to `to`, an application header, with the words of the load generator and so
 * many more. */
static inline void request_pass(const struct load_request *request, uint64_t to, uint64_t words) {
  lnic_write_r(header_to(to, LOAD_WORDS + words));
  lnic_write_r(request->load[0]);
  lnic_write_r(request->load[1]);
}

/** Begins the reply to a request. */
static inline void request_reply(const struct load_request *request, uint64_t words) {
  request_pass(request, request->header, words);
}

#endif
