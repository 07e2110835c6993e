// Whether a history of real threads has a legal order: one in which every operation takes effect at one moment
// between its start and its end, and in which a sequential model gives the very answers that were heard. The search
// is that of J. M. Wing and C. Gong, "Testing and Verifying Concurrent Objects", 1993, and remembers which positions
// led nowhere (G. Lowe, 2017).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace lin {

template <class Event>
struct Operation {
  int64_t start, end;  // on one clock for all threads
  Event event;
};

// What each thread did, in its own order.
template <class Event>
using History = std::vector<std::vector<Operation<Event>>>;

struct Verdict {
  bool legal = false;
  bool undecided = false;  // the search was given up
  uint64_t steps = 0;
  std::vector<size_t> furthest;  // how far each thread got in the longest order that was legal
};

// A Model has a State with `bool apply(const Event&)`, true when the event's answer is the one the state gives (the
// state then moves), and `void key(std::string&) const`, which adds what tells it apart from others.
template <class State, class Event>
class Checker {
 public:
  explicit Checker(const History<Event>& history) : history_(history), at_(history.size(), 0) {}

  Verdict check(const State& initial) {
    verdict_.furthest = at_;
    verdict_.legal = search(initial, 0);
    return verdict_;
  }

 private:
  static constexpr uint64_t kPatience = 20'000'000;

  bool search(const State& state, size_t done) {
    if (done > longest_ || done == 0) {
      longest_ = done;
      verdict_.furthest = at_;
    }
    // An operation may come next unless another one, not yet placed, had ended before it started.
    int64_t earliest_end = INT64_MAX;
    bool all = true;
    for (size_t t = 0; t < history_.size(); t++) {
      if (at_[t] == history_[t].size()) continue;
      all = false;
      earliest_end = std::min(earliest_end, history_[t][at_[t]].end);
    }
    if (all) return true;
    std::string key;
    for (const size_t at : at_) {
      key += static_cast<char>(at & 0xff);
      key += static_cast<char>(at >> 8);
    }
    state.key(key);
    if (!tried_.insert(std::move(key)).second) return false;
    for (size_t t = 0; t < history_.size(); t++) {
      if (at_[t] == history_[t].size()) continue;
      const Operation<Event>& operation = history_[t][at_[t]];
      if (operation.start > earliest_end) continue;
      if (++verdict_.steps > kPatience) {
        verdict_.undecided = true;
        return false;
      }
      State next = state;
      if (!next.apply(operation.event)) continue;
      at_[t]++;
      if (search(next, done + 1)) return true;
      at_[t]--;
      if (verdict_.undecided) return false;
    }
    return false;
  }

  const History<Event>& history_;
  std::vector<size_t> at_;
  std::unordered_set<std::string> tried_;
  Verdict verdict_;
  size_t longest_ = 0;
};

template <class State, class Event>
Verdict check(const State& initial, const History<Event>& history) {
  return Checker<State, Event>(history).check(initial);
}

// How many pairs of operations of different threads overlap: a history without any proves nothing.
template <class Event>
uint64_t overlaps(const History<Event>& history) {
  uint64_t pairs = 0;
  for (size_t t = 0; t < history.size(); t++) {
    for (size_t u = t + 1; u < history.size(); u++) {
      for (const auto& a : history[t]) {
        for (const auto& b : history[u]) pairs += a.start <= b.end && b.start <= a.end;
      }
    }
  }
  return pairs;
}

}  // namespace lin
