// Rounds: leases and fences, interrupts, atomic rounds, what a dropped run costs. TSK-08, TSK-11, TSK-14, TSK-17, TSK-18, TSK-22, TSK-31.
#include "tasks/engine.hpp"

using namespace nocter_tests;

namespace {

constexpr int64_t kLease = 1'000;

std::string message_of(nocter_run* run) {
  const nocter_notification* messages = nullptr;
  size_t count = 0;
  STATUS(nocter_run_notifications(run, &messages, &count), NOCTER_OK);
  std::string all;
  for (size_t i = 0; i < count; i++) all += to_string(messages[i].payload);
  return all;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tasks_engine_rounds, EveryTest)

BOOST_AUTO_TEST_CASE(tsk_17_a_lease_that_ends_interrupts_the_run_and_fences_it_out,
                     *label("TSK-17") * label("TSK-18")) {
  Clock clock;
  Tasks tasks({.clock = clock, .lease_ms = kLease});
  const nocter_task_id id = submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  Thread waits([&] {
    nocter_wait wait = long_wait();
    wait.interrupt = nocter_run_interrupt(run);
    Signal never;
    uint64_t version = 0;
    STATUS(nocter_signal_wait(never, 1, &wait, &version), NOCTER_INTERRUPTED);
  });
  BOOST_CHECK(waits.until_asleep());
  clock.advance(kLease / 2);  // renewed in time
  pause_ms(30);
  BOOST_CHECK_EQUAL(nocter_run_interrupt_reason(run), NOCTER_REASON_NONE);
  clock.advance(kLease);
  waits.join();
  BOOST_CHECK_EQUAL(nocter_run_interrupt_reason(run), NOCTER_REASON_LEASE_LOST);
  nocter_run* const second = claim(tasks, "a");
  BOOST_CHECK_EQUAL(nocter_run_woken_by(second), NOCTER_WAKE_RESCUE);
  BOOST_CHECK_GT(nocter_run_fence(second), nocter_run_fence(run));
  BOOST_CHECK_EQUAL(nocter_run_update_state(run, text("1")), NOCTER_E_LEASE_LOST);
  BOOST_CHECK_EQUAL(nocter_run_heartbeat(run), NOCTER_E_LEASE_LOST);
  BOOST_CHECK_EQUAL(nocter_run_step_put(run, text("s"), text("1")), NOCTER_E_LEASE_LOST);
  BOOST_CHECK_EQUAL(done(run, "1"), NOCTER_E_LEASE_LOST);
  STATUS(done(second, "2"), NOCTER_OK);
  const Seen task(tasks, id);
  BOOST_CHECK_EQUAL(to_string(task->result), "2");
  BOOST_CHECK_EQUAL(task->rescues, 1u);
}

BOOST_AUTO_TEST_CASE(tsk_18_by_hand_a_store_rescues_and_renews_when_told, *label("TSK-18") * label("TSK-17")) {
  Clock clock;
  Tasks tasks({.clock = clock, .flags = NOCTER_TASKS_BY_HAND, .lease_ms = kLease});
  submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  clock.advance(kLease - 1);
  BOOST_CHECK_EQUAL(nocter_run_heartbeat(run), NOCTER_OK);
  clock.advance(kLease - 1);
  BOOST_CHECK_EQUAL(nocter_tasks_maintain(tasks), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_run_heartbeat(run), NOCTER_OK);
  clock.advance(kLease + 1);
  BOOST_CHECK_EQUAL(nocter_tasks_maintain(tasks), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_run_interrupt_reason(run), NOCTER_REASON_LEASE_LOST);
  nocter_run* const second = claim(tasks, "a");
  BOOST_CHECK_EQUAL(done(run), NOCTER_E_LEASE_LOST);
  STATUS(done(second), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(tasks).rescues, 1u);
}

BOOST_AUTO_TEST_CASE(tsk_11_a_cancel_interrupts_what_runs, *label("TSK-11")) {
  Tasks tasks;
  const nocter_task_id id = submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  nocter_submission below = submission("b");
  nocter_task_id child = {};
  STATUS(nocter_run_submit_child(run, &below, 1, &child), NOCTER_OK);
  nocter_run* const of_child = claim(tasks, "b");
  BOOST_CHECK(!nocter_run_cancel_requested(run));
  Thread waits([&] {
    nocter_wait wait = long_wait();
    wait.interrupt = nocter_run_interrupt(of_child);
    Signal never;
    uint64_t version = 0;
    STATUS(nocter_signal_wait(never, 1, &wait, &version), NOCTER_INTERRUPTED);
  });
  uint64_t touched = 0;
  STATUS(nocter_tasks_cancel(tasks, id, &touched), NOCTER_OK);
  BOOST_CHECK_EQUAL(touched, 2u);
  waits.join();
  BOOST_CHECK(nocter_run_cancel_requested(run) && nocter_run_cancel_requested(of_child));
  BOOST_CHECK_EQUAL(nocter_run_interrupt_reason(of_child), NOCTER_REASON_CANCEL);
  BOOST_CHECK_EQUAL(nocter_run_submit_child(run, &below, 1, nullptr), NOCTER_CANCELLED);
  BOOST_CHECK_EQUAL(done(of_child, "[1]"), NOCTER_CANCELLED);
  BOOST_CHECK_EQUAL(done(run), NOCTER_CANCELLED);
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_CANCELLED);
  const Seen cancelled(tasks, child);
  BOOST_CHECK_EQUAL(to_string(cancelled->result), "[1]");
  BOOST_CHECK_EQUAL(nocter_tasks_cancel(tasks, id, nullptr), NOCTER_E_STATE);
}

BOOST_AUTO_TEST_CASE(tsk_31_what_an_atomic_round_writes_is_its_own_until_it_ends, *label("TSK-31") * label("TSK-22")) {
  Tasks tasks;
  const nocter_task_id other = submit(tasks, "other");
  const nocter_task_id id = submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  STATUS(nocter_run_atomic(run), NOCTER_OK);
  STATUS(nocter_run_update_state(run, text("5")), NOCTER_OK);
  STATUS(nocter_run_step_put(run, text("step"), text("1")), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_run_step_put(run, text("step"), text("2")), NOCTER_EXISTS);
  nocter_text step = {};
  STATUS(nocter_run_step_get(run, text("step"), &step), NOCTER_OK);
  BOOST_CHECK_EQUAL(to_string(step), "1");
  STATUS(nocter_run_shared_put_if_absent(run, text("k"), text("[1]"), nullptr), NOCTER_OK);
  nocter_value* value = nullptr;
  BOOST_CHECK_EQUAL(nocter_run_shared_put_if_absent(run, text("k"), text("[2]"), &value), NOCTER_EXISTS);
  BOOST_CHECK_EQUAL(to_string(nocter_value_text(value)), "[1]");
  nocter_value_free(value);
  const nocter_submission below = submission("child");
  nocter_task_id child = {};
  STATUS(nocter_run_submit_child(run, &below, 1, &child), NOCTER_OK);
  nocter_task_list children = {};
  STATUS(nocter_run_children(run, &children), NOCTER_OK);
  BOOST_REQUIRE_EQUAL(children.count, 1u);
  BOOST_CHECK(nocter_task_id_equal(children.tasks[0]->id, child) && children.tasks[0]->priority == 1);
  nocter_task_list_free(&children);
  STATUS(nocter_run_notify(run, other, text("\"hello\"")), NOCTER_OK);
  STATUS(nocter_run_notify(run, child, text("\"welcome\"")), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_run_notify(run, nocter_task_id_make(), text("1")), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(nocter_run_notify(run, other, text("[")), NOCTER_E_JSON);

  // Nobody else sees any of it.
  const nocter_task* none = nullptr;
  BOOST_CHECK_EQUAL(nocter_tasks_get(tasks, child, &none), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(Seen(tasks, id)->state.size, 0u);
  BOOST_CHECK_EQUAL(Seen(tasks, other)->messages, 0u);
  STATUS(suspend(run, NOCTER_UNTIL_TASKS, 0, {child}), NOCTER_OK);

  BOOST_CHECK_EQUAL(to_string(Seen(tasks, id)->state), "5");
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_SUSPENDED);
  nocter_run* const of_other = claim(tasks, "other");
  BOOST_CHECK_EQUAL(message_of(of_other), "\"hello\"");
  STATUS(done(of_other), NOCTER_OK);
  nocter_run* const of_child = claim(tasks, "child");
  BOOST_CHECK_EQUAL(message_of(of_child), "\"welcome\"");
  STATUS(nocter_run_shared_get(of_child, text("k"), &value), NOCTER_OK);
  BOOST_CHECK_EQUAL(to_string(nocter_value_text(value)), "[1]");
  nocter_value_free(value);
  STATUS(done(of_child), NOCTER_OK);
  nocter_run* const again = claim(tasks, "a");
  BOOST_CHECK(nocter_run_resumed(again) && nocter_run_woken_by(again) == NOCTER_WAKE_JOIN);
  STATUS(nocter_run_step_get(again, text("step"), &step), NOCTER_OK);
  BOOST_CHECK_EQUAL(to_string(step), "1");
  STATUS(done(again), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(tsk_31_an_atomic_round_that_cannot_be_ends_in_nothing, *label("TSK-31")) {
  Tasks tasks;
  const nocter_task_id id = submit(tasks, "a");
  nocter_run* run = claim(tasks, "a");
  STATUS(nocter_run_atomic(run), NOCTER_OK);
  STATUS(nocter_run_update_state(run, text("5")), NOCTER_OK);
  STATUS(nocter_run_shared_put_if_absent(run, text("k"), text("1"), nullptr), NOCTER_OK);
  char scope[37];
  nocter_task_id_format(id, scope);
  STATUS(nocter_shared_put(tasks, nocter_text_of(scope), text("k"), text("2")), NOCTER_OK);
  BOOST_CHECK_EQUAL(done(run), NOCTER_EXISTS);
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_RUNNING);
  BOOST_CHECK_EQUAL(Seen(tasks, id)->state.size, 0u);
  STATUS(nocter_run_hand_back(run), NOCTER_OK);
  run = claim(tasks, "a");
  BOOST_CHECK_EQUAL(nocter_run_task(run)->attempt, 1u);
  STATUS(done(run), NOCTER_OK);
  BOOST_CHECK_EQUAL(Seen(tasks, id)->state.size, 0u);
}

BOOST_AUTO_TEST_CASE(tsk_14_a_dropped_run_is_a_failed_try, *label("TSK-14") * label("TSK-16")) {
  Tasks tasks({.flags = NOCTER_TASKS_BY_HAND});
  const nocter_task_id id = submit(tasks, "a");
  nocter_run_drop(claim(tasks, "a"));
  const Seen task(tasks, id);
  BOOST_CHECK_EQUAL(task->status, NOCTER_TASK_FAILED);
  BOOST_CHECK_EQUAL(to_string(task->failure.kind), "WorkerLost");
}

BOOST_AUTO_TEST_CASE(tsk_15_retry_lets_a_task_run_now_or_makes_another_like_it, *label("TSK-15")) {
  Tasks tasks;
  nocter_submission twice = submission("a", "[1]");
  twice.max_attempts = 2;
  const nocter_task_id id = submit(tasks, twice);
  nocter_failure failure = NOCTER_FAILURE_INIT;
  failure.kind = text("Test");
  failure.retry = NOCTER_RETRY_AFTER;
  failure.retry_after_ms = 3'600'000;
  STATUS(nocter_run_fail(claim(tasks, "a"), &failure), NOCTER_OK);
  BOOST_CHECK(try_claim(tasks, "a") == nullptr);
  nocter_task_id again = {};
  STATUS(nocter_tasks_retry(tasks, id, &again), NOCTER_OK);
  BOOST_CHECK(nocter_task_id_equal(id, again));
  STATUS(fail(claim(tasks, "a"), NOCTER_RETRY_NEVER), NOCTER_OK);
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_FAILED);
  STATUS(nocter_tasks_retry(tasks, id, &again), NOCTER_OK);
  BOOST_CHECK(!nocter_task_id_equal(id, again));
  nocter_run* const run = claim(tasks, "a");
  BOOST_CHECK_EQUAL(to_string(nocter_run_task(run)->payload), "[1]");
  BOOST_CHECK_EQUAL(nocter_tasks_retry(tasks, again, nullptr), NOCTER_E_STATE);
  STATUS(done(run), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_tasks_retry(tasks, again, nullptr), NOCTER_E_STATE);
}

BOOST_AUTO_TEST_CASE(tsk_23_trees_past_their_retention_are_purged, *label("TSK-23")) {
  Clock clock;
  Tasks tasks({.clock = clock, .retention_ms = 1'000});
  const nocter_task_id old = submit(tasks, "a");
  STATUS(done(claim(tasks, "a")), NOCTER_OK);
  clock.advance(1'001);
  const nocter_task* task = nullptr;
  BOOST_CHECK(eventually([&] {
    const nocter_status status = nocter_tasks_get(tasks, old, &task);
    nocter_task_free(task);
    return status == NOCTER_E_UNKNOWN;
  }));
  submit(tasks, "a");
  STATUS(done(claim(tasks, "a")), NOCTER_OK);
  uint64_t removed = 0;
  BOOST_CHECK_EQUAL(nocter_tasks_purge(tasks, 5'000, &removed), NOCTER_OK);
  BOOST_CHECK_EQUAL(removed, 0u);
  BOOST_CHECK_EQUAL(nocter_tasks_purge(tasks, 0, &removed), NOCTER_OK);
  BOOST_CHECK_EQUAL(removed, 1u);
  BOOST_CHECK_EQUAL(counts_of(tasks).purged, 2u);
}

BOOST_AUTO_TEST_SUITE_END()
