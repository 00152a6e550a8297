/* A program that wants more than it may have; its first argument says what. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MIB (1L << 20)
/* Where nothing is mapped. */
#define FREE ((char *)0x40000000)
/* Where machine mode has its code and what a trap saves, and where it asks the kernel. */
#define CODE 0xffffffff80000000
#define SAVED 0xffffffff80001000
#define KERNEL 0xffffffff80100000

static sigjmp_buf back;

static void caught(int signal, siginfo_t *info, void *context) {
  (void)context;
  printf(" signal %d at %lx\n", signal, (unsigned long)info->si_addr);
  siglongjmp(back, 1);
}

/* Writes the first byte of each page. */
static void touch(char *from, long bytes) {
  for (long i = 0; i < bytes; i += 4096)
    *(volatile char *)(from + i) = 1;
}

/* Maps, writes and unmaps at one address after the other: never more than 4 MiB at a time. */
static void wander(long bytes) {
  for (long i = 0; i < bytes; i += 4 * MIB) {
    char *map = mmap(FREE + i, 4 * MIB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    touch(map, 4 * MIB);
    munmap(map, 4 * MIB);
  }
}

static void protection(void) {
  struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGILL, &action, NULL);
  static const unsigned long places[] = {CODE, SAVED, KERNEL, KERNEL + 8, KERNEL + 16};
  for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
    volatile uint64_t *place = (volatile uint64_t *)places[i];
    printf("store");
    fflush(stdout);
    if (!sigsetjmp(back, 1))
      *place = 0;
    printf("atomic");
    if (!sigsetjmp(back, 1))
      __atomic_fetch_add(place, 1, __ATOMIC_RELAXED);
    if (places[i] < KERNEL)
      continue;
    printf("load");
    if (!sigsetjmp(back, 1))
      printf(" gave %lx\n", (unsigned long)*place);
    printf("jump");
    if (!sigsetjmp(back, 1))
      ((void (*)(void))places[i])();
  }
  /* What machine mode does first is to write a register of its own. */
  for (long saved = 0; saved < 2; saved++) {
    printf("machine's code");
    if (!sigsetjmp(back, 1))
      ((void (*)(void))CODE)();
  }
  printf("CSR");
  unsigned long value;
  if (!sigsetjmp(back, 1))
    __asm__ volatile("csrr %0, mepc" : "=r"(value));
  printf("mret");
  if (!sigsetjmp(back, 1))
    __asm__ volatile("mret");
  puts("protected");
}

/* A mapping with something behind it, which has to move to grow. */
static void move(long bytes) {
  int *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mmap((char *)map + bytes, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  long words = bytes / sizeof *map;
  for (long i = 0; i < words; i += 16)
    map[i] = i + 1;
  int *moved = mremap(map, bytes, 2 * bytes, MREMAP_MAYMOVE);
  long wrong = 0;
  for (long i = 0; i < 2 * words; i += 16)
    wrong += moved[i] != (i < words ? i + 1 : 0);
  /* Whoever comes next gets the old place, and finds zeros. */
  int *next = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 0; i < words; i += 16)
    wrong += next[i] != 0;
  printf("moved %d, again %d, wrong %ld\n", moved != map, next == map, wrong);
}

static void backlog(int room) {
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0here"};
  int server = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(server, (void *)&name, sizeof name);
  listen(server, room);
  int made = 0;
  for (int i = 0; i < 100; i++) {
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connect(client, (void *)&name, sizeof name) == 0)
      made++;
    else if (errno != EAGAIN)
      printf("errno %d\n", errno);
    close(client);
  }
  printf("%d connections", made);
  for (int i = 0; i < 2; i++)
    close(accept(server, NULL, NULL));
  int client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  printf(", then %d\n", connect(client, (void *)&name, sizeof name));
}

/* Messages that nobody reads. */
static void letters(void) {
  int pair[2];
  socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair);
  static char letter[10000];
  int sent = 0;
  while (send(pair[0], letter, sizeof letter, 0) == sizeof letter)
    sent++;
  printf("%d letters, errno %d\n", sent, errno);
}

static void files(void) {
  int file = open("large", O_RDWR | O_CREAT | O_TRUNC, 0600);
  printf("allocated %d", fallocate(file, 0, 0, 1L << 40));
  printf(" (%d)", errno);
  ftruncate(file, 1L << 40);
  void *map = mmap(NULL, 1L << 40, PROT_READ, MAP_PRIVATE, file, 0);
  printf(", mapped %d (%d)", map != MAP_FAILED, errno);
  struct stat status;
  fstat(file, &status);
  printf(", %ld blocks\n", (long)status.st_blocks);
}

int main(int count, char **arguments) {
  const char *what = arguments[1];
  long amount = count > 2 ? atol(arguments[2]) : 0;
  setvbuf(stdout, NULL, _IOLBF, 4096);
  if (strcmp(what, "touch") == 0)
    touch(FREE, amount * MIB);
  if (strcmp(what, "wander") == 0)
    wander(amount * MIB);
  if (strcmp(what, "protection") == 0)
    protection();
  if (strcmp(what, "move") == 0)
    move(amount * MIB);
  if (strcmp(what, "backlog") == 0)
    backlog(amount);
  if (strcmp(what, "letters") == 0)
    letters();
  if (strcmp(what, "files") == 0)
    files();
  if (strcmp(what, "talk") == 0)
    for (long i = 0; i < amount; i++)
      write(1, "0123456789abcde\n", 16);
  for (volatile long i = 0; strcmp(what, "spin") == 0 && i < amount; i++)
    ;
  return 0;
}
