// What monitor.hpp stands on: atomics, the futex, the clock and one block of thread-local state. Included by monitor.hpp
// alone; a test build (-DNOCTER_TEST_MONITOR) puts tests/sched/system.hpp in its place, where the same names are
// scheduling points of an explorer.
#pragma once

#include <linux/futex.h>
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

// Sequentially consistent where nothing else is said: ThreadSanitizer and the explorer both see it whole.
template <class T>
class Atomic {
 public:
  constexpr explicit Atomic(T value = T{}) : value_(value) {}
  T load() const { return value_.load(); }
  void store(T value) { value_.store(value); }
  T exchange(T value) { return value_.exchange(value); }
  T fetch_add(T by) { return value_.fetch_add(by); }
  T fetch_sub(T by) { return value_.fetch_sub(by); }
  T fetch_or(T bits) { return value_.fetch_or(bits); }
  bool compare_exchange(T& expected, T desired) { return value_.compare_exchange_strong(expected, desired); }
  // Hands over what was written before it to whoever observes the value.
  void publish(T value) { value_.store(value, std::memory_order_release); }
  T observe() const { return value_.load(std::memory_order_acquire); }
  // For a value that only guides a policy, or that a lock protects and others merely glance at.
  T glance() const { return value_.load(std::memory_order_relaxed); }
  void jot(T value) { value_.store(value, std::memory_order_relaxed); }
  // A glance at an object that another thread may have ended by now, in memory of ours that is never given back: ThreadSanitizer would
  // take it for a race with the object that lies there next.
  __attribute__((no_sanitize("thread"))) T glance_late() const {
    return __atomic_load_n(reinterpret_cast<const T*>(&value_), __ATOMIC_RELAXED);
  }

  // The 32 bits that the kernel compares: the low half of a wider word.
  const uint32_t* futex_word() const {
    const auto* words = reinterpret_cast<const uint32_t*>(&value_);
    return sizeof(T) == 8 && std::endian::native == std::endian::big ? words + 1 : words;
  }

 private:
  static_assert(std::atomic<T>::is_always_lock_free && sizeof(std::atomic<T>) == sizeof(T));
  std::atomic<T> value_;
};

// Two barriers that belong together. One side stores, crosses the light one, and loads; the other stores, crosses the heavy one, and loads:
// then not both miss the other's store. The light one costs nothing and is for those who work; the heavy one is a system call
// (membarrier), which makes every core that runs a thread of this process cross a full barrier, and is for those about to sleep. Where the
// system has no such call both are full barriers. No data is published by either: the values are read again under a lock.
extern std::atomic<bool> barriers_are_light;
inline void full_barrier() { __sync_synchronize(); }
inline void light_barrier() {
  if (barriers_are_light.load(std::memory_order_relaxed)) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    full_barrier();
  }
}
void heavy_barrier();

inline constexpr int64_t kForever = -1;
inline constexpr int kEverybody = INT32_MAX;

inline int64_t read_clock(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
inline int64_t now_ns() { return read_clock(CLOCK_MONOTONIC); }
// Unix time in milliseconds: what people call the time, which somebody may set.
inline int64_t wall_now_ms() { return read_clock(CLOCK_REALTIME) / 1'000'000; }
// To the kernel's tick and a fifth of the price: for ages, never for deadlines.
inline int64_t coarse_now_ns() { return read_clock(CLOCK_MONOTONIC_COARSE); }
// Goes on while the machine sleeps: for what others hold against this one meanwhile.
inline int64_t boot_now_ms() { return read_clock(CLOCK_BOOTTIME) / 1'000'000; }
// A number that changes about once a second, for a third of the price of that.
inline int64_t second() { return time(nullptr); }

enum class Slept { woken, timed_out, signalled };

// Sleeps while the low halves of the words hold these values. `other` may be null. Spurious returns say `woken`.
Slept futex_sleep(const uint32_t* word, uint32_t expected, const uint32_t* other, uint32_t other_expected,
                  int64_t deadline_ns);
void futex_wake(const uint32_t* word, int count);

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
inline void yield_core() { sched_yield(); }

// How many cores this process may use; with one, spinning only keeps the awaited thread from running.
unsigned usable_cores();

// Memory that is used all over: fewer and larger pages, where the system has them. Not yet touched, or the system copies it.
void prefer_large_pages(void* memory, size_t size);

// From the kernel: nobody outside knows it.
uint64_t random_seed();

// From the kernel, good enough for secrets; false when it gives none.
bool random_bytes(void* out, size_t size);

// Marks a place for the explorer; nothing in production.
inline void scheduling_point(const char*) {}

struct Telling;
// Plain data, so that it needs no construction, no destruction and (being small) no allocation.
struct ThreadState {
  Telling* telling;     // the notifiers this thread is inside of, innermost first
  const void* serving;  // the service whose job this thread of ours runs
  const void* lent;     // the completion lent to that job's function
  bool lent_consumed;   // that function ended the job itself
  uint32_t number;      // see thread_number(); 0: not asked for yet
};
inline thread_local ThreadState thread_state __attribute__((tls_model("initial-exec"))) = {};
inline ThreadState& self() { return thread_state; }

// Different for threads that began one after the other, for spreading what many of them write to.
inline Atomic<uint32_t> threads_numbered;
inline uint32_t thread_number() {
  ThreadState& thread = self();
  if (thread.number == 0) thread.number = threads_numbered.fetch_add(1) + 1;
  return thread.number;
}

}  // namespace nocter::base
