// Planted defects: a build with -DNOCTER_PLANTS=ON has them all, and the environment variable NOCTER_PLANT names the one that is alive in a
// process; the test that claims to catch it must fail then (tests/mutants). In every other build each question below is answered at
// compile time, and nothing of it is left.
#pragma once

#include <string_view>
#ifdef NOCTER_PLANTS
#include <cstdlib>
#endif

namespace nocter::base {

#ifdef NOCTER_PLANTS
inline bool planted(std::string_view name) {
  static const char* const alive = std::getenv("NOCTER_PLANT");
  return alive != nullptr && name == alive;
}
#else
consteval bool planted(std::string_view) { return false; }
#endif

}  // namespace nocter::base
