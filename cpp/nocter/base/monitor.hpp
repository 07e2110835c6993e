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

#include "nocter/base/status.hpp"

namespace nocter::base {

// How long a waiter stays awake before it sleeps.
struct Patience {
  uint32_t spins;
  uint32_t yields;
};
// Whom a publication must reach: who is woken alone counts as awake while it looks for itself (see wake_one).
enum class Reach : bool { everybody, one };
Patience default_patience();

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
  static constexpr uint64_t kFirst = 1;  // zero is no version

  uint64_t version() const { return word_.load() >> 1; }
  bool closed() const { return (word_.load() & 1) != 0; }

  // Moves the version and wakes nobody: may be called under a lock, to be followed by a wake after it. False when it is closed,
  // and then it did not move; `now` is the version after it.
  bool advance(uint64_t& now);
  // The same for a count that was never closed and whose closing is not racing with this: one instruction.
  uint64_t advance_open() { return (word_.fetch_add(2) >> 1) + 1; }
  // Closes for good; true the first time. To be followed by wake_all().
  bool close();

  void wake_all() {
    if (sleepers_.load() != 0) futex_wake(word_.futex_word(), kEverybody);
  }
  // One is enough when every woken waiter looks for what it was woken for before it gives up, and passes the wake on when
  // there is more than it took. A waiter still awake will see the new version by itself.
  void wake_one() {
    if (awake_.load() == 0 && sleepers_.load() != 0) futex_wake(word_.futex_word(), 1);
  }

  // Returns when the version is no longer `seen`, and for nothing else but close, interrupt, signal and deadline.
  Woken wait(uint64_t seen, const Wait& wait, Patience patience, Reach reach = Reach::everybody);
  // The first look of a wait, for those who must do something before they stay: true when it is over already.
  bool look(uint64_t seen, Woken& found) const {
    const uint64_t word = word_.load();
    if (word == seen << 1) return false;
    found = (word & 1) != 0 ? Woken::closed : Woken::changed;
    return true;
  }

 private:
  bool stay_awake(uint64_t seen, const Wait& wait, Patience patience, Reach reach, Woken& found);
  Woken sleep(uint64_t seen, const Wait& wait);

  // The version in the upper 63 bits, closed in the lowest. 64 bits, so that no version ever comes round; the kernel compares
  // the lower half, which could only come round during the instant between our own comparison and its, in which every
  // publication is a system call.
  Atomic<uint64_t> word_{kFirst << 1};
  Atomic<uint32_t> sleepers_;
  Atomic<uint32_t> awake_;
  Atomic<uint32_t> thrift_;  // how often lately staying awake was in vain: see stay_awake
};

// ---- Mutex ----------------------------------------------------------------------------------------------------------

// A futex lock after U. Drepper, "Futexes Are Tricky", 2004, whose waiters first spin and yield. Unfair on purpose: a thread
// that comes back at once finds the lock's cache line still its own, so a busy pair of threads takes turns in runs.
class FutexMutex {
 public:
  void lock() {
    uint32_t free = kFree;
    if (!word_.compare_exchange(free, kHeld)) lock_contended();
  }
  void unlock() {
    if (word_.exchange(kFree) == kWanted) futex_wake(word_.futex_word(), 1);
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kWanted = 2;
  void lock_contended();
  Atomic<uint32_t> word_;
};

#ifdef NOCTER_TEST_MONITOR
using Mutex = SchedulerMutex;  // one scheduling point instead of a dozen; FutexMutex has scenarios of its own
#else
using Mutex = FutexMutex;
#endif

class Locked {
 public:
  explicit Locked(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Locked() {
    if (held_) mutex_.unlock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  void unlock() {
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

class Wakes;

// ---- Condition ------------------------------------------------------------------------------------------------------

class Wakes;

// Every member is called with the owner's Mutex held.
template <Reach reach>
class ConditionFor {
 public:
  // Those who wait now will look again: all of them, or at least one. They are woken by `wakes` after the lock.
  void tell_all(Wakes& wakes);
  void tell_one(Wakes& wakes);

  // Releases the lock, waits, takes it again. `changed`: look again. Anything else: the wait ended otherwise, and the caller still
  // looks once more before it believes that.
  Woken wait(Locked& lock, const Wait& wait, Patience patience) {
    const uint64_t seen = count_.version();
    waiting_++;
    lock.unlock();
    const Woken why = count_.wait(seen, wait, patience, reach);
    lock.lock();
    waiting_--;
    return why;
  }

 private:
  [[no_unique_address]] EventCount count_;
  uint32_t waiting_ = 0;
};
using Condition = ConditionFor<Reach::everybody>;
using WorkCondition = ConditionFor<Reach::one>;

// Collects under the lock, wakes after it. No allocation: a transition tells at most a handful of conditions; one that tells
// more (a shutdown) sends them out in several goes.
class Wakes {
 public:
  Wakes() = default;
  ~Wakes() { send(); }
  Wakes(const Wakes&) = delete;
  Wakes& operator=(const Wakes&) = delete;
  void add(EventCount& count, bool all) {
    if (size_ == kRoom) send();
    entries_[size_++] = {&count, all};
  }
  void send() {
    for (uint32_t i = 0; i < size_; i++) {
      if (entries_[i].all) {
        entries_[i].count->wake_all();
      } else {
        entries_[i].count->wake_one();
      }
    }
    size_ = 0;
  }

 private:
  static constexpr uint32_t kRoom = 8;
  struct Entry {
    EventCount* count;
    bool all;
  };
  Entry entries_[kRoom];
  uint32_t size_ = 0;
};

template <Reach reach>
void ConditionFor<reach>::tell_all(Wakes& wakes) {
  if (waiting_ == 0) return;
  count_.advance_open();
  wakes.add(count_, true);
}
template <Reach reach>
void ConditionFor<reach>::tell_one(Wakes& wakes) {
  static_assert(reach == Reach::one);
  if (waiting_ == 0) return;
  count_.advance_open();
  wakes.add(count_, false);
}

}  // namespace nocter::base
