/** Takes the place of guest/include/runtime.h where a program is compiled for this host. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <stdint.h>

extern uint64_t harts;
void prepare(void);
int hart_main(int hart);
void harts_release(void);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
