// RSC-01: each allocation of each exported call fails, once and from then on. One test case for each call and state.
#include <array>

#include "oom/faults.hpp"
#include "oom/suites.hpp"
#include "oom/world.hpp"
#include "support/fixture.hpp"
#include "support/service.hpp"

#ifdef NOCTER_HAS_LEAK_CHECK
#include <sanitizer/lsan_interface.h>
#endif

namespace oom {

using namespace nocter_tests;

namespace {

struct Attempt {
  nocter_status status = NOCTER_E_INTERNAL;
  uint64_t asked = 0;
  uint64_t failed = 0;
};

// In a thread of its own, so that what the library may keep for each thread is made anew.
Attempt attempt(const Scenario& scenario, uint64_t nth, faults::How how) {
  Attempt result;
  Thread thread([&] {
    World world;
    scenario.prepare(world);
    world.get_ready();
    {
      const faults::Allocations armed(nth, how);
      result.status = scenario.call(world);
      result.asked = armed.asked();
      result.failed = armed.failed();
    }
    if (result.status == NOCTER_E_MEMORY && result.failed != 0) {
      world.check_nothing_changed();
      // With memory back, the same objects do it.
      STATUS(scenario.call(world), scenario.expected);
    } else {
      STATUS(result.status, scenario.expected);
    }
    world.end();
  });
  thread.join();
  return result;
}

// The attempt leaves no block behind. Threads that ended a moment ago may still be giving theirs back.
Attempt attempt_without_leak(const Scenario& scenario, uint64_t nth, faults::How how) {
  const int64_t before = faults::live_blocks();
  const uint64_t payloads = Ledger::live();
  const Attempt result = attempt(scenario, nth, how);
  const auto balanced = [&] {
    const int64_t more = faults::live_blocks() - before;
    return more == 0 ? scenario.kept == 0 : more > 0 && more <= scenario.kept;
  };
  HOLDS(Ledger::live() == payloads);
  if (!eventually(balanced, 2'000)) {
    const int64_t more = faults::live_blocks() - before;
    Failures::add(Where::here(), std::to_string(more) + " blocks more for " + std::to_string(scenario.kept));
  }
  return result;
}

constexpr std::array kWays = {faults::How::once, faults::How::from_then_on};

// Until an allocation is reached that is not made: so the last attempt is one of a call that asks for nothing any more,
// and every call is made without memory at least once.
void run(const Scenario& scenario) {
  // Fill what the C library keeps for the next thread, and nocter for the next handle.
  for (int i = 0; i < 2; i++) attempt(scenario, faults::kNone, faults::How::once);
  const uint64_t asked = attempt_without_leak(scenario, faults::kNone, faults::How::once).asked;
  uint64_t refusals = 0;
  bool reached = true;
  for (uint64_t nth = 0; reached; nth++) {
    reached = false;
    for (const faults::How how : kWays) {
      const Attempt failing = attempt_without_leak(scenario, nth, how);
      reached = reached || failing.failed != 0;
      refusals += failing.status == NOCTER_E_MEMORY ? 1 : 0;
      for (const std::string& failure : Failures::collect()) {
        BOOST_ERROR("allocation " << nth << (how == faults::How::once ? " fails: " : " and all after it fail: ")
                                  << failure);
      }
    }
    BOOST_CHECK_MESSAGE(reached || nth >= asked, "only " << nth << " of " << asked << " allocations were reached");
  }
  BOOST_TEST_MESSAGE(scenario.name << ": " << asked << " allocations, " << refusals << " times NOCTER_E_MEMORY");
#ifdef NOCTER_HAS_LEAK_CHECK
  BOOST_CHECK_EQUAL(__lsan_do_recoverable_leak_check(), 0);
#endif
}

// Without this the whole suite could pass by failing nothing.
void the_failing_is_seen() {
  const Scenario creation = {"creation", nothing,
                             [](World& world) {
                               const nocter_blocking_options options = options_of({});
                               return nocter_blocking_create(&options, world.fill(world.out.service));
                             },
                             NOCTER_OK};
  const Attempt usual = attempt(creation, faults::kNone, faults::How::once);
  BOOST_CHECK_GT(usual.asked, 0u);
  const Attempt failing = attempt(creation, 0, faults::How::from_then_on);
  BOOST_CHECK_EQUAL(failing.status, NOCTER_E_MEMORY);
  BOOST_CHECK_GT(failing.failed, 0u);
  const int64_t before = faults::live_blocks();
  nocter_owned unfreed = payload(1);
  BOOST_CHECK_EQUAL(faults::live_blocks() - before, 1);
  discard(unfreed);
  BOOST_CHECK_EQUAL(faults::live_blocks() - before, 0);
}

}  // namespace

void add_allocation_tests(boost::unit_test::test_suite& all) {
  all.add(test_case("the_failing_is_seen", the_failing_is_seen, {"RSC-01"}));
  for (const Scenarios& scenarios : {base_scenarios(), blocking_scenarios(), ownership_scenarios(), worker_scenarios(),
                                     retirement_scenarios(), keyed_scenarios(), tasks_scenarios()}) {
    for (const Scenario& scenario : scenarios) {
      all.add(test_case(scenario.name, [scenario] { run(scenario); }, {"RSC-01", "GEN-02", "GEN-09"}));
    }
  }
}

}  // namespace oom
