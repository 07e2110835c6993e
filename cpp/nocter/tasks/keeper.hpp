// The thread of an open store: it renews the lease of this process, and does the upkeep.
#pragma once

#include <memory>

#include "nocter/base/threads.hpp"

namespace nocter::tasks {

class Engine;

class Keeper final : public base::Work {
 public:
  // Throws std::bad_alloc when the thread cannot be made.
  static void start(const std::shared_ptr<Engine>& engine);
  explicit Keeper(const std::shared_ptr<Engine>& engine) : engine_(engine) {}

  void run(base::Interrupt& stop) override;
  const void* service() const override { return this; }
  void stopping() override;
  void release() override { delete this; }
  base::Atomic<uint64_t>& exceptions() override { return exceptions_; }

 private:
  // When what is to be done next, on now_ns()'s clock.
  int64_t tend();
  void renew(int64_t& next);
  void maintain(int64_t& next);
  void watch_others(int64_t& next);

  const std::shared_ptr<Engine> engine_;
  base::Atomic<uint64_t> exceptions_;
  int64_t maintain_at_ = 0, sweep_at_ = 0, look_for_dead_at_ = 0;
  int64_t lively_since_ = 0;  // when others were last seen to do something, or somebody began to wait
  uint64_t changes_ = 0;
  bool waited_ = false;
};

}  // namespace nocter::tasks
