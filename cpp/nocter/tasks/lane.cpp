#include "nocter/tasks/lane.hpp"

#include <new>

#include "nocter/base/threads.hpp"

namespace nocter::tasks {

using base::Locked;

namespace {

void clear(Effects& effects) {
  effects.ready.clear();
  effects.ended.clear();
  effects.cancelled.clear();
  effects.released.clear();
  effects.events = false;
  effects.next_due = kNever;
}

}  // namespace

Lane::~Lane() {
  while (made_ != nullptr) {
    Place* const place = made_;
    made_ = place->made_before;
    delete place;
  }
}

Lane::Place& Lane::take_place() {
  if (free_ == nullptr) {
    auto* made = new Place;
    made->made_before = made_;
    made_ = made;
    return *made;
  }
  Place& place = *free_;
  free_ = place.next;
  return place;
}

Lane::Place* Lane::pop() {
  Place* const place = first_;
  if (place == nullptr) return nullptr;
  first_ = place->next;
  if (first_ == nullptr) last_ = nullptr;
  waiting_--;
  return place;
}

// The version moves last: from then on the place may be another follower's, whom the wake then finds asleep for nothing.
void Lane::call(Place& place, Turn turn) {
  place.turn.publish(turn);
  place.called.advance_open();
  place.called.wake_one();
}

void Lane::execute(Request& request) {
  Locked lock(mutex_);
  if (busy_) return follow(lock, request);
  busy_ = true;
  lock.unlock();
  lead(request);
}

void Lane::follow(Locked& lock, Request& request) {
  Place& place = take_place();
  place.request = &request;
  place.next = nullptr;
  place.turn.jot(Turn::waits);
  const uint64_t seen = place.called.version();
  (last_ != nullptr ? last_->next : first_) = &place;
  last_ = &place;
  const uint32_t waiting = ++waiting_;
  lock.unlock();
  // One or two look again for a while, since a batch may be over soon; a crowd that did would take the cores from the leader.
  const bool crowd = waiting > kAwake;
  place.called.wait(seen, base::Wait{}, crowd ? base::Patience{0, 0} : base::default_patience());
  if (place.turn.observe() == Turn::leads) lead(request);
  lock.lock();
  place.next = free_;
  free_ = &place;
}

void Lane::lead(Request& own) {
  Request* batch[kBatch];
  Place* places[kBatch];
  batch[0] = &own;
  size_t count = 1;
  {
    const Locked lock(mutex_);
    for (; count < kBatch; count++) {
      Place* const place = pop();
      if (place == nullptr) break;
      places[count] = place;
      batch[count] = place->request;
    }
  }
  if (base::planted("lane_answers_early") && count > 1) call(*places[--count], Turn::answered);
  execute_batch({batch, count});
  Place* next;
  {
    const Locked lock(mutex_);
    next = pop();
    if (next == nullptr) busy_ = false;
  }
  if (next != nullptr && !base::planted("lane_has_no_heir")) call(*next, Turn::leads);
  for (size_t i = 1; i < count; i++) call(*places[i], Turn::answered);
}

void Lane::execute_batch(std::span<Request* const> batch) {
  const base::NotCancelled whole;
  clear(effects_);
  try {
    store_.execute(batch, effects_);
  } catch (const std::bad_alloc&) {
    for (Request* request : batch) request->answer.status = Status::memory;
  } catch (const std::exception& thrown) {
    for (Request* request : batch) request->answer = {Status::internal, thrown.what()};
  }
  observer_.committed(batch, effects_);
}

}  // namespace nocter::tasks
