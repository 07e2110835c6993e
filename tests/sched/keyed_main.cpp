#include "sched/keyed_world.hpp"
#include "sched/program.hpp"

int main(int argc, char** argv) {
  using namespace sched;
  std::vector<Scenario> all;
  for (const auto& part : {races_on_one_key(), claim_scenarios(), close_scenarios()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return program(argc, argv, all);
}
