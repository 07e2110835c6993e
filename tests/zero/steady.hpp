// What a steady service keeps as it is: memory, threads, descriptors.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "oom/faults.hpp"
#include "support/fixture.hpp"

namespace zero {

using nocter_tests::kSanitized;
using nocter_tests::thread_count;

inline size_t descriptor_count() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(descriptors), end(descriptors)));
}

inline int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Footprint {
  uint64_t allocations, threads_made;
  int64_t live_blocks, resident;
  size_t threads, descriptors;

  static Footprint now() {
    // The looks that allocate come first.
    Footprint f = {};
    f.threads = thread_count();
    f.descriptors = descriptor_count();
    f.resident = resident_bytes();
    f.threads_made = faults::threads_made();
    f.live_blocks = faults::live_blocks();
    f.allocations = faults::allocations();
    return f;
  }
};

// Runs it once to warm up, `rounds` times measured. The allocations are those of all threads.
template <class Work>
void check_steady(uint64_t rounds, Work work) {
  for (uint64_t i = 0; i < rounds / 20 + 1; i++) work();
  const Footprint before = Footprint::now();
  for (uint64_t i = 0; i < rounds; i++) work();
  const uint64_t allocations = faults::allocations() - before.allocations;
  const int64_t blocks = faults::live_blocks() - before.live_blocks;
  const Footprint after = Footprint::now();
  BOOST_CHECK_EQUAL(allocations, 0u);
  BOOST_CHECK_EQUAL(blocks, 0);
  BOOST_CHECK_EQUAL(after.threads_made, before.threads_made);
  BOOST_CHECK_EQUAL(after.threads, before.threads);
  BOOST_CHECK_EQUAL(after.descriptors, before.descriptors);
  // A sanitizer's own records grow.
  if (!kSanitized) BOOST_CHECK_LE(std::abs(after.resident - before.resident), 1 << 20);
}

// Out of the child process in which system calls are counted.
inline void leave(int why) { syscall(SYS_exit_group, why); }

}  // namespace zero
