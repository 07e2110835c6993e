// What the services have in common: a handle that lives on while somebody inside needs it, notifiers that are told once the locks are
// released, and those who wait for something to claim. A service adds its records, its rules and its locks.
#pragma once

#include <cstdint>

#include "nocter/base/handle.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/base/owned.hpp"
#include "nocter/base/planted.hpp"

namespace nocter::base {

// What a move leaves to be done once the locks are released.
struct After {
  Wakes wakes;
  bool tell_waiters = false;
  bool tell_work = false;
};

// Those who wait for something to claim. A claimer counts itself, then looks once more, then sleeps; who offers something makes it
// visible, then looks at the counts, each with its barrier in between. So a claimer is found even when the two hold different locks.
class Claimers {
 public:
  // Where those who offer hold the claimers' own lock, the lock does what the barriers do elsewhere.
  enum class Offers : uint8_t { apart, under_the_lock };
  explicit Claimers(Offers offers = Offers::apart) : offers_(offers) {}

  // There may be something to claim: a claimer must look, unless one is awake and about to, or called and on its way; it will call
  // the next one if it leaves something. One at a time, so that a sleeper that takes its time to come is not woken by every offer.
  __attribute__((always_inline)) void call(After& after) {
    light_barrier();
    if (are_there()) [[unlikely]]
      call_those_there(after);
  }
  // Whether there is anybody to call. To be asked after a light barrier.
  bool are_there() const { return waiting_.load() != 0 || missed_.load() != 0; }
  // For who claimed: somebody may have been called for what it took, while more is there.
  bool somebody_waits() const { return waiting_.glance() != 0; }
  // The service has closed: all must look.
  void call_all(After& after) {
    count_.advance_open();
    after.wakes.add(count_, true);
    after.tell_work |= missed_.exchange(0) != 0;
  }
  // A claimer that is awake and will look, though it is not inside wait(): nobody needs to be called meanwhile. To be followed by a look.
  void stay() { looking_.fetch_add(1); }
  void stayed() { looking_.fetch_sub(1); }
  // A claim finds nothing: the work notifier is to be told of what comes. To be said first; then look once more.
  void miss() {
    if (missed_.load() != 0) return;
    missed_.store(1);
    if (offers_ == Offers::apart) heavy_barrier();
  }

  // Waits, with the claimers' lock released: awake for a while, then asleep. `offered` is asked without the lock, `ready` with it: whether
  // there is something to look at.
  template <class Offered, class Ready>
  Woken wait(Locked& lock, const Wait& wait, Patience patience, Offered&& offered, Ready&& ready) {
    if (patience.spins + patience.yields != 0) {
      looking_.fetch_add(1);
      lock.unlock();
      alertness_.stay_awake(patience,
                            [&] { return offered() || (wait.interrupt != nullptr && wait.interrupt->raised()); });
      lock.lock();
      looking_.fetch_sub(1);
      if (offered()) return Woken::changed;
    }
    // Counted first, then looked once more.
    waiting_.fetch_add(1);
    const uint64_t seen = count_.version();
    // A call that came too late for whoever waited before must not stand for a call of this one. After the version was read: a call
    // that comes later still moves it.
    called_.store(0);
    if (offers_ == Offers::apart) heavy_barrier();
    Woken why = Woken::changed;
    if (!ready() || planted("no_second_look")) {
      lock.unlock();
      const int64_t asleep_since = now_ns();
      why = count_.wait(seen, wait, Patience{0, 0});
      alertness_.slept(now_ns() - asleep_since);
      lock.lock();
    }
    waiting_.fetch_sub(1);
    called_.store(0);  // whichever of the waiting comes, it looks for what one of them was called for
    return why;
  }

 private:
  __attribute__((noinline)) void call_those_there(After& after) {
    if (waiting_.load() != 0 && looking_.load() == 0 && called_.exchange(1) == 0) {
      count_.advance_open();
      after.wakes.add(count_, false);
    }
    if (missed_.load() != 0) after.tell_work |= missed_.exchange(0) != 0;
  }

  alignas(64) Atomic<uint32_t> waiting_;
  Atomic<uint8_t> called_;  // one of the waiting was woken and none has come yet
  Atomic<uint8_t> missed_;  // a claim found nothing since the work notifier was told last
  EventCount count_;
  const Offers offers_;
  // Moves whenever a claimer runs dry, so away from what every offer reads.
  alignas(64) Atomic<uint32_t> looking_;  // claimers that are awake and will look by themselves
  Alertness alertness_;
};

// A thread of ours that holds a worker slot and waits for something that needs one.
class WaitingWorker {
 public:
  WaitingWorker(Atomic<uint32_t>& count, bool counts) : count_(count), counts_(counts) {
    if (counts_) before_ = count_.fetch_add(1);
  }
  ~WaitingWorker() {
    if (counts_) count_.fetch_sub(1);
  }
  WaitingWorker(const WaitingWorker&) = delete;
  WaitingWorker& operator=(const WaitingWorker&) = delete;
  // Whether all others wait likewise, so that nobody is left to end the wait.
  bool is_last_of(uint32_t workers) const { return counts_ && before_ + 1 >= workers; }

 private:
  Atomic<uint32_t>& count_;
  const bool counts_;
  uint32_t before_ = 0;
};

// The base of a service T, its first one. T has close_for_good(), called when the handle ends, and empty_out(), called when nobody is left
// inside: what lies in the handle's memory from then on is closed and has no records (see kHandleSize).
template <class T, Kind kind>
class Service {
 public:
  void destroy() {
    Telling* const telling = inside_notifier_of(this);
    self_of().close_for_good();
    if (telling != nullptr) {
      telling->destroyed = true;  // whoever called that notifier still needs the service, and lets go of it
    } else {
      release();
    }
  }
  uint64_t number() const { return number_; }
  Atomic<uint64_t>& exceptions() { return exceptions_; }
  uint64_t exceptions_thrown() const { return exceptions_.load(); }
  // Held by each guard, each thread inside a wait, each set of workers.
  void hold() { references_.fetch_add(1); }
  void release() {
    if (references_.fetch_sub(1) != 1) return;
    self_of().empty_out();
    end_handle<kind>(&self_of());
  }
  // Whether a claim that finds nothing has somebody to be told later.
  bool tells_work() const { return work_.wake != nullptr; }
  bool tells_waiters() const { return waiters_.wake != nullptr; }
  // Whether this thread is one of ours and inside the function that it serves this service with.
  bool serves_here() const { return self().serving == this && self().lent != nullptr; }

  Header header{kind};

 protected:
  // A reference that ends with the scope: a guard's, or one taken for the length of a wait. To be declared before the lock, so that the
  // lock is released first.
  class Reference {
   public:
    // To be taken by hold(); taken already and ended here; held by the guard that makes the call, which outlives it.
    enum Held : uint8_t { later, already, guards };
    Reference(Service& service, Held held) : service_(service), held_(held) {}
    ~Reference() {
      if (held_ == already) service_.release();
    }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;
    void hold() {
      if (held_ != later) return;
      service_.hold();
      held_ = already;
    }

   private:
    Service& service_;
    Held held_;
  };

  Service(uint64_t number, const Notifier& waiters, const Notifier& work)
      : number_(number), waiters_(waiters), work_(work) {}
  ~Service() {
    for (const Notifier* notifier : {&waiters_, &work_}) {
      if (notifier->drop != nullptr) call_foreign(exceptions_, [&] { notifier->drop(notifier->user); });
    }
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Releases the lock or locks, then wakes, then tells. As soon as they are released another thread may see what was done here, and
  // destroy the service because of it: whoever has something left to do holds it meanwhile.
  template <class Lock>
  __attribute__((always_inline)) void finish(Lock& lock, After& after, Reference& staying) {
    const bool waiters = after.tell_waiters && tells_waiters();
    const bool work = after.tell_work && tells_work();
    if (waiters || work || !after.wakes.empty()) {
      finish_telling(lock, after, staying, waiters, work);
    } else {
      lock.unlock();
    }
  }

 private:
  T& self_of() { return static_cast<T&>(*this); }
  template <class Lock>
  __attribute__((noinline)) void finish_telling(Lock& lock, After& after, Reference& staying, bool waiters, bool work) {
    full_barrier();  // a host that asks by a notifier's word and then queries crosses no heavy one
    waiters = waiters && waiters_.is_noticed();
    work = work && work_.is_noticed();
    if (!waiters && !work && after.wakes.empty()) {
      lock.unlock();
      return;
    }
    staying.hold();
    lock.unlock();
    after.wakes.send();
    bool destroyed = false;
    if (waiters) destroyed |= tell(this, waiters_, exceptions_);
    if (work) destroyed |= tell(this, work_, exceptions_);
    if (destroyed) release();
  }

  const uint64_t number_;
  const Notifier waiters_, work_;
  alignas(64) Atomic<uint32_t> references_{1};  // the handle's, and those held
  Atomic<uint64_t> exceptions_;
};

}  // namespace nocter::base
