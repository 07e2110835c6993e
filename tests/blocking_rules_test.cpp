// The pure life of a job, walked whole: every pair of state and event against a table of our own, every reachable state of
// a small service, and every short sequence of calls on the real service beside the model.
#include <nocter.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "nocter/blocking_rules.hpp"
#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;
using nocter::Status;
using nocter::blocking::Goes;
using nocter::blocking::JobEvent;
using nocter::blocking::JobState;
using nocter::blocking::Step;

namespace {

using S = JobState;
using E = JobEvent;

constexpr std::array kStates = {S::free, S::queued, S::running, S::abandoned, S::completed};
constexpr std::array kEvents = {E::submit, E::claim, E::complete, E::lose, E::take, E::cancel, E::shut_down};
static_assert(kStates.size() == nocter::blocking::kJobStates && kEvents.size() == nocter::blocking::kJobEvents);

// The contract, written down a second time: what is not in here must authorise nothing.
struct Row {
  S from;
  E event;
  S next;
  Goes value;
  bool tells;
};
constexpr Row kAllowed[] = {
    {S::free, E::submit, S::queued, Goes::to_service, false},
    {S::queued, E::claim, S::running, Goes::to_worker, false},
    {S::queued, E::cancel, S::free, Goes::to_caller, true},
    {S::queued, E::shut_down, S::free, Goes::to_caller, true},
    {S::running, E::complete, S::completed, Goes::to_service, true},
    {S::running, E::lose, S::completed, Goes::nowhere, true},
    {S::running, E::cancel, S::abandoned, Goes::nowhere, false},
    {S::running, E::shut_down, S::abandoned, Goes::nowhere, true},
    {S::abandoned, E::complete, S::free, Goes::dropped, true},
    {S::abandoned, E::lose, S::free, Goes::nowhere, true},
    {S::completed, E::take, S::free, Goes::to_caller, true},
    {S::completed, E::cancel, S::free, Goes::to_caller, true},
    {S::completed, E::shut_down, S::free, Goes::to_caller, true},
};

const Row* allowed(S from, E event) {
  for (const Row& row : kAllowed) {
    if (row.from == from && row.event == event) return &row;
  }
  return nullptr;
}

// ---- A small service made of the rules --------------------------------------------------------------------------------

constexpr uint32_t kJobs = 3, kWorkers = 2;

struct Model {
  bool closed = false;
  std::vector<S> jobs;  // those that are not gone, oldest first
  auto operator<=>(const Model&) const = default;

  uint32_t in(S state) const { return static_cast<uint32_t>(std::count(jobs.begin(), jobs.end(), state)); }
  uint32_t busy() const { return in(S::running) + in(S::abandoned); }
};

struct Totals {
  int accepted = 0, freed = 0, workers_released = 0, workers_taken = 0;
};

void check_invariants(const Model& model) {
  HOLDS(model.jobs.size() <= kJobs);
  HOLDS(model.busy() <= kWorkers);
  for (const S state : model.jobs) HOLDS(state != S::free);
  if (model.closed) HOLDS(model.in(S::abandoned) == model.jobs.size());
}

// One event on one job; the job goes when the rules say so.
bool apply(Model& model, size_t job, E event, Totals& totals) {
  const S from = model.jobs[job];
  const Step step = nocter::blocking::step(from, event);
  if (!step.allowed()) return false;
  model.jobs[job] = step.next;
  totals.freed += nocter::blocking::frees_slot(from, step) ? 1 : 0;
  totals.workers_released += nocter::blocking::frees_worker(from, step) ? 1 : 0;
  totals.workers_taken +=
      !nocter::blocking::occupies_worker(from) && nocter::blocking::occupies_worker(step.next) ? 1 : 0;
  return true;
}

void remove_free(Model& model) { std::erase(model.jobs, S::free); }

// Every state that one more call may lead to.
std::vector<std::pair<Model, Totals>> successors(const Model& model) {
  std::vector<std::pair<Model, Totals>> list;
  const auto add = [&](Model next, const Totals& totals) {
    remove_free(next);
    list.emplace_back(std::move(next), totals);
  };
  if (!model.closed && model.jobs.size() < kJobs) {
    Model next = model;
    next.jobs.push_back(S::free);
    Totals totals;
    totals.accepted = 1;
    HOLDS(apply(next, next.jobs.size() - 1, E::submit, totals));
    add(next, totals);
  }
  const auto oldest = std::find(model.jobs.begin(), model.jobs.end(), S::queued);
  if (oldest != model.jobs.end() && model.busy() < kWorkers) {
    Model next = model;
    Totals totals;
    HOLDS(apply(next, static_cast<size_t>(oldest - model.jobs.begin()), E::claim, totals));
    add(next, totals);
  }
  for (size_t job = 0; job < model.jobs.size(); job++) {
    for (const E event : {E::complete, E::lose, E::take, E::cancel}) {
      Model next = model;
      Totals totals;
      if (apply(next, job, event, totals)) add(next, totals);
    }
  }
  {
    Model next = model;
    Totals totals;
    next.closed = true;
    for (size_t job = 0; job < next.jobs.size(); job++) {
      // Abandoned ones are left as they are.
      HOLDS(apply(next, job, E::shut_down, totals) == (model.jobs[job] != S::abandoned));
    }
    add(next, totals);
  }
  return list;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_rules_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_06_every_pair_is_in_the_table_or_authorises_nothing_scenario_42_45,
                     *label("GEN-06") * label("BLK-10")) {
  int pairs = 0;
  for (const S from : kStates) {
    for (const E event : kEvents) {
      BOOST_TEST_CONTEXT("state " << static_cast<int>(from) << ", event " << static_cast<int>(event)) {
        const Step step = nocter::blocking::step(from, event);
        if (const Row* row = allowed(from, event); row != nullptr) {
          pairs++;
          BOOST_CHECK(step.allowed());
          BOOST_CHECK(step.status == Status::ok);
          BOOST_CHECK(step.next == row->next);
          BOOST_CHECK(step.value == row->value);
          BOOST_CHECK_EQUAL(step.tells_waiters, row->tells);
        } else {
          BOOST_CHECK(!step.allowed());
          BOOST_CHECK(step.next == from);
          BOOST_CHECK(step.value == Goes::nowhere);
          BOOST_CHECK(!step.tells_waiters);
          BOOST_CHECK(step.status != Status::internal);
        }
      }
    }
  }
  BOOST_CHECK_EQUAL(pairs, 13);
}

BOOST_AUTO_TEST_CASE(blk_12_what_the_refused_calls_of_a_waiter_say, *label("BLK-12")) {
  BOOST_CHECK(nocter::blocking::step(S::free, E::take).status == Status::unknown);
  BOOST_CHECK(nocter::blocking::step(S::queued, E::take).status == Status::pending);
  BOOST_CHECK(nocter::blocking::step(S::running, E::take).status == Status::pending);
  BOOST_CHECK(nocter::blocking::step(S::abandoned, E::take).status == Status::state);
  BOOST_CHECK(nocter::blocking::step(S::free, E::cancel).status == Status::unknown);
  BOOST_CHECK(nocter::blocking::step(S::abandoned, E::cancel).status == Status::state);
}

BOOST_AUTO_TEST_CASE(gen_06_a_state_out_of_range_authorises_nothing, *label("GEN-06")) {
  for (const int number : {5, 6, 100, 255}) {
    for (const E event : kEvents) BOOST_CHECK(!nocter::blocking::step(static_cast<S>(number), event).allowed());
  }
}

BOOST_AUTO_TEST_CASE(blk_04_a_slot_is_freed_exactly_by_six_moves, *label("BLK-04")) {
  const std::set<std::pair<S, E>> freeing = {
      {S::queued, E::cancel},       {S::queued, E::shut_down},   {S::completed, E::take}, {S::completed, E::cancel},
      {S::completed, E::shut_down}, {S::abandoned, E::complete}, {S::abandoned, E::lose}};
  for (const S from : kStates) {
    for (const E event : kEvents) {
      BOOST_CHECK_EQUAL(nocter::blocking::frees_slot(from, nocter::blocking::step(from, event)),
                        freeing.contains({from, event}));
    }
  }
}

BOOST_AUTO_TEST_CASE(blk_07_a_worker_is_released_exactly_by_the_end_of_its_guard, *label("BLK-07")) {
  for (const S from : kStates) {
    for (const E event : kEvents) {
      const bool guard_ends =
          (from == S::running || from == S::abandoned) && (event == E::complete || event == E::lose);
      BOOST_CHECK_EQUAL(nocter::blocking::frees_worker(from, nocter::blocking::step(from, event)), guard_ends);
    }
  }
}

BOOST_AUTO_TEST_CASE(gen_01_the_value_moves_along_with_its_owner, *label("GEN-01")) {
  // Who has it before a move must be who gives it in the move.
  for (const Row& row : kAllowed) {
    const Step step = nocter::blocking::step(row.from, row.event);
    const bool service_had_it = row.from == S::queued || row.from == S::completed;
    if (service_had_it) BOOST_CHECK(step.value == Goes::to_caller || step.value == Goes::to_worker);
    const bool worker_brought_one = row.event == E::complete;
    if (worker_brought_one) BOOST_CHECK(step.value == Goes::to_service || step.value == Goes::dropped);
    if (step.value == Goes::to_service) BOOST_CHECK(step.next == S::queued || step.next == S::completed);
    if (step.next == S::abandoned) BOOST_CHECK(step.value == Goes::nowhere);
  }
}

BOOST_AUTO_TEST_CASE(gen_12_every_reachable_state_of_a_small_service_keeps_the_invariants,
                     *label("GEN-12") * label("BLK-01") * label("BLK-02")) {
  std::set<Model> seen = {Model{}};
  std::deque<Model> ahead = {Model{}};
  size_t moves = 0;
  while (!ahead.empty()) {
    const Model model = ahead.front();
    ahead.pop_front();
    check_invariants(model);
    for (const auto& [next, totals] : successors(model)) {
      moves++;
      // The identities, move by move: accepted = freed + admitted, busy = workers taken and not released.
      HOLDS(totals.accepted == totals.freed + static_cast<int>(next.jobs.size()) - static_cast<int>(model.jobs.size()));
      HOLDS(static_cast<int>(next.busy()) - static_cast<int>(model.busy()) ==
            totals.workers_taken - totals.workers_released);
      if (seen.insert(next).second) ahead.push_back(next);
    }
    if (model.closed && model.jobs.empty()) HOLDS(successors(model).size() == 1);  // only another shutdown, to itself
  }
  // Open: lists of up to 3 jobs in 4 states, but no job claimed before an older one that still waits, and none while older ones
  // hold both workers; closed: up to 2 abandoned ones.
  size_t expected = 3;
  for (uint32_t size = 0; size <= kJobs; size++) {
    size_t lists = 1;
    for (uint32_t i = 0; i < size; i++) lists *= 4;
    for (size_t number = 0; number < lists; number++) {
      size_t rest = number;
      uint32_t busy = 0;
      bool waits = false, overtaken = false;
      for (uint32_t i = 0; i < size; i++, rest /= 4) {
        const bool claimed = rest % 4 != 0;
        overtaken |= claimed && (waits || busy == kWorkers);
        busy += rest % 4 == 1 || rest % 4 == 2 ? 1 : 0;
        waits |= !claimed;
      }
      expected += overtaken ? 0 : 1;
    }
  }
  BOOST_CHECK_EQUAL(seen.size(), expected);
  BOOST_TEST_MESSAGE(seen.size() << " states, " << moves << " moves");
}

BOOST_AUTO_TEST_CASE(blk_11_from_every_reachable_state_the_service_can_be_drained, *label("BLK-11")) {
  std::set<Model> seen = {Model{}};
  std::deque<Model> ahead = {Model{}};
  while (!ahead.empty()) {
    Model model = ahead.front();
    ahead.pop_front();
    for (const auto& [next, totals] : successors(model)) {
      if (seen.insert(next).second) ahead.push_back(next);
    }
    Totals totals;
    for (size_t job = 0; job < model.jobs.size(); job++) apply(model, job, E::shut_down, totals);
    remove_free(model);
    for (size_t job = 0; job < model.jobs.size(); job++) BOOST_REQUIRE(apply(model, job, E::lose, totals));
    remove_free(model);
    BOOST_REQUIRE(model.jobs.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
