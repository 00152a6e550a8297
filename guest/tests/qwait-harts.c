/* Harts that wait in QWAIT, all in one partition: prints the number of items that each took. */
#include <io.h>
#include <memory_map.h>
#include <qwait.h>
#include <runtime.h>
#include <stdint.h>
#include <stdio.h>

enum { QUEUES = 8, ITEMS = 400, MAX_HARTS = 8 };

static struct io_doorbell *const doorbells = (struct io_doorbell *)DOORBELLS_START;

/* One line each. */
static struct {
  uint64_t taken;
} __attribute__((aligned(LINE_BYTES))) by[MAX_HARTS], of[QUEUES];
static uint64_t all;

/* Takes items until there are no more. */
int hart_main(int hart) {
  for (;;) {
    uint64_t qid = qwait();
    if (!qwait_verify(&doorbells[qid].count))
      continue;
    __atomic_fetch_sub(&doorbells[qid].count, 1, __ATOMIC_ACQUIRE);
    of[qid].taken++; /* No other hart receives this queue before QWAIT.RECONSIDER. */
    by[hart].taken++;
    qwait_reconsider(qid, &doorbells[qid].count);
    __atomic_fetch_add(&all, 1, __ATOMIC_RELEASE);
  }
}

int main(void) {
  if (qwait_init((uint64_t)doorbells, QUEUES * LINE_BYTES, QWAIT_ROUND_ROBIN) != QWAIT_OK)
    fail("The doorbells cannot be watched.");
  for (uint64_t qid = 0; qid < QUEUES; qid++)
    if (qwait_add(qid, &doorbells[qid].count) != QWAIT_OK)
      fail("Queue %lu cannot be added.", qid);
  harts_release();
  for (int item = 0; item < ITEMS; item++) {
    io_ring(&doorbells[item % QUEUES]);
    /* All harts wait at times. */
    if (item % 16 == 0)
      while (__atomic_load_n(&all, __ATOMIC_ACQUIRE) <= (uint64_t)item)
        ;
  }
  while (__atomic_load_n(&all, __ATOMIC_ACQUIRE) < ITEMS)
    ;
  for (int qid = 0; qid < QUEUES; qid++)
    if (of[qid].taken != ITEMS / QUEUES)
      fail("Queue %d had %lu items taken.", qid, of[qid].taken);
  for (uint64_t hart = 1; hart < harts; hart++)
    printf("hart %lu took %lu\n", hart, by[hart].taken);
  return 0;
}
