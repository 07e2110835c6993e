#include "nocter/tasks/run.hpp"

#include <algorithm>
#include <utility>

#include "nocter/tasks/engine.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

namespace {
Answer lost_answer() { return {Status::lease_lost, "others may run this task by now"}; }
}  // namespace

Run* Run::make(const std::shared_ptr<Engine>& engine) { return base::make_handle<Run, base::Kind::run>(engine); }

Run::Run(const std::shared_ptr<Engine>& engine) : header(base::Kind::run), engine_(engine) {
  header.tag.disarm();
  interrupt_.header.tag.disarm();
  tree_.reserve(kTaskIdText);
}

void Run::begin() {
  interrupt_.header.tag.arm(base::Kind::interrupt);
  header.tag.arm(base::Kind::run);
}

void Run::release() {
  if (references_.fetch_sub(1) == 1) base::end_handle<base::Kind::run>(this);
}

void Run::finish() {
  interrupt_.header.tag.disarm();
  engine_->forget(*this);
  release();
}

void Run::raise(Reason reason) {
  int32_t none = 0;
  reason_.compare_exchange(none, static_cast<int32_t>(reason));
  if (reason == Reason::cancel) cancel_requested_.store(true);
  interrupt_.interrupt.raise();
}

void Run::lease_lost() {
  lost_.store(true);
  raise(Reason::lease_lost);
}

Answer Run::heard(Answer answer) {
  if (answer.status == Status::lease_lost) lease_lost();
  return answer;
}

template <class Demand>
Answer Run::ask(Demand& demand) {
  if (lost_.load()) return lost_answer();
  return heard(engine_->ask(demand));
}

// ---- Writing --------------------------------------------------------------------------------------------------------

Answer Run::update_state(std::string state) {
  UpdateState update{claimed_, std::move(state)};
  if (!atomic_) return ask(update);
  if (lost_.load()) return lost_answer();
  staged_.emplace_back(std::move(update));
  return {};
}

Answer Run::submit(std::vector<Submission> tasks, std::vector<TaskId>& ids) {
  for (Submission& task : tasks) task.parent = claimed_.id;
  if (atomic_) return stage_submission(std::move(tasks), ids);
  Submit submit;
  submit.tasks = std::move(tasks);
  submit.by = claimed_;
  Answer answer = ask(submit);
  ids = std::move(submit.ids);
  return answer;
}

// What a store would refuse whatever happens until the outcome is refused now.
Answer Run::stage_submission(std::vector<Submission> tasks, std::vector<TaskId>& ids) {
  if (lost_.load()) return lost_answer();
  if (cancel_requested_.load()) return {Status::cancelled, {}};
  int64_t children = record_.row.children + static_cast<int64_t>(tasks.size());
  for (const Staged& one : staged_) {
    if (const auto* submit = std::get_if<Submit>(&one)) children += static_cast<int64_t>(submit->tasks.size());
  }
  const int64_t most = engine_->limits().children;
  if (children > most) return {Status::limit, "more than " + std::to_string(most) + " children of one task"};
  std::vector<TaskId> named;
  named.reserve(tasks.size());
  for (const Submission& task : tasks) named.push_back(task.id);
  Submit submit;
  submit.tasks = std::move(tasks);
  submit.by = claimed_;
  staged_.emplace_back(std::move(submit));
  ids = std::move(named);
  return {};
}

bool Run::is_staged_child(const TaskId& id) const {
  for (const Staged& one : staged_) {
    const auto* submit = std::get_if<Submit>(&one);
    if (submit == nullptr) continue;
    for (const Submission& task : submit->tasks) {
      if (task.id == id) return true;
    }
  }
  return false;
}

Answer Run::check_target(const TaskId& to) {
  if (is_staged_child(to)) return {};
  Record record;
  Answer answer = engine_->look([&](Store& store) { return store.get(to, record); });
  if (answer.status != Status::ok) return answer;
  if (ended(record.row.phase)) return {Status::state, "the task has ended"};
  return {};
}

Answer Run::notify(const TaskId& to, std::string payload) {
  Notify notify;
  notify.to = to;
  notify.from = claimed_.id;
  notify.payload = std::move(payload);
  notify.by = claimed_;
  if (!atomic_) return ask(notify);
  if (lost_.load()) return lost_answer();
  if (Answer answer = check_target(to); answer.status != Status::ok) return answer;
  staged_.emplace_back(std::move(notify));
  return {};
}

// ---- Steps and shared values ----------------------------------------------------------------------------------------

const Staged* Run::staged_step(std::string_view name) const {
  for (const Staged& one : staged_) {
    const auto* put = std::get_if<StepPut>(&one);
    if (put != nullptr && put->name == name) return &one;
  }
  return nullptr;
}

// The last one stands.
const Staged* Run::staged_shared(std::string_view key) const {
  for (auto one = staged_.rbegin(); one != staged_.rend(); ++one) {
    const auto* put = std::get_if<SharedPut>(&*one);
    if (put != nullptr && put->key == key) return &*one;
  }
  return nullptr;
}

Answer Run::step_get(const std::string& name, std::string_view& out) {
  if (lost_.load()) return lost_answer();
  std::string value;
  if (const Staged* staged = staged_step(name)) {
    value = std::get<StepPut>(*staged).value;
  } else {
    Answer answer = heard(engine_->look([&](Store& store) { return store.step(claimed_, name, value); }));
    if (answer.status != Status::ok) return answer;
  }
  out = handed_out_.emplace_back(std::move(value));
  return {};
}

Answer Run::step_put(std::string name, std::string value) {
  StepPut put{claimed_, std::move(name), std::move(value)};
  if (!atomic_) return ask(put);
  if (lost_.load()) return lost_answer();
  if (staged_step(put.name) != nullptr) return {Status::exists, {}};
  std::string there;
  Answer answer = heard(engine_->look([&](Store& store) { return store.step(claimed_, put.name, there); }));
  if (answer.status == Status::ok) return {Status::exists, {}};
  if (answer.status != Status::empty) return answer;
  staged_.emplace_back(std::move(put));
  return {};
}

Answer Run::shared_put(std::string key, std::string value, bool if_absent, std::string& existing) {
  SharedPut put;
  put.scope = tree_;
  put.key = std::move(key);
  put.value = std::move(value);
  put.if_absent = if_absent;
  put.by = claimed_;
  if (!atomic_) {
    Answer answer = ask(put);
    existing = std::move(put.existing);
    return answer;
  }
  if (lost_.load()) return lost_answer();
  if (if_absent) {
    Answer answer = shared_get(put.key, existing);
    if (answer.status == Status::ok) return {Status::exists, {}};
    if (answer.status != Status::empty) return answer;
  }
  staged_.emplace_back(std::move(put));
  return {};
}

Answer Run::shared_get(const std::string& key, std::string& out) {
  if (const Staged* staged = staged_shared(key)) {
    out = std::get<SharedPut>(*staged).value;
    return {};
  }
  return engine_->look([&](Store& store) { return store.shared(tree_, key, out); });
}

// ---- Looking --------------------------------------------------------------------------------------------------------

Answer Run::children(std::vector<Record>& out) {
  Answer answer = engine_->children(claimed_.id, out);
  if (answer.status != Status::ok || staged_.empty()) return answer;
  const Millis now = engine_->now();
  for (const Staged& one : staged_) {
    const auto* submit = std::get_if<Submit>(&one);
    if (submit == nullptr) continue;
    for (const Submission& task : submit->tasks) {
      Record record;
      record.row.id = task.id;
      record.row.phase = task.run_after > now ? Phase::delayed : Phase::ready;
      record.row.priority = task.own_priority ? task.priority : child_priority(record_.row.priority);
      record.row.has_key = !task.key.empty();
      record.row.key_scope = task.key_scope;
      record.row.max_attempts = task.max_attempts;
      record.row.created_at = now;
      record.row.due_at = task.run_after > now ? task.run_after : kNever;
      record.root = record_.root;
      record.parent = claimed_.id;
      record.type = task.type;
      record.texts.payload = task.payload;
      record.texts.key = task.key;
      out.push_back(std::move(record));
    }
  }
  std::sort(out.begin(), out.end(), [](const Record& a, const Record& b) { return a.row.id < b.row.id; });
  return answer;
}

Answer Run::heartbeat() {
  if (lost_.load()) return lost_answer();
  if (Answer answer = engine_->renew(record_.row.node); answer.status != Status::ok) return heard(std::move(answer));
  Record record;
  Answer answer = engine_->look([&](Store& store) { return store.get(claimed_.id, record); });
  if (answer.status != Status::ok && answer.status != Status::unknown) return answer;
  if (answer.status == Status::ok && holds(claimed_, record.row)) return answer;
  return heard(lost_answer());
}

// ---- The end --------------------------------------------------------------------------------------------------------

Answer Run::settle(Settle& settle) {
  settle.by = claimed_;
  if (settle.outcome == Outcome::hand_back) return ask(settle);
  settle.staged = std::move(staged_);
  struct NotEnded {  // the round goes on as before, also when memory ends in the middle
    Run& run;
    Settle& settle;
    bool ended = false;
    ~NotEnded() {
      if (!ended) run.staged_ = std::move(settle.staged);
    }
  } as_before{*this, settle};
  Answer answer = ask(settle);
  as_before.ended = ends(answer.status);
  return answer;
}

bool Run::lose(const char* kind, const char* message) noexcept {
  try {
    Settle settle;
    settle.outcome = Outcome::fail;
    settle.failure.kind = kind;
    settle.failure.message = message;
    staged_.clear();
    const Status status = this->settle(settle).status;
    return ends(status);
  } catch (const std::exception&) {
    return false;
  }
}

bool Run::give_back() noexcept {
  try {
    Settle settle;
    settle.outcome = Outcome::hand_back;
    if (!ends(this->settle(settle).status)) return false;
  } catch (const std::exception&) {
    return false;
  }
  if (header.tag.end(base::Kind::run)) finish();
  return true;
}

void Run::drop(const char* kind, const char* message) noexcept {
  if (!lose(kind, message)) engine_->lose_later(*this);
  finish();
}

}  // namespace nocter::tasks
