// The blocking service as tests use it: each helper makes one call, checks what must hold whatever the outcome, and may be
// used from any thread.
#pragma once

#include <nocter/blocking.h>
#include <nocter/signal.h>

#include <cstring>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/payload.hpp"
#include "support/thread.hpp"

namespace nocter_tests {

inline bool is_zero(nocter_job_id id) { return id.service == 0 && id.sequence == 0; }
inline bool is_zero(nocter_epoch epoch) { return epoch.service == 0 && epoch.sequence == 0; }

struct Shape {
  uint32_t maximum_jobs = 64;
  uint32_t workers = 2;
  nocter_notifier waiters = {};
  nocter_notifier work = {};
};

inline nocter_blocking_options options_of(const Shape& shape) {
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = shape.maximum_jobs;
  options.workers = shape.workers;
  options.waiters = shape.waiters;
  options.work = shape.work;
  return options;
}

// The identities of the counts that hold in every moment.
inline void check_identities(const nocter_blocking_counts& c, Where where = Where::here()) {
  const uint64_t freed = c.taken + c.cancelled_queued + c.cancelled_completed + c.shutdown_queued +
                         c.shutdown_completed + c.abandoned_retired;
  holds(c.accepted == freed + c.admitted, "accepted = the six ends + admitted", where);
  holds(c.epoch == freed, "epoch = the six ends", where);
  holds(c.admitted == c.queued + c.running + c.completed + c.abandoned,
        "admitted = queued + running + completed + abandoned", where);
  holds(c.admitted <= c.maximum_jobs, "BLK-01: admitted <= maximum_jobs", where);
  holds(c.running + c.abandoned <= c.workers, "BLK-02: running + abandoned <= workers", where);
  holds(c.completed_ok + c.completed_lost ==
            c.accepted - c.cancelled_queued - c.shutdown_queued - c.queued - c.running - c.abandoned,
        "completed_ok + completed_lost = every guard that ended", where);
  holds(c.accepting == 1 || (c.queued == 0 && c.running == 0 && c.completed == 0),
        "after shutdown only abandoned jobs are left", where);
  holds(c.oldest_queued_ns >= 0 && (c.queued != 0 || c.oldest_queued_ns == 0), "no age without a queued job", where);
  holds(c.longest_running_ns >= 0 && (c.running + c.abandoned != 0 || c.longest_running_ns == 0),
        "no age without a running job", where);
}

inline nocter_blocking_counts counts_of(const nocter_blocking* service, Where where = Where::here()) {
  nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
  status_is(nocter_blocking_count(service, &counts), NOCTER_OK, where);
  check_identities(counts, where);
  return counts;
}

inline nocter_epoch epoch_of(const nocter_blocking* service, Where where = Where::here()) {
  nocter_epoch epoch = {};
  status_is(nocter_blocking_epoch(service, &epoch), NOCTER_OK, where);
  return epoch;
}

// The state, or the negative status.
inline int32_t state_of(const nocter_blocking* service, nocter_job_id id) {
  nocter_job_state state = 77;
  const nocter_status status = nocter_blocking_query(service, id, &state);
  HOLDS(status == NOCTER_OK ? state >= NOCTER_JOB_QUEUED && state <= NOCTER_JOB_COMPLETED : state == 0);
  return status == NOCTER_OK ? state : status;
}

struct Submitted {
  nocter_status status;
  nocter_job_id id;
  nocter_epoch epoch;
};

// GEN-02: unless it was taken over, the input is with the caller bit for bit.
inline Submitted submit(nocter_blocking* service, nocter_owned& input, Where where = Where::here()) {
  const nocter_owned before = input;
  Submitted result = {0, {77, 77}, {77, 77}};
  result.status = nocter_blocking_submit(service, &input, &result.id, &result.epoch);
  if (result.status == NOCTER_OK) {
    holds(is_none(input), "an accepted input is zeroed", where);
    holds(!is_zero(result.id), "an accepted job has an identity", where);
  } else {
    holds(same(input, before), "GEN-02: a refused input is unchanged", where);
    holds(is_zero(result.id), "no identity without a job", where);
  }
  holds(result.status < 0 ? is_zero(result.epoch) : !is_zero(result.epoch), "an epoch unless an error", where);
  return result;
}

// One that must be accepted.
inline nocter_job_id accept(nocter_blocking* service, uint64_t value, Where where = Where::here()) {
  nocter_owned input = payload(value);
  const Submitted result = submit(service, input, where);
  if (!status_is(result.status, NOCTER_OK, where)) discard(input);
  return result.id;
}

// One that must be refused, and goes.
inline nocter_epoch refuse(nocter_blocking* service, nocter_status expected, Where where = Where::here()) {
  nocter_owned input = payload(0);
  const Submitted result = submit(service, input, where);
  status_is(result.status, expected, where);
  discard(input);
  return result.epoch;
}

struct Claimed {
  nocter_status status;
  nocter_running_job* job;
};

inline Claimed try_claim(nocter_blocking* service, const nocter_wait* wait = nullptr, Where where = Where::here()) {
  nocter_running_job* job = reinterpret_cast<nocter_running_job*>(&job);
  const nocter_status status = nocter_blocking_claim(service, wait, &job);
  holds((status == NOCTER_OK) == (job != nullptr), "a guard exactly when claimed", where);
  return {status, job};
}

inline nocter_running_job* claim(nocter_blocking* service, Where where = Where::here()) {
  const Claimed claimed = try_claim(service, nullptr, where);
  status_is(claimed.status, NOCTER_OK, where);
  return claimed.job;
}

struct Begun {
  nocter_completion* completion;
  uint64_t value;
};

// Begins, and drops the input after reading it.
inline Begun begin(nocter_running_job* job, Where where = Where::here()) {
  nocter_owned input = {};
  nocter_completion* completion = nullptr;
  status_is(nocter_running_job_begin(job, &input, &completion), NOCTER_OK, where);
  holds(completion != nullptr, "begin gives a completion", where);
  return {completion, discard(input)};
}

inline Begun claim_and_begin(nocter_blocking* service, Where where = Where::here()) {
  return begin(claim(service, where), where);
}

inline void complete(nocter_completion* completion, uint64_t value, Where where = Where::here()) {
  nocter_owned output = payload(value);
  if (!status_is(nocter_completion_complete(completion, &output), NOCTER_OK, where)) discard(output);
  holds(is_none(output), "complete consumes its output", where);
}

// Runs the oldest job to its end.
inline void run_one(nocter_blocking* service, uint64_t output, Where where = Where::here()) {
  complete(claim_and_begin(service, where).completion, output, where);
}

struct Taken {
  nocter_status status;
  uint64_t value;
};

inline Taken take(nocter_blocking* service, nocter_job_id id, const nocter_wait* wait = nullptr,
                  Where where = Where::here()) {
  nocter_owned output = {&output, nullptr};
  const nocter_status status = nocter_blocking_take(service, id, wait, &output);
  holds(status == NOCTER_OK || is_none(output), "no output unless taken", where);
  return {status, discard(output)};
}

struct Cancelled {
  nocter_status status;
  nocter_job_state was;
  uint64_t value;
};

inline Cancelled cancel(nocter_blocking* service, nocter_job_id id, Where where = Where::here()) {
  nocter_owned reclaimed = {&reclaimed, nullptr};
  nocter_job_state was = 77;
  const nocter_status status = nocter_blocking_cancel(service, id, &was, &reclaimed);
  holds(status == NOCTER_OK ? was >= NOCTER_JOB_QUEUED && was <= NOCTER_JOB_COMPLETED : was == 0,
        "a state unless an error", where);
  holds(status == NOCTER_OK || is_none(reclaimed), "nothing comes back after an error", where);
  return {status, was, discard(reclaimed)};
}

struct HandedBack {
  nocter_job_state was;
  uint64_t value;
  friend bool operator==(const HandedBack& a, const HandedBack& b) { return a.was == b.was && a.value == b.value; }
};
using HandedBackList = std::vector<HandedBack>;

inline void collect_handed_back(void* user, nocter_job_state was, nocter_owned* value) {
  static_cast<HandedBackList*>(user)->push_back({was, discard(*value)});
}

inline HandedBackList shut_down(nocter_blocking* service, Where where = Where::here()) {
  HandedBackList list;
  status_is(nocter_blocking_shutdown(service, collect_handed_back, &list), NOCTER_OK, where);
  return list;
}

inline nocter_wait wait_ms(int64_t ms, nocter_interrupt* interrupt = nullptr) {
  nocter_wait wait = nocter_wait_for_ms(ms);
  wait.interrupt = interrupt;
  return wait;
}
// Long enough to be for ever, short enough that a lost wake fails its test and not the machine.
inline nocter_wait long_wait() { return wait_ms(kLimitMs); }

// A service for the length of a scope. Its counts are checked once more at the end.
class Service {
 public:
  explicit Service(const Shape& shape = {}, Where where = Where::here()) {
    const nocter_blocking_options options = options_of(shape);
    status_is(nocter_blocking_create(&options, &service_), NOCTER_OK, where);
  }
  ~Service() { destroy(); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  operator nocter_blocking*() const { return service_; }
  void destroy() {
    if (service_ == nullptr) return;
    counts_of(service_);
    nocter_blocking_destroy(std::exchange(service_, nullptr));
  }

 private:
  nocter_blocking* service_ = nullptr;
};

class Signal {
 public:
  Signal() { STATUS(nocter_signal_create(&signal_), NOCTER_OK); }
  ~Signal() { nocter_signal_destroy(signal_); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  operator nocter_signal*() const { return signal_; }
  void destroy() { nocter_signal_destroy(std::exchange(signal_, nullptr)); }

 private:
  nocter_signal* signal_ = nullptr;
};

class Interrupt {
 public:
  Interrupt() { STATUS(nocter_interrupt_create(&interrupt_), NOCTER_OK); }
  ~Interrupt() { nocter_interrupt_destroy(interrupt_); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  operator nocter_interrupt*() const { return interrupt_; }

 private:
  nocter_interrupt* interrupt_ = nullptr;
};

}  // namespace nocter_tests
