// What the scenarios of the keyed queue share: things that keys stand for, whose states passes must have seen in the end; a queue that keeps
// a tally of every answer it gave; and the reckoning at the end of each schedule.
#pragma once

#include <nocter.h>
#include <nocter/keyed.h>

#include <memory>
#include <string>
#include <vector>

#include "sched/world.hpp"

namespace sched {

inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kHour = 3'600'000 * kMillisecond;

struct QueueShape {
  uint32_t maximum_keys = 3;
  uint32_t workers = 1;
  bool stays_awake = false;  // waits yield once before they sleep
  int64_t backoff_initial_ns = 10 * kMillisecond;
  int64_t backoff_maximum_ns = 40 * kMillisecond;
  uint32_t backoff_percent = 200;
  uint32_t backoff_jitter_percent = 0;
};

enum class Ends { completes, fails, drops, retries, backs_off };

class Keyed {
 public:
  explicit Keyed(const QueueShape& shape = {});
  Keyed(const Keyed&) = delete;
  Keyed& operator=(const Keyed&) = delete;

  struct Pass {
    nocter_pass* pass;
    int key;
  };

  // Changes the thing that the key stands for, then says so. Each of these checks what may be checked about its answer alone.
  nocter_status notify(int key);
  nocter_status notify_after(int key, int64_t delay_ns);
  void notify_many(const std::vector<int>& keys);
  void accepted(int key);  // one that must say NOCTER_OK
  nocter_status claim(Pass& pass, const nocter_wait* wait = nullptr);
  Pass claimed(const nocter_wait* wait = nullptr);
  void end(const Pass& pass, Ends how = Ends::completes, int64_t retry_after_ns = kHour);
  // Claims and ends one; the answer of the claim.
  nocter_status work_once(const nocter_wait* wait = nullptr, Ends how = Ends::completes);
  void close(nocter_close_mode mode);
  nocter_status drained(const nocter_wait* wait = nullptr);
  // One moment's snapshot, whose sums are checked (GEN-12).
  nocter_keyed_counts counts();
  // The same for the conditions of wait_until, which are asked at any moment: false while some thread holds a lock.
  bool glance(nocter_keyed_counts& counts) const;
  void destroy();

  // For whoever answers for calls that were made beside these.
  void tell(int key, int state, nocter_status status);
  int change(int key) { return ++things_[key].state; }

  // The reckoning: no notification went unseen, unless it was discarded; sums and tally agree; nothing is left; notifiers were dropped.
  void settle();

  int passes_of(int key) const { return things_[key].passes; }
  int active_now() const { return active_; }
  bool active(int key) const { return things_[key].active; }

  nocter_keyed* queue = nullptr;
  Bell waiters, work;
  static constexpr int kThings = 4;
  static nocter_text text_of(int key);
  static int key_of(nocter_text text);

  struct Tally {
    uint64_t ok = 0, coalesced = 0, saturated = 0, closed = 0, started = 0, completed = 0, failed = 0;
  } tally;

 private:
  struct Thing {
    int state = 0;     // as it is
    int promised = 0;  // what some pass that has yet to start must see
    int seen = 0;      // by the pass that started last
    int passes = 0;
    bool active = false;
  };
  void claim_rest();

  const uint32_t workers_;
  Thing things_[kThings];
  int active_ = 0;
  bool discards_ = false, discarded_ = false;  // a close began to discard; has
};

void check_sums(const nocter_keyed_counts& counts);

// Makes the world of one schedule, to be shared by its threads.
inline std::shared_ptr<Keyed> keyed(const QueueShape& shape = {}) { return std::make_shared<Keyed>(shape); }

// A host that sleeps until it is told and then asks: what it waits for is always told to it.
template <class Asks>
void sleeps_until_told(const Bell& bell, Asks asks) {
  for (;;) {
    const int seen = bell.wakes;
    if (asks()) return;
    wait_until([&bell, seen] { return bell.wakes != seen; });
  }
}

std::vector<Scenario> races_on_one_key();
std::vector<Scenario> claim_scenarios();
std::vector<Scenario> time_scenarios();
std::vector<Scenario> close_scenarios();
std::vector<Scenario> keyed_notifier_scenarios();
std::vector<Scenario> resync_scenarios();

}  // namespace sched
