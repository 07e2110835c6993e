#include "nocter/tasks/clock.hpp"

#include <algorithm>

namespace nocter::tasks {

Millis SystemClock::now_ms() const { return base::wall_now_ms(); }

void SteerableClock::advance(int64_t by) {
  const base::Locked locked(mutex_);
  const Millis now = now_.load();
  // Neither sum can overflow: now is between the bounds.
  now_.store(by >= 0 ? (by > kLast - now ? kLast : now + by) : (by < -now ? 0 : now + by));
  for (Watcher* watcher : watchers_) watcher->clock_moved();
}

void SteerableClock::watch(Watcher& watcher) {
  const base::Locked locked(mutex_);
  watchers_.push_back(&watcher);
}

void SteerableClock::unwatch(Watcher& watcher) {
  const base::Locked locked(mutex_);
  watchers_.erase(std::remove(watchers_.begin(), watchers_.end(), &watcher), watchers_.end());
}

}  // namespace nocter::tasks
