// RSC-02: the system refuses threads, descriptors or address space; what was to be made is not made at all.
#include <memory>
#include <vector>

#include "oom/faults.hpp"
#include "oom/suites.hpp"
#include "oom/world.hpp"
#include "support/fixture.hpp"
#include "support/service.hpp"

namespace oom {

using namespace nocter_tests;

namespace {

struct Hooks {
  std::atomic<uint32_t> started{0}, stopped{0};
  nocter_status answer = NOCTER_OK;
  uint32_t refuse_at = UINT32_MAX;  // the start hook of that thread says `answer`

  static nocter_status start(void* user) {
    Hooks& hooks = *static_cast<Hooks*>(user);
    return hooks.started.fetch_add(1) == hooks.refuse_at ? hooks.answer : NOCTER_OK;
  }
  static void stop(void* user) { static_cast<Hooks*>(user)->stopped.fetch_add(1); }
  nocter_workers_options options(uint32_t threads) {
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    options.threads = threads;
    options.start = start;
    options.stop = stop;
    options.user = this;
    return options;
  }
};

// The service after a serve that failed: as before, and one that works serves it.
void check_not_served(nocter_blocking* service, nocter_job_id queued, const nocter_blocking_counts& before,
                      size_t threads) {
  const nocter_blocking_counts now = counts_of(service);
  HOLDS(now.queued == before.queued && now.accepted == before.accepted && now.running == 0 && now.completed == 0);
  HOLDS(state_of(service, queued) == NOCTER_JOB_QUEUED);
  HOLDS(eventually([threads] { return thread_count() <= threads; }, 5'000));
}

void served_all_the_same(nocter_blocking* service, nocter_job_id queued) {
  nocter_workers* workers = nullptr;
  STATUS(nocter_blocking_serve(service, pass_on, nullptr, nullptr, &workers), NOCTER_OK);
  const nocter_wait wait = long_wait();
  HOLDS(take(service, queued, &wait).value == 1);
  nocter_workers_destroy(workers);
}

void b_38_failed_thread_creation_fails_serve_as_a_whole() {
  constexpr uint32_t kThreads = 4;
  for (const faults::How how : {faults::How::once, faults::How::from_then_on}) {
    for (uint64_t nth = 0; nth < kThreads; nth++) {
      const Service service({8, kThreads, {}, {}});
      const nocter_job_id queued = accept(service, 1);
      const nocter_blocking_counts before = counts_of(service);
      const size_t threads = thread_count();
      Hooks hooks;
      const nocter_workers_options options = hooks.options(kThreads);
      nocter_workers* workers = reinterpret_cast<nocter_workers*>(&hooks);
      {
        const faults::Threads armed(nth, how);
        STATUS(nocter_blocking_serve(service, pass_on, nullptr, &options, &workers), NOCTER_E_MEMORY);
        HOLDS(armed.asked() == nth + 1);
      }
      HOLDS(workers == nullptr);
      HOLDS(nocter_error_message()[0] != '\0');
      HOLDS(hooks.started.load() <= nth);
      HOLDS(hooks.started.load() == hooks.stopped.load());
      check_not_served(service, queued, before, threads);
      served_all_the_same(service, queued);
    }
  }
}

// A stack that the address space cannot hold.
void scenario_153_threads_without_room_for_their_stacks() {
  const Service service({8, 2, {}, {}});
  const nocter_job_id queued = accept(service, 1);
  const nocter_blocking_counts before = counts_of(service);
  const size_t threads = thread_count();
  Hooks hooks;
  nocter_workers_options options = hooks.options(2);
  options.stack_size = uint64_t{1} << 50;
  nocter_workers* workers = nullptr;
  const nocter_status status = nocter_blocking_serve(service, pass_on, nullptr, &options, &workers);
  HOLDS(status == NOCTER_E_MEMORY || status == NOCTER_E_ARGUMENT);
  HOLDS(workers == nullptr && hooks.started.load() == 0);
  check_not_served(service, queued, before, threads);
  served_all_the_same(service, queued);
}

void a_start_hook_that_fails_ends_the_threads_that_had_started() {
  for (uint32_t refuse_at = 0; refuse_at < 3; refuse_at++) {
    const Service service({8, 3, {}, {}});
    const nocter_job_id queued = accept(service, 1);
    const nocter_blocking_counts before = counts_of(service);
    const size_t threads = thread_count();
    Hooks hooks;
    hooks.refuse_at = refuse_at;
    hooks.answer = NOCTER_E_UNAVAILABLE;
    const nocter_workers_options options = hooks.options(3);
    nocter_workers* workers = nullptr;
    STATUS(nocter_blocking_serve(service, pass_on, nullptr, &options, &workers), NOCTER_E_UNAVAILABLE);
    HOLDS(workers == nullptr);
    HOLDS(hooks.stopped.load() + 1 == hooks.started.load());
    check_not_served(service, queued, before, threads);
    served_all_the_same(service, queued);
  }
}

// Memory is gone on the worker threads from before their first job.
void workers_without_memory_run_jobs() {
  struct Starved {
    static nocter_status start(void*) {
      thread_local std::unique_ptr<faults::Allocations> armed;
      armed = std::make_unique<faults::Allocations>(0, faults::How::from_then_on);
      mine() = armed.get();
      return NOCTER_OK;
    }
    static void stop(void* user) {
      static_cast<std::atomic<uint64_t>*>(user)->fetch_add(mine()->failed());
      mine() = nullptr;
    }
    static faults::Allocations*& mine() {
      thread_local faults::Allocations* armed = nullptr;
      return armed;
    }
  };
  const Service service({8, 2, {}, {}});
  std::atomic<uint64_t> refused{0};
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.start = Starved::start;
  options.stop = Starved::stop;
  options.user = &refused;
  nocter_workers* workers = nullptr;
  STATUS(nocter_blocking_serve(service, pass_on, nullptr, &options, &workers), NOCTER_OK);
  const nocter_wait wait = long_wait();
  for (uint64_t i = 0; i < 200; i++) HOLDS(take(service, accept(service, i), &wait).value == i);
  nocter_workers_destroy(workers);
  HOLDS(refused.load() == 0);
}

void eventfds_until_no_descriptor_is_left() {
  const faults::Descriptors few(3);
  std::vector<nocter_eventfd*> made;
  made.reserve(8);
  for (;;) {
    nocter_eventfd* one = reinterpret_cast<nocter_eventfd*>(&one);
    const nocter_status status = nocter_eventfd_create(&one);
    if (status != NOCTER_OK) {
      STATUS(status, NOCTER_E_MEMORY);
      HOLDS(one == nullptr && nocter_error_message()[0] != '\0');
      break;
    }
    made.push_back(one);
    if (!HOLDS(made.size() <= 3)) break;
  }
  HOLDS(made.size() == 3);
  // One given back is one to be had.
  nocter_eventfd_destroy(made.back());
  STATUS(nocter_eventfd_create(&made.back()), NOCTER_OK);
  HOLDS(nocter_eventfd_fd(made.back()) >= 0);
  for (nocter_eventfd* one : made) nocter_eventfd_destroy(one);
}

void serve_one_job() {
  const Signal signal;
  const Interrupt interrupt;
  const Service service({8, 2, nocter_signal_notifier(signal), {}});
  const nocter_job_id queued = accept(service, 1);
  nocter_workers* workers = nullptr;
  STATUS(nocter_blocking_serve(service, pass_on, nullptr, nullptr, &workers), NOCTER_OK);
  const nocter_wait wait = long_wait();
  HOLDS(take(service, queued, &wait).value == 1);
  nocter_workers_destroy(workers);
}

// Nothing but an eventfd needs a descriptor.
void everything_else_without_descriptors() {
  serve_one_job();  // UBSan opens a pipe to look at the first object of each class
  const faults::Descriptors none(0);
  serve_one_job();
}

}  // namespace

void add_system_tests(boost::unit_test::test_suite& all) {
  const auto add = [&all](const char* name, void (*body)(), std::initializer_list<const char*> promises) {
    all.add(test_case(name, body, promises));
  };
#define NOCTER_ADD(test, ...) add(#test, test, {__VA_ARGS__})
  NOCTER_ADD(b_38_failed_thread_creation_fails_serve_as_a_whole, "RSC-02", "B-38");
  NOCTER_ADD(scenario_153_threads_without_room_for_their_stacks, "RSC-02");
  NOCTER_ADD(a_start_hook_that_fails_ends_the_threads_that_had_started, "RSC-02");
  NOCTER_ADD(workers_without_memory_run_jobs, "RSC-01", "GEN-08");
  NOCTER_ADD(eventfds_until_no_descriptor_is_left, "RSC-02");
  NOCTER_ADD(everything_else_without_descriptors, "RSC-02");
#undef NOCTER_ADD
}

}  // namespace oom
