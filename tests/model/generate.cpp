#include "model/generate.hpp"

#include <algorithm>

namespace tasks_model {

using namespace nocter::tasks;

namespace {

// How often each kind is drawn, in the order of the kinds: so that no status holds more than 60 of 100 tasks.
constexpr uint64_t kWeights[kKinds] = {
    10,  // submit
    7,   // notify
    2,   // state
    3,   // step
    3,   // put
    1,   // clear
    22,  // claim
    8,   // done
    6,   // fail
    22,  // suspend
    2,   // hand_back
    2,   // cancel
    1,   // hurry
    3,   // acquire
    1,   // renew_lock
    1,   // release
    2,   // enter
    1,   // renew
    1,   // leave
    4,   // maintain
    10,  // advance
    1,   // crash
    1,   // pause
    2,   // resume
    1,   // reopen
    1,   // list
};

template <class Container>
const typename Container::value_type* pick(const Container& container, uint64_t at) {
  return container.empty() ? nullptr
                           : &*std::next(container.begin(), static_cast<std::ptrdiff_t>(at % container.size()));
}

}  // namespace

Kind Generator::kind() {
  uint64_t total = 0;
  for (const uint64_t weight : kWeights) total += weight;
  uint64_t drawn = below(total);
  size_t kind = 0;
  while (drawn >= kWeights[kind]) drawn -= kWeights[kind++];
  return static_cast<Kind>(kind);
}

Ref Generator::live_task() {
  std::vector<Ref> live;
  for (const auto& [ref, id] : world_.tasks())
    if (const Task* task = world_.model().find(id); task != nullptr && !ended(task->phase)) live.push_back(ref);
  const Ref* chosen = pick(live, random_());
  return chosen == nullptr ? kNonsense : *chosen;
}

Ref Generator::any_task() {
  if (chance(85)) return live_task();
  if (chance(30)) return kNonsense;
  const auto* chosen = pick(world_.tasks(), random_());
  return chosen == nullptr ? kNonsense : chosen->first;
}

Ref Generator::run() {
  std::vector<Ref> current, stale;
  for (const auto& [ref, run] : world_.runs())
    (world_.model().current(run.claimed[World::kModel]) ? current : stale).push_back(ref);
  const bool old = chance(15) || current.empty();
  const Ref* chosen = pick(old ? stale : current, random_());
  return chosen == nullptr || chance(4) ? between(kOtherToken, kNonsense) : *chosen;
}

Ref Generator::node() {
  std::vector<Ref> awake;
  for (const auto& [ref, place] : world_.places())
    if (!place.paused && !place.crashed) awake.push_back(ref);
  // Mostly the one that came last: the others have often been declared dead.
  const Ref* chosen = awake.empty() ? nullptr : chance(70) ? &awake.back() : pick(awake, random_());
  return chosen == nullptr || chance(1) ? kNonsense : *chosen;
}

Op Generator::make(Kind kind) {
  Op op;
  op.kind = kind;
  op.label = label_++;
  return op;
}

void Generator::fill_submit(Op& op) {
  op.at("count") = chance(70) ? 1 : between(2, 5);
  op.at("type") = between(0, kTypes - 1);
  op.at("priority") = chance(50) ? 0 : between(-1, 2);
  op.at("own") = chance(20);
  op.at("parent") = chance(45) ? kNone : any_task();
  op.at("delay") = chance(80) ? 0 : between(-5, 40) * 50;
  op.at("attempts") = between(0, 3);
  op.at("key") = chance(70) ? 0 : between(1, kKeys);
  op.at("scope") = between(0, 2);
  op.at("by") = chance(40) ? run() : kNone;
  op.at("again") = kNone;
  if (chance(6)) {
    if (const auto* chosen = pick(world_.tasks(), random_()); chosen != nullptr) op.at("again") = chosen->first;
    op.at("twist") = chance(30);
  }
}

void Generator::fill_suspend(Op& op) {
  op.at("by") = run();
  op.at("until") = between(1, 3);
  // Mostly on children where there are some: on none a task goes on at once.
  if (const auto at = world_.runs().find(op.at("by")); at != world_.runs().end() && chance(60)) {
    const auto& tasks = world_.model().tasks();
    const Number number = at->second.claimed[World::kModel].number;
    if (std::any_of(tasks.begin(), tasks.end(), [&](const auto& one) { return one.second.parent == number; }))
      op.at("until") = static_cast<int64_t>(Until::children);
  }
  op.at("need") = chance(50) ? 0 : between(1, 3);
  op.at("failure") = chance(40);
  op.at("wake") = chance(60) ? 0 : between(-2, 30) * 100;
  if (op.at("until") != static_cast<int64_t>(Until::tasks)) return;
  const int64_t count = (chance(10) ? 0 : between(1, 3)) + (chance(4) ? 6 : 0);
  for (int64_t at = 0; at < count; at++) op.ids.push_back(chance(20) ? any_task() : live_task());
}

// The parts of an atomic round.
void Generator::stage(Op& op) {
  constexpr Kind kParts[] = {Kind::submit, Kind::notify, Kind::state, Kind::step, Kind::put};
  const int64_t count = between(1, 4);
  for (int64_t at = 0; at < count; at++) {
    Op part = make(kParts[below(std::size(kParts))]);
    fill(part);
    part.fault = Fault::none;
    if (part.kind == Kind::submit) part.at("again") = kNone;
    op.staged.push_back(part);
  }
}

void Generator::fill(Op& op) {
  switch (op.kind) {
    case Kind::submit:
      return fill_submit(op);
    case Kind::suspend:
      return fill_suspend(op);
    case Kind::notify:
      op.at("to") = any_task();
      op.at("from") = chance(50) ? kNone : any_task();
      op.at("by") = chance(30) ? run() : kNone;
      op.at("size") = chance(80) ? between(2, 30) : between(30, 60);
      op.at("key") = chance(70) ? 0 : between(1, 2);
      return;
    case Kind::state:
    case Kind::step:
    case Kind::done:
      op.at("by") = run();
      op.at("value") = between(0, 9);
      if (op.kind == Kind::step) op.at("name") = between(0, kNames - 1);
      return;
    case Kind::hand_back:
      op.at("by") = run();
      return;
    case Kind::fail:
      op.at("by") = run();
      op.at("retry") = chance(60) ? 0 : between(1, 2);
      op.at("after") = between(0, 20) * 50;
      op.at("value") = between(0, 9);
      return;
    case Kind::put: {
      Ref tree = any_task();  // mostly a root: what its tree shares goes when it goes
      for (const auto& [ref, id] : world_.tasks())
        if (const Task* task = world_.model().find(id); task != nullptr && task->parent == 0 && chance(20)) tree = ref;
      op.at("scope") = chance(50) && tree > 0 ? tree : between(0, kScopes - 1);
      op.at("key") = between(0, kKeys - 1);
      op.at("value") = between(0, 99);
      op.at("absent") = chance(60);
      op.at("by") = chance(40) ? run() : kNone;
      return;
    }
    case Kind::clear:
      op.at("scope") = between(0, kScopes - 1);
      return;
    case Kind::claim:
      op.at("node") = node();
      op.at("types") = chance(60) ? 0 : between(1, (1 << kTypes) - 1);
      op.at("most") = chance(60) ? between(1, 2) : between(3, kPlaces);
      return;
    case Kind::cancel:
    case Kind::hurry:
      op.at("task") = any_task();
      return;
    case Kind::acquire:
    case Kind::renew_lock:
    case Kind::release:
      op.at("name") = between(0, 1);
      op.at("token") = between(0, 2);
      if (op.kind != Kind::release) op.at("lease") = between(1, 30) * 100;
      return;
    case Kind::enter:
      op.at("lease") = chance(70) ? 15'000 : between(1, 20) * 100;
      return;
    case Kind::renew:
      op.at("node") = node();
      op.at("lease") = chance(70) ? 15'000 : between(1, 20) * 100;
      return;
    case Kind::leave:
      op.at("node") = node();
      return;
    case Kind::maintain:
      op.at("dead") = kNone;
      if (chance(20)) {
        if (const auto* chosen = pick(world_.places(), random_()); chosen != nullptr) op.at("dead") = chosen->first;
      }
      op.at("purge") = chance(50) ? 0 : between(1, 20) * 100;
      op.at("events") = chance(80) ? 0 : between(1, 50) * 100;
      op.at("search") = chance(20);
      return;
    case Kind::advance:
      op.at("due") = chance(40);
      op.at("by") = op.at("due") != 0 ? between(-1, 1) : chance(70) ? between(0, 10) * 50 : between(-20, 200) * 100;
      op.at("keep") = chance(80);
      return;
    case Kind::crash:
    case Kind::pause:
      op.at("node") = node();
      return;
    case Kind::resume:
      op.at("node") = kNonsense;
      for (const auto& [ref, place] : world_.places())
        if (place.paused) op.at("node") = ref;
      return;
    case Kind::reopen:
      return;
    case Kind::list:
      op.at("type") = chance(50) ? 0 : between(1, kTypes);
      op.at("status") = chance(50) ? 0 : between(1, 6);
      op.at("parent") = chance(70) ? kNone : any_task();
      op.at("root") = chance(70) ? kNone : any_task();
      op.at("roots") = chance(20);
      op.at("after") = chance(60) ? kNone : any_task();
      op.at("before") = chance(70) ? 0 : between(1, 20) * 100;
      op.at("most") = chance(50) ? 100 : between(1, 4);
      return;
  }
}

Op Generator::next() {
  const bool nobody = std::none_of(world_.places().begin(), world_.places().end(),
                                   [](const auto& at) { return !at.second.paused && !at.second.crashed; });
  Op op = make(nobody && chance(60) ? Kind::enter : kind());
  fill(op);
  if (settles(op.kind) && op.kind != Kind::hand_back && chance(20)) stage(op);
  const bool request = op.kind < Kind::advance;
  if (request && chance(12)) {
    op.fault = static_cast<Fault>(between(1, 3));
    if (op.fault == Fault::late_duplicate) op.later = between(1, 10);
  } else if (request && op.kind != Kind::fail && chance(15)) {
    op.joined = true;  // what it draws for a retry is read before the next request, so a failure ends a batch
  }
  return op;
}

}  // namespace tasks_model
