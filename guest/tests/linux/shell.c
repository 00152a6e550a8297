/* A small shell: runs lines of commands such as `lines b a | upper | sort > file`, each command a
 * process that executes this program again; its commands are few. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 32
#define COMMANDS 8

struct command {
  char *words[WORDS + 1];
  int count;
  char *input, *output;
  int appends;
};

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int builtin(int count, char **words) {
  char *line = NULL;
  size_t room = 0;
  if (!strcmp(words[0], "echo")) {
    for (int i = 1; i < count; i++)
      printf("%s%s", words[i], i + 1 < count ? " " : "");
    putchar('\n');
  } else if (!strcmp(words[0], "lines")) {
    for (int i = 1; i < count; i++)
      puts(words[i]);
  } else if (!strcmp(words[0], "cat")) {
    while (getline(&line, &room, stdin) > 0)
      fputs(line, stdout);
  } else if (!strcmp(words[0], "upper")) {
    for (int c; (c = getchar()) != EOF;)
      putchar(toupper(c));
  } else if (!strcmp(words[0], "sort")) {
    static char *lines[1000];
    int n = 0;
    while (n < 1000 && getline(&line, &room, stdin) > 0)
      lines[n++] = strdup(line);
    qsort(lines, n, sizeof *lines, compare);
    for (int i = 0; i < n; i++)
      fputs(lines[i], stdout);
  } else if (!strcmp(words[0], "count")) {
    int n = 0;
    while (getline(&line, &room, stdin) > 0)
      n++;
    printf("%d\n", n);
  } else if (!strcmp(words[0], "numbers")) {
    for (int i = 0; i < atoi(words[1]); i++)
      printf("%d\n", i);
  } else if (!strcmp(words[0], "false")) {
    return 1;
  } else {
    fprintf(stderr, "%s: no such command\n", words[0]);
    return 127;
  }
  return ferror(stdout) || fflush(stdout) ? 2 : 0;
}

/* Puts a command's files in their places and executes it. */
static void execute(struct command *one) {
  if (one->input) {
    int file = open(one->input, O_RDONLY | O_CLOEXEC);
    if (file < 0 || dup2(file, 0) < 0)
      _exit(3);
  }
  if (one->output) {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (one->appends ? O_APPEND : O_TRUNC);
    int file = open(one->output, flags, 0600);
    if (file < 0 || dup2(file, 1) < 0)
      _exit(3);
  }
  setenv("SHELL_COMMAND", "1", 1);
  execv("/proc/self/exe", one->words);
  _exit(126);
}

static int run(char *line) {
  struct command commands[COMMANDS] = {0};
  int count = 1;
  for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
    struct command *one = &commands[count - 1];
    if (!strcmp(word, "|"))
      count++;
    else if (*word == '>')
      one->appends = word[1] == '>', one->output = strtok(NULL, " \n");
    else if (*word == '<')
      one->input = strtok(NULL, " \n");
    else
      one->words[one->count++] = word;
  }
  if (!commands[0].count)
    return 0;
  int input = -1, status = 0;
  pid_t last = 0;
  for (int i = 0; i < count; i++) {
    int ends[2] = {-1, -1};
    if (i + 1 < count && pipe2(ends, O_CLOEXEC) < 0)
      return 1;
    last = fork();
    if (last < 0) {
      perror("fork");
      return 1;
    }
    if (!last) {
      if (input >= 0)
        dup2(input, 0);
      if (ends[1] >= 0)
        dup2(ends[1], 1);
      execute(&commands[i]);
    }
    close(input);
    close(ends[1]);
    input = ends[0];
  }
  for (int left = count; left > 0; left--) {
    int ended;
    if (wait(&ended) == last)
      status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  }
  return status;
}

int main(int count, char **words) {
  if (getenv("SHELL_COMMAND"))
    return builtin(count, words);
  int status = 0;
  for (int i = 1; i < count; i++) {
    char *line = strdup(words[i]);
    status = run(line);
    free(line);
  }
  return status;
}
