#include "sched/program.hpp"
#include "sched/tasks_world.hpp"

int main(int argc, char** argv) {
  using namespace sched;
  std::vector<Scenario> all;
  for (const auto& part : {tasks_close_scenarios(), lease_scenarios()}) all.insert(all.end(), part.begin(), part.end());
  return program(argc, argv, all);
}
