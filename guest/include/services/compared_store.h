/**
 * The store of services/wire_store.h for the programs of compare/: with parameters of the
 * description, and requests with additional work.
 *
 * | parameter | meaning | default |
 * | --- | --- | --- |
 * | `entries` | descriptors of a ring, a power of two, from 4 on | 128 |
 * | `buffer_bytes` | bytes from a buffer to the next, a multiple of 64 | 2048 |
 * | `spares` | buffers that a hart has beside those in rings, if harts share rings | 32 |
 * | `value_bytes` | bytes of a value, a multiple of 8, up to 4096 | 512 |
 * | `system_cycles` | what an operating system adds to an interrupt sent or taken; if any | 0 |
 *
 * The first word of a request, the load generator's service time, is the number of iterations of a
 * loop of two instructions before the access to the store, for variable service times.
 */
#ifndef SERVICES_COMPARED_STORE_H
#define SERVICES_COMPARED_STORE_H

#include <io.h>
#include <stdint.h>

static uint64_t compared_entries, compared_buffer_bytes, compared_spares, compared_doorbell_frames;
static uint64_t compared_value_words, compared_system_cycles;

#define DMA_NIC_ENTRIES compared_entries
#define DMA_NIC_BUFFER_BYTES compared_buffer_bytes
#define DMA_NIC_DOORBELL_FRAMES compared_doorbell_frames
#define RING_SPARE_BUFFERS compared_spares
#define RING_MOST_SPARE_BUFFERS 128
#define STORE_VALUE_WORDS compared_value_words
#define STORE_MOST_VALUE_WORDS 512
#include <services/wire_store.h>

static inline uint64_t compared_cycles(void) {
  uint64_t now;
  __asm__ volatile("csrr %0, cycle" : "=r"(now));
  return now;
}

/* A whole number of the description. */
static inline uint64_t compared_number(const char *name, uint64_t otherwise, uint64_t least,
                                       uint64_t most, uint64_t multiple) {
  double given = io_parameter(name, (double)otherwise);
  uint64_t number = given >= 0 && given <= (double)most ? (uint64_t)given : 0;
  if ((double)number != given || number < least || number % multiple)
    fail("The parameter %s must be a whole number from %lu to %lu, and a multiple of %lu.", name,
         least, most, multiple);
  return number;
}

/** Fills the store with values of this length, in the wire's byte order or as numbers. */
static inline void compared_prepare_store(enum store_order order) {
  compared_value_words = compared_number("value_bytes", 512, 8, 4096, 8) / 8;
  store_prepare_as(order);
}

/** The same for rings; for prepare(). */
static inline void compared_prepare_rings(void) {
  compared_entries = compared_number("entries", 128, 4, 4096, 4);
  if (compared_entries & (compared_entries - 1))
    fail("The parameter entries must be a power of two.");
  compared_buffer_bytes = compared_number("buffer_bytes", 2048, 128, 16384, 64);
  /* The interface has at least half of the buffers. */
  compared_doorbell_frames = compared_entries < 16 ? compared_entries / 2 : 8;
  compared_prepare_store(STORE_WIRE);
}

/** The same with spare buffers, for harts that share rings. */
static inline void compared_prepare_shared_rings(void) {
  compared_prepare_rings();
  uint64_t most =
      compared_entries < RING_MOST_SPARE_BUFFERS ? compared_entries : RING_MOST_SPARE_BUFFERS;
  compared_spares = compared_number("spares", most < 32 ? most : 32, 1, most, 1);
}

/** Reads the parameter system_cycles; for prepare() of programs with interrupts. */
static inline void compared_prepare_system(void) {
  compared_system_cycles = compared_number("system_cycles", 0, 0, 1000000, 1);
}

/** Takes the time of an operating system for an interrupt. */
static inline void compared_system(void) {
  if (compared_system_cycles == 0)
    return;
  uint64_t begin = compared_cycles();
  while (compared_cycles() - begin < compared_system_cycles)
    ;
}

/** Executes the additional work of a request. */
static inline void compared_work(uint64_t rounds) {
  if (rounds)
    __asm__ volatile("1: addi %0, %0, -1\n"
                     "   bnez %0, 1b"
                     : "+r"(rounds));
}

/** The additional work of a request. */
static inline uint64_t compared_rounds(const uint64_t *request, uint64_t bytes) {
  return bytes >= STORE_REQUEST_WORDS * sizeof *request ? swap64(request[0]) : 0;
}

/** Answers a request: its additional work, and then wire_store_answer(). */
static inline uint64_t compared_answer(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  compared_work(compared_rounds(request, bytes));
  return wire_store_answer(request, bytes, reply);
}

#endif
