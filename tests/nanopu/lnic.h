/**
 * Takes the place of guest/include/lnic.h where a program is compiled for this host: the same
 * names, over arrays. lnic.c has what they do, and says what a program does wrong.
 */
#ifndef LNIC_H
#define LNIC_H

#include <stdint.h>

#define IP_MASK 0xffffffff00000000ull
#define CONTEXT_MASK 0x00000000ffff0000ull
#define LEN_MASK 0x000000000000ffffull

void lnic_add_context(uint64_t context, uint64_t priority);
int lnic_ready(void);
void lnic_idle(void);
void lnic_wait(void);
void lnic_msg_done(void);
uint64_t lnic_read(void);
void lnic_write_r(uint64_t word);

#define lnic_write_i(word) lnic_write_r(word)
#define lnic_write_m(word) lnic_write_r(word)
#define lnic_copy() lnic_write_r(lnic_read())
#define lnic_add_int_i(value) lnic_write_r(lnic_read() + (value))

#endif
