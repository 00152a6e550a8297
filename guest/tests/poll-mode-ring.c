/**
 * Two harts put numbers into a small ring, and two take them out, in bursts and in bulk; prints the
 * numbers that each consumer has received. A number is that of its producer times 2^16, plus its
 * sequence number.
 */
#include <poll_mode/ring.h>
#include <runtime.h>
#include <stdio.h>

enum { PRODUCERS = 2, NUMBERS = 400, MOST = 7 };

static struct ring *ring;
static uint64_t got[PRODUCERS][PRODUCERS * NUMBERS];
static uint64_t counts[PRODUCERS], taken, done;

static void produce(uint64_t producer) {
  uint64_t next = 0;
  while (next < NUMBERS) {
    void *objects[MOST];
    unsigned count = (unsigned)(1 + (next * 5 + producer) % MOST);
    count = min_of(count, (unsigned)(NUMBERS - next));
    for (unsigned place = 0; place < count; place++)
      objects[place] = (void *)(producer << 16 | (next + place));
    next += next % 2 ? ring_enqueue_bulk(ring, objects, count)
                     : ring_enqueue_burst(ring, objects, count);
  }
}

static void consume(uint64_t consumer) {
  while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < PRODUCERS * NUMBERS) {
    void *objects[MOST];
    unsigned count =
        consumer ? ring_dequeue_burst(ring, objects, MOST) : ring_dequeue_bulk(ring, objects, 2);
    if (count == 0)
      count = ring_dequeue_burst(ring, objects, 1);
    for (unsigned place = 0; place < count; place++)
      got[consumer][counts[consumer]++] = (uint64_t)objects[place];
    __atomic_fetch_add(&taken, count, __ATOMIC_RELAXED);
  }
}

int hart_main(int hart) {
  lcore_begin(hart);
  if (hart < PRODUCERS)
    produce((uint64_t)hart);
  else if (hart < 2 * PRODUCERS)
    consume((uint64_t)hart - PRODUCERS);
  __atomic_fetch_add(&done, 1, __ATOMIC_ACQ_REL);
  return 0;
}

int main(void) {
  if (ring_create(3, 0) != NULL)
    return 1;
  ring = ring_create(16, 0);
  harts_release();
  hart_main(0);
  uint64_t now;
  while ((now = __atomic_load_n(&done, __ATOMIC_ACQUIRE)) < 2 * PRODUCERS)
    wait_while(&done, now);
  if (ring_count(ring) != 0)
    return 2;
  for (int consumer = 0; consumer < PRODUCERS; consumer++) {
    for (uint64_t place = 0; place < counts[consumer]; place++)
      printf("%lx ", got[consumer][place]);
    printf("\n");
  }
  return 0;
}
