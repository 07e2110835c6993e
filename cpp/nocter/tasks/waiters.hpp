// Those who wait for something of a store: for a task to claim, an end, a lock, an event. A waiter enters itself, then looks, then sleeps;
// who changes something looks for waiters after it. Every member is called with the engine's mutex held, and wakes under it, so that a waiter
// can lie on the stack of its thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nocter/base/monitor.hpp"
#include "nocter/tasks/model.hpp"

namespace nocter::tasks {

struct Waiter {
  base::EventCount woken;
  Waiter *previous = nullptr, *next = nullptr;
  bool entered = false;

  void call() {
    woken.advance_open();
    woken.wake_one();
  }
};

class Waiters {
 public:
  bool empty() const { return first_ == nullptr; }
  Waiter* first() const { return first_; }
  void enter(Waiter& waiter) {
    waiter.previous = last_;
    waiter.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &waiter;
    last_ = &waiter;
    waiter.entered = true;
  }
  void leave(Waiter& waiter) {
    if (!waiter.entered) return;
    (waiter.previous != nullptr ? waiter.previous->next : first_) = waiter.next;
    (waiter.next != nullptr ? waiter.next->previous : last_) = waiter.previous;
    waiter.entered = false;
  }
  void call_all() {
    for (Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next) waiter->call();
  }
  // Nothing further will come.
  void close() {
    for (Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next) {
      waiter->woken.close();
      waiter->woken.wake_all();
    }
  }

 private:
  Waiter *first_ = nullptr, *last_ = nullptr;
};

// Waits for a task of one of these types; none given: of any. Once called it has left the list, so that no other call is spent on it.
struct ClaimWaiter : Waiter {
  const std::vector<std::string>* types = nullptr;
  uint32_t most = 1;
  bool called = false;  // since it looked last
  bool owes = false;    // it was called, and its look has not come back yet
  bool swept = false;   // called without somebody knowing of a task: when it finds one there may be more

  bool wants(std::string_view type) const {
    if (types->empty()) return true;
    for (const std::string& one : *types) {
      if (one == type) return true;
    }
    return false;
  }
  // Whether what this one was called for might be something for the other.
  bool shares_with(const ClaimWaiter& other) const {
    if (types == other.types || types->empty() || other.types->empty()) return true;
    for (const std::string& one : *types) {
      if (other.wants(one)) return true;
    }
    return false;
  }
};

struct EndWaiter : Waiter {
  TaskId task;
};

struct LockWaiter : Waiter {
  std::string_view name;
  bool called = false;
};

}  // namespace nocter::tasks
