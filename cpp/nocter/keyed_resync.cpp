// Resync: the keys of all things there are, asked for a slice at a time by a thread that claims, outside of every lock.
#include <cstring>

#include "nocter/base/planted.hpp"
#include "nocter/keyed.hpp"

namespace nocter::keyed {

using base::Locked;
using base::planted;

// One slice, from when the thread has it to itself to when it gave it back, however it ends. Inside the source this thread is where a
// notifier would be: it may query the queue, and no more.
class Service::Slice {
 public:
  Slice(Service& service, Locked& lock, base::After& after)
      : service_(service),
        lock_(lock),
        after_(after),
        source_(service.back_.resync.source),
        most_(service.back_.resync.slice),
        holds_key_(service.back_.resync.holds_key) {
    service.back_.resync.running = true;
    service.back_.resync.renewed.store(0);
  }
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;

  // The lock is taken again.
  ~Slice() noexcept(false) {
    Resync& resync = service_.back_.resync;
    lock_.lock();
    resync.running = false;
    resync.keys += keys_;
    resync.rounds += rounds_;
    resync.failures += failures_;
    const bool renewed = resync.renewed.load() != 0;
    if (!renewed) resync.holds_key = holds_key_;
    if (!renewed) {
      service_.tell_if_drained(after_);
      return;
    }
    resync.dropping++;
    lock_.unlock();
    struct Again {
      Locked& lock;
      ~Again() { lock.lock(); }
    } again{lock_};
    service_.drop_source(source_);
  }

  void run() {
    for (uint32_t i = 0; i < most_ && !over(); i++) {
      if (!holds_key_ && !ask()) return;
      const Resync& resync = service_.back_.resync;
      const Status said = service_.notify(service_.shared_.held_key, resync.held_size);
      holds_key_ = said == Status::saturated && !planted("refused_key_is_skipped");
      if (said == Status::saturated) return;
    }
  }

 private:
  struct Inside : base::Telling {
    explicit Inside(Service& s) : base::Telling{&s, nullptr, false, false, base::self().telling}, service(s) {
      base::self().telling = this;
    }
    ~Inside() {
      base::self().telling = outer;
      if (destroyed) service.release();  // whoever claims holds it still
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    Service& service;
  };

  bool over() const { return service_.closed() || service_.back_.resync.renewed.load() != 0; }

  // Puts the next key into held_key; false: the slice is over.
  bool ask() {
    const char* data = nullptr;
    size_t size = 0;
    Status status = Status::internal;
    {
      const Inside inside(service_);
      base::call_foreign(service_.exceptions(),
                         [&] { status = source_.next(source_.function, source_.user, data, size); });
    }
    const bool fits =
        status == Status::ok && size <= service_.shared_.maximum_key_size && (data != nullptr || size == 0);
    if (!fits) {
      (status == Status::empty ? rounds_ : failures_)++;
      return false;
    }
    keys_++;
    if (size != 0) std::memcpy(service_.shared_.held_key, data, size);
    service_.back_.resync.held_size = static_cast<uint32_t>(size);
    return true;
  }

  Service& service_;
  Locked& lock_;
  base::After& after_;
  const Source source_;
  const uint32_t most_;
  bool holds_key_;
  uint64_t keys_ = 0, rounds_ = 0, failures_ = 0;
};

void Service::run_slice(Locked& lock, base::After& after, Reference& staying, int64_t now) {
  staying.hold();
  back_.resync.due = later(now, back_.resync.interval_ns);
  Slice slice(*this, lock, after);
  finish(lock, after, staying);
  after.tell_waiters = after.tell_work = false;
  slice.run();
}

bool Service::take_source(Source& source) {
  Resync& resync = back_.resync;
  if (!resync.wanted) return false;
  resync.wanted = false;
  resync.holds_key = false;
  if (resync.running && resync.renewed.load() == 0 && !planted("source_is_dropped_under_its_caller")) {
    resync.renewed.store(1);
    return false;  // whoever asks it now drops it
  }
  source = resync.source;
  resync.dropping++;
  return true;
}

void Service::drop_source(const Source& source) {
  struct Dropped {
    Service& service;
    ~Dropped() {
      Reference staying(service, Reference::later);
      base::After after;
      Locked lock(service.back_.mutex);
      service.back_.resync.dropping--;
      service.tell_if_drained(after);
      service.finish(lock, after, staying);
    }
  } dropped{*this};
  if (source.drop != nullptr) base::call_foreign(exceptions(), [&] { source.drop(source.user); });
}

Status Service::resync(const Source* source, int64_t interval_ns, uint32_t slice) {
  const int64_t now = base::now_ns();
  Reference staying(*this, Reference::later);
  base::After after;
  Source before;
  Locked lock(back_.mutex);
  if (closed()) return Status::closed;
  const bool drop = take_source(before);
  if (drop) staying.hold();
  if (source != nullptr) {
    Resync& resync = back_.resync;
    resync.source = *source;
    resync.interval_ns = interval_ns;
    resync.slice = slice;
    resync.due = now;
    resync.wanted = true;
    if (!resync.running) time_came_nearer(now, after);
  }
  finish(lock, after, staying);
  if (drop) drop_source(before);
  return Status::ok;
}

}  // namespace nocter::keyed
