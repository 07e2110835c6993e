// Keys that are due later: delays, backoff, who keeps the time, and the resync from a list of the host's. KEY-06,
// KEY-10.
#include <nocter.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

using Keys = std::vector<std::string>;
constexpr int64_t kMs = 1'000'000;

int64_t due_of(nocter_keyed* queue) {
  int64_t due = 77;
  return nocter_keyed_next_due(queue, &due) == NOCTER_OK ? due : -1;
}

// Waits for the next key, and says how long that took.
std::pair<std::string, int64_t> take(nocter_keyed* queue) {
  const int64_t start = nocter_now_ns();
  const nocter_wait wait = long_wait();
  const ClaimedPass claimed = try_claim(queue, &wait);
  if (!STATUS(claimed.status, NOCTER_OK)) return {"none", 0};
  std::pair<std::string, int64_t> taken{string_of(nocter_pass_key(claimed.pass)), nocter_now_ns() - start};
  STATUS(nocter_pass_complete(claimed.pass), NOCTER_OK);
  return taken;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_time_suite, EveryTest)

BOOST_AUTO_TEST_CASE(key_06_a_delayed_key_is_due_when_its_time_has_come_and_once_scenario_62_94, *label("KEY-06")) {
  Queue queue;
  const int64_t before = nocter_now_ns();
  BOOST_CHECK_EQUAL(notify_after(queue, "a", 30 * kMs), NOCTER_OK);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(counts_of(queue).delayed, 1u);
  BOOST_CHECK_EQUAL(counts_of(queue).waiting, 0u);  // scenario 86
  BOOST_CHECK_GE(due_of(queue), before + 30 * kMs);
  const auto [key, after] = take(queue);
  BOOST_CHECK_EQUAL(key, "a");
  BOOST_CHECK_GE(nocter_now_ns(), before + 30 * kMs);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(due_of(queue), -1);
}

BOOST_AUTO_TEST_CASE(key_06_the_earliest_time_wins_scenario_63_85_102, *label("KEY-06")) {
  Queue queue;
  BOOST_CHECK_EQUAL(notify_after(queue, "a", kMuchLater), NOCTER_OK);
  const int64_t late = due_of(queue);
  BOOST_CHECK_EQUAL(notify_after(queue, "a", kMuchLater + kMuchLater), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(due_of(queue), late);
  BOOST_CHECK_EQUAL(notify_after(queue, "a", 10 * kMs), NOCTER_COALESCED);
  BOOST_CHECK_LT(due_of(queue), late);
  BOOST_CHECK_EQUAL(take(queue).first, "a");
  BOOST_CHECK_EQUAL(counts_of(queue).started, 1u);
  BOOST_CHECK_EQUAL(due_of(queue), -1);
}

BOOST_AUTO_TEST_CASE(key_06_delayed_keys_come_in_the_order_of_their_times_scenario_64_65_98, *label("KEY-06")) {
  Queue queue;
  notify_after(queue, "third", 30 * kMs);
  notify_after(queue, "second", 20 * kMs);
  notify_after(queue, "first", 10 * kMs);
  notify_after(queue, "never", kMuchLater);
  for (const char* expected : {"first", "second", "third"}) BOOST_CHECK_EQUAL(take(queue).first, expected);
  BOOST_CHECK_EQUAL(counts_of(queue).delayed, 1u);
}

BOOST_AUTO_TEST_CASE(key_06_many_times_set_lowered_and_given_up_stay_in_order, *label("KEY-06")) {
  Queue queue({.maximum_keys = 200, .workers = 200});
  auto random = random_stream(3);
  std::map<std::string, int64_t> due;
  for (int i = 0; i < 2000; i++) {
    const std::string key = std::to_string(below(random, 150));
    if (below(random, 5) == 0) {
      if (notify(queue, key) == NOCTER_COALESCED) due.erase(key);
      for (const std::string& ran : run_all(queue)) due.erase(ran);
    } else {
      const int64_t delay = kMuchLater + static_cast<int64_t>(below(random, 1'000'000)) * kMs;
      const int64_t from = nocter_now_ns();
      notify_after(queue, key, delay);
      if (!due.contains(key) || from + delay < due[key]) due[key] = from + delay;
    }
    int64_t first = INT64_MAX;
    for (const auto& [name, at] : due) first = std::min(first, at);
    const int64_t said = due_of(queue);
    // Read just before the call, so the call's own is a little later.
    if (due.empty()) BOOST_REQUIRE_EQUAL(said, -1);
    if (!due.empty()) BOOST_REQUIRE(said >= first && said < first + 1000 * kMs);
    BOOST_REQUIRE_EQUAL(counts_of(queue).delayed, due.size());
  }
}

BOOST_AUTO_TEST_CASE(key_06_a_notification_makes_a_delayed_key_due_at_once_scenario_89_97_k_32, *label("KEY-06")) {
  Queue queue;
  notify_after(queue, "a", kMuchLater);
  notify(queue, "b");
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(due_of(queue), -1);
  BOOST_CHECK(run_all(queue) == (Keys{"b", "a"}));
  BOOST_CHECK_EQUAL(notify_after(queue, "a", kMuchLater), NOCTER_OK);  // nothing of the time before is left
  BOOST_CHECK_EQUAL(counts_of(queue).delayed, 1u);
}

BOOST_AUTO_TEST_CASE(key_06_a_delay_asked_for_in_a_pass_begins_then, *label("KEY-06") * label("KEY-03")) {
  Queue queue;
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(notify_after(queue, "a", 10 * kMs), NOCTER_OK);
  BOOST_CHECK_EQUAL(notify_after(queue, "a", kMuchLater), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(counts_of(queue).dirty, 1u);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(queue).delayed, 1u);
  BOOST_CHECK_EQUAL(take(queue).first, "a");
  // One that comes while the pass still runs is as a notification then.
  notify(queue, "a");
  pass = claim(queue, "a");
  notify_after(queue, "a", 1);
  pause_ms(2);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == Keys{"a"});
  // And a notification makes a time needless.
  notify(queue, "a");
  pass = claim(queue, "a");
  notify_after(queue, "a", kMuchLater);
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == Keys{"a"});
  BOOST_CHECK_EQUAL(due_of(queue), -1);
}

BOOST_AUTO_TEST_CASE(key_06_retry_keeps_the_key_and_counts_its_failures_in_a_row_scenario_67_68, *label("KEY-06")) {
  Queue queue({.backoff_initial_ns = 1 * kMs, .backoff_maximum_ns = 4 * kMs});
  notify(queue, "a");
  for (uint32_t failures = 0; failures < 5; failures++) {
    const nocter_wait wait = long_wait();
    const ClaimedPass claimed = try_claim(queue, &wait);
    BOOST_REQUIRE_EQUAL(claimed.status, NOCTER_OK);
    BOOST_CHECK_EQUAL(nocter_pass_failures(claimed.pass), failures);
    const int64_t before = nocter_now_ns();
    BOOST_CHECK_EQUAL(nocter_pass_retry_after(claimed.pass, -1), NOCTER_OK);
    const int64_t after = nocter_now_ns();
    const int64_t delay = std::min<int64_t>(4, int64_t{1} << failures) * kMs;
    BOOST_CHECK_GE(due_of(queue), before + delay);
    BOOST_CHECK_LE(due_of(queue), after + delay);
    BOOST_CHECK_EQUAL(counts_of(queue).retained, 1u);
  }
  const nocter_wait wait = long_wait();
  nocter_pass* pass = try_claim(queue, &wait).pass;
  BOOST_CHECK_EQUAL(nocter_pass_failures(pass), 5u);
  notify(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_failures(pass), 0u);  // forgotten
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  const nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.failed, 5u);
  BOOST_CHECK_EQUAL(counts.retried, 5u);
  BOOST_CHECK_EQUAL(counts.completed, 2u);
}

BOOST_AUTO_TEST_CASE(key_06_a_retry_at_once_and_one_of_a_dirty_key, *label("KEY-06")) {
  Queue queue;
  notify(queue, "a");
  notify(queue, "b");
  BOOST_CHECK_EQUAL(nocter_pass_retry_after(claim(queue, "a"), 0), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == (Keys{"b", "a"}));
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  notify(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_retry_after(pass, kMuchLater), NOCTER_OK);
  pass = claim(queue, "a");  // somebody's notification does not wait for a retry
  BOOST_CHECK_EQUAL(nocter_pass_failures(pass), 1u);
  BOOST_CHECK_EQUAL(nocter_pass_fail(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(queue).retried, 1u);
  notify(queue, "a");
  pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_failures(pass), 0u);  // it was gone in between
  notify_after(queue, "a", kMuchLater);
  BOOST_CHECK_EQUAL(nocter_pass_retry_after(pass, 0), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == Keys{"a"});  // the earlier one
}

BOOST_AUTO_TEST_CASE(key_05_a_delayed_key_holds_its_place, *label("KEY-05")) {
  Queue queue({.maximum_keys = 2, .workers = 1});
  notify_after(queue, "a", kMuchLater);
  notify_after(queue, "b", kMuchLater);
  BOOST_CHECK_EQUAL(notify(queue, "c"), NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_COALESCED);
  run_all(queue);
  BOOST_CHECK_EQUAL(notify(queue, "c"), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(key_06_one_claimer_keeps_the_time_for_all_and_hands_it_on, *label("KEY-06")) {
  Queue queue({.workers = 4});
  std::atomic<int> taken{0};
  // All asleep before there is a time; then the one that keeps it is taken away, by a key, again and again.
  std::vector<std::unique_ptr<Thread>> claimers;
  for (int i = 0; i < 4; i++) {
    claimers.push_back(std::make_unique<Thread>([&] {
      take(queue);
      taken++;
    }));
  }
  for (auto& claimer : claimers) HOLDS(claimer->until_asleep());
  notify_after(queue, "later", 200 * kMs);
  notify_after(queue, "sooner", 100 * kMs);
  notify(queue, "now");
  notify_after(queue, "soonest", 20 * kMs);
  for (auto& claimer : claimers) claimer->join();
  BOOST_CHECK_EQUAL(taken.load(), 4);
  BOOST_CHECK_EQUAL(counts_of(queue).completed, 4u);
}

BOOST_AUTO_TEST_CASE(key_06_who_keeps_the_time_may_give_up_before_scenario_66, *label("KEY-06")) {
  Queue queue({.workers = 2});
  notify_after(queue, "a", 150 * kMs);
  Thread keeper([&] {
    const nocter_wait wait = wait_ms(50);
    STATUS(try_claim(queue, &wait).status, NOCTER_TIMEOUT);
  });
  HOLDS(keeper.until_asleep());
  Thread other([&] { HOLDS(take(queue).first == "a"); });
  keeper.join();
  other.join();
}

BOOST_AUTO_TEST_CASE(key_10_a_resync_asks_for_bounded_slices_round_after_round, *label("KEY-10")) {
  Queue queue({.maximum_keys = 10, .workers = 1});
  ListSource list;
  list.keys = {"a", "b", "c", "d", "e"};
  const nocter_keyed_source source = list.source();
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 1, 2), NOCTER_OK);
  BOOST_CHECK_EQUAL(list.calls, 0);  // not before somebody claims
  BOOST_CHECK_LE(due_of(queue), nocter_now_ns());
  Keys ran;
  for (int i = 0; i < 6; i++) {
    const int before = list.calls;
    nocter_pass* const pass = claim(queue);
    BOOST_CHECK_LE(list.calls - before, 2);
    ran.push_back(string_of(nocter_pass_key(pass)));
    BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
    pause_ms(1);
  }
  BOOST_CHECK((Keys(ran.begin(), ran.begin() + 5) == list.keys));
  const nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_GE(counts.resync_rounds, 1u);
  BOOST_CHECK_GE(counts.resync_keys, 6u);
  BOOST_CHECK_EQUAL(notifications(counts), counts.resync_keys);
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, nullptr, 0, 0), NOCTER_OK);
  BOOST_CHECK_EQUAL(list.drops, 1);
  run_all(queue);  // what it gave before
  BOOST_CHECK_EQUAL(due_of(queue), -1);
}

BOOST_AUTO_TEST_CASE(key_10_a_full_queue_ends_a_slice_and_no_key_is_passed_over, *label("KEY-10") * label("KEY-05")) {
  Queue queue({.maximum_keys = 2, .workers = 1});
  ListSource list;
  for (int i = 0; i < 7; i++) list.keys.push_back("key " + std::to_string(i));
  const nocter_keyed_source source = list.source();
  notify(queue, "other");
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 1, 100), NOCTER_OK);
  std::multiset<std::string> ran;
  while (ran.size() < 30) {
    nocter_pass* const pass = claim(queue);
    ran.insert(key_of(pass));
    BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  }
  int least = 100, most = 0;
  for (const std::string& key : list.keys) {
    least = std::min(least, static_cast<int>(ran.count(key)));
    most = std::max(most, static_cast<int>(ran.count(key)));
  }
  BOOST_CHECK_GE(least, 3);
  BOOST_CHECK_LE(most - least, 1);
}

BOOST_AUTO_TEST_CASE(key_10_what_was_refused_is_found_again, *label("KEY-10")) {
  Queue queue({.maximum_keys = 4, .workers = 2});
  ListSource list;
  for (int i = 0; i < 50; i++) list.keys.push_back("key " + std::to_string(i));
  std::set<std::string> seen;
  std::mutex mutex;
  PassRunner runner(queue, [&](const std::string& key, nocter_pass*) {
    const std::scoped_lock lock(mutex);
    seen.insert(key);
    return NOCTER_OK;
  });
  for (const std::string& key : list.keys) (void)notify(queue, key);  // many are refused
  const nocter_keyed_source source = list.source();
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, kMs, 3), NOCTER_OK);
  BOOST_CHECK(eventually([&] {
    const std::scoped_lock lock(mutex);
    return seen.size() == list.keys.size();
  }));
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, &wait), NOCTER_OK);
  BOOST_CHECK_EQUAL(list.drops, 1);
}

BOOST_AUTO_TEST_CASE(key_10_a_source_that_fails_or_throws_ends_its_slice_only, *label("KEY-10") * label("GEN-10")) {
  Queue queue;
  struct Failing {
    int calls = 0;
    static nocter_status give(void* user, nocter_text* out_key) {
      auto& self = *static_cast<Failing*>(user);
      switch (self.calls++ % 4) {
        case 0:
          return NOCTER_E_STATE;
        case 1:
          throw std::runtime_error("no list today");
        case 2: {
          static const std::string too_long(65, 'k');
          *out_key = text(too_long);
          return NOCTER_OK;
        }
        default:
          *out_key = nocter_text_of("good");
          return NOCTER_OK;
      }
    }
  } failing;
  const nocter_keyed_source source = {Failing::give, nullptr, &failing};
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 1, 1), NOCTER_OK);
  for (int i = 0; i < 3; i++) BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(counts_of(queue).resync_failures, 3u);
  BOOST_CHECK_EQUAL(counts_of(queue).exceptions, 1u);
  BOOST_CHECK_EQUAL(nocter_pass_complete(claim(queue, "good")), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(key_10_inside_a_source_the_queue_may_be_asked_and_no_more, *label("KEY-10") * label("GEN-05")) {
  Queue queue;
  struct Asking {
    nocter_keyed* queue;
    int calls = 0;
    static nocter_status give(void* user, nocter_text*) {
      auto& self = *static_cast<Asking*>(user);
      self.calls++;
      counts_of(self.queue);
      nocter_pass* pass = nullptr;
      STATUS(notify(self.queue, "a"), NOCTER_E_REENTRANT);
      STATUS(nocter_keyed_claim(self.queue, nullptr, &pass), NOCTER_E_REENTRANT);
      STATUS(nocter_keyed_resync(self.queue, nullptr, 0, 0), NOCTER_E_REENTRANT);
      nocter_keyed_close(self.queue, NOCTER_CLOSE_DISCARD);
      return NOCTER_EMPTY;
    }
  } asking{queue};
  const nocter_keyed_source source = {Asking::give, nullptr, &asking};
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 1, 5), NOCTER_OK);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(asking.calls, 1);
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, nullptr), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(key_10_a_source_is_replaced_while_it_is_asked, *label("KEY-10")) {
  Queue queue;
  struct Slow {
    std::atomic<bool> inside{false}, go{false};
    std::atomic<int> drops{0};
    static nocter_status give(void* user, nocter_text* out_key) {
      auto& self = *static_cast<Slow*>(user);
      self.inside = true;
      while (!self.go) pause_ms(1);
      *out_key = nocter_text_of("old");
      return NOCTER_OK;
    }
    static void drop(void* user) { static_cast<Slow*>(user)->drops++; }
  } slow;
  const nocter_keyed_source old_source = {Slow::give, Slow::drop, &slow};
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &old_source, 1, 100), NOCTER_OK);
  Thread claimer([&] { take(queue); });
  BOOST_CHECK(eventually([&] { return slow.inside.load(); }));
  ListSource list;
  list.keys = {"new"};
  const nocter_keyed_source new_source = list.source();
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &new_source, 5 * kMs, 100), NOCTER_OK);
  BOOST_CHECK_EQUAL(slow.drops.load(), 0);  // it is still inside
  slow.go = true;
  claimer.join();
  BOOST_CHECK_EQUAL(slow.drops.load(), 1);
  bool found = false;
  for (int i = 0; i < 10 && !found; i++) {
    for (const std::string& key : run_all(queue)) found |= key == "new";
  }
  BOOST_CHECK(found);
}

BOOST_AUTO_TEST_CASE(key_10_a_wait_that_is_over_asks_for_no_further_slice, *label("KEY-10") * label("GEN-07")) {
  Queue queue;
  struct Endless {
    int calls = 0;
    static nocter_status give(void* user, nocter_text*) {
      static_cast<Endless*>(user)->calls++;
      pause_ms(20);
      return NOCTER_EMPTY;
    }
  } endless;
  const nocter_keyed_source source = {Endless::give, nullptr, &endless};
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 1, 1), NOCTER_OK);
  const nocter_wait wait = wait_ms(50);
  const int64_t start = nocter_now_ns();
  BOOST_CHECK_EQUAL(try_claim(queue, &wait).status, NOCTER_TIMEOUT);
  BOOST_CHECK_GE(nocter_now_ns() - start, 50 * kMs);
  BOOST_CHECK_LE(endless.calls, 4);
  Interrupt interrupt;
  nocter_interrupt_raise(interrupt);
  const nocter_wait interrupted = wait_ms(10'000, interrupt);
  BOOST_CHECK_EQUAL(try_claim(queue, &interrupted).status, NOCTER_INTERRUPTED);
  BOOST_CHECK_LE(endless.calls, 6);
}

BOOST_AUTO_TEST_SUITE_END()
