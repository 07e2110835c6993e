// The same race many times over: two threads that aim at the same moment, a few hundred nanoseconds to either side of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

#include "support/fixture.hpp"
#include "support/thread.hpp"

namespace nocter_tests {

// The longest a race goes on: on a busy machine each round may cost a time slice.
inline constexpr int64_t kRaceNs = kSanitized ? 3'000'000'000 : 1'000'000'000;

// `set_up` and `check` run on the calling thread with the other one at rest. Ends early when a check failed, or after kRaceNs.
template <class SetUp, class One, class Other, class Check>
void race(uint64_t rounds_to_run, uint64_t stream, SetUp set_up, One one, Other other, Check check) {
  std::atomic<uint64_t> started{0}, finished{0};
  std::atomic<int64_t> other_began{0};
  const auto pause = [](uint32_t& spins) {
    if (++spins % 1'024 == 0) std::this_thread::yield();
  };
  Thread second([&] {
    for (uint64_t round = 1;; round++) {
      uint32_t spins = 0;
      uint64_t now = 0;
      while ((now = started.load()) < round) pause(spins);
      if (now == UINT64_MAX) return;
      other_began.store(nocter_now_ns());
      other();
      finished.store(round);
    }
  });
  auto random = random_stream(stream);
  const int64_t until = nocter_now_ns() + kRaceNs;
  int64_t lead = 0;  // how long the other thread usually takes to see the start
  for (uint64_t round = 1; round <= rounds_to_run && nocter_now_ns() < until; round++) {
    set_up();
    const int64_t aim = nocter_now_ns() + lead + static_cast<int64_t>(below(random, 1'000)) - 500;
    started.store(round);
    while (nocter_now_ns() < aim) {
    }
    const int64_t one_began = nocter_now_ns();
    one();
    uint32_t spins = 0;
    while (finished.load() < round) pause(spins);
    lead = std::clamp<int64_t>(lead + std::clamp<int64_t>((other_began.load() - one_began) / 4, -200, 200), 0, 20'000);
    if (!check()) {
      Failures::add(Where::here(), "lost in round " + std::to_string(round));
      break;
    }
  }
  started.store(UINT64_MAX);
}

}  // namespace nocter_tests
