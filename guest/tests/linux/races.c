/* Processes with threads: some map, unmap and fork while calls of others read and write there. What
 * any of them sees is its own process's, or zero. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))
#define PROCESSES 3
#define BYTES (4 * 4096)
/* The same place in each process. */
#define PLACE ((char *)0x300000000)

static void fail(int line, const char *what) {
  printf("line %d: %s (errno %d)\n", line, what, errno);
  fflush(stdout);
  _exit(1);
}

static int rounds, own;
static volatile int stops;
static char copied[4096];

static void check(const char *bytes, ssize_t count) {
  for (ssize_t i = 0; i < count; i++)
    CHECK(bytes[i] == 0 || bytes[i] == own);
}

/* Reads the place by a call, whatever is there. */
static void *looks(void *nothing) {
  (void)nothing;
  int ends[2];
  char *bytes = malloc(BYTES);
  CHECK(pipe2(ends, O_NONBLOCK) == 0);
  while (!stops) {
    ssize_t count = write(ends[1], PLACE, BYTES);
    CHECK(count == BYTES || (count == -1 && errno == EFAULT));
    if (count > 0) {
      CHECK(read(ends[0], bytes, BYTES) == BYTES);
      check(bytes, BYTES);
    }
  }
  free(bytes);
  return NULL;
}

/* Writes into the place by a call, and into a page that is copied after each fork. */
static void *puts_there(void *nothing) {
  (void)nothing;
  int ends[2];
  char *bytes = malloc(BYTES);
  memset(bytes, own, BYTES);
  CHECK(pipe2(ends, O_NONBLOCK) == 0);
  while (!stops) {
    CHECK(write(ends[1], bytes, BYTES) == BYTES);
    if (read(ends[0], PLACE, BYTES) < 0) {
      CHECK(errno == EFAULT);
      CHECK(read(ends[0], bytes, BYTES) == BYTES);
    }
    check(bytes, BYTES);
    struct timeval now = {0};
    fd_set *set = (fd_set *)copied;
    FD_ZERO(set);
    FD_SET(ends[1], set);
    CHECK(select(ends[1] + 1, NULL, set, NULL, &now) == 1 && FD_ISSET(ends[1], set));
    check(copied + sizeof(fd_set), sizeof copied - sizeof(fd_set));
  }
  free(bytes);
  return NULL;
}

static void process(void) {
  pthread_t threads[2];
  CHECK(pthread_create(&threads[0], NULL, looks, NULL) == 0);
  CHECK(pthread_create(&threads[1], NULL, puts_there, NULL) == 0);
  for (int i = 0; i < rounds; i++) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(PLACE, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) == PLACE);
    check(PLACE, BYTES);
    memset(PLACE, own, BYTES);
    memset(copied + 2048, own, 2048);
    if (i % 4 == 0) {
      pid_t child = fork();
      if (!child) {
        check(PLACE, BYTES);
        memset(PLACE, own, BYTES);
        _exit(0);
      }
      int status;
      CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    check(PLACE, BYTES);
    CHECK(munmap(PLACE, BYTES) == 0);
  }
  stops = 1;
  for (int i = 0; i < 2; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int count, char **arguments) {
  rounds = count > 1 ? atoi(arguments[1]) : 20;
  pid_t children[PROCESSES];
  for (int i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    if (!children[i]) {
      own = i + 1;
      process();
      exit(0);
    }
  }
  for (int i = 0; i < PROCESSES; i++) {
    int status;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  puts("races: right");
  return 0;
}
