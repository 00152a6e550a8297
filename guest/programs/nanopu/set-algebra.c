/**
 * Which documents have all of one to four words: intersections of sets of documents' numbers.
 *
 * The nanoPU paper's set algebra (Section 5.3, Figure 10), inspired by the benchmark uSuite.
 *
 * | message | words |
 * | --- | --- |
 * | request | two of the load generator, how many words, their numbers from 1 |
 * | reply | two of the load generator, how many documents, their numbers from 1, in order |
 *
 * The paper has 100 articles of Wikipedia and 200 common English words. Here documents are made up:
 * each has DRAWS of the common words, drawn by Zipf's law, the k-th in proportion to 1 / k. So an
 * article has some 600 words, about half of which are common ones.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <operations.h>

enum { DOCUMENTS = 100, WORDS = 200, DRAWS = 300, MOST_WORDS = 4 };

/* The documents of each word: how many, and their numbers in order. */
static struct set {
  uint32_t count;
  uint32_t documents[DOCUMENTS];
} index_of[WORDS];

void prepare(void) {
  /* The weights of words 1 to k, where the first one's is 2^32. */
  uint64_t weight_up_to[WORDS + 1] = {0};
  for (uint64_t rank = 1; rank <= WORDS; rank++)
    weight_up_to[rank] = weight_up_to[rank - 1] + ((uint64_t)1 << 32) / rank;
  for (uint32_t document = 1; document <= DOCUMENTS; document++) {
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
      uint64_t weight = operation_mix(document * DRAWS + draw) % weight_up_to[WORDS];
      uint64_t word = 0;
      while (weight_up_to[word + 1] <= weight)
        word++;
      struct set *set = &index_of[word];
      if (set->count == 0 || set->documents[set->count - 1] != document)
        set->documents[set->count++] = document;
    }
  }
}

/* Takes out of `set` what is not in `other`. */
static inline uint64_t intersect(uint32_t *set, uint64_t count, const struct set *other) {
  uint64_t kept = 0, at = 0;
  for (uint64_t next = 0; next < count; next++) {
    while (at < other->count && other->documents[at] < set[next])
      at++;
    if (at == other->count)
      break;
    if (other->documents[at] == set[next])
      set[kept++] = set[next];
  }
  return kept;
}

static inline void serve(void) {
  uint64_t header = lnic_read();
  uint64_t words = message_words(header);
  if (words < LOAD_WORDS + 2) {
    refuse(header, 0);
    return;
  }
  uint64_t service_time = lnic_read(), sent_time = lnic_read();
  uint64_t count = lnic_read();
  if (count > MOST_WORDS || words != LOAD_WORDS + 1 + count) {
    refuse(header, LOAD_WORDS + 1);
    return;
  }
  uint32_t result[DOCUMENTS];
  uint64_t found = 0;
  for (uint64_t number = 0; number < count; number++) {
    uint64_t word = lnic_read() - 1;
    if (word >= WORDS) {
      refuse(header, LOAD_WORDS + 2 + number);
      return;
    }
    const struct set *set = &index_of[word];
    if (number == 0) {
      found = set->count;
      for (uint64_t document = 0; document < found; document++)
        result[document] = set->documents[document];
    } else {
      found = intersect(result, found, set);
    }
  }
  lnic_write_r(header_to(header, LOAD_WORDS + 1 + found));
  lnic_write_r(service_time);
  lnic_write_r(sent_time);
  lnic_write_r(found);
  for (uint64_t document = 0; document < found; document++)
    lnic_write_r(result[document]);
}

int main(void) { return service_on_all_harts(); }
