// Benchmark C: a version that one thread publishes and another waits for. A peer is a class with
//     static constexpr const char *name;
//     void publish(uint64_t version);      // versions are 1, 2, 3, ...
//     uint64_t wait(uint64_t after);       // returns the version once it is later than `after`
// Modes: pingpong, two threads and two such objects; publish, nobody waits. pin=cross pins the two threads to cores 0 and 1.
#pragma once
#include <string>
#include <thread>

#include "../common/bench.h"

namespace pingpong {

template <class S>
void run(const std::string &mode, uint64_t n, const std::string &pin) {
  std::string wl = mode + ";n=" + std::to_string(n) + ";pin=" + pin;
  bool cross = pin == "cross";
  if (mode == "publish") {
    S s;
    if (cross) pin_to(0);
    // The median of many short stretches: one during which the core was taken away does not count.
    const uint64_t stretch = n < 1000 ? n : n / 1000;
    samples times;
    samples_init(&times, n / stretch);
    for (uint64_t i = 0; i + stretch <= n; i += stretch) {
      uint64_t t = now_ns();
      for (uint64_t k = 1; k <= stretch; k++) s.publish(i + k);
      samples_add(&times, now_ns() - t);
    }
    uint64_t last = n / stretch * stretch;
    if (s.wait(last - 1) != last) fail("version");
    emit("C", S::name, wl.c_str(), "publish_ns", double(samples_pct(&times, 50)) / double(stretch));
    return;
  }
  S a, b;
  uint64_t warm = n / 20;
  samples lat;
  samples_init(&lat, n);
  std::thread th([&] {
    if (cross) pin_to(1);
    for (uint64_t i = 0; i < warm + n; i++) b.publish(a.wait(i));
  });
  if (cross) pin_to(0);
  uint64_t start = 0;
  for (uint64_t i = 1; i <= warm + n; i++) {
    if (i == warm + 1) start = now_ns();
    uint64_t t = now_ns();
    a.publish(i);
    if (b.wait(i - 1) != i) fail("version");
    if (i > warm) samples_add(&lat, now_ns() - t);
  }
  uint64_t end = now_ns();
  th.join();
  emit("C", S::name, wl.c_str(), "roundtrips_per_s", double(n) * 1e9 / double(end - start));
  emit("C", S::name, wl.c_str(), "p50_ns", double(samples_pct(&lat, 50)));
  emit("C", S::name, wl.c_str(), "p99_ns", double(samples_pct(&lat, 99)));
}

}  // namespace pingpong
