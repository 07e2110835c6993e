// One connection to a PostgreSQL server: pipelined, with a deadline on everything that waits, every error an exception, and statements
// prepared when they are first needed. What changes something is sent and not waited for: it is known to be done when something after it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "nocter/stores/postgres_library.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::stores::postgres {

// What nobody but the tests changes, in milliseconds. What a renewal of a lease may cost at the worst, retry_ms and answer_ms, is less than
// what is left of the default lease when it is sent.
struct Tuning {
  int64_t connect_ms = 3'000;  // to make a connection
  int64_t answer_ms = 5'000;   // for one answer of the server to a writer; a server that hangs is given up then
  int64_t read_ms = 30'000;    // the same for a reader, who may have much to read
  int64_t lock_ms = 4'000;     // for the turn among the processes that write
  int64_t idle_ms = 2'000;     // that a process may keep the others waiting between two statements of a transaction
  int64_t retry_ms = 3'000;    // how long what a lost connection interrupted is tried again
};

// Where the database is, as a URL of libpq's. Its text may hold a password, which nothing that is said of it does (SEC-07).
class Target {
 public:
  // Throws StoreError with Status::argument when libpq cannot read it.
  explicit Target(std::string url);
  const std::string& url() const { return url_; }
  const std::string& name() const { return name_; }  // host, port, database
  std::string without_secrets(std::string text) const;

 private:
  const std::string url_;
  std::string name_;
  std::string password_;
};

// A statement is named by its place in the table of its author: (place, text) pairs are the same for all connections.
struct Sql {
  size_t place;
  const char* text;
};

// The server said no, or nothing any more.
class DatabaseError : public tasks::StoreError {
 public:
  // Whether it is worth while to try again what did not come about: nothing of it has been done.
  DatabaseError(Status why, const std::string& what, bool again, std::string state)
      : StoreError(why, what), passing(again), sqlstate(std::move(state)) {}
  const bool passing;
  const std::string sqlstate;
};

struct ClearResult {
  void operator()(PGresult* result) const { libpq().PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ClearResult>;

class Connection {
 public:
  Connection(std::shared_ptr<const Target> target, const Tuning& tuning, int64_t answer_ms);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool is_open() const { return handle_ != nullptr; }
  void open();            // does nothing when it is; throws DatabaseError
  void close() noexcept;  // what was sent is not waited for
  PGconn* handle() const { return handle_; }
  const Target& target() const { return *target_; }
  const Tuning& tuning() const { return tuning_; }

  // One statement, constant text, that is not prepared. Waits.
  void run(const std::string& sql);
  // Waits until all that was sent is done.
  void settle();
  // COMMIT and what it answers. Throws DatabaseError with passing = false when it is not known what became of it.
  void commit();
  // Throws away what was not finished; the connection is as new, or closed.
  void roll_back() noexcept;
  // Nothing of these three waits: what was sent is to be answered; an answer that has come, or null; whether one is still to come.
  void push();
  Result take();
  bool awaits() const { return !expected_.empty(); }

  [[noreturn]] void fail(Status status, const std::string& what) const;

 private:
  friend class Query;
  static constexpr size_t kPlaces = 400;
  enum class Awaited : uint8_t { statement, preparation, synchronisation };
  struct Expected {
    Awaited what;
    size_t place;
  };
  enum class Preparation : uint8_t { none, sent, done };

  Result execute(const Sql& sql, int count, const Oid* types, const char* const* values, const int* lengths);
  void send(const Sql& sql, int count, const Oid* types, const char* const* values, const int* lengths);
  void prepare(const Sql& sql, int count, const Oid* types);
  Result finish();  // of all that was sent, the last answer
  Result finish_one(const Expected& expected);
  void recover();
  PGresult* next_result(int64_t deadline_ns);
  void flush(int64_t deadline_ns);
  void wait(short events, int64_t deadline_ns);
  void sent(int status, Awaited what, size_t place);
  [[noreturn]] void lost(const std::string& why);
  [[noreturn]] void refused(const PGresult* result) const;

  const std::shared_ptr<const Target> target_;
  const Tuning tuning_;
  const int64_t answer_ms_;
  const uint32_t generation_;
  PGconn* handle_ = nullptr;
  std::deque<Expected> expected_;
  std::array<Preparation, kPlaces> prepared_{};
};

// One use of a statement. Values are given in the order of the parameters and read in the order of the columns.
class Query {
 public:
  Query(Connection& connection, const Sql& sql) : connection_(connection), sql_(sql) {}
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& with(const char*) = delete;  // would be taken for a bool
  Query& with(bool value) {
    char* const place = room();
    place[0] = value ? 1 : 0;
    return add(16, place, 1);  // bool
  }
  template <class Value>
  requires((std::is_integral_v<Value> && !std::is_same_v<Value, bool>) ||
           std::is_enum_v<Value>) Query& with(Value value) {
    char* const place = room();
    const auto number = static_cast<uint64_t>(static_cast<int64_t>(value));
    for (int i = 0; i < 8; i++) place[i] = static_cast<char>(number >> (56 - 8 * i) & 0xff);
    return add(20, place, 8);  // bigint
  }
  // The text must outlive the use.
  Query& with(std::string_view value) {
    return add(25, value.empty() ? "" : value.data(), static_cast<int>(value.size()));  // text
  }
  Query& with(const tasks::TaskId& id) {
    return add(2950, reinterpret_cast<const char*>(id.bytes.data()), 16);  // uuid
  }

  void send() { connection_.send(sql_, count_, types_, values_, lengths_); }
  // To the next row; false when there is none.
  bool next();
  // For statements that give no rows: how many they changed.
  uint64_t change();

  template <class Value>
  void get(Value& out) {
    out = static_cast<Value>(number());
  }
  int64_t number();
  void get(std::string& out);
  void get(tasks::TaskId& out);
  std::string text() {
    std::string out;
    get(out);
    return out;
  }

 private:
  static constexpr int kMost = 48;
  char* room() { return numbers_[static_cast<size_t>(count_)].data(); }
  Query& add(Oid type, const char* value, int length) {
    types_[count_] = type;
    values_[count_] = value;
    lengths_[count_] = length;
    count_++;
    return *this;
  }

  Connection& connection_;
  const Sql sql_;
  int count_ = 0;
  Oid types_[kMost];
  const char* values_[kMost];
  int lengths_[kMost];
  std::array<std::array<char, 8>, kMost> numbers_;
  Result result_;
  int row_ = -1, rows_ = 0, column_ = 0;
};

}  // namespace nocter::stores::postgres
