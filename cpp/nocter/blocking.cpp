#include "nocter/blocking.hpp"

#include <new>

namespace nocter::blocking {

using base::Interrupt;
using base::Locked;
using base::status_of;
using base::Wait;
using base::Woken;

namespace {

// A slot that was freed rests behind so many others, so that a guard used after its end still finds a dead tag.
constexpr uint32_t kRestingJobs = 64;

}  // namespace

// ---- Birth and end --------------------------------------------------------------------------------------------------

Service* Service::create(const Options& options) {
  // Jobs are built when first used: a large service costs memory only as far as it is filled, but none is asked for later.
  void* memory = ::operator new(sizeof(Job) * options.maximum_jobs, std::align_val_t{alignof(Job)}, std::nothrow);
  if (memory == nullptr) return nullptr;
  const uint64_t number = base::next_service_number();
  Service* made = number == 0 ? nullptr : base::make_handle<Service, base::Kind::blocking>(options, memory, number);
  if (made == nullptr) ::operator delete(memory, std::align_val_t{alignof(Job)});
  return made;
}

Service::Service(const Options& options, void* memory, uint64_t number)
    : header(base::Kind::blocking),
      maximum_jobs_(options.maximum_jobs),
      workers_(options.workers),
      next_sequence_(options.first_sequence),
      jobs_(static_cast<Job*>(memory)),
      number_(number),
      patience_(options.patience),
      waiters_(options.waiters),
      work_notifier_(options.work) {}

Service::~Service() {
  ::operator delete(jobs_, std::align_val_t{alignof(Job)});
  for (const base::Notifier* notifier : {&waiters_, &work_notifier_}) {
    if (notifier->drop != nullptr) base::call_foreign(exceptions_, [&] { notifier->drop(notifier->user); });
  }
}

// What it leaves behind is closed and has no jobs: see kHandleSize.
void Service::release() {
  if (references_.fetch_sub(1) != 1) return;
  {
    Locked lock(mutex_);
    carved_ = 0;
  }
  base::end_handle<base::Kind::blocking>(this);
}

void Service::destroy() {
  base::Telling* const telling = base::inside_notifier_of(this);
  shutdown(nullptr, nullptr);
  if (telling != nullptr) {
    telling->destroyed = true;  // whoever called that notifier still needs the service, and lets go of it
  } else {
    release();
  }
}

// ---- Moves ----------------------------------------------------------------------------------------------------------

// The only place where a job changes its state, and where slots, workers, totals and lists follow it.
inline Step Service::move(Job& job, JobEvent event, After& after) {
  const JobState from = job.state;
  const Step step = blocking::step(from, event);
  if (!step.allowed()) return step;
  moves_[static_cast<size_t>(from)][static_cast<size_t>(event)]++;
  job.state = step.next;
  switch (from) {
    case JobState::free:
      admitted_++;
      break;
    case JobState::queued:
      queued_.erase(queued_.iterator_to(job));
      break;
    case JobState::running:
    case JobState::abandoned:
      if (frees_worker(from, step)) active_.erase(active_.iterator_to(job));
      break;
    case JobState::completed:
      (job.named ? named_ : completed_).erase((job.named ? named_ : completed_).iterator_to(job));
      break;
  }
  switch (step.next) {
    case JobState::free:
      slot_freed(job, after);
      break;
    case JobState::queued:
      queued_.push_back(job);
      break;
    case JobState::running:
      busy_++;
      active_.push_back(job);
      break;
    case JobState::abandoned:
      job.interrupt.interrupt.raise();
      break;
    case JobState::completed:
      job.named = false;
      completed_.push_back(job);
      break;
  }
  if (frees_worker(from, step)) worker_freed(after);
  if (event != JobEvent::submit && event != JobEvent::claim) job.ended.tell_all(after.wakes);
  after.tell_waiters |= step.tells_waiters;
  return step;
}

inline void Service::slot_freed(Job& job, After& after) {
  admitted_--;
  epoch_++;
  unused_.push_back(job);
  resting_++;
  capacity_.tell_all(after.wakes);
  if (is_drained()) drained_.tell_all(after.wakes);
}

inline void Service::worker_freed(After& after) {
  busy_--;
  if (queued_.empty()) return;
  work_.tell_one(after.wakes);
  after.tell_work |= claim_missed_;
  claim_missed_ = false;
}

inline Job* Service::unused_job() {
  if (carved_ < maximum_jobs_ && resting_ <= kRestingJobs) return new (&jobs_[carved_++]) Job(*this);
  Job& job = unused_.front();
  unused_.pop_front();
  resting_--;
  return &job;
}

inline void Service::hand_to_worker(Job& job, After& after) {
  move(job, JobEvent::claim, after);
  job.interrupt.interrupt.clear();
  job.since_ns = base::coarse_now_ns();
  job.running().tag.arm(base::Kind::running_job);
  // Whoever was woken for this job may have found another one: pass the wake on.
  if (claimable() != nullptr) work_.tell_one(after.wakes);
}

Status Service::find(Identity id, Job*& job) const {
  if (id.service == 0 && id.sequence == 0) return Status::unknown;
  if (id.service_number() != number_) return Status::foreign;
  if (id.place() >= carved_) return Status::unknown;
  job = &jobs_[id.place()];
  return job->state != JobState::free && job->sequence == id.sequence ? Status::ok : Status::unknown;
}

// Releases the lock, then wakes, then tells.
inline void Service::finish(Locked& lock, After& after) {
  lock.unlock();
  after.wakes.send();
  bool destroyed = false;
  if (after.tell_waiters) destroyed |= base::tell(this, waiters_, exceptions_);
  if (after.tell_work) destroyed |= base::tell(this, work_notifier_, exceptions_);
  if (destroyed) release();
}

// Ends a value that was counted in ending_: drained waits for it.
void Service::end_counted(Owned value) {
  struct Ended {
    Service& service;
    ~Ended() {
      base::Wakes wakes;
      Locked lock(service.mutex_);
      service.ending_--;
      if (service.is_drained()) service.drained_.tell_all(wakes);
      lock.unlock();
    }
  } ended{*this};
  value.end(exceptions_);
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

Status Service::submit(Owned& input, Identity& id, Epoch& epoch) {
  const int64_t now = base::coarse_now_ns();
  After after;
  Locked lock(mutex_);
  epoch = epoch_locked();
  if (closed_) return Status::closed;
  if (admitted_ == maximum_jobs_) {
    saturated_++;
    return Status::saturated;
  }
  if (next_sequence_ == 0) return Status::limit;
  Job& job = *unused_job();
  job.sequence = next_sequence_++;
  job.since_ns = now;
  job.value = input.release();
  move(job, JobEvent::submit, after);
  id = identity_of(job);
  if (busy_ < workers_) {
    work_.tell_one(after.wakes);
    after.tell_work = claim_missed_;
    claim_missed_ = false;
  }
  finish(lock, after);
  return Status::ok;
}

bool Service::runs_job_here() const { return base::self().serving == this && base::self().lent != nullptr; }
bool Service::holds_last_free_worker() const { return runs_job_here() && waiting_workers_ + 1 >= workers_; }

// A wait of a thread of ours that holds a worker slot, which others must not count on meanwhile.
template <class Condition>
Woken Service::wait_in(Condition& condition, Locked& lock, const Wait& wait) {
  const bool holds_worker = runs_job_here();
  if (holds_worker) waiting_workers_++;
  const Woken why = condition.wait(lock, wait, patience_);
  if (holds_worker) waiting_workers_--;
  return why;
}

Status Service::claim(const Wait* wait, Job*& out) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  for (Woken why = Woken::changed;;) {
    if (Job* job = claimable(); job != nullptr) {
      hand_to_worker(*job, after);
      references_.fetch_add(1);
      out = job;
      finish(lock, after);
      return Status::ok;
    }
    if (closed_) return Status::closed;
    if (wait == nullptr || why != Woken::changed) {
      claim_missed_ = true;
      return wait == nullptr ? Status::empty : status_of(why);
    }
    if (holds_last_free_worker()) return Status::would_deadlock;
    staying.hold();
    why = wait_in(work_, lock, *wait);
  }
}

Status Service::take(Identity id, const Wait* wait, Owned& output) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  Job* job;
  if (const Status found = find(id, job); found != Status::ok) return found;
  for (Woken why = Woken::changed;;) {
    const Step step = move(*job, JobEvent::take, after);
    if (step.allowed()) {
      output = job->value.release();
      const bool lost = job->lost;
      finish(lock, after);
      return lost ? Status::worker_lost : Status::ok;
    }
    if (step.status != Status::pending) return closed_ ? Status::closed : step.status;
    if (wait == nullptr) return Status::pending;
    if (why != Woken::changed) return status_of(why);
    const bool own = &job->completion() == base::self().lent;
    if (own || (job->state == JobState::queued && holds_last_free_worker())) return Status::would_deadlock;
    staying.hold();
    why = wait_in(job->ended, lock, *wait);
    // Somebody else may have ended it meanwhile, and its place may hold another job by now.
    if (find(id, job) != Status::ok) return closed_ ? Status::closed : Status::unknown;
  }
}

Status Service::query(Identity id, JobState& state) const {
  Locked lock(mutex_);
  Job* job;
  if (const Status found = find(id, job); found != Status::ok) return found;
  if (job->state == JobState::abandoned) return Status::unknown;
  state = job->state;
  return Status::ok;
}

Status Service::cancel(Identity id, JobState& was, Owned& reclaimed, bool give_back) {
  After after;
  Locked lock(mutex_);
  Job* job;
  if (const Status found = find(id, job); found != Status::ok) return found;
  const JobState before = job->state;
  const Step step = move(*job, JobEvent::cancel, after);
  if (!step.allowed()) return step.status;
  was = before;
  Owned value;
  if (step.value == Goes::to_caller) value = job->value.release();
  const bool end = !give_back && value.ends_itself();
  if (end) ending_++;
  Reference staying(*this, Reference::later);
  if (end) staying.hold();
  finish(lock, after);
  if (give_back) reclaimed = value;
  if (end) end_counted(value);
  return Status::ok;
}

Epoch Service::epoch() const {
  Locked lock(mutex_);
  return epoch_locked();
}

Status Service::wait_epoch(Epoch later_than, const Wait* wait, Epoch& now) {
  Reference staying(*this, Reference::later);
  Locked lock(mutex_);
  if (later_than.service != number_) return Status::foreign;
  if (later_than.sequence == 0 || later_than.sequence > epoch_ + 1) return Status::argument;
  for (Woken why = Woken::changed;;) {
    now = epoch_locked();
    if (closed_) return Status::closed;
    if (now.sequence != later_than.sequence) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (why != Woken::changed) return status_of(why);
    staying.hold();
    why = wait_in(capacity_, lock, *wait);
  }
}

bool Service::closed() const {
  Locked lock(mutex_);
  return closed_;
}

// Under the lock what nobody runs is taken out; it is handed over after it. The slots are not needed any more, for admission is
// closed, so the jobs themselves carry the values meanwhile.
void Service::shutdown(Sink sink, void* user) {
  Reference staying(*this, Reference::later);
  List queued, completed;
  After after;
  Locked lock(mutex_);
  if (closed_) return;
  staying.hold();
  closed_ = true;
  const auto extract = [&](List& from, List& to) {
    while (!from.empty()) {
      Job& job = from.front();
      move(job, JobEvent::shut_down, after);
      if (&to == &completed && job.lost) continue;
      unused_.erase(unused_.iterator_to(job));
      to.push_back(job);
      ending_++;
    }
  };
  extract(queued_, queued);
  extract(named_, completed);
  extract(completed_, completed);
  completed.sort([](const Job& a, const Job& b) { return a.sequence < b.sequence; });
  for (Job& job : active_) move(job, JobEvent::shut_down, after);
  work_.tell_all(after.wakes);
  capacity_.tell_all(after.wakes);
  if (is_drained()) drained_.tell_all(after.wakes);
  after.tell_waiters = true;
  after.tell_work = claim_missed_;
  finish(lock, after);
  hand_over(queued, JobState::queued, sink, user);
  hand_over(completed, JobState::completed, sink, user);
}

// Each value goes to the sink, and what the sink leaves ends here.
void Service::hand_over(List& jobs, JobState was, Sink sink, void* user) {
  while (!jobs.empty()) {
    Owned value = jobs.front().value.release();
    jobs.pop_front();
    if (sink != nullptr) base::call_foreign(exceptions_, [&] { sink(user, was, value); });
    end_counted(value);
  }
}

Status Service::drained(const Wait* wait) {
  Reference staying(*this, Reference::later);
  Locked lock(mutex_);
  if (!closed_) return Status::state;
  for (Woken why = Woken::changed;;) {
    if (is_drained()) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (runs_job_here()) return Status::would_deadlock;
    if (why != Woken::changed) return status_of(why);
    staying.hold();
    why = wait_in(drained_, lock, *wait);
  }
}

Counts Service::count() const {
  const int64_t now = base::coarse_now_ns();
  const auto moved = [this](JobState from, JobEvent event) {
    return moves_[static_cast<size_t>(from)][static_cast<size_t>(event)];
  };
  const auto age = [now](const List& list) -> int64_t {
    if (list.empty()) return 0;
    const int64_t ns = now - list.front().since_ns;
    return ns > 0 ? ns : 1;
  };
  using S = JobState;
  using E = JobEvent;
  Locked lock(mutex_);
  Counts c{};
  c.accepting = !closed_;
  c.admitted = admitted_;
  c.maximum_jobs = maximum_jobs_;
  c.workers = workers_;
  c.epoch = epoch_;
  c.accepted = moved(S::free, E::submit);
  c.saturated = saturated_;
  c.taken = moved(S::completed, E::take);
  c.cancelled_queued = moved(S::queued, E::cancel);
  c.cancelled_completed = moved(S::completed, E::cancel);
  c.shutdown_queued = moved(S::queued, E::shut_down);
  c.shutdown_completed = moved(S::completed, E::shut_down);
  c.abandoned_retired = moved(S::abandoned, E::complete) + moved(S::abandoned, E::lose);
  c.completed_ok = moved(S::running, E::complete) + moved(S::abandoned, E::complete);
  c.completed_lost = moved(S::running, E::lose) + moved(S::abandoned, E::lose);
  c.exceptions = exceptions_.load();
  const uint64_t claimed = moved(S::queued, E::claim);
  const uint64_t abandoned = moved(S::running, E::cancel) + moved(S::running, E::shut_down);
  const auto now_in = [&c](JobState state) -> uint32_t& { return c.in_state[static_cast<size_t>(state)]; };
  now_in(S::queued) = static_cast<uint32_t>(c.accepted - claimed - c.cancelled_queued - c.shutdown_queued);
  now_in(S::abandoned) = static_cast<uint32_t>(abandoned - c.abandoned_retired);
  now_in(S::running) = busy_ - now_in(S::abandoned);
  now_in(S::completed) = admitted_ - now_in(S::queued) - busy_;
  c.oldest_queued_ns = age(queued_);
  c.longest_running_ns = age(active_);
  return c;
}

// ---- Guards ---------------------------------------------------------------------------------------------------------

void Service::end_guard(Job& job, JobEvent event, Owned& output, Job** next, const Interrupt* stop) {
  After after;
  Owned unwanted;
  Locked lock(mutex_);
  job.lost = event == JobEvent::lose;
  const Step step = move(job, event, after);
  if (step.value == Goes::to_service) job.value = output.release();
  if (step.value == Goes::dropped) unwanted = output.release();
  if (unwanted.ends_itself()) ending_++;
  if (next != nullptr) {
    *next = stop->raised() ? nullptr : claimable();
    if (*next != nullptr) hand_to_worker(**next, after);
  }
  finish(lock, after);
  if (unwanted.ends_itself()) end_counted(unwanted);
}

void Service::complete(Job& job, Owned& output) {
  Reference guard(job.service, Reference::already);
  job.service.end_guard(job, JobEvent::complete, output, nullptr, nullptr);
}

void Service::lose(Job& job) {
  Reference guard(job.service, Reference::already);
  Owned none;
  job.service.end_guard(job, JobEvent::lose, none, nullptr, nullptr);
}

void Service::drop_unbegun(Job& job) {
  struct Lost {
    Job& job;
    ~Lost() noexcept(false) { lose(job); }
  } lost{job};
  Owned input = job.value.release();
  input.end(job.service.exceptions_);
}

Job* Service::claim_for_worker(Interrupt& stop) {
  const Wait until_stopped{base::kForever, &stop, false};
  After after;
  Locked lock(mutex_);
  for (;;) {
    if (stop.raised()) {
      // It may have been this thread that was woken for a job it does not take any more.
      if (claimable() != nullptr) work_.tell_one(after.wakes);
      return nullptr;
    }
    if (Job* job = claimable(); job != nullptr) {
      hand_to_worker(*job, after);
      references_.fetch_add(1);
      finish(lock, after);
      return job;
    }
    if (closed_) return nullptr;
    wait_in(work_, lock, until_stopped);
  }
}

}  // namespace nocter::blocking
