// The one seam of the local parts: the only place where they lock, wait, wake, read the clock or touch an atomic.
//
//   Mutex       a short lock, never held while foreign code runs
//   EventCount  a version that grows, and the threads that wait for it to move; the signal is its public face
//   Condition   an EventCount whose waiters are counted under a Mutex, so that telling nobody costs nothing
//   Interrupt   a flag that ends the waits which carry it
//   Wakes       what must be woken once the lock is released
//
// Everybody waits by one policy: look again a few times, yield the core a few times, sleep on the futex. The primitives
// below it come from system.hpp, or from the explorer of tests/sched in a test build.
#pragma once

#ifdef NOCTER_TEST_MONITOR
#include "sched/system.hpp"
#else
#include "nocter/base/system.hpp"
#endif

#include <cstdint>

#include "nocter/base/planted.hpp"
#include "nocter/base/status.hpp"

namespace nocter::base {

// How long a waiter stays awake before it sleeps.
struct Patience {
  uint32_t spins;
  uint32_t yields;
};

Patience default_patience();

// Staying awake before going to sleep: look again, then yield the core and look, a little each time. Waking a sleeper on another core
// costs ten times what that does, so two threads that hand work to and fro fall into a trap: once both sleep, each is always asleep
// when the other is done. So after a short sleep the next wait stays awake for as long as a wake-up takes; when that was in
// vain, it is not tried again for a good while, so that it never costs more than a few percent.
class Alertness {
 public:
  // Until `ready` says yes: true; false once it has been long enough.
  template <class Ready>
  bool stay_awake(Patience patience, Ready&& ready) {
    const uint32_t state = state_.glance();
    for (uint32_t i = 0; i < patience.spins; i++) {
      for (uint32_t pauses = 0; pauses <= i && pauses < 4; pauses++)
        relax();  // each look costs the other side its cache line
      if (ready()) return true;
    }
    for (uint32_t i = 0; i < patience.yields; i++) {
      yield_core();
      if (ready()) return true;
    }
    if (state != kLively || patience.yields == 0) {
      if (state != kLively && state != 0) state_.jot(state - 1);
      return false;
    }
    for (const int64_t until = now_ns() + kWakingUp; now_ns() < until;) {
      yield_core();
      if (ready()) return true;
    }
    state_.jot(kBarred);
    return false;
  }
  void slept(int64_t ns) {
    if (ns < 2 * kWakingUp && state_.glance() == 0) state_.jot(kLively);
  }

 private:
  static constexpr int64_t kWakingUp = 100'000;
  static constexpr uint32_t kBarred = 32, kLively = UINT32_MAX;  // else: for how many more waits it is not tried
  Atomic<uint32_t> state_;
};

// Stamps for ages, under its owner's lock; second() is best read before that. Where stamps come so fast that the kernel's tick does not move between two readings, the next few
// do without one; when they stop coming so fast those few are off by what lies between them, a second at most.
class AgeClock {
 public:
  int64_t stamp(int64_t now_second) {
    if (unread_ != 0 && now_second == second_) {
      unread_--;
      return last_;
    }
    return read(now_second);
  }

 private:
  __attribute__((noinline)) int64_t read(int64_t now_second) {
    const int64_t now = coarse_now_ns();
    unread_ = now == last_ ? kUnread : 0;
    second_ = now_second;
    return last_ = now;
  }

  static constexpr uint32_t kUnread = 15;
  int64_t last_ = 0, second_ = 0;
  uint32_t unread_ = 0;
};

// ---- Interrupt ------------------------------------------------------------------------------------------------------

// Raising is two plain steps on lock-free words, so a signal handler may do it.
class Interrupt {
 public:
  void raise() {
    raised_.store(1);
    if (sleepers_.load() != 0) futex_wake(raised_.futex_word(), kEverybody);  // leaves errno alone
  }
  void clear() { raised_.store(0); }
  bool raised() const { return raised_.load() != 0; }

 private:
  friend class EventCount;
  Atomic<uint32_t> raised_;
  Atomic<uint32_t> sleepers_;
};

// ---- Waiting --------------------------------------------------------------------------------------------------------

struct Wait {
  int64_t deadline_ns = kForever;  // on now_ns()'s clock
  Interrupt* interrupt = nullptr;
  bool ends_on_signal = false;  // return `interrupted` once a signal handler ran
};

// In the order in which several at once are reported.
enum class Woken { closed, changed, interrupted, timed_out };
constexpr Status status_of(Woken why) {
  constexpr Status kStatuses[] = {Status::closed, Status::ok, Status::interrupted, Status::timeout};
  return kStatuses[static_cast<int>(why)];
}

// After D. P. Reed and R. K. Kanodia, "Synchronization with Eventcounts and Sequencers", 1979.
class EventCount {
 public:
  static constexpr uint64_t kFirst = 1;     // zero is no version
  static constexpr uint64_t kObserved = 2;  // in word(): somebody knows the version there is

  uint64_t version() const { return word_.load() >> kVersionShift; }
  bool closed() const { return (word_.load() & kClosed) != 0; }
  const Atomic<uint64_t>& word() const { return word_; }
  bool observed() const { return (word_.load() & kObserved) != 0; }
  // A version that may be waited on after advance_if_observed() was used: it is marked as known to somebody.
  uint64_t observe() {
    const uint64_t word = word_.load();
    return ((word & kObserved) != 0 || planted("reading_marks_nothing") ? word : word_.fetch_or(kObserved)) >>
           kVersionShift;
  }

  // Moves the version and wakes nobody, so that it may be done under a lock, with a wake after it. False when it is closed: then it
  // did not move. `now` is the version after it; `observed` marks it as known to the caller.
  bool advance(uint64_t& now, bool observed);
  // The same for one that is never closed: one instruction.
  void advance_open() { word_.fetch_add(kStep); }
  // For wakes that may collapse: while nobody knows the version there is, nobody can wait for it to move. One load then, and the
  // word's cache line stays shared. True when it moved.
  bool advance_if_observed() {
    if (!observed()) return false;
    uint64_t ignored;
    return advance(ignored, false);
  }
  // Closes for good; true the first time. To be followed by wake_all().
  bool close() { return (word_.fetch_or(kClosed) & kClosed) == 0; }

  bool asleep() const { return sleepers_.load() != 0; }
  void wake_all() {
    if (asleep()) futex_wake(word_.futex_word(), kEverybody);
  }
  // One is enough when every woken waiter looks for what it was woken for before it gives up, and passes the wake on when
  // there is more than it took.
  void wake_one() {
    if (asleep()) futex_wake(word_.futex_word(), 1);
  }

  // Returns when the version is no longer `seen`, and for nothing else but close, interrupt, signal and deadline.
  Woken wait(uint64_t seen, const Wait& wait, Patience patience);
  // The two halves of a wait apart, for those who must look at more than the version before they sleep: whether `ready` or an interrupt
  // ended it while awake; and the sleep, after observe() or version() and a look at everything.
  template <class Ready>
  bool stay_awake(const Wait& wait, Patience patience, Ready&& ready) {
    return alertness_.stay_awake(patience,
                                 [&] { return ready() || (wait.interrupt != nullptr && wait.interrupt->raised()); });
  }
  Woken sleep_until_moved(uint64_t seen, const Wait& wait);
  // The first look of a wait, for those who must do something before they stay: true when it is over already.
  bool look(uint64_t seen, Woken& found) const {
    uint64_t ignored;
    return look(seen, found, ignored);
  }

 private:
  // The word: the version, whether somebody knows it, whether it is closed. 62 bits of version never come round; the kernel compares
  // the lower half, which could only do so in the instant between our own comparison and its, in which every publication is a
  // system call.
  static constexpr uint64_t kClosed = 1, kStep = 4;
  static constexpr unsigned kVersionShift = 2;

  bool look(uint64_t seen, Woken& found, uint64_t& word) const {
    word = word_.load();
    if ((word & kClosed) == 0 && word >> kVersionShift == seen) return false;
    found = (word & kClosed) != 0 ? Woken::closed : Woken::changed;
    return true;
  }
  bool over_already(uint64_t seen, const Wait& wait, Woken& found) const;
  Woken sleep(uint64_t seen, const Wait& wait);

  Atomic<uint64_t> word_{kFirst << kVersionShift};
  Atomic<uint32_t> sleepers_;
  Alertness alertness_;
};

// ---- Mutex ----------------------------------------------------------------------------------------------------------

// A futex lock whose waiters first spin and yield. Unfair on purpose: a thread that comes back at once finds the lock's cache line still
// its own, so a busy pair of threads takes turns in runs. Releasing it is a plain store and a look at who sleeps, so that the
// stores before it need not have left the core; who goes to sleep pays for that with the heavy barrier.
class FutexMutex {
 public:
  void lock() {
    uint32_t free = kFree;
    if (!word_.compare_exchange(free, kHeld)) lock_contended();
  }
  // The next holder may end the object of which this is a part before the look: see Atomic::glance_late().
  __attribute__((always_inline)) void unlock() {
    word_.publish(kFree);
    light_barrier();
    if (calls_.glance_late() != 0) [[unlikely]]
      answer_call();
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1;
  void lock_contended();
  void answer_call();
  Atomic<uint32_t> word_;
  Atomic<uint32_t> calls_;     // of sleepers that nobody has answered yet
  Atomic<uint32_t> answered_;  // moves with every answer: what sleepers sleep on
};

#ifdef NOCTER_TEST_MONITOR
using Mutex = SchedulerMutex;  // one scheduling point instead of a dozen; FutexMutex has scenarios of its own
#else
using Mutex = FutexMutex;
#endif

class Locked {
 public:
  explicit Locked(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  // Goes on where another one left off.
  enum class Left : uint8_t { locked };
  Locked(Mutex& mutex, Left) : mutex_(mutex) {}
  Left leave() {
    held_ = false;
    return Left::locked;
  }
  ~Locked() {
    if (held_) mutex_.unlock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  __attribute__((always_inline)) void unlock() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Two locks of one object, always taken in this order.
class BothLocked {
 public:
  BothLocked(Mutex& first, Mutex& second) : first_(first), second_(second) {}
  void unlock() {
    second_.unlock();
    first_.unlock();
  }

 private:
  Locked first_, second_;
};

class Wakes;

// ---- Condition ------------------------------------------------------------------------------------------------------

class Wakes;

// Every member is called with the owner's Mutex held.
class Condition {
 public:
  // Those who wait now will look again. They are woken by `wakes` after the lock.
  void tell_all(Wakes& wakes);

  // Releases the lock, waits, takes it again. `changed`: look again. Anything else: the wait ended otherwise, and the caller still
  // looks once more before it believes that.
  Woken wait(Locked& lock, const Wait& wait, Patience patience) {
    const uint64_t seen = count_.version();
    waiting_++;
    lock.unlock();
    const Woken why = count_.wait(seen, wait, patience);
    lock.lock();
    waiting_--;
    return why;
  }

 private:
  [[no_unique_address]] EventCount count_;
  uint32_t waiting_ = 0;
};

// Collects under the lock, wakes after it. No allocation: a transition tells at most a handful of conditions; one that tells
// more (a shutdown) sends them out in several goes.
class Wakes {
 public:
  Wakes() = default;
  ~Wakes() { send(); }
  Wakes(const Wakes&) = delete;
  Wakes& operator=(const Wakes&) = delete;
  bool empty() const { return size_ == 0; }
  void add(EventCount& count, bool all) {
    if (size_ == kRoom) send();
    entries_[size_++] = {&count, all};
  }
  void send() {
    if (size_ != 0) [[unlikely]]
      send_all();
  }

 private:
  __attribute__((noinline)) void send_all() {
    for (uint32_t i = 0; i < size_; i++) {
      if (entries_[i].all) {
        entries_[i].count->wake_all();
      } else {
        entries_[i].count->wake_one();
      }
    }
    size_ = 0;
  }

  static constexpr uint32_t kRoom = 8;
  struct Entry {
    EventCount* count;
    bool all;
  };
  Entry entries_[kRoom];
  uint32_t size_ = 0;
};

inline void Condition::tell_all(Wakes& wakes) {
  if (waiting_ == 0) return;
  count_.advance_open();
  wakes.add(count_, true);
}

}  // namespace nocter::base
