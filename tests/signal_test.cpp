// The versioned signal: SIG-01 to SIG-05. (SIG-06, no system call, is counted in zero/.)
#include <nocter.h>

#include <array>
#include <deque>
#include <mutex>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

uint64_t publish(nocter_signal* signal) {
  uint64_t version = 0;
  STATUS(nocter_signal_publish(signal, &version), NOCTER_OK);
  return version;
}

nocter_status look(nocter_signal* signal, uint64_t seen) {
  uint64_t version = 77;
  const nocter_status status = nocter_signal_wait(signal, seen, nullptr, &version);
  HOLDS(status >= 0 ? version != 0 : version == 0);
  return status;
}

nocter_status wait_for(nocter_signal* signal, uint64_t seen, nocter_wait wait) {
  uint64_t version = 77;
  const nocter_status status = nocter_signal_wait(signal, seen, &wait, &version);
  HOLDS(status >= 0 ? version != 0 : version == 0);
  if (status == NOCTER_OK) HOLDS(version != seen);
  return status;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(signal_suite, EveryTest)

BOOST_AUTO_TEST_CASE(sig_01_s_01_s_02_a_publication_between_read_and_wait_returns_at_once_scenario_141_142,
                     *label("SIG-01")) {
  Signal signal;
  const uint64_t seen = nocter_signal_version(signal);
  BOOST_CHECK_NE(seen, 0u);
  BOOST_CHECK_EQUAL(look(signal, seen), NOCTER_PENDING);
  const uint64_t published = publish(signal);
  BOOST_CHECK_GT(published, seen);
  BOOST_CHECK_EQUAL(nocter_signal_version(signal), published);
  nocter_wait forever = nocter_wait_for_ms(-1);
  uint64_t version = 0;
  BOOST_CHECK_EQUAL(nocter_signal_wait(signal, seen, &forever, &version), NOCTER_OK);
  BOOST_CHECK_EQUAL(version, published);
  BOOST_CHECK_EQUAL(look(signal, seen), NOCTER_OK);
  BOOST_CHECK_EQUAL(look(signal, published), NOCTER_PENDING);
}

BOOST_AUTO_TEST_CASE(sig_01_s_03_a_publication_before_the_read_belongs_to_the_past, *label("SIG-01")) {
  Signal signal;
  publish(signal);
  BOOST_CHECK_EQUAL(look(signal, nocter_signal_version(signal)), NOCTER_PENDING);
}

BOOST_AUTO_TEST_CASE(sig_01_s_06_many_publications_are_one_change, *label("SIG-01")) {
  Signal signal;
  const uint64_t seen = nocter_signal_version(signal);
  for (int i = 0; i < 100; i++) publish(signal);
  uint64_t version = 0;
  BOOST_CHECK_EQUAL(nocter_signal_wait(signal, seen, nullptr, &version), NOCTER_OK);
  BOOST_CHECK_EQUAL(version, seen + 100);
  BOOST_CHECK_EQUAL(look(signal, version), NOCTER_PENDING);
}

BOOST_AUTO_TEST_CASE(sig_01_any_earlier_version_counts_as_changed, *label("SIG-01")) {
  Signal signal;
  const uint64_t first = nocter_signal_version(signal);
  for (int i = 0; i < 10; i++) publish(signal);
  for (uint64_t seen = first; seen < first + 10; seen++) BOOST_CHECK_EQUAL(look(signal, seen), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(sig_01_a_version_not_yet_reached_or_never_given_is_an_argument_error, *label("SIG-01")) {
  Signal signal;
  const uint64_t now = publish(signal);
  BOOST_CHECK_EQUAL(look(signal, now + 1), NOCTER_E_ARGUMENT);
  BOOST_CHECK_NE(std::string(nocter_error_message()), "");
  BOOST_CHECK_EQUAL(look(signal, UINT64_MAX), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(look(signal, now | (uint64_t{1} << 63)), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(look(signal, 0), NOCTER_E_ARGUMENT);
  nocter_signal_close(signal);
  BOOST_CHECK_EQUAL(look(signal, now + 1), NOCTER_E_ARGUMENT);
}

BOOST_AUTO_TEST_CASE(sig_02_s_21_publishing_inside_the_publishers_own_lock_is_allowed, *label("SIG-02")) {
  Signal signal;
  std::mutex mutex;
  int state = 0;
  Thread reader([&] {
    for (;;) {
      const uint64_t seen = nocter_signal_version(signal);
      {
        const std::scoped_lock lock(mutex);
        if (state == 1'000) return;
      }
      STATUS(wait_for(signal, seen, long_wait()), NOCTER_OK);
    }
  });
  for (int i = 0; i < 1'000; i++) {
    const std::scoped_lock lock(mutex);
    state++;
    publish(signal);
  }
  reader.join();
}

BOOST_AUTO_TEST_CASE(sig_02_s_05_a_change_that_failed_publishes_nothing, *label("SIG-02")) {
  Signal signal;
  const uint64_t seen = nocter_signal_version(signal);
  const auto failing_change = [] { return false; };
  if (failing_change()) publish(signal);
  BOOST_CHECK_EQUAL(look(signal, seen), NOCTER_PENDING);
}

BOOST_AUTO_TEST_CASE(sig_01_s_04_publishing_before_the_change_leaves_the_waiter_to_the_next_publication,
                     *label("SIG-01")) {
  // The wrong order, shown: the waiter that looked after the publication and before the change waits on the new version.
  Signal signal;
  bool state = false;
  publish(signal);
  const uint64_t seen = nocter_signal_version(signal);
  BOOST_CHECK(!state);
  state = true;
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait_ms(20)), NOCTER_TIMEOUT);
  publish(signal);
  BOOST_CHECK_EQUAL(look(signal, seen), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(sig_03_s_07_one_publication_returns_all_64_waiters_scenario_144, *label("SIG-03")) {
  Signal signal;
  const uint64_t seen = nocter_signal_version(signal);
  std::atomic<int> changed{0};
  std::deque<Thread> waiters;
  for (int i = 0; i < 64; i++) {
    waiters.emplace_back([&] {
      if (STATUS(wait_for(signal, seen, long_wait()), NOCTER_OK)) changed++;
    });
  }
  for (Thread& waiter : waiters) BOOST_CHECK(waiter.until_asleep());
  BOOST_CHECK_EQUAL(changed.load(), 0);
  publish(signal);
  waiters.clear();
  BOOST_CHECK_EQUAL(changed.load(), 64);
}

BOOST_AUTO_TEST_CASE(sig_03_s_09_a_change_is_reported_before_a_deadline_that_has_passed_scenario_146,
                     *label("SIG-03")) {
  Signal signal;
  const uint64_t seen = nocter_signal_version(signal);
  publish(signal);
  nocter_wait past = nocter_wait_for_ms(0);
  past.deadline_ns = nocter_now_ns() - 1'000'000;
  BOOST_CHECK_EQUAL(wait_for(signal, seen, past), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(sig_03_s_09_deadline_and_publication_together_never_hide_the_publication_scenario_146,
                     *label("SIG-03")) {
  // The publication aims at the deadline of the wait. What the wait says must agree with the version it returns.
  Signal signal;
  auto random = random_stream(146);
  uint64_t changed = 0, timed_out = 0;
  for (uint64_t i = 0; i < rounds(1'000, 200); i++) {
    const uint64_t seen = nocter_signal_version(signal);
    nocter_wait wait = nocter_wait_for_ms(0);
    wait.deadline_ns = nocter_now_ns() + 300'000;
    const int64_t aim = wait.deadline_ns - 60'000 + static_cast<int64_t>(below(random, 120'000));
    Thread publisher([&] {
      while (nocter_now_ns() < aim) {
      }
      publish(signal);
    });
    uint64_t version = 0;
    const nocter_status status = nocter_signal_wait(signal, seen, &wait, &version);
    if (status == NOCTER_OK) {
      changed++;
      BOOST_CHECK_EQUAL(version, seen + 1);
    } else {
      timed_out++;
      BOOST_CHECK_EQUAL(status, NOCTER_TIMEOUT);
      BOOST_CHECK_EQUAL(version, seen);
      BOOST_CHECK_GE(nocter_now_ns(), wait.deadline_ns);
    }
  }
  BOOST_TEST_MESSAGE("changed " << changed << ", timed out " << timed_out);
}

BOOST_AUTO_TEST_CASE(sig_03_s_10_zero_and_past_deadlines_poll_scenario_151, *label("SIG-03")) {
  Signal signal;
  const uint64_t seen = nocter_signal_version(signal);
  for (const int64_t deadline : {int64_t{0}, int64_t{1}, nocter_now_ns(), nocter_now_ns() - 1'000'000'000}) {
    nocter_wait wait = nocter_wait_for_ms(0);
    wait.deadline_ns = deadline;
    BOOST_CHECK_EQUAL(wait_for(signal, seen, wait), NOCTER_TIMEOUT);
  }
  publish(signal);
  nocter_wait wait = nocter_wait_for_ms(0);
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait), NOCTER_OK);
  nocter_signal_close(signal);
  BOOST_CHECK_EQUAL(wait_for(signal, nocter_signal_version(signal), wait), NOCTER_CLOSED);
}

BOOST_AUTO_TEST_CASE(sig_03_s_11_enormous_deadlines_do_not_overflow_scenario_151, *label("SIG-03")) {
  Signal signal;
  for (const int64_t deadline : {INT64_MAX, INT64_MAX - 1, int64_t{NOCTER_FOREVER}, int64_t{1} << 62}) {
    const uint64_t seen = nocter_signal_version(signal);
    Thread waiter([&] {
      nocter_wait wait = nocter_wait_for_ms(0);
      wait.deadline_ns = deadline;
      STATUS(wait_for(signal, seen, wait), NOCTER_OK);
    });
    BOOST_CHECK(waiter.until_asleep());
    BOOST_CHECK(!waiter.ended());
    publish(signal);
  }
}

BOOST_AUTO_TEST_CASE(sig_03_s_14_change_before_interrupt_and_the_interrupt_stays_raised, *label("SIG-03")) {
  Signal signal;
  Interrupt interrupt;
  const uint64_t seen = nocter_signal_version(signal);
  nocter_interrupt_raise(interrupt);
  publish(signal);
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait_ms(-1, interrupt)), NOCTER_OK);
  BOOST_CHECK(nocter_interrupt_raised(interrupt));
  BOOST_CHECK_EQUAL(wait_for(signal, seen + 1, wait_ms(-1, interrupt)), NOCTER_INTERRUPTED);
}

BOOST_AUTO_TEST_CASE(sig_03_s_15_interrupt_before_and_during_the_wait_scenario_147, *label("SIG-03")) {
  Signal signal;
  Interrupt interrupt;
  const uint64_t seen = nocter_signal_version(signal);
  nocter_interrupt_raise(interrupt);
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait_ms(-1, interrupt)), NOCTER_INTERRUPTED);
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait_ms(0, interrupt)), NOCTER_INTERRUPTED);  // before the passed deadline
  nocter_interrupt_clear(interrupt);
  Thread waiter([&] { STATUS(wait_for(signal, seen, wait_ms(-1, interrupt)), NOCTER_INTERRUPTED); });
  BOOST_CHECK(waiter.until_asleep());
  nocter_interrupt_raise(interrupt);
  waiter.join();
}

BOOST_AUTO_TEST_CASE(sig_04_closed_before_changed_before_interrupted_before_timed_out, *label("SIG-04")) {
  Signal signal;
  Interrupt interrupt;
  const uint64_t seen = nocter_signal_version(signal);
  nocter_interrupt_raise(interrupt);
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait_ms(0, interrupt)), NOCTER_INTERRUPTED);
  publish(signal);
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait_ms(0, interrupt)), NOCTER_OK);
  nocter_signal_close(signal);
  BOOST_CHECK_EQUAL(wait_for(signal, seen, wait_ms(0, interrupt)), NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(look(signal, seen), NOCTER_CLOSED);
}

BOOST_AUTO_TEST_CASE(sig_04_s_13_close_ends_present_and_future_waits_scenario_148, *label("SIG-04")) {
  Signal signal;
  const uint64_t seen = nocter_signal_version(signal);
  std::deque<Thread> waiters;
  for (int i = 0; i < 8; i++) {
    waiters.emplace_back([&] { STATUS(wait_for(signal, seen, long_wait()), NOCTER_CLOSED); });
  }
  for (Thread& waiter : waiters) BOOST_CHECK(waiter.until_asleep());
  nocter_signal_close(signal);
  waiters.clear();
  BOOST_CHECK_EQUAL(wait_for(signal, nocter_signal_version(signal), wait_ms(-1)), NOCTER_CLOSED);
  const uint64_t version = nocter_signal_version(signal);
  BOOST_CHECK_NE(version, 0u);
  uint64_t unmoved = 77;
  BOOST_CHECK_EQUAL(nocter_signal_publish(signal, &unmoved), NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(unmoved, version);
  BOOST_CHECK_EQUAL(nocter_signal_version(signal), version);
  nocter_signal_close(signal);  // again: nothing
  BOOST_CHECK_EQUAL(look(signal, version), NOCTER_CLOSED);
}

BOOST_AUTO_TEST_CASE(sig_04_close_races_publish_and_every_publication_is_ok_or_closed, *label("SIG-04")) {
  for (uint64_t i = 0; i < rounds(500, 100); i++) {
    Signal signal;
    const uint64_t first = nocter_signal_version(signal);
    StartLine start(2);
    uint64_t done = 0;
    Thread publisher([&] {
      start.ready();
      while (nocter_signal_publish(signal, nullptr) == NOCTER_OK) done++;
    });
    start.ready();
    nocter_signal_close(signal);
    publisher.join();
    BOOST_REQUIRE_EQUAL(nocter_signal_version(signal), first + done);
  }
}

BOOST_AUTO_TEST_CASE(sig_05_s_16_destroy_while_waiters_return_scenario_150, *label("SIG-05")) {
  for (uint64_t i = 0; i < rounds(300, 60); i++) {
    Signal signal;
    const uint64_t seen = nocter_signal_version(signal);
    nocter_signal* const raw = signal;
    std::atomic<int> entered{0};
    std::deque<Thread> waiters;
    for (int k = 0; k < 4; k++) {
      waiters.emplace_back([&] {
        entered++;
        // The last of them frees it; the version they are given is of the signal they waited in.
        const nocter_status status = wait_for(raw, seen, long_wait());
        HOLDS(status == NOCTER_CLOSED || status == NOCTER_OK);
      });
    }
    BOOST_REQUIRE(eventually([&] { return entered.load() == 4; }));
    for (Thread& waiter : waiters) BOOST_REQUIRE(waiter.until_asleep());
    if (i % 2 == 0) publish(signal);
    signal.destroy();
    waiters.clear();
  }
}

BOOST_AUTO_TEST_CASE(sig_05_s_17_a_destroyed_signal_lives_on_in_its_notifier, *label("SIG-05")) {
  Signal signal;
  const nocter_notifier notifier = nocter_signal_notifier(signal);
  BOOST_REQUIRE(notifier.wake != nullptr && notifier.drop != nullptr);
  const uint64_t seen = nocter_signal_version(signal);
  notifier.wake(notifier.user);
  BOOST_CHECK_EQUAL(nocter_signal_version(signal), seen + 1);
  signal.destroy();
  notifier.wake(notifier.user);  // nobody hears it; nothing is touched that is gone
  notifier.drop(notifier.user);
}

BOOST_AUTO_TEST_CASE(sig_05_a_dropped_notifier_leaves_the_signal, *label("SIG-05")) {
  Signal signal;
  for (int i = 0; i < 3; i++) {
    const nocter_notifier notifier = nocter_signal_notifier(signal);
    notifier.drop(notifier.user);
  }
  publish(signal);
}

BOOST_AUTO_TEST_CASE(sig_05_a_notifier_of_no_signal_wakes_nobody, *label("SIG-05")) {
  BOOST_CHECK(nocter_signal_notifier(nullptr).wake == nullptr);
  nocter_signal_close(nullptr);
  nocter_signal_destroy(nullptr);
  BOOST_CHECK_EQUAL(nocter_signal_version(nullptr), 0u);
  BOOST_CHECK_EQUAL(look(nullptr, 1), NOCTER_E_ARGUMENT);
  uint64_t version = 77;
  BOOST_CHECK_EQUAL(nocter_signal_publish(nullptr, &version), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(version, 0u);
  BOOST_CHECK_EQUAL(nocter_signal_create(nullptr), NOCTER_E_ARGUMENT);
}

BOOST_AUTO_TEST_CASE(sig_01_s_19_versions_are_wider_than_the_word_the_kernel_compares, *label("SIG-01")) {
  // 2^32 publications are too many for a test: what a test can show is that the difference is 64 bits wide.
  Signal signal;
  const uint64_t first = publish(signal);
  BOOST_CHECK_EQUAL(look(signal, first + (uint64_t{1} << 32)), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(look(signal, first + (uint64_t{1} << 31)), NOCTER_E_ARGUMENT);
}

BOOST_AUTO_TEST_CASE(sig_01_s_20_nobody_sleeps_past_the_last_of_many_changes_scenario_149, *label("SIG-01")) {
  Signal signal;
  const uint64_t last = rounds(1'000'000, 50'000);
  std::atomic<uint64_t> state{0};
  std::deque<Thread> waiters;
  for (int i = 0; i < 8; i++) {
    waiters.emplace_back([&] {
      for (;;) {
        const uint64_t seen = nocter_signal_version(signal);
        if (state.load() == last) return;
        if (!STATUS(wait_for(signal, seen, long_wait()), NOCTER_OK)) return;
      }
    });
  }
  for (uint64_t i = 1; i <= last; i++) {
    state.store(i);
    nocter_signal_publish(signal, nullptr);
  }
  waiters.clear();
  BOOST_CHECK_EQUAL(nocter_signal_version(signal), last + 1);
}

BOOST_AUTO_TEST_CASE(sig_01_s_20_two_threads_in_turns_never_lose_a_wake, *label("SIG-01")) {
  // Ping-pong leaves no later publication to rescue a lost one.
  Signal ping, pong;
  const uint64_t turns = rounds(100'000, 10'000);
  Thread other([&] {
    uint64_t seen = 1;
    for (uint64_t i = 0; i < turns; i++) {
      if (!STATUS(wait_for(ping, seen, long_wait()), NOCTER_OK)) return;
      seen++;
      publish(pong);
    }
  });
  uint64_t seen = 1;
  for (uint64_t i = 0; i < turns; i++) {
    publish(ping);
    BOOST_REQUIRE_EQUAL(wait_for(pong, seen, long_wait()), NOCTER_OK);
    seen++;
  }
}

BOOST_AUTO_TEST_CASE(sig_01_concurrent_publications_all_count, *label("SIG-01")) {
  Signal signal;
  const uint64_t each = rounds(100'000, 10'000);
  {
    std::deque<Thread> publishers;
    for (int i = 0; i < 4; i++) {
      publishers.emplace_back([&] {
        uint64_t before = 0;
        for (uint64_t k = 0; k < each; k++) {
          const uint64_t version = publish(signal);
          if (!HOLDS(version > before)) return;
          before = version;
        }
      });
    }
  }
  BOOST_CHECK_EQUAL(nocter_signal_version(signal), 1 + 4 * each);
}

BOOST_AUTO_TEST_SUITE_END()
