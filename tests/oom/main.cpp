#include "support/main.hpp"
#include "oom/suites.hpp"
#include "support/fixture.hpp"

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

namespace {

const nocter_tests::MadeAtRunTime added([](boost::unit_test::test_suite& all) {
  add_allocation_tests(all);
  add_system_tests(all);
});

}  // namespace

}  // namespace oom
