// All the rules of durable tasks, once, over Tables: executes the requests of a batch in one transaction.
//
//   ledger.cpp           the batch: transaction, rows at hand, answers of what went wrong
//   ledger_moves.cpp     what changes a task's phase: its end and the strikes and wakes that follow from it
//   ledger_submit.cpp    submissions, messages
//   ledger_claim.cpp     claims, what has come due
//   ledger_settle.cpp    outcomes of rounds, and what a run writes
//   ledger_suspend.cpp   the conditions of a suspend, and cycles of them
//   ledger_cancel.cpp    cancels, and their way down big trees
//   ledger_shared.cpp    shared values, locks, nodes
//   ledger_maintain.cpp  rescue, repair, purge
//
// A request decides first and writes then, so that one which is refused has changed nothing; what consists of several is set back to a mark.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::tasks {

class Ledger {
 public:
  Ledger(Tables& tables, const StoreOptions& options);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // One call at a time. Never throws: what went wrong stands in the answers.
  void execute(std::span<Request* const> batch, Effects& effects);

  // The store's time: never earlier than it ever was, whatever the clock does. Any thread.
  Millis now();

 private:
  // A row that somebody looked at in this transaction. Written back when it has changed and an index must be right, or at the end: a parent
  // whose fifty children end in one batch is written once.
  struct RowAtHand {
    TaskRow row;
    bool changed = false;
  };
  using ClaimName = std::pair<int64_t, uint64_t>;  // node and number
  struct Mark {
    size_t ready, ended, cancelled, released;
    bool events;
  };

  // ---- ledger.cpp
  void execute_together(std::span<Request* const> batch);
  void look_at_stored_clock();
  void execute_one(Request& request);
  void commit(Effects& effects);
  void forget();  // what the transaction at hand has found and done
  void set_mark();
  void keep_mark();  // what was done since then stands
  void back_to_mark();
  Tables& change() {
    changed_ = true;
    return tables_;
  }
  // Rows. Pointers and references are good until back_to_mark().
  TaskRow* find(const TaskId& id);
  TaskRow* load(Number number);
  TaskRow& at_hand(const TaskRow& row);  // of a look-up by index, after write_back()
  TaskRow& touch(TaskRow& row);          // it is about to change
  void write_back();
  std::string type_name(int32_t type);
  void event(const TaskRow& row, Event::Kind kind, std::string data = {});
  void ready(const TaskRow& row) { ready_.push_back(row.type); }
  static Answer refuse(Status status, std::string message) { return {status, std::move(message)}; }
  static Answer too_long(const char* what, size_t bound);
  // The claim that a run shows: its row, or null and the answer. An outcome's repeat is no matter of this one.
  TaskRow* current(const Claimed& by, Answer& answer);
  // Whether a cancel that has not yet reached all of its tree is on its way to this task.
  bool below_a_cancel(const TaskRow& row);
  bool to_be_cancelled(const TaskRow& row) { return row.cancel_requested || below_a_cancel(row); }

  // ---- ledger_moves.cpp
  static void move(TaskRow& row, Move move, Phase to);
  void end(TaskRow& row, Move move, Phase to, std::string data);
  void end_cancelled(TaskRow& row);
  void make_ready(TaskRow& row, Move move, Wake why);
  void wake(TaskRow& row, Wake why);
  void after_end(TaskRow& row, std::string data);
  uint64_t strike_waiters(const TaskRow& ended);
  void wake_if_fulfilled(TaskRow& waiter, bool failed);
  void unbind(const TaskRow& row);
  void remove_bound(TaskRow& row);

  // ---- Requests: each gives its answer
  Answer run(Submit& submit);
  Answer run(Notify& notify);
  Answer run(UpdateState& update);
  Answer run(StepPut& put);
  Answer run(SharedPut& put);
  Answer run(SharedClear& clear);
  Answer run(Claim& claim);
  Answer run(Settle& settle);
  Answer run(Cancel& cancel);
  Answer run(Hurry& hurry);
  Answer run(LockAcquire& acquire);
  Answer run(LockRenew& renew);
  Answer run(LockRelease& release);
  Answer run(Register& node);
  Answer run(Renew& renew);
  Answer run(Leave& leave);
  Answer run(Maintain& maintain);

  Answer submit_one(const Submission& submission, const TaskId& parent, TaskId& id);
  Answer check_submission(const Submission& submission) const;
  Answer same_again(const Submission& submission, const TaskId& parent, const TaskRow& there);

  uint64_t promote(size_t most);  // what has come due
  void remember_claims();
  void candidates(const Claim& claim, size_t most, std::vector<TaskRow>& out);
  void hand_over(TaskRow& row, const Claim& claim);
  void describe(const TaskRow& row, const NodeRow& node, ClaimedTask& out);

  Answer settle_staged(Number number, Settle& settle);
  Answer settle_as_it_is(TaskRow& row, Settle& settle);
  void finish(TaskRow& row, const Settle& settle);
  void fail(TaskRow& row, const Settle& settle);
  Answer suspend(TaskRow& row, const Suspension& suspension);
  void hand_back(TaskRow& row);
  void settle_cancelled(TaskRow& row, const Settle& settle);
  Failure put_failure(const TaskRow& row, const Failure& failure);

  struct Targets;  // what a suspend waits for, looked up
  Answer look_up(const TaskRow& row, const Suspension& suspension, Targets& targets);
  Answer find_cycle(const TaskRow& row, const Suspension& suspension, const Targets& targets);
  void waiters_that_sleep(const TaskRow& row, std::vector<Number>& out);

  bool below_a_cancelled(const TaskRow& row);

  void maintain_nodes(Maintain& maintain);
  void rescue(TaskRow& row, const NodeRow& node);
  class Telling;  // of a cancel, down a tree
  void maintain_cascades(Maintain& maintain);
  uint64_t repair();
  bool repair_edges(Number waiter, uint64_t& repaired);
  uint64_t search(const TaskId& from, TaskId& to);
  uint64_t purge(Millis before, bool& more);
  void add_to_counter(const char* name, uint64_t count);

  Tables& tables_;
  const Limits limits_;
  const std::shared_ptr<Clock> clock_;
  const std::shared_ptr<Random> random_;
  const bool events_;
  base::Atomic<int64_t> latest_;  // the latest time there was
  Millis stored_latest_ = 0;      // the one that the tables know

  // The transaction at hand
  Millis now_ = 0;
  bool changed_ = false;
  bool marked_ = false;
  Mark mark_{};
  std::unordered_map<Number, RowAtHand> rows_;
  std::vector<Number> changed_rows_;
  std::vector<int32_t> ready_;
  std::vector<TaskId> ended_;
  std::vector<Claimed> cancelled_;
  std::vector<std::string> released_;
  bool new_events_ = false;
  bool cascades_pending_ = false;
  std::vector<ClaimName> claims_made_;

  // Outlive transactions: names do not change, and a claim that comes again late must not be taken for another.
  std::unordered_map<int32_t, std::string> type_names_;
  std::deque<ClaimName> latest_claims_;
  std::set<ClaimName> known_claims_;
};

}  // namespace nocter::tasks
