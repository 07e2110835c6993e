// What stands before PostgreSQL in the tests of its store: requests in few words, and a way to the server that can be cut.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nocter/stores/postgres.hpp"
#include "nocter/tasks/task_id.hpp"
#include "support/postgres_server.hpp"

namespace postgres_tests {

using namespace nocter::tasks;
using nocter::Status;
using nocter_tests::PostgresServer;

// An empty database with a store on it.
std::unique_ptr<Store> open_fresh(const std::string& url = PostgresServer::shared().url());
std::unique_ptr<Store> open_again(const std::string& url = PostgresServer::shared().url());

template <class D>
Answer ask(Store& store, D& demand) {
  Request request{std::move(demand), {}};
  Request* batch[] = {&request};
  Effects effects;
  store.execute(batch, effects);
  demand = std::move(std::get<D>(request.demand));
  return request.answer;
}

Answer submit(Store& store, const std::string& type, TaskId& id);
Answer notify(Store& store, const TaskId& to, const std::string& payload);
int64_t enter(Store& store, const std::string& name);
std::vector<ClaimedTask> claim(Store& store, int64_t node, uint64_t number, uint32_t most);
Answer finish(Store& store, const ClaimedTask& run);
int64_t mail_of(Store& store, const TaskId& id);

// Stands between a store and its server, and cuts a connection at a COMMIT.
class Cutter {
 public:
  enum class Cut { none, before, after };  // the server never hears of it; it was heard, and its reply is lost
  explicit Cutter(const PostgresServer& server);
  ~Cutter();
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

  std::string url() const { return PostgresServer::url_at(folder_); }
  void cut_next(Cut how) { cut_.store(how); }
  bool has_cut() const { return cut_.load() == Cut::none; }

 private:
  void accept_all();
  void forward(int client, int server);

  const std::string folder_, server_socket_;
  int listening_ = -1;
  std::atomic<bool> over_{false};
  std::atomic<Cut> cut_{Cut::none};
  std::mutex mutex_;
  std::vector<std::thread> ways_;
  std::thread accepting_;
};

}  // namespace postgres_tests
