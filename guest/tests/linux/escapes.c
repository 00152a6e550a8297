/* Tries to reach what a program is not given, and says what it has reached.
 *
 *     escapes sandbox|root|read-only|read-only-host|host [NAMED-FILE]
 *
 * The variable OUTSIDE is a directory of the host with a file "secret" and a directory "inner". The
 * working directory (with `root`, the root) has a symbolic link "out" to it, a FIFO "fifo", and an
 * empty directory "empty". Standard input is a file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static int tried, escaped;

static void attempt(int has_escaped, const char *what, const char *path) {
  tried++;
  if (has_escaped) {
    if (escaped++ < 20) /* one that is open may show up again and again */
      printf("escaped: %s %s\n", what, path);
  }
}

#define DENIED(call, path) attempt((call) != -1, #call, path)
#define WORKS(what) ((what) ? (void)0 : fails(__LINE__, #what))

static void fails(int line, const char *what) {
  printf("line %d: %s fails: %s\n", line, what, strerror(errno));
  exit(1);
}

static char *text(const char *format, const char *one, const char *other) {
  char *made = NULL;
  WORKS(asprintf(&made, format, one, other) >= 0);
  return made;
}

/* Everything that can be done with the name of a file or directory that must not be reached. */
static void all_calls(int at, const char *path) {
  static const int flags[] = {O_RDONLY,           O_WRONLY, O_RDWR,
                              O_RDONLY | O_TRUNC, O_PATH,   O_PATH | O_NOFOLLOW};
  struct stat status;
  struct statfs system;
  struct statx more;
  struct timespec times[2] = {{1, 0}, {1, 0}};
  char target[PATH_MAX];
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    DENIED(openat(at, path, flags[i]), path);
  DENIED(openat(at, path, O_RDWR | O_CREAT, 0600), path);
  DENIED(openat(at, path, O_RDWR | O_TMPFILE, 0600), path);
  DENIED(fstatat(at, path, &status, 0), path);
  DENIED(fstatat(at, path, &status, AT_SYMLINK_NOFOLLOW), path);
  DENIED(syscall(SYS_statx, at, path, 0, STATX_BASIC_STATS, &more), path);
  DENIED(faccessat(at, path, F_OK, 0), path);
  DENIED(fchmodat(at, path, 0777, 0), path);
  DENIED(fchownat(at, path, (uid_t)-1, (gid_t)-1, 0), path);
  DENIED(utimensat(at, path, times, 0), path);
  DENIED(readlinkat(at, path, target, sizeof target), path);
  DENIED(linkat(at, path, AT_FDCWD, "stolen", 0), path);
  DENIED(linkat(at, path, AT_FDCWD, "stolen", AT_SYMLINK_FOLLOW), path);
  DENIED(renameat(at, path, AT_FDCWD, "stolen"), path);
  DENIED(renameat(AT_FDCWD, "empty", at, path), path);
  DENIED(unlinkat(at, path, 0), path);
  DENIED(unlinkat(at, path, AT_REMOVEDIR), path);
  if (at != AT_FDCWD && path[0] != '/')
    return;
  DENIED(truncate(path, 0), path);
  DENIED(statfs(path, &system), path);
  DENIED(chdir(path), path);
}

/* Names that must not be made in a directory. */
static void all_makers(int at, const char *path) {
  DENIED(mkdirat(at, path, 0777), path);
  DENIED(mknodat(at, path, S_IFREG | 0666, 0), path);
  DENIED(mknodat(at, path, S_IFIFO | 0666, 0), path);
  DENIED(symlinkat("target", at, path), path);
  DENIED(linkat(AT_FDCWD, "file", at, path, 0), path);
  DENIED(renameat(AT_FDCWD, "file", at, path), path);
}

/* The host's kernel: in no mode. The names are those of the first process, or the caller's. */
static void try_kernel(void) {
  static const char *ways[] = {"//proc",
                               "/./proc",
                               "/tmp/../proc",
                               "/proc/.",
                               "/proc/../proc",
                               "/proc/self/root/proc",
                               "/proc/self/cwd/../../../../../../proc",
                               "/dev/../proc",
                               "/dev/fd/../..",
                               "/../../proc",
                               "made-link",
                               "made-relative"};
  static const char *inside[] = {"self/environ", "self/mem", "self/maps",     "1/environ",
                                 "1/root",       "kcore",    "sysrq-trigger", "self/task/1/mem"};
  WORKS(symlink("/proc", "made-link") == 0 &&
        symlink("../../../../../../proc", "made-relative") == 0);
  int top = open("/", O_RDONLY | O_DIRECTORY);
  WORKS(top >= 0);
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
    for (size_t j = 0; j < sizeof ways / sizeof *ways; j++)
      all_calls(AT_FDCWD, text("%s/%s", ways[j], inside[i]));
    all_calls(top, text("proc/%s%s", inside[i], ""));
    all_calls(top, text("../proc/%s%s", inside[i], ""));
  }
  static const char *sys[] = {"//sys/kernel", "/./sys/devices/virtual", "/tmp/../sys/fs/cgroup",
                              "/dev/pts/0"};
  for (size_t i = 0; i < sizeof sys / sizeof *sys; i++)
    DENIED(openat(AT_FDCWD, sys[i], O_RDONLY | O_NONBLOCK | O_NOCTTY), sys[i]);
  char *here = getcwd(NULL, 0);
  WORKS(here && chdir("/") == 0);
  all_calls(AT_FDCWD, "proc/self/environ");
  all_calls(AT_FDCWD, "./proc/self/mem");
  WORKS(chdir("proc") == 0);
  all_calls(AT_FDCWD, "self/environ");
  all_calls(AT_FDCWD, "1/environ");
  WORKS(chdir("/dev/fd") == 0);
  all_calls(AT_FDCWD, "../environ");
  WORKS(chdir(here) == 0);
  WORKS(close(top) == 0);
  /* Descriptors of the simulator: it has more than the program's three. */
  for (int fd = 3; fd < 1030; fd++) {
    char number[12];
    snprintf(number, sizeof number, "%d", fd);
    char *way = text("/dev/fd/%s%s", number, "");
    DENIED(open(way, O_RDONLY), way);
    way = text("/proc/self/fd/%s%s", number, "");
    DENIED(open(way, O_RDONLY), way);
  }
  char letter = 'x';
  for (int fd = 0; fd < 3; fd++)
    DENIED(ioctl(fd, 0x5412 /* TIOCSTI */, &letter), "TIOCSTI");
  WORKS(unlink("made-link") == 0 && unlink("made-relative") == 0);
}

static void try_outside(const char *outside) {
  WORKS(symlink(outside, "made") == 0);
  WORKS(mkdir("deep", 0755) == 0 && mkdir("deep/down", 0755) == 0);
  int here = open(".", O_RDONLY), moved = open("deep/down", O_RDONLY);
  WORKS(here >= 0 && moved >= 0 && rename("deep/down", "moved") == 0 && rmdir("deep") == 0);
  char number[12], other[12];
  snprintf(number, sizeof number, "%d", here);
  snprintf(other, sizeof other, "%d", moved);
  const char *ways[] = {outside,
                        "out",
                        "made",
                        "out/../outside",
                        "../outside",
                        "./.././outside",
                        "moved/../../outside",
                        "/proc/self/cwd/../outside",
                        text("/proc/self/fd/%s/../%s", number, "outside"),
                        text("/dev/fd/%s/../../%s", other, "outside"),
                        text("%s/%s", outside, "inner/..")};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    for (int at = AT_FDCWD, turn = 0; turn < 3; turn++, at = turn == 1 ? here : moved) {
      all_calls(at, text("%s/%s", ways[i], "secret"));
      all_calls(at, text("%s/%s", ways[i], "inner"));
      all_calls(at, text("%s/%s", ways[i], "missing"));
      all_makers(at, text("%s/%s", ways[i], "missing"));
    }
  }
  all_calls(moved, "../../outside/secret");
  WORKS(fchdir(moved) == 0);
  char *path = getcwd(NULL, 0);
  WORKS(path && strlen(path) >= 6 && strcmp(path + strlen(path) - 6, "/moved") == 0);
  all_calls(AT_FDCWD, "../../outside/secret");
  WORKS(fchdir(here) == 0 && rmdir("moved") == 0 && unlink("made") == 0);
  WORKS(close(here) == 0 && close(moved) == 0);
  /* What would work on the host later on, or beyond the files. */
  int file = open("file", O_RDWR);
  WORKS(file >= 0);
  DENIED(chmod("file", 04755), "set-user-ID");
  DENIED(fchmod(file, 02755), "set-group-ID");
  DENIED(open("set", O_RDWR | O_CREAT, 06755), "set-user-ID");
  DENIED(mknod("set", S_IFREG | 04755, 0), "set-user-ID");
  DENIED(mknod("device", S_IFCHR | 0666, 0x103), "device");
  DENIED(open("fifo", O_RDWR), "fifo");
  WORKS(close(file) == 0);
}

/* A file that may only be read, at `path`, and open for reading as `fd` only. */
static void try_to_write(const char *path, int fd) {
  struct timespec times[2] = {{1, 0}, {1, 0}};
  char number[12];
  snprintf(number, sizeof number, "%d", fd);
  char *again = text("/proc/self/fd/%s%s", number, "");
  const char *names[] = {path, again, "indirect"};
  unlink("indirect"); /* may fail where nothing can be written */
  for (int i = 0; i < 2 + (symlink(path, "indirect") == 0); i++) {
    DENIED(open(names[i], O_WRONLY), names[i]);
    DENIED(open(names[i], O_RDWR), names[i]);
    DENIED(open(names[i], O_RDONLY | O_TRUNC), names[i]);
    DENIED(truncate(names[i], 0), names[i]);
    DENIED(access(names[i], W_OK), names[i]);
    DENIED(chmod(names[i], 0777), names[i]);
    DENIED(chown(names[i], (uid_t)-1, (gid_t)-1), names[i]);
    DENIED(utimensat(AT_FDCWD, names[i], times, 0), names[i]);
    DENIED(linkat(AT_FDCWD, names[i], AT_FDCWD, "hard", AT_SYMLINK_FOLLOW), names[i]);
  }
  DENIED(link(path, "hard"), path);
  DENIED(rename(path, "hard"), path);
  DENIED(rename("file", path), path);
  DENIED(unlink(path), path);
  DENIED(linkat(fd, "", AT_FDCWD, "hard", AT_EMPTY_PATH), path);
  DENIED(fchmod(fd, 0777), path);
  DENIED(fchown(fd, (uid_t)-1, (gid_t)-1), path);
  DENIED(fchownat(fd, "", (uid_t)-1, (gid_t)-1, AT_EMPTY_PATH), path);
  DENIED(futimens(fd, times), path);
  DENIED(ftruncate(fd, 0), path);
  DENIED(fallocate(fd, 0, 0, 10), path);
  DENIED(write(fd, "x", 1), path);
  DENIED(pwrite(fd, "x", 1, 0), path);
  attempt(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED, "mmap", path);
  unlink("indirect");
}

static void list(const char *path) {
  struct dirent **names;
  int count = scandir(path, &names, NULL, alphasort);
  WORKS(count >= 0);
  printf("%s:", path);
  for (int i = 2; i < count; i++)
    printf(" %s", names[i]->d_name);
  puts("");
}

/* What this server has by itself. */
static void use_own(void) {
  char bytes[300] = {1};
  int fd = open("/dev/zero", O_RDWR);
  WORKS(fd >= 0 && read(fd, bytes, 9) == 9 && bytes[0] == 0 && write(fd, bytes, 9) == 9);
  fd = open("/dev/null", O_RDWR | O_CREAT | O_TRUNC, 0666);
  WORKS(fd >= 0 && read(fd, bytes, 9) == 0 && write(fd, bytes, 9) == 9);
  fd = open("/dev/full", O_WRONLY);
  WORKS(fd >= 0 && write(fd, bytes, 9) == -1 && errno == ENOSPC);
  fd = open("/proc/self/exe", O_RDONLY);
  WORKS(fd >= 0 && read(fd, bytes, 4) == 4 && memcmp(bytes, "\177ELF", 4) == 0);
  DENIED(fchmod(fd, 0777), "the program");
  DENIED(open("/proc/self/exe", O_RDWR), "the program");
  ssize_t length = readlink("/proc/self/exe", bytes, sizeof bytes);
  WORKS(length > 8 && memcmp(bytes + length - 8, "/escapes", 8) == 0);
  struct stat one, other;
  WORKS(stat("/proc/self/fd/0", &one) == 0 && fstat(0, &other) == 0 && one.st_ino == other.st_ino);
  WORKS(lstat("/dev/stdin", &one) == 0 && S_ISLNK(one.st_mode));
  WORKS(stat("/proc", &one) == 0 && stat("/sys", &other) == 0 && one.st_ino != other.st_ino);
  fd = open("/dev/stdin", O_RDONLY);
  WORKS(fd >= 0 && read(fd, bytes, 5) == 5 && memcmp(bytes, "input", 5) == 0);
  WORKS(open("/proc/cpuinfo", O_RDONLY) >= 0 && open("/proc/cpuinfo", O_RDWR) == -1);
  WORKS(mkdir("/proc/new", 0777) == -1 && errno == EROFS);
  WORKS(syscall(SYS_close_range, 3, ~0u, 0) == 0);
}

/* A directory where everything can be done. */
static void use_directory(const char *path) {
  char *file = text("%s/%s", path, "file"), *new = text("%s/%s", path, "new");
  char bytes[10];
  int fd = open(file, O_RDWR | O_CREAT, 0666);
  WORKS(fd >= 0 && write(fd, "some", 4) == 4 && pread(fd, bytes, 9, 0) == 4);
  WORKS(fchmod(fd, 0640) == 0 && ftruncate(fd, 2) == 0 && futimens(fd, NULL) == 0);
  WORKS(close(fd) == 0 && chmod(file, 0600) == 0 && access(file, R_OK | W_OK) == 0);
  struct timespec times[2] = {{7, 0}, {8, 0}};
  struct stat status;
  WORKS(utimensat(AT_FDCWD, file, times, 0) == 0 && stat(file, &status) == 0);
  WORKS(status.st_mtim.tv_sec == 8 && (status.st_mode & 07777) == 0600 && status.st_size == 2);
  WORKS(chown(file, status.st_uid, status.st_gid) == 0);
  WORKS(link(file, new) == 0 && unlink(file) == 0 && rename(new, file) == 0);
  WORKS(mkdir(new, 0777) == 0 && rmdir(new) == 0);
  WORKS((fd = open(path, O_RDWR | O_TMPFILE, 0600)) >= 0 && close(fd) == 0);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "", *outside = getenv("OUTSIDE");
  int is_sandbox = !strcmp(mode, "sandbox"), is_root = !strcmp(mode, "root");
  WORKS(outside);
  if (!strncmp(mode, "read-only", 9)) {
    int fd = open("file", O_RDONLY), directory = open(".", O_RDONLY);
    WORKS(fd >= 0 && directory >= 0);
    try_to_write("file", fd);
    all_makers(AT_FDCWD, "missing");
    DENIED(open("missing", O_RDWR | O_CREAT, 0666), "missing");
    DENIED(open(".", O_RDWR | O_TMPFILE, 0666), ".");
    DENIED(fchmod(directory, 0700), ".");
    DENIED(chmod(".", 0700), ".");
    if (!mode[9])
      use_directory("/tmp"); /* its own */
    else
      DENIED(open("/tmp/missing", O_RDWR | O_CREAT, 0666), "/tmp");
  } else {
    use_directory(".");
    use_own();
    if (strcmp(mode, "host"))
      try_outside(outside);
    else
      WORKS(access(outside, R_OK) == 0);
    try_kernel();
    if (strcmp(mode, "host"))
      try_to_write("/dev/stdin", 0);
  }
  if (is_sandbox) {
    const char *named = argv[2];
    int fd = open(named, O_RDONLY);
    char bytes[10];
    WORKS(fd >= 0 && read(fd, bytes, 9) == 5 && memcmp(bytes, "named", 5) == 0);
    try_to_write(named, fd);
    use_directory("/tmp");
    WORKS(rename("/tmp/file", "file") == -1 && errno == EXDEV);
    WORKS(open("/new", O_RDWR | O_CREAT, 0666) == -1 && errno == EROFS);
    WORKS(rmdir(getcwd(NULL, 0)) == -1 && errno == EBUSY);
    list("/");
    list("/dev");
    list("/etc");
    list("/proc/self");
    list("/tmp");
  }
  if (is_root) {
    WORKS(strcmp(getcwd(NULL, 0), "/") == 0);
    list("/");
  }
  printf("%s: %d escapes\n", mode, escaped);
  return tried == 0;
}
