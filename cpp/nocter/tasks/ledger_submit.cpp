// What comes into the store from outside of a round: tasks, messages, an end to waiting for a time.
#include <string>

#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

namespace {

// These end a submission; `exists` does not, for then there is the one that was wanted.
bool is_refused(const Answer& answer) {
  return static_cast<int32_t>(answer.status) < 0 || answer.status == Status::cancelled;
}

}  // namespace

Answer Ledger::run(Submit& submit) {
  submit.ids.clear();
  TaskId parent;
  if (submit.by.has_value()) {
    Answer lost;
    if (current(*submit.by, lost) == nullptr) return lost;
    parent = submit.by->id;
  }
  submit.ids.reserve(submit.tasks.size());
  // One alone decides before it writes. Of several each counts for those after it, so they are set back together.
  const bool marks = submit.tasks.size() > 1 && !marked_;
  if (marks) set_mark();
  Answer all;
  for (const Submission& submission : submit.tasks) {
    TaskId id;
    Answer one = submit_one(submission, parent.none() ? submission.parent : parent, id);
    if (is_refused(one)) {
      if (marks) back_to_mark();
      submit.ids.clear();
      return one;
    }
    if (one.status == Status::exists) all.status = Status::exists;
    submit.ids.push_back(id);
  }
  if (marks) keep_mark();
  return all;
}

Answer Ledger::check_submission(const Submission& submission) const {
  if (submission.id.none()) return refuse(Status::argument, "a submission without an id");
  if (submission.type.empty()) return refuse(Status::argument, "a submission without a type");
  if (submission.type.size() > limits_.name) return too_long("the type", limits_.name);
  if (submission.key.size() > limits_.name) return too_long("the key", limits_.name);
  if (submission.payload.size() > limits_.json) return too_long("the payload", limits_.json);
  return {};
}

Answer Ledger::same_again(const Submission& submission, const TaskId& parent, const TaskRow& there) {
  TaskTexts texts;
  tables_.read_texts(there.number, texts);
  const TaskRow* above = there.parent == 0 ? nullptr : load(there.parent);
  if (type_name(there.type) == submission.type && texts.payload == submission.payload &&
      (above == nullptr ? parent.none() : above->id == parent))
    return {};
  return refuse(Status::state, "there is another task with the id " + to_text(submission.id));
}

Answer Ledger::submit_one(const Submission& submission, const TaskId& parent, TaskId& id) {
  id = submission.id;
  if (Answer wrong = check_submission(submission); wrong.status != Status::ok) return wrong;
  if (const TaskRow* there = find(submission.id)) return same_again(submission, parent, *there);

  TaskRow* above = nullptr;
  if (!parent.none()) {
    above = find(parent);
    if (above == nullptr) return refuse(Status::unknown, "there is no parent " + to_text(parent));
    if (above->phase == Phase::cancelled || (!ended(above->phase) && to_be_cancelled(*above)))
      return refuse(Status::cancelled, "the parent " + to_text(parent) + " is cancelled");
    if (ended(above->phase)) {
      return below_a_cancelled(*above) ? refuse(Status::cancelled, "the tree of " + to_text(parent) + " is cancelled")
                                       : refuse(Status::state, "the parent " + to_text(parent) + " has ended");
    }
  } else if (submission.key_scope == KeyScope::parent && !submission.key.empty()) {
    return refuse(Status::argument, "a key that holds below a parent, and there is no parent");
  }

  int32_t type = tables_.find_type(submission.type);
  const auto owner_of_key = [&](const TaskRow* row) -> int64_t {
    switch (submission.key_scope) {
      case KeyScope::live_type:
        return type;
      case KeyScope::parent:
        return above->number;
      case KeyScope::tree:
        return above != nullptr ? above->root : row == nullptr ? 0 : row->root;
    }
    return 0;
  };
  if (!submission.key.empty()) {
    // A type or a tree that does not exist yet has no keys.
    const int64_t owner = owner_of_key(nullptr);
    const Number first = owner == 0 ? 0 : tables_.find_key(submission.key_scope, owner, submission.key);
    if (const TaskRow* winner = first == 0 ? nullptr : load(first)) {
      id = winner->id;
      return {Status::exists, {}};
    }
  }
  if (above != nullptr && above->children >= limits_.children) {
    return refuse(Status::limit, "the parent " + to_text(parent) + " has " + std::to_string(limits_.children) +
                                     " children, the most that there may be");
  }

  // From here on it is written.
  if (type == 0) type = change().make_type(submission.type);
  TaskRow row;
  row.id = submission.id;
  row.type = type;
  row.priority = above != nullptr && !submission.own_priority && !base::planted("child_is_not_raised")
                     ? child_priority(above->priority)
                     : submission.priority;
  row.max_attempts = submission.max_attempts == 0 ? 1 : submission.max_attempts;
  row.key_scope = submission.key_scope;
  row.has_key = !submission.key.empty();
  row.created_at = now_;
  const bool later = submission.run_after > now_;
  move(row, Move::submit, later ? Phase::delayed : Phase::ready);
  if (later) row.due_at = submission.run_after;
  if (above != nullptr) {
    row.parent = above->number;
    row.root = above->root;
    touch(*above);
    above->children++;
    above->open_children++;
    if (above->until == Until::children && above->need_all && !base::planted("late_child_joins_nothing")) above->need++;
    if (TaskRow* root = load(above->root)) touch(*root).tree_open++;
  } else {
    row.tree_open = 1;
  }
  change().insert_task(row, submission.payload, submission.key);
  if (row.has_key) change().add_key(row.key_scope, owner_of_key(&row), submission.key, row.number);
  at_hand(row);
  event(row, Event::Kind::submitted);
  if (!later) ready(row);
  return {};
}

Answer Ledger::run(Notify& notify) {
  if (notify.by.has_value()) {
    Answer lost;
    if (current(*notify.by, lost) == nullptr) return lost;
  }
  TaskRow* to = find(notify.to);
  if (to == nullptr) return refuse(Status::unknown, "there is no task " + to_text(notify.to));
  if (ended(to->phase)) return refuse(Status::state, "task " + to_text(notify.to) + " has ended");
  if (notify.payload.size() > limits_.message) return too_long("the message", limits_.message);
  if (notify.key.size() > limits_.name) return too_long("the message's key", limits_.name);
  if (!notify.key.empty() && tables_.has_message_key(to->number, notify.key)) return {Status::exists, {}};
  const auto bytes = static_cast<int64_t>(notify.payload.size());
  if (to->mail >= limits_.mailbox || to->mail_bytes + bytes > limits_.mailbox_bytes)
    return refuse(Status::limit, "the mailbox of task " + to_text(notify.to) + " is full");

  Message message;
  message.from = notify.from.none() && notify.by.has_value() ? notify.by->id : notify.from;
  message.payload = notify.payload;
  message.key = notify.key;
  message.at = now_;
  change().add_message(to->number, message);
  touch(*to);
  to->mail++;
  to->mail_bytes += bytes;
  event(*to, Event::Kind::message);
  // Whatever it waits for; what remains of that stays written down (TSK-07).
  if (to->phase == Phase::suspended) wake(*to, Wake::message);
  return {};
}

Answer Ledger::run(Hurry& hurry) {
  TaskRow* row = find(hurry.id);
  if (row == nullptr) return refuse(Status::unknown, "there is no task " + to_text(hurry.id));
  if (ended(row->phase)) return refuse(Status::state, "task " + to_text(hurry.id) + " has ended");
  if (row->phase == Phase::delayed) make_ready(*row, Move::come_due, row->woken_by);
  return {};
}

}  // namespace nocter::tasks
