// The same race many times over: two threads that start within nanoseconds of each other, one of them a little later.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "support/fixture.hpp"
#include "support/thread.hpp"

namespace nocter_tests {

inline void look_away(uint64_t times) {
  static std::atomic<uint64_t> looked{0};
  for (uint64_t i = 0; i < times; i++) looked.load();
}

// The longest a race goes on: on a busy machine each round may cost a time slice.
inline constexpr int64_t kRaceNs = kSanitized ? 4'000'000'000 : 1'500'000'000;

// `set_up` and `check` run on the calling thread with the other one at rest. Ends early when a check failed, or after kRaceNs.
template <class SetUp, class One, class Other, class Check>
void race(uint64_t rounds_to_run, uint64_t stream, SetUp set_up, One one, Other other, Check check) {
  std::atomic<uint64_t> started{0}, finished{0};
  std::atomic<uint64_t> delay{0};
  const auto pause = [](uint32_t& spins) {
    if (++spins % 64 == 0) std::this_thread::yield();
  };
  Thread second([&] {
    for (uint64_t round = 1;; round++) {
      uint32_t spins = 0;
      uint64_t now = 0;
      while ((now = started.load()) < round) pause(spins);
      if (now == UINT64_MAX) return;
      look_away(delay.load());
      other();
      finished.store(round);
    }
  });
  auto random = random_stream(stream);
  const int64_t until = nocter_now_ns() + kRaceNs;
  for (uint64_t round = 1; round <= rounds_to_run && nocter_now_ns() < until; round++) {
    set_up();
    // Nobody knows how long the other thread takes to see the start: from nothing to some microseconds, on either side.
    const uint64_t skew = below(random, uint64_t{1} << below(random, 14));
    const bool other_later = random() % 2 == 0;
    delay.store(other_later ? skew : 0);
    started.store(round);
    if (!other_later) look_away(skew);
    one();
    uint32_t spins = 0;
    while (finished.load() < round) pause(spins);
    if (!check()) {
      Failures::add(Where::here(), "lost in round " + std::to_string(round));
      break;
    }
  }
  started.store(UINT64_MAX);
}

}  // namespace nocter_tests
