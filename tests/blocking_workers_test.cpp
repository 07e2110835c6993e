// The library's own threads: what they run, how they are made, how they end. BLK-14, GEN-10, FFI-06, FFI-14.
#include <nocter.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(blocking_workers_suite, EveryTest)

BOOST_AUTO_TEST_CASE(blk_14_two_threads_run_every_job_once_with_its_own_result_scenario_12_114, *label("BLK-14")) {
  Service service({.maximum_jobs = 64, .workers = 2});
  std::array<std::atomic<int>, 64> runs = {};
  Runner runner(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion*) {
    const uint64_t value = discard(input);
    runs[value]++;
    output = payload(value * value);
  });
  std::vector<nocter_job_id> ids;
  for (uint64_t i = 0; i < 64; i++) ids.push_back(accept(service, i));
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < 64; i++) {
    const Taken taken = take(service, ids[i], &wait);
    BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
    BOOST_CHECK_EQUAL(taken.value, i * i);
  }
  for (const std::atomic<int>& count : runs) BOOST_CHECK_EQUAL(count.load(), 1);
}

BOOST_AUTO_TEST_CASE(blk_14_jobs_queued_before_the_threads_are_made_run_too, *label("BLK-14")) {
  Service service;
  const nocter_job_id first = accept(service, 3), second = accept(service, 4), third = accept(service, 5);
  Runner runner(service, echo);
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, third, &wait).value, 5u);
  BOOST_CHECK_EQUAL(take(service, first, &wait).value, 3u);
  BOOST_CHECK_EQUAL(take(service, second, &wait).value, 4u);
}

BOOST_AUTO_TEST_CASE(blk_08_a_job_cancelled_in_the_middle_never_shows_its_output_scenario_14_116,
                     *label("BLK-08") * label("BLK-09")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  Gate gate;
  Runner runner(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion* completion) {
    discard(input);
    HOLDS(!nocter_completion_abandoned(completion));
    gate.pass();
    HOLDS(nocter_completion_abandoned(completion));
    HOLDS(nocter_interrupt_raised(nocter_completion_interrupt(completion)));
    output = payload(99);
  });
  const nocter_job_id id = accept(service, 1);
  gate.until_reached();
  const Cancelled cancelled = cancel(service, id);
  BOOST_CHECK_EQUAL(cancelled.was, NOCTER_JOB_RUNNING);
  BOOST_CHECK_EQUAL(counts_of(service).admitted, 1u);
  gate.open();
  BOOST_CHECK(eventually([&] { return counts_of(service).admitted == 0; }));
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
}

BOOST_AUTO_TEST_CASE(blk_09_a_job_cancelled_while_queued_never_runs_scenario_115, *label("BLK-09") * label("BLK-10")) {
  Service service({.maximum_jobs = 8, .workers = 1});
  Gate gate;
  std::mutex mutex;
  std::vector<uint64_t> ran;
  Runner runner(service, [&](nocter_owned& input, nocter_owned&, nocter_completion*) {
    const uint64_t value = discard(input);
    const std::scoped_lock lock(mutex);
    ran.push_back(value);
    if (value == 0) gate.pass();
  });
  const nocter_job_id busy = accept(service, 0);
  gate.until_reached();
  const nocter_job_id second = accept(service, 1), third = accept(service, 2);
  BOOST_CHECK_EQUAL(cancel(service, second).was, NOCTER_JOB_QUEUED);
  gate.open();
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, third, &wait).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(take(service, busy, &wait).status, NOCTER_OK);
  const std::vector<uint64_t> expected = {0, 2};
  const std::scoped_lock lock(mutex);
  BOOST_CHECK(ran == expected);
}

BOOST_AUTO_TEST_CASE(gen_10_b_17_an_exception_is_worker_lost_and_the_thread_goes_on_scenario_16,
                     *label("GEN-10") * label("BLK-06") * label("FFI-06")) {
  Service service({.maximum_jobs = 8, .workers = 1});
  std::set<std::thread::id> threads;
  Runner runner(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion*) {
    threads.insert(std::this_thread::get_id());
    output = payload(50);  // dropped with the exception
    switch (value_of(input)) {
      case 0:
        throw std::runtime_error("an operation");
      case 1:
        throw 17;
      case 2:
        throw "text";
      default:
        break;
    }
    discard(input);
  });
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < 3; i++)
    BOOST_CHECK_EQUAL(take(service, accept(service, i), &wait).status, NOCTER_WORKER_LOST);
  BOOST_CHECK_EQUAL(take(service, accept(service, 3), &wait).value, 50u);
  runner.stop();
  BOOST_CHECK_EQUAL(threads.size(), 1u);
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.exceptions, 3u);
  BOOST_CHECK_EQUAL(counts.completed_lost, 3u);
  BOOST_CHECK_EQUAL(counts.completed_ok, 1u);
}

BOOST_AUTO_TEST_CASE(gen_01_an_input_left_in_place_is_dropped_before_the_end_is_told, *label("GEN-01")) {
  Service service;
  Runner runner(service, [](nocter_owned&, nocter_owned&, nocter_completion*) {});
  const nocter_wait wait = long_wait();
  for (int i = 0; i < 100; i++) {
    const Taken taken = take(service, accept(service, 1), &wait);
    BOOST_REQUIRE_EQUAL(taken.status, NOCTER_OK);
    BOOST_REQUIRE_EQUAL(taken.value, kNoValue);
    BOOST_REQUIRE_EQUAL(Ledger::live(), 0u);
  }
}

BOOST_AUTO_TEST_CASE(blk_13_the_input_itself_may_become_the_output, *label("BLK-13") * label("GEN-01")) {
  Service service;
  Runner runner(service, echo);
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, accept(service, 77), &wait).value, 77u);
}

BOOST_AUTO_TEST_CASE(blk_14_a_function_may_end_its_job_early, *label("BLK-14") * label("BLK-07")) {
  Service service({.maximum_jobs = 8, .workers = 1});
  Gate gate;
  Runner runner(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion* completion) {
    const uint64_t value = discard(input);
    if (value == 0) complete(completion, 5);
    if (value == 1) nocter_completion_drop(completion);
    // The guard is consumed, whichever way.
    HOLDS(is_zero(nocter_completion_id(completion)) || value == 2);
    nocter_owned second = payload(6);
    if (value != 2) STATUS(nocter_completion_complete(completion, &second), NOCTER_E_ARGUMENT);
    discard(second);
    output = payload(7);  // of an ended job: dropped
    if (value != 2) gate.pass();
  });
  const nocter_wait wait = long_wait();
  const nocter_job_id completed = accept(service, 0);
  gate.until_reached();
  BOOST_CHECK_EQUAL(take(service, completed).value, 5u);  // while the function still runs
  gate.open();
  const nocter_job_id lost = accept(service, 1);
  BOOST_CHECK_EQUAL(take(service, lost, &wait).status, NOCTER_WORKER_LOST);
  BOOST_CHECK_EQUAL(take(service, accept(service, 2), &wait).value, 7u);
}

BOOST_AUTO_TEST_CASE(blk_14_a_lent_completion_is_dead_after_the_function, *label("BLK-14") * label("FFI-04")) {
  Service service({.maximum_jobs = 4, .workers = 1});
  std::atomic<nocter_completion*> kept{nullptr};
  Runner runner(service, [&](nocter_owned&, nocter_owned&, nocter_completion* completion) { kept.store(completion); });
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, accept(service, 1), &wait).status, NOCTER_OK);
  BOOST_CHECK(is_zero(nocter_completion_id(kept)));
  nocter_owned output = payload(1);
  BOOST_CHECK_EQUAL(nocter_completion_complete(kept, &output), NOCTER_E_ARGUMENT);
  discard(output);
  nocter_completion_drop(kept);
  BOOST_CHECK_EQUAL(counts_of(service).completed_lost, 0u);
}

BOOST_AUTO_TEST_CASE(blk_11_stopped_threads_claim_no_more_and_others_may_be_made, *label("BLK-11") * label("BLK-14")) {
  Service service({.maximum_jobs = 8, .workers = 2});
  const nocter_wait wait = long_wait();
  for (int round = 0; round < 5; round++) {
    nocter_job_id left = {};
    {
      Runner runner(service, echo);
      BOOST_CHECK_EQUAL(take(service, accept(service, 1), &wait).value, 1u);
      runner.stop();
      runner.stop();  // again: done already
      left = accept(service, 2);
      pause_ms(5);
      BOOST_CHECK_EQUAL(state_of(service, left), NOCTER_JOB_QUEUED);
    }
    Runner next(service, echo);
    BOOST_CHECK_EQUAL(take(service, left, &wait).value, 2u);
  }
}

BOOST_AUTO_TEST_CASE(gen_07_stop_without_a_wait_asks_and_a_later_one_waits, *label("GEN-07") * label("BLK-14")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  Gate gate;
  Runner runner(service, [&](nocter_owned&, nocter_owned&, nocter_completion*) { gate.pass(); });
  accept(service, 1);
  gate.until_reached();
  BOOST_CHECK_EQUAL(nocter_workers_stop(runner, nullptr), NOCTER_PENDING);
  const nocter_wait brief = wait_ms(10);
  BOOST_CHECK_EQUAL(nocter_workers_stop(runner, &brief), NOCTER_TIMEOUT);
  gate.open();
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(nocter_workers_stop(runner, &wait), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_workers_stop(runner, nullptr), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(gen_07_several_threads_may_wait_for_the_end, *label("GEN-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  Gate gate;
  Runner runner(service, [&](nocter_owned&, nocter_owned&, nocter_completion*) { gate.pass(); });
  accept(service, 1);
  gate.until_reached();
  std::deque<Thread> stoppers;
  for (int i = 0; i < 4; i++) {
    stoppers.emplace_back([&] {
      const nocter_wait wait = long_wait();
      STATUS(nocter_workers_stop(runner, &wait), NOCTER_OK);
    });
  }
  for (Thread& stopper : stoppers) BOOST_CHECK(stopper.until_asleep());
  gate.open();
}

BOOST_AUTO_TEST_CASE(blk_11_shutdown_ends_the_threads_and_no_more_can_be_made, *label("BLK-11") * label("BLK-14")) {
  Service service;
  Runner runner(service, echo);
  shut_down(service);
  const nocter_wait wait = long_wait();
  BOOST_CHECK(eventually([&] { return nocter_workers_stop(runner, nullptr) == NOCTER_OK; }));
  nocter_workers* more = reinterpret_cast<nocter_workers*>(&runner);
  BOOST_CHECK_EQUAL(nocter_blocking_serve(service, Runner::run, &runner, nullptr, &more), NOCTER_CLOSED);
  BOOST_CHECK(more == nullptr);
  BOOST_CHECK_EQUAL(nocter_blocking_drained(service, &wait), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(blk_11_the_service_lives_on_until_its_threads_have_ended, *label("BLK-11")) {
  Wakes waiters;
  Gate gate;
  Service service({.maximum_jobs = 1, .workers = 1, .waiters = waiters.notifier()});
  Runner runner(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion* completion) {
    gate.pass();
    HOLDS(nocter_completion_abandoned(completion));
    output = std::exchange(input, nocter_owned{});
  });
  accept(service, 1);
  gate.until_reached();
  service.destroy();
  BOOST_CHECK_EQUAL(waiters.drops, 0u);
  gate.open();
  runner.stop();
  runner.destroy();
  BOOST_CHECK_EQUAL(waiters.drops, 1u);
}

BOOST_AUTO_TEST_CASE(blk_02_more_threads_than_workers_and_several_sets_keep_the_bound,
                     *label("BLK-02") * label("BLK-14")) {
  Service service({.maximum_jobs = 64, .workers = 3});
  std::atomic<int> inside{0}, most{0};
  const auto watch = [&](nocter_owned&, nocter_owned&, nocter_completion*) {
    const int now = ++inside;
    int before = most.load();
    while (before < now && !most.compare_exchange_weak(before, now)) {
    }
    std::this_thread::yield();
    inside--;
  };
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = 5;
  Runner first(service, watch, &options), second(service, watch, &options);
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < rounds(3'000, 300); i++) {
    std::vector<nocter_job_id> ids;
    for (int k = 0; k < 6; k++) ids.push_back(accept(service, 0));
    for (const nocter_job_id id : ids) BOOST_REQUIRE_EQUAL(take(service, id, &wait).status, NOCTER_OK);
  }
  BOOST_CHECK_LE(most.load(), 3);
  BOOST_CHECK_GE(most.load(), 2);
}

BOOST_AUTO_TEST_CASE(ffi_14_a_wait_only_the_waiting_worker_could_end_is_refused_scenario_157,
                     *label("FFI-14") * label("BLK-14")) {
  Service service({.maximum_jobs = 4, .workers = 1});
  nocter_workers* self = nullptr;
  Runner runner(service, [&](nocter_owned& input, nocter_owned&, nocter_completion* completion) {
    const nocter_wait forever = wait_ms(-1);
    const nocter_job_id mine = nocter_completion_id(completion);
    if (discard(input) == 1) {
      STATUS(take(service, mine, &forever).status, NOCTER_E_WOULD_DEADLOCK);
      STATUS(take(service, mine).status, NOCTER_PENDING);
      STATUS(try_claim(service, &forever).status, NOCTER_E_WOULD_DEADLOCK);
      STATUS(try_claim(service).status, NOCTER_EMPTY);
      STATUS(nocter_workers_stop(self, &forever), NOCTER_E_WOULD_DEADLOCK);
      // B-37: a job that waits for another one behind the last worker slot, its own.
      const nocter_job_id behind = accept(service, 2);
      STATUS(take(service, behind, &forever).status, NOCTER_E_WOULD_DEADLOCK);
      STATUS(cancel(service, behind).status, NOCTER_OK);
    } else {
      STATUS(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_OK);
      STATUS(nocter_blocking_drained(service, &forever), NOCTER_E_WOULD_DEADLOCK);
      STATUS(nocter_blocking_drained(service, nullptr), NOCTER_PENDING);
    }
  });
  self = runner;
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, accept(service, 1), &wait).status, NOCTER_OK);
  accept(service, 3);
  BOOST_CHECK(eventually([&] { return nocter_blocking_drained(service, nullptr) == NOCTER_OK; }));
}

BOOST_AUTO_TEST_CASE(ffi_14_b_37_a_worker_may_wait_for_a_job_that_another_worker_can_run, *label("FFI-14")) {
  Service service({.maximum_jobs = 4, .workers = 2});
  Runner runner(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion*) {
    const uint64_t value = discard(input);
    if (value == 1) {
      const nocter_wait wait = long_wait();
      const Taken taken = take(service, accept(service, 20), &wait);
      STATUS(taken.status, NOCTER_OK);
      output = payload(taken.value + 1);
    } else {
      output = payload(value);
    }
  });
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, accept(service, 1), &wait).value, 21u);
}

BOOST_AUTO_TEST_CASE(blk_11_shutdown_inside_a_job_returns_at_once_scenario_124, *label("BLK-11")) {
  Service service({.maximum_jobs = 2, .workers = 1});
  Runner runner(service, [&](nocter_owned&, nocter_owned&, nocter_completion* completion) {
    STATUS(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_OK);
    HOLDS(nocter_completion_abandoned(completion));
  });
  accept(service, 1);
  runner.until_ended();
  BOOST_CHECK_EQUAL(nocter_blocking_drained(service, nullptr), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(ffi_14_workers_may_be_given_up_by_one_of_themselves, *label("FFI-14") * label("BLK-14")) {
  for (const uint32_t threads : {1u, 3u}) {
    Service service({.maximum_jobs = 4, .workers = 3});
    struct Given {
      std::atomic<nocter_workers*> workers{nullptr};
      std::atomic<int> stops{0};
    } given;
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    options.threads = threads;
    options.stop = [](void* user) { static_cast<Given*>(user)->stops++; };
    options.user = &given;
    nocter_workers* workers = nullptr;
    const auto run = [](void* user, nocter_owned*, nocter_owned*, nocter_completion*) {
      Given& g = *static_cast<Given*>(user);
      HOLDS(eventually([&] { return g.workers.load() != nullptr; }));
      const nocter_wait forever = wait_ms(-1);
      STATUS(nocter_workers_stop(g.workers, &forever), NOCTER_E_WOULD_DEADLOCK);
      nocter_workers_destroy(g.workers);  // does not wait
    };
    BOOST_REQUIRE_EQUAL(nocter_blocking_serve(service, run, &given, &options, &workers), NOCTER_OK);
    given.workers.store(workers);
    const nocter_job_id id = accept(service, 1);
    const nocter_wait wait = long_wait();
    BOOST_CHECK_EQUAL(take(service, id, &wait).status, NOCTER_OK);
    BOOST_CHECK(eventually([&] { return given.stops.load() == static_cast<int>(threads); }));
  }
}

BOOST_AUTO_TEST_CASE(blk_14_job_ids_and_interrupts_are_those_of_the_job, *label("BLK-14") * label("BLK-09")) {
  Service service({.maximum_jobs = 4, .workers = 2});
  std::mutex mutex;
  std::vector<nocter_job_id> seen;
  Gate gate;
  Runner runner(service, [&](nocter_owned&, nocter_owned&, nocter_completion* completion) {
    {
      const std::scoped_lock lock(mutex);
      seen.push_back(nocter_completion_id(completion));
    }
    // Until it is abandoned: by its own interrupt.
    Signal never;
    const nocter_wait wait = wait_ms(kLimitMs, nocter_completion_interrupt(completion));
    uint64_t version = 0;
    STATUS(nocter_signal_wait(never, 1, &wait, &version), NOCTER_INTERRUPTED);
  });
  const nocter_job_id first = accept(service, 1), second = accept(service, 2);
  BOOST_CHECK(eventually([&] { return counts_of(service).running == 2; }));
  BOOST_CHECK_EQUAL(cancel(service, second).was, NOCTER_JOB_RUNNING);
  BOOST_CHECK(eventually([&] { return counts_of(service).admitted == 1; }));
  BOOST_CHECK_EQUAL(state_of(service, first), NOCTER_JOB_RUNNING);
  shut_down(service);
  runner.until_ended();
  const std::scoped_lock lock(mutex);
  BOOST_REQUIRE_EQUAL(seen.size(), 2u);
  BOOST_CHECK(nocter_job_id_equal(seen[0], first) != nocter_job_id_equal(seen[1], first));
}

BOOST_AUTO_TEST_CASE(blk_14_null_arguments_make_no_thread_scenario_114, *label("BLK-14") * label("FFI-01")) {
  Service service;
  const size_t threads = thread_count();
  nocter_workers* workers = reinterpret_cast<nocter_workers*>(&service);
  BOOST_CHECK_EQUAL(nocter_blocking_serve(service, nullptr, nullptr, nullptr, &workers), NOCTER_E_ARGUMENT);
  BOOST_CHECK(workers == nullptr);
  workers = reinterpret_cast<nocter_workers*>(&service);
  BOOST_CHECK_EQUAL(nocter_blocking_serve(nullptr, Runner::run, nullptr, nullptr, &workers), NOCTER_E_ARGUMENT);
  BOOST_CHECK(workers == nullptr);
  BOOST_CHECK_EQUAL(nocter_blocking_serve(service, Runner::run, nullptr, nullptr, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_workers_stop(nullptr, nullptr), NOCTER_E_ARGUMENT);
  nocter_workers_destroy(nullptr);
  BOOST_CHECK_EQUAL(thread_count(), threads);
}

BOOST_AUTO_TEST_SUITE_END()
