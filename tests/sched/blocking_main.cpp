#include "sched/blocking_scenarios.hpp"
#include "sched/program.hpp"

int main(int argc, char** argv) {
  std::vector<sched::Scenario> all;
  for (const auto& part : {sched::races_on_one_job(), sched::capacity_scenarios(), sched::wait_scenarios(),
                           sched::shutdown_scenarios(), sched::notifier_scenarios(), sched::batch_scenarios()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return sched::program(argc, argv, all);
}
