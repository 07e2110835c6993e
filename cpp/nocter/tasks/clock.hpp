// The time by which a store goes: the system's, or one that tests move by hand.
#pragma once

#include <cstdint>
#include <vector>

#include "nocter/base/monitor.hpp"
#include "nocter/tasks/model.hpp"

namespace nocter::tasks {

class Clock {
 public:
  // Told when the clock was moved by hand: what is due may have changed. Called under a lock, so it only notes that and wakes somebody.
  class Watcher {
   public:
    virtual void clock_moved() = 0;

   protected:
    ~Watcher() = default;
  };

  virtual ~Clock() = default;
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  virtual Millis now_ms() const = 0;
  // After unwatch() the watcher is not called any more.
  virtual void watch(Watcher&) {}
  virtual void unwatch(Watcher&) {}
  // Whether time stands still by itself: a wait until some time then is one for a move.
  virtual bool steered() const { return false; }
};

class SystemClock final : public Clock {
 public:
  Millis now_ms() const override;
};

class SteerableClock final : public Clock {
 public:
  static constexpr Millis kLast = 4'102'444'800'000;  // the year 2100
  explicit SteerableClock(Millis now) : now_(now) {}
  Millis now_ms() const override { return now_.load(); }
  void advance(int64_t by);  // forward or back, between 0 and kLast
  void watch(Watcher& watcher) override;
  void unwatch(Watcher& watcher) override;
  bool steered() const override { return true; }

 private:
  base::Mutex mutex_;
  base::Atomic<int64_t> now_;
  std::vector<Watcher*> watchers_;
};

}  // namespace nocter::tasks
