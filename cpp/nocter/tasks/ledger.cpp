// The batch: one transaction, the rows at hand, and what becomes of a request that goes wrong.
#include "nocter/tasks/ledger.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "nocter/tasks/table_store.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

namespace {
// So much of the clock may be forgotten by a process that ends: the time is not worth a write of its own more often.
constexpr Millis kStoreClockEvery = 1000;
constexpr const char* kClock = "clock";
}  // namespace

Ledger::Ledger(Tables& tables, const StoreOptions& options)
    : tables_(tables),
      limits_(options.limits),
      clock_(options.clock),
      random_(options.random),
      events_(options.events) {
  tables_.begin_read();
  try {
    stored_latest_ = tables_.counter(kClock);
  } catch (...) {
    tables_.end_read();
    throw;
  }
  tables_.end_read();
  latest_.store(stored_latest_);
}

Millis Ledger::now() {
  const Millis now = clock_->now_ms();
  Millis latest = latest_.load();
  while (now > latest) {
    if (latest_.compare_exchange(latest, now)) return now;
  }
  return latest;
}

// ---- The batch ------------------------------------------------------------------------------------------------------

void Ledger::execute(std::span<Request* const> batch, Effects& effects) {
  effects = Effects{};
  if (batch.empty()) return;
  Answer failure;
  try {
    execute_together(batch);
    commit(effects);
    return;
  } catch (const std::exception& thrown) {
    failure = answer_of(thrown);
  }
  tables_.roll_back();
  forget();
  type_names_.clear();  // one that was made just now has no number any more
  if (batch.size() == 1 || failure.status == Status::unavailable) {
    for (Request* request : batch) request->answer = failure;
    return;
  }
  // One of them cannot be done, and it is not known which: each alone then, so that the others do not suffer from it.
  for (Request* request : batch) {
    Effects alone;
    execute(std::span<Request* const>(&request, 1), alone);
    try {
      effects.ready.insert(effects.ready.end(), alone.ready.begin(), alone.ready.end());
      effects.ended.insert(effects.ended.end(), alone.ended.begin(), alone.ended.end());
      effects.cancelled.insert(effects.cancelled.end(), alone.cancelled.begin(), alone.cancelled.end());
      effects.released.insert(effects.released.end(), alone.released.begin(), alone.released.end());
    } catch (const std::bad_alloc&) {
      effects.lost = true;
    }
    effects.lost = effects.lost || alone.lost;
    effects.events = effects.events || alone.events;
    effects.next_due = std::min(effects.next_due, alone.next_due);
  }
}

void Ledger::execute_together(std::span<Request* const> batch) {
  tables_.begin();
  look_at_stored_clock();
  now_ = now();
  cascades_pending_ = tables_.any_cascade();
  for (Request* request : batch) execute_one(*request);
  write_back();
}

// Another process may have seen a later time, and judges our leases by it.
void Ledger::look_at_stored_clock() {
  if (base::planted("clock_of_others_is_ignored")) return;
  stored_latest_ = tables_.counter(kClock);
  Millis latest = latest_.load();
  while (stored_latest_ > latest && !latest_.compare_exchange(latest, stored_latest_)) continue;
}

void Ledger::execute_one(Request& request) {
  request.answer = std::visit([this](auto& demand) { return run(demand); }, request.demand);
}

void Ledger::commit(Effects& effects) {
  Effects done;
  std::sort(ready_.begin(), ready_.end());
  for (size_t i = 0; i < ready_.size();) {
    const size_t first = i;
    while (i < ready_.size() && ready_[i] == ready_[first]) i++;
    done.ready.push_back({type_name(ready_[first]), i - first});
  }
  done.next_due = tables_.next_due();
  if (changed_ && now_ >= stored_latest_ + kStoreClockEvery) {
    tables_.set_counter(kClock, now_);
    tables_.commit();
    stored_latest_ = now_;
  } else {
    tables_.commit();
  }
  done.ended = std::move(ended_);
  done.cancelled = std::move(cancelled_);
  done.released = std::move(released_);
  done.events = new_events_;
  effects = std::move(done);
  remember_claims();
  forget();
}

void Ledger::forget() {
  changed_ = marked_ = new_events_ = false;
  rows_.clear();
  changed_rows_.clear();
  ready_.clear();
  ended_.clear();
  cancelled_.clear();
  released_.clear();
  claims_made_.clear();
}

// Without memory for it one is forgotten early: whoever asked by it then gets other tasks, and their leases end.
void Ledger::remember_claims() {
  constexpr size_t kRemembered = 4096;
  try {
    for (const ClaimName& name : claims_made_) {
      if (!known_claims_.insert(name).second) continue;
      latest_claims_.push_back(name);
      if (latest_claims_.size() <= kRemembered) continue;
      known_claims_.erase(latest_claims_.front());
      latest_claims_.pop_front();
    }
  } catch (const std::bad_alloc&) {
  }
}

void Ledger::set_mark() {
  write_back();
  tables_.mark();
  mark_ = {ready_.size(), ended_.size(), cancelled_.size(), released_.size(), new_events_};
  marked_ = true;
}

void Ledger::keep_mark() {
  write_back();
  tables_.drop_mark();
  marked_ = false;
}

void Ledger::back_to_mark() {
  rows_.clear();
  changed_rows_.clear();
  type_names_.clear();
  tables_.back_to_mark();
  marked_ = false;
  ready_.resize(mark_.ready);
  ended_.resize(mark_.ended);
  cancelled_.resize(mark_.cancelled);
  released_.resize(mark_.released);
  new_events_ = mark_.events;
  cascades_pending_ = tables_.any_cascade();
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

TaskRow* Ledger::load(Number number) {
  if (const auto found = rows_.find(number); found != rows_.end()) return &found->second.row;
  TaskRow row;
  if (!tables_.load_task(number, row)) return nullptr;
  return &rows_.emplace(number, RowAtHand{row}).first->second.row;
}

TaskRow* Ledger::find(const TaskId& id) {
  if (id.none()) return nullptr;
  TaskRow row;
  if (!tables_.find_task(id, row)) return nullptr;
  return &rows_.try_emplace(row.number, RowAtHand{row}).first->second.row;
}

TaskRow& Ledger::at_hand(const TaskRow& row) { return rows_.try_emplace(row.number, RowAtHand{row}).first->second.row; }

TaskRow& Ledger::touch(TaskRow& row) {
  RowAtHand& at_hand = rows_.at(row.number);
  if (!at_hand.changed) {
    changed_rows_.push_back(row.number);
    at_hand.changed = true;
  }
  return at_hand.row;
}

// In the order in which they were touched: two stores then do the same things in the same order.
void Ledger::write_back() {
  for (const Number number : changed_rows_) {
    RowAtHand& at_hand = rows_.at(number);
    if (!at_hand.changed) continue;
    change().update_task(at_hand.row);
    at_hand.changed = false;
  }
  changed_rows_.clear();
}

std::string Ledger::type_name(int32_t type) {
  std::string& name = type_names_[type];
  if (name.empty()) name = tables_.type_name(type);
  return name;
}

void Ledger::event(const TaskRow& row, Event::Kind kind, std::string data) {
  if (!events_) return;
  Event event;
  event.at = now_;
  event.task = row.id;
  event.kind = kind;
  event.status = status_of(row.phase);
  event.attempt = row.attempt;
  event.type = type_name(row.type);
  event.data = std::move(data);
  change().add_event(event);
  new_events_ = true;
}

// ---- What many requests ask -----------------------------------------------------------------------------------------

Answer Ledger::too_long(const char* what, size_t bound) {
  return refuse(Status::limit, std::string(what) + " is longer than " + std::to_string(bound) + " bytes");
}

TaskRow* Ledger::current(const Claimed& by, Answer& answer) {
  TaskRow* row = by.number != 0 ? load(by.number) : find(by.id);
  if (row != nullptr && holds(by, *row)) return row;
  answer = refuse(Status::lease_lost, "task " + to_text(by.id) + " is no longer held by this claim");
  return nullptr;
}

bool Ledger::below_a_cancel(const TaskRow& row) { return cascades_pending_ && below_a_cancelled(row); }

bool Ledger::below_a_cancelled(const TaskRow& row) {
  for (Number number = row.parent; number != 0;) {
    const TaskRow* above = load(number);
    if (above == nullptr) return false;
    if (above->cancel_requested || above->phase == Phase::cancelled) return true;
    number = above->parent;
  }
  return false;
}

// ---- What was thrown ------------------------------------------------------------------------------------------------

Answer answer_of(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const StoreError*>(&thrown)) return {error->status, error->what()};
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) return {Status::memory, {}};
  return {Status::internal, thrown.what()};
}

}  // namespace nocter::tasks
