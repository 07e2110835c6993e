// The seed of all random choices: that of NOCTER_SEED, or a new one. Every program prints it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace nocter_tests {

inline uint64_t seed() {
  static const uint64_t chosen = [] {
    const char* given = std::getenv("NOCTER_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 0)
                            : (uint64_t{std::random_device{}()} << 32) + std::random_device{}();
  }();
  return chosen;
}

// One stream of random numbers for each thread or subject.
inline std::mt19937_64 random_stream(uint64_t which) { return std::mt19937_64(seed() ^ (which * 0x9e3779b97f4a7c15)); }

inline uint64_t below(std::mt19937_64& random, uint64_t bound) {
  return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random);
}

}  // namespace nocter_tests
