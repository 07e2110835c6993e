// The side of those who claim and complete: what is ready, what runs, and how a guard ends.
#include "nocter/blocking_moves.hpp"

namespace nocter::blocking {

using base::BothLocked;
using base::Interrupt;
using base::Locked;
using base::status_of;
using base::Wait;
using base::WaitingWorker;
using base::Woken;

Woken Service::wait_for_work(Locked& lock, const Wait& wait) {
  return claimers_.wait(
      lock, wait, shared_.patience, [this] { return !submitted_.empty(); },
      [this] { return !submitted_.empty() || ready_job() != nullptr || shared_.closed; });
}

Status Service::claim(const Wait* wait, Job*& out) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(back_.mutex);
  for (Woken why = Woken::changed;;) {
    if (shared_.closed) return Status::closed;
    take_submitted();
    if (Job* job = ready_job(); job != nullptr) {
      hand_to_worker(*job, after);
      hold();
      out = job;
      finish(lock, after, staying);
      return Status::ok;
    }
    if (wait == nullptr || why != Woken::changed) {
      // As in a wait: said first, then looked once more.
      if (tells_work()) claimers_.miss();
      if (!submitted_.empty() && back_.busy < shared_.workers) continue;
      return wait == nullptr ? Status::empty : status_of(why);
    }
    const WaitingWorker here(waiting_workers_, serves_here());
    if (here.is_last_of(shared_.workers)) return Status::would_deadlock;
    staying.hold();
    why = wait_for_work(lock, *wait);
  }
}

// ---- Guards ---------------------------------------------------------------------------------------------------------

void Service::end_guard(Job& job, JobEvent event, Owned& output, Job** next, const Interrupt* stop) {
  if (next != nullptr) *next = nullptr;
  Reference staying(*this, Reference::guards);
  After after;
  Locked lock(back_.mutex);
  if (job.state_now() == JobState::abandoned) {
    lock.unlock();
    retire_abandoned(job, event, output);
    return;
  }
  job.lost = event == JobEvent::lose;
  job.value = output.release();
  move(job, JobState::running, event, after);
  if (next != nullptr && !stop->raised()) {
    take_submitted();
    *next = ready_job();
    if (*next != nullptr) hand_to_worker(**next, after);
  }
  finish(lock, after, staying);
}

void Service::retire_abandoned(Job& job, JobEvent event, Owned& output) {
  Reference staying(*this, Reference::guards);
  After after;
  BothLocked lock(back_.mutex, front_.mutex);
  const Owned unwanted = output.release();
  if (unwanted.ends_itself()) front_.ending++;
  move(job, JobState::abandoned, event, after);
  finish(lock, after, staying);
  if (planted("abandoned_output_leaks")) return;
  if (unwanted.ends_itself()) end_counted(unwanted);
}

// A job that one of our own threads lent to its function is held by that thread's workers, and has no reference of its own.
Service::Reference::Held Service::held_by_guard(Job& job) {
  return base::self().lent == &job.completion() ? Reference::guards : Reference::already;
}

void Service::complete(Job& job, Owned& output) {
  Reference guard(job.service, held_by_guard(job));
  job.service.end_guard(job, JobEvent::complete, output, nullptr, nullptr);
}

void Service::lose(Job& job) {
  Reference guard(job.service, held_by_guard(job));
  Owned none;
  job.service.end_guard(job, JobEvent::lose, none, nullptr, nullptr);
}

void Service::drop_unbegun(Job& job) {
  struct Lost {
    Job& job;
    ~Lost() noexcept(false) { lose(job); }
  } lost{job};
  Owned input = job.value.release();
  input.end(job.service.exceptions());
}

Job* Service::claim_for_worker(Interrupt& stop) {
  const Wait until_stopped{base::kForever, &stop, false};
  Reference staying(*this, Reference::guards);  // the workers hold the service
  After after;
  Locked lock(back_.mutex);
  for (;;) {
    take_submitted();
    Job* const job = ready_job();
    if (stop.raised()) {
      // It may have been this thread that was woken for a job it does not take any more.
      if (job != nullptr) claimers_.call(after);
      finish(lock, after, staying);
      return nullptr;
    }
    if (job != nullptr) {
      hand_to_worker(*job, after);
      finish(lock, after, staying);
      return job;
    }
    if (shared_.closed) return nullptr;
    wait_for_work(lock, until_stopped);
  }
}

}  // namespace nocter::blocking
