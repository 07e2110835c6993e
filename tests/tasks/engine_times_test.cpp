// Times that cannot be. CLK-04.
#include "tasks/engine.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(tasks_engine_times, EveryTest)

BOOST_AUTO_TEST_CASE(clk_04_a_time_that_cannot_be_is_refused, *label("CLK-04")) {
  constexpr int64_t kLast = 253'402'300'799'999;  // the end of the year 9999
  constexpr int64_t kImpossible[] = {INT64_MIN, -1, kLast + 1, INT64_MAX};
  Tasks tasks;
  const nocter_task_id id = submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  for (const int64_t time : kImpossible) {
    nocter_submission late = submission("b");
    late.run_after_ms = time;
    STATUS(nocter_tasks_submit(tasks, &late, 1, nullptr), NOCTER_E_ARGUMENT);
    STATUS(suspend(run, NOCTER_UNTIL_NOTIFIED, time), NOCTER_E_ARGUMENT);
    nocter_failure failure = NOCTER_FAILURE_INIT;
    failure.retry = NOCTER_RETRY_AFTER;
    failure.retry_after_ms = time;
    STATUS(nocter_run_fail(run, &failure), NOCTER_E_ARGUMENT);
    nocter_lock* lock = nullptr;
    STATUS(nocter_lock_acquire(tasks, text("lock"), time, nullptr, &lock), NOCTER_E_ARGUMENT);
  }
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_RUNNING);
  BOOST_CHECK_EQUAL(counts_of(tasks).queued, 0u);
  nocter_submission late = submission("b");
  late.run_after_ms = kLast;
  submit(tasks, late);
  STATUS(suspend(run, NOCTER_UNTIL_NOTIFIED, kLast), NOCTER_OK);
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_SUSPENDED);
}

BOOST_AUTO_TEST_SUITE_END()
