// Suspending: what a task would wait for, whether that can ever end, and whether there is anything left to wait for.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

struct Ledger::Targets {
  int64_t named = 0;         // different ones
  std::vector<Number> open;  // of tasks, those that have not ended
  bool failed = false;       // one has ended badly already
};

Answer Ledger::look_up(const TaskRow& row, const Suspension& suspension, Targets& targets) {
  if (suspension.until == Until::children) {
    targets.named = row.open_children;
    targets.failed = row.failed_children > row.failed_children_seen;
    return {};
  }
  if (suspension.until != Until::tasks) return {};
  std::vector<TaskId> ids = suspension.ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (static_cast<int64_t>(ids.size()) > limits_.children)
    return refuse(Status::limit, "more than " + std::to_string(limits_.children) + " tasks to wait for");
  for (const TaskId& id : ids) {
    const TaskRow* target = find(id);
    if (target == nullptr) return refuse(Status::unknown, "there is no task " + to_text(id) + " to wait for");
    if (target->number == row.number) return refuse(Status::state, "task " + to_text(id) + " would wait for itself");
    if (!ended(target->phase)) {
      targets.open.push_back(target->number);
    } else if (target->phase != Phase::completed) {
      targets.failed = true;
    }
  }
  targets.named = static_cast<int64_t>(ids.size());
  std::sort(targets.open.begin(), targets.open.end());
  return {};
}

// Who is suspended and waits for this one. Who is queued or runs waits for nobody, though a join may be left from its last suspend.
void Ledger::waiters_that_sleep(const TaskRow& row, std::vector<Number>& out) {
  out.clear();
  tables_.waiters_of(row.number, out);
  std::erase_if(out, [this](Number number) {
    const TaskRow* waiter = load(number);
    return waiter == nullptr || waiter->phase != Phase::suspended;
  });
  const TaskRow* parent = row.parent == 0 ? nullptr : load(row.parent);
  if (parent != nullptr && parent->phase == Phase::suspended && parent->until == Until::children)
    out.push_back(parent->number);
}

// Backwards, from those who wait for this task: they are few where its targets may be a million children.
Answer Ledger::find_cycle(const TaskRow& row, const Suspension& suspension, const Targets& targets) {
  const auto is_target = [&](const TaskRow& other) {
    return suspension.until == Until::children
               ? other.parent == row.number
               : std::binary_search(targets.open.begin(), targets.open.end(), other.number);
  };
  if (suspension.until == Until::notified) return {};
  std::unordered_map<Number, Number> waits_for;  // the way back
  std::vector<Number> next = {row.number}, waiters;
  for (int64_t walked = 0; !next.empty() && walked < limits_.cycle_walk;) {
    const Number number = next.back();
    next.pop_back();
    waiters_that_sleep(*load(number), waiters);
    walked += 1 + static_cast<int64_t>(waiters.size());
    for (const Number waiter : waiters) {
      if (!waits_for.emplace(waiter, number).second) continue;
      if (!is_target(*load(waiter))) {
        next.push_back(waiter);
        continue;
      }
      std::string circle = to_text(row.id);
      for (Number at = waiter; at != row.number; at = waits_for.at(at)) circle += " for " + to_text(load(at)->id);
      return refuse(Status::state, "it would wait in a circle: " + circle + " for " + to_text(row.id));
    }
  }
  return {};
}

Answer Ledger::suspend(TaskRow& row, const Suspension& suspension) {
  if (suspension.until != Until::tasks && suspension.until != Until::children && suspension.until != Until::notified)
    return refuse(Status::argument, "a suspend until what?");
  Targets targets;
  if (Answer refused = look_up(row, suspension, targets); refused.status != Status::ok) return refused;
  if (Answer refused = find_cycle(row, suspension, targets); refused.status != Status::ok) return refused;

  // From here on it is written: the round has come to its end, whether the task parks or not.
  remove_bound(row);
  touch(row);
  row.resumed = true;
  if (!base::planted("suspend_keeps_attempt")) row.attempt = 0;
  row.failures = 0;
  if (row.open != 0) change().remove_edges_from(row.number);
  row.until = suspension.until;
  row.wake_on_failure = suspension.wake_on_failure && suspension.until != Until::notified;
  row.need_all = suspension.until == Until::children && suspension.need == 0;
  const int64_t wanted = suspension.need == 0 || base::planted("any_wants_all")
                             ? targets.named
                             : std::min<int64_t>(suspension.need, targets.named);
  row.open = 0;
  row.need = 0;
  bool joined = false;
  if (suspension.until == Until::tasks) {
    row.open = static_cast<int64_t>(targets.open.size());
    row.need = wanted - (targets.named - row.open);
    joined = row.need <= 0;
    for (const Number target : targets.open) change().add_edge(row.number, target);
  } else if (suspension.until == Until::children) {
    row.need = wanted;
    joined = targets.named == 0;
  }

  if (row.mail != 0 && !base::planted("park_forgets_mail")) {
    make_ready(row, Move::go_on, Wake::message);
  } else if (row.wake_on_failure && targets.failed) {
    make_ready(row, Move::go_on, Wake::failure);
  } else if (joined) {
    make_ready(row, Move::go_on, Wake::join);
  } else if (suspension.wake_at != 0 && suspension.wake_at <= now_) {
    make_ready(row, Move::go_on, Wake::timer);
  } else {
    move(row, Move::park, Phase::suspended);
    row.due_at = suspension.wake_at == 0 ? kNever : suspension.wake_at;
    event(row, Event::Kind::suspended);
    return {};
  }
  event(row, Event::Kind::woken);
  return {};
}

}  // namespace nocter::tasks
