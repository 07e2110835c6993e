// What the scenarios of the retirement service share: a service that keeps a tally of every answer it gave, and the reckoning at the
// end of each schedule.
#pragma once

#include "sched/world.hpp"

namespace sched {

struct Places {
  uint32_t maximum_resources = 2;
  uint32_t workers = 1;
  bool stays_awake = false;  // waits yield once before they sleep
};

// Each call checks what may be checked about its answer alone. Numbers name resources.
class Retiring {
 public:
  explicit Retiring(const Places& places = {});
  Retiring(const Retiring&) = delete;
  Retiring& operator=(const Retiring&) = delete;

  nocter_status reserve(nocter_permit*& permit, nocter_epoch& epoch);
  nocter_permit* reserved();
  nocter_resource* attach(nocter_permit* permit, int number);
  nocter_resource* own(int number) { return attach(reserved(), number); }
  nocter_retirement_id retire(nocter_resource* resource);
  nocter_retirement_id retired(int number) { return retire(own(number)); }
  nocter_status claim(nocter_cleanup*& cleanup, const nocter_wait* wait = nullptr);
  // Takes the resource out and ends it.
  void begin(nocter_cleanup* cleanup);
  // Claims one and cleans it; the answer of the claim.
  nocter_status clean_once(const nocter_wait* wait = nullptr, int32_t code = 0);
  // Cleans one that is there.
  void cleaned(int32_t code = 0);
  nocter_status take(nocter_retirement_id id, const nocter_wait* wait = nullptr, int32_t* code = nullptr);
  nocter_status detach(nocter_retirement_id id);
  nocter_status wait_epoch(nocter_epoch& later_than, const nocter_wait* wait = nullptr);
  nocter_status drained(const nocter_wait* wait = nullptr);
  nocter_retirement_counts counts();
  void destroy();
  // What a thread of the library's own does. To be announced first.
  void announce_serving(uint32_t threads);
  void serve(nocter_interrupt* stop);

  // The reckoning: no place is occupied, the sums hold, every resource ended once, every notifier was dropped. Gives the service up.
  void settle();

  nocter_retirement* service = nullptr;
  Ledger ledger;
  Bell waiters, work;
};

inline std::shared_ptr<Retiring> retiring(const Places& places = {}) { return std::make_shared<Retiring>(places); }

std::vector<Scenario> retirement_races();
std::vector<Scenario> retirement_waits();
std::vector<Scenario> retirement_ends();

}  // namespace sched
