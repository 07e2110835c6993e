// What tasks and processes share: values, locks, and the nodes themselves.
#include <string>

#include "nocter/tasks/ledger.hpp"

namespace nocter::tasks {

Answer Ledger::run(SharedPut& put) {
  put.existing.clear();
  if (put.by.has_value()) {
    Answer lost;
    if (current(*put.by, lost) == nullptr) return lost;
  }
  if (put.scope.empty() || put.key.empty()) return refuse(Status::argument, "a shared value without scope or key");
  if (put.scope.size() > limits_.name) return too_long("the scope", limits_.name);
  if (put.key.size() > limits_.name) return too_long("the key", limits_.name);
  if (put.value.size() > limits_.json) return too_long("the value", limits_.json);
  if (put.if_absent && tables_.find_shared(put.scope, put.key, put.existing)) return {Status::exists, {}};
  change().put_shared(put.scope, put.key, put.value);
  return {};
}

Answer Ledger::run(SharedClear& clear) {
  clear.removed = change().clear_shared(clear.scope);
  return {};
}

// ---- Locks ----------------------------------------------------------------------------------------------------------

Answer Ledger::run(LockAcquire& acquire) {
  if (acquire.name.empty() || acquire.token == 0 || acquire.lease_ms <= 0)
    return refuse(Status::argument, "a lock without a name, an owner or a lease");
  if (acquire.name.size() > limits_.name) return too_long("the lock's name", limits_.name);
  LockRow lock;
  tables_.find_lock(acquire.name, lock);
  const bool held = lock.token != 0 && lock.expires_at > now_;
  if (held && lock.token != acquire.token) {
    acquire.fence = 0;
    acquire.until = lock.expires_at;
    return {Status::held, {}};
  }
  if (!held) {  // else its own request, a second time
    if (!base::planted("lock_fence_stands_still") || lock.fence == 0) lock.fence++;
    lock.token = acquire.token;
    lock.expires_at = now_ + acquire.lease_ms;
    change().put_lock(acquire.name, lock);
  }
  acquire.fence = lock.fence;
  acquire.until = lock.expires_at;
  return {};
}

Answer Ledger::run(LockRenew& renew) {
  if (renew.lease_ms <= 0) return refuse(Status::argument, "a lease of no time");
  LockRow lock;
  if (!tables_.find_lock(renew.name, lock) || lock.token == 0 || lock.token != renew.token ||
      (lock.expires_at <= now_ && !base::planted("lease_that_ended_is_renewed")))
    return refuse(Status::lease_lost, "the lease of lock " + renew.name + " has ended");
  lock.expires_at = renew.until = now_ + renew.lease_ms;
  change().put_lock(renew.name, lock);
  return {};
}

Answer Ledger::run(LockRelease& release) {
  LockRow lock;
  if (!tables_.find_lock(release.name, lock) || lock.token == 0 || lock.token != release.token ||
      lock.expires_at <= now_)
    return refuse(Status::lease_lost, "the lease of lock " + release.name + " has ended");
  lock.token = 0;
  lock.expires_at = 0;
  change().put_lock(release.name, lock);
  released_.push_back(release.name);
  return {};
}

// ---- Nodes ----------------------------------------------------------------------------------------------------------

Answer Ledger::run(Register& node) {
  if (node.lease_ms <= 0) return refuse(Status::argument, "a lease of no time");
  NodeRow row;
  row.name = node.name;
  row.instance = node.instance;
  row.expires_at = now_ + node.lease_ms;
  change().insert_node(row);
  node.node = row.node;
  return {};
}

// Late is not too late, as long as nobody has declared the node dead.
Answer Ledger::run(Renew& renew) {
  renew.cancelled.clear();
  NodeRow row;
  if (!tables_.find_node(renew.node, row) || row.dead)
    return refuse(Status::lease_lost, "the node has been declared dead");
  row.expires_at = now_ + renew.lease_ms;
  change().update_node(row);
  write_back();
  std::vector<TaskRow> running;
  tables_.running_on(renew.node, SIZE_MAX, running);
  for (const TaskRow& task : running)
    if (task.cancel_requested) renew.cancelled.push_back({task.id, task.number, task.fence, task.token});
  return {};
}

// What still runs there, if anything, is rescued like that of a node that died.
Answer Ledger::run(Leave& leave) {
  NodeRow row;
  if (!tables_.find_node(leave.node, row)) return {};
  write_back();
  std::vector<TaskRow> running;
  tables_.running_on(leave.node, 1, running);
  if (running.empty()) {
    change().remove_node(leave.node);
  } else if (!row.dead) {
    row.dead = true;
    change().update_node(row);
  }
  return {};
}

}  // namespace nocter::tasks
