/**
 * The documents that contain all of one to four words: intersections of sets of document numbers.
 *
 * The nanoPU paper's set algebra (Section 5.3, Figure 10), inspired by the benchmark uSuite.
 *
 * | message | words |
 * | --- | --- |
 * | request | two of the load generator, how many words, their numbers from 1 |
 * | reply | two of the load generator, how many documents, their numbers from 1, in order |
 *
 * The paper has 100 articles of Wikipedia and 200 of the more common English words. Here documents
 * are synthetic: each word is in a document at random, the first one with probability one half, and
 * each next one with a probability lower by a 65th. That is close to the published index: 62, 51,
 * 33 documents with the first words, 11 with the 100th, and 1 or none with the last ones.
 */
#ifndef SERVICES_SET_ALGEBRA_H
#define SERVICES_SET_ALGEBRA_H

#include <operations.h>

enum {
  SET_ALGEBRA_DOCUMENTS = 100,
  SET_ALGEBRA_WORDS = 200,
  SET_ALGEBRA_MAX_WORDS = 4, /**< In a request. */
};

/** Documents by number, in order. */
struct set_algebra_set {
  uint32_t count;
  uint32_t documents[SET_ALGEBRA_DOCUMENTS];
};

/* The documents of each word. */
static struct set_algebra_set set_algebra_index[SET_ALGEBRA_WORDS];

/** Makes the documents. */
static inline void set_algebra_prepare(void) {
  uint64_t chance = (uint64_t)1 << 31; /* Out of 2^32. */
  for (uint64_t word = 0; word < SET_ALGEBRA_WORDS; word++) {
    struct set_algebra_set *set = &set_algebra_index[word];
    for (uint32_t document = 1; document <= SET_ALGEBRA_DOCUMENTS; document++)
      if (operation_mix(document * SET_ALGEBRA_WORDS + word) >> 32 < chance)
        set->documents[set->count++] = document;
    chance -= chance / 65;
  }
}

/* Removes the documents from `result` that are not in `other`. */
static inline void set_algebra_intersect(struct set_algebra_set *result,
                                         const struct set_algebra_set *other) {
  uint64_t kept = 0, at = 0;
  for (uint64_t next = 0; next < result->count; next++) {
    while (at < other->count && other->documents[at] < result->documents[next])
      at++;
    if (at == other->count)
      break;
    if (other->documents[at] == result->documents[next])
      result->documents[kept++] = result->documents[next];
  }
  result->count = (uint32_t)kept;
}

/** Intersects the result with the next word of a request, whose index is `place`. Returns whether
 * there is such a word. */
static inline int set_algebra_take(struct set_algebra_set *result, uint64_t place, uint64_t word) {
  if (word == 0 || word > SET_ALGEBRA_WORDS)
    return 0;
  const struct set_algebra_set *set = &set_algebra_index[word - 1];
  if (place > 0) {
    set_algebra_intersect(result, set);
    return 1;
  }
  result->count = set->count;
  for (uint64_t document = 0; document < set->count; document++)
    result->documents[document] = set->documents[document];
  return 1;
}

#endif
