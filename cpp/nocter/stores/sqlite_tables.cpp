// Types, rows and what is found by index.
#include "nocter/stores/sqlite_tables.hpp"

#include <algorithm>
#include <tuple>

#include "nocter/stores/sqlite_statements.hpp"

namespace nocter::stores {

using tasks::KeyScope;
using tasks::kNever;
using tasks::Millis;
using tasks::Number;
using tasks::Phase;
using tasks::TaskId;
using tasks::TaskRow;
using tasks::Until;
using tasks::Wake;

namespace {

// The columns of a task in the groups of the statements. `visit` takes each; `time` one that is NULL where it would be kNever.
template <class Row, class Visit>
void made_columns(Row& row, Visit& visit) {
  visit(row.number);
  visit.id(row.id);
  visit(row.root);
  visit(row.parent);
  visit(row.type);
  visit(row.created_at);
}
template <class Row>
auto living_columns(Row& row) {
  return std::tie(row.attempt, row.deliveries, row.fence, row.token, row.settled_token, row.settled_status,
                  row.started_at);
}
template <class Row>
auto given_columns(Row& row) {
  return std::tie(row.key_scope, row.has_key, row.max_attempts);
}
template <class Row>
auto rare_columns(Row& row) {
  return std::tie(row.woken_by, row.resumed, row.cancel_requested, row.failures, row.rescues, row.until,
                  row.wake_on_failure, row.need_all, row.open, row.need, row.children, row.open_children,
                  row.failed_children, row.failed_children_seen, row.mail, row.mail_bytes);
}
template <class Columns, class Visit>
void visit_each(const Columns& columns, Visit& visit) {
  std::apply([&visit](auto&... column) { (visit(column), ...); }, columns);
}
template <class Row, class Visit>
void moving_columns(Row& row, Visit& visit) {
  visit(row.priority);
  visit(row.phase);
  visit(row.claim);
  visit(row.node);
  visit.time(row.due_at);
}
template <class Row, class Visit>
void ending_columns(Row& row, Visit& visit) {
  visit(row.ended_at);
  visit.time(row.tree_ended_at);
}

struct Reader {
  Query& query;
  template <class Value>
  void operator()(Value& value) {
    query.get(value);
  }
  void id(TaskId& id) { query.get(id); }
  void time(Millis& time) {
    const bool never = query.null();
    time = query.number();
    if (never) time = kNever;
  }
};

struct Binder {
  Query& query;
  template <class Value>
  void operator()(const Value& value) {
    query.with(value);
  }
  void id(const TaskId& id) { query.with(id); }
  void time(Millis time) {
    if (time == kNever) {
      query.with_null();
    } else {
      query.with(time);
    }
  }
};

// Of several rows of look-ups, each in its order, the first `most` of all.
void take_earliest(std::vector<TaskRow>& found, Millis TaskRow::*time, size_t most, std::vector<TaskRow>& out) {
  std::sort(found.begin(), found.end(), [time](const TaskRow& a, const TaskRow& b) {
    return a.*time != b.*time ? a.*time < b.*time : a.number < b.number;
  });
  if (found.size() > most) found.resize(most);
  out.insert(out.end(), found.begin(), found.end());
}

int64_t bounded(size_t most) { return static_cast<int64_t>(std::min<size_t>(most, INT64_MAX)); }

// Where a task stands in task_place.
struct Place {
  int64_t place, rank;
};
Place place_of(const TaskRow& row) {
  switch (row.phase) {
    case Phase::ready:
      return {row.type, -int64_t{row.priority}};
    case Phase::running:
      return {row.node, static_cast<int64_t>(row.claim)};
    case Phase::delayed:
    case Phase::suspended:
      return {row.due_at, 0};
    default:
      return {row.tree_ended_at, 0};
  }
}

// As its submission makes it, apart from what that gives it.
bool fresh(const TaskRow& row) {
  static const TaskRow first;
  return living_columns(row) == living_columns(first) && rare_columns(row) == rare_columns(first) &&
         row.ended_at == first.ended_at && row.tree_ended_at == first.tree_ended_at;
}

// So far no number of ours ever comes, and sums of such do not overflow.
constexpr int64_t kSane = int64_t{1} << 53;

bool sane(const TaskRow& row) {
  for (const int64_t count :
       {row.root, row.parent, row.open, row.children, row.open_children, row.failed_children, row.failed_children_seen,
        row.mail, row.mail_bytes, row.tree_open, row.created_at, row.started_at, row.ended_at}) {
    if (count < 0 || count > kSane) return false;
  }
  // Times that are only compared may lie as far away as somebody wants.
  if (row.due_at < 0 || row.tree_ended_at < 0) return false;
  return row.number > 0 && row.need >= -kSane && row.need <= kSane && !row.id.none() && row.phase >= Phase::ready &&
         row.phase <= Phase::cancelled && row.woken_by >= Wake::first && row.woken_by <= Wake::rescue &&
         row.until >= Until::nothing && row.until <= Until::notified && row.key_scope >= KeyScope::live_type &&
         row.key_scope <= KeyScope::tree;
}

}  // namespace

// ---- Types ----------------------------------------------------------------------------------------------------------

int32_t SqliteTables::find_type(std::string_view name) {
  const auto known = types_.find(std::string(name));
  if (known != types_.end()) return known->second;
  Query query(connection_, sql::kFindType);
  if (!query.with(name).next()) return 0;
  const auto type = static_cast<int32_t>(query.number());
  types_[std::string(name)] = type;
  return type;
}

int32_t SqliteTables::make_type(std::string_view name) {
  Query query = write(sql::kMakeType);
  query.with(name).next();
  const auto type = static_cast<int32_t>(sqlite3_last_insert_rowid(connection_.handle()));
  types_[std::string(name)] = type;
  return type;
}

std::string SqliteTables::type_name(int32_t type) {
  Query query(connection_, sql::kTypeName);
  if (!query.with(type).next())
    connection_.fail(Status::store, "there is no task type of number " + std::to_string(type));
  return query.text();
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

bool SqliteTables::read(Query& query, TaskRow& row, uint32_t& texts) const {
  Reader reader{query};
  made_columns(row, reader);
  visit_each(living_columns(row), reader);
  reader(row.tree_open);
  reader(texts);
  visit_each(given_columns(row), reader);
  visit_each(rare_columns(row), reader);
  moving_columns(row, reader);
  ending_columns(row, reader);
  return sane(row);
}

void SqliteTables::poisoned(const TaskRow& row) const {
  connection_.fail(Status::store, "the record of task number " + std::to_string(row.number) + " makes no sense");
}

// One that makes no sense stops nobody else (DAT-05): whoever asks for it by name is told.
void SqliteTables::read_all(Query& query, size_t most, std::vector<TaskRow>& out) {
  while (most > 0 && query.next()) {
    TaskRow row;
    uint32_t texts = 0;
    if (!read(query, row, texts)) continue;
    know(row, texts);
    out.push_back(row);
    most--;
  }
}

// Of a look-up by phase and time: what an index that was tampered with adds to it is passed over.
void SqliteTables::read_phase(const Sql& sql, Phase phase, Millis until, size_t most, std::vector<TaskRow>& out) {
  const size_t before = out.size();
  Query query(connection_, sql);
  query.with(phase).with(until);
  read_all(query, most, out);
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                           [phase](const TaskRow& row) { return row.phase != phase; }),
            out.end());
}

void SqliteTables::know(const TaskRow& row, uint32_t texts) {
  if (Known* there = known(row.number)) {
    there->row = row;
    // A text that was put just now is not yet in what was read.
    if (!there->texts_unsaved) there->texts = texts;
    return;
  }
  const auto there = rows_.emplace(row.number, Known{row, texts}).first;
  try {
    numbers_[row.id] = row.number;
  } catch (...) {
    rows_.erase(there);
    throw;
  }
}

SqliteTables::Known* SqliteTables::known(Number number) {
  const auto found = rows_.find(number);
  return found == rows_.end() ? nullptr : &found->second;
}

bool SqliteTables::find_task(const TaskId& id, TaskRow& out) {
  if (const auto number = numbers_.find(id); number != numbers_.end()) {
    out = rows_.at(number->second).row;
    return true;
  }
  Query query(connection_, sql::kFindTask);
  if (!query.with(id).next()) return false;
  uint32_t texts = 0;
  if (!read(query, out, texts)) poisoned(out);
  know(out, texts);
  return true;
}

bool SqliteTables::load_task(Number number, TaskRow& out) {
  if (const Known* row = known(number)) {
    out = row->row;
    return true;
  }
  out.number = 0;
  if (read_row(number, out)) return true;
  if (out.number != 0) poisoned(out);
  return false;
}

// False when there is none, and when it makes no sense: then it has its number.
bool SqliteTables::read_row(Number number, TaskRow& out) {
  Query query(connection_, sql::kLoadTask);
  uint32_t texts = 0;
  if (!query.with(number).next() || !read(query, out, texts)) return false;
  know(out, texts);
  Known& there = *known(number);
  query.get(there.payload);
  query.get(there.key);
  query.get(there.result);
  there.short_known = true;
  return true;
}

void SqliteTables::insert_task(TaskRow& row, std::string_view payload, std::string_view key) {
  row.number = last_task() + 1;
  if (row.parent == 0) row.root = row.number;
  const bool apart = payload.size() > kShort;
  const uint32_t texts = apart ? uint32_t{Texts::has_payload} : 0;
  {
    const bool is_fresh = fresh(row);
    Query query = write(is_fresh ? sql::kInsertFresh : sql::kInsertTask);
    Binder binder{query};
    made_columns(std::as_const(row), binder);
    query.with(row.tree_open).with(texts);
    visit_each(given_columns(std::as_const(row)), binder);
    moving_columns(std::as_const(row), binder);
    const Place place = place_of(row);
    query.with(place.place).with(place.rank).with(apart ? std::string_view{} : payload).with(key);
    if (!is_fresh) {
      visit_each(living_columns(std::as_const(row)), binder);
      visit_each(rare_columns(std::as_const(row)), binder);
      ending_columns(std::as_const(row), binder);
    }
    query.next();
  }
  if (apart) {
    Query query = write(sql::kPutPayload);
    query.with(row.number).with(payload).next();
  }
  last_.task = row.number;
  note_due(tasks::kNever, row.due_at);
  know(row, texts);
  Known& there = *known(row.number);
  if (!apart) there.payload = payload;
  there.key = key;
  there.short_known = true;
}

void SqliteTables::update_task(const TaskRow& row) {
  TaskRow loaded;
  if (known(row.number) == nullptr && !load_task(row.number, loaded)) {
    connection_.fail(Status::store, "there is no task number " + std::to_string(row.number));
  }
  Known& before = *known(row.number);
  const TaskRow& old = before.row;
  const bool ending = row.ended_at != old.ended_at || row.tree_ended_at != old.tree_ended_at;
  const bool moving = ending || row.phase != old.phase || row.priority != old.priority || row.claim != old.claim ||
                      row.node != old.node || row.due_at != old.due_at;
  const bool rare = !moving || given_columns(row) != given_columns(old) || rare_columns(row) != rare_columns(old);
  {
    Query query = write(ending   ? (rare ? sql::kUpdateEndingRare : sql::kUpdateEnding)
                        : moving ? (rare ? sql::kUpdateMovingRare : sql::kUpdateMoving)
                                 : sql::kUpdateQuiet);
    Binder binder{query};
    visit_each(living_columns(row), binder);
    query.with(row.tree_open).with(before.texts);
    if (rare) {
      visit_each(given_columns(row), binder);
      visit_each(rare_columns(row), binder);
    }
    if (moving) {
      moving_columns(row, binder);
      const Place place = place_of(row);
      query.with(place.place).with(place.rank);
    }
    if (ending) {
      ending_columns(row, binder);
      before.result_unsaved ? query.with(before.result) : query.with_null();
    }
    query.with(row.number).next();
  }
  note_due(old.due_at, row.due_at);
  before.row = row;
  before.texts_unsaved = false;
  if (ending) before.result_unsaved = false;
}

void SqliteTables::remove_task(const TaskRow& row) {
  TaskRow there;
  if (!load_task(row.number, there)) return;
  const uint32_t texts = texts_of(row.number);
  const std::pair<Texts, const Sql&> kinds[] = {{Texts::has_payload, sql::kDeletePayload},
                                                {Texts::has_state, sql::kDeleteState},
                                                {Texts::has_result, sql::kDeleteResult},
                                                {Texts::has_failure, sql::kDeleteFailure}};
  for (const auto& [which, statement] : kinds) {
    if ((texts & which) == 0) continue;
    Query query = write(statement);
    query.with(row.number).next();
  }
  for (const Sql* statement : {&sql::kDeleteMessages, &sql::kDeleteMessageKeys, &sql::kDeleteSteps, &sql::kRemoveKeysOf,
                               &sql::kRemoveEdgesFrom, &sql::kRemoveEdgesTo, &sql::kDeleteTask}) {
    Query query = write(*statement);
    query.with(row.number).next();
  }
  // Its number must not come again.
  if (row.number == last_task()) set_counter("last_task", row.number);
  note_due(there.due_at, tasks::kNever);
  rows_.erase(row.number);
  numbers_.erase(there.id);
}

// What comes due next is known as long as it is not that one which changes.
void SqliteTables::note_due(Millis before, Millis after) {
  if (before != kNever && before <= next_due_) next_due_known_ = false;
  if (after < next_due_) next_due_ = after;
}

// ---- Look-ups by index ----------------------------------------------------------------------------------------------

void SqliteTables::ready(int32_t type, size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kReady);
  query.with(type);
  while (most > 0 && query.next()) {
    const Number number = query.number();
    TaskRow row;
    if (const Known* there = known(number)) {
      row = there->row;
    } else if (!read_row(number, row)) {
      continue;
    }
    if (row.phase != Phase::ready || row.type != type) continue;  // by an index that was tampered with
    out.push_back(row);
    most--;
  }
}

// The type after this one that has a task which is ready; false when there is none. Of a damaged index not even the order is certain.
bool SqliteTables::next_ready_type(int32_t& type) {
  Query next(connection_, sql::kNextReadyType);
  if (!next.with(type).next()) return false;
  const int64_t place = next.number();
  if (place <= type || place > INT32_MAX) connection_.fail(Status::store, "the index task_place is malformed");
  type = static_cast<int32_t>(place);
  return true;
}

void SqliteTables::ready_of_every_type(size_t most, std::vector<TaskRow>& out) {
  std::vector<TaskRow> all;
  for (int32_t type = 0; next_ready_type(type);) {
    ready(type, most, all);
  }
  std::sort(all.begin(), all.end(), [](const TaskRow& a, const TaskRow& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.number < b.number;
  });
  if (all.size() > most) all.resize(most);
  out.insert(out.end(), all.begin(), all.end());
}

void SqliteTables::due(Millis now, size_t most, std::vector<TaskRow>& out) {
  if (next_due() > now) return;
  std::vector<TaskRow> found;
  for (const Phase phase : {Phase::delayed, Phase::suspended}) read_phase(sql::kDue, phase, now, most, found);
  take_earliest(found, &TaskRow::due_at, most, out);
}

Millis SqliteTables::next_due() {
  if (!next_due_known_) {
    Millis next = kNever;
    for (const Phase phase : {Phase::delayed, Phase::suspended}) {
      Query query(connection_, sql::kNextDue);
      if (query.with(phase).next()) next = std::min(next, query.number());
    }
    next_due_ = next;
    next_due_known_ = true;
  }
  return next_due_;
}

void SqliteTables::running_on(int64_t node, size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kRunningOn);
  query.with(node);
  read_all(query, most, out);
}

void SqliteTables::claimed_as(int64_t node, uint64_t claim, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kClaimedAs);
  query.with(node).with(claim);
  read_all(query, SIZE_MAX, out);
}

void SqliteTables::children(Number parent, Number after, bool open_only, size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, open_only ? sql::kOpenChildren : sql::kChildren);
  query.with(parent).with(after);
  read_all(query, most, out);
  // Who reads on from the last one must come forward.
  if (!out.empty() && out.back().number <= after) connection_.fail(Status::store, "an index of children is malformed");
}

void SqliteTables::last_members(Number root, size_t most, std::vector<TaskRow>& out) {
  const size_t before = out.size();
  {
    Query query(connection_, sql::kLastMembers);
    query.with(root);
    read_all(query, most, out);
  }
  // The root is the oldest of its tree, and stands in no index of it.
  TaskRow row;
  if (out.size() - before < most && load_task(root, row)) out.push_back(row);
}

void SqliteTables::ended_trees(Millis before, size_t most, std::vector<TaskRow>& out) {
  std::vector<TaskRow> found;
  for (const Phase phase : {Phase::completed, Phase::failed, Phase::cancelled}) {
    read_phase(sql::kEndedTrees, phase, before, most, found);
  }
  take_earliest(found, &TaskRow::tree_ended_at, most, out);
}

void SqliteTables::forgotten(size_t most, std::vector<TaskRow>& out) {
  Query query(connection_, sql::kForgotten);
  read_all(query, most, out);
}

void SqliteTables::list(const tasks::Filter& filter, std::vector<TaskRow>& out) {
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
  query.with(filter.after).with(bounded(filter.most)).with(type).with(first).with(last).with(parent).with(root);
  query.with(filter.roots_only).with(filter.created_before);
  read_all(query, filter.most, out);
}

}  // namespace nocter::stores
