// Four real threads that are sent out together again and again, and what the two programs share beside them.
#pragma once

#include <sched.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace lin {

inline constexpr size_t kThreads = 4;
inline constexpr int kOperations = 30;  // of each thread

inline int64_t stamp() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// S. Vigna's splitmix64.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t bound) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>(((z ^ z >> 31) >> 32) * bound >> 32);
  }
  // Lets other threads in now and then, so that operations overlap on few cores too.
  void dawdle() {
    switch (below(6)) {
      case 0:
        sched_yield();
        break;
      case 1:
        for (const int64_t until = stamp() + 500; stamp() < until;) {
        }
        break;
      default:
        break;
    }
  }

 private:
  uint64_t state_;
};

class Crew {
 public:
  Crew() : start_(kThreads + 1), end_(kThreads + 1) {
    for (size_t i = 0; i < kThreads; i++) {
      threads_.emplace_back([this, i] {
        for (;;) {
          start_.arrive_and_wait();
          if (!job_) return;
          job_(i);
          end_.arrive_and_wait();
        }
      });
    }
  }
  ~Crew() {
    job_ = nullptr;
    start_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void run(std::function<void(size_t)> job) {
    job_ = std::move(job);
    start_.arrive_and_wait();
    end_.arrive_and_wait();
  }

 private:
  std::barrier<> start_, end_;
  std::function<void(size_t)> job_;
  std::vector<std::thread> threads_;
};

[[noreturn]] inline void give_up(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}
inline void require(bool condition, const char* what) {
  if (!condition) give_up(what);
}

struct Settings {
  uint64_t histories = 2000;
  uint64_t seed = 1;
};
inline Settings read_settings(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i++) {
    const std::string option = argv[i];
    if (option == "--long") {
      settings.histories = 200'000;
    } else if (i + 1 < argc && option == "--histories") {
      settings.histories = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && option == "--seed") {
      settings.seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::printf("usage: [--histories NUMBER] [--long] [--seed NUMBER]\n");
      std::exit(2);
    }
  }
  std::printf("seed %lu, %lu histories\n", settings.seed, settings.histories);
  return settings;
}

}  // namespace lin
