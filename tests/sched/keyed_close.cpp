// Closing in both ways, draining and destroying, against everything else: nobody waits for ever, and nothing begins that should not.
#include "sched/keyed_world.hpp"

namespace sched {

namespace {

constexpr nocter_close_mode kDiscard = NOCTER_CLOSE_DISCARD, kDrain = NOCTER_CLOSE_DRAIN;

template <nocter_close_mode mode>
void notify_against_close(Play& play) {
  auto world = keyed();
  auto heard = std::make_shared<nocter_status>(-100);
  play.thread("notifier", [=] { *heard = world->notify(0); });
  play.thread("closer", [=] { world->close(mode); });
  play.at_end([=] {
    require(*heard == NOCTER_OK || *heard == NOCTER_CLOSED, "K-12: notify");
    const nocter_keyed_counts counts = world->counts();
    require_equal(counts.retained, mode == kDrain && *heard == NOCTER_OK ? 1 : 0, "keys that are retained");
    require_equal(counts.discarded_waiting, mode == kDiscard && *heard == NOCTER_OK ? 1 : 0,
                  "keys that were discarded");
    require_equal(world->notify(1), NOCTER_CLOSED, "notify after the close");
    require_equal(world->notify_after(1, kMillisecond), NOCTER_CLOSED, "notify_after after the close");
    world->settle();
  });
}

// The pass starts, and is interrupted; or its key is discarded.
void claim_against_discard(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  auto pass = std::make_shared<Keyed::Pass>();
  auto heard = std::make_shared<nocter_status>(-100);
  world->accepted(0);
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    *heard = world->claim(*pass, &wait);
  });
  play.thread("closer", [=] { world->close(kDiscard); });
  play.at_end([=] {
    require(*heard == NOCTER_OK || *heard == NOCTER_CLOSED, "K-13: claim");
    require_equal(world->counts().discarded_waiting, *heard == NOCTER_OK ? 0 : 1, "K-13: keys that were discarded");
    if (*heard == NOCTER_OK) {
      require(nocter_pass_interrupted(pass->pass), "K-13: the pass is not interrupted");
      require_equal(world->drained(), NOCTER_PENDING, "drained while a pass runs");
      world->end(*pass);
    }
    require_equal(world->drained(), NOCTER_OK, "drained");
    world->settle();
  });
}

// A dirty key whose pass ends while the queue is closed: discarded, or drained.
template <nocter_close_mode mode, Ends how>
void end_against_close(Play& play) {
  auto world = keyed();
  world->accepted(0);
  const auto pass = world->claimed();
  world->accepted(0);
  play.thread("worker", [=] { world->end(pass, how); });
  play.thread("closer", [=] { world->close(mode); });
  play.at_end([=] {
    const nocter_keyed_counts counts = world->counts();
    require_equal(counts.retained, mode == kDrain ? 1 : 0, "K-14: keys that are retained");
    require_equal(counts.discarded_dirty + counts.discarded_waiting, mode == kDrain ? 0 : 1,
                  "K-14: what was discarded");
    world->settle();
  });
}

// A pass that asks for a retry while the queue is closed: none is kept, and what is delayed already is due at once.
template <nocter_close_mode mode>
void retry_against_close(Play& play) {
  auto world = keyed();
  world->accepted(0);
  const auto pass = world->claimed();
  play.thread("worker", [=] { world->end(pass, Ends::retries); });
  play.thread("closer", [=] { world->close(mode); });
  play.at_end([=] {
    const nocter_keyed_counts counts = world->counts();
    require_equal(counts.delayed, 0, "keys that are delayed in a closed queue");
    require_equal(counts.waiting, mode == kDrain ? counts.retried : 0, "keys that wait");
    world->settle();
  });
}

template <nocter_close_mode one, nocter_close_mode other>
void close_against_close(Play& play) {
  auto world = keyed({.maximum_keys = 3, .workers = 1});
  world->notify_many({0, 1});
  const auto pass = world->claimed();
  world->notify_after(2, kHour);
  play.thread("closer", [=] { world->close(one); });
  play.thread("other closer", [=] { world->close(other); });
  play.at_end([=] {
    const bool discards = one == kDiscard || other == kDiscard;
    const nocter_keyed_counts counts = world->counts();
    require_equal(nocter_pass_interrupted(pass.pass), discards, "K-17: the pass is interrupted");
    require_equal(counts.discarded_waiting, discards ? 2 : 0, "K-17: keys that were discarded");
    require_equal(counts.waiting, discards ? 0 : 2, "K-17: keys that wait");
    world->end(pass);
    world->settle();
  });
}

template <nocter_close_mode mode, bool stays_awake>
void close_wakes_claimers(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2, .stays_awake = stays_awake});
  for (const char* name : {"first worker", "second worker"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      nocter_status heard = NOCTER_OK;
      while (heard == NOCTER_OK) heard = world->work_once(&wait);
      require_equal(heard, NOCTER_CLOSED, "claim");
    });
  }
  play.thread("closer", [=] {
    world->notify_after(0, kHour);
    world->close(mode);
  });
  play.at_end([=] {
    require_equal(world->passes_of(0) != 0 || mode == kDiscard, 1, "KEY-08: what was delayed is drained");
    world->settle();
  });
}

// Workers that serve until the queue is closed and empty: a dirty key that comes back while it drains is not left behind.
void drain_with_a_dirty_key(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->accepted(0);
  for (const char* name : {"first worker", "second worker"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      while (world->work_once(&wait, Ends::fails) == NOCTER_OK) {
      }
    });
  }
  play.thread("closer", [=] {
    const nocter_status heard = world->notify(0);
    world->close(kDrain);
    const nocter_wait wait = forever();
    require_equal(world->drained(&wait), NOCTER_OK, "drained");
    require(world->passes_of(0) == (heard == NOCTER_OK ? 2 : 1), "scenario 59: passes");
  });
  play.at_end([=] { world->settle(); });
}

// Two that wait for the end, against the last pass and the close.
template <nocter_close_mode mode, Ends how>
void drained_against_last_end(Play& play) {
  auto world = keyed();
  world->accepted(0);
  const auto pass = world->claimed();
  world->close(mode);
  for (const char* name : {"first waiter", "second waiter"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      require_equal(world->drained(&wait), NOCTER_OK, "drained");
    });
  }
  play.thread("worker", [=] { world->end(pass, how); });
  play.at_end([=] { world->settle(); });
}

// Draining stands still because nobody claims: a close that discards ends it (scenario 58).
void drain_turns_into_discard(Play& play) {
  auto world = keyed();
  world->notify_many({0, 1});
  world->close(kDrain);
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    require_equal(world->drained(&wait), NOCTER_OK, "drained");
  });
  play.thread("closer", [=] { world->close(kDiscard); });
  play.thread("worker", [=] {
    const nocter_status heard = world->work_once();
    require(heard == NOCTER_OK || heard == NOCTER_CLOSED, "claim");
  });
  play.at_end([=] { world->settle(); });
}

template <bool interrupted>
void drained_gives_up(Play& play) {
  auto world = keyed();
  auto interrupt = std::make_shared<OwnInterrupt>();
  world->accepted(0);
  const auto pass = world->claimed();
  world->close(kDrain);
  play.thread("waiter", [=] {
    const nocter_wait wait = interrupted ? forever(*interrupt) : within(kMillisecond);
    const nocter_status heard = world->drained(&wait);
    require(heard == NOCTER_OK || heard == (interrupted ? NOCTER_INTERRUPTED : NOCTER_TIMEOUT), "drained");
  });
  play.thread("worker", [=] {
    if (interrupted) nocter_interrupt_raise(*interrupt);
    world->end(pass);
  });
  play.at_end([=] { world->settle(); });
}

// The pass waits for something else, and carries its interrupt.
void discard_interrupts_a_wait(Play& play) {
  struct Elsewhere {
    nocter_signal* signal = nullptr;
  };
  auto world = keyed();
  auto elsewhere = std::make_shared<Elsewhere>();
  require_equal(nocter_signal_create(&elsewhere->signal), NOCTER_OK, "signal_create");
  world->accepted(0);
  play.thread("worker", [=] {
    const auto pass = world->claimed();
    nocter_interrupt* const interrupt = nocter_pass_interrupt(pass.pass);
    const nocter_wait wait = forever(interrupt);
    uint64_t now;
    require_equal(nocter_signal_wait(elsewhere->signal, nocter_signal_version(elsewhere->signal), &wait, &now),
                  NOCTER_INTERRUPTED, "a wait of a pass that nobody else ends");
    require(nocter_pass_interrupted(pass.pass), "the pass says that it is interrupted");
    world->end(pass);
  });
  play.thread("closer", [=] {
    wait_until([=] { return world->active(0); });
    world->close(kDrain);
    world->close(kDiscard);
  });
  play.at_end([=] {
    nocter_signal_destroy(elsewhere->signal);
    world->settle();
  });
}

// A pass that closes its own queue goes on and ends.
template <nocter_close_mode mode>
void close_inside_a_pass(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->notify_many({0, 1});
  play.thread("worker", [=] {
    Keyed::Pass pass;
    const nocter_status heard = world->claim(pass);
    world->close(mode);
    // The other one may have had both.
    if (heard != NOCTER_OK) return;
    require_equal(nocter_pass_interrupted(pass.pass), mode == kDiscard, "K-15: interrupted");
    require_equal(world->drained(), NOCTER_PENDING, "drained inside a pass");
    world->end(pass);
  });
  play.thread("other worker", [=] {
    const nocter_wait wait = forever();
    nocter_status heard = NOCTER_OK;
    while (heard == NOCTER_OK) heard = world->work_once(&wait, Ends::drops);
    require_equal(heard, NOCTER_CLOSED, "claim");
  });
  play.at_end([=] {
    require_equal(world->drained(), NOCTER_OK, "drained");
    world->settle();
  });
}

// The last pass ends while the handle is given up.
template <Ends how>
void destroy_against_end(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->notify_many({0, 1});
  const auto pass = world->claimed(), other = world->claimed();
  world->notify(1);
  play.thread("worker", [=] { world->end(pass, how); });
  play.thread("other worker", [=] { world->end(other, how); });
  play.thread("owner", [=] { world->destroy(); });
  play.at_end([=] { world->settle(); });
}

void destroy_against_claimers(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->notify_after(0, kHour);
  for (const char* name : {"first worker", "second worker"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      const nocter_status heard = world->work_once(&wait);
      require(heard == NOCTER_CLOSED || heard == NOCTER_OK, "claim");
    });
  }
  play.thread("owner", [=] {
    wait_until([] { return asleep("first worker") && asleep("second worker"); });
    world->destroy();
  });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> close_scenarios() {
  return {
      {"k12_notify_against_discard", "KEY-08 K-12", notify_against_close<kDiscard>},
      {"k12_notify_against_drain", "KEY-08 K-12", notify_against_close<kDrain>},
      {"k13_claim_against_discard", "KEY-08 K-13", claim_against_discard},
      {"k14_complete_against_discard", "KEY-08 K-14 K-19", end_against_close<kDiscard, Ends::completes>},
      {"k14_fail_against_discard", "KEY-06 KEY-08 K-14", end_against_close<kDiscard, Ends::fails>},
      {"k14_retry_of_dirty_against_discard", "KEY-08 K-14", end_against_close<kDiscard, Ends::retries>},
      {"k14_complete_against_drain", "KEY-08 K-14", end_against_close<kDrain, Ends::completes>},
      {"k14_retry_of_dirty_against_drain", "KEY-08 K-14", end_against_close<kDrain, Ends::retries>},
      {"k14_retry_against_discard", "KEY-08 K-14", retry_against_close<kDiscard>},
      {"k14_retry_against_drain", "KEY-08 K-14", retry_against_close<kDrain>},
      {"k17_two_that_discard", "KEY-08 K-17", close_against_close<kDiscard, kDiscard>},
      {"k17_two_that_drain", "KEY-08 K-17", close_against_close<kDrain, kDrain>},
      {"k17_drain_and_discard", "KEY-08 K-17", close_against_close<kDrain, kDiscard>},
      {"k17_discard_wakes_claimers", "KEY-08 K-17 K-23", close_wakes_claimers<kDiscard, false>},
      {"k17_drain_wakes_claimers", "KEY-08 K-23", close_wakes_claimers<kDrain, false>},
      {"k17_drain_wakes_claimers_awake", "KEY-08 K-23", close_wakes_claimers<kDrain, true>},
      {"k21_drain_with_a_dirty_key", "KEY-08 K-21", drain_with_a_dirty_key},
      {"k21_drained_against_last_end", "KEY-08 K-21", drained_against_last_end<kDrain, Ends::completes>},
      {"k20_drained_against_end_of_interrupted", "KEY-08 K-20 K-21", drained_against_last_end<kDiscard, Ends::retries>},
      {"k21_drain_turns_into_discard", "KEY-08 K-21", drain_turns_into_discard},
      {"k20_drained_gives_up_at_its_deadline", "GEN-07 KEY-08 K-20", drained_gives_up<false>},
      {"k20_drained_gives_up_by_interrupt", "GEN-07 KEY-08 K-20", drained_gives_up<true>},
      {"k18_discard_interrupts_a_wait", "KEY-08 K-18", discard_interrupts_a_wait},
      {"k15_discard_inside_a_pass", "KEY-08 K-15", close_inside_a_pass<kDiscard>},
      {"k15_drain_inside_a_pass", "KEY-08 K-15", close_inside_a_pass<kDrain>},
      {"k31_destroy_against_complete", "GEN-01 KEY-08 K-31", destroy_against_end<Ends::completes>},
      {"k31_destroy_against_drop", "GEN-01 KEY-08 K-31", destroy_against_end<Ends::drops>},
      {"k31_destroy_against_retry", "GEN-01 KEY-08 K-31", destroy_against_end<Ends::retries>},
      {"k31_destroy_against_claimers", "GEN-01 KEY-08 K-31", destroy_against_claimers},
  };
}

}  // namespace sched
