// The test cases of this program are made at run time: one for each scenario.
#pragma once

#include <boost/test/unit_test.hpp>

#include <functional>
#include <initializer_list>
#include <string>

namespace oom {

boost::unit_test::test_unit* test_case(const std::string& name, const std::function<void()>& body,
                                       std::initializer_list<const char*> promises);

void add_allocation_tests(boost::unit_test::test_suite& all);
void add_system_tests(boost::unit_test::test_suite& all);

}  // namespace oom
