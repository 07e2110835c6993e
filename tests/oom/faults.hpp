// Makes the machine fail on demand: allocations and thread creations of one thread, descriptors of the process. The
// program that links faults.cpp has these functions in place of the C library's own, for every library it loads.
#pragma once

#include <cstdint>

namespace faults {

// Of all threads since the program started: what was asked for, also in vain.
uint64_t allocations();
// Blocks that exist now.
int64_t live_blocks();
// Threads made since the program started.
uint64_t threads_made();

// Counting starts at 0: the first one after arming.
constexpr uint64_t kNone = UINT64_MAX;

enum class How { once, from_then_on };

// While it lives, the calling thread's allocations fail: the nth, or the nth and all after it. Other threads are left
// alone. One at a time on a thread.
class Allocations {
 public:
  Allocations(uint64_t nth, How how);
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  // Made by this thread since arming, and how many of them failed.
  uint64_t asked() const;
  uint64_t failed() const;
};

// The same for pthread_create.
class Threads {
 public:
  Threads(uint64_t nth, How how);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  uint64_t asked() const;
};

// While it lives, the process gets so many more descriptors and no more.
class Descriptors {
 public:
  explicit Descriptors(uint64_t more);
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

 private:
  uint64_t limit_before_;
};

}  // namespace faults
