// How numbers cross from the threads on one side of a service to those on the other, oldest first, without a lock that both would
// take. One thread pushes at a time and one takes at a time, each under the lock of its own side.
//
// A ring whose cells say themselves whether they are full, by the position they were written for: taking writes nothing the pushing side
// reads, and a push touches one cache line that is shared. After J. Giacomoni, T. Moseley, M. Vachharajani, "FastForward for Efficient
// Pipeline Parallelism", 2008, whose cells are emptied instead.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>

#include "nocter/base/monitor.hpp"

namespace nocter::base {

class Crossing {
 public:
  // `cells` must all be zero, and be as many as numbers can be on their way at once, rounded up to a power of two.
  Crossing(Atomic<uint64_t>* cells, uint32_t count) : cells_(cells), mask_(count - 1) {}
  static uint32_t cells_for(uint32_t most) { return std::bit_ceil(most); }

  // The pushing side. Who pushes and then looks for sleepers, and who counts itself as a sleeper and then looks here, cannot both see
  // nothing when the one crosses the light barrier in between and the other the heavy one.
  __attribute__((always_inline)) void push(uint32_t number) {
    const uint64_t position = pushed_++;
    cells_[position & mask_].publish(stamp_of(position) << 32 | number);
  }
  // Anybody, as a glance; the taking side, for sure.
  bool empty() const {
    const uint64_t taken = taken_.glance();
    return cells_[taken & mask_].observe() >> 32 != stamp_of(taken);
  }
  // The taking side: the oldest number; false when there is none. `soon` is one that is to be taken soon, or was taken long ago.
  __attribute__((always_inline)) bool take_one(uint32_t& number, uint32_t& soon) {
    const uint64_t taken = taken_.glance();
    const uint64_t cell = cells_[taken & mask_].observe();
    if (cell >> 32 != stamp_of(taken)) return false;
    soon = static_cast<uint32_t>(cells_[(taken + kSoon) & mask_].glance());
    taken_.jot(taken + 1);
    number = static_cast<uint32_t>(cell);
    return true;
  }
  // The taking side: coming(number) for as many as there are, at most `most`, so that memory can be fetched; then each(number), oldest
  // first.
  template <class Coming, class Each>
  void take(size_t most, Coming&& coming, Each&& each) {
    Atomic<uint64_t>* const cells = cells_;
    const uint64_t mask = mask_, from = taken_.glance();
    const uint64_t end = from + (most <= mask ? most : mask + 1);
    uint64_t to = from;
    for (; to != end; to++) {
      const uint64_t cell = cells[to & mask].observe();
      if (cell >> 32 != stamp_of(to)) break;
      coming(static_cast<uint32_t>(cell));
    }
    if (to == from) return;
    for (uint64_t i = from; i != to; i++) each(static_cast<uint32_t>(cells[i & mask].glance()));
    taken_.jot(to);
  }

 private:
  static constexpr uint64_t kSoon = 4;

  // Never zero in the first lap, so that zeroed cells are empty; and a lap later it is another one.
  static uint64_t stamp_of(uint64_t position) { return static_cast<uint32_t>(position + 1); }

  Atomic<uint64_t>* const cells_;
  const uint32_t mask_;
  alignas(64) uint64_t pushed_ = 0;
  alignas(64) Atomic<uint64_t> taken_;
};

}  // namespace nocter::base
