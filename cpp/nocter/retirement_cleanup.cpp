// The side of those who clean: claims, how a cleanup ends, the library's own threads, and what happens when nobody is left.
#include <new>

#include "nocter/retirement_moves.hpp"

namespace nocter::retirement {

using base::Interrupt;
using base::Locked;
using base::status_of;
using base::Wait;
using base::WaitingWorker;
using base::Woken;

// A claim ends with the handle it was made with; threads of ours go on.
Woken Service::wait_for_work(Locked& lock, const Wait& wait, bool ends_with_handle) {
  return claimers_.wait(
      lock, wait, patience_, [this] { return claimable_.glance() != 0; },
      [=, this] { return ready_record() != nullptr || work_is_over() || (ends_with_handle && destroyed_); });
}

Status Service::claim(const Wait* wait, Record*& out) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  for (Woken why = Woken::changed;;) {
    if (destroyed_ || work_is_over()) return Status::closed;
    if (Record* record = ready_record(); record != nullptr) {
      hand_to_worker(*record, after);
      record->cleanup().tag.arm(base::Kind::cleanup);
      out = record;
      finish(lock, after, staying);
      return Status::ok;
    }
    if (wait == nullptr || why != Woken::changed) {
      if (tells_work()) claimers_.miss();
      return wait == nullptr ? Status::empty : status_of(why);
    }
    const WaitingWorker here(waiting_workers_, serves_here());
    if (here.is_last_of(workers_)) return Status::would_deadlock;
    staying.hold();
    why = wait_for_work(lock, *wait, true);
  }
}

// ---- How a cleanup ends ---------------------------------------------------------------------------------------------

void Service::end_cleanup(Record& record, Event event, int32_t code) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  record.lost = event == Event::lose;
  record.code = code;
  move(record, record.state, event, after);
  finish(lock, after, staying);
}

void Service::complete(Record& record, int32_t code) {
  record.service.end_cleanup(record, code == 0 ? Event::complete : Event::fail, code);
}

void Service::drop_cleanup(Record& record) {
  struct Lost {
    Record& record;
    ~Lost() noexcept(false) { record.service.end_cleanup(record, Event::lose, 0); }
  } lost{record};
  Owned value = record.value.release();
  if (!planted("unbegun_resource_leaks")) value.end(record.service.exceptions());
}

void Service::clean(Record& record) {
  struct Ending {
    Record& record;
    Event event = Event::lose;
    ~Ending() noexcept(false) { record.service.end_cleanup(record, event, 0); }
  } ending{record};
  const Owned value = record.value.release();
  const bool returned = value.drop == nullptr || base::call_foreign(exceptions(), [&] { value.drop(value.data); });
  if (returned) ending.event = Event::complete;
}

// ---- Threads of ours ------------------------------------------------------------------------------------------------

class Serving final : public base::Work {
 public:
  explicit Serving(Service& service) : service_(service) { service_.hold(); }
  void run(Interrupt& stop) override;
  const void* service() const override { return &service_; }
  void release() override {
    service_.release();
    delete this;
  }
  base::Atomic<uint64_t>& exceptions() override { return service_.exceptions(); }

 private:
  Service& service_;
};

void Serving::run(Interrupt& stop) { service_.serve_here(stop); }

bool Service::serving_begins(uint32_t threads) {
  Locked lock(mutex_);
  if (destroyed_ || work_is_over()) return false;
  serving_ += threads;
  return true;
}

void Service::serve_here(Interrupt& stop) {
  struct Ended {
    Service& service;
    ~Ended() noexcept(false) { service.serving_ended(1); }
  } ended{*this};
  while (Record* record = claim_for_worker(stop)) {
    struct Lent {
      explicit Lent(const Record* lent) { base::self().lent = lent; }
      ~Lent() { base::self().lent = nullptr; }
      Lent(const Lent&) = delete;
      Lent& operator=(const Lent&) = delete;
    } lent(record);
    clean(*record);
  }
}

Record* Service::claim_for_worker(Interrupt& stop) {
  const Wait until_stopped{base::kForever, &stop, false};
  Reference staying(*this, Reference::guards);  // the workers hold the service
  After after;
  Locked lock(mutex_);
  for (;;) {
    Record* const record = ready_record();
    if (stop.raised()) {
      // It may have been this thread that was woken for a resource it does not take any more.
      if (record != nullptr) claimers_.call(after);
      finish(lock, after, staying);
      return nullptr;
    }
    if (record != nullptr) {
      hand_to_worker(*record, after);
      finish(lock, after, staying);
      return record;
    }
    if (work_is_over()) return nullptr;
    wait_for_work(lock, until_stopped, planted("servers_spin_after_destroy"));
  }
}

base::Workers::Started Service::serve(base::ThreadOptions options, base::Workers*& out) {
  if (options.threads == 0) options.threads = workers_;
  if (!serving_begins(options.threads)) return {Status::closed, 0, 0};
  auto* serving = new (std::nothrow) Serving(*this);
  const base::Workers::Started started = serving == nullptr ? base::Workers::Started{Status::memory, 0, ENOMEM}
                                                            : base::Workers::start(*serving, options, out);
  if (started.status != Status::ok) serving_ended(options.threads);
  return started;
}

// ---- When nobody is left to clean -----------------------------------------------------------------------------------

void Service::serving_ended(uint32_t threads) {
  Reference staying(*this, Reference::later);
  After after;
  Locked lock(mutex_);
  serving_ -= threads;
  finish(lock, after, staying);
}

// On this thread, one after the other; what a destructor gives up meanwhile is cleaned by the turn that is under way. A destructor that
// ends its thread leaves the rest to be cleaned on the way out.
void Service::clean_orphans() { base::tell(&orphans_, orphans_, exceptions()); }

void Service::clean_all_orphans() {
  struct Rest {
    Service& service;
    bool none = false;
    ~Rest() noexcept(false) {
      while (!none) none = !service.clean_one_orphan();
    }
  } rest{*this};
  while (!rest.none) rest.none = !clean_one_orphan();
}

bool Service::clean_one_orphan() {
  Reference staying(*this, Reference::guards);
  After after;
  Record* record;
  {
    Locked lock(mutex_);
    record = orphaned() ? ready_record() : nullptr;
    if (record == nullptr) return false;
    hand_to_worker(*record, after);
    finish(lock, after, staying);
  }
  clean(*record);
  return true;
}

}  // namespace nocter::retirement
