// A file system of SQLite's that does what a disk may do at any moment: refuse, be full, or lose its power. It stands before the system's
// own, so everything else (locks, shared memory) is as always.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nocter_tests {

class Disk {
 public:
  // One at a time; `name()` is what SQLite knows it by.
  Disk();
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  static const char* name() { return "nocter-test-disk"; }

  // ---- Failing. Operations that may fail are counted; from `at` on (or only there) they do, with this code of SQLite's.
  void fail_at(uint64_t at, int code, bool for_ever);
  void heal() { fail_at(0, 0, false); }
  uint64_t operations() const { return operations_; }
  bool failed() const { return failed_; }
  int next_operation();  // for the file system: the code to fail with, or 0

  // ---- Losing power. What is written is recorded; what the disk then holds can be made of it.
  struct Step {
    enum class Kind { write, truncate, sync, remove };
    Kind kind;
    uint32_t file;
    int64_t at;
    std::string data;
  };
  void record(bool on) { recording_ = on; }
  void note(Step::Kind kind, const std::string& file, int64_t at, const void* data, int64_t size);
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<std::string>& files() const { return files_; }

 private:
  uint64_t operations_ = 0, fail_at_ = 0;
  int code_ = 0;
  bool for_ever_ = false, failed_ = false, recording_ = false;
  std::vector<Step> steps_;
  std::vector<std::string> files_;
  std::map<std::string, uint32_t> numbers_;
};

}  // namespace nocter_tests
