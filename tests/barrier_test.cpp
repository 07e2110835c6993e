// The light and the heavy barrier, on the machine itself: the explorer knows one order of things only. GEN-07.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "nocter/base/monitor.hpp"

namespace base = nocter::base;
namespace utf = boost::unit_test;

namespace {

struct alignas(64) Word {
  std::atomic<uint64_t> value{0};
  void await(uint64_t round) const {
    for (uint32_t looks = 0; value.load() != round; looks++) {
      if (looks > 1000) base::yield_core();
    }
  }
};

struct Rounds {
  uint64_t played = 0, missed = 0;
};

// One side works: stores, crosses `light`, looks at the other's word. The other is about to sleep: stores, crosses `heavy`, looks. They
// wait for each other before every round, so that the two stores fall together. Counts the rounds in which neither saw the other.
template <class Light, class Heavy>
Rounds play(int64_t for_ns, Light&& light, Heavy&& heavy) {
  Word worker, sleeper, worker_ready, sleeper_ready, worker_done;
  std::atomic<bool> worker_saw{false}, over{false};
  Rounds rounds;
  std::thread working([&] {
    for (uint64_t round = 1;; round++) {
      worker_ready.value.store(round);
      sleeper_ready.await(round);
      if (over.load()) return;
      worker.value.store(round, std::memory_order_relaxed);
      light();
      worker_saw.store(sleeper.value.load(std::memory_order_relaxed) == round, std::memory_order_relaxed);
      worker_done.value.store(round);
    }
  });
  const int64_t until = base::now_ns() + for_ns;
  for (uint64_t round = 1;; round++) {
    worker_ready.await(round);
    over.store(base::now_ns() > until);
    sleeper_ready.value.store(round);
    if (over.load()) break;
    sleeper.value.store(round, std::memory_order_relaxed);
    heavy();
    const bool saw = worker.value.load(std::memory_order_relaxed) == round;
    worker_done.await(round);
    rounds.played++;
    if (!saw && !worker_saw.load(std::memory_order_relaxed)) rounds.missed++;
  }
  working.join();
  return rounds;
}

}  // namespace

BOOST_AUTO_TEST_CASE(gen_07_light_and_heavy_barrier_together_let_no_wake_be_lost, *utf::label("GEN-07")) {
  constexpr int64_t kSecond = 1'000'000'000;
  const Rounds light = play(2 * kSecond, base::light_barrier, base::heavy_barrier);
  const Rounds full = play(kSecond, base::full_barrier, base::full_barrier);
  const auto nothing = [] { std::atomic_signal_fence(std::memory_order_seq_cst); };
  const Rounds none = play(kSecond, nothing, nothing);
  BOOST_TEST_MESSAGE("light and heavy: " << light.played << " rounds; full: " << full.played << "; with none at all "
                                         << none.missed << " of " << none.played << " were missed");
  BOOST_TEST(light.played > 100U);
  BOOST_TEST(light.missed == 0U);
  BOOST_TEST(full.missed == 0U);
}

// A mutex whose holders release it with the light barrier: with sleepers all the time, each of them gets its turn.
BOOST_AUTO_TEST_CASE(gen_07_nobody_sleeps_through_the_release_of_a_mutex, *utf::label("GEN-07")) {
  base::FutexMutex mutex;
  uint64_t turns = 0;
  std::atomic<bool> inside{false};
  std::atomic<uint64_t> together{0};
  constexpr uint64_t kTurns = 20'000;
  const auto take_turns = [&] {
    for (uint64_t i = 0; i < kTurns; i++) {
      mutex.lock();
      if (inside.exchange(true)) together++;
      turns++;
      if (i % 64 == 0) std::this_thread::yield();  // so that the others come to sleep
      inside.store(false);
      mutex.unlock();
    }
  };
  std::thread threads[] = {std::thread(take_turns), std::thread(take_turns), std::thread(take_turns)};
  take_turns();
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(together == 0U);
  BOOST_TEST(turns == 4 * kTurns);
}
