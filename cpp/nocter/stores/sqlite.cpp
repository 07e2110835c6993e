#include "nocter/stores/sqlite.hpp"

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
        watcher_(shared_, Connection::Use::reader) {}

  bool shared_with_others() const override { return true; }

  uint64_t changes_by_others() override {
    try {
      shared_->check_process();
      base::Locked locked(mutex_);
      const int64_t version = watcher_.data_version();
      if (version == version_) {
        rest();
        return others_;
      }
      busy_ = true;
      busy_since_ = base::coarse_now_ns();
      // Ours first: a commit of ours between the two readings must not look like somebody else's that is then taken back.
      const uint64_t all = watcher_.commits();
      const uint64_t ours = shared_->commits_of_ours.load();
      others_ = all - ours;
      version_ = version;
      return others_;
    } catch (const std::exception&) {
      return others_;  // whoever works with the database is told
    }
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
  // Nothing has been committed for a while: the time to copy the log into the database, and to make it short again. Whoever reads or
  // writes at the same moment has the right of way.
  void rest() {
    if (!busy_ || base::coarse_now_ns() < busy_since_ + kQuiet) return;
    busy_ = false;
    sqlite3_wal_checkpoint_v2(watcher_.connection().handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
    version_ = watcher_.data_version();
  }

  const std::shared_ptr<SqliteShared> shared_;
  base::Mutex mutex_;
  SqliteTables watcher_;
  int64_t version_ = -1;
  uint64_t others_ = 0;
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

}  // namespace

std::unique_ptr<tasks::Store> open_sqlite(const std::string& path, const tasks::StoreOptions& options) {
  return open_sqlite(path, options, SqliteTuning{});
}

std::unique_ptr<tasks::Store> open_sqlite(const std::string& path, const tasks::StoreOptions& options,
                                          const SqliteTuning& tuning) {
  SqliteTuning tuned = tuning;
  tuned.length = std::max<int64_t>(tuned.length, static_cast<int64_t>(options.limits.json) * 2 + (1 << 20));
  auto writer = open_sqlite_tables(path, options.durability == tasks::Durability::full, tuned);
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
  prepare_schema(writer->connection());
  shared->check_file();
  return writer;
}

std::vector<std::string> sqlite_warnings(const std::string& path) { return file_warnings(whole_path(path)); }

}  // namespace nocter::stores
