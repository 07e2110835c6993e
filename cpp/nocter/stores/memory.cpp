// Transactions, and the tasks themselves.
#include "nocter/stores/memory.hpp"

#include <algorithm>

#include "nocter/stores/memory_tables.hpp"
#include "nocter/tasks/table_store.hpp"

namespace nocter::stores {

using tasks::Filter;
using tasks::Millis;
using tasks::TaskId;

namespace {

// There is but one set of tables: who reads waits for whoever is at them.
class SameForAll final : public tasks::Readers {
 public:
  explicit SameForAll(tasks::Tables& tables) : tables_(tables) {}
  tasks::Tables& borrow() override { return tables_; }
  void give_back(tasks::Tables&) noexcept override {}

 private:
  tasks::Tables& tables_;
};

struct RemovedTask {
  Indexes* indexes;
  std::unique_ptr<HeldTask> task;
  void operator()() noexcept {
    if (task != nullptr) indexes->enter(*task.release());
  }
};

struct InsertedTask {
  Indexes* indexes;
  HeldTask* task;
  void operator()() noexcept {
    indexes->leave(*task);
    delete task;
  }
};

struct ChangedRow {
  Indexes* indexes;
  HeldTask* task;
  TaskRow old;
  void operator()() noexcept { indexes->become(*task, old); }
};

}  // namespace

std::unique_ptr<tasks::Store> open_memory(const tasks::StoreOptions& options) {
  auto tables = std::make_unique<MemoryTables>();
  auto readers = std::make_unique<SameForAll>(*tables);
  return std::make_unique<tasks::TableStore>(std::move(tables), std::move(readers), options);
}

MemoryTables::~MemoryTables() {
  std::vector<HeldTask*> all;
  while (!tasks_.by_number.empty()) {
    HeldTask* task = tasks_.by_number.find(tasks_.by_number.first().number);
    tasks_.leave(*task);
    delete task;
  }
}

// ---- Transactions ---------------------------------------------------------------------------------------------------

void MemoryTables::begin() {
  mutex_.lock();
  writing_ = true;
}

void MemoryTables::commit() {
  log_.forget();
  writing_ = false;
  mutex_.unlock();
}

void MemoryTables::roll_back() noexcept {
  if (!writing_) return;
  log_.roll_back(0);
  writing_ = false;
  mutex_.unlock();
}

// ---- Types ----------------------------------------------------------------------------------------------------------

int32_t MemoryTables::find_type(std::string_view name) {
  const auto found = types_.find(name);
  return found == types_.end() ? 0 : found->second;
}

int32_t MemoryTables::make_type(std::string_view name) {
  const int32_t number = type_names_.empty() ? 1 : type_names_.rbegin()->first + 1;
  put(log_, types_, name, number);
  put(log_, type_names_, number, std::string(name));
  return number;
}

std::string MemoryTables::type_name(int32_t type) {
  const auto found = type_names_.find(type);
  return found == type_names_.end() ? std::string() : found->second;
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

HeldTask& MemoryTables::held(Number number) {
  HeldTask* task = tasks_.by_number.find(number);
  if (task == nullptr) throw tasks::StoreError(Status::store, "there is no task number " + std::to_string(number));
  return *task;
}

bool MemoryTables::find_task(const TaskId& id, TaskRow& out) {
  const HeldTask* task = tasks_.by_id.find(id.bytes);
  if (task == nullptr) return false;
  out = task->row;
  return true;
}

bool MemoryTables::load_task(Number number, TaskRow& out) {
  const HeldTask* task = tasks_.by_number.find(number);
  if (task == nullptr) return false;
  out = task->row;
  return true;
}

void MemoryTables::insert_task(TaskRow& row, std::string_view payload, std::string_view key) {
  row.number = ++last_number_;
  if (row.parent == 0) row.root = row.number;
  auto task = std::make_unique<HeldTask>();
  task->row = row;
  task->texts.payload = payload;
  task->texts.key = key;
  log_.note(InsertedTask{&tasks_, task.get()});
  tasks_.enter(*task.release());
}

void MemoryTables::update_task(const TaskRow& row) {
  HeldTask& task = held(row.number);
  log_.note(ChangedRow{&tasks_, &task, task.row});
  tasks_.become(task, row);
}

void MemoryTables::remove_task(const TaskRow& row) {
  HeldTask& task = held(row.number);
  remove_keys_of(row.number);
  remove_edges_from(row.number);
  remove_edges_to(row.number);
  RemovedTask& removed = log_.note(RemovedTask{&tasks_, nullptr});
  tasks_.leave(task);
  removed.task.reset(&task);
}

// ---- Look-ups by index ----------------------------------------------------------------------------------------------

void MemoryTables::ready(int32_t type, size_t most, std::vector<TaskRow>& out) {
  tasks_.ready_of_type.walk({type, INT64_MIN, 0}, [&](const HeldTask& task) {
    if (task.row.type != type || most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  });
}

void MemoryTables::ready_of_every_type(size_t most, std::vector<TaskRow>& out) {
  tasks_.ready.walk({INT64_MIN, 0}, [&](const HeldTask& task) {
    if (most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  });
}

void MemoryTables::due(Millis now, size_t most, std::vector<TaskRow>& out) {
  tasks_.due.walk({INT64_MIN, 0}, [&](const HeldTask& task) {
    if (task.row.due_at > now || most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  });
}

Millis MemoryTables::next_due() { return tasks_.due.empty() ? kNever : tasks_.due.first().due_at; }

void MemoryTables::running_on(int64_t node, size_t most, std::vector<TaskRow>& out) {
  tasks_.running.walk({node, 0, 0}, [&](const HeldTask& task) {
    if (task.row.node != node || most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  });
}

void MemoryTables::claimed_as(int64_t node, uint64_t claim, std::vector<TaskRow>& out) {
  tasks_.running.walk({node, claim, 0}, [&](const HeldTask& task) {
    if (task.row.node != node || task.row.claim != claim) return false;
    out.push_back(task.row);
    return true;
  });
}

void MemoryTables::children(Number parent, Number after, bool open_only, size_t most, std::vector<TaskRow>& out) {
  const auto take = [&](const HeldTask& task) {
    if (task.row.parent != parent || most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  };
  if (open_only) {
    tasks_.open_children.walk({parent, after + 1}, take);
  } else {
    tasks_.children.walk({parent, after + 1}, take);
  }
}

void MemoryTables::last_members(Number root, size_t most, std::vector<TaskRow>& out) {
  tasks_.members.walk_back({root + 1, 0}, [&](const HeldTask& task) {
    if (task.row.root != root || most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  });
}

void MemoryTables::ended_trees(Millis before, size_t most, std::vector<TaskRow>& out) {
  tasks_.ended_trees.walk({INT64_MIN, 0}, [&](const HeldTask& task) {
    if (task.row.tree_ended_at >= before || most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  });
}

void MemoryTables::forgotten(size_t most, std::vector<TaskRow>& out) {
  tasks_.forgotten.walk(0, [&](const HeldTask& task) {
    if (most == 0) return false;
    out.push_back(task.row);
    return --most != 0;
  });
}

void MemoryTables::list(const Filter& filter, std::vector<TaskRow>& out) {
  const int32_t type = filter.type.empty() ? 0 : find_type(filter.type);
  if (!filter.type.empty() && type == 0) return;
  const auto number_of = [this](const TaskId& id) {
    const HeldTask* task = id.none() ? nullptr : tasks_.by_id.find(id.bytes);
    return task == nullptr ? 0 : task->row.number;
  };
  const Number parent = number_of(filter.parent), root = number_of(filter.root);
  if ((parent == 0 && !filter.parent.none()) || (root == 0 && !filter.root.none())) return;
  const auto wanted = [&](const TaskRow& row) {
    return (type == 0 || row.type == type) && (!filter.status || status_of(row.phase) == *filter.status) &&
           (parent == 0 || row.parent == parent) && (root == 0 || row.root == root) &&
           (!filter.roots_only || row.parent == 0) && row.created_at < filter.created_before &&
           (filter.after.none() || row.id > filter.after);
  };
  const size_t first = out.size();
  if (parent != 0 || root != 0) {
    // Of one family: few, and not in the order of ids.
    const auto take = [&](const HeldTask& task) {
      if (parent != 0 ? task.row.parent != parent : task.row.root != root) return false;
      if (wanted(task.row)) out.push_back(task.row);
      return true;
    };
    if (parent != 0) {
      tasks_.children.walk({parent, 0}, take);
    } else {
      tasks_.members.walk({root, 0}, take);
    }
    std::sort(out.begin() + static_cast<ptrdiff_t>(first), out.end(),
              [](const TaskRow& a, const TaskRow& b) { return a.id < b.id; });
    if (out.size() - first > filter.most) out.resize(first + filter.most);
    return;
  }
  const auto take = [&](const HeldTask& task) {
    if (out.size() - first >= filter.most || (filter.status && status_of(task.row.phase) != *filter.status))
      return false;
    if (wanted(task.row)) out.push_back(task.row);
    return true;
  };
  if (filter.status) {
    tasks_.by_status.walk({*filter.status, filter.after.bytes}, take);
  } else {
    tasks_.by_id.walk(filter.after.bytes, take);
  }
}

void MemoryTables::count(tasks::Counts& out) {
  for (int phase = static_cast<int>(Phase::ready); phase <= static_cast<int>(Phase::cancelled); phase++) {
    out.by_status[static_cast<int>(status_of(static_cast<Phase>(phase)))] += tasks_.counts[phase];
    out.tasks += tasks_.counts[phase];
  }
  out.ready = tasks_.counts[static_cast<int>(Phase::ready)];
  out.delayed = tasks_.counts[static_cast<int>(Phase::delayed)];
  if (!tasks_.oldest_ready.empty()) out.oldest_ready = tasks_.oldest_ready.first().created_at;
}

}  // namespace nocter::stores
