// The explorer: plays a scenario of a few threads in every order that a strategy asks for.
//
// The threads are fibers on one operating-system thread. At each scheduling point the explorer lists what could
// happen next, a strategy picks one, and the picks are the schedule: written down they are the string that replays
// it. A timed wait may end at any moment (time then jumps to its deadline), a futex sleeper may wake for no reason,
// and where a scenario asks for it a signal handler may run: so deadlines, loops around waits and EINTR are explored
// like everything else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nocter/base/monitor.hpp"

namespace sched {

inline constexpr int kMostThreads = 6;
// A schedule of so many points does not end by itself.
inline constexpr unsigned kLivelock = 20'000;

// ---- Scenarios ------------------------------------------------------------------------------------------------------

// What one scenario adds to be played. Bodies run as fibers; what is checked at the end runs when all bodies have
// returned.
class Play {
 public:
  void thread(const char* name, std::function<void()> body) { threads.push_back({name, std::move(body)}); }
  void at_end(std::function<void()> check) { checks.push_back(std::move(check)); }

  struct Thread {
    const char* name;
    std::function<void()> body;
  };
  std::vector<Thread> threads;
  std::vector<std::function<void()>> checks;
};

// Besides wakes for no reason, which happen in every scenario.
enum class Disturbance {
  none,
  signals,      // a signal handler may run on a sleeping thread
  memory,       // an allocation that may fail does
  idle_yields,  // yielding the core lets nobody in, so that who waits sleeps soon
};

struct Scenario {
  const char* name;    // carries the race ids
  const char* proves;  // the promises, race ids
  void (*make)(Play&);
  Disturbance disturbance = Disturbance::none;
};

// Fails the schedule unless the condition holds. Works in bodies, callbacks, set-up and checks.
void require(bool condition, const char* what);
void require_equal(int64_t found, int64_t wanted, const char* what);
[[noreturn]] void fail(const std::string& what);

// For bodies: goes on once the condition holds. It must depend on nothing but what other threads do.
void wait_until(std::function<bool()> condition);
// Whether the thread of that name sleeps on a futex now, or has ended.
bool asleep(const char* thread);
bool ended(const char* thread);
// Until when a thread sleeps that does; kForever when nothing but a wake ends it. For a thread that does not sleep: not later than now.
int64_t sleeps_until(const char* thread);
// Whether no thread holds a lock of the seam.
bool locks_free();
// How many locks of the seam the running thread holds: none while foreign code runs.
unsigned locks_held();

// A mishap that may happen here or not, at the explorer's choice.
bool maybe(const char* mishap);
// The same for memory that is refused: only where the scenario has it so.
bool memory_refused();

// ---- Strategies -----------------------------------------------------------------------------------------------------

struct Option {
  enum Kind : uint8_t {
    run,       // the thread goes on
    expire,    // its deadline passes
    spurious,  // it wakes for no reason
    signal,    // a signal handler runs on it
    wake,      // of several sleepers it is the one that a wake of one reaches
  };
  Kind kind;
  uint8_t thread;
  uint8_t cost;  // 1: counts against the bound of preemptions
};

struct Decision {
  const Option* options;
  unsigned size;
  int from;  // the thread that could go on at no cost, or -1
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void begin(unsigned threads) = 0;
  virtual unsigned choose(const Decision& decision) = 0;
};

// Every schedule with at most so many preemptions.
class DepthFirst : public Strategy {
 public:
  explicit DepthFirst(unsigned bound) : bound_(bound) {}
  void begin(unsigned threads) override;
  unsigned choose(const Decision& decision) override;
  // Turns to the next schedule; false when there is none.
  bool advance();
  // How often the same choices led to other options than before: the scenario is not deterministic.
  unsigned drift() const { return drift_; }

 private:
  struct Entry {
    uint32_t costs;
    uint8_t size, chosen;
    uint16_t spent;
  };
  std::vector<Entry> path_;
  size_t depth_ = 0;
  unsigned bound_, spent_ = 0, drift_ = 0;
};

// Three ways by turns: a random walk, PCT (after S. Burckhardt et al., "A Randomized Scheduler with Probabilistic
// Guarantees of Finding Bugs", 2010) with three priority changes, and one thread starved for a while.
class Random : public Strategy {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  void begin(unsigned threads) override;
  unsigned choose(const Decision& decision) override;

 private:
  uint32_t next(uint32_t below);
  unsigned rare(const Decision& decision);

  uint64_t state_;
  unsigned turn_ = 0, decisions_ = 0, longest_ = 100, stickiness_ = 0;
  uint32_t priority_[kMostThreads] = {};
  unsigned changes_[3] = {};
  uint32_t lowest_ = 0;
  unsigned victim_ = 0, starved_until_ = 0;
};

class Replay : public Strategy {
 public:
  explicit Replay(std::vector<uint8_t> choices) : choices_(std::move(choices)) {}
  void begin(unsigned) override { at_ = 0; }
  unsigned choose(const Decision& decision) override;

 private:
  std::vector<uint8_t> choices_;
  size_t at_ = 0;
};

// ---- Playing --------------------------------------------------------------------------------------------------------

struct Failure {
  std::string what;
  std::string choices;  // for --replay
  std::string trace;    // the last points, one a line
};

// Plays one schedule. After a failure its fibers are left where they stand and their memory is not freed.
std::optional<Failure> play(const Scenario& scenario, Strategy& strategy);

// For the handler of a crash: the schedule so far.
std::string choices_so_far();
std::string trace_so_far();
uint64_t points_so_far();

std::string written(const std::vector<uint8_t>& choices);
std::optional<std::vector<uint8_t>> read(const std::string& text);

}  // namespace sched
