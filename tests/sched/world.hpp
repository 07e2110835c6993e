// What the scenarios of the blocking service and of the signal share: values that know how often they ended, a
// service that keeps a tally of every answer it gave, and the reckoning at the end of each schedule.
#pragma once

#include <nocter.h>

#include <memory>
#include <string>
#include <vector>

#include "sched/explorer.hpp"

namespace sched {

// ---- Values: every one is ended exactly once (GEN-01) ---------------------------------------------------------------

class Ledger {
 public:
  // A new value; its number says which.
  nocter_owned make(int number);
  // The caller owns it and ends it now; the number must be this.
  void end(nocter_owned& value, int number);
  static int number(const nocter_owned& value);
  bool ended(int number) const;
  // Whether a drop function of nocter's calling has begun, and whether it has returned.
  bool drop_began(int number) const;
  void check() const;

 private:
  struct Value {
    const Ledger* ledger;
    int number;
    int ends = 0;
    bool drop_began = false;
  };
  static void drop(void* data);
  const Value& find(int number) const;
  // Pointers to values are out: they stay where they are.
  std::vector<std::unique_ptr<Value>> values_;
};

// ---- Waits ----------------------------------------------------------------------------------------------------------

nocter_wait forever();
nocter_wait forever(nocter_interrupt* interrupt);
nocter_wait within(int64_t ns);
nocter_wait within(int64_t ns, nocter_interrupt* interrupt);

class OwnInterrupt {
 public:
  OwnInterrupt();
  ~OwnInterrupt();
  OwnInterrupt(const OwnInterrupt&) = delete;
  OwnInterrupt& operator=(const OwnInterrupt&) = delete;
  operator nocter_interrupt*() const { return interrupt_; }

 private:
  nocter_interrupt* interrupt_ = nullptr;
};

// ---- Notifiers ------------------------------------------------------------------------------------------------------

// Counts its wakes and does what it was given; checks that no lock is held (GEN-05) and that it is dropped exactly
// once, last.
class Bell {
 public:
  nocter_notifier notifier();
  std::function<void()> on_wake;
  int wakes = 0;
  int inside = 0;   // calls of the wake function that run now
  int deepest = 0;  // the most that did on one thread
  bool given = false, dropped = false;
};

// ---- The service ----------------------------------------------------------------------------------------------------

struct Shape {
  uint32_t maximum_jobs = 2;
  uint32_t workers = 1;
  bool stays_awake = false;  // waits yield once before they sleep
};

class Blocking {
 public:
  explicit Blocking(const Shape& shape = {});
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

  struct Begun {
    nocter_completion* completion;
    int number;
    nocter_job_id id;
  };

  // Each of these checks what may be checked about its answer alone, and keeps the tally. Numbers name values: a job
  // whose input is n has the output n + 100.
  nocter_status submit(int number, nocter_job_id& id, nocter_epoch& epoch);
  nocter_job_id accepted(int number);
  nocter_status claim(nocter_running_job*& job, const nocter_wait* wait = nullptr);
  Begun begin(nocter_running_job* job);
  Begun claimed_and_begun(const nocter_wait* wait = nullptr);
  void complete(const Begun& begun);
  void lose(const Begun& begun);
  // Claims, begins and completes one; the answer of the claim.
  nocter_status work_once(const nocter_wait* wait = nullptr);
  nocter_status take(nocter_job_id id, int number, const nocter_wait* wait = nullptr);
  // The state it was in, or the negative status.
  int32_t cancel(nocter_job_id id, int number, bool give_back = true);
  // Hands over into `handed`.
  void shutdown();
  nocter_status drained(const nocter_wait* wait = nullptr);
  nocter_status wait_epoch(nocter_epoch& later_than, const nocter_wait* wait = nullptr);
  nocter_epoch epoch();
  nocter_job_state state(nocter_job_id id);  // zero: unknown
  // One moment's snapshot, whose sums are checked (GEN-12, BLK-01, BLK-02).
  nocter_blocking_counts counts();
  // The same for the conditions of wait_until, which are asked at any moment: false while some thread holds a lock.
  bool glance(nocter_blocking_counts& counts) const;
  void destroy();

  // The reckoning: the sums and the tally agree, nothing is left, every value ended once, every notifier was dropped.
  void settle();

  nocter_blocking* service = nullptr;
  Ledger ledger;
  Bell waiters, work;
  struct Handed {
    nocter_job_state was;
    int number;
  };
  std::vector<Handed> handed;
  // Numbers whose job ended as worker lost, so has no output.
  std::vector<int> lost;
  struct Tally {
    uint64_t accepted = 0, saturated = 0, taken = 0, cancelled_queued = 0, cancelled_completed = 0, handed_queued = 0,
             handed_completed = 0, completed = 0, lost = 0;
  } tally;

 private:
  static void sink(void* user, nocter_job_state was, nocter_owned* value);
};

void check_sums(const nocter_blocking_counts& counts);

// Makes the world of one schedule, to be shared by its threads.
inline std::shared_ptr<Blocking> blocking(const Shape& shape = {}) { return std::make_shared<Blocking>(shape); }

}  // namespace sched
