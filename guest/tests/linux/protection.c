/* Accesses that pages do not allow, and what a signal says of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static sigjmp_buf back;
static char *volatile base;

static void caught(int signal, siginfo_t *about, void *context) {
  (void)context;
  const char *code = about->si_code == SEGV_MAPERR   ? "SEGV_MAPERR"
                     : about->si_code == SEGV_ACCERR ? "SEGV_ACCERR"
                                                     : "another code";
  printf("%s at %+ld, %s\n", strsignal(signal), (long)((char *)about->si_addr - base), code);
  siglongjmp(back, 1);
}

static void try_load(const char *what, volatile char *at) {
  printf("%s: ", what);
  if (!sigsetjmp(back, 1))
    printf("%d\n", *at);
}

static void try_store(const char *what, volatile char *at) {
  printf("%s: ", what);
  if (!sigsetjmp(back, 1)) {
    *at = 1;
    puts("stored");
  }
}

static void try_jump(const char *what, void *at) {
  printf("%s: ", what);
  if (!sigsetjmp(back, 1)) {
    ((void (*)(void))at)();
    puts("returned");
  }
}

static char *map(int protection) {
  return mmap(NULL, 2 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void say(const char *what, long result) {
  printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

static volatile int ready, taken;
static volatile char *volatile given;

/* Reads a page until another thread takes it away. */
static void *reader(void *nothing) {
  (void)nothing;
  if (!sigsetjmp(back, 1)) {
    ready = 1;
    for (;;)
      (void)*given;
  }
  taken = 1;
  return NULL;
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 4096);
  struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, NULL);

  base = NULL;
  try_load("null", (char *)8);
  try_store("null", (char *)16);
  base = map(PROT_NONE);
  try_load("PROT_NONE", base + 3);
  mprotect(base, PAGE, PROT_READ);
  try_load("PROT_READ", base + 4);
  try_store("PROT_READ", base + 5);
  try_load("the next page", base + PAGE);
  mprotect(base, 2 * PAGE, PROT_READ | PROT_WRITE);
  try_store("PROT_WRITE", base + 6);
  try_store("PROT_WRITE", base + PAGE + 7);
  mprotect(base, PAGE, PROT_READ);
  try_load("PROT_READ again", base + 6);
  try_store("PROT_READ again", base + 6);
  try_jump("no PROT_EXEC", base + PAGE);
  /* ret */
  static const unsigned code = 0x00008067;
  memcpy(base + PAGE + 64, &code, sizeof code);
  mprotect(base + PAGE, PAGE, PROT_READ | PROT_EXEC);
  __builtin___clear_cache(base + PAGE, base + 2 * PAGE);
  try_jump("PROT_EXEC", base + PAGE + 64);
  try_store("PROT_EXEC", base + PAGE + 64);
  munmap(base, PAGE);
  try_load("unmapped", base + 9);
  try_store("unmapped", base + 10);
  try_load("still mapped", base + PAGE + 200);
  munmap(base, 2 * PAGE);
  try_jump("unmapped", base + PAGE + 64);
  base = (char *)&main;
  try_store("the program", (char *)&main);
  try_jump("nowhere", (char *)&main + (1L << 34));

  /* Calls are told so. */
  int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
  base = map(PROT_READ);
  say("read into PROT_READ", read(zero, base, 10));
  say("write from PROT_READ", write(null, base, 10));
  mprotect(base + PAGE, PAGE, PROT_READ | PROT_WRITE);
  say("read into PROT_WRITE", read(zero, base + PAGE, 10));
  munmap(base + PAGE, PAGE);
  int ends[2];
  say("pipe", pipe(ends));
  say("write from both", write(ends[1], base + PAGE, 10));
  say("mprotect of nothing", mprotect(base, 2 * PAGE, PROT_READ));
  say("open at nothing", open(base + PAGE, O_RDONLY));

  /* Another thread's page. */
  base = map(PROT_READ | PROT_WRITE);
  given = base;
  pthread_t thread;
  pthread_create(&thread, NULL, reader, NULL);
  while (!ready)
    ;
  munmap(base, PAGE);
  pthread_join(thread, NULL);
  printf("taken %d\n", taken);

  /* A process that nobody has told what to do. */
  signal(SIGSEGV, SIG_DFL);
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    *(volatile char *)(base + 1) = 1;
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("ended by %s\n", strsignal(WTERMSIG(status)));
  return 0;
}
