// What changes the phase of a task. Nothing else does, and each move is asked of the one transition table.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

void Ledger::move(TaskRow& row, Move move, Phase to) {
  if (!allowed(move, row.phase, to)) {
    throw std::logic_error("task " + to_text(row.id) + ": move " + std::to_string(static_cast<int>(move)) + " from " +
                           std::to_string(static_cast<int>(row.phase)) + " to " + std::to_string(static_cast<int>(to)));
  }
  row.phase = to;
}

void Ledger::make_ready(TaskRow& row, Move how, Wake why) {
  move(touch(row), how, Phase::ready);
  row.woken_by = why;
  row.due_at = kNever;
  ready(row);
}

void Ledger::wake(TaskRow& row, Wake why) {
  make_ready(row, Move::wake, why);
  event(row, Event::Kind::woken);
}

void Ledger::wake_if_fulfilled(TaskRow& waiter, bool failed) {
  if (waiter.phase != Phase::suspended) return;
  if (waiter.need <= 0) {
    wake(waiter, Wake::join);
  } else if (failed && waiter.wake_on_failure) {
    wake(waiter, Wake::failure);
  }
}

// An end, what it strikes out and whom it wakes: all of it in one transaction, so there is no moment between them (TSK-12).
void Ledger::end(TaskRow& row, Move how, Phase to, std::string data) {
  move(touch(row), how, to);
  after_end(row, std::move(data));
}

void Ledger::after_end(TaskRow& row, std::string data) {
  touch(row);
  row.ended_at = now_;
  row.due_at = kNever;
  row.token = 0;
  event(row, Event::Kind::ended, std::move(data));
  ended_.push_back(row.id);
  if (row.has_key && row.key_scope == KeyScope::live_type && !base::planted("key_outlives_its_task"))
    change().remove_keys_of(row.number);
  if (row.open != 0) {
    change().remove_edges_from(row.number);
    row.open = 0;
  }
  if (!base::planted("end_strikes_nobody")) strike_waiters(row);
  const bool failed = row.phase != Phase::completed;
  if (TaskRow* parent = row.parent == 0 ? nullptr : load(row.parent)) {
    touch(*parent);
    parent->open_children--;
    if (failed) parent->failed_children++;
    if (parent->until == Until::children) {
      parent->need--;
      wake_if_fulfilled(*parent, failed);
    }
  }
  if (TaskRow* root = load(row.root)) {
    touch(*root);
    if (--root->tree_open == 0) root->tree_ended_at = now_;
  }
}

uint64_t Ledger::strike_waiters(const TaskRow& ended) {
  std::vector<Number> waiters;
  tables_.waiters_of(ended.number, waiters);
  if (waiters.empty()) return 0;
  change().remove_edges_to(ended.number);
  std::sort(waiters.begin(), waiters.end());  // every store wakes them in the same order
  for (const Number number : waiters) {
    TaskRow* waiter = load(number);
    if (waiter == nullptr) continue;
    touch(*waiter);
    waiter->open--;
    waiter->need--;
    wake_if_fulfilled(*waiter, ended.phase != Phase::completed);
  }
  return waiters.size();
}

void Ledger::end_cancelled(TaskRow& row) {
  touch(row).cancel_requested = true;
  end(row, Move::cancel, Phase::cancelled, {});
}

// What a round was handed and has not used up is delivered again, in its old place.
void Ledger::unbind(const TaskRow& row) {
  if (row.mail != 0) change().unbind_messages(row.number);
}

void Ledger::remove_bound(TaskRow& row) {
  if (row.mail == 0) return;
  const auto [count, bytes] = change().remove_bound_messages(row.number, row.fence);
  touch(row);
  row.mail -= count;
  row.mail_bytes -= bytes;
}

}  // namespace nocter::tasks
