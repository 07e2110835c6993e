// A PostgreSQL server of the test program's own: in a temporary folder, on a socket there, gone with the program.
#pragma once

#include <string>

namespace nocter_tests {

class PostgresServer {
 public:
  // `durable`: fsync is on, for what is about durability.
  explicit PostgresServer(bool durable = false);
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  std::string url() const { return url_at(folder_); }
  static std::string url_at(const std::string& folder);  // of a server whose socket is there
  const std::string& folder() const { return folder_; }
  void start();
  void stop();   // in an orderly way: connections are ended
  void crash();  // at once
  // What psql would do, of one database of the server's: the first column of the first row of the last statement, or nothing.
  std::string run(const std::string& sql) const;
  void forget_everything() const;  // there is no schema of ours any more

  // The one that all tests of a program share.
  static PostgresServer& shared();

 private:
  void end(int signal);

  const std::string folder_;
  const bool durable_;
  int process_ = 0;
};

}  // namespace nocter_tests
