// The versioned signal: an EventCount with a handle. It owns no thread and keeps no list; who waits is counted, no more.
#pragma once

#include "nocter/base/handle.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/base/owned.hpp"
#include "nocter/base/status.hpp"

namespace nocter {

class Signal {
 public:
  static Signal* create() { return base::make_handle<Signal, base::Kind::signal>(); }
  Signal() : header(base::Kind::signal) {}

  uint64_t version() { return count_.observe(); }

  // False when closed; `now` is the version then. A version that nobody asked for here may be published away by a notifier's
  // wake without moving.
  bool publish(uint64_t& now, bool asked) {
    const bool moved = count_.advance(now, asked);
    if (moved) count_.wake_all();
    return moved;
  }

  // Null: only looks, and says `pending` when nothing has changed. `now` is the version then.
  Status wait(uint64_t seen, const base::Wait* wait, uint64_t& now) {
    base::Woken why;
    bool over = count_.look(seen, why);
    if (!over && wait == nullptr) {
      now = seen;
      return Status::pending;
    }
    if (!over) count_.observe();
    // A thread that was on its way in when the handle ended finds it closed, and must not count itself among its users.
    if (!over && !hold()) over = count_.look(seen, why);
    if (!over) {
      const Reference staying{*this};
      return ended(count_.wait(seen, *wait, base::default_patience()), seen, now);
    }
    return ended(why, seen, now);
  }

  void close() {
    count_.close();
    count_.wake_all();
  }

  // The handle's end; the last reference frees.
  void destroy() {
    close();
    release();
  }

  base::Notifier notifier() {
    references_.fetch_add(1);
    return {wake_of, [](void* user) { static_cast<Signal*>(user)->release(); }, this, asked_of(this)};
  }
  static void wake_of(void* user) { static_cast<Signal*>(user)->wake(); }
  static const base::Atomic<uint64_t>* asked_of(void* user) { return &static_cast<Signal*>(user)->count_.word(); }

  // A notifier's wake: those between two readings of the version collapse.
  void wake() {
    if (count_.advance_if_observed()) count_.wake_all();
  }

  base::Header header;

 private:
  friend void base::end_handle<base::Kind::signal, Signal>(Signal*);
  // What is told must agree: who is told a later version is told of a change, though it came when the deadline had passed already.
  Status ended(base::Woken why, uint64_t seen, uint64_t& now) {
    now = count_.observe();
    if (why != base::Woken::closed && now != seen) return Status::ok;
    return base::status_of(why);
  }
  struct Reference {
    Signal& signal;
    ~Reference() { signal.release(); }
  };
  ~Signal() = default;
  // False when there is nobody left who holds it.
  bool hold() {
    uint32_t users = references_.load();
    while (users != 0) {
      if (references_.compare_exchange(users, users + 1)) return true;
    }
    return false;
  }
  void release() {
    if (references_.fetch_sub(1) == 1) base::end_handle<base::Kind::signal>(this);
  }

  base::Atomic<uint32_t> references_{1};  // the handle, its notifiers, the threads inside wait
  // On a line of its own: a waiter that stays awake only reads it.
  alignas(64) base::EventCount count_;
};

}  // namespace nocter
