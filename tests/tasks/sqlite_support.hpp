// What the tests of the SQLite store have in common: a folder that goes away, a database looked at from outside, short names for requests.
#pragma once

#include <sqlite3.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nocter/stores/sqlite.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter_tests {

namespace tasks = nocter::tasks;
namespace stores = nocter::stores;
using nocter::Status;

// In memory where there is such a place.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string file_content(const std::string& path);
void write_file(const std::string& path, const std::string& content);
unsigned mode_of(const std::string& path);  // permissions; 07777 and more when there is no such file

// A database as SQLite itself sees it. Each call opens it, and closes it again: never while a store of this process has it open under
// another file system than the system's own.
void run_sql(const std::string& path, const std::string& sql);
std::string ask_sql(const std::string& path, const std::string& sql);  // first column of the first row; "error: …"
inline size_t page_size_of(const std::string& path) { return std::stoull(ask_sql(path, "PRAGMA page_size")); }
// What is wrong with it: empty when every counter, edge and index is as the records say, and as SQLite wants it.
std::string inconsistency(const std::string& path);

// Opens it and expects to be refused: what was said. Status::ok when it was not.
std::pair<Status, std::string> refusal(const std::string& path, const stores::SqliteTuning& tuning = {});

// A store, and requests to it one at a time.
class Hand {
 public:
  explicit Hand(const std::string& path, const tasks::StoreOptions& options = {},
                const stores::SqliteTuning& tuning = {})
      : store_(stores::open_sqlite(path, options, tuning)) {}
  explicit Hand(std::unique_ptr<tasks::Store> store) : store_(std::move(store)) {}

  tasks::Store& store() { return *store_; }
  void close() { store_.reset(); }
  template <class Demand>
  Status ask(Demand& demand) {
    tasks::Request request{std::move(demand), {}};
    tasks::Request* batch[] = {&request};
    store_->execute(batch, effects);
    demand = std::move(std::get<Demand>(request.demand));
    message = request.answer.message;
    return request.answer.status;
  }

  int64_t join(const std::string& instance = "test", int64_t lease_ms = 3'600'000);
  Status submit(const tasks::TaskId& id, const std::string& type = "work", const std::string& payload = "{}",
                const tasks::TaskId& parent = {}, const std::string& key = "");
  // One task; its claim, or one with no token.
  tasks::ClaimedTask claim(int64_t node);
  Status done(const tasks::Claimed& claimed, const std::string& result = "");
  Status park(const tasks::Claimed& claimed, tasks::Until until);
  Status state(const tasks::Claimed& claimed, const std::string& state);
  Status notify(const tasks::TaskId& to, const std::string& payload, const std::string& key = "");
  Status cancel(const tasks::TaskId& id);
  tasks::Record record(const tasks::TaskId& id);
  tasks::Counts counts();

  tasks::Effects effects;
  std::string message;

 private:
  std::unique_ptr<tasks::Store> store_;
  uint64_t claims_ = 0;
};

}  // namespace nocter_tests
