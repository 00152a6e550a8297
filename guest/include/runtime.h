/**
 * The runtime beyond the C library: harts, waiting for another hart, and ways to stop.
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <stdint.h>

/** The number of the server's harts. */
extern uint64_t harts;

/** The number of the server's cores. Harts from 0 on are the first hardware threads of the cores,
 * in order; those from this number on, if there are any, the second ones, and so on. */
extern uint64_t server_cores;

/**
 * Called on hart 0 before main(), if the program defines it. It takes no simulated time and no
 * energy: the simulator executes it without its pipelines and caches, which are empty when main()
 * begins. A program can therefore fill its memory with long-lived state, such as the data set of a
 * store. It can use memory, the console, io_parameter() and io_counter(), but no other devices and
 * no instructions of other hardware.
 */
void prepare(void);

/**
 * Called when a run is over and all its measurements have been read, if the program defines it:
 * checks the program's memory. `nanoplane exec` calls it when main() has returned 0. Servers first
 * continue without new requests until all are answered. Returns 0 on success; its output is then in
 * the result. Another value, or fail(), is an error of the run. It takes no simulated time, runs on
 * a separate stack as if on hart 0, and has the facilities of prepare().
 */
int check_after_run(void);

/**
 * The entry point of every hart other than hart 0, once hart 0 has called harts_release(). A
 * program that uses several harts defines it; without a definition they stay halted. Its result is
 * ignored.
 */
int hart_main(int hart);

/** Called on a hart whose hart_main has returned. A co-runner defines it (co_runner.h); without a
 * definition the hart halts. */
int hart_beside(int hart);

/** Starts the other harts. Earlier writes of this hart are visible to them. */
void harts_release(void);

/** Waits until the word is not `value`, and returns the new value. The hart halts until another
 * hart writes to the word's cache line. Earlier writes of that hart are visible. */
static inline uint64_t wait_while(const uint64_t *word, uint64_t value) {
  uint64_t now;
  __asm__ volatile("1: lr.d.aq %0, %2\n"
                   "   bne %0, %1, 2f\n"
                   "   .4byte 0x00d00073\n" /* WRS.NTO, which not every assembler knows. */
                   "   j 1b\n"
                   "2:"
                   : "=&r"(now)
                   : "r"(value), "A"(*word)
                   : "memory");
  return now;
}

/** Prints a message on standard error and ends the program with exit status 1: for errors that a
 * user can cause. The format is printf's. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Prints a message on standard error and ends the program with exit status 134, that of abort() on
 * Linux: for errors that should never occur. */
_Noreturn void panic(const char *message);

/** Writes to the simulator's standard output (1) or standard error (2). */
void console_write(int file, const char *text, uint64_t bytes);

#endif
