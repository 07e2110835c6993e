// What the scenarios of durable tasks share: an open store in memory whose time stands still until somebody moves it, and the keeper as one
// more of the threads where a scenario wants it. Without a keeper nothing looks after those who wait, so a wake that is lost is a deadlock.
#pragma once

#include <memory>
#include <vector>

#include "nocter/tasks/engine.hpp"
#include "nocter/tasks/keeper.hpp"
#include "sched/explorer.hpp"

namespace sched {

namespace tasks = nocter::tasks;
using nocter::Status;

inline constexpr int64_t kLeaseMs = 60'000;

class Durable {
 public:
  explicit Durable(bool events = false);
  ~Durable();
  Durable(const Durable&) = delete;
  Durable& operator=(const Durable&) = delete;

  // A task has the number by which the scenario calls it.
  static tasks::TaskId id_of(int number);
  Status submit(const std::vector<int>& numbers, const char* type = "a", int parent = 0);
  void accepted(int number, const char* type = "a", int parent = 0);
  // A task that has been claimed already.
  tasks::Run* running(int number, const char* type = "a", int parent = 0);
  // Null when there was none, and what was said instead.
  tasks::Run* claim(const char* type, const nocter::base::Wait* wait, Status& said);
  tasks::Run* claimed(const char* type = "a");  // waits for it
  Status end(tasks::Run* run, tasks::Settle settle);
  Status done(tasks::Run* run);
  Status suspend(tasks::Run* run, tasks::Until until, int64_t wake_at = 0);
  Status notify(int number);
  Status cancel(int number);
  tasks::Record record(int number);
  bool in(int number, tasks::Phase phase) { return record(number).row.phase == phase; }

  // Adds a thread, and the keeper beside them: it stops once all these have ended.
  void thread(Play& play, const char* name, std::function<void()> body);
  void keeper(Play& play);
  // The threads of many scenarios: one that ends a run, and what it was told; one that suspends it; one that moves the time; one that closes.
  std::shared_ptr<Status> worker(Play& play, tasks::Run* run);
  void sleeper(Play& play, tasks::Run* run, tasks::Until until);
  void mover(Play& play, int64_t ms);
  void closer(Play& play, const char* name = "closer");
  // Closes it if nobody has; nothing of it may be left.
  void settle();

  const std::shared_ptr<tasks::SteerableClock> clock;
  std::shared_ptr<tasks::Engine> engine;

 private:
  std::unique_ptr<tasks::Keeper> keeper_;
  nocter::base::Interrupt stop_;
  int bodies_ = 0;
};

inline void is(Status found, Status wanted, const char* what) {
  require_equal(static_cast<int>(found), static_cast<int>(wanted), what);
}

// Looks after those who wait with a look of their own now and then: once the thread that makes the news has ended, the other must not sleep.
void require_heard(Play& play, const char* teller, const char* hearer, const char* what);

inline std::shared_ptr<Durable> durable(bool events = false) { return std::make_shared<Durable>(events); }

std::vector<Scenario> lane_scenarios();
std::vector<Scenario> tasks_wait_scenarios();
std::vector<Scenario> outcome_scenarios();
std::vector<Scenario> tasks_close_scenarios();
std::vector<Scenario> lease_scenarios();

}  // namespace sched
