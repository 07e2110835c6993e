// Interrupts: a flag that ends every wait which carries it. GEN-07, and the interrupt of each job.
#include <nocter.h>
#include <pthread.h>
#include <signal.h>

#include <deque>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

std::atomic<nocter_interrupt*> raised_by_handler{nullptr};
extern "C" void raise_in_handler(int) { nocter_interrupt_raise(raised_by_handler.load()); }

nocter_status wait_unchanged(nocter_signal* signal, const nocter_wait& wait) {
  uint64_t version = 0;
  return nocter_signal_wait(signal, 1, &wait, &version);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(interrupt_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_07_raised_from_a_raise_to_the_next_clear, *label("GEN-07")) {
  Interrupt interrupt;
  BOOST_CHECK(!nocter_interrupt_raised(interrupt));
  nocter_interrupt_raise(interrupt);
  BOOST_CHECK(nocter_interrupt_raised(interrupt));
  nocter_interrupt_raise(interrupt);
  BOOST_CHECK(nocter_interrupt_raised(interrupt));
  nocter_interrupt_clear(interrupt);
  BOOST_CHECK(!nocter_interrupt_raised(interrupt));
}

BOOST_AUTO_TEST_CASE(gen_07_null_is_no_interrupt, *label("GEN-07")) {
  nocter_interrupt_raise(nullptr);
  nocter_interrupt_clear(nullptr);
  nocter_interrupt_destroy(nullptr);
  BOOST_CHECK(!nocter_interrupt_raised(nullptr));
  BOOST_CHECK_EQUAL(nocter_interrupt_create(nullptr), NOCTER_E_ARGUMENT);
}

BOOST_AUTO_TEST_CASE(gen_07_one_raise_ends_all_64_waits_that_carry_it, *label("GEN-07")) {
  Signal signal;
  Interrupt interrupt;
  std::deque<Thread> waiters;
  for (int i = 0; i < 64; i++) {
    waiters.emplace_back([&] { STATUS(wait_unchanged(signal, wait_ms(kLimitMs, interrupt)), NOCTER_INTERRUPTED); });
  }
  for (Thread& waiter : waiters) BOOST_CHECK(waiter.until_asleep());
  nocter_interrupt_raise(interrupt);
}

BOOST_AUTO_TEST_CASE(gen_07_a_cleared_interrupt_ends_no_wait, *label("GEN-07")) {
  Signal signal;
  Interrupt interrupt;
  nocter_interrupt_raise(interrupt);
  nocter_interrupt_clear(interrupt);
  BOOST_CHECK_EQUAL(wait_unchanged(signal, wait_ms(20, interrupt)), NOCTER_TIMEOUT);
}

BOOST_AUTO_TEST_CASE(gen_07_a_wait_without_the_interrupt_is_left_alone, *label("GEN-07")) {
  Signal signal;
  Interrupt mine, other;
  nocter_interrupt_raise(other);
  BOOST_CHECK_EQUAL(wait_unchanged(signal, wait_ms(20, mine)), NOCTER_TIMEOUT);
}

BOOST_AUTO_TEST_CASE(gen_07_an_interrupt_ends_each_kind_of_wait, *label("GEN-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  const nocter_epoch epoch = epoch_of(service);
  const Begun begun = claim_and_begin(service);
  // Once with the interrupt raised before, once with a sleeping thread.
  const auto interrupted = [](auto call) {
    Interrupt interrupt;
    nocter_interrupt_raise(interrupt);
    const nocter_wait wait = wait_ms(kLimitMs, interrupt);
    STATUS(call(&wait), NOCTER_INTERRUPTED);
    nocter_interrupt_clear(interrupt);
    Thread waiter([&] { STATUS(call(&wait), NOCTER_INTERRUPTED); });
    HOLDS(waiter.until_asleep());
    nocter_interrupt_raise(interrupt);
  };
  interrupted([&](const nocter_wait* wait) { return try_claim(service, wait).status; });
  interrupted([&](const nocter_wait* wait) { return take(service, id, wait).status; });
  interrupted([&](const nocter_wait* wait) {
    nocter_epoch out = {};
    const nocter_status status = nocter_blocking_wait_epoch(service, epoch, wait, &out);
    HOLDS(nocter_epoch_equal(out, epoch));
    return status;
  });
  shut_down(service);
  interrupted([&](const nocter_wait* wait) { return nocter_blocking_drained(service, wait); });
  complete(begun.completion, 2);
  BOOST_CHECK_EQUAL(nocter_blocking_drained(service, nullptr), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(gen_07_an_interrupt_ends_the_wait_for_workers, *label("GEN-07")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  Signal gate;
  nocter_workers* workers = nullptr;
  const auto run = [](void* user, nocter_owned*, nocter_owned*, nocter_completion*) {
    const nocter_wait wait = long_wait();
    uint64_t version = 0;
    STATUS(nocter_signal_wait(static_cast<nocter_signal*>(user), 1, &wait, &version), NOCTER_OK);
  };
  BOOST_REQUIRE_EQUAL(nocter_blocking_serve(service, run, gate, nullptr, &workers), NOCTER_OK);
  const nocter_job_id id = accept(service, 1);
  BOOST_REQUIRE(eventually([&] { return state_of(service, id) == NOCTER_JOB_RUNNING; }));
  Interrupt interrupt;
  const nocter_wait wait = wait_ms(kLimitMs, interrupt);
  Thread stopper([&] { STATUS(nocter_workers_stop(workers, &wait), NOCTER_INTERRUPTED); });
  BOOST_CHECK(stopper.until_asleep());
  nocter_interrupt_raise(interrupt);
  stopper.join();
  nocter_signal_publish(gate, nullptr);
  nocter_workers_destroy(workers);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(gen_07_an_outcome_is_reported_before_a_raised_interrupt, *label("GEN-07")) {
  Service service({.maximum_jobs = 2, .workers = 1});
  Interrupt interrupt;
  nocter_interrupt_raise(interrupt);
  const nocter_wait wait = wait_ms(-1, interrupt);
  const nocter_epoch before = epoch_of(service);
  const nocter_job_id id = accept(service, 1);
  const Claimed claimed = try_claim(service, &wait);
  BOOST_REQUIRE_EQUAL(claimed.status, NOCTER_OK);
  complete(begin(claimed.job).completion, 5);
  const Taken taken = take(service, id, &wait);
  BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(taken.value, 5u);
  nocter_epoch now = {};
  BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(service, before, &wait, &now), NOCTER_OK);
  shut_down(service);
  BOOST_CHECK_EQUAL(nocter_blocking_drained(service, &wait), NOCTER_OK);
  BOOST_CHECK_EQUAL(try_claim(service, &wait).status, NOCTER_CLOSED);
  BOOST_CHECK(nocter_interrupt_raised(interrupt));
}

BOOST_AUTO_TEST_CASE(gen_07_a_signal_handler_may_raise, *label("GEN-07") * label("FFI-12")) {
  Signal signal;
  Interrupt interrupt;
  raised_by_handler.store(interrupt);
  struct sigaction action = {}, before;
  action.sa_handler = raise_in_handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &before);
  {
    // Both on the waiting thread itself and on another one.
    for (const bool itself : {true, false}) {
      if (itself && kHandlersWait) continue;
      nocter_interrupt_clear(interrupt);
      Thread waiter([&] { STATUS(wait_unchanged(signal, wait_ms(kLimitMs, interrupt)), NOCTER_INTERRUPTED); });
      BOOST_CHECK(waiter.until_asleep());
      pthread_kill(itself ? waiter.handle() : pthread_self(), SIGUSR1);
    }
  }
  sigaction(SIGUSR1, &before, nullptr);
}

BOOST_AUTO_TEST_CASE(gen_07_raise_races_the_start_of_a_wait, *label("GEN-07")) {
  Signal signal;
  for (uint64_t i = 0; i < rounds(3'000, 500); i++) {
    Interrupt interrupt;
    StartLine start(2);
    Thread waiter([&] {
      start.ready();
      STATUS(wait_unchanged(signal, wait_ms(kLimitMs, interrupt)), NOCTER_INTERRUPTED);
    });
    start.ready();
    const int64_t aim = nocter_now_ns() + static_cast<int64_t>(i % 400) * 50;
    while (nocter_now_ns() < aim) {
    }
    nocter_interrupt_raise(interrupt);
  }
}

BOOST_AUTO_TEST_CASE(blk_09_each_job_has_an_interrupt_raised_when_it_is_abandoned, *label("BLK-09")) {
  Service service({.maximum_jobs = 2, .workers = 2});
  const nocter_job_id first = accept(service, 1), second = accept(service, 2);
  const Begun one = claim_and_begin(service), two = claim_and_begin(service);
  nocter_interrupt* const of_one = nocter_completion_interrupt(one.completion);
  nocter_interrupt* const of_two = nocter_completion_interrupt(two.completion);
  BOOST_REQUIRE(of_one != nullptr && of_two != nullptr && of_one != of_two);
  BOOST_CHECK(!nocter_interrupt_raised(of_one));
  BOOST_CHECK_EQUAL(cancel(service, first).was, NOCTER_JOB_RUNNING);
  BOOST_CHECK(nocter_interrupt_raised(of_one));
  BOOST_CHECK(nocter_completion_abandoned(one.completion));
  BOOST_CHECK(!nocter_interrupt_raised(of_two));
  BOOST_CHECK(!nocter_completion_abandoned(two.completion));
  // The guard's: by hand it can be neither raised, nor cleared, nor destroyed.
  nocter_interrupt_raise(of_two);
  nocter_interrupt_destroy(of_two);
  BOOST_CHECK(!nocter_interrupt_raised(of_two));
  BOOST_CHECK(!nocter_completion_abandoned(two.completion));
  nocter_interrupt_clear(of_one);
  BOOST_CHECK(nocter_interrupt_raised(of_one));
  BOOST_CHECK(nocter_completion_abandoned(one.completion));
  shut_down(service);
  BOOST_CHECK(nocter_interrupt_raised(of_two));
  BOOST_CHECK(nocter_completion_abandoned(two.completion));
  complete(one.completion, 0);
  complete(two.completion, 0);
  BOOST_CHECK_EQUAL(take(service, second).status, NOCTER_E_UNKNOWN);
}

BOOST_AUTO_TEST_CASE(blk_09_the_interrupt_of_one_job_is_never_seen_by_the_next_in_its_place, *label("BLK-09")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  for (int i = 0; i < 100; i++) {
    const nocter_job_id id = accept(service, 1);
    const Begun begun = claim_and_begin(service);
    BOOST_REQUIRE(!nocter_interrupt_raised(nocter_completion_interrupt(begun.completion)));
    BOOST_REQUIRE(!nocter_completion_abandoned(begun.completion));
    if (i % 2 == 0) {
      cancel(service, id);
      complete(begun.completion, 0);
    } else {
      complete(begun.completion, 0);
      take(service, id);
    }
  }
}

BOOST_AUTO_TEST_CASE(blk_09_a_job_cancelled_between_claim_and_begin_begins_abandoned, *label("BLK-09")) {
  Service service;
  const nocter_job_id id = accept(service, 7);
  nocter_running_job* const job = claim(service);
  BOOST_CHECK_EQUAL(cancel(service, id).was, NOCTER_JOB_RUNNING);
  const Begun begun = begin(job);
  BOOST_CHECK_EQUAL(begun.value, 7u);
  BOOST_CHECK(nocter_completion_abandoned(begun.completion));
  BOOST_CHECK(nocter_interrupt_raised(nocter_completion_interrupt(begun.completion)));
  complete(begun.completion, 8);
  BOOST_CHECK_EQUAL(counts_of(service).abandoned_retired, 1u);
}

BOOST_AUTO_TEST_CASE(blk_09_an_abandoned_job_leaves_its_own_wait, *label("BLK-09")) {
  Service service;
  Signal never;
  const nocter_job_id id = accept(service, 1);
  Thread worker([&] {
    const Begun begun = claim_and_begin(service);
    const nocter_wait wait = wait_ms(kLimitMs, nocter_completion_interrupt(begun.completion));
    STATUS(wait_unchanged(never, wait), NOCTER_INTERRUPTED);
    HOLDS(nocter_completion_abandoned(begun.completion));
    nocter_completion_drop(begun.completion);
  });
  BOOST_REQUIRE(eventually([&] { return state_of(service, id) == NOCTER_JOB_RUNNING; }));
  BOOST_CHECK(worker.until_asleep());
  BOOST_CHECK_EQUAL(cancel(service, id).status, NOCTER_OK);
  worker.join();
  BOOST_CHECK_EQUAL(counts_of(service).admitted, 0u);
}

BOOST_AUTO_TEST_CASE(blk_09_no_guard_no_interrupt, *label("BLK-09")) {
  BOOST_CHECK(nocter_completion_interrupt(nullptr) == nullptr);
  BOOST_CHECK(!nocter_completion_abandoned(nullptr));
  BOOST_CHECK(is_zero(nocter_completion_id(nullptr)));
}

BOOST_AUTO_TEST_SUITE_END()
