// RET-02 to RET-08 with real threads: every history of the retirement service has an order in which the model gives the same answers, and
// every resource is ended exactly once (GEN-01).
#include <atomic>
#include <memory>

#include "lin/checker.hpp"
#include "lin/crew.hpp"
#include "lin/retirement_model.hpp"

namespace lin {

namespace {

constexpr uint32_t kMaximum = 4, kWorkers = 2;

using Done = std::vector<Operation<Event>>;

// Resources are numbers with a count of their ends.
struct Resource {
  std::atomic<int> ends{0};
  int32_t number = 0;
};

struct Shared {
  nocter_retirement* service = nullptr;
  static constexpr size_t kRoom = (kThreads + 1) * (kOperations + 1);
  std::vector<Resource> resources{kRoom};
  std::atomic<size_t> used{0};
  std::atomic<bool> notifier_dropped{false};

  // Identities that were issued lately, for whoever wants to take or detach.
  static constexpr uint32_t kKnown = 3;
  struct Known {
    nocter_retirement_id id = {0, 0};
    int32_t number = 0;
  };
  Known known[kKnown];
  std::atomic<uint64_t> lock{0};

  void tell(const Known& one, uint32_t place) {
    while (lock.exchange(1) != 0) sched_yield();
    known[place] = one;
    lock.store(0);
  }
  Known ask(uint32_t place) {
    while (lock.exchange(1) != 0) sched_yield();
    const Known one = known[place];
    lock.store(0);
    return one;
  }

  nocter_owned make(int32_t number) {
    const size_t place = used.fetch_add(1);
    require(place < kRoom, "more resources than there is room for");
    resources[place].number = number;
    return {&resources[place], [](void* data) {
              static_cast<Resource*>(data)->ends.fetch_add(1);
              sched_yield();  // others get in while a destructor runs
            }};
  }
  void check() const {
    for (size_t i = 0; i < used.load(); i++) {
      require(resources[i].ends.load() == 1, "GEN-01: a resource was not ended exactly once");
    }
  }
};

class Actor {
 public:
  Actor(Shared& shared, uint64_t seed, size_t thread, bool may_close, Done& done)
      : shared_(shared),
        dice_(seed * kThreads + thread),
        next_(static_cast<int32_t>(thread) * 1000 + 1),
        may_close_(may_close),
        done_(done) {}

  void act() {
    for (int i = 0; i < kOperations; i++) {
      dice_.dawdle();
      const uint32_t roll = dice_.below(100);
      if (roll < 40) {
        permits_.empty() || (permits_.size() < 2 && dice_.below(3) == 0) ? reserve() : give_up();
      } else if (roll < 62) {
        cleanups_.size() < 2 && dice_.below(3) != 0 ? static_cast<void>(claim()) : end_one();
      } else if (roll < 74) {
        take();
      } else if (roll < 79) {
        detach();
      } else if (roll < 81) {
        simple(Did::detach_all);
      } else if (roll < 85) {
        query();
      } else if (roll < 87) {
        epoch();
      } else if (roll < 91) {
        wait_epoch();
      } else if (roll < 96) {
        count();
      } else if (roll < 98) {
        simple(Did::drained);
      } else if (may_close_) {
        simple(Did::close);
      }
    }
    while (!permits_.empty()) give_up();
    while (!cleanups_.empty()) end_one();
  }

  // A call without arguments.
  nocter_status simple(Did did) {
    Event e{did};
    const int64_t start = stamp();
    if (did == Did::detach_all) nocter_retirement_detach_all(shared_.service);
    if (did == Did::close) nocter_retirement_close(shared_.service);
    if (did == Did::drained) e.status = nocter_retirement_drained(shared_.service, nullptr);
    const nocter_status status = e.status;
    add(start, std::move(e));
    return status;
  }
  nocter_status claim() {
    Event e{Did::claim};
    const nocter_wait* wait = some_wait();
    e.waited = wait != nullptr;
    nocter_cleanup* cleanup;
    const int64_t start = stamp();
    e.status = nocter_retirement_claim(shared_.service, wait, &cleanup);
    const int64_t end = stamp();
    const nocter_status status = e.status;
    if (status == NOCTER_OK) {
      nocter_owned value;
      require(nocter_cleanup_begin(cleanup, &value) == NOCTER_OK, "begin");
      e.number = static_cast<Resource*>(value.data)->number;
      value.drop(value.data);
      cleanups_.push_back({cleanup, e.number});
    }
    done_.push_back({start, end, std::move(e)});
    return status;
  }
  void end_all() {
    while (!cleanups_.empty()) end_one();
  }

 private:
  struct Cleaning {
    nocter_cleanup* cleanup;
    int32_t number;
  };

  void add(int64_t start, Event&& e) { done_.push_back({start, stamp(), std::move(e)}); }

  // A short one; null now and then.
  const nocter_wait* some_wait() {
    if (dice_.below(2) == 0) return nullptr;
    wait_ = {nocter_now_ns() + 1000 * dice_.below(60), nullptr, 0, 0};
    return &wait_;
  }

  void reserve() {
    Event e{Did::reserve};
    nocter_permit* permit;
    nocter_epoch epoch;
    const int64_t start = stamp();
    e.status = nocter_retirement_reserve(shared_.service, &permit, &epoch);
    e.epoch = epoch.sequence;
    add(start, std::move(e));
    if (permit != nullptr) permits_.push_back(permit);
  }

  void give_up() {
    nocter_permit* const permit = permits_.back();
    permits_.pop_back();
    const uint32_t how = dice_.below(8);
    if (how == 0) {
      Event e{Did::drop_permit};
      const int64_t start = stamp();
      nocter_permit_drop(permit);
      return add(start, std::move(e));
    }
    Event e{how < 4 ? Did::drop : Did::retire};
    e.number = next_++;
    nocter_owned value = shared_.make(e.number);
    nocter_resource* const resource = nocter_permit_attach(permit, &value);
    require(resource != nullptr, "RET-02: attach failed");
    const int32_t number = e.number;
    nocter_retirement_id id = {0, 0};
    const int64_t start = stamp();
    if (e.did == Did::drop) {
      nocter_resource_drop(resource);
    } else {
      e.status = nocter_resource_retire(resource, &id);
    }
    add(start, std::move(e));
    if (id.sequence != 0) shared_.tell({id, number}, dice_.below(Shared::kKnown));
  }

  void end_one() {
    if (cleanups_.empty()) return static_cast<void>(claim());
    const size_t which = dice_.below(static_cast<uint32_t>(cleanups_.size()));
    const Cleaning one = cleanups_[which];
    cleanups_.erase(cleanups_.begin() + static_cast<std::ptrdiff_t>(which));
    Event e{dice_.below(4) == 0 ? Did::lose : Did::complete};
    e.number = one.number;
    e.code = static_cast<int32_t>(dice_.below(3));
    const int64_t start = stamp();
    if (e.did == Did::lose) {
      nocter_cleanup_drop(one.cleanup);
    } else {
      require(nocter_cleanup_complete(one.cleanup, e.code) == NOCTER_OK, "complete");
    }
    add(start, std::move(e));
  }

  void take() {
    const Shared::Known one = shared_.ask(dice_.below(Shared::kKnown));
    if (one.number == 0) return reserve();
    Event e{Did::take};
    e.number = one.number;
    const nocter_wait* wait = some_wait();
    e.waited = wait != nullptr;
    const int64_t start = stamp();
    e.status = nocter_retirement_take(shared_.service, one.id, wait, &e.code);
    add(start, std::move(e));
  }

  void detach() {
    const Shared::Known one = shared_.ask(dice_.below(Shared::kKnown));
    if (one.number == 0) return reserve();
    Event e{Did::detach};
    e.number = one.number;
    const int64_t start = stamp();
    e.status = nocter_retirement_detach(shared_.service, one.id);
    add(start, std::move(e));
  }

  void query() {
    const Shared::Known one = shared_.ask(dice_.below(Shared::kKnown));
    if (one.number == 0) return reserve();
    Event e{Did::query};
    e.number = one.number;
    const int64_t start = stamp();
    e.status = nocter_retirement_query(shared_.service, one.id, &e.state);
    add(start, std::move(e));
  }

  void epoch() {
    Event e{Did::epoch};
    const int64_t start = stamp();
    e.status = nocter_retirement_epoch(shared_.service, &seen_);
    e.epoch = seen_.sequence;
    add(start, std::move(e));
  }

  void wait_epoch() {
    if (seen_.sequence == 0) return epoch();
    Event e{Did::wait_epoch};
    e.later_than = seen_.sequence;
    const nocter_wait* wait = some_wait();
    e.waited = wait != nullptr;
    const int64_t start = stamp();
    e.status = nocter_retirement_wait_epoch(shared_.service, seen_, wait, &seen_);
    e.epoch = seen_.sequence;
    add(start, std::move(e));
  }

  void count() {
    Event e{Did::count};
    nocter_retirement_counts c = NOCTER_RETIREMENT_COUNTS_INIT;
    const int64_t start = stamp();
    e.status = nocter_retirement_count(shared_.service, &c);
    const int64_t end = stamp();
    require(e.status == NOCTER_OK, "count");
    e.permits_and_live = c.permits + c.live;
    e.queued = c.queued;
    e.running = c.running;
    e.completed = c.completed;
    e.accepting = c.accepting == 1;
    e.epoch = c.epoch;
    e.reservations = c.reservations;
    e.taken = c.taken;
    done_.push_back({start, end, std::move(e)});
  }

  Shared& shared_;
  Dice dice_;
  int32_t next_;
  const bool may_close_;
  Done& done_;
  nocter_wait wait_ = {};
  nocter_epoch seen_ = {0, 0};
  std::vector<nocter_permit*> permits_;
  std::vector<Cleaning> cleanups_;
};

History<Event> record(Crew& crew, uint64_t seed) {
  auto shared = std::make_unique<Shared>();
  nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
  options.maximum_resources = kMaximum;
  options.workers = kWorkers;
  options.waiters = {[](void*) { sched_yield(); },
                     [](void* user) { static_cast<Shared*>(user)->notifier_dropped.store(true); }, shared.get()};
  require(nocter_retirement_create(&options, &shared->service) == NOCTER_OK, "retirement_create");
  History<Event> history(kThreads);
  crew.run([&](size_t thread) { Actor(*shared, seed, thread, seed % 3 == 0, history[thread]).act(); });
  // When all have come back: nobody holds anything, so after what is queued the service is empty.
  Actor last(*shared, seed, kThreads, true, history[0]);
  last.simple(Did::close);
  last.simple(Did::detach_all);
  for (nocter_status status = NOCTER_OK; status != NOCTER_CLOSED; last.end_all()) status = last.claim();
  require(last.simple(Did::drained) == NOCTER_OK, "drained when nothing is left");
  nocter_retirement_destroy(shared->service);
  require(shared->notifier_dropped.load(), "the service outlives its handle and all its guards");
  shared->check();
  return history;
}

void print(const History<Event>& history, const Verdict& verdict) {
  for (size_t t = 0; t < history.size(); t++) {
    for (size_t i = 0; i < history[t].size(); i++) {
      const auto& operation = history[t][i];
      const Event& e = operation.event;
      std::printf(
          "  %c thread %zu, %ld to %ld: %s, %s%s, resource %d, code %d, state %d, epoch %lu later than %lu; %u held %u "
          "queued %u running %u completed, reservations %lu, taken %lu\n",
          i < verdict.furthest[t] ? ' ' : '*', t, operation.start, operation.end, name_of(e.did),
          nocter_status_name(e.status), e.waited ? " after a wait" : "", e.number, e.code, e.state, e.epoch,
          e.later_than, e.permits_and_live, e.queued, e.running, e.completed, e.reservations, e.taken);
    }
  }
}

// Another code than the one that was heard: such a history must not pass.
bool tampered_is_refused(History<Event> history) {
  for (Done& done : history) {
    for (auto& operation : done) {
      if (operation.event.did == Did::take && operation.event.status == NOCTER_OK) {
        operation.event.code += 5;
        return !check(State(kMaximum, kWorkers), history).legal;
      }
    }
  }
  return true;
}

}  // namespace

}  // namespace lin

int main(int argc, char** argv) {
  using namespace lin;
  const Settings settings = read_settings(argc, argv);
  uint64_t refused[std::size(kBroken)] = {};
  uint64_t pairs = 0, steps = 0;
  Crew crew;
  for (uint64_t i = 0; i < settings.histories; i++) {
    const History<Event> history = record(crew, settings.seed + i);
    const Verdict verdict = check(State(kMaximum, kWorkers), history);
    if (!verdict.legal) {
      std::printf("FAILED: history of seed %lu has no legal order%s; * marks what could not be placed\n",
                  settings.seed + i, verdict.undecided ? " that could be found" : "");
      print(history, verdict);
      return 1;
    }
    pairs += overlaps(history);
    steps += verdict.steps;
    if (i % 10 != 0) continue;
    require(tampered_is_refused(history), "THE NET HAS A HOLE: a history with a wrong code was accepted");
    for (size_t k = 0; k < std::size(kBroken); k++) {
      refused[k] += !check(State(kMaximum, kWorkers, kBroken[k]), history).legal;
    }
  }
  for (const uint64_t count : refused) {
    require(count != 0 || settings.histories < 100,
            "THE NET HAS A HOLE: a model with a broken rule fits every history");
  }
  require(pairs / settings.histories >= 3, "the operations hardly overlap: these histories prove nothing");
  std::printf(
      "ok: RET-02 RET-03 RET-04 RET-05 RET-06 RET-07 RET-08 GEN-01 GEN-12, %lu histories have a legal order; %lu "
      "overlapping pairs each, %lu steps each\n",
      settings.histories, pairs / settings.histories, steps / settings.histories);
  return 0;
}
