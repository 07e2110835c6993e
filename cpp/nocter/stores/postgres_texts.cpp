// What belongs to tasks beside their rows: texts, edges, messages, steps, keys; and what belongs to none: values, locks, events, nodes.
#include <algorithm>

#include "nocter/stores/postgres_statements.hpp"
#include "nocter/stores/postgres_tables.hpp"

namespace nocter::stores::postgres {

using tasks::Number;

namespace {
int64_t bounded(size_t most) { return static_cast<int64_t>(std::min<size_t>(most, INT64_MAX)); }
}  // namespace

// ---- Texts ----------------------------------------------------------------------------------------------------------

void PostgresTables::read_texts(Query& query, tasks::TaskTexts& texts) {
  query.get(texts.payload);
  query.get(texts.key);
  query.get(texts.state);
  query.get(texts.result);
  query.get(texts.failure.kind);
  query.get(texts.failure.message);
  query.get(texts.failure.detail);
  query.get(texts.failure.attempt);
  query.get(texts.failure.node);
  query.get(texts.failure.at);
}

void PostgresTables::read_texts(Number task, tasks::TaskTexts& out) {
  Known* const row = known(task);
  if (row != nullptr && row->texts_known) {
    out = row->texts;
    return;
  }
  out = {};
  Query query(connection_, sql::kReadText);
  if (!query.with(task).next()) return;
  read_texts(query, out);
  if (row == nullptr) return;
  row->texts = out;
  row->texts_known = true;
}

void PostgresTables::put_state(Number task, std::string_view state) {
  Query query(connection_, sql::kPutState);
  write(query).with(task).with(state).send();
  if (Known* const row = known(task)) row->texts.state = state;
}

void PostgresTables::put_result(Number task, std::string_view result) {
  Query query(connection_, sql::kPutResult);
  write(query).with(task).with(result).send();
  if (Known* const row = known(task)) row->texts.result = result;
}

void PostgresTables::put_failure(Number task, const tasks::Failure& failure) {
  Query query(connection_, sql::kPutFailure);
  write(query).with(task).with(std::string_view(failure.kind)).with(std::string_view(failure.message));
  query.with(std::string_view(failure.detail)).with(failure.attempt).with(std::string_view(failure.node));
  query.with(failure.at).send();
  if (Known* const row = known(task)) row->texts.failure = failure;
}

// ---- Edges ----------------------------------------------------------------------------------------------------------

// Whether it was there is not asked for: that would be a way to the server for each of a million.
bool PostgresTables::add_edge(Number waiter, Number target) {
  edges_ = Any::some;
  Query query(connection_, sql::kAddEdge);
  write(query).with(waiter).with(target).send();
  return true;
}

void PostgresTables::targets_of(Number waiter, std::vector<Number>& out) {
  if (!any(edges_, sql::kAnyEdge)) return;
  Query query(connection_, sql::kTargetsOf);
  query.with(waiter);
  while (query.next()) out.push_back(query.number());
}

void PostgresTables::waiters_of(Number target, std::vector<Number>& out) {
  if (!any(edges_, sql::kAnyEdge)) return;
  Query query(connection_, sql::kWaitersOf);
  query.with(target);
  while (query.next()) out.push_back(query.number());
}

void PostgresTables::remove_edges_from(Number waiter) {
  edges_ = Any::unknown;
  Query query(connection_, sql::kRemoveEdgesFrom);
  write(query).with(waiter).send();
}

void PostgresTables::remove_edges_to(Number target) {
  edges_ = Any::unknown;
  Query query(connection_, sql::kRemoveEdgesTo);
  write(query).with(target).send();
}

// Asked once, and again after a change: most stores have none of them most of the time.
bool PostgresTables::any(Any& known, const Sql& sql) {
  if (known == Any::unknown) {
    Query query(connection_, sql);
    known = query.next() ? Any::some : Any::none;
  }
  return known == Any::some;
}

// ---- Mailboxes ------------------------------------------------------------------------------------------------------

void PostgresTables::add_message(Number task, tasks::Message& message) {
  message.number = next_number("last_message");
  {
    Query query(connection_, sql::kAddMessage);
    write(query).with(task).with(message.number).with(message.from).with(message.at).with(message.bound_fence);
    query.with(message.deliveries).with(std::string_view(message.key)).with(std::string_view(message.payload)).send();
  }
  if (message.key.empty()) return;
  Query(connection_, sql::kAddMessageKey).with(task).with(std::string_view(message.key)).send();
}

bool PostgresTables::has_message_key(Number task, std::string_view key) {
  Query query(connection_, sql::kHasMessageKey);
  return query.with(task).with(key).next();
}

void PostgresTables::messages(Number task, bool unbound_only, size_t most, std::vector<tasks::Message>& out) {
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

void PostgresTables::bind_message(Number task, int64_t number, uint64_t fence) {
  Query query(connection_, sql::kBindMessage);
  write(query).with(task).with(number).with(fence).send();
}

void PostgresTables::unbind_messages(Number task) {
  Query query(connection_, sql::kUnbindMessages);
  write(query).with(task).send();
}

std::pair<int64_t, int64_t> PostgresTables::remove_bound_messages(Number task, uint64_t fence) {
  Query query(connection_, sql::kRemoveBound);
  if (!write(query).with(task).with(fence).next()) return {0, 0};
  const int64_t count = query.number();
  return {count, query.number()};
}

// ---- Steps, keys, shared values, locks ------------------------------------------------------------------------------

bool PostgresTables::find_step(Number task, std::string_view name, std::string& out) {
  Query query(connection_, sql::kFindStep);
  if (!query.with(task).with(name).next()) return false;
  query.get(out);
  return true;
}

void PostgresTables::add_step(Number task, std::string_view name, std::string_view value) {
  Query query(connection_, sql::kAddStep);
  write(query).with(task).with(name).with(value).send();
}

Number PostgresTables::find_key(tasks::KeyScope scope, int64_t owner, std::string_view key) {
  Query query(connection_, sql::kFindKey);
  return query.with(scope).with(owner).with(key).next() ? query.number() : 0;
}

void PostgresTables::add_key(tasks::KeyScope scope, int64_t owner, std::string_view key, Number task) {
  Query query(connection_, sql::kAddKey);
  write(query).with(scope).with(owner).with(key).with(task).send();
}

void PostgresTables::remove_keys_of(Number task) {
  Query query(connection_, sql::kRemoveKeysOf);
  write(query).with(task).send();
}

bool PostgresTables::find_shared(std::string_view scope, std::string_view key, std::string& out) {
  Query query(connection_, sql::kFindShared);
  if (!query.with(scope).with(key).next()) return false;
  query.get(out);
  return true;
}

void PostgresTables::put_shared(std::string_view scope, std::string_view key, std::string_view value) {
  Query query(connection_, sql::kPutShared);
  write(query).with(scope).with(key).with(value).send();
}

void PostgresTables::all_shared(std::string_view scope, std::vector<std::pair<std::string, std::string>>& out) {
  Query query(connection_, sql::kAllShared);
  query.with(scope);
  while (query.next()) {
    auto& [key, value] = out.emplace_back();
    query.get(key);
    query.get(value);
  }
}

uint64_t PostgresTables::clear_shared(std::string_view scope) {
  Query query(connection_, sql::kClearShared);
  return write(query).with(scope).change();
}

bool PostgresTables::find_lock(std::string_view name, tasks::LockRow& out) {
  Query query(connection_, sql::kFindLock);
  if (!query.with(name).next()) return false;
  query.get(out.fence);
  query.get(out.token);
  query.get(out.expires_at);
  return true;
}

void PostgresTables::put_lock(std::string_view name, const tasks::LockRow& row) {
  Query query(connection_, sql::kPutLock);
  write(query).with(name).with(row.fence).with(row.token).with(row.expires_at).send();
}

// ---- Events ---------------------------------------------------------------------------------------------------------

void PostgresTables::add_event(const tasks::Event& event) {
  const int32_t type = find_type(event.type);
  const int64_t sequence = next_number("last_event");
  Query query(connection_, sql::kAddEvent);
  write(query).with(sequence).with(event.at).with(event.task).with(event.kind).with(event.status);
  query.with(event.attempt).with(type).with(std::string_view(event.data)).send();
}

void PostgresTables::events(uint64_t after, size_t most, std::vector<tasks::Event>& out) {
  Query query(connection_, sql::kEvents);
  query.with(std::min<uint64_t>(after, INT64_MAX)).with(bounded(most));
  while (query.next()) {
    tasks::Event& event = out.emplace_back();
    query.get(event.sequence);
    query.get(event.at);
    query.get(event.task);
    query.get(event.kind);
    query.get(event.status);
    query.get(event.attempt);
    query.get(event.type);
    query.get(event.data);
  }
}

uint64_t PostgresTables::remove_events(tasks::Millis before, size_t most) {
  Query query(connection_, sql::kRemoveEvents);
  return write(query).with(before).with(bounded(most)).change();
}

// ---- Nodes, cascades ------------------------------------------------------------------------------------------------

void PostgresTables::read_nodes(Query& query, std::vector<tasks::NodeRow>& out) {
  while (query.next()) {
    tasks::NodeRow& row = out.emplace_back();
    query.get(row.node);
    query.get(row.name);
    query.get(row.instance);
    query.get(row.expires_at);
    query.get(row.dead);
  }
}

// There are few of them, and most requests want one.
const std::vector<tasks::NodeRow>& PostgresTables::all_nodes() {
  if (!nodes_known_) {
    nodes_.clear();
    Query query(connection_, sql::kNodes);
    read_nodes(query, nodes_);
    nodes_known_ = true;
  }
  return nodes_;
}

void PostgresTables::insert_node(tasks::NodeRow& row) {
  row.node = next_number("last_node");
  nodes_known_ = false;
  Query query(connection_, sql::kInsertNode);
  write(query).with(row.node).with(std::string_view(row.name)).with(std::string_view(row.instance));
  query.with(row.expires_at).with(row.dead).send();
}

bool PostgresTables::find_node(int64_t node, tasks::NodeRow& out) {
  for (const tasks::NodeRow& known : all_nodes()) {
    if (known.node != node) continue;
    out = known;
    return true;
  }
  return false;
}

void PostgresTables::update_node(const tasks::NodeRow& row) {
  nodes_known_ = false;
  Query query(connection_, sql::kUpdateNode);
  write(query).with(row.node).with(std::string_view(row.name)).with(std::string_view(row.instance));
  query.with(row.expires_at).with(row.dead).send();
}

void PostgresTables::remove_node(int64_t node) {
  nodes_known_ = false;
  Query query(connection_, sql::kRemoveNode);
  write(query).with(node).send();
}

void PostgresTables::lost_nodes(tasks::Millis now, size_t most, std::vector<tasks::NodeRow>& out) {
  Query query(connection_, sql::kLostNodes);
  query.with(now).with(bounded(most));
  read_nodes(query, out);
}

void PostgresTables::nodes(std::vector<tasks::NodeRow>& out) {
  const std::vector<tasks::NodeRow>& all = all_nodes();
  out.insert(out.end(), all.begin(), all.end());
}

void PostgresTables::put_cascade(Number task, Number after) {
  cascades_ = Any::unknown;
  Query query(connection_, sql::kPutCascade);
  write(query).with(task).with(after).send();
}

void PostgresTables::cascades(size_t most, std::vector<std::pair<Number, Number>>& out) {
  Query query(connection_, sql::kCascades);
  query.with(bounded(most));
  while (query.next()) {
    auto& [task, after] = out.emplace_back();
    query.get(task);
    query.get(after);
  }
}

void PostgresTables::remove_cascade(Number task) {
  cascades_ = Any::unknown;
  Query query(connection_, sql::kRemoveCascade);
  write(query).with(task).send();
}

bool PostgresTables::any_cascade() { return any(cascades_, sql::kAnyCascade); }

}  // namespace nocter::stores::postgres
