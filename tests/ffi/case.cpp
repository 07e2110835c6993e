#include "case.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>

// Of the library, so that both programs share this file: one of them only gets it by dlopen.
static const char* (*status_name)(int) = nullptr;
void use_status_names(const char* (*name)(int)) { status_name = name; }

std::vector<Case>& all_cases() {
  static std::vector<Case> cases;
  return cases;
}

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  std::fflush(nullptr);
  _Exit(kFailed);
}

void check_status(const char* file, int line, const char* what, int found, int expected) {
  if (found == expected) return;
  if (status_name != nullptr) {
    std::fprintf(stderr, "%s instead of %s\n", status_name(found), status_name(expected));
  } else {
    std::fprintf(stderr, "%d instead of %d\n", found, expected);
  }
  check_failed(file, line, what);
}

static long long monotonic_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

static constexpr char kLeaving[] = "leaving at ";
void leaving() { std::fprintf(stderr, "%s%lld\n", kLeaving, monotonic_ms()); }

void skip(const char* why) {
  std::fprintf(stderr, "skipped: %s\n", why);
  std::fflush(nullptr);
  _Exit(kSkipped);
}

// ThreadSanitizer would otherwise end a child that starts threads, which is what some cases are about.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace {

enum class Verdict { passed, failed, skipped };

struct Ended {
  bool in_time;
  int status;
  long long start_ms, end_ms;
  std::string said;
};

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  lseek(descriptor, 0, SEEK_SET);
  for (ssize_t size; (size = read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(size));
  return text;
}

[[noreturn]] void become(const Case& one, int output) {
  setpgid(0, 0);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (one.ending.check) {
    setenv("NOCTER_CHECK", "1", 1);
  } else {
    unsetenv("NOCTER_CHECK");
  }
  const char* const arguments[] = {"ffi-case", "--case", one.name, nullptr};
  execv("/proc/self/exe", const_cast<char* const*>(arguments));
  _exit(126);
}

Ended run_in_process(const Case& one) {
  const int output = memfd_create("output", MFD_CLOEXEC);
  const long long start_ms = monotonic_ms();
  const pid_t child = fork();
  if (child == 0) become(one, output);
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd poll_for = {handle, POLLIN, 0};
  int ready;
  do {
    ready = poll(&poll_for, 1, one.ending.limit_ms);
  } while (ready < 0 && errno == EINTR);
  Ended ended{ready == 1, 0, start_ms, monotonic_ms(), {}};
  kill(-child, SIGKILL);  // also what the case left behind in its group
  waitpid(child, &ended.status, 0);
  close(handle);
  ended.said = read_all(output);
  close(output);
  return ended;
}

Verdict judge(const Case& one, const Ended& ended) {
  if (!ended.in_time) {
    std::printf("  did not end within %d ms\n", one.ending.limit_ms);
    return Verdict::failed;
  }
  if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == kSkipped) return Verdict::skipped;
  const bool ended_well = one.ending.signal != 0
                              ? WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == one.ending.signal
                              : WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == one.ending.exit_code;
  if (!ended_well) {
    std::printf("  ended with %s %d\n", WIFSIGNALED(ended.status) ? "signal" : "exit code",
                WIFSIGNALED(ended.status) ? WTERMSIG(ended.status) : WEXITSTATUS(ended.status));
    return Verdict::failed;
  }
  if (one.ending.leaves_within_ms != 0) {
    const size_t at = ended.said.find(kLeaving);
    const long long took =
        at == std::string::npos ? -1 : ended.end_ms - std::atoll(ended.said.c_str() + at + sizeof kLeaving - 1);
    if (took < 0 || took > one.ending.leaves_within_ms) {
      std::printf("  took %lld ms to leave\n", took);
      return Verdict::failed;
    }
  }
  for (const std::string& text : one.ending.says) {
    if (ended.said.find(text) != std::string::npos) continue;
    std::printf("  did not say \"%s\"\n", text.c_str());
    return Verdict::failed;
  }
  return Verdict::passed;
}

int run_all(unsigned seed) {
  std::vector<Case> cases = all_cases();
  std::printf("Running %zu test cases...\n", cases.size());
  std::mt19937 random(seed);
  std::shuffle(cases.begin(), cases.end(), random);
  int failed = 0, skipped = 0;
  for (const Case& one : cases) {
    std::fflush(nullptr);
    const Ended ended = run_in_process(one);
    const Verdict verdict = judge(one, ended);
    failed += verdict == Verdict::failed;
    skipped += verdict == Verdict::skipped;
    const char* const word = verdict == Verdict::passed ? "passed" : verdict == Verdict::failed ? "FAILED" : "SKIPPED";
    std::printf("%s %s [%s] %lld ms\n", word, one.name, one.proves, ended.end_ms - ended.start_ms);
    if (verdict != Verdict::passed) std::printf("%s", ended.said.c_str());
    if (verdict == Verdict::failed) std::printf("error: in \"%s\"\n", one.name);
  }
  if (failed != 0) std::printf("*** %d failures are detected in the test module \"ffi\"\n", failed);
  std::printf("%zu cases, %d failed, %d skipped; seed %u\n", cases.size(), failed, skipped, seed);
  return failed == 0 && !cases.empty() ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  unsigned seed = std::random_device{}();
  for (int i = 1; i < count; i++) {
    if (std::strcmp(arguments[i], "--list") == 0) {
      for (const Case& one : all_cases()) std::printf("%s [%s]\n", one.name, one.proves);
      return 0;
    }
    if (i + 1 == count) break;
    if (std::strcmp(arguments[i], "--seed") == 0)
      seed = static_cast<unsigned>(std::strtoul(arguments[i + 1], nullptr, 10));
    if (std::strcmp(arguments[i], "--case") != 0) continue;
    for (const Case& one : all_cases()) {
      if (std::strcmp(one.name, arguments[i + 1]) != 0) continue;
      one.body();
      std::fflush(nullptr);
      return 0;
    }
    std::fprintf(stderr, "no case %s\n", arguments[i + 1]);
    return 2;
  }
  return run_all(seed);
}
