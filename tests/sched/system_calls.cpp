// What the eventfd asks of the kernel is a scheduling point too, and may be interrupted. These stand in for the C
// library's functions of the same name, in the programs of this folder.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "sched/explorer.hpp"

namespace {

bool interrupted(const char* where) {
  sched::point(where);
  if (!sched::maybe("(EINTR)")) return false;
  errno = EINTR;
  return true;
}

}  // namespace

extern "C" {

ssize_t read(int descriptor, void* to, size_t size) {
  if (interrupted("read")) return -1;
  return syscall(SYS_read, descriptor, to, size);
}

ssize_t write(int descriptor, const void* from, size_t size) {
  if (interrupted("write")) return -1;
  return syscall(SYS_write, descriptor, from, size);
}

}  // extern "C"
