// Random numbers for claim tokens and the jitter of retries: from the kernel, or repeatable for tests. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nocter::tasks {

class Random {
 public:
  virtual ~Random() = default;
  Random() = default;
  Random(const Random&) = delete;
  Random& operator=(const Random&) = delete;

  virtual uint64_t next() = 0;

  uint64_t next_token() {  // zero means that there is none
    const uint64_t token = next();
    return token != 0 ? token : 1;
  }
  // Between 0 and `most`, both included. The remainder's slant is far below what a jitter has to be.
  int64_t up_to(int64_t most) {
    return most <= 0 ? 0 : static_cast<int64_t>(next() % (static_cast<uint64_t>(most) + 1));
  }
};

// A system call for some dozens of numbers. Throws StoreError when the kernel gives none.
class KernelRandom final : public Random {
 public:
  uint64_t next() override;

 private:
  static constexpr size_t kAtOnce = 32;  // 256 bytes come whole
  uint64_t numbers_[kAtOnce] = {};
  size_t left_ = 0;
};

// Sebastiano Vigna's SplitMix64.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() override {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

}  // namespace nocter::tasks
