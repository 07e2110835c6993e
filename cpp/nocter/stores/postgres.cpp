#include "nocter/stores/postgres.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "nocter/stores/postgres_listener.hpp"
#include "nocter/stores/postgres_schema.hpp"
#include "nocter/stores/postgres_tables.hpp"
#include "nocter/tasks/table_store.hpp"

namespace nocter::stores {

namespace postgres {

namespace {

constexpr int64_t kNsPerMs = 1'000'000;

// Connections that only read: as many as there are reads at a time, a few of which stay open.
class PostgresReaders final : public tasks::Readers {
 public:
  explicit PostgresReaders(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) { idle_.reserve(kKept); }

  tasks::Tables& borrow() override {
    shared_->check_process();
    {
      const base::Locked locked(mutex_);
      if (!idle_.empty()) {
        PostgresTables* const tables = idle_.back().release();
        idle_.pop_back();
        return *tables;
      }
    }
    return *std::make_unique<PostgresTables>(shared_, PostgresTables::Use::reader).release();
  }
  void give_back(tasks::Tables& tables) noexcept override {
    std::unique_ptr<PostgresTables> mine(static_cast<PostgresTables*>(&tables));
    const base::Locked locked(mutex_);
    if (idle_.size() < kKept) idle_.push_back(std::move(mine));
  }

 private:
  static constexpr size_t kKept = 8;
  const std::shared_ptr<Shared> shared_;
  base::Mutex mutex_;
  std::vector<std::unique_ptr<PostgresTables>> idle_;
};

// What a batch names.
struct Named : PostgresTables::Expected {
  void by(const tasks::Claimed& claimed) {
    claimed.number != 0 ? numbers.push_back(claimed.number) : ids.push_back(claimed.id);
  }
  void by(const std::optional<tasks::Claimed>& claimed) {
    if (claimed.has_value()) by(*claimed);
  }
  void look(const tasks::Submit& submit) {
    by(submit.by);
    for (const tasks::Submission& one : submit.tasks) {
      ids.push_back(one.id);
      if (!one.parent.none()) ids.push_back(one.parent);
    }
  }
  void look(const tasks::Notify& notify) {
    by(notify.by);
    ids.push_back(notify.to);
  }
  void look(const tasks::UpdateState& update) { by(update.by); }
  void look(const tasks::StepPut& put) { by(put.by); }
  void look(const tasks::SharedPut& put) { by(put.by); }
  void look(const tasks::Settle& settle) {
    by(settle.by);
    ids.insert(ids.end(), settle.suspension.ids.begin(), settle.suspension.ids.end());
    for (const tasks::Staged& staged : settle.staged) std::visit([this](const auto& part) { look(part); }, staged);
  }
  void look(const tasks::Cancel& cancel) { ids.push_back(cancel.id); }
  void look(const tasks::Hurry& hurry) { ids.push_back(hurry.id); }
  void look(const tasks::Claim& claim) {
    claims.emplace_back(claim.node, claim.number);
    wanted += claim.most;
  }
  template <class Other>
  void look(const Other&) {}
};

class PostgresStore final : public tasks::TableStore {
 public:
  PostgresStore(std::shared_ptr<Shared> shared, std::unique_ptr<PostgresTables> writer,
                const tasks::StoreOptions& options)
      : TableStore(std::move(writer), std::make_unique<PostgresReaders>(shared), options),
        shared_(std::move(shared)),
        tables_(static_cast<PostgresTables&>(this->writer())),
        listener_(shared_) {}

  // A batch that a lost connection interrupted before it was committed has not happened: it is begun again.
  void execute(std::span<tasks::Request* const> batch, tasks::Effects& effects) override {
    if (batch.empty()) return;
    const int64_t until = base::now_ns() + shared_->tuning.retry_ms * kNsPerMs;
    for (int pause_ms = 1;; pause_ms = std::min(pause_ms * 2, 500)) {
      Named named;
      for (const tasks::Request* request : batch) {
        std::visit([&named](const auto& demand) { named.look(demand); }, request->demand);
      }
      tables_.expect(std::move(named));
      TableStore::execute(batch, effects);
      const bool interrupted = std::all_of(batch.begin(), batch.end(), [](const tasks::Request* request) {
        return request->answer.status == Status::unavailable;
      });
      if (!interrupted || tables_.in_doubt() || base::now_ns() >= until) return;
      poll(nullptr, 0, pause_ms);
    }
  }

  bool shared_with_others() const override { return true; }
  uint64_t changes_by_others() override { return listener_.changes(); }

 private:
  const std::shared_ptr<Shared> shared_;
  PostgresTables& tables_;  // the writer's
  Listener listener_;
};

}  // namespace

}  // namespace postgres

std::unique_ptr<tasks::Store> open_postgres(const std::string& url, const tasks::StoreOptions& options) {
  return open_postgres(url, options, postgres::Tuning{});
}

std::unique_ptr<tasks::Store> open_postgres(const std::string& url, const tasks::StoreOptions& options,
                                            const postgres::Tuning& tuning) {
  auto shared = std::make_shared<postgres::Shared>(url, tuning, options.durability == tasks::Durability::full);
  auto writer = std::make_unique<postgres::PostgresTables>(shared, postgres::PostgresTables::Use::writer);
  postgres::prepare_schema(writer->connection());
  tasks::StoreOptions mine = options;
  // Tests move theirs; everybody else goes by the database's.
  if (!mine.clock->steered()) mine.clock = shared->clock;
  writer->begin();
  writer->forget_old_marks();
  writer->commit();
  return std::make_unique<postgres::PostgresStore>(std::move(shared), std::move(writer), mine);
}

}  // namespace nocter::stores
