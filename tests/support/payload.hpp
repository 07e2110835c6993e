// Counted owned values: every one that was made must be dropped exactly once by the end of its test (GEN-01).
#pragma once

#include <nocter/base.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "support/check.hpp"

namespace nocter_tests {

// Counts, and sums of well-mixed serial numbers: one value dropped twice and another never would not cancel out.
class Ledger {
 public:
  static uint64_t created() { return created_.load(); }
  static uint64_t dropped() { return dropped_.load(); }
  static uint64_t balance() { return created_sum_.load() - dropped_sum_.load(); }
  static uint64_t live() { return created() - dropped(); }

  static void add(uint64_t serial) {
    created_.fetch_add(1);
    created_sum_.fetch_add(mix(serial));
  }
  static void remove(uint64_t serial) {
    dropped_sum_.fetch_add(mix(serial));
    dropped_.fetch_add(1);
  }
  static uint64_t next_serial() { return serials_.fetch_add(1); }

 private:
  // The finaliser of D. Lea and G. Steele's SplitMix64.
  static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  static inline std::atomic<uint64_t> created_, dropped_, created_sum_, dropped_sum_;
  static inline std::atomic<uint64_t> serials_{1};
};

struct Payload {
  static constexpr uint64_t kLive = 0x6c69766570617921;
  uint64_t magic;
  uint64_t serial;
  uint64_t value;
};

inline void drop_payload(void* data) {
  Payload* payload = static_cast<Payload*>(data);
  if (!HOLDS(payload != nullptr && payload->magic == Payload::kLive)) return;
  Ledger::remove(payload->serial);
  payload->magic = 0;
  delete payload;
}

inline nocter_owned payload(uint64_t value) {
  Payload* made = new Payload{Payload::kLive, Ledger::next_serial(), value};
  Ledger::add(made->serial);
  return {made, drop_payload};
}

// The same without memory of its own: the value is the pointer. For runs of millions.
inline void drop_token(void* data) { Ledger::remove(reinterpret_cast<uintptr_t>(data)); }
inline nocter_owned token(uint64_t value) {
  Ledger::add(value);
  return {reinterpret_cast<void*>(value), drop_token};
}

constexpr uint64_t kNoValue = UINT64_MAX;

inline uint64_t value_of(const nocter_owned& owned) {
  if (owned.drop == drop_payload) return static_cast<const Payload*>(owned.data)->value;
  if (owned.drop == drop_token) return reinterpret_cast<uintptr_t>(owned.data);
  return kNoValue;
}

inline bool is_none(const nocter_owned& owned) { return owned.data == nullptr && owned.drop == nullptr; }
inline bool same(const nocter_owned& a, const nocter_owned& b) { return a.data == b.data && a.drop == b.drop; }

// Ends a value that came back; what it was.
inline uint64_t discard(nocter_owned& owned) {
  const uint64_t value = value_of(owned);
  const nocter_owned gone = owned;
  owned = {};
  if (gone.drop != nullptr) gone.drop(gone.data);
  return value;
}

// A notifier that counts its turns; dropped exactly once by the end of the test.
struct Wakes {
  std::atomic<uint64_t> turns{0};
  std::atomic<uint64_t> drops{0};
  static void wake(void* user) { static_cast<Wakes*>(user)->turns.fetch_add(1); }
  static void drop(void* user) { static_cast<Wakes*>(user)->drops.fetch_add(1); }
  nocter_notifier notifier() { return {wake, drop, this}; }
  uint64_t count() const { return turns.load(); }
};

}  // namespace nocter_tests
