// Draws operations that fit what the world looks like at the moment: mostly of what lives, now and then of what has ended, is stale or never was.
#pragma once

#include <random>
#include <vector>

#include "model/ops.hpp"
#include "model/world.hpp"

namespace tasks_model {

class Generator {
 public:
  Generator(uint64_t seed, const World& world) : random_(seed), world_(world) {}
  Op next();

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  bool chance(uint64_t percent) { return below(100) < percent; }
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(below(static_cast<uint64_t>(most - least + 1)));
  }

  Kind kind();
  Ref any_task();
  Ref live_task();
  Ref run();
  Ref node();
  Op make(Kind kind);
  void fill(Op& op);
  void fill_submit(Op& op);
  void fill_suspend(Op& op);
  void stage(Op& op);

  std::mt19937_64 random_;
  const World& world_;
  uint32_t label_ = 1;
};

}  // namespace tasks_model
