// Delta debugging: first whole stretches of operations go, then single ones, then their arguments become plain.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "model/ops.hpp"

namespace tasks_model {

template <class Fails>
std::vector<Op> shrink(std::vector<Op> ops, const Fails& fails, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const auto better = [&](std::vector<Op>& candidate) {
    if (Clock::now() >= end || !fails(candidate)) return false;
    ops = candidate;
    return true;
  };
  bool moved = true;
  while (moved && Clock::now() < end) {
    moved = false;
    for (size_t length = std::max<size_t>(ops.size() / 2, 1); length > 0; length /= 2) {
      for (size_t from = 0; from < ops.size();) {
        std::vector<Op> fewer = ops;
        const size_t to = std::min(from + length, ops.size());
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(from), fewer.begin() + static_cast<std::ptrdiff_t>(to));
        if (better(fewer))
          moved = true;
        else
          from += length;
      }
    }
    for (size_t place = 0; place < ops.size(); place++) {
      const auto change = [&](auto&& how) {
        std::vector<Op> plainer = ops;
        if (how(plainer[place])) moved |= better(plainer);
      };
      change([](Op& op) { return std::exchange(op.fault, Fault::none) != Fault::none; });
      change([](Op& op) { return std::exchange(op.joined, false); });
      change([](Op& op) { return !std::exchange(op.staged, {}).empty(); });
      for (size_t at = ops[place].staged.size(); at-- > 0;)
        change([at](Op& op) {
          if (at >= op.staged.size()) return false;
          op.staged.erase(op.staged.begin() + static_cast<std::ptrdiff_t>(at));
          return true;
        });
      for (size_t at = ops[place].ids.size(); at-- > 0;)
        change([at](Op& op) {
          if (at >= op.ids.size()) return false;
          op.ids.erase(op.ids.begin() + static_cast<std::ptrdiff_t>(at));
          return true;
        });
      for (size_t at = 0; at < kMostArguments; at++)
        for (const int64_t plain : {int64_t{0}, kNone, int64_t{1}})
          change([&](Op& op) {
            // Plainest is 0, then nothing at all, then one; never back.
            if (op.arguments[at] == 0 || (op.arguments[at] == kNone && plain != 0) ||
                (op.arguments[at] == 1 && plain == 1))
              return false;
            return std::exchange(op.arguments[at], plain) != plain;
          });
    }
  }
  return ops;
}

}  // namespace tasks_model
