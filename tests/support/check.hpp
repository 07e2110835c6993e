// Checks that any thread may make: Boost.Test's own may only be made by one thread at a time. What fails is kept and
// reported at the end of the test case by EveryTest (fixture.hpp).
#pragma once

#include <nocter/base.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace nocter_tests {

// Where a helper was called from. The builtins, because clang 14 has no std::source_location.
struct Where {
  const char* file;
  int line;
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

class Failures {
 public:
  static void add(const Where& where, const std::string& what) {
    const std::scoped_lock lock(mutex_);
    count_++;
    if (list_.size() < kShown)
      list_.push_back(std::string(where.file) + ":" + std::to_string(where.line) + ": " + what);
  }
  // Those so far, which are forgotten; the last line tells how many there were.
  static std::vector<std::string> collect() {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> list;
    list.swap(list_);
    if (count_ > kShown) list.push_back("... " + std::to_string(count_) + " failures in all");
    count_ = 0;
    return list;
  }

 private:
  static constexpr size_t kShown = 20;
  static inline std::mutex mutex_;
  static inline std::vector<std::string> list_;
  static inline size_t count_ = 0;
};

inline bool holds(bool condition, const char* text, Where where = Where::here()) {
  if (!condition) Failures::add(where, text);
  return condition;
}

// A status as the reader knows it.
inline bool status_is(nocter_status status, nocter_status expected, Where where = Where::here()) {
  if (status != expected) {
    Failures::add(where, std::string("the status is ") + nocter_status_name(status) + ", expected " +
                             nocter_status_name(expected) + "; message: " + nocter_error_message());
  }
  return status == expected;
}

}  // namespace nocter_tests

#define HOLDS(condition) ::nocter_tests::holds(static_cast<bool>(condition), #condition)
#define STATUS(call, expected) ::nocter_tests::status_is((call), (expected))
