// Upkeep, in bounded pieces: rescue, what has come due, cancels of big trees, lost wakes, purge.
#include <algorithm>
#include <string>

#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

namespace {
constexpr size_t kAtOnce = 1000;
constexpr size_t kNodesAtOnce = 16;
constexpr size_t kEventsAtOnce = 10'000;
constexpr size_t kSearchedAtOnce = 2'000;
}  // namespace

Answer Ledger::run(Maintain& maintain) {
  maintain.promoted = maintain.rescued = maintain.repaired = maintain.purged = maintain.purged_events = 0;
  maintain.more = false;
  maintain.promoted = promote(kAtOnce);
  if (maintain.promoted == kAtOnce) maintain.more = true;
  maintain_nodes(maintain);
  maintain_cascades(maintain);
  maintain.repaired = repair();
  if (maintain.repaired != 0) maintain.more = true;
  maintain.searched_to = {};
  if (maintain.search_everything) {
    maintain.repaired += search(maintain.search_from, maintain.searched_to);
    if (!maintain.searched_to.none()) maintain.more = true;
  }
  if (maintain.purge_before != kNever) maintain.purged = purge(maintain.purge_before, maintain.more);
  if (maintain.events_before != kNever) {
    maintain.purged_events = change().remove_events(maintain.events_before, kEventsAtOnce);
    if (maintain.purged_events == kEventsAtOnce) maintain.more = true;
  }
  add_to_counter("rescues", maintain.rescued);
  add_to_counter("repairs", maintain.repaired);
  add_to_counter("purged", maintain.purged);
  return {};
}

void Ledger::add_to_counter(const char* name, uint64_t count) {
  if (count != 0) change().set_counter(name, tables_.counter(name) + static_cast<int64_t>(count));
}

// ---- Rescue ---------------------------------------------------------------------------------------------------------

// A node is marked dead before anything of it is touched: from then on it can renew nothing. It goes when nothing of it runs.
void Ledger::maintain_nodes(Maintain& maintain) {
  for (const int64_t number : maintain.dead) {
    NodeRow node;
    if (!tables_.find_node(number, node) || node.dead) continue;
    node.dead = true;
    change().update_node(node);
  }
  write_back();
  std::vector<NodeRow> lost;
  tables_.lost_nodes(now_, kNodesAtOnce, lost);
  if (lost.size() == kNodesAtOnce) maintain.more = true;
  for (NodeRow& node : lost) {
    if (!node.dead) {
      node.dead = true;
      change().update_node(node);
    }
    const size_t most = kAtOnce - std::min<size_t>(kAtOnce, maintain.rescued);
    std::vector<TaskRow> running;
    tables_.running_on(node.node, most, running);
    for (const TaskRow& row : running) rescue(at_hand(row), node);
    maintain.rescued += running.size();
    write_back();
    if (running.size() < most) {
      change().remove_node(node.node);
    } else {
      maintain.more = true;
    }
  }
}

void Ledger::rescue(TaskRow& row, const NodeRow& node) {
  touch(row).rescues++;
  if (!base::planted("rescue_keeps_messages_bound")) unbind(row);
  if (to_be_cancelled(row)) {
    end_cancelled(row);
    return;
  }
  if (row.rescues > limits_.max_rescues) {
    Failure failure;
    failure.kind = "WorkerLost";
    failure.message = "its worker was lost " + std::to_string(row.rescues) + " times, the last one was " + node.name;
    put_failure(row, failure);
    end(row, Move::give_up, Phase::failed, "{\"kind\":\"WorkerLost\"}");
    return;
  }
  row.token = 0;
  make_ready(row, Move::rescue, Wake::rescue);
  event(row, Event::Kind::rescued);
}

// ---- Repair ---------------------------------------------------------------------------------------------------------

// Nothing that the ledger does leaves such rows behind; a file that was mended by hand may have them.
uint64_t Ledger::repair() {
  write_back();
  std::vector<TaskRow> forgotten;
  tables_.forgotten(kAtOnce, forgotten);
  for (const TaskRow& found : forgotten) {
    TaskRow& row = at_hand(found);
    wake(row, row.mail != 0 ? Wake::message : Wake::join);
  }
  write_back();
  return forgotten.size();
}

// Ends that were not told to one who waits for them by name, and targets that are no longer there. False when it waits for none at all.
bool Ledger::repair_edges(Number waiter, uint64_t& repaired) {
  std::vector<Number> targets;
  tables_.targets_of(waiter, targets);
  for (const Number target : targets) {
    TaskRow row;
    if (!tables_.load_task(target, row)) {
      row = {};
      row.number = target;
      row.phase = Phase::cancelled;
    } else if (row.ended_at == 0) {
      continue;
    }
    repaired += strike_waiters(row);
  }
  return !targets.empty();
}

// Reads every task, a piece at a time: a store of millions is open, and worked on, long before all of them have been looked at. What is
// well is not kept at hand, for that would be all of them.
uint64_t Ledger::search(const TaskId& from, TaskId& to) {
  uint64_t repaired = 0;
  Filter filter;
  filter.after = from;
  filter.most = kSearchedAtOnce;
  std::vector<TaskRow> piece;
  tables_.list(filter, piece);
  for (const TaskRow& found : piece) {
    if (found.phase != Phase::suspended || found.need <= 0) continue;
    if (const auto changed = rows_.find(found.number); changed != rows_.end() && changed->second.changed) continue;
    if (found.until == Until::tasks) {
      if (repair_edges(found.number, repaired)) continue;
      touch(at_hand(found)).open = 0;
    } else if (found.until == Until::children) {
      std::vector<TaskRow> open;
      tables_.children(found.number, 0, true, 1, open);
      if (!open.empty()) continue;
      touch(at_hand(found)).open_children = 0;
    } else {
      continue;
    }
    TaskRow& row = at_hand(found);
    row.need = 0;
    wake(row, Wake::join);
    repaired++;
  }
  write_back();
  if (piece.size() == kSearchedAtOnce) to = piece.back().id;
  return repaired;
}

// ---- Purge ----------------------------------------------------------------------------------------------------------

// Whole trees, the youngest first, so that what is left of one in between is a tree still. Nobody waits for a member: ends strike edges out.
uint64_t Ledger::purge(Millis before, bool& more) {
  uint64_t purged = 0;
  write_back();
  std::vector<TaskRow> roots, members;
  while (purged < limits_.purge) {
    roots.clear();
    tables_.ended_trees(before, 1, roots);
    if (roots.empty()) return purged;
    members.clear();
    tables_.last_members(roots[0].number, limits_.purge - purged, members);
    for (const TaskRow& member : members) {
      if (member.number == member.root && !base::planted("purge_leaves_shared_values"))
        change().clear_shared(to_text(member.id));
      change().remove_task(member);
      rows_.erase(member.number);
    }
    purged += members.size();
    if (members.empty()) return purged;
  }
  roots.clear();
  tables_.ended_trees(before, 1, roots);
  if (!roots.empty()) more = true;
  return purged;
}

}  // namespace nocter::tasks
