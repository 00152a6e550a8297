/* Processes: their memory, how they end, pipes, signals and programs that they execute. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))
#define CROWD 40

static void fail(int line, const char *what) {
  printf("line %d: %s (errno %d)\n", line, what, errno);
  fflush(stdout);
  _exit(1);
}

static int status_of(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

static int global = 1;
static char page[3 * 4096];

/* What one process writes after fork the other does not see, unless they share it. */
static void memory(void) {
  int local = 2;
  int *heap = malloc(1 << 20);
  int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  double real = 1.5;
  __asm__ volatile("" : "+f"(real));
  heap[100] = 3;
  page[5000] = 4;
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    CHECK(global == 1 && local == 2 && heap[100] == 3 && page[5000] == 4 && real == 1.5);
    global = local = heap[100] = page[5000] = 10;
    page[0] = 11;
    *shared = 12;
    CHECK(getppid() > 1 && getpid() != getppid());
    _exit(global + page[0]);
  }
  global++;
  CHECK(WEXITSTATUS(status_of(child)) == 21);
  CHECK(global == 2 && local == 2 && heap[100] == 3 && page[5000] == 4 && page[0] == 0);
  CHECK(*shared == 12);
  /* Of three generations each sees what its parent had. */
  child = fork();
  if (!child) {
    page[4096] = 20;
    child = fork();
    if (!child) {
      page[4097] = 30;
      _exit(page[4096] + page[4097]);
    }
    int status = status_of(child);
    _exit(WEXITSTATUS(status) + page[4096] + page[4097]);
  }
  CHECK(WEXITSTATUS(status_of(child)) == 70 && page[4096] == 0);
  free(heap);
  puts("memory");
}

static void endings(void) {
  CHECK(wait(NULL) == -1 && errno == ECHILD);
  pid_t child = fork();
  if (!child) {
    pause();
    _exit(0);
  }
  CHECK(waitpid(child, NULL, WNOHANG) == 0);
  CHECK(kill(child, SIGTERM) == 0);
  int status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK(kill(child, 0) == -1 && errno == ESRCH);
  child = fork();
  if (!child)
    abort();
  status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  child = fork();
  if (!child)
    exit(300);
  siginfo_t about = {0};
  CHECK(waitid(P_PID, child, &about, WEXITED | WNOWAIT) == 0);
  CHECK(about.si_pid == child && about.si_code == CLD_EXITED && about.si_status == 300 % 256);
  struct rusage usage;
  CHECK(wait4(-1, &status, 0, &usage) == child && WEXITSTATUS(status) == 300 % 256);
  /* A child whose parent has ended has another one. */
  int ends[2];
  CHECK(pipe(ends) == 0);
  child = fork();
  if (!child) {
    pid_t parent = getpid();
    if (!fork()) {
      while (getppid() == parent)
        usleep(100);
      CHECK(write(ends[1], "x", 1) == 1);
      _exit(0);
    }
    _exit(0);
  }
  close(ends[1]);
  char byte;
  CHECK(status_of(child) == 0);
  CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
  CHECK(read(ends[0], &byte, 1) == 0);
  close(ends[0]);
  puts("endings");
}

/* More bytes than a pipe holds, there and back. */
static void pipes(void) {
  enum { BYTES = 200000 };
  int there[2], back[2];
  CHECK(pipe2(there, O_CLOEXEC) == 0 && pipe(back) == 0);
  pid_t child = fork();
  if (!child) {
    close(there[1]);
    close(back[0]);
    char buffer[5000];
    ssize_t count;
    while ((count = read(there[0], buffer, sizeof buffer)) > 0) {
      for (ssize_t i = 0; i < count; i++)
        buffer[i]++;
      CHECK(write(back[1], buffer, count) == count);
    }
    _exit(0);
  }
  pid_t feeder = fork();
  if (!feeder) {
    close(back[0]);
    close(back[1]);
    static char bytes[BYTES];
    for (int i = 0; i < BYTES; i++)
      bytes[i] = (char)(i % 251);
    CHECK(write(there[1], bytes, BYTES) == BYTES);
    _exit(0);
  }
  close(there[0]);
  close(there[1]);
  close(back[1]);
  long total = 0;
  unsigned char buffer[3000];
  ssize_t count;
  while ((count = read(back[0], buffer, sizeof buffer)) > 0)
    for (ssize_t i = 0; i < count; i++)
      CHECK(buffer[i] == (unsigned char)((total++) % 251 + 1));
  CHECK(total == BYTES && status_of(child) == 0 && status_of(feeder) == 0);
  /* Nobody reads any more. */
  CHECK(pipe(there) == 0);
  child = fork();
  if (!child) {
    close(there[0]);
    usleep(1000);
    CHECK(write(there[1], "x", 1) == 1);
    _exit(0);
  }
  close(there[0]);
  int status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
  close(there[1]);
  puts("pipes");
}

static volatile sig_atomic_t caught;
static volatile pid_t sender;

static void handler(int signal, siginfo_t *about, void *context) {
  (void)context;
  caught = signal;
  sender = about->si_pid;
}

static void signals(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGCHLD, &action, NULL);
  sigset_t usr, none;
  sigemptyset(&none);
  sigemptyset(&usr);
  sigaddset(&usr, SIGUSR1);
  sigaddset(&usr, SIGCHLD);
  sigprocmask(SIG_BLOCK, &usr, NULL);
  pid_t parent = getpid(), child = fork();
  if (!child) {
    CHECK(kill(parent, SIGUSR1) == 0);
    while (caught != SIGUSR1)
      sigsuspend(&none);
    _exit(sender == parent ? 5 : 6);
  }
  while (caught != SIGUSR1)
    sigsuspend(&none);
  CHECK(sender == child);
  CHECK(kill(child, SIGUSR1) == 0);
  while (caught != SIGCHLD)
    sigsuspend(&none);
  CHECK(sender == child && WEXITSTATUS(status_of(child)) == 5);
  sigprocmask(SIG_UNBLOCK, &usr, NULL);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGUSR1, SIG_DFL);
  /* A group of three, ended at once. */
  pid_t members[3];
  for (int i = 0; i < 3; i++) {
    members[i] = fork();
    if (!members[i])
      for (;;)
        pause();
    CHECK(setpgid(members[i], members[0]) == 0);
  }
  CHECK(getpgid(members[2]) == members[0] && getpgrp() != members[0]);
  CHECK(kill(-members[0], SIGINT) == 0);
  for (int i = 0; i < 3; i++) {
    int status;
    CHECK(waitpid(-members[0], &status, 0) > 0 && WTERMSIG(status) == SIGINT);
  }
  CHECK(waitpid(-members[0], NULL, 0) == -1 && errno == ECHILD);
  child = fork();
  if (!child)
    _exit(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid() ? 1 : 2);
  CHECK(WEXITSTATUS(status_of(child)) == 1);
  puts("signals");
}

static void execution(const char *own) {
  int kept = open("/dev/null", O_RDONLY), closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int copy = dup3(kept, 50, O_CLOEXEC);
  CHECK(kept >= 0 && closed >= 0 && copy == 50);
  char keeps[9], closes[9];
  sprintf(keeps, "%d", kept);
  sprintf(closes, "%d", closed);
  signal(SIGUSR1, SIG_IGN);
  char *arguments[] = {"a program", "executed", keeps, closes, "", NULL};
  char *environment[] = {"ONE=1", "TWO=2 3", NULL};
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    execve(own, arguments, environment);
    _exit(1);
  }
  CHECK(WEXITSTATUS(status_of(child)) == 33);
  /* The same without a copy of the memory. */
  child = vfork();
  if (!child) {
    execve("/proc/self/exe", arguments, environment);
    _exit(1);
  }
  CHECK(WEXITSTATUS(status_of(child)) == 33);
  CHECK(posix_spawn(&child, own, NULL, NULL, arguments, environment) == 0);
  CHECK(WEXITSTATUS(status_of(child)) == 33);
  CHECK(posix_spawn(&child, "/nowhere", NULL, NULL, arguments, environment) == ENOENT);
  CHECK(execve("/nowhere", arguments, environment) == -1 && errno == ENOENT);
  CHECK(execve("/dev/null", arguments, environment) == -1 && errno == EACCES);
  int file = open("script", O_WRONLY | O_CREAT | O_TRUNC, 0700);
  CHECK(dprintf(file, "#!%s  an argument\n", own) > 0 && close(file) == 0);
  child = fork();
  if (!child) {
    execl("./script", "ignored", "more", NULL);
    _exit(1);
  }
  CHECK(WEXITSTATUS(status_of(child)) == 34);
  unlink("script");
  file = open("text", O_WRONLY | O_CREAT | O_TRUNC, 0700);
  CHECK(write(file, "no program\n", 11) == 11 && close(file) == 0);
  CHECK(execve("./text", arguments, environment) == -1 && errno == ENOEXEC);
  unlink("text");
  signal(SIGUSR1, SIG_DFL);
  puts("execution");
}

static int executed(int count, char **arguments, char **environment) {
  CHECK(count == 5 && !strcmp(arguments[0], "a program") && !*arguments[4]);
  CHECK(!strcmp(environment[0], "ONE=1") && !strcmp(environment[1], "TWO=2 3"));
  CHECK(!environment[2]);
  CHECK(fcntl(atoi(arguments[2]), F_GETFD) == 0);
  CHECK(fcntl(atoi(arguments[3]), F_GETFD) == -1 && fcntl(50, F_GETFD) == -1);
  struct sigaction action;
  sigaction(SIGUSR1, NULL, &action);
  CHECK(action.sa_handler == SIG_IGN);
  CHECK(global == 1 && page[5000] == 0);
  puts("executed");
  return 33;
}

/* More processes than harts, which all compute and none of which waits. */
static void crowd(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  for (long i = 0; i < CROWD; i++)
    if (!fork()) {
      unsigned long value = i;
      for (int turn = 0; turn < 20000; turn++)
        value = value * 6364136223846793005u + 1442695040888963407u;
      CHECK(write(ends[1], &value, sizeof value) == sizeof value);
      _exit(0);
    }
  close(ends[1]);
  unsigned long value, all = 0;
  int count = 0;
  while (read(ends[0], &value, sizeof value) == sizeof value)
    all ^= value, count++;
  while (wait(NULL) > 0)
    count++;
  printf("crowd %d: %lx\n", count, all);
  close(ends[0]);
}

int main(int count, char **arguments, char **environment) {
  setvbuf(stdout, NULL, _IOLBF, 4096);
  if (count > 1 && !strcmp(arguments[1], "executed"))
    return executed(count, arguments, environment);
  if (count > 1 && !strcmp(arguments[1], "an argument"))
    return !strcmp(arguments[2], "./script") && !strcmp(arguments[3], "more") ? 34 : 1;
  memory();
  endings();
  pipes();
  signals();
  execution(count > 1 ? arguments[1] : "/proc/self/exe");
  crowd();
  puts("processes: right");
  return 0;
}
