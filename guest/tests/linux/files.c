/* Files, directories and links in the current directory, which it leaves as it was. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))

static void fail(int line, const char *what) {
  printf("line %d: %s: %s\n", line, what, strerror(errno));
  exit(1);
}

int main(void) {
  CHECK(mkdir("work", 0755) == 0);
  CHECK(mkdir("work", 0755) == -1 && errno == EEXIST);
  CHECK(chdir("work") == 0);
  char path[4096];
  CHECK(getcwd(path, sizeof path) && strcmp(strrchr(path, '/'), "/work") == 0);

  /* More than one page, so that it crosses many lines at odd places. */
  static char text[100003], again[100003];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i * 7 + i / 251);
  int fd = open("data", O_RDWR | O_CREAT | O_EXCL, 0640);
  CHECK(fd >= 3);
  CHECK(write(fd, text + 1, sizeof text - 1) == sizeof text - 1);
  CHECK(lseek(fd, 0, SEEK_CUR) == sizeof text - 1);
  CHECK(pread(fd, again + 3, 50001, 5000) == 50001);
  CHECK(memcmp(again + 3, text + 5001, 50001) == 0);
  struct iovec parts[3] = {{again, 10}, {again + 1000, 0}, {again + 2000, 77}};
  CHECK(lseek(fd, 100, SEEK_SET) == 100);
  CHECK(readv(fd, parts, 3) == 87);
  CHECK(memcmp(again, text + 101, 10) == 0 && memcmp(again + 2000, text + 111, 77) == 0);
  CHECK(pwrite(fd, "end", 3, 200000) == 3);
  struct stat status;
  CHECK(fstat(fd, &status) == 0 && status.st_size == 200003);
  CHECK(S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0640 && status.st_nlink == 1);
  CHECK(ftruncate(fd, 10) == 0);
  CHECK(read(fd, again, 5) == 0);
  char *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(mapped != MAP_FAILED);
  CHECK(memcmp(mapped, text + 1, 10) == 0 && mapped[10] == 0);
  CHECK(close(fd) == 0);
  CHECK(read(fd, again, 5) == -1 && errno == EBADF);
  CHECK(read(-1, again, 5) == -1 && errno == EBADF);
  CHECK(open("missing", O_RDONLY) == -1 && errno == ENOENT);

  CHECK(symlink("data", "link") == 0);
  CHECK(readlink("link", path, sizeof path) == 4 && memcmp(path, "data", 4) == 0);
  CHECK(lstat("link", &status) == 0 && S_ISLNK(status.st_mode));
  CHECK(stat("link", &status) == 0 && status.st_size == 10);
  CHECK(link("data", "other") == 0);
  CHECK(stat("data", &status) == 0 && status.st_nlink == 2);
  CHECK(rename("other", "renamed") == 0);
  CHECK(access("other", F_OK) == -1 && access("renamed", R_OK | W_OK) == 0);
  CHECK(chmod("renamed", 0600) == 0);
  CHECK(stat("renamed", &status) == 0 && (status.st_mode & 0777) == 0600);

  FILE *stream = fopen("lines", "w");
  CHECK(stream);
  for (int i = 0; i < 1000; i++)
    fprintf(stream, "line %d\n", i);
  CHECK(fclose(stream) == 0);
  stream = fopen("lines", "a+");
  CHECK(fputs("last\n", stream) >= 0 && fseek(stream, 0, SEEK_SET) == 0);
  int lines = 0;
  char line[100];
  while (fgets(line, sizeof line, stream))
    lines++;
  CHECK(lines == 1001 && strcmp(line, "last\n") == 0);
  CHECK(fclose(stream) == 0);

  /* Entries come in the order of their names. */
  DIR *directory = opendir(".");
  CHECK(directory);
  struct dirent *entry;
  while ((entry = readdir(directory)))
    printf("%s%s\n", entry->d_name, entry->d_type == DT_LNK ? " (link)" : "");
  CHECK(closedir(directory) == 0);

  /* A descriptor that is duplicated shares its position. */
  fd = open("lines", O_RDONLY);
  int same = dup(fd);
  CHECK(lseek(fd, 5, SEEK_SET) == 5 && read(same, line, 1) == 1 && line[0] == '0');
  CHECK(fcntl(fd, F_GETFD) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
  CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(same, F_GETFD) == 0);
  CHECK(dup2(fd, 20) == 20 && read(20, line, 1) == 1 && line[0] == '\n');

  int pair[2];
  CHECK(pipe(pair) == 0);
  CHECK(write(pair[1], "through", 7) == 7 && read(pair[0], line, 100) == 7);
  CHECK(memcmp(line, "through", 7) == 0);
  CHECK(close(pair[1]) == 0 && read(pair[0], line, 100) == 0);

  unsigned char random[32], other[32];
  CHECK(getentropy(random, sizeof random) == 0 && getentropy(other, sizeof other) == 0);
  CHECK(memcmp(random, other, sizeof random) != 0);

  for (const char *name[] = {"data", "link", "renamed", "lines", NULL}, **n = name; *n; n++)
    CHECK(unlink(*n) == 0);
  CHECK(chdir("..") == 0);
  CHECK(rmdir("work") == 0);
  puts("files: right");
  return 0;
}
