// What a call of the core says. The numbers are those of the C ABI; capi/src/boundary.hpp asserts it.
#pragma once

#include <cstdint>

namespace nocter {

enum class Status : int32_t {
  ok = 0,
  empty = 1,
  pending = 2,
  saturated = 3,
  coalesced = 4,
  worker_lost = 5,
  timeout = 6,
  interrupted = 7,
  closed = 8,
  exists = 9,
  held = 10,
  cancelled = 11,
  argument = -1,
  foreign = -2,
  unknown = -3,
  state = -4,
  reentrant = -5,
  memory = -6,
  json = -7,
  limit = -8,
  store = -9,
  unavailable = -10,
  lease_lost = -11,
  version = -12,
  forked = -13,
  would_deadlock = -14,
  internal = -15,
};

}  // namespace nocter
