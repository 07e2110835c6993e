// Cancels, which go down a whole tree: at once, or for a big one in pieces that outlive the process.
#include <algorithm>
#include <deque>

#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

// Breadth first. All that are ended have ended before any of these ends is told, so that none of them is woken by another one.
class Ledger::Telling {
 public:
  explicit Telling(Ledger& ledger) : ledger_(ledger), budget_(ledger.limits_.cascade) {}

  void tell(TaskRow& row) {
    if (!ended(row.phase) && !row.cancel_requested) {
      told_++;
      ledger_.touch(row).cancel_requested = true;
      if (row.phase == Phase::running) {
        ledger_.cancelled_.push_back({row.id, row.number, row.fence, row.token});
        ledger_.event(row, Event::Kind::cancel_requested);
      } else {
        Ledger::move(row, Move::cancel, Phase::cancelled);
        ending_.push_back(row.number);
      }
    }
    // Through what has ended as well: its children need not have.
    if (row.children != 0 && !(base::planted("cancel_stops_at_ended") && row.phase == Phase::completed))
      below(row.number, 0);
  }
  void below(Number number, Number after) { next_.emplace_back(number, after); }

  // True when all was told. What was not is written down.
  bool go_on() {
    constexpr size_t kPage = 256;
    std::vector<TaskRow> children;
    while (!next_.empty() && budget_ > 0) {
      auto& [number, after] = next_.front();
      children.clear();
      const size_t most = std::min<size_t>(kPage, static_cast<size_t>(budget_));
      ledger_.tables_.children(number, after, false, most, children);
      budget_ -= static_cast<int64_t>(children.size());
      if (!children.empty()) after = children.back().number;
      const bool last = children.size() < most;
      for (const TaskRow& child : children) tell(ledger_.at_hand(child));
      if (last) next_.pop_front();
    }
    for (const Number number : ending_) ledger_.after_end(*ledger_.load(number), {});
    ending_.clear();
    for (const auto& [number, after] : next_) ledger_.change().put_cascade(number, after);
    if (!next_.empty()) ledger_.cascades_pending_ = true;
    return next_.empty();
  }
  uint64_t told() const { return told_; }
  bool tired() const { return budget_ <= 0; }

 private:
  Ledger& ledger_;
  int64_t budget_;
  uint64_t told_ = 0;
  std::deque<std::pair<Number, Number>> next_;  // whose children, from which number on
  std::vector<Number> ending_;
};

Answer Ledger::run(Cancel& cancel) {
  cancel.touched = 0;
  cancel.more = false;
  TaskRow* row = find(cancel.id);
  if (row == nullptr) return refuse(Status::unknown, "there is no task " + to_text(cancel.id));
  if (ended(row->phase)) return refuse(Status::state, "task " + to_text(cancel.id) + " has ended");
  Telling telling(*this);
  telling.tell(*row);
  cancel.more = !telling.go_on();
  cancel.touched = telling.told();
  return {};
}

void Ledger::maintain_cascades(Maintain& maintain) {
  if (!cascades_pending_) return;
  constexpr size_t kAtOnce = 64;
  std::vector<std::pair<Number, Number>> pending;
  tables_.cascades(kAtOnce, pending);
  Telling telling(*this);
  for (const auto& [number, after] : pending) {
    change().remove_cascade(number);
    telling.below(number, after);
  }
  telling.go_on();
  cascades_pending_ = tables_.any_cascade();
  if (cascades_pending_) maintain.more = true;
}

}  // namespace nocter::tasks
