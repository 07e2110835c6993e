#include "model/world.hpp"

#include <algorithm>
#include <sstream>
#include <type_traits>
#include <utility>

#include "nocter/tasks/task_id.hpp"

namespace tasks_model {

using namespace nocter::tasks;

namespace {

constexpr Millis kBegin = 1'700'000'000'000;
constexpr const char* kTypeNames[kTypes] = {"alpha", "beta", "gamma"};

// Later ones are not always greater: the order of ids is not the order of submissions.
TaskId made_id(Ref ref) {
  TaskId id;
  const auto number = static_cast<uint64_t>(ref + 16);
  const uint64_t front = 0x018bcfe50000 + number * 7919 % 61;
  for (size_t at = 0; at < 6; at++) id.bytes[at] = static_cast<uint8_t>(front >> (40 - 8 * at));
  id.bytes[6] = 0x70;
  id.bytes[8] = 0x80;
  for (size_t at = 0; at < 6; at++) id.bytes[10 + at] = static_cast<uint8_t>(number >> (40 - 8 * at));
  return id;
}

std::string name_of(const char* what, int64_t number) { return what + std::to_string(number); }
std::string json_of(int64_t number) { return "{\"n\":" + std::to_string(number) + "}"; }
// A JSON string of that many bytes, at least its quotes.
std::string sized_json(int64_t size) {
  return '"' + std::string(static_cast<size_t>(std::clamp<int64_t>(size - 2, 0, 4096)), 'x') + '"';
}

}  // namespace

World::World(const Opener& opener, const Setup& setup)
    : opener_(opener),
      setup_(setup),
      clock_(std::make_shared<SteerableClock>(kBegin)),
      random_(std::make_shared<SeededRandom>(setup.seed)),
      model_(setup.limits, setup.events, setup.broken) {
  const StoreOptions options = how_to_open();
  stores_[0] = opener_(options, true);
  if (setup_.processes > 1) stores_[1] = opener_(options, false);
}

// ---- From operations to requests ------------------------------------------------------------------------------------

std::optional<TaskId> World::task(Ref ref) const {
  if (ref == kNone) return TaskId{};
  if (ref == kNonsense) return made_id(-9);
  const auto found = tasks_.find(ref);
  return found == tasks_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Claimed> World::claimed(Ref ref, Side side) const {
  if (ref == kNonsense) return Claimed{made_id(-9), 7, 1, 77};
  if ((ref == kOtherFence || ref == kOtherToken) && !runs_.empty()) {
    Claimed forged = runs_.rbegin()->second.claimed[side];
    if (ref == kOtherFence) forged.fence++;
    if (ref == kOtherToken) forged.token ^= uint64_t{1} << 60;
    return forged;
  }
  const auto found = runs_.find(ref);
  return found == runs_.end() ? std::nullopt : std::optional(found->second.claimed[side]);
}

std::optional<int64_t> World::place(Ref ref, Side side) const {
  if (ref == kNonsense) return 999;
  const auto found = places_.find(ref);
  if (found == places_.end() || found->second.crashed || found->second.paused) return std::nullopt;
  return found->second.number[side];
}

bool World::demand_submit(const Op& op, Side side, Demand& out) {
  Submit submit;
  const auto parent = task(op.at("parent"));
  if (!parent) return false;
  if (op.at("by") != kNone && op.at("again") == kNone) {
    submit.by = claimed(op.at("by"), side);
    if (!submit.by) return false;
  }
  if (op.at("again") != kNone) {
    const auto first = submissions_.find(op.at("again"));
    if (first == submissions_.end()) return false;
    submit.tasks.push_back(first->second);
    if (op.at("twist") != 0) submit.tasks.back().payload = json_of(-1);
    out = std::move(submit);
    return true;
  }
  for (int64_t at = 0; at < std::clamp<int64_t>(op.at("count"), 1, kPlaces); at++) {
    const Ref ref = op.label * kPlaces + at;
    Submission one;
    one.id = made_id(ref);
    one.type = kTypeNames[static_cast<size_t>(std::clamp<int64_t>(op.at("type"), 0, kTypes - 1))];
    one.payload = json_of(ref);
    one.priority = static_cast<int32_t>(op.at("priority"));
    one.own_priority = op.at("own") != 0;
    one.parent = submit.by ? submit.by->id : *parent;
    if (op.at("delay") != 0) one.run_after = now() + op.at("delay");
    one.max_attempts = static_cast<uint32_t>(std::clamp<int64_t>(op.at("attempts"), 0, 9));
    // Of several the last ones share a key, so that one call refuses some of its own.
    if (op.at("key") > 0) one.key = name_of("key", op.at("key") + (at == 0 ? 1 : 0));
    one.key_scope = static_cast<KeyScope>(std::clamp<int64_t>(op.at("scope"), 0, 2));
    submissions_[ref] = one;
    submit.tasks.push_back(std::move(one));
  }
  out = std::move(submit);
  return true;
}

bool World::demand_settle(const Op& op, Side side, Demand& out) {
  Settle settle;
  const auto by = claimed(op.at("by"), side);
  if (!by) return false;
  settle.by = *by;
  switch (op.kind) {
    case Kind::done:
      settle.outcome = Outcome::done;
      if (op.at("value") != 0) settle.result = json_of(op.at("value"));
      break;
    case Kind::fail:
      settle.outcome = Outcome::fail;
      settle.retry = static_cast<Retry>(std::clamp<int64_t>(op.at("retry"), 0, 2));
      settle.retry_after_ms = std::max<int64_t>(op.at("after"), 0);
      settle.failure.kind = "Kind";
      settle.failure.message = name_of("message ", op.at("value"));
      break;
    case Kind::suspend:
      settle.outcome = Outcome::suspend;
      settle.suspension.until = static_cast<Until>(std::clamp<int64_t>(op.at("until"), 1, 3));
      settle.suspension.need = static_cast<uint32_t>(std::clamp<int64_t>(op.at("need"), 0, 99));
      settle.suspension.wake_on_failure = op.at("failure") != 0;
      if (op.at("wake") != 0) settle.suspension.wake_at = now() + op.at("wake");
      if (settle.suspension.until != Until::tasks) break;
      for (const Ref ref : op.ids)
        if (const auto id = task(ref); id && !id->none()) settle.suspension.ids.push_back(*id);
      break;
    default:
      settle.outcome = Outcome::hand_back;
      break;
  }
  for (Op part : op.staged) {
    if (part.kind == Kind::state || part.kind == Kind::step || part.kind == Kind::submit || part.kind == Kind::notify ||
        part.kind == Kind::put)
      part.at("by") = op.at("by");
    Demand staged;
    if (!demand(part, side, staged)) continue;
    std::visit(
        [&](auto& request) {
          using Part = std::decay_t<decltype(request)>;
          if constexpr (std::is_constructible_v<Staged, Part>) settle.staged.emplace_back(std::move(request));
        },
        staged);
  }
  out = std::move(settle);
  return true;
}

bool World::demand(const Op& op, Side side, Demand& out) {
  const auto need_run = [&](auto& request) {
    const auto by = claimed(op.at("by"), side);
    if (by) request.by = *by;
    return by.has_value();
  };
  const auto finished = [&](auto request) {
    out = std::move(request);
    return true;
  };
  switch (op.kind) {
    case Kind::submit:
      return demand_submit(op, side, out);
    case Kind::notify: {
      const auto to = task(op.at("to")), from = task(op.at("from"));
      if (!to || to->none() || !from) return false;
      Notify notify{*to, *from, sized_json(op.at("size")), {}, {}};
      if (op.at("key") > 0) notify.key = name_of("note", op.at("key"));
      if (op.at("by") == kNone) return finished(std::move(notify));
      if (!need_run(notify)) return false;
      notify.from = notify.by->id;
      return finished(std::move(notify));
    }
    case Kind::state: {
      UpdateState update{{}, json_of(op.at("value"))};
      return need_run(update) && finished(std::move(update));
    }
    case Kind::step: {
      StepPut put{{}, name_of("step", op.at("name")), json_of(op.at("value"))};
      return need_run(put) && finished(std::move(put));
    }
    case Kind::put: {
      SharedPut put{{}, name_of("key", op.at("key")), json_of(op.at("value")), op.at("absent") != 0, {}, {}};
      const auto scope = op.at("scope") >= static_cast<int64_t>(kScopes) ? task(op.at("scope")) : std::nullopt;
      put.scope = scope ? nocter::tasks::to_text(*scope) : name_of("scope", op.at("scope"));
      scopes_.insert(put.scope);
      return (op.at("by") == kNone || need_run(put)) && finished(std::move(put));
    }
    case Kind::clear:
      return finished(SharedClear{name_of("scope", op.at("scope")), 0});
    case Kind::claim: {
      const auto node = place(op.at("node"), side);
      if (!node) return false;
      Claim claim;
      claim.node = *node;
      claim.number = op.label + 1;
      claim.most = static_cast<uint32_t>(std::clamp<int64_t>(op.at("most"), 1, kPlaces));
      for (size_t type = 0; type < kTypes; type++)
        if ((op.at("types") >> type & 1) != 0) claim.types.emplace_back(kTypeNames[type]);
      return finished(std::move(claim));
    }
    case Kind::done:
    case Kind::fail:
    case Kind::suspend:
    case Kind::hand_back:
      return demand_settle(op, side, out);
    case Kind::cancel:
    case Kind::hurry: {
      const auto id = task(op.at("task"));
      if (!id || id->none()) return false;
      return op.kind == Kind::cancel ? finished(Cancel{*id, 0, false}) : finished(Hurry{*id});
    }
    case Kind::acquire:
      return finished(LockAcquire{name_of("lock", op.at("name")), std::max<int64_t>(op.at("lease"), 1),
                                  static_cast<uint64_t>(op.at("token") + 10), 0, 0});
    case Kind::renew_lock:
      return finished(LockRenew{name_of("lock", op.at("name")), static_cast<uint64_t>(op.at("token") + 10),
                                std::max<int64_t>(op.at("lease"), 1), 0});
    case Kind::release:
      return finished(LockRelease{name_of("lock", op.at("name")), static_cast<uint64_t>(op.at("token") + 10)});
    case Kind::enter:
      return finished(
          Register{name_of("node", op.label), name_of("instance", op.label), std::max<int64_t>(op.at("lease"), 1), 0});
    case Kind::renew:
    case Kind::leave: {
      const auto node = place(op.at("node"), side);
      if (!node) return false;
      if (op.kind == Kind::leave) return finished(Leave{*node});
      return finished(Renew{*node, std::max<int64_t>(op.at("lease"), 1), {}});
    }
    case Kind::maintain: {
      Maintain maintain;
      // The dead one may have crashed: that is how one comes to be known as dead.
      if (const auto dead = places_.find(op.at("dead")); dead != places_.end())
        maintain.dead.push_back(dead->second.number[side]);
      if (op.at("purge") != 0) maintain.purge_before = now() - op.at("purge") + 1;
      if (op.at("events") != 0) maintain.events_before = now() - op.at("events") + 1;
      maintain.search_everything = op.at("search") != 0;
      return finished(std::move(maintain));
    }
    default:
      return false;
  }
}

// A paused process does nothing at all until it goes on.
bool World::asleep(const Op& op) const {
  Ref by = kNone;
  for (size_t at = 0; at < kMostArguments && shape(op.kind).arguments[at] != nullptr; at++)
    if (std::string(shape(op.kind).arguments[at]) == "by" && op.kind != Kind::advance) by = op.arguments[at];
  const auto run = runs_.find(by);
  if (run == runs_.end()) return false;
  const auto where = places_.find(run->second.node);
  return where != places_.end() && where->second.paused;
}

// ---- What is no request of a store ----------------------------------------------------------------------------------

bool World::play_by_hand(const Op& op, bool& done) {
  done = true;
  const auto where = op.kind == Kind::crash || op.kind == Kind::pause || op.kind == Kind::resume
                         ? places_.find(op.at("node"))
                         : places_.end();
  switch (op.kind) {
    case Kind::advance: {
      int64_t by = op.at("by");
      if (op.at("due") != 0 && model_.next_due() != kNever)
        by += std::max<int64_t>(model_.next_due() - clock_->now_ms(), 0);
      // With several processes each has its own knowledge of how far the clock had come.
      clock_->advance(setup_.processes > 1 ? std::max<int64_t>(by, 0) : by);
      if (op.at("keep") == 0) return true;
      for (const auto& [ref, place] : places_) {
        if (place.paused || place.crashed) continue;
        Op renew;
        renew.kind = Kind::renew;
        renew.at("node") = ref;
        renew.at("lease") = 15'000;
        if (!play(renew)) return false;
      }
      return true;
    }
    case Kind::crash:  // whoever ran there knows of nothing any more
      if (where == places_.end()) return true;
      where->second.crashed = true;
      std::erase_if(runs_, [&](const auto& run) { return run.second.node == op.at("node"); });
      return true;
    case Kind::pause:
    case Kind::resume:
      if (where != places_.end()) where->second.paused = op.kind == Kind::pause;
      return true;
    case Kind::reopen: {
      if (!setup_.lasting) return true;
      // A process that ends may forget a little of how far the clock had come; that is not what is looked at here.
      clock_->advance(std::max<int64_t>(model_.now() - clock_->now_ms(), 0));
      // What was under way to it ends with the process.
      std::erase_if(late_, [&](const Late& late) { return late.request.op.label % setup_.processes == turn_; });
      stores_[turn_].reset();
      stores_[turn_] = opener_(how_to_open(), false);
      model_.see(clock_->now_ms());
      if (store().now() != model_.now()) return say("CLK-02: it is another time after a reopen");
      return same_everything();
    }
    case Kind::list: {
      Filter filter;
      const auto parent = task(op.at("parent")), root = task(op.at("root")), after = task(op.at("after"));
      if (!parent || !root || !after) return true;
      if (op.at("type") > 0) filter.type = kTypeNames[static_cast<size_t>(op.at("type") - 1) % kTypes];
      if (op.at("status") > 0) filter.status = static_cast<TaskStatus>(std::min<int64_t>(op.at("status"), 6));
      filter.parent = *parent;
      filter.root = *root;
      filter.after = *after;
      if (op.at("before") != 0) filter.created_before = now() - op.at("before");
      filter.roots_only = op.at("roots") != 0;
      filter.most = static_cast<size_t>(std::clamp<int64_t>(op.at("most"), 1, 100));
      return same_list(filter);
    }
    default:
      done = false;
      return true;
  }
}

// ---- Carrying out ---------------------------------------------------------------------------------------------------

bool World::play(const Op& op) {
  if (op.fault == Fault::lost_request || asleep(op)) return true;
  turn_ = op.label % setup_.processes;
  bool done = false;
  if (!play_by_hand(op, done)) return false;
  if (done) return true;
  Pending request{op, {}, {}};
  if (!demand(op, kStore, request.store.demand) || !demand(op, kModel, request.model)) return true;
  const bool upkeep = op.kind == Kind::maintain || op.kind == Kind::cancel;
  if (upkeep && !joined_.empty() && !execute(joined_)) return false;
  joined_.push_back(request);
  if (op.joined && !upkeep && joined_.size() < 8) return true;
  const bool alone = joined_.size() == 1;
  if (!execute(joined_)) return false;
  if (alone && op.fault == Fault::lost_reply && !repeat(request, settles(op.kind) || op.kind == Kind::claim))
    return false;
  if (alone && op.fault == Fault::late_duplicate)
    late_.push_back({request, std::max<int64_t>(op.later, 1), last_status_});
  if (!deliver_late()) return false;
  return ++played_ % 8 != 0 || same_everything();
}

bool World::execute(std::vector<Pending>& batch) {
  std::vector<Request*> requests;
  for (Pending& request : batch) requests.push_back(&request.store);
  Effects effects;
  if (batch.size() == 1 && batch[0].op.kind == Kind::maintain && !same_events()) return false;
  store().execute(requests, effects);
  Told told;
  std::vector<Pending> finished;
  finished.swap(batch);
  for (Pending& request : finished) {
    const Answer answer = apply(request.model, told);
    if (!go_on_with_upkeep(request, effects, told) || !same_answers(request, answer)) {
      failure_ += "\nat: " + to_text({request.op});
      return false;
    }
    last_status_ = answer.status;
    keep(request);
  }
  if (!adopt_drawn() || !same_effects(effects, told)) {
    failure_ += "\nat: " + to_text({finished.back().op});
    return false;
  }
  return true;
}

Answer World::apply(Demand& demand, Told& told) {
  const Answer answer = model_.apply(demand, clock_->now_ms());
  told.ended.insert(model_.ended_now().begin(), model_.ended_now().end());
  told.asked.insert(model_.asked_now().begin(), model_.asked_now().end());
  told.ready.insert(model_.ready_now().begin(), model_.ready_now().end());
  return answer;
}

// Upkeep, and a cancel of many, come in bounded pieces: the model does all of it at once.
bool World::go_on_with_upkeep(Pending& request, Effects& effects, Told& told) {
  Maintain* first = std::get_if<Maintain>(&request.store.demand);
  const Cancel* cancel = std::get_if<Cancel>(&request.store.demand);
  bool more = first != nullptr ? first->more : cancel != nullptr && cancel->more;
  for (int times = 0; more; times++) {
    if (times == 200) return say("upkeep has more to do for ever");
    Request next{Maintain{}, {}};
    Maintain& again = std::get<Maintain>(next.demand);
    if (first != nullptr) {
      again.purge_before = first->purge_before;
      again.events_before = first->events_before;
      again.search_everything = first->search_everything;
    }
    Request* batch[] = {&next};
    Effects further;
    store().execute(batch, further);
    if (next.answer.status != Status::ok) return say("a further piece of upkeep says " + next.answer.message);
    more = again.more;
    effects.ended.insert(effects.ended.end(), further.ended.begin(), further.ended.end());
    effects.cancelled.insert(effects.cancelled.end(), further.cancelled.begin(), further.cancelled.end());
    effects.ready.insert(effects.ready.end(), further.ready.begin(), further.ready.end());
    if (first == nullptr) {
      Demand same = Maintain{};
      apply(same, told);
      continue;
    }
    first->rescued += again.rescued;
    first->repaired += again.repaired;
    first->purged += again.purged;
    first->purged_events += again.purged_events;
  }
  return true;
}

// DUR-04, DUR-05: an outcome or a claim that comes again is answered as before, and changes nothing.
bool World::repeat(Pending request, bool must_be_idle) {
  const std::string before = must_be_idle ? digest(model_) : std::string();
  std::vector<Pending> batch = {request};
  if (!execute(batch)) return false;
  if (must_be_idle && digest(model_) != before) return say("what came twice has changed something");
  return !must_be_idle || same_everything();
}

bool World::deliver_late() {
  for (size_t at = 0; at < late_.size();) {
    if (--late_[at].after > 0) {
      at++;
      continue;
    }
    Pending request = std::move(late_[at].request);
    const Status told = late_[at].status;
    const bool refused = told != Status::ok && told != Status::cancelled && told != Status::lease_lost;
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(at));
    // An outcome that was refused has left the run with its caller, for whom it may still be one.
    bool idle = request.op.kind == Kind::claim || (settles(request.op.kind) && !refused);
    if (const Submit* submit = std::get_if<Submit>(&request.model)) {
      idle = submit->by == std::nullopt;
      for (const Submission& one : submit->tasks) idle &= one.key.empty() && model_.find(one.id) != nullptr;
    }
    // A claim that was given nothing has no answer that a repeat could be given, so nobody repeats it.
    if (const Claim* claim = std::get_if<Claim>(&request.model); claim != nullptr && !model_.knows(claim->number))
      continue;
    turn_ = request.op.label % setup_.processes;
    if (!repeat(std::move(request), idle)) {
      failure_ += "\nwhich came once more, late";
      return false;
    }
  }
  return true;
}

bool World::adopt_drawn() {
  for (const TaskId& id : model_.drawn()) {
    Record record;
    const Answer answer = store().get(id, record);
    if (answer.status != Status::ok) return say("a task that is tried again is not there");
    if (!model_.adopt(id, record.row.phase, record.row.due_at))
      return say("TSK-15: a retry is due at " + std::to_string(record.row.due_at - now()) + " from now, out of bounds");
  }
  return true;
}

// What later operations may name.
void World::keep(const Pending& request) {
  const Op& op = request.op;
  if (const Submit* submit = std::get_if<Submit>(&request.store.demand)) {
    if (op.at("again") != kNone || static_cast<int>(request.store.answer.status) < 0) return;
    for (size_t at = 0; at < submit->ids.size(); at++)
      tasks_[op.label * kPlaces + static_cast<Ref>(at)] = submit->ids[at];
  } else if (const Settle* settle = std::get_if<Settle>(&request.store.demand)) {
    if (static_cast<int>(request.store.answer.status) != 0) return;
    size_t at = 0;
    for (const Op& part : op.staged) {
      if (part.kind != Kind::submit) continue;
      while (at < settle->staged.size() && !std::holds_alternative<Submit>(settle->staged[at])) at++;
      if (at == settle->staged.size()) return;
      const Submit& staged = std::get<Submit>(settle->staged[at++]);
      for (size_t place = 0; place < staged.tasks.size(); place++)
        tasks_[part.label * kPlaces + static_cast<Ref>(place)] = staged.tasks[place].id;
    }
  } else if (const Claim* claim = std::get_if<Claim>(&request.store.demand)) {
    const Claim& models = std::get<Claim>(request.model);
    for (size_t at = 0; at < claim->tasks.size() && at < kPlaces; at++)
      runs_[op.label * kPlaces + static_cast<Ref>(at)] = {
          claim->tasks[at].claimed.id, {claim->tasks[at].claimed, models.tasks[at].claimed}, op.at("node")};
  } else if (const Register* enter = std::get_if<Register>(&request.store.demand)) {
    places_.emplace(op.label * kPlaces, Place{{enter->node, std::get<Register>(request.model).node}, false, false});
  }
}

// ---- The end --------------------------------------------------------------------------------------------------------

bool World::finish() {
  uint32_t label = 1'000'000;
  const auto make = [&](Kind kind) {
    Op op;
    op.kind = kind;
    op.label = label++;
    return op;
  };
  if (!joined_.empty() && !execute(joined_)) return false;
  late_.clear();
  for (const auto& [ref, about] : std::map(places_)) {
    Op dead = make(Kind::maintain);
    dead.at("dead") = ref;
    if (!play(dead)) return false;
  }
  Op lapse = make(Kind::advance);  // also of what registered and was never heard of
  lapse.at("by") = 100'000;
  const Op enter = make(Kind::enter);
  if (!play(lapse) || !play(make(Kind::maintain)) || !play(enter)) return false;
  runs_.clear();
  for (int rounds = 0;; rounds++) {
    if (rounds == 1'000) return say("I-14: tasks are left that do not end");
    Op advance = make(Kind::advance);
    advance.at("due") = 1;
    Op renew = make(Kind::renew);
    renew.at("node") = enter.label * kPlaces;
    renew.at("lease") = 1'000'000;
    Op claim = make(Kind::claim);
    claim.at("node") = enter.label * kPlaces;
    claim.at("most") = kPlaces;
    if (!play(advance) || !play(renew) || !play(claim)) return false;
    const auto got = std::map(runs_);
    for (const auto& [ref, run] : got) {
      Op done = make(Kind::done);
      done.at("by") = ref;
      done.at("value") = 1;
      if (!play(done)) return false;
    }
    runs_.clear();
    if (!got.empty()) continue;
    const Task* open = nullptr;
    for (const auto& [number, task] : model_.tasks())
      if (!ended(task.phase) && open == nullptr) open = &task;
    if (open == nullptr) break;
    if (model_.next_due() != kNever && rounds < 500) continue;
    const Ref ref = label++ * kPlaces;
    tasks_[ref] = open->id;
    Op cancel = make(Kind::cancel);
    cancel.at("task") = ref;
    if (!play(cancel)) return false;
  }
  if (!same_everything()) return false;
  Op purge = make(Kind::maintain);
  purge.at("purge") = -1;  // also what ended just now
  if (!play(purge) || !same_everything()) return false;
  return model_.tasks().empty() || say("TSK-23: something is left behind a purge of everything");
}

}  // namespace tasks_model
