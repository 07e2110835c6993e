// A descriptor that becomes readable on a wake. Wakes between two clears make one system call.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "nocter/base/handle.hpp"
#include "nocter/base/owned.hpp"

namespace nocter::base {

class EventFd {
 public:
  static EventFd* create() {
    EventFd* made = make_handle<EventFd, Kind::eventfd>();
    if (made == nullptr) return nullptr;
    made->fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->fd_ < 0) {
      made->header.tag.disarm();
      made->release();
      return nullptr;
    }
    return made;
  }
  EventFd() : header(Kind::eventfd) {}

  int fd() const { return fd_; }

  void wake() {
    if (header.of_parent()) return;  // a forked child shares the descriptor with its parent, and must not wake it
    if (signalled_.exchange(1) != 0) return;
    const uint64_t one = 1;
    while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  // In this order: a wake that finds the flag still up was for a change made before the flag went down, which the caller's
  // query after this call sees. The other way round a wake's write could be read away while its flag stays up for good.
  void clear() {
    uint64_t count;
    while (read(fd_, &count, sizeof count) < 0 && errno == EINTR) {
    }
    signalled_.exchange(0);
  }

  Notifier notifier() {
    references_.fetch_add(1);
    return {[](void* user) { static_cast<EventFd*>(user)->wake(); },
            [](void* user) { static_cast<EventFd*>(user)->release(); }, this};
  }
  void release() {
    if (references_.fetch_sub(1) == 1) end_handle<Kind::eventfd>(this);
  }

  Header header;

 private:
  friend void end_handle<Kind::eventfd, EventFd>(EventFd*);
  ~EventFd() {
    if (fd_ >= 0) close(fd_);
  }

  int fd_ = -1;
  Atomic<uint32_t> signalled_;
  Atomic<uint32_t> references_{1};  // the handle and its notifiers
};

}  // namespace nocter::base
