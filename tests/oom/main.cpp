#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_ALTERNATIVE_INIT_API
#include "oom/suites.hpp"
#include "support/fixture.hpp"
#include "support/thread.hpp"

namespace oom {

boost::unit_test::test_unit* test_case(const std::string& name, const std::function<void()>& body,
                                       std::initializer_list<const char*> promises) {
  const auto whole = [body] {
    nocter_tests::EveryTest every;
    every.setup();
    body();
    every.teardown();
  };
  boost::unit_test::test_unit* const made = boost::unit_test::make_test_case(whole, name, __FILE__, __LINE__);
  for (const char* promise : promises) made->add_label(promise);
  return made;
}

}  // namespace oom

namespace {

bool add_tests() {
  nocter_tests::Thread([] {}).join();  // ThreadSanitizer starts a thread of its own beside the first one
  boost::unit_test::test_suite& all = boost::unit_test::framework::master_test_suite();
  oom::add_allocation_tests(all);
  oom::add_system_tests(all);
  return true;
}

}  // namespace

int main(int argc, char** argv) { return boost::unit_test::unit_test_main(add_tests, argc, argv); }
