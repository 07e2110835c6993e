#include "sched/world.hpp"

#include <algorithm>
#include <cstring>

namespace sched {

// ---- Values ---------------------------------------------------------------------------------------------------------

nocter_owned Ledger::make(int number) {
  values_.push_back(std::make_unique<Value>(Value{this, number}));
  return {values_.back().get(), drop};
}

void Ledger::drop(void* data) {
  Value& value = *static_cast<Value*>(data);
  require_equal(locks_held(), 0, "locks held while a drop function runs");
  require(!value.drop_began, "a value was dropped twice");
  value.drop_began = true;
  point("drop function");
  require_equal(++value.ends, 1, "ends of a value");
}

int Ledger::number(const nocter_owned& value) {
  require(value.data != nullptr && value.drop == drop, "no value where one is due");
  return static_cast<Value*>(value.data)->number;
}

void Ledger::end(nocter_owned& value, int wanted) {
  require_equal(number(value), wanted, "which value came back");
  require_equal(++static_cast<Value*>(value.data)->ends, 1, "ends of a value");
  value = {nullptr, nullptr};
}

const Ledger::Value& Ledger::find(int number) const {
  for (const auto& value : values_) {
    if (value->number == number) return *value;
  }
  fail("no value has the number " + std::to_string(number));
}

bool Ledger::ended(int number) const { return find(number).ends != 0; }
bool Ledger::drop_began(int number) const { return find(number).drop_began; }

void Ledger::check() const {
  for (const auto& value : values_) {
    if (value->ends != 1) {
      fail("value " + std::to_string(value->number) + " was ended " + std::to_string(value->ends) + " times");
    }
  }
}

// ---- Waits ----------------------------------------------------------------------------------------------------------

nocter_wait forever() { return {NOCTER_FOREVER, nullptr, 0, 0}; }
nocter_wait forever(nocter_interrupt* interrupt) { return {NOCTER_FOREVER, interrupt, 0, 0}; }
nocter_wait within(int64_t ns) { return {nocter_now_ns() + ns, nullptr, 0, 0}; }
nocter_wait within(int64_t ns, nocter_interrupt* interrupt) { return {nocter_now_ns() + ns, interrupt, 0, 0}; }

OwnInterrupt::OwnInterrupt() { require_equal(nocter_interrupt_create(&interrupt_), NOCTER_OK, "interrupt_create"); }
OwnInterrupt::~OwnInterrupt() { nocter_interrupt_destroy(interrupt_); }

// ---- Notifiers ------------------------------------------------------------------------------------------------------

nocter_notifier Bell::notifier() {
  given = true;
  const auto wake = [](void* user) {
    Bell& bell = *static_cast<Bell*>(user);
    require_equal(locks_held(), 0, "locks held while a notifier runs");
    require(!bell.dropped, "a notifier was woken after it was dropped");
    bell.wakes++;
    bell.deepest = std::max(bell.deepest, ++bell.inside);
    if (bell.on_wake) bell.on_wake();
    bell.inside--;
  };
  const auto drop = [](void* user) {
    Bell& bell = *static_cast<Bell*>(user);
    require_equal(locks_held(), 0, "locks held while a notifier is dropped");
    require(!bell.dropped, "a notifier was dropped twice");
    bell.dropped = true;
  };
  return {wake, drop, this};
}

// ---- The service ----------------------------------------------------------------------------------------------------

Blocking::Blocking(const Shape& shape) {
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = shape.maximum_jobs;
  options.workers = shape.workers;
  options.waiters = waiters.notifier();
  options.work = work.notifier();
  options.wait_spins = NOCTER_WAIT_NONE;
  options.wait_yields = shape.stays_awake ? 1 : NOCTER_WAIT_NONE;
  require_equal(nocter_blocking_create(&options, &service), NOCTER_OK, "blocking_create");
}

nocter_status Blocking::submit(int number, nocter_job_id& id, nocter_epoch& epoch) {
  nocter_owned input = ledger.make(number);
  const nocter_owned before = input;
  const nocter_status status = nocter_blocking_submit(service, &input, &id, &epoch);
  if (status == NOCTER_OK) {
    require(input.data == nullptr && input.drop == nullptr, "an accepted input is still with its caller");
    require(id.service != 0 || id.sequence != 0, "an accepted job has no identity");
    tally.accepted++;
    return status;
  }
  require(std::memcmp(&input, &before, sizeof input) == 0, "GEN-02: a refused input was changed");
  require(id.service == 0 && id.sequence == 0, "a refused job has an identity");
  require(status == NOCTER_SATURATED || status == NOCTER_CLOSED, "submit says neither yes nor saturated nor closed");
  if (status == NOCTER_SATURATED) tally.saturated++;
  ledger.end(input, number);
  return status;
}

nocter_job_id Blocking::accepted(int number) {
  nocter_job_id id;
  nocter_epoch epoch;
  require_equal(submit(number, id, epoch), NOCTER_OK, "submit");
  return id;
}

nocter_status Blocking::claim(nocter_running_job*& job, const nocter_wait* wait) {
  const nocter_status status = nocter_blocking_claim(service, wait, &job);
  require((status == NOCTER_OK) == (job != nullptr), "a claim gives a guard when, and only when, it says so");
  require(status != NOCTER_EMPTY || wait == nullptr, "a claim that may wait says empty");
  return status;
}

Blocking::Begun Blocking::begin(nocter_running_job* job) {
  Begun begun = {nullptr, 0, nocter_running_job_id(job)};
  nocter_owned input;
  require_equal(nocter_running_job_begin(job, &input, &begun.completion), NOCTER_OK, "begin");
  begun.number = Ledger::number(input);
  ledger.end(input, begun.number);
  require(nocter_job_id_equal(nocter_completion_id(begun.completion), begun.id), "begin changed the identity");
  return begun;
}

Blocking::Begun Blocking::claimed_and_begun(const nocter_wait* wait) {
  nocter_running_job* job;
  require_equal(claim(job, wait), NOCTER_OK, "claim");
  return begin(job);
}

void Blocking::complete(const Begun& begun) {
  nocter_owned output = ledger.make(begun.number + 100);
  require_equal(nocter_completion_complete(begun.completion, &output), NOCTER_OK, "complete");
  require(output.data == nullptr && output.drop == nullptr, "a completed output is still with its worker");
  tally.completed++;
}

void Blocking::lose(const Begun& begun) {
  lost.push_back(begun.number);
  tally.lost++;
  nocter_completion_drop(begun.completion);
}

nocter_status Blocking::work_once(const nocter_wait* wait) {
  nocter_running_job* job;
  const nocter_status status = claim(job, wait);
  if (status == NOCTER_OK) complete(begin(job));
  return status;
}

nocter_status Blocking::take(nocter_job_id id, int number, const nocter_wait* wait) {
  nocter_owned output;
  const nocter_status status = nocter_blocking_take(service, id, wait, &output);
  if (status == NOCTER_OK) {
    ledger.end(output, number + 100);
  } else {
    require(output.data == nullptr && output.drop == nullptr, "an output came without NOCTER_OK");
  }
  if (status == NOCTER_WORKER_LOST) {
    require(std::find(lost.begin(), lost.end(), number) != lost.end(), "worker lost, and it was not");
  }
  require(status != NOCTER_PENDING || wait == nullptr, "a take that may wait says pending");
  if (status == NOCTER_OK || status == NOCTER_WORKER_LOST) tally.taken++;
  return status;
}

int32_t Blocking::cancel(nocter_job_id id, int number, bool give_back) {
  nocter_job_state was;
  nocter_owned reclaimed = {nullptr, nullptr};
  const nocter_status status = nocter_blocking_cancel(service, id, &was, give_back ? &reclaimed : nullptr);
  if (status != NOCTER_OK) {
    require(status < 0, "cancel has no outcomes but OK");
    require(was == 0 && reclaimed.data == nullptr, "a failed cancel gave something");
    return status;
  }
  const bool was_lost = std::find(lost.begin(), lost.end(), number) != lost.end();
  if (was == NOCTER_JOB_QUEUED) tally.cancelled_queued++;
  if (was == NOCTER_JOB_COMPLETED) tally.cancelled_completed++;
  if (was == NOCTER_JOB_RUNNING || (was == NOCTER_JOB_COMPLETED && was_lost)) {
    require(reclaimed.data == nullptr, "a running job gave its value up");
    return was;
  }
  const int value = was == NOCTER_JOB_QUEUED ? number : number + 100;
  if (give_back) {
    ledger.end(reclaimed, value);
  } else {
    require(ledger.ended(value), "a cancelled value was not dropped");
  }
  return was;
}

void Blocking::sink(void* user, nocter_job_state was, nocter_owned* value) {
  Blocking& world = *static_cast<Blocking*>(user);
  require_equal(locks_held(), 0, "locks held while a sink runs");
  point("sink");
  const int number = Ledger::number(*value);
  require(was == (number < 100 ? NOCTER_JOB_QUEUED : NOCTER_JOB_COMPLETED), "an input was queued, an output completed");
  world.handed.push_back({was, number});
  // Every second value is kept, the others are left to the service.
  if (number % 2 == 0) world.ledger.end(*value, number);
}

void Blocking::shutdown() { require_equal(nocter_blocking_shutdown(service, sink, this), NOCTER_OK, "shutdown"); }

nocter_status Blocking::drained(const nocter_wait* wait) { return nocter_blocking_drained(service, wait); }

nocter_status Blocking::wait_epoch(nocter_epoch& later_than, const nocter_wait* wait) {
  nocter_epoch now;
  const nocter_status status = nocter_blocking_wait_epoch(service, later_than, wait, &now);
  require(now.service == later_than.service && now.sequence >= later_than.sequence, "the epoch went back");
  if (status == NOCTER_OK) require(!nocter_epoch_equal(now, later_than), "said later, and it is the same epoch");
  later_than = now;
  return status;
}

nocter_epoch Blocking::epoch() {
  nocter_epoch now;
  require_equal(nocter_blocking_epoch(service, &now), NOCTER_OK, "epoch");
  return now;
}

nocter_job_state Blocking::state(nocter_job_id id) {
  nocter_job_state state;
  const nocter_status status = nocter_blocking_query(service, id, &state);
  require(status == NOCTER_OK || status == NOCTER_E_UNKNOWN, "query says neither a state nor unknown");
  require((status == NOCTER_OK) == (state != 0), "query gives a state when, and only when, it says so");
  return state;
}

nocter_blocking_counts Blocking::counts() {
  nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
  require_equal(nocter_blocking_count(service, &counts), NOCTER_OK, "count");
  check_sums(counts);
  return counts;
}

bool Blocking::glance(nocter_blocking_counts& counts) const {
  counts = NOCTER_BLOCKING_COUNTS_INIT;
  return locks_free() && nocter_blocking_count(service, &counts) == NOCTER_OK;
}

void Blocking::destroy() {
  nocter_blocking_destroy(service);
  service = nullptr;
}

void check_sums(const nocter_blocking_counts& c) {
  require_equal(c.admitted, c.queued + c.running + c.completed + c.abandoned,
                "BLK-01: admitted is the sum of the four");
  require(c.admitted <= c.maximum_jobs, "BLK-01: more jobs than admitted at most");
  require(c.running + c.abandoned <= c.workers, "BLK-02: more jobs run than there are workers");
  const uint64_t freed = c.taken + c.cancelled_queued + c.cancelled_completed + c.shutdown_queued +
                         c.shutdown_completed + c.abandoned_retired;
  require_equal(c.accepted, freed + c.admitted, "accepted is what was freed and what is there");
  require_equal(c.epoch, freed, "BLK-04: the epoch counts the slots that were freed");
  require(c.abandoned_retired <= c.completed_ok + c.completed_lost, "an abandoned guard ended like any other");
  require_equal(c.exceptions, 0, "exceptions");
}

void Blocking::settle() {
  if (service != nullptr) {
    const nocter_blocking_counts c = counts();
    require_equal(c.running + c.abandoned, 0, "guards that are still out");
    require_equal(c.accepted, tally.accepted, "accepted");
    require_equal(c.saturated, tally.saturated, "saturated");
    require_equal(c.taken, tally.taken, "taken");
    require_equal(c.cancelled_queued, tally.cancelled_queued, "cancelled when queued");
    require_equal(c.cancelled_completed, tally.cancelled_completed, "cancelled when completed");
    require_equal(c.completed_ok, tally.completed, "completed with an output");
    require_equal(c.completed_lost, tally.lost, "completed without one");
    shutdown();
    require_equal(drained(), NOCTER_OK, "drained");
    const nocter_blocking_counts end = counts();
    require_equal(end.admitted, 0, "jobs in a drained service");
    uint64_t queued = 0, completed = 0;
    for (const Handed& value : handed) (value.was == NOCTER_JOB_QUEUED ? queued : completed)++;
    require_equal(end.shutdown_queued, queued, "inputs handed over by shutdown");
    require(end.shutdown_completed >= completed && end.shutdown_completed <= completed + tally.lost,
            "outputs handed over by shutdown");
    destroy();
  }
  ledger.check();
  for (const Bell* bell : {&waiters, &work}) {
    require(bell->dropped, "a notifier was not dropped: the service still lives");
    require_equal(bell->inside, 0, "notifiers that have not returned");
  }
}

}  // namespace sched
