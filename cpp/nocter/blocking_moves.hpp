// How jobs move, for the two files that move them: blocking.cpp, the side of those who submit and take, and blocking_claims.cpp, the
// side of those who claim and complete. Inlined, so that where the caller knows the state and the event the step is known too.
#pragma once

#include "nocter/base/planted.hpp"
#include "nocter/blocking.hpp"

namespace nocter::blocking {

using base::planted;

// A slot that was freed rests behind so many others, so that a guard used after its end still finds a dead tag.
inline constexpr uint32_t kRestingJobs = 64;

__attribute__((always_inline)) inline uint64_t& Service::happened(JobState from, JobEvent event) {
  const size_t number = number_of(from, event);
  return number < kBackMoves ? back_.happened[number] : front_.happened[number - kBackMoves];
}

__attribute__((always_inline)) inline Step Service::move(Job& job, JobState from, JobEvent event, After& after) {
  const Step step = blocking::step(from, event);
  if (!step.allowed()) return step;
  happened(from, event)++;
  switch (from) {
    case JobState::free:
      front_.admitted++;
      break;
    case JobState::queued:
      back_.ready.erase(back_.ready.iterator_to(job));
      break;
    case JobState::completed:
      if (!job.named) front_.completed.erase(front_.completed.iterator_to(job));
      break;
    case JobState::running:
    case JobState::abandoned:
      if (frees_worker(from, step)) worker_freed(job, after);
      break;
  }
  switch (step.next) {
    case JobState::free:
      slot_freed(job, after);
      break;
    case JobState::running:
      back_.busy++;
      job.slot = back_.free_slots != 0 ? shared_.free_slots[--back_.free_slots] : back_.slots++;
      shared_.active[job.slot] = &job;
      break;
    case JobState::abandoned:
      job.interrupt.interrupt.raise();
      break;
    case JobState::queued:
    case JobState::completed:
      break;
  }
  job.state.publish(static_cast<uint8_t>(step.next));
  // Pushed last: whoever takes it finds it whole.
  if (step.next == JobState::queued) submitted_.push(place_of(job));
  if (step.next == JobState::completed) {
    ended_.push(place_of(job));
    takers_.call(after);
  }
  if (event != JobEvent::submit && event != JobEvent::claim && event != JobEvent::take &&
      !(planted("cancel_tells_no_taker") && event == JobEvent::cancel)) {
    if (job.ended.advance_if_observed() && job.ended.asleep()) after.wakes.add(job.ended, true);
  }
  after.tell_waiters |= step.tells_waiters;
  return step;
}

inline void Service::slot_freed(Job& job, After& after) {
  front_.admitted--;
  front_.epoch += planted("epoch_stands_still") ? 0 : 1;
  shared_.unused[front_.freed++ & shared_.unused_mask] = place_of(job);
  front_.resting++;
  front_.capacity.tell_all(after.wakes);
  if (is_drained()) front_.drained.tell_all(after.wakes);
}

inline void Service::worker_freed(Job& job, After& after) {
  job.interrupt.header.tag.disarm();  // it ends with the guard
  shared_.active[job.slot] = nullptr;
  shared_.free_slots[back_.free_slots++] = job.slot;
  back_.busy -= planted("worker_stays_busy") ? 0 : 1;
  // A submit that comes at this moment tells by itself.
  if (!back_.ready.empty() || !submitted_.empty()) claimers_.call(after);
}

inline Job* Service::unused_job() {
  if (front_.carved < shared_.maximum_jobs && front_.resting <= kRestingJobs) {
    return new (&shared_.jobs[front_.carved++]) Job(*this);
  }
  return &shared_.jobs[shared_.unused[(front_.freed - front_.resting--) & shared_.unused_mask]];
}

inline Job* Service::ready_job() {
  return back_.ready.empty() || back_.busy >= shared_.workers ? nullptr : &back_.ready.front();
}

inline void Service::take_submitted() const {
  submitted_.take(
      SIZE_MAX, [this](uint32_t place) { __builtin_prefetch(&shared_.jobs[place].value, 1); },
      [this](uint32_t place) { back_.ready.push_back(shared_.jobs[place]); });
}

inline void Service::take_ended() const {
  take_ended(SIZE_MAX, [this](Job& job) {
    job.at_front = true;
    job.named = false;
    front_.completed.push_back(job);
  });
}

// A job has ended once it was pushed: until the front has got it, it still runs.
inline JobState Service::state_at_front(const Job& job) const {
  const JobState state = job.state_now();
  if (state != JobState::completed || job.at_front) return state;
  take_ended();
  return job.at_front ? JobState::completed : JobState::running;
}

inline void Service::hand_to_worker(Job& job, After& after) {
  move(job, JobState::queued, JobEvent::claim, after);
  if (job.interrupt.interrupt.raised() && !planted("interrupt_outlives_its_job")) job.interrupt.interrupt.clear();
  job.running_since = back_.clock.stamp();
  job.running().tag.arm(base::Kind::running_job);
  job.interrupt.header.tag.arm(base::Kind::interrupt);
  // Whoever was woken for this job may have found another one: pass the wake on.
  if (claimers_.somebody_waits() && ready_job() != nullptr) claimers_.call(after);
}

inline Status Service::find(Identity id, Job*& job) const {
  if (id.service == 0 && id.sequence == 0) return Status::unknown;
  if (id.service_number() != number() && !planted("foreign_is_ours")) return Status::foreign;
  if (id.place() >= front_.carved) return Status::unknown;
  job = &shared_.jobs[id.place()];
  return (job->sequence == id.sequence || planted("stale_is_live")) && job->state_now() != JobState::free
             ? Status::ok
             : Status::unknown;
}

template <class Each>
Status Service::take_many(const base::Wait* wait, size_t capacity, Each&& each) {
  Reference staying(*this, Reference::later);
  After after;
  base::Locked lock(front_.mutex);
  size_t count = 0;
  const auto give = [&](Job& job) {
    move(job, JobState::completed, JobEvent::take, after);
    each(count++, identity_of(job), job.value.release(), job.lost);
  };
  for (base::Woken why = base::Woken::changed;;) {
    if (shared_.closed) return Status::closed;
    while (count < capacity && !front_.completed.empty()) give(front_.completed.front());
    take_ended(capacity - count, [&](Job& job) {
      job.named = true;  // so in no list
      give(job);
    });
    if (count != 0) {
      if (takers_.somebody_waits() && some_ended()) takers_.call(after);
      finish(lock, after, staying);
      return Status::ok;
    }
    if (wait == nullptr) return Status::pending;
    if (why != base::Woken::changed) return status_of(why);
    const base::WaitingWorker here(waiting_workers_, serves_here());
    if (here.is_last_of(shared_.workers)) return Status::would_deadlock;
    staying.hold();
    why = takers_.wait(
        lock, *wait, shared_.patience, [this] { return !ended_.empty(); },
        [this] { return some_ended() || shared_.closed; });
  }
}

}  // namespace nocter::blocking
