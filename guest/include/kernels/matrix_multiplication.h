/**
 * Multiplication of matrices of 64-bit floating-point numbers.
 *
 * HyperPlane, MICRO 2020, Section V-D: "an SMT co-runner, which is a regular application performing
 * matrix multiplication, on a core with two hardware threads"; and Golestani et al., SoCC 2019,
 * Figure 7. Neither gives the size of the matrices. With three matrices of 8 KiB the program's data
 * fit into an L1 cache of 32 KiB as long as it does not share the cache.
 */
#ifndef KERNELS_MATRIX_MULTIPLICATION_H
#define KERNELS_MATRIX_MULTIPLICATION_H

enum { MATRIX_SIZE = 32 }; /* Rows and columns. */

struct matrices {
  double left[MATRIX_SIZE][MATRIX_SIZE], right[MATRIX_SIZE][MATRIX_SIZE],
      product[MATRIX_SIZE][MATRIX_SIZE];
};

/** Multiplies for ever. */
static void multiply_matrices(void) {
  struct matrices matrices __attribute__((aligned(64)));
  for (int row = 0; row < MATRIX_SIZE; row++)
    for (int column = 0; column < MATRIX_SIZE; column++) {
      matrices.left[row][column] = row + 1;
      matrices.right[row][column] = column - row;
    }
  for (;;) {
    for (int row = 0; row < MATRIX_SIZE; row++) {
      double *product = matrices.product[row];
      for (int column = 0; column < MATRIX_SIZE; column++)
        product[column] = 0;
      for (int inner = 0; inner < MATRIX_SIZE; inner++)
        for (int column = 0; column < MATRIX_SIZE; column++)
          product[column] += matrices.left[row][inner] * matrices.right[inner][column];
    }
    __asm__ volatile("" ::"r"(&matrices) : "memory"); /* Every product is computed. */
  }
}

#endif
