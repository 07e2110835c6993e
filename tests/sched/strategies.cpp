#include <algorithm>
#include <cctype>

#include "sched/explorer.hpp"

namespace sched {

// ---- Depth first ----------------------------------------------------------------------------------------------------

void DepthFirst::begin(unsigned) {
  depth_ = 0;
  spent_ = 0;
}

unsigned DepthFirst::choose(const Decision& decision) {
  uint32_t costs = 0;
  for (unsigned i = 0; i < decision.size; i++) costs |= static_cast<uint32_t>(decision.options[i].cost) << i;
  if (depth_ < path_.size()) {
    const Entry& entry = path_[depth_];
    if (entry.size == decision.size && entry.costs == costs) {
      depth_++;
      spent_ += costs >> entry.chosen & 1;
      return entry.chosen;
    }
    drift_++;
    path_.resize(depth_);
  }
  // The first option costs nothing: the running thread goes on, or anybody does when it cannot.
  path_.push_back({costs, static_cast<uint8_t>(decision.size), 0, static_cast<uint16_t>(spent_)});
  depth_++;
  return 0;
}

bool DepthFirst::advance() {
  path_.resize(std::min(path_.size(), depth_));
  while (!path_.empty()) {
    Entry& entry = path_.back();
    while (++entry.chosen < entry.size) {
      if (entry.spent + (entry.costs >> entry.chosen & 1) <= bound_) return true;
    }
    path_.pop_back();
  }
  return false;
}

// ---- Random ---------------------------------------------------------------------------------------------------------

// After S. Vigna's xorshift64*.
uint32_t Random::next(uint32_t below) {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<uint32_t>(((state_ * 0x2545f4914f6cdd1du) >> 32) * below >> 32);
}

void Random::begin(unsigned threads) {
  longest_ = std::max({longest_ - longest_ / 8, decisions_, 10u});
  decisions_ = 0;
  turn_++;
  stickiness_ = next(3) * 4;
  lowest_ = 1000;
  for (unsigned i = 0; i < threads; i++) priority_[i] = 2000 + next(1000) * kMostThreads + i;
  for (unsigned& change : changes_) change = next(longest_);
  victim_ = threads == 0 ? 0 : next(threads);
  starved_until_ = 1u << next(10);
}

// Deadlines, disturbances and the like come up now and then, whatever the way; `size` when not this time.
unsigned Random::rare(const Decision& decision) {
  unsigned first = 0;
  while (first < decision.size && decision.options[first].kind == Option::run) first++;
  if (first == decision.size) return decision.size;
  if (first > 0 && next(8) != 0) return decision.size;
  const unsigned chosen = first + next(decision.size - first);
  const Option::Kind kind = decision.options[chosen].kind;
  const bool disturbs = kind == Option::spurious || kind == Option::signal;
  if (!disturbs || next(2) == 0) return chosen;
  return first > 0 ? decision.size : first;
}

unsigned Random::choose(const Decision& decision) {
  decisions_++;
  if (const unsigned chosen = rare(decision); chosen < decision.size) return chosen;
  unsigned runs = 0;
  while (runs < decision.size && decision.options[runs].kind == Option::run) runs++;
  switch (turn_ % 3) {
    case 0: {  // PCT
      unsigned best = 0;
      for (unsigned i = 1; i < runs; i++) {
        if (priority_[decision.options[i].thread] > priority_[decision.options[best].thread]) best = i;
      }
      if (std::count(std::begin(changes_), std::end(changes_), decisions_) != 0) {
        priority_[decision.options[best].thread] = lowest_--;
      }
      return best;
    }
    case 1:  // a walk
      if (decision.from >= 0 && next(12) < stickiness_) return 0;
      return next(runs);
    default: {  // one is starved
      if (decisions_ > starved_until_ || runs == 1) return next(runs);
      const unsigned chosen = next(runs);
      if (decision.options[chosen].thread != victim_) return chosen;
      return (chosen + 1) % runs;
    }
  }
}

// ---- Replay ---------------------------------------------------------------------------------------------------------

unsigned Replay::choose(const Decision&) { return at_ < choices_.size() ? choices_[at_++] : 0; }

// One character a choice, base 36; a run of zeros is its length between underscores, zeros at the end are left out.
std::string written(const std::vector<uint8_t>& choices) {
  static constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string text;
  size_t end = choices.size();
  while (end > 0 && choices[end - 1] == 0) end--;
  for (size_t i = 0; i < end;) {
    size_t zeros = 0;
    while (choices[i + zeros] == 0) zeros++;
    if (zeros > 3) {
      text += "_" + std::to_string(zeros) + "_";
      i += zeros;
    } else {
      text += kDigits[choices[i++]];
    }
  }
  return text.empty() ? "0" : text;
}

std::optional<std::vector<uint8_t>> read(const std::string& text) {
  std::vector<uint8_t> choices;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (c == '_') {
      size_t zeros = 0;
      for (i++; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0; i++) {
        zeros = zeros * 10 + static_cast<size_t>(text[i] - '0');
      }
      if (i == text.size() || zeros > kLivelock) return std::nullopt;
      choices.insert(choices.end(), zeros, 0);
    } else if (c >= '0' && c <= '9') {
      choices.push_back(static_cast<uint8_t>(c - '0'));
    } else if (c >= 'a' && c <= 'z') {
      choices.push_back(static_cast<uint8_t>(c - 'a' + 10));
    } else {
      return std::nullopt;
    }
  }
  return choices;
}

}  // namespace sched
