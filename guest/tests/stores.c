/**
 * Harts that concurrently read and write the stores of mica.h and masstree.h, as fast as they can,
 * and check the results.
 *
 *     nanoplane exec guest/tests/stores.c
 */
#include <masstree.h>
#include <mica.h>
#include <operations.h>
#include <runtime.h>
#include <stdio.h>

enum {
  HARTS = 4,
  MICA_KEYS = 10,
  MICA_ROUNDS = 2000,
  MAP_KEYS = 500, /* Per hart. */
  GROUPS = 6,     /* The first eight or sixteen bytes of a group's keys are equal. */
  LONGEST = 32,
};

static struct mica table;
static struct masstree map;
static uint64_t arrived;

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

/* More keys in one bucket than it has entries; values of one to twelve equal words. */
static void use_table(uint64_t hart) {
  uint64_t state = hart, found = 0;
  for (uint64_t round = 0; round < MICA_ROUNDS; round++) {
    uint64_t number = random_below(&state, MICA_KEYS), value[12], key[2];
    operation_key(number, key);
    if (random_below(&state, 3) == 0) {
      uint64_t words = 1 + random_below(&state, 12);
      for (uint64_t word = 0; word < words; word++)
        value[word] = round << 16 | hart << 8 | number;
      if (mica_put(&table, hart, key, (const uint8_t *)value, words * sizeof *value) < 0)
        fail("The log of hart %lu is too small.", hart);
      continue;
    }
    int64_t bytes = mica_get(&table, key, (uint8_t *)value, sizeof value);
    if (bytes < 0)
      continue;
    found++;
    for (uint64_t word = 0; word < (uint64_t)bytes / sizeof *value; word++)
      if (value[word] != value[0] || (value[word] & 0xff) != number)
        fail("Hart %lu found %lx in word %lu of key %lu, and %lx in the first.", hart, value[word],
             word, number, value[0]);
  }
  if (found == 0)
    fail("Hart %lu found nothing.", hart);
}

/* A key's bytes: those of its group, and then four in random order. Returns their number. */
static uint64_t make_key(uint64_t number, uint8_t *key) {
  uint64_t group = number % GROUPS, length = 8 * (group % 3);
  memset(key, (int)('a' + group), length);
  uint32_t rest = swap32((uint32_t)number * 0x9e3779b1);
  memcpy(key + length, &rest, sizeof rest);
  return length + sizeof rest;
}

static int compare(const uint8_t *one, uint64_t one_bytes, const uint8_t *other,
                   uint64_t other_bytes) {
  int order = memcmp(one, other, one_bytes < other_bytes ? one_bytes : other_bytes);
  return order ? order : (one_bytes > other_bytes) - (one_bytes < other_bytes);
}

/* A scan that checks the order of its keys, and stores them. */
struct checked_scan {
  struct masstree_scan scan;
  uint64_t count;
  uint64_t lengths[65];
  uint8_t keys[65][LONGEST];
};

static void *take(struct masstree_scan *scan, struct masstree_key key, const uint8_t *value,
                  uint64_t value_bytes) {
  struct checked_scan *checked = (struct checked_scan *)scan;
  (void)value;
  (void)value_bytes;
  uint64_t length = key.length < LONGEST ? key.length : LONGEST; /* It may be torn. */
  memcpy(checked->keys[checked->count], key.bytes, length);
  checked->lengths[checked->count] = length;
  return checked;
}

static void keep(struct masstree_scan *scan, void *taken) {
  (void)taken;
  ((struct checked_scan *)scan)->count++;
}

/* Checks that part of the map is in order and has all keys in it that this hart has put. */
static void scan_from(uint64_t hart, const uint8_t *key, uint64_t length, uint64_t put) {
  struct checked_scan checked;
  checked.scan = (struct masstree_scan){{key, length}, 64, take, keep};
  checked.count = 0;
  masstree_scan(&map, &checked.scan);
  for (uint64_t at = 1; at < checked.count; at++)
    if (compare(checked.keys[at - 1], checked.lengths[at - 1], checked.keys[at],
                checked.lengths[at]) >= 0)
      fail("Hart %lu found keys out of order.", hart);
  if (checked.count == 0 || compare(checked.keys[0], checked.lengths[0], key, length) != 0)
    fail("Hart %lu does not find where it began.", hart);
  for (uint64_t mine = 0; mine < put; mine += 3) {
    uint8_t bytes[LONGEST];
    uint64_t mine_bytes = make_key(mine * HARTS + hart, bytes);
    uint64_t last = checked.count - 1;
    if (compare(bytes, mine_bytes, key, length) < 0 ||
        compare(bytes, mine_bytes, checked.keys[last], checked.lengths[last]) > 0)
      continue;
    uint64_t at = 0;
    while (at < checked.count &&
           compare(bytes, mine_bytes, checked.keys[at], checked.lengths[at]) != 0)
      at++;
    if (at == checked.count)
      fail("Hart %lu misses its key %lu in a scan.", hart, mine);
  }
}

/* Each hart puts its own keys among those of the others, and reads them. */
static void use_map(uint64_t hart) {
  uint64_t state = hart;
  for (uint64_t put = 0; put < MAP_KEYS; put++) {
    uint8_t bytes[LONGEST];
    uint64_t number = put * HARTS + hart, value[16];
    for (uint64_t word = 0; word < 16; word++)
      value[word] = number;
    uint64_t length = make_key(number, bytes);
    struct masstree_key key = {bytes, length};
    if (!masstree_put(&map, hart, key, (const uint8_t *)value, 8 * (1 + put % 16)))
      fail("There is no room for key %lu of hart %lu.", put, hart);
    for (int look = 0; look < 3; look++) {
      uint64_t mine = random_below(&state, put + 1);
      key.length = make_key(mine * HARTS + hart, bytes);
      int64_t found = masstree_get(&map, key, (uint8_t *)value, sizeof value);
      if (found < 8 || value[0] != mine * HARTS + hart || value[found / 8 - 1] != value[0])
        fail("Hart %lu does not find its key %lu (%ld bytes).", hart, mine, found);
      if (look == 0) { /* Another length: the record may be replaced. */
        uint64_t words = 1 + random_below(&state, 16);
        for (uint64_t word = 0; word < words; word++)
          value[word] = mine * HARTS + hart;
        if (!masstree_put(&map, hart, key, (const uint8_t *)value, 8 * words))
          fail("There is no room for the new value of key %lu of hart %lu.", mine, hart);
      }
    }
    /* A key of another hart, which may be changing: its words must not be those of another key. */
    uint64_t other = random_below(&state, MAP_KEYS * HARTS);
    key.length = make_key(other, bytes);
    int64_t found = masstree_get(&map, key, (uint8_t *)value, sizeof value);
    for (int64_t word = 0; word < found / 8; word++)
      if (value[word] != other)
        fail("Hart %lu finds %lu in key %lu.", hart, value[word], other);
    if (put % 16 == 15) {
      key.length = make_key(random_below(&state, put + 1) * HARTS + hart, bytes);
      scan_from(hart, bytes, key.length, put);
    }
  }
}

int hart_main(int number) {
  if (number >= HARTS)
    return 0;
  meet(1);
  use_table((uint64_t)number);
  meet(2);
  use_map((uint64_t)number);
  meet(3);
  if (number != 0)
    return 0;
  /* The whole map, from the beginning, in parts. */
  uint8_t begin[LONGEST] = {0};
  uint64_t length = 0, count = 0;
  for (;;) {
    struct checked_scan checked;
    checked.scan = (struct masstree_scan){{begin, length}, 64, take, keep};
    checked.count = 0;
    masstree_scan(&map, &checked.scan);
    count += checked.count;
    if (checked.count < 64)
      break;
    count--; /* The next part starts with it. */
    length = checked.lengths[63];
    memcpy(begin, checked.keys[63], length);
  }
  if (count != HARTS * MAP_KEYS)
    fail("The map has %lu keys.", count);
  puts("The stores are right.");
  return 0;
}

int main(void) {
  if (harts < HARTS)
    fail("This program needs %d harts.", HARTS);
  mica_make(&table, 1, 1024);
  masstree_make(&map, 1 << 20, 1 << 16);
  harts_release();
  return hart_main(0);
}
