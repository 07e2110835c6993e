// What monitor.hpp stands on in a test build (-DNOCTER_TEST_MONITOR): the names of cpp/nocter/base/system.hpp, each
// of them a scheduling point of the explorer. Threads are fibers of one operating-system thread, time is virtual.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace nocter::base {

enum class Slept { woken, timed_out, signalled };
struct ThreadState;
class SchedulerMutex;

}  // namespace nocter::base

namespace sched {

// Whether a fiber of the explorer runs now. Before and after a schedule (while a scenario is set up and judged)
// nothing is explored: points do nothing there, and a wait that nothing could end is a failure.
extern bool exploring;

[[noreturn]] void used_freed_memory();
void point_in_fiber(const char* where);
inline void point(const char* where) {
  if (exploring) point_in_fiber(where);
}
void yield();
nocter::base::Slept sleep(const uint32_t* word, uint32_t expected, const uint32_t* other, uint32_t other_expected,
                          int64_t deadline_ns);
void wake(const uint32_t* word, int count);
int64_t now();
nocter::base::ThreadState& thread_state();
void lock(nocter::base::SchedulerMutex& mutex);
void unlock(nocter::base::SchedulerMutex& mutex);

}  // namespace sched

namespace nocter::base {

template <class T>
class Atomic {
 public:
  constexpr explicit Atomic(T value = T{}) : value_(value) {}
  T load() const {
    arrive("load");
    return value_;
  }
  void store(T value) {
    arrive("store");
    value_ = value;
  }
  T exchange(T value) {
    arrive("exchange");
    const T old = value_;
    value_ = value;
    return old;
  }
  T fetch_add(T by) {
    arrive("fetch_add");
    const T old = value_;
    value_ = static_cast<T>(old + by);
    return old;
  }
  T fetch_sub(T by) {
    arrive("fetch_sub");
    const T old = value_;
    value_ = static_cast<T>(old - by);
    return old;
  }
  T fetch_or(T bits) {
    arrive("fetch_or");
    const T old = value_;
    value_ = static_cast<T>(old | bits);
    return old;
  }
  bool compare_exchange(T& expected, T desired) {
    arrive("compare_exchange");
    if (value_ == expected) {
      value_ = desired;
      return true;
    }
    expected = value_;
    return false;
  }
  // The explorer knows no order weaker than the order in which things happen.
  void publish(T value) { store(value); }
  T observe() const { return load(); }
  // Relaxed accesses guide a policy or are protected by a lock: nothing depends on where they fall.
  T glance() const { return value_; }
  void jot(T value) { value_ = value; }
  T glance_late() const { return load(); }

  const uint32_t* futex_word() const {
    const auto* words = reinterpret_cast<const uint32_t*>(&value_);
    return sizeof(T) == 8 && std::endian::native == std::endian::big ? words + 1 : words;
  }

 private:
  // Memory that is freed while a schedule is played is filled with this byte.
  void arrive(const char* where) const {
    sched::point(where);
    if constexpr (sizeof(T) >= 4) {
      T freed;
      __builtin_memset(&freed, 0xdd, sizeof freed);
      if (value_ == freed) sched::used_freed_memory();
    }
  }

  T value_;
};

// Everybody sees everything at once here, so there is nothing for them to do; tests/barrier_test.cpp tries them on the machine.
inline void full_barrier() {}
inline void light_barrier() {}
inline void heavy_barrier() {}

inline constexpr int64_t kForever = -1;
inline constexpr int kEverybody = INT32_MAX;

inline int64_t read_clock(clockid_t) { return sched::now(); }
inline int64_t now_ns() { return sched::now(); }
inline int64_t coarse_now_ns() { return sched::now(); }
inline int64_t wall_now_ms() { return sched::now() / 1'000'000; }
inline int64_t boot_now_ms() { return sched::now() / 1'000'000; }
inline int64_t second() { return sched::now() / 1'000'000'000; }

inline Slept futex_sleep(const uint32_t* word, uint32_t expected, const uint32_t* other, uint32_t other_expected,
                         int64_t deadline_ns) {
  return sched::sleep(word, expected, other, other_expected, deadline_ns);
}
inline void futex_wake(const uint32_t* word, int count) { sched::wake(word, count); }

// A look in between is an atomic access and so a point of its own; the pause adds none.
inline void relax() {}
inline void yield_core() { sched::yield(); }
// One: then nobody spins, and what is left of the patience are yields.
inline unsigned usable_cores() { return 1; }

inline void prefer_large_pages(void*, size_t) {}

// The same one always, so that a schedule can be played again.
inline uint64_t random_seed() { return 1; }
// Names that differ is all that is asked of them here.
inline uint64_t random_bytes_given = 0;
inline bool random_bytes(void* out, size_t size) {
  for (size_t i = 0; i < size; i++)
    static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(random_bytes_given >> i % 8 * 8);
  random_bytes_given++;
  return true;
}

inline void scheduling_point(const char* where) { sched::point(where); }

struct Telling;
struct ThreadState {
  Telling* telling;
  const void* serving;
  const void* lent;
  bool lent_consumed;
};
inline ThreadState& self() { return sched::thread_state(); }
// One for all: then they meet.
inline uint32_t thread_number() { return 0; }

// One scheduling point before lock and one after unlock, in place of a dozen. Knows its owner, so that locking twice
// and unlocking another's are failures and not accidents.
class SchedulerMutex {
 public:
  static constexpr int kNobody = -1;
  constexpr SchedulerMutex() = default;
  SchedulerMutex(const SchedulerMutex&) = delete;
  SchedulerMutex& operator=(const SchedulerMutex&) = delete;
  void lock() { sched::lock(*this); }
  void unlock() { sched::unlock(*this); }
  int owner = kNobody;
};

}  // namespace nocter::base
