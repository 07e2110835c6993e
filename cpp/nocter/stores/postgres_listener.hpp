// How processes on one database hear of each other's commits: by LISTEN and NOTIFY, and by asking once a second, since a notification may
// never come (a pool of connections swallows them, SQL users do not send any).
#pragma once

#include <memory>

#include "nocter/base/monitor.hpp"
#include "nocter/stores/postgres_tables.hpp"

namespace nocter::stores::postgres {

// On a connection of its own. Once that is made nothing here waits for the server: calls send, and take what has come.
class Listener {
 public:
  explicit Listener(std::shared_ptr<Shared> shared);

  uint64_t changes();  // moves when another process has committed something

 private:
  void listen();
  void take_what_came();
  void ask();

  const std::shared_ptr<Shared> shared_;
  base::Mutex mutex_;
  Connection connection_;
  int64_t ask_at_ = 0;   // when the number of commits is asked for
  int64_t open_at_ = 0;  // not before that a lost connection is made anew
};

}  // namespace nocter::stores::postgres
