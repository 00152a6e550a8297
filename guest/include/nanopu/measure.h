/**
 * A client that measures: it sends a request, waits for the reply, and remembers how long that
 * took.
 *
 * Its requests begin with two words of a load generator: 0, and a number of its own, by which it
 * knows the reply.
 */
#ifndef NANOPU_MEASURE_H
#define NANOPU_MEASURE_H

#include <lnic.h>
#include <nanopu/clock.h>
#include <nanopu/messages.h>
#include <runtime.h>
#include <stdio.h>

enum { MEASURE_MOST = 10000, MEASURE_WORDS = 256 };

struct measure {
  uint64_t count;
  uint64_t cycles[MEASURE_MOST];
};

/** The reply to measure_exchange(), behind the words of the load generator. */
static uint64_t measure_reply[MEASURE_WORDS];

static uint64_t measure_number; /* Of the last request. */

/** Sends a request, `words` behind those of the load generator, and waits so long for its reply.
 * Returns the words in measure_reply, 0 if there is none, and how long it took. */
static inline uint64_t measure_exchange(uint64_t to, const uint64_t *words, uint64_t count,
                                        uint64_t max_cycles, uint64_t *taken_cycles) {
  uint64_t begin = clock_cycles();
  measure_number++;
  lnic_write_r(header_to(to, LOAD_WORDS + count));
  lnic_write_r(0);
  lnic_write_r(measure_number);
  for (uint64_t word = 0; word < count; word++)
    lnic_write_r(words[word]);
  for (;;) {
    while (!lnic_ready()) {
      if (clock_cycles() - begin >= max_cycles)
        return 0;
    }
    *taken_cycles = clock_cycles() - begin;
    uint64_t header = lnic_read(), left = message_words(header), number = 0, got = 0;
    for (uint64_t at = 0; at < left; at++) {
      uint64_t word = lnic_read();
      if (at == 1)
        number = word;
      else if (at >= LOAD_WORDS && got < MEASURE_WORDS)
        measure_reply[got++] = word;
    }
    lnic_msg_done();
    if (got > 0 && number == measure_number)
      return got; /* Others are late replies to requests that were given up. */
  }
}

static inline void measure_add(struct measure *measure, uint64_t cycles) {
  if (measure->count < MEASURE_MOST)
    measure->cycles[measure->count++] = cycles;
}

/* How many places of the sorted cycles the end of the 95 % confidence interval of a percentile is
 * away: 1.96 standard deviations of how many of `count` values are below it, which is binomial. */
static inline uint64_t measure_margin(uint64_t count, uint64_t percent) {
  uint64_t places = 0;
  while (places * places * 100000000 < count * percent * (100 - percent) * 38416)
    places++;
  return places;
}

/** Prints how long it took: the median, what 90 and 99 percent took at most, with the 95 %
 * confidence intervals of these, and the longest. */
static inline void measure_print(struct measure *measure, const char *what) {
  uint64_t count = measure->count, *cycles = measure->cycles;
  if (count == 0)
    fail("Nothing was measured of %s.", what);
  for (uint64_t gap = count / 2; gap > 0; gap /= 2) { /* Shell's sort. */
    for (uint64_t at = gap; at < count; at++) {
      uint64_t moving = cycles[at], to = at;
      for (; to >= gap && cycles[to - gap] > moving; to -= gap)
        cycles[to] = cycles[to - gap];
      cycles[to] = moving;
    }
  }
  static const uint64_t percents[] = {50, 90, 99};
  printf("%s: %lu, cycles", what, (unsigned long)count);
  for (int place = 0; place < 3; place++) {
    uint64_t at = (count - 1) * percents[place] / 100;
    uint64_t margin = measure_margin(count, percents[place]);
    uint64_t low = at > margin ? at - margin : 0;
    uint64_t high = at + margin < count ? at + margin : count - 1;
    printf(" p%lu %lu (%lu to %lu)", (unsigned long)percents[place], (unsigned long)cycles[at],
           (unsigned long)cycles[low], (unsigned long)cycles[high]);
  }
  printf(" longest %lu\n", (unsigned long)cycles[count - 1]);
}

#endif
