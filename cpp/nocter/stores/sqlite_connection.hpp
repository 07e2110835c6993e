// One connection to a SQLite database: opened as a file that somebody else may have made, every error of SQLite's an exception, and
// statements prepared once, when they are first needed.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "nocter/tasks/tables.hpp"

namespace nocter::stores {

// What nobody but the tests changes.
struct SqliteTuning {
  const char* vfs = nullptr;        // the file system that SQLite sees; none given: the system's
  bool never_sync = false;          // to show that the power-loss test notices it
  int64_t busy_ms = 10'000;         // how long another process may keep the database before a call is `unavailable`
  int64_t look_after_ms = 5;        // how often, at most, it is checked that the file is still the one that was opened
  int64_t length = 64 << 20;        // of one value or row
  int64_t checkpoint_pages = 8000;  // of the log, after which they are copied into the database
  int64_t log_piece = 256 << 10;    // a log that has so many bytes becomes longer by at least as many at once
};

// Of a database that is made; one that exists keeps its own. A commit writes whole pages, and of each only a few hundred bytes have changed,
// so small pages make small commits; a long payload goes into pages of its own, whatever their size.
inline constexpr const char* kPageSize = "PRAGMA page_size = 2048";

class Connection {
 public:
  enum class Use {
    probe,   // looks at what the file is, and changes nothing
    mender,  // the same for one whose last writer was interrupted, which only a writer can undo
    writer,  // the one that changes things
    reader,  // sees what was committed
  };
  Connection(std::string path, Use use, bool full_synchronous, const SqliteTuning& tuning);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  sqlite3* handle() const { return handle_; }
  const std::string& path() const { return path_; }
  void run(const char* sql);  // constant text only
  int64_t number(const char* sql);
  std::string text(const char* sql);

  // Begins a transaction: tries until nobody else is in the way, and is `unavailable` after a while.
  void begin_write();
  void begin_read();
  // Needs no memory of ours: its statement was made when the connection was. Does nothing outside of a transaction.
  void roll_back() noexcept;
  // Of a writer, in its transaction. A sync costs more where the file has become longer. So a log that is in use, and is synced with
  // every commit, becomes longer by large pieces of zeros, which are no frames to SQLite, and the commits write over them.
  void make_room_in_log() noexcept;
  void know_log() { frame_bytes_ = kFrameHead + number("PRAGMA page_size"); }

  bool in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

  // Throws what SQLite's last answer means: std::bad_alloc, or a StoreError that names the file.
  [[noreturn]] void fail(int code) const;
  void check(int code) const {
    if (code != SQLITE_OK) [[unlikely]]
      fail(code);
  }
  [[noreturn]] void fail(Status status, const std::string& what) const;

 private:
  friend class Query;
  static int watch_time(void* connection);
  static int note_commit(void* connection, sqlite3*, const char*, int frames);
  void harden(Use use);
  template <class Attempt>
  void until_free(Attempt&& attempt);
  int step(sqlite3_stmt* statement);
  sqlite3_stmt* prepare(size_t place, const char* sql);

  const std::string path_;
  const SqliteTuning tuning_;
  const uint32_t generation_;
  sqlite3* handle_ = nullptr;
  std::vector<sqlite3_stmt*> statements_;
  sqlite3_stmt* rolling_back_ = nullptr;
  int slices_ = 0;                           // of a million steps, that the statement at hand has used
  static constexpr int64_t kFrameHead = 24;  // before the page in a frame of the log
  bool makes_room_ = false;
  int64_t frame_bytes_ = 0, log_used_ = 0;  // of the log, as this connection last saw it
  sqlite3_int64 log_bytes_ = 0;
};

// A statement is named by its place in the table of its author: (place, text) pairs are the same for all connections.
struct Sql {
  size_t place;
  const char* text;
};

// One use of a statement. Values are given in the order of the parameters and read in the order of the columns.
class Query {
 public:
  Query(Connection& connection, const Sql& sql)
      : connection_(connection), statement_(connection.prepare(sql.place, sql.text)) {
    connection.slices_ = 0;
  }
  ~Query() { sqlite3_reset(statement_); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  template <class Value>
  requires(std::is_integral_v<Value> || std::is_enum_v<Value>) Query& with(Value value) {
    connection_.check(sqlite3_bind_int64(statement_, ++bound_, static_cast<int64_t>(value)));
    return *this;
  }
  // The text must outlive the use.
  Query& with(std::string_view value) {
    connection_.check(sqlite3_bind_text64(statement_, ++bound_, value.empty() ? "" : value.data(), value.size(),
                                          SQLITE_STATIC, SQLITE_UTF8));
    return *this;
  }
  Query& with(const tasks::TaskId& id) {
    connection_.check(sqlite3_bind_blob64(statement_, ++bound_, id.bytes.data(), id.bytes.size(), SQLITE_STATIC));
    return *this;
  }
  Query& with_null() {
    connection_.check(sqlite3_bind_null(statement_, ++bound_));
    return *this;
  }

  // To the next row; false when there is none.
  bool next() {
    read_ = 0;
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) [[unlikely]]
      connection_.fail(code);
    return false;
  }
  // For statements that give no rows: how many they changed.
  int64_t change() {
    next();
    return sqlite3_changes64(connection_.handle());
  }

  template <class Value>
  void get(Value& out) {
    out = static_cast<Value>(sqlite3_column_int64(statement_, read_++));
  }
  int64_t number() { return sqlite3_column_int64(statement_, read_++); }
  bool null() const { return sqlite3_column_type(statement_, read_) == SQLITE_NULL; }
  void get(std::string& out);
  void get(tasks::TaskId& out);  // all zero when it is not of the right size
  std::string text() {
    std::string out;
    get(out);
    return out;
  }

 private:
  Connection& connection_;
  sqlite3_stmt* const statement_;
  int bound_ = 0, read_ = 0;
};

}  // namespace nocter::stores
