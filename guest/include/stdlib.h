/**
 * Memory and the end of the program.
 */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

/** Takes the next free bytes behind the program, aligned to 16; they are zero. Memory is not
 * given back, and there is no check against the size of the RAM: using an address behind it is an
 * access fault, which the simulator reports. Not for several harts at once. */
void *malloc(size_t bytes);

/** The same, aligned to a power of two. */
void *aligned_alloc(size_t alignment, size_t bytes);

/** The same, for an array. */
void *calloc(size_t count, size_t bytes);

/** Does nothing. */
void free(void *memory);

/** Ends the program, on whichever hart, with an exit status. */
_Noreturn void exit(int status);

/** Ends the program with exit status 134. */
_Noreturn void abort(void);

#endif
