// Transactions, and the totals that are written with each.
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
// So far no total of ours ever comes, and sums of such do not overflow.
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

template <class Visit>
void SqliteTables::Totals::each(Visit&& visit) {
  visit(commits);
  visit(last_task);
  visit(last_message);
  visit(last_event);
  visit(last_node);
  for (int phase = 1; phase <= 7; phase++) visit(by_phase[phase]);
  visit(rescues);
  visit(repairs);
  visit(purged);
  visit(clock);
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
  changes_before_ = sqlite3_total_changes64(connection_.handle());
  marked_ = savepoint_ = totals_changed_ = false;
  look_who_wrote();
}

// What is known is right as long as no other connection has committed anything.
void SqliteTables::look_who_wrote() {
  const int64_t version = data_version();
  if (version != version_ || rows_.size() > kRowsAtHand) forget_all();
  version_ = version;
}

void SqliteTables::commit() {
  shared_->check_process();
  save_texts();
  if (!totals_changed_ && sqlite3_total_changes64(connection_.handle()) == changes_before_) {
    Query(connection_, sql::kCommit).next();
    return;
  }
  shared_->check_file();
  totals();
  totals_.commits++;
  {
    Query query(connection_, sql::kWriteTotals);
    totals_.each([&](auto& value) { query.with(value); });
    query.next();
  }
  // Counted before it can be seen: whoever compares the two numbers meanwhile sees one commit of others fewer, never one more.
  shared_->commits_of_ours.fetch_add(1);
  try {
    Query(connection_, sql::kCommit).next();
  } catch (...) {
    shared_->commits_of_ours.fetch_sub(1);
    throw;
  }
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
  totals_at_mark_ = totals();
  marked_ = true;
}

void SqliteTables::back_to_mark() {
  if (savepoint_ && !planted("sqlite_mark_is_not_kept")) Query(connection_, sql::kBackToMark).next();
  const Totals totals = totals_at_mark_;
  forget_all();
  totals_ = totals;
  totals_known_ = true;
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
  totals_known_ = false;
  cascades_ = Cascades::unknown;
  next_due_known_ = false;
  rows_.clear();
  numbers_.clear();
  types_.clear();
  nodes_.clear();
  unsaved_texts_.clear();
}

int64_t SqliteTables::data_version() {
  Query query(connection_, sql::kDataVersion);
  query.next();
  return query.number();
}

uint64_t SqliteTables::commits() {
  Query query(connection_, sql::kCommits);
  return query.next() ? static_cast<uint64_t>(query.number()) : 0;
}

void SqliteTables::read_totals(Totals& out) {
  Query query(connection_, sql::kReadTotals);
  if (!query.next()) connection_.fail(Status::store, "the row of its totals is missing");
  bool sane = true;
  out.each([&](auto& value) {
    const int64_t found = query.number();
    sane = sane && found >= 0 && found <= kSane;
    value = static_cast<std::remove_reference_t<decltype(value)>>(found);
  });
  if (!sane) connection_.fail(Status::store, "its totals make no sense");
}

const SqliteTables::Totals& SqliteTables::totals() {
  if (!totals_known_) read_totals(totals_);
  totals_known_ = true;
  return totals_;
}

int64_t* SqliteTables::total(std::string_view name) {
  totals();
  if (name == "clock") return &totals_.clock;
  if (name == "rescues") return &totals_.rescues;
  if (name == "repairs") return &totals_.repairs;
  if (name == "purged") return &totals_.purged;
  return nullptr;
}

int64_t SqliteTables::counter(std::string_view name) {
  if (const int64_t* value = total(name)) return *value;
  Query query(connection_, sql::kReadCounter);
  return query.with(name).next() ? query.number() : 0;
}

void SqliteTables::set_counter(std::string_view name, int64_t value) {
  if (int64_t* there = total(name)) {
    *there = value;
    totals_changed_ = true;
    return;
  }
  Query query = write(sql::kWriteCounter);
  query.with(name).with(value).next();
}

void SqliteTables::count(tasks::Counts& out) {
  const Totals& now = totals();
  for (int phase = 1; phase <= 7; phase++) {
    out.by_status[static_cast<int>(tasks::status_of(static_cast<Phase>(phase)))] +=
        static_cast<uint64_t>(now.by_phase[phase]);
    out.tasks += static_cast<uint64_t>(now.by_phase[phase]);
  }
  out.ready = static_cast<uint64_t>(now.by_phase[1]);
  out.delayed = static_cast<uint64_t>(now.by_phase[2]);
  // The index is by type and priority: the oldest is the first of one of those groups, of which there are few.
  out.oldest_ready = 0;
  for (int32_t type = 0; out.ready != 0;) {
    Query next(connection_, sql::kNextReadyType);
    if (!next.with(type).next()) break;
    next.get(type);
    for (int64_t below = INT32_MAX; below >= INT32_MIN;) {
      Query first(connection_, sql::kFirstReady);
      if (!first.with(type).with(below).next()) break;
      below = first.number() - 1;
      const Millis since = first.number();
      if (out.oldest_ready == 0 || since < out.oldest_ready) out.oldest_ready = since;
    }
  }
}

}  // namespace nocter::stores
