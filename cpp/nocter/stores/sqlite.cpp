#include "nocter/stores/sqlite.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "nocter/base/handle.hpp"
#include "nocter/stores/sqlite_schema.hpp"
#include "nocter/stores/sqlite_tables.hpp"
#include "nocter/tasks/table_store.hpp"

namespace nocter::stores {

namespace {

constexpr int kOldestSqlite = 3'040'000;

// Connections that only read: as many as there are reads at a time, a few of which stay open.
class SqliteReaders final : public tasks::Readers {
 public:
  explicit SqliteReaders(std::shared_ptr<SqliteShared> shared) : shared_(std::move(shared)) { idle_.reserve(kKept); }

  tasks::Tables& borrow() override {
    shared_->check_process();
    shared_->check_file();
    {
      base::Locked locked(mutex_);
      if (!idle_.empty()) {
        SqliteTables* tables = idle_.back().release();
        idle_.pop_back();
        return *tables;
      }
    }
    return *std::make_unique<SqliteTables>(shared_, Connection::Use::reader).release();
  }
  void give_back(tasks::Tables& tables) noexcept override {
    std::unique_ptr<SqliteTables> mine(static_cast<SqliteTables*>(&tables));
    base::Locked locked(mutex_);
    if (idle_.size() < kKept) idle_.push_back(std::move(mine));
  }

 private:
  static constexpr size_t kKept = 8;
  const std::shared_ptr<SqliteShared> shared_;
  base::Mutex mutex_;
  std::vector<std::unique_ptr<SqliteTables>> idle_;
};

class SqliteStore final : public tasks::TableStore {
 public:
  SqliteStore(std::shared_ptr<SqliteShared> shared, std::unique_ptr<SqliteTables> writer,
              const tasks::StoreOptions& options)
      : TableStore(std::move(writer), std::make_unique<SqliteReaders>(shared), options),
        shared_(std::move(shared)),
        tables_(static_cast<SqliteTables&>(this->writer())),
        watcher_(shared_, Connection::Use::reader) {}

  void execute(std::span<tasks::Request* const> batch, tasks::Effects& effects) override {
    executing_.store(true);
    const base::Locked locked(writing_);
    TableStore::execute(batch, effects);
    executing_.store(false);
  }

  bool shared_with_others() const override { return true; }

  // The writer knows its own commits from others'. While it is at work it looks by itself.
  uint64_t changes_by_others() override {
    if (executing_.load()) return shared_->others.load();
    try {
      shared_->check_process();
      {
        const base::Locked locked(writing_);
        tables_.look_around();
      }
      const uint64_t changes = shared_->others.load() + shared_->commits.load();
      const base::Locked locked(mutex_);
      if (changes == changes_) {
        rest();
      } else {
        changes_ = changes;
        busy_ = true;
        busy_since_ = base::coarse_now_ns();
      }
    } catch (const std::exception&) {  // whoever works with the database is told
    }
    return shared_->others.load();
  }

  std::vector<int64_t> dead_nodes() override {
    std::vector<int64_t> dead;
    try {
      shared_->check_process();
      base::Locked locked(mutex_);
      std::vector<tasks::NodeRow> nodes;
      watcher_.nodes(nodes);
      for (const tasks::NodeRow& node : nodes) {
        if (!node.dead && shared_->presence.gone(node.instance)) dead.push_back(node.node);
      }
    } catch (const std::exception&) {
      return {};
    }
    return dead;
  }

 private:
  // Nothing has been committed for a while: the time to copy the log into the database, beside those who read and write, and to make it
  // short again, which is then soon done. One that is empty is let be, or two processes would go on doing this for each other.
  void rest() {
    if (!busy_ || base::coarse_now_ns() < busy_since_ + kQuiet) return;
    busy_ = false;
    struct stat log = {};
    if (stat((shared_->path + "-wal").c_str(), &log) != 0 || log.st_size == 0) return;
    const auto checkpoint = [](SqliteTables& by, int how) {
      sqlite3_wal_checkpoint_v2(by.connection().handle(), nullptr, how, nullptr, nullptr);
    };
    checkpoint(watcher_, SQLITE_CHECKPOINT_PASSIVE);
    // By the writer itself, which would take what another connection does to the log for a commit.
    const base::Locked locked(writing_);
    checkpoint(tables_, SQLITE_CHECKPOINT_TRUNCATE);
  }

  const std::shared_ptr<SqliteShared> shared_;
  SqliteTables& tables_;  // the writer's
  base::Mutex writing_;   // whoever uses them
  base::Atomic<bool> executing_;
  base::Mutex mutex_;  // of what follows
  SqliteTables watcher_;
  uint64_t changes_ = 0;
  bool busy_ = false;  // since the last checkpoint
  int64_t busy_since_ = 0;
  static constexpr int64_t kQuiet = 1'000'000'000;
};

void refuse_unfit_library() {
  if (sqlite3_threadsafe() == 0 || sqlite3_libversion_number() < kOldestSqlite) {
    throw tasks::StoreError(Status::store, std::string("SQLite ") + sqlite3_libversion() +
                                               " will not do: it must be 3.40 or later, and built for threads");
  }
  refuse_second_sqlite();
}

// The first thing that is wrong is enough.
void refuse_damage(Connection& connection) {
  const std::string found = connection.text("PRAGMA quick_check(1)");
  if (found != "ok") connection.fail(Status::store, "is damaged: " + found);
}

}  // namespace

std::unique_ptr<tasks::Store> open_sqlite(const std::string& path, const tasks::StoreOptions& options) {
  return open_sqlite(path, options, SqliteTuning{});
}

std::unique_ptr<tasks::Store> open_sqlite(const std::string& path, const tasks::StoreOptions& options,
                                          const SqliteTuning& tuning) {
  SqliteTuning tuned = tuning;
  tuned.length = std::max<int64_t>(tuned.length, static_cast<int64_t>(options.limits.json) * 2 + (1 << 20));
  auto writer = open_sqlite_tables(path, options.durability == tasks::Durability::full, tuned);
  if (options.check) refuse_damage(writer->connection());
  auto shared = writer->shared();
  return std::make_unique<SqliteStore>(std::move(shared), std::move(writer), options);
}

std::unique_ptr<SqliteTables> open_sqlite_tables(const std::string& path, bool full_synchronous,
                                                 const SqliteTuning& tuning) {
  refuse_unfit_library();
  const std::string whole = whole_path(path);
  prepare_file(whole);
  auto shared = std::make_shared<SqliteShared>(whole, full_synchronous, tuning);
  shared->identity = identity_of(whole);
  check_owner(whole, tuning);
  auto writer = std::make_unique<SqliteTables>(shared, Connection::Use::writer);
  if (writer->connection().text("PRAGMA journal_mode = WAL") != "wal") {
    writer->connection().fail(Status::store, "cannot keep a write-ahead log where it lies");
  }
  writer->connection().know_log();
  prepare_schema(writer->connection());
  shared->check_file();
  return writer;
}

std::vector<std::string> sqlite_warnings(const std::string& path) { return file_warnings(whole_path(path)); }

}  // namespace nocter::stores
