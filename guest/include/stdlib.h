/**
 * Memory and the end of the program.
 */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

/** Allocates the next free bytes after the program, aligned to 16 and zeroed. Memory is never
 * freed, and there is no check against the size of the RAM: an access beyond it is an access fault,
 * which the simulator reports. Not for several harts at the same time. */
void *malloc(size_t bytes);

/** Aligned to a power of two. */
void *aligned_alloc(size_t alignment, size_t bytes);

/** For an array. */
void *calloc(size_t count, size_t bytes);

/** Does nothing. */
void free(void *memory);

/** Ends the program, on whichever hart, with an exit status. */
_Noreturn void exit(int status);

/** Ends the program with exit status 134. */
_Noreturn void abort(void);

#endif
