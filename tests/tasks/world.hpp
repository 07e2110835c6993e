// A store, its clock and a node: what every conformance case starts with. Which store is chosen by NOCTER_STORE ("memory:", "sqlite:FOLDER",
// where each world gets a file of its own, "postgresql:", a server of the program's own, emptied for each world). With NOCTER_REOPEN=1 a store that outlives its process is opened anew for every request, so that nothing
// is remembered but what is written down.
#pragma once

#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"
#include "nocter/tasks/task_id.hpp"

namespace tasks_tests {

using boost::unit_test::label;
using namespace nocter::tasks;
using nocter::Status;
using Run = ClaimedTask;

constexpr Millis kStart = 1'700'000'000'000;
constexpr Millis kLease = 15'000;

class World {
 public:
  explicit World(bool events = false, const Limits& limits = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Store& store() { return *store_; }
  SteerableClock& clock() { return *clock_; }
  bool reopens() const { return reopens_; }
  Effects& effects() { return effects_; }  // of the last request
  int64_t node() const { return node_; }
  const std::string& message() const { return message_; }  // of the last request
  Millis now() { return store_->now(); }

  // Every request there is, alone.
  template <class D>
  Status ask(D& demand) {
    if (reopens_) open();
    Request request{std::move(demand), {}};
    Request* batch[] = {&request};
    store_->execute(batch, effects_);
    demand = std::move(std::get<D>(request.demand));
    message_ = request.answer.message;
    if (static_cast<int32_t>(request.answer.status) < 0 && request.answer.status != Status::memory)
      BOOST_CHECK_MESSAGE(!message_.empty(), "a refusal without words");
    return request.answer.status;
  }

  static Submission task(const std::string& type);
  Status submit(Submission submission, TaskId* winner = nullptr);
  TaskId root(const std::string& type);  // submitted, and ok
  TaskId child(const TaskId& parent, const std::string& type);
  TaskId child(const Run& by, const std::string& type);
  Run claim(const std::string& type);  // one, and there is one
  std::vector<Run> claim_up_to(uint32_t most, std::vector<std::string> types = {}, uint64_t number = 0,
                               int64_t node = 0);
  bool idle(const std::string& type = {});  // nothing to claim

  Status done(const Run& run, const std::string& result = {});
  Status fail(const Run& run, const std::string& kind = "Broken", Retry retry = Retry::by_policy, int64_t after = 0);
  Status suspend(const Run& run, const Suspension& suspension);
  Status hand_back(const Run& run);
  Status notify(const TaskId& to, const std::string& payload, const std::string& key = {});
  Status cancel(const TaskId& id);
  Status update(const Run& run, const std::string& state);
  Maintain maintain(const Maintain& maintain = {});  // until it has no more
  Maintain purge(Millis before);

  Record get(const TaskId& id);
  bool exists(const TaskId& id);
  TaskStatus status(const TaskId& id) { return status_of(get(id).row.phase); }
  Counts count();
  std::vector<Event> events(uint64_t after = 0);
  std::vector<Event::Kind> history(const TaskId& id);

  void advance(int64_t by) { clock_->advance(by); }
  int64_t enter(const std::string& name);  // another node
  // The process dies and its store is opened again, where a store outlives it. Another node then, and the old one is known to be dead.
  void restart();

 private:
  void open();

  std::string url_, path_;
  bool reopens_ = false;
  StoreOptions options_;
  std::shared_ptr<SteerableClock> clock_;
  std::unique_ptr<Store> store_;
  Effects effects_;
  std::string message_;
  int64_t node_ = 0;
  uint64_t last_claim_ = 0;
};

Suspension until(const std::vector<TaskId>& ids, uint32_t need = 0, bool wake_on_failure = false, Millis wake_at = 0);
Suspension until_children(uint32_t need = 0, bool wake_on_failure = false, Millis wake_at = 0);
Suspension until_notified(Millis wake_at = 0);

std::vector<std::string> payloads(const Run& run);  // of the messages that it was handed

}  // namespace tasks_tests

namespace nocter {
inline std::ostream& operator<<(std::ostream& out, Status status) { return out << static_cast<int>(status); }
}  // namespace nocter
namespace nocter::tasks {
inline std::ostream& operator<<(std::ostream& out, TaskStatus status) {
  constexpr const char* kNames[] = {"?", "QUEUED", "RUNNING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED"};
  return out << kNames[static_cast<int>(status)];
}
inline std::ostream& operator<<(std::ostream& out, Wake wake) { return out << static_cast<int>(wake); }
inline std::ostream& operator<<(std::ostream& out, Event::Kind kind) { return out << static_cast<int>(kind); }
inline std::ostream& operator<<(std::ostream& out, const TaskId& id) { return out << to_text(id); }
}  // namespace nocter::tasks
