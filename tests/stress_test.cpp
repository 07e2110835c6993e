// Eight threads, random calls, slow notifiers, services and signals that come and go. At the end every identity of the counts
// holds and every value was dropped once. NOCTER_STRESS_SECONDS says how long (10), NOCTER_SEED repeats the choices.
#include <nocter.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "support/fixture.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;

namespace {

constexpr uint64_t kOutputOf = uint64_t{1} << 40;  // the output of a job is its input's value and this bit
constexpr size_t kThreads = 8, kServices = 3, kKept = 200;

int64_t stress_seconds() {
  const char* given = std::getenv("NOCTER_STRESS_SECONDS");
  return given != nullptr ? std::strtoll(given, nullptr, 10) : 10;
}

// A bag that threads put things into and take them out of at random.
template <class T>
class Bag {
 public:
  bool put(T thing) {
    const std::scoped_lock lock(mutex_);
    if (things_.size() >= kKept) return false;
    things_.push_back(std::move(thing));
    return true;
  }
  bool pick(std::mt19937_64& random, T& thing, bool remove) {
    const std::scoped_lock lock(mutex_);
    if (things_.empty()) return false;
    const size_t index = below(random, things_.size());
    thing = things_[index];
    if (remove) {
      things_[index] = std::move(things_.back());
      things_.pop_back();
    }
    return true;
  }
  std::vector<T> empty() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(things_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<T> things_;
};

struct Accepted {
  nocter_job_id id;
  uint64_t value;
};

// A service with what belongs to it. The last thread that uses it gives the handle up; guards may outlive that.
class Holder {
 public:
  explicit Holder(std::mt19937_64& random)
      : queries_inside_(random() % 2 == 0), stopped_first_(queries_inside_ || random() % 2 == 0) {
    const auto jobs = static_cast<uint32_t>(1 + below(random, 24));
    const auto workers = static_cast<uint32_t>(1 + below(random, jobs));
    nocter_blocking_options options = options_of({.maximum_jobs = jobs, .workers = workers});
    inner_ = new Inner{};
    inner_->slow = random() % 2 == 0;
    options.waiters = {wake, drop, inner_};
    if (random() % 2 == 0) options.wait_spins = options.wait_yields = NOCTER_WAIT_NONE;
    STATUS(nocter_blocking_create(&options, &service_), NOCTER_OK);
    if (queries_inside_) inner_->service.store(service_);
    for (uint64_t sets = below(random, 3); sets > 0; sets--) {
      nocter_workers_options how = NOCTER_WORKERS_OPTIONS_INIT;
      how.threads = static_cast<uint32_t>(below(random, 3));
      nocter_workers* made = nullptr;
      STATUS(nocter_blocking_serve(service_, serve, nullptr, &how, &made), NOCTER_OK);
      workers_.push_back(made);
    }
  }
  ~Holder() {
    if (stopped_first_) {
      for (nocter_workers* one : workers_) {
        const nocter_wait wait = long_wait();
        STATUS(nocter_workers_stop(one, &wait), NOCTER_OK);
      }
    }
    // Notifiers ask no more: the handle ends here. Where they did, guards kept it, and no thread is inside one now.
    inner_->service.store(nullptr);
    counts_of(service_);
    nocter_blocking_destroy(service_);
    for (nocter_workers* one : workers_) nocter_workers_destroy(one);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  nocter_blocking* service() const { return service_; }
  // Whether guards must keep the handle, because notifiers ask it.
  bool queries_inside() const { return queries_inside_; }
  Bag<Accepted> accepted;

 private:
  struct Inner {
    std::atomic<nocter_blocking*> service{nullptr};
    bool slow = false;
    std::atomic<uint64_t> turns{0};
  };
  static void wake(void* user) {
    Inner& inner = *static_cast<Inner*>(user);
    if (inner.turns++ % 32 == 0 && inner.slow) pause_ms(1);
    nocter_blocking* const service = inner.service.load();
    if (service != nullptr) counts_of(service);
  }
  static void drop(void* user) { delete static_cast<Inner*>(user); }
  static void serve(void*, nocter_owned* input, nocter_owned* output, nocter_completion* completion) {
    const uint64_t value = discard(*input);
    switch (value % 16) {
      case 0:
        throw 1;
      case 1:
        nocter_completion_drop(completion);
        return;
      case 2:
        *output = payload(value | kOutputOf);
        STATUS(nocter_completion_complete(completion, output), NOCTER_OK);
        return;
      case 3:
        pause_ms(1);
        break;
      default:
        break;
    }
    *output = payload(value | kOutputOf);
  }

  const bool queries_inside_, stopped_first_;
  Inner* inner_ = nullptr;
  nocter_blocking* service_ = nullptr;
  std::vector<nocter_workers*> workers_;
};

struct Guard {
  std::shared_ptr<Holder> keeps;  // empty for a guard that may outlive its handle
  nocter_running_job* unbegun = nullptr;
  nocter_completion* completion = nullptr;
  uint64_t value = 0;
};

class World {
 public:
  World() {
    auto random = random_stream(99);
    for (std::shared_ptr<Holder>& slot : services_) slot = std::make_shared<Holder>(random);
    for (std::shared_ptr<Signal>& slot : signals_) slot = std::make_shared<Signal>();
  }

  void run(uint64_t thread, int64_t until_ns) {
    auto random = random_stream(1'000 + thread);
    while (nocter_now_ns() < until_ns) {
      for (int i = 0; i < 50; i++) one_call(random);
    }
  }

  void end() {
    for (Guard& guard : guards_.empty()) end_guard(guard, 0);
    for (std::shared_ptr<Holder>& slot : services_) {
      shut_down(slot->service());
      const nocter_wait wait = long_wait();
      STATUS(nocter_blocking_drained(slot->service(), &wait), NOCTER_OK);
      const nocter_blocking_counts counts = counts_of(slot->service());
      HOLDS(counts.admitted == 0);
      slot.reset();
    }
  }
  uint64_t calls() const { return calls_.load(); }
  uint64_t replaced() const { return replaced_.load(); }

 private:
  template <class T, size_t size>
  std::shared_ptr<T> any(std::mt19937_64& random, std::array<std::shared_ptr<T>, size>& slots) {
    const std::scoped_lock lock(mutex_);
    return slots[below(random, size)];
  }

  // None, some tenths of a millisecond, or one that carries the shared interrupt.
  const nocter_wait* any_wait(std::mt19937_64& random, nocter_wait& wait) {
    const uint64_t which = below(random, 4);
    if (which < 2) return nullptr;
    wait = wait_ms(0, which == 3 ? static_cast<nocter_interrupt*>(interrupt_) : nullptr);
    wait.deadline_ns += static_cast<int64_t>(below(random, 500'000));
    return &wait;
  }

  static bool ended_early(nocter_status status) {
    return status == NOCTER_PENDING || status == NOCTER_TIMEOUT || status == NOCTER_INTERRUPTED ||
           status == NOCTER_CLOSED;
  }

  void one_call(std::mt19937_64& random) {
    calls_.fetch_add(1);
    const uint64_t which = below(random, 100);
    if (which < 70) {
      on_service(random, any(random, services_), which);
    } else if (which < 85) {
      on_guard(random);
    } else if (which < 98) {
      on_signal(random);
    } else if (which == 98) {
      nocter_interrupt_raise(interrupt_);
    } else {
      nocter_interrupt_clear(interrupt_);
    }
  }

  void on_service(std::mt19937_64& random, const std::shared_ptr<Holder>& holder, uint64_t which) {
    nocter_blocking* const service = holder->service();
    nocter_wait wait = {};
    Accepted one = {};
    if (which < 20) {
      submit_one(random, *holder);
    } else if (which < 32) {
      const Claimed claimed = try_claim(service, any_wait(random, wait));
      if (claimed.status == NOCTER_OK) {
        Guard guard;
        if (holder->queries_inside() || random() % 2 == 0) guard.keeps = holder;
        guard.unbegun = claimed.job;
        if (!guards_.put(guard)) end_guard(guard, random());
      } else {
        HOLDS(claimed.status == NOCTER_EMPTY || ended_early(claimed.status));
      }
    } else if (which < 50) {
      if (!holder->accepted.pick(random, one, random() % 4 != 0)) return;
      const Taken taken = take(service, one.id, any_wait(random, wait));
      if (taken.status == NOCTER_OK) {
        HOLDS(taken.value == (one.value | kOutputOf));
      } else {
        HOLDS(ended_early(taken.status) || taken.status == NOCTER_WORKER_LOST || taken.status == NOCTER_E_UNKNOWN ||
              taken.status == NOCTER_E_STATE);
      }
    } else if (which < 58) {
      if (!holder->accepted.pick(random, one, random() % 2 == 0)) return;
      const Cancelled cancelled = cancel(service, one.id);
      if (cancelled.status == NOCTER_OK) {
        HOLDS(cancelled.value == kNoValue ||
              cancelled.value == (cancelled.was == NOCTER_JOB_QUEUED ? one.value : one.value | kOutputOf));
      } else {
        HOLDS(cancelled.status == NOCTER_E_UNKNOWN || cancelled.status == NOCTER_E_STATE);
      }
    } else if (which < 62) {
      counts_of(service);
      epoch_of(service);
      if (holder->accepted.pick(random, one, false)) HOLDS(state_of(service, one.id) != 0);
    } else if (which < 65) {
      nocter_job_id ids[4];
      size_t count = 0;
      STATUS(nocter_blocking_completed(service, ids, 4, &count), NOCTER_OK);
    } else if (which < 69) {
      const nocter_epoch seen = epoch_of(service);
      nocter_epoch now = {};
      const nocter_status status = nocter_blocking_wait_epoch(service, seen, any_wait(random, wait), &now);
      HOLDS(status == NOCTER_OK ? now.sequence > seen.sequence : ended_early(status));
    } else if (below(random, 100) == 0) {
      replace(random, holder);
    }
  }

  void submit_one(std::mt19937_64& random, Holder& holder) {
    const uint64_t value = values_.fetch_add(1);
    nocter_owned input = payload(value);
    const Submitted submitted = submit(holder.service(), input);
    if (submitted.status == NOCTER_OK) {
      if (!holder.accepted.put({submitted.id, value})) cancel(holder.service(), submitted.id);
      return;
    }
    discard(input);
    if (submitted.status == NOCTER_CLOSED || !STATUS(submitted.status, NOCTER_SATURATED)) return;
    nocter_wait wait = wait_ms(0);
    wait.deadline_ns += static_cast<int64_t>(below(random, 500'000));
    nocter_epoch now = {};
    const nocter_status status = nocter_blocking_wait_epoch(holder.service(), submitted.epoch, &wait, &now);
    HOLDS(status == NOCTER_OK || ended_early(status));
  }

  // Shut down under everybody's hands; others may use the old one a little longer.
  void replace(std::mt19937_64& random, const std::shared_ptr<Holder>& old) {
    if (random() % 2 == 0) shut_down(old->service());
    auto fresh = std::make_shared<Holder>(random);
    const std::scoped_lock lock(mutex_);
    for (std::shared_ptr<Holder>& slot : services_) {
      if (slot != old) continue;
      slot = fresh;
      replaced_.fetch_add(1);
    }
  }

  void on_guard(std::mt19937_64& random) {
    Guard guard;
    if (!guards_.pick(random, guard, true)) return;
    if (guard.unbegun != nullptr && random() % 4 != 0) {
      HOLDS(!is_zero(nocter_running_job_id(guard.unbegun)));
      const Begun begun = begin(std::exchange(guard.unbegun, nullptr));
      guard.completion = begun.completion;
      guard.value = begun.value;
      if (random() % 2 == 0 && guards_.put(guard)) return;
    }
    if (guard.completion != nullptr) {
      const bool abandoned = nocter_completion_abandoned(guard.completion);
      HOLDS(!abandoned || nocter_interrupt_raised(nocter_completion_interrupt(guard.completion)));
    }
    end_guard(guard, random());
  }

  static void end_guard(Guard& guard, uint64_t how) {
    nocter_running_job_drop(guard.unbegun);
    if (guard.completion == nullptr) return;
    if (how % 4 == 0) {
      nocter_completion_drop(guard.completion);
    } else {
      complete(guard.completion, guard.value | kOutputOf);
    }
  }

  void on_signal(std::mt19937_64& random) {
    const std::shared_ptr<Signal> signal = any(random, signals_);
    nocter_wait wait = {};
    uint64_t version = 0;
    switch (below(random, 8)) {
      case 0:
      case 1:
      case 2: {
        const nocter_status status = nocter_signal_publish(*signal, &version);
        HOLDS(status == NOCTER_OK || status == NOCTER_CLOSED);
        break;
      }
      case 7:
        if (below(random, 500) != 0) break;
        nocter_signal_close(*signal);
        {
          auto fresh = std::make_shared<Signal>();
          const std::scoped_lock lock(mutex_);
          for (std::shared_ptr<Signal>& slot : signals_) {
            if (slot == signal) slot = fresh;
          }
        }
        break;
      default: {
        const uint64_t seen = nocter_signal_version(*signal);
        const nocter_status status = nocter_signal_wait(*signal, seen, any_wait(random, wait), &version);
        HOLDS(status == NOCTER_OK ? version > seen : ended_early(status));
      }
    }
  }

  std::mutex mutex_;
  std::array<std::shared_ptr<Holder>, kServices> services_;
  std::array<std::shared_ptr<Signal>, 2> signals_;
  Bag<Guard> guards_;
  Interrupt interrupt_;
  std::atomic<uint64_t> values_{1}, calls_{0}, replaced_{0};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(stress_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_01_gen_12_random_calls_from_eight_threads_scenario_155,
                     *label("GEN-01") * label("GEN-12") * label("BLK-10") * label("SIG-01")) {
  World world;
  const int64_t seconds = stress_seconds();
  const int64_t until = nocter_now_ns() + seconds * 1'000'000'000;
  std::deque<Thread> threads;
  for (uint64_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&world, i, until] { world.run(i, until); });
  }
  for (Thread& thread : threads) thread.join(static_cast<int>(seconds) * 1'000 + kLimitMs);
  world.end();
  BOOST_TEST_MESSAGE(world.calls() << " calls in " << seconds << " s, " << world.replaced() << " services replaced");
  BOOST_CHECK_GT(world.calls(), 0u);
}

BOOST_AUTO_TEST_SUITE_END()
