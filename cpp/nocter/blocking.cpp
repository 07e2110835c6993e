#include "nocter/blocking.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <span>

#include "nocter/blocking_moves.hpp"

namespace nocter::blocking {

using base::BothLocked;
using base::Locked;
using base::status_of;
using base::Wait;
using base::WaitingWorker;
using base::Woken;

// ---- Birth and end --------------------------------------------------------------------------------------------------

namespace {

void free_memory(Service::Memory memory) {
  ::operator delete (memory.jobs, std::align_val_t{alignof(Job)});
  std::free(memory.arrays);
}

}  // namespace

Service* Service::create(const Options& options) {
  // Jobs are built when first used, and untouched cells are the system's zero pages: a large service costs memory only as far as it is
  // filled, but none is asked for later.
  const Memory memory{::operator new (sizeof(Job) * options.maximum_jobs, std::align_val_t{alignof(Job)}, std::nothrow),
                      std::calloc(Layout(options).bytes(), 1)};
  const bool got_all = memory.jobs != nullptr && memory.arrays != nullptr;
  const uint64_t number = got_all ? base::next_service_number() : 0;
  Service* made = number == 0 ? nullptr : base::make_handle<Service, base::Kind::blocking>(options, memory, number);
  if (made == nullptr) free_memory(memory);
  return made;
}

Service::Service(const Options& options, Memory memory, uint64_t number)
    : base::Service<Service, base::Kind::blocking>(number, options.waiters, options.work),
      submitted_(Layout(options).submitted(memory.arrays), base::Crossing::cells_for(options.maximum_jobs)),
      ended_(Layout(options).ended(memory.arrays), base::Crossing::cells_for(options.maximum_jobs)),
      shared_(options, memory) {}

Service::~Service() { free_memory({shared_.jobs, shared_.arrays}); }

void Service::empty_out() {
  Locked lock(front_.mutex);
  front_.carved = 0;
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

Status Service::submit(Owned& input, Identity& id, Epoch& epoch) {
  const int64_t now_second = base::second();
  Locked lock(front_.mutex);
  epoch = epoch_now();
  if (shared_.closed) return Status::closed;
  if (admitted() == shared_.maximum_jobs) {
    front_.saturated++;
    if (planted("saturated_keeps_the_input")) input.release().end(exceptions());
    return Status::saturated;
  }
  const uint64_t sequence = shared_.first_sequence + accepted();
  if (sequence == 0) return Status::limit;
  Job& job = unused_job();
  job.sequence = sequence;
  job.since = front_.clock.stamp(now_second);
  job.value = input.release();
  job.at_front = Job::AtFront::no;
  id = identity_of(job);
  change(job, JobState::free, JobEvent::submit);
  base::light_barrier();
  if (claimers_.are_there() && !planted("submit_wakes_nobody")) [[unlikely]]
    call_claimers(lock.leave());
  return Status::ok;
}

void Service::call_claimers(Locked::Left front) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(front_.mutex, front);
  claimers_.call(after);
  finish(lock, after, staying);
}

Status Service::take(Identity id, const Wait* wait, Owned& output) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(front_.mutex);
  enum class Next : uint8_t { stay_awake, mark, sleep } next = Next::stay_awake;
  uint64_t seen = 0;
  bool waited = false;
  for (Woken why = Woken::changed;;) {
    Job* job;
    // After a wait somebody else may have ended it, and its place may hold another job by now.
    if (const Status found = find(id, job); found != Status::ok)
      return waited && shared_.closed ? Status::closed : found;
    const JobState state = state_at_front(*job);
    if (state == JobState::completed) {
      move(*job, JobState::completed, JobEvent::take, after);
      tell_of_freed_slots(after);
      output = job->value;
      const bool lost = job->lost;
      finish(lock, after, staying);
      return lost ? Status::worker_lost : Status::ok;
    }
    const Status refused = blocking::step(state, JobEvent::take).status;
    if (refused != Status::pending) return shared_.closed ? Status::closed : refused;
    if (wait == nullptr) return Status::pending;
    if (why != Woken::changed) return status_of(why);
    const WaitingWorker here(waiting_workers_, state == JobState::queued && serves_here());
    if (&job->completion() == base::self().lent || here.is_last_of(shared_.workers)) return Status::would_deadlock;
    staying.hold();
    waited = true;
    lock.unlock();
    switch (next) {
      case Next::stay_awake:
        next = Next::mark;
        job->ended.stay_awake(*wait, shared_.patience, [&] { return job->state_now() == JobState::completed; });
        break;
      case Next::mark:  // then look once more
        next = Next::sleep;
        seen = job->ended.observe();
        base::heavy_barrier();
        break;
      case Next::sleep:
        next = Next::stay_awake;
        why = job->ended.sleep_until_moved(seen, *wait);
        break;
    }
    lock.lock();
  }
}

Status Service::query(Identity id, JobState& state) const {
  Locked lock(front_.mutex);
  Job* job;
  if (const Status found = find(id, job); found != Status::ok) return found;
  const JobState now = state_at_front(*job);
  if (now == JobState::abandoned) return Status::unknown;
  state = now;
  return Status::ok;
}

Status Service::cancel(Identity id, JobState& was, Owned& reclaimed, bool give_back) {
  Reference staying(*this, Reference::later);
  After after;
  BothLocked lock(back_.mutex, front_.mutex);
  Job* job;
  if (const Status found = find(id, job); found != Status::ok) return found;
  take_submitted();
  take_ended();
  const JobState before = job->state_now();
  const Step step = move(*job, before, JobEvent::cancel, after);
  if (!step.allowed()) return step.status;
  if (step.next == JobState::free) tell_of_freed_slots(after);
  was = before;
  Owned value;
  if (step.value == Goes::to_caller) value = job->value;
  const bool end = !give_back && value.ends_itself();
  if (end) {
    front_.ending++;
    staying.hold();
  }
  finish(lock, after, staying);
  if (give_back) reclaimed = value;
  if (end) end_counted(value);
  return Status::ok;
}

Epoch Service::epoch() const {
  Locked lock(front_.mutex);
  return epoch_now();
}

Status Service::wait_epoch(Epoch later_than, const Wait* wait, Epoch& now) {
  Reference staying(*this, Reference::later);
  Locked lock(front_.mutex);
  if (later_than.service != number()) return Status::foreign;
  if (later_than.sequence == 0 || later_than.sequence > epoch_now().sequence) return Status::argument;
  for (Woken why = Woken::changed;;) {
    now = epoch_now();
    if (shared_.closed) return Status::closed;
    if (now.sequence != later_than.sequence) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (why != Woken::changed) return status_of(why);
    staying.hold();
    why = front_.capacity.wait(lock, *wait, shared_.patience);
  }
}

bool Service::closed() const {
  Locked lock(front_.mutex);
  return shared_.closed;
}

// Under the locks what nobody runs is taken out; it is handed over after them. The slots are not needed any more, for admission is
// closed, so the jobs themselves carry the values meanwhile.
void Service::shutdown(Sink sink, void* user) {
  Reference staying(*this, Reference::later);
  Jobs queued, completed;
  After after;
  BothLocked lock(back_.mutex, front_.mutex);
  if (shared_.closed) return;
  staying.hold();
  shared_.closed = true;
  take_submitted();
  take_ended();
  const auto extract = [&](Jobs& from, JobState state, Jobs& to) {
    while (!from.empty()) {
      Job& job = from.front();
      move(job, state, JobEvent::shut_down, after);
      if (state == JobState::completed && job.lost) continue;
      to.push_back(job);
      front_.ending++;
    }
  };
  extract(back_.ready, JobState::queued, queued);
  // Named ones are in no list: whoever was told their names mostly takes them at once.
  for (Job& job : std::span(shared_.jobs, front_.carved)) {
    if (job.state_now() != JobState::completed || job.at_front != Job::AtFront::named) continue;
    job.at_front = Job::AtFront::listed;
    front_.completed.push_back(job);
  }
  extract(front_.completed, JobState::completed, completed);
  completed.sort([](const Job& a, const Job& b) { return a.sequence < b.sequence; });
  if (!planted("shutdown_abandons_nobody"))
    for (Job* job : std::span(shared_.active, back_.slots)) {
      if (job != nullptr) move(*job, job->state_now(), JobEvent::shut_down, after);
    }
  claimers_.call_all(after);
  takers_.call_all(after);
  tell_of_freed_slots(after);
  after.tell_waiters = true;
  finish(lock, after, staying);
  hand_over(queued, JobState::queued, sink, user);
  hand_over(completed, JobState::completed, sink, user);
}

// Each value goes to the sink, and what the sink leaves ends here; also when the sink ends its thread.
void Service::hand_over(Jobs& jobs, JobState was, Sink sink, void* user) {
  struct Rest {
    Service& service;
    Jobs& jobs;
    Owned next() {
      const Owned value = jobs.front().value.release();
      jobs.pop_front();
      return value;
    }
    ~Rest() noexcept(false) {
      while (!jobs.empty()) service.end_counted(next());
    }
  } rest{*this, jobs};
  while (!jobs.empty()) {
    struct Handed {
      Service& service;
      Owned value;
      ~Handed() noexcept(false) { service.end_counted(value); }
    } handed{*this, rest.next()};
    if (sink != nullptr) base::call_foreign(exceptions(), [&] { sink(user, was, handed.value); });
  }
}

Status Service::drained(const Wait* wait) {
  Reference staying(*this, Reference::later);
  Locked lock(front_.mutex);
  if (!shared_.closed) return Status::state;
  for (Woken why = Woken::changed;;) {
    if (is_drained()) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (serves_here()) return Status::would_deadlock;
    if (why != Woken::changed) return status_of(why);
    staying.hold();
    why = front_.drained.wait(lock, *wait, shared_.patience);
  }
}

Counts Service::count() const {
  const int64_t now = base::coarse_now_ns();
  const auto age = [now](int64_t since) -> int64_t { return now > since ? now - since : 1; };
  using S = JobState;
  using E = JobEvent;
  BothLocked lock(back_.mutex, front_.mutex);
  if (!shared_.closed) take_submitted();
  Counts c{};
  c.accepting = !shared_.closed;
  c.admitted = admitted();
  c.maximum_jobs = shared_.maximum_jobs;
  c.workers = shared_.workers;
  c.epoch = epoch_now().sequence - 1;
  c.accepted = accepted();
  c.saturated = front_.saturated;
  c.taken = happened(S::completed, E::take);
  c.cancelled_queued = happened(S::queued, E::cancel);
  c.cancelled_completed = happened(S::completed, E::cancel);
  c.shutdown_queued = happened(S::queued, E::shut_down);
  c.shutdown_completed = happened(S::completed, E::shut_down);
  c.abandoned_retired = happened(S::abandoned, E::complete) + happened(S::abandoned, E::lose);
  c.completed_ok = happened(S::running, E::complete) + happened(S::abandoned, E::complete);
  c.completed_lost = happened(S::running, E::lose) + happened(S::abandoned, E::lose);
  c.exceptions = exceptions_thrown();
  const uint64_t abandoned = happened(S::running, E::cancel) + happened(S::running, E::shut_down);
  const auto now_in = [&c](JobState state) -> uint32_t& { return c.in_state[static_cast<size_t>(state)]; };
  now_in(S::queued) =
      static_cast<uint32_t>(c.accepted - happened(S::queued, E::claim) - c.cancelled_queued - c.shutdown_queued);
  now_in(S::abandoned) = static_cast<uint32_t>(abandoned - c.abandoned_retired);
  now_in(S::running) = back_.busy - now_in(S::abandoned);
  now_in(S::completed) = c.admitted - now_in(S::queued) - back_.busy;
  if (!back_.ready.empty()) c.oldest_queued_ns = age(back_.ready.front().since);
  for (const Job* job : std::span(shared_.active, back_.slots)) {
    if (job != nullptr) c.longest_running_ns = std::max(c.longest_running_ns, age(job->since));
  }
  return c;
}

// Ends a value that was counted in ending: drained waits for it.
void Service::end_counted(Owned value) {
  struct Ended {
    Service& service;
    ~Ended() noexcept(false) {
      Reference staying(service, Reference::later);
      After after;
      Locked lock(service.front_.mutex);
      service.front_.ending--;
      if (service.is_drained()) {
        service.front_.drained.tell_all(after.wakes);
        after.tell_waiters = true;
      }
      service.finish(lock, after, staying);
    }
  } ended{*this};
  value.end(exceptions());
}

}  // namespace nocter::blocking
