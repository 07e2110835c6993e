// The scenarios of the blocking service, by what they are about.
#pragma once

#include <vector>

#include "sched/world.hpp"

namespace sched {

std::vector<Scenario> races_on_one_job();
std::vector<Scenario> capacity_scenarios();
std::vector<Scenario> wait_scenarios();
std::vector<Scenario> shutdown_scenarios();
std::vector<Scenario> notifier_scenarios();
std::vector<Scenario> batch_scenarios();

}  // namespace sched
