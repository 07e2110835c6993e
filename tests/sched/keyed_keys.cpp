// Notifications, claims and ends of passes that meet on one key: no notification is lost, and none is served twice at once.
#include "sched/keyed_world.hpp"

namespace sched {

namespace {

void notify_against_claim(Play& play) {
  auto world = keyed();
  auto heard = std::make_shared<nocter_status>(-100);
  play.thread("notifier", [=] { world->accepted(0); });
  play.thread("worker", [=] { *heard = world->work_once(); });
  play.at_end([=] {
    const nocter_keyed_counts counts = world->counts();
    require_equal(counts.waiting, *heard == NOCTER_OK ? 0 : 1, "keys that wait");
    if (*heard != NOCTER_OK) require_equal(*heard, NOCTER_EMPTY, "claim");
    world->settle();
  });
}

// The key waits already: the notification is served by that pass, or asks for one more.
void notify_against_start(Play& play) {
  auto world = keyed();
  auto heard = std::make_shared<nocter_status>(-100);
  auto started = std::make_shared<Keyed::Pass>();
  world->accepted(0);
  play.thread("notifier", [=] { *heard = world->notify(0); });
  play.thread("worker", [=] { *started = world->claimed(); });
  play.at_end([=] {
    const nocter_keyed_counts counts = world->counts();
    require(*heard == NOCTER_OK || *heard == NOCTER_COALESCED, "notify");
    require_equal(counts.dirty, *heard == NOCTER_OK ? 1 : 0, "a pass that had started is followed by one more");
    world->end(*started);
    require_equal(world->counts().waiting, *heard == NOCTER_OK ? 1 : 0, "keys that wait");
    world->settle();
  });
}

// Before the end it is a dirty key's; after it a new one's, or that of a key that is delayed: it waits in any case.
template <Ends how>
void notify_against_end(Play& play) {
  auto world = keyed();
  auto heard = std::make_shared<nocter_status>(-100);
  world->accepted(0);
  const auto pass = world->claimed();
  play.thread("notifier", [=] { *heard = world->notify(0); });
  play.thread("worker", [=] { world->end(pass, how); });
  play.at_end([=] {
    const nocter_keyed_counts counts = world->counts();
    require_equal(counts.waiting, 1, "keys that wait");
    require_equal(counts.delayed, 0, "keys that are delayed");
    if (*heard == NOCTER_COALESCED) {
      require(how == Ends::retries && counts.retried == 1, "coalesced with nothing");
    } else {
      require_equal(*heard, NOCTER_OK, "notify");
      require_equal(counts.requeued + (counts.accepted_new - 1), 1, "kept for it, or accepted anew");
    }
    const auto again = world->claimed();
    require_equal(nocter_pass_failures(again.pass), how != Ends::completes && counts.accepted_new == 1 ? 1 : 0,
                  "failures in a row");
    world->end(again);
    world->settle();
  });
}

// However many come during a pass, it is followed by one.
template <Ends how>
void many_notifications_in_one_pass(Play& play) {
  auto world = keyed();
  world->accepted(0);
  const auto pass = world->claimed();
  for (const char* name : {"first notifier", "second notifier"}) {
    play.thread(name, [=] {
      const nocter_status heard = world->notify(0);
      require(heard == NOCTER_OK || heard == NOCTER_COALESCED, "notify");
    });
  }
  play.thread("worker", [=] { world->end(pass, how); });
  play.at_end([=] {
    const nocter_keyed_counts counts = world->counts();
    require_equal(counts.waiting, 1, "K-4: further passes");
    if (how != Ends::retries)
      require_equal(counts.accepted_new + counts.marked_dirty, 2, "notifications that ask for a pass");
    world->settle();
  });
}

// A pass that notifies its own key, and others.
void notify_inside_a_pass(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 1});
  world->accepted(0);
  play.thread("worker", [=] {
    const auto pass = world->claimed();
    world->accepted(0);
    const nocter_status other = world->notify(1);
    require(other == NOCTER_OK || other == NOCTER_COALESCED, "K-27: a notification of another key");
    world->end(pass);
    // Behind the other: it came to wait first.
    const auto next = world->claimed();
    require_equal(next.key, 1, "KEY-03: a dirty key goes behind what waits");
    world->end(next);
  });
  play.thread("notifier", [=] { world->notify(1); });
  play.at_end([=] { world->settle(); });
}

// One place: a pass keeps it for its key, and gives it up when it ends with nothing more to do.
void places_against_new_keys(Play& play) {
  auto world = keyed({.maximum_keys = 1, .workers = 1});
  auto heard = std::make_shared<std::vector<nocter_status>>(2, -100);
  world->accepted(0);
  const auto pass = world->claimed();
  play.thread("worker", [=] { world->end(pass); });
  play.thread("notifier of the same", [=] { (*heard)[0] = world->notify(0); });
  play.thread("notifier of another", [=] { (*heard)[1] = world->notify(1); });
  play.at_end([=] {
    require_equal(static_cast<int>((*heard)[0] == NOCTER_OK) + static_cast<int>((*heard)[1] == NOCTER_OK), 1,
                  "K-7: keys that got the place");
    require_equal(static_cast<int>((*heard)[0] == NOCTER_SATURATED) + static_cast<int>((*heard)[1] == NOCTER_SATURATED),
                  1, "K-6: keys that were refused");
    require_equal(world->counts().retained, 1, "keys that are retained");
    world->settle();
  });
}

// A duplicate needs no place.
void duplicates_when_full(Play& play) {
  auto world = keyed({.maximum_keys = 1, .workers = 1});
  world->accepted(0);
  play.thread("notifier", [=] {
    const nocter_status heard = world->notify(0);
    require(heard != NOCTER_SATURATED || world->passes_of(0) == 1, "K-5: a duplicate is refused");
  });
  play.thread("other notifier", [=] { world->notify(1); });
  play.thread("worker", [=] { require_equal(world->work_once(), NOCTER_OK, "claim"); });
  play.at_end([=] { world->settle(); });
}

// Two workers have one key between them: one of them finds nothing.
void two_claims_of_one_key(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->accepted(0);
  for (const char* name : {"first worker", "second worker"}) {
    play.thread(name, [=] {
      Keyed::Pass pass;
      const nocter_status heard = world->claim(pass);
      require(heard == NOCTER_OK || heard == NOCTER_EMPTY, "claim");
      if (heard == NOCTER_OK) world->end(pass, Ends::fails);
    });
  }
  play.thread("notifier", [=] { world->notify(0); });
  play.at_end([=] { world->settle(); });
}

// A claim never stands before a key whose pass runs: the next one is taken.
void a_key_that_runs_is_in_nobodys_way(Play& play) {
  auto world = keyed({.maximum_keys = 3, .workers = 2});
  world->accepted(0);
  const auto pass = world->claimed();
  play.thread("notifier", [=] {
    world->notify(0);
    world->notify(1);
  });
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    const auto other = world->claimed(&wait);
    require_equal(other.key, 1, "K-11: the key of a pass that runs is claimed");
    world->end(other);
  });
  play.at_end([=] {
    world->end(pass);
    world->settle();
  });
}

// A notification for later, during a pass.
template <Ends how>
void delayed_during_a_pass(Play& play) {
  auto world = keyed();
  auto heard = std::make_shared<nocter_status>(-100);
  world->accepted(0);
  const auto pass = world->claimed();
  play.thread("notifier", [=] { *heard = world->notify_after(0, kHour); });
  play.thread("worker", [=] { world->end(pass, how, 2 * kHour); });
  play.at_end([=] {
    const nocter_keyed_counts counts = world->counts();
    require_equal(counts.delayed, 1, "keys that are delayed");
    require_equal(counts.retained, 1, "keys that are retained");
    if (*heard == NOCTER_COALESCED) {
      require(how == Ends::retries && counts.retried == 1, "coalesced with nothing");
    } else {
      require_equal(*heard, NOCTER_OK, "notify_after");
    }
    int64_t due = 0;
    require_equal(nocter_keyed_next_due(world->queue, &due), NOCTER_OK, "next_due");
    require(due <= nocter_now_ns() + kHour, "K-32: the earliest time wins");
    world->settle();
  });
}

}  // namespace

std::vector<Scenario> races_on_one_key() {
  return {
      {"k01_notify_against_claim", "KEY-03 K-1", notify_against_claim},
      {"k01_notify_against_start", "KEY-03 K-1", notify_against_start},
      {"k02_notify_against_complete", "KEY-03 K-2", notify_against_end<Ends::completes>},
      {"k09_notify_against_fail", "KEY-03 KEY-06 K-2 K-8 K-9", notify_against_end<Ends::fails>},
      {"k31_notify_against_drop", "KEY-03 KEY-06 K-9 K-31", notify_against_end<Ends::drops>},
      {"k32_notify_against_retry", "KEY-03 KEY-06 K-32", notify_against_end<Ends::retries>},
      {"k04_many_in_a_pass_that_completes", "KEY-03 K-4", many_notifications_in_one_pass<Ends::completes>},
      {"k04_many_in_a_pass_that_fails", "KEY-03 KEY-06 K-4 K-9", many_notifications_in_one_pass<Ends::fails>},
      {"k04_many_in_a_pass_that_retries", "KEY-03 K-4 K-32", many_notifications_in_one_pass<Ends::retries>},
      {"k03_notify_inside_a_pass", "KEY-03 K-3 K-27", notify_inside_a_pass},
      {"k07_places_against_new_keys", "KEY-05 K-6 K-7", places_against_new_keys},
      {"k05_duplicates_when_full", "KEY-05 K-5", duplicates_when_full},
      {"k10_two_claims_of_one_key", "KEY-02 K-10", two_claims_of_one_key},
      {"k11_a_key_that_runs_is_in_nobodys_way", "KEY-02 K-11", a_key_that_runs_is_in_nobodys_way},
      {"k32_delayed_during_a_pass_that_completes", "KEY-03 KEY-06 K-32", delayed_during_a_pass<Ends::completes>},
      {"k32_delayed_during_a_pass_that_retries", "KEY-03 KEY-06 K-32", delayed_during_a_pass<Ends::retries>},
  };
}

}  // namespace sched
