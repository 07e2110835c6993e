// GEN-08: the local services allocate all they need at creation. SIG-06: a publication that nobody waits for makes no
// system call. The counts are exact: zero means zero.
#include <nocter.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "oom/faults.hpp"
#include "support/fixture.hpp"
#include "support/service.hpp"
#include "zero/steady.hpp"
#include "zero/system_calls.hpp"

using namespace nocter_tests;
using zero::check_steady;
using zero::leave;

namespace {

constexpr nocter_wait kForever = {NOCTER_FOREVER, nullptr, 0, 0};

// ---- One turn through every transition ------------------------------------------------------------------------------

// Tokens are values without memory: what is counted is nocter's.
nocter_job_id hand_in(nocter_blocking* service, uint64_t value) {
  nocter_owned input = token(value);
  return submit(service, input).id;
}

void complete_with_token(nocter_blocking* service, uint64_t value) {
  nocter_owned input = {}, output = token(value);
  nocter_completion* completion = nullptr;
  STATUS(nocter_running_job_begin(claim(service), &input, &completion), NOCTER_OK);
  discard(input);
  HOLDS(nocter_completion_interrupt(completion) != nullptr && !nocter_completion_abandoned(completion));
  STATUS(nocter_completion_complete(completion, &output), NOCTER_OK);
}

void ordinary_turn(nocter_blocking* service) {
  const nocter_job_id id = hand_in(service, 1);
  HOLDS(state_of(service, id) == NOCTER_JOB_QUEUED);
  HOLDS(take(service, id).status == NOCTER_PENDING);
  complete_with_token(service, 2);
  nocter_job_id ended[4];
  size_t count = 0;
  STATUS(nocter_blocking_completed(service, ended, 4, &count), NOCTER_OK);
  HOLDS(count == 1 && nocter_job_id_equal(ended[0], id));
  HOLDS(take(service, id).value == 2);
  STATUS(take(service, id).status, NOCTER_E_UNKNOWN);
}

void cancelling_turn(nocter_blocking* service) {
  HOLDS(cancel(service, hand_in(service, 3)).was == NOCTER_JOB_QUEUED);
  const nocter_job_id completed = hand_in(service, 4);
  complete_with_token(service, 5);
  HOLDS(cancel(service, completed).was == NOCTER_JOB_COMPLETED);
  const nocter_job_id running = hand_in(service, 6);
  const Begun begun = claim_and_begin(service);
  HOLDS(cancel(service, running).was == NOCTER_JOB_RUNNING);
  HOLDS(nocter_completion_abandoned(begun.completion));
  STATUS(cancel(service, running).status, NOCTER_E_STATE);
  nocter_owned output = token(7);
  STATUS(nocter_completion_complete(begun.completion, &output), NOCTER_OK);
}

void losing_turn(nocter_blocking* service) {
  const nocter_job_id before_begin = hand_in(service, 8);
  nocter_running_job_drop(claim(service));
  STATUS(take(service, before_begin).status, NOCTER_WORKER_LOST);
  const nocter_job_id after_begin = hand_in(service, 9);
  nocter_completion_drop(claim_and_begin(service).completion);
  STATUS(take(service, after_begin).status, NOCTER_WORKER_LOST);
}

// Fills the service of four jobs and two workers to its bounds.
void full_turn(nocter_blocking* service) {
  nocter_job_id ids[4];
  for (nocter_job_id& id : ids) id = hand_in(service, 10);
  nocter_owned refused = token(11);
  const Submitted saturated = submit(service, refused);
  STATUS(saturated.status, NOCTER_SATURATED);
  discard(refused);
  nocter_epoch now;
  STATUS(nocter_blocking_wait_epoch(service, saturated.epoch, nullptr, &now), NOCTER_PENDING);
  nocter_running_job* jobs[2] = {claim(service), claim(service)};
  STATUS(try_claim(service).status, NOCTER_EMPTY);
  for (nocter_running_job* job : jobs) nocter_completion_drop(begin(job).completion);
  for (const nocter_job_id id : ids) {
    if (state_of(service, id) == NOCTER_JOB_QUEUED) {
      cancel(service, id);
    } else {
      take(service, id);
    }
  }
  STATUS(nocter_blocking_wait_epoch(service, saturated.epoch, nullptr, &now), NOCTER_OK);
  counts_of(service);
}

void signal_turn(nocter_signal* signal, nocter_eventfd* eventfd, nocter_interrupt* interrupt) {
  const uint64_t seen = nocter_signal_version(signal);
  uint64_t version = 0;
  STATUS(nocter_signal_wait(signal, seen, nullptr, &version), NOCTER_PENDING);
  nocter_interrupt_raise(interrupt);
  const nocter_wait interrupted = {NOCTER_FOREVER, interrupt, 0, 0}, past = {0, nullptr, 0, 0};
  STATUS(nocter_signal_wait(signal, seen, &interrupted, &version), NOCTER_INTERRUPTED);
  nocter_interrupt_clear(interrupt);
  STATUS(nocter_signal_wait(signal, seen, &past, &version), NOCTER_TIMEOUT);
  STATUS(nocter_signal_publish(signal, &version), NOCTER_OK);
  STATUS(nocter_signal_wait(signal, seen, &kForever, &version), NOCTER_OK);
  nocter_eventfd_clear(eventfd);
}

// ---- A service with workers -----------------------------------------------------------------------------------------

void pass_on(void*, nocter_owned* input, nocter_owned* output, nocter_completion*) {
  *output = *input;
  *input = {};
}

// The loop of a host that keeps the service full and takes what ended.
void serve_jobs(nocter_blocking* service, nocter_signal* signal, uint64_t jobs) {
  uint64_t issued = 0, taken = 0;
  while (taken < jobs) {
    const uint64_t seen = nocter_signal_version(signal);
    for (; issued < jobs; issued++) {
      nocter_owned input = token(12);
      if (submit(service, input).status != NOCTER_OK) {
        discard(input);
        break;
      }
    }
    nocter_job_id ids[16];
    size_t count = 0;
    STATUS(nocter_blocking_completed(service, ids, 16, &count), NOCTER_OK);
    for (size_t i = 0; i < count; i++) HOLDS(take(service, ids[i]).value == 12);
    taken += count;
    uint64_t version;
    if (count == 0) STATUS(nocter_signal_wait(signal, seen, &kForever, &version), NOCTER_OK);
  }
}

// ThreadSanitizer starts a thread of its own beside the first one.
struct FirstThread {
  FirstThread() {
    Thread([] {}).join();
  }
};
BOOST_TEST_GLOBAL_FIXTURE(FirstThread);

}  // namespace

BOOST_FIXTURE_TEST_SUITE(zero, EveryTest)

BOOST_AUTO_TEST_CASE(the_counting_sees_an_allocation_of_the_library, *label("GEN-08")) {
  const uint64_t before = faults::allocations();
  { const Service service; }
  BOOST_CHECK_GT(faults::allocations(), before);
}

// About a hundred calls a turn.
BOOST_AUTO_TEST_CASE(gen_08_a_million_operations_allocate_nothing, *label("GEN-08")) {
  const Signal signal;
  const Interrupt interrupt;
  nocter_eventfd* eventfd = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_eventfd_create(&eventfd), NOCTER_OK);
  const Service service({4, 2, nocter_signal_notifier(signal), nocter_eventfd_notifier(eventfd)});
  check_steady(rounds(12'000, 1'200), [&] {
    ordinary_turn(service);
    cancelling_turn(service);
    losing_turn(service);
    full_turn(service);
    signal_turn(signal, eventfd, interrupt);
  });
  BOOST_CHECK_EQUAL(Ledger::live(), 0u);
  nocter_eventfd_destroy(eventfd);
}

BOOST_AUTO_TEST_CASE(gen_08_served_jobs_allocate_nothing_on_any_thread, *label("GEN-08")) {
  const Signal signal;
  const Service service({16, 2, nocter_signal_notifier(signal), {}});
  nocter_workers* workers = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_blocking_serve(service, pass_on, nullptr, nullptr, &workers), NOCTER_OK);
  check_steady(1, [&] { serve_jobs(service, signal, rounds(200'000, 5'000)); });
  nocter_workers_destroy(workers);
}

// One job at a time between two threads that both wait, with pauses in which they fall asleep.
BOOST_AUTO_TEST_CASE(gen_08_waits_and_wakes_allocate_nothing, *label("GEN-08")) {
  const Service service({1, 1, {}, {}});
  Thread worker([&] {
    for (;;) {
      const Claimed claimed = try_claim(service, &kForever);
      if (claimed.status != NOCTER_OK) break;
      nocter_owned input = {}, output = {};
      nocter_completion* completion = nullptr;
      STATUS(nocter_running_job_begin(claimed.job, &input, &completion), NOCTER_OK);
      std::swap(input, output);
      STATUS(nocter_completion_complete(completion, &output), NOCTER_OK);
    }
  });
  check_steady(rounds(2'000, 200), [&, turn = 0]() mutable {
    if (++turn % 100 == 0) pause_ms(5);
    HOLDS(take(service, hand_in(service, 13), &kForever).value == 13);
  });
  shut_down(service);
}

BOOST_AUTO_TEST_CASE(the_counting_sees_a_system_call, *label("SIG-06")) {
  const zero::SystemCalls none = zero::system_calls_of([] {}, [] {});
  BOOST_CHECK(none.measured);
  BOOST_CHECK_EQUAL(none.count, 0u);
  const zero::SystemCalls three = zero::system_calls_of([] {},
                                                        [] {
                                                          for (int i = 0; i < 3; i++) syscall(SYS_getppid);
                                                        });
  BOOST_CHECK(three.measured);
  BOOST_CHECK_EQUAL(three.count, 3u);
  BOOST_CHECK_EQUAL(three.first, SYS_getppid);
}

BOOST_AUTO_TEST_CASE(sig_06_publishing_with_nobody_waiting_makes_no_system_call, *label("SIG-06")) {
  nocter_signal* signal = nullptr;
  uint64_t first = 0;
  const uint64_t publications = rounds(1'000'000, 50'000);
  const zero::SystemCalls calls = zero::system_calls_of(
      [&] {
        if (nocter_signal_create(&signal) != NOCTER_OK) leave(1);
        first = nocter_signal_version(signal);
      },
      [&] {
        for (uint64_t i = 0; i < publications; i++) {
          if (nocter_signal_publish(signal, nullptr) != NOCTER_OK) leave(2);
        }
        if (nocter_signal_version(signal) != first + publications) leave(3);
      });
  BOOST_CHECK(calls.measured);
  BOOST_CHECK_MESSAGE(calls.count == 0, calls.count << " system calls, the first is number " << calls.first);
}

// Also after somebody has waited, and gone.
BOOST_AUTO_TEST_CASE(sig_06_publishing_after_a_waiter_has_left_makes_no_system_call, *label("SIG-06")) {
  nocter_signal* signal = nullptr;
  const zero::SystemCalls calls = zero::system_calls_of(
      [&] {
        if (nocter_signal_create(&signal) != NOCTER_OK) leave(1);
        const nocter_wait soon = nocter_wait_for_ms(20);
        uint64_t version;
        if (nocter_signal_wait(signal, nocter_signal_version(signal), &soon, &version) != NOCTER_TIMEOUT) leave(2);
      },
      [&] {
        for (int i = 0; i < 1000; i++) {
          if (nocter_signal_publish(signal, nullptr) != NOCTER_OK) leave(3);
        }
      });
  BOOST_CHECK(calls.measured);
  BOOST_CHECK_MESSAGE(calls.count == 0, calls.count << " system calls, the first is number " << calls.first);
}

BOOST_AUTO_TEST_CASE(a_job_that_nobody_waits_for_makes_no_system_call, *label("GEN-08")) {
  nocter_blocking* service = nullptr;
  const zero::SystemCalls calls = zero::system_calls_of(
      [&] {
        const nocter_blocking_options options = options_of({4, 2, {}, {}});
        if (nocter_blocking_create(&options, &service) != NOCTER_OK) leave(1);
      },
      [&] {
        for (uint64_t i = 0; i < rounds(50'000, 2'000); i++) {
          ordinary_turn(service);
          losing_turn(service);
        }
        if (!Failures::collect().empty()) leave(2);
      });
  BOOST_CHECK(calls.measured);
  BOOST_CHECK_MESSAGE(calls.count == 0, calls.count << " system calls, the first is number " << calls.first);
}

BOOST_AUTO_TEST_SUITE_END()
