// Counts the system calls of a piece of code exactly, without a tracer: a seccomp filter in a child process turns each
// into a signal.
#pragma once

#include <cstdint>
#include <functional>

namespace zero {

struct SystemCalls {
  // False when the child did not end as it should; the numbers then mean nothing.
  bool measured = false;
  uint64_t count = 0;
  // The number of the first one.
  int32_t first = -1;
};

// Both run in a child process: `prepare` freely, `measured` under the filter. A counted call is not carried out and
// says ENOSYS.
SystemCalls system_calls_of(const std::function<void()>& prepare, const std::function<void()>& measured);

}  // namespace zero
