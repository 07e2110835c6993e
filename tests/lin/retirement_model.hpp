// The retirement service as one thread would see it: written from what it promises (tests/PROMISES.md), not from how it is built.
#pragma once

#include <nocter.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace lin {

enum class Did {
  reserve,
  drop_permit,
  drop,
  retire,
  claim,
  complete,
  lose,
  take,
  detach,
  detach_all,
  query,
  epoch,
  wait_epoch,
  count,
  drained,
  close
};
inline const char* name_of(Did did) {
  static constexpr const char* kNames[] = {"reserve",    "drop_permit", "drop",    "retire",     "claim", "complete",
                                           "lose",       "take",        "detach",  "detach_all", "query", "epoch",
                                           "wait_epoch", "count",       "drained", "close"};
  return kNames[static_cast<int>(did)];
}

// A call and its answer. Resources are named by the number the test gave them; an observed one is asked for by the identity that
// goes with it, which the test turns into the number.
struct Event {
  explicit Event(Did what) : did(what) {}

  Did did;
  nocter_status status = NOCTER_OK;
  bool waited = false;
  int32_t number = 0;
  int32_t code = 0;
  nocter_retirement_state state = 0;
  uint64_t epoch = 0, later_than = 0;  // of that moment
  uint32_t permits_and_live = 0, queued = 0, running = 0, completed = 0;
  uint64_t reservations = 0, taken = 0;
  bool accepting = false;
};

// Rules that are broken on purpose, to see that the checker would notice.
enum class Broken {
  none,
  youngest_first,
  one_place_more,
  one_worker_more,
  completed_frees_place,
  detach_skips_cleanup,
  lost_is_ok
};
inline constexpr Broken kBroken[] = {Broken::youngest_first,       Broken::one_place_more,
                                     Broken::one_worker_more,      Broken::completed_frees_place,
                                     Broken::detach_skips_cleanup, Broken::lost_is_ok};

class State {
 public:
  State(uint32_t maximum, uint32_t workers, Broken broken = Broken::none)
      : maximum_(maximum), workers_(workers), broken_(broken) {
    if (broken == Broken::one_place_more) maximum_++;
    if (broken == Broken::one_worker_more) workers_++;
  }

  void key(std::string& to) const {
    const auto add = [&to](uint64_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); };
    add(open_);
    add(epoch_);
    add(reservations_);
    add(taken_);
    add(held_);
    for (const One& one : all_) {
      add(static_cast<uint64_t>(one.number) * 64 + static_cast<uint64_t>(one.at) * 4 + one.observed * 2 + one.lost);
      add(static_cast<uint64_t>(static_cast<uint32_t>(one.code)));
    }
  }

  bool apply(const Event& e) {
    switch (e.did) {
      case Did::reserve:
        if (e.epoch != epoch_) return false;
        if (!open_) return e.status == NOCTER_CLOSED;
        if (reserved() >= maximum_) return e.status == NOCTER_SATURATED;
        if (e.status != NOCTER_OK) return false;
        held_++;
        reservations_++;
        return true;
      case Did::drop_permit:
        if (held_ == 0) return false;
        held_--;
        epoch_++;
        return true;
      case Did::drop:
      case Did::retire:
        if (held_ == 0 || e.status != NOCTER_OK) return false;
        held_--;
        all_.push_back({e.number, At::queued, e.did == Did::retire});
        return true;
      case Did::claim:
        return claim(e);
      case Did::complete:
      case Did::lose:
        return end(e);
      case Did::take:
        return take(e);
      case Did::detach: {
        One* one = asked(e.number);
        if (one == nullptr) return e.status == NOCTER_E_UNKNOWN;
        detach(*one);
        return e.status == NOCTER_OK;
      }
      case Did::detach_all:
        for (size_t i = all_.size(); i-- > 0;) {
          if (all_[i].observed) detach(all_[i]);
        }
        return true;
      case Did::query: {
        const One* one = asked(e.number);
        if (one == nullptr) return e.status == NOCTER_E_UNKNOWN;
        return e.status == NOCTER_OK && e.state == static_cast<nocter_retirement_state>(one->at);
      }
      case Did::epoch:
        return e.status == NOCTER_OK && e.epoch == epoch_;
      case Did::wait_epoch:
        if (e.epoch != epoch_) return false;
        if (!open_) return e.status == NOCTER_CLOSED;
        if (epoch_ != e.later_than) return e.status == NOCTER_OK;
        return e.status == (e.waited ? NOCTER_TIMEOUT : NOCTER_PENDING);
      case Did::count:
        return e.permits_and_live == held_ && e.queued == number_of(At::queued) &&
               e.running == number_of(At::running) && e.completed == number_of(At::completed) &&
               e.epoch + 1 == epoch_ && e.reservations == reservations_ && e.taken == taken_ && e.accepting == open_;
      case Did::drained:
        return e.status == (reserved() == 0 ? NOCTER_OK : NOCTER_PENDING);
      case Did::close:
        open_ = false;
        return true;
    }
    return false;
  }

 private:
  enum class At : uint8_t { queued = 1, running, completed };
  struct One {
    int32_t number;
    At at;
    bool observed;
    bool lost = false;
    int32_t code = 0;
  };

  uint32_t reserved() const {
    if (broken_ == Broken::completed_frees_place) return held_ + number_of(At::queued) + number_of(At::running);
    return held_ + static_cast<uint32_t>(all_.size());
  }
  uint32_t number_of(At at) const {
    return static_cast<uint32_t>(
        std::count_if(all_.begin(), all_.end(), [at](const One& one) { return one.at == at; }));
  }
  One* find(int32_t number) {
    for (One& one : all_) {
      if (one.number == number) return &one;
    }
    return nullptr;
  }
  One* asked(int32_t number) {
    One* one = find(number);
    return one != nullptr && one->observed ? one : nullptr;
  }
  void gone(One& one) {
    epoch_++;
    all_.erase(all_.begin() + (&one - all_.data()));
  }
  void detach(One& one) {
    one.observed = false;
    if (one.at == At::completed || (broken_ == Broken::detach_skips_cleanup && one.at == At::queued)) gone(one);
  }

  bool claim(const Event& e) {
    One* oldest = nullptr;
    for (One& one : all_) {
      if (one.at == At::queued && (oldest == nullptr || broken_ == Broken::youngest_first)) oldest = &one;
    }
    if (!open_ && oldest == nullptr && held_ == 0) return e.status == NOCTER_CLOSED;
    if (oldest == nullptr || number_of(At::running) >= workers_) {
      return e.status == (e.waited ? NOCTER_TIMEOUT : NOCTER_EMPTY);
    }
    if (e.status != NOCTER_OK || e.number != oldest->number) return false;
    oldest->at = At::running;
    return true;
  }

  bool end(const Event& e) {
    One* one = find(e.number);
    if (one == nullptr || one->at != At::running) return false;
    if (!one->observed) {
      gone(*one);
      return true;
    }
    one->at = At::completed;
    one->lost = e.did == Did::lose;
    one->code = one->lost ? 0 : e.code;
    return true;
  }

  bool take(const Event& e) {
    One* one = asked(e.number);
    if (one == nullptr) return e.status == NOCTER_E_UNKNOWN;
    if (one->at != At::completed) return e.status == (e.waited ? NOCTER_TIMEOUT : NOCTER_PENDING);
    if (broken_ == Broken::lost_is_ok && one->lost) return false;
    if (e.status != (one->lost ? NOCTER_WORKER_LOST : NOCTER_OK) || e.code != one->code) return false;
    taken_++;
    gone(*one);
    return true;
  }

  uint32_t maximum_, workers_;
  Broken broken_;
  bool open_ = true;
  uint64_t epoch_ = 1;  // as the service says it, so one more than the places that were freed
  uint64_t reservations_ = 0, taken_ = 0;
  uint32_t held_ = 0;     // permits and owners, which only their holders tell apart
  std::vector<One> all_;  // in the order in which they were queued
};

}  // namespace lin
