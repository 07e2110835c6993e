/*
 * To be preloaded: closing a file named *.slow says so in $GATHER_SEEN and then blocks until somebody writes to the FIFO
 * $GATHER_GATE, as closing on a server that does not answer would; fsync of a file whose name is $GATHER_BAD fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_named(int descriptor, const char *ending) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (ending == NULL || size < (ssize_t)strlen(ending)) return false;
  path[size] = '\0';
  return strcmp(path + size - strlen(ending), ending) == 0;
}

int close(int descriptor) {
  const char *seen = getenv("GATHER_SEEN"), *gate = getenv("GATHER_GATE");
  if (seen != NULL && gate != NULL && is_named(descriptor, ".slow")) {
    const int told = open(seen, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (write(told, "closing\n", 8) != 8) abort();
    syscall(SYS_close, told);
    syscall(SYS_close, open(gate, O_RDONLY | O_CLOEXEC));
  }
  return (int)syscall(SYS_close, descriptor);
}

int fsync(int descriptor) {
  if (is_named(descriptor, getenv("GATHER_BAD"))) {
    errno = EIO;
    return -1;
  }
  return (int)syscall(SYS_fsync, descriptor);
}
