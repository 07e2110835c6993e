#include "nocter/stores/postgres_connection.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "nocter/base/handle.hpp"
#include "nocter/base/monitor.hpp"

namespace nocter::stores::postgres {

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr const char* kUnnamed = "PostgreSQL";

// Errors after which the same may go well, because somebody else was in the way or the server was.
bool is_passing(std::string_view state) {
  if (state == "53100") return false;  // the disk is full
  return state.starts_with("08") || state.starts_with("40") || state.starts_with("53") || state.starts_with("57") ||
         state == "55P03" || state == "25006" || state == "25P03";
}

// Lines that begin with a tab go on.
std::string one_line(const char* text) {
  std::string out;
  for (const char* at = text != nullptr ? text : ""; *at != '\0'; at++) {
    const char c = static_cast<unsigned char>(*at) < 0x20 || *at == 0x7f ? ' ' : *at;
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

void ignore_notice(void*, const PGresult*) {}

int milliseconds_until(int64_t deadline_ns) {
  const int64_t left = deadline_ns - base::now_ns();
  return left <= 0 ? 0 : static_cast<int>(std::min<int64_t>(left / kNsPerMs + 1, 1'000'000));
}

}  // namespace

// ---- Where ----------------------------------------------------------------------------------------------------------

Target::Target(std::string url) : url_(std::move(url)) {
  const Libpq& pq = libpq();
  char* complaint = nullptr;
  PQconninfoOption* const options = pq.PQconninfoParse(url_.c_str(), &complaint);
  // What libpq complains of may be a part of the password.
  if (complaint != nullptr) pq.PQfreemem(complaint);
  if (options == nullptr) {
    throw tasks::StoreError(Status::argument, "\"postgresql:\" wants a connection URL, and libpq cannot read this one");
  }
  std::string host, port, database;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; option++) {
    if (option->val == nullptr) continue;
    const std::string_view key = option->keyword;
    if (key == "host") host = option->val;
    if (key == "port") port = option->val;
    if (key == "dbname") database = option->val;
    if (key == "password") password_ = option->val;
  }
  pq.PQconninfoFree(options);
  name_ = std::string(kUnnamed) + (host.empty() ? "" : " at " + host) + (port.empty() ? "" : ", port " + port) +
          (database.empty() ? "" : ", database " + database);
}

std::string Target::without_secrets(std::string text) const {
  if (password_.empty()) return text;
  for (size_t at = text.find(password_); at != std::string::npos; at = text.find(password_, at + 3)) {
    text.replace(at, password_.size(), "***");
  }
  return text;
}

// ---- Coming and going -----------------------------------------------------------------------------------------------

Connection::Connection(std::shared_ptr<const Target> target, const Tuning& tuning, int64_t answer_ms)
    : target_(std::move(target)), tuning_(tuning), answer_ms_(answer_ms), generation_(base::fork_generation()) {}

Connection::~Connection() { close(); }

// In a forked child the connection is the parent's: not a byte goes out on it.
void Connection::close() noexcept {
  if (handle_ != nullptr && generation_ == base::fork_generation()) libpq().PQfinish(handle_);
  handle_ = nullptr;
  expected_.clear();
  prepared_.fill(Preparation::none);
}

void Connection::open() {
  if (handle_ != nullptr) return;
  const Libpq& pq = libpq();
  // What stands in the URL goes before what stands here before it.
  const char* const keywords[] = {"keepalives_idle",  "keepalives_interval",
                                  "keepalives_count", "tcp_user_timeout",
                                  "application_name", "dbname",
                                  "client_encoding",  nullptr};
  const char* const values[] = {"5", "2", "3", "10000", "nocter", target_->url().c_str(), "UTF8", nullptr};
  handle_ = pq.PQconnectStartParams(keywords, values, 1);
  if (handle_ == nullptr) throw std::bad_alloc();
  pq.PQsetNoticeReceiver(handle_, ignore_notice, nullptr);
  const int64_t deadline = base::now_ns() + tuning_.connect_ms * kNsPerMs;
  if (pq.PQstatus(handle_) == CONNECTION_BAD) lost("cannot be reached");
  for (PostgresPollingStatusType next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK;) {
    if (next == PGRES_POLLING_FAILED) lost("cannot be reached");
    wait(next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline);
    next = pq.PQconnectPoll(handle_);
  }
  if (pq.PQsetnonblocking(handle_, 1) != 0 || pq.PQenterPipelineMode(handle_) != 1) lost("cannot be used");
  if (pq.PQserverVersion(handle_) < 140000) {
    close();
    fail(Status::version, "is older than PostgreSQL 14");
  }
  const char* const encoding = pq.PQparameterStatus(handle_, "server_encoding");
  if (encoding == nullptr || std::strcmp(encoding, "UTF8") != 0) {
    close();
    fail(Status::store, "keeps its texts in another encoding than UTF8");
  }
}

void Connection::fail(Status status, const std::string& what) const {
  throw tasks::StoreError(status, target_->name() + ": " + what);
}

// Nothing more will come of this connection.
void Connection::lost(const std::string& why) {
  std::string said = handle_ != nullptr ? one_line(libpq().PQerrorMessage(handle_)) : "";
  close();
  throw DatabaseError(Status::unavailable,
                      target_->name() + ": " + why + (said.empty() ? "" : ": " + target_->without_secrets(said)), true,
                      {});
}

void Connection::refused(const PGresult* result) const {
  const Libpq& pq = libpq();
  const char* const code = pq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const said = pq.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  std::string state = code != nullptr ? code : "";
  const bool again = is_passing(state);
  std::string what = target_->name() + ": " + target_->without_secrets(one_line(said));
  if (!state.empty()) what += " (" + state + ")";
  // Class 22: what was given is no text of the database's, for it has a byte 0 or is not UTF-8.
  const Status why = again ? Status::unavailable : state.starts_with("22") ? Status::argument : Status::store;
  throw DatabaseError(why, what, again, std::move(state));
}

// ---- Waiting --------------------------------------------------------------------------------------------------------

void Connection::wait(short events, int64_t deadline_ns) {
  pollfd waited{libpq().PQsocket(handle_), events, 0};
  for (;;) {
    const int left = milliseconds_until(deadline_ns);
    const int ready = poll(&waited, 1, left);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) lost("cannot be waited for");
    if (ready == 0 && milliseconds_until(deadline_ns) == 0) {
      close();
      throw DatabaseError(Status::unavailable, target_->name() + ": did not answer in time", true, {});
    }
  }
}

// Reads as well while the server takes nothing in: it may be waiting for somebody to take what it says.
void Connection::flush(int64_t deadline_ns) {
  const Libpq& pq = libpq();
  for (;;) {
    const int left = pq.PQflush(handle_);
    if (left == 0) return;
    if (left < 0) lost("the connection was lost");
    wait(POLLIN | POLLOUT, deadline_ns);
    if (pq.PQconsumeInput(handle_) != 1) lost("the connection was lost");
  }
}

PGresult* Connection::next_result(int64_t deadline_ns) {
  const Libpq& pq = libpq();
  while (pq.PQisBusy(handle_) != 0) {
    wait(POLLIN, deadline_ns);
    if (pq.PQconsumeInput(handle_) != 1) lost("the connection was lost");
  }
  return pq.PQgetResult(handle_);
}

void Connection::push() {
  sent(libpq().PQpipelineSync(handle_), Awaited::synchronisation, 0);
  if (libpq().PQflush(handle_) < 0) lost("the connection was lost");
}

Result Connection::take() {
  const Libpq& pq = libpq();
  if (pq.PQflush(handle_) < 0 || pq.PQconsumeInput(handle_) != 1) lost("the connection was lost");
  while (!expected_.empty() && pq.PQisBusy(handle_) == 0) {
    Result result(pq.PQgetResult(handle_));
    const ExecStatusType status = pq.PQresultStatus(result.get());
    if (result == nullptr || status == PGRES_PIPELINE_SYNC) {
      expected_.pop_front();  // the end of what belongs to it
    } else if (status == PGRES_TUPLES_OK) {
      return result;
    } else if (status == PGRES_COMMAND_OK) {
      if (expected_.front().what == Awaited::preparation) prepared_[expected_.front().place] = Preparation::done;
    } else {
      close();
      refused(result.get());
    }
  }
  return nullptr;
}

// ---- Statements -----------------------------------------------------------------------------------------------------

void Connection::sent(int status, Awaited what, size_t place) {
  if (status != 1) lost("the connection was lost");
  try {
    expected_.push_back({what, place});
  } catch (...) {
    close();
    throw;
  }
}

void Connection::prepare(const Sql& sql, int count, const Oid* types) {
  if (prepared_.at(sql.place) != Preparation::none) return;
  char name[16] = "n";
  std::to_string(sql.place).copy(name + 1, sizeof name - 2);
  sent(libpq().PQsendPrepare(handle_, name, sql.text, count, types), Awaited::preparation, sql.place);
  prepared_[sql.place] = Preparation::sent;
}

void Connection::send(const Sql& sql, int count, const Oid* types, const char* const* values, const int* lengths) {
  if (handle_ == nullptr) lost("the connection was lost");
  prepare(sql, count, types);
  char name[16] = "n";
  std::to_string(sql.place).copy(name + 1, sizeof name - 2);
  static constexpr std::array<int, 48> kBinary = [] {
    std::array<int, 48> all{};
    all.fill(1);
    return all;
  }();
  sent(libpq().PQsendQueryPrepared(handle_, name, count, values, lengths, kBinary.data(), 1), Awaited::statement,
       sql.place);
}

Result Connection::execute(const Sql& sql, int count, const Oid* types, const char* const* values, const int* lengths) {
  send(sql, count, types, values, lengths);
  if (libpq().PQsendFlushRequest(handle_) != 1) lost("the connection was lost");
  return finish();
}

// One answer, and the end of it. What went wrong is thrown only when all before it is out of the way: recover() does the rest.
Result Connection::finish_one(const Expected& expected) {
  const Libpq& pq = libpq();
  const int64_t deadline = base::now_ns() + answer_ms_ * kNsPerMs;
  Result result(next_result(deadline));
  if (result == nullptr) lost("the connection was lost");
  if (expected.what == Awaited::synchronisation) return result;
  while (PGresult* const more = next_result(deadline)) pq.PQclear(more);
  if (expected.what == Awaited::preparation) {
    const bool done = pq.PQresultStatus(result.get()) == PGRES_COMMAND_OK;
    prepared_[expected.place] = done ? Preparation::done : Preparation::none;
  }
  return result;
}

Result Connection::finish() {
  const Libpq& pq = libpq();
  flush(base::now_ns() + answer_ms_ * kNsPerMs);
  Result last;
  while (!expected_.empty()) {
    const Expected expected = expected_.front();
    last = finish_one(expected);
    expected_.pop_front();
    const ExecStatusType status = pq.PQresultStatus(last.get());
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_PIPELINE_SYNC) continue;
    if (pq.PQstatus(handle_) == CONNECTION_BAD || pq.PQresultErrorField(last.get(), PG_DIAG_SQLSTATE) == nullptr) {
      lost("the connection was lost");
    }
    const char* const severity = pq.PQresultErrorField(last.get(), PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity != nullptr && std::strcmp(severity, "ERROR") != 0) {
      close();  // the server ends this connection, and says why
    } else {
      recover();
    }
    refused(last.get());
  }
  return last;
}

// After an error the server passes over everything up to a synchronisation.
void Connection::recover() {
  const Libpq& pq = libpq();
  sent(pq.PQpipelineSync(handle_), Awaited::synchronisation, 0);
  flush(base::now_ns() + answer_ms_ * kNsPerMs);
  while (!expected_.empty()) {
    const Expected expected = expected_.front();
    const Result result = finish_one(expected);
    expected_.pop_front();
    if (pq.PQstatus(handle_) == CONNECTION_BAD) lost("the connection was lost");
  }
}

void Connection::settle() {
  if (handle_ == nullptr || expected_.empty()) return;
  sent(libpq().PQpipelineSync(handle_), Awaited::synchronisation, 0);
  finish();
}

namespace {
constexpr Sql kCommit{398, "COMMIT"}, kRollBack{399, "ROLLBACK"};
}

void Connection::commit() {
  if (handle_ == nullptr) lost("the connection was lost");
  try {
    send(kCommit, 0, nullptr, nullptr, nullptr);
    sent(libpq().PQpipelineSync(handle_), Awaited::synchronisation, 0);
    finish();
  } catch (const DatabaseError& error) {
    // An error that leaves the connection as it is has undone the transaction.
    if (!error.sqlstate.empty() && handle_ != nullptr) throw;
    throw DatabaseError(Status::unavailable, error.what(), false, {});
  }
}

void Connection::roll_back() noexcept {
  if (handle_ == nullptr || generation_ != base::fork_generation()) return;
  try {
    if (!expected_.empty()) recover();
    Query(*this, kRollBack).send();
    settle();
  } catch (...) {
    close();
  }
}

void Connection::run(const std::string& sql) {
  if (handle_ == nullptr) lost("the connection was lost");
  sent(libpq().PQsendQueryParams(handle_, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 1), Awaited::statement,
       0);
  settle();
}

// ---- One use --------------------------------------------------------------------------------------------------------

bool Query::next() {
  if (result_ == nullptr) {
    result_ = connection_.execute(sql_, count_, types_, values_, lengths_);
    rows_ = libpq().PQntuples(result_.get());
  }
  column_ = 0;
  return ++row_ < rows_;
}

uint64_t Query::change() {
  const Result result = connection_.execute(sql_, count_, types_, values_, lengths_);
  return std::strtoull(libpq().PQcmdTuples(result.get()), nullptr, 10);
}

int64_t Query::number() {
  const Libpq& pq = libpq();
  const int length = pq.PQgetlength(result_.get(), row_, column_);
  const char* const bytes = pq.PQgetvalue(result_.get(), row_, column_++);
  if (length == 0) return 0;  // NULL
  uint64_t number = (static_cast<unsigned char>(bytes[0]) & 0x80) != 0 && length > 1 ? UINT64_MAX : 0;
  for (int i = 0; i < length; i++) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return static_cast<int64_t>(number);
}

void Query::get(std::string& out) {
  const Libpq& pq = libpq();
  const int length = pq.PQgetlength(result_.get(), row_, column_);
  out.assign(pq.PQgetvalue(result_.get(), row_, column_++), static_cast<size_t>(length));
}

void Query::get(tasks::TaskId& out) {
  const Libpq& pq = libpq();
  const int length = pq.PQgetlength(result_.get(), row_, column_);
  const char* const bytes = pq.PQgetvalue(result_.get(), row_, column_++);
  out = {};
  if (length == 16) std::memcpy(out.bytes.data(), bytes, 16);
}

}  // namespace nocter::stores::postgres
