#include "nocter/blocking.hpp"

#include <cstdlib>
#include <new>

namespace nocter::blocking {

using base::BothLocked;
using base::Interrupt;
using base::Locked;
using base::planted;
using base::status_of;
using base::Wait;
using base::Woken;

namespace {

// A slot that was freed rests behind so many others, so that a guard used after its end still finds a dead tag.
constexpr uint32_t kRestingJobs = 64;

}  // namespace

// ---- Birth and end --------------------------------------------------------------------------------------------------

namespace {

void free_memory(Service::Memory memory) {
  ::operator delete (memory.jobs, std::align_val_t{alignof(Job)});
  std::free(memory.cells);
}

}  // namespace

Service* Service::create(const Options& options) {
  // Jobs are built when first used, and untouched cells are the system's zero pages: a large service costs memory only as far as it is
  // filled, but none is asked for later.
  const uint32_t cells = base::Crossing::cells_for(options.maximum_jobs);
  const Memory memory{
      ::operator new (sizeof(Job) * options.maximum_jobs, std::align_val_t{alignof(Job)}, std::nothrow),
      static_cast<base::Atomic<uint64_t>*>(std::calloc(size_t{2} * cells, sizeof(base::Atomic<uint64_t>)))};
  const bool got_all = memory.jobs != nullptr && memory.cells != nullptr;
  const uint64_t number = got_all ? base::next_service_number() : 0;
  Service* made = number == 0 ? nullptr : base::make_handle<Service, base::Kind::blocking>(options, memory, number);
  if (made == nullptr) free_memory(memory);
  return made;
}

Service::Service(const Options& options, Memory memory, uint64_t number)
    : header(base::Kind::blocking),
      submitted_(memory.cells, base::Crossing::cells_for(options.maximum_jobs)),
      ended_(memory.cells + base::Crossing::cells_for(options.maximum_jobs),
             base::Crossing::cells_for(options.maximum_jobs)),
      shared_(options, memory, number) {
  front_.next_sequence = options.first_sequence;
}

Service::~Service() {
  ::operator delete (shared_.jobs, std::align_val_t{alignof(Job)});
  for (const base::Notifier* notifier : {&shared_.waiters, &shared_.work_notifier}) {
    if (notifier->drop != nullptr) base::call_foreign(exceptions_, [&] { notifier->drop(notifier->user); });
  }
}

// What it leaves behind is closed and has no jobs: see kHandleSize.
void Service::release() {
  if (references_.fetch_sub(1) != 1) return;
  {
    Locked lock(front_.mutex);
    front_.carved = 0;
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

// Inlined, so that where the caller knows the state and the event the step is known too.
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
  if (!back_.ready.empty() || !submitted_.empty()) tell_work(after);
}

// There may be something to claim: one more claimer must look, unless one is awake and about to.
inline void Service::tell_work(After& after) {
  const uint32_t waiting = work_.waiting.load();
  if (waiting != 0 && waiting > work_.called.load() && work_.looking.load() == 0) {
    work_.called.fetch_add(1);
    work_.count.advance_open();
    after.wakes.add(work_.count, false);
  }
  if (work_.claim_missed.load() != 0) after.tell_work |= work_.claim_missed.exchange(0) != 0;
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

void Service::take_ended() const {
  take_ended(SIZE_MAX, [this](Job& job) {
    job.at_front = true;
    job.named = false;
    front_.completed.push_back(job);
  });
}

// A job has ended once it was pushed: until the front has got it, it still runs.
JobState Service::state_at_front(const Job& job) const {
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
  // Whoever was woken for this job may have found another one: pass the wake on.
  if (work_.waiting.glance() != 0 && ready_job() != nullptr) tell_work(after);
}

Status Service::find(Identity id, Job*& job) const {
  if (id.service == 0 && id.sequence == 0) return Status::unknown;
  if (id.service_number() != shared_.number && !planted("foreign_is_ours")) return Status::foreign;
  if (id.place() >= front_.carved) return Status::unknown;
  job = &shared_.jobs[id.place()];
  return (job->sequence == id.sequence || planted("stale_is_live")) && job->state_now() != JobState::free
             ? Status::ok
             : Status::unknown;
}

// Releases the lock or locks, then wakes, then tells. As soon as they are released another thread may see what was done here, and
// destroy the service because of it: whoever has something left to do holds it meanwhile.
template <class Lock>
inline void Service::finish(Lock& lock, After& after, Reference& staying) {
  const bool waiters = after.tell_waiters && shared_.waiters.wake != nullptr;
  const bool work = after.tell_work && shared_.work_notifier.wake != nullptr;
  if (!waiters && !work && after.wakes.empty()) {
    lock.unlock();
    return;
  }
  staying.hold();
  lock.unlock();
  after.wakes.send();
  bool destroyed = false;
  if (waiters) destroyed |= base::tell(this, shared_.waiters, exceptions_);
  if (work) destroyed |= base::tell(this, shared_.work_notifier, exceptions_);
  if (destroyed) release();
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
  value.end(exceptions_);
}

bool Service::runs_job_here() const { return base::self().serving == this && base::self().lent != nullptr; }

namespace {

// A thread of ours that holds a worker slot and waits for something that needs one.
class WaitingWorker {
 public:
  WaitingWorker(base::Atomic<uint32_t>& count, bool counts) : count_(count), counts_(counts) {
    if (counts_) before_ = count_.fetch_add(1);
  }
  ~WaitingWorker() {
    if (counts_) count_.fetch_sub(1);
  }
  WaitingWorker(const WaitingWorker&) = delete;
  WaitingWorker& operator=(const WaitingWorker&) = delete;
  // Whether all others wait likewise, so that nobody is left to end the wait.
  bool is_last_of(uint32_t workers) const { return counts_ && before_ + 1 >= workers; }

 private:
  base::Atomic<uint32_t>& count_;
  const bool counts_;
  uint32_t before_ = 0;
};

}  // namespace

// ---- Calls ----------------------------------------------------------------------------------------------------------

Status Service::submit(Owned& input, Identity& id, Epoch& epoch) {
  const int64_t now = base::coarse_now_ns();
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(front_.mutex);
  epoch = epoch_now();
  if (shared_.closed) return Status::closed;
  if (front_.admitted == shared_.maximum_jobs) {
    front_.saturated++;
    if (planted("saturated_keeps_the_input")) input.release().end(exceptions_);
    return Status::saturated;
  }
  if (front_.next_sequence == 0) return Status::limit;
  Job& job = *unused_job();
  job.sequence = front_.next_sequence++;
  job.queued_since = now;
  job.value = input.release();
  job.at_front = false;
  id = identity_of(job);
  move(job, JobState::free, JobEvent::submit, front_.moves, after);
  if (!planted("submit_wakes_nobody")) tell_work(after);
  finish(lock, after, staying);
  return Status::ok;
}

// Waits for something to claim, unlocked: awake for a while, then asleep.
Woken Service::wait_for_work(Locked& lock, const Wait& wait) {
  if (shared_.patience.spins + shared_.patience.yields != 0) {
    work_.looking.fetch_add(1);
    lock.unlock();
    work_.alertness.stay_awake(shared_.patience, [&] {
      return !submitted_.empty() || (wait.interrupt != nullptr && wait.interrupt->raised());
    });
    lock.lock();
    work_.looking.fetch_sub(1);
    if (!submitted_.empty()) return Woken::changed;
  }
  // Counted first, then looked once more: a submit pushes first, then looks at the count.
  work_.waiting.fetch_add(1);
  const uint64_t seen = work_.count.version();
  Woken why = Woken::changed;
  if ((submitted_.empty() && ready_job() == nullptr && !shared_.closed) || planted("no_second_look")) {
    lock.unlock();
    const int64_t asleep_since = base::now_ns();
    why = work_.count.wait(seen, wait, base::Patience{0, 0});
    work_.alertness.slept(base::now_ns() - asleep_since);
    lock.lock();
  }
  // Under the lock. Whichever of the waiting comes, it looks for what one of them was called for.
  work_.waiting.fetch_sub(1);
  if (work_.called.load() != 0) work_.called.fetch_sub(1);
  return why;
}

Status Service::claim(const Wait* wait, Job*& out) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(back_.mutex);
  for (Woken why = Woken::changed;;) {
    take_submitted();
    if (Job* job = ready_job(); job != nullptr) {
      hand_to_worker(*job, after);
      references_.fetch_add(1);
      out = job;
      finish(lock, after, staying);
      return Status::ok;
    }
    if (shared_.closed) return Status::closed;
    if (wait == nullptr || why != Woken::changed) {
      // As in wait_for_work: said first, then looked once more.
      work_.claim_missed.store(1);
      if (!submitted_.empty() && back_.busy < shared_.workers) continue;
      return wait == nullptr ? Status::empty : status_of(why);
    }
    const WaitingWorker here(work_.waiting_workers, runs_job_here());
    if (here.is_last_of(shared_.workers)) return Status::would_deadlock;
    staying.hold();
    why = wait_for_work(lock, *wait);
  }
}

Status Service::take(Identity id, const Wait* wait, Owned& output) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(front_.mutex);
  bool waited = false;
  for (Woken why = Woken::changed;;) {
    Job* job;
    // After a wait somebody else may have ended it, and its place may hold another job by now.
    if (const Status found = find(id, job); found != Status::ok)
      return waited && shared_.closed ? Status::closed : found;
    const uint64_t seen = job->ended.version();
    const JobState state = state_at_front(*job);
    if (state == JobState::completed) {
      move(*job, JobState::completed, JobEvent::take, front_.moves, after);
      output = job->value.release();
      const bool lost = job->lost;
      finish(lock, after, staying);
      return lost ? Status::worker_lost : Status::ok;
    }
    const Status refused = blocking::step(state, JobEvent::take).status;
    if (refused != Status::pending) return shared_.closed ? Status::closed : refused;
    if (wait == nullptr) return Status::pending;
    if (why != Woken::changed) return status_of(why);
    const WaitingWorker here(work_.waiting_workers, state == JobState::queued && runs_job_here());
    if (&job->completion() == base::self().lent || here.is_last_of(shared_.workers)) return Status::would_deadlock;
    staying.hold();
    waited = true;
    lock.unlock();
    why = job->ended.wait(seen, *wait, shared_.patience);
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
  const Step step = move(*job, before, JobEvent::cancel, front_.moves, after);
  if (!step.allowed()) return step.status;
  was = before;
  Owned value;
  if (step.value == Goes::to_caller) value = job->value.release();
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
  if (later_than.service != shared_.number) return Status::foreign;
  if (later_than.sequence == 0 || later_than.sequence > front_.epoch + 1) return Status::argument;
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
  FrontList queued, completed;
  After after;
  BothLocked lock(back_.mutex, front_.mutex);
  if (shared_.closed) return;
  staying.hold();
  shared_.closed = true;
  take_submitted();
  take_ended();
  const auto extract = [&](auto& from, JobState state, FrontList& to) {
    while (!from.empty()) {
      Job& job = from.front();
      move(job, state, JobEvent::shut_down, front_.moves, after);
      if (state == JobState::completed && job.lost) continue;
      front_.unused.erase(front_.unused.iterator_to(job));
      to.push_back(job);
      front_.ending++;
    }
  };
  extract(back_.ready, JobState::queued, queued);
  extract(front_.named, JobState::completed, completed);
  extract(front_.completed, JobState::completed, completed);
  completed.sort([](const Job& a, const Job& b) { return a.sequence < b.sequence; });
  if (!planted("shutdown_abandons_nobody"))
    for (Job& job : back_.active) move(job, job.state_now(), JobEvent::shut_down, front_.moves, after);
  work_.count.advance_open();
  after.wakes.add(work_.count, true);
  front_.capacity.tell_all(after.wakes);
  if (is_drained()) front_.drained.tell_all(after.wakes);
  after.tell_waiters = true;
  after.tell_work = work_.claim_missed.exchange(0) != 0;
  finish(lock, after, staying);
  hand_over(queued, JobState::queued, sink, user);
  hand_over(completed, JobState::completed, sink, user);
}

// Each value goes to the sink, and what the sink leaves ends here; also when the sink ends its thread.
void Service::hand_over(FrontList& jobs, JobState was, Sink sink, void* user) {
  struct Rest {
    Service& service;
    FrontList& jobs;
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
    if (sink != nullptr) base::call_foreign(exceptions_, [&] { sink(user, was, handed.value); });
  }
}

Status Service::drained(const Wait* wait) {
  Reference staying(*this, Reference::later);
  Locked lock(front_.mutex);
  if (!shared_.closed) return Status::state;
  for (Woken why = Woken::changed;;) {
    if (is_drained()) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (runs_job_here()) return Status::would_deadlock;
    if (why != Woken::changed) return status_of(why);
    staying.hold();
    why = front_.drained.wait(lock, *wait, shared_.patience);
  }
}

Counts Service::count() const {
  const int64_t now = base::coarse_now_ns();
  const auto happened = [this](JobState from, JobEvent event) {
    const auto f = static_cast<size_t>(from), e = static_cast<size_t>(event);
    return front_.moves[f][e] + back_.moves[f][e];
  };
  const auto age = [now](int64_t since) -> int64_t { return now > since ? now - since : 1; };
  using S = JobState;
  using E = JobEvent;
  BothLocked lock(back_.mutex, front_.mutex);
  take_submitted();
  Counts c{};
  c.accepting = !shared_.closed;
  c.admitted = front_.admitted;
  c.maximum_jobs = shared_.maximum_jobs;
  c.workers = shared_.workers;
  c.epoch = front_.epoch;
  c.accepted = happened(S::free, E::submit);
  c.saturated = front_.saturated;
  c.taken = happened(S::completed, E::take);
  c.cancelled_queued = happened(S::queued, E::cancel);
  c.cancelled_completed = happened(S::completed, E::cancel);
  c.shutdown_queued = happened(S::queued, E::shut_down);
  c.shutdown_completed = happened(S::completed, E::shut_down);
  c.abandoned_retired = happened(S::abandoned, E::complete) + happened(S::abandoned, E::lose);
  c.completed_ok = happened(S::running, E::complete) + happened(S::abandoned, E::complete);
  c.completed_lost = happened(S::running, E::lose) + happened(S::abandoned, E::lose);
  c.exceptions = exceptions_.load();
  const uint64_t abandoned = happened(S::running, E::cancel) + happened(S::running, E::shut_down);
  const auto now_in = [&c](JobState state) -> uint32_t& { return c.in_state[static_cast<size_t>(state)]; };
  now_in(S::queued) =
      static_cast<uint32_t>(c.accepted - happened(S::queued, E::claim) - c.cancelled_queued - c.shutdown_queued);
  now_in(S::abandoned) = static_cast<uint32_t>(abandoned - c.abandoned_retired);
  now_in(S::running) = back_.busy - now_in(S::abandoned);
  now_in(S::completed) = front_.admitted - now_in(S::queued) - back_.busy;
  if (!back_.ready.empty()) c.oldest_queued_ns = age(back_.ready.front().queued_since);
  if (!back_.active.empty()) c.longest_running_ns = age(back_.active.front().running_since);
  return c;
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
  move(job, JobState::running, event, back_.moves, after);
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
  move(job, JobState::abandoned, event, front_.moves, after);
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
  input.end(job.service.exceptions_);
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
      if (job != nullptr) tell_work(after);
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
