// The keyed queue as tests use it: each helper makes one call, checks what must hold whatever the outcome, and may be used from any
// thread.
#pragma once

#include <nocter/keyed.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/thread.hpp"

namespace nocter_tests {

struct QueueShape {
  uint32_t maximum_keys = 64;
  uint32_t workers = 2;
  uint32_t maximum_key_size = 64;
  nocter_notifier waiters = {};
  nocter_notifier work = {};
  int64_t backoff_initial_ns = 10'000'000;
  int64_t backoff_maximum_ns = 60'000'000'000;
  uint32_t backoff_percent = 200;
  uint32_t backoff_jitter_percent = 0;
};

inline nocter_keyed_options options_of(const QueueShape& shape) {
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  options.maximum_keys = shape.maximum_keys;
  options.workers = shape.workers;
  options.maximum_key_size = shape.maximum_key_size;
  options.waiters = shape.waiters;
  options.work = shape.work;
  options.backoff_initial_ns = shape.backoff_initial_ns;
  options.backoff_maximum_ns = shape.backoff_maximum_ns;
  options.backoff_percent = shape.backoff_percent;
  options.backoff_jitter_percent = shape.backoff_jitter_percent;
  return options;
}

// The identities of the counts that hold in every moment.
inline void check_identities(const nocter_keyed_counts& c, Where where = Where::here()) {
  holds(c.retained == c.waiting + c.delayed + c.active, "retained = waiting + delayed + active", where);
  holds(c.retained <= c.maximum_keys, "KEY-02: retained <= maximum_keys", where);
  holds(c.active <= c.workers, "KEY-02: active <= workers", where);
  holds(c.dirty <= c.active, "dirty <= active", where);
  holds(c.started == c.completed + c.failed + c.active, "started = completed + failed + active", where);
  holds(c.accepted_new + c.requeued + c.retried == c.started + c.waiting + c.delayed + c.discarded_waiting,
        "accepted_new + requeued + retried = started + waiting + delayed + discarded_waiting", where);
  holds(c.marked_dirty == c.requeued + c.dirty + c.discarded_dirty, "marked_dirty = requeued + dirty + discarded_dirty",
        where);
  holds(c.oldest_waiting_ns >= 0 && (c.waiting != 0) == (c.oldest_waiting_ns != 0), "an age when a key waits", where);
  holds(c.longest_active_ns >= 0 && (c.active != 0) == (c.longest_active_ns != 0), "an age when a pass runs", where);
}

inline nocter_keyed_counts counts_of(const nocter_keyed* queue, Where where = Where::here()) {
  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
  status_is(nocter_keyed_count(queue, &counts), NOCTER_OK, where);
  check_identities(counts, where);
  return counts;
}

// Every notification is one of the five.
inline uint64_t notifications(const nocter_keyed_counts& c) {
  return c.accepted_new + c.coalesced + c.marked_dirty + c.rejected_full + c.rejected_closed;
}

// An hour: not in the time of any test.
inline constexpr int64_t kMuchLater = int64_t{3600} * 1'000'000'000;

// For the length of one expression: the string must outlive it.
inline nocter_text text(const std::string& key) { return {key.data(), key.size()}; }
inline std::string string_of(nocter_text key) {
  return key.size == 0 ? std::string() : std::string(key.data, key.size);
}

inline std::string key_of(const nocter_pass* pass) { return string_of(nocter_pass_key(pass)); }

inline nocter_status notify(nocter_keyed* queue, const std::string& key) {
  return nocter_keyed_notify(queue, text(key));
}
inline nocter_status notify_after(nocter_keyed* queue, const std::string& key, int64_t delay_ns) {
  return nocter_keyed_notify_after(queue, text(key), delay_ns);
}

struct ClaimedPass {
  nocter_status status;
  nocter_pass* pass;
};

inline ClaimedPass try_claim(nocter_keyed* queue, const nocter_wait* wait = nullptr, Where where = Where::here()) {
  nocter_pass* pass = reinterpret_cast<nocter_pass*>(&pass);
  const nocter_status status = nocter_keyed_claim(queue, wait, &pass);
  holds((status == NOCTER_OK) == (pass != nullptr), "a guard exactly when claimed", where);
  return {status, pass};
}

inline nocter_pass* claim(nocter_keyed* queue, Where where = Where::here()) {
  const ClaimedPass claimed = try_claim(queue, nullptr, where);
  status_is(claimed.status, NOCTER_OK, where);
  return claimed.pass;
}

// One that must be there, of that key.
inline nocter_pass* claim(nocter_keyed* queue, const std::string& key, Where where = Where::here()) {
  nocter_pass* const pass = claim(queue, where);
  const std::string found = string_of(nocter_pass_key(pass));
  holds(found == key, ("the key is " + found + ", expected " + key).c_str(), where);
  return pass;
}

// Makes every pass there is to the end, and says in which order.
inline std::vector<std::string> run_all(nocter_keyed* queue, Where where = Where::here()) {
  std::vector<std::string> keys;
  for (;;) {
    const ClaimedPass claimed = try_claim(queue, nullptr, where);
    if (claimed.pass == nullptr) return keys;
    keys.push_back(string_of(nocter_pass_key(claimed.pass)));
    status_is(nocter_pass_complete(claimed.pass), NOCTER_OK, where);
  }
}

// A queue for the length of a scope. Its counts are checked once more at the end.
class Queue {
 public:
  explicit Queue(const QueueShape& shape = {}, Where where = Where::here()) {
    const nocter_keyed_options options = options_of(shape);
    status_is(nocter_keyed_create(&options, &queue_), NOCTER_OK, where);
  }
  ~Queue() { destroy(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  operator nocter_keyed*() const { return queue_; }
  void destroy() {
    if (queue_ == nullptr) return;
    counts_of(queue_);
    nocter_keyed_destroy(std::exchange(queue_, nullptr));
  }

 private:
  nocter_keyed* queue_ = nullptr;
};

// Workers that make each pass by a lambda, for the length of a scope.
class PassRunner {
 public:
  using Function = std::function<nocter_status(const std::string& key, nocter_pass* pass)>;
  PassRunner(nocter_keyed* queue, Function function, const nocter_workers_options* options = nullptr,
             Where where = Where::here())
      : function_(std::move(function)) {
    status_is(nocter_keyed_serve(queue, run, this, options, &workers_), NOCTER_OK, where);
  }
  ~PassRunner() { destroy(); }
  PassRunner(const PassRunner&) = delete;
  PassRunner& operator=(const PassRunner&) = delete;
  operator nocter_workers*() const { return workers_; }
  void destroy() {
    if (workers_ != nullptr) nocter_workers_destroy(std::exchange(workers_, nullptr));
  }

 private:
  static nocter_status run(void* user, nocter_text key, nocter_pass* pass) {
    return static_cast<PassRunner*>(user)->function_(string_of(key), pass);
  }
  Function function_;
  nocter_workers* workers_ = nullptr;
};

// Keys out of a list, over and over: what a host's own list of all things would be.
struct ListSource {
  std::vector<std::string> keys;
  size_t next = 0;
  int calls = 0, drops = 0;
  nocter_keyed_source source() { return {give, drop, this}; }
  static nocter_status give(void* user, nocter_text* out_key) {
    auto& self = *static_cast<ListSource*>(user);
    self.calls++;
    if (self.next == self.keys.size()) {
      self.next = 0;
      return NOCTER_EMPTY;
    }
    *out_key = text(self.keys[self.next++]);
    return NOCTER_OK;
  }
  static void drop(void* user) { static_cast<ListSource*>(user)->drops++; }
};

}  // namespace nocter_tests
