// What every test case checks besides its own subject: all owned values were dropped exactly once (GEN-01), every thread
// it caused has ended, and no check of another thread failed. And the seed of the random ones.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "support/build.hpp"
#include "support/check.hpp"
#include "support/payload.hpp"
#include "support/thread.hpp"

namespace nocter_tests {

using boost::unit_test::label;

// Of NOCTER_SEED, or a new one.
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

struct PrintsSeed {
  PrintsSeed() {
    std::cout << "NOCTER_SEED=" << seed() << std::endl;
    std::thread([] {}).join();  // ThreadSanitizer makes its own thread with the first one: before any are counted
  }
};
BOOST_TEST_GLOBAL_FIXTURE(PrintsSeed);

class EveryTest {
 public:
  void setup() {
    Failures::collect();
    created_ = Ledger::created();
    dropped_ = Ledger::dropped();
    balance_ = Ledger::balance();
    threads_ = thread_count();
  }
  void teardown() {
    // A thread is listed for a moment after it was joined.
    BOOST_CHECK_MESSAGE(eventually([this] { return thread_count() <= threads_; }, 5'000),
                        "GEN-01: threads are left: " << thread_count() << " for " << threads_);
    for (const std::string& failure : Failures::collect()) BOOST_ERROR(failure);
    BOOST_CHECK_EQUAL(Ledger::created() - created_, Ledger::dropped() - dropped_);
    BOOST_CHECK_EQUAL(Ledger::balance(), balance_);
  }

 private:
  uint64_t created_ = 0, dropped_ = 0, balance_ = 0;
  size_t threads_ = 0;
};

}  // namespace nocter_tests
