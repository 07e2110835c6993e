// Eight threads, random calls, slow notifiers, keyed queues and their workers and sources that come and go under everybody's hands. At every
// look and at the end the identities of the counts hold, and everything is let go of once. NOCTER_STRESS_SECONDS says how long (5),
// NOCTER_SEED repeats the choices.
#include <nocter.h>
#include <nocter/keyed.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

constexpr size_t kThreads = 8, kQueues = 3, kKept = 60, kNames = 40;

int64_t stress_seconds() {
  const char* given = std::getenv("NOCTER_STRESS_SECONDS");
  return given != nullptr ? std::strtoll(given, nullptr, 10) : 5;
}

std::string name_of(uint64_t which) { return std::string(which % 4 * 30, 'k') + std::to_string(which); }

// What counts as let go of: notifiers and sources.
std::atomic<int64_t> things_given{0}, things_dropped{0};

struct Source {
  uint64_t next_name = 0;
  std::atomic<int> inside{0};
  std::string lent;
  static nocter_status next(void* user, nocter_text* out_key) {
    Source& self = *static_cast<Source*>(user);
    HOLDS(self.inside.fetch_add(1) == 0);
    nocter_status status = NOCTER_OK;
    if (++self.next_name % 20 == 0) {
      status = NOCTER_EMPTY;
    } else if (self.next_name % 33 == 0) {
      status = NOCTER_E_UNAVAILABLE;
    }
    self.lent = name_of(self.next_name % kNames);
    *out_key = text(self.lent);
    self.inside.fetch_sub(1);
    if (self.next_name % 57 == 0) throw 1;
    return status;
  }
  static void drop(void* user) {
    const std::unique_ptr<Source> self(static_cast<Source*>(user));
    HOLDS(self->inside.load() == 0);
    things_dropped.fetch_add(1);
  }
};

// A queue with what belongs to it. The last thread that uses it gives the handle up; passes may outlive that.
class Holder {
 public:
  explicit Holder(std::mt19937_64& random) : queries_inside_(random() % 2 == 0), closed_first_(random() % 2 == 0) {
    const auto keys = static_cast<uint32_t>(1 + below(random, 24));
    const auto workers = static_cast<uint32_t>(1 + below(random, keys));
    nocter_keyed_options options = options_of({.maximum_keys = keys, .workers = workers});
    options.maximum_key_size = random() % 2 == 0 ? 128 : 1'000;
    options.backoff_initial_ns = static_cast<int64_t>(below(random, 100'000));
    options.backoff_maximum_ns = 1'000'000;
    inner_ = new Inner{};
    inner_->slow = random() % 2 == 0;
    options.waiters = {wake, drop, inner_};
    things_given.fetch_add(1);
    if (random() % 2 == 0) options.wait_spins = options.wait_yields = NOCTER_WAIT_NONE;
    STATUS(nocter_keyed_create(&options, &queue_), NOCTER_OK);
    if (queries_inside_) inner_->queue.store(queue_);
    for (uint64_t sets = below(random, 3); sets > 0; sets--) {
      nocter_workers_options how = NOCTER_WORKERS_OPTIONS_INIT;
      how.threads = static_cast<uint32_t>(below(random, 3));
      nocter_workers* made = nullptr;
      STATUS(nocter_keyed_serve(queue_, serve, queue_, &how, &made), NOCTER_OK);
      workers_.push_back(made);
    }
  }
  ~Holder() {
    // Served functions call on the handle: the last of them has ended before the handle does.
    if (closed_first_) nocter_keyed_close(queue_, NOCTER_CLOSE_DISCARD);
    for (nocter_workers* one : workers_) {
      const nocter_wait wait = long_wait();
      STATUS(nocter_workers_stop(one, &wait), NOCTER_OK);
    }
    inner_->queue.store(nullptr);
    counts_of(queue_);
    nocter_keyed_destroy(queue_);
    for (nocter_workers* one : workers_) nocter_workers_destroy(one);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  nocter_keyed* queue() const { return queue_; }
  // Whether passes must keep the handle, because notifiers ask it.
  bool queries_inside() const { return queries_inside_; }

 private:
  struct Inner {
    std::atomic<nocter_keyed*> queue{nullptr};
    bool slow = false;
    std::atomic<uint64_t> turns{0};
  };
  static void wake(void* user) {
    Inner& inner = *static_cast<Inner*>(user);
    if (inner.turns++ % 32 == 0 && inner.slow) pause_ms(1);
    nocter_keyed* const queue = inner.queue.load();
    if (queue != nullptr) counts_of(queue);
  }
  static void drop(void* user) {
    delete static_cast<Inner*>(user);
    things_dropped.fetch_add(1);
  }
  static nocter_status serve(void* user, nocter_text key, nocter_pass* pass) {
    auto* const queue = static_cast<nocter_keyed*>(user);
    const uint64_t which = std::hash<std::string>{}(string_of(key)) + nocter_pass_failures(pass);
    switch (which % 8) {
      case 0:
        throw 1;
      case 1:
        nocter_pass_drop(pass);
        return NOCTER_OK;
      case 2:
        STATUS(nocter_pass_retry_after(pass, -1), NOCTER_OK);
        return NOCTER_OK;
      case 3: {
        const nocter_status status = nocter_keyed_notify(queue, key);
        HOLDS(status == NOCTER_OK || status == NOCTER_COALESCED || status == NOCTER_CLOSED);
        return NOCTER_OK;
      }
      case 4: {
        // A wait that carries the interrupt of the pass.
        nocter_wait wait = wait_ms(1, nocter_pass_interrupt(pass));
        nocter_pass* second = nullptr;
        const nocter_status status = nocter_keyed_claim(queue, &wait, &second);
        HOLDS(status == NOCTER_OK || status == NOCTER_TIMEOUT || status == NOCTER_INTERRUPTED ||
              status == NOCTER_CLOSED || status == NOCTER_E_WOULD_DEADLOCK);
        nocter_pass_drop(second);
        return NOCTER_E_UNAVAILABLE;
      }
      default:
        return NOCTER_OK;
    }
  }

  const bool queries_inside_, closed_first_;
  Inner* inner_ = nullptr;
  nocter_keyed* queue_ = nullptr;
  std::vector<nocter_workers*> workers_;
};

struct Guard {
  std::shared_ptr<Holder> keeps;  // empty for a pass that may outlive its handle
  nocter_pass* pass = nullptr;
};

class World {
 public:
  World() {
    auto random = random_stream(99);
    for (std::shared_ptr<Holder>& slot : queues_) slot = std::make_shared<Holder>(random);
  }

  void run(uint64_t thread, int64_t until_ns) {
    auto random = random_stream(1'000 + thread);
    while (nocter_now_ns() < until_ns) {
      for (int i = 0; i < 50; i++) one_call(random);
    }
  }

  void end() {
    for (Guard& guard : std::exchange(guards_, {})) end_guard(guard, 0);
    for (std::shared_ptr<Holder>& slot : queues_) {
      nocter_keyed_close(slot->queue(), NOCTER_CLOSE_DISCARD);
      const nocter_wait wait = long_wait();
      STATUS(nocter_keyed_drained(slot->queue(), &wait), NOCTER_OK);
      HOLDS(counts_of(slot->queue()).retained == 0);
      slot.reset();
    }
  }
  uint64_t calls() const { return calls_.load(); }
  uint64_t replaced() const { return replaced_.load(); }

 private:
  std::shared_ptr<Holder> any_queue(std::mt19937_64& random) {
    const std::scoped_lock lock(mutex_);
    return queues_[below(random, kQueues)];
  }

  // None, some tenths of a millisecond, or one that carries the shared interrupt.
  const nocter_wait* any_wait(std::mt19937_64& random, nocter_wait& wait) {
    const uint64_t which = below(random, 4);
    if (which < 2) return nullptr;
    wait = wait_ms(0, which == 3 ? static_cast<nocter_interrupt*>(interrupt_) : nullptr);
    wait.deadline_ns += static_cast<int64_t>(below(random, 500'000));
    return &wait;
  }

  static bool is_an_answer_to_notify(nocter_status status) {
    return status == NOCTER_OK || status == NOCTER_COALESCED || status == NOCTER_SATURATED || status == NOCTER_CLOSED;
  }

  void one_call(std::mt19937_64& random) {
    calls_.fetch_add(1);
    const uint64_t which = below(random, 1'000);
    const std::shared_ptr<Holder> holder = any_queue(random);
    nocter_keyed* const queue = holder->queue();
    nocter_wait wait = {};
    if (which < 380) {
      HOLDS(is_an_answer_to_notify(notify(queue, name_of(below(random, kNames)))));
    } else if (which < 430) {
      HOLDS(is_an_answer_to_notify(
          notify_after(queue, name_of(below(random, kNames)), static_cast<int64_t>(below(random, 2'000'000)))));
    } else if (which < 460) {
      notify_several(random, queue);
    } else if (which < 700) {
      const ClaimedPass claimed = try_claim(queue, any_wait(random, wait));
      if (claimed.status == NOCTER_OK) {
        keep(random, holder, claimed.pass);
      } else {
        HOLDS(claimed.status == NOCTER_EMPTY || claimed.status == NOCTER_TIMEOUT ||
              claimed.status == NOCTER_INTERRUPTED || claimed.status == NOCTER_CLOSED);
      }
    } else if (which < 900) {
      end_any(random);
    } else if (which < 940) {
      counts_of(queue);
      int64_t due = 0;
      const nocter_status status = nocter_keyed_next_due(queue, &due);
      HOLDS(status == NOCTER_OK ? due != 0 : status == NOCTER_EMPTY && due == 0);
    } else if (which < 960) {
      const nocter_status status = nocter_keyed_drained(queue, any_wait(random, wait));
      HOLDS(status == NOCTER_OK || status == NOCTER_PENDING || status == NOCTER_TIMEOUT ||
            status == NOCTER_INTERRUPTED || status == NOCTER_E_STATE);
    } else if (which < 980) {
      resync(random, queue);
    } else if (which < 990) {
      nocter_interrupt_raise(interrupt_);
    } else if (which < 998) {
      nocter_interrupt_clear(interrupt_);
    } else {
      replace(random, holder);
    }
  }

  static void notify_several(std::mt19937_64& random, nocter_keyed* queue) {
    std::array<std::string, 5> names;
    std::array<nocter_text, 5> keys = {};
    std::array<nocter_status, 5> each = {};
    for (size_t i = 0; i < keys.size(); i++) {
      names[i] = name_of(below(random, kNames));
      keys[i] = text(names[i]);
    }
    HOLDS(nocter_keyed_notify_many(queue, keys.data(), keys.size(), each.data()) >= NOCTER_OK);
    for (const nocter_status status : each) HOLDS(is_an_answer_to_notify(status));
  }

  static void resync(std::mt19937_64& random, nocter_keyed* queue) {
    if (below(random, 4) == 0) {
      const nocter_status status = nocter_keyed_resync(queue, nullptr, 0, 0);
      HOLDS(status == NOCTER_OK || status == NOCTER_CLOSED);
      return;
    }
    auto made = std::make_unique<Source>();
    const nocter_keyed_source source = {Source::next, Source::drop, made.get()};
    const nocter_status status = nocter_keyed_resync(queue, &source, static_cast<int64_t>(1 + below(random, 1'000'000)),
                                                     static_cast<uint32_t>(1 + below(random, 10)));
    if (status != NOCTER_OK) {
      STATUS(status, NOCTER_CLOSED);
      return;
    }
    static_cast<void>(made.release());  // the queue's, and perhaps gone already
    things_given.fetch_add(1);
  }

  void keep(std::mt19937_64& random, const std::shared_ptr<Holder>& holder, nocter_pass* pass) {
    Guard guard;
    if (holder->queries_inside() || random() % 2 == 0) guard.keeps = holder;
    guard.pass = pass;
    {
      const std::scoped_lock lock(mutex_);
      if (guards_.size() < kKept) {
        guards_.push_back(std::move(guard));
        return;
      }
    }
    end_guard(guard, random());
  }

  void end_any(std::mt19937_64& random) {
    Guard guard;
    {
      const std::scoped_lock lock(mutex_);
      if (guards_.empty()) return;
      std::swap(guards_[below(random, guards_.size())], guards_.back());
      guard = std::move(guards_.back());
      guards_.pop_back();
    }
    const bool interrupted = nocter_pass_interrupted(guard.pass);
    HOLDS(!interrupted || nocter_interrupt_raised(nocter_pass_interrupt(guard.pass)));
    HOLDS(nocter_pass_key(guard.pass).size != 0);
    end_guard(guard, random());
  }

  static void end_guard(Guard& guard, uint64_t how) {
    switch (how % 5) {
      case 0:
        return nocter_pass_drop(guard.pass);
      case 1:
        STATUS(nocter_pass_fail(guard.pass), NOCTER_OK);
        return;
      case 2:
        STATUS(nocter_pass_retry_after(guard.pass, static_cast<int64_t>(how % 1'000'000) - 1'000), NOCTER_OK);
        return;
      default:
        STATUS(nocter_pass_complete(guard.pass), NOCTER_OK);
        return;
    }
  }

  // Closed under everybody's hands, in one way or the other; others may use the old one a little longer.
  void replace(std::mt19937_64& random, const std::shared_ptr<Holder>& old) {
    const uint64_t how = below(random, 3);
    if (how != 0) nocter_keyed_close(old->queue(), how == 1 ? NOCTER_CLOSE_DISCARD : NOCTER_CLOSE_DRAIN);
    auto fresh = std::make_shared<Holder>(random);
    const std::scoped_lock lock(mutex_);
    for (std::shared_ptr<Holder>& slot : queues_) {
      if (slot != old) continue;
      slot = fresh;
      replaced_.fetch_add(1);
    }
  }

  std::mutex mutex_;
  std::array<std::shared_ptr<Holder>, kQueues> queues_;
  std::vector<Guard> guards_;
  Interrupt interrupt_;
  std::atomic<uint64_t> calls_{0}, replaced_{0};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_stress_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_12_random_calls_on_queues_from_eight_threads_scenario_155,
                     *label("GEN-01") * label("GEN-12") * label("KEY-07") * label("KEY-08") * label("KEY-10") *
                         label("K-31")) {
  const int64_t seconds = stress_seconds();
  {
    World world;
    const int64_t until = nocter_now_ns() + seconds * 1'000'000'000;
    std::deque<Thread> threads;
    for (uint64_t i = 0; i < kThreads; i++) {
      threads.emplace_back([&world, i, until] { world.run(i, until); });
    }
    for (Thread& thread : threads) thread.join(static_cast<int>(seconds) * 1'000 + kLimitMs);
    world.end();
    BOOST_TEST_MESSAGE(world.calls() << " calls in " << seconds << " s, " << world.replaced() << " queues replaced");
    BOOST_CHECK_GT(world.calls(), 0u);
  }
  BOOST_CHECK_EQUAL(things_dropped.load(), things_given.load());
}

BOOST_AUTO_TEST_SUITE_END()
