// Transactions, the numbers that are given out in them, and what is counted.
#include <poll.h>

#include <algorithm>

#include "nocter/base/planted.hpp"
#include "nocter/stores/postgres_statements.hpp"
#include "nocter/stores/postgres_tables.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::stores::postgres {

using base::planted;
using tasks::Millis;
using tasks::Phase;
using tasks::TaskId;

namespace {

// "nocter" and 2: whoever has this lock of the database may write.
constexpr int64_t kWriteLock = 0x6e6f637465720002;
// So many rows stay at hand between transactions: what is claimed is soon settled.
constexpr size_t kRowsAtHand = 4096;
constexpr int64_t kNsPerMs = 1'000'000;

TaskId random_id() {
  TaskId id;
  if (!base::random_bytes(id.bytes.data(), id.bytes.size())) {
    throw tasks::StoreError(Status::unavailable, "the system has no random bytes");
  }
  return id;
}

}  // namespace

// ---- What all connections share -------------------------------------------------------------------------------------

Shared::Shared(std::string url, const Tuning& how, bool to_disk)
    : target(std::make_shared<const Target>(std::move(url))), tuning(how), full(to_disk), writer(random_id()) {}

void Shared::check_process() const {
  if (generation == base::fork_generation()) return;
  throw tasks::StoreError(Status::forked, target->name() + ": was opened before the fork, and belongs to the parent");
}

PostgresTables::PostgresTables(std::shared_ptr<Shared> shared, Use use)
    : shared_(std::move(shared)),
      connection_(shared_->target, shared_->tuning,
                  use == Use::reader ? shared_->tuning.read_ms : shared_->tuning.answer_ms) {}

// ---- Transactions ---------------------------------------------------------------------------------------------------

void PostgresTables::begin_turn() {
  connection_.open();
  shared_->backend.store(libpq().PQbackendPID(connection_.handle()));
  Query(connection_, sql::kBegin).send();
  const Tuning& tuning = shared_->tuning;
  Query(connection_, sql::kWriteSettings)
      .with(tuning.answer_ms)
      .with(tuning.idle_ms)
      .with(tuning.lock_ms)
      .with(shared_->full)
      .send();
  Query(connection_, sql::kTurn).with(kWriteLock).send();
}

void PostgresTables::begin() {
  shared_->check_process();
  changed_ = marked_ = savepoint_ = false;
  absent_.clear();
  begin_turn();
  writing_ = true;
  look();
  ask_for_expected();
  ask_for_claims();
}

// Once its turn has come: what everybody before has committed is there.
void PostgresTables::look() {
  counters_.clear();
  bool cascade = false, edge = false;
  next_due_ = tasks::kNever;
  Query query(connection_, sql::kLook);
  while (query.next()) {
    std::string name = query.text();
    const int64_t value = query.number();
    if (name == "@now") {
      shared_->clock->set(value);
    } else if (name == "@due") {
      next_due_ = value;
    } else if (name == "@cascade") {
      cascade = true;
    } else if (name == "@edge") {
      edge = true;
    } else {
      counters_[std::move(name)].value = value;
    }
  }
  const int64_t commits = counter("commits");
  if (commits != commits_ || rows_.size() > kRowsAtHand) forget_all();
  if (commits > shared_->commits.load()) {
    shared_->commits.store(commits);
    shared_->others.fetch_add(1);
  }
  commits_ = commits;
  cascades_ = cascade ? Any::some : Any::none;
  edges_ = edge ? Any::some : Any::none;
  next_due_known_ = true;
}

void PostgresTables::commit() {
  shared_->check_process();
  if (!changed_) {
    connection_.roll_back();
    writing_ = false;
    return;
  }
  const int64_t commits = counter("commits") + 1;
  set_counter("commits", commits);
  save_counters();
  const TaskId mark = random_id();
  // Where writers take turns a notification in the transaction makes nobody wait who did not anyway, and is never lost.
  Query(connection_, sql::kNotify).send();
  Query(connection_, sql::kPutMark).with(shared_->writer).with(mark).with(shared_->clock->now_ms()).send();
  writing_ = false;
  try {
    connection_.commit();
  } catch (const DatabaseError& error) {
    if (error.passing || !error.sqlstate.empty()) throw;
    if (!was_committed(mark)) throw DatabaseError(Status::unavailable, error.what(), true, {});
  }
  commits_ = commits;
  shared_->commits.store(commits);
}

// The reply to a COMMIT was lost. Who has the turn again knows that the transaction which had it is over, and finds its mark or does not.
bool PostgresTables::was_committed(const TaskId& mark) {
  const int64_t until = base::now_ns() + shared_->tuning.retry_ms * kNsPerMs;
  for (int pause_ms = 1;; pause_ms = std::min(pause_ms * 2, 200)) {
    try {
      begin_turn();
      TaskId found;
      Query query(connection_, sql::kReadMark);
      if (query.with(shared_->writer).next()) query.get(found);
      connection_.roll_back();
      return found == mark || planted("postgres_commit_is_believed");
    } catch (const DatabaseError& error) {
      connection_.roll_back();
      if (!error.passing || base::now_ns() >= until) {
        in_doubt_ = true;
        throw DatabaseError(Status::unavailable, std::string("whether it was committed is not known: ") + error.what(),
                            false, {});
      }
    }
    poll(nullptr, 0, pause_ms);
  }
}

void PostgresTables::forget_old_marks() {
  Query query(connection_, sql::kForgetMarks);
  write(query).send();
}

void PostgresTables::roll_back() noexcept {
  if (shared_->generation != base::fork_generation()) return;
  connection_.roll_back();
  forget_all();
  types_.clear();  // one that was made just now has no number any more
  type_names_.clear();
  commits_ = -1;
  writing_ = changed_ = marked_ = savepoint_ = false;
}

void PostgresTables::mark() {
  drop_mark();
  counters_at_mark_ = counters_;
  marked_ = true;
}

void PostgresTables::back_to_mark() {
  if (savepoint_) Query(connection_, sql::kBackToMark).send();
  counters_ = counters_at_mark_;
  types_.clear();
  type_names_.clear();
  forget_all();
  drop_mark();
}

void PostgresTables::drop_mark() {
  if (savepoint_) Query(connection_, sql::kDropMark).send();
  marked_ = savepoint_ = false;
}

// A connection that was idle may have ended meanwhile: that is seen here, where a new one can take its place.
void PostgresTables::begin_read() {
  shared_->check_process();
  for (bool again = connection_.is_open();; again = false) {
    try {
      connection_.open();
      Query(connection_, sql::kBeginRead).send();
      Query settings(connection_, sql::kReadSettings);
      settings.with(shared_->tuning.read_ms).with(shared_->tuning.read_ms).next();
      break;
    } catch (const DatabaseError& error) {
      connection_.roll_back();
      if (!again || !error.passing) throw;
    }
  }
  forget_all();
  commits_ = -1;
}

void PostgresTables::end_read() noexcept { connection_.roll_back(); }

Query& PostgresTables::write(Query& query) {
  if (marked_ && !savepoint_) {
    Query(connection_, sql::kMark).send();
    savepoint_ = true;
  }
  changed_ = true;
  return query;
}

void PostgresTables::forget_all() noexcept {
  cascades_ = edges_ = Any::unknown;
  next_due_known_ = nodes_known_ = false;
  rows_.clear();
  numbers_.clear();
  absent_.clear();
  nodes_.clear();
  ready_.clear();
  unclaimed_.clear();
}

// ---- What a batch names ---------------------------------------------------------------------------------------------

void PostgresTables::expect(Expected expected) {
  in_doubt_ = false;
  expected_ = std::move(expected);
}

void PostgresTables::ask_for_expected() {
  std::string ids, numbers;
  std::vector<TaskId> asked;
  for (const TaskId& id : expected_.ids) {
    if (id.none() || numbers_.contains(id)) continue;
    ids += (ids.empty() ? "{" : ",") + tasks::to_text(id);
    asked.push_back(id);
  }
  for (const tasks::Number number : expected_.numbers) {
    if (number != 0 && known(number) == nullptr) numbers += (numbers.empty() ? "{" : ",") + std::to_string(number);
  }
  expected_.ids.clear();
  expected_.numbers.clear();
  if (ids.empty() && numbers.empty()) return;
  ids += ids.empty() ? "{}" : "}";
  numbers += numbers.empty() ? "{}" : "}";
  std::vector<tasks::TaskRow> found;
  Query query(connection_, sql::kExpected);
  query.with(std::string_view(ids)).with(std::string_view(numbers));
  read_all(query, found);
  for (const TaskId& id : asked) {
    if (!numbers_.contains(id)) absent_.insert(id);
  }
}

// Whether a claim is one that is asked again. All of a process are by one node, but for a moment.
void PostgresTables::ask_for_claims() {
  unclaimed_.clear();
  if (expected_.claims.empty()) return;
  const int64_t node = expected_.claims.front().first;
  std::string numbers;
  for (const auto& [by, number] : expected_.claims) {
    if (by != node) continue;
    numbers += (numbers.empty() ? "{" : ",") + std::to_string(static_cast<int64_t>(number));
    unclaimed_.insert({by, number});
  }
  numbers += "}";
  expected_.claims.clear();
  Query query(connection_, sql::kClaimedAmong);
  query.with(node).with(std::string_view(numbers));
  while (query.next()) unclaimed_.erase({node, static_cast<uint64_t>(query.number())});
}

// ---- Numbers and counters -------------------------------------------------------------------------------------------

int64_t PostgresTables::next_number(std::string_view name) {
  const int64_t next = counter(name) + 1;
  set_counter(name, next);
  return next;
}

int64_t PostgresTables::counter(std::string_view name) {
  if (writing_) {
    const auto found = counters_.find(name);
    return found == counters_.end() ? 0 : found->second.value;
  }
  Query query(connection_, sql::kReadCounter);
  return query.with(name).next() ? query.number() : 0;
}

void PostgresTables::set_counter(std::string_view name, int64_t value) {
  auto found = counters_.find(name);
  if (found == counters_.end()) found = counters_.emplace(std::string(name), Counter{}).first;
  found->second = {value, true};
  changed_ = true;
}

void PostgresTables::save_counters() {
  for (auto& [name, counter] : counters_) {
    if (!counter.changed) continue;
    Query(connection_, sql::kWriteCounter).with(std::string_view(name)).with(counter.value).send();
    counter.changed = false;
  }
}

void PostgresTables::count(tasks::Counts& out) {
  out.oldest_ready = 0;
  Query query(connection_, sql::kCountPhases);
  while (query.next()) {
    const auto phase = static_cast<Phase>(query.number());
    const auto there = static_cast<uint64_t>(query.number());
    const Millis oldest = query.number();
    out.by_status[static_cast<int>(tasks::status_of(phase))] += there;
    out.tasks += there;
    if (phase == Phase::ready) {
      out.ready = there;
      out.oldest_ready = oldest;
    } else if (phase == Phase::delayed) {
      out.delayed = there;
    }
  }
}

}  // namespace nocter::stores::postgres
