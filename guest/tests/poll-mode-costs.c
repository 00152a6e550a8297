/**
 * The cost of the parts of the poll-mode library on one core, in cycles: docs/poll-mode.md has the
 * table. Each line has a name, the operations, and their cycles.
 */
#include <poll_mode/lpm.h>
#include <poll_mode/mbuf.h>
#include <stdio.h>

enum { ROUNDS = 400, MOST = 32, ROUTES = 16384, FIRST_ROUTE = 0x40000000 };

static struct lpm *lpm;

void prepare(void) {
  lpm = lpm_create(1);
  for (uint32_t route = 0; route < ROUTES; route++)
    lpm_add(lpm, FIRST_ROUTE + (route << 8), 24, route);
}

/* Measures the second pass, with warm instruction and data caches. */
#define measure(name, operations, statement)                                                       \
  do {                                                                                             \
    uint64_t cycles = 0;                                                                           \
    for (int pass = 0; pass < 2; pass++) {                                                         \
      uint64_t begin = rdtsc();                                                                    \
      for (uint64_t round = 0; round < ROUNDS; round++)                                            \
        statement;                                                                                 \
      cycles = rdtsc() - begin;                                                                    \
    }                                                                                              \
    printf("%s %lu %lu\n", name, (uint64_t)(operations) * ROUNDS, cycles);                         \
  } while (0)

static void *objects[MOST];

static void rings(const char *kind, unsigned flags) {
  struct ring *ring = ring_create(1024, flags);
  char name[32];
  static const unsigned sizes[] = {1, 8, 32};
  for (int size = 0; size < 3; size++) {
    unsigned count = sizes[size];
    strcpy(name, kind);
    strcpy(name + strlen(name), size == 0 ? "-1" : size == 1 ? "-8" : "-32");
    measure(name, count, ({
              ring_enqueue_bulk(ring, objects, count);
              ring_dequeue_bulk(ring, objects, count);
            }));
  }
  strcpy(name, kind);
  strcpy(name + strlen(name), "-empty");
  measure(name, 1, ring_dequeue_burst(ring, objects, 1));
}

int main(void) {
  lcore_begin(0);
  rings("ring-sp-sc", RING_F_SP_ENQ | RING_F_SC_DEQ);
  rings("ring-mp-mc", 0);
  struct mempool *pool = pktmbuf_pool_create(1024, 256, MBUF_DEFAULT_BUF_SIZE);
  measure("pool-32", MOST, ({
            mempool_get_bulk(pool, objects, MOST);
            mempool_put_bulk(pool, objects, MOST);
          }));
  uint32_t next_hop, sum = 0;
  /* 400 prefixes on 25 lines, twice. */
  measure("lpm-cached", 1, ({
            lpm_lookup(lpm, FIRST_ROUTE + ((uint32_t)round << 8), &next_hop);
            sum += next_hop;
          }));
  /* Prefixes far apart, whose lines are in memory. */
  uint64_t cycles = rdtsc();
  for (uint32_t round = 0; round < ROUNDS; round++) {
    lpm_lookup(lpm, FIRST_ROUTE + ((round * 2654435761u >> 18) << 8), &next_hop);
    sum += next_hop;
  }
  cycles = rdtsc() - cycles;
  printf("lpm-memory %lu %lu\n", (uint64_t)ROUNDS, cycles);
  return sum == 0;
}
