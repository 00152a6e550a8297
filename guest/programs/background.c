/**
 * A data plane that does other work while no queue is ready: QWAIT.NB between slices of it.
 *
 * HyperPlane, MICRO 2020, Section III-A: "the code performing a background task might poll the
 * entire ready set with a single QWAIT instruction to see if any work item has arrived". The
 * background task multiplies matrices of 64-bit floating-point numbers endlessly; a slice of it is
 * a number of rows of the product. `program_counters.background_rows` in the result is the number
 * of completed rows.
 *
 * data_plane.parameters:
 *   slice_rows  rows between two polls (1): more spend fewer cycles on polls, but items wait longer
 */
#include <queues.h>

enum {
  SIZE = 32,    /* Rows and columns: three matrices of 8 KiB fit into an L1 cache of 32 KiB. */
  REPORTS = 16, /* Rows between two writes of the counter, which is a device register. */
};

static double left[SIZE][SIZE], right[SIZE][SIZE], product[SIZE][SIZE];

static void multiply_row(uint64_t row) {
  for (int column = 0; column < SIZE; column++)
    product[row][column] = 0;
  for (int inner = 0; inner < SIZE; inner++)
    for (int column = 0; column < SIZE; column++)
      product[row][column] += left[row][inner] * right[inner][column];
}

int main(void) {
  queues_make(0);
  double slice_rows = io_parameter("slice_rows", 1);
  if (!(slice_rows >= 1 && slice_rows <= 1e6))
    fail("data_plane.parameters.slice_rows must be from 1 to 1000000.");
  if (queues.cores != 1)
    fail("This program runs on one core: use server.data_plane_cores = 1.");
  for (int row = 0; row < SIZE; row++)
    for (int column = 0; column < SIZE; column++) {
      left[row][column] = row + 1;
      right[row][column] = column - row;
    }
  volatile uint64_t *counter = io_counter("background_rows");
  queues_monitor();
  queues_start();
  uint64_t rows_in_slice = (uint64_t)slice_rows, rows = 0;
  for (;;) {
    uint64_t qid = qwait_nonblocking();
    if (qid == QWAIT_NONE) {
      for (uint64_t slice = 0; slice < rows_in_slice; slice++) {
        multiply_row(rows++ % SIZE);
        if (rows % REPORTS == 0)
          *counter = rows;
      }
      continue;
    }
    struct queue *queue = &queues.all[qid];
    if (!qwait_verify(&queue->doorbell->count))
      continue;
    const struct io_slot *item = queue_take(queue);
    qwait_reconsider(qid, &queue->doorbell->count);
    queue_give(queue, item);
  }
}
