// One job's life, ordered by one thread: what each call says in each state. BLK-01 to BLK-09, BLK-12, GEN-02.
#include <nocter.h>

#include <array>
#include <vector>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(blocking_suite, EveryTest)

BOOST_AUTO_TEST_CASE(blk_01_impossible_bounds_are_refused_with_their_names_scenario_1,
                     *label("BLK-01") * label("BLK-02")) {
  struct Bounds {
    uint32_t maximum_jobs, workers;
    const char* names;
  };
  for (const auto& [jobs, workers, names] :
       {Bounds{1, 0, "workers"}, Bounds{0, 1, "maximum_jobs"}, Bounds{1, 2, "workers"}, Bounds{0, 0, ""},
        Bounds{NOCTER_BLOCKING_MAXIMUM_JOBS + 1, 1, "maximum_jobs"}, Bounds{UINT32_MAX, UINT32_MAX, ""}}) {
    nocter_blocking_options options = options_of({.maximum_jobs = jobs, .workers = workers});
    nocter_blocking* service = reinterpret_cast<nocter_blocking*>(&options);
    BOOST_CHECK_EQUAL(nocter_blocking_create(&options, &service), NOCTER_E_ARGUMENT);
    BOOST_CHECK(service == nullptr);
    BOOST_CHECK_MESSAGE(std::string(nocter_error_message()).find(names) != std::string::npos,
                        "the message names the limit: " << nocter_error_message());
  }
}

BOOST_AUTO_TEST_CASE(gen_02_a_failed_creation_leaves_the_notifiers_with_the_caller, *label("GEN-02")) {
  Wakes waiters, work;
  nocter_blocking_options options =
      options_of({.maximum_jobs = 1, .workers = 2, .waiters = waiters.notifier(), .work = work.notifier()});
  nocter_blocking* service = nullptr;
  BOOST_CHECK_EQUAL(nocter_blocking_create(&options, &service), NOCTER_E_ARGUMENT);
  options.workers = 1;
  options.reserved = 1;
  BOOST_CHECK_EQUAL(nocter_blocking_create(&options, &service), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(waiters.drops + work.drops + waiters.turns + work.turns, 0u);
  options.reserved = 0;
  BOOST_CHECK_EQUAL(nocter_blocking_create(&options, &service), NOCTER_OK);
  nocter_blocking_destroy(service);
  BOOST_CHECK_EQUAL(waiters.drops, 1u);
  BOOST_CHECK_EQUAL(work.drops, 1u);
}

BOOST_AUTO_TEST_CASE(gen_12_the_options_and_counts_initialisers_agree_with_their_functions, *label("GEN-12")) {
  const nocter_blocking_options by_macro = NOCTER_BLOCKING_OPTIONS_INIT;
  nocter_blocking_options by_function;
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_blocking_options_init(&by_function, sizeof by_function);
  BOOST_CHECK_EQUAL(std::memcmp(&by_macro, &by_function, sizeof by_macro), 0);
  const nocter_blocking_counts counts_by_macro = NOCTER_BLOCKING_COUNTS_INIT;
  nocter_blocking_counts counts_by_function;
  std::memset(&counts_by_function, 0xee, sizeof counts_by_function);
  nocter_blocking_counts_init(&counts_by_function, sizeof counts_by_function);
  BOOST_CHECK_EQUAL(std::memcmp(&counts_by_macro, &counts_by_function, sizeof counts_by_macro), 0);
  // No more is written than the caller has.
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_blocking_options_init(&by_function, 8);
  BOOST_CHECK_EQUAL(by_function.size, 8u);
  BOOST_CHECK_EQUAL(by_function.maximum_jobs, 64u);
  BOOST_CHECK_EQUAL(by_function.workers, 0xeeeeeeeeu);
  nocter_blocking_options_init(nullptr, sizeof by_function);
  nocter_blocking_counts_init(nullptr, sizeof counts_by_function);
}

BOOST_AUTO_TEST_CASE(blk_03_saturation_gives_back_the_exact_input_and_the_epoch_of_the_moment_scenario_2,
                     *label("BLK-03") * label("GEN-02")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id first = accept(service, 1);
  nocter_owned second = payload(2);
  const nocter_owned before = second;
  const Submitted refused = submit(service, second);
  BOOST_CHECK_EQUAL(refused.status, NOCTER_SATURATED);
  BOOST_CHECK(same(second, before));
  BOOST_CHECK(nocter_epoch_equal(refused.epoch, epoch_of(service)));
  const Cancelled cancelled = cancel(service, first);
  BOOST_CHECK_EQUAL(cancelled.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(cancelled.was, NOCTER_JOB_QUEUED);
  BOOST_CHECK_EQUAL(cancelled.value, 1u);
  BOOST_CHECK(!nocter_epoch_equal(refused.epoch, epoch_of(service)));
  BOOST_CHECK_EQUAL(counts_of(service).saturated, 1u);
  // The same input goes through now. (B-22)
  BOOST_CHECK_EQUAL(submit(service, second).status, NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(blk_05_claims_are_oldest_first_and_never_more_than_workers_scenario_4,
                     *label("BLK-05") * label("BLK-02")) {
  Service service({.maximum_jobs = 3, .workers = 2});
  const std::array ids = {accept(service, 1), accept(service, 2), accept(service, 3)};
  nocter_running_job* const first = claim(service);
  nocter_running_job* const second = claim(service);
  BOOST_CHECK(nocter_job_id_equal(nocter_running_job_id(first), ids[0]));
  BOOST_CHECK(nocter_job_id_equal(nocter_running_job_id(second), ids[1]));
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  const Begun begun = begin(first);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  complete(begun.completion, 10);
  nocter_running_job* const third = claim(service);
  BOOST_CHECK(nocter_job_id_equal(nocter_running_job_id(third), ids[2]));
  nocter_running_job_drop(second);
  nocter_running_job_drop(third);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
}

BOOST_AUTO_TEST_CASE(blk_02_abandoned_jobs_count_as_running, *label("BLK-02")) {
  Service service({.maximum_jobs = 3, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  accept(service, 2);
  nocter_running_job* const job = claim(service);
  cancel(service, id);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(counts_of(service).abandoned, 1u);
  nocter_running_job_drop(job);
  run_one(service, 0);
}

BOOST_AUTO_TEST_CASE(blk_05_begin_parts_the_input_from_its_one_guard, *label("BLK-05")) {
  Service service;
  nocter_owned input = payload(5);
  const nocter_owned before = input;
  const nocter_job_id id = submit(service, input).id;
  nocter_running_job* const job = claim(service);
  BOOST_CHECK(nocter_job_id_equal(nocter_running_job_id(job), id));
  nocter_owned taken_over = {};
  nocter_completion* completion = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_running_job_begin(job, &taken_over, &completion), NOCTER_OK);
  BOOST_CHECK(same(taken_over, before));
  BOOST_CHECK(nocter_job_id_equal(nocter_completion_id(completion), id));
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_JOB_RUNNING);
  discard(taken_over);
  // The first guard was consumed.
  nocter_owned nothing = {&nothing, nullptr};
  nocter_completion* none = completion;
  BOOST_CHECK_EQUAL(nocter_running_job_begin(job, &nothing, &none), NOCTER_E_ARGUMENT);
  BOOST_CHECK(is_none(nothing));
  BOOST_CHECK(none == nullptr);
  BOOST_CHECK(is_zero(nocter_running_job_id(job)));
  nocter_running_job_drop(job);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_JOB_RUNNING);
  complete(completion, 6);
  BOOST_CHECK_EQUAL(take(service, id).value, 6u);
}

BOOST_AUTO_TEST_CASE(blk_10_b_21_a_guard_ends_once, *label("BLK-10")) {
  Service service;
  const nocter_job_id id = accept(service, 1);
  const Begun begun = claim_and_begin(service);
  complete(begun.completion, 2);
  nocter_owned again = payload(3);
  const nocter_owned before = again;
  BOOST_CHECK_EQUAL(nocter_completion_complete(begun.completion, &again), NOCTER_E_ARGUMENT);
  BOOST_CHECK(same(again, before));
  discard(again);
  nocter_completion_drop(begun.completion);
  BOOST_CHECK(is_zero(nocter_completion_id(begun.completion)));
  BOOST_CHECK(!nocter_completion_abandoned(begun.completion));
  BOOST_CHECK(nocter_completion_interrupt(begun.completion) == nullptr);
  BOOST_CHECK_EQUAL(take(service, id).value, 2u);
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.completed_ok, 1u);
  BOOST_CHECK_EQUAL(counts.completed_lost, 0u);
}

BOOST_AUTO_TEST_CASE(blk_12_b_06_a_completed_job_is_taken_once_scenario_5, *label("BLK-12")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_JOB_QUEUED);
  run_one(service, 9);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_JOB_COMPLETED);
  const Taken taken = take(service, id);
  BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(taken.value, 9u);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(counts_of(service).admitted, 0u);
}

BOOST_AUTO_TEST_CASE(blk_12_b_07_taking_before_the_end_is_pending, *label("BLK-12")) {
  Service service;
  const nocter_job_id id = accept(service, 1);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_PENDING);
  const Begun begun = claim_and_begin(service);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_PENDING);
  const nocter_wait past = wait_ms(0);
  BOOST_CHECK_EQUAL(take(service, id, &past).status, NOCTER_TIMEOUT);
  complete(begun.completion, 3);
  BOOST_CHECK_EQUAL(take(service, id, &past).value, 3u);
}

BOOST_AUTO_TEST_CASE(blk_08_b_05_b_09_b_18_an_abandoned_jobs_output_is_dropped_and_its_slot_freed_scenario_6,
                     *label("BLK-08") * label("BLK-09")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  const Begun begun = claim_and_begin(service);
  const nocter_epoch epoch = epoch_of(service);
  const Cancelled cancelled = cancel(service, id);
  BOOST_CHECK_EQUAL(cancelled.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(cancelled.was, NOCTER_JOB_RUNNING);
  BOOST_CHECK_EQUAL(cancelled.value, kNoValue);
  // Abandoning frees nothing: the guard is still the owner.
  BOOST_CHECK(nocter_epoch_equal(epoch, epoch_of(service)));
  refuse(service, NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_STATE);
  const nocter_wait forever = wait_ms(-1);
  BOOST_CHECK_EQUAL(take(service, id, &forever).status, NOCTER_E_STATE);
  BOOST_CHECK_EQUAL(cancel(service, id).status, NOCTER_E_STATE);
  const uint64_t dropped = Ledger::dropped();
  complete(begun.completion, 2);
  BOOST_CHECK_EQUAL(Ledger::dropped(), dropped + 1);  // the output, at once
  BOOST_CHECK(!nocter_epoch_equal(epoch, epoch_of(service)));
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(cancel(service, id).status, NOCTER_E_UNKNOWN);
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.abandoned_retired, 1u);
  BOOST_CHECK_EQUAL(counts.completed_ok, 1u);
  BOOST_CHECK_EQUAL(counts.admitted, 0u);
}

BOOST_AUTO_TEST_CASE(blk_08_dropping_an_abandoned_guard_frees_the_slot, *label("BLK-08") * label("BLK-06")) {
  for (const bool begun_first : {false, true}) {
    Service service({.maximum_jobs = 1, .workers = 1});
    const nocter_job_id id = accept(service, 1);
    nocter_running_job* const job = claim(service);
    cancel(service, id);
    if (begun_first) {
      nocter_completion_drop(begin(job).completion);
    } else {
      nocter_running_job_drop(job);
    }
    const nocter_blocking_counts counts = counts_of(service);
    BOOST_CHECK_EQUAL(counts.admitted, 0u);
    BOOST_CHECK_EQUAL(counts.abandoned_retired, 1u);
    BOOST_CHECK_EQUAL(counts.completed_lost, 1u);
    BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  }
}

BOOST_AUTO_TEST_CASE(blk_06_b_15_an_unbegun_job_dropped_is_worker_lost_scenario_7, *label("BLK-06") * label("BLK-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  nocter_running_job* const job = claim(service);
  const uint64_t dropped = Ledger::dropped();
  nocter_running_job_drop(job);
  BOOST_CHECK_EQUAL(Ledger::dropped(), dropped + 1);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_JOB_COMPLETED);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_WORKER_LOST);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.admitted, 0u);
  BOOST_CHECK_EQUAL(counts.taken, 1u);
  BOOST_CHECK_EQUAL(counts.completed_lost, 1u);
}

BOOST_AUTO_TEST_CASE(blk_06_b_15_the_input_is_dropped_before_the_loss_is_published, *label("BLK-06")) {
  Service service;
  struct Probe {
    nocter_blocking* service;
    nocter_job_id id;
    int32_t state_seen;
  } probe = {service, {}, 0};
  nocter_owned input = {&probe, [](void* data) {
                          Probe* const p = static_cast<Probe*>(data);
                          p->state_seen = state_of(p->service, p->id);
                        }};
  probe.id = submit(service, input).id;
  nocter_running_job_drop(claim(service));
  BOOST_CHECK_EQUAL(probe.state_seen, NOCTER_JOB_RUNNING);
  BOOST_CHECK_EQUAL(take(service, probe.id).status, NOCTER_WORKER_LOST);
}

BOOST_AUTO_TEST_CASE(blk_06_b_16_a_begun_guard_dropped_is_worker_lost_scenario_8, *label("BLK-06") * label("BLK-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  nocter_completion_drop(claim_and_begin(service).completion);
  BOOST_CHECK_EQUAL(counts_of(service).completed, 1u);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_WORKER_LOST);
  accept(service, 2);
  run_one(service, 3);  // the worker was released
}

BOOST_AUTO_TEST_CASE(blk_07_b_20_a_guard_may_end_on_another_thread_scenario_9, *label("BLK-07")) {
  Service service;
  const nocter_job_id id = accept(service, 1);
  nocter_running_job* const job = claim(service);
  nocter_completion* completion = nullptr;
  {
    Thread other([&] { completion = begin(job).completion; });
  }
  {
    Thread another([&] { complete(completion, 8); });
  }
  BOOST_CHECK_EQUAL(take(service, id).value, 8u);
}

BOOST_AUTO_TEST_CASE(blk_09_a_completed_job_cancelled_gives_back_its_output, *label("BLK-09") * label("BLK-10")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  run_one(service, 5);
  const Cancelled cancelled = cancel(service, id);
  BOOST_CHECK_EQUAL(cancelled.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(cancelled.was, NOCTER_JOB_COMPLETED);
  BOOST_CHECK_EQUAL(cancelled.value, 5u);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(counts_of(service).cancelled_completed, 1u);
}

BOOST_AUTO_TEST_CASE(blk_09_b_03_a_lost_job_cancelled_gives_back_nothing, *label("BLK-09")) {
  Service service;
  const nocter_job_id id = accept(service, 1);
  nocter_running_job_drop(claim(service));
  const Cancelled cancelled = cancel(service, id);
  BOOST_CHECK_EQUAL(cancelled.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(cancelled.was, NOCTER_JOB_COMPLETED);
  BOOST_CHECK_EQUAL(cancelled.value, kNoValue);
}

BOOST_AUTO_TEST_CASE(blk_09_without_a_place_for_it_what_would_come_back_is_dropped,
                     *label("BLK-09") * label("GEN-01")) {
  Service service;
  const nocter_job_id queued = accept(service, 1);
  nocter_job_state was = 0;
  const uint64_t dropped = Ledger::dropped();
  BOOST_CHECK_EQUAL(nocter_blocking_cancel(service, queued, &was, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(was, NOCTER_JOB_QUEUED);
  BOOST_CHECK_EQUAL(Ledger::dropped(), dropped + 1);
  const nocter_job_id completed = accept(service, 2);
  run_one(service, 3);
  BOOST_CHECK_EQUAL(nocter_blocking_cancel(service, completed, &was, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(was, NOCTER_JOB_COMPLETED);
  BOOST_CHECK_EQUAL(Ledger::created(), Ledger::dropped());
}

BOOST_AUTO_TEST_CASE(blk_08_b_40_a_completed_job_nobody_takes_holds_its_slot_but_no_worker,
                     *label("BLK-08") * label("BLK-07")) {
  Service service({.maximum_jobs = 3, .workers = 1});
  for (uint64_t i = 0; i < 3; i++) {
    accept(service, i);
    run_one(service, i);
  }
  refuse(service, NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(counts_of(service).completed, 3u);
}

BOOST_AUTO_TEST_CASE(blk_04_the_epoch_moves_once_for_each_freed_slot_and_never_otherwise, *label("BLK-04")) {
  Service service({.maximum_jobs = 4, .workers = 2});
  uint64_t freed = 0;
  const auto epoch_is_right = [&] { return counts_of(service).epoch == freed; };
  const nocter_job_id a = accept(service, 1), b = accept(service, 2), c = accept(service, 3), d = accept(service, 4);
  refuse(service, NOCTER_SATURATED);
  BOOST_CHECK(epoch_is_right());
  const Begun of_a = claim_and_begin(service), of_b = claim_and_begin(service);
  BOOST_CHECK(epoch_is_right());
  complete(of_a.completion, 1);
  BOOST_CHECK(epoch_is_right());
  cancel(service, b);
  BOOST_CHECK(epoch_is_right());
  nocter_completion_drop(of_b.completion);  // abandoned
  freed++;
  BOOST_CHECK(epoch_is_right());
  take(service, a);
  freed++;
  BOOST_CHECK(epoch_is_right());
  cancel(service, c);  // queued
  freed++;
  BOOST_CHECK(epoch_is_right());
  nocter_completion_drop(claim_and_begin(service).completion);
  BOOST_CHECK(epoch_is_right());
  cancel(service, d);  // completed
  freed++;
  BOOST_CHECK(epoch_is_right());
  take(service, d);
  cancel(service, a);
  state_of(service, b);
  BOOST_CHECK(epoch_is_right());
}

BOOST_AUTO_TEST_CASE(blk_13_inputs_and_outputs_are_opaque, *label("BLK-13")) {
  // NULL data, no drop, both: all go in and come out as they are.
  Service service;
  int anything = 0;
  for (const nocter_owned value :
       {nocter_owned{nullptr, nullptr}, nocter_owned{&anything, nullptr}, nocter_owned{nullptr, [](void*) {}}}) {
    nocter_owned input = value;
    nocter_job_id id = {};
    nocter_epoch epoch = {};
    BOOST_REQUIRE_EQUAL(nocter_blocking_submit(service, &input, &id, &epoch), NOCTER_OK);
    nocter_owned came = {&anything, nullptr};
    nocter_completion* completion = nullptr;
    BOOST_REQUIRE_EQUAL(nocter_running_job_begin(claim(service), &came, &completion), NOCTER_OK);
    BOOST_CHECK(same(came, value));
    nocter_owned output = value;
    BOOST_REQUIRE_EQUAL(nocter_completion_complete(completion, &output), NOCTER_OK);
    BOOST_CHECK(is_none(output));
    nocter_owned back = {&anything, nullptr};
    BOOST_REQUIRE_EQUAL(nocter_blocking_take(service, id, nullptr, &back), NOCTER_OK);
    BOOST_CHECK(same(back, value));
  }
}

BOOST_AUTO_TEST_CASE(blk_12_completed_names_each_ended_job_once_oldest_end_first, *label("BLK-12") * label("BLK-14")) {
  Service service({.maximum_jobs = 8, .workers = 3});
  std::vector<nocter_job_id> ids;
  for (uint64_t i = 0; i < 6; i++) ids.push_back(accept(service, i));
  std::array<nocter_job_id, 8> named;
  size_t count = 77;
  const auto ask = [&](size_t capacity) {
    BOOST_CHECK_EQUAL(nocter_blocking_completed(service, named.data(), capacity, &count), NOCTER_OK);
    return count;
  };
  BOOST_CHECK_EQUAL(ask(8), 0u);
  const Begun first = claim_and_begin(service), second = claim_and_begin(service), third = claim_and_begin(service);
  complete(third.completion, 0);
  nocter_completion_drop(first.completion);
  complete(second.completion, 0);
  // Ended: third, first, second. What does not fit is named next time.
  BOOST_CHECK_EQUAL(ask(2), 2u);
  BOOST_CHECK(nocter_job_id_equal(named[0], ids[2]));
  BOOST_CHECK(nocter_job_id_equal(named[1], ids[0]));
  BOOST_CHECK_EQUAL(ask(2), 1u);
  BOOST_CHECK(nocter_job_id_equal(named[0], ids[1]));
  BOOST_CHECK_EQUAL(ask(8), 0u);
  // It took nothing: all three are there still.
  BOOST_CHECK_EQUAL(take(service, ids[2]).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(take(service, ids[0]).status, NOCTER_WORKER_LOST);
  // Taken, cancelled or abandoned before the asking: not named.
  const Begun fourth = claim_and_begin(service), fifth = claim_and_begin(service), sixth = claim_and_begin(service);
  complete(fourth.completion, 0);
  complete(fifth.completion, 0);
  take(service, ids[3]);
  cancel(service, ids[4]);
  cancel(service, ids[5]);
  complete(sixth.completion, 0);
  BOOST_CHECK_EQUAL(ask(8), 0u);
  BOOST_CHECK_EQUAL(nocter_blocking_completed(service, named.data(), 0, &count), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(count, 0u);
  count = 77;
  BOOST_CHECK_EQUAL(nocter_blocking_completed(service, nullptr, 1, &count), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(count, 0u);
}

BOOST_AUTO_TEST_CASE(gen_12_the_counts_tell_ages, *label("GEN-12")) {
  Service service({.maximum_jobs = 2, .workers = 1});
  BOOST_CHECK_EQUAL(counts_of(service).oldest_queued_ns, 0);
  BOOST_CHECK_EQUAL(counts_of(service).longest_running_ns, 0);
  accept(service, 1);
  pause_ms(60);
  accept(service, 2);
  nocter_blocking_counts counts = counts_of(service);
  // The kernel's tick is 10 ms at most.
  BOOST_CHECK_GE(counts.oldest_queued_ns, 45'000'000);
  BOOST_CHECK_LT(counts.oldest_queued_ns, 60'000'000'000);
  BOOST_CHECK_EQUAL(counts.longest_running_ns, 0);
  const Begun begun = claim_and_begin(service);
  BOOST_CHECK_LT(counts_of(service).longest_running_ns, counts.oldest_queued_ns + 60'000'000'000);
  pause_ms(60);
  counts = counts_of(service);
  BOOST_CHECK_GE(counts.longest_running_ns, 45'000'000);
  BOOST_CHECK_GE(counts.oldest_queued_ns, 45'000'000);
  complete(begun.completion, 0);
  BOOST_CHECK_EQUAL(counts_of(service).longest_running_ns, 0);
}

BOOST_AUTO_TEST_CASE(gen_12_counts_of_another_size, *label("GEN-12")) {
  Service service;
  accept(service, 1);
  // Shorter: only that much is written.
  nocter_blocking_counts counts;
  std::memset(&counts, 0xee, sizeof counts);
  counts.size = offsetof(nocter_blocking_counts, running);
  BOOST_CHECK_EQUAL(nocter_blocking_count(service, &counts), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts.queued, 1u);
  BOOST_CHECK_EQUAL(counts.running, 0xeeeeeeeeu);
  for (const uint32_t size : {0u, 3u}) {
    std::memset(&counts, 0xee, sizeof counts);
    counts.size = size;
    BOOST_CHECK_EQUAL(nocter_blocking_count(service, &counts), NOCTER_E_ARGUMENT);
    BOOST_CHECK_EQUAL(counts.queued, 0xeeeeeeeeu);
  }
  BOOST_CHECK_EQUAL(nocter_blocking_count(service, nullptr), NOCTER_E_ARGUMENT);
}

BOOST_AUTO_TEST_CASE(gen_02_null_arguments_change_nothing, *label("GEN-02") * label("FFI-01")) {
  Service service;
  nocter_owned input = payload(1);
  const nocter_owned before = input;
  nocter_job_id id = {7, 7};
  nocter_epoch epoch = {7, 7};
  BOOST_CHECK_EQUAL(nocter_blocking_submit(nullptr, &input, &id, &epoch), NOCTER_E_ARGUMENT);
  BOOST_CHECK(is_zero(id) && is_zero(epoch) && same(input, before));
  BOOST_CHECK_EQUAL(nocter_blocking_submit(service, nullptr, &id, &epoch), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_blocking_submit(service, &input, nullptr, &epoch), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_blocking_submit(service, &input, &id, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK(same(input, before));
  BOOST_CHECK_EQUAL(counts_of(service).accepted, 0u);
  discard(input);
  const nocter_job_id real = accept(service, 2);
  BOOST_CHECK_EQUAL(nocter_blocking_claim(service, nullptr, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_blocking_query(service, real, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_blocking_take(service, real, nullptr, nullptr), NOCTER_E_ARGUMENT);
  nocter_owned out = {};
  BOOST_CHECK_EQUAL(nocter_blocking_cancel(service, real, nullptr, &out), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(state_of(service, real), NOCTER_JOB_QUEUED);
  nocter_running_job_drop(nullptr);
  nocter_completion_drop(nullptr);
  BOOST_CHECK(is_zero(nocter_running_job_id(nullptr)));
  nocter_blocking_destroy(nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
