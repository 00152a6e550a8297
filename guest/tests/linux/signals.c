/* Handlers of signals: sent by itself, by another thread, by a fault; masks, and what is
   interrupted. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))

static volatile int taken, stop;
static volatile double kept;
static void *volatile fault_address;
static sigjmp_buf back;
static pthread_t main_thread;

static void fail(int line, const char *what) {
  printf("line %d: %s: %s\n", line, what, strerror(errno));
  exit(1);
}

static void take(int signal) {
  taken += signal;
  kept = kept * 2; /* uses a floating-point register */
  stop = 1;
}

static void on_fault(int signal, siginfo_t *information, void *context) {
  fault_address = information->si_addr;
  CHECK(signal == SIGSEGV && context);
  siglongjmp(back, 1);
}

static void *send_later(void *argument) {
  usleep(100);
  CHECK(pthread_kill(main_thread, (int)(long)argument) == 0);
  return NULL;
}

static void *send_and_write(void *argument) {
  usleep(100);
  CHECK(pthread_kill(main_thread, SIGUSR2) == 0);
  usleep(100);
  CHECK(write(((int *)argument)[1], "r", 1) == 1);
  return NULL;
}

static void handle(int signal, int flags) {
  struct sigaction action = {.sa_handler = take, .sa_flags = flags};
  CHECK(sigaction(signal, &action, NULL) == 0);
}

int main(void) {
  main_thread = pthread_self();
  pthread_t thread;
  kept = 1.5;
  handle(SIGUSR1, 0);
  CHECK(raise(SIGUSR1) == 0 && taken == SIGUSR1 && kept == 3);
  CHECK(kill(getpid(), SIGUSR1) == 0 && taken == 2 * SIGUSR1);

  /* One that is blocked comes when it is not any more. */
  sigset_t set, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
  CHECK(taken == 2 * SIGUSR1 && sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
  CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && taken == 3 * SIGUSR1);

  /* A wait with a mask of its own; the old one comes back. */
  sigset_t none;
  sigemptyset(&none);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
  CHECK(ppoll(NULL, 0, NULL, &none) == -1 && errno == EINTR && taken == 4 * SIGUSR1);
  struct timespec soon = {0, 1000};
  CHECK(raise(SIGUSR1) == 0 && taken == 4 * SIGUSR1);
  CHECK(ppoll(NULL, 0, &soon, NULL) == 0 && taken == 4 * SIGUSR1);
  CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && taken == 5 * SIGUSR1);

  /* A wait takes one that is pending already, without its handler; then there is none. */
  taken = 0;
  siginfo_t information;
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
  CHECK(sigtimedwait(&set, &information, &soon) == SIGUSR1);
  CHECK(information.si_signo == SIGUSR1);
  CHECK(sigtimedwait(&set, &information, &soon) == -1 && errno == EAGAIN);
  CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && taken == 0);

  /* A thread that computes is interrupted, and goes on as if nothing had been. */
  taken = stop = 0;
  CHECK(pthread_create(&thread, NULL, send_later, (void *)SIGUSR1) == 0);
  double sum = 0;
  long iterations = 0;
  while (!stop) {
    sum += 0.5;
    iterations++;
  }
  CHECK(taken == SIGUSR1 && sum == iterations * 0.5);
  pthread_join(thread, NULL);

  /* A sleep ends early; a read that is to be made again is. */
  CHECK(pthread_create(&thread, NULL, send_later, (void *)SIGUSR1) == 0);
  CHECK(usleep(1000000) == -1 && errno == EINTR);
  pthread_join(thread, NULL);
  int pair[2];
  char byte;
  CHECK(pipe(pair) == 0);
  CHECK(pthread_create(&thread, NULL, send_later, (void *)SIGUSR1) == 0);
  CHECK(read(pair[0], &byte, 1) == -1 && errno == EINTR);
  pthread_join(thread, NULL);
  handle(SIGUSR2, SA_RESTART);
  taken = 0;
  CHECK(pthread_create(&thread, NULL, send_and_write, pair) == 0);
  CHECK(read(pair[0], &byte, 1) == 1 && byte == 'r' && taken == SIGUSR2);
  pthread_join(thread, NULL);

  /* A timer, once and again and again. */
  handle(SIGALRM, 0);
  taken = 0;
  struct itimerval timer = {{0, 300}, {0, 100}}, left;
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  for (int i = 1; i <= 3; i++) {
    CHECK(pause() == -1 && errno == EINTR);
    CHECK(taken == i * SIGALRM);
  }
  timer = (struct itimerval){{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &timer, &left) == 0);
  CHECK(left.it_interval.tv_usec == 300 && left.it_value.tv_usec <= 300);

  /* A fault with a handler, on a stack of its own. */
  static char other_stack[16384];
  stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  for (int i = 0; i < 3; i++)
    if (sigsetjmp(back, 1) == 0) {
      *(volatile int *)(0x18l + i) = 1;
      CHECK(!"reached");
    } else {
      CHECK(fault_address == (void *)(0x18l + i));
    }

  signal(SIGPIPE, SIG_IGN);
  close(pair[0]);
  CHECK(write(pair[1], "x", 1) == -1 && errno == EPIPE);
  puts("signals: right");
  return 0;
}
