// FFI-06, GEN-10: C++ exceptions of every kind out of every callback. They stop at the boundary, are counted, and leave
// nothing behind.
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "objects.hpp"

namespace {

std::atomic<int> exceptions_alive{0};

// No std::exception, and not trivial to destroy.
struct Own {
  Own() : text(100, 'x') { exceptions_alive++; }
  Own(const Own& other) : text(other.text) { exceptions_alive++; }
  ~Own() { exceptions_alive--; }
  std::string text;
};
struct Base {
  virtual ~Base() = default;
};
struct Virtual : virtual Base, virtual std::runtime_error {
  Virtual() : std::runtime_error("virtual") {}
};

constexpr int kKinds = 9;

[[noreturn]] void throw_kind(int kind) {
  switch (kind % kKinds) {
    case 0:
      throw std::runtime_error("thrown on purpose");
    case 1:
      throw 42;
    case 2:
      throw "text";
    case 3:
      throw Own();
    case 4:
      throw std::bad_alloc();
    case 5:
      throw Virtual();
    case 6:
      throw static_cast<void*>(nullptr);
    case 7:
      try {
        throw Own();
      } catch (...) {
        std::throw_with_nested(std::logic_error("nested"));
      }
    default:
      std::rethrow_exception(std::make_exception_ptr(Own()));
  }
}

std::atomic<int> thrown{0};

void throw_next(void*) { throw_kind(thrown++); }

nocter_owned throwing_payload() {
  payloads.made++;
  return {nullptr, [](void*) {
            payloads.dropped++;
            throw_kind(thrown++);
          }};
}

nocter_job_id submit_throwing(nocter_blocking* to) {
  nocter_owned input = throwing_payload();
  nocter_job_id id;
  nocter_epoch epoch;
  CHECK_STATUS(nocter_blocking_submit(to, &input, &id, &epoch), NOCTER_OK);
  return id;
}

void check_exceptions_are_gone() { CHECK(exceptions_alive == 0); }

}  // namespace

CASE(ffi_06_wake_throws, "FFI-06 GEN-10") {
  nocter_blocking* const of = service(8, 4, {throw_next, nullptr, nullptr}, {throw_next, nullptr, nullptr});
  for (int i = 0; i < 4 * kKinds; i++) {
    nocter_running_job* none;
    CHECK_STATUS(nocter_blocking_claim(of, nullptr, &none), NOCTER_EMPTY);
    one_job(of);
    submit(of);
    nocter_running_job_drop(claim(of));
    nocter_job_id ended[8];
    size_t count;
    CHECK_STATUS(nocter_blocking_completed(of, ended, 8, &count), NOCTER_OK);
    CHECK(count == 1);
    CHECK_STATUS(take(of, ended[0]), NOCTER_WORKER_LOST);
  }
  CHECK(thrown >= kKinds);
  CHECK(counts(of).exceptions == static_cast<uint64_t>(thrown));
  nocter_blocking_destroy(of);
  check_exceptions_are_gone();
  check_all_dropped();
}

CASE(ffi_06_notifier_drop_throws, "FFI-06") {
  for (int i = 0; i < kKinds; i++) {
    const int before = thrown;
    nocter_blocking* const of = service(8, 4, {nullptr, throw_next, nullptr}, {nullptr, throw_next, nullptr});
    one_job(of);
    CHECK(thrown == before);
    nocter_blocking_destroy(of);
    CHECK(thrown == before + 2);
  }
  check_exceptions_are_gone();
  check_all_dropped();
}

CASE(ffi_06_payload_drop_throws, "FFI-06 GEN-02 R-16") {
  nocter_blocking* const of = service(64, 16);
  nocter_job_state was;
  for (int i = 0; i < kKinds; i++) {
    CHECK_STATUS(nocter_blocking_cancel(of, submit_throwing(of), &was, nullptr), NOCTER_OK);  // while it is queued
    const nocter_job_id dropped = submit_throwing(of);
    nocter_running_job_drop(claim(of));
    CHECK_STATUS(take(of, dropped), NOCTER_WORKER_LOST);
    const nocter_job_id abandoned = submit(of);
    nocter_completion* completion = begin(claim(of));
    CHECK_STATUS(nocter_blocking_cancel(of, abandoned, &was, nullptr), NOCTER_OK);
    nocter_owned output = throwing_payload();
    CHECK_STATUS(nocter_completion_complete(completion, &output), NOCTER_OK);
    const nocter_job_id completed = submit(of);
    completion = begin(claim(of));
    output = throwing_payload();
    CHECK_STATUS(nocter_completion_complete(completion, &output), NOCTER_OK);
    CHECK_STATUS(nocter_blocking_cancel(of, completed, &was, nullptr), NOCTER_OK);
  }
  CHECK(thrown == 4 * kKinds);
  CHECK(counts(of).exceptions == static_cast<uint64_t>(4 * kKinds));
  for (int i = 0; i < kKinds; i++) submit_throwing(of);
  CHECK_STATUS(nocter_blocking_shutdown(of, nullptr, nullptr), NOCTER_OK);
  CHECK(thrown == 5 * kKinds);
  CHECK_STATUS(nocter_blocking_drained(of, nullptr), NOCTER_OK);
  nocter_blocking_destroy(of);
  nocter_blocking* const second = service(64, 16);
  for (int i = 0; i < kKinds; i++) submit_throwing(second);
  nocter_blocking_destroy(second);
  CHECK(thrown == 6 * kKinds);
  check_exceptions_are_gone();
  check_all_dropped();
}

CASE(ffi_06_served_function_throws, "FFI-06 B-17 GEN-10") {
  nocter_blocking* const of = service(64, 2);
  const auto run = [](void*, nocter_owned* input, nocter_owned* output, nocter_completion*) {
    *output = payload();  // also what it left there is ended
    drop(*input);
    throw_next(nullptr);
  };
  nocter_workers* const workers = serve(of, run, nullptr, 2);
  const int threads = thread_count();
  for (int i = 0; i < 4 * kKinds; i++) {
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(take(of, submit(of), &wait), NOCTER_WORKER_LOST);
  }
  CHECK(thread_count() == threads);
  eventually([&] { return counts(of).exceptions == static_cast<uint64_t>(4 * kKinds); });
  CHECK(counts(of).completed_lost == static_cast<uint64_t>(4 * kKinds));
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_exceptions_are_gone();
  check_all_dropped();
}

CASE(ffi_06_drop_after_a_served_function_throws, "FFI-06 R-16") {
  nocter_blocking* const of = service(64, 2);
  const auto run = [](void*, nocter_owned*, nocter_owned* output, nocter_completion*) { *output = payload(); };
  nocter_workers* const workers = serve(of, run, nullptr, 2);
  const int threads = thread_count();
  for (int i = 0; i < 2 * kKinds; i++) {
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(take(of, submit_throwing(of), &wait), NOCTER_OK);  // the input is dropped by the thread of the library
  }
  CHECK(thread_count() == threads);
  nocter_workers_destroy(workers);
  CHECK(thrown == 2 * kKinds);
  nocter_blocking_destroy(of);
  check_exceptions_are_gone();
  check_all_dropped();
}

CASE(ffi_06_sink_throws, "FFI-06") {
  nocter_blocking* const of = service(64, 2);
  for (int i = 0; i < kKinds; i++) submit(of);
  const auto sink = [](void*, nocter_job_state was, nocter_owned*) {
    CHECK(was == NOCTER_JOB_QUEUED);
    throw_next(nullptr);
  };
  CHECK_STATUS(nocter_blocking_shutdown(of, sink, nullptr), NOCTER_OK);
  CHECK(thrown == kKinds);
  CHECK(counts(of).shutdown_queued == static_cast<uint64_t>(kKinds));
  CHECK_STATUS(nocter_blocking_drained(of, nullptr), NOCTER_OK);
  nocter_blocking_destroy(of);
  check_exceptions_are_gone();
  check_all_dropped();
}

CASE(ffi_06_start_hook_throws, "FFI-06 RSC-02") {
  nocter_blocking* const of = service(8, 8);
  const int threads = thread_count();
  for (int i = 0; i < kKinds; i++) {
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    static std::atomic<int> started, stopped;
    started = 0, stopped = 0;
    options.threads = 4;
    options.start = [](void*) -> nocter_status {
      if (started++ == 2) throw_next(nullptr);
      return NOCTER_OK;
    };
    options.stop = [](void*) { stopped++; };
    nocter_workers* workers = nullptr;
    const nocter_status status = nocter_blocking_serve(of, run_nothing, nullptr, &options, &workers);
    CHECK(status < 0 && workers == nullptr);
    CHECK(stopped == started - 1);
    CHECK(thread_count() == threads);
  }
  one_job(of);
  nocter_blocking_destroy(of);
  check_exceptions_are_gone();
  check_all_dropped();
}

CASE(ffi_06_stop_hook_throws, "FFI-06") {
  nocter_blocking* const of = service(8, 8);
  for (int i = 0; i < kKinds; i++) {
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    options.threads = 2;
    options.stop = throw_next;
    nocter_workers* workers = nullptr;
    CHECK_STATUS(nocter_blocking_serve(of, run_nothing, nullptr, &options, &workers), NOCTER_OK);
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_OK);
    nocter_workers_destroy(workers);
  }
  CHECK(thrown == 2 * kKinds);
  nocter_blocking_destroy(of);
  check_exceptions_are_gone();
  check_all_dropped();
}

// An exception of the host's that is being handled when nocter is called, and one that nocter swallows meanwhile.
CASE(ffi_06_inside_a_catch_block, "FFI-06") {
  nocter_blocking* const of = service(8, 4, {throw_next, nullptr, nullptr});
  try {
    throw std::runtime_error("outer");
  } catch (const std::runtime_error& outer) {
    one_job(of);
    CHECK(thrown > 0);
    CHECK(std::string(outer.what()) == "outer");
    CHECK(std::current_exception() != nullptr);
    try {
      throw;
    } catch (const std::runtime_error& again) {
      CHECK(&again == &outer);
    }
  }
  // And from a destructor that runs because of an exception.
  struct InDestructor {
    nocter_blocking* of;
    ~InDestructor() { one_job(of); }
  };
  try {
    InDestructor guard{of};
    throw Own();
  } catch (const Own&) {
  }
  CHECK(std::uncaught_exceptions() == 0);
  nocter_blocking_destroy(of);
  check_exceptions_are_gone();
  check_all_dropped();
}
