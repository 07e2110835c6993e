// Claims, awaits, locks and events, and how they wait: entered first, then a look, then asleep until called. A look at the store now and then
// stands in for a call that was lost, and for what other processes do.
#include <algorithm>

#include "nocter/base/hash.hpp"
#include "nocter/tasks/engine.hpp"

namespace nocter::tasks {

using base::Locked;
using base::Wait;
using base::Woken;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;

Answer closed_answer() { return {Status::closed, {}}; }

}  // namespace

// ---- Waiting --------------------------------------------------------------------------------------------------------

// False when it is closed.
bool Engine::enter(Waiters& list, Waiter& waiter) {
  const Locked lock(mutex_);
  if (closed()) return false;
  list.enter(waiter);
  if (waiting_.fetch_add(1) == 0 && keeper_slow_.load()) tell_keeper();
  return true;
}

void Engine::leave(Waiters& list, Waiter& waiter) {
  const Locked lock(mutex_);
  list.leave(waiter);
  waiting_.fetch_sub(1);
}

Engine::Slice Engine::slice_of(const Wait& wait, int64_t most_ms) {
  Slice slice{wait, false};
  const int64_t until = base::now_ns() + std::max<int64_t>(1, most_ms) * kNsPerMs;
  if (wait.deadline_ns == base::kForever || wait.deadline_ns > until) {
    slice.wait.deadline_ns = until;
    slice.cut = true;
  }
  return slice;
}

// For those who look by themselves, since no keeper tells them.
int64_t Engine::until_due() const {
  const int64_t poll = options_.poll_ms;
  const Millis due = next_due_.load();
  if (due == kNever || options_.clock->steered()) return poll;
  return std::clamp<int64_t>(due - now(), 1, poll);
}

class Engine::Entered {
 public:
  Entered(Engine& engine, Waiters& list, Waiter& waiter, bool waits)
      : engine_(engine), list_(list), waiter_(waiter), waits_(waits), in_(waits && engine.enter(list, waiter)) {}
  ~Entered() {
    if (in_) engine_.leave(list_, waiter_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  // False when it would have waited, and the store is closed.
  explicit operator bool() const { return in_ || !waits_; }

 private:
  Engine& engine_;
  Waiters& list_;
  Waiter& waiter_;
  const bool waits_, in_;
};

template <class Look, class Most>
Answer Engine::look_and_wait(Waiter& waiter, const Wait* wait, Status nothing, Most&& most_ms, Look&& look) {
  for (Woken why = Woken::changed;;) {
    uint64_t seen = waiter.woken.version();
    Answer answer;
    if (look(answer)) return answer;
    if (base::planted("waiter_looks_first")) seen = waiter.woken.version();
    if (wait == nullptr) return {nothing, {}};
    if (why != Woken::changed) return {status_of(why), {}};
    const Slice slice = slice_of(*wait, most_ms());
    why = waiter.woken.wait(seen, slice.wait, base::default_patience());
    if (why == Woken::closed) return closed_answer();
    if (why == Woken::timed_out && slice.cut) why = Woken::changed;
  }
}

// ---- Claims ---------------------------------------------------------------------------------------------------------

// Runs made before the claim, so that nothing can fail once the store has given tasks out.
class Spare {
 public:
  explicit Spare(Engine& engine) : engine_(engine) {}
  ~Spare() {
    for (; taken_ < runs_.size(); taken_++) runs_[taken_]->release();
  }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

  void make(uint32_t count) {
    runs_.reserve(count);
    const std::shared_ptr<Engine> engine = engine_.shared_from_this();
    while (runs_.size() < count) {
      Run* const made = Run::make(engine);
      if (made == nullptr) throw std::bad_alloc();
      runs_.push_back(made);
    }
  }
  Run** room() { return runs_.data(); }
  void take(size_t count, Run** out) {
    for (; taken_ < count; taken_++) {
      out[taken_] = runs_[taken_];
      if (base::planted("run_is_listed_late")) {
        const Locked lock(engine_.mutex_);
        engine_.list(*runs_[taken_]);
      }
      out[taken_]->begin();
    }
  }

 private:
  Engine& engine_;
  std::vector<Run*> runs_;
  size_t taken_ = 0;
};

uint64_t Engine::next_number() {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15U;
  uint64_t state = random_.fetch_add(kStep);
  const uint64_t number = base::next_random(state);
  return number != 0 ? number : kStep;
}

// Each look has a number of its own: one that failed gave nothing out.
Answer Engine::claim_once(ClaimRequest& request) {
  auto& claim = std::get<Claim>(request.demand);
  constexpr int kMostNodes = 3;
  for (int i = 0;; i++) {
    if (Answer answer = ensure_node(); answer.status != Status::ok) return answer;
    claim.node = node_.load();
    claim.number = next_number();
    lane_->execute(request);
    if (request.answer.status != Status::lease_lost) return std::move(request.answer);
    lost_node(claim.node);
    if (i + 1 == kMostNodes) return {Status::unavailable, "other processes take this one for dead again and again"};
  }
}

Answer Engine::claim(const Types& types, uint32_t most, const Wait* wait, Run** out, size_t& count) {
  count = 0;
  const Use use(*this);
  if (!use) return closed_answer();
  Spare spare(*this);
  spare.make(most);
  ClaimRequest request;
  Claim wanted;
  wanted.types = types;
  wanted.most = most;
  request.demand = std::move(wanted);
  request.room = spare.room();
  Answer answer;
  if (wait == nullptr) {
    answer = claim_once(request);
  } else {
    ClaimWaiter waiter;
    waiter.types = &types;
    waiter.most = most;
    if (!enter(claimers_, waiter)) return closed_answer();
    struct Leaving {
      Engine& engine;
      ClaimWaiter& waiter;
      ~Leaving() {
        const Locked lock(engine.mutex_);
        if ((waiter.called || waiter.owes) && !base::planted("call_is_not_passed_on")) engine.pass_on(waiter);
        engine.claimers_.leave(waiter);
        engine.waiting_.fetch_sub(1);
      }
    } leaving{*this, waiter};
    answer = claim_waiting(request, waiter, *wait);
  }
  count = request.filled;
  spare.take(count, out);
  return answer;
}

Answer Engine::claim_waiting(ClaimRequest& request, ClaimWaiter& waiter, const Wait& wait) {
  Woken why = Woken::changed;
  for (;;) {
    bool was_swept;
    uint64_t seen;
    {
      const Locked lock(mutex_);
      if (closed()) return closed_answer();
      if (!waiter.entered) claimers_.enter(waiter);
      // With the entry, in one step: who is called has left the list, and would sleep there unseen if it took the call for an old one.
      seen = waiter.woken.version();
      waiter.owes = std::exchange(waiter.called, false);
      was_swept = std::exchange(waiter.swept, false);
    }
    Answer answer = claim_once(request);
    if (base::planted("claimer_looks_first")) seen = waiter.woken.version();
    {
      const Locked lock(mutex_);
      if (answer.status >= Status::ok) waiter.owes = false;
      if (was_swept && answer.status == Status::ok) waiter.called = waiter.swept = true;  // there may be more
    }
    if (answer.status != Status::empty) return answer;
    if (why != Woken::changed) return {status_of(why), {}};
    const Slice slice = options_.by_hand ? slice_of(wait, until_due()) : Slice{wait, false};
    why = waiter.woken.wait(seen, slice.wait, base::default_patience());
    if (why == Woken::closed) return closed_answer();
    if (why == Woken::timed_out && slice.cut) why = Woken::changed;
  }
}

// What this one was called for it has not looked for, or there may be more than it could take.
void Engine::pass_on(const ClaimWaiter& from) {
  for (Waiter* waiter = claimers_.first(); waiter != nullptr; waiter = waiter->next) {
    auto& claimer = static_cast<ClaimWaiter&>(*waiter);
    if (&claimer == &from || !from.shares_with(claimer)) continue;
    claimers_.leave(claimer);
    claimer.called = true;
    claimer.swept = from.swept;
    claimer.call();
    return;
  }
}

// One of each list of types; lists that are one and the same lie one behind the other as a rule.
void Engine::sweep_claimers() {
  constexpr size_t kRemembered = 16;
  const Types* seen[kRemembered];
  size_t count = 0;
  Waiter* next = nullptr;
  for (Waiter* waiter = claimers_.first(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    auto& claimer = static_cast<ClaimWaiter&>(*waiter);
    if (std::find(seen, seen + count, claimer.types) != seen + count) continue;
    if (count < kRemembered) seen[count++] = claimer.types;
    claimers_.leave(claimer);
    claimer.called = claimer.swept = true;
    claimer.call();
  }
}

void Engine::sweep_everybody() {
  sweep_claimers();
  lockers_.call_all();
  readers_.call_all();
  for (Waiters& list : enders_) list.call_all();
}

// ---- Awaits ---------------------------------------------------------------------------------------------------------

Answer Engine::await(const TaskId& id, const Wait* wait, Record& out) {
  if (wait != nullptr && serves_here())
    return {Status::would_deadlock, "a served task waits by suspending: its thread could be the one that is needed"};
  const Use use(*this);
  if (!use) return closed_answer();
  EndWaiter waiter;
  waiter.task = id;
  const Entered entered(*this, enders_of(id), waiter, wait != nullptr);
  if (!entered) return closed_answer();
  return look_and_wait(
      waiter, wait, Status::pending, [&] { return options_.poll_ms; },
      [&](Answer& answer) {
        answer = look([&](Store& store) { return store.get(id, out); });
        return answer.status != Status::ok || ended(out.row.phase);
      });
}

// ---- Locks ----------------------------------------------------------------------------------------------------------

Answer Engine::acquire(LockAcquire& wanted, const Wait* wait) {
  const Use use(*this);
  if (!use) return closed_answer();
  LockWaiter waiter;
  const std::string name = wanted.name;  // the request is away while it is executed
  waiter.name = name;
  // Once it has left the list: it may have been called for a lock that it does not take.
  struct PassingOn {
    Engine& engine;
    LockWaiter& waiter;
    bool waits;
    ~PassingOn() {
      if (!waits) return;
      const Locked lock(engine.mutex_);
      if (waiter.called) engine.call_lockers(waiter.name);
    }
  } passing_on{*this, waiter, wait != nullptr};
  const Entered entered(*this, lockers_, waiter, wait != nullptr);
  if (!entered) return closed_answer();
  return look_and_wait(
      waiter, wait, Status::held,
      [&]() -> int64_t {
        const int64_t poll = options_.poll_ms;
        return options_.clock->steered() ? poll : std::clamp<int64_t>(wanted.until - now() + 1, 1, poll);
      },
      [&](Answer& answer) {
        {
          const Locked lock(mutex_);
          waiter.called = false;
        }
        answer = ask(wanted);
        return answer.status != Status::held;
      });
}

// ---- Events ---------------------------------------------------------------------------------------------------------

Answer Engine::events(uint64_t after, size_t most, const Wait* wait, std::vector<Event>& out) {
  const Use use(*this);
  if (!use) return closed_answer();
  Waiter waiter;
  const Entered entered(*this, readers_, waiter, wait != nullptr);
  if (!entered) return closed_answer();
  return look_and_wait(
      waiter, wait, Status::empty, [&] { return options_.poll_ms; },
      [&](Answer& answer) {
        answer = look([&](Store& store) { return store.events(after, most, out); });
        return answer.status < Status::ok || !out.empty();
      });
}

}  // namespace nocter::tasks
