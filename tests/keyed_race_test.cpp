// The keyed queue among real threads: waits that nobody could end, times that are kept, sources, and two services that wake each other.
#include <nocter.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/race.hpp"
#include "support/service.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(keyed_race_suite, EveryTest)

// ---- Waiting for oneself ------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(k_16_a_pass_that_would_wait_for_its_own_end_is_told, *label("K-16") * label("FFI-14")) {
  const Queue queue(QueueShape{.workers = 1});
  std::atomic<int> ran{0};
  PassRunner runner(queue, [&](const std::string&, nocter_pass*) -> nocter_status {
    const nocter_wait wait = long_wait();
    nocter_pass* second = nullptr;
    STATUS(nocter_keyed_claim(queue, &wait, &second), NOCTER_E_WOULD_DEADLOCK);
    HOLDS(second == nullptr);
    STATUS(nocter_keyed_claim(queue, nullptr, &second), NOCTER_EMPTY);
    STATUS(nocter_keyed_drained(queue, &wait), NOCTER_E_STATE);
    nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
    STATUS(nocter_keyed_drained(queue, &wait), NOCTER_E_WOULD_DEADLOCK);
    STATUS(nocter_keyed_drained(queue, nullptr), NOCTER_PENDING);
    ran++;
    return NOCTER_OK;
  });
  STATUS(notify(queue, "key"), NOCTER_OK);
  const nocter_wait wait = long_wait();
  HOLDS(eventually([&] { return ran.load() == 1; }));
  STATUS(nocter_keyed_drained(queue, &wait), NOCTER_OK);
}

// Two workers, both in a pass: one may wait for a second key, for the other could end that wait; then the other may not.
BOOST_AUTO_TEST_CASE(k_16_two_passes_that_wait_for_each_other_are_told, *label("K-16") * label("FFI-14")) {
  const Queue queue(QueueShape{.workers = 2});
  std::atomic<int> told{0}, closed{0}, inside{0};
  PassRunner runner(queue, [&](const std::string&, nocter_pass*) -> nocter_status {
    const nocter_wait wait = long_wait();
    nocter_pass* second = nullptr;
    inside++;
    HOLDS(eventually([&] { return inside.load() == 2; }));
    const nocter_status heard = nocter_keyed_claim(queue, &wait, &second);
    told += heard == NOCTER_E_WOULD_DEADLOCK ? 1 : 0;
    closed += heard == NOCTER_CLOSED ? 1 : 0;
    return NOCTER_OK;
  });
  STATUS(notify(queue, "one"), NOCTER_OK);
  STATUS(notify(queue, "other"), NOCTER_OK);
  HOLDS(eventually([&] { return told.load() == 1; }));
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  const nocter_wait wait = long_wait();
  STATUS(nocter_keyed_drained(queue, &wait), NOCTER_OK);
  HOLDS(told.load() == 1 && closed.load() == 1);
}

BOOST_AUTO_TEST_CASE(k_16_workers_that_would_wait_for_themselves_are_told, *label("K-16") * label("FFI-14")) {
  const Queue queue(QueueShape{.workers = 1});
  std::atomic<nocter_workers*> workers{nullptr};
  std::atomic<int> ran{0};
  PassRunner runner(queue, [&](const std::string&, nocter_pass*) -> nocter_status {
    const nocter_wait wait = long_wait();
    HOLDS(eventually([&] { return workers.load() != nullptr; }));
    STATUS(nocter_workers_stop(workers.load(), &wait), NOCTER_E_WOULD_DEADLOCK);
    ran++;
    return NOCTER_OK;
  });
  workers.store(runner);
  STATUS(notify(queue, "key"), NOCTER_OK);
  HOLDS(eventually([&] { return ran.load() == 1; }));
}

// ---- Interrupts ---------------------------------------------------------------------------------------------------------

// Scenario 136: what ended one pass is not seen in the next one on the same thread.
BOOST_AUTO_TEST_CASE(k_18_an_interrupt_is_of_one_pass, *label("K-18") * label("KEY-08")) {
  for (int round = 0; round < 100; round++) {
    const Queue first, second;
    STATUS(notify(first, "key"), NOCTER_OK);
    STATUS(notify(second, "key"), NOCTER_OK);
    nocter_pass* const interrupted = claim(first);
    nocter_keyed_close(first, NOCTER_CLOSE_DISCARD);
    HOLDS(nocter_pass_interrupted(interrupted));
    STATUS(nocter_pass_complete(interrupted), NOCTER_OK);
    nocter_pass* const next = claim(second);
    HOLDS(!nocter_pass_interrupted(next) && !nocter_interrupt_raised(nocter_pass_interrupt(next)));
    // By hand nothing can be done to it.
    nocter_interrupt_raise(nocter_pass_interrupt(next));
    HOLDS(!nocter_pass_interrupted(next));
    STATUS(nocter_pass_complete(next), NOCTER_OK);
  }
}

// ---- One key, two threads ------------------------------------------------------------------------------------------------

// What is stored before the notification is loaded by the pass, also where the notification has nothing to change.
BOOST_AUTO_TEST_CASE(k_28_a_coalesced_notification_is_seen_by_the_pass, *label("K-1") * label("K-28")) {
  const Queue queue;
  std::atomic<int> state{0};
  int seen = 0;
  nocter_status heard = NOCTER_OK;
  nocter_pass* pass = nullptr;
  race(
      rounds(200'000, 20'000), 28,
      [&] {
        state.store(0, std::memory_order_relaxed);
        STATUS(notify(queue, "k"), NOCTER_OK);
      },
      [&] {
        state.store(1, std::memory_order_relaxed);
        heard = nocter_keyed_notify(queue, nocter_text_of("k"));
      },
      [&] {
        STATUS(nocter_keyed_claim(queue, nullptr, &pass), NOCTER_OK);
        seen = state.load(std::memory_order_relaxed);
      },
      [&] {
        const bool right = HOLDS(heard == NOCTER_COALESCED ? seen == 1 : heard == NOCTER_OK);
        STATUS(nocter_pass_complete(pass), NOCTER_OK);
        if (heard == NOCTER_OK) STATUS(nocter_pass_complete(claim(queue)), NOCTER_OK);
        return right;
      });
}

// The same for what is not atomic, and with nothing else between the two threads that would order them: ThreadSanitizer is the judge.
BOOST_AUTO_TEST_CASE(k_28_what_was_done_before_a_notification_happens_before_the_pass,
                     *label("K-28") * label("KEY-01")) {
  const Queue queue(QueueShape{.workers = 2});
  constexpr int kNotifiers = 3;
  int done[kNotifiers] = {};
  std::atomic<int> notified{0}, seen{0};
  const int rounds_to_play = static_cast<int>(rounds(5'000, 2'000));
  std::deque<Thread> notifiers;
  for (int& mine : done) {
    notifiers.emplace_back([&] {
      for (int round = 1; round <= rounds_to_play; round++) {
        mine = round;
        const nocter_status status = nocter_keyed_notify(queue, nocter_text_of("k"));
        HOLDS(status == NOCTER_OK || status == NOCTER_COALESCED);
        notified.fetch_add(1, std::memory_order_relaxed);
        while (seen.load(std::memory_order_acquire) < round) std::this_thread::yield();
      }
    });
  }
  for (int round = 1; round <= rounds_to_play; round++) {
    while (notified.load(std::memory_order_relaxed) < kNotifiers * round) std::this_thread::yield();
    nocter_pass* const pass = claim(queue);
    for (const int one : done) {
      if (!HOLDS(one == round)) round = rounds_to_play;
    }
    STATUS(nocter_pass_complete(pass), NOCTER_OK);
    // Orders the reads above before the next writes, and nothing the other way round.
    seen.store(round, std::memory_order_release);
  }
  seen.store(rounds_to_play, std::memory_order_release);
}

BOOST_AUTO_TEST_CASE(k_02_a_notification_at_the_end_of_a_pass_is_kept, *label("K-2") * label("K-9")) {
  const Queue queue;
  nocter_pass* pass = nullptr;
  nocter_status heard = NOCTER_OK;
  uint64_t round = 0;
  race(
      rounds(200'000, 20'000), 2,
      [&] {
        STATUS(notify(queue, "k"), NOCTER_OK);
        pass = claim(queue);
        round++;
      },
      [&] { heard = nocter_keyed_notify(queue, nocter_text_of("k")); },
      [&] { STATUS(round % 2 == 0 ? nocter_pass_complete(pass) : nocter_pass_fail(pass), NOCTER_OK); },
      [&] {
        const bool right = STATUS(heard, NOCTER_OK) && HOLDS(counts_of(queue).waiting == 1);
        STATUS(nocter_pass_complete(claim(queue)), NOCTER_OK);
        return right;
      });
}

// A look that finds nothing says nothing about the moment after it.
BOOST_AUTO_TEST_CASE(k_22_that_nothing_is_left_is_true_of_one_moment, *label("K-22") * label("GEN-12")) {
  const Queue queue;
  nocter_keyed_counts counts = {};
  race(
      rounds(100'000, 10'000), 22, [&] {}, [&] { STATUS(notify(queue, "k"), NOCTER_OK); },
      [&] { counts = counts_of(queue); },
      [&] {
        const bool right =
            HOLDS(counts.retained == counts.waiting && counts.waiting <= 1) && HOLDS(counts_of(queue).waiting == 1);
        STATUS(nocter_pass_complete(claim(queue)), NOCTER_OK);
        return right;
      });
}

// The thing that a key stands for is replaced while its pass runs: the pass finds out by itself, and one more looks at the new one.
BOOST_AUTO_TEST_CASE(k_29_a_pass_finds_out_by_itself_what_its_key_stands_for, *label("K-29") * label("KEY-01")) {
  const Queue queue(QueueShape{.workers = 1});
  std::mutex mutex;
  uint64_t generation = 1;
  std::vector<uint64_t> committed;
  Gate between;
  std::atomic<bool> first{true};
  PassRunner runner(queue, [&](const std::string&, nocter_pass*) -> nocter_status {
    uint64_t found = 0;
    {
      const std::scoped_lock lock(mutex);
      found = generation;
    }
    if (first.exchange(false)) between.pass();
    const std::scoped_lock lock(mutex);
    if (found != generation) return NOCTER_E_STATE;
    committed.push_back(found);
    return NOCTER_OK;
  });
  STATUS(notify(queue, "thing"), NOCTER_OK);
  between.until_reached();
  {
    const std::scoped_lock lock(mutex);
    generation = 2;
  }
  STATUS(notify(queue, "thing"), NOCTER_OK);
  between.open();
  HOLDS(eventually([&] { return counts_of(queue).retained == 0; }));
  runner.destroy();
  BOOST_CHECK(committed == std::vector<uint64_t>{2});
  const nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.failed, 1u);
  BOOST_CHECK_EQUAL(counts.completed, 1u);
}

// ---- Time ---------------------------------------------------------------------------------------------------------------

// Scenarios 62, 94, 97: not before its time, soon after it, and at once when it is notified meanwhile.
BOOST_AUTO_TEST_CASE(k_32_delays_are_kept_by_who_waits, *label("K-32") * label("GEN-07")) {
  const Queue queue;
  const nocter_wait wait = long_wait();
  for (int round = 0; round < 5; round++) {
    const int64_t start = nocter_now_ns();
    STATUS(notify_after(queue, "delayed", 20'000'000), NOCTER_OK);
    const ClaimedPass claimed = try_claim(queue, &wait);
    const int64_t waited = nocter_now_ns() - start;
    STATUS(claimed.status, NOCTER_OK);
    HOLDS(waited >= 20'000'000);
    HOLDS(waited < 5'000'000'000);
    STATUS(nocter_pass_complete(claimed.pass), NOCTER_OK);
  }
  STATUS(notify_after(queue, "delayed", kMuchLater), NOCTER_OK);
  Thread claimer([&] {
    const ClaimedPass claimed = try_claim(queue, &wait);
    STATUS(claimed.status, NOCTER_OK);
    STATUS(nocter_pass_complete(claimed.pass), NOCTER_OK);
  });
  HOLDS(claimer.until_asleep());
  STATUS(notify(queue, "delayed"), NOCTER_COALESCED);
  claimer.join();
  HOLDS(counts_of(queue).retained == 0);
}

// Whoever keeps the time leaves again and again; the delayed keys still come, all of them, in the order of their times.
BOOST_AUTO_TEST_CASE(k_32_times_are_kept_though_their_keepers_leave, *label("K-32") * label("GEN-07")) {
  constexpr int kDelayed = 40;
  const Queue queue(QueueShape{.maximum_keys = kDelayed + 1, .workers = 4});
  std::atomic<int> came{0};
  std::atomic<int64_t> latest{0};
  const int64_t start = nocter_now_ns();
  for (int i = kDelayed; i > 0; i--) STATUS(notify_after(queue, std::to_string(i), i * 2'000'000), NOCTER_OK);
  std::deque<Thread> threads;
  for (uint64_t thread = 0; thread < 3; thread++) {
    threads.emplace_back([&, thread] {
      auto random = random_stream(320 + thread);
      while (came.load() < kDelayed) {
        nocter_wait wait = wait_ms(0);
        wait.deadline_ns += static_cast<int64_t>(below(random, 3'000'000));
        const ClaimedPass claimed = try_claim(queue, thread == 0 ? nullptr : &wait);
        if (claimed.pass == nullptr) {
          if (thread == 0) pause_ms(1);
          continue;
        }
        const int number = std::stoi(key_of(claimed.pass));
        HOLDS(nocter_now_ns() >= start + number * 2'000'000);
        int64_t before = latest.load();
        while (before < number && !latest.compare_exchange_weak(before, number)) {
        }
        STATUS(nocter_pass_complete(claimed.pass), NOCTER_OK);
        came++;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  HOLDS(counts_of(queue).retained == 0);
  HOLDS(latest.load() == kDelayed);
}

// ---- Resync -------------------------------------------------------------------------------------------------------------

// KEY-10: more things than there are places, changed at random and notified once; what is refused is found by the source.
BOOST_AUTO_TEST_CASE(key_10_what_was_refused_is_found_again, *label("KEY-10") * label("KEY-05")) {
  constexpr size_t kThings = 100;
  struct Thing {
    std::atomic<uint64_t> state{0}, seen{0};
  };
  std::array<Thing, kThings> things;
  struct List {
    size_t next = 0;
    std::string lent;
    std::atomic<uint64_t> asked{0};
    std::atomic<int> drops{0};
    static nocter_status give(void* user, nocter_text* out_key) {
      List& self = *static_cast<List*>(user);
      self.asked++;
      if (self.next == kThings) {
        self.next = 0;
        return NOCTER_EMPTY;
      }
      self.lent = std::to_string(self.next++);
      *out_key = text(self.lent);
      return NOCTER_OK;
    }
    static void drop(void* user) { static_cast<List*>(user)->drops++; }
  } list;
  constexpr int64_t kInterval = 500'000;
  constexpr uint32_t kSlice = 10;
  const Queue queue(QueueShape{.maximum_keys = 8, .workers = 2});
  PassRunner runner(queue, [&](const std::string& key, nocter_pass*) -> nocter_status {
    Thing& thing = things[std::stoul(key)];
    thing.seen.store(thing.state.load());
    return thing.state.load() % 5 == 0 ? NOCTER_E_UNAVAILABLE : NOCTER_OK;
  });
  const nocter_keyed_source source = {List::give, List::drop, &list};
  const int64_t start = nocter_now_ns();
  STATUS(nocter_keyed_resync(queue, &source, kInterval, kSlice), NOCTER_OK);
  auto random = random_stream(10);
  for (uint64_t i = 0; i < rounds(20'000, 2'000); i++) {
    const size_t which = below(random, kThings);
    things[which].state.fetch_add(1);
    // Half of the changes are not even notified.
    if (i % 2 != 0) continue;
    const nocter_status status = notify(queue, std::to_string(which));
    HOLDS(status == NOCTER_OK || status == NOCTER_COALESCED || status == NOCTER_SATURATED);
  }
  HOLDS(eventually([&] {
    return std::all_of(things.begin(), things.end(),
                       [](const Thing& thing) { return thing.seen.load() == thing.state.load(); });
  }));
  const nocter_keyed_counts counts = counts_of(queue);
  const auto slices = static_cast<uint64_t>((nocter_now_ns() - start) / kInterval + 1);
  HOLDS(list.asked.load() <= slices * kSlice);
  HOLDS(counts.resync_rounds >= 1 && counts.resync_keys >= kThings && counts.resync_failures == 0);
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  const nocter_wait wait = long_wait();
  STATUS(nocter_keyed_drained(queue, &wait), NOCTER_OK);
  BOOST_CHECK_EQUAL(list.drops.load(), 1);
}

// Sources replaced while they are asked: each is dropped once, and none is asked after that.
BOOST_AUTO_TEST_CASE(key_10_a_source_is_let_go_of_once, *label("KEY-10") * label("GEN-01")) {
  struct Source {
    std::atomic<int> drops{0};
    static nocter_status give(void* user, nocter_text* out_key) {
      HOLDS(static_cast<Source*>(user)->drops.load() == 0);
      *out_key = nocter_text_of("key");
      return NOCTER_OK;
    }
    static void drop(void* user) { static_cast<Source*>(user)->drops++; }
  };
  std::deque<Source> sources(rounds(2'000, 200));
  Queue queue;
  std::atomic<bool> over{false};
  std::deque<Thread> claimers;
  for (int i = 0; i < 2; i++) {
    claimers.emplace_back([&] {
      while (!over.load()) {
        const nocter_wait wait = wait_ms(1);
        const ClaimedPass claimed = try_claim(queue, &wait);
        nocter_pass_drop(claimed.pass);
      }
    });
  }
  for (Source& source : sources) {
    const nocter_keyed_source given = {Source::give, Source::drop, &source};
    STATUS(nocter_keyed_resync(queue, &given, 1'000, 5), NOCTER_OK);
  }
  over.store(true);
  for (Thread& claimer : claimers) claimer.join();
  queue.destroy();
  BOOST_CHECK(
      std::all_of(sources.begin(), sources.end(), [](const Source& source) { return source.drops.load() == 1; }));
}

// ---- Two services -------------------------------------------------------------------------------------------------------

// A pass submits jobs; their ends are told to the queue by the blocking service's own notifier; the pass of that takes them and submits the
// next. One lost wake, of either service, and nothing goes on.
BOOST_AUTO_TEST_CASE(k_27_a_queue_and_a_blocking_service_that_wake_each_other,
                     *label("K-27") * label("GEN-04") * label("FFI-13")) {
  const uint64_t enough = rounds(20'000, 2'000);
  struct Pair {
    nocter_keyed* queue = nullptr;
    nocter_blocking* jobs = nullptr;
    std::atomic<uint64_t> submitted{0}, taken{0};
    std::atomic<int> inside{0};
    static void tell_queue(void* user) {
      Pair& self = *static_cast<Pair*>(user);
      static thread_local int depth = 0;
      HOLDS(++depth == 1);
      const nocter_status status = nocter_keyed_notify(self.queue, nocter_text_of("ends of jobs"));
      HOLDS(status == NOCTER_OK || status == NOCTER_COALESCED || status == NOCTER_CLOSED);
      depth--;
    }
  } pair;
  const Queue queue(QueueShape{.maximum_keys = 2, .workers = 2});
  pair.queue = queue;
  const Service jobs({.maximum_jobs = 4, .workers = 2, .waiters = {Pair::tell_queue, nullptr, &pair}, .work = {}});
  pair.jobs = jobs;
  const auto pass = [&](const std::string& key, nocter_pass*) -> nocter_status {
    HOLDS(key == "ends of jobs" && pair.inside.fetch_add(1) == 0);
    nocter_job_id ended[4];
    size_t count = 0;
    STATUS(nocter_blocking_completed(jobs, ended, 4, &count), NOCTER_OK);
    for (size_t i = 0; i < count; i++) {
      STATUS(take(jobs, ended[i]).status, NOCTER_OK);
      pair.taken++;
    }
    while (pair.submitted.load() < enough) {
      nocter_owned input = token(1);
      if (submit(jobs, input).status != NOCTER_OK) {
        discard(input);
        break;
      }
      pair.submitted++;
    }
    pair.inside--;
    return NOCTER_OK;
  };
  {
    PassRunner passes(queue, pass);
    Runner runner(jobs, echo);
    STATUS(notify(queue, "ends of jobs"), NOCTER_OK);
    HOLDS(eventually([&] { return pair.taken.load() == enough; }));
  }
  BOOST_CHECK_EQUAL(pair.taken.load(), enough);
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
}

// The reverse: room in the queue is told by its notifier to the blocking service, by a job that notifies the key that was refused.
BOOST_AUTO_TEST_CASE(k_27_room_in_a_queue_becomes_a_job_that_notifies,
                     *label("K-27") * label("GEN-04") * label("FFI-13")) {
  struct Pair {
    nocter_keyed* queue = nullptr;
    nocter_blocking* jobs = nullptr;
    std::atomic<uint64_t> passes{0};
    static void tell_jobs(void* user) {
      Pair& self = *static_cast<Pair*>(user);
      nocter_owned input = token(2);
      // A full service has such a job already, and that one will look.
      if (submit(self.jobs, input).status != NOCTER_OK) discard(input);
    }
  } pair;
  constexpr uint64_t kKeys = 6;
  const Service jobs({.maximum_jobs = 2, .workers = 1, .waiters = {}, .work = {}});
  const Queue queue(QueueShape{.maximum_keys = 2, .workers = 1, .waiters = {Pair::tell_jobs, nullptr, &pair}});
  pair.queue = queue;
  pair.jobs = jobs;
  std::array<std::atomic<bool>, kKeys> refused = {};
  std::array<std::atomic<uint64_t>, kKeys> seen = {};
  const auto offer = [&] {
    for (uint64_t i = 0; i < kKeys; i++) {
      if (!refused[i].exchange(false)) continue;
      const nocter_status status = notify(queue, std::to_string(i));
      if (status == NOCTER_SATURATED) refused[i].store(true);
    }
  };
  const uint64_t enough = rounds(2'000, 200);
  {
    Runner runner(jobs, [&](nocter_owned& input, nocter_owned&, nocter_completion*) {
      discard(input);
      offer();
    });
    Thread taker([&] {
      // The results are of no interest, and leave their places.
      while (pair.passes.load() < enough * kKeys) {
        nocter_job_id ended[4];
        size_t count = 0;
        STATUS(nocter_blocking_completed(jobs, ended, 4, &count), NOCTER_OK);
        for (size_t i = 0; i < count; i++) take(jobs, ended[i]);
        if (count == 0) std::this_thread::yield();
      }
    });
    PassRunner passes(queue, [&](const std::string& key, nocter_pass*) -> nocter_status {
      const uint64_t which = std::stoul(key);
      pair.passes++;
      // Each key wants so many passes; when it is through with one it asks for the next, and takes its turn at being refused.
      if (++seen[which] < enough) refused[which].store(true);
      return NOCTER_OK;
    });
    for (uint64_t i = 0; i < kKeys; i++) refused[i].store(true);
    HOLDS(eventually([&] {
      offer();
      return pair.passes.load() >= enough * kKeys;
    }));
    if (pair.passes.load() < enough * kKeys) pair.passes.store(enough * kKeys);
  }
  shut_down(jobs);
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
}

BOOST_AUTO_TEST_SUITE_END()
