// Benchmark C, native ways: a versioned value that one thread publishes and another
// waits for.
// PROGRAM condvar|atomic|atomic-int|futex|futex-yield|eventfd pingpong|publish N none|cross
// cross pins the two threads to cores 0 and 1.
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>

#include "pingpong.hpp"

struct CondVar {
  static constexpr const char *name = "cxx-condvar";
  std::mutex m;
  std::condition_variable c;
  uint64_t v = 0;
  void publish(uint64_t x) {
    {
      std::lock_guard<std::mutex> l(m);
      v = x;
    }
    c.notify_all();
  }
  uint64_t wait(uint64_t after) {
    std::unique_lock<std::mutex> l(m);
    c.wait(l, [&] { return v > after; });
    return v;
  }
};

struct Atomic {
  static constexpr const char *name = "cxx-atomic-wait";
  std::atomic<uint64_t> v{0};
  void publish(uint64_t x) {
    v.store(x, std::memory_order_release);
    v.notify_all();
  }
  uint64_t wait(uint64_t after) {
    for (;;) {
      uint64_t x = v.load(std::memory_order_acquire);
      if (x > after) return x;
      v.wait(x, std::memory_order_acquire);
    }
  }
};

// As Atomic, but of the type that libstdc++ hands straight to the futex.
struct Atomic32 {
  static constexpr const char *name = "cxx-atomic-wait-int";
  std::atomic<int> v{0};
  void publish(uint64_t x) {
    v.store(int(x), std::memory_order_release);
    v.notify_all();
  }
  uint64_t wait(uint64_t after) {
    for (;;) {
      int x = v.load(std::memory_order_acquire);
      if (uint64_t(x) > after) return uint64_t(x);
      v.wait(x, std::memory_order_acquire);
    }
  }
};

struct Futex {
  static constexpr const char *name = "raw-futex";
  std::atomic<uint32_t> v{0}, waiters{0};
  void publish(uint64_t x) {
    v.store(uint32_t(x), std::memory_order_seq_cst);
    if (waiters.load(std::memory_order_seq_cst))
      syscall(SYS_futex, &v, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }
  uint64_t wait(uint64_t after) {
    for (;;) {
      uint32_t x = v.load(std::memory_order_acquire);
      if (x > after) return x;
      waiters.fetch_add(1, std::memory_order_seq_cst);
      syscall(SYS_futex, &v, FUTEX_WAIT_PRIVATE, x, nullptr, nullptr, 0);
      waiters.fetch_sub(1, std::memory_order_relaxed);
    }
  }
};

// As Futex, but the waiter first spins 20 times and yields its core 10 times.
struct FutexYield : Futex {
  static constexpr const char *name = "limit-futex-yield";
  uint64_t wait(uint64_t after) {
    for (int i = 0; i < 30; i++) {
      uint32_t x = v.load(std::memory_order_acquire);
      if (x > after) return x;
      if (i < 20)
        __builtin_ia32_pause();
      else
        sched_yield();
    }
    return Futex::wait(after);
  }
};

struct EventFd {
  static constexpr const char *name = "eventfd-blocking";
  int fd = eventfd(0, EFD_CLOEXEC);
  std::atomic<uint64_t> v{0};
  void publish(uint64_t x) {
    v.store(x, std::memory_order_release);
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) abort();
  }
  uint64_t wait(uint64_t after) {
    for (;;) {
      uint64_t x = v.load(std::memory_order_acquire);
      if (x > after) return x;
      uint64_t n;
      if (read(fd, &n, 8) != 8) abort();
    }
  }
};

int main(int c, char **v) {
  std::string what = c > 1 ? v[1] : "condvar", mode = c > 2 ? v[2] : "pingpong";
  uint64_t n = c > 3 ? strtoull(v[3], nullptr, 10) : 200000;
  std::string pin = c > 4 ? v[4] : "none";
  if (what == "condvar") pingpong::run<CondVar>(mode, n, pin);
  else if (what == "atomic") pingpong::run<Atomic>(mode, n, pin);
  else if (what == "atomic-int") pingpong::run<Atomic32>(mode, n, pin);
  else if (what == "futex") pingpong::run<Futex>(mode, n, pin);
  else if (what == "futex-yield") pingpong::run<FutexYield>(mode, n, pin);
  else if (what == "eventfd") pingpong::run<EventFd>(mode, n, pin);
  else return 2;
}
