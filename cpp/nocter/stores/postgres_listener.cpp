#include "nocter/stores/postgres_listener.hpp"

#include <utility>

#include "nocter/stores/postgres_statements.hpp"

namespace nocter::stores::postgres {

namespace {
constexpr int64_t kEvery = 1'000'000'000;   // between two questions
constexpr int64_t kReopen = 1'000'000'000;  // between two attempts to connect
constexpr const char* kCommits = "commits";
}  // namespace

Listener::Listener(std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)), connection_(shared_->target, shared_->tuning, shared_->tuning.answer_ms) {}

uint64_t Listener::changes() {
  try {
    shared_->check_process();
    const base::Locked locked(mutex_);
    if (!connection_.is_open()) listen();
    if (connection_.is_open()) {
      take_what_came();
      ask();
    }
  } catch (const std::exception&) {  // whoever works with the database is told
  }
  return shared_->others.load();
}

// What was committed before it listens is not told: so whoever waits looks once more.
void Listener::listen() {
  const int64_t now = base::now_ns();
  if (now < open_at_) return;
  open_at_ = now + kReopen;
  connection_.open();
  Query(connection_, sql::kListen).send();
  connection_.settle();
  shared_->others.fetch_add(1);
  ask_at_ = 0;
}

void Listener::take_what_came() {
  const Libpq& pq = libpq();
  while (const Result result = connection_.take()) {
    if (pq.PQntuples(result.get()) != 1) continue;
    int64_t commits = 0;
    for (int i = 0; i < pq.PQgetlength(result.get(), 0, 0); i++) {
      commits = commits << 8 | static_cast<unsigned char>(pq.PQgetvalue(result.get(), 0, 0)[i]);
    }
    int64_t seen = shared_->commits.load();
    if (commits > seen && shared_->commits.compare_exchange(seen, commits)) shared_->others.fetch_add(1);
  }
  bool told = false;
  while (PGnotify* const notification = pq.PQnotifies(connection_.handle())) {
    told = told || notification->be_pid != shared_->backend.load();
    pq.PQfreemem(notification);
  }
  if (told) shared_->others.fetch_add(1);
}

void Listener::ask() {
  const int64_t now = base::now_ns();
  if (now < ask_at_ || connection_.awaits()) return;
  ask_at_ = now + kEvery;
  Query(connection_, sql::kReadCounter).with(std::string_view(kCommits)).send();
  connection_.push();
}

}  // namespace nocter::stores::postgres
