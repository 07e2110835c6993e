// Written cases, each in a process of its own: `ffi_cases` runs all of them in random order, `ffi_cases --case NAME` one of them
// in this process. A case ends well when its process ends as its Ending says, within its time.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#if defined(__has_feature)
#define NOCTER_BUILT_WITH(sanitizer) __has_feature(sanitizer)
#else
#define NOCTER_BUILT_WITH(sanitizer) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || NOCTER_BUILT_WITH(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__) || NOCTER_BUILT_WITH(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
inline constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;
// How long a program may take to leave: ThreadSanitizer alone sleeps for a second there.
inline constexpr int kLeave = kSanitized ? 5'000 : 1'000;

struct Ending {
  int exit_code = 0;
  int signal = 0;                   // ends by this signal instead
  std::vector<std::string> says{};  // what must stand on its standard error
  bool check = false;               // runs with NOCTER_CHECK=1
  int limit_ms = 10'000;
  int leaves_within_ms = 0;  // of the moment it said leaving(); 0: not asked for
};

struct Case {
  const char* name;
  const char* proves;
  void (*body)();
  Ending ending;
};

std::vector<Case>& all_cases();
struct AddCase {
  AddCase(const char* name, const char* proves, void (*body)(), Ending ending) {
    all_cases().push_back({name, proves, body, std::move(ending)});
  }
};

#define CASE_ENDING(name, proves, ...)                                      \
  static void case_##name();                                                \
  static const AddCase add_##name(#name, proves, case_##name, __VA_ARGS__); \
  static void case_##name()
#define CASE(name, proves) CASE_ENDING(name, proves, Ending{})

inline constexpr int kFailed = 99, kSkipped = 77;

[[noreturn]] void check_failed(const char* file, int line, const char* what);
#define CHECK(condition) ((condition) ? static_cast<void>(0) : check_failed(__FILE__, __LINE__, #condition))
// Compares statuses and prints their names.
void check_status(const char* file, int line, const char* what, int found, int expected);
#define CHECK_STATUS(call, expected) check_status(__FILE__, __LINE__, #call, (call), (expected))

// The case is about to end its process, and will be judged by how long that takes.
void leaving();

// Only for what the machine or a sanitizer makes impossible: the runner prints the reason.
[[noreturn]] void skip(const char* why);
