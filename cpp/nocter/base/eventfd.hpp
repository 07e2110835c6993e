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
    if ((asked_.exchange(0) & Notifier::kAsked) == 0) return;
    const uint64_t one = 1;
    while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  // In this order: a wake that finds nobody asking was for a change made before this call asks, which the caller's query after it
  // sees. The other way round a wake's write could be read away, with nobody asking from then on.
  void clear() {
    uint64_t count;
    while (read(fd_, &count, sizeof count) < 0 && errno == EINTR) {
    }
    asked_.exchange(Notifier::kAsked);
  }

  Notifier notifier() {
    references_.fetch_add(1);
    return {wake_of, [](void* user) { static_cast<EventFd*>(user)->release(); }, this, asked_of(this)};
  }
  static void wake_of(void* user) { static_cast<EventFd*>(user)->wake(); }
  static const Atomic<uint64_t>* asked_of(void* user) { return &static_cast<EventFd*>(user)->asked_; }
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
  Atomic<uint64_t> asked_{Notifier::kAsked};
  Atomic<uint32_t> references_{1};  // the handle and its notifiers
};

}  // namespace nocter::base
