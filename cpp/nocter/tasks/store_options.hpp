// What a store is opened with.
#pragma once

#include <cstdint>
#include <memory>

#include "nocter/tasks/clock.hpp"
#include "nocter/tasks/model.hpp"
#include "nocter/tasks/random.hpp"

namespace nocter::tasks {

// What a commit waits for where the store lies on a disk.
enum class Durability {
  full,    // the disk: what was answered survives a power cut
  normal,  // the system: it survives the death of any process, and a power cut may undo the last commits as a whole
};

struct StoreOptions {
  Limits limits;
  std::shared_ptr<Clock> clock = std::make_shared<SystemClock>();
  std::shared_ptr<Random> random = std::make_shared<KernelRandom>();
  bool events = false;  // keep a log of what happened to tasks
  Durability durability = Durability::full;
  bool check = false;  // read all that is there before it is worked with, and refuse what is damaged
};

}  // namespace nocter::tasks
