#include "nocter/tasks/lane.hpp"

#include <new>
#include <utility>

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

Lane::Place* Lane::pop() {
  Place* const place = first_;
  if (place == nullptr) return nullptr;
  first_ = place->next;
  if (first_ == nullptr) last_ = nullptr;
  waiting_--;
  return place;
}

void Lane::execute(Request& request) {
  Locked lock(mutex_);
  if (busy_) return follow(lock, request);
  busy_ = true;
  lock.unlock();
  lead(&request);
}

void Lane::follow(Locked& lock, Request& request) {
  Place place(request);
  (last_ != nullptr ? last_->next : first_) = &place;
  last_ = &place;
  base::EventCount& called = called_[gathering_];
  // One or two look again for a while, since a batch may be over soon; a crowd that did would take the cores from the leader.
  const bool crowd = ++waiting_ > kAwake;
  lock.unlock();
  for (;;) {
    const uint64_t seen = called.version();
    if (place.answered.observe()) return;
    if (vacant_.load() && becomes_leader()) {
      lead(nullptr);
    } else {
      called.wait(seen, base::Wait{}, crowd ? base::Patience{0, 0} : base::default_patience());
    }
  }
}

bool Lane::becomes_leader() {
  const Locked lock(mutex_);
  if (!vacant_.load()) return false;
  vacant_.store(false);
  return true;
}

// One that had to wait has its request in the queue, as a rule among the first.
void Lane::lead(Request* own) {
  Request* batch[kBatch];
  Place* places[kBatch];
  size_t count = 0, followers = 0;
  if (own != nullptr) batch[count++] = own;
  uint32_t here;
  bool both;
  {
    const Locked lock(mutex_);
    while (count < kBatch) {
      Place* const place = pop();
      if (place == nullptr) break;
      places[followers++] = place;
      batch[count++] = place->request;
    }
    here = gathering_;
    gathering_ = 1 - here;
    both = std::exchange(behind_, first_ != nullptr);
  }
  const auto answer = [&](uint32_t where) {
    called_[where].advance_open();
    called_[where].wake_all();
  };
  if (base::planted("lane_answers_early") && count > 1) {
    places[--followers]->answered.publish(true);
    count--;
    answer(here);
  }
  execute_batch({batch, count});
  bool others;
  {
    const Locked lock(mutex_);
    others = first_ != nullptr;
    if (others) vacant_.store(true);
    busy_ = others;
  }
  // An heir first: the next batch need not wait until all of this one are awake. One of the last batch but one that has not been woken
  // yet may get the call in its place; then all that sleep there are about to be woken.
  if (others && !base::planted("lane_has_no_heir")) {
    called_[1 - here].advance_open();
    called_[1 - here].wake_one();
  }
  for (size_t i = 0; i < followers; i++) places[i]->answered.publish(true);
  if (followers != 0) answer(here);
  if (both) answer(1 - here);
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
