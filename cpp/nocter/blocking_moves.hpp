// How jobs move, for the two files that move them: blocking.cpp, the side of those who submit and take, and blocking_claims.cpp, the
// side of those who claim and complete. Inlined, so that where the caller knows the state and the event the step is known too.
#pragma once

#include "nocter/blocking.hpp"

namespace nocter::blocking {

// A slot that was freed rests behind so many others, so that a guard used after its end still finds a dead tag.
inline constexpr uint32_t kRestingJobs = 64;

__attribute__((always_inline)) inline uint64_t& Service::happened(JobState from, JobEvent event) {
  const size_t number = number_of(from, event);
  return number < kBackMoves ? back_.happened[number] : front_.happened[number - kBackMoves];
}

__attribute__((always_inline)) inline Step Service::change(Job& job, JobState from, JobEvent event, Worker worker) {
  const Step step = blocking::step(from, event);
  if (!step.allowed()) return step;
  happened(from, event)++;
  switch (from) {
    case JobState::free:
      break;
    case JobState::queued:  // who claims it has got it out of there
      if (event != JobEvent::claim) back_.ready.erase(back_.ready.iterator_to(job));
      break;
    case JobState::completed:
      if (job.at_front == Job::AtFront::listed) front_.completed.erase(front_.completed.iterator_to(job));
      break;
    case JobState::running:
    case JobState::abandoned:
      if (!frees_worker(from, step)) break;
      if (job.interrupt_used.glance() != 0) job.interrupt.header.tag.disarm();  // it ends with the guard
      if (worker == Worker::any) worker_freed(job);
      break;
  }
  switch (step.next) {
    case JobState::free:
      slot_freed(job);
      break;
    case JobState::running:
      if (job.interrupt_used.glance() != 0) clear_interrupt(job);
      if (worker == Worker::any) worker_taken(job);
      shared_.active[job.slot] = &job;
      break;
    case JobState::abandoned:
      job.interrupt_used.jot(1);
      job.interrupt.interrupt.raise();
      break;
    case JobState::queued:
    case JobState::completed:
      break;
  }
  job.state.publish(static_cast<uint8_t>(step.next));
  // Pushed last: whoever takes it finds it whole.
  if (step.next == JobState::queued) submitted_.push(place_of(job));
  if (step.next == JobState::completed) ended_.push(place_of(job));
  return step;
}

__attribute__((always_inline)) inline void Service::tell_of(Job& job, JobEvent event, const Step& step, After& after) {
  if (step.next == JobState::completed) takers_.call(after);
  if (event != JobEvent::submit && event != JobEvent::claim && event != JobEvent::take &&
      !(planted("cancel_tells_no_taker") && event == JobEvent::cancel)) {
    if (job.ended.advance_if_observed() && job.ended.asleep()) after.wakes.add(job.ended, true);
  }
  after.tell_waiters |= step.tells_waiters;
}

__attribute__((always_inline)) inline Step Service::move(Job& job, JobState from, JobEvent event, After& after) {
  const Step step = change(job, from, event);
  if (!step.allowed()) return step;
  // A submit that comes at this moment tells by itself.
  if (frees_worker(from, step) && some_ready()) claimers_.call(after);
  tell_of(job, event, step, after);
  return step;
}

inline void Service::slot_freed(Job& job) { shared_.unused[front_.freed++ & shared_.unused_mask] = place_of(job); }

// Once for all that a call has freed.
inline void Service::tell_of_freed_slots(After& after) {
  front_.capacity.tell_all(after.wakes);
  if (is_drained()) front_.drained.tell_all(after.wakes);
}

inline void Service::worker_taken(Job& job) {
  back_.busy++;
  job.slot = back_.free_slots != 0 ? shared_.free_slots[--back_.free_slots] : back_.slots++;
}

inline void Service::worker_freed(Job& job) {
  shared_.active[job.slot] = nullptr;
  shared_.free_slots[back_.free_slots++] = job.slot;
  back_.busy -= planted("worker_stays_busy") ? 0 : 1;
}

// It was an earlier job's. Not at the end of that one, for whoever still waits with it must find it raised.
inline void Service::clear_interrupt(Job& job) {
  job.interrupt_used.jot(0);
  if (!planted("interrupt_outlives_its_job")) job.interrupt.interrupt.clear();
}

// Whatever was accepted got a new one or one of the unused, so how many of those were taken need not be counted.
inline Job& Service::unused_job() {
  const uint32_t resting = front_.carved - admitted();
  if (resting <= kRestingJobs && front_.carved < shared_.maximum_jobs)
    return *new (&shared_.jobs[front_.carved++]) Job(*this);
  return shared_.jobs[shared_.unused[(accepted() - front_.carved) & shared_.unused_mask]];
}

inline Job* Service::next_ready() {
  if (!back_.ready.empty()) {
    Job& job = back_.ready.front();
    back_.ready.pop_front();
    return &job;
  }
  uint32_t place, soon;
  if (!submitted_.take_one(place, soon)) return nullptr;
  __builtin_prefetch(&shared_.jobs[soon].state, 1);
  return &shared_.jobs[place];
}

inline void Service::take_submitted() const {
  submitted_.take(
      SIZE_MAX, [this](uint32_t place) { __builtin_prefetch(static_cast<JobAside*>(&shared_.jobs[place]), 1); },
      [this](uint32_t place) { back_.ready.push_back(shared_.jobs[place]); });
}

inline void Service::take_ended() const {
  take_ended(SIZE_MAX, [this](Job& job) {
    job.at_front = Job::AtFront::listed;
    front_.completed.push_back(job);
  });
}

// A job has ended once it was pushed: until the front has got it, it still runs.
inline JobState Service::state_at_front(const Job& job) const {
  const JobState state = job.state_now();
  if (state != JobState::completed || job.at_front != Job::AtFront::no) return state;
  take_ended();
  return job.at_front != Job::AtFront::no ? JobState::completed : JobState::running;
}

inline void Service::hand_to_worker(Job& job, int64_t now_second, After& after) {
  move(job, JobState::queued, JobEvent::claim, after);
  job.since = back_.clock.stamp(now_second);
  pass_wake_on(after);
}

// For who has claimed: whoever was woken for that may have found something else.
inline void Service::pass_wake_on(After& after) {
  if (claimers_.somebody_waits() && claimable()) claimers_.call(after);
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
Status Service::take_many(const base::Wait* wait, size_t capacity, size_t& count, Each&& each) {
  Reference staying(*this, Reference::later);
  After after;
  base::Locked lock(front_.mutex);
  size_t taken = 0;
  const auto give = [&](Job& job) {
    move(job, JobState::completed, JobEvent::take, after);
    each(taken++, identity_of(job), job.value, job.lost);
  };
  for (base::Woken why = base::Woken::changed;;) {
    if (shared_.closed) return Status::closed;
    while (taken < capacity && !front_.completed.empty()) give(front_.completed.front());
    take_ended(capacity - taken, give);
    if (taken != 0) {
      count = taken;
      tell_of_freed_slots(after);
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
