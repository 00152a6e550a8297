/* Clocks and sleep, which are exact in simulated time. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(void) {
  struct timespec request = {0, 3000000};
  long long before = now(CLOCK_MONOTONIC), cpu_before = now(CLOCK_PROCESS_CPUTIME_ID);
  nanosleep(&request, NULL);
  long long slept = now(CLOCK_MONOTONIC) - before;
  long long worked = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
  /* Not less than was asked for; what is more are some calls. */
  printf("slept enough: %d\n", slept >= 3000000 && slept < 3020000);
  printf("did not work: %d\n", worked >= 0 && worked < 20000);
  long long until = before + 5000000;
  struct timespec absolute = {until / 1000000000, until % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &absolute, NULL);
  long long late = now(CLOCK_MONOTONIC) - until;
  printf("woke in time: %d\n", late >= 0 && late < 10000);

  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  before = now(CLOCK_REALTIME);
  limit.tv_nsec += 2000000;
  pthread_mutex_lock(&mutex);
  int error = pthread_cond_timedwait(&condition, &mutex, &limit);
  late = now(CLOCK_REALTIME) - before;
  printf("timed out: %d\n", error == ETIMEDOUT && late >= 2000000 && late < 2020000);

  time_t seconds = time(NULL);
  struct tm *date = gmtime(&seconds);
  printf("%04d-%02d-%02d\n", date->tm_year + 1900, date->tm_mon + 1, date->tm_mday);
  unsigned long ticks, later;
  __asm__ volatile("rdtime %0" : "=r"(ticks));
  usleep(100);
  __asm__ volatile("rdtime %0" : "=r"(later));
  printf("rdtime counts microseconds: %d\n", later - ticks >= 100 && later - ticks < 110);
  return 0;
}
