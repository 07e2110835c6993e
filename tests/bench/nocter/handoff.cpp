// How long two cores take at present to hand a cache line to and fro, in nanoseconds: where the machine is a guest this changes by a
// factor of three from one second to the next, as the host moves its cores. The driver compares only rounds that had the same.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
static void relax() { _mm_pause(); }
#else
static void relax() {}
#endif

namespace {

alignas(64) std::atomic<uint32_t> turn{0};
constexpr uint32_t kTrips = 20'000;

// To the first or the second core that this process may use.
void stay_on(int which) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &allowed) || which-- > 0) continue;
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

void play(int which) {
  stay_on(which);
  for (uint32_t trip = 0; trip < kTrips; trip++) {
    for (uint32_t looks = 0; turn.load(std::memory_order_acquire) != trip * 2 + static_cast<uint32_t>(which); looks++) {
      relax();
      if (looks % 4096 == 4095) sched_yield();
    }
    turn.store(trip * 2 + static_cast<uint32_t>(which) + 1, std::memory_order_release);
  }
}

}  // namespace

int main() {
  const auto since = std::chrono::steady_clock::now();
  std::thread other([] { play(1); });
  play(0);
  other.join();
  const auto took = std::chrono::steady_clock::now() - since;
  std::printf("%.1f\n", std::chrono::duration<double, std::nano>(took).count() / (2 * kTrips));
}
