/** Takes the place of guest/include/mmio.h where a program is compiled for this host: see mmio.c.
 */
#ifndef MMIO_H
#define MMIO_H

#include <stdint.h>

uint16_t reg_read16(uint64_t address);
uint32_t reg_read32(uint64_t address);
uint64_t reg_read64(uint64_t address);
void reg_write64(uint64_t address, uint64_t value);

#endif
