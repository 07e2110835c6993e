// The lease of this process, and upkeep: by the keeper thread, or by the host's own calls.
#include <algorithm>

#include "nocter/tasks/engine.hpp"
#include "nocter/tasks/keeper.hpp"

namespace nocter::tasks {

using base::Locked;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kLongestRest = 5'000;       // between two pieces of upkeep, in milliseconds
constexpr int64_t kLookForDead = 100;         // how often, in milliseconds
constexpr int64_t kLively = 200, kDozy = 50;  // how long others are watched closely, and how often they are else
constexpr int64_t kAfterError = 100;          // before upkeep that went wrong is tried again, in milliseconds
constexpr int64_t kSoonest = 10;              // after something went wrong

// What is left of a lease when a process stops trusting it: time for a run to hear of it before anybody else may begin.
int64_t margin_of(int64_t lease_ms) { return std::clamp<int64_t>(lease_ms / 10, 10, 2'000); }

}  // namespace

// ---- The lease ------------------------------------------------------------------------------------------------------

// By the clock that goes on while the machine sleeps; where tests move the time, by theirs.
Millis Engine::lease_now() const { return options_.clock->steered() ? options_.clock->now_ms() : base::boot_now_ms(); }

void Engine::tell_keeper() {
  keeper_turn_.advance_open();
  keeper_turn_.wake_all();
}

Answer Engine::register_node() {
  uint64_t instance[2];
  if (!base::random_bytes(instance, sizeof instance)) return {Status::unavailable, "the system has no random bytes"};
  char text[33];
  constexpr char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < 32; i++) text[i] = kDigits[instance[i / 16] >> (i % 16 * 4) & 15];
  Request request{Register{options_.node, std::string(text, 32), options_.lease_ms, 0}, {}};
  const Millis before = lease_now();
  lane_->execute(request);
  if (request.answer.status != Status::ok) return std::move(request.answer);
  const Locked lock(mutex_);
  fence_at_ = before + options_.lease_ms - margin_of(options_.lease_ms);
  renew_at_ = before + options_.lease_ms / 3;
  over_at_ = before + options_.lease_ms;
  node_.store(std::get<Register>(request.demand).node);
  return {};
}

// Before a claim. By hand, it is also the time to renew, since nobody else does.
Answer Engine::ensure_node() {
  if (node_.load() != 0 && options_.by_hand) {
    Millis renew_at;
    {
      const Locked lock(mutex_);
      renew_at = renew_at_;
    }
    if (lease_now() >= renew_at) {
      Answer answer = renew(node_.load());
      if (answer.status != Status::ok && answer.status != Status::lease_lost) return answer;
    }
  }
  if (node_.load() != 0) return {};
  const Locked one_of_us(registering_);
  return node_.load() != 0 ? Answer{} : register_node();
}

// Nothing that was claimed by that node is ours any more.
void Engine::lost_node(int64_t node) {
  bool first;
  {
    const Locked lock(mutex_);
    int64_t expected = node;
    first = node_.compare_exchange(expected, 0);
    for (Run* head : runs_) {
      for (Run* run = head; run != nullptr; run = run->next_) {
        if (run->record_.row.node == node) run->lease_lost();
      }
    }
  }
  if (first) say(Log::Level::warning, {"the lease of node ", options_.node, " was lost: others may run its tasks"});
  tell_keeper();
}

Answer Engine::renew(int64_t node) {
  const Use use(*this);
  if (!use) return {Status::closed, {}};
  if (node == 0 || node != node_.load()) return {Status::lease_lost, "this process was taken for dead"};
  Request request{Renew{node, options_.lease_ms, {}}, {}};
  const Millis before = lease_now();
  lane_->execute(request);
  if (request.answer.status == Status::lease_lost) lost_node(node);
  if (request.answer.status != Status::ok) return std::move(request.answer);
  const Locked lock(mutex_);
  if (node_.load() == node) {
    fence_at_ = std::max(fence_at_, before + options_.lease_ms - margin_of(options_.lease_ms));
    over_at_ = std::max(over_at_, before + options_.lease_ms);
    renew_at_ = before + options_.lease_ms / 3;
  }
  for (const Claimed& claimed : std::get<Renew>(request.demand).cancelled) cancel_here(claimed);
  return {};
}

// ---- Upkeep ---------------------------------------------------------------------------------------------------------

// Under a clock's lock.
void Engine::clock_moved() {
  moved_.store(true);
  tell_keeper();
  if (!options_.by_hand) return;
  const Locked lock(mutex_);
  sweep_everybody();
}

Answer Engine::maintain_once(Maintain& maintain, bool purges) {
  const Use use(*this);
  if (!use) return {Status::closed, {}};
  const Millis now = store_->now();
  if (purges && options_.retention_ms > 0) maintain.purge_before = now - options_.retention_ms;
  if (purges && options_.event_retention_ms > 0) maintain.events_before = now - options_.event_retention_ms;
  if (store_->shared_with_others()) maintain.dead = store_->dead_nodes();
  maintain.search_everything = !searched_.load();
  if (maintain.search_everything) {
    const Locked lock(mutex_);
    maintain.search_from = search_from_;
  }
  Answer answer = ask(maintain);
  if (answer.status != Status::ok) return answer;
  if (maintain.search_everything) {
    const Locked lock(mutex_);
    search_from_ = maintain.searched_to;
    if (search_from_.none()) searched_.store(true);
  }
  if (maintain.rescued != 0)
    say(Log::Level::information, {"rescued ", std::to_string(maintain.rescued), " tasks of lost workers"});
  if (maintain.repaired != 0)
    say(Log::Level::warning, {"repaired ", std::to_string(maintain.repaired), " tasks that nobody had woken"});
  if (maintain.purged != 0)
    say(Log::Level::information, {"purged ", std::to_string(maintain.purged), " tasks past their retention"});
  return answer;
}

Answer Engine::maintain() {
  Answer answer;
  Maintain maintain;
  do {
    maintain = {};
    lose_again();
    answer = maintain_once(maintain, true);
  } while (answer.status == Status::ok && maintain.more);
  // Nobody but the store knows whether it has taken this very process for dead.
  Millis over_at;
  {
    const Locked lock(mutex_);
    over_at = over_at_;
  }
  const int64_t node = node_.load();
  if (answer.status == Status::ok && options_.by_hand && node != 0 && lease_now() >= over_at) (void)renew(node);
  speak();
  return answer;
}

Answer Engine::purge(int64_t older_than_ms, uint64_t& removed) {
  removed = 0;
  Answer answer;
  Maintain maintain;
  do {
    maintain = {};
    maintain.purge_before = now() - older_than_ms + (older_than_ms == 0 ? 1 : 0);
    answer = maintain_once(maintain, false);
    if (answer.status == Status::ok) removed += maintain.purged;
  } while (answer.status == Status::ok && maintain.more);
  speak();
  return answer;
}

// ---- The keeper -----------------------------------------------------------------------------------------------------

void Keeper::start(const std::shared_ptr<Engine>& engine) {
  auto* keeper = new Keeper(engine);
  base::ThreadOptions options;
  options.threads = 1;
  options.name = "nocter-keeper";
  if (base::Workers::start(*keeper, options, engine->keeper_).status != Status::ok) throw std::bad_alloc();
}

void Keeper::stopping() { engine_->tell_keeper(); }

void Keeper::run(base::Interrupt& stop) {
  while (!stop.raised()) {
    const uint64_t seen = engine_->keeper_turn_.version();
    if (engine_->closed()) return;
    int64_t next = base::now_ns() + kSoonest * kNsPerMs;
    try {
      next = tend();
    } catch (const std::bad_alloc&) {  // soon again
    }
    engine_->speak();
    base::Wait wait;
    wait.deadline_ns = next;
    wait.interrupt = &stop;
    engine_->keeper_turn_.wait(seen, wait, base::Patience{0, 0});
  }
}

int64_t Keeper::tend() {
  Engine& engine = *engine_;
  const Engine::Use use(engine);
  if (!use) return base::now_ns();
  int64_t next = base::now_ns() + kLongestRest * kNsPerMs;
  renew(next);
  maintain(next);
  if (engine.store_->shared_with_others()) watch_others(next);
  return next;
}

// One that could not renew in time believes that it is dead before anybody else does.
void Keeper::renew(int64_t& next) {
  Engine& engine = *engine_;
  Millis fence_at, renew_at;
  {
    const Locked lock(engine.mutex_);
    fence_at = engine.fence_at_;
    renew_at = engine.renew_at_;
  }
  const int64_t node = engine.node_.load();
  const Millis now = engine.lease_now();
  if (node != 0 && now >= fence_at) {
    engine.lost_node(node);
  } else if (node != 0 && now >= renew_at) {
    const Answer answer = engine.renew(node);
    if (answer.status == Status::ok) renew_at = now + engine.options_.lease_ms / 3;
    if (answer.status < Status::ok && answer.status != Status::lease_lost) {
      engine.say(Log::Level::warning, {"the lease could not be renewed: ", answer.message});
      renew_at = now + std::max(kSoonest, engine.options_.lease_ms / 20);
      const Locked lock(engine.mutex_);
      engine.renew_at_ = std::min(renew_at, std::max(now + 1, engine.fence_at_));
      renew_at = engine.renew_at_;
    }
  }
  if (engine.node_.load() == 0) {
    const Locked one_of_us(engine.registering_);
    if (engine.node_.load() == 0 && engine.register_node().status != Status::ok) {
      next = std::min(next, base::now_ns() + kSoonest * 10 * kNsPerMs);
    }
    renew_at = now + engine.options_.lease_ms / 3;
  }
  if (engine.options_.clock->steered()) return;
  next = std::min(next, base::now_ns() + std::max<int64_t>(1, std::min(renew_at, fence_at) - now) * kNsPerMs);
}

void Keeper::maintain(int64_t& next) {
  Engine& engine = *engine_;
  const EngineOptions& options = engine.options_;
  const bool moved = engine.moved_.exchange(false);
  const bool wanted = engine.upkeep_wanted_.exchange(false);
  const int64_t rest = std::min(options.lease_ms / 3, kLongestRest) * kNsPerMs;
  int64_t now = base::now_ns();
  bool needed = moved || wanted || now >= maintain_at_ || engine.now() >= engine.next_due_.load();
  if (!needed && now >= look_for_dead_at_ && engine.store_->shared_with_others()) {
    look_for_dead_at_ = now + kLookForDead * kNsPerMs;
    needed = !engine.store_->dead_nodes().empty();
  }
  bool more = false, failed = false;
  if (needed) {
    engine.lose_again();
    for (int i = 0; i < Engine::kMostTurns && (i == 0 || more); i++) {
      Maintain maintain;
      const Answer answer = engine.maintain_once(maintain, true);
      more = answer.status == Status::ok && maintain.more;
      failed = answer.status != Status::ok;
    }
    now = base::now_ns();
    maintain_at_ = now + (failed ? kAfterError * kNsPerMs : rest);
    if (more) engine.upkeep_wanted_.store(true);
  }
  if (moved) {
    const Locked lock(engine.mutex_);
    engine.sweep_everybody();
  } else if (now >= sweep_at_) {
    sweep_at_ = now + int64_t{options.poll_ms} * kNsPerMs;
    const Locked lock(engine.mutex_);
    engine.sweep_claimers();
  }
  if (more) next = now;
  next = std::min({next, maintain_at_, sweep_at_});
  if (engine.store_->shared_with_others()) next = std::min(next, now + kLookForDead * kNsPerMs);
  const Millis due = engine.next_due_.load();
  if (failed || due == kNever || options.clock->steered()) return;
  next = std::min(next, now + std::clamp<int64_t>(due - engine.now(), 1, kLongestRest) * kNsPerMs);
}

// What other processes commit is seen in a number, which is read often while somebody waits and something goes on.
void Keeper::watch_others(int64_t& next) {
  Engine& engine = *engine_;
  const int64_t now = base::now_ns();
  const uint64_t changes = engine.store_->changes_by_others();
  const bool waits = engine.waiting_.load() != 0;
  if (waits && !waited_) lively_since_ = now;
  waited_ = waits;
  if (changes != changes_) {
    changes_ = changes;
    lively_since_ = now;
    const Locked lock(engine.mutex_);
    engine.sweep_everybody();
  }
  const int64_t calm_ms = (now - lively_since_) / kNsPerMs;
  const int64_t look_ms = waits ? std::clamp<int64_t>(calm_ms < kLively ? 1 : calm_ms / 20, 1, kDozy) : kDozy;
  engine.keeper_slow_.store(look_ms > 2);
  next = std::min(next, now + look_ms * kNsPerMs);
}

}  // namespace nocter::tasks
