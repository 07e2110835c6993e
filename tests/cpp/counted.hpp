// A payload that counts how many of it are alive, so that a lost or doubled drop shows.
#pragma once

#include <atomic>
#include <memory>

struct Counted {
  explicit Counted(int number) : value(number) { alive++; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { alive--; }

  int value;
  static inline std::atomic<int> alive{0};
};

inline std::unique_ptr<Counted> counted(int number) { return std::make_unique<Counted>(number); }
