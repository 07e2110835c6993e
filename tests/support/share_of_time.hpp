// How long a test goes on that could go on for much longer.
#pragma once

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string_view>

namespace nocter_tests {

// Such tests take their points in an order that the seed draws, as many as fit the time, so that one run after
// the other covers more of them. All of them with the argument --all behind a `--`.
class ShareOfTime {
 public:
  explicit ShareOfTime(int seconds) : until_(std::chrono::steady_clock::now() + std::chrono::seconds(seconds)) {
    const auto& suite = boost::unit_test::framework::master_test_suite();
    for (int i = 1; i < suite.argc; i++) all_ = all_ || std::string_view(suite.argv[i]) == "--all";
  }
  bool all() const { return all_; }
  bool over() const { return !all_ && std::chrono::steady_clock::now() > until_; }

 private:
  const std::chrono::steady_clock::time_point until_;
  bool all_ = false;
};

}  // namespace nocter_tests
