/**
 * QWAIT by itself: hart 1 rings the doorbells of four queues, and hart 0 is notified of each.
 *
 *     nanoplane exec examples/doorbells.c
 */
#include <io.h>
#include <memory_map.h>
#include <qwait.h>
#include <runtime.h>
#include <stdio.h>

enum { QUEUES = 4, ITEMS = 3, DOORBELLS = 2 * QUEUES };

/* The range that the monitoring set snoops. */
static struct io_doorbell *const doorbells = (struct io_doorbell *)DOORBELLS_START;

static struct io_doorbell *doorbell_of[QUEUES];

/* The producer; all other harts go back to sleep. */
int hart_main(int hart) {
  if (hart == 1)
    for (int item = 0; item < ITEMS; item++)
      for (int queue = 0; queue < QUEUES; queue++)
        io_ring(doorbell_of[queue]);
  return 0;
}

/* Algorithm 1, lines 1 to 8: a doorbell that the monitoring set has a place for. */
static void add_queues(void) {
  int next = 0;
  if (qwait_init((uint64_t)doorbells, DOORBELLS * LINE_BYTES, QWAIT_ROUND_ROBIN) != QWAIT_OK)
    fail("QWAIT.INIT failed.");
  for (uint64_t qid = 0; qid < QUEUES; qid++) {
    int64_t result;
    do {
      if (next == DOORBELLS)
        fail("There is no doorbell left for queue %lu.", qid);
      doorbell_of[qid] = &doorbells[next++];
      result = qwait_add(qid, &doorbell_of[qid]->count);
    } while (result == QWAIT_CONFLICT);
    if (result != QWAIT_OK)
      fail("QWAIT.ADD of queue %lu answers %ld.", qid, result);
  }
}

int main(void) {
  uint64_t taken[QUEUES] = {0};
  if (harts < 2)
    fail("This program needs two harts.");
  add_queues();
  harts_release();
  for (int left = QUEUES * ITEMS; left > 0;) { /* Lines 10 to 20. */
    uint64_t qid = qwait();
    struct io_doorbell *doorbell = doorbell_of[qid];
    if (!qwait_verify(&doorbell->count))
      continue;
    io_take(doorbell);
    qwait_reconsider(qid, &doorbell->count);
    taken[qid]++;
    left--;
  }
  for (uint64_t qid = 0; qid < QUEUES; qid++)
    printf("queue %lu: %lu items\n", qid, taken[qid]);
  return 0;
}
