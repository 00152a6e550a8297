/**
 * A co-runner that multiplies matrices of 64-bit floating-point numbers, for ever.
 *
 * HyperPlane, MICRO 2020, Section V-D: "an SMT co-runner, which is a regular application performing
 * matrix multiplication, on a core with two hardware threads". The paper does not say how large its
 * matrices are. With these three of 8 KiB each the co-runner finds all its data in an L1 cache of
 * 32 KiB as long as it has the cache for itself.
 */
#include <co_runner.h>

enum { SIZE = 32 }; /* Rows and columns. */

struct matrices {
  double left[SIZE][SIZE], right[SIZE][SIZE], product[SIZE][SIZE];
};

static void co_run(void) {
  struct matrices matrices __attribute__((aligned(64)));
  for (int row = 0; row < SIZE; row++)
    for (int column = 0; column < SIZE; column++) {
      matrices.left[row][column] = row + 1;
      matrices.right[row][column] = column - row;
    }
  for (;;) {
    for (int row = 0; row < SIZE; row++) {
      double *product = matrices.product[row];
      for (int column = 0; column < SIZE; column++)
        product[column] = 0;
      for (int inner = 0; inner < SIZE; inner++)
        for (int column = 0; column < SIZE; column++)
          product[column] += matrices.left[row][inner] * matrices.right[inner][column];
    }
    __asm__ volatile("" ::"r"(&matrices) : "memory"); /* Each product is made. */
  }
}
