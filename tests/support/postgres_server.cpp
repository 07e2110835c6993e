#include "support/postgres_server.hpp"

#include <fcntl.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

extern char** environ;

namespace nocter_tests {

namespace {

constexpr const char* kUser = "postgres";  // the server refuses to run as root

// In memory, where the system has a place there that is large enough: every test makes and drops all tables.
std::string make_folder() {
  constexpr std::uintmax_t kWanted = 512 << 20;
  namespace files = std::filesystem;
  std::error_code none;
  const files::space_info memory = files::space("/dev/shm", none);
  for (const files::path& place : {files::path("/dev/shm"), files::temp_directory_path()}) {
    if (place == "/dev/shm" && (none || memory.available < kWanted)) continue;
    std::string name = (place / "nocter-postgres-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) return name;
  }
  throw std::runtime_error("no temporary folder");
}

// As the server's user where this is root, and ended with the program that started it.
int spawn(const std::vector<std::string>& command, const std::string& log) {
  std::vector<std::string> words = {"setpriv", "--pdeathsig", "SIGQUIT"};
  if (geteuid() == 0) {
    for (const char* word : {"--reuid", kUser, "--regid", kUser, "--clear-groups"}) words.emplace_back(word);
  }
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  int process = 0;
  const int error = posix_spawnp(&process, "setpriv", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("setpriv cannot be started");
  return process;
}

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void append(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::app) << text; }

}  // namespace

PostgresServer::PostgresServer(bool durable) : folder_(make_folder()), durable_(durable) {
  if (geteuid() == 0) {
    const passwd* const user = getpwnam(kUser);
    if (user == nullptr || chown(folder_.c_str(), user->pw_uid, user->pw_gid) != 0)
      throw std::runtime_error("there is no user postgres to run the server as");
  }
  const std::string log = folder_ + ".log";
  int status = 0;
  waitpid(spawn({NOCTER_POSTGRES_BIN "/initdb", "-D", folder_ + "/data", "-U", kUser, "-A", "trust", "-E", "UTF8",
                 "--locale", "C", "--no-instructions", "--no-sync", "--wal-segsize", "1"},
                log),
          &status, 0);
  if (status != 0) throw std::runtime_error("initdb: " + contents(log));
  append(folder_ + "/data/postgresql.conf",
         "listen_addresses = ''\nunix_socket_directories = '" + folder_ +
             "'\nshared_buffers = 32MB\nmax_connections = 60\nmin_wal_size = "
             "2MB\nmax_wal_size = 32MB\ndynamic_shared_memory_type = mmap\nautovacuum_naptime = 10\n" +
             (durable_ ? "" : "fsync = off\nfull_page_writes = off\n"));
  start();
}

PostgresServer::~PostgresServer() {
  end(SIGQUIT);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  std::filesystem::remove(folder_ + ".log", ignored);
}

std::string PostgresServer::url_at(const std::string& folder) {
  std::string host;
  for (const char c : folder) host += c == '/' ? "%2F" : std::string(1, c);
  return "postgresql://" + std::string(kUser) + "@" + host + "/postgres";
}

void PostgresServer::start() {
  process_ = spawn({NOCTER_POSTGRES_BIN "/postgres", "-D", folder_ + "/data"}, folder_ + ".log");
  for (int i = 0; i < 3000; i++) {
    if (PQping(url().c_str()) == PQPING_OK) return;
    if (waitpid(process_, nullptr, WNOHANG) == process_) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error("the server does not start: " + contents(folder_ + ".log"));
}

void PostgresServer::end(int signal) {
  if (process_ == 0) return;
  kill(process_, signal);
  waitpid(process_, nullptr, 0);
  process_ = 0;
}

void PostgresServer::stop() { end(SIGINT); }
void PostgresServer::crash() { end(SIGQUIT); }

std::string PostgresServer::run(const std::string& sql) const {
  PGconn* const connection = PQconnectdb((url() + "?options=-c%20client_min_messages%3Derror").c_str());
  PGresult* const result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  std::string out = status == PGRES_TUPLES_OK && PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
  const std::string error = PQerrorMessage(connection);
  PQclear(result);
  PQfinish(connection);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) throw std::runtime_error(sql + ": " + error);
  return out;
}

void PostgresServer::forget_everything() const { run("DROP SCHEMA IF EXISTS nocter CASCADE"); }

PostgresServer& PostgresServer::shared() {
  static PostgresServer server;
  return server;
}

}  // namespace nocter_tests
