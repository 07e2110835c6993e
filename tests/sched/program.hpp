// The command line of the sched_* programs. Each brings its scenarios; what they have in common is here: first the
// net is tested for holes, then every scenario is explored in a process of its own, so that a crash is a result like
// any other.
#pragma once

#include <vector>

#include "sched/explorer.hpp"

namespace sched {

// A defect planted on purpose, which the explorer has to find, and the same code without it, which must pass.
struct Control {
  Scenario planted;
  const char* found_as;  // part of what the failure says
  Scenario sound;
};
const std::vector<Control>& controls();

// Runs the program; the result is its exit status. With no scenarios it runs the controls at greater length.
int program(int argc, char** argv, const std::vector<Scenario>& scenarios);

}  // namespace sched
