// What nearly every case needs: services, payloads that are counted, jobs in each state.
#pragma once

#include <nocter.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <thread>

#include "case.hpp"

// GEN-01: created and dropped must be equal at the end.
struct Payloads {
  std::atomic<int> made{0};
  std::atomic<int> dropped{0};
};
inline Payloads payloads;

inline nocter_owned payload() {
  payloads.made++;
  return {new int(payloads.made), [](void* data) {
            delete static_cast<int*>(data);
            payloads.dropped++;
          }};
}
inline void drop(nocter_owned& owned) {
  if (owned.drop != nullptr) owned.drop(owned.data);
  owned = {nullptr, nullptr};
}

inline nocter_blocking* service(uint32_t jobs = 8, uint32_t workers = 4, nocter_notifier waiters = {},
                                nocter_notifier work = {}) {
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = jobs;
  options.workers = workers;
  options.waiters = waiters;
  options.work = work;
  nocter_blocking* out = nullptr;
  CHECK_STATUS(nocter_blocking_create(&options, &out), NOCTER_OK);
  return out;
}

inline nocter_job_id submit(nocter_blocking* to) {
  nocter_owned input = payload();
  nocter_job_id id;
  nocter_epoch epoch;
  CHECK_STATUS(nocter_blocking_submit(to, &input, &id, &epoch), NOCTER_OK);
  CHECK(input.data == nullptr && input.drop == nullptr);
  return id;
}

inline nocter_running_job* claim(nocter_blocking* from) {
  nocter_running_job* out = nullptr;
  CHECK_STATUS(nocter_blocking_claim(from, nullptr, &out), NOCTER_OK);
  return out;
}

inline nocter_completion* begin(nocter_running_job* job) {
  nocter_owned input;
  nocter_completion* out = nullptr;
  CHECK_STATUS(nocter_running_job_begin(job, &input, &out), NOCTER_OK);
  drop(input);
  return out;
}

inline void complete(nocter_completion* completion) {
  nocter_owned output = payload();
  CHECK_STATUS(nocter_completion_complete(completion, &output), NOCTER_OK);
}

inline nocter_status take(nocter_blocking* from, nocter_job_id id, const nocter_wait* wait = nullptr) {
  nocter_owned output;
  const nocter_status status = nocter_blocking_take(from, id, wait, &output);
  CHECK(status == NOCTER_OK || (output.data == nullptr && output.drop == nullptr));
  drop(output);
  return status;
}

// A job from submit to take, all in this thread: the service works.
inline void one_job(nocter_blocking* through) {
  const nocter_job_id id = submit(through);
  complete(begin(claim(through)));
  CHECK_STATUS(take(through, id), NOCTER_OK);
}

inline nocter_blocking_counts counts(const nocter_blocking* of) {
  nocter_blocking_counts out = NOCTER_BLOCKING_COUNTS_INIT;
  CHECK_STATUS(nocter_blocking_count(of, &out), NOCTER_OK);
  return out;
}

inline nocter_workers* serve(nocter_blocking* of, nocter_blocking_fn run, void* user, uint32_t threads) {
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = threads;
  nocter_workers* out = nullptr;
  CHECK_STATUS(nocter_blocking_serve(of, run, user, &options, &out), NOCTER_OK);
  return out;
}

// Runs the input's function and hands nothing on.
inline void run_nothing(void*, nocter_owned*, nocter_owned*, nocter_completion*) {}

inline nocter_wait within(int64_t ms) { return nocter_wait_for_ms(ms); }

// How many threads this process has, as the kernel counts them.
int thread_count();
// Sleeps until the condition holds; the case fails when it does not in five seconds.
void eventually(const std::function<bool()>& condition);
// Runs the function in a forked child and returns what it exited with; -signal when it was killed.
int in_child(const std::function<int()>& function);
// Open descriptors of this process, in order.
std::vector<int> descriptors();

inline void check_all_dropped() { CHECK(payloads.made == payloads.dropped); }
