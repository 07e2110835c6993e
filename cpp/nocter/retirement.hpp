// The retirement service: a bounded set of places, each reserved before its resource exists, so that giving the resource up needs
// nothing that could be missing then.
//
// The record of a place is everything it will ever need: the permit, the owner, the node of the queue, the cleanup and the
// completion. Every move of one goes through move(), which asks retirement_rules.hpp what happens, under the one lock of the
// service; then the lock is released, and only then is anybody woken or told, or any resource ended.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "nocter/base/handle.hpp"
#include "nocter/base/identity.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/base/owned.hpp"
#include "nocter/base/service.hpp"
#include "nocter/base/threads.hpp"
#include "nocter/retirement_rules.hpp"

namespace nocter::retirement {

using base::Epoch;
using base::Identity;
using base::Owned;

struct Options {
  uint32_t maximum_resources = 64;
  uint32_t workers = 2;
  base::Notifier waiters, work;
  base::Patience patience{0, 0};
  uint64_t first_sequence = 1;  // for the tests: identities run out when it comes round to 0
};

struct Counts {
  bool accepting;
  uint32_t permits, live, queued, running, completed, reserved, maximum_resources, workers;
  uint64_t epoch, reservations, saturated, permits_dropped, unobserved_done, detached_done, taken, detached_completed,
      cleaned, failed, lost, failed_unobserved, exceptions;
  int64_t oldest_queued_ns, longest_running_ns;
};

class Service;

// Guards are parts of the record they guard: making one allocates nothing.
struct Permit {
  base::Tag tag;
};
struct Resource {
  base::Tag tag;
};
struct Cleanup {
  base::Tag tag;
};

struct alignas(64) Record : Permit, Resource, Cleanup {
  explicit Record(Service& owner) : service(owner) {}
  Permit& permit() { return *this; }
  Resource& resource() { return *this; }
  const Resource& resource() const { return *this; }
  Cleanup& cleanup() { return *this; }
  using Place = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

  // Of a completed one.
  bool failed() const { return lost || code != 0; }

  Service& service;
  Owned value;  // the resource, from attach until its cleanup takes it
  uint64_t sequence = 0;
  int64_t since = 0;       // queued or running since
  Place place;             // among those unused, queued or running
  Place watch;             // among those whose identity somebody knows
  base::EventCount ended;  // moves when a take may find another state
  int32_t code = 0;
  State state = State::free;
  bool lost = false;   // completed without a code
  bool begun = false;  // owner only: the resource was taken out of the cleanup
};
static_assert(sizeof(Record) == 128 || sizeof(void*) != 8);

class Service : public base::Service<Service, base::Kind::retirement> {
 public:
  static Service* create(const Options& options);
  Service(const Options& options, void* records, uint64_t number);

  Status reserve(Record*& out, Epoch& epoch);
  Status claim(const base::Wait* wait, Record*& out);
  Status take(Identity id, const base::Wait* wait, int32_t& code);
  Status query(Identity id, State& state) const;
  Status detach(Identity id);
  void detach_all();
  Epoch epoch() const;
  Status wait_epoch(Epoch later_than, const base::Wait* wait, Epoch& now);
  void close();
  Status drained(const base::Wait* wait);
  Counts count() const;

  // The guards' ends. Owner only: the guard's tag has been ended by the caller.
  static void attach(Record& record, Owned& value);
  static void drop_permit(Record& record);
  static void drop(Record& record);
  // `closed`: nobody will be able to ask.
  static Status retire(Record& record, Identity& id);
  static void complete(Record& record, int32_t code);
  // Ends the resource first if it is still in the guard, so that the place is not free before it is gone.
  static void drop_cleanup(Record& record);
  // Takes no lock: the guard's owner is the only one who looks at the value.
  static Owned begin(Record& record) {
    record.begun = true;
    return record.value.release();
  }

  // Threads that clean by ending each resource.
  base::Workers::Started serve(base::ThreadOptions options, base::Workers*& out);
  // What each of them does: it was announced, holds the service, and returns when nothing is left or `stop` was raised. False: nothing
  // will come any more.
  bool serving_begins(uint32_t threads);
  void serve_here(base::Interrupt& stop);

 private:
  friend base::Service<Service, base::Kind::retirement>;
  friend void base::end_handle<base::Kind::retirement, Service>(Service*);
  friend class Serving;
  template <Record::Place Record::*place>
  using ListBy = boost::intrusive::list<Record, boost::intrusive::member_hook<Record, Record::Place, place>,
                                        boost::intrusive::constant_time_size<false>>;
  using Records = ListBy<&Record::place>;
  using Watched = ListBy<&Record::watch>;

  struct After : base::After {
    bool last = false;  // the last reservation of a destroyed service has ended: what kept the service is to be let go
  };

  ~Service();
  void close_for_good();
  void empty_out();
  Identity identity_of(const Record& record) const {
    return Identity::of(number(), static_cast<uint64_t>(&record - records_), record.sequence);
  }

  // The only place where a record changes its state, and where places, workers, totals and lists follow it.
  Step move(Record& record, State from, Event event, After& after);
  void place_freed(Record& record, After& after);
  Record* unused_record();
  Record* ready_record();
  void hand_to_worker(Record& record, After& after);
  Status find(Identity id, Record*& record) const;
  void close(After& after);
  void detach_observed(After& after);
  Epoch epoch_now() const { return {number(), epoch_ + 1}; }
  // Nothing is left that could be claimed, now or later.
  bool work_is_over() const { return closed_ && to_come_ == 0; }
  // Nobody is left who could claim: there is no handle to do it with, and no thread that serves.
  bool orphaned() const { return destroyed_ && serving_ == 0; }

  // The base's, and then cleans what nobody else would.
  void finish(base::Locked& lock, After& after, Reference& staying);
  base::Woken wait_for_work(base::Locked& lock, const base::Wait& wait, bool ends_with_handle);
  static void queue(Record& record, Event event, Identity* id);
  void end_cleanup(Record& record, Event event, int32_t code);
  // For a thread of ours; null: no more.
  Record* claim_for_worker(base::Interrupt& stop);
  // Ends the resource, then the cleanup, whichever way its destructor is left.
  void clean(Record& record);
  void clean_orphans();
  void clean_all_orphans();
  bool clean_one_orphan();
  void serving_ended(uint32_t threads);

  mutable base::Mutex mutex_;
  bool closed_ = false;
  bool destroyed_ = false;
  bool kept_ = false;  // what is reserved holds a reference, since the handle has ended
  base::Atomic<uint8_t>
      claimable_;  // something is queued and a worker slot is free: for those who look without the lock
  uint32_t reserved_ = 0;
  uint32_t to_come_ = 0;  // permits, live and queued
  uint32_t busy_ = 0;
  uint32_t serving_ = 0;  // threads that serve
  uint32_t carved_ = 0;   // records of the slab that were ever used
  uint32_t resting_ = 0;  // how many are in unused_
  uint64_t next_sequence_;
  uint64_t epoch_ = 0;
  uint64_t saturated_ = 0;
  uint64_t failed_unheard_ = 0;  // completions that had failed and were detached
  Records unused_;               // free again, longest first
  Records ready_;                // queued, oldest first
  Records active_;               // cleaned now, oldest claim first
  Watched watched_;
  base::Condition capacity_;
  base::Condition drained_;
  uint64_t moves_[kStates][kEvents] = {};  // how often each happened

  Record* const records_;
  const uint32_t maximum_resources_, workers_;
  const base::Patience patience_;
  const base::Notifier orphans_;  // of our own: cleaning orphans is a wake, which inside itself becomes one more turn
  base::Claimers claimers_{base::Claimers::Offers::under_the_lock};
  base::Atomic<uint32_t> waiting_workers_;  // threads of ours that hold a worker slot and wait for another one
};

inline Record& record_of(Permit& guard) { return static_cast<Record&>(guard); }
inline Record& record_of(Resource& guard) { return static_cast<Record&>(guard); }
inline Record& record_of(Cleanup& guard) { return static_cast<Record&>(guard); }

}  // namespace nocter::retirement
