/**
 * Adds one to both words of a message of 16 bytes and sends it back: the nanoPU paper's Listing 1.
 */
#include <lnic.h>

/* As printed, but for the registers: the assembler has no names for them, and the prototype has one
 * (0x56) for the paper's lmsgdone and lidle. */
int main(void) {
  __asm__ volatile("   csrwi 0x53, 0\n" /* lcurport */
                   "   csrwi 0x55, 0\n" /* lcurpriority */
                   "   csrwi 0x54, 1\n" /* lniccmd */
                   "wait_msg:\n"
                   "   csrr  a5, 0x52\n" /* lmsgsrdy */
                   "   bnez  a5, loopback_plus1_16B\n"
                   "idle:\n"
                   "   csrwi 0x56, 2\n" /* lidle */
                   "   csrr  a5, 0x52\n"
                   "   beqz  a5, idle\n"
                   "loopback_plus1_16B:\n"
                   "   mv    " LWRITE ", " LREAD "\n"
                   "   addi  " LWRITE ", " LREAD ", 1\n"
                   "   addi  " LWRITE ", " LREAD ", 1\n"
                   "   csrwi 0x56, 1\n" /* lmsgdone */
                   "   j     wait_msg"
                   :
                   :
                   : "a5", "memory");
  __builtin_unreachable();
}
