/* Waiting for several things: poll, select, epoll, eventfd, pipes between threads. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))
#define MANY 300000

static void fail(int line, const char *what) {
  printf("line %d: %s: %s\n", line, what, strerror(errno));
  exit(1);
}

static int pair[2], event;

static void *later(void *argument) {
  usleep(50);
  CHECK(write(*(int *)argument, "12345678", 8) == 8);
  return NULL;
}

static void *pours(void *unused) {
  char *bytes = malloc(MANY);
  for (int i = 0; i < MANY; i++)
    bytes[i] = (char)(i % 253);
  /* More than a pipe holds: it waits until all is taken. */
  CHECK(write(pair[1], bytes, MANY) == MANY);
  close(pair[1]);
  free(bytes);
  return unused;
}

static void start(pthread_t *thread, void *(*work)(void *), void *argument) {
  CHECK(pthread_create(thread, NULL, work, argument) == 0);
}

/* Datagrams, with and without a connection, and messages in parts. */
static void datagrams(void) {
  int one = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(5353)}, from;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(one, (struct sockaddr *)&place, sizeof place) == 0);
  CHECK(bind(other, (struct sockaddr *)&place, sizeof place) == -1 && errno == EADDRINUSE);
  CHECK(sendto(other, "first", 5, 0, (struct sockaddr *)&place, sizeof place) == 5);
  CHECK(connect(other, (struct sockaddr *)&place, sizeof place) == 0);
  CHECK(send(other, "second", 6, 0) == 6);
  char bytes[100], more[3];
  socklen_t length = sizeof from;
  CHECK(recvfrom(one, bytes, 3, 0, (struct sockaddr *)&from, &length) == 3);
  CHECK(memcmp(bytes, "fir", 3) == 0 && length == sizeof from && from.sin_port != 0);
  struct iovec parts[2] = {{more, 3}, {bytes, 100}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  CHECK(recvmsg(one, &message, 0) == 6);
  CHECK(memcmp(more, "sec", 3) == 0 && memcmp(bytes, "ond", 3) == 0);
  CHECK(recv(one, bytes, 100, MSG_DONTWAIT) == -1 && errno == EAGAIN);
  CHECK(sendto(one, "back", 4, 0, (struct sockaddr *)&from, length) == 4);
  CHECK(recv(other, bytes, 100, 0) == 4);
  place.sin_port = htons(5354);
  int stream = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(stream, (struct sockaddr *)&place, sizeof place) == -1 && errno == ECONNREFUSED);
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  struct iovec sent[2] = {{"ab", 2}, {"cde", 3}};
  struct msghdr out = {.msg_iov = sent, .msg_iovlen = 2};
  CHECK(sendmsg(ends[0], &out, 0) == 5 && send(ends[0], "next", 4, 0) == 4);
  CHECK(read(ends[1], bytes, 100) == 5 && memcmp(bytes, "abcde", 5) == 0);
  CHECK(read(ends[1], bytes, 100) == 4 && close(ends[0]) == 0);
  CHECK(read(ends[1], bytes, 100) == 0);
}

int main(void) {
  pthread_t thread;
  char bytes[8];
  CHECK(pipe(pair) == 0);
  event = eventfd(0, EFD_NONBLOCK);
  CHECK(event >= 0);

  struct pollfd polled[3] = {{pair[0], POLLIN, 0}, {event, POLLIN, 0}, {-1, POLLIN, 9}};
  CHECK(poll(polled, 3, 0) == 0 && polled[2].revents == 0);
  CHECK(poll(polled, 3, 1) == 0);
  start(&thread, later, &pair[1]);
  CHECK(poll(polled, 3, -1) == 1 && polled[0].revents == POLLIN && polled[1].revents == 0);
  CHECK(read(pair[0], bytes, 8) == 8);
  pthread_join(thread, NULL);

  fd_set set;
  FD_ZERO(&set);
  FD_SET(pair[0], &set);
  struct timeval time = {0, 100};
  CHECK(select(pair[0] + 1, &set, NULL, NULL, &time) == 0 && !FD_ISSET(pair[0], &set));
  FD_SET(pair[0], &set);
  start(&thread, later, &pair[1]);
  CHECK(select(pair[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(pair[0], &set));
  CHECK(read(pair[0], bytes, 8) == 8);
  pthread_join(thread, NULL);

  uint64_t count = 5;
  CHECK(read(event, &count, 8) == -1 && errno == EAGAIN);
  CHECK(write(event, &count, 8) == 8 && write(event, &count, 8) == 8);
  CHECK(read(event, &count, 8) == 8 && count == 10);

  int epoll = epoll_create1(0);
  struct epoll_event interest = {EPOLLIN, {.u64 = 11}}, told[4];
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &interest) == 0);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &interest) == -1 && errno == EEXIST);
  interest.events = EPOLLIN | EPOLLET;
  interest.data.u64 = 22;
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &interest) == 0);
  CHECK(epoll_wait(epoll, told, 4, 0) == 0);
  start(&thread, later, &pair[1]);
  CHECK(epoll_wait(epoll, told, 4, -1) == 1 && told[0].data.u64 == 11);
  pthread_join(thread, NULL);
  CHECK(write(event, &count, 8) == 8);
  /* The pipe is told of as long as it is readable, the event once. */
  CHECK(epoll_wait(epoll, told, 4, -1) == 2);
  CHECK(epoll_wait(epoll, told, 4, -1) == 1 && told[0].data.u64 == 11);
  CHECK(read(pair[0], bytes, 8) == 8);
  CHECK(epoll_wait(epoll, told, 4, 0) == 0);
  CHECK(write(event, &count, 8) == 8);
  CHECK(epoll_wait(epoll, told, 4, 0) == 1 && told[0].data.u64 == 22);

  start(&thread, pours, NULL);
  long sum = 0, length;
  int total = 0;
  char *buffer = malloc(10007);
  while ((length = read(pair[0], buffer, 10007)) > 0)
    for (int i = 0; i < length; i++)
      sum += buffer[i] == (char)(total++ % 253);
  CHECK(length == 0 && total == MANY && sum == MANY);
  pthread_join(thread, NULL);

  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CHECK(write(ends[0], "there", 5) == 5 && read(ends[1], bytes, 8) == 5);
  CHECK(write(ends[1], "back", 4) == 4 && recv(ends[0], bytes, 8, MSG_PEEK) == 4);
  CHECK(read(ends[0], bytes, 8) == 4 && memcmp(bytes, "back", 4) == 0);
  CHECK(shutdown(ends[0], SHUT_WR) == 0 && read(ends[1], bytes, 8) == 0);
  CHECK(send(ends[0], bytes, 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
  datagrams();
  puts("waiting: right");
  return 0;
}
