// The way to a store that executes one batch at a time. Whoever finds the lane free leads: it takes all requests that wait, up to a bound,
// and has them executed as one batch; the others sleep until theirs is answered, or until one of them is to lead. So one caller alone commits
// at once and on its own thread, and what many callers want at once costs one commit, and one call to wake them.
//
// After D. J. DeWitt et al., "Implementation Techniques for Main Memory Database Systems", 1984 (group commit), with the callers' own threads
// in place of a log writer's.
#pragma once

#include <cstddef>
#include <span>

#include "nocter/base/monitor.hpp"
#include "nocter/tasks/store.hpp"

namespace nocter::tasks {

class Lane {
 public:
  static constexpr size_t kBatch = 256;

  // Told of each batch before any of its callers is, on the leader's thread, with no lock of the lane's held. Must not throw.
  class Observer {
   public:
    virtual void committed(std::span<Request* const> batch, const Effects& effects) = 0;

   protected:
    ~Observer() = default;
  };

  Lane(Store& store, Observer& observer) : store_(store), observer_(observer) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Returns when the request is answered.
  void execute(Request& request);

 private:
  // A follower's, on its own stack: whoever answers it does not look at it again.
  struct Place {
    explicit Place(Request& of) : request(&of) {}
    Request* const request;
    Place* next = nullptr;
    base::Atomic<bool> answered{false};
  };

  void follow(base::Locked& lock, Request& request);
  bool becomes_leader();
  void lead(Request* own);
  void execute_batch(std::span<Request* const> batch);
  Place* pop();

  Store& store_;
  Observer& observer_;
  Effects effects_;  // of the batch at hand: the leader's
  base::Mutex mutex_;
  bool busy_ = false;                 // somebody leads, or will
  base::Atomic<bool> vacant_{false};  // nobody does yet: whoever of those that wait sees it first
  static constexpr uint32_t kAwake = 1;
  Place *first_ = nullptr, *last_ = nullptr;  // those that wait, so many
  uint32_t waiting_ = 0;
  // Where they sleep: those of the batch at hand at the one, those of the next at the other.
  base::EventCount called_[2];
  uint32_t gathering_ = 0;  // where those do that come now
  bool behind_ = false;     // some that did not fit into the batch before the last one sleep at the other one
};

}  // namespace nocter::tasks
