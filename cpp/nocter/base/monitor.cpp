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

bool EventCount::over_already(uint64_t seen, const Wait& wait, Woken& found) const {
  if (look(seen, found)) return true;
  if (wait.interrupt != nullptr && wait.interrupt->raised()) {
    if (!look(seen, found)) found = Woken::interrupted;
    return true;
  }
  if (wait.deadline_ns == kForever || now_ns() < wait.deadline_ns) return false;
  if (!look(seen, found)) found = Woken::timed_out;
  return true;
}

Woken EventCount::wait(uint64_t seen, const Wait& wait, Patience patience) {
  Woken found;
  if (over_already(seen, wait, found)) return found;
  if (patience.spins + patience.yields == 0) return sleep(seen, wait);
  if (stay_awake(wait, patience, [&] { return word_.glance() >> kVersionShift != seen; }) && look(seen, found))
    return found;
  return sleep_until_moved(seen, wait);
}

Woken EventCount::sleep_until_moved(uint64_t seen, const Wait& wait) {
  Woken found;
  if (over_already(seen, wait, found)) return found;
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
  for (;;) {
    const uint32_t seen = answered_.load();
    calls_.fetch_add(1);
    heavy_barrier();
    // When it is free now, the call stands for nobody and its answer wakes nobody, or somebody who looks and sleeps again.
    uint32_t free = kFree;
    if (word_.compare_exchange(free, kHeld)) return;
    // Whoever holds it now sees the call when it releases.
    futex_sleep(answered_.futex_word(), seen, nullptr, 0, kForever);
  }
}

// One call less, one sleeper woken. It moves what they sleep on, so that a caller that is not asleep yet does not go to sleep.
void FutexMutex::answer_call() {
  for (uint32_t calls = calls_.load(); calls != 0;) {
    if (!calls_.compare_exchange(calls, calls - 1)) continue;
    answered_.fetch_add(1);
    futex_wake(answered_.futex_word(), 1);
    return;
  }
}

}  // namespace nocter::base
