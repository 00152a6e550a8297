/**
 * Finds the nearest of a few vectors of 64 dimensions to the one in the request.
 *
 * The nanoPU paper's high-dimensional search (Table 1), the part of uSuite's HDSearch that computes
 * distances.
 *
 * | message | words |
 * | --- | --- |
 * | request | two of the load generator, 16 of the query, how many vectors, their numbers from 1 |
 * | reply | two of the load generator, the number of the nearest; the first one of several |
 *
 * A word has four elements of 16 bits, the first one in the upper bits.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <operations.h>

enum {
  VECTORS = 10000,
  VECTOR_WORDS = 16,
  ELEMENTS = 4 * VECTOR_WORDS,
  QUERY_WORDS = LOAD_WORDS + VECTOR_WORDS + 1,
  MAX_VECTORS = 200, /* Per request; a message has room for some more. */
};

struct vector {
  uint16_t elements[ELEMENTS];
} __attribute__((aligned(64)));

static struct vector vectors[VECTORS];

static inline void unpack(struct vector *vector, uint64_t place, uint64_t word) {
  vector->elements[4 * place] = (uint16_t)(word >> 48);
  vector->elements[4 * place + 1] = (uint16_t)(word >> 32);
  vector->elements[4 * place + 2] = (uint16_t)(word >> 16);
  vector->elements[4 * place + 3] = (uint16_t)word;
}

void prepare(void) {
  for (uint64_t number = 0; number < VECTORS; number++)
    for (uint64_t place = 0; place < VECTOR_WORDS; place++)
      unpack(&vectors[number], place, operation_mix(number * VECTOR_WORDS + place));
}

/* The square of the Euclidean distance. The loads and multiplications of sixteen elements overlap;
 * a sequential computation would wait for each one. */
static inline uint64_t distance(const struct vector *one, const struct vector *other) {
  uint64_t sum = 0;
#pragma GCC unroll 16
  for (int element = 0; element < ELEMENTS; element++) {
    int64_t difference = (int64_t)one->elements[element] - other->elements[element];
    sum += (uint64_t)(difference * difference);
  }
  return sum;
}

static inline void serve(void) {
  struct load_request request;
  if (!request_begin(&request, QUERY_WORDS + 1))
    return;
  struct vector query;
  for (uint64_t place = 0; place < VECTOR_WORDS; place++)
    unpack(&query, place, lnic_read());
  uint64_t count = lnic_read();
  if (count > MAX_VECTORS || request.words != QUERY_WORDS + count) {
    refuse(request.header, QUERY_WORDS);
    return;
  }
  uint64_t nearest = 0, least = ~(uint64_t)0;
  for (uint64_t at = 1; at <= count; at++) {
    uint64_t number = lnic_read();
    if (number == 0 || number > VECTORS) {
      refuse(request.header, QUERY_WORDS + at);
      return;
    }
    uint64_t squared = distance(&query, &vectors[number - 1]);
    if (squared < least) {
      least = squared;
      nearest = number;
    }
  }
  request_reply(&request, 1);
  lnic_write_r(nearest);
}

int main(void) { return service_on_all_harts(); }
