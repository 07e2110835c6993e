// Eight threads, random calls, slow notifiers, cleanups that throw and services that come and go. At the end every identity of the counts
// holds and every resource was ended once. NOCTER_STRESS_SECONDS says how long (5), NOCTER_SEED repeats the choices.
#include <nocter.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "support/fixture.hpp"
#include "support/retirement.hpp"

using namespace nocter_tests;
using namespace nocter_tests::retiring;

namespace {

constexpr size_t kThreads = 8, kServices = 3, kKept = 100;

int64_t stress_seconds() {
  const char* given = std::getenv("NOCTER_STRESS_SECONDS");
  return given != nullptr ? std::strtoll(given, nullptr, 10) : 5;
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
  bool pick(std::mt19937_64& random, T& thing) {
    const std::scoped_lock lock(mutex_);
    if (things_.empty()) return false;
    const size_t index = below(random, things_.size());
    thing = things_[index];
    things_[index] = std::move(things_.back());
    things_.pop_back();
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

// What a destructor does besides ending: throw, take its time, or give up another resource of any service.
struct Content {
  nocter_owned payload;
  uint64_t kind;
  nocter_resource* inner;
  static void drop(void* data) {
    const std::unique_ptr<Content> content(static_cast<Content*>(data));
    discard(content->payload);
    nocter_resource_drop(content->inner);
    if (content->kind % 16 == 0) throw 1;
    if (content->kind % 16 == 1) pause_ms(1);
  }
};

// A service with what belongs to it. The last thread that uses it gives the handle up; guards outlive that.
class Holder {
 public:
  explicit Holder(std::mt19937_64& random) : stopped_first_(random() % 2 == 0) {
    const auto places = static_cast<uint32_t>(1 + below(random, 24));
    nocter_retirement_options options =
        options_of({.maximum_resources = places, .workers = static_cast<uint32_t>(1 + below(random, places))});
    options.waiters = {wake, nullptr, nullptr};
    if (random() % 2 == 0) options.wait_spins = options.wait_yields = NOCTER_WAIT_NONE;
    STATUS(nocter_retirement_create(&options, &service_), NOCTER_OK);
    for (uint64_t sets = below(random, 3); sets > 0; sets--) {
      nocter_workers_options how = NOCTER_WORKERS_OPTIONS_INIT;
      how.threads = static_cast<uint32_t>(below(random, 3));
      nocter_workers* made = nullptr;
      STATUS(nocter_retirement_serve(service_, &how, &made), NOCTER_OK);
      workers_.push_back(made);
    }
  }
  // In either order: the threads end before the service does, or clean on after it.
  ~Holder() {
    counts_of(service_);
    if (!stopped_first_) nocter_retirement_destroy(service_);
    for (nocter_workers* one : workers_) nocter_workers_destroy(one);
    if (stopped_first_) nocter_retirement_destroy(service_);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  nocter_retirement* service() const { return service_; }
  Bag<nocter_retirement_id> asked;

 private:
  static void wake(void*) {
    static std::atomic<uint64_t> turns{0};
    if (turns++ % 64 == 0) pause_ms(1);
  }

  const bool stopped_first_;
  nocter_retirement* service_ = nullptr;
  std::vector<nocter_workers*> workers_;
};

class World {
 public:
  World() {
    auto random = random_stream(98);
    for (std::shared_ptr<Holder>& slot : services_) slot = std::make_shared<Holder>(random);
  }

  void run(uint64_t thread, int64_t until_ns) {
    auto random = random_stream(2'000 + thread);
    while (nocter_now_ns() < until_ns) {
      for (int i = 0; i < 50; i++) one_call(random);
    }
  }

  void end() {
    for (nocter_cleanup* one : cleanups_.empty()) nocter_cleanup_drop(one);
    for (nocter_permit* one : permits_.empty()) nocter_permit_drop(one);
    // Half of the owners outlive their service.
    std::vector<nocter_resource*> rest = owners_.empty();
    for (size_t i = 0; i < rest.size() / 2; i++) nocter_resource_drop(rest[i]);
    for (std::shared_ptr<Holder>& slot : services_) slot.reset();
    for (size_t i = rest.size() / 2; i < rest.size(); i++) nocter_resource_drop(rest[i]);
  }
  uint64_t calls() const { return calls_.load(); }
  uint64_t replaced() const { return replaced_.load(); }

 private:
  std::shared_ptr<Holder> any(std::mt19937_64& random) {
    const std::scoped_lock lock(mutex_);
    return services_.at(below(random, kServices));
  }

  static const nocter_wait* any_wait(std::mt19937_64& random, nocter_wait& wait) {
    if (below(random, 2) == 0) return nullptr;
    wait = wait_ms(0);
    wait.deadline_ns += static_cast<int64_t>(below(random, 500'000));
    return &wait;
  }

  static bool ended_early(nocter_status status) {
    return status == NOCTER_PENDING || status == NOCTER_TIMEOUT || status == NOCTER_CLOSED;
  }

  void one_call(std::mt19937_64& random) {
    calls_.fetch_add(1);
    const std::shared_ptr<Holder> holder = any(random);
    nocter_retirement* const service = holder->service();
    nocter_wait wait = {};
    const uint64_t which = below(random, 100);
    if (which < 18) {
      const Reserved got = try_reserve(service);
      if (got.status == NOCTER_OK && !permits_.put(got.permit)) nocter_permit_drop(got.permit);
      HOLDS(got.status == NOCTER_OK || got.status == NOCTER_SATURATED || got.status == NOCTER_CLOSED);
    } else if (which < 34) {
      attach_one(random);
    } else if (which < 52) {
      give_up(random, *holder);
    } else if (which < 66) {
      const auto claimed = try_claim(service, any_wait(random, wait));
      if (claimed.status == NOCTER_OK) {
        if (!cleanups_.put(claimed.cleanup)) nocter_cleanup_drop(claimed.cleanup);
      } else {
        HOLDS(claimed.status == NOCTER_EMPTY || ended_early(claimed.status));
      }
    } else if (which < 78) {
      end_cleanup(random);
    } else if (which < 88) {
      ask(random, *holder);
    } else if (which < 92) {
      counts_of(service);
      const nocter_status drained = nocter_retirement_drained(service, any_wait(random, wait));
      HOLDS(drained == NOCTER_OK || ended_early(drained));
    } else if (which < 97) {
      const nocter_epoch seen = epoch_of(service);
      nocter_epoch now = {};
      const nocter_status status = nocter_retirement_wait_epoch(service, seen, any_wait(random, wait), &now);
      HOLDS(status == NOCTER_OK ? now.sequence > seen.sequence : ended_early(status));
    } else if (which == 97) {
      if (below(random, 8) == 0) nocter_retirement_detach_all(service);
    } else if (below(random, 60) == 0) {
      replace(random, holder);
    }
  }

  void attach_one(std::mt19937_64& random) {
    nocter_permit* permit = nullptr;
    if (!permits_.pick(random, permit)) return;
    if (below(random, 8) == 0) return nocter_permit_drop(permit);
    nocter_resource* inner = nullptr;
    if (below(random, 4) == 0) owners_.pick(random, inner);
    const uint64_t value = values_.fetch_add(1);
    nocter_owned owned = {new Content{payload(value), value, inner}, Content::drop};
    nocter_resource* const resource = nocter_permit_attach(permit, &owned);
    HOLDS(resource != nullptr && is_none(owned));
    if (!owners_.put(resource)) nocter_resource_drop(resource);
  }

  // The identity goes to a service that may be another one: then it is foreign there.
  void give_up(std::mt19937_64& random, Holder& holder) {
    nocter_resource* resource = nullptr;
    if (!owners_.pick(random, resource)) return;
    if (random() % 2 == 0) return nocter_resource_drop(resource);
    nocter_retirement_id id = {};
    const nocter_status status = nocter_resource_retire(resource, &id);
    HOLDS(status == NOCTER_OK || status == NOCTER_CLOSED);
    if (status == NOCTER_OK) holder.asked.put(id);
  }

  void ask(std::mt19937_64& random, Holder& holder) {
    nocter_retirement_id id = {};
    if (!holder.asked.pick(random, id)) return;
    nocter_wait wait = {};
    const bool takes = random() % 2 == 0;
    const nocter_status status = takes ? take(holder.service(), id, any_wait(random, wait)).status
                                       : nocter_retirement_detach(holder.service(), id);
    HOLDS(status == NOCTER_OK || status == NOCTER_E_FOREIGN || status == NOCTER_E_UNKNOWN ||
          (takes && (ended_early(status) || status == NOCTER_WORKER_LOST)));
  }

  void end_cleanup(std::mt19937_64& random) {
    nocter_cleanup* cleanup = nullptr;
    if (!cleanups_.pick(random, cleanup)) return;
    if (below(random, 4) == 0) return nocter_cleanup_drop(cleanup);
    nocter_owned value = {};
    STATUS(nocter_cleanup_begin(cleanup, &value), NOCTER_OK);
    try {
      value.drop(value.data);
    } catch (int) {
      return nocter_cleanup_drop(cleanup);
    }
    complete(cleanup, static_cast<int32_t>(below(random, 3)));
  }

  void replace(std::mt19937_64& random, const std::shared_ptr<Holder>& old) {
    if (random() % 2 == 0) nocter_retirement_close(old->service());
    auto fresh = std::make_shared<Holder>(random);
    const std::scoped_lock lock(mutex_);
    for (std::shared_ptr<Holder>& slot : services_) {
      if (slot != old) continue;
      slot = fresh;
      replaced_.fetch_add(1);
    }
  }

  std::mutex mutex_;
  std::array<std::shared_ptr<Holder>, kServices> services_;
  Bag<nocter_permit*> permits_;
  Bag<nocter_resource*> owners_;
  Bag<nocter_cleanup*> cleanups_;
  std::atomic<uint64_t> values_{1}, calls_{0}, replaced_{0};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retirement_stress_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_01_gen_12_random_calls_from_eight_threads,
                     *label("GEN-01") * label("GEN-12") * label("RET-03") * label("RET-04") * label("R-7")) {
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
