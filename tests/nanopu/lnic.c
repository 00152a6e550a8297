/**
 * Runs a program of nanoPU on this host: messages come from standard input and go to standard
 * output as words in this host's byte order, each message behind its application header.
 *
 * In place of a header there can be CLOCK and a number of cycles: from then on it is that much
 * later, and once no message waits. Whenever the program asks for what is next, READY goes out
 * first. What a program prints goes to standard error, and so does what it may not do to the
 * registers.
 */
#include <lnic.h>
#include <nanopu/clock.h>
#include <runtime.h>
#include <stdarg.h>
#include <stdint.h>
/* The directories of guests come first, and their headers have less than this host's. */
typedef struct _IO_FILE FILE;
extern FILE *stdin, *stderr;
extern int fprintf(FILE *file, const char *format, ...);
extern int vfprintf(FILE *file, const char *format, va_list arguments);
extern unsigned long fread(void *to, unsigned long size, unsigned long count, FILE *file);
extern unsigned long fwrite(const void *from, unsigned long size, unsigned long count, FILE *file);
extern FILE *fdopen(int descriptor, const char *mode);
extern int dup(int descriptor), dup2(int from, int to);
extern _Noreturn void exit(int status);
extern int fflush(FILE *file);

int guest_main(void); /* The program's main(). */

#define CLOCK (~(uint64_t)0)
#define READY (~(uint64_t)0)

uint64_t harts = 1;

static FILE *sent; /* Where messages go. */

static uint64_t next_header;  /* Of the message that waits; 0: none does. */
static uint64_t message_left; /* Words of the current message. */
static int in_message, is_bound;
static uint64_t now_cycles;
static uint64_t send_left; /* Words that the message being sent still lacks. */

_Noreturn void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n");
  fflush(sent);
  exit(1);
}

__attribute__((weak)) void prepare(void) {}
void harts_release(void) {}

void lnic_add_context(uint64_t context, uint64_t priority) {
  if (context > 0xfffe || priority > 31)
    fail("context %lu at priority %lu", (unsigned long)context, (unsigned long)priority);
  is_bound = 1;
}

static uint64_t words_of(uint64_t header) { return (header & LEN_MASK) / 8 + (header % 8 != 0); }

static int read_word(uint64_t *word) { return fread(word, sizeof *word, 1, stdin) == 1; }

static void write_word(uint64_t word) { fwrite(&word, sizeof word, 1, sent); }

int lnic_ready(void) {
  if (!is_bound)
    fail("no context is bound");
  if (in_message)
    fail("asks for a message before lnic_msg_done()");
  if (next_header != 0)
    return 1;
  if (send_left)
    fail("a message lacks %lu words", (unsigned long)send_left);
  write_word(READY);
  fflush(sent);
  if (!read_word(&next_header))
    exit(0); /* That was all. */
  if (next_header != CLOCK)
    return 1;
  next_header = 0;
  uint64_t cycles;
  if (!read_word(&cycles))
    fail("the time is missing");
  now_cycles += cycles;
  return 0;
}

void lnic_idle(void) {}

void lnic_wait(void) {
  while (!lnic_ready())
    ;
}

uint64_t lnic_read(void) {
  if (!in_message) {
    if (!lnic_ready())
      fail("reads netRX, and there is no message");
    in_message = 1;
    message_left = words_of(next_header);
    uint64_t header = next_header;
    next_header = 0;
    return header;
  }
  uint64_t word;
  if (message_left == 0)
    fail("reads more words than the message has");
  if (!read_word(&word))
    fail("the end of the message is missing");
  message_left--;
  return word;
}

void lnic_msg_done(void) {
  if (!in_message)
    fail("says that a message is done, and has none");
  if (message_left)
    fail("has left %lu words of a message unread", (unsigned long)message_left);
  in_message = 0;
}

void lnic_write_r(uint64_t word) {
  if (send_left == 0) { /* An application header. */
    send_left = 1 + words_of(word);
    if (send_left == 1 || send_left > 1 + 2048 / 8)
      fail("sends a message of %lu bytes", (unsigned long)(word & LEN_MASK));
  }
  send_left--;
  write_word(word);
}

uint64_t clock_cycles(void) { return now_cycles; }

int main(void) {
  sent = fdopen(dup(1), "w");
  dup2(2, 1);
  prepare();
  return guest_main();
}
