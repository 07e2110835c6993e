// BLK-01 to BLK-12 with real threads: every history of the blocking service has an order in which the model gives the
// same answers, and every value is ended exactly once (GEN-01).
#include <atomic>
#include <memory>

#include "lin/blocking_model.hpp"
#include "lin/checker.hpp"
#include "lin/crew.hpp"

namespace lin {

namespace {

constexpr uint32_t kMaximumJobs = 4, kWorkers = 2;

using Done = std::vector<Operation<Event>>;

// Values are numbers with a count of their ends.
struct Value {
  std::atomic<int> ends{0};
  int32_t number = 0;
};
struct Ledger {
  // Inputs of all threads and the outputs made of them.
  static constexpr size_t kRoom = kThreads * (kOperations + 1) * 2;
  std::vector<Value> values{kRoom};
  std::atomic<size_t> used{0};

  nocter_owned make(int32_t number) {
    const size_t place = used.fetch_add(1);
    require(place < kRoom, "more values than there is room for");
    values[place].number = number;
    return {&values[place], [](void* data) {
              static_cast<Value*>(data)->ends.fetch_add(1);
              sched_yield();  // others get in while a drop function runs
            }};
  }
  static int32_t end(const nocter_owned& owned) {
    if (owned.data == nullptr) return 0;
    Value& value = *static_cast<Value*>(owned.data);
    value.ends.fetch_add(1);
    return value.number;
  }
  void check() const {
    for (size_t i = 0; i < used.load(); i++)
      require(values[i].ends.load() == 1, "GEN-01: a value was not ended exactly once");
  }
};

struct Shared {
  nocter_blocking* service = nullptr;
  Ledger ledger;
  std::atomic<bool> notifier_dropped{false};
  // Identities that were issued lately, for whoever wants to take or cancel.
  static constexpr size_t kKnown = 4;
  std::atomic<uint64_t> service_part[kKnown] = {}, sequence_part[kKnown] = {};
  std::atomic<uint64_t> lock{0};

  void tell(nocter_job_id id, uint32_t place) {
    while (lock.exchange(1) != 0) sched_yield();
    service_part[place].store(id.service);
    sequence_part[place].store(id.sequence);
    lock.store(0);
  }
  nocter_job_id ask(uint32_t place) {
    while (lock.exchange(1) != 0) sched_yield();
    const nocter_job_id id = {service_part[place].load(), sequence_part[place].load()};
    lock.store(0);
    return id;
  }
};

struct Guard {
  nocter_completion* completion;
  uint64_t job;
  int32_t input;
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
      if (roll < 26) {
        submit();
      } else if (roll < 48) {
        guards_.size() < 2 && dice_.below(3) != 0 ? claim() : end_one();
      } else if (roll < 66) {
        take();
      } else if (roll < 74) {
        cancel();
      } else if (roll < 78) {
        query();
      } else if (roll < 82) {
        epoch();
      } else if (roll < 87) {
        wait_epoch();
      } else if (roll < 91) {
        name();
      } else if (roll < 97) {
        count();
      } else if (roll < 98) {
        drained();
      } else if (may_close_) {
        shutdown();
      }
    }
    while (!guards_.empty()) end_one();
  }

  void shutdown() {
    Event e{Did::shutdown};
    const int64_t start = stamp();
    const auto sink = [](void* user, nocter_job_state, nocter_owned* value) {
      static_cast<Event*>(user)->handed.push_back(Ledger::end(*value));
      *value = {nullptr, nullptr};
    };
    e.status = nocter_blocking_shutdown(shared_.service, sink, &e);
    require(e.status == NOCTER_OK, "shutdown");
    add(start, std::move(e));
  }

  void drained() {
    Event e{Did::drained};
    const int64_t start = stamp();
    e.status = nocter_blocking_drained(shared_.service, nullptr);
    add(start, std::move(e));
  }

 private:
  void add(int64_t start, Event&& e) { done_.push_back({start, stamp(), std::move(e)}); }

  // A short one; null now and then.
  const nocter_wait* some_wait() {
    if (dice_.below(2) == 0) return nullptr;
    wait_ = {nocter_now_ns() + 1000 * dice_.below(60), nullptr, 0, 0};
    return &wait_;
  }

  void submit() {
    Event e{Did::submit};
    e.value = next_++;
    nocter_owned input = shared_.ledger.make(e.value);
    nocter_job_id id;
    nocter_epoch epoch;
    const int64_t start = stamp();
    e.status = nocter_blocking_submit(shared_.service, &input, &id, &epoch);
    e.job = id.sequence;
    e.epoch = epoch.sequence;
    const bool accepted = e.status == NOCTER_OK;
    add(start, std::move(e));
    if (accepted) {
      shared_.tell(id, dice_.below(Shared::kKnown));
    } else {
      Ledger::end(input);
    }
  }

  void claim() {
    Event e{Did::claim};
    const nocter_wait* wait = some_wait();
    e.waited = wait != nullptr;
    nocter_running_job* job;
    const int64_t start = stamp();
    e.status = nocter_blocking_claim(shared_.service, wait, &job);
    const int64_t end = stamp();
    if (e.status == NOCTER_OK) {
      Guard guard = {nullptr, nocter_running_job_id(job).sequence, 0};
      nocter_owned input;
      require(nocter_running_job_begin(job, &input, &guard.completion) == NOCTER_OK, "begin");
      guard.input = Ledger::end(input);
      e.job = guard.job;
      e.value = guard.input;
      guards_.push_back(guard);
    }
    done_.push_back({start, end, std::move(e)});
  }

  void end_one() {
    if (guards_.empty()) return claim();
    const size_t which = dice_.below(static_cast<uint32_t>(guards_.size()));
    const Guard guard = guards_[which];
    guards_.erase(guards_.begin() + static_cast<std::ptrdiff_t>(which));
    Event e{dice_.below(4) == 0 ? Did::lose : Did::complete};
    e.job = guard.job;
    if (e.did == Did::lose) {
      const int64_t start = stamp();
      nocter_completion_drop(guard.completion);
      return add(start, std::move(e));
    }
    nocter_owned output = shared_.ledger.make(guard.input + kOutput);
    const int64_t start = stamp();
    require(nocter_completion_complete(guard.completion, &output) == NOCTER_OK, "complete");
    add(start, std::move(e));
  }

  void take() {
    const nocter_job_id id = shared_.ask(dice_.below(Shared::kKnown));
    if (id.sequence == 0) return submit();
    Event e{Did::take};
    e.job = id.sequence;
    const nocter_wait* wait = some_wait();
    e.waited = wait != nullptr;
    nocter_owned output;
    const int64_t start = stamp();
    e.status = nocter_blocking_take(shared_.service, id, wait, &output);
    const int64_t end = stamp();
    e.value = Ledger::end(output);
    done_.push_back({start, end, std::move(e)});
  }

  void cancel() {
    const nocter_job_id id = shared_.ask(dice_.below(Shared::kKnown));
    if (id.sequence == 0) return submit();
    Event e{Did::cancel};
    e.job = id.sequence;
    nocter_owned value;
    const int64_t start = stamp();
    e.status = nocter_blocking_cancel(shared_.service, id, &e.state, &value);
    const int64_t end = stamp();
    e.value = Ledger::end(value);
    done_.push_back({start, end, std::move(e)});
  }

  void query() {
    const nocter_job_id id = shared_.ask(dice_.below(Shared::kKnown));
    if (id.sequence == 0) return submit();
    Event e{Did::query};
    e.job = id.sequence;
    const int64_t start = stamp();
    e.status = nocter_blocking_query(shared_.service, id, &e.state);
    add(start, std::move(e));
  }

  void epoch() {
    Event e{Did::epoch};
    const int64_t start = stamp();
    e.status = nocter_blocking_epoch(shared_.service, &seen_);
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
    e.status = nocter_blocking_wait_epoch(shared_.service, seen_, wait, &seen_);
    e.epoch = seen_.sequence;
    add(start, std::move(e));
  }

  void name() {
    Event e{Did::name};
    e.room = 1 + dice_.below(3);
    nocter_job_id ids[3];
    size_t count;
    const int64_t start = stamp();
    e.status = nocter_blocking_completed(shared_.service, ids, e.room, &count);
    require(e.status == NOCTER_OK, "completed");
    for (size_t i = 0; i < count; i++) e.names.push_back(ids[i].sequence);
    add(start, std::move(e));
  }

  void count() {
    Event e{Did::count};
    nocter_blocking_counts c = NOCTER_BLOCKING_COUNTS_INIT;
    const int64_t start = stamp();
    e.status = nocter_blocking_count(shared_.service, &c);
    const int64_t end = stamp();
    require(e.status == NOCTER_OK, "count");
    e.queued = c.queued;
    e.running = c.running;
    e.completed = c.completed;
    e.abandoned = c.abandoned;
    e.accepting = c.accepting == 1;
    e.epoch = c.epoch;
    e.accepted = c.accepted;
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
  std::vector<Guard> guards_;
};

History<Event> record(Crew& crew, uint64_t seed) {
  auto shared = std::make_unique<Shared>();
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = kMaximumJobs;
  options.workers = kWorkers;
  options.waiters = {[](void*) { sched_yield(); },
                     [](void* user) { static_cast<Shared*>(user)->notifier_dropped.store(true); }, shared.get()};
  require(nocter_blocking_create(&options, &shared->service) == NOCTER_OK, "blocking_create");
  History<Event> history(kThreads);
  crew.run([&](size_t thread) { Actor(*shared, seed, thread, seed % 3 == 0, history[thread]).act(); });
  // When all have come back: nothing runs any more, so a shutdown empties the service.
  Actor last(*shared, seed, kThreads, true, history[0]);
  last.shutdown();
  last.drained();
  require(history[0].back().event.status == NOCTER_OK, "drained after a shutdown with nothing running");
  nocter_blocking_destroy(shared->service);
  require(shared->notifier_dropped.load(), "the service outlives its handle and all its guards");
  shared->ledger.check();
  return history;
}

void print(const History<Event>& history, const Verdict& verdict) {
  for (size_t t = 0; t < history.size(); t++) {
    for (size_t i = 0; i < history[t].size(); i++) {
      const auto& operation = history[t][i];
      const Event& e = operation.event;
      std::printf(
          "  %c thread %zu, %ld to %ld: %s, %s%s, job %lu, value %d, state %d, epoch %lu later than %lu; "
          "%u queued %u running %u completed %u abandoned, accepted %lu, taken %lu; names",
          i < verdict.furthest[t] ? ' ' : '*', t, operation.start, operation.end, name_of(e.did),
          nocter_status_name(e.status), e.waited ? " after a wait" : "", e.job, e.value, e.state, e.epoch, e.later_than,
          e.queued, e.running, e.completed, e.abandoned, e.accepted, e.taken);
      for (const uint64_t name : e.names) std::printf(" %lu", name);
      for (const int32_t value : e.handed) std::printf(" (%d)", value);
      std::printf("\n");
    }
  }
}

// Answers of two operations exchanged: such a history must not pass, unless the two were the same.
bool tampered_is_refused(History<Event> history) {
  for (Done& done : history) {
    for (auto& operation : done) {
      if (operation.event.did == Did::take && operation.event.status == NOCTER_OK) {
        operation.event.value++;
        return !check(State(kMaximumJobs, kWorkers), history).legal;
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
    const Verdict verdict = check(State(kMaximumJobs, kWorkers), history);
    if (!verdict.legal) {
      std::printf("FAILED: history of seed %lu has no legal order%s; * marks what could not be placed\n",
                  settings.seed + i, verdict.undecided ? " that could be found" : "");
      print(history, verdict);
      return 1;
    }
    pairs += overlaps(history);
    steps += verdict.steps;
    if (i % 10 != 0) continue;
    require(tampered_is_refused(history), "THE NET HAS A HOLE: a history with a wrong output was accepted");
    for (size_t k = 0; k < std::size(kBroken); k++) {
      refused[k] += !check(State(kMaximumJobs, kWorkers, kBroken[k]), history).legal;
    }
  }
  for (const uint64_t count : refused) {
    require(count != 0 || settings.histories < 100,
            "THE NET HAS A HOLE: a model with a broken rule fits every history");
  }
  require(pairs / settings.histories >= 3, "the operations hardly overlap: these histories prove nothing");
  std::printf(
      "ok: BLK-01 BLK-02 BLK-04 BLK-05 BLK-08 BLK-09 BLK-10 BLK-11 BLK-12 GEN-01 GEN-12, %lu histories have a legal "
      "order; %lu overlapping pairs each, %lu steps each\n",
      settings.histories, pairs / settings.histories, steps / settings.histories);
  return 0;
}
