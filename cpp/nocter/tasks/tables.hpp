// The tables under a store that has one writer at a time (memory, SQLite), and what the rules ask of them: each call is one lookup or one
// change, none of them decides anything. The ledger makes the rules of them; reads.cpp the reads.
//
// Every change belongs to a transaction. What goes wrong below (no memory, a disk that is full) is thrown as std::bad_alloc or StoreError and
// ends the transaction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nocter/base/status.hpp"
#include "nocter/tasks/model.hpp"
#include "nocter/tasks/store.hpp"

namespace nocter::tasks {

class StoreError : public std::runtime_error {
 public:
  StoreError(Status why, const std::string& what) : std::runtime_error(what), status(why) {}
  const Status status;  // `store`, `unavailable`, `version`; `argument` of what is to be opened
};

struct NodeRow {
  int64_t node = 0;
  std::string name, instance;
  Millis expires_at = 0;
  bool dead = false;
};

struct LockRow {
  uint64_t fence = 0;  // stays when the lock is released: fences of one name rise for ever
  uint64_t token = 0;  // 0: free
  Millis expires_at = 0;
};

class Tables {
 public:
  virtual ~Tables() = default;
  Tables() = default;
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // ---- The transaction. Inside it, one mark at a time, to which the tables can be set back.
  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void roll_back() noexcept = 0;
  virtual void mark() = 0;
  virtual void back_to_mark() = 0;
  virtual void drop_mark() = 0;
  // Reads belong together between these two: they see one moment.
  virtual void begin_read() = 0;
  virtual void end_read() noexcept = 0;

  // ---- Names of types. find: 0 when there is none.
  virtual int32_t find_type(std::string_view name) = 0;
  virtual int32_t make_type(std::string_view name) = 0;
  virtual std::string type_name(int32_t type) = 0;

  // ---- Rows
  virtual bool find_task(const TaskId& id, TaskRow& out) = 0;
  virtual bool load_task(Number number, TaskRow& out) = 0;
  // Gives it its number; a root's root is then its own number. Payload and key never change.
  virtual void insert_task(TaskRow& row, std::string_view payload, std::string_view key) = 0;
  virtual void update_task(const TaskRow& row) = 0;
  // The row, and its texts, messages, steps, keys and edges.
  virtual void remove_task(const TaskRow& row) = 0;

  // ---- Lookups by index. Each gives at most `most`, appended to `out`.
  // Ready ones of one type, priority descending, then number ascending.
  virtual void ready(int32_t type, size_t most, std::vector<TaskRow>& out) = 0;
  virtual void ready_of_every_type(size_t most, std::vector<TaskRow>& out) = 0;
  // Delayed or suspended ones with due_at <= now, the earliest first.
  virtual void due(Millis now, size_t most, std::vector<TaskRow>& out) = 0;
  virtual Millis next_due() = 0;  // the earliest due_at of them; kNever
  virtual void running_on(int64_t node, size_t most, std::vector<TaskRow>& out) = 0;
  // Running ones that this node claimed with this claim number.
  virtual void claimed_as(int64_t node, uint64_t claim, std::vector<TaskRow>& out) = 0;
  virtual void children(Number parent, Number after, bool open_only, size_t most, std::vector<TaskRow>& out) = 0;
  virtual void last_members(Number root, size_t most, std::vector<TaskRow>& out) = 0;   // of a tree, the youngest first
  virtual void ended_trees(Millis before, size_t most, std::vector<TaskRow>& out) = 0;  // roots: tree_ended_at < before
  virtual void list(const Filter& filter, std::vector<TaskRow>& out) = 0;               // in the order of ids
  // Suspended ones that wait for nothing: need <= 0 with until tasks or children, or a mailbox that is not empty. There should be none.
  virtual void forgotten(size_t most, std::vector<TaskRow>& out) = 0;

  // ---- Texts
  virtual void read_texts(Number task, TaskTexts& out) = 0;
  virtual void put_state(Number task, std::string_view state) = 0;
  virtual void put_result(Number task, std::string_view result) = 0;
  virtual void put_failure(Number task, const Failure& failure) = 0;

  // ---- Edges: `waiter` waits for `target`. add: false when it was there.
  virtual bool add_edge(Number waiter, Number target) = 0;
  virtual void targets_of(Number waiter, std::vector<Number>& out) = 0;
  virtual void waiters_of(Number target, std::vector<Number>& out) = 0;
  virtual void remove_edges_from(Number waiter) = 0;
  virtual void remove_edges_to(Number target) = 0;

  // ---- Mailboxes
  virtual void add_message(Number task, Message& message) = 0;  // gives it its number
  // Whether any message with this key was ever added: the keys of delivered ones stay until the task is removed.
  virtual bool has_message_key(Number task, std::string_view key) = 0;
  virtual void messages(Number task, bool unbound_only, size_t most, std::vector<Message>& out) = 0;  // oldest first
  virtual void bind_message(Number task, int64_t number, uint64_t fence) = 0;  // and one more delivery
  virtual void unbind_messages(Number task) = 0;
  // Takes away what is bound to this claim; how many and how many bytes.
  virtual std::pair<int64_t, int64_t> remove_bound_messages(Number task, uint64_t fence) = 0;

  // ---- Steps
  virtual bool find_step(Number task, std::string_view name, std::string& out) = 0;
  virtual void add_step(Number task, std::string_view name, std::string_view value) = 0;

  // ---- Keys. `owner`: the type's, the parent's or the root's number. 0: nobody has it.
  virtual Number find_key(KeyScope scope, int64_t owner, std::string_view key) = 0;
  virtual void add_key(KeyScope scope, int64_t owner, std::string_view key, Number task) = 0;
  virtual void remove_keys_of(Number task) = 0;

  // ---- Shared values
  virtual bool find_shared(std::string_view scope, std::string_view key, std::string& out) = 0;
  virtual void put_shared(std::string_view scope, std::string_view key, std::string_view value) = 0;
  virtual void all_shared(std::string_view scope, std::vector<std::pair<std::string, std::string>>& out) = 0;
  virtual uint64_t clear_shared(std::string_view scope) = 0;

  // ---- Locks
  virtual bool find_lock(std::string_view name, LockRow& out) = 0;
  virtual void put_lock(std::string_view name, const LockRow& row) = 0;

  // ---- Events
  virtual void add_event(const Event& event) = 0;  // its sequence is the next one: without gaps
  virtual void events(uint64_t after, size_t most, std::vector<Event>& out) = 0;
  virtual uint64_t remove_events(Millis before, size_t most) = 0;

  // ---- Nodes
  virtual void insert_node(NodeRow& row) = 0;  // gives it its number
  virtual bool find_node(int64_t node, NodeRow& out) = 0;
  virtual void update_node(const NodeRow& row) = 0;
  virtual void remove_node(int64_t node) = 0;
  virtual void nodes(std::vector<NodeRow>& out) = 0;  // all of them
  // Those that are dead, or whose lease has ended: expires_at <= now.
  virtual void lost_nodes(Millis now, size_t most, std::vector<NodeRow>& out) = 0;

  // ---- Cancels that have not reached all of their tree: tasks whose children with a number above `after` must still be told.
  virtual void put_cascade(Number task, Number after) = 0;  // a new one, or another `after`
  virtual void cascades(size_t most, std::vector<std::pair<Number, Number>>& out) = 0;
  virtual void remove_cascade(Number task) = 0;
  virtual bool any_cascade() = 0;

  // ---- Counters that outlive the process: "rescues", "repairs", "purged", "clock".
  virtual int64_t counter(std::string_view name) = 0;
  virtual void set_counter(std::string_view name, int64_t value) = 0;
  virtual void count(Counts& out) = 0;  // by_status, ready, delayed, oldest_ready, tasks
};

}  // namespace nocter::tasks
