// Stores, clocks and rounds in few words, through the C boundary.
#pragma once

#include <nocter.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/fixture.hpp"
#include "support/service.hpp"

namespace nocter_tests {

inline nocter_text text(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
inline std::string to_string(nocter_text bytes) { return {bytes.data, bytes.size}; }

class Clock {
 public:
  static constexpr int64_t kStart = 1'000'000;
  Clock() { STATUS(nocter_clock_create(kStart, &clock_), NOCTER_OK); }
  ~Clock() { nocter_clock_destroy(clock_); }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  operator nocter_clock*() const { return clock_; }
  void advance(int64_t ms) { nocter_clock_advance(clock_, ms); }

 private:
  nocter_clock* clock_ = nullptr;
};

struct Opened {
  nocter_clock* clock = nullptr;
  uint32_t flags = 0;
  int64_t lease_ms = 0;
  int64_t retention_ms = 0;
  void (*log)(void*, int32_t, nocter_text) = nullptr;
  void* log_user = nullptr;
};

class Tasks {
 public:
  explicit Tasks(const Opened& how = {}, std::string_view url = "memory:") {
    nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
    options.clock = how.clock;
    options.flags = how.flags;
    options.lease_ms = how.lease_ms;
    options.retention_ms = how.retention_ms;
    options.log = how.log;
    options.log_user = how.log_user;
    STATUS(nocter_tasks_open(text(url), &options, &tasks_), NOCTER_OK);
  }
  ~Tasks() { close(); }
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;
  operator nocter_tasks*() const { return tasks_; }
  void close() { nocter_tasks_close(std::exchange(tasks_, nullptr)); }

 private:
  nocter_tasks* tasks_ = nullptr;
};

inline nocter_submission submission(std::string_view type, std::string_view payload = {}) {
  nocter_submission made = NOCTER_SUBMISSION_INIT;
  made.type = text(type);
  made.payload = text(payload);
  return made;
}

inline nocter_task_id submit(nocter_tasks* tasks, const nocter_submission& what, Where where = Where::here()) {
  nocter_task_id id = {};
  status_is(nocter_tasks_submit(tasks, &what, 1, &id), NOCTER_OK, where);
  return id;
}
inline nocter_task_id submit(nocter_tasks* tasks, std::string_view type, Where where = Where::here()) {
  return submit(tasks, submission(type), where);
}

// Null when there is none.
inline nocter_run* try_claim(nocter_tasks* tasks, std::string_view type, const nocter_wait* wait = nullptr,
                             nocter_status* status = nullptr) {
  const nocter_text types = text(type);
  nocter_run* run = nullptr;
  size_t count = 0;
  const nocter_status said = nocter_tasks_claim(tasks, &types, type.empty() ? 0 : 1, 1, wait, &run, &count);
  if (status != nullptr) *status = said;
  holds((said == NOCTER_OK) == (run != nullptr) && count == (run != nullptr ? 1 : 0),
        "a run for OK and for nothing else");
  return run;
}
inline nocter_run* claim(nocter_tasks* tasks, std::string_view type, Where where = Where::here()) {
  const nocter_wait wait = long_wait();
  nocter_status status = NOCTER_OK;
  nocter_run* const run = try_claim(tasks, type, &wait, &status);
  status_is(status, NOCTER_OK, where);
  return run;
}

inline nocter_status done(nocter_run* run, std::string_view result = {}) { return nocter_run_done(run, text(result)); }
inline nocter_status fail(nocter_run* run, int32_t retry = NOCTER_RETRY_BY_POLICY) {
  nocter_failure failure = NOCTER_FAILURE_INIT;
  failure.kind = text("Test");
  failure.retry = retry;
  return nocter_run_fail(run, &failure);
}
inline nocter_status suspend(nocter_run* run, nocter_until until, int64_t wake_at_ms = 0,
                             const std::vector<nocter_task_id>& ids = {}) {
  nocter_suspension suspension = NOCTER_SUSPENSION_INIT;
  suspension.until = until;
  suspension.ids = ids.data();
  suspension.count = ids.size();
  suspension.wake_at_ms = wake_at_ms;
  return nocter_run_suspend(run, &suspension);
}

// A record that ends with its scope.
class Seen {
 public:
  Seen(nocter_tasks* tasks, nocter_task_id id, Where where = Where::here()) {
    status_is(nocter_tasks_get(tasks, id, &task_), NOCTER_OK, where);
  }
  explicit Seen(const nocter_task* task) : task_(task) {}
  ~Seen() { nocter_task_free(task_); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  const nocter_task* operator->() const { return task_; }

 private:
  const nocter_task* task_ = nullptr;
};

inline nocter_task_status status_of(nocter_tasks* tasks, nocter_task_id id, Where where = Where::here()) {
  return Seen(tasks, id, where)->status;
}

inline nocter_tasks_counts counts_of(nocter_tasks* tasks) {
  nocter_tasks_counts counts = NOCTER_TASKS_COUNTS_INIT;
  STATUS(nocter_tasks_count(tasks, &counts), NOCTER_OK);
  return counts;
}

// Handlers that are lambdas.
class Served {
 public:
  using Function = std::function<void(nocter_run*)>;
  Served(nocter_tasks* tasks, std::string_view type, uint32_t threads, Function function)
      : function_(std::move(function)) {
    const nocter_task_handler handler = {sizeof handler, 0, text(type), run, this};
    STATUS(nocter_tasks_serve(tasks, &handler, 1, threads, nullptr, &workers_), NOCTER_OK);
  }
  ~Served() { stop(); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  void stop() { nocter_workers_destroy(std::exchange(workers_, nullptr)); }
  operator nocter_workers*() const { return workers_; }

 private:
  static void run(void* user, nocter_run* run) { static_cast<Served*>(user)->function_(run); }
  Function function_;
  nocter_workers* workers_ = nullptr;
};

}  // namespace nocter_tests
