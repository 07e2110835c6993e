// A machine that slept: the clock that counts that time has gone on, the one that does not has not. CLK-03.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "tasks/engine.hpp"

using namespace nocter_tests;

namespace {

std::atomic<int64_t> slept_ms{0};

}  // namespace

// In place of the C library's, for this program and all that is linked into it.
extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const auto code = static_cast<int>(syscall(SYS_clock_gettime, clock, out));
  if (code == 0 && clock == CLOCK_BOOTTIME) out->tv_sec += slept_ms.load() / 1'000;
  return code;
}

BOOST_FIXTURE_TEST_SUITE(slept, EveryTest)

BOOST_AUTO_TEST_CASE(clk_03_a_lease_goes_on_while_the_machine_sleeps, *label("CLK-03")) {
  constexpr int64_t kLeaseMs = 3'600'000;
  for (const bool past : {false, true}) {
    Tasks tasks({.lease_ms = kLeaseMs});
    submit(tasks, "a");
    nocter_run* const run = claim(tasks, "a");
    BOOST_REQUIRE(run != nullptr);
    // Until shortly after a renewal is due, or past the end.
    slept_ms.fetch_add(past ? 2 * kLeaseMs : kLeaseMs / 4);
    submit(tasks, "b");  // the keeper looks at its clocks once there is something new, or soon by itself
    if (past) {
      BOOST_CHECK(eventually([&] { return nocter_run_interrupt_reason(run) == NOCTER_REASON_LEASE_LOST; }));
      BOOST_CHECK_EQUAL(done(run), NOCTER_E_LEASE_LOST);
    } else {
      pause_ms(100);
      BOOST_CHECK_EQUAL(nocter_run_interrupt_reason(run), NOCTER_REASON_NONE);
      BOOST_CHECK_EQUAL(done(run), NOCTER_OK);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
