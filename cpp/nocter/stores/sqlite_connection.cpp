#include "nocter/stores/sqlite_connection.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>

#include "nocter/base/handle.hpp"
#include "nocter/base/planted.hpp"
#include "nocter/base/system.hpp"
#include "nocter/stores/sqlite_statements.hpp"

namespace nocter::stores {

using base::planted;

namespace {

// Steps of SQLite's machine between two looks at how long a statement has run, and how many looks are too many: far more than the longest
// of ours takes, and an end for one that a database made to harm sends in circles.
constexpr int kSlice = 1'000'000, kSlices = 2'000;

// What is before the first frame of SQLite's log; and the longest piece by which it becomes longer.
constexpr int64_t kLogHead = 32, kLongestPiece = 4 << 20;

Status status_of(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_BUSY || primary == SQLITE_LOCKED ? Status::unavailable : Status::store;
}

void pause_for(int64_t ns) {
  const timespec time{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

}  // namespace

Connection::Connection(std::string path, Use use, bool full_synchronous, const SqliteTuning& tuning)
    : path_(std::move(path)), tuning_(tuning), generation_(base::fork_generation()) {
  // No URI, whatever the path looks like; no link as its last part; the mutexes of SQLite are not needed, since each connection
  // has one user at a time.
  const int flags = (use == Use::probe ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path_.c_str(), &handle_, flags, tuning_.vfs);
  try {
    check(code);
    harden(use);
    if (use == Use::probe || use == Use::mender) return;
    rolling_back_ = prepare(sql::kRollBack.place, sql::kRollBack.text);
    run("PRAGMA mmap_size = 0");
    run("PRAGMA temp_store = MEMORY");
    run("PRAGMA cell_size_check = ON");
    run(use == Use::writer ? "PRAGMA cache_size = -32768" : "PRAGMA cache_size = -4096");
    if (use == Use::writer) {
      run(kPageSize);
      if (tuning_.never_sync) {
        run("PRAGMA synchronous = OFF");
      } else {
        run(full_synchronous && !planted("sqlite_syncs_less") ? "PRAGMA synchronous = FULL"
                                                              : "PRAGMA synchronous = NORMAL");
      }
      run("PRAGMA journal_size_limit = 67108864");
      makes_room_ = full_synchronous && !tuning_.never_sync;
      sqlite3_wal_hook(handle_, note_commit, this);
    }
  } catch (...) {
    for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
    sqlite3_close(handle_);
    throw;
  }
}

Connection::~Connection() {
  // A forked child has the parent's descriptors: closing them would drop the parent's locks.
  if (generation_ != base::fork_generation()) return;
  for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

// The file may have been made by anybody (SEC-05).
void Connection::harden(Use use) {
  const auto set = [this](int option, int value) { check(sqlite3_db_config(handle_, option, value, nullptr)); };
  set(SQLITE_DBCONFIG_DEFENSIVE, 1);
  set(SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0);
  set(SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0);
  set(SQLITE_DBCONFIG_ENABLE_TRIGGER, 0);
  set(SQLITE_DBCONFIG_ENABLE_VIEW, 0);
  set(SQLITE_DBCONFIG_DQS_DML, 0);
  set(SQLITE_DBCONFIG_DQS_DDL, 0);
  if (use == Use::probe) set(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1);
  sqlite3_limit(handle_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(handle_, SQLITE_LIMIT_TRIGGER_DEPTH, 1);
  sqlite3_limit(handle_, SQLITE_LIMIT_WORKER_THREADS, 0);
  sqlite3_limit(handle_, SQLITE_LIMIT_SQL_LENGTH, 100'000);
  sqlite3_limit(handle_, SQLITE_LIMIT_EXPR_DEPTH, 50);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, static_cast<int>(tuning_.length));
  sqlite3_progress_handler(handle_, kSlice, watch_time, this);
}

int Connection::watch_time(void* connection) { return ++static_cast<Connection*>(connection)->slices_ > kSlices; }

// Not SQLite's own waiting, whose steps are the same for everybody and up to a tenth of a second: here the shares of several processes
// are drawn by lot, and a waiter looks again soon.
template <class Attempt>
void Connection::until_free(Attempt&& attempt) {
  slices_ = 0;
  int code = attempt();
  if (code == SQLITE_OK) return;
  const int64_t until = base::now_ns() + tuning_.busy_ms * 1'000'000;
  int64_t longest = 50'000;
  for (uint64_t lot = base::random_seed(); (code & 0xff) == SQLITE_BUSY && base::now_ns() < until; code = attempt()) {
    roll_back();
    lot = lot * 6364136223846793005 + 1442695040888963407;
    pause_for(10'000 + static_cast<int64_t>((lot >> 33) % static_cast<uint64_t>(longest)));
    if (longest < 5'000'000) longest += longest / 2;
  }
  check(code);
}

int Connection::step(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  const int end = sqlite3_reset(statement);
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : end;
}

void Connection::roll_back() noexcept {
  if (!in_transaction() || rolling_back_ == nullptr) return;
  sqlite3_step(rolling_back_);
  sqlite3_reset(rolling_back_);
}

void Connection::begin_write() {
  roll_back();  // one that could not be rolled back before
  until_free([this] { return step(prepare(sql::kBeginWrite.place, sql::kBeginWrite.text)); });
}

// A look is what makes the transaction see one moment.
void Connection::begin_read() {
  roll_back();
  until_free([this] {
    const int code = step(prepare(sql::kBeginRead.place, sql::kBeginRead.text));
    return code != SQLITE_OK ? code : step(prepare(sql::kDataVersion.place, sql::kDataVersion.text));
  });
}

// What SQLite's own hook does, which has the log copied once it is long; and how long that is.
int Connection::note_commit(void* connection, sqlite3* handle, const char*, int frames) {
  auto& self = *static_cast<Connection*>(connection);
  const int64_t used = kLogHead + frames * self.frame_bytes_;
  if (used < self.log_used_) self.log_bytes_ = 0;  // begun anew: it may have been cut off
  self.log_used_ = used;
  if (self.tuning_.checkpoint_pages > 0 && frames >= self.tuning_.checkpoint_pages) {
    sqlite3_wal_checkpoint_v2(handle, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }
  return SQLITE_OK;
}

// Behind its end alone, where nobody else can be writing, since the database is ours. Where it fails, commits make the log longer as ever.
void Connection::make_room_in_log() noexcept {
  static constexpr char kZeros[1 << 16] = {};
  if (!makes_room_ || log_used_ < tuning_.log_piece || log_used_ + tuning_.log_piece / 4 <= log_bytes_) return;
  sqlite3_file* log = nullptr;
  if (sqlite3_file_control(handle_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK || log == nullptr ||
      log->pMethods == nullptr || log->pMethods->xFileSize(log, &log_bytes_) != SQLITE_OK) {
    return;
  }
  if (log_used_ + tuning_.log_piece / 4 <= log_bytes_) return;
  const int64_t until = log_bytes_ + std::clamp(log_used_, tuning_.log_piece, kLongestPiece);
  while (log_bytes_ < until) {
    const int64_t piece = std::min<int64_t>(sizeof kZeros, until - log_bytes_);
    if (log->pMethods->xWrite(log, kZeros, static_cast<int>(piece), log_bytes_) != SQLITE_OK) {
      makes_room_ = false;
      return;
    }
    log_bytes_ += piece;
  }
}

void Connection::run(const char* sql) {
  until_free([this, sql] { return sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr); });
}

std::string Connection::text(const char* sql) {
  std::string out;
  until_free([this, sql, &out] {
    sqlite3_stmt* statement = nullptr;
    const int prepared = sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr);
    if (prepared != SQLITE_OK) return prepared;
    const int code = sqlite3_step(statement);
    const unsigned char* found = code == SQLITE_ROW ? sqlite3_column_text(statement, 0) : nullptr;
    if (found != nullptr) out = reinterpret_cast<const char*>(found);
    const int end = sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : end;
  });
  return out;
}

int64_t Connection::number(const char* sql) {
  const std::string found = text(sql);
  return found.empty() ? 0 : std::stoll(found);
}

void Connection::fail(int code) const {
  if ((code & 0xff) == SQLITE_NOMEM) throw std::bad_alloc();
  // SQLite's words say what and where, never a value of the user's (SEC-03).
  std::string what = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  const int system = handle_ != nullptr ? sqlite3_system_errno(handle_) : 0;
  const int primary = code & 0xff;
  if (system != 0 && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN || primary == SQLITE_FULL)) {
    what += std::string(", ") + std::strerror(system);
  }
  fail(status_of(code), what + " (SQLite " + std::to_string(code) + ")");
}

void Connection::fail(Status status, const std::string& what) const {
  throw tasks::StoreError(status, path_ + ": " + what);
}

sqlite3_stmt* Connection::prepare(size_t place, const char* sql) {
  if (place >= statements_.size()) statements_.resize(place + 1);
  sqlite3_stmt*& statement = statements_[place];
  if (statement == nullptr) check(sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  return statement;
}

void Query::get(std::string& out) {
  const int column = read_++;
  const void* found = sqlite3_column_text(statement_, column);
  if (found == nullptr) {
    if (sqlite3_column_type(statement_, column) != SQLITE_NULL) throw std::bad_alloc();
    out.clear();
    return;
  }
  out.assign(static_cast<const char*>(found), static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

void Query::get(tasks::TaskId& out) {
  const int column = read_++;
  const void* found = sqlite3_column_blob(statement_, column);
  out = {};
  if (found != nullptr && sqlite3_column_bytes(statement_, column) == static_cast<int>(out.bytes.size())) {
    std::memcpy(out.bytes.data(), found, out.bytes.size());
  }
}

}  // namespace nocter::stores
