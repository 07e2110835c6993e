// Waits: deadlines on the monotonic clock, spurious returns, signal handlers, the wall clock. GEN-07.
#include <nocter.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

std::atomic<int> handled{0};
extern "C" void count_signal(int) { handled++; }

// SIGUSR1 is counted for the length of a scope.
class Handler {
 public:
  explicit Handler(int flags) {
    handled.store(0);
    struct sigaction action = {};
    action.sa_handler = count_signal;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before_);
  }
  ~Handler() { sigaction(SIGUSR1, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  struct sigaction before_;
};

int64_t wall_clock_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

nocter_status wait_unchanged(nocter_signal* signal, const nocter_wait& wait) {
  uint64_t version = 0;
  return nocter_signal_wait(signal, 1, &wait, &version);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(wait_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_07_wait_for_ms_saturates, *label("GEN-07")) {
  const int64_t before = nocter_now_ns();
  const nocter_wait second = nocter_wait_for_ms(1'000);
  const int64_t after = nocter_now_ns();
  BOOST_CHECK_GE(second.deadline_ns, before + 1'000'000'000);
  BOOST_CHECK_LE(second.deadline_ns, after + 1'000'000'000);
  BOOST_CHECK(second.interrupt == nullptr);
  BOOST_CHECK_EQUAL(second.flags, 0u);
  BOOST_CHECK_EQUAL(second.reserved, 0u);
  const nocter_wait now = nocter_wait_for_ms(0);
  BOOST_CHECK_GE(now.deadline_ns, before);
  BOOST_CHECK_LE(now.deadline_ns, nocter_now_ns());
  for (const int64_t ms : {int64_t{-1}, INT64_MIN, INT64_MAX, INT64_MAX / 1'000'000, INT64_MAX / 1'000'000 - 1}) {
    BOOST_CHECK_EQUAL(nocter_wait_for_ms(ms).deadline_ns, NOCTER_FOREVER);
  }
}

BOOST_AUTO_TEST_CASE(gen_07_the_clock_is_the_monotonic_one, *label("GEN-07")) {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const int64_t reference = int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  const int64_t now = nocter_now_ns();
  BOOST_CHECK_GE(now, reference);
  BOOST_CHECK_LT(now, reference + 1'000'000'000);
}

BOOST_AUTO_TEST_CASE(gen_07_a_timeout_is_never_early, *label("GEN-07")) {
  Signal signal;
  for (int i = 0; i < 50; i++) {
    nocter_wait wait = nocter_wait_for_ms(0);
    wait.deadline_ns = nocter_now_ns() + 100'000 + i * 40'000;
    BOOST_CHECK_EQUAL(wait_unchanged(signal, wait), NOCTER_TIMEOUT);
    BOOST_CHECK_GE(nocter_now_ns(), wait.deadline_ns);
  }
}

BOOST_AUTO_TEST_CASE(gen_07_a_timeout_is_not_late_by_much_scenario_143, *label("GEN-07")) {
  Signal signal;
  const nocter_wait wait = nocter_wait_for_ms(50);
  BOOST_CHECK_EQUAL(wait_unchanged(signal, wait), NOCTER_TIMEOUT);
  BOOST_CHECK_LT(nocter_now_ns() - wait.deadline_ns, 5'000'000'000);
}

BOOST_AUTO_TEST_CASE(gen_07_s_08_a_handler_does_not_end_a_wait_that_did_not_ask_for_it_scenario_145,
                     *label("GEN-07") * label("SIG-03")) {
  // Each handler makes the kernel's wait return for nothing: the wait goes on, and its deadline stays where it was.
  const Handler handler(0);
  Signal signal;
  std::atomic<int64_t> late_ns{-1};
  Thread waiter([&] {
    const nocter_wait wait = nocter_wait_for_ms(300);
    STATUS(wait_unchanged(signal, wait), NOCTER_TIMEOUT);
    late_ns.store(nocter_now_ns() - wait.deadline_ns);
  });
  BOOST_CHECK(waiter.until_asleep());
  while (!waiter.ended()) {
    pthread_kill(waiter.handle(), SIGUSR1);
    pause_ms(5);
  }
  BOOST_CHECK_GT(handled.load(), 5);
  BOOST_CHECK_GE(late_ns.load(), 0);
  BOOST_CHECK_LT(late_ns.load(), 5'000'000'000);
}

BOOST_AUTO_TEST_CASE(gen_07_a_handler_ends_a_wait_that_asked_for_it_scenario_147, *label("GEN-07")) {
  for (const int flags : {0, SA_RESTART}) {
    const Handler handler(flags);
    Signal signal;
    Thread waiter([&] {
      nocter_wait wait = long_wait();
      wait.flags = NOCTER_WAIT_EINTR;
      STATUS(wait_unchanged(signal, wait), NOCTER_INTERRUPTED);
    });
    BOOST_CHECK(waiter.until_asleep());
    pthread_kill(waiter.handle(), SIGUSR1);
    waiter.join();
    BOOST_CHECK_EQUAL(handled.load(), 1);
  }
}

BOOST_AUTO_TEST_CASE(gen_07_a_handler_ends_a_wait_with_flag_and_interrupt, *label("GEN-07")) {
  const Handler handler(0);
  Signal signal;
  Interrupt interrupt;
  Thread waiter([&] {
    nocter_wait wait = wait_ms(kLimitMs, interrupt);
    wait.flags = NOCTER_WAIT_EINTR;
    STATUS(wait_unchanged(signal, wait), NOCTER_INTERRUPTED);
  });
  BOOST_CHECK(waiter.until_asleep());
  pthread_kill(waiter.handle(), SIGUSR1);
  waiter.join();
  BOOST_CHECK(!nocter_interrupt_raised(interrupt));
}

BOOST_AUTO_TEST_CASE(gen_07_a_handler_ends_each_kind_of_wait, *label("GEN-07")) {
  const Handler handler(SA_RESTART);
  Service service({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = accept(service, 1);
  const nocter_epoch epoch = epoch_of(service);
  const Begun begun = claim_and_begin(service);
  const auto interrupted = [](auto call) {
    Thread waiter([call] {
      nocter_wait wait = long_wait();
      wait.flags = NOCTER_WAIT_EINTR;
      STATUS(call(&wait), NOCTER_INTERRUPTED);
    });
    HOLDS(waiter.until_asleep());
    pthread_kill(waiter.handle(), SIGUSR1);
  };
  interrupted([&](const nocter_wait* wait) { return try_claim(service, wait).status; });
  interrupted([&](const nocter_wait* wait) { return take(service, id, wait).status; });
  interrupted([&](const nocter_wait* wait) {
    nocter_epoch out = {};
    const nocter_status status = nocter_blocking_wait_epoch(service, epoch, wait, &out);
    HOLDS(nocter_epoch_equal(out, epoch));
    return status;
  });
  shut_down(service);
  interrupted([&](const nocter_wait* wait) { return nocter_blocking_drained(service, wait); });
  complete(begun.completion, 2);
}

BOOST_AUTO_TEST_CASE(gen_07_unknown_flags_and_reserved_are_argument_errors, *label("GEN-07")) {
  Signal signal;
  for (const uint32_t flags : {2u, 3u, 0x80000000u, UINT32_MAX}) {
    nocter_wait wait = nocter_wait_for_ms(0);
    wait.flags = flags;
    BOOST_CHECK_EQUAL(wait_unchanged(signal, wait), NOCTER_E_ARGUMENT);
  }
  nocter_wait wait = nocter_wait_for_ms(0);
  wait.reserved = 1;
  BOOST_CHECK_EQUAL(wait_unchanged(signal, wait), NOCTER_E_ARGUMENT);
}

BOOST_AUTO_TEST_CASE(gen_07_a_deadline_before_for_ever_is_a_poll_or_refused_never_a_sleep, *label("GEN-07")) {
  Signal signal;
  for (const int64_t deadline : {int64_t{-2}, INT64_MIN}) {
    nocter_wait wait = nocter_wait_for_ms(0);
    wait.deadline_ns = deadline;
    const nocter_status status = wait_unchanged(signal, wait);
    BOOST_CHECK(status == NOCTER_TIMEOUT || status == NOCTER_E_ARGUMENT);
  }
}

BOOST_AUTO_TEST_CASE(clock_child, *boost::unit_test::disabled()) {
  // Run by the next test in a process of its own whose wall clock is false; it moves it back by an hour in the middle of a wait.
  const char* file = std::getenv("FAKETIME_TIMESTAMP_FILE");
  BOOST_REQUIRE(file != nullptr);
  Signal signal;
  const int64_t wall_before = wall_clock_ns();
  Thread mover([&] {
    pause_ms(100);
    std::ofstream(file, std::ios::trunc) << "-1h" << std::endl;
  });
  const int64_t begin = nocter_now_ns();
  BOOST_CHECK_EQUAL(wait_unchanged(signal, nocter_wait_for_ms(400)), NOCTER_TIMEOUT);
  const int64_t lasted = nocter_now_ns() - begin;
  BOOST_CHECK_GE(lasted, 400'000'000);
  BOOST_CHECK_LT(lasted, 20'000'000'000);
  BOOST_CHECK_LT(wall_clock_ns(), wall_before - 3'000'000'000'000);  // or the clock was never moved
}

BOOST_AUTO_TEST_CASE(gen_07_s_12_the_wall_clock_set_back_by_an_hour_changes_nothing_scenario_143, *label("GEN-07")) {
  const char* preload = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
  if constexpr (kSanitized) {
    // The time-out itself is checked above; here only that no deadline is ever taken from the wall clock.
    const int64_t ahead = nocter_wait_for_ms(1'000).deadline_ns - nocter_now_ns();
    BOOST_CHECK_LE(ahead, 1'000'000'000);
    return;
  }
  BOOST_REQUIRE_MESSAGE(std::filesystem::exists(preload), "this test needs the package libfaketime");
  const std::string file = std::filesystem::temp_directory_path() / ("nocter_clock_" + std::to_string(getpid()));
  std::ofstream(file) << "+0" << std::endl;
  const pid_t child = fork();
  if (child == 0) {
    setenv("LD_PRELOAD", preload, 1);
    setenv("FAKETIME_TIMESTAMP_FILE", file.c_str(), 1);
    setenv("FAKETIME_NO_CACHE", "1", 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    setenv("DONT_FAKE_MONOTONIC", "1", 1);
    execl("/proc/self/exe", "wait_test", "--run_test=wait_suite/clock_child", "--catch_system_errors=no", nullptr);
    _exit(127);
  }
  int status = 0;
  BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  std::filesystem::remove(file);
  BOOST_CHECK(WIFEXITED(status));
  BOOST_CHECK_EQUAL(WEXITSTATUS(status), 0);
}

BOOST_AUTO_TEST_SUITE_END()
