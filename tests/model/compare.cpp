// In what a store and the model may differ: in nothing that anybody can see.
#include <algorithm>
#include <map>
#include <sstream>
#include <type_traits>

#include "model/world.hpp"
#include "nocter/tasks/task_id.hpp"

namespace tasks_model {

using namespace nocter::tasks;

namespace {

std::string text_of(const std::vector<TaskId>& ids) {
  std::string out;
  for (const TaskId& id : ids) out += (out.empty() ? "" : " ") + nocter::tasks::to_text(id).substr(24);
  return out.empty() ? "none" : out;
}
std::vector<TaskId> sorted(std::vector<TaskId> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}
std::string text_of(const Event& event) {
  std::ostringstream out;
  out << "event " << static_cast<int>(event.kind) << " status " << static_cast<int>(event.status) << " attempt "
      << event.attempt << " at " << event.at << ' ' << event.type;
  // What an end says it ended with is the boundary's own word; a state is the task's.
  if (event.kind == Event::Kind::state) out << ' ' << event.data;
  return out.str();
}
// Who is cancelled in the moment in which it was woken, or asked to end, may have been told so or not.
void note(std::vector<std::string>& told, const Event& event) {
  const auto begins_as = [&](Event::Kind kind) {
    return told.back().rfind("event " + std::to_string(static_cast<int>(kind)) + ' ', 0) == 0;
  };
  const std::string at = " at " + std::to_string(event.at) + ' ';
  const bool cancelled = event.kind == Event::Kind::ended && event.status == TaskStatus::cancelled;
  while (cancelled && !told.empty() && told.back().find(at) != std::string::npos &&
         (begins_as(Event::Kind::woken) || begins_as(Event::Kind::cancel_requested)))
    told.pop_back();
  told.push_back(text_of(event));
}

}  // namespace

bool World::say(const std::string& what) {
  failure_ = what;
  return false;
}
bool World::same(const char* what, const std::string& store, const std::string& model) {
  return store == model || say(std::string(what) + ": the store says " + store + ", the model " + model);
}
template <class Value>
bool World::same_number(const char* what, Value store, Value model) {
  if constexpr (std::is_enum_v<Value>)
    return same_number(what, static_cast<int64_t>(store), static_cast<int64_t>(model));
  else
    return store == model || same(what, std::to_string(store), std::to_string(model));
}

bool World::same_records(const Record& store, const Record& model) {
  const TaskRow &is = store.row, &should = model.row;
  const bool open = !ended(should.phase);
  const Failure &failed = store.texts.failure, &should_fail = model.texts.failure;
  const bool good =
      same_number("phase", is.phase, should.phase) &&
      (should.phase == Phase::cancelled || same_number("woken_by", is.woken_by, should.woken_by)) &&
      same_number("priority", is.priority, should.priority) && same_number("resumed", is.resumed, should.resumed) &&
      same_number("cancel_requested", open && is.cancel_requested, open && should.cancel_requested) &&
      same_number("has_key", is.has_key, should.has_key) &&
      (!should.has_key || same_number("key_scope", is.key_scope, should.key_scope)) &&
      same_number("attempt", is.attempt, should.attempt) && same_number("failures", is.failures, should.failures) &&
      same_number("max_attempts", is.max_attempts, should.max_attempts) &&
      same_number("deliveries", is.deliveries, should.deliveries) &&
      same_number("rescues", is.rescues, should.rescues) && same_number("fence", is.fence, should.fence) &&
      same_number("created_at", is.created_at, should.created_at) && same_number("due_at", is.due_at, should.due_at) &&
      same_number("started_at", is.started_at, should.started_at) &&
      same_number("ended_at", is.ended_at, should.ended_at) && same_number("children", is.children, should.children) &&
      same_number("open_children", is.open_children, should.open_children) &&
      same_number("failed_children", is.failed_children, should.failed_children) &&
      same_number("mail", is.mail, should.mail) && same_number("mail_bytes", is.mail_bytes, should.mail_bytes) &&
      same("root", text_of({store.root}), text_of({model.root})) &&
      same("parent", text_of({store.parent}), text_of({model.parent})) && same("type", store.type, model.type) &&
      same("payload", store.texts.payload, model.texts.payload) && same("key", store.texts.key, model.texts.key) &&
      same("state", store.texts.state, model.texts.state) && same("result", store.texts.result, model.texts.result) &&
      same("failure's kind", failed.kind, should_fail.kind) &&
      (should_fail.kind == "WorkerLost" || same("failure's message", failed.message, should_fail.message)) &&
      same_number("failure's attempt", failed.attempt, should_fail.attempt) &&
      same_number("failure's time", failed.at, should_fail.at) &&
      same("failure's node", failed.node, should_fail.node) &&
      same("waiting_for", text_of(sorted(store.waiting_for)), text_of(model.waiting_for)) &&
      same_number("waiting_open", store.waiting_open, model.waiting_open) &&
      (should.phase != Phase::running ||
       (same("node", store.node, model.node) && same_number("lease_until", store.lease_until, model.lease_until))) &&
      (!open || same_number("until", is.until, should.until)) &&
      (should.phase != Phase::suspended || should.until == Until::notified ||
       same_number("need", is.need, should.need)) &&
      (model.parent != TaskId{} || (same_number("tree_open", is.tree_open, should.tree_open) &&
                                    same_number("tree_ended_at", is.tree_ended_at, should.tree_ended_at)));
  if (!good) failure_ = "task " + text_of({should.id}) + ": " + failure_;
  return good;
}

bool World::same_messages(const std::vector<Message>& store, const std::vector<Message>& model) {
  if (!same_number("messages", store.size(), model.size())) return false;
  int64_t last = 0;
  for (size_t at = 0; at < store.size(); at++) {
    const Message &is = store[at], &should = model[at];
    if (is.number <= last) return say("D-06: messages are out of order");
    last = is.number;
    if (!same("message", is.payload, should.payload) || !same("its key", is.key, should.key) ||
        !same("its sender", text_of({is.from}), text_of({should.from})) || !same_number("its time", is.at, should.at) ||
        !same_number("its claim", is.bound_fence, should.bound_fence) ||
        !same_number("its deliveries", is.deliveries, should.deliveries))
      return false;
  }
  return true;
}

bool World::same_claims(const Claim& store, const Claim& model) {
  std::vector<TaskId> is, should;
  for (const ClaimedTask& task : store.tasks) is.push_back(task.claimed.id);
  for (const ClaimedTask& task : model.tasks) should.push_back(task.claimed.id);
  if (!same("TSK-13: claimed", text_of(is), text_of(should)) || !same_number("now", store.now, model.now)) return false;
  for (size_t at = 0; at < store.tasks.size(); at++) {
    if (!same_number("fence", store.tasks[at].claimed.fence, model.tasks[at].claimed.fence)) return false;
    if (store.tasks[at].claimed.token == 0) return say("TSK-17: a claim without a token");
    if (!same_records(store.tasks[at].record, model.tasks[at].record) ||
        !same_messages(store.tasks[at].messages, model.tasks[at].messages))
      return false;
  }
  return true;
}

bool World::same_answers(Pending& request, const Answer& model) {
  const Answer& answer = request.store.answer;
  if (answer.status != model.status) {
    same_number("status", answer.status, model.status);
    failure_ += answer.message.empty() ? "" : " (" + answer.message + ")";
    return false;
  }
  if (static_cast<int>(answer.status) < 0) return !answer.message.empty() || say("a refusal that does not say why");
  return std::visit(
      [&](const auto& is) {
        using Asked = std::decay_t<decltype(is)>;
        const Asked& should = std::get<Asked>(request.model);
        if constexpr (std::is_same_v<Asked, Submit>)
          return answer.status == Status::cancelled || same("TSK-20: ids", text_of(is.ids), text_of(should.ids));
        else if constexpr (std::is_same_v<Asked, StepPut>)
          return same("TSK-22: step", is.value, should.value);
        else if constexpr (std::is_same_v<Asked, SharedPut>)
          return same("SHR-01: value", is.existing, should.existing);
        else if constexpr (std::is_same_v<Asked, SharedClear>)
          return same_number("SHR-02: removed", is.removed, should.removed);
        else if constexpr (std::is_same_v<Asked, Claim>)
          return same_claims(is, should);
        else if constexpr (std::is_same_v<Asked, Cancel>)
          return is.more || same_number("TSK-11: touched", is.touched, should.touched);
        else if constexpr (std::is_same_v<Asked, LockAcquire>)
          return same_number("SHR-04: fence", is.fence, should.fence) &&
                 same_number("SHR-03: until", is.until, should.until);
        else if constexpr (std::is_same_v<Asked, LockRenew>)
          return same_number("SHR-03: until", is.until, should.until);
        else if constexpr (std::is_same_v<Asked, Register>)
          return is.node > 0 || say("a node without a number");
        else if constexpr (std::is_same_v<Asked, Renew>) {
          std::vector<TaskId> stop, should_stop;
          for (const Claimed& by : is.cancelled) stop.push_back(by.id);
          for (const Claimed& by : should.cancelled) should_stop.push_back(by.id);
          return same("asked to end", text_of(sorted(stop)), text_of(sorted(should_stop)));
        } else if constexpr (std::is_same_v<Asked, Maintain>)
          return same_number("TSK-18: rescued", is.rescued, should.rescued) &&
                 same_number("P-7: repaired", is.repaired, should.repaired) &&
                 same_number("TSK-23: purged", is.purged, should.purged);
        else
          return true;
      },
      request.store.demand);
}

bool World::same_effects(const Effects& effects, const Told& told) {
  std::vector<TaskId> stop;
  for (const Claimed& by : effects.cancelled) stop.push_back(by.id);
  std::set<std::string> woken;
  for (const Effects::Ready& one : effects.ready) woken.insert(one.type);
  for (const std::string& type : told.ready)
    if (woken.count(type) == 0) return say("nobody is told that a task of the type " + type + " is ready");
  // Who has ended by now need not have been asked to: a rescue may have come between the pieces of a cancel.
  std::vector<TaskId> asked;
  for (const TaskId& id : told.asked)
    if (told.ended.count(id) == 0) asked.push_back(id);
  std::erase_if(stop, [&](const TaskId& id) { return told.ended.count(id) != 0; });
  return same("told as ended", text_of(sorted(effects.ended)), text_of({told.ended.begin(), told.ended.end()})) &&
         same("told to stop", text_of(sorted(stop)), text_of(asked));
}

// Of each task the same things in the same order; between tasks the order of one request is the store's own.
bool World::same_events() {
  if (!setup_.events) return true;
  std::vector<Event> all;
  const Answer answer = store().events(events_seen_[kStore], 100'000, all);
  if (static_cast<int>(answer.status) < 0) return say("events cannot be read: " + answer.message);
  std::map<TaskId, std::vector<std::string>> is, should;
  for (const Event& event : all) {
    if (event.sequence != ++events_seen_[kStore]) return say("I-13: events have a gap");
    note(is[event.task], event);
  }
  for (const Event& event : model_.events()) {
    if (event.sequence <= events_seen_[kModel]) continue;
    events_seen_[kModel] = event.sequence;
    note(should[event.task], event);
  }
  for (const auto& [task, told] : should) {
    std::string mine, models;
    for (const std::string& one : is[task]) mine += "\n  " + one;
    for (const std::string& one : told) models += "\n  " + one;
    if (!same(("I-15: events of task " + text_of({task})).c_str(), mine, models)) return false;
  }
  for (const auto& [task, told] : is)
    if (should.count(task) == 0 && !told.empty()) return say("events of task " + text_of({task}) + ": " + told.front());
  return true;
}

bool World::same_list(const Filter& filter) {
  std::vector<Record> records;
  const Answer answer = store().list(filter, records);
  if (static_cast<int>(answer.status) < 0) return say("tasks cannot be listed: " + answer.message);
  std::vector<TaskId> ids;
  for (const Record& record : records) ids.push_back(record.row.id);
  return same("list", text_of(ids), text_of(model_.list(filter)));
}

bool World::same_everything() {
  if (std::string wrong = model_.check(); !wrong.empty()) return say("the model itself: " + wrong);
  for (const auto& [number, task] : model_.tasks()) {
    Record is, should;
    model_.get(task.id, should);
    if (const Answer answer = store().get(task.id, is); answer.status != Status::ok)
      return say("task " + text_of({task.id}) + " cannot be read: " + answer.message);
    if (!same_records(is, should)) return false;
    std::vector<Message> mail, should_be;
    model_.mail(task.id, should_be);
    if (ended(task.phase) && (store().mail(task.id, mail), !same_messages(mail, should_be))) return false;
  }
  Filter all;
  all.most = 100'000;
  if (!same_list(all) || !same_events()) return false;
  const auto shared = model_.shared();
  for (const std::string& scope : scopes_) {
    std::vector<std::pair<std::string, std::string>> values;
    store().shared_all(scope, values);
    const auto found = shared.find(scope);
    const auto should = found == shared.end() ? std::map<std::string, std::string>() : found->second;
    if (std::map<std::string, std::string>(values.begin(), values.end()) != should || values.size() != should.size())
      return say("SHR-02: the values of " + scope + " are others");
  }
  for (const auto& [ref, run] : runs_) {
    for (size_t name = 0; name < kNames; name++) {
      std::string is, should;
      const std::string step = "step" + std::to_string(name);
      const Answer told = model_.step(run.claimed[kModel], step, should);
      if (!same_number("status of a step", store().step(run.claimed[kStore], step, is).status, told.status) ||
          (told.status == Status::ok && !same("TSK-22: step", is, should)))
        return false;
    }
  }
  Counts is;
  store().count(is);
  const Counts should = model_.count();
  for (int status = 1; status <= 6; status++)
    if (!same_number("counted", is.by_status[status], should.by_status[status])) return false;
  return same_number("ready", is.ready, should.ready) && same_number("delayed", is.delayed, should.delayed) &&
         same_number("oldest ready", is.oldest_ready, should.oldest_ready) &&
         same_number("rescues", is.rescues, should.rescues) && same_number("repairs", is.repairs, should.repairs) &&
         same_number("purged", is.purged, should.purged) && same_number("tasks", is.tasks, should.tasks);
}

std::string digest(const Model& model) {
  std::ostringstream out;
  for (const auto& [number, task] : model.tasks()) {
    out << number << ' ' << static_cast<int>(task.phase) << ' ' << static_cast<int>(task.woken_by) << ' '
        << task.attempt << ' ' << task.failures << ' ' << task.deliveries << ' ' << task.rescues << ' ' << task.fence
        << ' ' << task.token << ' ' << task.cancel_requested << ' ' << task.due_at << ' ' << task.need << ' '
        << task.waiting.size() << ' ' << task.state << task.result << ' ' << task.steps.size();
    for (const Message& message : task.mailbox) out << ' ' << message.number << ':' << message.bound_fence;
    out << '\n';
  }
  for (const auto& [scope, values] : model.shared())
    for (const auto& [key, value] : values) out << scope << ' ' << key << ' ' << value << '\n';
  out << model.events().size();
  return out.str();
}

}  // namespace tasks_model
