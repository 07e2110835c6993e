// Defects planted on purpose. Each is one line away from its sound twin; the explorer has to find the one and to pass
// the other, else its silence about the real code would mean nothing.
#include "sched/program.hpp"

#include <memory>

namespace sched {

namespace {

using nocter::base::Atomic;
using nocter::base::futex_sleep;
using nocter::base::futex_wake;
using nocter::base::kEverybody;
using nocter::base::kForever;
using nocter::base::now_ns;
using nocter::base::SchedulerMutex;
using nocter::base::Slept;
using nocter::base::yield_core;

// ---- An event count -------------------------------------------------------------------------------------------------

struct SmallEventCount {
  Atomic<uint32_t> version;
  Atomic<uint32_t> sleepers;

  void publish() {
    version.fetch_add(1);
    if (sleepers.load() != 0) futex_wake(version.futex_word(), kEverybody);
  }
  // Asks for sleepers before the version moves: one that comes in between is not woken, and saw nothing either.
  void publish_early() {
    const bool awaited = sleepers.load() != 0;
    version.fetch_add(1);
    if (awaited) futex_wake(version.futex_word(), kEverybody);
  }
  // Sleeps on the version read after registering and not on the one seen: a publication in between is slept through.
  void wait_wrongly(uint32_t seen) {
    if (version.load() != seen) return;
    sleepers.fetch_add(1);
    do {
      const uint32_t now = version.load();
      futex_sleep(version.futex_word(), now, nullptr, 0, kForever);
    } while (version.load() == seen);
    sleepers.fetch_sub(1);
  }
  void wait(uint32_t seen) {
    sleepers.fetch_add(1);
    while (version.load() == seen) futex_sleep(version.futex_word(), seen, nullptr, 0, kForever);
    sleepers.fetch_sub(1);
  }
};

enum class EventCountDefect { none, no_recheck, asks_early };

template <EventCountDefect defect>
void event_count(Play& play) {
  auto count = std::make_shared<SmallEventCount>();
  auto state = std::make_shared<bool>(false);
  play.thread("waiter", [=] {
    const uint32_t seen = count->version.load();
    if (*state) return;
    defect == EventCountDefect::no_recheck ? count->wait_wrongly(seen) : count->wait(seen);
    require(*state, "returned before the state changed");
  });
  play.thread("publisher", [=] {
    *state = true;
    defect == EventCountDefect::asks_early ? count->publish_early() : count->publish();
  });
}

// ---- A queue under a lock -------------------------------------------------------------------------------------------

struct SmallQueue {
  SchedulerMutex mutex;
  Atomic<uint32_t> version;
  int items = 0;
  int taken = 0;

  void put() {
    mutex.lock();
    items++;
    mutex.unlock();
    version.fetch_add(1);
    futex_wake(version.futex_word(), kEverybody);
  }
  void sleep_unlocked() {
    const uint32_t seen = version.load();
    mutex.unlock();
    futex_sleep(version.futex_word(), seen, nullptr, 0, kForever);
    mutex.lock();
  }
  void take(bool asks_once) {
    mutex.lock();
    if (asks_once) {
      if (items == 0) sleep_unlocked();
    } else {
      while (items == 0) sleep_unlocked();
    }
    items--;
    taken++;
    require(items >= 0, "took what was not there");
    mutex.unlock();
  }
};

template <bool asks_once>
void queue(Play& play) {
  auto small = std::make_shared<SmallQueue>();
  for (const char* name : {"first taker", "second taker"}) play.thread(name, [=] { small->take(asks_once); });
  play.thread("giver", [=] {
    small->put();
    small->put();
  });
  play.at_end([=] { require_equal(small->taken, 2, "taken"); });
}

// ---- A futex lock ---------------------------------------------------------------------------------------------------

// Free, held, wanted. The wrong one frees without asking whether somebody wants it; or takes it in two steps.
struct SmallLock {
  Atomic<uint32_t> word;
  void lock(bool in_two_steps) {
    if (in_two_steps) {
      while (word.load() != 0) yield_core();
      word.store(1);
      return;
    }
    uint32_t free = 0;
    if (word.compare_exchange(free, 1)) return;
    while (word.exchange(2) != 0) futex_sleep(word.futex_word(), 2, nullptr, 0, kForever);
  }
  void unlock(bool forgets) {
    const uint32_t was = word.exchange(0);
    if (was == 2 && !forgets) futex_wake(word.futex_word(), 1);
  }
};

template <bool in_two_steps, bool forgets>
void small_lock(Play& play) {
  auto lock = std::make_shared<SmallLock>();
  auto inside = std::make_shared<int>(0);
  for (const char* name : {"one", "two"}) {
    play.thread(name, [=] {
      lock->lock(in_two_steps);
      ++*inside;
      point("inside");
      require_equal(*inside, 1, "threads inside of the lock");
      --*inside;
      lock->unlock(forgets);
    });
  }
}

// ---- A deadline -----------------------------------------------------------------------------------------------------

// A wait that takes every return of its sleep for the deadline; the sound one asks the clock and the word.
template <bool believes>
void deadline(Play& play) {
  auto word = std::make_shared<Atomic<uint32_t>>();
  play.thread("waiter", [=] {
    const int64_t until = now_ns() + 1'000'000;
    for (;;) {
      const Slept slept = futex_sleep(word->futex_word(), 0, nullptr, 0, until);
      if (word->load() != 0) return;
      if (believes || (slept == Slept::timed_out && now_ns() >= until)) {
        require(now_ns() >= until, "said the deadline had passed, and it had not");
        return;
      }
    }
  });
  play.thread("setter", [=] {
    word->store(1);
    futex_wake(word->futex_word(), kEverybody);
  });
}

// ---- Ownership, lock order, endless turns ---------------------------------------------------------------------------

template <bool in_one_step>
void owner(Play& play) {
  auto value = std::make_shared<Atomic<uint32_t>>(1);
  auto ended = std::make_shared<int>(0);
  for (const char* name : {"one", "two"}) {
    play.thread(name, [=] {
      if (in_one_step) {
        if (value->exchange(0) == 1) ++*ended;
      } else if (value->load() == 1) {
        value->store(0);
        ++*ended;
      }
    });
  }
  play.at_end([=] { require_equal(*ended, 1, "times that the value was ended"); });
}

template <bool same_order>
void two_locks(Play& play) {
  struct Locks {
    SchedulerMutex a, b;
  };
  auto locks = std::make_shared<Locks>();
  const auto both = [](SchedulerMutex& first, SchedulerMutex& second) {
    first.lock();
    second.lock();
    second.unlock();
    first.unlock();
  };
  play.thread("one", [=] { both(locks->a, locks->b); });
  play.thread("two", [=] { same_order ? both(locks->a, locks->b) : both(locks->b, locks->a); });
}

template <bool sets>
void turn(Play& play) {
  auto flag = std::make_shared<Atomic<uint32_t>>();
  play.thread("looker", [=] {
    while (flag->load() == 0) yield_core();
  });
  play.thread("setter", [=] { flag->store(sets ? 1 : 0); });
}

}  // namespace

const std::vector<Control>& controls() {
  static const std::vector<Control> all = {
      {{"planted_no_recheck_after_registering", "", event_count<EventCountDefect::no_recheck>},
       "deadlock",
       {"sound_event_count", "SIG-01", event_count<EventCountDefect::none>}},
      {{"planted_if_for_while", "", queue<true>}, "took what was not there", {"sound_queue", "GEN-07", queue<false>}},
      {{"planted_lost_wake", "", small_lock<false, true>},
       "deadlock",
       {"sound_lock", "GEN-01", small_lock<false, false>}},
      {{"planted_question_before_publication", "", event_count<EventCountDefect::asks_early>},
       "deadlock",
       {"sound_event_count_again", "SIG-01", event_count<EventCountDefect::none>}},
      {{"planted_lock_in_two_steps", "", small_lock<true, false>},
       "threads inside of the lock",
       {"sound_lock_again", "GEN-01", small_lock<false, false>}},
      {{"planted_belief_in_time_outs", "", deadline<true>},
       "said the deadline had passed",
       {"sound_deadline", "GEN-07", deadline<false>}},
      {{"planted_two_owners", "", owner<false>},
       "times that the value was ended",
       {"sound_owner", "GEN-01", owner<true>}},
      {{"planted_lock_order", "", two_locks<false>}, "deadlock", {"sound_lock_order", "GEN-05", two_locks<true>}},
      {{"planted_endless_turn", "", turn<false>}, "livelock", {"sound_turn", "GEN-07", turn<true>}},
  };
  return all;
}

}  // namespace sched
