#include "model/model.hpp"

#include <algorithm>
#include <limits>

namespace tasks_model {

using namespace nocter::tasks;

Answer Model::apply(Demand& demand, Millis clock) {
  see(clock);
  ended_now_.clear();
  asked_now_.clear();
  ready_now_.clear();
  const bool divisible = std::holds_alternative<Submit>(demand) || std::holds_alternative<Settle>(demand);
  std::optional<State> before;
  if (divisible) before = state_;
  try {
    return {std::visit([this](auto& request) { return run(request); }, demand), {}};
  } catch (const Refusal& refusal) {
    if (before) state_ = std::move(*before);
    ended_now_.clear();
    asked_now_.clear();
    ready_now_.clear();
    return {refusal.status, {}};
  }
}

// ---- Finding --------------------------------------------------------------------------------------------------------

const Task* Model::find(const TaskId& id) const {
  const auto found = state_.by_id.find(id);
  return found == state_.by_id.end() ? nullptr : &state_.tasks.at(found->second);
}
Task* Model::look_up(const TaskId& id) { return const_cast<Task*>(find(id)); }

bool Model::current(const Claimed& by) const {
  const Task* task = find(by.id);
  return task != nullptr && task->phase == Phase::running && task->fence == by.fence && task->token == by.token;
}

Task& Model::holder(const Claimed& by) {
  if (!current(by)) throw Refusal{Status::lease_lost};
  return *look_up(by.id);
}

std::vector<Number> Model::children_of(Number parent, bool open_only) const {
  std::vector<Number> found;
  for (const auto& [number, task] : state_.tasks)
    if (task.parent == parent && (!open_only || !ended(task.phase))) found.push_back(number);
  return found;
}

std::vector<Number> Model::subtree(Number top) const {
  std::vector<Number> found = {top};
  for (size_t at = 0; at < found.size(); at++) {
    if (is(Broken::cancel_stops_at_ended) && ended(state_.tasks.at(found[at]).phase)) continue;
    for (const Number child : children_of(found[at], false)) found.push_back(child);
  }
  return found;
}

bool Model::under_cancelled(const Task& task) const {
  for (const Task* at = &task;; at = &state_.tasks.at(at->parent)) {
    if (at->phase == Phase::cancelled || at->cancel_requested) return true;
    if (at->parent == 0) return false;
  }
}

std::set<Number> Model::waiting_for(const Task& task) const {
  if (ended(task.phase)) return {};
  if (task.until != Until::children) return task.waiting;
  const std::vector<Number> open = children_of(task.number, true);
  return {open.begin(), open.end()};
}

// Over whatever is suspended: who runs, or is about to, waits for nobody.
bool Model::waits_for(Number who, Number whom) const {
  std::set<Number> seen;
  std::vector<Number> next = {who};
  while (!next.empty()) {
    const Number number = next.back();
    next.pop_back();
    if (number == whom) return true;
    const Task& task = state_.tasks.at(number);
    if (task.phase != Phase::suspended || !seen.insert(number).second) continue;
    for (const Number target : waiting_for(task)) next.push_back(target);
  }
  return false;
}

// ---- Moving ---------------------------------------------------------------------------------------------------------

void Model::tell(const Task& task, Event::Kind kind, const std::string& data) {
  state_.last_event++;
  state_.events.push_back(
      {state_.last_event, now_, task.id, kind, status_of(task.phase), task.attempt, task.type, data});
}

void Model::move(Task& task, Move move, Phase to) {
  if (!allowed(move, task.phase, to)) throw Refusal{Status::internal};
  task.phase = to;
  if (to != Phase::delayed && to != Phase::suspended) task.due_at = kNever;
  if (to != Phase::running) task.token = 0;
  if (to == Phase::ready) ready_now_.insert(task.type);
}

void Model::queue(Task& task, Move how, Wake why) {
  move(task, how, Phase::ready);
  task.woken_by = why;
}

void Model::strike(Task& waiter, Phase how) {
  waiter.need--;
  if (waiter.phase != Phase::suspended) return;
  const bool badly = waiter.wake_on_failure && how != Phase::completed;
  if (waiter.need > 0 && !badly) return;
  queue(waiter, Move::wake, waiter.need <= 0 ? Wake::join : Wake::failure);
  tell(waiter, Event::Kind::woken);
}

void Model::end(Task& task, Move how, Phase phase) {
  if (task.phase != phase) move(task, how, phase);
  task.ended_at = now_;
  task.waiting.clear();
  ended_now_.insert(task.id);
  tell(task, Event::Kind::ended, phase == Phase::completed ? task.result : std::string());
  for (auto& [number, other] : state_.tasks)
    if (other.waiting.erase(task.number) != 0) strike(other, phase);
  if (task.parent == 0) return;
  Task& parent = state_.tasks.at(task.parent);
  if (parent.until == Until::children && !ended(parent.phase)) strike(parent, phase);
}

void Model::unbind(Task& task) {
  for (Message& message : task.mailbox) message.bound_fence = 0;
}

void Model::record_failure(Task& task, const Failure& failure) {
  task.failure = failure;
  task.failure.attempt = task.attempt;
  task.failure.node = task.node_name;
  task.failure.at = now_;
}

// ---- Submitting and writing -----------------------------------------------------------------------------------------

const Task* Model::key_owner(const Submission& submission, const Task* parent) const {
  for (const auto& [number, task] : state_.tasks) {
    if (task.key != submission.key || task.key_scope != submission.key_scope) continue;
    switch (submission.key_scope) {
      case KeyScope::live_type:
        if (task.type == submission.type && (!ended(task.phase) || is(Broken::key_outlives_its_task))) return &task;
        break;
      case KeyScope::parent:
        if (task.parent == parent->number) return &task;
        break;
      case KeyScope::tree:
        if (parent != nullptr && task.root == parent->root) return &task;
        break;
    }
  }
  return nullptr;
}

// False: a key was taken, and `name` is who has it.
bool Model::submit_one(const Submission& submission, TaskId& name) {
  name = submission.id;
  const Task* parent = nullptr;
  if (!submission.parent.none()) parent = find(submission.parent);
  if (!submission.key.empty() && submission.key_scope == KeyScope::parent && submission.parent.none())
    throw Refusal{Status::argument};
  if (const Task* same = find(submission.id); same != nullptr) {
    const TaskId its_parent = same->parent == 0 ? TaskId{} : state_.tasks.at(same->parent).id;
    if (same->type != submission.type || same->payload != submission.payload || its_parent != submission.parent)
      throw Refusal{Status::state};
    return true;
  }
  if (!submission.parent.none()) {
    if (parent == nullptr) throw Refusal{Status::unknown};
    if (under_cancelled(*parent)) throw Refusal{Status::cancelled};
    if (ended(parent->phase)) throw Refusal{Status::state};
  }
  if (!submission.key.empty()) {
    if (const Task* owner = key_owner(submission, parent); owner != nullptr) {
      name = owner->id;
      return false;
    }
  }
  if (parent != nullptr && static_cast<int64_t>(children_of(parent->number, false).size()) >= limits_.children)
    throw Refusal{Status::limit};

  Task task;
  task.number = ++state_.last_number;
  task.id = submission.id;
  task.root = parent == nullptr ? task.number : parent->root;
  task.parent = parent == nullptr ? 0 : parent->number;
  task.type = submission.type;
  task.payload = submission.payload;
  task.key = submission.key;
  task.key_scope = submission.key_scope;
  task.priority = submission.priority;
  if (parent != nullptr && !submission.own_priority && !is(Broken::child_is_not_raised))
    task.priority = parent->priority == std::numeric_limits<int32_t>::max() ? parent->priority : parent->priority + 1;
  task.max_attempts = std::max(submission.max_attempts, 1U);
  task.created_at = now_;
  const bool later = submission.run_after > now_;
  task.phase = later ? Phase::delayed : Phase::ready;
  if (later) task.due_at = submission.run_after;
  if (!later) ready_now_.insert(task.type);
  if (parent != nullptr && parent->until == Until::children && parent->joins_all &&
      !is(Broken::late_child_is_not_waited))
    look_up(parent->id)->need++;
  state_.by_id[task.id] = task.number;
  tell(state_.tasks[task.number] = task, Event::Kind::submitted);
  return true;
}

Status Model::run(Submit& submit) {
  if (submit.by) holder(*submit.by);
  submit.ids.assign(submit.tasks.size(), {});
  bool all = true;
  for (size_t at = 0; at < submit.tasks.size(); at++) all &= submit_one(submit.tasks[at], submit.ids[at]);
  return all ? Status::ok : Status::exists;
}

Status Model::run(Notify& notify) {
  if (notify.by) holder(*notify.by);
  Task* task = look_up(notify.to);
  if (task == nullptr) return Status::unknown;
  if (ended(task->phase)) return Status::state;
  if (notify.payload.size() > limits_.message) return Status::limit;
  if (!notify.key.empty() && task->message_keys.count(notify.key) != 0) return Status::exists;
  int64_t bytes = static_cast<int64_t>(notify.payload.size());
  for (const Message& message : task->mailbox) bytes += static_cast<int64_t>(message.payload.size());
  if (static_cast<int64_t>(task->mailbox.size()) >= limits_.mailbox || bytes > limits_.mailbox_bytes)
    return Status::limit;
  if (!notify.key.empty()) task->message_keys.insert(notify.key);
  task->mailbox.push_back({++state_.last_message, notify.from, notify.payload, notify.key, now_, 0, 0});
  tell(*task, Event::Kind::message);
  if (task->phase == Phase::suspended) {
    queue(*task, Move::wake, Wake::message);
    if (is(Broken::wake_forgets_remainder)) task->waiting.clear();
    tell(*task, Event::Kind::woken);
  }
  if (task->phase == Phase::delayed && is(Broken::delayed_wakes_by_message))
    queue(*task, Move::come_due, task->woken_by);
  return Status::ok;
}

Status Model::run(UpdateState& update) {
  Task* task = is(Broken::zombie_writes_state) ? look_up(update.by.id) : nullptr;
  if (task == nullptr) task = &holder(update.by);
  task->state = update.state;
  tell(*task, Event::Kind::state, update.state);
  return Status::ok;
}

Status Model::run(StepPut& put) {
  const auto [found, first] = holder(put.by).steps.try_emplace(put.name, put.value);
  if (!first) put.value = found->second;
  return first ? Status::ok : Status::exists;
}

Status Model::run(SharedPut& put) {
  if (put.by) holder(*put.by);
  auto& values = state_.shared[put.scope];
  const auto found = values.find(put.key);
  if (put.if_absent && found != values.end()) {
    put.existing = found->second;
    if (is(Broken::first_wins_nothing)) found->second = put.value;
    return Status::exists;
  }
  values[put.key] = put.value;
  return Status::ok;
}

Status Model::run(SharedClear& clear) {
  const auto found = state_.shared.find(clear.scope);
  clear.removed = found == state_.shared.end() ? 0 : found->second.size();
  if (found != state_.shared.end()) state_.shared.erase(found);
  return Status::ok;
}

// ---- Claims ---------------------------------------------------------------------------------------------------------

void Model::promote() {
  for (auto& [number, task] : state_.tasks) {
    if (task.due_at > now_) continue;
    if (task.phase == Phase::delayed) queue(task, Move::come_due, task.woken_by);
    if (task.phase == Phase::suspended) {
      queue(task, Move::come_due, Wake::timer);
      tell(task, Event::Kind::woken);
    }
  }
}

ClaimedTask Model::handed(const Task& task) const {
  ClaimedTask out;
  out.claimed = {task.id, task.number, task.fence, task.token};
  get(task.id, out.record);
  for (const Message& message : task.mailbox)
    if (message.bound_fence == task.fence) out.messages.push_back(message);
  return out;
}

void Model::hand(Task& task, Claim& claim) {
  move(task, Move::claim, Phase::running);
  task.attempt++;
  task.deliveries++;
  task.fence++;
  task.token = ++state_.last_token;
  task.node = claim.node;
  task.node_name = state_.nodes.at(claim.node).name;
  if (task.started_at == 0) task.started_at = now_;
  task.failed_seen = 0;
  for (const Number child : children_of(task.number, false)) {
    const Phase phase = state_.tasks.at(child).phase;
    if (ended(phase) && phase != Phase::completed) task.failed_seen++;
  }
  size_t messages = 0;
  int64_t bytes = 0;
  for (Message& message : task.mailbox) {
    bytes += static_cast<int64_t>(message.payload.size());
    if (messages >= limits_.handed || bytes > limits_.handed_bytes) break;
    messages++;
    message.bound_fence = task.fence;
    message.deliveries++;
  }
  state_.claims[claim.number].push_back({task.number, task.fence});
  tell(task, Event::Kind::started);
  claim.tasks.push_back(handed(task));
}

Status Model::run(Claim& claim) {
  claim.tasks.clear();
  claim.now = now_;
  const auto node = state_.nodes.find(claim.node);
  if (node == state_.nodes.end() || node->second.dead) return Status::lease_lost;
  if (const auto again = state_.claims.find(claim.number); again != state_.claims.end()) {
    for (const auto& [number, fence] : again->second) {
      const auto task = state_.tasks.find(number);
      if (task != state_.tasks.end() && task->second.phase == Phase::running && task->second.fence == fence)
        claim.tasks.push_back(handed(task->second));
    }
    return claim.tasks.empty() ? Status::empty : Status::ok;
  }
  promote();
  std::vector<Number> candidates;
  for (const auto& [number, task] : state_.tasks) {
    const bool served =
        claim.types.empty() || std::find(claim.types.begin(), claim.types.end(), task.type) != claim.types.end();
    if (task.phase == Phase::ready && served) candidates.push_back(number);
  }
  if (is(Broken::youngest_first)) std::reverse(candidates.begin(), candidates.end());
  std::stable_sort(candidates.begin(), candidates.end(), [this](Number left, Number right) {
    return state_.tasks.at(left).priority > state_.tasks.at(right).priority;
  });
  for (const Number number : candidates) {
    if (claim.tasks.size() >= claim.most) break;
    Task& task = state_.tasks.at(number);
    if (task.phase != Phase::ready) continue;
    if (under_cancelled(task))
      end(task, Move::cancel, Phase::cancelled);
    else
      hand(task, claim);
  }
  return claim.tasks.empty() ? Status::empty : Status::ok;
}

// ---- Outcomes -------------------------------------------------------------------------------------------------------

Status Model::run(Settle& settle) {
  Task* task = look_up(settle.by.id);
  if (!current(settle.by)) {
    const bool repeated = task != nullptr && settle.by.token != 0 && task->settled_token == settle.by.token;
    return repeated ? task->settled_status : Status::lease_lost;
  }
  Status status = Status::ok;
  task->settled_token = task->token;
  if (task->cancel_requested) {
    status = Status::cancelled;
    if (settle.outcome == Outcome::done) task->result = settle.result;
    if (settle.outcome == Outcome::fail) record_failure(*task, settle.failure);
    unbind(*task);
    end(*task, Move::cancel, Phase::cancelled);
  } else {
    for (Staged& part : settle.staged) {
      const Status told = std::visit([this](auto& request) { return run(request); }, part);
      // A value or a key that was taken meanwhile refuses the round, which may have built on having it. A message twice is but one.
      if (told == Status::exists && std::holds_alternative<Notify>(part)) continue;
      if (told != Status::ok) throw Refusal{told};
    }
    task = look_up(settle.by.id);
    switch (settle.outcome) {
      case Outcome::done:
        std::erase_if(task->mailbox, [&](const Message& message) { return message.bound_fence == task->fence; });
        task->result = settle.result;
        end(*task, Move::done, Phase::completed);
        break;
      case Outcome::fail:
        status = fail(*task, settle);
        break;
      case Outcome::suspend:
        suspend(*task, settle.suspension);
        break;
      case Outcome::hand_back:
        task->attempt--;
        task->deliveries--;
        unbind(*task);
        queue(*task, Move::hand_back, task->woken_by);
        tell(*task, Event::Kind::handed_back);
        break;
    }
  }
  task->settled_status = status;
  return status;
}

Status Model::fail(Task& task, const Settle& settle) {
  task.failures++;
  record_failure(task, settle.failure);
  if (is(Broken::failed_round_keeps_mail))
    std::erase_if(task.mailbox, [&](const Message& message) { return message.bound_fence == task.fence; });
  unbind(task);
  if (settle.retry == Retry::never || task.failures >= task.max_attempts) {
    end(task, Move::fail, Phase::failed);
    return Status::ok;
  }
  const bool named = settle.retry == Retry::after;
  task.due_from = now_ + (named ? settle.retry_after_ms : 0);
  task.due_to = now_ + (named ? settle.retry_after_ms : longest_backoff(task.failures, limits_));
  move(task, Move::retry, Phase::delayed);
  task.drawn = true;
  task.due_at = task.due_to;
  task.woken_by = Wake::retry;
  tell(task, Event::Kind::retried);
  return Status::ok;
}

void Model::suspend(Task& task, const Suspension& suspension) {
  std::set<Number> open;
  int64_t named = 0;
  bool badly = false;
  if (suspension.until == Until::tasks) {
    const std::set<TaskId> ids(suspension.ids.begin(), suspension.ids.end());
    named = static_cast<int64_t>(ids.size());
    if (named > limits_.children) throw Refusal{Status::limit};
    for (const TaskId& id : ids) {  // told of the least that is wrong
      if (find(id) == nullptr) throw Refusal{Status::unknown};
      if (id == task.id) throw Refusal{Status::state};
    }
    for (const TaskId& id : ids) {
      const Task& target = *find(id);
      if (!ended(target.phase)) open.insert(target.number);
      badly |= ended(target.phase) && target.phase != Phase::completed;
    }
  } else if (suspension.until == Until::children) {
    const std::vector<Number> children = children_of(task.number, true);
    open.insert(children.begin(), children.end());
    int64_t failed = 0;
    for (const Number child : children_of(task.number, false)) {
      const Phase phase = state_.tasks.at(child).phase;
      failed += ended(phase) && phase != Phase::completed ? 1 : 0;
    }
    badly = failed > task.failed_seen;
  }
  for (const Number target : open)
    if (waits_for(target, task.number)) throw Refusal{Status::state};

  std::erase_if(task.mailbox, [&](const Message& message) { return message.bound_fence == task.fence; });
  task.resumed = true;
  if (!is(Broken::suspend_keeps_attempt)) task.attempt = 0;
  task.failures = 0;
  task.until = suspension.until;
  task.wake_on_failure = suspension.wake_on_failure && suspension.until != Until::notified;
  task.joins_all = suspension.until == Until::children && suspension.need == 0;
  task.waiting.clear();
  const int64_t wanted = is(Broken::any_wants_all) ? 0 : suspension.need;
  bool joined = false;
  task.need = 0;
  if (suspension.until == Until::tasks) {
    task.waiting = open;
    task.need = (wanted == 0 ? named : std::min(wanted, named)) - (named - static_cast<int64_t>(open.size()));
    joined = task.need <= 0;
  } else if (suspension.until == Until::children) {
    const auto count = static_cast<int64_t>(open.size());
    task.need = wanted == 0 ? count : std::min(wanted, count);
    joined = count == 0;
  }
  std::optional<Wake> at_once;
  if (!task.mailbox.empty())
    at_once = Wake::message;
  else if (task.wake_on_failure && badly)
    at_once = Wake::failure;
  else if (joined)
    at_once = Wake::join;
  else if (suspension.wake_at != 0 && suspension.wake_at <= now_)
    at_once = Wake::timer;
  if (at_once) {
    queue(task, Move::go_on, *at_once);
    tell(task, Event::Kind::woken);
    return;
  }
  move(task, Move::park, Phase::suspended);
  task.due_at = suspension.wake_at == 0 ? kNever : suspension.wake_at;
  tell(task, Event::Kind::suspended);
}

}  // namespace tasks_model
