// The retirement service as tests use it: each helper makes one call, checks what must hold whatever the outcome, and may be used from
// any thread.
#pragma once

#include <nocter/retirement.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "support/service.hpp"

namespace nocter_tests::retiring {

inline bool is_zero(nocter_retirement_id id) { return id.service == 0 && id.sequence == 0; }

struct Shape {
  uint32_t maximum_resources = 64;
  uint32_t workers = 2;
  nocter_notifier waiters = {};
  nocter_notifier work = {};
};

inline nocter_retirement_options options_of(const Shape& shape) {
  nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
  options.maximum_resources = shape.maximum_resources;
  options.workers = shape.workers;
  options.waiters = shape.waiters;
  options.work = shape.work;
  return options;
}

// The identities of the counts that hold in every moment.
inline void check_identities(const nocter_retirement_counts& c, Where where = Where::here()) {
  const uint64_t freed = c.permits_dropped + c.unobserved_done + c.detached_done + c.taken + c.detached_completed;
  const uint64_t ended = c.cleaned + c.failed + c.lost;
  holds(c.reservations == freed + c.reserved, "reservations = the five ends + reserved", where);
  holds(c.epoch == freed, "epoch = the five ends", where);
  holds(c.reserved == c.permits + c.live + c.queued + c.running + c.completed, "RET-04: reserved = the five", where);
  holds(c.reserved <= c.maximum_resources, "RET-04: reserved <= maximum_resources", where);
  holds(c.running <= c.workers, "running <= workers", where);
  holds(ended == freed - c.permits_dropped + c.completed, "every cleanup that ended is done or completed", where);
  holds(c.failed_unobserved <= c.failed + c.lost, "failed_unobserved <= failed + lost", where);
  holds(c.oldest_queued_ns >= 0 && (c.queued != 0) == (c.oldest_queued_ns != 0), "an age exactly when queued", where);
  holds(c.longest_running_ns >= 0 && (c.running != 0) == (c.longest_running_ns != 0), "an age exactly when running",
        where);
}

inline nocter_retirement_counts counts_of(const nocter_retirement* service, Where where = Where::here()) {
  nocter_retirement_counts counts = NOCTER_RETIREMENT_COUNTS_INIT;
  status_is(nocter_retirement_count(service, &counts), NOCTER_OK, where);
  check_identities(counts, where);
  return counts;
}

inline nocter_epoch epoch_of(const nocter_retirement* service, Where where = Where::here()) {
  nocter_epoch epoch = {};
  status_is(nocter_retirement_epoch(service, &epoch), NOCTER_OK, where);
  return epoch;
}

// The state, or the negative status.
inline int32_t state_of(const nocter_retirement* service, nocter_retirement_id id) {
  nocter_retirement_state state = 77;
  const nocter_status status = nocter_retirement_query(service, id, &state);
  HOLDS(status == NOCTER_OK ? state >= NOCTER_RETIREMENT_QUEUED && state <= NOCTER_RETIREMENT_COMPLETED : state == 0);
  return status == NOCTER_OK ? state : status;
}

struct Reserved {
  nocter_status status;
  nocter_permit* permit;
  nocter_epoch epoch;
};

inline Reserved try_reserve(nocter_retirement* service, Where where = Where::here()) {
  Reserved result = {0, reinterpret_cast<nocter_permit*>(&result), {77, 77}};
  result.status = nocter_retirement_reserve(service, &result.permit, &result.epoch);
  holds((result.status == NOCTER_OK) == (result.permit != nullptr), "a permit exactly when reserved", where);
  holds((result.status < 0) == (result.epoch.service == 0 && result.epoch.sequence == 0), "an epoch unless an error",
        where);
  return result;
}

inline nocter_permit* reserve(nocter_retirement* service, Where where = Where::here()) {
  const Reserved reserved = try_reserve(service, where);
  status_is(reserved.status, NOCTER_OK, where);
  return reserved.permit;
}

inline nocter_resource* attach(nocter_permit* permit, nocter_owned value, Where where = Where::here()) {
  const nocter_owned before = value;
  nocter_resource* const resource = nocter_permit_attach(permit, &value);
  holds(resource != nullptr && is_none(value), "attach makes an owner and takes the resource over", where);
  holds(nocter_resource_get(resource) == before.data, "the owner lends what was attached", where);
  return resource;
}

inline nocter_resource* own(nocter_retirement* service, nocter_owned value, Where where = Where::here()) {
  return attach(reserve(service, where), value, where);
}
inline nocter_resource* own(nocter_retirement* service, uint64_t value, Where where = Where::here()) {
  return own(service, payload(value), where);
}

inline nocter_retirement_id retire(nocter_resource* resource, Where where = Where::here()) {
  nocter_retirement_id id = {77, 77};
  status_is(nocter_resource_retire(resource, &id), NOCTER_OK, where);
  holds(!is_zero(id), "a retirement has an identity", where);
  return id;
}

struct Claimed {
  nocter_status status;
  nocter_cleanup* cleanup;
};

inline Claimed try_claim(nocter_retirement* service, const nocter_wait* wait = nullptr, Where where = Where::here()) {
  nocter_cleanup* cleanup = reinterpret_cast<nocter_cleanup*>(&cleanup);
  const nocter_status status = nocter_retirement_claim(service, wait, &cleanup);
  holds((status == NOCTER_OK) == (cleanup != nullptr), "a guard exactly when claimed", where);
  return {status, cleanup};
}

inline nocter_cleanup* claim(nocter_retirement* service, Where where = Where::here()) {
  const Claimed claimed = try_claim(service, nullptr, where);
  status_is(claimed.status, NOCTER_OK, where);
  return claimed.cleanup;
}

// Takes the resource out and ends it; what it was.
inline uint64_t begin(nocter_cleanup* cleanup, Where where = Where::here()) {
  nocter_owned value = {&value, nullptr};
  status_is(nocter_cleanup_begin(cleanup, &value), NOCTER_OK, where);
  return discard(value);
}

inline void complete(nocter_cleanup* cleanup, int32_t code = 0, Where where = Where::here()) {
  status_is(nocter_cleanup_complete(cleanup, code), NOCTER_OK, where);
}

// Cleans what was queued first; what it was.
inline uint64_t clean_one(nocter_retirement* service, int32_t code = 0, Where where = Where::here()) {
  nocter_cleanup* const cleanup = claim(service, where);
  const uint64_t value = begin(cleanup, where);
  complete(cleanup, code, where);
  return value;
}

struct Taken {
  nocter_status status;
  int32_t code;
};

inline Taken take(nocter_retirement* service, nocter_retirement_id id, const nocter_wait* wait = nullptr,
                  Where where = Where::here()) {
  int32_t code = 77;
  const nocter_status status = nocter_retirement_take(service, id, wait, &code);
  holds(status == NOCTER_OK || code == 0, "no code unless taken", where);
  return {status, code};
}

// A resource whose end is a function of the test's.
struct Closing {
  std::function<void()> function;
};
inline nocter_owned closing(std::function<void()> function) {
  auto* made = new Closing{std::move(function)};
  return {made, [](void* data) {
            const std::unique_ptr<Closing> gone(static_cast<Closing*>(data));
            gone->function();
          }};
}

// A service for the length of a scope. Its counts are checked once more at the end.
class Retirement {
 public:
  explicit Retirement(const Shape& shape = {}, Where where = Where::here()) {
    const nocter_retirement_options options = options_of(shape);
    status_is(nocter_retirement_create(&options, &service_), NOCTER_OK, where);
  }
  ~Retirement() { destroy(); }
  Retirement(const Retirement&) = delete;
  Retirement& operator=(const Retirement&) = delete;
  operator nocter_retirement*() const { return service_; }
  void destroy() {
    if (service_ == nullptr) return;
    counts_of(service_);
    nocter_retirement_destroy(std::exchange(service_, nullptr));
  }

 private:
  nocter_retirement* service_ = nullptr;
};

// Threads of the library's that clean, for the length of a scope.
class Cleaners {
 public:
  explicit Cleaners(nocter_retirement* service, const nocter_workers_options* options = nullptr,
                    Where where = Where::here()) {
    status_is(nocter_retirement_serve(service, options, &workers_), NOCTER_OK, where);
  }
  ~Cleaners() { destroy(); }
  Cleaners(const Cleaners&) = delete;
  Cleaners& operator=(const Cleaners&) = delete;
  operator nocter_workers*() const { return workers_; }
  void stop(Where where = Where::here()) {
    const nocter_wait wait = long_wait();
    status_is(nocter_workers_stop(workers_, &wait), NOCTER_OK, where);
  }
  void destroy() {
    if (workers_ != nullptr) nocter_workers_destroy(std::exchange(workers_, nullptr));
  }

 private:
  nocter_workers* workers_ = nullptr;
};

inline void until_drained(nocter_retirement* service, Where where = Where::here()) {
  const nocter_wait wait = long_wait();
  status_is(nocter_retirement_drained(service, &wait), NOCTER_OK, where);
}

}  // namespace nocter_tests::retiring
