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
  take_submitted();  // what no worker is free for; what comes after it is news
  return claimers_.wait(
      lock, wait, shared_.patience, [this] { return !submitted_.empty(); },
      [this] { return !submitted_.empty() || claimable() || shared_.closed; });
}

Status Service::claim(const Wait* wait, Job*& out) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(back_.mutex);
  for (Woken why = Woken::changed;;) {
    if (shared_.closed) return Status::closed;
    if (Job* job = worker_free() ? next_ready() : nullptr; job != nullptr) {
      hand_to_worker(*job, base::second(), after);
      job->running().tag.arm(base::Kind::running_job);
      hold();
      out = job;
      finish(lock, after, staying);
      return Status::ok;
    }
    if (wait == nullptr || why != Woken::changed) {
      // As in a wait: said first, then looked once more.
      if (tells_work()) claimers_.miss();
      if (claimable()) continue;
      return wait == nullptr ? Status::empty : status_of(why);
    }
    const WaitingWorker here(waiting_workers_, serves_here());
    if (here.is_last_of(shared_.workers)) return Status::would_deadlock;
    staying.hold();
    why = wait_for_work(lock, *wait);
  }
}

// ---- Guards ---------------------------------------------------------------------------------------------------------

void Service::end_guard(Job& job, JobEvent event, Owned& output, Locked::Left back) {
  Reference staying(*this, Reference::guards);
  After after;
  Locked lock(back_.mutex, back);
  if (job.state_now() == JobState::abandoned) {
    lock.unlock();
    retire_abandoned(job, event, output);
    return;
  }
  job.lost = event == JobEvent::lose;
  job.value = output.release();
  move(job, JobState::running, event, after);
  finish(lock, after, staying);
}

void Service::end_guard(Job& job, JobEvent event, Owned& output) {
  Locked lock(back_.mutex);
  end_guard(job, event, output, lock.leave());
}

void Service::complete_and_claim(Job*& at_hand, Owned& output, const Interrupt& stop) {
  Job& job = *at_hand;
  at_hand = nullptr;
  const int64_t now_second = base::second();
  Locked lock(back_.mutex);
  Job* const next = stop.raised() || job.state_now() == JobState::abandoned ? nullptr : next_ready();
  if (next == nullptr) [[unlikely]] {
    end_guard(job, JobEvent::complete, output, lock.leave());
    return;
  }
  job.lost = false;
  job.value = output.release();
  next->slot = job.slot;
  change(job, JobState::running, JobEvent::complete, Worker::the_same);
  change(*next, JobState::queued, JobEvent::claim, Worker::the_same);
  next->since = back_.clock.stamp(now_second);
  at_hand = next;
  base::light_barrier();
  if (takers_.are_there() || job.ended.observed() || claimers_.somebody_waits() || tells_waiters()) [[unlikely]]
    tell_of_completed(job, lock.leave());
}

void Service::tell_of_completed(Job& job, Locked::Left back) {
  Reference staying(*this, Reference::guards);
  After after;
  Locked lock(back_.mutex, back);
  tell_of(job, JobEvent::complete, blocking::step(JobState::running, JobEvent::complete), after);
  pass_wake_on(after);
  finish(lock, after, staying);
}

void Service::retire_abandoned(Job& job, JobEvent event, Owned& output) {
  Reference staying(*this, Reference::guards);
  After after;
  BothLocked lock(back_.mutex, front_.mutex);
  const Owned unwanted = output.release();
  if (unwanted.ends_itself()) front_.ending++;
  move(job, JobState::abandoned, event, after);
  tell_of_freed_slots(after);
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
  job.service.end_guard(job, JobEvent::complete, output);
}

void Service::lose(Job& job) {
  Reference guard(job.service, held_by_guard(job));
  Owned none;
  job.service.end_guard(job, JobEvent::lose, none);
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
    if (stop.raised()) {
      // It may have been this thread that was woken for a job it does not take any more.
      if (claimable()) claimers_.call(after);
      finish(lock, after, staying);
      return nullptr;
    }
    if (Job* const job = worker_free() ? next_ready() : nullptr; job != nullptr) {
      hand_to_worker(*job, base::second(), after);
      finish(lock, after, staying);
      return job;
    }
    if (shared_.closed) return nullptr;
    wait_for_work(lock, until_stopped);
  }
}

}  // namespace nocter::blocking
