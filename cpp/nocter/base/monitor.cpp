#include "nocter/base/monitor.hpp"

namespace nocter::base {

Patience default_patience() {
  // Twenty looks are about a microsecond, ten yields a few more: less than a wake-up costs. With one core a look can only
  // find what was there before.
  static constexpr Patience kSeveralCores = {20, 10}, kOneCore = {0, 10};
  return usable_cores() > 1 ? kSeveralCores : kOneCore;
}

bool EventCount::advance(uint64_t& now, bool observed) {
  uint64_t word = word_.load();
  while ((word & kClosed) == 0) {
    const uint64_t next = ((word >> kVersionShift) + 1) << kVersionShift | (observed ? kObserved : 0);
    if (word_.compare_exchange(word, next)) {
      now = next >> kVersionShift;
      return true;
    }
  }
  now = word >> kVersionShift;
  return false;
}

Woken EventCount::wait(uint64_t seen, const Wait& wait, Patience patience) {
  Woken found;
  if (look(seen, found)) return found;
  if (wait.interrupt != nullptr && wait.interrupt->raised()) return look(seen, found) ? found : Woken::interrupted;
  if (wait.deadline_ns != kForever && now_ns() >= wait.deadline_ns) {
    return look(seen, found) ? found : Woken::timed_out;
  }
  if (patience.spins + patience.yields == 0) return sleep(seen, wait);
  Interrupt* const interrupt = wait.interrupt;
  const bool over = alertness_.stay_awake(patience, [&] {
    return word_.glance() >> kVersionShift != seen || (interrupt != nullptr && interrupt->raised());
  });
  if (over && look(seen, found)) return found;
  const int64_t asleep_since = now_ns();
  found = sleep(seen, wait);
  alertness_.slept(now_ns() - asleep_since);
  return found;
}

Woken EventCount::sleep(uint64_t seen, const Wait& wait) {
  Interrupt* const interrupt = wait.interrupt;
  if (!planted("sleeper_counted_late")) sleepers_.fetch_add(1);
  if (interrupt != nullptr) interrupt->sleepers_.fetch_add(1);
  Woken found;
  for (;;) {
    uint64_t word;
    if (look(seen, found, word)) break;
    if (interrupt != nullptr && interrupt->raised()) {
      found = Woken::interrupted;
      break;
    }
    if (planted("sleeper_counted_late")) sleepers_.fetch_add(1);
    const Slept slept =
        futex_sleep(word_.futex_word(), static_cast<uint32_t>(word),
                    interrupt != nullptr ? interrupt->raised_.futex_word() : nullptr, 0, wait.deadline_ns);
    if (look(seen, found)) break;
    if (planted("timeout_ends_any_sleep") && wait.deadline_ns != kForever) {
      found = Woken::timed_out;
      break;
    }
    if (slept == Slept::timed_out && now_ns() >= wait.deadline_ns) {
      found = interrupt != nullptr && interrupt->raised() ? Woken::interrupted : Woken::timed_out;
      break;
    }
    if (slept == Slept::signalled && wait.ends_on_signal) {
      found = Woken::interrupted;
      break;
    }
  }
  if (interrupt != nullptr) interrupt->sleepers_.fetch_sub(1);
  sleepers_.fetch_sub(1);
  return found;
}

void FutexMutex::lock_contended() {
  const Patience patience = default_patience();
  uint32_t pauses = 1;
  for (uint32_t i = 0; i < patience.spins + patience.yields; i++) {
    if (i < patience.spins) {
      for (uint32_t k = 0; k < pauses; k++) relax();
      if (pauses < 32) pauses *= 2;
    } else {
      yield_core();
    }
    if (word_.glance() != kFree) continue;
    uint32_t free = kFree;
    if (word_.compare_exchange(free, kHeld)) return;
  }
  while (word_.exchange(kWanted) != kFree) {
    futex_sleep(word_.futex_word(), kWanted, nullptr, 0, kForever);
  }
}

}  // namespace nocter::base
