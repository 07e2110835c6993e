// The tables of durable tasks in a PostgreSQL database, over one connection. The schema is in postgres.sql, the statements in
// postgres_statements.hpp.
//
// Writers take turns: a transaction that writes first takes one lock of the database, so the ledger finds in it what it finds in any other
// store, and no two of them can meet in an order that deadlocks. What costs time is the way to the server. So a batch says before it begins
// which tasks it names (expect), what it changes is sent with the COMMIT in one burst, and what was read is kept until another process has
// committed something.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nocter/base/handle.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/stores/postgres_connection.hpp"
#include "nocter/tasks/clock.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::stores::postgres {

// The database's clock (D-18), as it was read last, and gone on since then by one that counts while the machine sleeps.
class DatabaseClock final : public tasks::Clock {
 public:
  tasks::Millis now_ms() const override { return base::boot_now_ms() + ahead_.load(); }
  void set(tasks::Millis now) { ahead_.store(now - base::boot_now_ms()); }

 private:
  base::Atomic<int64_t> ahead_{0};
};

// What all connections of one store have in common.
struct Shared {
  Shared(std::string url, const Tuning& how, bool to_disk);
  void check_process() const;  // throws when this process is a fork of the one that opened the store

  const std::shared_ptr<const Target> target;
  const Tuning tuning;
  const bool full;  // commits wait for the disk
  const std::shared_ptr<DatabaseClock> clock = std::make_shared<DatabaseClock>();
  const uint32_t generation = base::fork_generation();
  tasks::TaskId writer;              // random: whose marks are whose
  base::Atomic<int64_t> commits{0};  // of everybody, as far as this process has seen
  base::Atomic<uint64_t> others{0};  // moves when it is seen that another process has committed
  base::Atomic<int32_t> backend{0};  // of the writer's connection: whose notifications are our own
};

class PostgresTables final : public tasks::Tables {
 public:
  enum class Use { writer, reader };
  PostgresTables(std::shared_ptr<Shared> shared, Use use);

  Connection& connection() { return connection_; }
  using ClaimName = std::pair<int64_t, uint64_t>;  // node and number
  // What the batch to come names: asked for with its beginning, in one go.
  struct Expected {
    std::vector<tasks::TaskId> ids;
    std::vector<tasks::Number> numbers;
    std::vector<ClaimName> claims;
    size_t wanted = 0;  // tasks, by all claims together
  };
  void expect(Expected expected);
  bool in_doubt() const {
    return in_doubt_;
  }                         // whether it is not known of a transaction since expect() that it was committed
  void forget_old_marks();  // of writers that are gone for a day

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
  struct Known {
    tasks::TaskRow row;
    bool texts_known = false;
    tasks::TaskTexts texts{};
  };
  struct Counter {
    int64_t value = 0;
    bool changed = false;
  };
  // Those that may be claimed, of one type: all up to `last` in the order of claims, or all there are.
  struct Ready {
    using Key = std::pair<int64_t, tasks::Number>;  // priority, negated
    std::set<Key> order;
    Key last;
    bool whole = false, known = false;
  };
  using Counters = std::map<std::string, Counter, std::less<>>;

  // A statement that changes something: it belongs to a transaction, and to the mark if there is one.
  Query& write(Query& query);
  void begin_turn();  // the beginning of a transaction that writes
  void look();
  void ask_for_expected();
  int64_t next_number(std::string_view name);
  void save_counters();
  bool was_committed(const tasks::TaskId& mark);
  void forget_all() noexcept;

  static void read(Query& query, tasks::TaskRow& row);
  static void read_texts(Query& query, tasks::TaskTexts& texts);
  void read_all(Query& query, std::vector<tasks::TaskRow>& out);
  void know(const tasks::TaskRow& row);
  Known* known(tasks::Number number);
  void note_due(tasks::Millis before, tasks::Millis after);
  void note_ready(const tasks::TaskRow* before, const tasks::TaskRow* after);
  void look_for_ready(int32_t type, size_t most, Ready& there);
  void ask_for_claims();
  bool any(Any& known, const Sql& sql);
  void read_nodes(Query& query, std::vector<tasks::NodeRow>& out);
  const std::vector<tasks::NodeRow>& all_nodes();

  const std::shared_ptr<Shared> shared_;
  Connection connection_;

  // ---- What is known of what is in the database; dropped when another process has written.
  int64_t commits_ = -1;  // of everybody, when what is known was
  Any cascades_ = Any::unknown, edges_ = Any::unknown;
  std::unordered_map<tasks::Number, Known> rows_;
  std::map<tasks::TaskId, tasks::Number> numbers_;
  std::unordered_map<int32_t, Ready> ready_;
  std::unordered_map<std::string, int32_t> types_;
  std::unordered_map<int32_t, std::string> type_names_;
  bool nodes_known_ = false;
  std::vector<tasks::NodeRow> nodes_;
  bool next_due_known_ = false;
  tasks::Millis next_due_ = 0;

  // ---- The transaction
  bool writing_ = false, changed_ = false, in_doubt_ = false;
  bool marked_ = false, savepoint_ = false;
  std::set<tasks::TaskId> absent_;  // there are no tasks of these ids
  Counters counters_, counters_at_mark_;
  std::set<ClaimName> unclaimed_;  // nothing runs by these
  Expected expected_;
};

}  // namespace nocter::stores::postgres
