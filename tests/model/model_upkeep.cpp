// Cancels, locks, processes, upkeep.
#include <algorithm>

#include "model/model.hpp"
#include "nocter/tasks/task_id.hpp"

namespace tasks_model {

using namespace nocter::tasks;

Status Model::run(Cancel& cancel) {
  const Task* top = find(cancel.id);
  cancel.touched = 0;
  cancel.more = false;
  if (top == nullptr) return Status::unknown;
  if (ended(top->phase)) return Status::state;
  std::vector<Number> ending;
  for (const Number number : subtree(top->number)) {
    Task& task = state_.tasks.at(number);
    if (ended(task.phase) || task.cancel_requested) continue;
    cancel.touched++;
    task.cancel_requested = true;
    if (task.phase != Phase::running) {
      ending.push_back(number);
      continue;
    }
    asked_now_.insert(task.id);
    tell(task, Event::Kind::cancel_requested);
  }
  // All of them have ended before any end is told: none of them is woken by another.
  for (const Number number : ending) move(state_.tasks.at(number), Move::cancel, Phase::cancelled);
  for (const Number number : ending) end(state_.tasks.at(number), Move::cancel, Phase::cancelled);
  return Status::ok;
}

Status Model::run(Hurry& hurry) {
  Task* task = look_up(hurry.id);
  if (task == nullptr) return Status::unknown;
  if (ended(task->phase)) return Status::state;
  if (task->phase == Phase::delayed) queue(*task, Move::come_due, task->woken_by);
  return Status::ok;
}

Status Model::run(LockAcquire& acquire) {
  Lock& lock = state_.locks[acquire.name];
  const bool taken = lock.token != 0 && lock.expires_at > now_;
  if (taken && lock.token != acquire.token) {
    acquire.until = lock.expires_at;
    return Status::held;
  }
  if (!taken) {
    if (!is(Broken::lock_fence_stands_still) || lock.fence == 0) lock.fence++;
    lock.expires_at = now_ + acquire.lease_ms;
  }
  lock.token = acquire.token;
  acquire.fence = lock.fence;
  acquire.until = lock.expires_at;
  return Status::ok;
}

Status Model::run(LockRenew& renew) {
  const auto found = state_.locks.find(renew.name);
  if (found == state_.locks.end() || found->second.token != renew.token || found->second.expires_at <= now_)
    return Status::lease_lost;
  found->second.expires_at = renew.until = now_ + renew.lease_ms;
  return Status::ok;
}

Status Model::run(LockRelease& release) {
  const auto found = state_.locks.find(release.name);
  if (found == state_.locks.end() || found->second.token != release.token || found->second.expires_at <= now_)
    return Status::lease_lost;
  found->second.token = 0;
  return Status::ok;
}

Status Model::run(Register& enter) {
  enter.node = ++state_.last_node;
  state_.nodes[enter.node] = {enter.name, now_ + enter.lease_ms, false};
  return Status::ok;
}

Status Model::run(Renew& renew) {
  const auto node = state_.nodes.find(renew.node);
  renew.cancelled.clear();
  if (node == state_.nodes.end() || node->second.dead) return Status::lease_lost;
  node->second.expires_at = now_ + renew.lease_ms;
  for (const auto& [number, task] : state_.tasks)
    if (task.phase == Phase::running && task.node == renew.node && task.cancel_requested)
      renew.cancelled.push_back({task.id, task.number, task.fence, task.token});
  return Status::ok;
}

Status Model::run(Leave& leave) {
  const auto node = state_.nodes.find(leave.node);
  if (node != state_.nodes.end()) node->second.dead = true;
  return Status::ok;
}

void Model::lose_worker(Task& task) {
  state_.rescues++;
  task.rescues++;
  unbind(task);
  if (is(Broken::rescue_is_a_failure)) task.failures++;
  if (task.cancel_requested) return end(task, Move::cancel, Phase::cancelled);
  if (task.rescues > limits_.max_rescues) {
    record_failure(task, {"WorkerLost", {}, {}, 0, {}, 0});
    return end(task, Move::give_up, Phase::failed);
  }
  queue(task, Move::rescue, Wake::rescue);
  tell(task, Event::Kind::rescued);
}

uint64_t Model::purge(Millis before) {
  std::map<Number, Millis> trees;  // when the last member ended
  for (const auto& [number, task] : state_.tasks) {
    Millis& last = trees[task.root];
    last = std::max(last, ended(task.phase) ? task.ended_at : kNever);
  }
  uint64_t gone = 0;
  for (const auto& [root, last] : trees) {
    if (last == kNever || last >= before) continue;
    for (const Number member : subtree(root)) {
      state_.by_id.erase(state_.tasks.at(member).id);
      if (member != root) state_.tasks.erase(member);
      gone++;
    }
    state_.shared.erase(to_text(state_.tasks.at(root).id));
    state_.tasks.erase(root);
  }
  return gone;
}

Status Model::run(Maintain& maintain) {
  promote();
  for (const int64_t node : maintain.dead)
    if (const auto found = state_.nodes.find(node); found != state_.nodes.end()) found->second.dead = true;
  for (auto& [node, about] : state_.nodes) {
    if (!about.dead && about.expires_at > now_) continue;
    about.dead = true;
    for (auto& [number, task] : state_.tasks) {
      if (task.phase != Phase::running || task.node != node) continue;
      maintain.rescued++;
      lose_worker(task);
    }
  }
  if (maintain.purge_before != kNever) maintain.purged = purge(maintain.purge_before);
  state_.purged += maintain.purged;
  if (maintain.events_before != kNever)
    maintain.purged_events +=
        std::erase_if(state_.events, [&](const Event& event) { return event.at < maintain.events_before; });
  maintain.more = false;
  return Status::ok;
}

}  // namespace tasks_model
