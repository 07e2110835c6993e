// The pure life of a reservation, walked whole: every pair of state and event against a table of our own, and every reachable state
// of a small service, with its invariants and identities.
#include <nocter.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "nocter/retirement_rules.hpp"
#include "support/fixture.hpp"

using namespace nocter_tests;
using nocter::Status;
using nocter::retirement::Event;
using nocter::retirement::State;
using nocter::retirement::Step;

namespace {

using S = State;
using E = Event;

constexpr std::array kStates = {S::free,     S::permit,           S::live,
                                S::queued,   S::queued_observed,  S::queued_detached,
                                S::running,  S::running_observed, S::running_detached,
                                S::completed};
constexpr std::array kEvents = {E::reserve,  E::drop_permit, E::attach, E::drop, E::retire, E::claim,
                                E::complete, E::fail,        E::lose,   E::take, E::detach};
static_assert(kStates.size() == nocter::retirement::kStates && kEvents.size() == nocter::retirement::kEvents);

// The contract, written down a second time: what is not in here must authorise nothing.
struct Row {
  S from;
  E event;
  S next;
  bool tells;
};
constexpr Row kAllowed[] = {
    {S::free, E::reserve, S::permit, false},
    {S::permit, E::attach, S::live, false},
    {S::permit, E::drop_permit, S::free, true},
    {S::live, E::drop, S::queued, false},
    {S::live, E::retire, S::queued_observed, false},
    {S::queued, E::claim, S::running, false},
    {S::queued_observed, E::claim, S::running_observed, false},
    {S::queued_observed, E::detach, S::queued_detached, false},
    {S::queued_detached, E::claim, S::running_detached, false},
    {S::running, E::complete, S::free, true},
    {S::running, E::fail, S::free, true},
    {S::running, E::lose, S::free, true},
    {S::running_observed, E::complete, S::completed, true},
    {S::running_observed, E::fail, S::completed, true},
    {S::running_observed, E::lose, S::completed, true},
    {S::running_observed, E::detach, S::running_detached, false},
    {S::running_detached, E::complete, S::free, true},
    {S::running_detached, E::fail, S::free, true},
    {S::running_detached, E::lose, S::free, true},
    {S::completed, E::take, S::free, true},
    {S::completed, E::detach, S::free, true},
};

const Row* allowed(S from, E event) {
  for (const Row& row : kAllowed) {
    if (row.from == from && row.event == event) return &row;
  }
  return nullptr;
}

// ---- A small service made of the rules --------------------------------------------------------------------------------

constexpr uint32_t kPlaces = 3, kWorkers = 2;

struct Model {
  bool closed = false;
  std::array<S, kPlaces> places = {};
  auto operator<=>(const Model&) const = default;

  uint32_t busy() const {
    return static_cast<uint32_t>(std::count_if(places.begin(), places.end(), nocter::retirement::occupies_worker));
  }
  uint32_t reserved() const {
    return static_cast<uint32_t>(std::count_if(places.begin(), places.end(), nocter::retirement::occupies_place));
  }
};

// What a move adds to which total.
struct Totals {
  int reservations = 0, permits_dropped = 0, unobserved_done = 0, detached_done = 0, taken = 0, detached_completed = 0;
  int freed() const { return permits_dropped + unobserved_done + detached_done + taken + detached_completed; }
};

struct Successor {
  Model model;
  size_t place;
  E event;
  Totals totals;
};

// Every state that one more call may lead to.
std::vector<Successor> successors(const Model& model) {
  std::vector<Successor> list;
  for (size_t place = 0; place < kPlaces; place++) {
    for (const E event : kEvents) {
      const S from = model.places[place];
      if (event == E::reserve && model.closed) continue;
      if (event == E::claim && model.busy() == kWorkers) continue;
      const Step step = nocter::retirement::step(from, event);
      if (!step.allowed()) continue;
      Successor next = {model, place, event, {}};
      next.model.places[place] = step.next;
      next.totals.reservations = event == E::reserve ? 1 : 0;
      next.totals.permits_dropped = event == E::drop_permit ? 1 : 0;
      next.totals.unobserved_done = from == S::running ? 1 : 0;
      next.totals.detached_done = from == S::running_detached ? 1 : 0;
      next.totals.taken = event == E::take ? 1 : 0;
      next.totals.detached_completed = from == S::completed && event == E::detach ? 1 : 0;
      list.push_back(next);
    }
  }
  Successor close = {model, 0, E::reserve, {}};
  close.model.closed = true;
  list.push_back(close);
  return list;
}

template <class Each>
size_t walk(Each&& each) {
  std::set<Model> seen = {Model{}};
  std::deque<Model> ahead = {Model{}};
  while (!ahead.empty()) {
    const Model model = ahead.front();
    ahead.pop_front();
    const std::vector<Successor> list = successors(model);
    each(model, list);
    for (const Successor& next : list) {
      if (seen.insert(next.model).second) ahead.push_back(next.model);
    }
  }
  return seen.size();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retirement_rules_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_06_every_pair_is_in_the_table_or_authorises_nothing_scenario_42_45, *label("GEN-06")) {
  int pairs = 0;
  for (const S from : kStates) {
    for (const E event : kEvents) {
      BOOST_TEST_CONTEXT("state " << static_cast<int>(from) << ", event " << static_cast<int>(event)) {
        const Step step = nocter::retirement::step(from, event);
        if (const Row* row = allowed(from, event); row != nullptr) {
          pairs++;
          BOOST_CHECK(step.status == Status::ok);
          BOOST_CHECK(step.next == row->next);
          BOOST_CHECK_EQUAL(step.tells_waiters, row->tells);
        } else {
          BOOST_CHECK(!step.allowed());
          BOOST_CHECK(step.next == from);
          BOOST_CHECK(!step.tells_waiters);
          BOOST_CHECK(step.status != Status::internal);
        }
      }
    }
  }
  BOOST_CHECK_EQUAL(pairs, 21);
}

BOOST_AUTO_TEST_CASE(r_12_what_the_refused_calls_of_a_waiter_say, *label("RET-06") * label("R-12")) {
  for (const S from : kStates) {
    const bool observed = from == S::queued_observed || from == S::running_observed;
    const Status take = nocter::retirement::step(from, E::take).status;
    if (from == S::completed) continue;
    BOOST_CHECK(take == (observed ? Status::pending : Status::unknown));
    if (!observed) BOOST_CHECK(nocter::retirement::step(from, E::detach).status == Status::unknown);
  }
}

BOOST_AUTO_TEST_CASE(gen_06_a_state_out_of_range_authorises_nothing, *label("GEN-06")) {
  for (const int number : {10, 11, 100, 255}) {
    for (const E event : kEvents) BOOST_CHECK(!nocter::retirement::step(static_cast<S>(number), event).allowed());
  }
}

BOOST_AUTO_TEST_CASE(ret_05_a_place_is_freed_exactly_by_the_five_ends, *label("RET-05")) {
  const std::set<std::pair<S, E>> freeing = {
      {S::permit, E::drop_permit},    {S::running, E::complete},      {S::running, E::fail},
      {S::running, E::lose},          {S::running_detached, E::fail}, {S::running_detached, E::complete},
      {S::running_detached, E::lose}, {S::completed, E::take},        {S::completed, E::detach}};
  for (const S from : kStates) {
    for (const E event : kEvents) {
      BOOST_CHECK_EQUAL(nocter::retirement::frees_place(from, nocter::retirement::step(from, event)),
                        freeing.contains({from, event}));
    }
  }
}

BOOST_AUTO_TEST_CASE(ret_07_detaching_never_ends_a_cleanup_nor_skips_one, *label("RET-07") * label("R-9")) {
  for (const S from : kStates) {
    const Step step = nocter::retirement::step(from, E::detach);
    if (!step.allowed()) continue;
    BOOST_CHECK_EQUAL(nocter::retirement::is_queued(from), nocter::retirement::is_queued(step.next));
    BOOST_CHECK_EQUAL(nocter::retirement::occupies_worker(from), nocter::retirement::occupies_worker(step.next));
  }
}

BOOST_AUTO_TEST_CASE(ret_03_from_live_there_is_no_way_around_the_queue_and_a_cleanup,
                     *label("RET-03") * label("RET-05")) {
  // Every walk from live to free goes by a queued and a running state: without those moves free is out of reach.
  for (const bool without_queue : {true, false}) {
    std::set<S> reached = {S::live};
    std::deque<S> ahead = {S::live};
    while (!ahead.empty()) {
      const S from = ahead.front();
      ahead.pop_front();
      for (const E event : kEvents) {
        const Step step = nocter::retirement::step(from, event);
        if (!step.allowed() || from == S::free) continue;
        const bool blocked =
            without_queue ? nocter::retirement::is_queued(step.next) : nocter::retirement::occupies_worker(step.next);
        if (!blocked && reached.insert(step.next).second) ahead.push_back(step.next);
      }
    }
    BOOST_CHECK(!reached.contains(S::free));
  }
}

BOOST_AUTO_TEST_CASE(gen_12_every_reachable_state_of_a_small_service_keeps_the_invariants_scenario_46,
                     *label("GEN-12") * label("RET-04") * label("RET-05") * label("RET-08")) {
  size_t moves = 0;
  const size_t states = walk([&](const Model& model, const std::vector<Successor>& list) {
    HOLDS(model.reserved() <= kPlaces && model.busy() <= kWorkers);
    moves += list.size();
    for (const auto& [next, place, event, totals] : list) {
      // reservations = the five ends + reserved, move by move; and a worker is given back by the end of its cleanup alone.
      HOLDS(totals.reservations - totals.freed() ==
            static_cast<int>(next.reserved()) - static_cast<int>(model.reserved()));
      HOLDS(totals.freed() <= 1 && totals.freed() + totals.reservations <= 1);
      const int busy = static_cast<int>(next.busy()) - static_cast<int>(model.busy());
      if (next.closed == model.closed) {
        HOLDS(busy == (event == E::claim ? 1 : nocter::retirement::ends_cleanup(event) ? -1 : 0));
      } else {
        HOLDS(next.places == model.places);  // RET-08: closing leaves everything as it is
      }
    }
  });
  // Ten states for each of three places, but never three of the three running ones; open and closed.
  BOOST_CHECK_EQUAL(states, 2u * (1000u - 27u));
  BOOST_TEST_MESSAGE(states << " states, " << moves << " moves");
}

BOOST_AUTO_TEST_CASE(ret_08_from_every_reachable_state_the_service_can_be_drained, *label("RET-08")) {
  walk([](const Model& model, const std::vector<Successor>&) {
    Model rest = model;
    rest.closed = true;
    // Owners give up what they hold, cleanups end, waiters detach: nothing else is needed.
    for (int round = 0; round < 10 && rest.reserved() != 0; round++) {
      for (const E event : {E::drop_permit, E::drop, E::claim, E::lose, E::detach}) {
        for (S& state : rest.places) {
          if (event == E::claim && rest.busy() == kWorkers) continue;
          const Step step = nocter::retirement::step(state, event);
          if (step.allowed()) state = step.next;
        }
      }
    }
    HOLDS(rest.reserved() == 0);
  });
}

BOOST_AUTO_TEST_SUITE_END()
