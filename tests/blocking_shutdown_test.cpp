// Shutdown, drained, destroy: who gets what, who is told, what lives on. BLK-11, GEN-01.
#include <nocter.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

nocter_status drained(nocter_blocking* service) { return nocter_blocking_drained(service, nullptr); }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_shutdown_suite, EveryTest)

BOOST_AUTO_TEST_CASE(blk_11_b_11_b_12_shutdown_hands_back_what_is_idle_and_abandons_what_runs_scenario_11,
                     *label("BLK-11")) {
  Service service({.maximum_jobs = 8, .workers = 2});
  const nocter_job_id first = accept(service, 1), second = accept(service, 2), third = accept(service, 3);
  const Begun of_first = claim_and_begin(service), of_second = claim_and_begin(service);
  // They end in the other order; outputs come in the order of the identities all the same.
  complete(of_second.completion, 20);
  complete(of_first.completion, 10);
  const Begun of_third = claim_and_begin(service);
  BOOST_CHECK_EQUAL(drained(service), NOCTER_E_STATE);
  const HandedBackList list = shut_down(service);
  const HandedBackList expected = {{NOCTER_JOB_COMPLETED, 10}, {NOCTER_JOB_COMPLETED, 20}};
  BOOST_CHECK(list == expected);
  BOOST_CHECK_EQUAL(counts_of(service).accepting, 0u);
  refuse(service, NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(drained(service), NOCTER_PENDING);
  BOOST_CHECK(nocter_completion_abandoned(of_third.completion));
  BOOST_CHECK_EQUAL(take(service, third).status, NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(state_of(service, third), NOCTER_E_UNKNOWN);
  const uint64_t dropped = Ledger::dropped();
  complete(of_third.completion, 30);
  BOOST_CHECK_EQUAL(Ledger::dropped(), dropped + 1);
  BOOST_CHECK_EQUAL(drained(service), NOCTER_OK);
  for (const nocter_job_id id : {first, second, third}) BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(take(service, first).status, NOCTER_E_UNKNOWN);
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.shutdown_completed, 2u);
  BOOST_CHECK_EQUAL(counts.abandoned_retired, 1u);
}

BOOST_AUTO_TEST_CASE(blk_11_queued_inputs_come_oldest_first_before_outputs, *label("BLK-11")) {
  Service service({.maximum_jobs = 16, .workers = 1});
  for (uint64_t i = 0; i < 4; i++) {
    accept(service, i);
    run_one(service, 100 + i);
  }
  // Two of them are named, so that named and unnamed ones must be merged.
  nocter_job_id named[2];
  size_t count = 0;
  BOOST_CHECK_EQUAL(nocter_blocking_completed(service, named, 2, &count), NOCTER_OK);
  for (uint64_t i = 0; i < 5; i++) accept(service, 200 + i);
  const HandedBackList expected = {
      {NOCTER_JOB_QUEUED, 200},    {NOCTER_JOB_QUEUED, 201},    {NOCTER_JOB_QUEUED, 202},
      {NOCTER_JOB_QUEUED, 203},    {NOCTER_JOB_QUEUED, 204},    {NOCTER_JOB_COMPLETED, 100},
      {NOCTER_JOB_COMPLETED, 101}, {NOCTER_JOB_COMPLETED, 102}, {NOCTER_JOB_COMPLETED, 103}};
  BOOST_CHECK(shut_down(service) == expected);
  BOOST_CHECK_EQUAL(drained(service), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(blk_11_outputs_in_identity_order_whatever_order_they_ended_in, *label("BLK-11")) {
  // More jobs than places of first use, ended in random order.
  Service service({.maximum_jobs = 100, .workers = 100});
  auto random = random_stream(11);
  for (int i = 0; i < 150; i++) cancel(service, accept(service, 0));
  std::vector<Begun> running;
  for (uint64_t i = 0; i < 100; i++) {
    accept(service, i);
    running.push_back(claim_and_begin(service));
  }
  std::shuffle(running.begin(), running.end(), random);
  for (const Begun& one : running) complete(one.completion, one.value);
  const HandedBackList list = shut_down(service);
  BOOST_REQUIRE_EQUAL(list.size(), 100u);
  for (uint64_t i = 0; i < 100; i++) BOOST_CHECK_EQUAL(list[i].value, i);
}

BOOST_AUTO_TEST_CASE(blk_11_a_lost_job_has_nothing_to_hand_over, *label("BLK-11")) {
  Service service;
  accept(service, 1);
  nocter_running_job_drop(claim(service));
  BOOST_CHECK(shut_down(service).empty());
  BOOST_CHECK_EQUAL(counts_of(service).shutdown_completed, 1u);
  BOOST_CHECK_EQUAL(drained(service), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(blk_11_b_14_a_second_shutdown_finds_nothing, *label("BLK-11")) {
  Service service;
  accept(service, 1);
  BOOST_CHECK_EQUAL(shut_down(service).size(), 1u);
  BOOST_CHECK(shut_down(service).empty());
  BOOST_CHECK_EQUAL(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(service).shutdown_queued, 1u);
}

BOOST_AUTO_TEST_CASE(gen_01_what_the_sink_leaves_and_what_no_sink_takes_is_dropped,
                     *label("GEN-01") * label("BLK-11")) {
  for (const bool with_sink : {false, true}) {
    Service service;
    accept(service, 1);
    run_one(service, 2);
    accept(service, 3);
    std::vector<nocter_owned> kept;
    const nocter_blocking_sink keep_every_other = [](void* user, nocter_job_state, nocter_owned* value) {
      auto& list = *static_cast<std::vector<nocter_owned>*>(user);
      if (list.empty()) list.push_back(std::exchange(*value, nocter_owned{}));
    };
    const uint64_t dropped = Ledger::dropped();
    BOOST_CHECK_EQUAL(nocter_blocking_shutdown(service, with_sink ? keep_every_other : nullptr, &kept), NOCTER_OK);
    BOOST_CHECK_EQUAL(Ledger::dropped() - dropped, with_sink ? 1u : 2u);
    BOOST_CHECK_EQUAL(drained(service), NOCTER_OK);
    for (nocter_owned& value : kept) BOOST_CHECK_EQUAL(discard(value), 3u);
  }
}

BOOST_AUTO_TEST_CASE(blk_11_b_13_shutdown_returns_at_once_and_drained_waits, *label("BLK-11") * label("GEN-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  accept(service, 1);
  nocter_running_job* const job = claim(service);
  shut_down(service);
  const nocter_wait brief = wait_ms(10);
  BOOST_CHECK_EQUAL(nocter_blocking_drained(service, &brief), NOCTER_TIMEOUT);
  Thread waiter([&] {
    const nocter_wait wait = long_wait();
    STATUS(nocter_blocking_drained(service, &wait), NOCTER_OK);
  });
  BOOST_CHECK(waiter.until_asleep());
  nocter_running_job_drop(job);
  waiter.join();
  BOOST_CHECK_EQUAL(drained(service), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(blk_11_b_18_drained_waits_for_the_drop_of_an_abandoned_output,
                     *label("BLK-11") * label("BLK-08")) {
  // The output's drop function stops in the middle: no slot is occupied any more, but code of the host still runs.
  Service service({.maximum_jobs = 1, .workers = 1});
  struct Slow {
    Signal inside, leave;
  } slow;
  accept(service, 1);
  const Begun begun = claim_and_begin(service);
  shut_down(service);
  Thread worker([&] {
    nocter_owned output = {&slow, [](void* data) {
                             Slow& s = *static_cast<Slow*>(data);
                             nocter_signal_publish(s.inside, nullptr);
                             const nocter_wait wait = long_wait();
                             uint64_t version = 0;
                             STATUS(nocter_signal_wait(s.leave, 1, &wait, &version), NOCTER_OK);
                           }};
    STATUS(nocter_completion_complete(begun.completion, &output), NOCTER_OK);
  });
  const nocter_wait wait = long_wait();
  uint64_t version = 0;
  BOOST_REQUIRE_EQUAL(nocter_signal_wait(slow.inside, 1, &wait, &version), NOCTER_OK);
  BOOST_CHECK_EQUAL(drained(service), NOCTER_PENDING);
  Thread waiter([&] { STATUS(nocter_blocking_drained(service, &wait), NOCTER_OK); });
  BOOST_CHECK(waiter.until_asleep());
  nocter_signal_publish(slow.leave, nullptr);
  worker.join();
  waiter.join();
}

BOOST_AUTO_TEST_CASE(blk_11_drained_waits_for_drops_of_shutdown_and_cancel, *label("BLK-11")) {
  struct Probe {
    nocter_blocking* service;
    nocter_status seen;
  };
  const auto ask = [](void* data) {
    Probe* const probe = static_cast<Probe*>(data);
    probe->seen = drained(probe->service);
  };
  Service service;
  Probe by_shutdown = {service, NOCTER_OK};
  nocter_owned input = {&by_shutdown, ask};
  BOOST_CHECK_EQUAL(submit(service, input).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(by_shutdown.seen, NOCTER_PENDING);
  BOOST_CHECK_EQUAL(drained(service), NOCTER_OK);
  // An unbegun guard's input, dropped after shutdown.
  Service second;
  Probe by_guard = {second, NOCTER_OK};
  input = {&by_guard, ask};
  BOOST_CHECK_EQUAL(submit(second, input).status, NOCTER_OK);
  nocter_running_job* const job = claim(second);
  shut_down(second);
  nocter_running_job_drop(job);
  BOOST_CHECK_EQUAL(by_guard.seen, NOCTER_PENDING);
  BOOST_CHECK_EQUAL(drained(second), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(blk_11_shutdown_wakes_every_kind_of_waiter_b_25, *label("BLK-11") * label("BLK-03")) {
  // All slots are held by running jobs, so the epoch does not move: closing itself must end the wait for capacity.
  Service service({.maximum_jobs = 2, .workers = 2});
  const nocter_job_id first = accept(service, 1), second = accept(service, 2);
  nocter_running_job* const job = claim(service);
  const Begun begun = claim_and_begin(service);
  const nocter_epoch epoch = epoch_of(service);
  const nocter_wait wait = long_wait();
  std::deque<Thread> waiters;
  for (int i = 0; i < 3; i++) {
    waiters.emplace_back([&] { STATUS(try_claim(service, &wait).status, NOCTER_CLOSED); });
    waiters.emplace_back([&] { STATUS(take(service, first, &wait).status, NOCTER_CLOSED); });
    waiters.emplace_back([&] { STATUS(take(service, second, &wait).status, NOCTER_CLOSED); });
    waiters.emplace_back([&] {
      nocter_epoch out = {};
      STATUS(nocter_blocking_wait_epoch(service, epoch, &wait, &out), NOCTER_CLOSED);
      HOLDS(nocter_epoch_equal(out, epoch));
    });
  }
  for (Thread& waiter : waiters) BOOST_CHECK(waiter.until_asleep());
  shut_down(service);
  waiters.clear();
  BOOST_CHECK(nocter_epoch_equal(epoch, epoch_of(service)));
  nocter_running_job_drop(job);
  complete(begun.completion, 0);
}

BOOST_AUTO_TEST_CASE(blk_11_waiters_of_queued_and_completed_jobs_hear_closed_or_the_result,
                     *label("BLK-11") * label("BLK-12")) {
  Service service({.maximum_jobs = 2, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  const nocter_wait wait = long_wait();
  Thread waiter([&] { STATUS(take(service, id, &wait).status, NOCTER_CLOSED); });
  BOOST_CHECK(waiter.until_asleep());
  BOOST_CHECK_EQUAL(shut_down(service).size(), 1u);
  waiter.join();
}

BOOST_AUTO_TEST_CASE(blk_11_b_19_guards_outlive_the_handle, *label("BLK-11") * label("GEN-01")) {
  Wakes waiters, work;
  Service service({.maximum_jobs = 4, .workers = 3, .waiters = waiters.notifier(), .work = work.notifier()});
  accept(service, 1);
  accept(service, 2);
  accept(service, 3);
  accept(service, 4);
  nocter_running_job* const unbegun = claim(service);
  nocter_running_job* const to_begin = claim(service);
  const Begun begun = claim_and_begin(service);
  const uint64_t dropped = Ledger::dropped();
  service.destroy();
  BOOST_CHECK_EQUAL(Ledger::dropped(), dropped + 1);  // the queued one
  BOOST_CHECK_EQUAL(waiters.drops, 0u);
  BOOST_CHECK(nocter_completion_abandoned(begun.completion));
  BOOST_CHECK(!is_zero(nocter_completion_id(begun.completion)));
  const Begun late = begin(to_begin);
  BOOST_CHECK_EQUAL(late.value, 2u);
  BOOST_CHECK(nocter_completion_abandoned(late.completion));
  complete(begun.completion, 0);
  nocter_running_job_drop(unbegun);
  BOOST_CHECK_EQUAL(waiters.drops, 0u);
  const uint64_t turns = waiters.turns;
  complete(late.completion, 0);
  BOOST_CHECK_GT(waiters.turns, turns);
  BOOST_CHECK_EQUAL(waiters.drops, 1u);  // the last guard frees it
  BOOST_CHECK_EQUAL(work.drops, 1u);
}

BOOST_AUTO_TEST_CASE(gen_01_destroy_with_jobs_in_every_state_frees_everything_scenario_119,
                     *label("GEN-01") * label("BLK-11")) {
  Wakes waiters;
  {
    Service service({.maximum_jobs = 8, .workers = 2, .waiters = waiters.notifier()});
    accept(service, 1);
    run_one(service, 2);
    accept(service, 3);
    nocter_running_job_drop(claim(service));
    const nocter_job_id cancelled = accept(service, 4);
    accept(service, 5);
    const Begun abandoned = claim_and_begin(service);
    cancel(service, cancelled);
    nocter_running_job* const unbegun = claim(service);
    accept(service, 6);
    accept(service, 7);
    service.destroy();
    nocter_running_job_drop(unbegun);
    nocter_completion_drop(abandoned.completion);
  }
  BOOST_CHECK_EQUAL(waiters.drops, 1u);
  BOOST_CHECK_EQUAL(Ledger::created(), Ledger::dropped());
}

BOOST_AUTO_TEST_CASE(blk_11_b_39_destroy_with_live_waiters_ends_their_waits, *label("BLK-11") * label("GEN-07")) {
  for (uint64_t i = 0; i < rounds(100, 20); i++) {
    Service service({.maximum_jobs = 1, .workers = 1});
    const nocter_job_id id = accept(service, 1);
    nocter_running_job* const job = claim(service);
    const nocter_epoch epoch = epoch_of(service);
    nocter_blocking* const raw = service;
    const nocter_wait wait = long_wait();
    std::deque<Thread> waiters;
    waiters.emplace_back([&] { STATUS(try_claim(raw, &wait).status, NOCTER_CLOSED); });
    waiters.emplace_back([&] { STATUS(take(raw, id, &wait).status, NOCTER_CLOSED); });
    waiters.emplace_back([&] {
      nocter_epoch out = {};
      STATUS(nocter_blocking_wait_epoch(raw, epoch, &wait, &out), NOCTER_CLOSED);
    });
    for (Thread& waiter : waiters) BOOST_REQUIRE(waiter.until_asleep());
    service.destroy();
    // Every other time the guard goes last, every other time the last waiter may.
    if (i % 2 == 0) waiters.clear();
    nocter_running_job_drop(job);
  }
}

BOOST_AUTO_TEST_SUITE_END()
