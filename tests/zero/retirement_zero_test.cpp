// RET-03, GEN-08: a retirement service allocates all it needs at creation, and giving something up makes no system call when nobody
// sleeps.
#include <nocter.h>

#include <array>

#include "support/retirement.hpp"
#include "zero/steady.hpp"
#include "zero/system_calls.hpp"

using namespace nocter_tests;
using namespace nocter_tests::retiring;

namespace {

constexpr nocter_wait kForever = {NOCTER_FOREVER, nullptr, 0, 0};

nocter_resource* own_token(nocter_retirement* service, uint64_t value) { return own(service, token(value)); }

// Through every state and every end.
void every_turn(nocter_retirement* service) {
  nocter_permit_drop(reserve(service));
  nocter_resource_drop(own_token(service, 1));
  HOLDS(clean_one(service) == 1);
  const nocter_retirement_id asked = retire(own_token(service, 2));
  HOLDS(state_of(service, asked) == NOCTER_RETIREMENT_QUEUED);
  HOLDS(clean_one(service, 7) == 2);
  HOLDS(take(service, asked).code == 7);
  STATUS(take(service, asked).status, NOCTER_E_UNKNOWN);
  const nocter_retirement_id detached = retire(own_token(service, 3));
  STATUS(nocter_retirement_detach(service, detached), NOCTER_OK);
  nocter_cleanup_drop(claim(service));
  const nocter_retirement_id lost = retire(own_token(service, 4));
  nocter_cleanup* const cleanup = claim(service);
  begin(cleanup);
  nocter_cleanup_drop(cleanup);
  STATUS(take(service, lost).status, NOCTER_WORKER_LOST);
  const nocter_retirement_id one = retire(own_token(service, 5)), other = retire(own_token(service, 6));
  clean_one(service);
  nocter_retirement_detach_all(service);
  clean_one(service);
  for (const nocter_retirement_id id : {one, other}) STATUS(take(service, id).status, NOCTER_E_UNKNOWN);
  std::array<nocter_permit*, 4> permits = {};
  for (nocter_permit*& permit : permits) permit = reserve(service);
  const Reserved saturated = try_reserve(service);
  STATUS(saturated.status, NOCTER_SATURATED);
  nocter_epoch now;
  STATUS(nocter_retirement_wait_epoch(service, saturated.epoch, nullptr, &now), NOCTER_PENDING);
  for (nocter_permit* permit : permits) nocter_permit_drop(permit);
  STATUS(nocter_retirement_wait_epoch(service, saturated.epoch, nullptr, &now), NOCTER_OK);
  STATUS(try_claim(service).status, NOCTER_EMPTY);
  STATUS(nocter_retirement_drained(service, nullptr), NOCTER_OK);
  counts_of(service);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retirement_zero, EveryTest)

BOOST_AUTO_TEST_CASE(gen_08_ret_03_every_turn_allocates_nothing, *label("GEN-08") * label("RET-03")) {
  const Signal signal;
  nocter_eventfd* eventfd = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_eventfd_create(&eventfd), NOCTER_OK);
  {
    const Retirement service({.maximum_resources = 4,
                              .workers = 2,
                              .waiters = nocter_signal_notifier(signal),
                              .work = nocter_eventfd_notifier(eventfd)});
    zero::check_steady(rounds(20'000, 1'200), [&] { every_turn(service); });
  }
  BOOST_CHECK_EQUAL(Ledger::live(), 0u);
  nocter_eventfd_destroy(eventfd);
}

BOOST_AUTO_TEST_CASE(gen_08_served_cleanups_allocate_nothing_on_any_thread, *label("GEN-08") * label("RET-03")) {
  Retirement service({.maximum_resources = 16, .workers = 2});
  Cleaners cleaners(service);
  zero::check_steady(rounds(50'000, 2'000), [&] {
    Reserved got = try_reserve(service);
    while (got.status == NOCTER_SATURATED) {
      nocter_epoch now;
      STATUS(nocter_retirement_wait_epoch(service, got.epoch, &kForever, &now), NOCTER_OK);
      got = try_reserve(service);
    }
    nocter_resource_drop(attach(got.permit, token(9)));
  });
  nocter_retirement_close(service);
  until_drained(service);
}

// Cleaning in place, on the thread that gives up, is a matter of no memory either.
BOOST_AUTO_TEST_CASE(gen_08_what_outlives_its_service_is_cleaned_without_memory, *label("GEN-08") * label("R-7")) {
  constexpr uint32_t kMany = 1'000;
  const nocter_retirement_options options = options_of({.maximum_resources = kMany, .workers = 1});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  std::array<nocter_resource*, kMany> resources = {};
  for (uint32_t i = 0; i < kMany; i++) resources.at(i) = own_token(service, i + 1);
  nocter_retirement_destroy(service);
  const uint64_t before = faults::allocations();
  for (nocter_resource* resource : resources) nocter_resource_drop(resource);
  BOOST_CHECK_EQUAL(faults::allocations() - before, 0u);
  BOOST_CHECK_EQUAL(Ledger::live(), 0u);
}

BOOST_AUTO_TEST_CASE(ret_03_giving_up_makes_no_system_call_when_nobody_sleeps, *label("RET-03")) {
  nocter_retirement* service = nullptr;
  const zero::SystemCalls calls = zero::system_calls_of(
      [&] {
        const nocter_retirement_options options = options_of({.maximum_resources = 4, .workers = 2});
        if (nocter_retirement_create(&options, &service) != NOCTER_OK) zero::leave(1);
      },
      [&] {
        for (uint64_t i = 0; i < rounds(20'000, 1'000); i++) every_turn(service);
        if (!Failures::collect().empty()) zero::leave(2);
      });
  BOOST_CHECK(calls.measured);
  BOOST_CHECK_MESSAGE(calls.count == 0, calls.count << " system calls, the first is number " << calls.first);
}

BOOST_AUTO_TEST_SUITE_END()
