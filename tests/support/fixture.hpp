// What every test case checks besides its own subject: all owned values were dropped exactly once (GEN-01), every thread
// it caused has ended, and no check of another thread failed.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>

#include "support/build.hpp"
#include "support/check.hpp"
#include "support/payload.hpp"
#include "support/seed.hpp"
#include "support/thread.hpp"

namespace nocter_tests {

using boost::unit_test::label;

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
