// The library's own threads of a keyed queue: what they run, when not, and how they end. KEY-02, KEY-04, KEY-06,
// KEY-08, GEN-10.
#include <nocter.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

void until_drained(nocter_keyed* queue, nocter_close_mode mode) {
  nocter_keyed_close(queue, mode);
  const nocter_wait wait = long_wait();
  STATUS(nocter_keyed_drained(queue, &wait), NOCTER_OK);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_workers_suite, EveryTest)

BOOST_AUTO_TEST_CASE(key_02_no_more_passes_than_workers_and_one_a_key_scenario_108_113_132,
                     *label("KEY-02") * label("KEY-03")) {
  Queue queue({.maximum_keys = 32, .workers = 3});
  std::atomic<int> running{0}, most{0};
  std::array<std::atomic<int>, 32> active = {}, passes = {};
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = 5;  // more threads than workers: the bound is the queue's
  PassRunner runner(
      queue,
      [&](const std::string& key, nocter_pass*) {
        const size_t i = std::stoul(key);
        HOLDS(active[i].fetch_add(1) == 0);
        const int now = running.fetch_add(1) + 1;
        int before = most.load();
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        std::this_thread::yield();
        passes[i]++;
        running--;
        active[i]--;
        return NOCTER_OK;
      },
      &options);
  for (uint64_t round = 0; round < rounds(500, 100); round++) {
    for (int i = 0; i < 32; i++) (void)notify(queue, std::to_string(i));
  }
  until_drained(queue, NOCTER_CLOSE_DRAIN);
  BOOST_CHECK_LE(most.load(), 3);
  for (const auto& count : passes) BOOST_CHECK_GE(count.load(), 1);
}

BOOST_AUTO_TEST_CASE(key_04_no_pass_runs_on_the_notifying_thread_scenario_133, *label("KEY-04")) {
  Queue queue({.maximum_keys = 4});
  const pthread_t notifying = pthread_self();
  std::atomic<int> here{0}, elsewhere{0};
  PassRunner runner(queue, [&](const std::string&, nocter_pass*) {
    (pthread_equal(pthread_self(), notifying) ? here : elsewhere)++;
    return NOCTER_OK;
  });
  for (int i = 0; i < 1000; i++) (void)notify(queue, std::to_string(i % 4));
  const nocter_text many[] = {nocter_text_of("0")};
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, many, 1, nullptr), NOCTER_OK);
  until_drained(queue, NOCTER_CLOSE_DRAIN);
  BOOST_CHECK_EQUAL(here.load(), 0);
  BOOST_CHECK_GE(elsewhere.load(), 4);
}

BOOST_AUTO_TEST_CASE(key_03_a_pass_that_notifies_itself_lets_others_run_scenario_51_107_129_k_3_k_27,
                     *label("KEY-03") * label("KEY-09")) {
  Queue queue({.maximum_keys = 8, .workers = 1});
  std::mutex mutex;
  std::map<std::string, int> passes;
  PassRunner runner(queue, [&](const std::string& key, nocter_pass*) {
    (void)notify(queue, key);
    const std::scoped_lock lock(mutex);
    passes[key]++;
    return NOCTER_OK;
  });
  for (const char* key : {"a", "b", "c", "d"}) (void)notify(queue, key);
  BOOST_CHECK(eventually([&] {
    const std::scoped_lock lock(mutex);
    return passes["a"] >= 200;
  }));
  until_drained(queue, NOCTER_CLOSE_DISCARD);
  int least = INT32_MAX, most = 0;
  for (const auto& [key, count] : passes) {
    least = std::min(least, count);
    most = std::max(most, count);
  }
  BOOST_CHECK_EQUAL(passes.size(), 4u);
  BOOST_CHECK_LE(most - least, 1);
}

BOOST_AUTO_TEST_CASE(key_06_what_a_function_says_decides_how_its_pass_ends_scenario_112_k_8,
                     *label("KEY-06") * label("GEN-10")) {
  Queue queue({.maximum_keys = 16, .workers = 1});
  std::mutex mutex;
  std::map<std::string, std::vector<uint32_t>> failures;
  PassRunner runner(queue, [&](const std::string& key, nocter_pass* pass) -> nocter_status {
    {
      const std::scoped_lock lock(mutex);
      failures[key].push_back(nocter_pass_failures(pass));
    }
    const bool first = nocter_pass_failures(pass) == 0;
    if (key == "fails") return NOCTER_E_STATE;
    if (key == "positive") return NOCTER_EMPTY;
    if (key == "throws") throw std::runtime_error("no");
    if (key == "retries" && first) STATUS(nocter_pass_retry_after(pass, 0), NOCTER_OK);
    if (key == "completes") {
      STATUS(nocter_pass_complete(pass), NOCTER_OK);
      STATUS(nocter_pass_complete(pass), NOCTER_E_ARGUMENT);
      return NOCTER_E_STATE;  // too late to fail
    }
    if (key == "drops") nocter_pass_drop(pass);
    return NOCTER_OK;
  });
  for (const char* key : {"fails", "positive", "throws", "retries", "completes", "drops", "well"}) notify(queue, key);
  BOOST_CHECK(eventually([&] { return counts_of(queue).started == 8 && counts_of(queue).retained == 0; }));
  const nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.failed, 5u);
  BOOST_CHECK_EQUAL(counts.completed, 3u);
  BOOST_CHECK_EQUAL(counts.retried, 1u);
  BOOST_CHECK_EQUAL(counts.exceptions, 1u);
  BOOST_CHECK((failures["retries"] == std::vector<uint32_t>{0, 1}));
}

BOOST_AUTO_TEST_CASE(key_06_a_thread_that_is_ended_in_a_pass_fails_it, *label("KEY-06") * label("GEN-10")) {
  Queue queue({.workers = 2});
  PassRunner runner(queue, [&](const std::string& key, nocter_pass*) -> nocter_status {
    if (key == "exit") pthread_exit(nullptr);
    return NOCTER_OK;
  });
  notify(queue, "exit");
  BOOST_CHECK(eventually([&] { return counts_of(queue).failed == 1; }));
  notify(queue, "well");
  BOOST_CHECK(eventually([&] { return counts_of(queue).completed == 1; }));
}

BOOST_AUTO_TEST_CASE(key_08_closing_inside_a_pass_returns_and_interrupts_it_scenario_135_k_15_k_20, *label("KEY-08")) {
  Queue queue({.workers = 1});
  std::atomic<bool> interrupted{false};
  PassRunner runner(queue, [&](const std::string&, nocter_pass* pass) {
    nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
    nocter_wait wait = long_wait();
    wait.interrupt = nocter_pass_interrupt(pass);
    Signal signal;
    uint64_t version;
    interrupted = nocter_signal_wait(signal, nocter_signal_version(signal), &wait, &version) == NOCTER_INTERRUPTED;
    return NOCTER_OK;
  });
  notify(queue, "a");
  notify(queue, "b");
  const nocter_wait wait = long_wait();
  BOOST_CHECK(eventually([&] { return counts_of(queue).accepting == 0; }));
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, &wait), NOCTER_OK);
  BOOST_CHECK(interrupted.load());
  BOOST_CHECK_LE(counts_of(queue).started, 1u);
}

BOOST_AUTO_TEST_CASE(key_08_the_interrupt_of_a_pass_is_of_that_pass_scenario_136_k_18_k_19, *label("KEY-08")) {
  Queue queue({.workers = 1});
  nocter_interrupt* first = nullptr;
  std::atomic<int> passes{0};
  PassRunner runner(queue, [&](const std::string& key, nocter_pass* pass) {
    if (key == "first") {
      first = nocter_pass_interrupt(pass);
      nocter_interrupt_raise(first);  // by hand: does nothing
      HOLDS(!nocter_pass_interrupted(pass));
    } else {
      nocter_interrupt_raise(first);  // one that has ended
      HOLDS(!nocter_interrupt_raised(nocter_pass_interrupt(pass)));
      HOLDS(!nocter_pass_interrupted(pass));
    }
    passes++;
    return NOCTER_OK;
  });
  notify(queue, "first");
  notify(queue, "second");
  BOOST_CHECK(eventually([&] { return passes == 2; }));
}

BOOST_AUTO_TEST_CASE(key_08_waits_in_a_pass_that_only_it_could_end_are_refused_scenario_157_k_16, *label("KEY-08")) {
  Queue queue({.workers = 1});
  std::atomic<int> asked{0};
  PassRunner runner(queue, [&](const std::string&, nocter_pass*) {
    const nocter_wait wait = long_wait();
    STATUS(try_claim(queue, &wait).status, NOCTER_E_WOULD_DEADLOCK);
    nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
    STATUS(nocter_keyed_drained(queue, &wait), NOCTER_E_WOULD_DEADLOCK);
    STATUS(nocter_keyed_drained(queue, nullptr), NOCTER_PENDING);
    asked++;
    return NOCTER_OK;
  });
  notify(queue, "a");
  BOOST_CHECK(eventually([&] { return asked == 1; }));
  const nocter_wait wait = long_wait();
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, &wait), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(key_08_workers_end_by_themselves_when_the_queue_is_drained, *label("KEY-08")) {
  Queue queue({.maximum_keys = 200, .workers = 2});
  std::atomic<int> passes{0};
  for (int i = 0; i < 100; i++) notify(queue, std::to_string(i));
  for (int i = 100; i < 200; i++) notify_after(queue, std::to_string(i), kMuchLater);
  nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
  {
    PassRunner runner(queue, [&](const std::string&, nocter_pass*) {
      passes++;
      return NOCTER_OK;
    });
    const nocter_wait wait = long_wait();
    BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, &wait), NOCTER_OK);
    BOOST_CHECK(eventually([&] { return nocter_workers_stop(runner, nullptr) == NOCTER_OK; }));
  }
  BOOST_CHECK_EQUAL(passes.load(), 200);
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  nocter_workers* workers = nullptr;
  const auto never = [](void*, nocter_text, nocter_pass*) -> nocter_status { return NOCTER_OK; };
  BOOST_CHECK_EQUAL(nocter_keyed_serve(queue, never, nullptr, nullptr, &workers), NOCTER_CLOSED);
  BOOST_CHECK(workers == nullptr);
}

BOOST_AUTO_TEST_CASE(key_06_workers_keep_the_time_of_delayed_keys_also_when_busy, *label("KEY-06") * label("KEY-10")) {
  Queue queue({.maximum_keys = 64, .workers = 1});
  std::atomic<int> delayed{0};
  std::atomic<bool> stop{false};
  PassRunner runner(queue, [&](const std::string& key, nocter_pass*) {
    if (key == "delayed") delayed++;
    if (key == "busy" && !stop) (void)notify(queue, key);
    return NOCTER_OK;
  });
  notify(queue, "busy");
  for (int i = 1; i <= 5; i++) {
    (void)notify_after(queue, "delayed", 2'000'000);
    BOOST_CHECK(eventually([&] { return delayed == i; }));
  }
  stop = true;
  BOOST_CHECK(eventually([&] { return counts_of(queue).retained == 0; }));
  (void)notify_after(queue, "delayed", 2'000'000);  // and when idle
  BOOST_CHECK(eventually([&] { return delayed == 6; }));
}

// Nothing but the queue orders these plain writes before the reads of the pass: ThreadSanitizer watches. Most of the notifications
// coalesce with one that another thread made.
BOOST_AUTO_TEST_CASE(key_03_a_pass_sees_what_was_done_before_each_notification_k_1_k_28,
                     *label("KEY-03") * label("KEY-01") * label("K-1") * label("K-28")) {
  constexpr size_t kNotifiers = 4;
  for (uint64_t round = 0; round < rounds(400, 100); round++) {
    Queue queue({.workers = 1});
    std::array<uint64_t, kNotifiers> written = {};
    std::atomic<size_t> notified{0};
    StartLine line(kNotifiers);
    std::vector<std::unique_ptr<Thread>> notifiers;
    for (size_t i = 0; i < kNotifiers; i++) {
      notifiers.push_back(std::make_unique<Thread>([&, i] {
        line.ready();
        for (int again = 0; again < 3; again++) {
          written[i]++;
          const nocter_status status = notify(queue, "hot");
          HOLDS(status == NOCTER_OK || status == NOCTER_COALESCED);
        }
        notified.fetch_add(1, std::memory_order_relaxed);
      }));
    }
    while (notified.load(std::memory_order_relaxed) != kNotifiers) std::this_thread::yield();
    nocter_pass* const pass = claim(queue, "hot");
    for (const uint64_t value : written) BOOST_CHECK_EQUAL(value, 3u);
    BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
    BOOST_CHECK_EQUAL(counts_of(queue).coalesced, 3 * kNotifiers - 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
