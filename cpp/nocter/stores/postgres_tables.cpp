// Types, rows and what is found by index.
#include "nocter/stores/postgres_tables.hpp"

#include <algorithm>

#include "nocter/stores/postgres_statements.hpp"

namespace nocter::stores::postgres {

using tasks::kNever;
using tasks::Millis;
using tasks::Number;
using tasks::Phase;
using tasks::TaskId;
using tasks::TaskRow;

namespace {

// The columns of a task, in the order of the statements.
template <class Row, class Visit>
void made_columns(Row& row, Visit&& visit) {
  visit(row.number);
  visit(row.id);
  visit(row.root);
  visit(row.parent);
  visit(row.type);
  visit(row.created_at);
}
template <class Row, class Visit>
void changing_columns(Row& row, Visit&& visit) {
  visit(row.woken_by);
  visit(row.resumed);
  visit(row.cancel_requested);
  visit(row.key_scope);
  visit(row.has_key);
  visit(row.attempt);
  visit(row.failures);
  visit(row.max_attempts);
  visit(row.deliveries);
  visit(row.rescues);
  visit(row.fence);
  visit(row.token);
  visit(row.settled_token);
  visit(row.settled_status);
  visit(row.started_at);
  visit(row.until);
  visit(row.wake_on_failure);
  visit(row.need_all);
  visit(row.open);
  visit(row.need);
  visit(row.children);
  visit(row.open_children);
  visit(row.failed_children);
  visit(row.failed_children_seen);
  visit(row.mail);
  visit(row.mail_bytes);
  visit(row.tree_open);
  visit(row.priority);
  visit(row.phase);
  visit(row.claim);
  visit(row.node);
  visit(row.due_at);
  visit(row.ended_at);
  visit(row.tree_ended_at);
}

int64_t bounded(size_t most) { return static_cast<int64_t>(std::min<size_t>(most, INT64_MAX)); }

}  // namespace

// ---- Types ----------------------------------------------------------------------------------------------------------

int32_t PostgresTables::find_type(std::string_view name) {
  const auto known = types_.find(std::string(name));
  if (known != types_.end()) return known->second;
  Query query(connection_, sql::kFindType);
  if (!query.with(name).next()) return 0;
  const auto type = static_cast<int32_t>(query.number());
  types_[std::string(name)] = type;
  return type;
}

int32_t PostgresTables::make_type(std::string_view name) {
  const auto type = static_cast<int32_t>(next_number("last_type"));
  Query query(connection_, sql::kMakeType);
  write(query).with(type).with(name).send();
  types_[std::string(name)] = type;
  return type;
}

std::string PostgresTables::type_name(int32_t type) {
  if (const auto known = type_names_.find(type); known != type_names_.end()) return known->second;
  Query query(connection_, sql::kTypeName);
  if (!query.with(type).next())
    connection_.fail(Status::store, "there is no task type of number " + std::to_string(type));
  return type_names_[type] = query.text();
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

void PostgresTables::read(Query& query, TaskRow& row) {
  const auto get = [&query](auto& value) { query.get(value); };
  made_columns(row, get);
  changing_columns(row, get);
}

void PostgresTables::read_all(Query& query, std::vector<TaskRow>& out) {
  while (query.next()) {
    TaskRow row;
    read(query, row);
    know(row);
    out.push_back(row);
  }
}

void PostgresTables::know(const TaskRow& row) {
  Known& there = rows_.try_emplace(row.number).first->second;
  there.row = row;
  numbers_[row.id] = row.number;
}

PostgresTables::Known* PostgresTables::known(Number number) {
  const auto found = rows_.find(number);
  return found == rows_.end() ? nullptr : &found->second;
}

bool PostgresTables::find_task(const TaskId& id, TaskRow& out) {
  if (const auto number = numbers_.find(id); number != numbers_.end()) {
    if (const Known* there = known(number->second)) {
      out = there->row;
      return true;
    }
  }
  if (absent_.contains(id)) return false;
  Query query(connection_, sql::kFindTask);
  if (!query.with(id).next()) return false;
  read(query, out);
  know(out);
  return true;
}

bool PostgresTables::load_task(Number number, TaskRow& out) {
  if (const Known* row = known(number)) {
    out = row->row;
    return true;
  }
  Query query(connection_, sql::kLoadTask);
  if (!query.with(number).next()) return false;
  read(query, out);
  know(out);
  return true;
}

void PostgresTables::insert_task(TaskRow& row, std::string_view payload, std::string_view key) {
  row.number = next_number("last_task");
  if (row.parent == 0) row.root = row.number;
  {
    Query query(connection_, sql::kInsertTask);
    const auto bind = [&query](const auto& value) { query.with(value); };
    made_columns(std::as_const(row), bind);
    changing_columns(std::as_const(row), bind);
    write(query).send();
  }
  Query(connection_, sql::kInsertText).with(row.number).with(payload).with(key).send();
  note_due(kNever, row.due_at);
  note_ready(nullptr, &row);
  absent_.erase(row.id);
  know(row);
  Known& there = *known(row.number);
  there.texts.payload = payload;
  there.texts.key = key;
  there.texts_known = true;
}

void PostgresTables::update_task(const TaskRow& row) {
  TaskRow loaded;
  if (!load_task(row.number, loaded)) {
    connection_.fail(Status::store, "there is no task number " + std::to_string(row.number));
  }
  Query query(connection_, sql::kUpdateTask);
  query.with(row.number);
  changing_columns(row, [&query](const auto& value) { query.with(value); });
  write(query).send();
  note_due(loaded.due_at, row.due_at);
  note_ready(&loaded, &row);
  if (row.phase == Phase::running) unclaimed_.erase({row.node, row.claim});
  known(row.number)->row = row;
}

void PostgresTables::remove_task(const TaskRow& row) {
  TaskRow there;
  if (!load_task(row.number, there)) return;
  for (const Sql* statement : {&sql::kDeleteText, &sql::kDeleteMessages, &sql::kDeleteMessageKeys, &sql::kDeleteSteps,
                               &sql::kRemoveKeysOf, &sql::kRemoveEdgesFrom, &sql::kRemoveEdgesTo, &sql::kDeleteTask}) {
    Query query(connection_, *statement);
    write(query).with(row.number).send();
  }
  note_due(there.due_at, kNever);
  note_ready(&there, nullptr);
  rows_.erase(row.number);
  numbers_.erase(there.id);
}

// What comes due next is known as long as it is not that one which changes.
void PostgresTables::note_due(Millis before, Millis after) {
  if (before != kNever && before <= next_due_) next_due_known_ = false;
  if (after < next_due_) next_due_ = after;
}

// ---- Look-ups by index ----------------------------------------------------------------------------------------------

void PostgresTables::ready(int32_t type, size_t most, std::vector<TaskRow>& out) {
  Ready& there = ready_[type];
  if (!there.whole && there.order.size() < most) look_for_ready(type, most, there);
  for (const auto& [priority, number] : there.order) {
    if (most-- == 0) return;
    out.push_back(rows_.at(number).row);
  }
}

// For all claims of the batch at once, as far as that is not too many.
void PostgresTables::look_for_ready(int32_t type, size_t most, Ready& there) {
  constexpr size_t kAtOnce = 512;
  const size_t wanted = std::max(most, std::min(expected_.wanted, kAtOnce));
  there = {};
  Query query(connection_, sql::kReady);
  query.with(type).with(bounded(wanted));
  while (query.next()) {
    TaskRow row;
    read(query, row);
    know(row);
    Known& known_row = *known(row.number);
    read_texts(query, known_row.texts);
    known_row.texts_known = true;
    there.last = {-int64_t{row.priority}, row.number};
    there.order.insert(there.last);
  }
  there.known = true;
  there.whole = there.order.size() < wanted;
}

void PostgresTables::note_ready(const TaskRow* before, const TaskRow* after) {
  if (before != nullptr && before->phase == Phase::ready) {
    if (const auto there = ready_.find(before->type); there != ready_.end())
      there->second.order.erase({-int64_t{before->priority}, before->number});
  }
  if (after == nullptr || after->phase != Phase::ready) return;
  const auto there = ready_.find(after->type);
  if (there == ready_.end() || !there->second.known) return;
  const Ready::Key key{-int64_t{after->priority}, after->number};
  if (there->second.whole || key <= there->second.last) there->second.order.insert(key);
}

void PostgresTables::ready_of_every_type(size_t most, std::vector<TaskRow>& out) {
  std::vector<TaskRow> all;
  for (int32_t type = 0;;) {
    Query next(connection_, sql::kNextReadyType);
    if (!next.with(type).next()) break;
    next.get(type);
    ready(type, most, all);
  }
  std::sort(all.begin(), all.end(), [](const TaskRow& a, const TaskRow& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.number < b.number;
  });
  if (all.size() > most) all.resize(most);
  out.insert(out.end(), all.begin(), all.end());
}

void PostgresTables::due(Millis now, size_t most, std::vector<TaskRow>& out) {
  if (next_due() > now) return;
  Query query(connection_, sql::kDue);
  query.with(now).with(bounded(most));
  read_all(query, out);
}

Millis PostgresTables::next_due() {
  if (!next_due_known_) {
    Query query(connection_, sql::kNextDue);
    next_due_ = query.next() ? query.number() : kNever;
    next_due_known_ = true;
  }
  return next_due_;
}

void PostgresTables::running_on(int64_t node, size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kRunningOn);
  query.with(node).with(bounded(most));
  read_all(query, out);
}

void PostgresTables::claimed_as(int64_t node, uint64_t claim, std::vector<TaskRow>& out) {
  if (unclaimed_.contains({node, claim})) return;
  Query query(connection_, sql::kClaimedAs);
  query.with(node).with(claim);
  read_all(query, out);
}

void PostgresTables::children(Number parent, Number after, bool open_only, size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, open_only ? sql::kOpenChildren : sql::kChildren);
  query.with(parent).with(after).with(bounded(most));
  read_all(query, out);
}

void PostgresTables::last_members(Number root, size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kLastMembers);
  query.with(root).with(bounded(most));
  read_all(query, out);
}

void PostgresTables::ended_trees(Millis before, size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kEndedTrees);
  query.with(before).with(bounded(most));
  read_all(query, out);
}

void PostgresTables::forgotten(size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kForgotten);
  query.with(bounded(most));
  read_all(query, out);
}

void PostgresTables::list(const tasks::Filter& filter, std::vector<TaskRow>& out) {
  int32_t type = 0;
  if (!filter.type.empty() && (type = find_type(filter.type)) == 0) return;
  Number parent = 0, root = 0;
  TaskRow row;
  if (!filter.parent.none()) {
    if (!find_task(filter.parent, row)) return;
    parent = row.number;
  }
  if (!filter.root.none()) {
    if (!find_task(filter.root, row)) return;
    root = row.number;
  }
  Phase first = Phase::ready, last = Phase::cancelled;
  if (filter.status) {
    while (tasks::status_of(first) != *filter.status && first != last)
      first = static_cast<Phase>(static_cast<int>(first) + 1);
    last = first;
    if (*filter.status == tasks::TaskStatus::queued) last = Phase::delayed;
  }
  Query query(connection_, parent != 0 ? sql::kListChildren : root != 0 ? sql::kListMembers : sql::kList);
  query.with(filter.after).with(bounded(filter.most)).with(type).with(first).with(last);
  query.with(filter.roots_only).with(filter.created_before).with(parent).with(root);
  read_all(query, out);
}

}  // namespace nocter::stores::postgres
