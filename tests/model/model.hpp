// Durable tasks as one thread would keep them in plain maps: written from what is promised (tests/PROMISES.md, TSK and SHR), not from how the
// stores are built. It reads no clock and draws nothing: the caller says what time it is, and what the store has drawn for a retry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nocter/tasks/model.hpp"
#include "nocter/tasks/store.hpp"

namespace tasks_model {

using nocter::Status;
using nocter::tasks::Answer;
using nocter::tasks::Claimed;
using nocter::tasks::Demand;
using nocter::tasks::Event;
using nocter::tasks::KeyScope;
using nocter::tasks::Limits;
using nocter::tasks::Message;
using nocter::tasks::Millis;
using nocter::tasks::Move;
using nocter::tasks::Number;
using nocter::tasks::Phase;
using nocter::tasks::Record;
using nocter::tasks::TaskId;
using nocter::tasks::Until;
using nocter::tasks::Wake;
inline constexpr Millis kNever = nocter::tasks::kNever;

// Rules that are broken on purpose, to see that whoever compares a store with the model would notice.
enum class Broken : uint8_t {
  none,
  suspend_keeps_attempt,     // a suspend does not begin a new round of tries
  failed_round_keeps_mail,   // a message is lost with the round that failed
  wake_forgets_remainder,    // a message makes a task forget whom it waits for
  cancel_stops_at_ended,     // a cancel does not go down through what has ended
  key_outlives_its_task,     // one live task of a type and key, and then never one again
  child_is_not_raised,       // a child has the priority it was given
  any_wants_all,             // one of several is not enough
  late_child_is_not_waited,  // a child that comes while its parent is parked does not count
  rescue_is_a_failure,       // a lost worker uses up a try
  lock_fence_stands_still,   // the next holder has the fence of the last
  zombie_writes_state,       // an old claim may still write
  first_wins_nothing,        // put_if_absent overwrites
  delayed_wakes_by_message,  // a message makes a delayed task due
  youngest_first,            // of equal priority the youngest is claimed
};
inline constexpr Broken kBroken[] = {Broken::suspend_keeps_attempt,
                                     Broken::failed_round_keeps_mail,
                                     Broken::wake_forgets_remainder,
                                     Broken::cancel_stops_at_ended,
                                     Broken::key_outlives_its_task,
                                     Broken::child_is_not_raised,
                                     Broken::any_wants_all,
                                     Broken::late_child_is_not_waited,
                                     Broken::rescue_is_a_failure,
                                     Broken::lock_fence_stands_still,
                                     Broken::zombie_writes_state,
                                     Broken::first_wins_nothing,
                                     Broken::delayed_wakes_by_message,
                                     Broken::youngest_first};

struct Task {
  Number number = 0, root = 0, parent = 0;
  TaskId id;
  std::string type, payload, key, state, result;
  KeyScope key_scope = KeyScope::live_type;
  int32_t priority = 0;
  Phase phase = Phase::ready;
  Wake woken_by = Wake::first;
  bool resumed = false, cancel_requested = false;
  uint32_t attempt = 0, failures = 0, max_attempts = 1, deliveries = 0, rescues = 0;
  uint64_t fence = 0, token = 0, settled_token = 0;
  Status settled_status = Status::ok;
  int64_t node = 0;
  std::string node_name;
  Millis created_at = 0, due_at = kNever, started_at = 0, ended_at = 0;
  nocter::tasks::Failure failure;

  Until until = Until::nothing;
  bool wake_on_failure = false;
  bool joins_all = false;    // a join on children that wants all of them, and those that come later
  int64_t need = 0;          // ends that the join still wants
  std::set<Number> waiting;  // open ones of a join on tasks
  int64_t failed_seen = 0;   // children that had ended badly when it was claimed

  std::vector<Message> mailbox;
  std::set<std::string> message_keys;  // of all messages that it was ever sent
  std::map<std::string, std::string> steps;

  bool drawn = false;  // due_at is not known, only its bounds are
  Millis due_from = 0, due_to = 0;
};

struct Node {
  std::string name;
  Millis expires_at = 0;
  bool dead = false;
};
struct Lock {
  uint64_t fence = 0, token = 0;
  Millis expires_at = 0;
};

class Model {
 public:
  Model(const Limits& limits, bool events, Broken broken = Broken::none)
      : limits_(limits), events_(events), broken_(broken) {}

  // One request at that time, all of it or nothing. Its answers are put where a store puts them.
  Answer apply(Demand& demand, Millis clock);
  // What the last request changed. ready: by type.
  const std::set<TaskId>& ended_now() const { return ended_now_; }
  const std::set<TaskId>& asked_now() const { return asked_now_; }
  const std::set<std::string>& ready_now() const { return ready_now_; }

  // Tasks whose delay the store has drawn. False: it is out of bounds.
  std::vector<TaskId> drawn() const;
  bool adopt(const TaskId& id, Phase phase, Millis due_at);

  Answer get(const TaskId& id, Record& out) const;
  std::vector<TaskId> list(const nocter::tasks::Filter& filter) const;
  Answer mail(const TaskId& id, std::vector<Message>& out) const;
  std::map<std::string, std::map<std::string, std::string>> shared() const { return state_.shared; }
  const std::vector<Event>& events() const { return state_.events; }
  nocter::tasks::Counts count() const;
  Millis now() const { return now_; }
  // Somebody looked at the store's clock: what it has shown once it does not go behind.
  void see(Millis clock) { now_ = std::max(now_, clock); }
  bool current(const Claimed& by) const;
  bool knows(uint64_t claim) const { return state_.claims.count(claim) != 0; }  // it was given something
  Answer step(const Claimed& by, const std::string& name, std::string& out) const;

  const std::map<Number, Task>& tasks() const { return state_.tasks; }
  const std::map<int64_t, Node>& nodes() const { return state_.nodes; }
  const Task* find(const TaskId& id) const;
  Millis next_due() const;

  // The first invariant that does not hold; empty: all do.
  std::string check() const;

 private:
  struct Refusal {
    Status status;
  };
  struct Settled {  // every outcome but one that goes on later
    Task& task;
    Status status;
  };
  struct State {
    std::map<Number, Task> tasks;
    std::map<TaskId, Number> by_id;
    std::map<std::string, std::map<std::string, std::string>> shared;
    std::map<std::string, Lock> locks;
    std::map<int64_t, Node> nodes;
    std::map<uint64_t, std::vector<std::pair<Number, uint64_t>>> claims;  // by the caller's number: task and fence
    std::vector<Event> events;
    Number last_number = 0;
    int64_t last_message = 0, last_node = 0;
    uint64_t last_token = 0, last_event = 0, rescues = 0, purged = 0;
  };

  Status run(nocter::tasks::Submit& submit);
  Status run(nocter::tasks::Notify& notify);
  Status run(nocter::tasks::UpdateState& update);
  Status run(nocter::tasks::StepPut& put);
  Status run(nocter::tasks::SharedPut& put);
  Status run(nocter::tasks::SharedClear& clear);
  Status run(nocter::tasks::Claim& claim);
  Status run(nocter::tasks::Settle& settle);
  Status run(nocter::tasks::Cancel& cancel);
  Status run(nocter::tasks::Hurry& hurry);
  Status run(nocter::tasks::LockAcquire& acquire);
  Status run(nocter::tasks::LockRenew& renew);
  Status run(nocter::tasks::LockRelease& release);
  Status run(nocter::tasks::Register& enter);
  Status run(nocter::tasks::Renew& renew);
  Status run(nocter::tasks::Leave& leave);
  Status run(nocter::tasks::Maintain& maintain);

  bool is(Broken rule) const { return broken_ == rule; }
  Task* look_up(const TaskId& id);
  Task& holder(const Claimed& by);
  bool submit_one(const nocter::tasks::Submission& submission, TaskId& name);
  const Task* key_owner(const nocter::tasks::Submission& submission, const Task* parent) const;
  bool under_cancelled(const Task& task) const;
  std::vector<Number> children_of(Number parent, bool open_only) const;
  std::vector<Number> subtree(Number top) const;
  std::set<Number> waiting_for(const Task& task) const;
  bool waits_for(Number who, Number whom) const;
  void hand(Task& task, nocter::tasks::Claim& claim);
  nocter::tasks::ClaimedTask handed(const Task& task) const;
  void promote();
  Status fail(Task& task, const nocter::tasks::Settle& settle);
  void suspend(Task& task, const nocter::tasks::Suspension& suspension);
  void lose_worker(Task& task);
  void unbind(Task& task);
  void record_failure(Task& task, const nocter::tasks::Failure& failure);
  void move(Task& task, Move move, Phase to);
  void queue(Task& task, Move move, Wake why);
  void end(Task& task, Move move, Phase phase);
  void strike(Task& waiter, Phase how);
  void tell(const Task& task, Event::Kind kind, const std::string& data = {});
  uint64_t purge(Millis before);

  const Limits limits_;
  const bool events_;
  const Broken broken_;
  Millis now_ = 0;
  State state_;
  std::set<TaskId> ended_now_, asked_now_;
  std::set<std::string> ready_now_;
};

}  // namespace tasks_model
