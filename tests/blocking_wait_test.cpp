// The calls that wait: claim, take, wait_epoch, with threads that sleep in them. GEN-07, BLK-03, BLK-12.
#include <nocter.h>

#include <deque>
#include <vector>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

nocter_status wait_epoch(nocter_blocking* service, nocter_epoch later_than, const nocter_wait* wait,
                         nocter_epoch* out = nullptr) {
  nocter_epoch now = {7, 7};
  const nocter_status status = nocter_blocking_wait_epoch(service, later_than, wait, &now);
  HOLDS(status < 0 ? is_zero(now) : now.service == later_than.service && now.sequence >= later_than.sequence);
  if (out != nullptr) *out = now;
  return status;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_wait_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_07_without_a_wait_nothing_waits, *label("GEN-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  const nocter_epoch epoch = epoch_of(service);
  BOOST_CHECK_EQUAL(wait_epoch(service, epoch, nullptr), NOCTER_PENDING);
  const nocter_job_id id = accept(service, 1);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_PENDING);
}

BOOST_AUTO_TEST_CASE(gen_07_deadlines_end_each_wait_and_never_early, *label("GEN-07")) {
  Service service({.maximum_jobs = 2, .workers = 1});
  const nocter_epoch epoch = epoch_of(service);
  const auto times_out = [](auto call) {
    const nocter_wait wait = wait_ms(15);
    const nocter_status status = call(&wait);
    return status == NOCTER_TIMEOUT && nocter_now_ns() >= wait.deadline_ns;
  };
  BOOST_CHECK(times_out([&](const nocter_wait* wait) { return try_claim(service, wait).status; }));
  BOOST_CHECK(times_out([&](const nocter_wait* wait) { return wait_epoch(service, epoch, wait); }));
  const nocter_job_id id = accept(service, 1);
  BOOST_CHECK(times_out([&](const nocter_wait* wait) { return take(service, id, wait).status; }));
  nocter_running_job* const job = claim(service);
  BOOST_CHECK(times_out([&](const nocter_wait* wait) { return take(service, id, wait).status; }));
  accept(service, 2);
  // A job is queued, but the only worker slot is in use.
  BOOST_CHECK(times_out([&](const nocter_wait* wait) { return try_claim(service, wait).status; }));
  shut_down(service);
  BOOST_CHECK(times_out([&](const nocter_wait* wait) { return nocter_blocking_drained(service, wait); }));
  nocter_running_job_drop(job);
}

BOOST_AUTO_TEST_CASE(blk_05_a_sleeping_claimer_gets_a_submitted_job, *label("BLK-05")) {
  Service service;
  Thread claimer([&] {
    const nocter_wait wait = long_wait();
    const Claimed claimed = try_claim(service, &wait);
    if (!STATUS(claimed.status, NOCTER_OK)) return;
    const Begun begun = begin(claimed.job);
    HOLDS(begun.value == 4);
    complete(begun.completion, 5);
  });
  BOOST_CHECK(claimer.until_asleep());
  const nocter_job_id id = accept(service, 4);
  claimer.join();
  BOOST_CHECK_EQUAL(take(service, id).value, 5u);
}

BOOST_AUTO_TEST_CASE(blk_07_b_36_a_sleeping_claimer_gets_the_worker_slot_that_comes_free, *label("BLK-07")) {
  // By completion, by loss, by the end of an abandoned guard.
  for (int way = 0; way < 3; way++) {
    Service service({.maximum_jobs = 4, .workers = 1});
    const nocter_job_id first = accept(service, 1);
    const Begun begun = claim_and_begin(service);
    accept(service, 2);
    Thread claimer([&] {
      const nocter_wait wait = long_wait();
      const Claimed claimed = try_claim(service, &wait);
      if (STATUS(claimed.status, NOCTER_OK)) nocter_running_job_drop(claimed.job);
    });
    BOOST_CHECK(claimer.until_asleep());
    if (way == 0) complete(begun.completion, 0);
    if (way == 1) nocter_completion_drop(begun.completion);
    if (way == 2) {
      cancel(service, first);
      BOOST_CHECK(!claimer.ended());
      complete(begun.completion, 0);
    }
    claimer.join();
  }
}

BOOST_AUTO_TEST_CASE(blk_05_b_34_as_many_sleeping_claimers_wake_as_there_are_jobs, *label("BLK-05")) {
  Service service({.maximum_jobs = 8, .workers = 8});
  std::atomic<int> claimed{0}, closed{0};
  std::deque<Thread> claimers;
  for (int i = 0; i < 8; i++) {
    claimers.emplace_back([&] {
      const nocter_wait wait = long_wait();
      const Claimed one = try_claim(service, &wait);
      if (one.status == NOCTER_OK) {
        claimed++;
        nocter_running_job_drop(one.job);
      } else if (STATUS(one.status, NOCTER_CLOSED)) {
        closed++;
      }
    });
  }
  for (Thread& claimer : claimers) BOOST_CHECK(claimer.until_asleep());
  for (uint64_t i = 0; i < 5; i++) accept(service, i);
  BOOST_CHECK(eventually([&] { return claimed.load() == 5; }));
  shut_down(service);
  claimers.clear();
  BOOST_CHECK_EQUAL(claimed.load(), 5);
  BOOST_CHECK_EQUAL(closed.load(), 3);
}

BOOST_AUTO_TEST_CASE(blk_12_a_sleeping_taker_gets_its_own_result, *label("BLK-12")) {
  Service service({.maximum_jobs = 8, .workers = 8});
  std::vector<nocter_job_id> ids;
  for (uint64_t i = 0; i < 8; i++) ids.push_back(accept(service, i));
  std::deque<Thread> takers;
  for (uint64_t i = 0; i < 8; i++) {
    takers.emplace_back([&service, id = ids[i], i] {
      const nocter_wait wait = long_wait();
      const Taken taken = take(service, id, &wait);
      if (i % 2 == 0) {
        HOLDS(taken.status == NOCTER_OK && taken.value == i * 10);
      } else {
        STATUS(taken.status, NOCTER_WORKER_LOST);
      }
    });
  }
  for (Thread& taker : takers) BOOST_CHECK(taker.until_asleep());
  std::vector<Begun> running;
  for (int i = 0; i < 8; i++) running.push_back(claim_and_begin(service));
  for (size_t i = running.size(); i-- > 0;) {
    if (running[i].value % 2 == 0) {
      complete(running[i].completion, running[i].value * 10);
    } else {
      nocter_completion_drop(running[i].completion);
    }
    takers[i].join();  // and nobody else's end was needed
  }
}

BOOST_AUTO_TEST_CASE(blk_12_b_04_a_sleeping_taker_hears_of_a_cancel, *label("BLK-12") * label("BLK-09")) {
  Service service;
  const nocter_job_id queued = accept(service, 1);
  const nocter_wait wait = long_wait();
  {
    Thread taker([&] { STATUS(take(service, queued, &wait).status, NOCTER_E_UNKNOWN); });
    BOOST_CHECK(taker.until_asleep());
    cancel(service, queued);
  }
  const nocter_job_id running = accept(service, 2);
  const Begun begun = claim_and_begin(service);
  {
    Thread taker([&] { STATUS(take(service, running, &wait).status, NOCTER_E_STATE); });
    BOOST_CHECK(taker.until_asleep());
    cancel(service, running);
  }
  complete(begun.completion, 0);
}

BOOST_AUTO_TEST_CASE(blk_12_b_04_of_several_sleeping_takers_one_gets_the_output, *label("BLK-12") * label("BLK-10")) {
  Service service;
  const nocter_job_id id = accept(service, 1);
  std::atomic<int> got{0}, unknown{0};
  const nocter_wait wait = long_wait();
  std::deque<Thread> takers;
  for (int i = 0; i < 6; i++) {
    takers.emplace_back([&] {
      const Taken taken = take(service, id, &wait);
      if (taken.status == NOCTER_OK) {
        got++;
      } else if (STATUS(taken.status, NOCTER_E_UNKNOWN)) {
        unknown++;
      }
    });
  }
  for (Thread& taker : takers) BOOST_CHECK(taker.until_asleep());
  run_one(service, 2);
  takers.clear();
  BOOST_CHECK_EQUAL(got.load(), 1);
  BOOST_CHECK_EQUAL(unknown.load(), 5);
}

BOOST_AUTO_TEST_CASE(blk_12_b_28_a_sleeping_taker_is_not_taken_in_by_the_next_job_in_the_place,
                     *label("BLK-12") * label("GEN-03")) {
  // One place only: between the cancel and the taker's look another job may already be there.
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < rounds(300, 50); i++) {
    const nocter_job_id id = accept(service, 1);
    Thread taker([&] { STATUS(take(service, id, &wait).status, NOCTER_E_UNKNOWN); });
    if (i % 4 == 0) BOOST_REQUIRE(taker.until_asleep());
    BOOST_REQUIRE_EQUAL(cancel(service, id).status, NOCTER_OK);
    const nocter_job_id next = accept(service, 2);
    run_one(service, 3);
    taker.join();
    BOOST_REQUIRE_EQUAL(take(service, next).value, 3u);
  }
}

BOOST_AUTO_TEST_CASE(blk_03_b_23_a_slot_freed_before_the_wait_begins_ends_it_at_once, *label("BLK-03")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  const nocter_epoch seen = refuse(service, NOCTER_SATURATED);
  cancel(service, id);
  const nocter_wait forever = wait_ms(-1);
  nocter_epoch now = {};
  BOOST_CHECK_EQUAL(wait_epoch(service, seen, &forever, &now), NOCTER_OK);
  BOOST_CHECK(nocter_epoch_equal(now, epoch_of(service)));
}

BOOST_AUTO_TEST_CASE(blk_04_each_way_of_freeing_a_slot_wakes_the_sleeping_submitter,
                     *label("BLK-04") * label("BLK-03")) {
  for (int way = 0; way < 5; way++) {
    Service service({.maximum_jobs = 1, .workers = 1});
    const nocter_job_id id = accept(service, 1);
    const nocter_epoch seen = refuse(service, NOCTER_SATURATED);
    Thread submitter([&] {
      const nocter_wait wait = long_wait();
      STATUS(wait_epoch(service, seen, &wait), NOCTER_OK);
      accept(service, 2);
    });
    BOOST_CHECK(submitter.until_asleep());
    if (way == 0) {
      cancel(service, id);
    } else {
      const Begun begun = claim_and_begin(service);
      if (way >= 3) cancel(service, id);  // abandoned
      BOOST_CHECK(!submitter.ended());
      if (way == 1 || way == 3) complete(begun.completion, 3);
      if (way == 2 || way == 4) nocter_completion_drop(begun.completion);
      if (way == 1) {
        BOOST_CHECK(!submitter.ended());  // completed, not taken: still occupied
        take(service, id);
      }
      if (way == 2) cancel(service, id);
    }
  }
}

BOOST_AUTO_TEST_CASE(blk_03_b_24_all_saturated_submitters_wake_and_one_gets_the_slot, *label("BLK-03")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  nocter_job_id id = accept(service, 0);
  std::atomic<uint64_t> accepted{0};
  const uint64_t each = 20;
  std::deque<Thread> submitters;
  for (int i = 0; i < 4; i++) {
    submitters.emplace_back([&] {
      for (uint64_t k = 0; k < each; k++) {
        nocter_owned input = payload(k);
        for (;;) {
          const Submitted submitted = submit(service, input);
          if (submitted.status == NOCTER_OK) break;
          if (!STATUS(submitted.status, NOCTER_SATURATED)) {
            discard(input);
            return;
          }
          const nocter_wait wait = long_wait();
          nocter_epoch now = {};
          if (!STATUS(wait_epoch(service, submitted.epoch, &wait, &now), NOCTER_OK)) {
            discard(input);
            return;
          }
          HOLDS(!nocter_epoch_equal(now, submitted.epoch));
        }
        accepted++;
      }
    });
  }
  for (Thread& submitter : submitters) BOOST_CHECK(submitter.until_asleep());
  BOOST_CHECK_EQUAL(accepted.load(), 0u);
  cancel(service, id);
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < 4 * each; i++) {
    const Claimed claimed = try_claim(service, &wait);
    BOOST_REQUIRE_EQUAL(claimed.status, NOCTER_OK);
    id = nocter_running_job_id(claimed.job);
    nocter_running_job_drop(claimed.job);
    BOOST_REQUIRE_EQUAL(take(service, id).status, NOCTER_WORKER_LOST);
  }
  submitters.clear();
  BOOST_CHECK_EQUAL(accepted.load(), 4 * each);
}

BOOST_AUTO_TEST_CASE(blk_03_b_25_closed_even_when_the_epoch_had_moved, *label("BLK-03") * label("BLK-11")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_epoch before = epoch_of(service);
  cancel(service, accept(service, 1));
  shut_down(service);
  nocter_epoch now = {};
  BOOST_CHECK_EQUAL(wait_epoch(service, before, nullptr, &now), NOCTER_CLOSED);
  BOOST_CHECK(nocter_epoch_equal(now, epoch_of(service)));
}

BOOST_AUTO_TEST_CASE(gen_07_waits_with_no_spinning_at_all_and_with_much_give_the_same_answers, *label("GEN-07")) {
  for (const auto& [spins, yields] : {std::pair<uint32_t, uint32_t>{NOCTER_WAIT_NONE, NOCTER_WAIT_NONE},
                                      {1, 1},
                                      {100'000, 1'000},
                                      {NOCTER_WAIT_NONE, 50},
                                      {50, NOCTER_WAIT_NONE}}) {
    nocter_blocking_options options = options_of({.maximum_jobs = 1, .workers = 1});
    options.wait_spins = spins;
    options.wait_yields = yields;
    nocter_blocking* service = nullptr;
    BOOST_REQUIRE_EQUAL(nocter_blocking_create(&options, &service), NOCTER_OK);
    const uint64_t total = rounds(500, 100);
    Thread worker([&] {
      const nocter_wait wait = long_wait();
      for (uint64_t i = 0; i < total; i++) {
        const Claimed claimed = try_claim(service, &wait);
        if (!STATUS(claimed.status, NOCTER_OK)) return;
        complete(begin(claimed.job).completion, i);
      }
    });
    const nocter_wait wait = long_wait();
    for (uint64_t i = 0; i < total; i++) BOOST_REQUIRE_EQUAL(take(service, accept(service, i), &wait).value, i);
    worker.join();
    const nocter_wait brief = wait_ms(3);
    BOOST_CHECK_EQUAL(try_claim(service, &brief).status, NOCTER_TIMEOUT);
    nocter_blocking_destroy(service);
  }
}

BOOST_AUTO_TEST_SUITE_END()
