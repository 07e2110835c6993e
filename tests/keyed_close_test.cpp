// How a queue ends, and who hears of it: closing in two ways, drained, interrupts, notifiers, destruction. KEY-08,
// GEN-04, GEN-05, GEN-07.
#include <nocter.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

using Keys = std::vector<std::string>;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_close_suite, EveryTest)

BOOST_AUTO_TEST_CASE(key_08_discarding_drops_what_waits_and_interrupts_what_runs_scenario_111_134_k_12_k_13_k_14,
                     *label("KEY-08")) {
  Queue queue({.workers = 2});
  for (const char* key : {"active", "dirty", "waiting"}) notify(queue, key);
  nocter_pass *active = claim(queue, "active"), *dirty = claim(queue, "dirty");
  notify(queue, "dirty");
  notify_after(queue, "delayed", kMuchLater);
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  BOOST_CHECK_EQUAL(notify(queue, "active"), NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(notify(queue, "new"), NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(notify_after(queue, "new", 1), NOCTER_CLOSED);
  const nocter_text many[] = {nocter_text_of("x"), nocter_text_of("y")};
  nocter_status each[2];
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, many, 2, each), NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(each[0], NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_CLOSED);
  BOOST_CHECK(nocter_pass_interrupted(active));
  BOOST_CHECK(nocter_interrupt_raised(nocter_pass_interrupt(dirty)));
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, nullptr), NOCTER_PENDING);
  nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.discarded_waiting, 2u);
  BOOST_CHECK_EQUAL(counts.discarded_dirty, 1u);
  BOOST_CHECK_EQUAL(counts.retained, 2u);
  BOOST_CHECK_EQUAL(nocter_pass_complete(dirty), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_pass_retry_after(active, 0), NOCTER_OK);  // as failed
  counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.retained, 0u);
  BOOST_CHECK_EQUAL(counts.retried, 0u);
  BOOST_CHECK_EQUAL(counts.failed, 1u);
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, nullptr), NOCTER_OK);
  nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);  // K-17: nothing more
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_CLOSED);
}

BOOST_AUTO_TEST_CASE(key_08_draining_gives_each_key_its_pass_scenario_59_110_139_k_21, *label("KEY-08")) {
  Queue queue({.workers = 1});
  for (const char* key : {"dirty", "waiting"}) notify(queue, key);
  notify_after(queue, "later", kMuchLater);
  notify_after(queue, "sooner", kMuchLater / 2);
  nocter_pass* dirty = claim(queue, "dirty");
  notify(queue, "dirty");
  nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
  BOOST_CHECK_EQUAL(notify(queue, "waiting"), NOCTER_CLOSED);
  BOOST_CHECK(!nocter_pass_interrupted(dirty));
  BOOST_CHECK_EQUAL(nocter_pass_complete(dirty), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, nullptr), NOCTER_PENDING);
  BOOST_CHECK_EQUAL(nocter_pass_retry_after(claim(queue, "waiting"), -1), NOCTER_OK);  // none is retried
  BOOST_CHECK(run_all(queue) == (Keys{"sooner", "later", "dirty"}));
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, nullptr), NOCTER_OK);
  const nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.discarded_waiting + counts.discarded_dirty, 0u);
  BOOST_CHECK_EQUAL(counts.completed, 4u);
}

BOOST_AUTO_TEST_CASE(key_08_while_it_drains_a_claimer_waits_for_what_a_pass_leaves_scenario_56, *label("KEY-08")) {
  Queue queue({.workers = 2});
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  notify(queue, "a");
  nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  std::atomic<int> passes{0};
  std::vector<std::unique_ptr<Thread>> claimers;
  for (int i = 0; i < 2; i++) {
    claimers.push_back(std::make_unique<Thread>([&] {
      const nocter_wait wait = long_wait();
      for (;;) {
        const ClaimedPass claimed = try_claim(queue, &wait);
        if (!claimed.pass) {
          STATUS(claimed.status, NOCTER_CLOSED);
          return;
        }
        passes++;
        STATUS(nocter_pass_complete(claimed.pass), NOCTER_OK);
      }
    }));
  }
  for (auto& claimer : claimers) HOLDS(claimer->until_asleep());
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  for (auto& claimer : claimers) claimer->join();
  BOOST_CHECK_EQUAL(passes.load(), 1);
}

BOOST_AUTO_TEST_CASE(key_08_draining_may_turn_into_discarding_scenario_58, *label("KEY-08")) {
  Queue queue({.workers = 1});
  for (const char* key : {"a", "b", "c"}) notify(queue, key);
  nocter_pass* pass = claim(queue, "a");
  notify(queue, "a");
  nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
  Thread waiter([&] {
    const nocter_wait wait = long_wait();
    STATUS(nocter_keyed_drained(queue, &wait), NOCTER_OK);
  });
  HOLDS(waiter.until_asleep());
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  BOOST_CHECK(nocter_pass_interrupted(pass));
  BOOST_CHECK_EQUAL(counts_of(queue).discarded_waiting, 2u);
  BOOST_CHECK_EQUAL(counts_of(queue).discarded_dirty, 1u);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  waiter.join();
}

BOOST_AUTO_TEST_CASE(key_08_an_unknown_mode_discards, *label("KEY-08")) {
  Queue queue;
  notify(queue, "a");
  nocter_keyed_close(queue, 77);
  BOOST_CHECK_EQUAL(counts_of(queue).discarded_waiting, 1u);
}

BOOST_AUTO_TEST_CASE(key_08_closing_ends_every_wait_scenario_87_99, *label("KEY-08") * label("GEN-07")) {
  for (const nocter_close_mode mode : {NOCTER_CLOSE_DISCARD, NOCTER_CLOSE_DRAIN}) {
    Queue queue;
    std::vector<std::unique_ptr<Thread>> claimers;
    for (int i = 0; i < 3; i++) {
      claimers.push_back(std::make_unique<Thread>([&] {
        const nocter_wait wait = long_wait();
        STATUS(try_claim(queue, &wait).status, NOCTER_CLOSED);
      }));
    }
    for (auto& claimer : claimers) HOLDS(claimer->until_asleep());
    nocter_keyed_close(queue, mode);
    for (auto& claimer : claimers) claimer->join();
  }
}

BOOST_AUTO_TEST_CASE(gen_07_a_claim_ends_by_deadline_interrupt_and_key, *label("GEN-07") * label("KEY-03")) {
  Queue queue;
  const nocter_wait past = {1, nullptr, 0, 0};
  BOOST_CHECK_EQUAL(try_claim(queue, &past).status, NOCTER_TIMEOUT);
  const int64_t start = nocter_now_ns();
  const nocter_wait wait = wait_ms(20);
  BOOST_CHECK_EQUAL(try_claim(queue, &wait).status, NOCTER_TIMEOUT);
  BOOST_CHECK_GE(nocter_now_ns() - start, 20'000'000);
  Interrupt interrupt;
  Thread raiser([&] {
    pause_ms(10);
    nocter_interrupt_raise(interrupt);
  });
  const nocter_wait interrupted = wait_ms(kLimitMs, interrupt);
  BOOST_CHECK_EQUAL(try_claim(queue, &interrupted).status, NOCTER_INTERRUPTED);
  raiser.join();
  notify(queue, "a");  // what is there comes before a wait that is over
  const ClaimedPass claimed = try_claim(queue, &interrupted);
  BOOST_CHECK_EQUAL(claimed.status, NOCTER_OK);
  nocter_pass_drop(claimed.pass);
}

BOOST_AUTO_TEST_CASE(key_03_each_key_wakes_a_claimer_and_a_slot_does_scenario_96_k_23,
                     *label("KEY-03") * label("KEY-02")) {
  Queue queue({.workers = 1});
  std::atomic<int> passes{0};
  std::vector<std::unique_ptr<Thread>> claimers;
  for (int i = 0; i < 3; i++) {
    claimers.push_back(std::make_unique<Thread>([&] {
      const nocter_wait wait = long_wait();
      const ClaimedPass claimed = try_claim(queue, &wait);
      if (!STATUS(claimed.status, NOCTER_OK)) return;
      passes++;
      pause_ms(5);
      STATUS(nocter_pass_complete(claimed.pass), NOCTER_OK);
    }));
  }
  for (auto& claimer : claimers) HOLDS(claimer->until_asleep());
  for (const char* key : {"a", "b", "c"}) notify(queue, key);
  for (auto& claimer : claimers) claimer->join();
  BOOST_CHECK_EQUAL(passes.load(), 3);
}

BOOST_AUTO_TEST_CASE(gen_04_the_work_notifier_hears_of_keys_slots_times_and_the_end,
                     *label("GEN-04") * label("KEY-08")) {
  Wakes work;
  Queue queue({.workers = 1, .work = work.notifier()});
  notify(queue, "a");
  BOOST_CHECK_EQUAL(work.count(), 0u);  // nobody had missed anything
  nocter_pass* pass = claim(queue, "a");
  notify(queue, "b");
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  const uint64_t before_slot = work.count();
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK_GT(work.count(), before_slot);
  run_all(queue);  // and misses
  const uint64_t before_key = work.count();
  notify(queue, "c");
  BOOST_CHECK_GT(work.count(), before_key);
  run_all(queue);
  const uint64_t before_time = work.count();
  notify_after(queue, "d", kMuchLater);
  BOOST_CHECK_GT(work.count(), before_time);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  const uint64_t before_nearer = work.count();
  notify_after(queue, "e", kMuchLater / 2);
  BOOST_CHECK_GT(work.count(), before_nearer);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  const uint64_t before_further = work.count();
  notify_after(queue, "f", kMuchLater);
  BOOST_CHECK_EQUAL(work.count(), before_further);
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  BOOST_CHECK_GT(work.count(), before_further);
  queue.destroy();
  BOOST_CHECK_EQUAL(work.drops.load(), 1u);
}

BOOST_AUTO_TEST_CASE(gen_04_the_waiters_notifier_hears_of_room_and_of_the_end,
                     *label("GEN-04") * label("KEY-05") * label("KEY-08")) {
  Wakes waiters;
  Queue queue({.maximum_keys = 1, .workers = 1, .waiters = waiters.notifier()});
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(waiters.count(), 0u);  // nobody was refused
  notify(queue, "a");
  BOOST_CHECK_EQUAL(notify(queue, "b"), NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(notify(queue, "c"), NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(waiters.count(), 0u);
  pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_fail(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(waiters.count(), 1u);
  BOOST_CHECK_EQUAL(notify(queue, "b"), NOCTER_OK);
  nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
  BOOST_CHECK_EQUAL(waiters.count(), 2u);  // who waits for a place waits in vain
  run_all(queue);
  BOOST_CHECK_EQUAL(waiters.count(), 3u);
  queue.destroy();
  BOOST_CHECK_EQUAL(waiters.drops.load(), 1u);
}

BOOST_AUTO_TEST_CASE(gen_05_inside_a_notifier_the_queue_may_be_asked_drops_are_carried_out, *label("GEN-05")) {
  struct Inside {
    nocter_keyed* queue = nullptr;
    nocter_pass* pass = nullptr;
    int turns = 0;
    static void wake(void* user) {
      auto& self = *static_cast<Inside*>(user);
      if (self.turns++ != 0) return;
      int64_t due;
      nocter_pass* pass = nullptr;
      counts_of(self.queue);
      STATUS(nocter_keyed_next_due(self.queue, &due), NOCTER_EMPTY);
      STATUS(notify(self.queue, "x"), NOCTER_E_REENTRANT);
      STATUS(nocter_keyed_claim(self.queue, nullptr, &pass), NOCTER_E_REENTRANT);
      STATUS(nocter_keyed_drained(self.queue, nullptr), NOCTER_E_REENTRANT);
      STATUS(nocter_pass_complete(self.pass), NOCTER_E_REENTRANT);
      nocter_pass_drop(self.pass);
      nocter_keyed_destroy(self.queue);
    }
  } inside;
  nocter_keyed_options options = options_of(QueueShape{.workers = 2, .work = {Inside::wake, nullptr, &inside}});
  BOOST_CHECK_EQUAL(nocter_keyed_create(&options, &inside.queue), NOCTER_OK);
  notify(inside.queue, "a");
  inside.pass = claim(inside.queue, "a");
  BOOST_CHECK_EQUAL(try_claim(inside.queue).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(notify(inside.queue, "b"), NOCTER_OK);
  BOOST_CHECK_GE(inside.turns, 1);
}

BOOST_AUTO_TEST_CASE(key_08_a_destroyed_queue_lives_until_its_last_guard_scenario_140,
                     *label("KEY-08") * label("GEN-01")) {
  Wakes waiters;
  nocter_keyed* queue = nullptr;
  const nocter_keyed_options options = options_of(QueueShape{.waiters = waiters.notifier()});
  BOOST_CHECK_EQUAL(nocter_keyed_create(&options, &queue), NOCTER_OK);
  notify(queue, "a key that lies outside its record, because it is long");
  notify(queue, "b");
  nocter_pass *first = claim(queue), *second = claim(queue, "b");
  nocter_keyed_destroy(queue);
  BOOST_CHECK_EQUAL(waiters.drops.load(), 0u);
  BOOST_CHECK_EQUAL(key_of(first), "a key that lies outside its record, because it is long");
  BOOST_CHECK(nocter_pass_interrupted(first));
  BOOST_CHECK_EQUAL(nocter_pass_complete(first), NOCTER_OK);
  BOOST_CHECK_EQUAL(waiters.drops.load(), 0u);
  nocter_pass_drop(second);
  BOOST_CHECK_EQUAL(waiters.drops.load(), 1u);
  BOOST_CHECK_EQUAL(notify(queue, "c"), NOCTER_E_ARGUMENT);
}

BOOST_AUTO_TEST_CASE(key_08_destruction_ends_waits_and_notifications_that_are_under_way,
                     *label("KEY-08") * label("GEN-01")) {
  for (uint64_t round = 0; round < rounds(300, 60); round++) {
    nocter_keyed* queue = nullptr;
    const nocter_keyed_options options = options_of(QueueShape{.maximum_keys = 8, .workers = 2});
    BOOST_REQUIRE_EQUAL(nocter_keyed_create(&options, &queue), NOCTER_OK);
    StartLine line(3);
    Thread claimer([&] {
      line.ready();
      const nocter_wait wait = long_wait();
      const nocter_status status = [&] {
        nocter_pass* pass = nullptr;
        const nocter_status said = nocter_keyed_claim(queue, &wait, &pass);
        nocter_pass_drop(pass);
        return said;
      }();
      HOLDS(status == NOCTER_OK || status == NOCTER_CLOSED || status == NOCTER_E_ARGUMENT);
    });
    Thread notifier([&] {
      line.ready();
      const nocter_status status = notify(queue, "a");
      HOLDS(status == NOCTER_OK || status == NOCTER_CLOSED || status == NOCTER_E_ARGUMENT);
    });
    line.ready();
    nocter_keyed_destroy(queue);
  }
}

BOOST_AUTO_TEST_SUITE_END()
