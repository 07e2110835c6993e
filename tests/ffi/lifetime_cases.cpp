// FFI-15, FFI-16, FFI-17: the ends of things: static destructors and atexit handlers, threads that own guards, processes that leave
// while workers are busy.
#include <pthread.h>

#include <csignal>
#include <cstring>
#include <tuple>

#include "objects.hpp"

namespace {

// What is still open when main returns.
struct Open {
  nocter_blocking* service = nullptr;
  nocter_workers* workers = nullptr;
  nocter_completion* completion = nullptr;
  nocter_running_job* job = nullptr;
  nocter_signal* signal = nullptr;
  nocter_eventfd* eventfd = nullptr;
  nocter_interrupt* interrupt = nullptr;

  void fill() {
    service = ::service();
    submit(service);
    completion = begin(claim(service));
    submit(service);
    job = claim(service);
    CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
    CHECK_STATUS(nocter_eventfd_create(&eventfd), NOCTER_OK);
    CHECK_STATUS(nocter_interrupt_create(&interrupt), NOCTER_OK);
    workers = serve(service, run_nothing, nullptr, 2);
  }
  void use() const {
    if (service == nullptr) return;
    CHECK(counts(service).running == 2);
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(take(service, submit(service), &wait), NOCTER_OK);
    CHECK_STATUS(nocter_signal_publish(signal, nullptr), NOCTER_OK);
    CHECK(nocter_eventfd_fd(eventfd) >= 0);
    CHECK(std::strcmp(nocter_version(), "") != 0);
  }
  void forwards() {
    use();
    nocter_workers_destroy(workers);
    nocter_blocking_destroy(service);
    nocter_completion_drop(completion);
    nocter_running_job_drop(job);
    nocter_signal_destroy(signal);
    nocter_eventfd_destroy(eventfd);
    nocter_interrupt_destroy(interrupt);
    *this = {};
  }
  void backwards() {
    use();
    nocter_interrupt_destroy(interrupt);
    nocter_eventfd_destroy(eventfd);
    nocter_signal_destroy(signal);
    nocter_running_job_drop(job);
    nocter_completion_drop(completion);
    nocter_blocking_destroy(service);
    nocter_workers_destroy(workers);
    *this = {};
  }
};

bool kept_to_the_end = false;

// Made before main: destroyed after every handler that main registered.
struct AtNamespaceScope {
  Open open;
  ~AtNamespaceScope() {
    if (open.service != nullptr) open.backwards();
    if (kept_to_the_end) check_all_dropped();
  }
} at_namespace_scope;

}  // namespace

CASE(ffi_15_destroyed_in_a_static_destructor, "FFI-15") {
  kept_to_the_end = true;
  at_namespace_scope.open.fill();
}

CASE(ffi_15_destroyed_in_a_local_static_destructor, "FFI-15") {
  static struct Local {
    Open open;
    ~Local() { open.forwards(); }
  } local;
  kept_to_the_end = true;
  local.open.fill();
}

CASE(ffi_15_destroyed_in_atexit_handlers, "FFI-15") {
  static Open first, second;
  kept_to_the_end = true;
  CHECK(std::atexit([] { first.backwards(); }) == 0);
  first.fill();
  second.fill();
  CHECK(std::atexit([] { second.forwards(); }) == 0);
}

CASE(ffi_15_first_used_in_an_atexit_handler, "FFI-15") {
  kept_to_the_end = true;
  CHECK(std::atexit([] {
          Open late;
          late.fill();
          late.forwards();
        }) == 0);
}

CASE(ffi_15_left_open, "FFI-15") {
  static Open left;  // reachable, so no leak checker minds
  left.fill();
}

// ---- FFI-16 ---------------------------------------------------------------------------------------------------------------

CASE(ffi_16_guards_outlive_the_thread_that_claimed_them, "FFI-16 B-20") {
  nocter_blocking* const of = service(8, 4);
  nocter_running_job* job = nullptr;
  nocter_completion* completion = nullptr;
  const nocter_job_id first = submit(of), second = submit(of);
  std::thread([&] {
    job = claim(of);
    completion = begin(claim(of));
  }).join();
  one_job(of);  // nothing is locked by the thread that ended
  std::thread([&] { complete(begin(job)); }).join();
  nocter_completion_drop(completion);
  CHECK_STATUS(take(of, first), NOCTER_OK);
  CHECK_STATUS(take(of, second), NOCTER_WORKER_LOST);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

namespace {
pthread_key_t key;
std::atomic<int> asked{0};

// Runs after all thread_local objects of the thread are gone.
void at_thread_end(void* service_of_it) {
  const char* const message = nocter_error_message();
  CHECK(message != nullptr);
  CHECK(std::strlen(message) < 400);
  auto* const of = static_cast<nocter_blocking*>(service_of_it);
  one_job(of);
  nocter_epoch epoch;
  CHECK_STATUS(nocter_blocking_epoch(nullptr, &epoch), NOCTER_E_ARGUMENT);
  CHECK(*nocter_error_message() != '\0');
  asked++;
}

struct UsesItLate {
  nocter_blocking* of = nullptr;
  ~UsesItLate() {
    if (of == nullptr) return;
    CHECK(nocter_error_message() != nullptr);
    one_job(of);
    asked++;
  }
};
thread_local UsesItLate uses_it_late;
}  // namespace

CASE(ffi_16_calls_while_a_thread_ends, "FFI-16") {
  CHECK(pthread_key_create(&key, at_thread_end) == 0);
  nocter_blocking* const of = service(8, 4);
  for (int i = 0; i < 20; i++) {
    std::thread([&] {
      pthread_setspecific(key, of);
      uses_it_late.of = of;
      if (i % 2 == 0) CHECK_STATUS(take(of, {0, 0}), NOCTER_E_UNKNOWN);
    }).join();
  }
  CHECK(asked == 40);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_16_a_message_is_the_threads_own, "FFI-16") {
  nocter_blocking* const of = service(8, 4);
  CHECK(std::strcmp(nocter_error_message(), "") == 0);
  CHECK_STATUS(take(of, {0, 0}), NOCTER_E_UNKNOWN);
  const std::string mine = nocter_error_message();
  CHECK(mine.size() >= 8);
  one_job(of);  // success leaves it alone
  CHECK(mine == nocter_error_message());
  nocter_running_job* none;
  CHECK_STATUS(nocter_blocking_claim(of, nullptr, &none), NOCTER_EMPTY);  // an outcome is no error
  CHECK(mine == nocter_error_message());
  std::thread([&] {
    CHECK(std::strcmp(nocter_error_message(), "") == 0);
    nocter_epoch epoch;
    CHECK_STATUS(nocter_blocking_epoch(nullptr, &epoch), NOCTER_E_ARGUMENT);
    CHECK(mine != nocter_error_message());
  }).join();
  CHECK(mine == nocter_error_message());
  nocter_blocking_destroy(of);
}

// ---- FFI-17 ---------------------------------------------------------------------------------------------------------------

namespace {

// Workers that compute, that sleep and that wait, callers that wait, and one thread that keeps the locks busy.
void be_busy() {
  static nocter_blocking* of;
  of = service(64, 8);
  static std::atomic<int> kind{0};
  kind = 0;
  const auto run = [](void*, nocter_owned*, nocter_owned*, nocter_completion* completion) {
    switch (kind++ % 3) {
      case 0:
        for (std::atomic<unsigned long> turns{0};; turns++) {
        }
      case 1:
        for (;;) sleep(1'000);
      default:
        nocter_wait wait = within(-1);
        wait.interrupt = nocter_completion_interrupt(completion);
        static nocter_blocking* const empty = service();
        nocter_running_job* none;
        if (nocter_blocking_claim(empty, &wait, &none) != NOCTER_INTERRUPTED) std::abort();
    }
  };
  serve(of, run, nullptr, 6);
  for (int i = 0; i < 3; i++) submit(of);
  eventually([] { return kind == 3; });
  std::thread([] {
    const nocter_wait wait = within(-1);
    nocter_epoch epoch;
    CHECK_STATUS(nocter_blocking_epoch(of, &epoch), NOCTER_OK);
    nocter_blocking* const quiet = service();
    CHECK_STATUS(nocter_blocking_epoch(quiet, &epoch), NOCTER_OK);
    std::ignore = nocter_blocking_wait_epoch(quiet, epoch, &wait, &epoch);
  }).detach();
  std::thread([] {
    for (;;) {
      nocter_job_state was;
      nocter_blocking* const short_lived = service(2, 1);
      std::ignore = nocter_blocking_cancel(short_lived, submit(short_lived), &was, nullptr);
      nocter_blocking_destroy(short_lived);
    }
  }).detach();
  usleep(20'000);
  leaving();
}

}  // namespace

CASE_ENDING(ffi_17_exit, "FFI-17", {.exit_code = 3, .leaves_within_ms = kLeave}) {
  be_busy();
  std::exit(3);
}
CASE_ENDING(ffi_17_return_from_main, "FFI-17", {.leaves_within_ms = kLeave}) { be_busy(); }
CASE_ENDING(ffi_17_exit_at_once, "FFI-17", {.exit_code = 4, .leaves_within_ms = kLeave}) {
  be_busy();
  _exit(4);
}
CASE_ENDING(ffi_17_quick_exit, "FFI-17", {.exit_code = 5, .leaves_within_ms = kLeave}) {
  be_busy();
  std::quick_exit(5);
}
CASE_ENDING(ffi_17_abort, "FFI-17", {.signal = SIGABRT, .leaves_within_ms = kLeave}) {
  be_busy();
  std::abort();
}
CASE_ENDING(ffi_17_terminated, "FFI-17", {.signal = SIGTERM, .leaves_within_ms = kLeave}) {
  be_busy();
  kill(getpid(), SIGTERM);
  for (;;) pause();
}
// From a thread of the library's, and from inside a notifier.
CASE_ENDING(ffi_17_exit_in_a_served_function, "FFI-17", {.exit_code = 6, .leaves_within_ms = kLeave}) {
  be_busy();
  nocter_blocking* const of = service();
  serve(
      of, [](void*, nocter_owned*, nocter_owned*, nocter_completion*) { std::exit(6); }, nullptr, 1);
  submit(of);
  for (;;) pause();
}
CASE_ENDING(ffi_17_exit_in_a_wake, "FFI-17", {.exit_code = 7, .leaves_within_ms = kLeave}) {
  be_busy();
  one_job(service(8, 4, {[](void*) { std::exit(7); }, nullptr, nullptr}));
}
// The main thread ends by pthread_exit; the process goes on and ends with its last thread.
CASE(ffi_17_main_thread_ends_first, "FFI-17 FFI-07") {
  if (kThreadSanitizer) skip("the thread of ThreadSanitizer's own would be the last one, and never ends");
  nocter_blocking* const of = service();
  static nocter_workers* workers;
  workers = serve(
      of, [](void*, nocter_owned*, nocter_owned*, nocter_completion*) { usleep(50'000); }, nullptr, 1);
  submit(of);
  std::thread([of] {
    usleep(100'000);
    nocter_workers_destroy(workers);
    nocter_blocking_destroy(of);
    check_all_dropped();
  }).detach();
  pthread_exit(nullptr);
}
