// Whole processes over one database: each is this program started anew, so that what stands before the C library (a clock that lies) is in it
// from its first moment. A process says a line when it has something to say, and hears one when it may go on.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nocter_tests {

class Process {
 public:
  // `role` and its arguments; `environment` is added to ours.
  explicit Process(std::vector<std::string> arguments, const std::vector<std::string>& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  std::string hear() const;  // a line; empty when it has ended
  void tell(const std::string& line) const;
  void stop() const;  // returns when it stands still
  void go_on() const;
  int end();  // waits for it; its exit status, or -1

 private:
  int from_ = -1, to_ = -1;
  pid_t child_ = -1;
};

// ---- In a process of its own
void say(const std::string& line);
std::string heard();
// What it does; its exit status.
int stopped_worker(const std::string& url, const std::string& lease_ms);
int worker_by_the_clock(const std::string& url, const std::string& name);

}  // namespace nocter_tests
