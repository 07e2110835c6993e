// How the library's own threads are made: options, hooks, names, stacks, signal masks, and what is left when one fails.
#include <nocter.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;

namespace {

// Hooks that count, and fail in the start of the k-th thread.
struct Hooks {
  explicit Hooks(int failing = 0, nocter_status with = NOCTER_OK) : fails_at(failing), fails_with(with) {}
  const int fails_at;
  const nocter_status fails_with;
  std::atomic<int> starts{0}, stops{0};
  nocter_workers_options options(uint32_t threads) {
    nocter_workers_options made = NOCTER_WORKERS_OPTIONS_INIT;
    made.threads = threads;
    made.start = [](void* user) {
      Hooks& self = *static_cast<Hooks*>(user);
      return ++self.starts == self.fails_at ? self.fails_with : NOCTER_OK;
    };
    made.stop = [](void* user) { static_cast<Hooks*>(user)->stops++; };
    made.user = this;
    return made;
  }
};

nocter_status try_serve(nocter_blocking* service, const nocter_workers_options& options) {
  nocter_workers* workers = reinterpret_cast<nocter_workers*>(service);
  const nocter_status status = nocter_blocking_serve(
      service, [](void*, nocter_owned*, nocter_owned*, nocter_completion*) {}, nullptr, &options, &workers);
  if (status == NOCTER_OK) {
    nocter_workers_destroy(workers);
  } else {
    HOLDS(workers == nullptr);
  }
  return status;
}

std::string name_of_this_thread() {
  std::array<char, 32> name = {};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

// What `look` says on a worker that was made so.
template <class Look>
auto on_a_worker(const nocter_workers_options& options, Look look) {
  Service service;
  decltype(look()) result = {};
  Runner runner(
      service, [&](nocter_owned&, nocter_owned&, nocter_completion*) { result = look(); }, &options);
  const nocter_wait wait = long_wait();
  STATUS(take(service, accept(service, 1), &wait).status, NOCTER_OK);
  runner.stop();
  return result;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(workers_options_suite, EveryTest)

BOOST_AUTO_TEST_CASE(blk_14_the_initialiser_agrees_with_its_function, *label("BLK-14")) {
  const nocter_workers_options by_macro = NOCTER_WORKERS_OPTIONS_INIT;
  nocter_workers_options by_function;
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_workers_options_init(&by_function, sizeof by_function);
  BOOST_CHECK_EQUAL(std::memcmp(&by_macro, &by_function, sizeof by_macro), 0);
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_workers_options_init(&by_function, 8);
  BOOST_CHECK_EQUAL(by_function.size, 8u);
  BOOST_CHECK_EQUAL(by_function.stack_size, 0xeeeeeeeeeeeeeeeeu);
  nocter_workers_options_init(nullptr, sizeof by_function);
}

BOOST_AUTO_TEST_CASE(blk_14_by_default_as_many_threads_as_workers, *label("BLK-14")) {
  for (const uint32_t workers : {1u, 4u}) {
    Service service({.maximum_jobs = 8, .workers = workers});
    const size_t before = thread_count();
    Runner runner(service, echo);
    BOOST_CHECK_EQUAL(thread_count() - before, workers);
    Hooks hooks;
    const nocter_workers_options options = hooks.options(0);
    Runner hooked(service, echo, &options);
    hooked.stop();
    BOOST_CHECK_EQUAL(hooks.starts.load(), static_cast<int>(workers));
  }
}

BOOST_AUTO_TEST_CASE(blk_14_every_thread_runs_start_before_serve_returns_and_stop_at_its_end, *label("BLK-14")) {
  Service service({.maximum_jobs = 8, .workers = 8});
  Hooks hooks;
  const nocter_workers_options options = hooks.options(8);
  Runner runner(service, echo, &options);
  BOOST_CHECK_EQUAL(hooks.starts.load(), 8);
  BOOST_CHECK_EQUAL(hooks.stops.load(), 0);
  const nocter_wait wait = long_wait();
  for (int i = 0; i < 50; i++) take(service, accept(service, 1), &wait);
  BOOST_CHECK_EQUAL(hooks.starts.load(), 8);
  BOOST_CHECK_EQUAL(hooks.stops.load(), 0);
  runner.stop();
  BOOST_CHECK_EQUAL(hooks.stops.load(), 8);
}

BOOST_AUTO_TEST_CASE(
    blk_14_b_38_a_start_hook_failing_in_the_kth_thread_fails_the_whole_and_leaves_no_thread_scenario_153,
    *label("BLK-14") * label("GEN-09")) {
  Service service({.maximum_jobs = 8, .workers = 5});
  const nocter_job_id queued = accept(service, 1);
  const size_t threads = thread_count();
  for (int k = 1; k <= 5; k++) {
    for (const nocter_status with :
         std::array<nocter_status, 5>{NOCTER_E_MEMORY, NOCTER_E_STORE, -1000, NOCTER_CLOSED, 1000}) {
      Hooks hooks(k, with);
      const nocter_status status = try_serve(service, hooks.options(5));
      BOOST_CHECK_EQUAL(status, with < 0 ? with : NOCTER_E_STATE);
      BOOST_CHECK(eventually([&] { return thread_count() == threads; }));
      BOOST_CHECK_EQUAL(hooks.stops.load(), hooks.starts.load() - 1);   // one for each whose start succeeded
      BOOST_CHECK_EQUAL(state_of(service, queued), NOCTER_JOB_QUEUED);  // none of them ran anything
    }
  }
  BOOST_CHECK_EQUAL(try_serve(service, Hooks().options(5)), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(gen_10_an_exception_out_of_a_start_hook_fails_the_call, *label("GEN-10") * label("FFI-06")) {
  Service service;
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.start = [](void*) -> nocter_status { throw std::runtime_error("a start hook"); };
  const nocter_status status = try_serve(service, options);
  BOOST_CHECK_LT(status, 0);
  BOOST_CHECK_GE(counts_of(service).exceptions, 1u);
}

BOOST_AUTO_TEST_CASE(gen_10_an_exception_out_of_a_stop_hook_is_swallowed, *label("GEN-10") * label("FFI-06")) {
  Service service({.maximum_jobs = 2, .workers = 2});
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.stop = [](void*) { throw std::runtime_error("a stop hook"); };
  BOOST_CHECK_EQUAL(try_serve(service, options), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(service).exceptions, 2u);
}

BOOST_AUTO_TEST_CASE(blk_14_the_system_shows_the_threads_names, *label("BLK-14")) {
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  BOOST_CHECK_EQUAL(on_a_worker(options, name_of_this_thread), "nocter");
  options.name = "digest";
  BOOST_CHECK_EQUAL(on_a_worker(options, name_of_this_thread), "digest");
  options.name = "0123456789abcde";
  BOOST_CHECK_EQUAL(on_a_worker(options, name_of_this_thread), "0123456789abcde");
  options.name = "0123456789abcdefgh";
  BOOST_CHECK_EQUAL(on_a_worker(options, name_of_this_thread), "0123456789abcde");
}

BOOST_AUTO_TEST_CASE(blk_14_the_name_need_not_outlive_the_call, *label("BLK-14")) {
  Service service;
  std::string name = "short-lived";
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.name = name.c_str();
  std::string seen;
  Runner runner(
      service, [&](nocter_owned&, nocter_owned&, nocter_completion*) { seen = name_of_this_thread(); }, &options);
  name.assign(100, 'x');
  name.shrink_to_fit();
  const nocter_wait wait = long_wait();
  take(service, accept(service, 1), &wait);
  BOOST_CHECK_EQUAL(seen, "short-lived");
}

BOOST_AUTO_TEST_CASE(blk_14_the_stack_is_as_large_as_asked_for, *label("BLK-14") * label("FFI-18")) {
  const auto stack_of_this_thread = [] {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    void* address = nullptr;
    size_t size = 0;
    pthread_attr_getstack(&attributes, &address, &size);
    pthread_attr_destroy(&attributes);
    return size;
  };
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  // More than the default, so that it is seen; the C library may hand out a larger one that it has left.
  for (const uint64_t size : {uint64_t{16} << 20, uint64_t{33} << 20}) {
    options.stack_size = size;
    BOOST_CHECK_GE(on_a_worker(options, stack_of_this_thread), size);
  }
  Service service;
  for (const uint64_t size : {1, 4096, 65535}) {
    options.stack_size = size;
    BOOST_CHECK_EQUAL(try_serve(service, options), NOCTER_E_ARGUMENT);
  }
  options.stack_size = 65536;
  if (!kSanitized)
    BOOST_CHECK_EQUAL(try_serve(service, options), NOCTER_OK);  // their own thread data does not fit in there
}

BOOST_AUTO_TEST_CASE(rsc_02_a_thread_that_cannot_be_made_fails_the_whole_scenario_153,
                     *label("RSC-02") * label("GEN-09")) {
  // No address space is large enough for this stack.
  Service service;
  const nocter_job_id id = accept(service, 1);
  const size_t threads = thread_count();
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.stack_size = uint64_t{1} << 60;
  BOOST_CHECK_EQUAL(try_serve(service, options), NOCTER_E_MEMORY);
  BOOST_CHECK_NE(std::string(nocter_error_message()), "");
  BOOST_CHECK_EQUAL(thread_count(), threads);
  Runner runner(service, echo);
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(take(service, id, &wait).value, 1u);
}

BOOST_AUTO_TEST_CASE(rsc_02_the_kth_thread_that_cannot_be_made_ends_those_already_made_scenario_153,
                     *label("RSC-02") * label("GEN-09")) {
  // In a process of its own, whose address space is limited. A sanitizer has mapped terabytes and cannot live within a limit:
  // there the system refuses a stack that no address space holds, after the first threads of another set were made.
  const auto body = [] {
    Service service({.maximum_jobs = 2, .workers = 2});
    const size_t threads = thread_count();
    Hooks hooks;
    nocter_workers_options options = hooks.options(64);
    if constexpr (kSanitized) {
      options.stack_size = uint64_t{1} << 46;
    } else {
      options.stack_size = uint64_t{256} << 20;
      const rlimit limit = {uint64_t{2} << 30, uint64_t{2} << 30};
      setrlimit(RLIMIT_AS, &limit);
    }
    if (try_serve(service, options) != NOCTER_E_MEMORY) return 1;
    if (thread_count() != threads) return 2;
    if (hooks.starts.load() != hooks.stops.load()) return 3;
    if (!kSanitized && (hooks.starts.load() < 1 || hooks.starts.load() > 8)) return 4;
    if (try_serve(service, Hooks().options(2)) != NOCTER_OK) return 5;
    return Failures::collect().empty() ? 0 : 6;
  };
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  BOOST_CHECK(WIFEXITED(status));
  BOOST_CHECK_EQUAL(WEXITSTATUS(status), 0);
}

BOOST_AUTO_TEST_CASE(blk_14_impossible_options_are_argument_errors, *label("BLK-14") * label("FFI-02")) {
  Service service;
  const auto status_of = [&](auto change) {
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    change(options);
    return try_serve(service, options);
  };
  using Options = nocter_workers_options;
  BOOST_CHECK_EQUAL(status_of([](Options& o) { o.threads = 1025; }), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(status_of([](Options& o) { o.threads = UINT32_MAX; }), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(status_of([](Options& o) { o.size = 0; }), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(status_of([](Options& o) { o.size = 3; }), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(status_of([](Options& o) { o.size = UINT32_MAX; }), NOCTER_E_ARGUMENT);
  // A shorter one means defaults for the rest.
  BOOST_CHECK_EQUAL(status_of([](Options& o) {
                      o.size = offsetof(nocter_workers_options, stack_size);
                      o.stack_size = 1;
                      o.threads = 1;
                    }),
                    NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(ffi_12_the_threads_block_every_signal_and_the_caller_keeps_its_mask,
                     *label("FFI-12") * label("BLK-14")) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  const std::set<int> unblocked = on_a_worker(options, [] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    std::set<int> list;
    for (int number = 1; number <= SIGRTMAX; number++) {
      const bool of_libc = number > SIGSYS && number < SIGRTMIN;  // never reported as blocked
      if (number != SIGKILL && number != SIGSTOP && !of_libc && sigismember(&mask, number) != 1) list.insert(number);
    }
    return list;
  });
  BOOST_CHECK_EQUAL(unblocked.size(), 0u);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number = 1; number <= SIGSYS; number++) {
    BOOST_CHECK_EQUAL(sigismember(&before, number), sigismember(&after, number));
  }
}

BOOST_AUTO_TEST_CASE(ffi_07_the_threads_run_with_cancellation_disabled, *label("FFI-07") * label("BLK-14")) {
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  const int state = on_a_worker(options, [] {
    int before = -1;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
  });
  BOOST_CHECK_EQUAL(state, PTHREAD_CANCEL_DISABLE);
}

BOOST_AUTO_TEST_CASE(blk_14_many_threads_come_and_go, *label("BLK-14") * label("GEN-01")) {
  Service service({.maximum_jobs = 64, .workers = 64});
  const size_t threads = thread_count();
  for (uint64_t i = 0; i < rounds(20, 5); i++) {
    Hooks hooks;
    const nocter_workers_options options = hooks.options(64);
    Runner runner(service, echo, &options);
    std::vector<nocter_job_id> ids;
    for (uint64_t k = 0; k < 64; k++) ids.push_back(accept(service, k));
    const nocter_wait wait = long_wait();
    for (uint64_t k = 0; k < 64; k++) BOOST_REQUIRE_EQUAL(take(service, ids[k], &wait).value, k);
    runner.destroy();
    BOOST_REQUIRE_EQUAL(hooks.stops.load(), 64);
  }
  BOOST_CHECK(eventually([&] { return thread_count() == threads; }));
}

BOOST_AUTO_TEST_SUITE_END()
