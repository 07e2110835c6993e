// Storms on the keyed queue: many threads, failures, retries, notifications from inside of passes, closes. What must come of it is reckoned
// in the states of the things that keys stand for: the last one that was notified was seen by a pass that started later.
#include <nocter.h>
#include <nocter/keyed.h>

#include <array>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

constexpr size_t kThings = 24, kNotifiers = 4;

// What a key stands for. Its state is changed first, then its key is notified.
struct Thing {
  std::string name;
  std::atomic<uint64_t> state{0};
  std::atomic<uint64_t> promised{0};  // accepted or coalesced
  std::atomic<uint64_t> seen{0};      // by a pass that has started
  std::atomic<uint64_t> passes{0};
  std::atomic<int> active{0};
};

void raise_to(std::atomic<uint64_t>& number, uint64_t least) {
  uint64_t now = number.load();
  while (now < least && !number.compare_exchange_weak(now, least)) {
  }
}

enum class Ends : uint8_t { well, badly, with_a_retry, with_backoff, by_drop, by_exception, by_itself };

class Storm {
 public:
  Storm(uint32_t maximum_keys, uint32_t workers, uint64_t stream) : workers_(workers), stream_(stream) {
    for (size_t i = 0; i < kThings; i++)
      things_[i].name = "namespace/" + std::string(i % 3 * 40, 'n') + std::to_string(i);
    nocter_keyed_options options =
        options_of({.maximum_keys = maximum_keys, .workers = workers, .maximum_key_size = 128});
    options.backoff_initial_ns = 1'000;
    options.backoff_maximum_ns = 200'000;
    options.waiters = waiters_.notifier();
    options.work = work_.notifier();
    STATUS(nocter_keyed_create(&options, &queue_), NOCTER_OK);
  }
  ~Storm() {
    nocter_workers_destroy(served_);
    nocter_keyed_destroy(queue_);
    HOLDS(waiters_.drops.load() == 1 && work_.drops.load() == 1);
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  nocter_keyed* queue() const { return queue_; }

  void serve(uint32_t threads) {
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    options.threads = threads;
    STATUS(nocter_keyed_serve(queue_, run_served, this, &options, &served_), NOCTER_OK);
  }

  // False when it was refused.
  bool notify_one(std::mt19937_64& random, size_t which) {
    Thing& thing = things_[which];
    const uint64_t state = thing.state.fetch_add(1) + 1;
    struct Inside {
      Inside() { notifying = true; }
      ~Inside() { notifying = false; }
    } inside;
    const nocter_status status = below(random, 6) == 0
                                     ? notify_after(queue_, thing.name, static_cast<int64_t>(below(random, 300'000)))
                                     : notify(queue_, thing.name);
    notifications_.fetch_add(1);
    HOLDS(status == NOCTER_OK || status == NOCTER_COALESCED || status == NOCTER_SATURATED || status == NOCTER_CLOSED);
    if (status != NOCTER_OK && status != NOCTER_COALESCED) return false;
    raise_to(thing.promised, state);
    return true;
  }

  void notify_until(uint64_t thread, int64_t until_ns) {
    auto random = random_stream(stream_ + thread);
    while (nocter_now_ns() < until_ns) {
      for (int i = 0; i < 200; i++) notify_one(random, below(random, kThings));
      if (below(random, 4) == 0) pause_ms(1);
    }
  }
  void count_until(int64_t until_ns) {
    while (nocter_now_ns() < until_ns) {
      counts_of(queue_);
      counted_++;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  // A host that claims by itself, and may end passes long after.
  void pull_until(uint64_t thread, int64_t until_ns) {
    auto random = random_stream(stream_ + thread);
    while (nocter_now_ns() < until_ns) {
      nocter_wait wait = wait_ms(1);
      const ClaimedPass claimed = try_claim(queue_, below(random, 2) == 0 ? &wait : nullptr);
      if (claimed.status == NOCTER_OK) {
        pull_one(random, claimed.pass);
      } else {
        HOLDS(claimed.status == NOCTER_EMPTY || claimed.status == NOCTER_TIMEOUT || claimed.status == NOCTER_CLOSED);
        if (claimed.status == NOCTER_CLOSED) return;
      }
    }
  }

  // What was refused is notified again, as a caller does that finds it in its own scan.
  void notify_the_rest() {
    auto random = random_stream(stream_);
    for (size_t i = 0; i < kThings; i++) {
      HOLDS(eventually([&] { return notify_one(random, i); }));
    }
  }
  void until_idle() {
    HOLDS(eventually([&] { return counts_of(queue_).retained == 0; }));
  }
  void check_fresh() {
    for (Thing& thing : things_) HOLDS(thing.seen.load() >= thing.promised.load());
  }
  void check_counts() {
    const nocter_keyed_counts counts = counts_of(queue_);
    HOLDS(notifications(counts) == notifications_.load());
    HOLDS(counts.started == started_.load());
    HOLDS(counts.failed == failed_.load());
    HOLDS(counts.exceptions == thrown_.load());
  }
  uint64_t started() const { return started_.load(); }
  uint64_t counted() const { return counted_; }
  const std::array<Thing, kThings>& things() const { return things_; }

 private:
  Thing* begin_pass(const std::string& key) {
    HOLDS(!notifying);  // KEY-04
    for (Thing& thing : things_) {
      if (thing.name != key) continue;
      HOLDS(thing.active.fetch_add(1) == 0);
      HOLDS(active_.fetch_add(1) < static_cast<int>(workers_));
      raise_to(thing.seen, thing.state.load());
      thing.passes.fetch_add(1);
      started_.fetch_add(1);
      return &thing;
    }
    holds(false, "a pass of a key that nobody notified");
    return nullptr;
  }
  void end_pass(Thing& thing) {
    active_.fetch_sub(1);
    thing.active.fetch_sub(1);
  }
  void pull_one(std::mt19937_64& random, nocter_pass* pass) {
    Thing* const thing = begin_pass(key_of(pass));
    if (thing == nullptr) return nocter_pass_drop(pass);
    if (below(random, 4) == 0) notify_one(random, below(random, kThings));
    HOLDS(key_of(pass) == thing->name);
    const auto how = static_cast<Ends>(below(random, 5));
    if (how != Ends::well) failed_.fetch_add(1);
    end_pass(*thing);
    end_by_hand(random, pass, how);
  }
  static void end_by_hand(std::mt19937_64& random, nocter_pass* pass, Ends how) {
    switch (how) {
      case Ends::well:
        STATUS(nocter_pass_complete(pass), NOCTER_OK);
        break;
      case Ends::badly:
        STATUS(nocter_pass_fail(pass), NOCTER_OK);
        break;
      case Ends::with_a_retry:
        STATUS(nocter_pass_retry_after(pass, static_cast<int64_t>(below(random, 100'000))), NOCTER_OK);
        break;
      case Ends::with_backoff:
        STATUS(nocter_pass_retry_after(pass, -1), NOCTER_OK);
        break;
      default:
        nocter_pass_drop(pass);
        break;
    }
  }

  static nocter_status run_served(void* user, nocter_text key, nocter_pass* pass) {
    Storm& self = *static_cast<Storm*>(user);
    thread_local auto random = random_stream(self.stream_ + 1'000 + self.streams_.fetch_add(1));
    HOLDS(string_of(key) == key_of(pass));
    Thing* const thing = self.begin_pass(string_of(key));
    if (thing == nullptr) return NOCTER_OK;
    if (below(random, 4) == 0) self.notify_one(random, static_cast<size_t>(thing - self.things_.data()));
    if (below(random, 8) == 0) self.notify_one(random, below(random, kThings));
    if (below(random, 64) == 0) pause_ms(1);
    const auto how = static_cast<Ends>(below(random, 7));
    if (how != Ends::well && how != Ends::by_itself) self.failed_.fetch_add(1);
    self.end_pass(*thing);
    switch (how) {
      case Ends::well:
        return NOCTER_OK;
      case Ends::badly:
        return NOCTER_E_UNAVAILABLE;
      case Ends::by_exception:
        self.thrown_.fetch_add(1);
        throw std::runtime_error("on purpose");
      case Ends::by_itself:
        end_by_hand(random, pass, Ends::well);
        return NOCTER_E_STATE;  // it has ended already, and well
      default:
        end_by_hand(random, pass, how);
        return NOCTER_OK;
    }
  }

  static inline thread_local bool notifying = false;
  const uint32_t workers_;
  const uint64_t stream_;
  std::array<Thing, kThings> things_;
  Wakes waiters_, work_;
  nocter_keyed* queue_ = nullptr;
  nocter_workers* served_ = nullptr;
  std::atomic<int> active_{0};
  std::atomic<uint64_t> notifications_{0}, started_{0}, failed_{0}, thrown_{0}, streams_{0};
  uint64_t counted_ = 0;
};

constexpr int64_t kStormNs = kSanitized ? 4'000'000'000 : 2'000'000'000;

// All notifiers, one that counts, two that pull, beside the workers that serve.
void blow(Storm& storm, int64_t until_ns) {
  std::deque<Thread> threads;
  for (uint64_t i = 0; i < kNotifiers; i++) {
    threads.emplace_back([&storm, i, until_ns] { storm.notify_until(10 + i, until_ns); });
  }
  for (uint64_t i = 0; i < 2; i++) {
    threads.emplace_back([&storm, i, until_ns] { storm.pull_until(20 + i, until_ns); });
  }
  threads.emplace_back([&storm, until_ns] { storm.count_until(until_ns); });
  for (Thread& thread : threads) thread.join(static_cast<int>(kStormNs / 1'000'000) + kLimitMs);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_storm_suite, EveryTest)

// Scenarios 132, 133, 137, 138.
BOOST_AUTO_TEST_CASE(key_03_a_storm_leaves_nothing_unseen, *label("KEY-01") * label("KEY-02") * label("KEY-03") *
                                                               label("KEY-04") * label("KEY-06") * label("KEY-07") *
                                                               label("K-1") * label("K-2") * label("K-9") *
                                                               label("K-28") * label("GEN-10") * label("GEN-12")) {
  // Fewer places than things: some are refused.
  Storm storm(16, 3, 100);
  storm.serve(3);
  blow(storm, nocter_now_ns() + kStormNs);
  storm.notify_the_rest();
  storm.until_idle();
  storm.check_fresh();
  storm.check_counts();
  BOOST_TEST_MESSAGE(storm.started() << " passes, " << storm.counted() << " snapshots");
  BOOST_CHECK_GT(storm.started(), kThings);
  BOOST_CHECK_GT(storm.counted(), 0u);
}

// A close in the midst of it: what was accepted before gets its pass, whatever fails meanwhile.
BOOST_AUTO_TEST_CASE(key_08_a_storm_that_is_drained_leaves_nothing_unseen,
                     *label("KEY-08") * label("KEY-03") * label("K-12") * label("K-14") * label("K-21")) {
  for (uint64_t round = 0; round < rounds(40, 8); round++) {
    Storm storm(16, 3, 200 + 50 * round);
    storm.serve(3);
    Thread closer([&] {
      auto random = random_stream(250 + round);
      std::this_thread::sleep_for(std::chrono::microseconds(below(random, 20'000)));
      nocter_keyed_close(storm.queue(), NOCTER_CLOSE_DRAIN);
      const nocter_wait wait = long_wait();
      STATUS(nocter_keyed_drained(storm.queue(), &wait), NOCTER_OK);
      const nocter_keyed_counts counts = counts_of(storm.queue());
      HOLDS(counts.retained == 0 && counts.discarded_waiting == 0 && counts.discarded_dirty == 0);
    });
    blow(storm, nocter_now_ns() + 30'000'000);
    closer.join();
    storm.check_fresh();
    storm.check_counts();
  }
}

// A close that discards: no pass starts after it, what ran is interrupted, and all ends.
BOOST_AUTO_TEST_CASE(key_08_a_storm_that_is_discarded_ends,
                     *label("KEY-08") * label("K-12") * label("K-13") * label("K-14") * label("K-20")) {
  for (uint64_t round = 0; round < rounds(40, 8); round++) {
    Storm storm(16, 3, 300 + 50 * round);
    storm.serve(3);
    Thread closer([&] {
      auto random = random_stream(350 + round);
      std::this_thread::sleep_for(std::chrono::microseconds(below(random, 20'000)));
      if (round % 3 == 0) nocter_keyed_close(storm.queue(), NOCTER_CLOSE_DRAIN);
      nocter_keyed_close(storm.queue(), NOCTER_CLOSE_DISCARD);
      const uint64_t started = counts_of(storm.queue()).started;
      const nocter_wait wait = long_wait();
      STATUS(nocter_keyed_drained(storm.queue(), &wait), NOCTER_OK);
      const nocter_keyed_counts counts = counts_of(storm.queue());
      HOLDS(counts.started == started && counts.retained == 0);
    });
    blow(storm, nocter_now_ns() + 30'000'000);
    closer.join();
    storm.check_counts();
  }
}

// KEY-09, exactly: one worker, every key notified in each of its passes.
BOOST_AUTO_TEST_CASE(key_09_keys_that_are_always_dirty_take_turns, *label("KEY-09") * label("K-3")) {
  struct Turns {
    nocter_keyed* queue = nullptr;
    std::array<std::atomic<uint64_t>, 50> passes = {};
    std::atomic<uint64_t> all{0}, widest{0};
    static nocter_status run(void* user, nocter_text key, nocter_pass*) {
      Turns& self = *static_cast<Turns*>(user);
      self.passes[std::stoul(string_of(key))].fetch_add(1);
      uint64_t least = UINT64_MAX, most = 0;
      for (const std::atomic<uint64_t>& passes : self.passes) {
        least = std::min(least, passes.load());
        most = std::max(most, passes.load());
      }
      raise_to(self.widest, most - least);
      self.all.fetch_add(1);
      const nocter_status status = nocter_keyed_notify(self.queue, key);
      HOLDS(status == NOCTER_OK || status == NOCTER_COALESCED || status == NOCTER_CLOSED);
      return self.all.load() % 7 == 0 ? NOCTER_E_UNAVAILABLE : NOCTER_OK;
    }
  };
  Turns turns;
  const Queue queue(QueueShape{.maximum_keys = 50, .workers = 1});
  turns.queue = queue;
  for (size_t i = 0; i < turns.passes.size(); i++) STATUS(notify(queue, std::to_string(i)), NOCTER_OK);
  nocter_workers* workers = nullptr;
  STATUS(nocter_keyed_serve(queue, Turns::run, &turns, nullptr, &workers), NOCTER_OK);
  // And from outside: notifications that coalesce move nobody forward.
  auto random = random_stream(9);
  const uint64_t enough = rounds(100'000, 10'000);
  HOLDS(eventually([&] {
    for (int i = 0; i < 100; i++) {
      const nocter_status status = notify(queue, std::to_string(below(random, 3)));
      HOLDS(status == NOCTER_COALESCED || status == NOCTER_OK);
    }
    return turns.all.load() >= enough;
  }));
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  nocter_workers_destroy(workers);
  BOOST_CHECK_LE(turns.widest.load(), 1u);
  BOOST_TEST_MESSAGE(turns.all.load() << " passes; the passes of two keys differ by " << turns.widest.load());
}

// With several passes at a time, ended in any order: while a key waits, no other starts more than once.
BOOST_AUTO_TEST_CASE(key_09_while_a_key_waits_no_other_starts_twice, *label("KEY-09") * label("KEY-03")) {
  auto random = random_stream(91);
  for (uint64_t round = 0; round < rounds(200, 20); round++) {
    const auto keys = static_cast<uint32_t>(2 + below(random, 12));
    const auto workers = static_cast<uint32_t>(1 + below(random, keys));
    const Queue queue(QueueShape{.maximum_keys = keys, .workers = workers});
    struct Key {
      bool waits = true;
      std::vector<uint64_t> others;  // how often each other one started since
    };
    std::vector<Key> all(keys);
    for (Key& key : all) key.others.assign(keys, 0);
    for (uint32_t i = 0; i < keys; i++) STATUS(notify(queue, std::to_string(i)), NOCTER_OK);
    std::vector<std::pair<uint32_t, nocter_pass*>> active;
    for (int step = 0; step < 2'000; step++) {
      if (active.size() < workers && (active.empty() || below(random, 2) == 0)) {
        const ClaimedPass claimed = try_claim(queue);
        if (claimed.status == NOCTER_EMPTY) continue;
        if (!STATUS(claimed.status, NOCTER_OK)) break;
        const auto key = static_cast<uint32_t>(std::stoul(key_of(claimed.pass)));
        all[key].waits = false;
        for (Key& other : all) {
          if (other.waits && !HOLDS(++other.others[key] <= 1)) step = INT32_MAX - 1;
        }
        active.emplace_back(key, claimed.pass);
        STATUS(notify(queue, std::to_string(key)), NOCTER_OK);
        continue;
      }
      const size_t which = below(random, active.size());
      const auto [key, pass] = active[which];
      active.erase(active.begin() + static_cast<ptrdiff_t>(which));
      STATUS(below(random, 3) == 0 ? nocter_pass_retry_after(pass, kMuchLater) : nocter_pass_complete(pass), NOCTER_OK);
      all[key].waits = true;
      all[key].others.assign(keys, 0);
    }
    for (const auto& [key, pass] : active) nocter_pass_drop(pass);
  }
}

BOOST_AUTO_TEST_SUITE_END()
