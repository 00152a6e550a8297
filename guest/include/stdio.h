/**
 * Console output. printf knows %d %u %x %c %s %p %% and %ld %lu %lx, with an optional width and
 * zero padding (%08lx).
 */
#ifndef STDIO_H
#define STDIO_H

#include <stdarg.h>

int putchar(int character);
int puts(const char *text);
int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
