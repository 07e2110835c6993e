// How reservations move, for the two files that move them: retirement.cpp, the side of those who reserve, give up and ask, and
// retirement_cleanup.cpp, the side of those who clean. Inlined, so that where the caller knows the state and the event the step is
// known too.
#pragma once

#include "nocter/base/planted.hpp"
#include "nocter/retirement.hpp"

namespace nocter::retirement {

using base::planted;

// A place that was freed rests behind so many others, so that a guard used after its end still finds a dead tag.
inline constexpr uint32_t kRestingRecords = 64;

__attribute__((always_inline)) inline Step Service::move(Record& record, State from, Event event, After& after) {
  const Step step = retirement::step(from, event);
  if (!step.allowed()) return step;
  const State to = step.next;
  moves_[static_cast<size_t>(from)][static_cast<size_t>(event)]++;
  record.state = to;
  if (from == State::free) reserved_++;
  if (observed(from) && !observed(to)) watched_.erase(watched_.iterator_to(record));
  if (!observed(from) && observed(to)) watched_.push_back(record);
  if (is_queued(from) && !is_queued(to)) ready_.erase(ready_.iterator_to(record));
  if (!is_queued(from) && is_queued(to)) ready_.push_back(record);
  if (occupies_worker(from) && !occupies_worker(to)) {
    active_.erase(active_.iterator_to(record));
    busy_ -= planted("cleanup_keeps_its_worker") ? 0 : 1;
  }
  if (!occupies_worker(from) && occupies_worker(to)) {
    active_.push_back(record);
    busy_++;
  }
  if (!will_be_claimed(from) && will_be_claimed(to)) to_come_++;
  if (will_be_claimed(from) && !will_be_claimed(to)) to_come_--;
  if (!occupies_place(to)) place_freed(record, after);
  if (event == Event::drop || event == Event::retire || event == Event::claim || ends_cleanup(event)) {
    const bool claimable = ready_record() != nullptr;
    claimable_.jot(claimable ? 1 : 0);
    if (claimable && !planted("drop_wakes_nobody")) claimers_.call(after);
  }
  if (will_be_claimed(from) && !will_be_claimed(to) && work_is_over()) claimers_.call_all(after);
  if (ends_cleanup(event) || (event == Event::detach && !planted("detach_tells_no_taker"))) {
    record.ended.advance_open();
    if (record.ended.asleep()) after.wakes.add(record.ended, true);
  }
  after.tell_waiters |= step.tells_waiters;
  return step;
}

inline void Service::place_freed(Record& record, After& after) {
  reserved_--;
  epoch_++;
  unused_.push_back(record);
  resting_++;
  if (!planted("freed_place_wakes_nobody")) capacity_.tell_all(after.wakes);
  if (reserved_ != 0) return;
  drained_.tell_all(after.wakes);
  after.last = kept_;
  kept_ = false;
}

inline Record* Service::unused_record() {
  if (carved_ < maximum_resources_ && resting_ <= kRestingRecords) return new (&records_[carved_++]) Record(*this);
  Record& record = unused_.front();
  unused_.pop_front();
  resting_--;
  return &record;
}

inline Record* Service::ready_record() { return ready_.empty() || busy_ >= workers_ ? nullptr : &ready_.front(); }

inline void Service::hand_to_worker(Record& record, After& after) {
  move(record, record.state, Event::claim, after);
  record.since = base::coarse_now_ns();
  record.begun = false;
}

inline Status Service::find(Identity id, Record*& record) const {
  if (id.service == 0 && id.sequence == 0) return Status::unknown;
  if (id.service_number() != number()) return Status::foreign;
  if (id.place() >= carved_) return Status::unknown;
  record = &records_[id.place()];
  return record->sequence == id.sequence && observed(record->state) ? Status::ok : Status::unknown;
}

inline void Service::finish(base::Locked& lock, After& after, Reference& staying) {
  struct Kept {
    Service& service;
    const bool last;
    ~Kept() {
      if (last) service.release();
    }
  } kept{*this, after.last};
  const bool orphans = orphaned() && ready_record() != nullptr && !planted("orphans_are_left");
  if (orphans) staying.hold();
  base::Service<Service, base::Kind::retirement>::finish(lock, after, staying);
  if (orphans) clean_orphans();
}

}  // namespace nocter::retirement
