// The side of those who reserve, give up and ask how it went.
#include "nocter/retirement.hpp"

#include <new>

#include "nocter/retirement_moves.hpp"

namespace nocter::retirement {

using base::Locked;
using base::status_of;
using base::Wait;
using base::WaitingWorker;
using base::Woken;

// ---- Birth and end --------------------------------------------------------------------------------------------------

namespace {

void free_memory(void* records) { ::operator delete (records, std::align_val_t{alignof(Record)}); }

}  // namespace

Service* Service::create(const Options& options) {
  // Records are built when first used: a large service costs memory only as far as it is filled, but none is asked for later.
  void* records =
      ::operator new (sizeof(Record) * options.maximum_resources, std::align_val_t{alignof(Record)}, std::nothrow);
  const uint64_t number = records != nullptr ? base::next_service_number() : 0;
  Service* made = number == 0 ? nullptr : base::make_handle<Service, base::Kind::retirement>(options, records, number);
  if (made == nullptr) free_memory(records);
  return made;
}

Service::Service(const Options& options, void* records, uint64_t number)
    : base::Service<Service, base::Kind::retirement>(number, options.waiters, options.work),
      next_sequence_(options.first_sequence),
      records_(static_cast<Record*>(records)),
      maximum_resources_(options.maximum_resources),
      workers_(options.workers),
      patience_(options.patience),
      orphans_{[](void* self) { static_cast<Service*>(self)->clean_all_orphans(); }, nullptr, this} {}

Service::~Service() { free_memory(records_); }

void Service::empty_out() {
  Locked lock(mutex_);
  carved_ = 0;
}

// Those who hold a reservation need the service after the handle: from now on they hold it together.
void Service::close_for_good() {
  Reference staying(*this, Reference::guards);
  After after;
  Locked lock(mutex_);
  close(after);
  destroyed_ = true;
  if (!planted("destroy_detaches_nobody")) detach_observed(after);
  kept_ = reserved_ != 0 && !planted("destroy_forgets_what_is_reserved");
  if (kept_) hold();
  claimers_.call_all(after);
  after.tell_waiters = true;
  finish(lock, after, staying);
}

// ---- Guards ---------------------------------------------------------------------------------------------------------

Status Service::reserve(Record*& out, Epoch& epoch) {
  Locked lock(mutex_);
  epoch = epoch_now();
  if (closed_) return Status::closed;
  if (reserved_ == maximum_resources_) {
    saturated_++;
    return Status::saturated;
  }
  // The identity is set apart with the place, so that giving the resource up cannot fail for want of one.
  if (next_sequence_ == 0) return Status::limit;
  Record& record = *unused_record();
  record.sequence = next_sequence_++;
  After nothing;
  move(record, State::free, Event::reserve, nothing);
  record.permit().tag.arm(base::Kind::permit);
  out = &record;
  return Status::ok;
}

void Service::attach(Record& record, Owned& value) {
  record.value = value.release();
  After nothing;
  Locked lock(record.service.mutex_);
  record.service.move(record, State::permit, Event::attach, nothing);
  record.resource().tag.arm(base::Kind::resource);
}

void Service::drop_permit(Record& record) {
  Service& service = record.service;
  Reference staying(service, Reference::later);
  After after;
  Locked lock(service.mutex_);
  service.move(record, State::permit, Event::drop_permit, after);
  service.finish(lock, after, staying);
}

__attribute__((always_inline)) inline void Service::queue(Record& record, Event event, Identity* id) {
  const int64_t now = base::coarse_now_ns();
  Service& service = record.service;
  Reference staying(service, Reference::later);
  After after;
  Locked lock(service.mutex_);
  record.since = now;
  if (event == Event::retire) {
    if (service.destroyed_ && !planted("retired_after_destroy_is_observed")) {
      service.move(record, State::live, Event::drop, after);
    } else {
      service.move(record, State::live, Event::retire, after);
      *id = service.identity_of(record);
    }
  } else {
    service.move(record, State::live, Event::drop, after);
  }
  service.finish(lock, after, staying);
}

void Service::drop(Record& record) { queue(record, Event::drop, nullptr); }

Status Service::retire(Record& record, Identity& id) {
  id = {};
  queue(record, Event::retire, &id);
  return id.sequence != 0 ? Status::ok : Status::closed;
}

// ---- Those who ask --------------------------------------------------------------------------------------------------

Status Service::take(Identity id, const Wait* wait, int32_t& code) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  bool waited = false;
  for (Woken why = Woken::changed;;) {
    Record* record;
    // After a wait somebody else may have ended it, and its place may hold another resource by now.
    if (const Status found = find(id, record); found != Status::ok)
      return waited && destroyed_ ? Status::closed : found;
    const uint64_t seen = record->ended.version();
    if (record->state == State::completed) {
      const bool lost = record->lost;
      code = record->code;
      move(*record, State::completed, Event::take, after);
      finish(lock, after, staying);
      return lost ? Status::worker_lost : Status::ok;
    }
    if (wait == nullptr) return Status::pending;
    if (why != Woken::changed) return status_of(why);
    const WaitingWorker here(waiting_workers_, record->state == State::queued_observed && serves_here());
    if (record == base::self().lent || here.is_last_of(workers_)) return Status::would_deadlock;
    staying.hold();
    waited = true;
    lock.unlock();
    why = record->ended.wait(seen, *wait, patience_);
    lock.lock();
  }
}

Status Service::query(Identity id, State& state) const {
  Locked lock(mutex_);
  Record* record;
  if (const Status found = find(id, record); found != Status::ok) return found;
  state = record->state;
  return Status::ok;
}

Status Service::detach(Identity id) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  Record* record;
  if (const Status found = find(id, record); found != Status::ok) return found;
  if (record->state == State::completed && record->failed()) failed_unheard_++;
  move(*record, record->state, Event::detach, after);
  finish(lock, after, staying);
  return Status::ok;
}

void Service::detach_all() {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  detach_observed(after);
  finish(lock, after, staying);
}

void Service::detach_observed(After& after) {
  if (watched_.empty()) return;
  after.tell_waiters = true;
  while (!watched_.empty()) {
    Record& record = watched_.front();
    if (record.state == State::completed && record.failed()) failed_unheard_++;
    move(record, record.state, Event::detach, after);
  }
}

Epoch Service::epoch() const {
  Locked lock(mutex_);
  return epoch_now();
}

Status Service::wait_epoch(Epoch later_than, const Wait* wait, Epoch& now) {
  Reference staying(*this, Reference::later);
  Locked lock(mutex_);
  if (later_than.service != number()) return Status::foreign;
  if (later_than.sequence == 0 || later_than.sequence > epoch_ + 1) return Status::argument;
  for (Woken why = Woken::changed;;) {
    now = epoch_now();
    if (closed_) return Status::closed;
    if (now.sequence != later_than.sequence) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (why != Woken::changed) return status_of(why);
    const WaitingWorker here(waiting_workers_, serves_here());
    if (here.is_last_of(workers_)) return Status::would_deadlock;
    staying.hold();
    why = capacity_.wait(lock, *wait, patience_);
  }
}

void Service::close() {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  close(after);
  finish(lock, after, staying);
}

void Service::close(After& after) {
  if (closed_) return;
  closed_ = true;
  capacity_.tell_all(after.wakes);
  if (work_is_over()) claimers_.call_all(after);
  after.tell_waiters = true;
}

Status Service::drained(const Wait* wait) {
  Reference staying(*this, Reference::later);
  Locked lock(mutex_);
  for (Woken why = Woken::changed;;) {
    if (reserved_ == 0) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (serves_here()) return Status::would_deadlock;
    if (why != Woken::changed) return status_of(why);
    staying.hold();
    why = drained_.wait(lock, *wait, patience_);
  }
}

Counts Service::count() const {
  const int64_t now = base::coarse_now_ns();
  const auto age = [now](int64_t since) -> int64_t { return now > since ? now - since : 1; };
  using S = State;
  using E = Event;
  const auto happened = [this](S from, E event) {
    return moves_[static_cast<size_t>(from)][static_cast<size_t>(event)];
  };
  const auto ended = [&](S from) {
    return happened(from, E::complete) + happened(from, E::fail) + happened(from, E::lose);
  };
  const auto cleanups = [&](E event) {
    return happened(S::running, event) + happened(S::running_observed, event) + happened(S::running_detached, event);
  };
  const auto failed_unasked = [&](S from) { return happened(from, E::fail) + happened(from, E::lose); };
  Locked lock(mutex_);
  Counts c{};
  c.accepting = !closed_;
  c.reserved = reserved_;
  c.running = busy_;
  c.maximum_resources = maximum_resources_;
  c.workers = workers_;
  c.epoch = epoch_;
  c.reservations = happened(S::free, E::reserve);
  c.saturated = saturated_;
  c.permits_dropped = happened(S::permit, E::drop_permit);
  c.unobserved_done = ended(S::running);
  c.detached_done = ended(S::running_detached);
  c.taken = happened(S::completed, E::take);
  c.detached_completed = happened(S::completed, E::detach);
  c.cleaned = cleanups(E::complete);
  c.failed = cleanups(E::fail);
  c.lost = cleanups(E::lose);
  c.failed_unobserved = failed_unasked(S::running) + failed_unasked(S::running_detached) + failed_unheard_;
  c.exceptions = exceptions_thrown();
  const uint64_t attached = happened(S::permit, E::attach);
  const uint64_t given_up = happened(S::live, E::drop) + happened(S::live, E::retire);
  c.permits = static_cast<uint32_t>(c.reservations - c.permits_dropped - attached);
  c.live = static_cast<uint32_t>(attached - given_up);
  c.queued = to_come_ - c.permits - c.live;
  c.completed = reserved_ - to_come_ - busy_;
  if (!ready_.empty()) c.oldest_queued_ns = age(ready_.front().since);
  if (!active_.empty()) c.longest_running_ns = age(active_.front().since);
  return c;
}

}  // namespace nocter::retirement
