// Hashes of bytes that come from outside: seeded, so that nobody can choose bytes that all hash alike.
#pragma once

#define XXH_INLINE_ALL
#define XXH_FORCE_MEMORY_ACCESS 1  // no memcpy, which fortified code checks at every turn
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

namespace nocter::base {

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

// One step of a cheap sequence of random numbers, for what nobody gains from guessing. After G. L. Steele, D. Lea, C. H. Flood,
// "Fast Splittable Pseudorandom Number Generators", 2014.
inline uint64_t next_random(uint64_t& state) {
  uint64_t x = state += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace nocter::base
