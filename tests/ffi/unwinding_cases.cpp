// FFI-07, FFI-08: threads that end inside a callback, by pthread_exit or by cancellation, and a longjmp out of one. The guard in
// question is closed (or stranded by the longjmp), everybody else goes on.
#include <pthread.h>
#include <setjmp.h>

#include <csignal>

#include "objects.hpp"

namespace {

// Runs the function on a thread of its own and returns what pthread_join hands back.
void* on_thread(void* (*body)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, body, argument) == 0);
  void* result = nullptr;
  CHECK(pthread_join(thread, &result) == 0);
  return result;
}

char exited;  // its address is the exit value

void exit_thread(void*) { pthread_exit(&exited); }

// Set while an object with a destructor lives on the stack that is unwound: C++ frames of the host are unwound in order.
std::atomic<int> on_stack{0};
struct OnStack {
  OnStack() { on_stack++; }
  ~OnStack() { on_stack--; }
};

nocter_owned exiting_payload() {
  payloads.made++;
  return {nullptr, [](void*) {
            payloads.dropped++;
            pthread_exit(&exited);
          }};
}

}  // namespace

CASE(ffi_07_thread_exit_in_a_served_function, "FFI-07") {
  nocter_blocking* const of = service(64, 3);
  static std::atomic<bool> exit_next{false};
  const auto run = [](void*, nocter_owned*, nocter_owned* output, nocter_completion*) {
    OnStack object;
    *output = payload();
    if (exit_next.exchange(false)) pthread_exit(nullptr);
  };
  nocter_workers* const workers = serve(of, run, nullptr, 3);
  const nocter_wait wait = within(5'000);
  const int threads = thread_count();
  for (int lost = 1; lost <= 2; lost++) {
    exit_next = true;
    CHECK_STATUS(take(of, submit(of), &wait), NOCTER_WORKER_LOST);
    eventually([&] { return thread_count() == threads - lost; });
    for (int i = 0; i < 20; i++) CHECK_STATUS(take(of, submit(of), &wait), NOCTER_OK);
  }
  CHECK(on_stack == 0);
  CHECK(counts(of).completed_lost == 2 && counts(of).running == 0);
  CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_07_cancellation_of_a_thread_of_ours, "FFI-07") {
  nocter_blocking* const of = service(8, 1);
  const auto run = [](void*, nocter_owned*, nocter_owned*, nocter_completion*) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    CHECK(state == PTHREAD_CANCEL_DISABLE);
    pthread_cancel(pthread_self());
    pthread_testcancel();
  };
  nocter_workers* const workers = serve(of, run, nullptr, 1);
  const nocter_wait wait = within(5'000);
  for (int i = 0; i < 5; i++) CHECK_STATUS(take(of, submit(of), &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_07_thread_exit_in_a_wake_on_submit, "FFI-07") {
  nocter_blocking* const of = service(8, 4, {}, {exit_thread, nullptr, nullptr});
  nocter_running_job* none;
  CHECK_STATUS(nocter_blocking_claim(of, nullptr, &none), NOCTER_EMPTY);
  CHECK(on_thread(
            [](void* argument) -> void* {
              OnStack object;
              submit(static_cast<nocter_blocking*>(argument));
              return nullptr;
            },
            of) == &exited);
  CHECK(on_stack == 0);
  // The transition was done before anybody was told.
  CHECK(counts(of).queued == 1);
  nocter_running_job_drop(claim(of));
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_07_thread_exit_in_a_wake_on_complete, "FFI-07") {
  nocter_blocking* const of = service(8, 4, {exit_thread, nullptr, nullptr});
  const nocter_job_id id = submit(of);
  nocter_completion* const completion = begin(claim(of));
  CHECK(on_thread(
            [](void* argument) -> void* {
              OnStack object;
              complete(static_cast<nocter_completion*>(argument));
              return nullptr;
            },
            completion) == &exited);
  CHECK(on_stack == 0);
  nocter_job_state state;
  CHECK_STATUS(nocter_blocking_query(of, id, &state), NOCTER_OK);
  CHECK(state == NOCTER_JOB_COMPLETED);
  // The thread that ended was inside the notifier; others are still told.
  submit(of);
  CHECK(on_thread(
            [](void* argument) -> void* {
              nocter_running_job_drop(static_cast<nocter_running_job*>(argument));
              return nullptr;
            },
            claim(of)) == &exited);
  CHECK(counts(of).completed == 2);
  CHECK(on_thread(
            [](void* argument) -> void* {
              nocter_blocking_destroy(static_cast<nocter_blocking*>(argument));
              return nullptr;
            },
            of) != nullptr);
  CHECK_STATUS(nocter_blocking_drained(of, nullptr), NOCTER_E_ARGUMENT);
}

CASE(ffi_07_thread_exit_in_a_payload_drop, "FFI-07 GEN-02") {
  nocter_blocking* const of = service(8, 4);
  nocter_owned input = exiting_payload();
  nocter_job_id id;
  nocter_epoch epoch;
  CHECK_STATUS(nocter_blocking_submit(of, &input, &id, &epoch), NOCTER_OK);
  CHECK(on_thread(
            [](void* argument) -> void* {
              OnStack object;
              nocter_running_job_drop(claim(static_cast<nocter_blocking*>(argument)));
              return nullptr;
            },
            of) == &exited);
  CHECK(on_stack == 0);
  check_all_dropped();
  // The guard is closed all the same: the waiter hears of it, no worker slot is lost.
  const nocter_wait wait = within(2'000);
  CHECK_STATUS(take(of, id, &wait), NOCTER_WORKER_LOST);
  CHECK(counts(of).admitted == 0);
  one_job(of);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_07_thread_exit_in_a_sink, "FFI-07") {
  nocter_blocking* const of = service(8, 4);
  for (int i = 0; i < 4; i++) submit(of);
  CHECK(on_thread(
            [](void* argument) -> void* {
              const auto sink = [](void*, nocter_job_state, nocter_owned*) { pthread_exit(&exited); };
              CHECK_STATUS(nocter_blocking_shutdown(static_cast<nocter_blocking*>(argument), sink, nullptr), NOCTER_OK);
              return nullptr;
            },
            of) == &exited);
  // Closed for good, nothing stuck, nothing kept for ever.
  nocter_owned input = payload();
  nocter_job_id id;
  nocter_epoch epoch;
  CHECK_STATUS(nocter_blocking_submit(of, &input, &id, &epoch), NOCTER_CLOSED);
  drop(input);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_07_thread_exit_in_a_start_hook, "FFI-07 RSC-02") {
  nocter_blocking* const of = service(8, 4);
  const int threads = thread_count();
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = 3;
  options.start = [](void*) -> nocter_status { pthread_exit(nullptr); };
  nocter_workers* workers = nullptr;
  const nocter_status status = nocter_blocking_serve(of, run_nothing, nullptr, &options, &workers);
  CHECK(status < 0 && workers == nullptr);
  eventually([&] { return thread_count() == threads; });
  one_job(of);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

// AddressSanitizer does not clear the marks of the frames that a cancellation unwinds, and then trips over them itself.
constexpr const char* kNoCancellation = "AddressSanitizer 12 reports its own clean-up when a thread is cancelled";

CASE(ffi_07_cancellation_in_a_wake, "FFI-07") {
  if (kAddressSanitizer) skip(kNoCancellation);
  static std::atomic<bool> inside{false};
  const auto wait_to_be_cancelled = [](void*) {
    inside = true;
    for (;;) pause();
  };
  nocter_blocking* const of = service(8, 4, {wait_to_be_cancelled, nullptr, nullptr});
  const nocter_job_id id = submit(of);
  nocter_completion* const completion = begin(claim(of));
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void* argument) -> void* {
              OnStack object;
              complete(static_cast<nocter_completion*>(argument));
              return nullptr;
            },
            completion) == 0);
  eventually([&] { return inside.load(); });
  // Nobody is held up by the thread that is inside.
  nocter_job_state state;
  CHECK_STATUS(nocter_blocking_query(of, id, &state), NOCTER_OK);
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  CHECK(result == PTHREAD_CANCELED);
  CHECK(on_stack == 0);
  CHECK(counts(of).completed == 1 && counts(of).admitted == 1);
  _Exit(0);  // every further wake would wait as well
}

CASE(ffi_07_cancellation_during_a_wait, "FFI-07") {
  if (kAddressSanitizer) skip(kNoCancellation);
  nocter_blocking* const of = service(8, 4);
  pthread_t thread;
  static std::atomic<bool> waiting{false};
  CHECK(pthread_create(
            &thread, nullptr,
            [](void* argument) -> void* {
              const nocter_wait wait = within(400);
              nocter_running_job* out = nullptr;
              waiting = true;
              CHECK_STATUS(nocter_blocking_claim(static_cast<nocter_blocking*>(argument), &wait, &out), NOCTER_TIMEOUT);
              pthread_testcancel();
              return nullptr;
            },
            of) == 0);
  eventually([&] { return waiting.load(); });
  usleep(50'000);
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  CHECK(result == PTHREAD_CANCELED);
  one_job(of);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

namespace {
jmp_buf escape;
void jump_out(void*) { longjmp(escape, 1); }

// Completes a job from a notifier that jumps back here.
void jump_out_of_a_wake(nocter_blocking* of) {
  submit(of);
  nocter_completion* volatile const completion = begin(claim(of));
  if (setjmp(escape) == 0) {
    complete(completion);
    check_failed(__FILE__, __LINE__, "came back from the jump");
  }
}
}  // namespace

CASE(ffi_08_longjmp_strands_no_lock, "FFI-08") {
  nocter_blocking* const of = service(8, 4, {jump_out, nullptr, nullptr});
  jump_out_of_a_wake(of);
  // No lock is held: other threads use the service as before.
  std::thread([&] {
    CHECK(counts(of).completed == 1);
    submit(of);
    nocter_running_job* const job = claim(of);
    CHECK(counts(of).running == 1);
    nocter_owned input;
    nocter_completion* completion;
    CHECK_STATUS(nocter_running_job_begin(job, &input, &completion), NOCTER_OK);
    drop(input);
    CHECK(!nocter_completion_abandoned(completion));
  }).join();
  _Exit(0);  // a longjmp out of a callback is forbidden; what it strands stays
}

CASE_ENDING(ffi_08_check_finds_a_longjmp, "FFI-08", {.signal = SIGABRT, .says = {"longjmp"}, .check = true}) {
  nocter_blocking* const of = service(8, 4, {jump_out, nullptr, nullptr});
  jump_out_of_a_wake(of);
  submit(of);
}
