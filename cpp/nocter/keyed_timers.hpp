// Times that keys wait for: a heap of places in the slab, earliest first; of equal times the one that was asked for first. Each record
// knows its own place in the heap, so that a time can be changed or given up. All of it under the back lock.
#pragma once

#include <cstdint>
#include <utility>

#include "nocter/keyed_records.hpp"

namespace nocter::keyed {

inline constexpr int64_t kNever = INT64_MAX;

// Saturates: a delay that is too long for the clock never ends.
constexpr int64_t later(int64_t now, int64_t delay) { return delay > kNever - now ? kNever : now + delay; }

struct Backoff {
  int64_t initial_ns = 10'000'000, maximum_ns = 60'000'000'000;
  uint32_t percent = 200, jitter_percent = 10;

  // After so many failures in a row, at least one; `random` decides how much of the jitter is taken off.
  constexpr int64_t delay_after(uint32_t failures, uint64_t random) const {
    double delay = static_cast<double>(initial_ns);
    const double maximum = static_cast<double>(maximum_ns);
    for (uint32_t i = 1; i < failures && delay < maximum && percent != 100 && delay > 0; i++) delay *= percent / 100.0;
    const int64_t whole = delay >= maximum ? maximum_ns : static_cast<int64_t>(delay);
    const double share = static_cast<double>(random >> 11) * 0x1p-53 * jitter_percent / 100.0;
    return whole - static_cast<int64_t>(static_cast<double>(whole) * share);
  }
};

class Timers {
 public:
  struct Entry {
    int64_t due;
    uint32_t place;
    uint32_t sequence;
  };

  // Room for as many as there are records.
  Timers(Entry* entries, KeyTable& table) : entries_(entries), table_(table) {}

  bool empty() const { return count_ == 0; }
  int64_t first_due() const { return empty() ? kNever : entries_[0].due; }
  Record& first() const { return table_.at(entries_[0].place); }
  static bool has(const Record& record) { return record.timer_place != 0; }

  // The earlier time wins.
  void set(Record& record, int64_t due) {
    if (has(record)) {
      const uint32_t i = record.timer_place - 1;
      if (entries_[i].due <= due) return;
      entries_[i].due = due;
      move_up(i);
      return;
    }
    const uint32_t i = count_++;
    put(i, {due, table_.place_of(record), sequence_++});
    move_up(i);
  }
  void remove(Record& record) {
    if (!has(record)) return;
    const uint32_t i = record.timer_place - 1;
    record.timer_place = 0;
    count_--;
    if (i == count_) return;
    put(i, entries_[count_]);
    move_down(i);
    move_up(i);
  }

 private:
  static bool before(const Entry& a, const Entry& b) {
    if (a.due != b.due) return a.due < b.due;
    return static_cast<int32_t>(a.sequence - b.sequence) < 0;
  }
  void put(uint32_t i, const Entry& entry) {
    entries_[i] = entry;
    table_.at(entry.place).timer_place = i + 1;
  }
  void swap(uint32_t i, uint32_t k) {
    const Entry entry = entries_[i];
    put(i, entries_[k]);
    put(k, entry);
  }
  void move_up(uint32_t i) {
    for (; i > 0 && before(entries_[i], entries_[(i - 1) / 2]); i = (i - 1) / 2) swap(i, (i - 1) / 2);
  }
  void move_down(uint32_t i) {
    for (;;) {
      uint32_t least = i;
      for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < count_; k++) {
        if (before(entries_[k], entries_[least])) least = k;
      }
      if (least == i) return;
      swap(i, least);
      i = least;
    }
  }

  Entry* const entries_;
  KeyTable& table_;
  uint32_t count_ = 0, sequence_ = 0;
};

}  // namespace nocter::keyed
