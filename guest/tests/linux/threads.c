/* What threads share, counted exactly: mutexes, conditions, barriers, semaphores, reader-writer
   locks, thread-local storage. The argument is the number of threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITERATIONS 200
#define MOST 64

static int threads;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static sem_t semaphore;
static long counted, turn, onces, pairs_differ;
static long pair[2];
static atomic_long atomically, phases[ITERATIONS];
static _Thread_local long own = 7;

static void only_once(void) { onces++; }

static void *work(void *argument) {
  long number = (long)argument;
  pthread_once(&once, only_once);
  own += number;
  for (int i = 0; i < ITERATIONS; i++) {
    pthread_mutex_lock(&mutex);
    counted++;
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&atomically, number);
    own++;
    if (i % 8 == number % 8) {
      pthread_rwlock_wrlock(&rwlock);
      pair[0]++;
      pair[1]++;
      pthread_rwlock_unlock(&rwlock);
    } else {
      pthread_rwlock_rdlock(&rwlock);
      if (pair[0] != pair[1])
        pairs_differ++;
      pthread_rwlock_unlock(&rwlock);
    }
  }
  /* In turns, by a condition. */
  for (int i = 0; i < 5; i++) {
    pthread_mutex_lock(&mutex);
    while (turn % threads != number)
      pthread_cond_wait(&condition, &mutex);
    turn++;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
  }
  /* All together, by a barrier. */
  for (int i = 0; i < 10; i++) {
    atomic_fetch_add(&phases[i], 1);
    pthread_barrier_wait(&barrier);
    if (phases[i] != threads)
      pairs_differ++;
  }
  sem_post(&semaphore);
  return (void *)own;
}

int main(int argc, char **argv) {
  threads = argc > 1 ? atoi(argv[1]) : 4;
  pthread_barrier_init(&barrier, NULL, threads);
  sem_init(&semaphore, 0, 0);
  pthread_t handles[MOST];
  for (long i = 0; i < threads; i++) {
    int error = pthread_create(&handles[i], NULL, work, (void *)i);
    if (error) {
      printf("thread %ld: %s\n", i, strerror(error));
      return error == EAGAIN ? 11 : 1;
    }
  }
  for (int i = 0; i < threads; i++)
    sem_wait(&semaphore);
  long owns = 0;
  for (int i = 0; i < threads; i++) {
    void *result;
    pthread_join(handles[i], &result);
    owns += (long)result;
  }
  /* Harts are used again by later threads. */
  for (long i = 0; i < 3; i++) {
    threads = 1;
    pthread_barrier_destroy(&barrier);
    pthread_barrier_init(&barrier, NULL, 1);
    memset(phases, 0, sizeof phases);
    turn = 0;
    pthread_create(&handles[0], NULL, work, NULL);
    pthread_join(handles[0], NULL);
  }
  printf("counted %ld, atomically %ld, owns %ld, own %ld, once %ld, pair %ld, wrong %ld\n", counted,
         atomically, owns, own, onces, pair[0], pairs_differ);
  return 0;
}
