// Tasks in memory and their indexes. A task is a node of every index that it belongs to, so that moving it needs no memory: what a
// transaction did can be undone whatever happens.
#pragma once

#include <boost/intrusive/set.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "nocter/tasks/model.hpp"

namespace nocter::stores {

using tasks::ended;
using tasks::kNever;
using tasks::Number;
using tasks::Phase;
using tasks::TaskRow;

using Hook = boost::intrusive::set_member_hook<>;

struct HeldTask {
  TaskRow row;
  tasks::TaskTexts texts;
  std::map<int64_t, tasks::Message> mailbox;
  std::set<std::string, std::less<>> message_keys;
  std::map<std::string, std::string, std::less<>> steps;

  Hook by_number, by_id, by_status, ready_of_type, ready, oldest_ready, due, running, children, open_children, members,
      ended_trees, forgotten;
};

// Each: which rows are in the index, and in which order.
struct ByNumber {
  static bool has(const TaskRow&) { return true; }
  static Number key(const TaskRow& row) { return row.number; }
};
struct ById {
  static bool has(const TaskRow&) { return true; }
  static const std::array<uint8_t, 16>& key(const TaskRow& row) { return row.id.bytes; }
};
struct ByStatus {
  static bool has(const TaskRow&) { return true; }
  static auto key(const TaskRow& row) { return std::tuple(status_of(row.phase), row.id.bytes); }
};
struct ReadyOfType {
  static bool has(const TaskRow& row) { return row.phase == Phase::ready; }
  static auto key(const TaskRow& row) { return std::tuple(row.type, -int64_t{row.priority}, row.number); }
};
struct Ready {
  static bool has(const TaskRow& row) { return row.phase == Phase::ready; }
  static auto key(const TaskRow& row) { return std::tuple(-int64_t{row.priority}, row.number); }
};
struct OldestReady {
  static bool has(const TaskRow& row) { return row.phase == Phase::ready; }
  static Number key(const TaskRow& row) { return row.number; }
};
struct Due {
  static bool has(const TaskRow& row) {
    return (row.phase == Phase::delayed || row.phase == Phase::suspended) && row.due_at != kNever;
  }
  static auto key(const TaskRow& row) { return std::tuple(row.due_at, row.number); }
};
struct Running {
  static bool has(const TaskRow& row) { return row.phase == Phase::running; }
  static auto key(const TaskRow& row) { return std::tuple(row.node, row.claim, row.number); }
};
struct Children {
  static bool has(const TaskRow& row) { return row.parent != 0; }
  static auto key(const TaskRow& row) { return std::tuple(row.parent, row.number); }
};
struct OpenChildren {
  static bool has(const TaskRow& row) { return row.parent != 0 && !ended(row.phase); }
  static auto key(const TaskRow& row) { return std::tuple(row.parent, row.number); }
};
struct Members {
  static bool has(const TaskRow&) { return true; }
  static auto key(const TaskRow& row) { return std::tuple(row.root, row.number); }
};
struct EndedTrees {
  static bool has(const TaskRow& row) { return row.parent == 0 && row.tree_ended_at != kNever; }
  static auto key(const TaskRow& row) { return std::tuple(row.tree_ended_at, row.number); }
};
struct Forgotten {
  static bool has(const TaskRow& row) {
    const bool joins = row.until == tasks::Until::tasks || row.until == tasks::Until::children;
    return row.phase == Phase::suspended && (row.mail != 0 || (joins && row.need <= 0));
  }
  static Number key(const TaskRow& row) { return row.number; }
};

template <Hook HeldTask::*kPlace, class Order>
class Index {
 public:
  using Key = std::decay_t<decltype(Order::key(std::declval<const TaskRow&>()))>;

  // Before the row becomes `next`: it leaves the index unless its place there stays the same.
  void before(HeldTask& task, const TaskRow& next) {
    if ((task.*kPlace).is_linked() && (!Order::has(next) || Order::key(task.row) != Order::key(next))) leave(task);
  }
  void after(HeldTask& task) {
    if (!(task.*kPlace).is_linked() && Order::has(task.row)) set_.insert(task);
  }
  void leave(HeldTask& task) {
    if ((task.*kPlace).is_linked()) set_.erase(set_.iterator_to(task));
  }
  void clear() { set_.clear(); }

  bool empty() const { return set_.empty(); }
  const TaskRow& first() const { return set_.begin()->row; }
  HeldTask* find(const Key& key) {
    const auto found = set_.find(key, ByKey{});
    return found == set_.end() ? nullptr : &*found;
  }
  // From the first at or after the key, as long as `take` says so.
  template <class Take>
  void walk(const Key& from, Take&& take) const {
    for (auto at = set_.lower_bound(from, ByKey{}); at != set_.end() && take(*at); ++at) {
    }
  }
  // Backwards, from the last one before the key.
  template <class Take>
  void walk_back(const Key& from, Take&& take) const {
    for (auto at = set_.lower_bound(from, ByKey{}); at != set_.begin() && take(*std::prev(at)); --at) {
    }
  }

 private:
  struct ByKey {
    bool operator()(const HeldTask& a, const HeldTask& b) const { return Order::key(a.row) < Order::key(b.row); }
    bool operator()(const HeldTask& a, const Key& b) const { return Order::key(a.row) < b; }
    bool operator()(const Key& a, const HeldTask& b) const { return a < Order::key(b.row); }
  };
  boost::intrusive::set<HeldTask, boost::intrusive::member_hook<HeldTask, Hook, kPlace>,
                        boost::intrusive::compare<ByKey>, boost::intrusive::constant_time_size<false>>
      set_;
};

// All of them, moved as one.
class Indexes {
 public:
  Index<&HeldTask::by_number, ByNumber> by_number;
  Index<&HeldTask::by_id, ById> by_id;
  Index<&HeldTask::by_status, ByStatus> by_status;
  Index<&HeldTask::ready_of_type, ReadyOfType> ready_of_type;
  Index<&HeldTask::ready, Ready> ready;
  Index<&HeldTask::oldest_ready, OldestReady> oldest_ready;
  Index<&HeldTask::due, Due> due;
  Index<&HeldTask::running, Running> running;
  Index<&HeldTask::children, Children> children;
  Index<&HeldTask::open_children, OpenChildren> open_children;
  Index<&HeldTask::members, Members> members;
  Index<&HeldTask::ended_trees, EndedTrees> ended_trees;
  Index<&HeldTask::forgotten, Forgotten> forgotten;

  uint64_t counts[8] = {};  // at the phase's number

  void enter(HeldTask& task) {
    each([&](auto& index) { index.after(task); });
    counts[static_cast<int>(task.row.phase)]++;
  }
  void leave(HeldTask& task) {
    each([&](auto& index) { index.leave(task); });
    counts[static_cast<int>(task.row.phase)]--;
  }
  void become(HeldTask& task, const TaskRow& next) {
    each([&](auto& index) { index.before(task, next); });
    counts[static_cast<int>(task.row.phase)]--;
    task.row = next;
    counts[static_cast<int>(task.row.phase)]++;
    each([&](auto& index) { index.after(task); });
  }
  void clear() {
    each([](auto& index) { index.clear(); });
  }

 private:
  template <class Do>
  void each(Do&& what) {
    const auto all = [&](auto&... index) { (what(index), ...); };
    all(by_number, by_id, by_status, ready_of_type, ready, oldest_ready, due, running, children, open_children, members,
        ended_trees, forgotten);
  }
};

}  // namespace nocter::stores
