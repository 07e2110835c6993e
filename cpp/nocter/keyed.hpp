// The keyed queue: a bounded set of keys that are due, each at most once, with one pass of a key at a time.
//
// Those who notify and those who make passes work on two sides, each under a lock of its own:
//   front   which keys are retained, and where
//   back    keys that wait for a pass or for a time, and the passes
// A key that becomes due crosses over in one ring, submitted; a record whose key is gone crosses back in another, absent. What a
// notification finds due already, or in a pass, it changes by one compare-and-swap and takes no lock at all. Who must see both (close,
// count, notify_after) takes back, then front. Every move of a key is what keyed_rules.hpp says; then the locks are released, and only
// then is anybody woken or told.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "nocter/base/crossing.hpp"
#include "nocter/base/interrupt.hpp"
#include "nocter/base/service.hpp"
#include "nocter/base/threads.hpp"
#include "nocter/keyed_records.hpp"
#include "nocter/keyed_rules.hpp"
#include "nocter/keyed_timers.hpp"

namespace nocter::keyed {

struct Options {
  uint32_t maximum_keys = 1024;
  uint32_t workers = 2;
  uint32_t maximum_key_size = 256;
  base::Notifier waiters, work;
  base::Patience patience{0, 0};
  Backoff backoff;
};

struct Counts {
  bool accepting;
  uint32_t waiting, delayed, active, dirty, retained, maximum_keys, workers;
  uint64_t accepted_new, coalesced, marked_dirty, rejected_full, rejected_closed, started, completed, failed, requeued,
      retried, discarded_waiting, discarded_dirty, resync_keys, resync_rounds, resync_failures, exceptions;
  int64_t oldest_waiting_ns, longest_active_ns;
};

enum class Closing : uint8_t { open, discard, drain };

// A guard that has ended rests behind so many others, so that one used after its end still finds a dead tag.
inline constexpr uint32_t kRestingPasses = 64;

class Service;

// A guard: made of one of a few places, and not a part of the record, so that records are short.
struct alignas(64) Pass {
  explicit Pass(Service& owner) : interrupt(true), service(owner) {}
  using Place = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

  base::Tag tag;
  base::InterruptHandle interrupt;
  Service& service;
  Record* record = nullptr;
  int64_t since = 0;
  uint32_t failures = 0;  // of the key in a row, before this pass
  Place place;            // among those that run, or those that rest
};

// Where keys come from again: asked outside of every lock.
struct Source {
  Status (*next)(void (*function)(), void* user, const char*& data, size_t& size);
  void (*function)();
  void (*drop)(void*);
  void* user;
};

class Service : public base::Service<Service, base::Kind::keyed> {
 public:
  static Service* create(const Options& options);
  struct Memory {
    void* block;
    Pass* passes;
    KeyTable::Memory table;
    base::Atomic<uint64_t>*submitted, *absent;
    uint32_t* due;
    Timers::Entry* timers;
    char* held_key;
  };
  Service(const Options& options, const Memory& memory, uint64_t number);

  // `limit`: the key is too long; else what a notifier hears.
  Status notify(const char* key, size_t size);
  Status notify_after(const char* key, size_t size, int64_t delay_ns);
  // Says to each what notify would; for at most kBatch.
  static constexpr size_t kBatch = 64;
  struct Text {
    const char* data;
    size_t size;
  };
  void notify_batch(const Text* keys, size_t count, Status* each);
  Status claim(const base::Wait* wait, Pass*& out) { return claim(wait, nullptr, out); }
  Status resync(const Source* source, int64_t interval_ns, uint32_t slice);
  Status next_due(int64_t& due) const;
  void close(Closing mode);
  Status drained(const base::Wait* wait);
  Counts count() const;

  // The guard's end, by its owner, who has ended its tag. A negative delay is left to the backoff.
  static void end(Pass& pass, KeyEvent event, int64_t delay_ns);
  Text key_of(const Pass& pass) const { return {table_.data_of(*pass.record), pass.record->size.glance()}; }

  // Makes one pass: false when it failed.
  struct Run {
    bool (*call)(const Run& run, Text key, Pass& pass);
    void (*function)();
    void* user;
  };
  base::Workers::Started serve(const Run& run, base::ThreadOptions options, base::Workers*& out);
  uint32_t maximum_key_size() const { return shared_.maximum_key_size; }
  bool closed() const { return shared_.closing.load() != static_cast<uint8_t>(Closing::open); }
  bool discards() const { return closing() == Closing::discard; }

 private:
  friend base::Service<Service, base::Kind::keyed>;
  friend void base::end_handle<base::Kind::keyed, Service>(Service*);
  friend class Serving;
  using PassList = boost::intrusive::list<Pass, boost::intrusive::member_hook<Pass, Pass::Place, &Pass::place>,
                                          boost::intrusive::constant_time_size<false>>;
  using Moves = uint64_t[kKeyStates][kKeyEvents];
  static constexpr size_t kStripes = 4;

  ~Service();
  void close_for_good() { close(Closing::discard); }
  void empty_out();
  Closing closing() const { return static_cast<Closing>(shared_.closing.observe()); }
  Key key_of(const char* data, size_t size) const {
    return {data, size, static_cast<uint32_t>(base::hash_bytes(data, size, shared_.seed))};
  }

  // A thread that looks keys up without a lock: their memory stays meanwhile. What it counts is counted where few others count.
  class Looking {
   public:
    explicit Looking(Service& service);
    ~Looking() { stripe_.fetch_add(add_); }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;
    void coalesced() { add_ += kCoalesced; }

   private:
    base::Atomic<uint64_t>& stripe_;
    uint64_t add_ = UINT64_MAX;
  };
  static constexpr uint64_t kCoalesced = uint64_t{1} << 16, kLookers = kCoalesced - 1;
  base::Atomic<uint64_t>& stripe() const;

  // What the rules say, done to the record's word and counted. `failures` is the record's row afterwards, if the key stays.
  struct Moved {
    KeyState from;
    Step step;
    bool listed;  // the record was listed before
  };
  Moved move(Record& record, KeyEvent event, uint32_t failures) const;  // back
  Moved move(Record& record, KeyEvent event) const { return move(record, event, record.failures); }

  // What a notification does to a key that is found; false when only the front can do it, or it is another key's record by now.
  static bool notify_found(KeyTable::Found& found, Status& status, Looking& looking);
  // `pending`: only who sees both sides can.
  Status notify_at_front(const Key& key, KeyTable::Found found, int64_t now, base::After& after);  // front
  Status find_or_store(const Key& key, Record*& record);                                           // front
  bool full();                                                                                     // front
  Record& unused_record();                                                                         // front
  void submit(Record& record, Word word, int64_t now, base::After& after);                         // front
  Status refused();                                                                                // front
  Status notify_seeing_both(const Key& key, KeyEvent event, int64_t due);

  bool claimable() const { return back_.due_first != back_.due_end && back_.busy < shared_.workers; }  // back
  uint64_t retained() const { return front_.admitted - back_.released.observe(); }  // front, or back once closed
  bool is_drained() const;                                                          // back
  bool nothing_will_come() const;                                                   // back
  void take_submitted() const;                                                      // back
  void put_behind(Record& record);                                                  // back
  Pass* start_pass(base::After& after);                                             // back
  Pass& unused_pass();                                                              // back
  void key_gone(Record& record, bool listed, base::After& after);                   // back
  void tell_if_drained(base::After& after);                                         // back
  void discard_all(base::After& after);                                             // both
  Status claim(const base::Wait* wait, const base::Interrupt* stop, Pass*& out);
  Pass* claim_for_worker(base::Interrupt& stop);
  base::Woken wait_for_work(base::Locked& lock, const base::Wait& wait);
  void take_turn(base::Locked& lock, Reference& staying, bool may_gather);  // back, released meanwhile
  // Ends a pass. For a worker of ours it claims the next key under the same lock, when one is ready and `stop` was not raised, else null.
  void end_pass(Pass& pass, KeyEvent event, int64_t delay_ns, Pass** next, const base::Interrupt* stop);
  void finish_pass(Pass& pass, KeyEvent event, int64_t now, int64_t delay_ns, base::After& after);  // back
  static bool lent_here(const Pass& pass) { return base::self().lent == &pass; }

  bool has_time() const { return !back_.timers.empty() || slice_wanted(); }                 // back
  bool slice_wanted() const { return back_.resync.wanted && !back_.resync.running; }        // back
  int64_t next_time() const;                                                                // back
  void fire_timers(int64_t now);                                                            // back
  void time_came_nearer(int64_t due, base::After& after);                                   // back
  void hand_time_on(base::After& after);                                                    // back
  void run_slice(base::Locked& lock, base::After& after, Reference& staying, int64_t now);  // back, released meanwhile
  class Slice;
  // Takes the source out. True when its drop is to be called once the locks are released, which is counted until then.
  bool take_source(Source& source);  // back
  void drop_source(const Source& source);

  struct alignas(64) Front {
    base::Mutex mutex;
    uint32_t carved = 0;         // records of the slab that were ever used
    uint64_t admitted = 0;       // keys ever accepted
    uint64_t released_seen = 0;  // of back's released
    uint64_t rejected_full = 0, rejected_closed = 0;
  };
  struct Resync {
    bool wanted = false;            // there is a source
    bool running = false;           // a thread is inside a slice
    base::Atomic<uint8_t> renewed;  // since then another source, or none, has taken the place of the one it asks
    bool holds_key = false;         // held_key was given by the source and found no place yet
    uint32_t slice = 0, held_size = 0;
    uint32_t dropping = 0;  // calls of a drop function that have not returned
    Source source{};
    int64_t interval_ns = 0, due = 0;
    uint64_t keys = 0, rounds = 0, failures = 0;
  };
  struct alignas(64) Back {
    Back(const Memory& memory, KeyTable& table, uint32_t mask, uint64_t seed)
        : due(memory.due), due_mask(mask), random(seed), timers(memory.timers, table) {}
    base::Mutex mutex;
    uint32_t busy = 0;
    base::Atomic<uint64_t> released;  // keys ever gone
    // Places of the keys that wait, oldest first: a ring.
    uint32_t* const due;
    const uint32_t due_mask;
    uint32_t due_first = 0, due_end = 0;
    uint32_t lean_turns = 0;        // in a row, in which there were but few keys
    uint32_t barred_turns = 0;      // for how many more nobody gathers
    bool again = false;             // the one key that waits does so because it was notified during its pass
    base::Atomic<uint8_t> refused;  // a notification found no room since the waiters' notifier was told last
    PassList running, resting;      // oldest claim first; longest at rest first
    uint32_t carved = 0, at_rest = 0;
    uint64_t keeper = 0,
             last_ticket = 0;  // which of the claimers keeps the time: it sleeps no longer than until keeper_due
    int64_t keeper_due = 0;
    uint64_t random;
    base::Condition drained;
    Timers timers;
    Resync resync;
    Moves moves = {};  // how often each happened under the back lock, or under both
  };
  struct alignas(64) Shared {
    Shared(const Options& options, const Memory& m);
    base::Atomic<uint8_t> closing;  // both to write
    const bool tells_waiters;
    const uint32_t maximum_keys, workers, maximum_key_size;
    const base::Patience patience;
    const uint64_t seed;
    void* const memory;
    Pass* const passes;
    char* const held_key;
    const Backoff backoff;
  };
  struct alignas(64) Stripe {
    base::Atomic<uint64_t> word;
  };

  Shared shared_;
  mutable KeyTable table_;
  mutable Front front_;
  mutable Back back_;
  mutable base::Crossing submitted_, absent_;
  base::Claimers claimers_;
  base::Atomic<uint32_t> waiting_workers_;  // threads of ours that hold a worker slot and wait for another one
  mutable Stripe stripes_[kStripes];
};

}  // namespace nocter::keyed
