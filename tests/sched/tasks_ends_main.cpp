#include "sched/program.hpp"
#include "sched/tasks_world.hpp"

int main(int argc, char** argv) {
  using namespace sched;
  std::vector<Scenario> all;
  for (const auto& part : {tasks_close_scenarios(), lease_scenarios()}) all.insert(all.end(), part.begin(), part.end());
  // Those who wait sleep at once: else each of the looks before it would take a preemption of its own from whoever is to come in between.
  for (Scenario& scenario : all) scenario.disturbance = Disturbance::idle_yields;
  return program(argc, argv, all);
}
