/** Takes the place of guest/include/nanopu/clock.h where a program is compiled for this host. */
#ifndef NANOPU_CLOCK_H
#define NANOPU_CLOCK_H

#include <stdint.h>

uint64_t clock_cycles(void);

#endif
