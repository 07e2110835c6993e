// Waits for keys: none that is due is forgotten while somebody waits, and each wait ends for a reason.
#include "sched/keyed_world.hpp"

namespace sched {

namespace {

constexpr const char* kWorkers[] = {"first worker", "second worker"};

// As many claimers as keys, and no more: whoever sleeps through a key sleeps for ever.
template <uint32_t workers, bool stays_awake>
void claimers_and_notifications(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = workers, .stays_awake = stays_awake});
  for (const char* name : kWorkers) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      require_equal(world->work_once(&wait), NOCTER_OK, "claim");
    });
  }
  play.thread("notifier", [=] {
    world->accepted(0);
    world->accepted(1);
  });
  play.at_end([=] {
    require_equal(world->counts().completed, 2, "passes");
    world->settle();
  });
}

// Two keys for two workers have their passes at once: the second claimer does not sleep until the first has ended its own.
template <bool stays_awake, bool at_once, bool claims_late>
void claimers_run_together(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2, .stays_awake = stays_awake});
  for (const char* name : kWorkers) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      const auto pass = world->claimed(&wait);
      wait_until([=] { return world->tally.started == 2; });
      world->end(pass);
    });
  }
  play.thread("notifier", [=] {
    if (claims_late) wait_until([] { return asleep("first worker") && asleep("second worker"); });
    if (at_once) {
      world->notify_many({0, 1});
    } else {
      world->accepted(0);
      world->accepted(1);
    }
  });
  play.at_end([=] { world->settle(); });
}

// One claimer gives up, perhaps with the wake in its hand that was meant for the other.
template <bool stays_awake, bool interrupted>
void claimer_gives_up(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2, .stays_awake = stays_awake});
  auto interrupt = std::make_shared<OwnInterrupt>();
  play.thread("impatient worker", [=] {
    const nocter_wait wait = interrupted ? forever(*interrupt) : within(kMillisecond);
    const nocter_status heard = world->work_once(&wait);
    require(heard == NOCTER_OK || heard == (interrupted ? NOCTER_INTERRUPTED : NOCTER_TIMEOUT), "claim");
    // What it left, or was left to it.
    if (heard == NOCTER_OK) world->notify(1);
  });
  play.thread("patient worker", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("notifier", [=] {
    world->accepted(0);
    if (interrupted) nocter_interrupt_raise(*interrupt);
  });
  play.at_end([=] { world->settle(); });
}

// The dirty key of a pass that ends wakes a claimer that sleeps: who ended it may never claim again.
template <Ends how, bool stays_awake>
void dirty_key_wakes_a_claimer(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2, .stays_awake = stays_awake});
  world->accepted(0);
  const auto pass = world->claimed();
  play.thread("worker that leaves", [=] {
    world->notify(0);
    world->end(pass, how);
  });
  play.thread("worker that waits", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.at_end([=] {
    require_equal(world->passes_of(0), 2, "passes");
    world->settle();
  });
}

// A worker slot that becomes free wakes a claimer, also when the pass's own key is done.
template <Ends how, bool stays_awake>
void free_worker_wakes_a_claimer(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 1, .stays_awake = stays_awake});
  world->accepted(0);
  const auto pass = world->claimed();
  world->accepted(1);
  play.thread("worker that leaves", [=] { world->end(pass, how); });
  play.thread("worker that waits", [=] {
    const nocter_wait wait = forever();
    const auto other = world->claimed(&wait);
    require_equal(other.key, 1, "the key that waits");
    world->end(other);
  });
  play.at_end([=] { world->settle(); });
}

// Two dirty keys become due by two ends: each wakes its claimer.
void two_ends_wake_two_claimers(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->notify_many({0, 1});
  const auto first = world->claimed(), second = world->claimed();
  world->notify_many({0, 1});
  play.thread("worker that ends both", [=] {
    world->end(first);
    world->end(second, Ends::fails);
  });
  for (const char* name : kWorkers) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      const auto pass = world->claimed(&wait);
      wait_until([=] { return world->tally.started == 4; });
      world->end(pass);
    });
  }
  play.at_end([=] { world->settle(); });
}

// One key, notified again while its pass runs: the second worker sleeps until that pass has ended, then gets it once (scenario 55).
void second_worker_waits_for_the_pass(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  for (const char* name : kWorkers) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      const auto pass = world->claimed(&wait);
      if (world->tally.started == 1) wait_until([=] { return world->tally.ok == 2; });
      world->end(pass);
    });
  }
  play.thread("notifier", [=] {
    world->accepted(0);
    wait_until([=] { return world->tally.started == 1; });
    world->accepted(0);
    require(world->notify(0) != NOCTER_SATURATED, "K-5: a duplicate is refused");
  });
  play.at_end([=] { world->settle(); });
}

// Notifications, claims and both kinds of ends all at once.
void busy_key(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  play.thread("notifier", [=] {
    for (int i = 0; i < 3; i++) world->notify(0);
  });
  for (const char* name : kWorkers) {
    play.thread(name, [=] {
      for (int i = 0; i < 2; i++) world->work_once(nullptr, i == 0 ? Ends::fails : Ends::completes);
    });
  }
  play.at_end([=] { world->settle(); });
}

// A signal handler ends the claim that asked for it, and no other.
void signal_handler(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  play.thread("asks for it", [=] {
    nocter_wait wait = forever();
    wait.flags = NOCTER_WAIT_EINTR;
    const nocter_status heard = world->work_once(&wait);
    require(heard == NOCTER_OK || heard == NOCTER_INTERRUPTED || heard == NOCTER_CLOSED, "claim");
    if (heard == NOCTER_OK) world->notify(1);
  });
  play.thread("does not", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("notifier", [=] {
    world->accepted(0);
    wait_until([] { return ended("does not"); });
    world->close(NOCTER_CLOSE_DISCARD);
  });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> claim_scenarios() {
  return {
      {"k23_claimers_of_two_workers", "KEY-02 K-23", claimers_and_notifications<2, false>},
      {"k23_claimers_of_one_worker", "KEY-02 K-23", claimers_and_notifications<1, false>},
      {"k23_claimers_awake", "KEY-02 K-23", claimers_and_notifications<2, true>},
      {"k23_claimers_of_one_worker_awake", "KEY-02 K-23", claimers_and_notifications<1, true>},
      {"k23_run_together", "KEY-02 K-23", claimers_run_together<false, false, false>},
      {"k23_run_together_awake", "KEY-02 K-23", claimers_run_together<true, false, false>},
      {"k23_run_together_from_sleep", "KEY-02 K-23", claimers_run_together<false, false, true>},
      {"k23_run_together_by_one_call", "KEY-02 K-23", claimers_run_together<false, true, false>},
      {"k23_run_together_by_one_call_from_sleep", "KEY-02 K-23", claimers_run_together<false, true, true>},
      {"k23_claimer_gives_up_at_its_deadline", "GEN-07 K-23", claimer_gives_up<false, false>},
      {"k23_claimer_awake_gives_up_at_its_deadline", "GEN-07 K-23", claimer_gives_up<true, false>},
      {"k23_claimer_gives_up_by_interrupt", "GEN-07 K-23", claimer_gives_up<false, true>},
      {"k23_dirty_key_wakes", "KEY-03 K-23", dirty_key_wakes_a_claimer<Ends::completes, false>},
      {"k23_dirty_key_wakes_one_awake", "KEY-03 K-23", dirty_key_wakes_a_claimer<Ends::completes, true>},
      {"k23_dirty_key_of_a_failure_wakes", "KEY-03 KEY-06 K-9 K-23", dirty_key_wakes_a_claimer<Ends::fails, false>},
      {"k23_dirty_key_of_a_retry_wakes", "KEY-03 K-23 K-32", dirty_key_wakes_a_claimer<Ends::retries, false>},
      {"k23_free_worker_wakes", "KEY-02 K-23", free_worker_wakes_a_claimer<Ends::completes, false>},
      {"k23_free_worker_wakes_one_awake", "KEY-02 K-23", free_worker_wakes_a_claimer<Ends::drops, true>},
      {"k23_worker_freed_by_a_retry_wakes", "KEY-02 K-23", free_worker_wakes_a_claimer<Ends::retries, false>},
      {"k23_two_ends_wake_two", "KEY-02 K-23", two_ends_wake_two_claimers},
      {"k10_second_worker_waits_for_the_pass", "KEY-02 KEY-03 K-10", second_worker_waits_for_the_pass},
      {"k01_busy_key", "KEY-02 KEY-03 K-1 K-2 K-10", busy_key},
      {"k23_signal_handler", "GEN-07 K-23", signal_handler, Disturbance::signals},
  };
}

}  // namespace sched
