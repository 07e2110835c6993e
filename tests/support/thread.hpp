// Threads that must end within a limit, and the ways to see what a thread is doing.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "support/build.hpp"

namespace nocter_tests {

inline constexpr int kLimitMs = kSanitized ? 120'000 : 40'000;

inline void pause_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Until it is true; false when the limit came first.
template <class Condition>
bool eventually(Condition condition, int limit_ms = kLimitMs) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

inline size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// The letter the kernel shows: S for a thread that sleeps until it is woken.
inline char thread_state(pid_t tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t end_of_name = line.rfind(") ");
  return end_of_name == std::string::npos ? '?' : line[end_of_name + 2];
}

// Joined by the end of its scope. One that does not end in time ends the program: it still uses what the test owns.
class Thread {
 public:
  template <class Function>
  explicit Thread(Function function)
      : ended_(eventfd(0, EFD_CLOEXEC)), thread_([this, run = std::move(function)]() mutable {
          tid_.store(static_cast<pid_t>(syscall(SYS_gettid)));
          run();
          const uint64_t one = 1;
          if (write(ended_, &one, sizeof one) != sizeof one) std::abort();
        }) {}
  ~Thread() { join(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void join(int limit_ms = kLimitMs) {
    if (!thread_.joinable()) return;
    if (!ended_within(limit_ms)) {
      std::fprintf(stderr, "a thread of the test did not end within %d ms\n", limit_ms);
      std::abort();
    }
    thread_.join();
    close(ended_);
  }

  bool ended() const { return ended_within(0); }
  pthread_t handle() { return thread_.native_handle(); }

  // Until it sleeps in the kernel, and did so on three looks in a row.
  bool until_asleep() {
    int asleep = 0;
    return eventually([this, &asleep] {
      const pid_t tid = tid_.load();
      asleep = tid != 0 && thread_state(tid) == 'S' ? asleep + 1 : 0;
      return asleep >= 3;
    });
  }

 private:
  bool ended_within(int limit_ms) const {
    pollfd one = {ended_, POLLIN, 0};
    int rc = 0;
    do {
      rc = poll(&one, 1, limit_ms);
    } while (rc < 0 && errno == EINTR);
    return rc == 1;
  }
  std::atomic<pid_t> tid_{0};
  int ended_;
  std::thread thread_;
};

// Lets so many threads go at the same moment, by spinning: a race wants them within nanoseconds of each other.
class StartLine {
 public:
  explicit StartLine(uint32_t runners) : missing_(runners) {}
  void ready() {
    missing_.fetch_sub(1);
    while (missing_.load() != 0) std::this_thread::yield();
  }

 private:
  std::atomic<uint32_t> missing_;
};

}  // namespace nocter_tests
