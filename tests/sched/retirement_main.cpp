#include "sched/program.hpp"
#include "sched/retirement_world.hpp"

int main(int argc, char** argv) {
  std::vector<sched::Scenario> all;
  for (const auto& part : {sched::retirement_races(), sched::retirement_waits(), sched::retirement_ends()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return sched::program(argc, argv, all);
}
