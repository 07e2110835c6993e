// What readers get of the model, and what must hold of it at any time.
#include "model/model.hpp"

#include <algorithm>
#include <sstream>

#include "nocter/tasks/task_id.hpp"

namespace tasks_model {

using namespace nocter::tasks;

std::vector<TaskId> Model::drawn() const {
  std::vector<TaskId> found;
  for (const auto& [number, task] : state_.tasks)
    if (task.drawn) found.push_back(task.id);
  return found;
}

bool Model::adopt(const TaskId& id, Phase phase, Millis due_at) {
  Task& task = *look_up(id);
  task.drawn = false;
  if (phase == Phase::ready) {  // no delay at all was drawn, so it need not wait in the other place
    task.phase = Phase::ready;
    task.due_at = kNever;
    return task.due_from <= now_;
  }
  task.due_at = due_at;
  return phase == Phase::delayed && due_at >= task.due_from && due_at <= task.due_to;
}

Answer Model::get(const TaskId& id, Record& out) const {
  const Task* task = find(id);
  if (task == nullptr) return {Status::unknown, {}};
  out = {};
  TaskRow& row = out.row;
  row.number = task->number;
  row.id = task->id;
  row.root = task->root;
  row.parent = task->parent;
  row.priority = task->priority;
  row.phase = task->phase;
  row.woken_by = task->woken_by;
  row.resumed = task->resumed;
  row.cancel_requested = task->cancel_requested;
  row.key_scope = task->key_scope;
  row.has_key = !task->key.empty();
  row.attempt = task->attempt;
  row.failures = task->failures;
  row.max_attempts = task->max_attempts;
  row.deliveries = task->deliveries;
  row.rescues = task->rescues;
  row.fence = task->fence;
  row.created_at = task->created_at;
  row.due_at = task->due_at;
  row.started_at = task->started_at;
  row.ended_at = task->ended_at;
  row.until = task->until;
  row.wake_on_failure = task->wake_on_failure;
  row.need = task->need;
  for (const Number number : children_of(task->number, false)) {
    const Phase phase = state_.tasks.at(number).phase;
    row.children++;
    row.open_children += ended(phase) ? 0 : 1;
    row.failed_children += ended(phase) && phase != Phase::completed ? 1 : 0;
  }
  for (const Message& message : task->mailbox) row.mail_bytes += static_cast<int64_t>(message.payload.size());
  row.mail = static_cast<int64_t>(task->mailbox.size());
  if (task->parent == 0) {
    Millis last = 0;
    for (const auto& [number, member] : state_.tasks) {
      if (member.root != task->number) continue;
      row.tree_open += ended(member.phase) ? 0 : 1;
      last = std::max(last, member.ended_at);
    }
    if (row.tree_open == 0) row.tree_ended_at = last;
  }
  out.root = state_.tasks.at(task->root).id;
  if (task->parent != 0) out.parent = state_.tasks.at(task->parent).id;
  out.type = task->type;
  out.texts = {task->payload, task->key, task->state, task->result, task->failure};
  if (const auto node = state_.nodes.find(task->node); node != state_.nodes.end() && task->phase == Phase::running) {
    out.node = task->node_name;
    out.lease_until = node->second.expires_at;
  }
  for (const Number number : waiting_for(*task)) out.waiting_for.push_back(state_.tasks.at(number).id);
  std::sort(out.waiting_for.begin(), out.waiting_for.end());
  out.waiting_open = static_cast<int64_t>(out.waiting_for.size());
  row.open = static_cast<int64_t>(task->waiting.size());
  return {};
}

std::vector<TaskId> Model::list(const Filter& filter) const {
  std::vector<TaskId> found;
  for (const auto& [id, number] : state_.by_id) {
    const Task& task = state_.tasks.at(number);
    const auto is_other = [this](const TaskId& wanted, Number is) {
      return !wanted.none() && (is == 0 || state_.tasks.at(is).id != wanted);
    };
    if (!filter.type.empty() && task.type != filter.type) continue;
    if (filter.status && status_of(task.phase) != *filter.status) continue;
    if (is_other(filter.parent, task.parent) || is_other(filter.root, task.root)) continue;
    if (filter.roots_only && task.parent != 0) continue;
    if (task.created_at >= filter.created_before) continue;
    if (!filter.after.none() && id <= filter.after) continue;
    if (found.size() < filter.most) found.push_back(id);
  }
  return found;
}

Answer Model::mail(const TaskId& id, std::vector<Message>& out) const {
  const Task* task = find(id);
  out.clear();
  if (task == nullptr) return {Status::unknown, {}};
  for (const Message& message : task->mailbox)
    if (message.bound_fence == 0) out.push_back(message);
  return {};
}

Answer Model::step(const Claimed& by, const std::string& name, std::string& out) const {
  if (!current(by)) return {Status::lease_lost, {}};
  const auto& steps = find(by.id)->steps;
  const auto found = steps.find(name);
  if (found == steps.end()) return {Status::empty, {}};
  out = found->second;
  return {};
}

Counts Model::count() const {
  Counts out;
  for (const auto& [number, task] : state_.tasks) {
    out.tasks++;
    out.by_status[static_cast<int>(status_of(task.phase))]++;
    out.delayed += task.phase == Phase::delayed ? 1 : 0;
    if (task.phase != Phase::ready) continue;
    out.ready++;
    if (out.oldest_ready == 0) out.oldest_ready = task.created_at;
  }
  out.rescues = state_.rescues;
  out.purged = state_.purged;
  return out;
}

Millis Model::next_due() const {
  Millis next = kNever;
  for (const auto& [number, task] : state_.tasks) next = std::min(next, task.due_at);
  return next;
}

// ---- The invariants, by their numbers; the others are seen by comparing a store with the model ----------------------

std::string Model::check() const {
  std::ostringstream wrong;
  std::map<std::pair<std::string, std::string>, Number> live_keys;
  for (const auto& entry : state_.tasks) {
    const Number number = entry.first;
    const auto& task = entry.second;  // no structured binding: clang 14 lets no lambda name one
    const auto claim_that = [&, id = to_text(task.id)](const char* what, bool holds) {
      if (!holds && wrong.tellp() == 0) wrong << what << " does not hold for " << id;
    };
    claim_that("I-01: ended_at is set exactly at the end", ended(task.phase) == (task.ended_at != 0));
    claim_that("I-02: exactly who runs has a token", (task.phase == Phase::running) == (task.token != 0));
    if (task.phase == Phase::suspended) {
      const bool waits = !waiting_for(task).empty() || task.until == Until::notified || task.due_at != kNever;
      claim_that("I-03: who is suspended waits for something", waits);
      claim_that("I-03: who is suspended has no mail", task.mailbox.empty());
      claim_that("I-03: who is suspended has not got what it joins", task.until == Until::notified || task.need > 0);
      claim_that("D-05: nobody waits for itself", [&] {
        for (const Number target : waiting_for(task))
          if (waits_for(target, task.number)) return false;
        return true;
      }());
    }
    for (const Number target : task.waiting)
      claim_that("I-04: an edge is between two that live", !ended(task.phase) && !ended(state_.tasks.at(target).phase));
    claim_that("I-07: below a cancel all ends", [&] {
      return task.parent == 0 || ended(task.phase) || task.cancel_requested ||
             !under_cancelled(state_.tasks.at(task.parent));
    }());
    claim_that("I-08: no more failed tries than allowed", task.failures <= task.max_attempts);
    claim_that("I-08: no more lost workers than allowed",
               task.cancel_requested || task.rescues <= limits_.max_rescues + 1);
    claim_that("I-09: its id is its own", state_.by_id.at(task.id) == number);
    if (!task.key.empty() && task.key_scope == KeyScope::live_type && !ended(task.phase))
      claim_that("I-09: one live task a key", live_keys.emplace(std::pair(task.type, task.key), number).second);
    claim_that("D-02: attempt and deliveries", task.attempt <= task.deliveries);
    claim_that("TSK-03: resumed", task.resumed || task.until == Until::nothing);
    int64_t bytes = 0;
    for (const Message& message : task.mailbox) {
      bytes += static_cast<int64_t>(message.payload.size());
      claim_that("I-06: mail is bound to the claim of its task only",
                 message.bound_fence == 0 || (task.phase == Phase::running && message.bound_fence == task.fence));
    }
    claim_that("TSK-30: the mailbox is bounded",
               static_cast<int64_t>(task.mailbox.size()) <= limits_.mailbox && bytes <= limits_.mailbox_bytes);
    claim_that("TSK-30: children are bounded",
               static_cast<int64_t>(children_of(number, false).size()) <= limits_.children);
  }
  uint64_t last = state_.events.empty() ? 0 : state_.events.front().sequence - 1;
  for (const Event& event : state_.events) {
    if (event.sequence != ++last && wrong.tellp() == 0) wrong << "I-13: a gap in the events at " << last;
  }
  return wrong.str();
}

}  // namespace tasks_model
