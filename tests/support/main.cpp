// The main function of every program of Boost.Test. It prints the seed, and it ends a program whose checks are made by the wrong thread:
// the macros of Boost.Test write what they share without a lock, so a check by another thread is a data race even where it holds. Other
// threads check with HOLDS and STATUS (check.hpp), or keep what they saw until the thread of the test case looks at it.
#include "support/main.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "support/seed.hpp"

namespace unit_test = boost::unit_test;

namespace {

// Boost.Test tells it of each check before anybody else.
class OneThread : public unit_test::test_observer {
 public:
  void test_unit_start(const unit_test::test_unit& unit) override {
    unit_.store(&unit);
    thread_.store(std::this_thread::get_id());
  }
  void assertion_result(unit_test::assertion_result) override {
    const unit_test::test_unit* const unit = unit_.load();
    if (unit == nullptr || std::this_thread::get_id() == thread_.load()) return;
    std::fprintf(stderr, "a check of Boost.Test was made by another thread than that of its test case: %s\n",
                 unit->full_name().c_str());
    std::abort();
  }

 private:
  std::atomic<const unit_test::test_unit*> unit_{nullptr};
  std::atomic<std::thread::id> thread_;
};

bool get_ready() {
  static OneThread one_thread;
  unit_test::framework::register_observer(one_thread);
  unit_test::master_test_suite_t& all = unit_test::framework::master_test_suite();
  all.p_name.value = std::filesystem::path(all.argv[0]).filename().string();
  std::thread([] {}).join();  // ThreadSanitizer makes its own thread with the first one: before any are counted
  nocter_tests::MadeAtRunTime::add_to(all);
  return true;
}

struct PrintsSeed {
  PrintsSeed() { std::cout << "NOCTER_SEED=" << nocter_tests::seed() << std::endl; }
};
BOOST_TEST_GLOBAL_FIXTURE(PrintsSeed);

}  // namespace

int main(int argc, char** argv) {
  const std::optional<int> status = nocter_tests::OtherRole::play(argc, argv);
  return status ? *status : unit_test::unit_test_main(get_ready, argc, argv);
}
