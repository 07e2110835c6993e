// The versioned signal through its C functions.
#include <algorithm>

#include "sched/program.hpp"
#include "sched/world.hpp"

namespace sched {

namespace {

// A signal waits by the default patience: it yields ten times before it sleeps. Those called "asleep" are scenarios
// in which yielding lets nobody in, so that the way into the sleep itself is explored.
using nocter::base::Locked;
using nocter::base::Mutex;

// A signal, a state that its users guard with a lock of their own, and the end of both.
struct Signalled {
  nocter_signal* signal = nullptr;
  Mutex mutex;
  int state = 0;

  Signalled() { require_equal(nocter_signal_create(&signal), NOCTER_OK, "signal_create"); }
  Signalled(const Signalled&) = delete;
  Signalled& operator=(const Signalled&) = delete;
  void change() {
    Locked lock(mutex);
    state++;
  }
  int read() {
    Locked lock(mutex);
    return state;
  }
  uint64_t version() const { return nocter_signal_version(signal); }
  uint64_t publish() {
    uint64_t version;
    const nocter_status status = nocter_signal_publish(signal, &version);
    require(status == NOCTER_OK || status == NOCTER_CLOSED, "publish");
    require(version != 0, "zero is no version");
    return status == NOCTER_OK ? version : 0;
  }
  nocter_status wait(uint64_t seen, const nocter_wait* wait, uint64_t& now) {
    const nocter_status status = nocter_signal_wait(signal, seen, wait, &now);
    require(now >= seen, "a version went back");
    if (status == NOCTER_OK) require(now != seen, "said changed, and it is not");
    if (status == NOCTER_TIMEOUT || status == NOCTER_INTERRUPTED) require(now == seen, "said nothing of a change");
    require(status != NOCTER_PENDING || wait == nullptr, "a wait that may wait says pending");
    return status;
  }
  // Read the version, test the state, wait while the version is the one read, test again.
  void wait_for(int wanted) {
    const nocter_wait wait_forever = forever();
    for (;;) {
      const uint64_t seen = version();
      if (read() >= wanted) return;
      uint64_t now;
      require_equal(wait(seen, &wait_forever, now), NOCTER_OK, "wait");
    }
  }
  void destroy() {
    nocter_signal_destroy(signal);
    signal = nullptr;
  }
};

std::shared_ptr<Signalled> signalled() { return std::make_shared<Signalled>(); }

// ---- Publications ---------------------------------------------------------------------------------------------------

template <int waiters, int publishers, bool under_lock>
void protocol(Play& play) {
  static constexpr const char* kWaiters[] = {"first waiter", "second waiter"};
  static constexpr const char* kPublishers[] = {"first publisher", "second publisher"};
  auto world = signalled();
  for (int i = 0; i < waiters; i++) play.thread(kWaiters[i], [=] { world->wait_for(publishers); });
  for (int i = 0; i < publishers; i++) {
    play.thread(kPublishers[i], [=] {
      if (under_lock) {
        Locked lock(world->mutex);
        world->state++;
        world->publish();
        require_equal(locks_held(), 1, "a publication holds no lock of its own beyond its end");
      } else {
        world->change();
        world->publish();
      }
    });
  }
  play.at_end([=] {
    require_equal(static_cast<int64_t>(world->version()), 1 + publishers, "one version a publication");
    world->destroy();
  });
}

// Each publication has a version of its own, and a later one a greater.
void versions_of_publications(Play& play) {
  auto world = signalled();
  auto versions = std::make_shared<std::vector<uint64_t>>();
  for (const char* name : {"one", "two"}) {
    play.thread(name, [=] {
      const uint64_t first = world->publish();
      const uint64_t second = world->publish();
      require(first < second, "a later publication has no greater version");
      versions->insert(versions->end(), {first, second});
    });
  }
  play.thread("reader", [=] {
    const uint64_t before = world->version();
    const uint64_t after = world->version();
    require(before <= after, "a version went back");
  });
  play.at_end([=] {
    std::sort(versions->begin(), versions->end());
    for (size_t i = 0; i < versions->size(); i++) {
      require_equal(static_cast<int64_t>((*versions)[i]), static_cast<int64_t>(i) + 2,
                    "versions without gap or repetition");
    }
    world->destroy();
  });
}

// Publications while nobody waits are one change to who comes later.
void publications_before_the_wait(Play& play) {
  auto world = signalled();
  auto heard = std::make_shared<int>(0);
  play.thread("waiter", [=] {
    const uint64_t seen = world->version();
    wait_until([] { return ended("publisher"); });
    uint64_t now;
    const nocter_status polled = world->wait(seen, nullptr, now);
    require_equal(polled, seen == now ? NOCTER_PENDING : NOCTER_OK, "a poll");
    ++*heard;
    require_equal(world->wait(now, nullptr, now), NOCTER_PENDING, "a second poll");
  });
  play.thread("publisher", [=] {
    world->publish();
    world->publish();
  });
  play.at_end([=] {
    require_equal(*heard, 1, "polls");
    world->destroy();
  });
}

// ---- Other ends -----------------------------------------------------------------------------------------------------

void deadline_against_publish(Play& play) {
  auto world = signalled();
  play.thread("waiter", [=] {
    const uint64_t seen = world->version();
    const nocter_wait wait = within(1'000'000'000);
    uint64_t now;
    const nocter_status heard = world->wait(seen, &wait, now);
    require(heard == NOCTER_OK || heard == NOCTER_TIMEOUT, "wait");
    if (heard == NOCTER_TIMEOUT) require(nocter_now_ns() >= wait.deadline_ns, "timed out before its deadline");
  });
  play.thread("publisher", [=] { world->publish(); });
  play.at_end([=] { world->destroy(); });
}

// A deadline that has passed makes a poll; a change is never hidden by it.
void past_deadline(Play& play) {
  auto world = signalled();
  play.thread("waiter", [=] {
    const uint64_t seen = world->version();
    const nocter_wait wait = within(-1);
    uint64_t now;
    const nocter_status heard = world->wait(seen, &wait, now);
    require(heard == NOCTER_TIMEOUT || (heard == NOCTER_OK && world->read() == 1), "a poll");
    const bool published = ended("publisher");
    const nocter_status again = world->wait(seen, &wait, now);
    if (published) require_equal(again, seen == now ? NOCTER_TIMEOUT : NOCTER_OK, "a poll after the publication");
  });
  play.thread("publisher", [=] {
    world->change();
    world->publish();
  });
  play.at_end([=] { world->destroy(); });
}

void interrupt_against_publish(Play& play) {
  auto world = signalled();
  auto interrupt = std::make_shared<OwnInterrupt>();
  play.thread("waiter", [=] {
    const uint64_t seen = world->version();
    const nocter_wait wait = forever(*interrupt);
    uint64_t now;
    const nocter_status heard = world->wait(seen, &wait, now);
    require(heard == NOCTER_OK || heard == NOCTER_INTERRUPTED, "wait");
    if (heard == NOCTER_INTERRUPTED) require(nocter_interrupt_raised(*interrupt), "interrupted by nobody");
    // Whatever was heard, the other is not swallowed.
    wait_until([] { return ended("publisher") && ended("raiser"); });
    require(nocter_interrupt_raised(*interrupt), "a raise was swallowed");
    require_equal(world->wait(1, &wait, now), NOCTER_OK, "a publication was hidden by an interrupt");
  });
  play.thread("publisher", [=] { world->publish(); });
  play.thread("raiser", [=] { nocter_interrupt_raise(*interrupt); });
  play.at_end([=] { world->destroy(); });
}

// One interrupt ends all waits that carry it; cleared, it ends none.
void interrupt_of_two(Play& play) {
  auto world = signalled();
  auto interrupt = std::make_shared<OwnInterrupt>();
  for (const char* name : {"one", "two"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever(*interrupt);
      uint64_t now;
      require_equal(world->wait(world->version(), &wait, now), NOCTER_INTERRUPTED, "wait");
    });
  }
  play.thread("raiser", [=] { nocter_interrupt_raise(*interrupt); });
  play.at_end([=] {
    nocter_interrupt_clear(*interrupt);
    const nocter_wait wait = within(5, *interrupt);
    uint64_t now;
    require_equal(world->wait(world->version(), &wait, now), NOCTER_TIMEOUT,
                  "a wait with an interrupt that was cleared");
    world->destroy();
  });
}

void close_against_all(Play& play) {
  auto world = signalled();
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    uint64_t now = world->version();
    nocter_status heard;
    do heard = world->wait(now, &wait, now);
    while (heard == NOCTER_OK);
    require_equal(heard, NOCTER_CLOSED, "wait");
    require_equal(world->wait(now, nullptr, now), NOCTER_CLOSED, "a poll of a closed signal");
  });
  play.thread("publisher", [=] {
    const uint64_t version = world->publish();
    require(version == 0 || version == 2, "publish");
    if (version == 0)
      require_equal(static_cast<int64_t>(world->version()), 1, "a refused publication moved the version");
  });
  play.thread("closer", [=] {
    nocter_signal_close(world->signal);
    const uint64_t last = world->version();
    require_equal(static_cast<int64_t>(world->publish()), 0, "publish after close");
    require(world->version() == last, "a closed version moved");
  });
  play.at_end([=] { world->destroy(); });
}

// Destroy wakes who waits, and the last one out frees; nobody touches freed memory.
template <bool timed>
void destroy_against_waiters(Play& play) {
  auto world = signalled();
  for (const char* name : {"one", "two"}) {
    play.thread(name, [=] {
      const nocter_wait wait = timed ? within(1'000'000'000) : forever();
      uint64_t now;
      const nocter_status heard = world->wait(1, &wait, now);
      require(heard == NOCTER_CLOSED || (timed && heard == NOCTER_TIMEOUT), "wait");
    });
  }
  play.thread("owner", [=] {
    wait_until([] { return asleep("one") && asleep("two"); });
    nocter_signal_destroy(world->signal);
  });
}

// A notifier keeps the signal alive, and its wake after the end of the handle does nothing.
void destroy_against_notifier(Play& play) {
  auto world = signalled();
  const nocter_notifier notifier = nocter_signal_notifier(world->signal);
  play.thread("service", [=] {
    notifier.wake(notifier.user);
    notifier.drop(notifier.user);
  });
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    uint64_t now;
    const nocter_status heard = world->wait(1, &wait, now);
    require(heard == NOCTER_OK || heard == NOCTER_CLOSED, "wait");
  });
  play.thread("owner", [=] {
    wait_until([] { return asleep("waiter"); });
    nocter_signal_destroy(world->signal);
  });
}

// A publication on its way out when the owner, who has seen it, destroys the signal.
void destroy_against_publication(Play& play) {
  auto world = signalled();
  play.thread("publisher", [=] { world->publish(); });
  play.thread("owner", [=] {
    const nocter_wait wait = forever();
    uint64_t now;
    require_equal(world->wait(1, &wait, now), NOCTER_OK, "wait");
    nocter_signal_destroy(world->signal);
  });
}

void signal_handlers(Play& play) {
  auto world = signalled();
  play.thread("asks for it", [=] {
    nocter_wait wait = forever();
    wait.flags = NOCTER_WAIT_EINTR;
    uint64_t now;
    const nocter_status heard = world->wait(1, &wait, now);
    require(heard == NOCTER_OK || heard == NOCTER_INTERRUPTED, "wait");
  });
  play.thread("does not", [=] {
    const nocter_wait wait = within(1'000'000'000);
    uint64_t now;
    const nocter_status heard = world->wait(1, &wait, now);
    require(heard == NOCTER_OK || heard == NOCTER_TIMEOUT, "a handler ended a wait that did not ask for it");
    if (heard == NOCTER_TIMEOUT) require(nocter_now_ns() >= wait.deadline_ns, "a handler brought the deadline forward");
  });
  play.thread("publisher", [=] { world->publish(); });
  play.at_end([=] { world->destroy(); });
}

}  // namespace

}  // namespace sched

int main(int argc, char** argv) {
  using namespace sched;
  return program(
      argc, argv,
      {
          {"s01_s02_publication_in_the_gap", "SIG-01 SIG-02 S-1 S-2 S-3", protocol<1, 1, false>},
          {"s01_s02_publication_in_the_gap_asleep", "SIG-01 SIG-02 S-1 S-2 S-3", protocol<1, 1, false>,
           Disturbance::idle_yields},
          {"s06_two_publishers", "SIG-01 S-6", protocol<1, 2, false>},
          {"s07_two_waiters", "SIG-01 S-7 S-20", protocol<2, 1, false>},
          {"s07_two_waiters_asleep", "SIG-01 S-7 S-20", protocol<2, 1, false>, Disturbance::idle_yields},
          {"s07_two_waiters_two_publishers", "SIG-01 S-7 S-20", protocol<2, 2, false>},
          {"s21_publication_under_a_lock", "SIG-02 S-21", protocol<2, 1, true>},
          {"s19_versions_of_publications", "SIG-01 S-19", versions_of_publications},
          {"s06_publications_before_the_wait", "SIG-01 S-6", publications_before_the_wait},
          {"s09_deadline_against_publish", "SIG-03 GEN-07 S-8 S-9", deadline_against_publish},
          {"s09_deadline_against_publish_asleep", "SIG-03 GEN-07 S-8 S-9", deadline_against_publish,
           Disturbance::idle_yields},
          {"s10_past_deadline", "SIG-03 S-9 S-10", past_deadline},
          {"s14_interrupt_against_publish", "SIG-03 S-14", interrupt_against_publish},
          {"s14_interrupt_against_publish_asleep", "SIG-03 S-14", interrupt_against_publish, Disturbance::idle_yields},
          {"s15_interrupt_of_two_waits", "SIG-03 GEN-07 S-15", interrupt_of_two},
          {"s15_interrupt_of_two_waits_asleep", "SIG-03 GEN-07 S-15", interrupt_of_two, Disturbance::idle_yields},
          {"s13_close_against_all", "SIG-04 S-13", close_against_all},
          {"s13_close_against_all_asleep", "SIG-04 S-13", close_against_all, Disturbance::idle_yields},
          {"s16_destroy_against_waiters", "SIG-04 S-16", destroy_against_waiters<false>},
          {"s16_destroy_against_waiters_asleep", "SIG-04 S-16", destroy_against_waiters<false>,
           Disturbance::idle_yields},
          {"s16_destroy_against_deadlines", "SIG-03 SIG-04 S-16", destroy_against_waiters<true>},
          {"s17_destroy_against_notifier", "SIG-04 S-17", destroy_against_notifier},
          {"s17_destroy_against_publication", "SIG-04 S-17", destroy_against_publication},
          {"s17_destroy_against_publication_asleep", "SIG-04 S-17", destroy_against_publication,
           Disturbance::idle_yields},
          {"s08_signal_handlers", "SIG-03 GEN-07 S-8", signal_handlers, Disturbance::signals},
      });
}
