/* As much of it as a second of the host takes where no times are simulated. */
#define ROUNDS 10000
#include "integer.c"
