#include "sched/keyed_world.hpp"
#include "sched/program.hpp"

int main(int argc, char** argv) {
  using namespace sched;
  std::vector<Scenario> all;
  for (const auto& part : {time_scenarios(), keyed_notifier_scenarios(), resync_scenarios()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return program(argc, argv, all);
}
