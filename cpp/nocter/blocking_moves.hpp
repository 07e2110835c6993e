// How jobs move, for the two files that move them: blocking.cpp, the side of those who submit and take, and blocking_claims.cpp, the
// side of those who claim and complete. Inlined, so that where the caller knows the state and the event the step is known too.
#pragma once

#include "nocter/base/planted.hpp"
#include "nocter/blocking.hpp"

namespace nocter::blocking {

using base::planted;

// A slot that was freed rests behind so many others, so that a guard used after its end still finds a dead tag.
inline constexpr uint32_t kRestingJobs = 64;

__attribute__((always_inline)) inline Step Service::move(Job& job, JobState from, JobEvent event, Moves& moves,
                                                         After& after) {
  const Step step = blocking::step(from, event);
  if (!step.allowed()) return step;
  moves[static_cast<size_t>(from)][static_cast<size_t>(event)]++;
  switch (from) {
    case JobState::free:
      front_.admitted++;
      break;
    case JobState::queued:
      back_.ready.erase(back_.ready.iterator_to(job));
      break;
    case JobState::completed:
      (job.named ? front_.named : front_.completed).erase(front_.completed.iterator_to(job));
      break;
    case JobState::running:
    case JobState::abandoned:
      if (frees_worker(from, step)) {
        job.interrupt.header.tag.disarm();  // it ends with the guard
        back_.active.erase(back_.active.iterator_to(job));
        worker_freed(after);
      }
      break;
  }
  switch (step.next) {
    case JobState::free:
      slot_freed(job, after);
      break;
    case JobState::running:
      back_.busy++;
      back_.active.push_back(job);
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
  if (step.next == JobState::completed) ended_.push(place_of(job));
  if (event != JobEvent::submit && event != JobEvent::claim && event != JobEvent::take &&
      !(planted("cancel_tells_no_taker") && event == JobEvent::cancel)) {
    job.ended.advance_open();
    if (job.ended.asleep()) after.wakes.add(job.ended, true);
  }
  after.tell_waiters |= step.tells_waiters;
  return step;
}

inline void Service::slot_freed(Job& job, After& after) {
  front_.admitted--;
  front_.epoch += planted("epoch_stands_still") ? 0 : 1;
  front_.unused.push_back(job);
  front_.resting++;
  front_.capacity.tell_all(after.wakes);
  if (is_drained()) front_.drained.tell_all(after.wakes);
}

inline void Service::worker_freed(After& after) {
  back_.busy -= planted("worker_stays_busy") ? 0 : 1;
  // A submit that comes at this moment tells by itself.
  if (!back_.ready.empty() || !submitted_.empty()) claimers_.call(after);
}

inline Job* Service::unused_job() {
  if (front_.carved < shared_.maximum_jobs && front_.resting <= kRestingJobs) {
    return new (&shared_.jobs[front_.carved++]) Job(*this);
  }
  Job& job = front_.unused.front();
  front_.unused.pop_front();
  front_.resting--;
  return &job;
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
  move(job, JobState::queued, JobEvent::claim, back_.moves, after);
  if (job.interrupt.interrupt.raised() && !planted("interrupt_outlives_its_job")) job.interrupt.interrupt.clear();
  job.running_since = base::coarse_now_ns();
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

}  // namespace nocter::blocking
