// Notifiers: who is told of what, how often, and what may be called inside one. GEN-04, GEN-05, FFI-13.
#include <nocter.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

// A notifier that runs whatever the test wants to be run inside.
struct Inside {
  std::function<void()> run;
  int turns = 0, depth = 0, deepest = 0, drops = 0;
  nocter_notifier notifier() {
    return {[](void* user) {
              Inside& self = *static_cast<Inside*>(user);
              self.turns++;
              self.deepest = std::max(self.deepest, ++self.depth);
              if (self.run) self.run();
              self.depth--;
            },
            [](void* user) { static_cast<Inside*>(user)->drops++; }, this};
  }
};

nocter_status publish(nocter_signal* signal) { return nocter_signal_publish(signal, nullptr); }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(notifier_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_04_each_transition_wakes_as_often_as_it_must_scenario_10, *label("GEN-04")) {
  Wakes waiters;
  Service service({.maximum_jobs = 4, .workers = 2, .waiters = waiters.notifier()});
  const nocter_job_id first = accept(service, 1), second = accept(service, 2);
  const Begun begun = claim_and_begin(service);
  BOOST_CHECK_EQUAL(waiters.count(), 0u);  // neither submit nor claim nor begin is news to a waiter
  complete(begun.completion, 0);
  BOOST_CHECK_EQUAL(waiters.count(), 1u);
  take(service, first);
  BOOST_CHECK_EQUAL(waiters.count(), 2u);
  nocter_running_job* const job = claim(service);
  cancel(service, second);
  BOOST_CHECK_EQUAL(waiters.count(), 2u);  // the canceller knows, and no slot came free
  nocter_running_job_drop(job);
  BOOST_CHECK_EQUAL(waiters.count(), 3u);
}

BOOST_AUTO_TEST_CASE(gen_04_every_freed_slot_and_every_end_is_told, *label("GEN-04")) {
  Wakes waiters;
  Service service({.maximum_jobs = 4, .workers = 2, .waiters = waiters.notifier()});
  uint64_t turns = 0;
  const auto one_more = [&] { return waiters.count() == ++turns; };
  cancel(service, accept(service, 1));
  BOOST_CHECK(one_more());  // queued, cancelled
  nocter_job_id id = accept(service, 2);
  nocter_completion_drop(claim_and_begin(service).completion);
  BOOST_CHECK(one_more());  // lost
  cancel(service, id);
  BOOST_CHECK(one_more());  // completed, cancelled
  id = accept(service, 3);
  nocter_running_job_drop(claim(service));
  BOOST_CHECK(one_more());  // lost, unbegun
  take(service, id);
  BOOST_CHECK(one_more());
  accept(service, 4);
  const Begun running = claim_and_begin(service);
  accept(service, 5);
  shut_down(service);
  BOOST_CHECK(one_more());  // once for the call
  shut_down(service);
  BOOST_CHECK_EQUAL(waiters.count(), turns);
  complete(running.completion, 0);
  turns++;                  // abandoned, completed: its slot came free
  BOOST_CHECK(one_more());  // its output was dropped: drained
}

BOOST_AUTO_TEST_CASE(gen_04_refused_calls_and_queries_wake_nobody, *label("GEN-04")) {
  Wakes waiters, work;
  Service service({.maximum_jobs = 1, .workers = 1, .waiters = waiters.notifier(), .work = work.notifier()});
  const nocter_job_id id = accept(service, 1);
  refuse(service, NOCTER_SATURATED);
  const Begun begun = claim_and_begin(service);
  take(service, id);
  state_of(service, id);
  counts_of(service);
  epoch_of(service);
  cancel(service, {id.service, id.sequence + 1});
  BOOST_CHECK_EQUAL(waiters.count() + work.count(), 0u);
  complete(begun.completion, 0);
}

BOOST_AUTO_TEST_CASE(gen_04_b_35_b_36_the_work_notifier_tells_a_claimer_that_found_nothing,
                     *label("GEN-04") * label("BLK-14")) {
  Wakes work;
  Service service({.maximum_jobs = 4, .workers = 1, .work = work.notifier()});
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  accept(service, 1);
  BOOST_CHECK_EQUAL(work.count(), 1u);
  nocter_running_job* const job = claim(service);
  accept(service, 2);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);  // every worker slot in use
  const uint64_t turns = work.count();
  nocter_running_job_drop(job);
  BOOST_CHECK_EQUAL(work.count(), turns + 1);
  run_one(service, 0);
}

BOOST_AUTO_TEST_CASE(gen_04_b_36_an_abandoned_guards_end_tells_a_claimer_too, *label("GEN-04")) {
  Wakes work;
  Service service({.maximum_jobs = 4, .workers = 1, .work = work.notifier()});
  const nocter_job_id id = accept(service, 1);
  nocter_running_job* const job = claim(service);
  accept(service, 2);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  cancel(service, id);
  const uint64_t turns = work.count();
  nocter_running_job_drop(job);
  BOOST_CHECK_EQUAL(work.count(), turns + 1);
}

BOOST_AUTO_TEST_CASE(gen_04_shutdown_tells_the_claimers, *label("GEN-04") * label("BLK-11")) {
  Wakes work;
  Service service({.work = work.notifier()});
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  shut_down(service);
  BOOST_CHECK_EQUAL(work.count(), 1u);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_CLOSED);
}

BOOST_AUTO_TEST_CASE(gen_04_a_claimer_driven_by_the_work_notifier_alone_runs_every_job,
                     *label("GEN-04") * label("BLK-14")) {
  Signal work;
  Service service({.maximum_jobs = 8, .workers = 2, .work = nocter_signal_notifier(work)});
  const uint64_t total = rounds(30'000, 3'000);
  // Two claimers that sleep on the signal and never wait inside claim.
  const auto claimer = [&] {
    for (;;) {
      const uint64_t seen = nocter_signal_version(work);
      const Claimed claimed = try_claim(service);
      if (claimed.status == NOCTER_OK) {
        const Begun begun = begin(claimed.job);
        complete(begun.completion, begun.value);
      } else if (claimed.status == NOCTER_EMPTY) {
        const nocter_wait wait = long_wait();
        uint64_t version = 0;
        if (!STATUS(nocter_signal_wait(work, seen, &wait, &version), NOCTER_OK)) return;
      } else {
        STATUS(claimed.status, NOCTER_CLOSED);
        return;
      }
    }
  };
  Thread one(claimer), two(claimer);
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < total; i++) {
    const nocter_job_id id = accept(service, i);
    if (i % 3 == 0) {
      const nocter_job_id other = accept(service, i);
      BOOST_REQUIRE_EQUAL(take(service, other, &wait).value, i);
    }
    BOOST_REQUIRE_EQUAL(take(service, id, &wait).value, i);
  }
  shut_down(service);
}

BOOST_AUTO_TEST_CASE(gen_05_queries_work_inside_and_lifecycle_calls_are_reentrant, *label("GEN-05") * label("FFI-13")) {
  Inside inside, inside_work;
  Service service({.maximum_jobs = 4, .workers = 2, .waiters = inside.notifier(), .work = inside_work.notifier()});
  const nocter_job_id completed = accept(service, 1);
  const nocter_job_id queued = accept(service, 3);
  bool tried = false;
  nocter_completion* running = nullptr;
  const auto try_everything = [&] {
    tried = true;
    // Queries.
    HOLDS(state_of(service, queued) == NOCTER_JOB_QUEUED);
    const nocter_blocking_counts before = counts_of(service);
    epoch_of(service);
    HOLDS(nocter_job_id_equal(queued, queued));
    // Lifecycle calls.
    const nocter_wait forever = wait_ms(-1);
    nocter_owned input = payload(9);
    STATUS(submit(service, input).status, NOCTER_E_REENTRANT);
    discard(input);
    STATUS(try_claim(service).status, NOCTER_E_REENTRANT);
    STATUS(try_claim(service, &forever).status, NOCTER_E_REENTRANT);
    STATUS(take(service, completed).status, NOCTER_E_REENTRANT);
    STATUS(cancel(service, queued).status, NOCTER_E_REENTRANT);
    nocter_epoch out = {};
    STATUS(nocter_blocking_wait_epoch(service, epoch_of(service), &forever, &out), NOCTER_E_REENTRANT);
    STATUS(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_E_REENTRANT);
    STATUS(nocter_blocking_drained(service, nullptr), NOCTER_E_REENTRANT);
    nocter_job_id ids[2];
    size_t count = 7;
    STATUS(nocter_blocking_completed(service, ids, 2, &count), NOCTER_E_REENTRANT);
    HOLDS(count == 0);
    nocter_workers* workers = nullptr;
    STATUS(nocter_blocking_serve(
               service, [](void*, nocter_owned*, nocter_owned*, nocter_completion*) {}, nullptr, nullptr, &workers),
           NOCTER_E_REENTRANT);
    HOLDS(workers == nullptr);
    if (running != nullptr) {
      nocter_owned output = payload(8);
      const nocter_owned kept = output;
      STATUS(nocter_completion_complete(running, &output), NOCTER_E_REENTRANT);
      HOLDS(same(output, kept));
      discard(output);
      HOLDS(!nocter_completion_abandoned(running));
    }
    // And nothing was changed.
    const nocter_blocking_counts after = counts_of(service);
    HOLDS(after.accepted == before.accepted && after.queued == before.queued && after.running == before.running &&
          after.completed == before.completed && after.epoch == before.epoch && after.accepting == 1);
  };
  // Inside the waiters' notifier.
  nocter_running_job* const first = claim(service);
  const Begun begun = begin(first);
  inside.run = try_everything;
  complete(begun.completion, 2);
  BOOST_CHECK(tried);
  inside.run = nullptr;
  // Inside the notifier for work, with a running job of the same service at hand.
  const Begun second = claim_and_begin(service);
  const nocter_job_id third = accept(service, 4);
  running = second.completion;
  BOOST_CHECK_EQUAL(cancel(service, third).status, NOCTER_OK);
  const nocter_job_id fourth = accept(service, 4);
  nocter_running_job* const fourth_job = claim(service);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  tried = false;
  bool seen = false;
  inside_work.run = [&] {
    seen = true;
    const nocter_blocking_counts before = counts_of(service);
    nocter_owned input = payload(9);
    STATUS(submit(service, input).status, NOCTER_E_REENTRANT);
    discard(input);
    STATUS(try_claim(service).status, NOCTER_E_REENTRANT);
    nocter_owned output = payload(8);
    STATUS(nocter_completion_complete(running, &output), NOCTER_E_REENTRANT);
    discard(output);
    HOLDS(counts_of(service).running == before.running);
  };
  accept(service, 5);  // a worker slot is in use each; the next end tells the claimer that missed
  nocter_running_job_drop(fourth_job);
  BOOST_CHECK(seen);
  inside_work.run = nullptr;
  complete(second.completion, 0);
  BOOST_CHECK_EQUAL(take(service, fourth).status, NOCTER_WORKER_LOST);
}

BOOST_AUTO_TEST_CASE(gen_05_drops_inside_are_carried_out_and_become_one_more_turn, *label("GEN-05") * label("BLK-06")) {
  Inside inside;
  Service service({.maximum_jobs = 8, .workers = 4, .waiters = inside.notifier()});
  for (uint64_t i = 0; i < 4; i++) accept(service, i);
  std::vector<nocter_running_job*> unbegun = {claim(service), claim(service)};
  nocter_completion* const begun = claim_and_begin(service).completion;
  const Begun trigger = claim_and_begin(service);
  inside.run = [&] {
    if (inside.turns != 1) return;
    nocter_running_job_drop(unbegun[0]);
    nocter_running_job_drop(unbegun[1]);
    nocter_completion_drop(begun);
    HOLDS(counts_of(service).completed == 4);
  };
  complete(trigger.completion, 0);
  BOOST_CHECK_EQUAL(inside.turns, 2);  // the three wakes collapsed into one more turn
  BOOST_CHECK_EQUAL(inside.deepest, 1);
  BOOST_CHECK_EQUAL(counts_of(service).completed_lost, 3u);
}

BOOST_AUTO_TEST_CASE(gen_05_destroy_inside_is_carried_out, *label("GEN-05") * label("BLK-11")) {
  Inside inside;
  Service service({.maximum_jobs = 2, .workers = 2, .waiters = inside.notifier()});
  const nocter_job_id id = accept(service, 1);
  accept(service, 2);
  const Begun begun = claim_and_begin(service);
  (void)id;
  inside.run = [&] {
    if (inside.turns == 1) service.destroy();
  };
  complete(begun.completion, 0);
  BOOST_CHECK_EQUAL(inside.deepest, 1);
  BOOST_CHECK_EQUAL(inside.turns, 2);
  BOOST_CHECK_EQUAL(inside.drops, 1);
}

BOOST_AUTO_TEST_CASE(gen_05_another_services_calls_work_inside, *label("GEN-05") * label("FFI-13")) {
  Service other;
  Inside inside;
  Service service({.waiters = inside.notifier()});
  nocter_job_id of_other = {};
  inside.run = [&] {
    of_other = accept(other, 7);
    run_one(other, 8);
  };
  accept(service, 1);
  run_one(service, 2);
  BOOST_CHECK_EQUAL(inside.turns, 1);
  BOOST_CHECK_EQUAL(take(other, of_other).value, 8u);
}

BOOST_AUTO_TEST_CASE(gen_05_two_services_that_wake_each_other_do_not_recurse, *label("GEN-05") * label("FFI-13")) {
  Inside of_one, of_two;
  Service one({.waiters = of_one.notifier()}), two({.waiters = of_two.notifier()});
  const auto make_news = [](nocter_blocking* service) {
    nocter_owned input = payload(0);
    const nocter_status status = submit(service, input).status;
    if (status == NOCTER_OK) {
      nocter_running_job* job = nullptr;
      if (nocter_blocking_claim(service, nullptr, &job) == NOCTER_OK) nocter_running_job_drop(job);
    } else {
      discard(input);
    }
    return status;
  };
  std::vector<nocter_running_job*> of_one_running;
  accept(one, 1);
  of_one_running.push_back(claim(one));
  of_one.run = [&] {
    if (of_one.turns <= 3) STATUS(make_news(two), NOCTER_OK);
  };
  of_two.run = [&] {
    // Back inside the notifier of `one`: its lifecycle calls are refused, its drops carried out.
    if (of_two.turns == 1) {
      STATUS(make_news(one), NOCTER_E_REENTRANT);
      nocter_running_job_drop(of_one_running[0]);
    }
  };
  accept(one, 2);
  nocter_running_job_drop(claim(one));
  BOOST_CHECK_EQUAL(of_one.deepest, 1);
  BOOST_CHECK_EQUAL(of_two.deepest, 1);
  BOOST_CHECK_EQUAL(of_one.turns, 2);
  BOOST_CHECK_EQUAL(of_two.turns, 2);
  of_one.run = of_two.run = nullptr;  // the services end one after the other, and tell so
}

BOOST_AUTO_TEST_CASE(gen_05_no_lock_is_held_another_thread_gets_through, *label("GEN-05")) {
  Inside inside;
  Service service({.waiters = inside.notifier()});
  const nocter_job_id id = accept(service, 1);
  accept(service, 3);
  inside.run = [&] {
    if (inside.turns > 1) return;
    Thread other([&] {
      counts_of(service);
      accept(service, 4);
      STATUS(state_of(service, id), NOCTER_JOB_COMPLETED);
    });
  };
  run_one(service, 2);
  BOOST_CHECK_EQUAL(inside.turns, 1);
}

BOOST_AUTO_TEST_CASE(gen_05_drop_functions_run_without_a_lock_and_may_call_the_service,
                     *label("GEN-05") * label("GEN-01")) {
  Service service({.maximum_jobs = 4, .workers = 2});
  struct Probe {
    nocter_blocking* service;
    int runs;
  } probe = {service, 0};
  const auto drop = [](void* data) {
    Probe& p = *static_cast<Probe*>(data);
    p.runs++;
    counts_of(p.service);
    // Not inside a notifier: lifecycle calls are open.
    const nocter_job_id id = accept(p.service, 1);
    STATUS(cancel(p.service, id).status, NOCTER_OK);
  };
  nocter_owned input = {&probe, drop};
  nocter_job_state was = 0;
  BOOST_CHECK_EQUAL(nocter_blocking_cancel(service, submit(service, input).id, &was, nullptr), NOCTER_OK);
  input = {&probe, drop};
  submit(service, input);
  nocter_running_job_drop(claim(service));
  input = {&probe, drop};
  const nocter_job_id id = submit(service, input).id;
  nocter_owned out = {};
  nocter_completion* completion = nullptr;
  BOOST_CHECK_EQUAL(nocter_running_job_begin(claim(service), &out, &completion), NOCTER_OK);
  cancel(service, id);
  BOOST_CHECK_EQUAL(nocter_completion_complete(completion, &out), NOCTER_OK);
  BOOST_CHECK_EQUAL(probe.runs, 3);
}

BOOST_AUTO_TEST_CASE(gen_10_exceptions_out_of_notifiers_and_drops_are_swallowed_and_counted_scenario_154,
                     *label("GEN-10") * label("FFI-06")) {
  nocter_notifier throwing = {[](void*) { throw std::runtime_error("a notifier"); }, nullptr, nullptr};
  Service service({.maximum_jobs = 2, .workers = 1, .waiters = throwing});
  const nocter_job_id id = accept(service, 1);
  run_one(service, 2);
  BOOST_CHECK_EQUAL(counts_of(service).exceptions, 1u);
  BOOST_CHECK_EQUAL(take(service, id).value, 2u);
  BOOST_CHECK_EQUAL(counts_of(service).exceptions, 2u);
  // Throwing drops, one of them not of a class of the standard library.
  nocter_owned input = {&throwing, [](void*) { throw 17; }};
  nocter_job_state was = 0;
  BOOST_CHECK_EQUAL(nocter_blocking_cancel(service, submit(service, input).id, &was, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(service).exceptions, 4u);
  input = {&throwing, [](void*) { throw std::runtime_error("a drop"); }};
  const nocter_job_id lost = submit(service, input).id;
  nocter_running_job_drop(claim(service));
  BOOST_CHECK_EQUAL(take(service, lost).status, NOCTER_WORKER_LOST);
  accept(service, 3);
  run_one(service, 4);  // the only worker is free
}

BOOST_AUTO_TEST_CASE(gen_10_a_throwing_drop_of_a_notifier_does_not_get_out, *label("GEN-10")) {
  Service service({.waiters = {nullptr, [](void*) { throw std::runtime_error("the end"); }, nullptr}});
  BOOST_CHECK_NO_THROW(service.destroy());
}

BOOST_AUTO_TEST_CASE(gen_10_a_throwing_sink_of_a_shutdown_does_not_get_out, *label("GEN-10") * label("GEN-01")) {
  Service service;
  for (uint64_t i = 0; i < 3; i++) accept(service, i);
  const nocter_blocking_sink throwing = [](void*, nocter_job_state, nocter_owned*) {
    throw std::runtime_error("a sink");
  };
  nocter_status status = NOCTER_E_INTERNAL;
  BOOST_CHECK_NO_THROW(status = nocter_blocking_shutdown(service, throwing, nullptr));
  BOOST_CHECK_EQUAL(status, NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_blocking_drained(service, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(Ledger::created(), Ledger::dropped());
}

BOOST_AUTO_TEST_CASE(gen_04_b_33_a_notifier_is_dropped_once_when_the_service_lets_go,
                     *label("GEN-04") * label("GEN-01")) {
  Wakes waiters, work;
  {
    Service service({.waiters = waiters.notifier(), .work = work.notifier()});
    accept(service, 1);
    shut_down(service);
    BOOST_CHECK_EQUAL(waiters.drops + work.drops, 0u);
  }
  BOOST_CHECK_EQUAL(waiters.drops, 1u);
  BOOST_CHECK_EQUAL(work.drops, 1u);
}

BOOST_AUTO_TEST_CASE(gen_04_a_signal_as_notifier_wakes_a_waiter_that_looks_by_identity,
                     *label("GEN-04") * label("BLK-12")) {
  Signal news;
  Service service({.waiters = nocter_signal_notifier(news)});
  const nocter_job_id id = accept(service, 1);
  Thread worker([&] {
    pause_ms(5);
    run_one(service, 6);
  });
  Taken taken = {NOCTER_PENDING, 0};
  while (taken.status == NOCTER_PENDING) {
    const uint64_t seen = nocter_signal_version(news);
    taken = take(service, id);
    if (taken.status != NOCTER_PENDING) break;
    const nocter_wait wait = long_wait();
    uint64_t version = 0;
    BOOST_REQUIRE_EQUAL(nocter_signal_wait(news, seen, &wait, &version), NOCTER_OK);
  }
  BOOST_CHECK_EQUAL(taken.value, 6u);
  BOOST_CHECK_EQUAL(publish(news), NOCTER_OK);
}

BOOST_AUTO_TEST_SUITE_END()
