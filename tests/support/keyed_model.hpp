// The keyed queue as one thread would see it: written from what it promises (tests/PROMISES.md), not from how it is built. Small enough to
// be copied at every step of a search. Time stands still in it: what is delayed is not due before the queue drains.
#pragma once

#include <nocter.h>
#include <nocter/keyed.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace keyed_model {

// Rules that are broken on purpose, to see that whoever compares with the model would notice.
enum class Broken : uint8_t {
  none,
  failing_forgets_dirty,    // a notification during a pass that fails is lost
  dirty_goes_first,         // a dirty key does not go behind what waits
  youngest_first,           // claims are not in the order of acceptance
  one_key_more,             // a key more than there is room for
  one_worker_more,          // a pass more than there are workers
  full_refuses_duplicates,  // a full queue refuses also what it has
  each_asks_for_a_pass,     // the second notification of a pass is not coalesced
  delay_is_kept,            // a notification leaves a delayed key delayed
  drain_forgets_dirty,      // a queue that drains drops what was notified during a pass
  drain_retries,            // a queue that drains keeps what asks for a retry
  success_keeps_failures,   // a row of failures is not ended by a success
};
inline constexpr Broken kBroken[] = {
    Broken::failing_forgets_dirty, Broken::dirty_goes_first,      Broken::youngest_first,
    Broken::one_key_more,          Broken::one_worker_more,       Broken::each_asks_for_a_pass,
    Broken::delay_is_kept,         Broken::drain_forgets_dirty,   Broken::full_refuses_duplicates,
    Broken::drain_retries,         Broken::success_keeps_failures};

enum class End : uint8_t { complete, fail, retry_later };
inline constexpr size_t kKeys = 6;

// As nocter_keyed_counts has them.
struct Totals {
  uint64_t accepted_new = 0, coalesced = 0, marked_dirty = 0, rejected_full = 0, rejected_closed = 0, started = 0,
           completed = 0, failed = 0, requeued = 0, retried = 0, discarded_waiting = 0, discarded_dirty = 0;
};

class Queue {
 public:
  enum class At : uint8_t { absent, waiting, delayed, active };
  enum class Dirty : uint8_t { no, now, later };
  struct Key {
    At at = At::absent;
    Dirty dirty = Dirty::no;
    uint8_t failures = 0;
    int32_t turn = 0;  // of those that wait the least is next; equal ones in any order
  };

  Queue(uint32_t maximum_keys, uint32_t workers, Broken broken = Broken::none)
      : maximum_(maximum_keys), workers_(workers), broken_(broken) {
    if (broken == Broken::one_key_more) maximum_++;
    if (broken == Broken::one_worker_more) workers_++;
  }

  nocter_status notify(size_t name, bool later) {
    Key& key = keys_[name];
    if (!open_) {
      totals_.rejected_closed++;
      return NOCTER_CLOSED;
    }
    const bool full = retained() >= maximum_;
    if (full && (key.at == At::absent || broken_ == Broken::full_refuses_duplicates)) {
      totals_.rejected_full++;
      return NOCTER_SATURATED;
    }
    if (key.at == At::absent) {
      totals_.accepted_new++;
      key = {};
      later ? delay(key) : enqueue(key);
      return NOCTER_OK;
    }
    if (key.at == At::active && (key.dirty == Dirty::no || broken_ == Broken::each_asks_for_a_pass)) {
      totals_.marked_dirty++;
      key.dirty = later ? Dirty::later : Dirty::now;
      return NOCTER_OK;
    }
    totals_.coalesced++;
    if (!later && key.at == At::delayed && broken_ != Broken::delay_is_kept) enqueue(key);
    if (!later && key.at == At::active) key.dirty = Dirty::now;
    return NOCTER_COALESCED;
  }

  // What a claim says when it takes nothing; NOCTER_OK: it must take one of those that may_claim().
  nocter_status claim_says(bool waited) const {
    const nocter_status none = waited ? NOCTER_TIMEOUT : NOCTER_EMPTY;
    if (number_of(At::waiting) != 0) return number_of(At::active) < workers_ ? NOCTER_OK : none;
    return open_ ? none : NOCTER_CLOSED;
  }
  // While a queue drains and a pass runs, its key may be left behind: whoever claims is not sent away yet, or is.
  bool claim_may_say_not_yet() const {
    return !open_ && !discards_ && number_of(At::waiting) == 0 && number_of(At::active) != 0;
  }
  bool may_claim(size_t name) const {
    if (keys_[name].at != At::waiting) return false;
    for (const Key& other : keys_) {
      if (other.at != At::waiting) continue;
      if (broken_ == Broken::youngest_first ? other.turn > keys_[name].turn : other.turn < keys_[name].turn)
        return false;
    }
    return true;
  }
  void claim(size_t name) {
    keys_[name].at = At::active;
    totals_.started++;
  }

  void end(size_t name, End how) {
    Key& key = keys_[name];
    if (how == End::complete) {
      totals_.completed++;
      if (broken_ != Broken::success_keeps_failures) key.failures = 0;
    } else {
      totals_.failed++;
      key.failures++;
    }
    const bool forgets = (broken_ == Broken::failing_forgets_dirty && how != End::complete) ||
                         (broken_ == Broken::drain_forgets_dirty && !open_);
    const Dirty dirty = forgets ? Dirty::no : key.dirty;
    const bool retries = how == End::retry_later && (open_ || broken_ == Broken::drain_retries);
    key.dirty = Dirty::no;
    if (dirty != Dirty::no) {
      totals_.requeued++;
      dirty == Dirty::now || !open_ ? enqueue(key, broken_ == Broken::dirty_goes_first) : delay(key);
    } else if (retries) {
      totals_.retried++;
      delay(key);
    } else {
      key = {};
    }
  }

  void close(bool discard) {
    open_ = false;
    if (!discard) {
      if (discards_) return;
      // In what order those go that were delayed is nobody's promise, but all behind what waits.
      const int32_t turn = turns_++;
      for (Key& key : keys_) {
        if (key.at == At::delayed) {
          key.at = At::waiting;
          key.turn = turn;
        }
      }
      return;
    }
    discards_ = true;
    for (Key& key : keys_) {
      if (key.at == At::waiting || key.at == At::delayed) {
        totals_.discarded_waiting++;
        key = {};
      } else if (key.dirty != Dirty::no) {
        totals_.discarded_dirty++;
        key.dirty = Dirty::no;
      }
    }
  }

  nocter_status drained_says() const {
    if (open_) return NOCTER_E_STATE;
    return retained() == 0 ? NOCTER_OK : NOCTER_PENDING;
  }

  bool open() const { return open_; }
  bool interrupts() const { return discards_; }
  const Key& key(size_t name) const { return keys_[name]; }
  const Totals& totals() const { return totals_; }
  uint32_t number_of(At at) const {
    uint32_t count = 0;
    for (const Key& key : keys_) count += key.at == at ? 1 : 0;
    return count;
  }
  uint32_t number_of(Dirty dirty) const {
    uint32_t count = 0;
    for (const Key& key : keys_) count += key.dirty == dirty ? 1 : 0;
    return count;
  }
  uint32_t retained() const { return static_cast<uint32_t>(kKeys) - number_of(At::absent); }

  bool counts_are(const nocter_keyed_counts& c) const {
    return (c.accepting == 1) == open_ && c.waiting == number_of(At::waiting) && c.delayed == number_of(At::delayed) &&
           c.active == number_of(At::active) && c.dirty == number_of(Dirty::now) + number_of(Dirty::later) &&
           c.retained == retained() && c.accepted_new == totals_.accepted_new && c.coalesced == totals_.coalesced &&
           c.marked_dirty == totals_.marked_dirty && c.rejected_full == totals_.rejected_full &&
           c.rejected_closed == totals_.rejected_closed && c.started == totals_.started &&
           c.completed == totals_.completed && c.failed == totals_.failed && c.requeued == totals_.requeued &&
           c.retried == totals_.retried && c.discarded_waiting == totals_.discarded_waiting &&
           c.discarded_dirty == totals_.discarded_dirty;
  }

  // What notifications change without a lock, as it is here.
  void fill_in_marks(nocter_keyed_counts& c) const {
    c.coalesced = totals_.coalesced;
    c.marked_dirty = totals_.marked_dirty;
    c.dirty = number_of(Dirty::now) + number_of(Dirty::later);
  }

  // What tells this state apart from others.
  void key(std::string& to) const {
    to += static_cast<char>(open_ + 2 * discards_);
    for (const Key& key : keys_) {
      int32_t place = 0;
      for (const Key& other : keys_)
        place += other.at == At::waiting && key.at == At::waiting && other.turn < key.turn ? 1 : 0;
      to += static_cast<char>(key.at);
      to += static_cast<char>(key.dirty);
      to += static_cast<char>(key.failures);
      to += static_cast<char>(place);
    }
    to.append(reinterpret_cast<const char*>(&totals_), sizeof totals_);
  }

 private:
  void enqueue(Key& key, bool first = false) {
    key.at = At::waiting;
    key.turn = first ? -turns_ : turns_;
    turns_++;
  }
  static void delay(Key& key) { key.at = At::delayed; }

  std::array<Key, kKeys> keys_ = {};
  uint32_t maximum_, workers_;
  Broken broken_;
  bool open_ = true, discards_ = false;
  int32_t turns_ = 1;
  Totals totals_;
};

}  // namespace keyed_model
