// Threads of the library's own that run tasks; and everything at once. TSK-02, TSK-14, TSK-16, FFI-06, FFI-14, GEN-12.
#include <deque>
#include <stdexcept>

#include "support/workers.hpp"
#include "tasks/engine.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(tasks_engine_serve, EveryTest)

BOOST_AUTO_TEST_CASE(tsk_02_served_parents_suspend_and_hold_no_thread, *label("TSK-02") * label("TSK-05")) {
  Tasks tasks;
  std::atomic<int> children{0};
  const nocter_task_handler handlers[] = {{sizeof(nocter_task_handler), 0, text("parent"),
                                           [](void*, nocter_run* run) {
                                             if (nocter_run_resumed(run)) {
                                               STATUS(done(run, "\"all\""), NOCTER_OK);
                                               return;
                                             }
                                             const std::vector<nocter_submission> below(20, submission("child"));
                                             STATUS(nocter_run_submit_child(run, below.data(), below.size(), nullptr),
                                                    NOCTER_OK);
                                             STATUS(suspend(run, NOCTER_UNTIL_CHILDREN), NOCTER_OK);
                                           },
                                           nullptr},
                                          {sizeof(nocter_task_handler), 0, text("child"),
                                           [](void* user, nocter_run* run) {
                                             static_cast<std::atomic<int>*>(user)->fetch_add(1);
                                             STATUS(done(run), NOCTER_OK);
                                           },
                                           &children}};
  nocter_workers* workers = nullptr;
  STATUS(nocter_tasks_serve(tasks, handlers, 2, 2, nullptr, &workers), NOCTER_OK);
  std::vector<nocter_task_id> ids;
  for (int i = 0; i < 10; i++) ids.push_back(submit(tasks, "parent"));
  for (const nocter_task_id& id : ids) {
    const nocter_wait wait = long_wait();
    const nocter_task* task = nullptr;
    if (!STATUS(nocter_tasks_await(tasks, id, &wait, &task), NOCTER_OK)) continue;
    const Seen ended(task);
    BOOST_CHECK_EQUAL(to_string(ended->result), "\"all\"");
  }
  BOOST_CHECK_EQUAL(children.load(), 200);
  nocter_workers_destroy(workers);
}

BOOST_AUTO_TEST_CASE(ffi_06_a_handler_that_throws_or_forgets_is_a_failed_try, *label("FFI-06") * label("TSK-16")) {
  Tasks tasks;
  Served served(tasks, "a", 2, [](nocter_run* run) {
    const std::string what = to_string(nocter_run_task(run)->payload);
    if (what == "1") throw std::runtime_error("thrown");
    if (what == "2") throw 5;
    if (what == "3") {
      STATUS(done(run), NOCTER_OK);
      throw 5;
    }
  });
  const std::pair<const char*, const char*> cases[] = {
      {"1", "HandlerError"}, {"2", "HandlerError"}, {"3", ""}, {"4", "NoOutcome"}};
  for (const auto& [payload, kind] : cases) {
    const nocter_task_id id = submit(tasks, submission("a", payload));
    const nocter_wait wait = long_wait();
    const nocter_task* task = nullptr;
    STATUS(nocter_tasks_await(tasks, id, &wait, &task), NOCTER_OK);
    const Seen ended(task);
    BOOST_CHECK_EQUAL(to_string(ended->failure.kind), kind);
    BOOST_CHECK_EQUAL(ended->status, kind[0] != 0 ? NOCTER_TASK_FAILED : NOCTER_TASK_COMPLETED);
  }
}

BOOST_AUTO_TEST_CASE(ffi_14_a_served_task_may_not_wait_for_another, *label("FFI-14")) {
  Tasks tasks;
  const nocter_task_id never = submit(tasks, "never");
  std::atomic<nocter_status> said{NOCTER_OK};
  Served served(tasks, "a", 1, [&](nocter_run* run) {
    const nocter_wait wait = long_wait();
    const nocter_task* task = nullptr;
    said.store(nocter_tasks_await(tasks, never, &wait, &task));
    STATUS(done(run), NOCTER_OK);
  });
  const nocter_task_id id = submit(tasks, "a");
  const nocter_wait wait = long_wait();
  const nocter_task* task = nullptr;
  STATUS(nocter_tasks_await(tasks, id, &wait, &task), NOCTER_OK);
  nocter_task_free(task);
  BOOST_CHECK_EQUAL(said.load(), NOCTER_E_WOULD_DEADLOCK);
}

BOOST_AUTO_TEST_CASE(tsk_14_a_stop_interrupts_what_runs_and_costs_nothing, *label("TSK-14")) {
  Tasks tasks;
  Gate gate;
  std::atomic<int32_t> reason{0};
  const nocter_task_id id = submit(tasks, "a");
  Served served(tasks, "a", 1, [&](nocter_run* run) {
    gate.open();
    gate.until_reached();
    nocter_wait wait = long_wait();
    wait.interrupt = nocter_run_interrupt(run);
    Signal never;
    uint64_t version = 0;
    STATUS(nocter_signal_wait(never, 1, &wait, &version), NOCTER_INTERRUPTED);
    reason.store(nocter_run_interrupt_reason(run));
    STATUS(nocter_run_hand_back(run), NOCTER_OK);
  });
  gate.pass();
  const nocter_wait wait = long_wait();
  STATUS(nocter_workers_stop(served, &wait), NOCTER_OK);
  BOOST_CHECK_EQUAL(reason.load(), NOCTER_REASON_STOP);
  const Seen task(tasks, id);
  BOOST_CHECK_EQUAL(task->status, NOCTER_TASK_QUEUED);
  BOOST_CHECK_EQUAL(task->attempt, 0u);
}

BOOST_AUTO_TEST_CASE(gen_04_a_close_inside_a_handler_and_inside_the_log, *label("GEN-04")) {
  {
    Tasks tasks;
    std::atomic<bool> closed{false};
    submit(tasks, "a");
    Served served(tasks, "a", 2, [&](nocter_run* run) {
      tasks.close();
      STATUS(done(run), NOCTER_CLOSED);
      closed.store(true);
    });
    BOOST_CHECK(eventually([&] { return closed.load(); }));
  }
  struct Closer {
    std::atomic<nocter_tasks*> tasks{nullptr};
    std::atomic<bool> closed{false};
    static void line(void* user, int32_t, nocter_text) {
      auto& closer = *static_cast<Closer*>(user);
      nocter_tasks* const closing = closer.tasks.exchange(nullptr);
      nocter_tasks_close(closing);
      if (closing != nullptr) closer.closed.store(true);
    }
  } closer;
  Clock clock;
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  options.clock = clock;
  options.log = Closer::line;
  options.log_user = &closer;
  nocter_tasks* opened = nullptr;
  STATUS(nocter_tasks_open(text("memory:"), &options, &opened), NOCTER_OK);
  closer.tasks.store(opened);
  clock.advance(60'000);  // the lease is lost, which is worth a line
  BOOST_CHECK(eventually([&] { return closer.closed.load(); }));
}

// With ThreadSanitizer: the keeper is at work before whoever opens the store has given it the log.
BOOST_AUTO_TEST_CASE(gen_01_a_log_is_given_while_the_keeper_is_at_work, *label("GEN-01")) {
  struct Counts {
    std::atomic<int> opened{0}, dropped{0};
  } counts;
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  options.log = [](void* user, int32_t, nocter_text line) {
    if (to_string(line).starts_with("opened")) static_cast<Counts*>(user)->opened.fetch_add(1);
  };
  options.log_drop = [](void* user) { static_cast<Counts*>(user)->dropped.fetch_add(1); };
  options.log_user = &counts;
  constexpr int kThreads =
      8;  // more than there are cores: it is when the opening thread is put aside that the keeper comes first
  constexpr auto kTimes = static_cast<int>(rounds(50, 1000));
  {
    std::deque<Thread> threads;
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([&] {
        for (int i = 0; i < kTimes; i++) {
          nocter_tasks* tasks = nullptr;
          STATUS(nocter_tasks_open(text("memory:"), &options, &tasks), NOCTER_OK);
          nocter_tasks_close(tasks);
        }
      });
    }
  }
  BOOST_CHECK_EQUAL(counts.opened.load(), kThreads * kTimes);
  BOOST_CHECK_EQUAL(counts.dropped.load(), kThreads * kTimes);
}

BOOST_AUTO_TEST_CASE(gen_12_submits_claims_suspends_messages_and_cancels_from_many_threads_all_end,
                     *label("GEN-12") * label("TSK-01") * label("TSK-12")) {
  Tasks tasks;
  const nocter_task_handler handler = {
      sizeof handler, 0, text("a"),
      [](void*, nocter_run* run) {
        const uint64_t dice = nocter_run_fence(run) * 0x9e3779b97f4a7c15 >> 61;
        const nocter_task& task = *nocter_run_task(run);
        const auto ended = [](nocter_status status) {
          HOLDS(status == NOCTER_OK || status == NOCTER_CANCELLED || status == NOCTER_E_LEASE_LOST);
        };
        if (!nocter_run_resumed(run) && task.priority < 2) {
          const std::vector<nocter_submission> below(1 + dice % 3, submission("a"));
          const nocter_status status = nocter_run_submit_child(run, below.data(), below.size(), nullptr);
          HOLDS(status == NOCTER_OK || status == NOCTER_CANCELLED);
          ended(suspend(run, NOCTER_UNTIL_CHILDREN));
        } else if (dice == 7 && task.deliveries < 3) {
          ended(nocter_run_hand_back(run));
        } else if (dice == 6) {
          nocter_run_drop(run);
        } else {
          if (!nocter_task_id_equal(task.parent, nocter_task_id{})) {
            const nocter_status status = nocter_run_notify_parent(run, text("1"));
            HOLDS(status == NOCTER_OK || status == NOCTER_E_STATE);
          }
          ended(done(run));
        }
      },
      nullptr};
  nocter_workers* workers = nullptr;
  STATUS(nocter_tasks_serve(tasks, &handler, 1, 4, nullptr, &workers), NOCTER_OK);
  std::deque<Thread> threads;
  const uint64_t each = rounds(300, 40);
  const char* const longer = std::getenv("NOCTER_STRESS_SECONDS");
  const int64_t until = nocter_now_ns() + (longer != nullptr ? std::strtoll(longer, nullptr, 10) : 0) * 1'000'000'000;
  for (uint64_t t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      auto random = random_stream(t);
      std::vector<nocter_task_id> mine;
      for (uint64_t i = 0; i < each || nocter_now_ns() < until; i++) {
        mine.push_back(submit(tasks, "a"));
        const nocter_task_id one = mine[below(random, mine.size())];
        if (random() % 8 == 0) {
          const nocter_status status = nocter_tasks_cancel(tasks, one, nullptr);
          HOLDS(status == NOCTER_OK || status == NOCTER_E_STATE);
        }
        if (random() % 4 == 0) {
          const nocter_status status = nocter_tasks_notify(tasks, one, nocter_task_id{}, text("[]"));
          HOLDS(status == NOCTER_OK || status == NOCTER_E_STATE);
        }
      }
      for (const nocter_task_id& id : mine) {
        const nocter_wait wait = long_wait();
        const nocter_task* task = nullptr;
        if (!STATUS(nocter_tasks_await(tasks, id, &wait, &task), NOCTER_OK)) return;
        nocter_task_free(task);
      }
    });
  }
  threads.clear();
  BOOST_CHECK(eventually([&] {
    const nocter_tasks_counts counts = counts_of(tasks);
    return counts.queued == 0 && counts.running == 0 && counts.suspended == 0 && counts.runs == 0;
  }));
  STATUS(nocter_tasks_maintain(tasks), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(tasks).repairs, 0u);
  nocter_workers_destroy(workers);
}

BOOST_AUTO_TEST_SUITE_END()
