#include "nocter/tasks/engine.hpp"

#include <algorithm>
#include <cstdio>

#include "nocter/base/hash.hpp"
#include "nocter/tasks/keeper.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

using base::Locked;

// ---- Opening and closing --------------------------------------------------------------------------------------------

Engine::Engine(std::unique_ptr<Store> store, const EngineOptions& options)
    : options_(options), store_(std::move(store)), random_(base::random_seed()) {
  lane_.emplace(*store_, static_cast<Lane::Observer&>(*this));
}

Engine::~Engine() = default;

std::shared_ptr<Engine> Engine::open(std::unique_ptr<Store> store, const EngineOptions& options,
                                     const std::string& what, std::unique_ptr<Log>& log) {
  auto engine = std::make_shared<Engine>(std::move(store), options);
  struct Closing {
    Engine* engine;
    ~Closing() {
      if (engine != nullptr) engine->close();
    }
  } closing{engine.get()};
  if (const Answer answer = engine->register_node(); answer.status != Status::ok) {
    throw StoreError(answer.status, answer.message);
  }
  engine->options_.clock->watch(*engine);
  engine->say(Log::Level::information, {"opened ", what, " as node ", options.node});
  for (const std::string& warning : options.warnings) engine->say(Log::Level::warning, {warning});
  if (!options.by_hand && options.own_keeper) Keeper::start(engine);
  closing.engine = nullptr;
  {
    const Locked lock(engine->mutex_);  // the keeper is at work already and may have something to say
    engine->log_ = std::move(log);
  }
  engine->speak();
  return engine;
}

void Engine::leave() {
  if (users_.fetch_sub(kUser) - kUser != kClosed) return;
  left_.advance_open();
  left_.wake_all();
}

void Engine::close() {
  if ((users_.fetch_or(kClosed) & kClosed) != 0) return;
  options_.clock->unwatch(*this);
  {
    const Locked lock(mutex_);
    for (Waiters* list : {&claimers_, &lockers_, &readers_}) list->close();
    for (Waiters& list : enders_) list.close();
    for (Run* first : runs_) {
      for (Run* run = first; run != nullptr; run = run->next_) run->raise(Reason::stop);
    }
  }
  if (keeper_ != nullptr) std::exchange(keeper_, nullptr)->destroy();
  for (;;) {
    const uint64_t seen = left_.version();
    if (users_.load() == kClosed) break;
    left_.wait(seen, base::Wait{}, base::default_patience());
  }
  try {
    give_up_runs();
  } catch (const std::bad_alloc&) {
    const Locked lock(mutex_);
    given_up_ = true;  // what could not be handed back is rescued by whoever finds the node gone
  }
  lane_.reset();
  store_.reset();
}

// Nobody is inside any more, so the lane's leader is always this thread.
void Engine::give_up_runs() {
  for (;;) {
    Request request{Settle{}, {}};
    auto& settle = std::get<Settle>(request.demand);
    {
      const Locked lock(mutex_);
      Run* run = nullptr;
      for (Run* first : runs_) {
        if (run == nullptr) run = first;
      }
      if (run == nullptr) break;
      settle.by = run->claimed_;
      unlist(*run);
    }
    settle.outcome = Outcome::hand_back;
    lane_->execute(request);
  }
  for (;;) {
    Run* run;
    {
      const Locked lock(mutex_);
      run = std::exchange(unheard_, unheard_ == nullptr ? nullptr : unheard_->next_);
      given_up_ = run == nullptr;
    }
    if (run == nullptr) break;
    Request request{Settle{}, {}};
    auto& settle = std::get<Settle>(request.demand);
    settle.by = run->claimed_;
    settle.outcome = run->dropped_late_ ? Outcome::hand_back : Outcome::fail;
    settle.failure.kind = "WorkerLost";
    run->release();
    lane_->execute(request);
  }
  Request leave{Leave{node_.load()}, {}};
  if (node_.load() != 0) lane_->execute(leave);
}

// ---- Runs -----------------------------------------------------------------------------------------------------------

void Engine::list(Run& run) {
  Run*& first = runs_[run.claimed_.token % kRunLists];
  run.previous_ = nullptr;
  run.next_ = first;
  if (first != nullptr) first->previous_ = &run;
  first = &run;
  run.listed_ = true;
  run_count_++;
}

void Engine::unlist(Run& run) {
  if (!run.listed_) return;
  Run*& first = runs_[run.claimed_.token % kRunLists];
  (run.previous_ != nullptr ? run.previous_->next_ : first) = run.next_;
  if (run.next_ != nullptr) run.next_->previous_ = run.previous_;
  run.previous_ = run.next_ = nullptr;
  run.listed_ = false;
  run_count_--;
}

void Engine::forget(Run& run) {
  const Locked lock(mutex_);
  unlist(run);
}

// The lease of this process goes on being renewed, so nobody else would ever run the task.
void Engine::lose_later(Run& run) noexcept {
  const Locked lock(mutex_);
  if (given_up_) return;
  if (run.listed_) run.dropped_late_ = closed();  // its worker could say nothing any more
  unlist(run);
  run.hold();
  run.next_ = unheard_;
  unheard_ = &run;
}

void Engine::lose_again() {
  Run* run;
  {
    const Locked lock(mutex_);
    run = std::exchange(unheard_, nullptr);
  }
  while (run != nullptr) {
    Run* const next = std::exchange(run->next_, nullptr);
    if (!run->lose("WorkerLost", "its worker went away")) lose_later(*run);
    run->release();
    run = next;
  }
}

uint64_t Engine::runs() const {
  const Locked lock(mutex_);
  return run_count_;
}

// ---- What a committed batch brings ----------------------------------------------------------------------------------

void Engine::enlist(ClaimRequest& request) {
  auto& claim = std::get<Claim>(request.demand);
  for (ClaimedTask& task : claim.tasks) {
    Run& run = *request.room[request.filled++];
    run.claimed_ = task.claimed;
    run.record_ = std::move(task.record);
    run.messages_ = std::move(task.messages);
    run.tree_.resize(kTaskIdText);
    write_task_id(run.record_.root, run.tree_.data());
    if (!base::planted("run_is_listed_late")) list(run);
  }
  claim.tasks.clear();
}

void Engine::committed(std::span<Request* const> batch, const Effects& effects) {
  bool failed = false;
  const Locked lock(mutex_);
  for (Request* request : batch) {
    const Status status = request->answer.status;
    failed = failed || status == Status::memory || status == Status::store || status == Status::unavailable ||
             status == Status::internal;
    if (status == Status::ok && std::holds_alternative<Claim>(request->demand)) {
      enlist(static_cast<ClaimRequest&>(*request));
    }
  }
  for (const Claimed& claimed : effects.cancelled) cancel_here(claimed);
  for (const Effects::Ready& ready : effects.ready) call_claimers(ready.type, ready.count);
  for (const TaskId& task : effects.ended) call_enders(task);
  for (const std::string& name : effects.released) call_lockers(name);
  if (effects.events) readers_.call_all();
  if (effects.lost) {
    sweep_everybody();
    renew_at_ = 0;  // it tells which runs were cancelled
    tell_keeper();
  }
  if (failed && effects.next_due == kNever) return;
  const bool sooner = effects.next_due < next_due_.glance();
  next_due_.store(effects.next_due);
  if (sooner) tell_keeper();
}

void Engine::cancel_here(const Claimed& claimed) {
  for (Run* run = runs_[claimed.token % kRunLists]; run != nullptr; run = run->next_) {
    if (run->claimed_.token == claimed.token) run->raise(Reason::cancel);
  }
}

void Engine::call_claimers(const std::string& type, size_t count) {
  Waiter* next = nullptr;
  for (Waiter* waiter = claimers_.first(); waiter != nullptr && count != 0; waiter = next) {
    next = waiter->next;
    auto& claimer = static_cast<ClaimWaiter&>(*waiter);
    if (!claimer.wants(type)) continue;
    claimers_.leave(claimer);
    claimer.called = true;
    claimer.call();
    count -= std::min<size_t>(count, claimer.most);
  }
}

void Engine::call_enders(const TaskId& task) {
  for (Waiter* waiter = enders_of(task).first(); waiter != nullptr; waiter = waiter->next) {
    if (static_cast<EndWaiter&>(*waiter).task == task) waiter->call();
  }
}

void Engine::call_lockers(std::string_view name) {
  for (Waiter* waiter = lockers_.first(); waiter != nullptr; waiter = waiter->next) {
    auto& locker = static_cast<LockWaiter&>(*waiter);
    if (locker.called || locker.name != name) continue;
    locker.called = true;
    locker.call();
    return;
  }
}

// ---- Requests that are more than one --------------------------------------------------------------------------------

Answer Engine::children(const TaskId& id, std::vector<Record>& out) {
  return look([&](Store& store) {
    Record parent;
    Answer answer = store.get(id, parent);
    Filter filter;
    filter.parent = id;
    filter.most = 10'000;
    for (size_t before = 0; answer.status == Status::ok && parent.row.children != 0;) {
      answer = store.list(filter, out);
      if (out.size() - before < filter.most) break;
      before = out.size();
      filter.after = out.back().row.id;
    }
    return answer;
  });
}

Answer Engine::cancel(const TaskId& id, uint64_t& touched) {
  Cancel cancel{id};
  Answer answer = ask(cancel);
  touched = answer.status == Status::ok ? cancel.touched : 0;
  if (cancel.more) {
    upkeep_wanted_.store(true);
    tell_keeper();
  }
  return answer;
}

Answer Engine::retry(const TaskId& id, TaskId& out) {
  Record record;
  Answer answer = look([&](Store& store) { return store.get(id, record); });
  if (answer.status != Status::ok) return answer;
  if (record.row.phase == Phase::running || record.row.phase == Phase::suspended ||
      record.row.phase == Phase::completed) {
    return {Status::state, "the task waits for nothing that could be skipped, and has not failed"};
  }
  if (!ended(record.row.phase)) {
    Hurry hurry{id};
    answer = ask(hurry);
    if (answer.status == Status::ok) out = id;
    return answer;
  }
  Submission again;
  again.id = make_task_id();
  if (again.id.none()) return {Status::unavailable, "the system has no random bytes"};
  again.type = record.type;
  again.payload = record.texts.payload;
  again.priority = record.row.priority;
  again.max_attempts = record.row.max_attempts;
  if (record.row.key_scope != KeyScope::parent) {
    again.key = record.texts.key;
    again.key_scope = record.row.key_scope;
  }
  Submit submit;
  submit.tasks.push_back(std::move(again));
  answer = ask(submit);
  if (answer.status == Status::ok) out = submit.ids.at(0);
  return answer;
}

// ---- The log --------------------------------------------------------------------------------------------------------

void Engine::say(Log::Level level, std::initializer_list<std::string_view> parts) noexcept {
  constexpr size_t kMost = 100;  // lines that nobody has had time to speak
  try {
    std::string text;
    for (const std::string_view part : parts) text += part;
    text = printable(text);
    const Locked lock(mutex_);
    if (unsaid_.size() < kMost) unsaid_.emplace_back(level, std::move(text));
  } catch (const std::bad_alloc&) {  // what happened is more than what is said of it
  }
}

void Engine::speak() {
  std::vector<std::pair<Log::Level, std::string>> lines;
  {
    const Locked lock(mutex_);
    if (log_ == nullptr) return;
    lines.swap(unsaid_);
  }
  for (const auto& [level, text] : lines) log_->line(level, text);
}

// Whoever reads a log must not be told by a name what to do with the screen.
std::string printable(std::string_view text) {
  std::string safe;
  for (size_t i = 0; i < text.size(); i++) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool late_control =
        byte == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    if (byte >= 0x20 && byte != 0x7f && !late_control) {
      safe += text[i];
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", late_control ? static_cast<unsigned char>(text[++i]) : byte);
    safe += escaped;
  }
  return safe;
}

}  // namespace nocter::tasks
