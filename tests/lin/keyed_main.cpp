// KEY-02 to KEY-08 with real threads: every history of the keyed queue has an order in which the model gives the same answers.
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "lin/checker.hpp"
#include "lin/crew.hpp"
#include "lin/keyed_events.hpp"

namespace lin {

namespace {

// More keys than there is room for, so that some are refused.
constexpr uint32_t kMaximumKeys = 4, kWorkers = 2;
constexpr uint32_t kNames = 5;
constexpr int64_t kNotInThisRun = int64_t{3600} * 1'000'000'000;

using Done = std::vector<Operation<Event>>;

struct Shared {
  nocter_keyed* queue = nullptr;
  std::atomic<int> notifiers_dropped{0};
};

const char kText[kNames][24] = {"a", "b", "a key of more bytes", "", "namespace-1/object-2"};
nocter_text text_of(uint32_t key) { return nocter_text_of(kText[key]); }
uint32_t key_of(nocter_text text) {
  for (uint32_t i = 0; i < kNames; i++) {
    if (text.size == std::strlen(kText[i]) && std::memcmp(text.data, kText[i], text.size) == 0) return i;
  }
  give_up("a pass has a key that nobody notified");
}

struct Guard {
  nocter_pass* pass;
  uint32_t key;
};

class Actor {
 public:
  Actor(Shared& shared, uint64_t seed, size_t thread, bool may_close, Done& done)
      : shared_(shared), dice_(seed * kThreads + thread), may_close_(may_close), done_(done) {}

  void act() {
    for (int i = 0; i < kOperations; i++) {
      dice_.dawdle();
      const uint32_t roll = dice_.below(100);
      if (roll < 30) {
        notify(dice_.below(5) == 0);
      } else if (roll < 34) {
        notify_many();
      } else if (roll < 62) {
        claim_or_end();
      } else if (roll < 80) {
        end_one();
      } else if (roll < 85) {
        interrupted();
      } else if (roll < 95) {
        count();
      } else if (roll < 97) {
        drained();
      } else if (may_close_ && i > kOperations / 3) {
        close(dice_.below(2) == 0);
      }
    }
    while (!guards_.empty()) end_one();
  }

  void claim_or_end() {
    if (guards_.size() < 2 && dice_.below(3) != 0) {
      claim();
    } else {
      end_one();
    }
  }

  void close(bool discard) {
    Event e{Did::close};
    e.discard = discard;
    const int64_t start = stamp();
    nocter_keyed_close(shared_.queue, discard ? NOCTER_CLOSE_DISCARD : NOCTER_CLOSE_DRAIN);
    add(start, std::move(e));
  }

  nocter_status drained() {
    Event e{Did::drained};
    const int64_t start = stamp();
    e.status = nocter_keyed_drained(shared_.queue, nullptr);
    add(start, std::move(e));
    return done_.back().event.status;
  }

  nocter_status claim() {
    Event e{Did::claim};
    nocter_wait wait = {nocter_now_ns() + 1000 * dice_.below(60), nullptr, 0, 0};
    e.waited = dice_.below(2) == 0;
    nocter_pass* pass = nullptr;
    const int64_t start = stamp();
    e.status = nocter_keyed_claim(shared_.queue, e.waited ? &wait : nullptr, &pass);
    const int64_t end = stamp();
    require((e.status == NOCTER_OK) == (pass != nullptr), "a claim gives a pass when, and only when, it says so");
    if (e.status == NOCTER_OK) {
      e.key = key_of(nocter_pass_key(pass));
      e.failures = nocter_pass_failures(pass);
      guards_.push_back({pass, e.key});
    }
    const nocter_status status = e.status;
    done_.push_back({start, end, std::move(e)});
    return status;
  }

  void end_one() {
    if (guards_.empty()) {
      claim();
      return;
    }
    const size_t which = dice_.below(static_cast<uint32_t>(guards_.size()));
    const Guard guard = guards_[which];
    guards_.erase(guards_.begin() + static_cast<std::ptrdiff_t>(which));
    require(key_of(nocter_pass_key(guard.pass)) == guard.key, "the key of a pass has changed");
    Event e{Did::end};
    e.key = guard.key;
    const uint32_t roll = dice_.below(10);
    e.how = roll < 6 ? keyed_model::End::complete : roll < 8 ? keyed_model::End::fail : keyed_model::End::retry_later;
    const int64_t start = stamp();
    if (roll == 7) {
      nocter_pass_drop(guard.pass);
    } else {
      e.status = roll < 6    ? nocter_pass_complete(guard.pass)
                 : roll == 6 ? nocter_pass_fail(guard.pass)
                             : nocter_pass_retry_after(guard.pass, kNotInThisRun);
    }
    require(e.status == NOCTER_OK, "the end of a pass");
    add(start, std::move(e));
  }

  void count(Did did = Did::count) {
    Event e{did};
    const int64_t start = stamp();
    e.status = nocter_keyed_count(shared_.queue, &e.counts);
    add(start, std::move(e));
  }

 private:
  void add(int64_t start, Event&& e) { done_.push_back({start, stamp(), std::move(e)}); }

  void notify(bool later) {
    Event e{later ? Did::notify_later : Did::notify};
    e.key = dice_.below(kNames);
    const int64_t start = stamp();
    e.status = later ? nocter_keyed_notify_after(shared_.queue, text_of(e.key), kNotInThisRun)
                     : nocter_keyed_notify(shared_.queue, text_of(e.key));
    add(start, std::move(e));
  }

  // Each of the keys is notified at a moment of its own, one after the other.
  void notify_many() {
    constexpr uint32_t kMany = 3;
    uint32_t keys[kMany];
    nocter_text texts[kMany];
    nocter_status each[kMany];
    for (uint32_t i = 0; i < kMany; i++) texts[i] = text_of(keys[i] = dice_.below(kNames));
    const int64_t start = stamp();
    const nocter_status all = nocter_keyed_notify_many(shared_.queue, texts, kMany, each);
    const int64_t end = stamp();
    nocter_status worst = NOCTER_OK;
    for (uint32_t i = 0; i < kMany; i++) {
      Event e{Did::notify};
      e.key = keys[i];
      e.status = each[i];
      if (each[i] != NOCTER_COALESCED) worst = std::max(worst, each[i]);
      done_.push_back({start, end, std::move(e)});
    }
    require(all == worst, "what notify_many says of all is not the worst of each");
  }

  void interrupted() {
    if (guards_.empty()) return count();
    Event e{Did::interrupted};
    const int64_t start = stamp();
    e.raised = nocter_pass_interrupted(guards_.front().pass);
    add(start, std::move(e));
  }

  Shared& shared_;
  Dice dice_;
  const bool may_close_;
  Done& done_;
  std::vector<Guard> guards_;
};

History<Event> record(Crew& crew, uint64_t seed) {
  auto shared = std::make_unique<Shared>();
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  options.maximum_keys = kMaximumKeys;
  options.workers = kWorkers;
  // Keys both shorter and longer than what lies in a record itself.
  options.maximum_key_size = seed % 2 == 0 ? 20 : 300;
  const auto drop = [](void* user) { static_cast<Shared*>(user)->notifiers_dropped.fetch_add(1); };
  options.waiters = options.work = {[](void*) { sched_yield(); }, drop, shared.get()};
  require(nocter_keyed_create(&options, &shared->queue) == NOCTER_OK, "keyed_create");
  History<Event> history(kThreads);
  crew.run([&](size_t thread) { Actor(*shared, seed, thread, seed % 3 != 0, history[thread]).act(); });
  // When all have come back: what drains is drained by whoever claims the rest.
  Actor last(*shared, seed, kThreads, true, history[0]);
  last.count(Did::quiet_count);
  last.close(seed % 3 == 0);
  for (nocter_status status = NOCTER_OK; status == NOCTER_OK;) {
    status = last.claim();
    if (status == NOCTER_OK) last.end_one();
  }
  last.count(Did::quiet_count);
  require(last.drained() == NOCTER_OK, "a closed queue of which every key was claimed is drained");
  nocter_keyed_destroy(shared->queue);
  require(shared->notifiers_dropped.load() == 2, "the queue outlives its handle and all its guards");
  return history;
}

void print(const History<Event>& history, const Verdict& verdict) {
  for (size_t t = 0; t < history.size(); t++) {
    for (size_t i = 0; i < history[t].size(); i++) {
      const auto& operation = history[t][i];
      const Event& e = operation.event;
      std::printf("  %c thread %zu, %ld to %ld: %s, %s%s, key %u, failures %u, how %d%s%s",
                  i < verdict.furthest[t] ? ' ' : '*', t, operation.start, operation.end, name_of(e.did),
                  nocter_status_name(e.status), e.waited ? " after a wait" : "", e.key, e.failures,
                  static_cast<int>(e.how), e.raised ? ", interrupted" : "", e.discard ? ", discards" : "");
      if (e.did == Did::count || e.did == Did::quiet_count) {
        const nocter_keyed_counts& c = e.counts;
        std::printf(
            "; %u waiting %u delayed %u active %u dirty; new %lu coalesced %lu marked %lu full %lu closed %lu started "
            "%lu "
            "completed %lu failed %lu requeued %lu retried %lu discarded %lu %lu",
            c.waiting, c.delayed, c.active, c.dirty, c.accepted_new, c.coalesced, c.marked_dirty, c.rejected_full,
            c.rejected_closed, c.started, c.completed, c.failed, c.requeued, c.retried, c.discarded_waiting,
            c.discarded_dirty);
      }
      std::printf("\n");
    }
  }
}

// A history in which one claim has another key must not pass.
bool tampered_is_refused(History<Event> history) {
  for (Done& done : history) {
    for (auto& operation : done) {
      if (operation.event.did == Did::claim && operation.event.status == NOCTER_OK) {
        operation.event.key = (operation.event.key + 1) % kNames;
        return !check(State(kMaximumKeys, kWorkers), history).legal;
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
  uint64_t refused[std::size(keyed_model::kBroken)] = {};
  uint64_t pairs = 0, steps = 0;
  Crew crew;
  for (uint64_t i = 0; i < settings.histories; i++) {
    const History<Event> history = record(crew, settings.seed + i);
    const Verdict verdict = check(State(kMaximumKeys, kWorkers), history);
    if (!verdict.legal) {
      std::printf("FAILED: history of seed %lu has no legal order%s; * marks what could not be placed\n",
                  settings.seed + i, verdict.undecided ? " that could be found" : "");
      print(history, verdict);
      return 1;
    }
    pairs += overlaps(history);
    steps += verdict.steps;
    if (i % 10 != 0) continue;
    require(tampered_is_refused(history), "THE NET HAS A HOLE: a history with a wrong key was accepted");
    for (size_t k = 0; k < std::size(keyed_model::kBroken); k++) {
      refused[k] += !check(State(kMaximumKeys, kWorkers, keyed_model::kBroken[k]), history).legal;
    }
  }
  for (size_t k = 0; k < std::size(refused); k++) {
    if (refused[k] != 0 || settings.histories < 500) continue;
    std::printf("the broken rule is number %zu\n", k);
    require(false, "THE NET HAS A HOLE: a model with a broken rule fits every history");
  }
  require(pairs / settings.histories >= 3, "the operations hardly overlap: these histories prove nothing");
  std::printf(
      "ok: KEY-02 KEY-03 KEY-05 KEY-06 KEY-07 KEY-08 GEN-12 K-1 K-2 K-4 K-5 K-6 K-7 K-9 K-12 K-13 K-14, %lu histories "
      "have a "
      "legal order; %lu overlapping pairs each, %lu steps each\n",
      settings.histories, pairs / settings.histories, steps / settings.histories);
  return 0;
}
