// The tables of durable tasks in a SQLite database, over one connection. The schema is in sqlite.sql, the statements in sqlite_statements.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nocter/base/handle.hpp"
#include "nocter/stores/sqlite_connection.hpp"
#include "nocter/stores/sqlite_file.hpp"
#include "nocter/stores/sqlite_presence.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::stores {

// What all connections of one store have in common.
struct SqliteShared {
  SqliteShared(std::string whole_path, bool full, const SqliteTuning& how)
      : path(std::move(whole_path)), full_synchronous(full), tuning(how), presence(path) {}

  // Throws when the file is no longer the one that was opened, or when this process is a fork of the one that opened it.
  void check_file();
  void check_process() const;

  const std::string path;
  const bool full_synchronous;
  const SqliteTuning tuning;
  Presence presence;
  FileIdentity identity;
  const uint32_t generation = base::fork_generation();
  base::Atomic<int64_t> look_again_at{0};  // when the file is looked at next
  base::Atomic<uint64_t> commits{0};       // of this process
  base::Atomic<uint64_t> others{0};        // moves when it is seen that another process has committed
};

class SqliteTables final : public tasks::Tables {
 public:
  SqliteTables(std::shared_ptr<SqliteShared> shared, Connection::Use use);

  Connection& connection() { return connection_; }
  const std::shared_ptr<SqliteShared>& shared() const { return shared_; }
  // Outside of a transaction: what another process has committed is noticed now, and not with the next transaction.
  void look_around();

  void begin() override;
  void commit() override;
  void roll_back() noexcept override;
  void mark() override;
  void back_to_mark() override;
  void drop_mark() override;
  void begin_read() override;
  void end_read() noexcept override;

  int32_t find_type(std::string_view name) override;
  int32_t make_type(std::string_view name) override;
  std::string type_name(int32_t type) override;

  bool find_task(const tasks::TaskId& id, tasks::TaskRow& out) override;
  bool load_task(tasks::Number number, tasks::TaskRow& out) override;
  void insert_task(tasks::TaskRow& row, std::string_view payload, std::string_view key) override;
  void update_task(const tasks::TaskRow& row) override;
  void remove_task(const tasks::TaskRow& row) override;

  void ready(int32_t type, size_t most, std::vector<tasks::TaskRow>& out) override;
  void ready_of_every_type(size_t most, std::vector<tasks::TaskRow>& out) override;
  void due(tasks::Millis now, size_t most, std::vector<tasks::TaskRow>& out) override;
  tasks::Millis next_due() override;
  void running_on(int64_t node, size_t most, std::vector<tasks::TaskRow>& out) override;
  void claimed_as(int64_t node, uint64_t claim, std::vector<tasks::TaskRow>& out) override;
  void children(tasks::Number parent, tasks::Number after, bool open_only, size_t most,
                std::vector<tasks::TaskRow>& out) override;
  void last_members(tasks::Number root, size_t most, std::vector<tasks::TaskRow>& out) override;
  void ended_trees(tasks::Millis before, size_t most, std::vector<tasks::TaskRow>& out) override;
  void list(const tasks::Filter& filter, std::vector<tasks::TaskRow>& out) override;
  void forgotten(size_t most, std::vector<tasks::TaskRow>& out) override;

  void read_texts(tasks::Number task, tasks::TaskTexts& out) override;
  void put_state(tasks::Number task, std::string_view state) override;
  void put_result(tasks::Number task, std::string_view result) override;
  void put_failure(tasks::Number task, const tasks::Failure& failure) override;

  bool add_edge(tasks::Number waiter, tasks::Number target) override;
  void targets_of(tasks::Number waiter, std::vector<tasks::Number>& out) override;
  void waiters_of(tasks::Number target, std::vector<tasks::Number>& out) override;
  void remove_edges_from(tasks::Number waiter) override;
  void remove_edges_to(tasks::Number target) override;

  void add_message(tasks::Number task, tasks::Message& message) override;
  bool has_message_key(tasks::Number task, std::string_view key) override;
  void messages(tasks::Number task, bool unbound_only, size_t most, std::vector<tasks::Message>& out) override;
  void bind_message(tasks::Number task, int64_t number, uint64_t fence) override;
  void unbind_messages(tasks::Number task) override;
  std::pair<int64_t, int64_t> remove_bound_messages(tasks::Number task, uint64_t fence) override;

  bool find_step(tasks::Number task, std::string_view name, std::string& out) override;
  void add_step(tasks::Number task, std::string_view name, std::string_view value) override;

  tasks::Number find_key(tasks::KeyScope scope, int64_t owner, std::string_view key) override;
  void add_key(tasks::KeyScope scope, int64_t owner, std::string_view key, tasks::Number task) override;
  void remove_keys_of(tasks::Number task) override;

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

  void put_cascade(tasks::Number task, tasks::Number after) override;
  void cascades(size_t most, std::vector<std::pair<tasks::Number, tasks::Number>>& out) override;
  void remove_cascade(tasks::Number task) override;
  bool any_cascade() override;

  int64_t counter(std::string_view name) override;
  void set_counter(std::string_view name, int64_t value) override;
  void count(tasks::Counts& out) override;

 private:
  enum class Any { unknown, none, some };
  // The numbers that were given last; below 0 as long as they are not known.
  struct Numbers {
    int64_t task = -1, message = -1, event = -1, node = -1;
    bool message_unsaved = false;
  };
  static constexpr size_t kShort = 512;  // bytes of a payload or a result that lie in the row
  // Which texts of a task lie apart: who looks for none need not look. Failures and states always do, the others when they are long.
  enum Texts : uint32_t { has_payload = 1, has_state = 2, has_result = 4, has_failure = 8 };
  struct Known {
    tasks::TaskRow row;
    uint32_t texts = 0;
    bool texts_unsaved = false, result_unsaved = false;  // they go with the next change of the row, or at the end
    bool short_known = false;                            // the texts that lie in the row are these
    std::string payload{}, key{}, result{};
  };

  // A statement that changes something: it belongs to a transaction, and to the mark if there is one.
  Query write(const Sql& sql);
  int64_t& last(int64_t& number, std::string_view name, const Sql* greatest);
  int64_t& last_task();
  int64_t& last_event();
  void save_numbers();
  uint32_t version();
  bool look_who_wrote();  // whether another connection has committed since the last look
  void forget_all() noexcept;

  // A row as the statement at hand gives it; false for one that no version of ours wrote.
  bool read(Query& query, tasks::TaskRow& row, uint32_t& texts) const;
  void read_all(Query& query, size_t most, std::vector<tasks::TaskRow>& out);
  void read_phase(const Sql& sql, tasks::Phase phase, tasks::Millis until, size_t most,
                  std::vector<tasks::TaskRow>& out);
  [[noreturn]] void poisoned(const tasks::TaskRow& row) const;
  bool next_ready_type(int32_t& type);
  void know(const tasks::TaskRow& row, uint32_t texts);
  Known* known(tasks::Number number);
  bool read_row(tasks::Number number, tasks::TaskRow& out);
  void note_due(tasks::Millis before, tasks::Millis after);
  uint32_t texts_of(tasks::Number task);
  void save_texts();
  void has_text(tasks::Number task, Texts which);
  void note_unsaved(const Known& row);
  bool any(Any& known, const Sql& sql);
  void read_nodes(Query& query, std::vector<tasks::NodeRow>& out);

  const std::shared_ptr<SqliteShared> shared_;
  Connection connection_;

  // ---- What is known of what is in the database; dropped when another connection has written.
  uint32_t version_ = 0;
  bool looked_ = false;  // the version is one that was read
  Numbers last_;
  Any cascades_ = Any::unknown, edges_ = Any::unknown;
  std::unordered_map<tasks::Number, Known> rows_;
  struct IdHash {
    size_t operator()(const tasks::TaskId& id) const;
  };
  std::unordered_map<tasks::TaskId, tasks::Number, IdHash> numbers_;
  std::unordered_map<std::string, int32_t> types_;
  std::vector<tasks::NodeRow> nodes_;
  bool next_due_known_ = false;
  tasks::Millis next_due_ = 0;

  // ---- The transaction
  int64_t changes_before_ = 0;  // rows that the connection had changed when it began
  bool marked_ = false, savepoint_ = false;
  std::vector<tasks::Number> unsaved_texts_;
  std::vector<std::string> joined_, left_;  // instances of nodes: what becomes of their files is settled by its end
};

// The writer's tables of a database that is made, checked or brought up to date first. Throws tasks::StoreError.
std::unique_ptr<SqliteTables> open_sqlite_tables(const std::string& path, bool full_synchronous,
                                                 const SqliteTuning& tuning);

}  // namespace nocter::stores
