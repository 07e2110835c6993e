// Planted defects: a build with -DNOCTER_PLANT=NAME has that one, and the test that claims to catch it must fail
// (tests/mutants). Without one every question below is answered at compile time, and nothing of it is left.
#pragma once

#include <string_view>

#ifndef NOCTER_PLANT
#define NOCTER_PLANT ""
#endif

namespace nocter::base {

consteval bool planted(std::string_view name) { return name == NOCTER_PLANT; }

}  // namespace nocter::base
