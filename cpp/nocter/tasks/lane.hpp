// The way to a store that executes one batch at a time. Whoever finds the lane free leads: it takes all requests that wait, up to a bound,
// and has them executed as one batch; the others sleep until theirs is answered, or until it is theirs to lead. So one caller alone commits
// at once and on its own thread, and what many callers want at once costs one commit.
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
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Returns when the request is answered. Throws std::bad_alloc when it could not even be queued: then nothing of it was done.
  void execute(Request& request);

 private:
  enum class Turn : uint32_t { waits, answered, leads };
  // Where a follower sleeps. Kept for the next one, never freed before the lane: who wakes it may come late.
  struct Place {
    Request* request = nullptr;
    Place* next = nullptr;
    Place* made_before = nullptr;
    base::EventCount called;
    base::Atomic<Turn> turn{Turn::waits};
  };

  void follow(base::Locked& lock, Request& request);
  void lead(Request& own);
  void execute_batch(std::span<Request* const> batch);
  Place& take_place();
  Place* pop();
  static void call(Place& place, Turn turn);

  Store& store_;
  Observer& observer_;
  Effects effects_;  // of the batch at hand: the leader's
  base::Mutex mutex_;
  bool busy_ = false;
  static constexpr uint32_t kAwake = 1;
  Place *first_ = nullptr, *last_ = nullptr;  // those that wait, so many
  uint32_t waiting_ = 0;
  Place* free_ = nullptr;
  Place* made_ = nullptr;
};

}  // namespace nocter::tasks
