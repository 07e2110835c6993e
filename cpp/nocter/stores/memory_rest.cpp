// What belongs to tasks: texts, edges, messages, steps, keys. And what stands beside them: shared values, locks, events, nodes, counters.
#include <algorithm>

#include "nocter/stores/memory_tables.hpp"

namespace nocter::stores {

using tasks::Event;
using tasks::KeyScope;
using tasks::LockRow;
using tasks::Message;
using tasks::Millis;
using tasks::NodeRow;

// ---- Texts ----------------------------------------------------------------------------------------------------------

void MemoryTables::read_texts(Number task, tasks::TaskTexts& out) { out = held(task).texts; }

void MemoryTables::put_state(Number task, std::string_view state) {
  assign(log_, held(task).texts.state, std::string(state));
}

void MemoryTables::put_result(Number task, std::string_view result) {
  assign(log_, held(task).texts.result, std::string(result));
}

void MemoryTables::put_failure(Number task, const tasks::Failure& failure) {
  assign(log_, held(task).texts.failure, failure);
}

// ---- Edges ----------------------------------------------------------------------------------------------------------

bool MemoryTables::add_edge(Number waiter, Number target) {
  return add(log_, targets_, {waiter, target}) && add(log_, waiters_, {target, waiter});
}

void MemoryTables::targets_of(Number waiter, std::vector<Number>& out) {
  for (auto at = targets_.lower_bound({waiter, 0}); at != targets_.end() && at->first == waiter; ++at)
    out.push_back(at->second);
}

void MemoryTables::waiters_of(Number target, std::vector<Number>& out) {
  for (auto at = waiters_.lower_bound({target, 0}); at != waiters_.end() && at->first == target; ++at)
    out.push_back(at->second);
}

void MemoryTables::remove_edges(Edges& there, Edges& back, Number of) {
  for (auto at = there.lower_bound({of, 0}); at != there.end() && at->first == of;) {
    if (const auto other = back.find({at->second, of}); other != back.end()) take_out(log_, back, other);
    take_out(log_, there, at++);
  }
}

void MemoryTables::remove_edges_from(Number waiter) { remove_edges(targets_, waiters_, waiter); }
void MemoryTables::remove_edges_to(Number target) { remove_edges(waiters_, targets_, target); }

// ---- Mailboxes ------------------------------------------------------------------------------------------------------

void MemoryTables::add_message(Number task, Message& message) {
  HeldTask& to = held(task);
  message.number = ++last_message_;
  if (!message.key.empty()) add(log_, to.message_keys, message.key);
  put(log_, to.mailbox, message.number, message);
}

bool MemoryTables::has_message_key(Number task, std::string_view key) {
  const HeldTask& to = held(task);
  return to.message_keys.find(key) != to.message_keys.end();
}

void MemoryTables::messages(Number task, bool unbound_only, size_t most, std::vector<Message>& out) {
  for (const auto& [number, message] : held(task).mailbox) {
    if (most == 0) return;
    if (unbound_only && message.bound_fence != 0) continue;
    out.push_back(message);
    most--;
  }
}

void MemoryTables::bind_message(Number task, int64_t number, uint64_t fence) {
  const auto found = held(task).mailbox.find(number);
  if (found == held(task).mailbox.end()) return;
  assign(log_, found->second.bound_fence, fence);
  assign(log_, found->second.deliveries, found->second.deliveries + 1);
}

void MemoryTables::unbind_messages(Number task) {
  for (auto& [number, message] : held(task).mailbox) {
    if (message.bound_fence != 0) assign(log_, message.bound_fence, uint64_t{0});
  }
}

std::pair<int64_t, int64_t> MemoryTables::remove_bound_messages(Number task, uint64_t fence) {
  auto& mailbox = held(task).mailbox;
  int64_t count = 0, bytes = 0;
  for (auto at = mailbox.begin(); at != mailbox.end();) {
    const auto here = at++;
    if (here->second.bound_fence != fence) continue;
    count++;
    bytes += static_cast<int64_t>(here->second.payload.size());
    take_out(log_, mailbox, here);
  }
  return {count, bytes};
}

// ---- Steps, keys ----------------------------------------------------------------------------------------------------

bool MemoryTables::find_step(Number task, std::string_view name, std::string& out) {
  const auto& steps = held(task).steps;
  const auto found = steps.find(name);
  if (found == steps.end()) return false;
  out = found->second;
  return true;
}

void MemoryTables::add_step(Number task, std::string_view name, std::string_view value) {
  put(log_, held(task).steps, name, std::string(value));
}

Number MemoryTables::find_key(KeyScope scope, int64_t owner, std::string_view key) {
  const auto found = keys_.find(Keys::key_type(scope, owner, key));
  return found == keys_.end() ? 0 : found->second;
}

void MemoryTables::add_key(KeyScope scope, int64_t owner, std::string_view key, Number task) {
  const Keys::key_type whole(scope, owner, key);
  put(log_, keys_, whole, task);
  put(log_, keys_of_, task, whole);
}

void MemoryTables::remove_keys_of(Number task) {
  const auto found = keys_of_.find(task);
  if (found == keys_of_.end()) return;
  if (const auto key = keys_.find(found->second); key != keys_.end()) take_out(log_, keys_, key);
  take_out(log_, keys_of_, found);
}

// ---- Shared values, locks -------------------------------------------------------------------------------------------

bool MemoryTables::find_shared(std::string_view scope, std::string_view key, std::string& out) {
  const auto values = shared_.find(scope);
  if (values == shared_.end()) return false;
  const auto found = values->second.find(key);
  if (found == values->second.end()) return false;
  out = found->second;
  return true;
}

void MemoryTables::put_shared(std::string_view scope, std::string_view key, std::string_view value) {
  if (shared_.find(scope) == shared_.end()) put(log_, shared_, scope, Texts{});
  put(log_, shared_.find(scope)->second, key, std::string(value));
}

void MemoryTables::all_shared(std::string_view scope, std::vector<std::pair<std::string, std::string>>& out) {
  const auto values = shared_.find(scope);
  if (values != shared_.end()) out.insert(out.end(), values->second.begin(), values->second.end());
}

uint64_t MemoryTables::clear_shared(std::string_view scope) {
  const auto values = shared_.find(scope);
  if (values == shared_.end()) return 0;
  const uint64_t removed = values->second.size();
  take_out(log_, shared_, values);
  return removed;
}

bool MemoryTables::find_lock(std::string_view name, LockRow& out) {
  const auto found = locks_.find(name);
  if (found == locks_.end()) return false;
  out = found->second;
  return true;
}

void MemoryTables::put_lock(std::string_view name, const LockRow& row) { put(log_, locks_, name, row); }

// ---- Events ---------------------------------------------------------------------------------------------------------

void MemoryTables::add_event(const Event& event) {
  assign(log_, last_event_, last_event_ + 1);
  Event numbered = event;
  numbered.sequence = last_event_;
  put(log_, events_, last_event_, std::move(numbered));
}

void MemoryTables::events(uint64_t after, size_t most, std::vector<Event>& out) {
  for (auto at = events_.upper_bound(after); at != events_.end() && most != 0; ++at, --most) out.push_back(at->second);
}

uint64_t MemoryTables::remove_events(Millis before, size_t most) {
  uint64_t removed = 0;
  while (removed < most && !events_.empty() && events_.begin()->second.at < before) {
    take_out(log_, events_, events_.begin());
    removed++;
  }
  return removed;
}

// ---- Nodes ----------------------------------------------------------------------------------------------------------

void MemoryTables::insert_node(NodeRow& row) {
  row.node = ++last_node_;
  put(log_, nodes_, row.node, row);
}

bool MemoryTables::find_node(int64_t node, NodeRow& out) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return false;
  out = found->second;
  return true;
}

void MemoryTables::update_node(const NodeRow& row) { put(log_, nodes_, row.node, row); }

void MemoryTables::remove_node(int64_t node) {
  if (const auto found = nodes_.find(node); found != nodes_.end()) take_out(log_, nodes_, found);
}

void MemoryTables::nodes(std::vector<NodeRow>& out) {
  for (const auto& [number, node] : nodes_) out.push_back(node);
}

void MemoryTables::lost_nodes(Millis now, size_t most, std::vector<NodeRow>& out) {
  for (const auto& [number, node] : nodes_) {
    if (out.size() >= most) return;
    if (node.dead || node.expires_at <= now) out.push_back(node);
  }
}

// ---- Cascades, counters ---------------------------------------------------------------------------------------------

void MemoryTables::put_cascade(Number task, Number after) { put(log_, cascades_, task, after); }

void MemoryTables::cascades(size_t most, std::vector<std::pair<Number, Number>>& out) {
  for (const auto& [task, after] : cascades_) {
    if (out.size() >= most) return;
    out.emplace_back(task, after);
  }
}

void MemoryTables::remove_cascade(Number task) {
  if (const auto found = cascades_.find(task); found != cascades_.end()) take_out(log_, cascades_, found);
}

int64_t MemoryTables::counter(std::string_view name) {
  const auto found = counters_.find(name);
  return found == counters_.end() ? 0 : found->second;
}

void MemoryTables::set_counter(std::string_view name, int64_t value) { put(log_, counters_, name, value); }

}  // namespace nocter::stores
