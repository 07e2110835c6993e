// Keys that become due by time: never before it, and never forgotten by those who wait, whoever of them keeps the time.
#include <algorithm>

#include "sched/keyed_world.hpp"

namespace sched {

namespace {

constexpr int64_t kNever = nocter::base::kForever;

// Once those have ended who disturb, and all claimers sleep: while a key is delayed, one of them wakes by its time. All of that is looked at in
// one moment.
void require_timekeeper(const std::shared_ptr<Keyed>& world, std::vector<const char*> disturbers,
                        std::vector<const char*> claimers, std::function<int64_t(const nocter_keyed_counts&)> due_by) {
  auto wrong = std::make_shared<std::string>();
  wait_until([=] {
    for (const char* name : disturbers) {
      if (!ended(name)) return false;
    }
    for (const char* name : claimers) {
      if (!asleep(name)) return false;
    }
    nocter_keyed_counts counts;
    if (!world->glance(counts)) return false;
    *wrong = "";
    if (counts.delayed == 0) return true;
    const int64_t due = due_by(counts);
    bool somebody_sleeps = false;
    *wrong =
        "K-32: a key is delayed, and of those who sleep nobody keeps the time for it: due at " + std::to_string(due);
    for (const char* name : claimers) {
      if (ended(name)) continue;
      somebody_sleeps = true;
      const int64_t until = sleeps_until(name);
      *wrong += std::string(", ") + name + " sleeps until " + std::to_string(until);
      if (until != kNever && until <= due) *wrong = "";
      if (wrong->empty()) return true;
    }
    if (!somebody_sleeps) *wrong = "";
    return true;
  });
  if (!wrong->empty()) fail(*wrong);
}

// The earliest answer that a host could sleep by.
int64_t next_due(Keyed& world) {
  int64_t due = 0;
  require_equal(nocter_keyed_next_due(world.queue, &due), NOCTER_OK, "next_due");
  return due;
}

void notify_after_against_claim(Play& play) {
  auto world = keyed();
  auto due = std::make_shared<int64_t>(0);
  play.thread("notifier", [=] {
    *due = nocter_now_ns() + kMillisecond;
    require_equal(world->notify_after(0, kMillisecond), NOCTER_OK, "notify_after");
  });
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    const auto pass = world->claimed(&wait);
    require(nocter_now_ns() >= *due, "a key was claimed before it was due");
    world->end(pass);
  });
  play.at_end([=] { world->settle(); });
}

// The time that comes nearer is heard of by who sleeps until the later one, or until nobody says otherwise.
template <bool far_one_first, bool same_key>
void nearer_time_against_sleep(Play& play) {
  auto world = keyed();
  auto due = std::make_shared<int64_t>(kHour * 1'000);
  if (far_one_first) require_equal(world->notify_after(0, kHour), NOCTER_OK, "notify_after");
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    world->end(world->claimed(&wait));
  });
  play.thread("notifier", [=] {
    world->notify_after(same_key ? 0 : 1, kMillisecond);
    *due = nocter_now_ns() + kMillisecond;
  });
  play.thread("judge", [=] {
    require_timekeeper(world, {"notifier"}, {"worker"}, [=](const nocter_keyed_counts&) { return *due; });
  });
  play.at_end([=] { world->settle(); });
}

// Of two times for one key the earlier wins, in whatever order they come, and there is one pass for both (scenario 63).
void earliest_of_two_wins(Play& play) {
  auto world = keyed();
  for (const bool near : {true, false}) {
    play.thread(near ? "notifier of soon" : "notifier of later", [=] {
      const nocter_status heard = world->notify_after(0, near ? kMillisecond : kHour);
      require(heard == NOCTER_OK || heard == NOCTER_COALESCED, "notify_after");
    });
  }
  play.at_end([=] {
    const int64_t due = next_due(*world);
    require(due <= nocter_now_ns() + kMillisecond, "K-32: the earliest time wins");
    require_equal(world->counts().delayed, 1, "keys that are delayed");
    const nocter_wait wait = within(kHour * 2);
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
    require(nocter_now_ns() <= due + kMillisecond, "K-32: claimed by the later time");
    require_equal(world->work_once(), NOCTER_EMPTY, "K-32: a second pass by the other time");
    world->settle();
  });
}

// A notification makes a delayed key due at once, and its time is given up.
void promoted_by_notification(Play& play) {
  auto world = keyed();
  require_equal(world->notify_after(0, kHour), NOCTER_OK, "notify_after");
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    const auto pass = world->claimed(&wait);
    world->end(pass);
  });
  play.thread("notifier", [=] {
    const nocter_status heard = world->notify(0);
    require(heard == NOCTER_COALESCED || heard == NOCTER_OK, "notify");
  });
  play.thread("judge", [=] {
    wait_until([] { return ended("notifier") && asleep("worker"); });
    require(ended("worker"), "K-32: a key was made due, and who waits for it sleeps");
  });
  play.at_end([=] {
    require_equal(world->counts().delayed, 0, "keys that are delayed");
    world->settle();
  });
}

// Whoever keeps the time leaves: by its own deadline, by an interrupt, with another key. One of the others takes over.
enum class Leaves { deadline, interrupt, key };
template <Leaves how, bool stays_awake>
void timekeeper_leaves(Play& play) {
  auto world = keyed({.maximum_keys = 3, .workers = 2, .stays_awake = stays_awake});
  auto interrupt = std::make_shared<OwnInterrupt>();
  const int64_t due = nocter_now_ns() + 10 * kMillisecond;
  require_equal(world->notify_after(0, 10 * kMillisecond), NOCTER_OK, "notify_after");
  play.thread("one", [=] {
    const nocter_wait wait = how == Leaves::deadline    ? within(kMillisecond)
                             : how == Leaves::interrupt ? forever(*interrupt)
                                                        : forever();
    const nocter_status heard = world->work_once(&wait);
    if (how == Leaves::deadline) require(heard == NOCTER_OK || heard == NOCTER_TIMEOUT, "claim");
    if (how == Leaves::interrupt) require(heard == NOCTER_OK || heard == NOCTER_INTERRUPTED, "claim");
    if (how == Leaves::key) require_equal(heard, NOCTER_OK, "claim");
    // One key for each of the two.
    if (heard == NOCTER_OK && how != Leaves::key) world->notify(1);
  });
  play.thread("other", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("disturber", [=] {
    if (how == Leaves::interrupt) nocter_interrupt_raise(*interrupt);
    if (how == Leaves::key) world->accepted(1);
  });
  play.thread("judge", [=] {
    require_timekeeper(world, {"disturber"}, {"one", "other"}, [=](const nocter_keyed_counts&) { return due; });
  });
  play.at_end([=] { world->settle(); });
}

// Two claimers, two delayed keys: one time after the other is kept.
void two_times_for_two_claimers(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  const int64_t start = nocter_now_ns();
  require_equal(world->notify_after(0, 2 * kMillisecond), NOCTER_OK, "notify_after");
  require_equal(world->notify_after(1, kMillisecond), NOCTER_OK, "notify_after");
  for (const char* name : {"one", "other"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      const auto pass = world->claimed(&wait);
      require(nocter_now_ns() >= start + (pass.key == 0 ? 2 : 1) * kMillisecond, "a key was claimed before it was due");
      world->end(pass);
    });
  }
  play.thread("judge", [=] {
    require_timekeeper(world, {}, {"one", "other"}, [=](const nocter_keyed_counts& counts) {
      return start + (counts.delayed == 2 ? 1 : 2) * kMillisecond;
    });
  });
  play.at_end([=] { world->settle(); });
}

// In the order of their times, not of the calls (scenarios 65, 98).
void order_of_times(Play& play) {
  auto world = keyed();
  play.thread("user", [=] {
    const int64_t start = nocter_now_ns();
    for (const int key : {0, 1, 2}) {
      require_equal(world->notify_after(key, (3 - key) * kMillisecond), NOCTER_OK, "notify_after");
    }
    const nocter_wait wait = forever();
    for (const int key : {2, 1, 0}) {
      const auto pass = world->claimed(&wait);
      require_equal(pass.key, key, "K-32: the key that is due first");
      require(nocter_now_ns() >= start + (3 - key) * kMillisecond, "a key was claimed before it was due");
      world->end(pass);
    }
    int64_t due = 7;
    require_equal(nocter_keyed_next_due(world->queue, &due), NOCTER_EMPTY, "next_due with nothing delayed");
    require_equal(due, 0, "its answer then");
  });
  play.at_end([=] { world->settle(); });
}

// A key whose time has come goes behind those that wait, as one that was notified then.
void due_key_goes_behind(Play& play) {
  auto world = keyed();
  play.thread("user", [=] {
    require_equal(world->notify_after(0, kMillisecond), NOCTER_OK, "notify_after");
    world->accepted(1);
    const nocter_wait past_due = within(2 * kMillisecond);
    const auto first = world->claimed();
    require_equal(first.key, 1, "the key that waits");
    world->accepted(1);
    world->accepted(2);
    world->end(first);
    // One worker, free again: three keys, of which one becomes due by time.
    while (nocter_now_ns() < past_due.deadline_ns) nocter::base::yield_core();
    for (int i = 0; i < 3; i++) world->end(world->claimed());
    require_equal(world->passes_of(0), 1, "passes of the key that became due");
    require_equal(world->passes_of(1), 2, "passes of the key that was dirty");
  });
  play.at_end([=] { world->settle(); });
}

// A pass that asks for a retry, with a claimer asleep that knows of no time yet: who ended it never claims again.
template <bool backs_off>
void retry_wakes_a_timekeeper(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  auto due = std::make_shared<int64_t>(0);
  world->accepted(0);
  const auto pass = world->claimed();
  play.thread("worker that leaves", [=] {
    *due = nocter_now_ns() + 10 * kMillisecond;
    world->end(pass, backs_off ? Ends::backs_off : Ends::retries, 10 * kMillisecond);
  });
  play.thread("worker that waits", [=] {
    const nocter_wait wait = forever();
    const auto again = world->claimed(&wait);
    require(nocter_now_ns() >= *due, "KEY-06: retried before its time");
    require_equal(nocter_pass_failures(again.pass), 1, "failures in a row");
    world->end(again);
  });
  play.thread("judge", [=] {
    require_timekeeper(world, {"worker that leaves"}, {"worker that waits"},
                       [](const nocter_keyed_counts&) { return nocter_now_ns() + 10 * kMillisecond; });
  });
  play.at_end([=] { world->settle(); });
}

// Each failure waits longer, up to a bound; a success begins anew (scenarios 67, 68).
template <uint32_t jitter_percent>
void backoff_grows(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 1, .backoff_jitter_percent = jitter_percent});
  play.thread("user", [=] {
    const nocter_wait wait = forever();
    world->accepted(0);
    world->end(world->claimed(), Ends::backs_off);
    int64_t ended = nocter_now_ns();
    constexpr int64_t kWaits[] = {10, 20, 40, 40, 40};
    for (uint32_t failures = 1; failures <= 5; failures++) {
      const auto pass = world->claimed(&wait);
      const int64_t waited = nocter_now_ns() - ended, longest = kWaits[failures - 1] * kMillisecond;
      require(waited >= longest * (100 - jitter_percent) / 100, "KEY-06: retried too early");
      require(waited <= longest + kMillisecond / 10, "KEY-06: retried too late");
      require_equal(nocter_pass_failures(pass.pass), failures, "failures in a row");
      ended = nocter_now_ns();
      world->end(pass, failures == 5 ? Ends::completes : Ends::backs_off);
    }
    world->accepted(0);
    const auto anew = world->claimed();
    require_equal(nocter_pass_failures(anew.pass), 0, "failures after a success");
    ended = nocter_now_ns();
    world->end(anew, Ends::backs_off);
    const auto pass = world->claimed(&wait);
    require(nocter_now_ns() - ended <= 10 * kMillisecond + kMillisecond / 10, "KEY-06: the first wait is the shortest");
    world->end(pass);
  });
  play.at_end([=] { world->settle(); });
}

// An event loop of its own: it claims without waiting and sleeps until it is told, or until the next time.
template <bool far_one_first>
void host_keeps_the_time(Play& play) {
  struct Host {
    nocter_signal* signal = nullptr;
    nocter_keyed* queue = nullptr;
    int64_t due = 0;
    bool done = false;
  };
  auto host = std::make_shared<Host>();
  require_equal(nocter_signal_create(&host->signal), NOCTER_OK, "signal_create");
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  options.work = nocter_signal_notifier(host->signal);
  require_equal(nocter_keyed_create(&options, &host->queue), NOCTER_OK, "keyed_create");
  if (far_one_first) {
    require_equal(nocter_keyed_notify_after(host->queue, nocter_text_of("other"), kHour), NOCTER_OK, "notify_after");
  }
  play.thread("host", [=] {
    while (!host->done) {
      const uint64_t seen = nocter_signal_version(host->signal);
      nocter_pass* pass = nullptr;
      const nocter_status heard = nocter_keyed_claim(host->queue, nullptr, &pass);
      if (heard == NOCTER_OK) {
        if (nocter_pass_key(pass).size == 3) {
          require(nocter_now_ns() >= host->due, "a key was claimed before it was due");
          host->done = true;
        }
        require_equal(nocter_pass_complete(pass), NOCTER_OK, "complete");
        continue;
      }
      require_equal(heard, NOCTER_EMPTY, "claim");
      nocter_wait wait = forever();
      if (nocter_keyed_next_due(host->queue, &wait.deadline_ns) != NOCTER_OK) wait = forever();
      uint64_t now;
      const nocter_status woken = nocter_signal_wait(host->signal, seen, &wait, &now);
      require(woken == NOCTER_OK || woken == NOCTER_TIMEOUT, "signal_wait");
    }
  });
  play.thread("notifier", [=] {
    host->due = nocter_now_ns() + kMillisecond;
    require_equal(nocter_keyed_notify_after(host->queue, nocter_text_of("key"), kMillisecond), NOCTER_OK,
                  "notify_after");
  });
  play.thread("judge", [=] {
    wait_until([] { return ended("notifier") && asleep("host"); });
    const int64_t until = sleeps_until("host");
    require(ended("host") || (until != kNever && until <= nocter_now_ns() + kMillisecond),
            "K-32: the host was not told of a nearer time");
  });
  play.at_end([=] {
    nocter_keyed_destroy(host->queue);
    nocter_signal_destroy(host->signal);
  });
}

}  // namespace

std::vector<Scenario> time_scenarios() {
  return {
      {"k32_notify_after_against_claim", "KEY-06 GEN-07 K-32", notify_after_against_claim},
      {"k32_first_time_against_sleep", "GEN-07 K-32", nearer_time_against_sleep<false, false>},
      {"k32_nearer_time_against_sleep", "GEN-07 K-32", nearer_time_against_sleep<true, false>},
      {"k32_nearer_time_of_the_same_key", "GEN-07 K-32", nearer_time_against_sleep<true, true>},
      {"k32_earliest_of_two_wins", "KEY-03 K-32", earliest_of_two_wins},
      {"k32_promoted_by_notification", "KEY-03 K-32", promoted_by_notification},
      {"k32_timekeeper_leaves_at_its_deadline", "GEN-07 K-32", timekeeper_leaves<Leaves::deadline, false>},
      {"k32_timekeeper_awake_leaves_at_its_deadline", "GEN-07 K-32", timekeeper_leaves<Leaves::deadline, true>},
      {"k32_timekeeper_leaves_by_interrupt", "GEN-07 K-32", timekeeper_leaves<Leaves::interrupt, false>},
      {"k32_timekeeper_leaves_with_a_key", "GEN-07 K-32", timekeeper_leaves<Leaves::key, false>},
      {"k32_timekeeper_awake_leaves_with_a_key", "GEN-07 K-32", timekeeper_leaves<Leaves::key, true>},
      {"k32_two_times_for_two_claimers", "GEN-07 K-32", two_times_for_two_claimers},
      {"k32_order_of_times", "K-32", order_of_times},
      {"k32_due_key_goes_behind", "KEY-03 K-32", due_key_goes_behind},
      {"k32_retry_wakes_a_timekeeper", "KEY-06 K-23 K-32", retry_wakes_a_timekeeper<false>},
      {"k32_backoff_wakes_a_timekeeper", "KEY-06 K-23 K-32", retry_wakes_a_timekeeper<true>},
      {"k08_backoff_grows", "KEY-06 K-8", backoff_grows<0>},
      {"k08_backoff_grows_with_jitter", "KEY-06 K-8", backoff_grows<50>},
      {"k32_host_keeps_the_time", "GEN-04 GEN-07 K-32", host_keeps_the_time<false>},
      {"k32_host_hears_of_a_nearer_time", "GEN-04 GEN-07 K-32", host_keeps_the_time<true>},
  };
}

}  // namespace sched
