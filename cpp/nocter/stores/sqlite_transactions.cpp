// Transactions, the numbers that are given out in them, and what is counted.
#include <algorithm>
#include <cstring>

#include "nocter/base/planted.hpp"
#include "nocter/stores/sqlite_statements.hpp"
#include "nocter/stores/sqlite_tables.hpp"

namespace nocter::stores {

using base::planted;
using tasks::Millis;
using tasks::Phase;
using tasks::TaskId;

namespace {
// So many rows stay at hand between transactions: what is claimed is soon settled.
constexpr size_t kRowsAtHand = 4096;
// So far no number of ours ever comes, and sums of such do not overflow.
constexpr int64_t kSane = int64_t{1} << 53;
}  // namespace

// ---- What all connections share -------------------------------------------------------------------------------------

void SqliteShared::check_process() const {
  if (generation != base::fork_generation()) {
    throw tasks::StoreError(Status::forked, path + ": was opened before the fork, and belongs to the parent");
  }
}

// With every commit, but no more often than it is of use: a database that was deleted takes writes as before, and all of them are lost.
void SqliteShared::check_file() {
  const int64_t now = base::coarse_now_ns();
  if (now < look_again_at.glance()) return;
  if (identity_of(path) != identity && !planted("sqlite_file_is_not_watched")) {
    throw tasks::StoreError(Status::store, path + ": was deleted, moved or replaced while it was open");
  }
  look_again_at.jot(now + tuning.look_after_ms * 1'000'000);
}

size_t SqliteTables::IdHash::operator()(const TaskId& id) const {
  uint64_t low;
  std::memcpy(&low, id.bytes.data() + 8, sizeof low);  // the random half
  return static_cast<size_t>(low);
}

SqliteTables::SqliteTables(std::shared_ptr<SqliteShared> shared, Connection::Use use)
    : shared_(std::move(shared)), connection_(shared_->path, use, shared_->full_synchronous, shared_->tuning) {}

// ---- Transactions ---------------------------------------------------------------------------------------------------

void SqliteTables::begin() {
  shared_->check_process();
  shared_->check_file();
  connection_.begin_write();
  connection_.make_room_in_log();
  changes_before_ = sqlite3_total_changes64(connection_.handle());
  marked_ = savepoint_ = false;
  if (look_who_wrote()) shared_->others.fetch_add(1);
}

// What is known is right as long as no other connection has committed anything. The pager's version tells: it also moves with commits of
// this connection, after which it is read again.
bool SqliteTables::look_who_wrote() {
  const uint32_t now = version();
  const bool others = looked_ && now != version_;
  if (!looked_ || others || rows_.size() > kRowsAtHand) forget_all();
  version_ = now;
  looked_ = true;
  return others;
}

void SqliteTables::look_around() {
  Query(connection_, sql::kDataVersion).next();
  if (look_who_wrote()) shared_->others.fetch_add(1);
}

uint32_t SqliteTables::version() {
  uint32_t version = 0;
  connection_.check(sqlite3_file_control(connection_.handle(), "main", SQLITE_FCNTL_DATA_VERSION, &version));
  return version;
}

void SqliteTables::commit() {
  shared_->check_process();
  save_texts();
  save_numbers();
  const bool changed = sqlite3_total_changes64(connection_.handle()) != changes_before_;
  if (changed) shared_->check_file();
  Query(connection_, sql::kCommit).next();
  version_ = version();
  if (!changed) return;
  shared_->commits.fetch_add(1);
  for (const std::string& instance : left_) shared_->presence.forget(instance);
  left_.clear();
  joined_.clear();
}

void SqliteTables::roll_back() noexcept {
  if (shared_->generation != base::fork_generation()) return;
  // After some errors SQLite has done it already.
  connection_.roll_back();
  forget_all();
  marked_ = savepoint_ = false;
  for (const std::string& instance : joined_) shared_->presence.forget(instance);
  joined_.clear();
  left_.clear();
}

void SqliteTables::mark() {
  drop_mark();
  save_texts();
  save_numbers();
  marked_ = true;
}

void SqliteTables::back_to_mark() {
  if (savepoint_ && !planted("sqlite_mark_is_not_kept")) Query(connection_, sql::kBackToMark).next();
  forget_all();
  drop_mark();
}

void SqliteTables::drop_mark() {
  if (savepoint_) Query(connection_, sql::kDropMark).next();
  marked_ = savepoint_ = false;
}

void SqliteTables::begin_read() {
  shared_->check_process();
  shared_->check_file();
  connection_.begin_read();
  look_who_wrote();
}

void SqliteTables::end_read() noexcept {
  if (shared_->generation != base::fork_generation()) return;
  connection_.roll_back();
}

Query SqliteTables::write(const Sql& sql) {
  if (marked_ && !savepoint_) {
    Query(connection_, sql::kMark).next();
    savepoint_ = true;
  }
  return Query(connection_, sql);
}

void SqliteTables::forget_all() noexcept {
  last_ = {};
  cascades_ = edges_ = Any::unknown;
  next_due_known_ = false;
  rows_.clear();
  numbers_.clear();
  types_.clear();
  nodes_.clear();
  unsaved_texts_.clear();
}

// ---- Numbers and counters -------------------------------------------------------------------------------------------

// The greatest there is, or a greater one that is no longer there.
int64_t& SqliteTables::last(int64_t& number, std::string_view name, const Sql* greatest) {
  if (number >= 0) return number;
  int64_t found = counter(name);
  if (greatest != nullptr) {
    Query query(connection_, *greatest);
    if (query.next()) found = std::max(found, query.number());
  }
  if (found < 0 || found > kSane) connection_.fail(Status::store, "its numbers make no sense");
  return number = found;
}

int64_t& SqliteTables::last_task() { return last(last_.task, "last_task", &sql::kLastTask); }
int64_t& SqliteTables::last_event() { return last(last_.event, "last_event", &sql::kLastEvent); }

void SqliteTables::save_numbers() {
  if (!last_.message_unsaved) return;
  set_counter("last_message", last_.message);
  last_.message_unsaved = false;
}

int64_t SqliteTables::counter(std::string_view name) {
  Query query(connection_, sql::kReadCounter);
  return query.with(name).next() ? query.number() : 0;
}

void SqliteTables::set_counter(std::string_view name, int64_t value) {
  Query query = write(sql::kWriteCounter);
  query.with(name).with(value).next();
}

void SqliteTables::count(tasks::Counts& out) {
  uint64_t by_phase[8] = {};
  for (int phase = 1; phase <= 7; phase++) {
    Query query(connection_, sql::kCountPhase);
    if (query.with(phase).next()) query.get(by_phase[phase]);
    out.by_status[static_cast<int>(tasks::status_of(static_cast<Phase>(phase)))] += by_phase[phase];
    out.tasks += by_phase[phase];
  }
  out.ready = by_phase[static_cast<int>(Phase::ready)];
  out.delayed = by_phase[static_cast<int>(Phase::delayed)];
  // The index is by type and priority: the oldest is the first of one of those groups, of which there are few.
  out.oldest_ready = 0;
  for (int32_t type = 0; out.ready != 0 && next_ready_type(type);) {
    for (int64_t rank = INT32_MIN; rank <= int64_t{INT32_MAX} + 1; rank++) {
      Query first(connection_, sql::kFirstReady);
      if (!first.with(type).with(rank).next()) break;
      const int64_t there = first.number();
      if (there < rank) connection_.fail(Status::store, "the index task_place is malformed");
      rank = there;
      const Millis since = first.number();
      if (out.oldest_ready == 0 || since < out.oldest_ready) out.oldest_ready = since;
    }
  }
}

}  // namespace nocter::stores
