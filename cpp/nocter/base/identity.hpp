// Who issued what: service numbers, and the shape of identities and epochs made of them.
#pragma once

#include <cstdint>

#include "nocter/base/monitor.hpp"

namespace nocter::base {

// An identity is two words: the service's number with the place where it keeps the thing, and a sequence that is never
// issued twice. A place makes the look-up one comparison; it is bounded by what 24 bits can number.
inline constexpr unsigned kPlaceBits = 24;
inline constexpr uint64_t kPlaces = uint64_t{1} << kPlaceBits;
inline constexpr uint64_t kServices = uint64_t{1} << (64 - kPlaceBits);

struct Identity {
  uint64_t service = 0;
  uint64_t sequence = 0;

  static Identity of(uint64_t service_number, uint64_t place, uint64_t sequence) {
    return {service_number << kPlaceBits | place, sequence};
  }
  uint64_t service_number() const { return service >> kPlaceBits; }
  uint64_t place() const { return service & (kPlaces - 1); }
};

struct Epoch {
  uint64_t service = 0;
  uint64_t sequence = 0;
};

// From one counter of the process, never reused, starting at 1 so that zeroed memory is never valid. 0 once they are used up,
// which at a million services a second is after twelve days.
uint64_t next_service_number();

}  // namespace nocter::base
