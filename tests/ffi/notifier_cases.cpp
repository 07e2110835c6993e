// FFI-13, FFI-14: calls from inside a notifier, services that wake each other, and waits that only the waiting thread could end.
#include <functional>

#include "objects.hpp"

namespace {

// A notifier that runs one function each time, and knows how deep it is nested.
struct Watcher {
  std::function<void()> on_wake;
  std::atomic<int> turns{0};
  std::atomic<int> dropped{0};
  int depth = 0, deepest = 0;

  nocter_notifier notifier() {
    return {[](void* user) {
              auto& self = *static_cast<Watcher*>(user);
              self.turns++;
              self.depth++;
              if (self.depth > self.deepest) self.deepest = self.depth;
              if (self.on_wake) self.on_wake();
              self.depth--;
            },
            [](void* user) { static_cast<Watcher*>(user)->dropped++; }, this};
  }
};

// Every lifecycle call with a status, on a service with one job of each state.
struct Attempt {
  nocter_blocking* of;
  nocter_job_id completed;
  nocter_completion* completion;

  void all_are_refused() const {
    nocter_owned value = payload(), output;
    nocter_job_id id;
    nocter_epoch epoch = {0, 0};
    nocter_job_state state;
    size_t count;
    nocter_running_job* job;
    nocter_workers* workers;
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(nocter_blocking_submit(of, &value, &id, &epoch), NOCTER_E_REENTRANT);
    CHECK(value.data != nullptr);
    CHECK_STATUS(nocter_blocking_claim(of, nullptr, &job), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_claim(of, &wait, &job), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_take(of, completed, nullptr, &output), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_take(of, completed, &wait, &output), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_completed(of, &id, 1, &count), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_cancel(of, completed, &state, &output), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_wait_epoch(of, epoch, &wait, &epoch), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_shutdown(of, nullptr, nullptr), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_drained(of, &wait), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_blocking_serve(of, run_nothing, nullptr, nullptr, &workers), NOCTER_E_REENTRANT);
    CHECK_STATUS(nocter_completion_complete(completion, &value), NOCTER_E_REENTRANT);
    CHECK(value.data != nullptr);
    drop(value);
  }
  void queries_work() const {
    nocter_job_state state;
    nocter_epoch epoch;
    CHECK_STATUS(nocter_blocking_query(of, completed, &state), NOCTER_OK);
    CHECK(state == NOCTER_JOB_COMPLETED);
    CHECK_STATUS(nocter_blocking_epoch(of, &epoch), NOCTER_OK);
    CHECK(nocter_epoch_equal(epoch, epoch));
    CHECK(counts(of).admitted > 0);
    CHECK(nocter_job_id_equal(nocter_completion_id(completion), nocter_completion_id(completion)));
    CHECK(!nocter_completion_abandoned(completion));
  }
};

}  // namespace

CASE(ffi_13_lifecycle_calls_inside_a_waiters_wake, "FFI-13 BLK-11") {
  Watcher watcher;
  nocter_blocking* const of = service(8, 4, watcher.notifier());
  const nocter_job_id completed = submit(of);
  complete(begin(claim(of)));
  submit(of);
  const Attempt attempt{of, completed, begin(claim(of))};
  watcher.on_wake = [&] {
    const nocter_blocking_counts before = counts(of);
    attempt.all_are_refused();
    attempt.queries_work();
    const nocter_blocking_counts after = counts(of);
    CHECK(before.accepted == after.accepted && before.epoch == after.epoch && before.admitted == after.admitted);
  };
  submit(of);
  const int before = watcher.turns;
  nocter_running_job_drop(claim(of));
  CHECK(watcher.turns > before);
  watcher.on_wake = nullptr;
  one_job(of);  // afterwards everything works again on this thread
  complete(attempt.completion);
  nocter_blocking_destroy(of);
  CHECK(watcher.dropped == 1);
  check_all_dropped();
}

CASE(ffi_13_lifecycle_calls_inside_a_work_wake, "FFI-13 B-35") {
  Watcher watcher;
  nocter_blocking* const of = service(8, 4, {}, watcher.notifier());
  const nocter_job_id completed = submit(of);
  complete(begin(claim(of)));
  submit(of);
  const Attempt attempt{of, completed, begin(claim(of))};
  nocter_running_job* none;
  CHECK_STATUS(nocter_blocking_claim(of, nullptr, &none), NOCTER_EMPTY);
  watcher.on_wake = [&] {
    attempt.all_are_refused();
    attempt.queries_work();
  };
  submit(of);
  CHECK(watcher.turns > 0);
  watcher.on_wake = nullptr;
  complete(attempt.completion);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

// Begin makes no transition and is no lifecycle call.
CASE(ffi_13_begin_inside_a_wake, "FFI-13") {
  Watcher watcher;
  nocter_blocking* const of = service(8, 4, watcher.notifier());
  submit(of);
  submit(of);
  nocter_running_job* job = claim(of);
  nocter_completion* completion = nullptr;
  watcher.on_wake = [&] {
    if (job != nullptr) completion = begin(job);
    job = nullptr;
  };
  nocter_running_job_drop(claim(of));
  CHECK(completion != nullptr);
  complete(completion);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_13_another_service_inside_a_wake, "FFI-13") {
  Watcher watcher;
  nocter_blocking* const other = service();
  nocter_blocking* const of = service(8, 4, watcher.notifier());
  watcher.on_wake = [&] {
    one_job(other);
    nocter_blocking* const made_here = service();
    one_job(made_here);
    nocter_workers* const workers = serve(made_here, run_nothing, nullptr, 1);
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(take(made_here, submit(made_here), &wait), NOCTER_OK);
    nocter_workers_destroy(workers);
    nocter_blocking_destroy(made_here);
  };
  one_job(of);
  CHECK(watcher.turns >= 1);
  CHECK(counts(other).accepted == static_cast<uint64_t>(watcher.turns.load()));
  nocter_blocking_destroy(of);
  nocter_blocking_destroy(other);
  check_all_dropped();
}

CASE(ffi_13_drops_inside_a_wake_are_one_more_turn, "FFI-13") {
  constexpr int kJobs = 2'000;
  Watcher watcher;
  nocter_blocking* const of = service(kJobs, kJobs, watcher.notifier());
  std::vector<nocter_running_job*> jobs;
  for (int i = 0; i < kJobs; i++) {
    submit(of);
    jobs.push_back(claim(of));
  }
  watcher.on_wake = [&] {
    if (jobs.empty()) return;
    nocter_running_job* const last = jobs.back();
    jobs.pop_back();
    nocter_running_job_drop(last);
    CHECK(counts(of).completed_lost == static_cast<uint64_t>(kJobs) - jobs.size());
  };
  nocter_running_job* const first = jobs.back();
  jobs.pop_back();
  nocter_running_job_drop(first);
  CHECK(jobs.empty());
  CHECK(watcher.deepest == 1);
  CHECK(watcher.turns == kJobs);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_13_many_drops_in_one_turn_collapse, "FFI-13") {
  Watcher watcher;
  nocter_blocking* const of = service(64, 64, watcher.notifier());
  std::vector<nocter_running_job*> jobs;
  for (int i = 0; i < 33; i++) {
    submit(of);
    jobs.push_back(claim(of));
  }
  watcher.on_wake = [&] {
    for (nocter_running_job* job : jobs) nocter_running_job_drop(job);
    jobs.clear();
  };
  nocter_running_job* const first = jobs.back();
  jobs.pop_back();
  nocter_running_job_drop(first);
  CHECK(watcher.turns == 2);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_13_destroy_inside_a_wake, "FFI-13 B-33") {
  Watcher watcher;
  nocter_blocking* const of = service(8, 4, watcher.notifier());
  submit(of);
  submit(of);
  nocter_completion* const completion = begin(claim(of));
  bool destroyed = false;
  watcher.on_wake = [&] {
    if (destroyed) return;
    destroyed = true;
    nocter_blocking_destroy(of);
    CHECK(watcher.dropped == 0);  // not while it runs
  };
  nocter_running_job_drop(claim(of));
  CHECK(destroyed);
  CHECK(watcher.dropped == 0);  // a guard is still out
  CHECK(nocter_completion_abandoned(completion));
  complete(completion);
  CHECK(watcher.dropped == 1);
  check_all_dropped();
}

CASE(ffi_13_two_services_wake_each_other, "FFI-13") {
  constexpr int kJobs = 500;
  Watcher one, two;
  nocter_blocking* const first = service(kJobs + 1, kJobs + 1, one.notifier());
  nocter_blocking* const second = service(kJobs + 1, kJobs + 1, two.notifier());
  std::vector<nocter_running_job*> of_first, of_second;
  for (int i = 0; i < kJobs; i++) {
    submit(first);
    of_first.push_back(claim(first));
    submit(second);
    of_second.push_back(claim(second));
  }
  const auto drop_one = [](std::vector<nocter_running_job*>& from) {
    if (from.empty()) return;
    nocter_running_job* const last = from.back();
    from.pop_back();
    nocter_running_job_drop(last);
  };
  const char* lowest = reinterpret_cast<const char*>(&one);
  const char* const top = reinterpret_cast<const char*>(__builtin_frame_address(0));
  const auto measure = [&] {
    const char* const here = reinterpret_cast<const char*>(__builtin_frame_address(0));
    if (here < lowest) lowest = here;
  };
  one.on_wake = [&] { measure(), drop_one(of_second); };
  two.on_wake = [&] { measure(), drop_one(of_first); };
  drop_one(of_first);
  CHECK(of_first.empty() && of_second.size() <= 1);
  CHECK(one.deepest == 1 && two.deepest == 1);
  CHECK(kSanitized || top - lowest < 16 * 1024);
  nocter_blocking_destroy(first);
  nocter_blocking_destroy(second);
  for (nocter_running_job* job : of_second) nocter_running_job_drop(job);
  CHECK(one.dropped == 1 && two.dropped == 1);
  check_all_dropped();
}

// Both of them at once, from two threads: no deadlock, nothing lost.
CASE(ffi_13_two_services_wake_each_other_from_two_threads, "FFI-13") {
  constexpr int kJobs = 300;
  std::atomic<int> wakes{0};
  struct Side {
    nocter_blocking* other = nullptr;
    std::atomic<int>* wakes;
  } sides[2] = {{nullptr, &wakes}, {nullptr, &wakes}};
  const auto wake = [](void* user) {
    auto& side = *static_cast<Side*>(user);
    (*side.wakes)++;
    if (side.other == nullptr) return;
    nocter_owned input = payload();
    nocter_job_id id;
    nocter_epoch epoch;
    nocter_job_state was;
    const nocter_status status = nocter_blocking_submit(side.other, &input, &id, &epoch);
    CHECK(status == NOCTER_OK || status == NOCTER_SATURATED || status == NOCTER_E_REENTRANT);
    if (status == NOCTER_OK) CHECK(nocter_blocking_cancel(side.other, id, &was, nullptr) == NOCTER_OK);
    drop(input);
  };
  nocter_blocking* services[2];
  for (int i = 0; i < 2; i++) services[i] = service(64, 32, {wake, nullptr, &sides[i]});
  sides[0].other = services[1];
  sides[1].other = services[0];
  const auto work = [&](int i) {
    for (int n = 0; n < kJobs; n++) {
      nocter_job_state was;
      CHECK_STATUS(nocter_blocking_cancel(services[i], submit(services[i]), &was, nullptr), NOCTER_OK);
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  CHECK(wakes >= 2);
  sides[0].other = sides[1].other = nullptr;
  for (nocter_blocking* one : services) {
    CHECK(counts(one).admitted == 0);
    nocter_blocking_destroy(one);
  }
  check_all_dropped();
}

CASE(ffi_13_other_threads_are_not_inside, "FFI-13") {
  Watcher watcher;
  nocter_blocking* const of = service(8, 4, watcher.notifier());
  bool once = true;
  watcher.on_wake = [&] {
    if (!once) return;
    once = false;
    std::thread([&] { one_job(of); }).join();
  };
  submit(of);
  nocter_running_job_drop(claim(of));
  CHECK(!once);
  CHECK(counts(of).taken == 1);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_13_a_ready_made_notifier_in_two_services_at_once, "FFI-13") {
  nocter_signal* signal;
  CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
  const uint64_t before = nocter_signal_version(signal);
  nocter_blocking* const first = service(8, 4, nocter_signal_notifier(signal));
  nocter_blocking* const second = service(8, 4, nocter_signal_notifier(signal));
  one_job(first);
  const uint64_t between = nocter_signal_version(signal);
  CHECK(between != before);
  one_job(second);
  CHECK(nocter_signal_version(signal) != between);
  nocter_signal_destroy(signal);
  one_job(first);  // the signal lives on inside
  nocter_blocking_destroy(first);
  one_job(second);
  nocter_blocking_destroy(second);
  check_all_dropped();
}

// ---- FFI-14 ---------------------------------------------------------------------------------------------------------------

namespace {

// Runs the function as a job on a thread of the library.
void as_a_job(nocter_blocking* of, uint32_t threads, std::function<void(nocter_job_id)> function,
              nocter_workers** workers_out = nullptr) {
  static std::function<void(nocter_job_id)> body;
  body = std::move(function);
  const auto run = [](void*, nocter_owned*, nocter_owned*, nocter_completion* completion) {
    body(nocter_completion_id(completion));
  };
  nocter_workers* const workers = serve(of, run, nullptr, threads);
  if (workers_out != nullptr) *workers_out = workers;
  const nocter_wait wait = within(8'000);
  const nocter_status status = take(of, submit(of), &wait);
  CHECK(status == NOCTER_OK || status == NOCTER_CLOSED);
  if (workers_out == nullptr) nocter_workers_destroy(workers);
}

}  // namespace

CASE(ffi_14_stop_from_its_own_thread, "FFI-14") {
  nocter_blocking* const of = service(8, 2);
  nocter_workers* workers = nullptr;
  as_a_job(
      of, 2,
      [&](nocter_job_id) {
        eventually([&] { return workers != nullptr; });
        const nocter_wait wait = within(-1);
        CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_E_WOULD_DEADLOCK);
        const nocter_status asked = nocter_workers_stop(workers, nullptr);
        CHECK(asked == NOCTER_PENDING || asked == NOCTER_E_WOULD_DEADLOCK);
      },
      &workers);
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_OK);  // it was asked to, all the same
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_14_destroying_workers_from_their_own_thread, "FFI-14") {
  nocter_blocking* const of = service(8, 2);
  const int threads = thread_count();
  nocter_workers* workers = nullptr;
  as_a_job(
      of, 2,
      [&](nocter_job_id) {
        eventually([&] { return workers != nullptr; });
        nocter_workers_destroy(workers);
      },
      &workers);
  eventually([&] { return thread_count() == threads; });
  one_job(of);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_14_drained_from_a_job, "FFI-14") {
  nocter_blocking* const of = service(8, 2);
  as_a_job(of, 2, [&](nocter_job_id) {
    const nocter_wait wait = within(-1);
    CHECK_STATUS(nocter_blocking_shutdown(of, nullptr, nullptr), NOCTER_OK);
    CHECK_STATUS(nocter_blocking_drained(of, &wait), NOCTER_E_WOULD_DEADLOCK);
  });
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(nocter_blocking_drained(of, &wait), NOCTER_OK);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_14_destroy_from_a_job, "FFI-14") {
  nocter_blocking* const of = service(8, 2);
  nocter_workers* workers = nullptr;
  std::atomic<bool> done{false};
  const auto run = [](void* user, nocter_owned*, nocter_owned*, nocter_completion* completion) {
    auto& [service_of, finished] = *static_cast<std::pair<nocter_blocking*, std::atomic<bool>*>*>(user);
    nocter_blocking_destroy(service_of);
    CHECK(nocter_completion_abandoned(completion));
    *finished = true;
  };
  std::pair<nocter_blocking*, std::atomic<bool>*> argument{of, &done};
  workers = serve(of, run, &argument, 2);
  submit(of);
  eventually([&] { return done.load(); });
  nocter_workers_destroy(workers);
  check_all_dropped();
}

CASE(ffi_14_take_of_the_job_itself, "FFI-14 B-37") {
  nocter_blocking* const of = service(8, 2);
  as_a_job(of, 2, [&](nocter_job_id own) {
    const nocter_wait wait = within(-1);
    nocter_owned output;
    CHECK_STATUS(nocter_blocking_take(of, own, &wait, &output), NOCTER_E_WOULD_DEADLOCK);
    CHECK_STATUS(nocter_blocking_take(of, own, nullptr, &output), NOCTER_PENDING);
  });
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_14_claim_and_take_on_the_last_worker_slot, "FFI-14 B-37") {
  nocter_blocking* const of = service(8, 1);
  nocter_blocking* const other = service(8, 1);
  as_a_job(of, 1, [&](nocter_job_id) {
    const nocter_wait forever = within(-1);
    nocter_running_job* job;
    CHECK_STATUS(nocter_blocking_claim(of, &forever, &job), NOCTER_E_WOULD_DEADLOCK);
    CHECK_STATUS(nocter_blocking_claim(of, nullptr, &job), NOCTER_EMPTY);
    nocter_owned output;
    nocter_job_state was;
    const nocter_job_id behind = submit(of);
    CHECK_STATUS(nocter_blocking_take(of, behind, &forever, &output), NOCTER_E_WOULD_DEADLOCK);
    CHECK_STATUS(nocter_blocking_cancel(of, behind, &was, nullptr), NOCTER_OK);
    // Waits that somebody else can end are left alone.
    const nocter_wait wait = within(20);
    CHECK_STATUS(nocter_blocking_claim(other, &wait, &job), NOCTER_TIMEOUT);
    nocter_epoch epoch;
    CHECK_STATUS(nocter_blocking_epoch(of, &epoch), NOCTER_OK);
    CHECK_STATUS(nocter_blocking_wait_epoch(of, epoch, &wait, &epoch), NOCTER_TIMEOUT);
  });
  nocter_blocking_destroy(of);
  nocter_blocking_destroy(other);
  check_all_dropped();
}

CASE(ffi_14_a_job_that_waits_for_another_with_a_slot_left, "FFI-14") {
  nocter_blocking* const of = service(8, 2);
  static nocter_blocking* nested;
  nested = of;
  static std::atomic<bool> outer{true};
  outer = true;
  const auto run = [](void*, nocter_owned*, nocter_owned*, nocter_completion*) {
    if (!outer.exchange(false)) return;
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(take(nested, submit(nested), &wait), NOCTER_OK);
  };
  nocter_workers* const workers = serve(of, run, nullptr, 2);
  const nocter_wait wait = within(8'000);
  CHECK_STATUS(take(of, submit(of), &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}
