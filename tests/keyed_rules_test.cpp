// The pure life of a key, walked whole: every pair of state and event against a table of our own, and every reachable state of a small
// queue with the invariants and the identities of its counts.
#include <nocter.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nocter/keyed_rules.hpp"
#include "nocter/keyed_timers.hpp"
#include "support/fixture.hpp"

using namespace nocter_tests;
using nocter::Status;
using nocter::keyed::Backoff;
using nocter::keyed::KeyEvent;
using nocter::keyed::KeyState;
using nocter::keyed::Step;

namespace {

using S = KeyState;
using E = KeyEvent;

constexpr std::array kStates = {S::absent, S::waiting, S::delayed, S::active, S::active_dirty, S::active_delayed};
constexpr std::array kEvents = {E::notify,   E::notify_later, E::due,   E::start,
                                E::complete, E::fail,         E::retry, E::discard};
static_assert(kStates.size() == nocter::keyed::kKeyStates && kEvents.size() == nocter::keyed::kKeyEvents);

// The contract, written down a second time: what is not in here must change nothing.
struct Row {
  S from;
  E event;
  S next;
  Status status;
};
constexpr Row kAllowed[] = {
    {S::absent, E::notify, S::waiting, Status::ok},
    {S::absent, E::notify_later, S::delayed, Status::ok},
    {S::waiting, E::notify, S::waiting, Status::coalesced},
    {S::waiting, E::notify_later, S::waiting, Status::coalesced},
    {S::waiting, E::start, S::active, Status::ok},
    {S::waiting, E::discard, S::absent, Status::ok},
    {S::delayed, E::notify, S::waiting, Status::coalesced},
    {S::delayed, E::notify_later, S::delayed, Status::coalesced},
    {S::delayed, E::due, S::waiting, Status::ok},
    {S::delayed, E::discard, S::absent, Status::ok},
    {S::active, E::notify, S::active_dirty, Status::ok},
    {S::active, E::notify_later, S::active_delayed, Status::ok},
    {S::active, E::complete, S::absent, Status::ok},
    {S::active, E::fail, S::absent, Status::ok},
    {S::active, E::retry, S::delayed, Status::ok},
    {S::active, E::discard, S::active, Status::ok},
    {S::active_dirty, E::notify, S::active_dirty, Status::coalesced},
    {S::active_dirty, E::notify_later, S::active_dirty, Status::coalesced},
    {S::active_dirty, E::complete, S::waiting, Status::ok},
    {S::active_dirty, E::fail, S::waiting, Status::ok},
    {S::active_dirty, E::retry, S::waiting, Status::ok},
    {S::active_dirty, E::discard, S::active, Status::ok},
    {S::active_delayed, E::notify, S::active_dirty, Status::coalesced},
    {S::active_delayed, E::notify_later, S::active_delayed, Status::coalesced},
    {S::active_delayed, E::due, S::active_dirty, Status::ok},
    {S::active_delayed, E::complete, S::delayed, Status::ok},
    {S::active_delayed, E::fail, S::delayed, Status::ok},
    {S::active_delayed, E::retry, S::delayed, Status::ok},
    {S::active_delayed, E::discard, S::active, Status::ok},
};

const Row* allowed(S from, E event) {
  for (const Row& row : kAllowed) {
    if (row.from == from && row.event == event) return &row;
  }
  return nullptr;
}

// ---- A small queue made of the rules ------------------------------------------------------------------------------------

constexpr size_t kKeys = 3;       // there are, of which
constexpr size_t kMaximum = 2;    // may be retained
constexpr uint32_t kWorkers = 1;  // at most that many passes

struct Model {
  bool closed = false;
  std::array<S, kKeys> keys = {S::absent, S::absent, S::absent};
  std::vector<size_t> order;  // of those that wait
  // A notification was accepted and no pass has started since: per key.
  std::array<bool, kKeys> owed = {};
  auto operator<=>(const Model&) const = default;

  size_t in(S state) const { return static_cast<size_t>(std::count(keys.begin(), keys.end(), state)); }
  size_t retained() const { return kKeys - in(S::absent); }
  size_t active() const { return in(S::active) + in(S::active_dirty) + in(S::active_delayed); }
  size_t dirty() const { return in(S::active_dirty) + in(S::active_delayed); }
};

// How often each was counted, move by move.
struct Totals {
  int accepted_new = 0, marked = 0, requeued = 0, retried = 0, started = 0, ended = 0, discarded_waiting = 0,
      discarded_dirty = 0;
};

void check_invariants(const Model& model) {
  HOLDS(model.retained() <= kMaximum);
  HOLDS(model.active() <= kWorkers);
  HOLDS(model.order.size() == model.in(S::waiting));
  for (const size_t key : model.order) {
    HOLDS(model.keys[key] == S::waiting);
    HOLDS(std::count(model.order.begin(), model.order.end(), key) == 1);
  }
  // Freshness: what is owed a pass is where one will come from.
  for (size_t key = 0; key < kKeys; key++) {
    if (model.owed[key]) HOLDS(model.keys[key] != S::absent && model.keys[key] != S::active);
  }
}

// One event on one key; nothing when the rules, or the bounds, refuse it.
bool apply(Model& model, size_t key, E event, Totals& totals) {
  const S from = model.keys[key];
  const bool notifies = event == E::notify || event == E::notify_later;
  if (notifies && (model.closed || (from == S::absent && model.retained() == kMaximum))) return false;
  if (event == E::start && (model.order.empty() || model.order.front() != key || model.active() == kWorkers)) {
    return false;
  }
  if (event == E::retry && model.closed) event = E::fail;
  const Step step = nocter::keyed::step(from, event);
  if (!step.allowed()) return false;
  model.keys[key] = step.next;
  if (from == S::waiting && step.next != S::waiting) std::erase(model.order, key);
  if (from != S::waiting && step.next == S::waiting) model.order.push_back(key);
  if (notifies) {
    model.owed[key] = true;
    totals.accepted_new += from == S::absent ? 1 : 0;
    totals.marked += from == S::active ? 1 : 0;
    HOLDS((step.status == Status::ok) == (from == S::absent || from == S::active));
  }
  if (event == E::start) {
    model.owed[key] = false;
    totals.started++;
  }
  if (nocter::keyed::ends_pass(event)) {
    totals.ended++;
    if (nocter::keyed::dirty(from)) {
      totals.requeued++;
    } else if (event == E::retry) {
      totals.retried++;
    }
  }
  if (event == E::discard) {
    model.owed[key] = false;
    totals.discarded_waiting += step.next == S::absent ? 1 : 0;
    totals.discarded_dirty += nocter::keyed::dirty(from) ? 1 : 0;
  }
  return true;
}

std::vector<std::pair<Model, Totals>> successors(const Model& model) {
  std::vector<std::pair<Model, Totals>> list;
  for (size_t key = 0; key < kKeys; key++) {
    for (const E event : {E::notify, E::notify_later, E::due, E::start, E::complete, E::fail, E::retry}) {
      Model next = model;
      Totals totals;
      if (apply(next, key, event, totals)) list.emplace_back(next, totals);
    }
  }
  // Closing by draining brings what is delayed forward; closing by discarding may follow.
  for (const E event : {E::due, E::discard}) {
    Model next = model;
    Totals totals;
    next.closed = true;
    for (size_t key = 0; key < kKeys; key++) apply(next, key, event, totals);
    list.emplace_back(next, totals);
  }
  return list;
}

std::set<Model> walk() {
  std::set<Model> seen = {Model{}};
  std::deque<Model> ahead = {Model{}};
  while (!ahead.empty()) {
    const Model model = ahead.front();
    ahead.pop_front();
    check_invariants(model);
    for (const auto& successor : successors(model)) {
      const auto& next = successor.first;  // no structured binding: a lambda cannot capture one in clang 14
      const auto& t = successor.second;
      // The identities, move by move.
      const auto grown = [&](auto what) { return static_cast<int>(what(next)) - static_cast<int>(what(model)); };
      HOLDS(t.started == t.ended + grown([](const Model& m) { return m.active(); }));
      HOLDS(t.accepted_new + t.requeued + t.retried == t.started + grown([](const Model& m) {
                                                         return m.in(S::waiting) + m.in(S::delayed);
                                                       }) + t.discarded_waiting);
      HOLDS(t.marked == t.requeued + grown([](const Model& m) { return m.dirty(); }) + t.discarded_dirty);
      if (seen.insert(next).second) ahead.push_back(next);
    }
  }
  return seen;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_rules_suite, EveryTest)

BOOST_AUTO_TEST_CASE(key_03_every_pair_is_in_the_table_or_changes_nothing, *label("KEY-03") * label("GEN-06")) {
  int pairs = 0;
  for (const S from : kStates) {
    for (const E event : kEvents) {
      BOOST_TEST_CONTEXT("state " << static_cast<int>(from) << ", event " << static_cast<int>(event)) {
        const Step step = nocter::keyed::step(from, event);
        const Row* const row = allowed(from, event);
        BOOST_CHECK_EQUAL(step.allowed(), row != nullptr);
        BOOST_CHECK(step.next == (row != nullptr ? row->next : from));
        BOOST_CHECK(step.status == (row != nullptr ? row->status : Status::state));
        pairs += row != nullptr ? 1 : 0;
      }
    }
  }
  BOOST_CHECK_EQUAL(pairs, 29);
}

BOOST_AUTO_TEST_CASE(key_03_a_state_out_of_range_changes_nothing, *label("KEY-03") * label("GEN-06")) {
  for (const int number : {6, 7, 100, 255}) {
    for (const E event : kEvents) BOOST_CHECK(!nocter::keyed::step(static_cast<S>(number), event).allowed());
  }
}

BOOST_AUTO_TEST_CASE(key_06_no_end_of_a_pass_loses_a_notification_that_came_during_it_k_9,
                     *label("KEY-06") * label("KEY-03")) {
  for (const E end : {E::complete, E::fail, E::retry}) {
    BOOST_CHECK(nocter::keyed::step(S::active_dirty, end).next == S::waiting);
    BOOST_CHECK(nocter::keyed::step(S::active_delayed, end).next == S::delayed);
    BOOST_CHECK(!nocter::keyed::has_pass(nocter::keyed::step(S::active, end).next));
  }
}

BOOST_AUTO_TEST_CASE(key_02_every_reachable_state_of_a_small_queue_keeps_invariants_and_identities,
                     *label("KEY-02") * label("KEY-03") * label("KEY-05") * label("GEN-12")) {
  const std::set<Model> seen = walk();
  BOOST_TEST_MESSAGE(seen.size() << " states");
  BOOST_CHECK_GT(seen.size(), 200u);
  // Each state of a key comes up with each of another one that the bounds allow.
  std::set<std::pair<S, S>> together;
  for (const Model& model : seen) together.insert({model.keys[0], model.keys[1]});
  for (const S a : kStates) {
    for (const S b : kStates) {
      const bool two_passes = nocter::keyed::has_pass(a) && nocter::keyed::has_pass(b);
      BOOST_CHECK_EQUAL(together.contains({a, b}), !two_passes);
    }
  }
}

BOOST_AUTO_TEST_CASE(key_08_from_every_reachable_state_the_queue_can_be_drained_in_both_ways, *label("KEY-08")) {
  for (const Model& start : walk()) {
    for (const bool discard : {true, false}) {
      Model model = start;
      Totals totals;
      model.closed = true;
      const std::array<bool, kKeys> owed = model.owed;
      for (size_t key = 0; key < kKeys; key++) apply(model, key, discard ? E::discard : E::due, totals);
      std::array<int, kKeys> passes = {};
      for (int turns = 0; model.retained() != 0 && turns < 100; turns++) {
        for (size_t key = 0; key < kKeys; key++) {
          apply(model, key, E::fail, totals);
          if (apply(model, key, E::start, totals)) passes[key]++;
        }
      }
      HOLDS(model.retained() == 0);
      for (size_t key = 0; key < kKeys; key++) HOLDS(passes[key] == 0 ? discard || !owed[key] : !discard);
    }
  }
}

BOOST_AUTO_TEST_CASE(key_06_backoff_doubles_per_failure_up_to_its_maximum_scenario_68_69, *label("KEY-06")) {
  const Backoff doubling{1'000'000, 1'000'000'000, 200, 0};
  int64_t expected = 1'000'000;
  for (uint32_t failures = 1; failures <= 10; failures++, expected *= 2) {
    BOOST_CHECK_EQUAL(doubling.delay_after(failures, 0), expected);
  }
  for (const uint32_t failures : {11u, 1000u, UINT32_MAX}) {
    BOOST_CHECK_EQUAL(doubling.delay_after(failures, 0), 1'000'000'000);
  }
  const Backoff longest{1, INT64_MAX, 10'000, 0};
  BOOST_CHECK_EQUAL(longest.delay_after(1000, 0), INT64_MAX);
  const Backoff constant{5, 1000, 100, 0};
  BOOST_CHECK_EQUAL(constant.delay_after(UINT32_MAX, 0), 5);
  const Backoff none{0, 1000, 200, 50};
  BOOST_CHECK_EQUAL(none.delay_after(UINT32_MAX, 7), 0);
}

BOOST_AUTO_TEST_CASE(key_06_jitter_takes_off_at_most_its_share_and_spreads, *label("KEY-06")) {
  const Backoff backoff{1'000'000, 1'000'000'000, 200, 25};
  auto random = random_stream(1);
  std::set<int64_t> delays;
  for (int i = 0; i < 1000; i++) {
    const int64_t delay = backoff.delay_after(3, random());
    BOOST_CHECK_LE(delay, 4'000'000);
    BOOST_CHECK_GE(delay, 3'000'000);
    delays.insert(delay);
  }
  BOOST_CHECK_GT(delays.size(), 900u);
  BOOST_CHECK_EQUAL(backoff.delay_after(3, 0), 4'000'000);
  const Backoff all{1'000'000, 1'000'000'000, 200, 100};
  BOOST_CHECK_LT(all.delay_after(1, UINT64_MAX), 10);
  BOOST_CHECK_GE(all.delay_after(1, UINT64_MAX), 0);
}

BOOST_AUTO_TEST_CASE(key_06_a_time_too_far_for_the_clock_never_comes, *label("KEY-06")) {
  BOOST_CHECK_EQUAL(nocter::keyed::later(1000, INT64_MAX), INT64_MAX);
  BOOST_CHECK_EQUAL(nocter::keyed::later(1000, INT64_MAX - 1000), INT64_MAX);
  BOOST_CHECK_EQUAL(nocter::keyed::later(1000, 5), 1005);
}

BOOST_AUTO_TEST_SUITE_END()
