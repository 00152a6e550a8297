/* Fails as its argument says. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) int dereference(int *pointer) { return *(volatile int *)pointer; }

__attribute__((noinline)) long descend(long depth) {
  volatile char frame[1000];
  frame[depth % 1000] = (char)depth;
  if (depth < 0)
    return 0;
  return depth + descend(depth + 1) + frame[0];
}

static void *crash(void *pointer) {
  dereference(pointer);
  return NULL;
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  if (!strcmp(how, "null"))
    return dereference(NULL);
  if (!strcmp(how, "thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, crash, (void *)8);
    pthread_join(thread, NULL);
  }
  if (!strcmp(how, "illegal"))
    __asm__ volatile(".word 0xffffffff");
  if (!strcmp(how, "privileged"))
    __asm__ volatile("csrr a0, mhartid");
  if (!strcmp(how, "stack"))
    return (int)descend(0);
  if (!strcmp(how, "abort"))
    abort();
  if (!strcmp(how, "unknown")) {
    for (int i = 0; i < 3; i++)
      if (syscall(425, 1, NULL) != -1 || errno != ENOSYS)
        return 1;
    return syscall(7777) == -1 && errno == ENOSYS ? 0 : 1;
  }
  if (!strcmp(how, "deadlock")) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
  }
  if (!strcmp(how, "memory"))
    return *(void *volatile[]){malloc(2ul << 30)} ? 1 : 0;
  return atoi(how);
}
