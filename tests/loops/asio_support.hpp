// Jobs on Asio as the tests use them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <memory>
#include <nocter_asio.hpp>
#include <utility>

#include "cpp/counted.hpp"
#include "support/fixture.hpp"
#include "support/workers.hpp"

namespace nocter_tests {

namespace asio = boost::asio;
using error_code = boost::system::error_code;
using Jobs = nocter::async_blocking<Counted, Counted>;

inline constexpr int kLost = -1;

// Every test leaves as many payloads, threads and descriptors as it found.
struct AsioTest : EveryTest {
  void setup() {
    EveryTest::setup();
    descriptors_ = descriptors();
  }
  void teardown() {
    EveryTest::teardown();
    BOOST_CHECK_EQUAL(Counted::alive, 0);
    BOOST_CHECK_EQUAL(descriptors(), descriptors_);
  }

 private:
  static std::ptrdiff_t descriptors() {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  }
  std::ptrdiff_t descriptors_ = 0;
};

// Twice the input; a worker is lost by request.
template <class On>
nocter::workers serve(On& jobs) {
  return jobs.service()
      .serve([](std::unique_ptr<Counted> input, nocter::lent_completion<Counted>& guard) {
        if (input->value == kLost) guard.drop();
        input->value *= 2;
        return input;
      })
      .value();
}

template <class On>
void complete_one(On& jobs) {
  auto job = jobs.service().try_claim().value().begin().value();
  job.input->value *= 2;
  BOOST_CHECK(job.guard.complete(std::move(job.input)).ok());
}

template <class On>
nocter_blocking_counts counts(const On& jobs) {
  return counts_of(jobs.service().native());
}

// Until nothing waits any more; a wake that was lost fails the test instead of hanging.
inline void run(asio::io_context& context) {
  context.restart();
  context.run_for(std::chrono::milliseconds(kLimitMs));
  HOLDS(context.stopped());
}

inline void rethrow(std::exception_ptr thrown) {
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace nocter_tests
