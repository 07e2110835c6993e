// After a fork: handles of the parent say so in the child, nothing blocks, and new handles work. GEN-11, FFI-11.
#include <nocter.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>

#include "support/fixture.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;

namespace {

int& live_marker() {
  static int marker = 0;
  return marker;
}

// Runs the body in a child; what it says is the exit status. A child that hangs is ended and reported.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(static_cast<unsigned>(kLimitMs / 1000));
    Failures::collect();
    const int result = body();
    const std::vector<std::string> failures = Failures::collect();
    for (const std::string& failure : failures) std::fprintf(stderr, "in the child: %s\n", failure.c_str());
    _exit(failures.empty() ? result : 99);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Each call of a parent's service says FORKED, zeroes its results and leaves the input alone.
void check_forked(nocter_blocking* service, nocter_job_id id, nocter_epoch epoch) {
  const nocter_wait forever = wait_ms(-1);
  int anything = 0;
  nocter_owned input = {&anything, nullptr};
  const nocter_owned before = input;
  STATUS(submit(service, input).status, NOCTER_E_FORKED);
  HOLDS(same(input, before));
  STATUS(try_claim(service).status, NOCTER_E_FORKED);
  STATUS(try_claim(service, &forever).status, NOCTER_E_FORKED);
  STATUS(take(service, id).status, NOCTER_E_FORKED);
  STATUS(take(service, id, &forever).status, NOCTER_E_FORKED);
  STATUS(cancel(service, id).status, NOCTER_E_FORKED);
  HOLDS(state_of(service, id) == NOCTER_E_FORKED);
  nocter_epoch now = {7, 7};
  STATUS(nocter_blocking_epoch(service, &now), NOCTER_E_FORKED);
  HOLDS(is_zero(now));
  STATUS(nocter_blocking_wait_epoch(service, epoch, &forever, &now), NOCTER_E_FORKED);
  HOLDS(is_zero(now));
  STATUS(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_E_FORKED);
  STATUS(nocter_blocking_drained(service, &forever), NOCTER_E_FORKED);
  nocter_job_id ids[2];
  size_t count = 7;
  STATUS(nocter_blocking_completed(service, ids, 2, &count), NOCTER_E_FORKED);
  HOLDS(count == 0);
  nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
  STATUS(nocter_blocking_count(service, &counts), NOCTER_E_FORKED);
  nocter_workers* workers = nullptr;
  STATUS(nocter_blocking_serve(
             service, [](void*, nocter_owned*, nocter_owned*, nocter_completion*) {}, nullptr, nullptr, &workers),
         NOCTER_E_FORKED);
  HOLDS(workers == nullptr);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(fork_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_11_a_parents_service_says_forked_in_the_child_scenario_156,
                     *label("GEN-11") * label("FFI-11")) {
  Wakes waiters;
  Service service({.maximum_jobs = 4, .workers = 2, .waiters = waiters.notifier()});
  const nocter_job_id id = accept(service, 1);
  accept(service, 2);
  nocter_running_job* const unbegun = claim(service);
  const Begun begun = claim_and_begin(service);
  const nocter_epoch epoch = epoch_of(service);
  const uint64_t live = Ledger::live();
  BOOST_CHECK_EQUAL(in_child([&] {
                      check_forked(service, id, epoch);
                      // Guards of the parent too: nothing is dropped, nobody is told.
                      nocter_owned out = {&live_marker(), nullptr};
                      nocter_completion* completion = nullptr;
                      STATUS(nocter_running_job_begin(unbegun, &out, &completion), NOCTER_E_FORKED);
                      HOLDS(is_none(out) && completion == nullptr);
                      nocter_owned output = {&live_marker(), nullptr};
                      STATUS(nocter_completion_complete(begun.completion, &output), NOCTER_E_FORKED);
                      HOLDS(output.data == &live_marker());
                      nocter_running_job_drop(unbegun);
                      nocter_completion_drop(begun.completion);
                      nocter_blocking_destroy(service);
                      HOLDS(Ledger::live() == live);
                      HOLDS(waiters.turns == 0 && waiters.drops == 0);
                      return 0;
                    }),
                    0);
  // The parent's goes on.
  nocter_running_job_drop(unbegun);
  complete(begun.completion, 3);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_WORKER_LOST);
}

BOOST_AUTO_TEST_CASE(gen_11_a_parents_signal_interrupt_and_eventfd_in_the_child, *label("GEN-11") * label("FFI-11")) {
  Signal signal;
  Interrupt interrupt;
  nocter_eventfd* eventfd = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_eventfd_create(&eventfd), NOCTER_OK);
  const uint64_t seen = nocter_signal_version(signal);
  BOOST_CHECK_EQUAL(in_child([&] {
                      const nocter_wait forever = wait_ms(-1);
                      uint64_t version = 77;
                      HOLDS(nocter_signal_version(signal) == 0);
                      STATUS(nocter_signal_publish(signal, &version), NOCTER_E_FORKED);
                      HOLDS(version == 0);
                      STATUS(nocter_signal_wait(signal, seen, &forever, &version), NOCTER_E_FORKED);
                      nocter_signal_close(signal);
                      nocter_signal_destroy(signal);
                      nocter_interrupt_destroy(interrupt);
                      HOLDS(nocter_eventfd_fd(eventfd) == -1);
                      nocter_eventfd_clear(eventfd);
                      nocter_eventfd_destroy(eventfd);
                      return 0;
                    }),
                    0);
  BOOST_CHECK_EQUAL(nocter_signal_version(signal), seen);
  BOOST_CHECK_GE(nocter_eventfd_fd(eventfd), 0);
  nocter_eventfd_destroy(eventfd);
}

BOOST_AUTO_TEST_CASE(gen_11_new_handles_work_in_the_child_scenario_118, *label("GEN-11") * label("FFI-11")) {
  Service service;
  Runner runner(service, echo);
  const nocter_wait wait = long_wait();
  const nocter_job_id of_parent = accept(service, 1);
  BOOST_CHECK_EQUAL(in_child([&] {
                      Service fresh;
                      const nocter_job_id id = accept(fresh, 7);
                      run_one(fresh, 8);
                      const Taken taken = take(fresh, id);
                      HOLDS(taken.status == NOCTER_OK && taken.value == 8);
                      // No number of the parent's is given to it.
                      HOLDS(state_of(fresh, of_parent) < 0);
                      Signal signal;
                      uint64_t version = 0;
                      STATUS(nocter_signal_publish(signal, &version), NOCTER_OK);
                      return 0;
                    }),
                    0);
  BOOST_CHECK_EQUAL(take(service, of_parent, &wait).value, 1u);
}

BOOST_AUTO_TEST_CASE(gen_11_forks_with_everything_busy_never_block_scenario_156, *label("GEN-11") * label("FFI-11")) {
  // Locks of the service are held by other threads at the moment of the fork: the child must not touch them.
  Signal news;
  Service service({.maximum_jobs = 16, .workers = 2, .waiters = nocter_signal_notifier(news)});
  Runner runner(service, echo);
  std::atomic<bool> enough{false};
  std::deque<Thread> busy;
  for (int i = 0; i < 3; i++) {
    busy.emplace_back([&] {
      while (!enough.load()) {
        nocter_owned input = token(5);
        const Submitted submitted = submit(service, input);
        if (submitted.status != NOCTER_OK) {
          discard(input);
          continue;
        }
        const nocter_wait wait = long_wait();
        STATUS(take(service, submitted.id, &wait).status, NOCTER_OK);
      }
    });
  }
  const nocter_epoch epoch = epoch_of(service);
  for (uint64_t i = 0; i < rounds(60, 10); i++) {
    BOOST_REQUIRE_EQUAL(in_child([&] {
                          nocter_job_state state = 0;
                          if (nocter_blocking_query(service, {1, 1}, &state) != NOCTER_E_FORKED) return 1;
                          nocter_epoch now = {};
                          if (nocter_blocking_wait_epoch(service, epoch, nullptr, &now) != NOCTER_E_FORKED) return 2;
                          if (nocter_workers_stop(runner, nullptr) != NOCTER_E_FORKED) return 3;
                          nocter_workers_destroy(runner);
                          nocter_blocking_destroy(service);
                          // A handle made here, in memory that others may have been about to take.
                          nocter_signal* fresh = nullptr;
                          if (nocter_signal_create(&fresh) != NOCTER_OK) return 4;
                          if (nocter_signal_publish(fresh, nullptr) != NOCTER_OK) return 5;
                          nocter_signal_destroy(fresh);
                          return 0;
                        }),
                        0);
  }
  enough.store(true);
}

BOOST_AUTO_TEST_CASE(gen_11_a_grandchild_of_a_new_handle_is_forked_too, *label("GEN-11")) {
  BOOST_CHECK_EQUAL(in_child([] {
                      Service of_child;
                      const nocter_job_id id = accept(of_child, 1);
                      const int grandchild =
                          in_child([&] { return state_of(of_child, id) == NOCTER_E_FORKED ? 0 : 1; });
                      HOLDS(state_of(of_child, id) == NOCTER_JOB_QUEUED);
                      return grandchild;
                    }),
                    0);
}

BOOST_AUTO_TEST_SUITE_END()
