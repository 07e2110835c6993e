// Two threads at one job, or at one service: exactly one winner, and the loser learns it. BLK-10, GEN-01.
#include <nocter.h>

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "support/fixture.hpp"
#include "support/race.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;

namespace {

constexpr uint64_t kRounds = rounds(20'000, 3'000);

// Both sides of a race must have won now and then, or nothing raced.
struct Tally {
  uint64_t one = 0, other = 0;
  bool count(bool first) {
    (first ? one : other)++;
    return true;
  }
  ~Tally() { BOOST_TEST_MESSAGE("one side " << one << ", the other " << other); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_race_suite, EveryTest)

BOOST_AUTO_TEST_CASE(b_01_cancel_or_claim_has_one_winner, *label("BLK-10") * label("BLK-09")) {
  Service service({.maximum_jobs = 2, .workers = 1});
  Tally tally;
  nocter_job_id id = {};
  Cancelled cancelled = {};
  Claimed claimed = {};
  race(
      kRounds, 1, [&] { id = accept(service, 1); }, [&] { cancelled = cancel(service, id); },
      [&] { claimed = try_claim(service); },
      [&] {
        if (!STATUS(cancelled.status, NOCTER_OK)) return false;
        if (claimed.status == NOCTER_EMPTY) {
          return HOLDS(cancelled.was == NOCTER_JOB_QUEUED && cancelled.value == 1) && tally.count(true);
        }
        // The claim came first: the operation runs to its end.
        if (!HOLDS(cancelled.was == NOCTER_JOB_RUNNING && cancelled.value == kNoValue)) return false;
        const Begun begun = begin(claimed.job);
        HOLDS(begun.value == 1 && nocter_completion_abandoned(begun.completion));
        complete(begun.completion, 2);
        return STATUS(take(service, id).status, NOCTER_E_UNKNOWN) && tally.count(false);
      });
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.cancelled_queued, tally.one);
  BOOST_CHECK_EQUAL(counts.abandoned_retired, tally.other);
}

BOOST_AUTO_TEST_CASE(b_02_cancel_or_complete_has_one_owner_of_the_output, *label("BLK-10") * label("GEN-01")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  Tally tally;
  nocter_job_id id = {};
  Begun begun = {};
  Cancelled cancelled = {};
  race(
      kRounds, 2,
      [&] {
        id = accept(service, 1);
        begun = claim_and_begin(service);
      },
      [&] { cancelled = cancel(service, id); }, [&] { complete(begun.completion, 2); },
      [&] {
        const bool completed_first = cancelled.was == NOCTER_JOB_COMPLETED;
        return STATUS(cancelled.status, NOCTER_OK) &&
               HOLDS(completed_first ? cancelled.value == 2
                                     : cancelled.was == NOCTER_JOB_RUNNING && cancelled.value == kNoValue) &&
               HOLDS(counts_of(service).admitted == 0) && HOLDS(Ledger::live() == 0) && tally.count(completed_first);
      });
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.cancelled_completed, tally.one);
  BOOST_CHECK_EQUAL(counts.abandoned_retired, tally.other);
  BOOST_CHECK_EQUAL(counts.completed_ok, tally.one + tally.other);
}

BOOST_AUTO_TEST_CASE(b_03_cancel_or_drop_of_the_guard, *label("BLK-10") * label("BLK-06")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  Tally tally;
  nocter_job_id id = {};
  nocter_running_job* job = nullptr;
  Cancelled cancelled = {};
  race(
      kRounds, 3,
      [&] {
        id = accept(service, 1);
        job = claim(service);
      },
      [&] { cancelled = cancel(service, id); }, [&] { nocter_running_job_drop(job); },
      [&] {
        return STATUS(cancelled.status, NOCTER_OK) && HOLDS(cancelled.value == kNoValue) &&
               HOLDS(counts_of(service).admitted == 0) && HOLDS(Ledger::live() == 0) &&
               tally.count(cancelled.was == NOCTER_JOB_COMPLETED);
      });
  BOOST_CHECK_EQUAL(counts_of(service).cancelled_completed, tally.one);
}

BOOST_AUTO_TEST_CASE(b_04_cancel_or_take_gets_the_output, *label("BLK-10") * label("BLK-12")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  Tally tally;
  nocter_job_id id = {};
  Cancelled cancelled = {};
  Taken taken = {};
  race(
      kRounds, 4,
      [&] {
        id = accept(service, 1);
        run_one(service, 2);
      },
      [&] { cancelled = cancel(service, id); }, [&] { taken = take(service, id); },
      [&] {
        const bool was_cancelled = cancelled.status == NOCTER_OK;
        return HOLDS(was_cancelled
                         ? cancelled.value == 2 && taken.status == NOCTER_E_UNKNOWN
                         : cancelled.status == NOCTER_E_UNKNOWN && taken.status == NOCTER_OK && taken.value == 2) &&
               tally.count(was_cancelled);
      });
}

BOOST_AUTO_TEST_CASE(b_05_two_cancels_of_a_running_job, *label("BLK-10") * label("BLK-09")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  nocter_job_id id = {};
  Begun begun = {};
  std::array<Cancelled, 2> cancelled = {};
  race(
      kRounds, 5,
      [&] {
        id = accept(service, 1);
        begun = claim_and_begin(service);
      },
      [&] { cancelled[0] = cancel(service, id); }, [&] { cancelled[1] = cancel(service, id); },
      [&] {
        complete(begun.completion, 0);
        const bool first = cancelled[0].status == NOCTER_OK;
        return STATUS(cancelled[first ? 0 : 1].status, NOCTER_OK) &&
               STATUS(cancelled[first ? 1 : 0].status, NOCTER_E_STATE);
      });
}

BOOST_AUTO_TEST_CASE(b_06_two_takes_of_a_completed_job, *label("BLK-10") * label("BLK-12")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  nocter_job_id id = {};
  std::array<Taken, 2> taken = {};
  race(
      kRounds, 6,
      [&] {
        id = accept(service, 1);
        run_one(service, 2);
      },
      [&] { taken[0] = take(service, id); }, [&] { taken[1] = take(service, id); },
      [&] {
        const bool first = taken[0].status == NOCTER_OK;
        return STATUS(taken[first ? 0 : 1].status, NOCTER_OK) && STATUS(taken[first ? 1 : 0].status, NOCTER_E_UNKNOWN);
      });
}

BOOST_AUTO_TEST_CASE(b_07_take_or_complete_tells_pending_or_the_output, *label("BLK-12")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  nocter_job_id id = {};
  Begun begun = {};
  Taken taken = {};
  race(
      kRounds, 7,
      [&] {
        id = accept(service, 1);
        begun = claim_and_begin(service);
      },
      [&] { taken = take(service, id); }, [&] { complete(begun.completion, 2); },
      [&] {
        if (taken.status == NOCTER_PENDING) taken = take(service, id);
        return STATUS(taken.status, NOCTER_OK) && HOLDS(taken.value == 2);
      });
}

BOOST_AUTO_TEST_CASE(b_07_a_waiting_take_always_returns_with_the_output, *label("BLK-12") * label("GEN-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  nocter_job_id id = {};
  Begun begun = {};
  Taken taken = {};
  race(
      kRounds, 70,
      [&] {
        id = accept(service, 1);
        begun = claim_and_begin(service);
      },
      [&] {
        const nocter_wait wait = long_wait();
        taken = take(service, id, &wait);
      },
      [&] { complete(begun.completion, 2); },
      [&] { return STATUS(taken.status, NOCTER_OK) && HOLDS(taken.value == 2); });
}

BOOST_AUTO_TEST_CASE(b_10_submit_or_shutdown_is_accepted_and_handed_back_or_closed_scenario_121,
                     *label("BLK-10") * label("BLK-11")) {
  Tally tally;
  std::optional<Service> service;
  nocter_owned input = {};
  Submitted submitted = {};
  HandedBackList list;
  race(
      rounds(5'000, 1'000), 10,
      [&] {
        service.emplace(Shape{.maximum_jobs = 1, .workers = 1});
        input = payload(1);
      },
      [&] { submitted = submit(*service, input); }, [&] { list = shut_down(*service); },
      [&] {
        const HandedBackList handed_back = {{NOCTER_JOB_QUEUED, 1}};
        bool right = HOLDS(Ledger::live() == (submitted.status == NOCTER_OK ? 0u : 1u));
        if (submitted.status == NOCTER_OK) {
          right = HOLDS(list == handed_back) && right;
        } else {
          right = STATUS(submitted.status, NOCTER_CLOSED) && HOLDS(list.empty()) && HOLDS(discard(input) == 1) && right;
        }
        return STATUS(nocter_blocking_drained(*service, nullptr), NOCTER_OK) && right &&
               tally.count(submitted.status == NOCTER_OK);
      });
}

BOOST_AUTO_TEST_CASE(b_11_claim_or_shutdown, *label("BLK-10") * label("BLK-11")) {
  std::optional<Service> service;
  Claimed claimed = {};
  HandedBackList list;
  race(
      rounds(5'000, 1'000), 11,
      [&] {
        service.emplace(Shape{.maximum_jobs = 1, .workers = 1});
        accept(*service, 1);
      },
      [&] { claimed = try_claim(*service); }, [&] { list = shut_down(*service); },
      [&] {
        if (claimed.status == NOCTER_OK) {
          if (!HOLDS(list.empty())) return false;
          const Begun begun = begin(claimed.job);
          HOLDS(begun.value == 1 && nocter_completion_abandoned(begun.completion));
          STATUS(nocter_blocking_drained(*service, nullptr), NOCTER_PENDING);
          nocter_completion_drop(begun.completion);
        } else if (!STATUS(claimed.status, NOCTER_CLOSED) || !HOLDS(list.size() == 1)) {
          return false;
        }
        return STATUS(nocter_blocking_drained(*service, nullptr), NOCTER_OK);
      });
}

BOOST_AUTO_TEST_CASE(b_12_complete_or_shutdown, *label("BLK-10") * label("BLK-11") * label("BLK-08")) {
  std::optional<Service> service;
  Tally tally;
  Begun begun = {};
  HandedBackList list;
  race(
      rounds(5'000, 1'000), 12,
      [&] {
        service.emplace(Shape{.maximum_jobs = 1, .workers = 1});
        accept(*service, 1);
        begun = claim_and_begin(*service);
      },
      [&] { complete(begun.completion, 2); }, [&] { list = shut_down(*service); },
      [&] {
        const HandedBackList output = {{NOCTER_JOB_COMPLETED, 2}};
        return HOLDS(list.empty() || list == output) && HOLDS(Ledger::live() == 0) &&
               STATUS(nocter_blocking_drained(*service, nullptr), NOCTER_OK) && tally.count(!list.empty());
      });
}

BOOST_AUTO_TEST_CASE(b_14_two_shutdowns_hand_everything_back_once, *label("BLK-11") * label("GEN-01")) {
  std::optional<Service> service;
  std::array<HandedBackList, 2> lists;
  race(
      rounds(3'000, 500), 14,
      [&] {
        service.emplace(Shape{.maximum_jobs = 4, .workers = 1});
        accept(*service, 1);
        run_one(*service, 2);
        accept(*service, 3);
      },
      [&] { lists[0] = shut_down(*service); }, [&] { lists[1] = shut_down(*service); },
      [&] {
        return HOLDS(lists[0].size() + lists[1].size() == 2) && HOLDS(lists[0].empty() || lists[1].empty()) &&
               STATUS(nocter_blocking_drained(*service, nullptr), NOCTER_OK);
      });
}

BOOST_AUTO_TEST_CASE(b_19_complete_or_destroy, *label("BLK-11") * label("GEN-01")) {
  Wakes wakes;
  nocter_blocking* service = nullptr;
  Begun begun = {};
  uint64_t made = 0;
  race(
      rounds(5'000, 1'000), 19,
      [&] {
        const nocter_blocking_options options =
            options_of({.maximum_jobs = 1, .workers = 1, .waiters = wakes.notifier()});
        STATUS(nocter_blocking_create(&options, &service), NOCTER_OK);
        made++;
        accept(service, 1);
        begun = claim_and_begin(service);
      },
      [&] { complete(begun.completion, 2); }, [&] { nocter_blocking_destroy(service); },
      [&] { return HOLDS(Ledger::live() == 0) && HOLDS(wakes.drops == made); });
}

BOOST_AUTO_TEST_CASE(b_22_b_23_saturated_wait_or_take_never_misses_the_slot, *label("BLK-03") * label("BLK-04")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  nocter_job_id id = {};
  Submitted submitted = {};
  nocter_owned input = {};
  race(
      kRounds, 22,
      [&] {
        id = accept(service, 1);
        run_one(service, 2);
        input = payload(3);
      },
      [&] {
        while ((submitted = submit(service, input)).status == NOCTER_SATURATED) {
          const nocter_wait wait = long_wait();
          nocter_epoch now = {};
          if (!STATUS(nocter_blocking_wait_epoch(service, submitted.epoch, &wait, &now), NOCTER_OK)) return;
        }
      },
      [&] { take(service, id); },
      [&] {
        if (!STATUS(submitted.status, NOCTER_OK)) {
          discard(input);
          return false;
        }
        return HOLDS(cancel(service, submitted.id).value == 3);
      });
}

BOOST_AUTO_TEST_CASE(b_34_b_35_a_waiting_claim_never_misses_a_submit_scenario_122, *label("BLK-05") * label("GEN-04")) {
  // Each submit meets the claimer about to sleep.
  Service service({.maximum_jobs = 1, .workers = 1});
  Claimed claimed = {};
  nocter_job_id id = {};
  race(
      kRounds, 34, [] {},
      [&] {
        const nocter_wait wait = long_wait();
        claimed = try_claim(service, &wait);
      },
      [&] { id = accept(service, 1); },
      [&] {
        if (!STATUS(claimed.status, NOCTER_OK)) return false;
        nocter_running_job_drop(claimed.job);
        return STATUS(take(service, id).status, NOCTER_WORKER_LOST);
      });
}

BOOST_AUTO_TEST_CASE(b_36_a_waiting_claim_never_misses_a_worker_slot, *label("BLK-07") * label("GEN-04")) {
  Service service({.maximum_jobs = 2, .workers = 1});
  Claimed claimed = {};
  nocter_running_job* running = nullptr;
  nocter_job_id first = {}, second = {};
  race(
      kRounds, 36,
      [&] {
        first = accept(service, 1);
        second = accept(service, 2);
        running = claim(service);
      },
      [&] {
        const nocter_wait wait = long_wait();
        claimed = try_claim(service, &wait);
      },
      [&] { nocter_running_job_drop(running); },
      [&] {
        if (!STATUS(claimed.status, NOCTER_OK)) return false;
        nocter_running_job_drop(claimed.job);
        return STATUS(take(service, first).status, NOCTER_WORKER_LOST) &&
               STATUS(take(service, second).status, NOCTER_WORKER_LOST);
      });
}

BOOST_AUTO_TEST_CASE(blk_12_completed_names_each_job_exactly_once_to_racing_askers, *label("BLK-12")) {
  Service service({.maximum_jobs = 64, .workers = 4});
  Runner runner(service, echo);
  const uint64_t total = rounds(50'000, 5'000);
  std::atomic<uint64_t> named{0};
  std::deque<Thread> askers;
  for (int i = 0; i < 2; i++) {
    askers.emplace_back([&] {
      while (named.load() < total) {
        nocter_job_id ids[3];
        size_t count = 0;
        STATUS(nocter_blocking_completed(service, ids, 3, &count), NOCTER_OK);
        for (size_t k = 0; k < count; k++) STATUS(take(service, ids[k]).status, NOCTER_OK);
        named += count;
        if (count == 0) std::this_thread::yield();
      }
    });
  }
  for (uint64_t i = 0; i < total; i++) {
    nocter_owned input = payload(i);
    for (;;) {
      const Submitted submitted = submit(service, input);
      if (submitted.status == NOCTER_OK) break;
      const nocter_wait wait = long_wait();
      nocter_epoch now = {};
      BOOST_REQUIRE_EQUAL(nocter_blocking_wait_epoch(service, submitted.epoch, &wait, &now), NOCTER_OK);
    }
  }
  askers.clear();
  BOOST_CHECK_EQUAL(named.load(), total);
  BOOST_CHECK_EQUAL(counts_of(service).taken, total);
}

BOOST_AUTO_TEST_CASE(blk_11_an_accepted_job_runs_or_comes_back_scenario_120_123,
                     *label("BLK-11") * label("GEN-12") * label("GEN-01")) {
  // Submitters, workers and a shutdown at a random moment. Counts stay exact across it.
  auto random = random_stream(120);
  for (uint64_t round = 0; round < rounds(100, 25); round++) {
    Service service({.maximum_jobs = 16, .workers = 2});
    std::atomic<uint64_t> ran{0}, accepted{0};
    Runner runner(service, [&](nocter_owned&, nocter_owned&, nocter_completion*) { ran++; });
    std::deque<Thread> submitters;
    for (int i = 0; i < 3; i++) {
      submitters.emplace_back([&] {
        for (;;) {
          nocter_owned input = payload(1);
          const Submitted submitted = submit(service, input);
          if (submitted.status == NOCTER_OK) {
            accepted++;
            const nocter_wait wait = long_wait();
            const Taken taken = take(service, submitted.id, &wait);
            HOLDS(taken.status == NOCTER_OK || taken.status == NOCTER_CLOSED || taken.status == NOCTER_E_UNKNOWN);
            continue;
          }
          discard(input);
          if (submitted.status == NOCTER_CLOSED) return;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(below(random, 2'000)));
    shut_down(service);
    submitters.clear();
    const nocter_wait wait = long_wait();
    BOOST_REQUIRE_EQUAL(nocter_blocking_drained(service, &wait), NOCTER_OK);
    const nocter_blocking_counts counts = counts_of(service);
    BOOST_REQUIRE_EQUAL(counts.accepted, accepted.load());
    BOOST_REQUIRE_EQUAL(counts.accepted, ran.load() + counts.shutdown_queued);
    BOOST_REQUIRE_EQUAL(counts.admitted + counts.queued + counts.running + counts.completed + counts.abandoned, 0u);
  }
}

BOOST_AUTO_TEST_CASE(blk_06_throwing_and_untaken_jobs_still_end_every_wait_scenario_125,
                     *label("BLK-06") * label("BLK-12")) {
  for (uint64_t round = 0; round < rounds(100, 25); round++) {
    Service service({.maximum_jobs = 8, .workers = 2});
    Runner runner(service, [](nocter_owned& input, nocter_owned&, nocter_completion*) {
      if (discard(input) % 2 == 0) throw 1;
    });
    const nocter_job_id throwing = accept(service, 0), fine = accept(service, 1);
    accept(service, 2);  // nobody takes these two
    accept(service, 3);
    const nocter_wait wait = long_wait();
    Thread one([&] { STATUS(take(service, throwing, &wait).status, NOCTER_WORKER_LOST); });
    Thread other([&] { STATUS(take(service, fine, &wait).status, NOCTER_OK); });
    one.join();
    other.join();
    shut_down(service);
    BOOST_REQUIRE_EQUAL(nocter_blocking_drained(service, &wait), NOCTER_OK);
  }
}

BOOST_AUTO_TEST_SUITE_END()
