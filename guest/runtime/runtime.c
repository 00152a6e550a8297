/**
 * The console, memory, harts and the end of the program.
 */
#include <memory_map.h>
#include <runtime.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The host-target interface of riscv-pk and Spike. */
volatile uint64_t tohost __attribute__((section(".htif"), aligned(64)));
volatile uint64_t fromhost __attribute__((section(".htif"), aligned(64)));

uint64_t harts, server_cores;
uint32_t harts_released;

enum { SYSTEM_CALL_WRITE = 64, STATUS_FAILED = 1, STATUS_ABORTED = 134 };

void console_write(int file, const char *text, uint64_t bytes) {
  static uint64_t lock;
  static volatile uint64_t call[8] __attribute__((aligned(64)));

  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
    while (__atomic_load_n(&lock, __ATOMIC_RELAXED))
      ;
  call[0] = SYSTEM_CALL_WRITE;
  call[1] = (uint64_t)file;
  call[2] = (uintptr_t)text;
  call[3] = bytes;
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* The host must see the call and the text. */
  tohost = (uintptr_t)call;
  while (fromhost == 0)
    ;
  fromhost = 0;
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

_Noreturn void exit(int status) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (;;)
    tohost = (uint64_t)(uint32_t)status << 1 | 1;
}

/* Output is buffered, so that one printf is one write. */
struct output {
  int file;
  int bytes; /* Of the whole output. */
  uint32_t used;
  char buffer[248];
};

static void flush(struct output *output) {
  if (output->used)
    console_write(output->file, output->buffer, output->used);
  output->used = 0;
}

static void put(struct output *output, char character) {
  output->buffer[output->used++] = character;
  output->bytes++;
  if (output->used == sizeof output->buffer)
    flush(output);
}

static void put_number(struct output *output, uint64_t number, bool negative, uint64_t base,
                       int width, char padding) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number);
  int fill = width - count - negative;
  if (negative && padding == '0')
    put(output, '-');
  while (fill-- > 0)
    put(output, padding);
  if (negative && padding != '0')
    put(output, '-');
  while (count)
    put(output, digits[--count]);
}

static void put_text(struct output *output, const char *text, int width) {
  for (int fill = width - (int)strlen(text); fill > 0; fill--)
    put(output, ' ');
  while (*text)
    put(output, *text++);
}

static void put_format(struct output *output, const char *format, va_list arguments) {
  for (; *format; format++) {
    if (*format != '%') {
      put(output, *format);
      continue;
    }
    char padding = ' ';
    if (*++format == '0')
      padding = '0', format++;
    int width = 0;
    while (*format >= '0' && *format <= '9')
      width = 10 * width + (*format++ - '0');
    bool wide = false;
    while (*format == 'l')
      wide = true, format++;

    switch (*format) {
    case 'd': {
      int64_t number = wide ? va_arg(arguments, int64_t) : va_arg(arguments, int);
      uint64_t magnitude = number < 0 ? -(uint64_t)number : (uint64_t)number;
      put_number(output, magnitude, number < 0, 10, width, padding);
      break;
    }
    case 'u':
    case 'x': {
      uint64_t number = wide ? va_arg(arguments, uint64_t) : va_arg(arguments, unsigned);
      put_number(output, number, false, *format == 'x' ? 16 : 10, width, padding);
      break;
    }
    case 'p':
      put_text(output, "0x", 0);
      put_number(output, (uintptr_t)va_arg(arguments, void *), false, 16, 0, ' ');
      break;
    case 'c':
      put(output, (char)va_arg(arguments, int));
      break;
    case 's':
      put_text(output, va_arg(arguments, const char *), width);
      break;
    case '%':
      put(output, '%');
      break;
    default:
      panic("printf: a conversion that is not known");
    }
  }
}

int printf(const char *format, ...) {
  struct output output = {.file = 1};
  va_list arguments;
  va_start(arguments, format);
  put_format(&output, format, arguments);
  va_end(arguments);
  flush(&output);
  return output.bytes;
}

int puts(const char *text) { return printf("%s\n", text); }

int putchar(int character) {
  char byte = (char)character;
  console_write(1, &byte, 1);
  return (unsigned char)byte;
}

_Noreturn void fail(const char *format, ...) {
  struct output output = {.file = 2};
  va_list arguments;
  va_start(arguments, format);
  put_format(&output, format, arguments);
  va_end(arguments);
  put(&output, '\n');
  flush(&output);
  exit(STATUS_FAILED);
}

_Noreturn void panic(const char *message) {
  struct output output = {.file = 2};
  put_text(&output, "panic: ", 0);
  put_text(&output, message, 0);
  put(&output, '\n');
  flush(&output);
  exit(STATUS_ABORTED);
}

_Noreturn void abort(void) { panic("abort() was called"); }

void *aligned_alloc(size_t alignment, size_t bytes) {
  extern char _end[];
  static uintptr_t next;
  uintptr_t start = next ? next : (uintptr_t)_end;
  start = (start + alignment - 1) & -alignment;
  next = start + bytes;
  return (void *)start;
}

void *malloc(size_t bytes) { return aligned_alloc(16, bytes); }

void *calloc(size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all))
    panic("calloc: the array is larger than the address space");
  return malloc(all); /* Memory is initially zero and never reused. */
}

void free(void *memory) { (void)memory; }

/* The simulator recognizes by this name that a program has nothing to prepare. */
void prepare_nothing(void) {}
__attribute__((weak, alias("prepare_nothing"))) void prepare(void);

__attribute__((weak)) int hart_main(int hart) {
  (void)hart;
  return 0; /* Back to start.S, which halts. */
}

__attribute__((weak)) int hart_beside(int hart) {
  (void)hart;
  return 0; /* Back to start.S, which halts. */
}

void harts_release(void) {
  volatile uint32_t *software_interrupts = (volatile uint32_t *)CLINT_MSIP;
  __atomic_store_n(&harts_released, 1, __ATOMIC_RELEASE);
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* Memory writes precede the device access. */
  for (uint64_t hart = 1; hart < harts; hart++)
    software_interrupts[hart] = 1;
}
