#include "tasks/postgres_support.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace postgres_tests {

namespace {

constexpr const char* kSocket = "/.s.PGSQL.5432";
constexpr std::string_view kCommit = "n398";  // the name of that statement

std::string make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "nocter-cutter-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return name;
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

bool send_all(int to, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(to, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

std::unique_ptr<Store> open_fresh(const std::string& url) {
  PostgresServer::shared().forget_everything();
  return open_again(url);
}

std::unique_ptr<Store> open_again(const std::string& url) {
  StoreOptions options;
  options.durability = Durability::normal;
  return nocter::stores::open_postgres(url, options);
}

Answer submit(Store& store, const std::string& type, TaskId& id) {
  Submit demand;
  Submission& one = demand.tasks.emplace_back();
  one.id = id = make_task_id();
  one.type = type;
  one.payload = "{}";
  return ask(store, demand);
}

Answer notify(Store& store, const TaskId& to, const std::string& payload) {
  Notify demand;
  demand.to = to;
  demand.payload = payload;
  return ask(store, demand);
}

int64_t enter(Store& store, const std::string& name) {
  Register node;
  node.name = name;
  node.instance = to_text(make_task_id());
  node.lease_ms = 60'000;
  ask(store, node);
  return node.node;
}

std::vector<ClaimedTask> claim(Store& store, int64_t node, uint64_t number, uint32_t most) {
  Claim demand;
  demand.most = most;
  demand.number = number;
  demand.node = node;
  ask(store, demand);
  return std::move(demand.tasks);
}

Answer finish(Store& store, const ClaimedTask& run) {
  Settle settle;
  settle.by = run.claimed;
  return ask(store, settle);
}

int64_t mail_of(Store& store, const TaskId& id) {
  Record record;
  return store.get(id, record).status == Status::ok ? record.row.mail : -1;
}

// ---- The cutter -----------------------------------------------------------------------------------------------------

Cutter::Cutter(const PostgresServer& server) : folder_(make_folder()), server_socket_(server.folder() + kSocket) {
  const sockaddr_un address = address_of(folder_ + kSocket);
  listening_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listening_, 16) != 0)
    throw std::runtime_error("no socket");
  accepting_ = std::thread([this] { accept_all(); });
}

Cutter::~Cutter() {
  over_.store(true);
  accepting_.join();
  for (std::thread& way : ways_) way.join();
  close(listening_);
  std::filesystem::remove_all(folder_);
}

void Cutter::accept_all() {
  while (!over_.load()) {
    pollfd waited{listening_, POLLIN, 0};
    if (poll(&waited, 1, 20) != 1) continue;
    const int client = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(server_socket_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(client);
      close(server);
      continue;
    }
    const std::scoped_lock lock(mutex_);
    ways_.emplace_back([this, client, server] { forward(client, server); });
  }
}

void Cutter::forward(int client, int server) {
  std::vector<char> bytes(1 << 16);
  for (bool goes_on = true; goes_on && !over_.load();) {
    pollfd waited[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (poll(waited, 2, 20) <= 0) continue;
    for (int from = 0; from < 2 && goes_on; from++) {
      if (waited[from].revents == 0) continue;
      const ssize_t size = recv(from == 0 ? client : server, bytes.data(), bytes.size(), 0);
      if (size <= 0) goes_on = false;
      if (size <= 0) break;
      const std::string_view text(bytes.data(), static_cast<size_t>(size));
      const bool commits = from == 0 && text.find(kCommit) != std::string_view::npos;
      const Cut cut = commits ? cut_.exchange(Cut::none) : Cut::none;
      if (cut != Cut::before) goes_on = send_all(from == 0 ? server : client, bytes.data(), text.size());
      if (cut == Cut::after) (void)recv(server, bytes.data(), bytes.size(), 0);  // nobody else hears of it
      if (cut != Cut::none) goes_on = false;
    }
  }
  close(client);
  close(server);
}

}  // namespace postgres_tests
