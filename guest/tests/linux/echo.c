/* A TCP server with a thread for each connection, and its clients. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 3
#define REQUESTS 20

static struct sockaddr_in address;

static void *serve(void *argument) {
  int connection = (int)(long)argument;
  char bytes[512];
  ssize_t length;
  while ((length = recv(connection, bytes, sizeof bytes, 0)) > 0) {
    for (ssize_t i = 0; i < length; i++)
      bytes[i] ^= 0x20;
    send(connection, bytes, length, 0);
  }
  close(connection);
  return NULL;
}

static void *ask(void *argument) {
  long number = (long)argument, right = 0;
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (connect(connection, (struct sockaddr *)&address, sizeof address))
    perror("connect");
  for (int i = 0; i < REQUESTS; i++) {
    char sent[64], expected[64], received[64];
    int length = snprintf(sent, sizeof sent, "client %ld request %d", number, i);
    for (int k = 0; k < length; k++)
      expected[k] = sent[k] ^ 0x20;
    send(connection, sent, length, 0);
    recv(connection, received, length, MSG_WAITALL);
    right += memcmp(received, expected, length) == 0;
  }
  close(connection);
  return (void *)right;
}

int main(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8) ||
      getsockname(listener, (struct sockaddr *)&address, &length)) {
    perror("listener");
    return 1;
  }
  pthread_t clients[CLIENTS], servers[CLIENTS];
  for (long i = 0; i < CLIENTS; i++)
    pthread_create(&clients[i], NULL, ask, (void *)i);
  for (int i = 0; i < CLIENTS; i++) {
    struct sockaddr_in peer;
    length = sizeof peer;
    int connection = accept(listener, (struct sockaddr *)&peer, &length);
    if (connection < 0 || peer.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
      perror("accept");
    pthread_create(&servers[i], NULL, serve, (void *)(long)connection);
  }
  long right = 0;
  for (int i = 0; i < CLIENTS; i++) {
    void *result;
    pthread_join(clients[i], &result);
    right += (long)result;
    pthread_join(servers[i], NULL);
  }
  printf("%ld of %d answers are right\n", right, CLIENTS * REQUESTS);
  return 0;
}
