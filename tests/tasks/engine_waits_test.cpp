// Claims, awaits, locks and events that wait, by one thread and by many. TSK-13, TSK-27, TSK-29, SHR-03, GEN-04.
#include <deque>
#include <map>
#include <mutex>

#include "tasks/engine.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(tasks_engine_waits, EveryTest)

BOOST_AUTO_TEST_CASE(tsk_27_a_claim_that_waits_is_woken_by_a_submit, *label("TSK-27")) {
  Tasks tasks;
  std::atomic<nocter_run*> got{nullptr};
  Thread thread([&] { got.store(claim(tasks, "a")); });
  BOOST_CHECK(thread.until_asleep());
  const int64_t before = nocter_now_ns();
  submit(tasks, "b");
  const nocter_task_id id = submit(tasks, "a");
  thread.join();
  BOOST_CHECK_LT(nocter_now_ns() - before, 500'000'000);  // not by the poll, which is a second
  BOOST_CHECK(nocter_task_id_equal(nocter_run_task(got.load())->id, id));
  STATUS(done(got.load()), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(tsk_13_as_many_claims_wake_as_there_are_tasks, *label("TSK-13")) {
  Tasks tasks;
  constexpr size_t kWaiting = 16, kTasks = 5;
  std::atomic<size_t> claimed{0}, timed_out{0};
  {
    std::deque<Thread> threads;
    for (size_t i = 0; i < kWaiting; i++) {
      threads.emplace_back([&, i] {
        const nocter_wait wait = nocter_wait_for_ms(kSanitized ? 3'000 : 700);
        nocter_status status = NOCTER_OK;
        nocter_run* const run = try_claim(tasks, i % 2 == 0 ? "a" : "", &wait, &status);
        if (run == nullptr) {
          STATUS(status, NOCTER_TIMEOUT);
          timed_out++;
        } else {
          claimed++;
          STATUS(done(run), NOCTER_OK);
        }
      });
    }
    pause_ms(100);
    std::vector<nocter_submission> many(kTasks, submission("a"));
    STATUS(nocter_tasks_submit(tasks, many.data(), many.size(), nullptr), NOCTER_OK);
  }
  BOOST_CHECK_EQUAL(claimed.load(), kTasks);
  BOOST_CHECK_EQUAL(timed_out.load(), kWaiting - kTasks);
}

BOOST_AUTO_TEST_CASE(gen_04_no_wake_is_lost_between_many_claimers_and_submitters, *label("GEN-04") * label("TSK-13")) {
  Tasks tasks;
  constexpr uint64_t kThreads = 4;
  const uint64_t each = rounds(2'000, 200);
  std::atomic<uint64_t> left{kThreads * each};
  std::mutex mutex;
  std::map<std::string, int> seen;
  std::deque<Thread> threads;
  const int64_t before = nocter_now_ns();
  for (uint64_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&, i] {
      for (uint64_t k = 0; k < each; k++) {
        submit(tasks, submission(k % 3 == 0 ? "a" : "b", std::to_string(i * each + k)));
      }
    });
    threads.emplace_back([&, i] {
      auto random = random_stream(i);
      for (;;) {
        const nocter_text types[] = {text("a"), text("b"), text("end")};
        nocter_run* runs[3];
        size_t count = 0;
        const nocter_wait wait = long_wait();
        const auto max = static_cast<uint32_t>(1 + below(random, 3));
        if (!STATUS(nocter_tasks_claim(tasks, i == 0 ? types : nullptr, i == 0 ? 3 : 0, max, &wait, runs, &count),
                    NOCTER_OK))
          return;
        if (to_string(nocter_run_task(runs[0])->type) == "end") {  // then all of them are
          STATUS(done(runs[0]), NOCTER_OK);
          for (size_t k = 1; k < count; k++) STATUS(nocter_run_hand_back(runs[k]), NOCTER_OK);
          return;
        }
        for (size_t k = 0; k < count; k++) {
          {
            const std::scoped_lock lock(mutex);
            seen[to_string(nocter_run_task(runs[k])->payload)]++;
          }
          STATUS(done(runs[k]), NOCTER_OK);
          if (left.fetch_sub(1) == 1) {
            for (uint64_t t = 0; t < kThreads; t++) submit(tasks, "end");
          }
        }
      }
    });
  }
  threads.clear();
  BOOST_TEST_MESSAGE(kThreads * each << " tasks in " << (nocter_now_ns() - before) / 1'000'000 << " ms");
  BOOST_CHECK_EQUAL(seen.size(), kThreads * each);
  for (const auto& [payload, times] : seen) BOOST_REQUIRE_EQUAL(times, 1);
}

BOOST_AUTO_TEST_CASE(tsk_29_many_await_one_end, *label("TSK-29")) {
  Tasks tasks;
  const nocter_task_id id = submit(tasks, "a");
  std::deque<Thread> threads;
  for (int i = 0; i < 8; i++) {
    threads.emplace_back([&] {
      const nocter_wait wait = long_wait();
      const nocter_task* task = nullptr;
      STATUS(nocter_tasks_await(tasks, id, &wait, &task), NOCTER_OK);
      const Seen ended(task);
      HOLDS(ended->status == NOCTER_TASK_COMPLETED && to_string(ended->result) == "[7]");
    });
  }
  const nocter_task* none = nullptr;
  BOOST_CHECK_EQUAL(nocter_tasks_await(tasks, id, nullptr, &none), NOCTER_PENDING);
  const nocter_wait soon = nocter_wait_for_ms(20);
  BOOST_CHECK_EQUAL(nocter_tasks_await(tasks, id, &soon, &none), NOCTER_TIMEOUT);
  Interrupt interrupt;
  nocter_interrupt_raise(interrupt);
  const nocter_wait interrupted = {NOCTER_FOREVER, interrupt, 0, 0};
  BOOST_CHECK_EQUAL(nocter_tasks_await(tasks, id, &interrupted, &none), NOCTER_INTERRUPTED);
  BOOST_CHECK_EQUAL(nocter_tasks_await(tasks, nocter_task_id_make(), &soon, &none), NOCTER_E_UNKNOWN);
  STATUS(done(claim(tasks, "a"), "[7]"), NOCTER_OK);
  threads.clear();
}

BOOST_AUTO_TEST_CASE(tsk_13_a_clock_that_moves_brings_up_what_is_due, *label("TSK-13")) {
  for (const uint32_t flags : {0, NOCTER_TASKS_BY_HAND}) {
    Clock clock;
    Tasks tasks({.clock = clock, .flags = flags});
    nocter_submission late = submission("a");
    late.run_after_ms = Clock::kStart + 5'000;
    submit(tasks, late);
    BOOST_CHECK(try_claim(tasks, "a") == nullptr);
    std::atomic<nocter_run*> got{nullptr};
    Thread thread([&] { got.store(claim(tasks, "a")); });
    clock.advance(4'999);
    pause_ms(20);
    BOOST_CHECK(got.load() == nullptr);
    const int64_t before = nocter_now_ns();
    clock.advance(1);
    thread.join();
    BOOST_CHECK_LT(nocter_now_ns() - before, 500'000'000);
    STATUS(done(got.load()), NOCTER_OK);
  }
}

BOOST_AUTO_TEST_CASE(tsk_13_a_delay_by_the_systems_clock_ends_by_itself, *label("TSK-13")) {
  Tasks tasks;
  nocter_submission later = submission("a");
  later.run_after_ms = Seen(tasks, submit(tasks, "other"))->created_at_ms + 60;
  const int64_t before = nocter_now_ns();
  submit(tasks, later);
  STATUS(done(claim(tasks, "a")), NOCTER_OK);
  BOOST_CHECK_GT(nocter_now_ns() - before, 30'000'000);
  BOOST_CHECK_LT(nocter_now_ns() - before, 700'000'000);
}

BOOST_AUTO_TEST_CASE(shr_03_a_lock_waits_for_its_release_and_for_its_lease, *label("SHR-03") * label("SHR-04")) {
  Clock clock;
  Tasks tasks({.clock = clock});
  nocter_lock *first = nullptr, *second = nullptr, *third = nullptr;
  STATUS(nocter_lock_acquire(tasks, text("door"), 1'000, nullptr, &first), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_lock_acquire(tasks, text("door"), 1'000, nullptr, &second), NOCTER_HELD);
  Thread waits([&] {
    const nocter_wait wait = long_wait();
    STATUS(nocter_lock_acquire(tasks, text("door"), 1'000, &wait, &second), NOCTER_OK);
  });
  BOOST_CHECK(waits.until_asleep());
  const uint64_t fence = nocter_lock_fence(first);
  BOOST_CHECK_EQUAL(nocter_lock_release(first), NOCTER_OK);
  waits.join();
  BOOST_CHECK_GT(nocter_lock_fence(second), fence);
  Thread waits_for_the_lease([&] {
    const nocter_wait wait = long_wait();
    STATUS(nocter_lock_acquire(tasks, text("door"), 1'000, &wait, &third), NOCTER_OK);
  });
  BOOST_CHECK_EQUAL(nocter_lock_renew(second, 2'000), NOCTER_OK);
  clock.advance(2'000);
  waits_for_the_lease.join();
  BOOST_CHECK_EQUAL(nocter_lock_renew(second, 1'000), NOCTER_E_LEASE_LOST);
  BOOST_CHECK_EQUAL(nocter_lock_release(second), NOCTER_E_LEASE_LOST);
  BOOST_CHECK_EQUAL(nocter_lock_release(third), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(tsk_29_a_reader_waits_for_the_next_event, *label("TSK-29")) {
  Tasks tasks({.flags = NOCTER_TASKS_EVENTS});
  nocter_event_list list = {};
  BOOST_CHECK_EQUAL(nocter_events_read(tasks, 0, 10, nullptr, &list), NOCTER_EMPTY);
  Thread reads([&] {
    const nocter_wait wait = long_wait();
    nocter_event_list one = {};
    if (STATUS(nocter_events_read(tasks, 0, 10, &wait, &one), NOCTER_OK)) {
      HOLDS(one.count == 1 && one.events[0]->kind == NOCTER_EVENT_SUBMITTED && one.events[0]->sequence == 1);
    }
    nocter_event_list_free(&one);
  });
  BOOST_CHECK(reads.until_asleep());
  submit(tasks, "a");
  reads.join();
}

BOOST_AUTO_TEST_CASE(gen_04_a_close_ends_every_wait_and_hands_back, *label("GEN-04") * label("TSK-14")) {
  std::deque<Thread> threads;
  Tasks tasks({.flags = NOCTER_TASKS_EVENTS});
  const nocter_task_id id = submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  nocter_lock* lock = nullptr;
  STATUS(nocter_lock_acquire(tasks, text("door"), 60'000, nullptr, &lock), NOCTER_OK);
  nocter_tasks* const handle = tasks;
  const nocter_wait wait = long_wait();
  threads.emplace_back([&, handle] {
    nocter_status status = NOCTER_OK;
    HOLDS(try_claim(handle, "a", &wait, &status) == nullptr);
    STATUS(status, NOCTER_CLOSED);
  });
  threads.emplace_back([&, handle] {
    const nocter_task* task = nullptr;
    STATUS(nocter_tasks_await(handle, id, &wait, &task), NOCTER_CLOSED);
  });
  threads.emplace_back([&, handle] {
    nocter_lock* other = nullptr;
    STATUS(nocter_lock_acquire(handle, text("door"), 1'000, &wait, &other), NOCTER_CLOSED);
  });
  threads.emplace_back([&, handle] {
    nocter_event_list list = {};
    STATUS(nocter_events_read(handle, 1'000, 1, &wait, &list), NOCTER_CLOSED);
  });
  threads.emplace_back([&] {
    nocter_wait carries = long_wait();
    carries.interrupt = nocter_run_interrupt(run);
    Signal never;
    uint64_t version = 0;
    STATUS(nocter_signal_wait(never, 1, &carries, &version), NOCTER_INTERRUPTED);
  });
  for (Thread& thread : threads) BOOST_CHECK(thread.until_asleep());
  tasks.close();
  threads.clear();
  BOOST_CHECK_EQUAL(nocter_run_interrupt_reason(run), NOCTER_REASON_STOP);
  BOOST_CHECK_EQUAL(done(run), NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(nocter_run_update_state(run, text("1")), NOCTER_CLOSED);
  BOOST_CHECK(to_string(nocter_run_task(run)->type) == "a");
  nocter_run_drop(run);
  BOOST_CHECK_EQUAL(nocter_lock_renew(lock, 1'000), NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(nocter_lock_release(lock), NOCTER_CLOSED);
}

BOOST_AUTO_TEST_SUITE_END()
