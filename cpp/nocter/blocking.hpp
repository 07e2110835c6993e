// The blocking service: a bounded set of jobs, each with one owner at every moment.
//
// Those who submit and take and those who claim and complete work on two sides, each under a lock of its own:
//   front   admission, free jobs, jobs that have ended
//   back    jobs ready to be claimed, jobs that run
// Jobs cross over in two rings, submitted and ended, which one side pushes to and the other takes whatever is there from, so that
// the sides seldom meet. Who must see both (cancel, shutdown, count, the end of an abandoned job) takes back, then front, and empties the
// rings. Every move of a job goes through move(), which asks blocking_rules.hpp what happens; then the locks are released, and
// only then is anybody woken, told, or any value ended.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "nocter/base/crossing.hpp"
#include "nocter/base/handle.hpp"
#include "nocter/base/identity.hpp"
#include "nocter/base/interrupt.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/base/owned.hpp"
#include "nocter/base/planted.hpp"
#include "nocter/base/service.hpp"
#include "nocter/base/threads.hpp"
#include "nocter/blocking_rules.hpp"

namespace nocter::blocking {

using base::After;
using base::Epoch;
using base::Identity;
using base::Owned;
using base::planted;

struct Options {
  uint32_t maximum_jobs = 64;
  uint32_t workers = 2;
  base::Notifier waiters, work;
  base::Patience patience{0, 0};
  uint64_t first_sequence = 1;  // for the tests: identities run out when it comes round to 0
};

struct Counts {
  bool accepting;
  uint32_t in_state[kJobStates];
  uint32_t admitted, maximum_jobs, workers;
  uint64_t epoch, accepted, saturated, taken, cancelled_queued, cancelled_completed, shutdown_queued,
      shutdown_completed, abandoned_retired, completed_ok, completed_lost, exceptions;
  int64_t oldest_queued_ns, longest_running_ns;
};

class Service;

// Guards are parts of the job they guard: claiming one allocates nothing.
struct RunningJob {
  base::Tag tag;
};
struct Completion {
  base::Tag tag;
};

// Two cache lines. The first goes with the job from thread to thread and back; the second is for guards of claims by hand, for those who ask
// for the interrupt, and for jobs that somebody had to list: nobody touches it where one of the library's threads runs the job.
struct alignas(64) JobAtHand : Completion {
  Owned value;  // the input while queued and until begun, the output when completed; else what nobody looks at
  base::EventCount ended;  // moves when a take may find another state
  uint64_t sequence = 0;   // of the job that is here, or was last
  int64_t since = 0;       // queued, or running
  uint32_t slot = 0;       // of the worker that runs it
  base::Atomic<uint8_t> state;
  bool lost = false;  // completed without an output
  // Whether the front has it; named: told to whoever asked for completed jobs, and in no list.
  enum class AtFront : uint8_t { no, listed, named } at_front = AtFront::no;
  base::Atomic<uint8_t> interrupt_used;  // raised, or somebody has it
};
struct alignas(64) JobAside
    : RunningJob,
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  explicit JobAside(Service& owner) : interrupt(true), service(owner) {}
  base::InterruptHandle interrupt;
  Service& service;
};
struct Job : JobAtHand, JobAside {
  explicit Job(Service& owner) : JobAside(owner) {}
  RunningJob& running() { return *this; }
  Completion& completion() { return *this; }
  JobState state_now() const { return static_cast<JobState>(state.observe()); }
};
static_assert(sizeof(Job) == 128);

class Service : public base::Service<Service, base::Kind::blocking> {
 public:
  static Service* create(const Options& options);
  struct Memory {
    void* jobs;
    void* arrays;
  };
  // Where things lie in Memory::arrays: the cells of the two rings, then the rest.
  struct Layout {
    explicit Layout(const Options& options)
        : cells(base::Crossing::cells_for(options.maximum_jobs)), options_(options) {}
    size_t bytes() const {
      return 2 * cells * sizeof(uint64_t) + options_.workers * (sizeof(void*) + sizeof(uint32_t)) +
             cells * sizeof(uint32_t);
    }
    base::Atomic<uint64_t>* submitted(void* at) const { return static_cast<base::Atomic<uint64_t>*>(at); }
    base::Atomic<uint64_t>* ended(void* at) const { return submitted(at) + cells; }
    Job** active(void* at) const { return reinterpret_cast<Job**>(ended(at) + cells); }
    uint32_t* free_slots(void* at) const { return reinterpret_cast<uint32_t*>(active(at) + options_.workers); }
    uint32_t* unused(void* at) const { return free_slots(at) + options_.workers; }
    const size_t cells;

   private:
    const Options& options_;
  };
  Service(const Options& options, Memory memory, uint64_t number);

  Status submit(Owned& input, Identity& id, Epoch& epoch);
  Status claim(const base::Wait* wait, Job*& out);
  Status take(Identity id, const base::Wait* wait, Owned& output);
  // Takes jobs that have ended and were not named: each(index, identity, output, lost), under a lock, so it may only store. `count` is set
  // when there were any.
  template <class Each>
  Status take_many(const base::Wait* wait, size_t capacity, size_t& count, Each&& each);
  Status query(Identity id, JobState& state) const;
  // Calls each(index, identity) under a lock: it may only store.
  template <class Each>
  size_t completed(size_t capacity, Each&& each);
  Status cancel(Identity id, JobState& was, Owned& reclaimed, bool give_back);
  Epoch epoch() const;
  Status wait_epoch(Epoch later_than, const base::Wait* wait, Epoch& now);
  using Sink = void (*)(void* user, JobState was, Owned& value);
  void shutdown(Sink sink, void* user);
  Status drained(const base::Wait* wait);
  Counts count() const;

  // The guards' ends. Owner only: the guard's tag has been ended by the caller.
  static void complete(Job& job, Owned& output);
  static void lose(Job& job);
  // Ends the input first, so that nobody is told before it is gone.
  static void drop_unbegun(Job& job);
  // Parts the input from the completion. Takes no lock: the guard's owner is the only one who looks at the value.
  static Owned begin(Job& job) {
    job.running().tag.disarm();
    return begin_unseen(job);
  }
  // For the completion's owner: it lives until the guard ends.
  static base::InterruptHandle& interrupt_of(Job& job) {
    job.interrupt_used.jot(1);
    job.interrupt.header.tag.arm(base::Kind::interrupt);
    return job.interrupt;
  }

  Identity identity_of(const Job& job) const { return Identity::of(number(), place_of(job), job.sequence); }
  bool abandoned(const Job& job) const { return job.interrupt.interrupt.raised(); }

  // Runs one job: `call` is given itself, the input and output it is lent, and the completion.
  struct Run {
    void (*call)(const Run& run, Owned& input, Owned& output, Completion& completion);
    void (*function)();
    void* user;
  };
  base::Workers::Started serve(const Run& run, base::ThreadOptions options, base::Workers*& out);
  uint32_t workers() const { return shared_.workers; }
  bool closed() const;

 private:
  friend base::Service<Service, base::Kind::blocking>;
  friend void base::end_handle<base::Kind::blocking, Service>(Service*);
  friend class Serving;
  using Jobs = boost::intrusive::list<Job, boost::intrusive::constant_time_size<false>>;

  ~Service();
  void close_for_good() { shutdown(nullptr, nullptr); }
  void empty_out();
  uint32_t place_of(const Job& job) const { return static_cast<uint32_t>(&job - shared_.jobs); }

  // The only place where a job changes its state, and where slots, workers, totals and lists follow it; and where those are called who
  // wait for that. Called with the lock or locks held that the event needs.
  Step move(Job& job, JobState from, JobEvent event, After& after);
  // The two halves of it, for where there is mostly nobody to be called.
  enum class Worker : uint8_t { any, the_same };  // the same: it ends one job and begins the next
  Step change(Job& job, JobState from, JobEvent event, Worker worker = Worker::any);
  void tell_of(Job& job, JobEvent event, const Step& step, After& after);
  uint64_t& happened(JobState from, JobEvent event);
  uint64_t happened(JobState from, JobEvent event) const { return const_cast<Service*>(this)->happened(from, event); }
  void slot_freed(Job& job);                                        // front
  void tell_of_freed_slots(After& after);                           // front
  void worker_taken(Job& job);                                      // back
  void worker_freed(Job& job);                                      // back
  void clear_interrupt(Job& job);                                   // back
  void hand_to_worker(Job& job, int64_t now_second, After& after);  // back
  void pass_wake_on(After& after);                                  // back
  Job& unused_job();                                                // front
  // What can be claimed if a worker is free for it: whether there is something, and the oldest, which is in no list or ring then.
  bool some_ready() const { return !back_.ready.empty() || !submitted_.empty(); }         // back
  Job* next_ready();                                                                      // back
  bool worker_free() const { return back_.busy < shared_.workers; }                       // back
  bool claimable() const { return worker_free() && some_ready(); }                        // back
  void take_submitted() const;                                                            // back
  uint64_t accepted() const { return happened(JobState::free, JobEvent::submit); }        // front
  uint32_t admitted() const { return static_cast<uint32_t>(accepted() - front_.freed); }  // front
  template <class Each>
  void take_ended(size_t most, Each&& each) const {  // front
    ended_.take(
        most, [this](uint32_t place) { __builtin_prefetch(&shared_.jobs[place].value, 1); },
        [&](uint32_t place) { each(shared_.jobs[place]); });
  }
  void take_ended() const;                                                          // front
  bool some_ended() const { return !front_.completed.empty() || !ended_.empty(); }  // front
  JobState state_at_front(const Job& job) const;                                    // front
  Status find(Identity id, Job*& job) const;                                        // front
  bool is_drained() const { return shared_.closed && admitted() == 0 && front_.ending == 0; }
  Epoch epoch_now() const { return {number(), (planted("epoch_stands_still") ? 0 : front_.freed) + 1}; }
  base::Woken wait_for_work(base::Locked& lock, const base::Wait& wait);
  void hand_over(Jobs& jobs, JobState was, Sink sink, void* user);
  void end_counted(Owned value);
  static Reference::Held held_by_guard(Job& job);
  void end_guard(Job& job, JobEvent event, Owned& output);
  void end_guard(Job& job, JobEvent event, Owned& output, base::Locked::Left back);
  void retire_abandoned(Job& job, JobEvent event, Owned& output);
  // For a worker of ours, which nobody else sees unbegun; null: no more.
  Job* claim_for_worker(base::Interrupt& stop);
  static Owned begin_unseen(Job& job) {
    job.completion().tag.arm(base::Kind::completion);
    return job.value;
  }
  // The same under one lock: ends the job at hand, and the next one is at hand; null, when none is ready or `stop` was raised.
  void complete_and_claim(Job*& at_hand, Owned& output, const base::Interrupt& stop);
  // The ends of calls that found somebody to wake or to tell, under the lock that they left. Apart, so that the others need no room for
  // what is left to do.
  __attribute__((noinline)) void call_claimers(base::Locked::Left front);
  __attribute__((noinline)) void tell_of_completed(Job& job, base::Locked::Left back);

  // Groups of cache lines: what the front writes, what the back writes, where they meet, and what both only read or seldom write. In
  // each the first line has what every job needs. Numbers of jobs and worker slots lie in arrays, for a list would fetch the neighbours.
  struct alignas(64) Front {
    base::Mutex mutex;
    uint32_t carved = 0;  // jobs of the slab that were ever used
    uint64_t freed = 0;   // how often a job became free again: the epoch, and how many were ever put into unused
    uint64_t happened[kMoveCount - kBackMoves] = {};  // moves under this lock, or under both
    base::AgeClock clock;
    uint64_t saturated = 0;
    uint32_t ending = 0;  // values that a call of ours is dropping right now
    Jobs completed;       // ended, got from the ring, and neither named nor taken yet; oldest end first
    base::Condition capacity;
    base::Condition drained;
  };
  struct alignas(64) Back {
    base::Mutex mutex;
    uint32_t busy = 0;                   // jobs running or abandoned
    uint32_t slots = 0;                  // of active that were ever used
    uint32_t free_slots = 0;             // of those that are free again
    uint64_t happened[kBackMoves] = {};  // moves under this lock alone
    Jobs ready;  // got from submitted all at once, oldest first; most are claimed from there one by one
    base::AgeClock clock;
  };
  struct alignas(64) Shared {
    Shared(const Options& options, Memory memory)
        : jobs(static_cast<Job*>(memory.jobs)),
          arrays(memory.arrays),
          active(Layout(options).active(memory.arrays)),
          free_slots(Layout(options).free_slots(memory.arrays)),
          unused(Layout(options).unused(memory.arrays)),
          unused_mask(base::Crossing::cells_for(options.maximum_jobs) - 1),
          first_sequence(options.first_sequence),
          maximum_jobs(options.maximum_jobs),
          workers(options.workers),
          patience(options.patience) {}
    bool closed = false;  // both to write, either to read
    Job* const jobs;
    void* const arrays;
    Job** const active;          // by worker slot: the job that it runs; back
    uint32_t* const free_slots;  // numbers of free ones, a stack; back
    uint32_t* const unused;      // places of jobs that are free again, longest first, as a ring; front
    const uint32_t unused_mask;
    const uint64_t first_sequence;
    const uint32_t maximum_jobs, workers;
    const base::Patience patience;
  };
  mutable Front front_;
  mutable Back back_;
  mutable base::Crossing submitted_, ended_;
  base::Claimers claimers_, takers_;
  base::Atomic<uint32_t> waiting_workers_;  // threads of ours that hold a worker slot and wait for another one
  Shared shared_;
};

inline Job& job_of(RunningJob& guard) { return static_cast<Job&>(guard); }
inline Job& job_of(Completion& guard) { return static_cast<Job&>(guard); }

template <class Each>
size_t Service::completed(size_t capacity, Each&& each) {
  base::Locked lock(front_.mutex);
  size_t count = 0;
  if (front_.carved == 0) return count;  // no job yet, or none any more
  const auto name = [&](Job& job) {
    job.at_front = Job::AtFront::named;
    each(count++, identity_of(job));
  };
  while (count < capacity && !front_.completed.empty()) {
    Job& job = front_.completed.front();
    front_.completed.pop_front();
    name(job);
  }
  take_ended(capacity - count, name);
  return count;
}

}  // namespace nocter::blocking
