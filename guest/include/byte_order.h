/**
 * The byte order of the network, most significant byte first, is not that of the hart.
 */
#ifndef BYTE_ORDER_H
#define BYTE_ORDER_H

#include <stdint.h>

/** From the network's order to the hart's, or back. */
static inline uint16_t swap16(uint16_t value) { return (uint16_t)(value << 8 | value >> 8); }

/** The same. */
static inline uint32_t swap32(uint32_t value) {
  return (uint32_t)swap16((uint16_t)value) << 16 | swap16((uint16_t)(value >> 16));
}

/** The same. */
static inline uint64_t swap64(uint64_t value) {
  return (uint64_t)swap32((uint32_t)value) << 32 | swap32((uint32_t)(value >> 32));
}

#endif
