// What belongs to tasks beside their rows: texts, edges, messages, steps, keys; and what belongs to none: values, locks, events, nodes.
#include "nocter/base/planted.hpp"
#include "nocter/stores/sqlite_statements.hpp"
#include "nocter/stores/sqlite_tables.hpp"

namespace nocter::stores {

using tasks::Number;

namespace {
int64_t bounded(size_t most) { return most > INT64_MAX ? INT64_MAX : static_cast<int64_t>(most); }
}  // namespace

// ---- Texts ----------------------------------------------------------------------------------------------------------

uint32_t SqliteTables::texts_of(Number task) {
  if (const Known* row = known(task)) return row->texts;
  Query query(connection_, sql::kReadWhich);
  return query.with(task).next() ? static_cast<uint32_t>(query.number()) : 0;
}

void SqliteTables::note_unsaved(const Known& row) {
  if (!row.texts_unsaved && !row.result_unsaved) unsaved_texts_.push_back(row.row.number);
}

void SqliteTables::has_text(Number task, Texts which) {
  const uint32_t before = texts_of(task);
  if ((before & which) != 0) return;
  Known* row = known(task);
  if (row == nullptr) {
    Query query = write(sql::kUpdateTexts);
    query.with(task).with(before | which).with_null().next();
    return;
  }
  note_unsaved(*row);
  row->texts = before | which;
  row->texts_unsaved = true;
}

// Of rows that did not change after they got a text.
void SqliteTables::save_texts() {
  for (const Number task : unsaved_texts_) {
    Known* row = known(task);
    if (row == nullptr || (!row->texts_unsaved && !row->result_unsaved)) continue;
    Query query = write(sql::kUpdateTexts);
    query.with(task).with(row->texts);
    row->result_unsaved ? query.with(row->result) : query.with_null();
    query.next();
    row->texts_unsaved = row->result_unsaved = false;
  }
  unsaved_texts_.clear();
}

void SqliteTables::read_texts(Number task, tasks::TaskTexts& out) {
  out = {};
  const Known* row = known(task);
  if (row != nullptr && row->result_unsaved) save_texts();
  const uint32_t texts = texts_of(task);
  if (row != nullptr && row->short_known) {
    out.payload = row->payload;
    out.key = row->key;
    out.result = row->result;
  } else {
    Query query(connection_, sql::kReadShort);
    if (query.with(task).next()) {
      query.get(out.payload);
      query.get(out.key);
      query.get(out.result);
    }
  }
  if ((texts & Texts::has_payload) != 0) {
    Query query(connection_, sql::kReadPayload);
    if (query.with(task).next()) query.get(out.payload);
  }
  if ((texts & Texts::has_state) != 0) {
    Query query(connection_, sql::kReadState);
    if (query.with(task).next()) query.get(out.state);
  }
  if ((texts & Texts::has_result) != 0) {
    Query query(connection_, sql::kReadResult);
    if (query.with(task).next()) query.get(out.result);
  }
  if ((texts & Texts::has_failure) != 0) {
    Query query(connection_, sql::kReadFailure);
    if (query.with(task).next()) {
      query.get(out.failure.kind);
      query.get(out.failure.message);
      query.get(out.failure.detail);
      query.get(out.failure.attempt);
      query.get(out.failure.node);
      query.get(out.failure.at);
    }
  }
}

void SqliteTables::put_state(Number task, std::string_view state) {
  {
    Query query = write(sql::kPutState);
    query.with(task).with(state).next();
  }
  has_text(task, Texts::has_state);
}

// One that lies apart stays there.
void SqliteTables::put_result(Number task, std::string_view result) {
  const uint32_t texts = texts_of(task);
  Known* row = known(task);
  if (result.size() > kShort || (texts & Texts::has_result) != 0) {
    {
      Query query = write(sql::kPutResult);
      query.with(task).with(result).next();
    }
    has_text(task, Texts::has_result);
  } else if (row == nullptr) {
    Query query = write(sql::kUpdateTexts);
    query.with(task).with(texts).with(result).next();
  } else {
    note_unsaved(*row);
    row->result = result;
    row->result_unsaved = true;
  }
}

void SqliteTables::put_failure(Number task, const tasks::Failure& failure) {
  {
    Query query = write(sql::kPutFailure);
    query.with(task).with(failure.kind).with(failure.message).with(failure.detail).with(failure.attempt);
    query.with(failure.node).with(failure.at).next();
  }
  has_text(task, Texts::has_failure);
}

// ---- Edges ----------------------------------------------------------------------------------------------------------

bool SqliteTables::add_edge(Number waiter, Number target) {
  edges_ = Any::some;
  Query query = write(sql::kAddEdge);
  return query.with(waiter).with(target).change() == 1;
}

void SqliteTables::targets_of(Number waiter, std::vector<Number>& out) {
  Query query(connection_, sql::kTargetsOf);
  query.with(waiter);
  while (query.next()) out.push_back(query.number());
}

void SqliteTables::waiters_of(Number target, std::vector<Number>& out) {
  if (!any(edges_, sql::kAnyEdge)) return;
  Query query(connection_, sql::kWaitersOf);
  query.with(target);
  while (query.next()) out.push_back(query.number());
}

void SqliteTables::remove_edges_from(Number waiter) {
  edges_ = Any::unknown;
  Query query = write(sql::kRemoveEdgesFrom);
  query.with(waiter).next();
}

void SqliteTables::remove_edges_to(Number target) {
  edges_ = Any::unknown;
  Query query = write(sql::kRemoveEdgesTo);
  query.with(target).next();
}

// ---- Mailboxes ------------------------------------------------------------------------------------------------------

void SqliteTables::add_message(Number task, tasks::Message& message) {
  message.number = last(last_.message, "last_message", nullptr) + 1;
  {
    Query query = write(sql::kAddMessage);
    query.with(task).with(message.number).with(message.from).with(message.at).with(message.bound_fence);
    query.with(message.deliveries).with(message.key).with(message.payload).next();
  }
  last_.message = message.number;
  last_.message_unsaved = true;
  if (message.key.empty()) return;
  Query query = write(sql::kAddMessageKey);
  query.with(task).with(message.key).next();
}

bool SqliteTables::has_message_key(Number task, std::string_view key) {
  Query query(connection_, sql::kHasMessageKey);
  return query.with(task).with(key).next();
}

void SqliteTables::messages(Number task, bool unbound_only, size_t most, std::vector<tasks::Message>& out) {
  Query query(connection_, sql::kMessages);
  query.with(task).with(unbound_only).with(bounded(most));
  while (query.next()) {
    tasks::Message& message = out.emplace_back();
    query.get(message.number);
    query.get(message.from);
    query.get(message.at);
    query.get(message.bound_fence);
    query.get(message.deliveries);
    query.get(message.key);
    query.get(message.payload);
  }
}

void SqliteTables::bind_message(Number task, int64_t number, uint64_t fence) {
  Query query = write(sql::kBindMessage);
  query.with(task).with(number).with(fence).next();
}

void SqliteTables::unbind_messages(Number task) {
  Query query = write(sql::kUnbindMessages);
  query.with(task).next();
}

std::pair<int64_t, int64_t> SqliteTables::remove_bound_messages(Number task, uint64_t fence) {
  std::pair<int64_t, int64_t> removed{0, 0};
  Query query = write(sql::kRemoveBound);
  query.with(task).with(fence);
  while (query.next()) {
    removed.first++;
    removed.second += query.number();
  }
  return removed;
}

// ---- Steps, keys, shared values, locks ------------------------------------------------------------------------------

bool SqliteTables::find_step(Number task, std::string_view name, std::string& out) {
  Query query(connection_, sql::kFindStep);
  if (!query.with(task).with(name).next()) return false;
  query.get(out);
  return true;
}

void SqliteTables::add_step(Number task, std::string_view name, std::string_view value) {
  Query query = write(sql::kAddStep);
  query.with(task).with(name).with(value).next();
}

Number SqliteTables::find_key(tasks::KeyScope scope, int64_t owner, std::string_view key) {
  Query query(connection_, sql::kFindKey);
  return query.with(scope).with(owner).with(key).next() ? query.number() : 0;
}

void SqliteTables::add_key(tasks::KeyScope scope, int64_t owner, std::string_view key, Number task) {
  Query query = write(sql::kAddKey);
  query.with(scope).with(owner).with(key).with(task).next();
}

void SqliteTables::remove_keys_of(Number task) {
  Query query = write(sql::kRemoveKeysOf);
  query.with(task).next();
}

bool SqliteTables::find_shared(std::string_view scope, std::string_view key, std::string& out) {
  Query query(connection_, sql::kFindShared);
  if (!query.with(scope).with(key).next()) return false;
  query.get(out);
  return true;
}

void SqliteTables::put_shared(std::string_view scope, std::string_view key, std::string_view value) {
  Query query = write(sql::kPutShared);
  query.with(scope).with(key).with(value).next();
}

void SqliteTables::all_shared(std::string_view scope, std::vector<std::pair<std::string, std::string>>& out) {
  Query query(connection_, sql::kAllShared);
  query.with(scope);
  while (query.next()) {
    auto& [key, value] = out.emplace_back();
    query.get(key);
    query.get(value);
  }
}

uint64_t SqliteTables::clear_shared(std::string_view scope) {
  Query query = write(sql::kClearShared);
  return static_cast<uint64_t>(query.with(scope).change());
}

bool SqliteTables::find_lock(std::string_view name, tasks::LockRow& out) {
  Query query(connection_, sql::kFindLock);
  if (!query.with(name).next()) return false;
  query.get(out.fence);
  query.get(out.token);
  query.get(out.expires_at);
  return true;
}

void SqliteTables::put_lock(std::string_view name, const tasks::LockRow& row) {
  Query query = write(sql::kPutLock);
  query.with(name).with(row.fence).with(row.token).with(row.expires_at).next();
}

// ---- Events ---------------------------------------------------------------------------------------------------------

void SqliteTables::add_event(const tasks::Event& event) {
  const int32_t type = find_type(event.type);
  const int64_t sequence = last_event() + 1;
  Query query = write(sql::kAddEvent);
  query.with(sequence).with(event.at).with(event.task).with(event.kind).with(event.status);
  query.with(event.attempt).with(type).with(event.data).next();
  last_.event = sequence;
}

void SqliteTables::events(uint64_t after, size_t most, std::vector<tasks::Event>& out) {
  Query query(connection_, sql::kEvents);
  query.with(after > INT64_MAX ? uint64_t{INT64_MAX} : after).with(bounded(most));
  std::unordered_map<int32_t, std::string> names;
  while (query.next()) {
    tasks::Event& event = out.emplace_back();
    query.get(event.sequence);
    query.get(event.at);
    query.get(event.task);
    query.get(event.kind);
    query.get(event.status);
    query.get(event.attempt);
    const auto type = static_cast<int32_t>(query.number());
    std::string& name = names[type];
    if (name.empty()) name = type_name(type);
    event.type = name;
    query.get(event.data);
  }
}

uint64_t SqliteTables::remove_events(tasks::Millis before, size_t most) {
  const int64_t last = last_event();
  uint64_t removed = 0;
  {
    Query query = write(sql::kRemoveEvents);
    removed = static_cast<uint64_t>(query.with(before).with(bounded(most)).change());
  }
  if (removed != 0) set_counter("last_event", last);  // those after it go on from there
  return removed;
}

// ---- Nodes, cascades ------------------------------------------------------------------------------------------------

void SqliteTables::read_nodes(Query& query, std::vector<tasks::NodeRow>& out) {
  while (query.next()) {
    tasks::NodeRow& row = out.emplace_back();
    query.get(row.node);
    query.get(row.name);
    query.get(row.instance);
    query.get(row.expires_at);
    query.get(row.dead);
  }
}

void SqliteTables::insert_node(tasks::NodeRow& row) {
  row.node = last(last_.node, "last_node", nullptr) + 1;
  // Before anybody can see the node: without the lock it would be taken for dead.
  joined_.push_back(row.instance);
  shared_->presence.hold(row.instance);
  Query query = write(sql::kInsertNode);
  query.with(row.node).with(row.name).with(row.instance).with(row.expires_at).with(row.dead).next();
  last_.node = row.node;
  set_counter("last_node", row.node);
}

bool SqliteTables::find_node(int64_t node, tasks::NodeRow& out) {
  for (const tasks::NodeRow& known : nodes_) {
    if (known.node != node) continue;
    out = known;
    return true;
  }
  Query query(connection_, sql::kFindNode);
  std::vector<tasks::NodeRow> found;
  query.with(node);
  read_nodes(query, found);
  if (found.empty()) return false;
  out = found.front();
  nodes_.push_back(out);
  return true;
}

void SqliteTables::update_node(const tasks::NodeRow& row) {
  nodes_.clear();
  Query query = write(sql::kUpdateNode);
  query.with(row.node).with(row.name).with(row.instance).with(row.expires_at).with(row.dead).next();
}

void SqliteTables::remove_node(int64_t node) {
  tasks::NodeRow row;
  if (!find_node(node, row)) return;
  nodes_.clear();
  left_.push_back(row.instance);
  Query query = write(sql::kRemoveNode);
  query.with(node).next();
}

void SqliteTables::lost_nodes(tasks::Millis now, size_t most, std::vector<tasks::NodeRow>& out) {
  Query query(connection_, sql::kLostNodes);
  query.with(now).with(bounded(most));
  read_nodes(query, out);
}

void SqliteTables::nodes(std::vector<tasks::NodeRow>& out) {
  Query query(connection_, sql::kNodes);
  read_nodes(query, out);
}

void SqliteTables::put_cascade(Number task, Number after) {
  cascades_ = Any::unknown;
  Query query = write(sql::kPutCascade);
  query.with(task).with(after).next();
}

void SqliteTables::cascades(size_t most, std::vector<std::pair<Number, Number>>& out) {
  Query query(connection_, sql::kCascades);
  query.with(bounded(most));
  while (query.next()) {
    auto& [task, after] = out.emplace_back();
    query.get(task);
    query.get(after);
  }
}

void SqliteTables::remove_cascade(Number task) {
  cascades_ = Any::unknown;
  Query query = write(sql::kRemoveCascade);
  query.with(task).next();
}

// Asked once, and again after a change: most stores have none of them most of the time.
bool SqliteTables::any(Any& known, const Sql& sql) {
  if (known == Any::unknown) {
    Query query(connection_, sql);
    known = query.next() ? Any::some : Any::none;
  }
  return known == Any::some;
}

bool SqliteTables::any_cascade() { return any(cascades_, sql::kAnyCascade); }

}  // namespace nocter::stores
