// What readers get.
#include <algorithm>
#include <string>

#include "nocter/tasks/table_store.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

namespace {

TaskId id_of(Tables& tables, Number number) {
  TaskRow row;
  return number != 0 && tables.load_task(number, row) ? row.id : TaskId{};
}

Answer no_such_task(const TaskId& id) { return {Status::unknown, "there is no task " + to_text(id)}; }

}  // namespace

Record read_record(Tables& tables, const TaskRow& row) {
  Record record;
  record.row = row;
  record.type = tables.type_name(row.type);
  record.root = row.root == row.number ? row.id : id_of(tables, row.root);
  record.parent = row.root == row.parent ? record.root : id_of(tables, row.parent);
  tables.read_texts(row.number, record.texts);
  NodeRow node;
  if (row.node != 0 && tables.find_node(row.node, node)) {
    record.node = node.name;
    if (row.phase == Phase::running) record.lease_until = node.expires_at;
  }
  read_waiting(tables, row, record);
  return record;
}

void read_waiting(Tables& tables, const TaskRow& row, Record& record) {
  if (ended(row.phase)) return;
  if (row.until == Until::tasks) {
    std::vector<Number> targets;
    tables.targets_of(row.number, targets);
    for (const Number target : targets) record.waiting_for.push_back(id_of(tables, target));
    record.waiting_open = row.open;
  } else if (row.until == Until::children) {
    std::vector<TaskRow> open;
    tables.children(row.number, 0, true, kWaitingShown, open);
    for (const TaskRow& child : open) record.waiting_for.push_back(child.id);
    record.waiting_open = row.open_children;
  }
  std::sort(record.waiting_for.begin(), record.waiting_for.end());
}

Answer TableStore::get(const TaskId& id, Record& out) {
  return read([&](Tables& tables) -> Answer {
    TaskRow row;
    if (!tables.find_task(id, row)) return no_such_task(id);
    out = read_record(tables, row);
    return {};
  });
}

Answer TableStore::list(const Filter& filter, std::vector<Record>& out) {
  out.clear();
  return read([&](Tables& tables) -> Answer {
    std::vector<TaskRow> rows;
    tables.list(filter, rows);
    out.reserve(rows.size());
    for (const TaskRow& row : rows) out.push_back(read_record(tables, row));
    return {};
  });
}

Answer TableStore::mail(const TaskId& id, std::vector<Message>& out) {
  out.clear();
  return read([&](Tables& tables) -> Answer {
    TaskRow row;
    if (!tables.find_task(id, row)) return no_such_task(id);
    if (row.mail != 0) tables.messages(row.number, true, SIZE_MAX, out);
    return {};
  });
}

Answer TableStore::step(const Claimed& by, const std::string& name, std::string& out) {
  out.clear();
  return read([&](Tables& tables) -> Answer {
    TaskRow row;
    if (!tables.find_task(by.id, row) || !holds(by, row))
      return {Status::lease_lost, "task " + to_text(by.id) + " is no longer held by this claim"};
    return {tables.find_step(row.number, name, out) ? Status::ok : Status::empty, {}};
  });
}

Answer TableStore::shared(const std::string& scope, const std::string& key, std::string& out) {
  out.clear();
  return read([&](Tables& tables) -> Answer {
    return {tables.find_shared(scope, key, out) ? Status::ok : Status::empty, {}};
  });
}

Answer TableStore::shared_all(const std::string& scope, std::vector<std::pair<std::string, std::string>>& out) {
  out.clear();
  return read([&](Tables& tables) -> Answer {
    tables.all_shared(scope, out);
    return {};
  });
}

Answer TableStore::events(uint64_t after, size_t most, std::vector<Event>& out) {
  out.clear();
  return read([&](Tables& tables) -> Answer {
    tables.events(after, most, out);
    return {};
  });
}

Answer TableStore::count(Counts& out) {
  out = Counts{};
  return read([&](Tables& tables) -> Answer {
    tables.count(out);
    out.rescues = static_cast<uint64_t>(tables.counter("rescues"));
    out.repairs = static_cast<uint64_t>(tables.counter("repairs"));
    out.purged = static_cast<uint64_t>(tables.counter("purged"));
    return {};
  });
}

}  // namespace nocter::tasks
