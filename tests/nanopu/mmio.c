/**
 * Runs a program on this host, with the registers of the network interface on the chip: frames come
 * from standard input and go to standard output, each behind its length in two bytes. Behind the
 * last one the program ends; what it does wrong ends it with a sentence.
 */
#include <ice_nic.h>
#include <mmio.h>
#include <runtime.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* The directories of guests come first, and their headers have less than this host's. */
typedef struct _IO_FILE FILE;
extern FILE *stdin, *stdout, *stderr;
extern int fprintf(FILE *file, const char *format, ...);
extern int vfprintf(FILE *file, const char *format, va_list arguments);
extern unsigned long fread(void *to, unsigned long size, unsigned long count, FILE *file);
extern unsigned long fwrite(const void *from, unsigned long size, unsigned long count, FILE *file);
extern _Noreturn void exit(int status);
extern int fflush(FILE *file);

int guest_main(void); /* The program's main(). */

uint64_t harts = 1;

enum { MMIO_ENTRIES = 64, MMIO_MAX_FRAME_BYTES = 1520 };

static struct {
  uint64_t buffers[MMIO_ENTRIES];
  unsigned given, used; /* Buffers. */
  uint16_t lengths[MMIO_ENTRIES];
  unsigned received, taken; /* Frames. */
  unsigned sent, told;
} mmio;

_Noreturn void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n");
  exit(1);
}

__attribute__((weak)) void prepare(void) {}
void harts_release(void) {}

/* How often a program has asked for a frame behind the last one, and done nothing else. */
static unsigned asked_in_vain;

/* Puts the next frame into the oldest buffer; ends the program if it waits for one in vain. */
static void mmio_receive(void) {
  uint8_t length[2];
  if (fread(length, 1, 2, stdin) != 2) {
    if (++asked_in_vain < 2)
      return;
    fflush(stdout);
    exit(0);
  }
  uint64_t bytes = length[0] | (uint64_t)length[1] << 8, whole = (bytes + 7) / 8 * 8;
  uint8_t *buffer = (uint8_t *)mmio.buffers[mmio.used++ % MMIO_ENTRIES];
  memset(buffer + whole - 8, 0, 8);
  if (fread(buffer, 1, bytes, stdin) != bytes)
    fail("the test has lost a frame");
  mmio.lengths[mmio.received++ % MMIO_ENTRIES] = (uint16_t)whole;
}

uint16_t reg_read16(uint64_t address) {
  asked_in_vain = 0;
  if (address == SIMPLENIC_SEND_COMP) {
    if (mmio.told == mmio.sent)
      fail("takes the completion of a frame that was not sent");
    mmio.told++;
    return 1;
  }
  if (address != SIMPLENIC_RECV_COMP || mmio.taken == mmio.received)
    fail("takes a frame that has not come");
  return mmio.lengths[mmio.taken++ % MMIO_ENTRIES];
}

uint32_t reg_read32(uint64_t address) {
  if (address != SIMPLENIC_COUNTS)
    fail("reads another register than COUNTS");
  /* One frame at a time, as soon as there is a buffer for it. */
  if (mmio.received == mmio.taken && mmio.given != mmio.used)
    mmio_receive();
  unsigned room = MMIO_ENTRIES - (mmio.given - mmio.used);
  unsigned sends = mmio.sent - mmio.told;
  return MMIO_ENTRIES | room << 8 | sends << 16 | (mmio.received - mmio.taken) << 24;
}

uint64_t reg_read64(uint64_t address) {
  (void)address;
  fail("reads another register than COUNTS");
  return 0;
}

void reg_write64(uint64_t address, uint64_t value) {
  asked_in_vain = 0;
  if (address == SIMPLENIC_RECV_REQ) {
    if (mmio.given - mmio.used == MMIO_ENTRIES || value % 8 != 0)
      fail("gives a buffer that there is no room for, or at a wrong address");
    mmio.buffers[mmio.given++ % MMIO_ENTRIES] = value;
    return;
  }
  uint64_t bytes = value >> 48;
  if (address != SIMPLENIC_SEND_REQ || bytes == 0 || bytes > MMIO_MAX_FRAME_BYTES)
    fail("sends a frame of a wrong length");
  uint8_t length[2] = {(uint8_t)bytes, (uint8_t)(bytes >> 8)};
  fwrite(length, 1, 2, stdout);
  fwrite((const void *)(value & ((1ull << 48) - 1)), 1, bytes, stdout);
  mmio.sent++;
}

int main(void) {
  prepare();
  return guest_main();
}
