// The library's own threads that clean, those who wait, those who are told. RET-01, RET-05, GEN-04, GEN-05, GEN-10, FFI-06, FFI-14.
#include <nocter.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "support/fixture.hpp"
#include "support/retirement.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;
using namespace nocter_tests::retiring;

BOOST_FIXTURE_TEST_SUITE(retirement_workers_suite, EveryTest)

BOOST_AUTO_TEST_CASE(ret_05_two_threads_clean_everything_once_scenario_27, *label("RET-05") * label("GEN-01")) {
  Retirement service({.maximum_resources = 64, .workers = 2});
  Cleaners cleaners(service);
  std::array<std::atomic<int>, 300> cleaned = {};
  const nocter_wait wait = long_wait();
  for (size_t i = 0; i < cleaned.size(); i++) {
    Reserved got = try_reserve(service);
    while (got.status == NOCTER_SATURATED) {
      nocter_epoch now;
      BOOST_REQUIRE_EQUAL(nocter_retirement_wait_epoch(service, got.epoch, &wait, &now), NOCTER_OK);
      got = try_reserve(service);
    }
    BOOST_REQUIRE_EQUAL(got.status, NOCTER_OK);
    nocter_resource_drop(attach(got.permit, closing([&cleaned, i] { cleaned.at(i)++; })));
  }
  nocter_retirement_close(service);
  until_drained(service);
  for (const std::atomic<int>& count : cleaned) BOOST_CHECK_EQUAL(count.load(), 1);
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.cleaned, cleaned.size());
  BOOST_CHECK_EQUAL(counts.unobserved_done, cleaned.size());
}

BOOST_AUTO_TEST_CASE(ret_06_served_cleanups_report_code_0_scenario_29, *label("RET-06")) {
  Retirement service({.maximum_resources = 4, .workers = 1});
  Cleaners cleaners(service);
  const nocter_wait wait = long_wait();
  const auto taken = take(service, retire(own(service, 1)), &wait);
  BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(taken.code, 0);
  // A resource without an end of its own is clean at once.
  const nocter_retirement_id id = retire(attach(reserve(service), nocter_owned{}));
  BOOST_CHECK_EQUAL(take(service, id, &wait).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
}

BOOST_AUTO_TEST_CASE(r_15_a_cleanup_that_throws_is_lost_and_its_thread_serves_on_scenario_32_r_16,
                     *label("RET-05") * label("GEN-10") * label("R-15") * label("R-16") * label("FFI-06")) {
  Retirement service({.maximum_resources = 4, .workers = 1});
  Cleaners cleaners(service);
  const nocter_wait wait = long_wait();
  pthread_t first = {}, second = {};
  const nocter_retirement_id thrown = retire(own(service, closing([&] {
                                                   first = pthread_self();
                                                   throw std::runtime_error("close failed");
                                                 })));
  BOOST_CHECK_EQUAL(take(service, thrown, &wait).status, NOCTER_WORKER_LOST);
  const nocter_retirement_id fine = retire(own(service, closing([&] { second = pthread_self(); })));
  BOOST_CHECK_EQUAL(take(service, fine, &wait).status, NOCTER_OK);
  BOOST_CHECK(pthread_equal(first, second) != 0);
  nocter_resource_drop(own(service, closing([] { throw 5; })));
  nocter_retirement_close(service);
  until_drained(service);
  nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.lost, 2u);
  BOOST_CHECK_EQUAL(counts.exceptions, 2u);
  BOOST_CHECK_EQUAL(counts.failed_unobserved, 1u);
}

BOOST_AUTO_TEST_CASE(r_16_a_resource_that_throws_when_its_cleanup_is_dropped, *label("R-16") * label("GEN-10")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  nocter_resource_drop(own(service, closing([] { throw std::runtime_error("no"); })));
  nocter_cleanup_drop(claim(service));
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.reserved, 0u);
  BOOST_CHECK_EQUAL(counts.lost, 1u);
  BOOST_CHECK_EQUAL(counts.exceptions, 1u);
}

BOOST_AUTO_TEST_CASE(ffi_07_a_cleanup_that_ends_its_thread_is_lost_and_the_others_go_on,
                     *label("FFI-07") * label("R-15")) {
  Retirement service({.maximum_resources = 8, .workers = 2});
  Cleaners cleaners(service);
  const nocter_retirement_id id = retire(own(service, nocter_owned{nullptr, [](void*) { pthread_exit(nullptr); }}));
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, id, &wait).status, NOCTER_WORKER_LOST);
  for (uint64_t i = 0; i < 4; i++) BOOST_CHECK_EQUAL(take(service, retire(own(service, i)), &wait).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
}

BOOST_AUTO_TEST_CASE(ret_01_a_blocked_close_slows_nobody_down_r_18, *label("RET-01") * label("R-18")) {
  // The blocking service is full of jobs that never end by themselves, and one cleanup blocks: the others are cleaned.
  Service blocking({.maximum_jobs = 2, .workers = 2});
  Gate jobs, close;
  Runner runner(blocking, [&](nocter_owned&, nocter_owned&, nocter_completion*) { jobs.pass(); });
  accept(blocking, 1);
  accept(blocking, 2);
  jobs.until_reached();
  refuse(blocking, NOCTER_SATURATED);
  Retirement service({.maximum_resources = 64, .workers = 2});
  Cleaners cleaners(service);
  nocter_resource_drop(own(service, closing([&] { close.pass(); })));
  close.until_reached();
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < 1'000; i++)
    BOOST_REQUIRE_EQUAL(take(service, retire(own(service, i)), &wait).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(service).running, 1u);
  pause_ms(20);
  BOOST_CHECK_GE(counts_of(service).longest_running_ns, 10'000'000);
  // And the other way round: a saturated retirement keeps no job from running.
  std::vector<nocter_permit*> permits;
  for (Reserved got = try_reserve(service); got.status == NOCTER_OK; got = try_reserve(service))
    permits.push_back(got.permit);
  BOOST_CHECK_EQUAL(permits.size(), 63u);
  jobs.open();
  BOOST_CHECK(eventually([&] { return counts_of(blocking).completed == 2; }));
  close.open();
  for (nocter_permit* permit : permits) nocter_permit_drop(permit);
  until_drained(service);
}

BOOST_AUTO_TEST_CASE(r_19_a_cleanup_gives_up_others_of_its_service, *label("R-19") * label("RET-03")) {
  Retirement service({.maximum_resources = 8, .workers = 1});
  Cleaners cleaners(service);
  std::atomic<int> order{0}, first{0}, second{0};
  nocter_resource* const inner = own(service, closing([&] { second = ++order; }));
  nocter_resource_drop(own(service, closing([&] {
                             nocter_resource_drop(inner);
                             pause_ms(5);
                             first = ++order;
                           })));
  until_drained(service);
  BOOST_CHECK_EQUAL(first.load(), 1);
  BOOST_CHECK_EQUAL(second.load(), 2);
}

BOOST_AUTO_TEST_CASE(r_20_waits_that_only_this_cleanup_could_end_are_refused, *label("R-20") * label("FFI-14")) {
  Retirement service({.maximum_resources = 3, .workers = 1});
  Cleaners cleaners(service);
  nocter_retirement_id own_id = {};
  Gate ready;
  std::atomic<int> checked{0};
  nocter_permit* const spare = reserve(service);
  const nocter_retirement_id other =
      retire(own(service, closing([&] {
                   ready.pass();
                   // Reserving is allowed, waiting for capacity is not: this is the only worker.
                   const Reserved refused = try_reserve(service);
                   STATUS(refused.status, NOCTER_SATURATED);
                   const nocter_wait wait = long_wait();
                   nocter_epoch now;
                   STATUS(nocter_retirement_wait_epoch(service, refused.epoch, &wait, &now), NOCTER_E_WOULD_DEADLOCK);
                   STATUS(nocter_retirement_drained(service, &wait), NOCTER_E_WOULD_DEADLOCK);
                   STATUS(nocter_retirement_drained(service, nullptr), NOCTER_PENDING);
                   STATUS(take(service, own_id, &wait).status, NOCTER_E_WOULD_DEADLOCK);
                   STATUS(take(service, own_id).status, NOCTER_PENDING);
                   STATUS(try_claim(service, &wait).status, NOCTER_E_WOULD_DEADLOCK);
                   STATUS(try_claim(service).status, NOCTER_EMPTY);
                   checked++;
                 })));
  own_id = other;
  ready.until_reached();
  const nocter_retirement_id queued = retire(own(service, closing([] {})));
  ready.open();
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, other, &wait).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(take(service, queued, &wait).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(checked.load(), 1);
  // A take of one that is queued behind this very worker slot.
  nocter_retirement_id behind = {};
  Gate again;
  nocter_resource_drop(own(service, closing([&] {
                             again.pass();
                             const nocter_wait longest = long_wait();
                             STATUS(take(service, behind, &longest).status, NOCTER_E_WOULD_DEADLOCK);
                             checked++;
                           })));
  again.until_reached();
  behind = retire(own(service, 1));
  again.open();
  BOOST_CHECK_EQUAL(take(service, behind, &wait).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(checked.load(), 2);
  nocter_permit_drop(spare);
}

BOOST_AUTO_TEST_CASE(r_20_with_a_second_worker_the_wait_is_allowed_and_ends, *label("R-20")) {
  Retirement service({.maximum_resources = 4, .workers = 2});
  Cleaners cleaners(service);
  std::atomic<int32_t> heard{-77};
  nocter_resource* const inner = own(service, 1);
  nocter_resource_drop(own(service, closing([&] {
                             const nocter_wait wait = long_wait();
                             heard = take(service, retire(inner), &wait).status;
                           })));
  BOOST_CHECK(eventually([&] { return heard.load() != -77; }));
  BOOST_CHECK_EQUAL(heard.load(), NOCTER_OK);
  until_drained(service);
}

BOOST_AUTO_TEST_CASE(gen_04_who_waits_is_woken_by_itself, *label("GEN-04") * label("GEN-07") * label("R-26")) {
  Retirement service({.maximum_resources = 2, .workers = 1});
  nocter_permit* const one = reserve(service);
  nocter_permit* const other = reserve(service);
  const nocter_epoch full = try_reserve(service).epoch;
  const nocter_wait wait = long_wait();
  Thread reserver([&] {
    nocter_epoch now;
    STATUS(nocter_retirement_wait_epoch(service, full, &wait, &now), NOCTER_OK);
    HOLDS(!nocter_epoch_equal(now, full));
    nocter_permit_drop(reserve(service));
  });
  Thread claimer([&] {
    const auto claimed = try_claim(service, &wait);
    if (STATUS(claimed.status, NOCTER_OK)) {
      HOLDS(begin(claimed.cleanup) == 9);
      complete(claimed.cleanup, 4);
    }
  });
  BOOST_CHECK(reserver.until_asleep());
  BOOST_CHECK(claimer.until_asleep());
  nocter_permit_drop(one);
  reserver.join();
  const nocter_retirement_id id = retire(attach(other, payload(9)));
  const auto taken = take(service, id, &wait);
  BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(taken.code, 4);
  claimer.join();
  // Deadlines and interrupts end a wait, and nothing is consumed by them.
  const nocter_retirement_id late = retire(own(service, 1));
  const nocter_wait poll = {1, nullptr, 0, 0};
  BOOST_CHECK_EQUAL(take(service, late, &poll).status, NOCTER_TIMEOUT);
  Interrupt interrupt;
  nocter_interrupt_raise(interrupt);
  const nocter_wait interrupted = wait_ms(kLimitMs, interrupt);
  BOOST_CHECK_EQUAL(take(service, late, &interrupted).status, NOCTER_INTERRUPTED);
  nocter_cleanup* const cleanup = claim(service);
  BOOST_CHECK_EQUAL(try_claim(service, &poll).status, NOCTER_TIMEOUT);
  BOOST_CHECK_EQUAL(try_claim(service, &interrupted).status, NOCTER_INTERRUPTED);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, &poll), NOCTER_TIMEOUT);
  nocter_cleanup_drop(cleanup);
  BOOST_CHECK_EQUAL(take(service, late, &interrupted).status, NOCTER_WORKER_LOST);  // what is there comes first
}

BOOST_AUTO_TEST_CASE(gen_04_the_notifiers_are_told_what_they_must_hear_scenario_24,
                     *label("GEN-04") * label("RET-08")) {
  Wakes waiters, work;
  Retirement service({.maximum_resources = 4, .workers = 1, .waiters = waiters.notifier(), .work = work.notifier()});
  nocter_permit_drop(reserve(service));
  BOOST_CHECK_EQUAL(waiters.count(), 1u);
  nocter_resource_drop(own(service, 1));  // nobody asked for work yet
  BOOST_CHECK_EQUAL(work.count(), 0u);
  BOOST_CHECK_EQUAL(waiters.count(), 1u);
  clean_one(service);
  BOOST_CHECK_EQUAL(waiters.count(), 2u);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  nocter_resource_drop(own(service, 2));
  BOOST_CHECK_EQUAL(work.count(), 1u);
  // One missed claim, one wake: the next drop finds nobody who must hear of it.
  nocter_resource* const third = own(service, 3);
  nocter_retirement_id id = retire(third);
  BOOST_CHECK_EQUAL(work.count(), 1u);
  nocter_cleanup* const cleanup = claim(service);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);  // the only worker slot is in use
  begin(cleanup);
  complete(cleanup);
  BOOST_CHECK_EQUAL(work.count(), 2u);
  BOOST_CHECK_EQUAL(waiters.count(), 3u);
  clean_one(service);
  BOOST_CHECK_EQUAL(waiters.count(), 4u);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(waiters.count(), 5u);
  id = retire(own(service, 4));
  BOOST_CHECK_EQUAL(nocter_retirement_detach(service, id), NOCTER_OK);  // still queued: nothing a waiter could want
  BOOST_CHECK_EQUAL(waiters.count(), 5u);
  clean_one(service);
  BOOST_CHECK_EQUAL(waiters.count(), 6u);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  nocter_retirement_close(service);
  BOOST_CHECK_EQUAL(waiters.count(), 7u);
  BOOST_CHECK_EQUAL(work.count(), 3u);  // a claim says CLOSED now
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_CLOSED);
  nocter_retirement_close(service);
  BOOST_CHECK_EQUAL(waiters.count(), 7u);
}

BOOST_AUTO_TEST_CASE(gen_04_the_last_permit_of_a_closed_service_ends_the_claims, *label("GEN-04") * label("RET-08")) {
  Wakes work;
  Retirement service({.maximum_resources = 4, .workers = 1, .work = work.notifier()});
  nocter_permit* const permit = reserve(service);
  nocter_retirement_close(service);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  const nocter_wait wait = long_wait();
  Thread one([&] { STATUS(try_claim(service, &wait).status, NOCTER_CLOSED); });
  Thread other([&] { STATUS(try_claim(service, &wait).status, NOCTER_CLOSED); });
  BOOST_CHECK(one.until_asleep());
  BOOST_CHECK(other.until_asleep());
  nocter_permit_drop(permit);
  one.join();
  other.join();
  BOOST_CHECK_EQUAL(work.count(), 1u);
}

BOOST_AUTO_TEST_CASE(gen_05_inside_a_notifier_queries_answer_and_lifecycle_calls_are_refused_scenario_26,
                     *label("GEN-05") * label("GEN-04")) {
  struct Host {
    nocter_retirement* service = nullptr;
    nocter_retirement_id id = {};
    nocter_resource* given_up = nullptr;
    nocter_permit* permit = nullptr;
    nocter_resource* kept = nullptr;
    nocter_cleanup* cleanup = nullptr;
    int turns = 0;
    static void wake(void* user) {
      Host& host = *static_cast<Host*>(user);
      if (host.turns++ != 0) return;
      nocter_retirement* const service = host.service;
      counts_of(service);
      epoch_of(service);
      HOLDS(state_of(service, host.id) == NOCTER_RETIREMENT_COMPLETED);
      nocter_permit* permit = nullptr;
      nocter_epoch epoch;
      nocter_cleanup* cleanup = nullptr;
      nocter_retirement_id id;
      nocter_workers* workers = nullptr;
      STATUS(nocter_retirement_reserve(service, &permit, &epoch), NOCTER_E_REENTRANT);
      STATUS(nocter_retirement_claim(service, nullptr, &cleanup), NOCTER_E_REENTRANT);
      STATUS(take(service, host.id).status, NOCTER_E_REENTRANT);
      STATUS(nocter_retirement_detach(service, host.id), NOCTER_E_REENTRANT);
      STATUS(nocter_retirement_wait_epoch(service, epoch_of(service), nullptr, &epoch), NOCTER_E_REENTRANT);
      STATUS(nocter_retirement_drained(service, nullptr), NOCTER_E_REENTRANT);
      STATUS(nocter_retirement_serve(service, nullptr, &workers), NOCTER_E_REENTRANT);
      STATUS(nocter_resource_retire(host.kept, &id), NOCTER_E_REENTRANT);
      STATUS(nocter_cleanup_complete(host.cleanup, 0), NOCTER_E_REENTRANT);
      // What cannot fail is carried out; its wake becomes one more turn.
      nocter_resource_drop(host.given_up);
      host.kept = attach(host.permit, payload(7));
      nocter_cleanup_drop(host.cleanup);
      nocter_retirement_detach_all(service);
      nocter_retirement_close(service);
      HOLDS(host.turns == 1);
      HOLDS(counts_of(service).queued == 1 && counts_of(service).completed == 0 && counts_of(service).accepting == 0);
    }
  } host;
  Retirement service({.maximum_resources = 8, .workers = 2, .waiters = {Host::wake, nullptr, &host}});
  host.service = service;
  host.turns = 1;
  host.id = retire(own(service, 1));
  nocter_cleanup* const first = claim(service);
  host.given_up = own(service, 2);
  nocter_resource* const before = own(service, 3);
  host.kept = before;
  host.permit = reserve(service);
  nocter_resource_drop(own(service, 4));
  host.cleanup = claim(service);
  STATUS(nocter_cleanup_complete(host.cleanup, 0), NOCTER_E_STATE);
  nocter_owned value;
  STATUS(nocter_cleanup_begin(host.cleanup, &value), NOCTER_OK);
  discard(value);
  begin(first);
  host.turns = 0;
  complete(first);
  BOOST_CHECK_EQUAL(host.turns, 2);
  nocter_resource_drop(host.kept);
  nocter_resource_drop(before);
  for (int i = 0; i < 3; i++) clean_one(service);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
}

BOOST_AUTO_TEST_CASE(rsc_02_a_start_hook_that_fails_leaves_no_thread, *label("RSC-02")) {
  Retirement service({.maximum_resources = 2, .workers = 2});
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.start = [](void*) -> nocter_status { return NOCTER_E_LIMIT; };
  nocter_workers* workers = nullptr;
  const size_t before = thread_count();
  BOOST_CHECK_EQUAL(nocter_retirement_serve(service, &options, &workers), NOCTER_E_LIMIT);
  BOOST_CHECK(workers == nullptr);
  BOOST_CHECK(eventually([&] { return thread_count() == before; }));
  // They do not count as serving: after destroy whoever drops cleans.
  nocter_resource* const resource = own(service, 1);
  service.destroy();
  nocter_resource_drop(resource);
  BOOST_CHECK_EQUAL(Ledger::live(), 0u);
}

BOOST_AUTO_TEST_CASE(r_27_an_owner_in_a_cancelled_job_is_always_cleaned_scenario_35,
                     *label("R-27") * label("R-1") * label("GEN-01")) {
  Retirement service({.maximum_resources = 8, .workers = 1});
  Service blocking({.maximum_jobs = 8, .workers = 1});
  const auto as_value = [&](uint64_t value) {
    return nocter_owned{own(service, value),
                        [](void* data) { nocter_resource_drop(static_cast<nocter_resource*>(data)); }};
  };
  const auto submit_owner = [&](uint64_t value) {
    nocter_owned input = as_value(value);
    return submit(blocking, input).id;
  };
  nocter_job_state was;
  // Queued: the input comes back to the canceller, or ends there.
  const nocter_job_id queued = submit_owner(1);
  STATUS(nocter_blocking_cancel(blocking, queued, &was, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(clean_one(service), 1u);
  // Running: it goes where the job goes, and the output nobody wants ends with the job.
  const nocter_job_id running = submit_owner(2);
  nocter_owned input;
  nocter_completion* completion = nullptr;
  STATUS(nocter_running_job_begin(nocter_tests::claim(blocking), &input, &completion), NOCTER_OK);
  STATUS(nocter_blocking_cancel(blocking, running, &was, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  STATUS(nocter_completion_complete(completion, &input), NOCTER_OK);
  BOOST_CHECK_EQUAL(clean_one(service), 2u);
  // Completed: the output ends with the canceller.
  const nocter_job_id completed = submit_owner(3);
  STATUS(nocter_running_job_begin(nocter_tests::claim(blocking), &input, &completion), NOCTER_OK);
  STATUS(nocter_completion_complete(completion, &input), NOCTER_OK);
  STATUS(nocter_blocking_cancel(blocking, completed, &was, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(clean_one(service), 3u);
  // Never claimed: with the service.
  submit_owner(4);
  nocter_permit* const permit = reserve(service);
  input = {permit, [](void* data) { nocter_permit_drop(static_cast<nocter_permit*>(data)); }};
  BOOST_CHECK_EQUAL(submit(blocking, input).status, NOCTER_OK);
  blocking.destroy();
  BOOST_CHECK_EQUAL(clean_one(service), 4u);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
  BOOST_CHECK_EQUAL(counts_of(service).permits_dropped, 1u);
}

BOOST_AUTO_TEST_CASE(ret_01_two_services_that_wake_each_other, *label("RET-01") * label("GEN-04") * label("FFI-13")) {
  // A cleanup that submits a job, a job that gives up a resource, each with notifiers that look at the other service.
  struct Pair {
    nocter_retirement* retirement = nullptr;
    nocter_blocking* blocking = nullptr;
    std::atomic<uint64_t> looks{0};
    std::atomic<bool> over{false};
    static void look_at_blocking(void* user) {
      Pair& pair = *static_cast<Pair*>(user);
      if (pair.over.load()) return;
      pair.looks++;
      nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
      STATUS(nocter_blocking_count(pair.blocking, &counts), NOCTER_OK);
    }
    static void look_at_retirement(void* user) {
      Pair& pair = *static_cast<Pair*>(user);
      if (pair.over.load()) return;
      pair.looks++;
      counts_of(pair.retirement);
    }
  } pair;
  constexpr uint64_t kTurns = 2'000;
  Service blocking({.maximum_jobs = kTurns + 1, .workers = 1, .waiters = {Pair::look_at_retirement, nullptr, &pair}});
  Retirement service({.maximum_resources = 16, .workers = 1, .waiters = {Pair::look_at_blocking, nullptr, &pair}});
  pair.blocking = blocking;
  pair.retirement = service;
  std::atomic<uint64_t> cleanups{0}, jobs{0};
  const auto resource = [&] {
    return closing([&] {
      cleanups++;
      nocter_owned input = {};
      nocter_job_id id;
      nocter_epoch epoch;
      STATUS(nocter_blocking_submit(blocking, &input, &id, &epoch), NOCTER_OK);
    });
  };
  Cleaners cleaners(service);
  Runner runner(blocking, [&](nocter_owned&, nocter_owned&, nocter_completion*) {
    if (++jobs < kTurns) nocter_resource_drop(own(service, resource()));
  });
  nocter_resource_drop(own(service, resource()));
  const nocter_wait wait = long_wait();
  for (uint64_t taken = 0; taken < kTurns;) {
    std::array<nocter_job_id, 16> ids;
    size_t count = 0;
    BOOST_REQUIRE_EQUAL(nocter_blocking_completed(blocking, ids.data(), ids.size(), &count), NOCTER_OK);
    for (size_t i = 0; i < count; i++) BOOST_CHECK_EQUAL(take(blocking, ids.at(i), &wait).status, NOCTER_OK);
    taken += count;
    if (count == 0) std::this_thread::yield();
  }
  BOOST_CHECK_EQUAL(cleanups.load(), kTurns);
  BOOST_CHECK_EQUAL(jobs.load(), kTurns);
  until_drained(service);
  BOOST_CHECK_GT(pair.looks.load(), kTurns);
  pair.over.store(true);
}

BOOST_AUTO_TEST_SUITE_END()
