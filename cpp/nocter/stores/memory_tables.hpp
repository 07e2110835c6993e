// The tables in memory: one lock around a transaction or a read, and a log that undoes what a failed one did.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nocter/base/monitor.hpp"
#include "nocter/stores/memory_index.hpp"
#include "nocter/stores/memory_undo.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::stores {

class MemoryTables final : public tasks::Tables {
 public:
  MemoryTables() = default;
  ~MemoryTables() override;

  void begin() override;
  void commit() override;
  void roll_back() noexcept override;
  void mark() override { mark_ = log_.size(); }
  void back_to_mark() override { log_.roll_back(mark_); }
  void drop_mark() override {}
  void begin_read() override { mutex_.lock(); }
  void end_read() noexcept override { mutex_.unlock(); }

  int32_t find_type(std::string_view name) override;
  int32_t make_type(std::string_view name) override;
  std::string type_name(int32_t type) override;

  bool find_task(const tasks::TaskId& id, TaskRow& out) override;
  bool load_task(Number number, TaskRow& out) override;
  void insert_task(TaskRow& row, std::string_view payload, std::string_view key) override;
  void update_task(const TaskRow& row) override;
  void remove_task(const TaskRow& row) override;

  void ready(int32_t type, size_t most, std::vector<TaskRow>& out) override;
  void ready_of_every_type(size_t most, std::vector<TaskRow>& out) override;
  void due(tasks::Millis now, size_t most, std::vector<TaskRow>& out) override;
  tasks::Millis next_due() override;
  void running_on(int64_t node, size_t most, std::vector<TaskRow>& out) override;
  void claimed_as(int64_t node, uint64_t claim, std::vector<TaskRow>& out) override;
  void children(Number parent, Number after, bool open_only, size_t most, std::vector<TaskRow>& out) override;
  void last_members(Number root, size_t most, std::vector<TaskRow>& out) override;
  void ended_trees(tasks::Millis before, size_t most, std::vector<TaskRow>& out) override;
  void list(const tasks::Filter& filter, std::vector<TaskRow>& out) override;
  void forgotten(size_t most, std::vector<TaskRow>& out) override;

  void read_texts(Number task, tasks::TaskTexts& out) override;
  void put_state(Number task, std::string_view state) override;
  void put_result(Number task, std::string_view result) override;
  void put_failure(Number task, const tasks::Failure& failure) override;

  bool add_edge(Number waiter, Number target) override;
  void targets_of(Number waiter, std::vector<Number>& out) override;
  void waiters_of(Number target, std::vector<Number>& out) override;
  void remove_edges_from(Number waiter) override;
  void remove_edges_to(Number target) override;

  void add_message(Number task, tasks::Message& message) override;
  bool has_message_key(Number task, std::string_view key) override;
  void messages(Number task, bool unbound_only, size_t most, std::vector<tasks::Message>& out) override;
  void bind_message(Number task, int64_t number, uint64_t fence) override;
  void unbind_messages(Number task) override;
  std::pair<int64_t, int64_t> remove_bound_messages(Number task, uint64_t fence) override;

  bool find_step(Number task, std::string_view name, std::string& out) override;
  void add_step(Number task, std::string_view name, std::string_view value) override;

  Number find_key(tasks::KeyScope scope, int64_t owner, std::string_view key) override;
  void add_key(tasks::KeyScope scope, int64_t owner, std::string_view key, Number task) override;
  void remove_keys_of(Number task) override;

  bool find_shared(std::string_view scope, std::string_view key, std::string& out) override;
  void put_shared(std::string_view scope, std::string_view key, std::string_view value) override;
  void all_shared(std::string_view scope, std::vector<std::pair<std::string, std::string>>& out) override;
  uint64_t clear_shared(std::string_view scope) override;

  bool find_lock(std::string_view name, tasks::LockRow& out) override;
  void put_lock(std::string_view name, const tasks::LockRow& row) override;

  void add_event(const tasks::Event& event) override;
  void events(uint64_t after, size_t most, std::vector<tasks::Event>& out) override;
  uint64_t remove_events(tasks::Millis before, size_t most) override;

  void insert_node(tasks::NodeRow& row) override;
  bool find_node(int64_t node, tasks::NodeRow& out) override;
  void update_node(const tasks::NodeRow& row) override;
  void remove_node(int64_t node) override;
  void nodes(std::vector<tasks::NodeRow>& out) override;
  void lost_nodes(tasks::Millis now, size_t most, std::vector<tasks::NodeRow>& out) override;

  void put_cascade(Number task, Number after) override;
  void cascades(size_t most, std::vector<std::pair<Number, Number>>& out) override;
  void remove_cascade(Number task) override;
  bool any_cascade() override { return !cascades_.empty(); }

  int64_t counter(std::string_view name) override;
  void set_counter(std::string_view name, int64_t value) override;
  void count(tasks::Counts& out) override;

 private:
  using Edges = std::set<std::pair<Number, Number>>;
  using Keys = std::map<std::tuple<tasks::KeyScope, int64_t, std::string>, Number>;
  using KeysOf = std::map<Number, std::tuple<tasks::KeyScope, int64_t, std::string>>;  // a task has one at most
  using Texts = std::map<std::string, std::string, std::less<>>;

  HeldTask& held(Number number);
  void remove_edges(Edges& there, Edges& back, Number of);

  base::Mutex mutex_;
  bool writing_ = false;
  UndoLog log_;
  size_t mark_ = 0;

  Indexes tasks_;
  Number last_number_ = 0;
  int64_t last_message_ = 0;
  int64_t last_node_ = 0;
  uint64_t last_event_ = 0;
  std::map<std::string, int32_t, std::less<>> types_;
  std::map<int32_t, std::string> type_names_;
  Edges targets_, waiters_;  // (waiter, target), (target, waiter)
  Keys keys_;
  KeysOf keys_of_;
  std::map<std::string, Texts, std::less<>> shared_;
  std::map<std::string, tasks::LockRow, std::less<>> locks_;
  std::map<uint64_t, tasks::Event> events_;
  std::map<int64_t, tasks::NodeRow> nodes_;
  std::map<Number, Number> cascades_;
  std::map<std::string, int64_t, std::less<>> counters_;
};

}  // namespace nocter::stores
