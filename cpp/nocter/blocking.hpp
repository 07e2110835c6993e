// The blocking service: a bounded set of jobs, each with one owner at every moment.
//
// One mutex guards all of it. Every move of a job goes through move(), which asks blocking_rules.hpp what happens; then the lock
// is released, and only then is anybody woken, told, or any value ended.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "nocter/base/handle.hpp"
#include "nocter/base/identity.hpp"
#include "nocter/base/interrupt.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/base/owned.hpp"
#include "nocter/base/threads.hpp"
#include "nocter/blocking_rules.hpp"

namespace nocter::blocking {

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
  uint64_t epoch, accepted, saturated, taken, cancelled_queued, cancelled_completed, shutdown_queued, shutdown_completed,
      abandoned_retired, completed_ok, completed_lost, exceptions;
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

// Two cache lines: what its worker and its waiter touch, and what keeps it in its place.
struct alignas(64) Job : RunningJob, Completion {
  explicit Job(Service& owner) : interrupt(true), service(owner) {}
  RunningJob& running() { return *this; }
  Completion& completion() { return *this; }

  base::InterruptHandle interrupt;
  Owned value;            // the input while queued and until begun, the output when completed
  uint64_t sequence = 0;  // of the job that is here, or was last

  Service& service;
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> place;
  base::Condition ended;
  int64_t since_ns = 0;  // queued, or claimed
  JobState state = JobState::free;
  bool lost = false;   // completed without an output
  bool named = false;  // completed and told to whoever asks for completed jobs
};
static_assert(sizeof(Job) == 128);

class Service {
 public:
  static Service* create(const Options& options);
  Service(const Options& options, void* memory, uint64_t number);

  Status submit(Owned& input, Identity& id, Epoch& epoch);
  Status claim(const base::Wait* wait, Job*& out);
  Status take(Identity id, const base::Wait* wait, Owned& output);
  Status query(Identity id, JobState& state) const;
  // Calls each(index, identity) under the lock: it may only store.
  template <class Each>
  size_t completed(size_t capacity, Each&& each) {
    base::Locked lock(mutex_);
    size_t count = 0;
    for (; count < capacity && !completed_.empty(); count++) {
      Job& job = completed_.front();
      completed_.pop_front();
      job.named = true;
      named_.push_back(job);
      each(count, identity_of(job));
    }
    return count;
  }
  Status cancel(Identity id, JobState& was, Owned& reclaimed, bool give_back);
  Epoch epoch() const;
  Status wait_epoch(Epoch later_than, const base::Wait* wait, Epoch& now);
  using Sink = void (*)(void* user, JobState was, Owned& value);
  void shutdown(Sink sink, void* user);
  Status drained(const base::Wait* wait);
  Counts count() const;
  void destroy();

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

  Identity identity_of(const Job& job) const {
    return Identity::of(number_, static_cast<uint64_t>(&job - jobs_), job.sequence);
  }
  bool abandoned(const Job& job) const { return job.interrupt.interrupt.raised(); }

  // Runs one job: `call` is given itself, the input and output it is lent, and the completion.
  struct Run {
    void (*call)(const Run& run, Owned& input, Owned& output, Completion& completion);
    void (*function)();
    void* user;
  };
  base::Workers::Started serve(const Run& run, base::ThreadOptions options, base::Workers*& out);
  uint32_t workers() const { return workers_; }
  bool closed() const;
  base::Atomic<uint64_t>& exceptions() { return exceptions_; }

  base::Header header;

 private:
  friend void base::end_handle<base::Kind::blocking, Service>(Service*);
  friend class Serving;
  using List = boost::intrusive::list<
      Job,
      boost::intrusive::member_hook<
          Job, boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>, &Job::place>,
      boost::intrusive::constant_time_size<false>>;

  // What a move leaves to be done once the lock is released.
  struct After {
    base::Wakes wakes;
    bool tell_waiters = false;
    bool tell_work = false;
  };
  // A reference to the service that ends with the scope: a guard's, the handle's, or one taken for the length of a wait. To be
  // declared before the lock, so that the lock is released first.
  class Reference {
   public:
    enum Held : bool { later, already };
    Reference(Service& service, Held held) : service_(service), held_(held == already) {}
    ~Reference() {
      if (held_) service_.release();
    }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;
    void hold() {
      if (!held_) service_.references_.fetch_add(1);
      held_ = true;
    }

   private:
    Service& service_;
    bool held_;
  };

  ~Service();
  void release();

  // With the lock held.
  Step move(Job& job, JobEvent event, After& after);
  void slot_freed(Job& job, After& after);
  void worker_freed(After& after);
  Job* unused_job();
  Job* claimable() { return queued_.empty() || busy_ >= workers_ ? nullptr : &queued_.front(); }
  void hand_to_worker(Job& job, After& after);
  Status find(Identity id, Job*& job) const;
  bool is_drained() const { return closed_ && admitted_ == 0 && ending_ == 0; }
  Epoch epoch_locked() const { return {number_, epoch_ + 1}; }
  bool runs_job_here() const;
  bool holds_last_free_worker() const;

  template <class Condition>
  base::Woken wait_in(Condition& condition, base::Locked& lock, const base::Wait& wait);
  void finish(base::Locked& lock, After& after);
  void hand_over(List& jobs, JobState was, Sink sink, void* user);
  void end_counted(Owned value);
  // Ends a job's guard. For a worker of ours it claims the next job under the same lock, when there is one and `stop` was not
  // raised: `next` then takes the guard's reference over, else it is null.
  void end_guard(Job& job, JobEvent event, Owned& output, Job** next, const base::Interrupt* stop);
  // For a worker of ours; null: no more.
  Job* claim_for_worker(base::Interrupt& stop);

  // Guarded by the lock: what every call looks at comes first.
  mutable base::Mutex mutex_;
  bool closed_ = false;
  bool claim_missed_ = false;  // a claim found nothing since the work notifier was told last
  uint32_t admitted_ = 0, busy_ = 0;
  const uint32_t maximum_jobs_, workers_;
  uint32_t carved_ = 0;    // jobs of the slab that were ever used
  uint32_t resting_ = 0;   // jobs in unused_
  uint64_t next_sequence_;
  uint64_t epoch_ = 0;
  List queued_;
  List unused_;     // free again, longest first
  List active_;     // running and abandoned, oldest claim first
  List completed_;  // not yet named, oldest end first
  List named_;      // completed and named
  Job* const jobs_;
  const uint64_t number_;

  base::WorkCondition work_;
  base::Condition capacity_;
  base::Condition drained_;
  uint32_t ending_ = 0;           // values that a call of ours is dropping right now
  uint32_t waiting_workers_ = 0;  // threads of ours that hold a worker slot and wait for another
  uint64_t moves_[kJobStates][kJobEvents] = {};  // how often each happened: every total is read off here
  uint64_t saturated_ = 0;

  const base::Patience patience_;
  const base::Notifier waiters_, work_notifier_;
  base::Atomic<uint64_t> exceptions_;
  base::Atomic<uint32_t> references_{1};  // the handle, each guard, each thread inside a wait, each set of workers
};

inline Job& job_of(RunningJob& guard) { return static_cast<Job&>(guard); }
inline Job& job_of(Completion& guard) { return static_cast<Job&>(guard); }

}  // namespace nocter::blocking
