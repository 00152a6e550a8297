/**
 * Loads and stores of device registers, with the names of Rocket Chip's programs.
 */
#ifndef MMIO_H
#define MMIO_H

#include <stdint.h>

static inline uint16_t reg_read16(uint64_t address) { return *(volatile uint16_t *)address; }

static inline uint32_t reg_read32(uint64_t address) { return *(volatile uint32_t *)address; }

static inline uint64_t reg_read64(uint64_t address) { return *(volatile uint64_t *)address; }

static inline void reg_write32(uint64_t address, uint32_t value) {
  *(volatile uint32_t *)address = value;
}

static inline void reg_write64(uint64_t address, uint64_t value) {
  *(volatile uint64_t *)address = value;
}

#endif
