// Preloaded into the real programs: notes, in order, what they ask of the files below POWER_LOSS_ROOT.
// A change is noted after it was made and a sync before it begins, so that no change counts as synced that was not.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(result, name, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

static int trace = -1;
static const char *root;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("POWER_LOSS_TRACE");
  root = getenv("POWER_LOSS_ROOT");
  if (path && root)
    trace = REAL(int, "open", const char *, int, ...)(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

// kind, inode, number, lengths of path and data; then path and data.
static void note(char kind, uint64_t inode, uint64_t number, const char *path, const void *data, size_t bytes) {
  if (trace < 0)
    return;
  struct __attribute__((packed)) {
    char kind;
    uint64_t inode, number;
    uint32_t path, data;
  } head = {kind, inode, number, path ? strlen(path) : 0, bytes};
  struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)data, bytes}};
  if (REAL(ssize_t, "writev", int, const struct iovec *, int)(trace, parts, 3) < 0)
    abort();
}

static int below(const char *path) { return trace >= 0 && path && strncmp(path, root, strlen(root)) == 0; }

// Whose file it is: its inode, or 0 if it is none of ours. The shared memory beside a database is not for the disk.
static uint64_t ours(int fd, char *path, int *is_directory) {
  char link[64];
  struct stat meta;
  if (trace < 0 || fd == trace)
    return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0 || fstat(fd, &meta) != 0 || !(S_ISREG(meta.st_mode) || S_ISDIR(meta.st_mode)))
    return 0;
  path[length] = 0;
  *is_directory = S_ISDIR(meta.st_mode);
  return below(path) && !(length > 4 && strcmp(path + length - 4, "-shm") == 0) ? meta.st_ino : 0;
}

static int opened(int fd, int flags) {
  char path[PATH_MAX];
  int is_directory;
  uint64_t inode;
  if (fd >= 0 && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && (inode = ours(fd, path, &is_directory)) && !is_directory) {
    note('O', inode, 0, path, NULL, 0);
    if (flags & O_TRUNC)
      note('T', inode, 0, NULL, NULL, 0);
  }
  return fd;
}

#define OPEN(name)                                                                      \
  int name(const char *path, int flags, ...) {                                          \
    va_list rest;                                                                       \
    va_start(rest, flags);                                                              \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;             \
    va_end(rest);                                                                       \
    return opened(REAL(int, #name, const char *, int, ...)(path, flags, mode), flags);  \
  }
OPEN(open)
OPEN(open64)

static void wrote(int fd, const void *data, ssize_t bytes, int64_t at) {
  char path[PATH_MAX];
  int is_directory;
  uint64_t inode = bytes > 0 ? ours(fd, path, &is_directory) : 0;
  if (inode)
    note('W', inode, at >= 0 ? at : lseek(fd, 0, SEEK_CUR) - bytes, NULL, data, bytes);
}

ssize_t write(int fd, const void *data, size_t bytes) {
  ssize_t written = REAL(ssize_t, "write", int, const void *, size_t)(fd, data, bytes);
  wrote(fd, data, written, -1);
  return written;
}

#define PWRITE(name, offset_type)                                                                           \
  ssize_t name(int fd, const void *data, size_t bytes, offset_type at) {                                    \
    ssize_t written = REAL(ssize_t, #name, int, const void *, size_t, offset_type)(fd, data, bytes, at);    \
    wrote(fd, data, written, at);                                                                           \
    return written;                                                                                         \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset_type)                                           \
  int name(int fd, offset_type length) {                                      \
    char path[PATH_MAX];                                                      \
    int is_directory, outcome = REAL(int, #name, int, offset_type)(fd, length); \
    uint64_t inode = outcome == 0 ? ours(fd, path, &is_directory) : 0;        \
    if (inode)                                                                \
      note('T', inode, length, NULL, NULL, 0);                                \
    return outcome;                                                           \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                                                            \
  int name(int fd) {                                                          \
    char path[PATH_MAX];                                                      \
    int is_directory;                                                         \
    uint64_t inode = ours(fd, path, &is_directory);                           \
    if (inode)                                                                \
      note(is_directory ? 'Y' : 'S', inode, 0, path, NULL, 0);                \
    int outcome = REAL(int, #name, int)(fd);                                  \
    if (inode)                                                                \
      note('E', inode, 0, path, NULL, 0);                                     \
    return outcome;                                                           \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
  int outcome = REAL(int, "rename", const char *, const char *)(from, to);
  if (outcome == 0 && below(from))
    note('R', 0, 0, from, to, strlen(to));
  return outcome;
}

int unlink(const char *path) {
  int outcome = REAL(int, "unlink", const char *)(path);
  if (outcome == 0 && below(path))
    note('U', 0, 0, path, NULL, 0);
  return outcome;
}

int mkdir(const char *path, mode_t mode) {
  int outcome = REAL(int, "mkdir", const char *, mode_t)(path, mode);
  if (outcome == 0 && below(path))
    note('D', 0, 0, path, NULL, 0);
  return outcome;
}
