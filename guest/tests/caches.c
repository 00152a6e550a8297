/**
 * Harts that concurrently read and write a cache of memcache.h, as fast as they can, and check the
 * results.
 *
 *     nanoplane exec guest/tests/caches.c
 */
#include <memcache.h>
#include <operations.h>
#include <runtime.h>
#include <stdio.h>

enum { HARTS = 4, FEW = 24, MANY = 600, ROUNDS = 400, WORDS = 40 };

static struct memcache roomy, tight;
static uint64_t arrived, sets[FEW], evictions, found, missed;

static uint64_t random_below(uint64_t *state, uint64_t limit) {
  *state = operation_mix(*state);
  return (*state >> 32) * limit >> 32;
}

/* Waits for the other harts. */
static void meet(uint64_t times) {
  __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < times * HARTS)
    ;
}

/* A key of 8 to 55 bytes, and a value of 1 to 40 words that all identify the key. */
static uint64_t key_of(uint64_t number, uint64_t key[7]) {
  for (uint64_t word = 0; word < 7; word++)
    key[word] = operation_mix(number + word);
  return 8 + number % 48;
}

static void use(struct memcache *cache, uint64_t hart, uint64_t keys, uint64_t *counts) {
  uint64_t state = hart + keys, evicted = 0;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint64_t number = random_below(&state, keys), value[WORDS], key[7];
    uint64_t key_bytes = key_of(number, key);
    if (random_below(&state, 2) == 0) {
      uint64_t words = 1 + random_below(&state, WORDS);
      for (uint64_t word = 0; word < words; word++)
        value[word] = round << 32 | hart << 24 | number;
      int is_set = memcache_set(cache, (const uint8_t *)key, key_bytes, (const uint8_t *)value,
                                words * sizeof *value, &evicted);
      if (!is_set && counts != NULL)
        fail("There was no memory for key %lu.", number);
      if (counts != NULL)
        __atomic_fetch_add(&counts[number], 1, __ATOMIC_RELAXED);
      continue;
    }
    int64_t bytes =
        memcache_get(cache, (const uint8_t *)key, key_bytes, (uint8_t *)value, sizeof value);
    __atomic_fetch_add(bytes < 0 ? &missed : &found, 1, __ATOMIC_RELAXED);
    for (int64_t word = 0; word < bytes / 8; word++)
      if (value[word] != value[0] || (value[word] & 0xffffff) != number)
        fail("Hart %lu found %lx in word %ld of key %lu, and %lx in the first.", hart, value[word],
             word, number, value[0]);
  }
  __atomic_fetch_add(&evictions, evicted, __ATOMIC_RELAXED);
}

static void check(const struct memcache *cache) {
  const char *wrong = memcache_wrong(cache);
  if (wrong != NULL)
    fail("A cache is wrong: %s.", wrong);
}

static void work(uint64_t hart) {
  /* With space for all, no set of a key is lost, so its version counts them. */
  use(&roomy, hart, FEW, sets);
  meet(1);
  if (hart == 0) {
    check(&roomy);
    for (uint64_t number = 0; number < FEW; number++) {
      uint64_t key[7], bytes = key_of(number, key);
      const uint8_t *text = (const uint8_t *)key;
      const struct memcache_item *item =
          memcache_find(&roomy, text, bytes, memcache_hash(text, bytes));
      if (item == NULL || item->version != sets[number])
        fail("Key %lu has version %lu after %lu sets.", number, item ? item->version : 0,
             sets[number]);
    }
    if (evictions != 0)
      fail("%lu items were evicted with room for all.", evictions);
  }
  meet(2);
  /* 24 pages of 4 KiB, for more than twice as many bytes of items. */
  use(&tight, hart, MANY, NULL);
  meet(3);
  if (hart == 0) {
    check(&tight);
    if (evictions < ROUNDS / 4 || found == 0 || missed == 0)
      fail("There were %lu evictions, %lu hits and %lu misses.", evictions, found, missed);
    printf("The caches are right.\n");
  }
}

int hart_main(int hart) {
  if (hart < HARTS)
    work((uint64_t)hart);
  return 0;
}

int main(void) {
  if (harts < HARTS)
    fail("This program needs %d harts.", HARTS);
  memcache_make(&roomy, FEW, 64 << 12, 4096, 0);
  memcache_make(&tight, MANY / 8, 24 << 12, 4096, 0);
  harts_release();
  work(0);
  return 0;
}
