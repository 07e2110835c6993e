// Benchmark R: what it costs to give up a resource whose end may block, with nobody about. A peer is a class with
//     static constexpr const char *name;
//     explicit Peer(uint32_t places);
//     void own(uint32_t i);     // makes the owner of resource i
//     void drop(uint32_t i);    // gives it up: from here on somebody else may clean it
//     uint32_t clean();         // cleans everything that was given up; how many that were
// Only drop is measured, and how many allocations of the whole process it makes.
#pragma once
#include <atomic>
#include <string>

#include "../common/bench.h"

extern "C" void *__libc_malloc(size_t size);

namespace giving_up {

inline std::atomic<uint64_t> allocations{0};

template <class Peer>
void run(uint64_t drops) {
  // So many at once as stay in the nearest caches: the program's own memory is not what is measured.
  constexpr uint32_t kStretch = 128;
  Peer peer(kStretch);
  const uint64_t stretches = drops / kStretch;
  samples times;
  samples_init(&times, stretches);
  uint64_t allocated = 0;
  for (uint64_t i = 0; i < stretches; i++) {
    for (uint32_t k = 0; k < kStretch; k++) peer.own(k);
    const uint64_t before = allocations.load(std::memory_order_relaxed);
    const uint64_t t = now_ns();
    for (uint32_t k = 0; k < kStretch; k++) peer.drop(k);
    samples_add(&times, now_ns() - t);
    allocated += allocations.load(std::memory_order_relaxed) - before;
    if (peer.clean() != kStretch) fail("everything that was given up is cleaned");
  }
  const std::string workload = "drop;n=" + std::to_string(stretches * kStretch);
  emit("R", Peer::name, workload.c_str(), "drop_ns", double(samples_pct(&times, 50)) / kStretch);
  emit("R", Peer::name, workload.c_str(), "allocations_per_drop", double(allocated) / double(stretches * kStretch));
}

}  // namespace giving_up

// The C library's own stand behind it; operator new comes here too.
extern "C" void *malloc(size_t size) {
  giving_up::allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
