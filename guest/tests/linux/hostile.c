/* A program that means no good: wrong pointers, lengths that overflow, garbage as programs, signals
 * to whoever there is, and as many processes as it can get. The kernel refuses, and goes on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))
#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1) && errno == (error))
#define PAGE 4096L
/* What machine mode has: the code that takes traps, and the agent that answers. */
#define MACHINE 0xffffffff80000000L
#define AGENT 0xffffffff80100000L
/* Where a page is that only the parent has. */
#define SECRET 0x200000000L
/* The page that calls handlers of signals. */
#define HANDLERS 0x3000000000L

static void fail(int line, const char *what) {
  printf("line %d: %s (errno %d)\n", line, what, errno);
  fflush(stdout);
  _exit(1);
}

static void *map(void *at, long pages, int protection, int flags) {
  void *mapped = mmap(at, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  CHECK(mapped != MAP_FAILED);
  return mapped;
}

static void rung(int signal) { (void)signal; }

static uint64_t state = 1;

static unsigned any(unsigned below) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return (state >> 33) % below;
}

/* Calls that end a process, that change what the test needs, or that have a test of their own. */
static int is_left_out(long call) {
  static const short left_out[] = {
      SYS_close,          SYS_dup3,         SYS_close_range, SYS_exit,      SYS_exit_group,
      SYS_setitimer,      SYS_kill,         SYS_tkill,       SYS_tgkill,    SYS_rt_sigaction,
      SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_munmap,      SYS_mremap,    SYS_mprotect,
      SYS_mmap,           SYS_brk,          SYS_clone,       SYS_execve,    SYS_execveat,
      SYS_clone3,         SYS_madvise,      SYS_sigaltstack, SYS_ftruncate, SYS_fallocate,
  };
  for (unsigned i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (left_out[i] == call)
      return 1;
  return 0;
}

/* All calls with pointers to nothing, to what may not be written, to the machine's memory and to
 * another process's. */
static void attack_calls(int rounds) {
  char *pages = map(NULL, 5, PROT_READ | PROT_WRITE, 0);
  char *written = pages + PAGE, *constant = pages + 3 * PAGE;
  memset(constant, 0, PAGE);
  strcpy(constant + 2048, "../../../../../../etc/passwd");
  CHECK(mprotect(pages, PAGE, PROT_NONE) == 0 && mprotect(pages + 2 * PAGE, PAGE, PROT_NONE) == 0);
  CHECK(mprotect(constant, PAGE, PROT_READ) == 0 && munmap(pages + 4 * PAGE, PAGE) == 0);
  int pipes[2], sockets[2];
  CHECK(pipe2(pipes, O_NONBLOCK) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0);
  int zero = open("/dev/zero", O_RDONLY), directory = open("/", O_RDONLY);
  CHECK(zero > 0 && directory > 0);
  const long values[] = {
      /* Pages that are there, and what is behind their ends. */
      (long)written,
      (long)written + PAGE - 4,
      (long)constant,
      (long)constant + 2048,
      (long)constant + PAGE - 4,
      (long)pages,
      (long)fail,
      /* What is not there, or somebody else's. */
      0,
      8,
      PAGE,
      (long)constant + PAGE,
      SECRET,
      SECRET + PAGE - 1,
      MACHINE,
      MACHINE + PAGE,
      AGENT,
      HANDLERS,
      0x2000000000,
      0x4000000000,
      0x4000001000,
      1L << 38,
      1L << 62,
      /* Numbers. */
      1,
      2,
      3,
      64,
      1 << 20,
      INT32_MAX,
      INT32_MIN,
      UINT32_MAX,
      INT64_MAX,
      INT64_MIN,
      -1,
      -2,
      -8,
      -PAGE,
      /* Open files. */
      pipes[0],
      pipes[1],
      sockets[0],
      sockets[1],
      zero,
      directory,
      AT_FDCWD,
  };
  const unsigned count = sizeof values / sizeof *values;
  struct sigaction action = {.sa_handler = rung};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  /* A call that waits is interrupted. */
  struct itimerval each = {{0, 1000}, {0, 1000}};
  CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
  for (long call = 0; call < 470; call++) {
    for (int i = 0; i < rounds && !is_left_out(call); i++) {
      long a[6];
      for (int j = 0; j < 6; j++)
        a[j] = values[any(count)];
      syscall(call, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    /* Nothing of it is the parent's. */
    for (long at = 0; at + 8 <= PAGE; at++)
      CHECK(memcmp(written + at, "secret-!", 8));
  }
  for (long at = 0; at < PAGE; at++)
    CHECK(constant[at] == 0 || at >= 2048);
  CHECK(!strcmp(constant + 2048, "../../../../../../etc/passwd"));
  struct itimerval never = {0};
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void calls(int rounds) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    attack_calls(rounds);
    _exit(0);
  }
  char *secret = map((void *)SECRET, 1, PROT_READ | PROT_WRITE, MAP_FIXED);
  for (long at = 0; at < PAGE; at += 8)
    memcpy(secret + at, "secret-!", 8);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (long at = 0; at < PAGE; at += 8)
    CHECK(!memcmp(secret + at, "secret-!", 8));
}

/* Sums that overflow, more memory than there is, and memory that is not the program's. */
static void memory(void) {
  const int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
  for (int bits = 36; bits < 64; bits++) {
    FAILS(mmap(NULL, 1L << bits, both, own, -1, 0), ENOMEM);
    FAILS(mmap((void *)(1L << bits), PAGE, both, own | MAP_FIXED, -1, 0), ENOMEM);
  }
  FAILS(mmap(NULL, -1, both, own, -1, 0), ENOMEM);
  FAILS(mmap(NULL, -PAGE, PROT_NONE, own, -1, 0), ENOMEM);
  FAILS(mmap(NULL, 0, both, own, -1, 0), EINVAL);
  FAILS(mmap((void *)-PAGE, 2 * PAGE, both, own | MAP_FIXED, -1, 0), ENOMEM);
  FAILS(mmap((void *)MACHINE, PAGE, both, own | MAP_FIXED, -1, 0), ENOMEM);
  FAILS(mmap((void *)HANDLERS, PAGE, both, own | MAP_FIXED, -1, 0), ENOMEM);
  char *page = map(NULL, 2, both, 0);
  CHECK(mmap((void *)-1, PAGE, both, own, -1, 0) != MAP_FAILED); /* only a hint */
  FAILS(munmap(page, -1), EINVAL);
  FAILS(munmap((void *)-PAGE, 2 * PAGE), EINVAL);
  FAILS(munmap((void *)HANDLERS, PAGE), EINVAL);
  CHECK(munmap((void *)MACHINE, PAGE) == 0); /* nothing is there */
  FAILS(syscall(SYS_mprotect, page, -1L, both), ENOMEM);
  FAILS(mprotect((void *)HANDLERS, PAGE, both | PROT_EXEC), EACCES);
  FAILS(mprotect((void *)MACHINE, PAGE, both), ENOMEM);
  FAILS(mremap(page, PAGE, -1, MREMAP_MAYMOVE), ENOMEM);
  FAILS(mremap(page, -1, PAGE, MREMAP_MAYMOVE), EINVAL);
  FAILS(mremap((void *)HANDLERS, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EINVAL);
  FAILS(mremap((void *)MACHINE, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
  FAILS(madvise((void *)-PAGE, 2 * PAGE, MADV_DONTNEED), EINVAL);
  void *end = sbrk(0);
  CHECK((void *)syscall(SYS_brk, -1L) == end && (void *)syscall(SYS_brk, 1L << 62) == end);
  /* What is read goes no further than the buffer, and what is written comes from nowhere else. */
  int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
  memset(page, 1, 2 * PAGE);
  CHECK(munmap(page + PAGE, PAGE) == 0);
  FAILS(read(zero, page + PAGE - 8, 16), EFAULT);
  FAILS(read(zero, page, -1), EFAULT);
  CHECK(page[PAGE - 1] == 1 && page[PAGE - 8] == 1 && page[0] == 1);
  int pipes[2];
  CHECK(pipe2(pipes, O_NONBLOCK) == 0);
  FAILS(write(pipes[1], page + PAGE - 8, 16), EFAULT);
  FAILS(write(null, page, -1), EFAULT);
  FAILS(read(pipes[0], page, 8), EAGAIN);
  /* A stack for signals that is nowhere: nothing can be delivered there. */
  stack_t small = {.ss_sp = page, .ss_size = 100};
  FAILS(sigaltstack(&small, NULL), ENOMEM);
  int status;
  pid_t child = fork();
  if (!child) {
    stack_t nowhere = {.ss_sp = (void *)-100, .ss_size = PAGE};
    struct sigaction action = {.sa_handler = rung, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&nowhere, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  cpu_set_t harts;
  CHECK(sched_getaffinity(0, sizeof harts, &harts) == 0);
  CHECK(CPU_COUNT(&harts) == sysconf(_SC_NPROCESSORS_CONF));
}

static void put(const char *name, const void *bytes, size_t count) {
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700);
  CHECK(file > 0 && write(file, bytes, count) == (ssize_t)count && close(file) == 0);
}

/* Garbage as programs, and arguments without end. */
static void programs(void) {
  char *argument[] = {"x", NULL};
  put("garbage", "\177EL", 3);
  FAILS(execve("garbage", argument, NULL), ENOEXEC);
  put("garbage", "", 0);
  FAILS(execve("garbage", argument, NULL), ENOEXEC);
  put("garbage", "#!", 2);
  FAILS(execve("garbage", argument, NULL), ENOEXEC);
  put("garbage", "#!garbage\n", 10);
  FAILS(execve("garbage", argument, NULL), ELOOP);
  put("garbage", "#!nothing\n", 10);
  FAILS(execve("garbage", argument, NULL), ENOENT);
  /* A header of a 64-bit program for RISC-V, with any numbers behind it. */
  unsigned char header[400] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0};
  for (int i = 0; i < 50; i++) {
    for (int at = 20; at < 400; at++)
      header[at] = any(3) ? 0 : any(256);
    header[16] = 2, header[17] = 0, header[18] = 0xf3, header[19] = 0;
    header[32] = 64; /* where the segments are described, and how */
    memset(header + 33, 0, 7);
    header[54] = 56, header[55] = 0, header[56] = 1 + any(5), header[57] = 0;
    header[64] = 1, header[65] = header[66] = header[67] = 0;
    put("garbage", header, 64 + any(330));
    CHECK(execve("garbage", argument, NULL) == -1 && (errno == ENOEXEC || errno == ENOMEM));
  }
  /* As large as no memory, and without any content. */
  int file = open("garbage", O_WRONLY | O_TRUNC);
  CHECK(ftruncate(file, 1L << 40) == 0 && close(file) == 0);
  FAILS(execve("garbage", argument, NULL), ENOMEM);
  FAILS(execve("/", argument, NULL), EACCES);
  FAILS(execve("/dev/null", argument, NULL), EACCES);
  FAILS(execve((char *)8, argument, NULL), EFAULT);
  FAILS(execve("/proc/self/exe", (char **)8, NULL), EFAULT);
  FAILS(execve("/proc/self/exe", (char *[]){(char *)MACHINE, NULL}, NULL), EFAULT);
  FAILS(execve("/proc/self/exe", argument, (char **)-8), EFAULT);
  /* A hundred times the same 128 KB. */
  char *many[101] = {0}, *text = map(NULL, 32, PROT_READ | PROT_WRITE, 0);
  memset(text, 'x', 32 * PAGE - 1);
  for (int i = 0; i < 100; i++)
    many[i] = text;
  FAILS(execve("/proc/self/exe", many, NULL), E2BIG);
  text[32 * PAGE - 1] = 'x';
  FAILS(execve("/proc/self/exe", many, NULL), E2BIG);
  many[0] = text + PAGE;
  FAILS(execve("/proc/self/exe", many, NULL), EFAULT);
  CHECK(unlink("garbage") == 0);
}

/* Signals to whoever there is. */
static void signals(void) {
  static const int nobody[] = {1, 2, 99, 101, INT32_MAX, -2, -99, INT32_MIN, -INT32_MAX};
  for (unsigned i = 0; i < sizeof nobody / sizeof *nobody; i++) {
    FAILS(kill(nobody[i], SIGKILL), ESRCH);
    FAILS(kill(nobody[i], 0), ESRCH);
  }
  FAILS(kill(-1, SIGKILL), ESRCH); /* there is nobody else */
  FAILS(kill(getpid(), 65), EINVAL);
  FAILS(kill(getpid(), -1), EINVAL);
  FAILS(syscall(SYS_tkill, 1, SIGKILL), ESRCH);
  FAILS(syscall(SYS_tgkill, 1, getpid(), SIGKILL), ESRCH);
  FAILS(syscall(SYS_tgkill, getpid(), -1, SIGKILL), ESRCH);
  FAILS(waitpid(1, NULL, 0), ECHILD);
  FAILS(setpgid(1, 1), ESRCH);
  FAILS(getpgid(1), ESRCH);
  /* A child's wish is for its own family. */
  int status, ends[2];
  CHECK(pipe(ends) == 0);
  pid_t other = fork();
  if (!other) {
    pause();
    _exit(0);
  }
  pid_t child = fork();
  if (!child) {
    FAILS(waitpid(other, &status, 0), ECHILD);
    FAILS(setpgid(other, other), ESRCH);
    CHECK(kill(-1, SIGKILL) == 0); /* all but itself and the first */
    _exit(7);
  }
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
  CHECK(waitpid(other, &status, 0) == other && WTERMSIG(status) == SIGKILL);
}

/* Every process makes others as long as there is one that can. */
static void bomb(void) {
  volatile int *shared =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  volatile int *refused = shared, *count = shared + 1;
  const pid_t first = getpid();
  while (!*refused) {
    pid_t child = fork();
    if (child < 0) {
      CHECK(errno == EAGAIN || errno == ENOMEM);
      *refused = 1;
    } else if (!child) {
      __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    }
  }
  while (waitpid(-1, NULL, 0) > 0)
    ;
  CHECK(errno == ECHILD);
  if (getpid() != first)
    _exit(0);
  printf("%d processes\n", *count + 1);
  /* There is room again. */
  pid_t child = fork();
  if (!child)
    _exit(3);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  if (!strcmp(what, "calls"))
    calls(atoi(arguments[2]));
  else if (!strcmp(what, "memory"))
    memory();
  else if (!strcmp(what, "programs"))
    programs();
  else if (!strcmp(what, "signals"))
    signals();
  else if (!strcmp(what, "bomb"))
    bomb();
  printf("%s: refused\n", what);
  return 0;
}
