#include "nocter/base/monitor.hpp"

namespace nocter::base {

Patience default_patience() {
  // Twenty looks are about a microsecond, ten yields a few more: less than a wake-up costs. With one core a look can only
  // find what was there before.
  static constexpr Patience kSeveralCores = {20, 10}, kOneCore = {0, 10};
  return usable_cores() > 1 ? kSeveralCores : kOneCore;
}

bool EventCount::advance(uint64_t& now) {
  uint64_t word = word_.load();
  while ((word & 1) == 0) {
    if (word_.compare_exchange(word, word + 2)) {
      now = (word + 2) >> 1;
      return true;
    }
  }
  now = word >> 1;
  return false;
}

bool EventCount::close() {
  uint64_t now = word_.load();
  while ((now & 1) == 0) {
    if (word_.compare_exchange(now, now | 1)) return true;
  }
  return false;
}

Woken EventCount::wait(uint64_t seen, const Wait& wait, Patience patience, Reach reach) {
  Woken found;
  if (look(seen, found)) return found;
  if (wait.interrupt != nullptr && wait.interrupt->raised()) return look(seen, found) ? found : Woken::interrupted;
  if (wait.deadline_ns != kForever && now_ns() >= wait.deadline_ns) {
    return look(seen, found) ? found : Woken::timed_out;
  }
  if (stay_awake(seen, wait, patience, reach, found)) return found;
  return sleep(seen, wait);
}

// Staying awake is worth it while what is awaited comes at once, and a waste when it does not: each time in vain halves the
// next try, each success restores it.
bool EventCount::stay_awake(uint64_t seen, const Wait& wait, Patience patience, Reach reach, Woken& found) {
  if (patience.spins == 0 && patience.yields == 0) {
    sleepers_.fetch_add(1);
    return false;
  }
  const uint32_t thrift = thrift_.glance();
  if (reach == Reach::one) awake_.fetch_add(1);
  bool done = false;
  for (uint32_t i = 0; i < patience.spins && !done; i++) {
    relax();
    done = look(seen, found);
  }
  for (uint32_t i = 0; i < (patience.yields >> thrift) && !done; i++) {
    if (wait.interrupt != nullptr && wait.interrupt->raised()) break;
    yield_core();
    done = look(seen, found);
  }
  if (done) {
    if (reach == Reach::one) awake_.fetch_sub(1);
    if (thrift != 0) thrift_.jot(0);
    return true;
  }
  if (thrift < 3) thrift_.jot(thrift + 1);
  // First a sleeper, then no longer awake: a publisher that still counted on our being awake has moved the version before
  // we look again.
  sleepers_.fetch_add(1);
  if (reach == Reach::one) awake_.fetch_sub(1);
  return false;
}

// Already counted among the sleepers.
Woken EventCount::sleep(uint64_t seen, const Wait& wait) {
  Interrupt* const interrupt = wait.interrupt;
  if (interrupt != nullptr) interrupt->sleepers_.fetch_add(1);
  const uint32_t expected = static_cast<uint32_t>(seen << 1);
  Woken found;
  for (;;) {
    if (look(seen, found)) break;
    if (interrupt != nullptr && interrupt->raised()) {
      found = Woken::interrupted;
      break;
    }
    const Slept slept = futex_sleep(word_.futex_word(), expected,
                                    interrupt != nullptr ? interrupt->raised_.futex_word() : nullptr, 0, wait.deadline_ns);
    if (look(seen, found)) break;
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
