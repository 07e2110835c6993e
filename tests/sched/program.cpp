#include "sched/program.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sched/memory.hpp"

namespace sched {

namespace {

// So many schedules first, always the same: caches of freed handles fill, and the same choices then lead to the same
// steps.
constexpr unsigned kWarmUp = 150;
constexpr uint64_t kWarmUpSeed = 20'240'229;
// What may stay behind after all schedules of a scenario together: growth of the explorer's own tables.
constexpr int64_t kLeakTolerance = 4;
constexpr unsigned kStuckSeconds = 30;

struct Settings {
  unsigned bound = 2;
  uint64_t cap = 100'000;
  double random_seconds = 1;
  uint64_t seed = 1;
  bool trace = false;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const Scenario* playing = nullptr;

void report(const Scenario& scenario, const std::string& what, const std::string& choices, const std::string& trace) {
  std::printf("FAILED %s [%s]\n  %s\n  the last points:\n%s  replay with: --scenario %s --replay %s\n", scenario.name,
              scenario.proves, what.c_str(), trace.c_str(), scenario.name, choices.c_str());
  std::fflush(stdout);
}

// Not safe in every handler of a crash, but the process is lost already and the schedule is worth the try.
void crashed(int number) {
  signal(number, SIG_DFL);
  if (playing != nullptr) {
    const std::string what = number == SIGALRM ? "no scheduling point for long: an endless loop, or a real wait"
                                               : std::string("crash: ") + strsignal(number);
    report(*playing, what, choices_so_far(), trace_so_far());
  }
  _exit(3);
}

void catch_crashes() {
  static char stack[256 * 1024];
  stack_t other = {};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = crashed;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) sigaction(number, &action, nullptr);
}

bool passes(const Scenario& scenario, Strategy& strategy, const char* by, const Settings& settings) {
  const std::optional<Failure> failure = play(scenario, strategy);
  if (!failure) return true;
  report(scenario, failure->what + " (" + by + ", seed " + std::to_string(settings.seed) + ")", failure->choices,
         failure->trace);
  return false;
}

bool warm_up(const Scenario& scenario, const Settings& settings) {
  Random random(kWarmUpSeed);
  for (unsigned i = 0; i < kWarmUp; i++) {
    if (!passes(scenario, random, "warm-up", settings)) return false;
  }
  return true;
}

struct Explored {
  bool passed = false;
  bool complete = false;
  uint64_t schedules = 0;
  unsigned drift = 0;
};

Explored explore_depth_first(const Scenario& scenario, const Settings& settings) {
  Explored all;
  for (unsigned bound = 0; bound <= settings.bound; bound++) {
    DepthFirst strategy(bound);
    uint64_t schedules = 0;
    do {
      if (schedules == settings.cap) {
        all.passed = true;
        return all;
      }
      if (schedules % 1024 == 0) alarm(kStuckSeconds);
      if (!passes(scenario, strategy, "depth first", settings)) return all;
      schedules++;
      all.schedules++;
      all.drift += strategy.drift();
    } while (strategy.advance());
  }
  all.passed = all.complete = true;
  return all;
}

bool explore(const Scenario& scenario, const Settings& settings) {
  playing = &scenario;
  alarm(kStuckSeconds);
  const double start = seconds_now();
  if (!warm_up(scenario, settings)) return false;
  const int64_t live_before = live_allocations();
  const Explored depth_first = explore_depth_first(scenario, settings);
  if (!depth_first.passed) return false;
  Random random(settings.seed);
  uint64_t schedules = 0;
  for (const double end = seconds_now() + settings.random_seconds; seconds_now() < end;) {
    alarm(kStuckSeconds);
    for (unsigned i = 0; i < 256; i++, schedules++) {
      if (!passes(scenario, random, "random", settings)) return false;
    }
  }
  alarm(0);
  const int64_t left = live_allocations() - live_before;
  std::printf("ok   %s [%s]: %lu schedules, %s %u preemptions; %lu random; %lu points; %.1f s\n", scenario.name,
              scenario.proves, depth_first.schedules, depth_first.complete ? "all with at most" : "capped within",
              settings.bound, schedules, points_so_far(), seconds_now() - start);
  if (depth_first.drift != 0) {
    std::printf("FAILED %s: not deterministic, %u times the same choices led elsewhere\n", scenario.name,
                depth_first.drift);
  }
  if (left > kLeakTolerance) std::printf("FAILED %s: leaks, %ld allocations are left\n", scenario.name, left);
  std::fflush(stdout);
  return depth_first.drift == 0 && left <= kLeakTolerance;
}

bool replay(const Scenario& scenario, const std::string& text, const Settings& settings) {
  const auto choices = read(text);
  if (!choices) {
    std::printf("not a schedule: %s\n", text.c_str());
    return false;
  }
  playing = &scenario;
  alarm(kStuckSeconds);
  if (!warm_up(scenario, settings)) return false;
  Replay strategy(*choices);
  const bool passed = passes(scenario, strategy, "replay", settings);
  if (passed) std::printf("ok   %s: this schedule passes\n", scenario.name);
  return passed;
}

template <class Body>
bool in_process_of_its_own(const Scenario& scenario, Body body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    catch_crashes();
    const bool passed = body();
    std::fflush(stdout);
    _exit(passed ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    std::printf("FAILED %s: no process for it\n", scenario.name);
    return false;
  }
  if (WIFSIGNALED(status)) std::printf("FAILED %s: killed by %s\n", scenario.name, strsignal(WTERMSIG(status)));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// ---- Controls -------------------------------------------------------------------------------------------------------

constexpr double kFoundWithin = 2;

struct Found {
  std::optional<Failure> failure;
  uint64_t schedules = 0;
};

Found find_depth_first(const Scenario& scenario) {
  Found found;
  const double end = seconds_now() + kFoundWithin;
  for (unsigned bound = 0; bound <= 2; bound++) {
    DepthFirst strategy(bound);
    do {
      found.schedules++;
      found.failure = play(scenario, strategy);
      if (found.failure || seconds_now() > end) return found;
    } while (strategy.advance());
  }
  return found;
}

Found find_random(const Scenario& scenario, uint64_t seed) {
  Found found;
  Random random(seed);
  for (const double end = seconds_now() + kFoundWithin; seconds_now() < end && !found.failure; found.schedules++) {
    found.failure = play(scenario, random);
  }
  return found;
}

bool judge(const Control& control, const char* by, const Found& found) {
  const char* name = control.planted.name;
  if (!found.failure) {
    std::printf("THE NET HAS A HOLE: %s not found %s in %lu schedules\n", name, by, found.schedules);
    return false;
  }
  if (found.failure->what.find(control.found_as) == std::string::npos) {
    std::printf("THE NET HAS A HOLE: %s was found %s, but as: %s\n", name, by, found.failure->what.c_str());
    return false;
  }
  Replay again(*read(found.failure->choices));
  const std::optional<Failure> repeated = play(control.planted, again);
  if (!repeated || repeated->what != found.failure->what || repeated->choices != found.failure->choices) {
    std::printf("THE NET HAS A HOLE: %s is not repeated by its schedule %s\n", name, found.failure->choices.c_str());
    return false;
  }
  std::printf("held %s, %s, after %lu schedules: %s; schedule %s\n", name, by, found.schedules,
              found.failure->what.c_str(), found.failure->choices.c_str());
  return true;
}

bool controls_hold(bool at_length, const Settings& settings) {
  bool hold = true;
  unsigned done = 0;
  for (const Control& control : controls()) {
    if (!at_length && done++ == 3) break;
    hold &= judge(control, "depth first", find_depth_first(control.planted));
    if (!at_length) continue;
    hold &= judge(control, "by chance", find_random(control.planted, settings.seed));
    Settings twin = settings;
    twin.random_seconds = 1;
    hold &= in_process_of_its_own(control.sound, [&] { return explore(control.sound, twin); });
  }
  return hold;
}

int usage() {
  std::printf(
      "usage: [--budget ci|short] [--long] [--bound PREEMPTIONS] [--schedules CAP] [--seconds RANDOM-SECONDS-EACH]\n"
      "       [--seed NUMBER] [--scenario PART-OF-NAME [--replay SCHEDULE]] [--list]\n");
  return 2;
}

}  // namespace

int program(int argc, char** argv, const std::vector<Scenario>& scenarios) {
  Settings settings;
  std::string only, schedule;
  for (int i = 1; i < argc; i++) {
    const std::string option = argv[i];
    if (option == "--list") {
      for (const Scenario& scenario : scenarios) std::printf("%s [%s]\n", scenario.name, scenario.proves);
      return 0;
    }
    if (option == "--long") {
      settings.bound = 3;
      settings.cap = 20'000'000;
      settings.random_seconds = 60;
      continue;
    }
    if (i + 1 == argc) return usage();
    const std::string value = argv[++i];
    if (option == "--budget" && value == "ci") {
      settings = Settings{};
    } else if (option == "--budget" && value == "short") {
      settings.cap = 10'000;
      settings.random_seconds = 0.3;
    } else if (option == "--bound") {
      settings.bound = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (option == "--schedules") {
      settings.cap = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--seconds") {
      settings.random_seconds = std::strtod(value.c_str(), nullptr);
    } else if (option == "--seed") {
      settings.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--scenario") {
      only = value;
    } else if (option == "--replay") {
      schedule = value;
    } else {
      return usage();
    }
  }
  std::printf("seed %lu\n", settings.seed);
  if (schedule.empty() && !controls_hold(scenarios.empty(), settings)) return 1;

  unsigned passed = 0, failed = 0;
  for (const Scenario& scenario : scenarios) {
    const bool exact = only == scenario.name;
    if (!exact && (!schedule.empty() || std::strstr(scenario.name, only.c_str()) == nullptr)) continue;
    const bool good = in_process_of_its_own(scenario, [&] {
      return schedule.empty() ? explore(scenario, settings) : replay(scenario, schedule, settings);
    });
    (good ? passed : failed)++;
  }
  if (!scenarios.empty()) std::printf("%u scenarios passed, %u failed\n", passed, failed);
  if (!scenarios.empty() && passed + failed == 0) {
    std::printf("no scenario of that name\n");
    return 2;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace sched
