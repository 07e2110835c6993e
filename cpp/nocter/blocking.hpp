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
#include "nocter/base/service.hpp"
#include "nocter/base/threads.hpp"
#include "nocter/blocking_rules.hpp"

namespace nocter::blocking {

using base::After;
using base::Epoch;
using base::Identity;
using base::Owned;

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

// Three cache lines, for three kinds of threads: what the worker alone touches, what goes from one side to the other and back, and
// what those who submit and take alone touch.
struct alignas(64) Job : RunningJob, Completion {
  explicit Job(Service& owner) : interrupt(true), service(owner) {}
  RunningJob& running() { return *this; }
  Completion& completion() { return *this; }
  JobState state_now() const { return static_cast<JobState>(state.observe()); }
  using Place = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

  base::InterruptHandle interrupt;
  Service& service;
  Place back;  // in ready

  alignas(64) Owned value;  // the input while queued and until begun, the output when completed
  base::EventCount ended;   // moves when a take may find another state
  base::Atomic<uint8_t> state;
  bool lost = false;  // completed without an output
  uint32_t slot = 0;  // of the worker that runs it
  int64_t running_since = 0;

  alignas(64) uint64_t sequence = 0;  // of the job that is here, or was last
  Place front;                        // in completed
  int64_t queued_since = 0;
  bool at_front = false;  // completed, and the front has it
  bool named = false;     // completed, and told to whoever asks for completed jobs
};
static_assert(sizeof(Job) == 192);

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
  // Takes jobs that have ended and were not named: each(index, identity, output, lost), under a lock, so it may only store.
  template <class Each>
  Status take_many(const base::Wait* wait, size_t capacity, Each&& each);
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
    job.completion().tag.arm(base::Kind::completion);
    return job.value.release();
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
  template <Job::Place Job::*place>
  using ListBy = boost::intrusive::list<Job, boost::intrusive::member_hook<Job, Job::Place, place>,
                                        boost::intrusive::constant_time_size<false>>;
  using FrontList = ListBy<&Job::front>;
  using BackList = ListBy<&Job::back>;

  ~Service();
  void close_for_good() { shutdown(nullptr, nullptr); }
  void empty_out();
  uint32_t place_of(const Job& job) const { return static_cast<uint32_t>(&job - shared_.jobs); }

  // The only place where a job changes its state, and where slots, workers, totals and lists follow it. Called with the lock or
  // locks held that the event needs; `moves` are the totals of that side.
  Step move(Job& job, JobState from, JobEvent event, After& after);
  uint64_t& happened(JobState from, JobEvent event);
  void slot_freed(Job& job, After& after);      // front
  void worker_freed(Job& job, After& after);    // back
  void hand_to_worker(Job& job, After& after);  // back
  Job* unused_job();                            // front
  Job* ready_job();                             // back
  void take_submitted() const;                  // back
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
  bool is_drained() const { return shared_.closed && front_.admitted == 0 && front_.ending == 0; }
  Epoch epoch_now() const { return {number(), front_.epoch + 1}; }
  base::Woken wait_for_work(base::Locked& lock, const base::Wait& wait);
  void hand_over(FrontList& jobs, JobState was, Sink sink, void* user);
  void end_counted(Owned value);
  static Reference::Held held_by_guard(Job& job);
  // Ends a job's guard. For a worker of ours it claims the next job under the same lock, when one is ready and `stop` was not
  // raised, else null.
  void end_guard(Job& job, JobEvent event, Owned& output, Job** next, const base::Interrupt* stop);
  void retire_abandoned(Job& job, JobEvent event, Owned& output);
  // For a worker of ours; null: no more.
  Job* claim_for_worker(base::Interrupt& stop);

  // Groups of cache lines: what the front writes, what the back writes, where they meet, and what both only read or seldom write. In
  // each the first line has what every job needs. Numbers of jobs and worker slots lie in arrays, for a list would fetch the neighbours.
  struct alignas(64) Front {
    base::Mutex mutex;
    uint32_t admitted = 0;
    uint32_t carved = 0;   // jobs of the slab that were ever used
    uint32_t resting = 0;  // jobs in unused
    uint64_t freed = 0;    // how many were ever put there: the last one lies before this place, around the array
    uint64_t next_sequence = 1;
    uint64_t epoch = 0;
    uint64_t happened[kMoveCount - kBackMoves] = {};  // moves under this lock, or under both
    base::AgeClock clock;
    uint64_t saturated = 0;
    uint32_t ending = 0;  // values that a call of ours is dropping right now
    FrontList completed;  // ended, got from the ring, and neither named nor taken yet; oldest end first
    base::Condition capacity;
    base::Condition drained;
  };
  struct alignas(64) Back {
    base::Mutex mutex;
    uint32_t busy = 0;                   // jobs running or abandoned
    uint32_t slots = 0;                  // of active that were ever used
    uint32_t free_slots = 0;             // of those that are free again
    uint64_t happened[kBackMoves] = {};  // moves under this lock alone
    BackList ready;                      // got from submitted, oldest first
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
    job.named = true;
    each(count++, identity_of(job));
  };
  while (count < capacity && !front_.completed.empty()) {
    Job& job = front_.completed.front();
    front_.completed.pop_front();
    name(job);
  }
  take_ended(capacity - count, [&](Job& job) {
    job.at_front = true;
    name(job);
  });
  return count;
}

}  // namespace nocter::blocking
