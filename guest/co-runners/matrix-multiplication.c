/**
 * A co-runner that multiplies matrices of 64-bit floating-point numbers, for ever
 * (kernels/matrix_multiplication.h has the source).
 */
#include <co_runner.h>
#include <kernels/matrix_multiplication.h>

static void co_run(void) { multiply_matrices(); }
