// The monitor itself: FutexMutex, EventCount, Condition, Interrupt, Wakes.
#include <memory>

#include "sched/program.hpp"

namespace sched {

namespace {

using nocter::base::Atomic;
using nocter::base::Condition;
using nocter::base::EventCount;
using nocter::base::FutexMutex;
using nocter::base::Interrupt;
using nocter::base::kForever;
using nocter::base::Locked;
using nocter::base::Mutex;
using nocter::base::now_ns;
using nocter::base::Patience;
using nocter::base::Wait;
using nocter::base::Wakes;
using nocter::base::Woken;

constexpr Patience kSleepAtOnce = {0, 0};
constexpr Patience kLookTwice = {1, 1};

// ---- FutexMutex -----------------------------------------------------------------------------------------------------

struct Guarded {
  FutexMutex mutex;
  int inside = 0, times = 0;
  void pass() {
    mutex.lock();
    require_equal(++inside, 1, "threads inside of the lock");
    point("inside");
    times++;
    inside--;
    mutex.unlock();
  }
};

template <int threads, int turns>
void futex_mutex(Play& play) {
  static constexpr const char* kNames[] = {"one", "two", "three"};
  auto guarded = std::make_shared<Guarded>();
  for (int i = 0; i < threads; i++) {
    play.thread(kNames[i], [=] {
      for (int k = 0; k < turns; k++) guarded->pass();
    });
  }
  play.at_end([=] {
    require_equal(guarded->times, threads * turns, "passes");
    guarded->pass();  // it is free again
  });
}

void publish(EventCount& count) {
  uint64_t now;
  count.advance(now, false);
  count.wake_all();
}

// ---- EventCount -----------------------------------------------------------------------------------------------------

template <Patience patience, int waiters, int publishers>
void publish_against_wait(Play& play) {
  struct State {
    EventCount count;
    Atomic<uint32_t> value;
  };
  static constexpr const char* kWaiters[] = {"first waiter", "second waiter", "third waiter"};
  static constexpr const char* kPublishers[] = {"first publisher", "second publisher"};
  auto state = std::make_shared<State>();
  for (int i = 0; i < waiters; i++) {
    play.thread(kWaiters[i], [=] {
      for (;;) {
        const uint64_t seen = state->count.version();
        if (state->value.load() == publishers) return;
        require(state->count.wait(seen, {}, patience) == Woken::changed, "a wait ended for no reason");
        require(state->count.version() != seen, "said changed, and the version is the one seen");
      }
    });
  }
  for (int i = 0; i < publishers; i++) {
    play.thread(kPublishers[i], [=] {
      state->value.fetch_add(1);
      publish(state->count);
    });
  }
  play.at_end([=] { require_equal(static_cast<int64_t>(state->count.version()), 1 + publishers, "version"); });
}

// Wakes that collapse: a version that nobody knows need not move, and one that somebody waits on does.
template <Patience patience, int waiters, int publishers>
void observed_against_wait(Play& play) {
  struct State {
    EventCount count;
    Atomic<uint32_t> value;
  };
  static constexpr const char* kWaiters[] = {"first waiter", "second waiter"};
  static constexpr const char* kPublishers[] = {"first publisher", "second publisher"};
  auto state = std::make_shared<State>();
  for (int i = 0; i < waiters; i++) {
    play.thread(kWaiters[i], [=] {
      for (;;) {
        const uint64_t seen = state->count.observe();
        if (state->value.load() == publishers) return;
        require(state->count.wait(seen, {}, patience) == Woken::changed, "a wait ended for no reason");
      }
    });
  }
  for (int i = 0; i < publishers; i++) {
    play.thread(kPublishers[i], [=] {
      state->value.fetch_add(1);
      if (state->count.advance_if_observed()) state->count.wake_all();
    });
  }
}

// Tokens, given one after the other, each with a wake of one; every waiter takes one. Whoever is woken for one and
// finds more passes the wake on, and one who is still awake may swallow no wake that a sleeper needed.
template <Patience first, Patience second, bool third_taker>
void wake_one(Play& play) {
  struct State {
    Mutex mutex;
    EventCount count;
    int tokens = 0, taken = 0;
    void take(Patience patience) {
      mutex.lock();
      while (tokens == 0) {
        const uint64_t seen = count.version();
        mutex.unlock();
        require(count.wait(seen, {}, patience) == Woken::changed, "a wait ended for no reason");
        mutex.lock();
      }
      taken++;
      const bool more = --tokens > 0;
      if (more) count.advance_open();
      mutex.unlock();
      if (more) count.wake_one();
    }
    void give() {
      mutex.lock();
      tokens++;
      count.advance_open();
      mutex.unlock();
      count.wake_one();
    }
  };
  auto state = std::make_shared<State>();
  play.thread("first taker", [=] { state->take(first); });
  play.thread("second taker", [=] { state->take(second); });
  if (third_taker) play.thread("third taker", [=] { state->take(kLookTwice); });
  play.thread("giver", [=] {
    for (int i = 0; i < (third_taker ? 3 : 2); i++) state->give();
  });
  play.at_end([=] { require_equal(state->taken, third_taker ? 3 : 2, "tokens taken"); });
}

void tell_all(Play& play) {
  struct State {
    Mutex mutex;
    Condition opened;
    bool open = false;
  };
  auto state = std::make_shared<State>();
  for (const char* name : {"one", "two"}) {
    play.thread(name, [=] {
      Locked lock(state->mutex);
      while (!state->open) {
        require(state->opened.wait(lock, {}, kSleepAtOnce) == Woken::changed, "a wait ended for no reason");
      }
    });
  }
  play.thread("opener", [=] {
    Wakes wakes;
    Locked lock(state->mutex);
    state->open = true;
    state->opened.tell_all(wakes);
    require_equal(locks_held(), 1, "locks held");
    lock.unlock();
    wakes.send();
    require_equal(locks_held(), 0, "locks held");
  });
}

template <Patience patience>
void close_against_wait(Play& play) {
  auto count = std::make_shared<EventCount>();
  play.thread("waiter", [=] {
    uint64_t seen = count->version();
    for (;;) {
      const Woken woken = count->wait(seen, {}, patience);
      if (woken == Woken::closed) break;
      require(woken == Woken::changed, "a wait ended for no reason");
      seen = count->version();
    }
    require(count->closed(), "said closed, and it is open");
    require(count->wait(count->version(), {}, patience) == Woken::closed, "closed is for good");
  });
  play.thread("closer", [=] {
    require(count->close(), "the first closes");
    count->wake_all();
  });
  play.thread("publisher", [=] { publish(*count); });
  play.at_end([=] {
    const uint64_t last = count->version();
    require(last == 1 || last == 2, "one publication, before the close or not at all");
    uint64_t now;
    require(!count->advance(now, false) && now == last, "a closed version does not move");
    require(!count->close(), "closed once only");
  });
}

template <Patience patience>
void deadline_against_publish(Play& play) {
  auto count = std::make_shared<EventCount>();
  play.thread("waiter", [=] {
    const uint64_t seen = count->version();
    const Wait wait = {now_ns() + 1'000'000'000, nullptr, false};
    const Woken woken = count->wait(seen, wait, patience);
    if (woken == Woken::timed_out) require(now_ns() >= wait.deadline_ns, "timed out before its deadline");
    if (woken == Woken::changed) require(count->version() != seen, "said changed, and it is not");
    require(woken == Woken::timed_out || woken == Woken::changed, "ended otherwise");
  });
  play.thread("publisher", [=] { publish(*count); });
}

// Of several ends at once the one that comes first in the order is reported.
void order_of_ends(Play& play) {
  struct State {
    EventCount count;
    Interrupt interrupt;
  };
  auto state = std::make_shared<State>();
  const auto until = std::make_shared<bool>(false);
  play.thread("waiter", [=] {
    const uint64_t seen = state->count.version();
    *until = true;
    wait_until([=] { return ended("publisher"); });
    state->interrupt.raise();
    const Wait past = {now_ns() - 1, &state->interrupt, false};
    require(state->count.wait(seen, past, kLookTwice) == Woken::changed, "changed hides an interrupt and a deadline");
    require(state->count.wait(state->count.version(), past, kLookTwice) == Woken::interrupted,
            "an interrupt hides a deadline");
    state->interrupt.clear();
    require(state->count.wait(state->count.version(), past, kLookTwice) == Woken::timed_out, "the deadline is left");
    state->interrupt.raise();
    state->count.close();
    require(state->count.wait(seen, past, kLookTwice) == Woken::closed, "closed hides all");
  });
  play.thread("publisher", [=] {
    wait_until([=] { return *until; });
    publish(state->count);
  });
}

// ---- Interrupt ------------------------------------------------------------------------------------------------------

template <Patience patience>
void raise_against_sleep(Play& play) {
  struct State {
    EventCount count;
    Interrupt interrupt;
  };
  auto state = std::make_shared<State>();
  play.thread("waiter", [=] {
    const uint64_t seen = state->count.version();
    require(state->count.wait(seen, {kForever, &state->interrupt, false}, patience) == Woken::interrupted,
            "nothing else ends this wait");
    require(state->interrupt.raised(), "it stays raised");
  });
  play.thread("raiser", [=] { state->interrupt.raise(); });
}

void one_interrupt_for_two_waits(Play& play) {
  struct State {
    EventCount a, b;
    Interrupt interrupt;
  };
  auto state = std::make_shared<State>();
  play.thread("one", [=] {
    const Woken woken = state->a.wait(state->a.version(), {kForever, &state->interrupt, false}, kSleepAtOnce);
    require(woken == Woken::interrupted, "nobody publishes here");
  });
  play.thread("two", [=] {
    const uint64_t seen = state->b.version();
    const Woken woken = state->b.wait(seen, {kForever, &state->interrupt, false}, kLookTwice);
    require(woken == Woken::interrupted || state->b.version() != seen, "said changed, and it is not");
  });
  play.thread("raiser", [=] {
    publish(state->b);
    state->interrupt.raise();
  });
}

// A handler ends the wait that asked for it, and no other.
void signal_handler(Play& play) {
  auto count = std::make_shared<EventCount>();
  play.thread("asks for it", [=] {
    const uint64_t seen = count->version();
    const Woken woken = count->wait(seen, {kForever, nullptr, true}, kSleepAtOnce);
    require(woken == Woken::interrupted || woken == Woken::changed, "ended otherwise");
    if (woken == Woken::changed) require(count->version() != seen, "said changed, and it is not");
  });
  play.thread("does not", [=] {
    const uint64_t seen = count->version();
    require(count->wait(seen, {}, kSleepAtOnce) == Woken::changed, "a handler ended a wait");
    require(count->version() != seen, "said changed, and it is not");
  });
  play.thread("publisher", [=] {
    wait_until([=] { return asleep("does not") && asleep("asks for it"); });
    publish(*count);
  });
}

}  // namespace

}  // namespace sched

int main(int argc, char** argv) {
  using namespace sched;
  return program(argc, argv,
                 {
                     {"mutex_of_two_threads", "GEN-01", futex_mutex<2, 2>},
                     {"mutex_of_three_threads", "GEN-01", futex_mutex<3, 2>},
                     {"mutex_of_two_sleepers", "GEN-01", futex_mutex<2, 2>, Disturbance::idle_yields},
                     {"mutex_of_three_sleepers", "GEN-01", futex_mutex<3, 1>, Disturbance::idle_yields},
                     {"mutex_of_three_sleepers_twice", "GEN-01", futex_mutex<3, 2>, Disturbance::idle_yields},
                     {"s02_publish_against_wait", "SIG-01 S-1 S-2 S-3", publish_against_wait<kSleepAtOnce, 2, 1>},
                     {"s06_two_publications", "SIG-01 S-6", publish_against_wait<kSleepAtOnce, 1, 2>},
                     {"s07_waiters_awake_and_asleep", "SIG-01 S-7", publish_against_wait<kLookTwice, 2, 1>},
                     {"s02_publication_if_observed", "SIG-01 S-2", observed_against_wait<kSleepAtOnce, 1, 2>},
                     {"s07_publication_if_observed_by_two", "SIG-01 S-2 S-7", observed_against_wait<kLookTwice, 2, 1>},
                     {"wake_one_of_sleepers", "SIG-01 S-20", wake_one<kSleepAtOnce, kSleepAtOnce, false>},
                     {"wake_one_with_one_awake", "SIG-01 S-20", wake_one<kLookTwice, kSleepAtOnce, false>},
                     {"wake_one_with_all_awake", "SIG-01 S-20", wake_one<kLookTwice, kLookTwice, false>},
                     {"wake_one_of_three", "SIG-01 S-20", wake_one<kSleepAtOnce, kSleepAtOnce, true>},
                     {"tell_all", "GEN-05", tell_all},
                     {"s13_close_against_wait", "SIG-04 S-13", close_against_wait<kSleepAtOnce>},
                     {"s13_close_against_waiter_awake", "SIG-04 S-13", close_against_wait<kLookTwice>},
                     {"s09_deadline_against_publish", "GEN-07 S-9", deadline_against_publish<kSleepAtOnce>},
                     {"s09_deadline_of_a_waiter_awake", "GEN-07 S-9", deadline_against_publish<kLookTwice>},
                     {"s14_order_of_ends", "SIG-03 S-10 S-14 S-15", order_of_ends},
                     {"s15_raise_against_sleep", "GEN-07 S-15", raise_against_sleep<kSleepAtOnce>},
                     {"s15_raise_against_waiter_awake", "GEN-07 S-15", raise_against_sleep<kLookTwice>},
                     {"one_interrupt_for_two_waits", "GEN-07", one_interrupt_for_two_waits},
                     {"s08_signal_handler", "GEN-07 S-8", signal_handler, Disturbance::signals},
                 });
}
