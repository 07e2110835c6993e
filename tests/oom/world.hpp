// The objects a scenario plays with, and what must hold of them after a call that ran out of memory.
#pragma once

#include <nocter.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/payload.hpp"

namespace oom {

struct World {
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Made by `prepare`, as far as the scenario needs them; given up by end().
  nocter_blocking* service = nullptr;
  nocter_blocking* other = nullptr;  // a second service, whose identities are foreign to the first
  nocter_signal* signal = nullptr;
  nocter_interrupt* interrupt = nullptr;
  nocter_eventfd* eventfd = nullptr;
  nocter_workers* workers = nullptr;
  nocter_running_job* job = nullptr;
  nocter_completion* completion = nullptr;
  nocter_retirement* retirement = nullptr;
  nocter_permit* permit = nullptr;
  nocter_resource* resource = nullptr;
  nocter_cleanup* cleanup = nullptr;
  nocter_keyed* queue = nullptr;
  nocter_pass* pass = nullptr;
  nocter_tasks* tasks = nullptr;
  nocter_clock* clock = nullptr;
  nocter_run* run = nullptr;
  nocter_lock* lock = nullptr;
  nocter_task_id task = {};
  std::string store = "memory:";  // what tasks are opened in
  nocter_notifier notifier = {};

  // What the caller holds.
  nocter_job_id id = {};
  nocter_retirement_id retirement_id = {};
  nocter_epoch epoch = {};
  nocter_owned value = {};
  uint64_t version = 0;

  // So many live handles of one kind that the next one needs memory that the library does not have yet. What handles
  // have ended in is kept, so there is one more of them each time.
  std::vector<nocter_blocking*> many_services;
  std::vector<nocter_retirement*> many_retirements;
  std::vector<nocter_keyed*> many_queues;
  std::vector<nocter_signal*> many_signals;
  std::vector<nocter_interrupt*> many_interrupts;
  std::vector<nocter_eventfd*> many_eventfds;
  std::vector<nocter_workers*> many_workers;

  // Given to the service as options; counts wakes and drops.
  nocter_tests::Wakes waiters, work;
  nocter_blocking_options options = {};
  nocter_workers_options workers_options = {};
  nocter_blocking_counts counts = {};
  nocter_retirement_options retirement_options = {};
  nocter_retirement_counts retirement_counts = {};
  nocter_keyed_options keyed_options = {};
  nocter_keyed_counts keyed_counts = {};
  std::atomic<uint32_t> sources_given{0}, sources_dropped{0};
  std::atomic<uint32_t> started{0}, stopped{0};

  // Out-parameters, poisoned before the call.
  struct Out {
    nocter_blocking* service;
    nocter_signal* signal;
    nocter_interrupt* interrupt;
    nocter_eventfd* eventfd;
    nocter_workers* workers;
    nocter_running_job* job;
    nocter_completion* completion;
    nocter_retirement* retirement;
    nocter_permit* permit;
    nocter_cleanup* cleanup;
    nocter_keyed* queue;
    nocter_pass* pass;
    nocter_tasks* tasks;
    nocter_clock* clock;
    nocter_run* run;
    nocter_lock* lock;
    nocter_value* shared;
    const nocter_task* record;
    nocter_task_list records;
    nocter_value_list values;
    nocter_event_list events;
    nocter_status each[4];
    int64_t due;
    nocter_retirement_id retirement_id;
    int32_t code;
    nocter_job_id id, ids[4];
    nocter_epoch epoch;
    nocter_owned value;
    nocter_job_state state;
    uint64_t version;
    size_t count;
  } out;

  // The out-parameter that the call is about to fill in: poisoned now, and zero after a failure.
  template <class T>
  T* fill(T& parameter) {
    std::memset(static_cast<void*>(&parameter), 0x5a, sizeof(T));
    return remember(parameter, filled_);
  }
  // What the caller lends to the call: the same bytes after a failure.
  template <class T>
  T* lend(T& parameter) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(&parameter);
    lent_bytes_.assign(bytes, bytes + sizeof(T));
    return remember(parameter, lent_);
  }

  // Between prepare and call: room for the notes that fill() and lend() take, so that they do not allocate.
  void get_ready();
  // After a call that said NOCTER_E_MEMORY.
  void check_nothing_changed() const;
  // After the last call: drops what the call produced and the rest, and checks the identities of the counts on the way.
  void end();

 private:
  struct Region {
    const unsigned char* data;
    size_t size;
  };
  template <class T>
  static T* remember(T& parameter, Region& region) {
    region = {reinterpret_cast<const unsigned char*>(&parameter), sizeof(T)};
    return &parameter;
  }
  void adopt();

  Region filled_ = {}, lent_ = {};
  std::vector<unsigned char> lent_bytes_;
  nocter_blocking_counts before_ = {};
  nocter_retirement_counts retirement_before_ = {};
  nocter_keyed_counts keyed_before_ = {};
  nocter_tasks_counts tasks_before_ = {};
  size_t threads_before_ = 0, descriptors_before_ = 0;
  uint64_t drops_before_ = 0;
};

// One call in one state.
struct Scenario {
  const char* name;
  void (*prepare)(World& world);
  // The call itself; runs while memory fails.
  nocter_status (*call)(World& world);
  // What it says when nothing fails.
  nocter_status expected;
  // At most so many blocks, and at least one when there are any, are kept from each time for the next one.
  int64_t kept = 0;
  // Tasks in a database of this scenario's own: some of its allocations each time, for there are thousands.
  bool on_disk = false;
};

using Scenarios = std::vector<Scenario>;
Scenarios base_scenarios();
Scenarios blocking_scenarios();
Scenarios ownership_scenarios();
Scenarios retirement_scenarios();
Scenarios keyed_scenarios();
Scenarios worker_scenarios();
Scenarios tasks_scenarios();
Scenarios sqlite_scenarios();  // the same in a database; none in a build without SQLite

// For calls that return no status.
constexpr nocter_status as_status(bool held) { return held ? NOCTER_OK : NOCTER_E_INTERNAL; }

// ---- States ---------------------------------------------------------------------------------------------------------

void nothing(World& world);
void an_empty_service(World& world);  // two jobs, one worker slot
void a_queued_job(World& world);
void a_full_service(World& world);
void a_claimed_job(World& world);
void a_begun_job(World& world);
void an_abandoned_job(World& world);
void a_completed_job(World& world);
void a_lost_job(World& world);
void a_service_shut_down(World& world);
void a_foreign_identity(World& world);
void a_value(World& world);
void a_signal(World& world);
void an_eventfd(World& world);
void an_interrupt(World& world);
void served(World& world);
void many_signals(World& world);
void many_interrupts(World& world);
void many_eventfds(World& world);
void many_services(World& world);
void many_workers(World& world);

// A wait whose deadline has passed, one that an interrupt has ended, one without end.
inline constexpr nocter_wait kPast = {0, nullptr, 0, 0};
inline constexpr nocter_wait kForever = {NOCTER_FOREVER, nullptr, 0, 0};
nocter_wait interrupted(const World& world);

// Passes its input on as its output.
void pass_on(void* user, nocter_owned* input, nocter_owned* output, nocter_completion* completion);

}  // namespace oom
