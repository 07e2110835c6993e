// Suspending: what a task waits for, when it goes on, and what stays written down meanwhile.
#include "tasks/world.hpp"

namespace tasks_tests {

BOOST_AUTO_TEST_SUITE(suspending)

BOOST_AUTO_TEST_CASE(tsk_05_a_parent_parks_and_goes_on_with_its_state,
                     *label("TSK-05") * label("TSK-02") * label("TSK-06") * label("T-12") * label("T-84")) {
  World world;
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  const TaskId child = world.child(run, "child");
  BOOST_CHECK_EQUAL(world.update(run, R"({"next":2})"), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  const Record parked = world.get(parent);
  BOOST_CHECK_EQUAL(status_of(parked.row.phase), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(parked.texts.state, R"({"next":2})");
  BOOST_CHECK_EQUAL(parked.waiting_open, 1);
  BOOST_REQUIRE_EQUAL(parked.waiting_for.size(), 1U);
  BOOST_CHECK_EQUAL(parked.waiting_for[0], child);
  BOOST_CHECK(world.idle("parent"));
  world.restart();  // it holds nothing of the process that it ran in
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::suspended);

  BOOST_CHECK_EQUAL(world.done(world.claim("child"), "42"), Status::ok);
  BOOST_REQUIRE_EQUAL(world.effects().ready.size(), 1U);
  BOOST_CHECK_EQUAL(world.effects().ready[0].type, "parent");
  run = world.claim("parent");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::join);
  BOOST_CHECK_EQUAL(run.record.texts.state, R"({"next":2})");
  BOOST_CHECK(run.record.row.resumed);
  BOOST_CHECK_EQUAL(run.record.row.attempt, 1U);
  BOOST_CHECK_EQUAL(run.record.row.deliveries, 2U);
  BOOST_CHECK(run.record.waiting_for.empty());
  BOOST_CHECK_EQUAL(world.get(child).texts.result, "42");
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_CHECK_EQUAL(world.get(parent).row.deliveries, 2U);
}

BOOST_AUTO_TEST_CASE(tsk_05_without_an_open_child_it_goes_on, *label("TSK-05") * label("T-26") * label("N-09")) {
  World world;
  const TaskId id = world.root("parent");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("parent"), until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::queued);
  Run run = world.claim("parent");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::join);
  BOOST_CHECK(run.record.row.resumed);
  BOOST_CHECK_EQUAL(world.suspend(run, until({})), Status::ok);  // no ids at all
  run = world.claim("parent");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::join);
}

// A child that comes while the parent is parked joins in, in the transaction that stores it.
BOOST_AUTO_TEST_CASE(tsk_05_a_child_that_comes_late_counts, *label("TSK-05")) {
  World world;
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  world.child(run, "child");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  const TaskId late = world.child(parent, "late");
  BOOST_CHECK_EQUAL(world.get(parent).waiting_open, 2);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.get(parent).waiting_for.at(0), late);
  BOOST_CHECK_EQUAL(world.done(world.claim("late")), Status::ok);
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::queued);
}

BOOST_AUTO_TEST_CASE(tsk_04_some_of_the_children, *label("TSK-04")) {
  World world;
  const TaskId parent = world.root("parent");
  const Run run = world.claim("parent");
  for (int i = 0; i < 3; i++) world.child(run, "child");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children(2)), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  world.child(parent, "late");  // two are wanted all the same
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  BOOST_CHECK_EQUAL(world.claim("parent").record.row.woken_by, Wake::join);
}

BOOST_AUTO_TEST_CASE(tsk_06_the_last_one_wakes, *label("TSK-06") * label("TSK-04") * label("TSK-12")) {
  World world;
  const TaskId waiter = world.root("waiter");
  const TaskId first = world.root("one"), second = world.root("two"), third = world.root("three");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({first, second, third, first})), Status::ok);
  BOOST_CHECK_EQUAL(world.get(waiter).waiting_open, 3);
  BOOST_CHECK_EQUAL(world.done(world.claim("two")), Status::ok);
  BOOST_CHECK_EQUAL(world.get(waiter).waiting_open, 2);
  BOOST_CHECK_EQUAL(world.cancel(first), Status::ok);
  BOOST_CHECK_EQUAL(world.status(waiter), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.fail(world.claim("three")), Status::ok);  // however it ends
  BOOST_CHECK_EQUAL(world.claim("waiter").record.row.woken_by, Wake::join);
}

BOOST_AUTO_TEST_CASE(tsk_04_any_of_them, *label("TSK-04")) {
  World world;
  const TaskId waiter = world.root("waiter"), first = world.root("one"), second = world.root("two");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({first, second}, 1)), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("two")), Status::ok);
  Run run = world.claim("waiter");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::join);
  BOOST_REQUIRE_EQUAL(run.record.waiting_for.size(), 1U);  // the other one is open still
  BOOST_CHECK_EQUAL(run.record.waiting_for[0], first);
  // One has ended: any of both is fulfilled already, two of them is not.
  BOOST_CHECK_EQUAL(world.suspend(run, until({first, second}, 1)), Status::ok);
  run = world.claim("waiter");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::join);
  BOOST_CHECK_EQUAL(world.suspend(run, until({first, second}, 99)), Status::ok);
  BOOST_CHECK_EQUAL(world.status(waiter), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.done(world.claim("one")), Status::ok);
  BOOST_CHECK_EQUAL(world.status(waiter), TaskStatus::queued);
}

BOOST_AUTO_TEST_CASE(tsk_05_all_have_ended_already, *label("TSK-05") * label("T-13")) {
  World world;
  const TaskId waiter = world.root("waiter"), other = world.root("other");
  const Run run = world.claim("waiter");
  BOOST_CHECK_EQUAL(world.done(world.claim("other")), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until({other})), Status::ok);
  BOOST_CHECK_EQUAL(world.status(waiter), TaskStatus::queued);
  BOOST_CHECK_EQUAL(world.claim("waiter").record.row.woken_by, Wake::join);
}

BOOST_AUTO_TEST_CASE(tsk_04_the_first_failure_wakes, *label("TSK-04")) {
  World world;
  const TaskId waiter = world.root("waiter"), first = world.root("one"), second = world.root("two");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({first, second}, 0, true)), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("one")), Status::ok);
  const Run run = world.claim("waiter");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::failure);
  BOOST_CHECK_EQUAL(run.record.waiting_for.at(0), second);
  // The one that failed is in the set: no parking.
  BOOST_CHECK_EQUAL(world.suspend(run, until({first, second}, 0, true)), Status::ok);
  const Run again = world.claim("waiter");
  BOOST_CHECK_EQUAL(again.record.row.woken_by, Wake::failure);
  BOOST_CHECK_EQUAL(world.suspend(again, until({first, second})), Status::ok);  // it does not mind any more
  BOOST_CHECK_EQUAL(world.status(waiter), TaskStatus::suspended);
}

BOOST_AUTO_TEST_CASE(tsk_04_a_child_that_failed_meanwhile_wakes, *label("TSK-04")) {
  World world;
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  world.child(run, "good");
  world.child(run, "bad");
  BOOST_CHECK_EQUAL(world.fail(world.claim("bad")), Status::ok);  // while it runs
  BOOST_CHECK_EQUAL(world.suspend(run, until_children(0, true)), Status::ok);
  run = world.claim("parent");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::failure);
  // It has seen that one now.
  BOOST_CHECK_EQUAL(world.suspend(run, until_children(0, true)), Status::ok);
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.cancel(world.get(parent).waiting_for.at(0)), Status::ok);  // the last one: joined
  BOOST_CHECK_EQUAL(world.claim("parent").record.row.woken_by, Wake::join);
}

BOOST_AUTO_TEST_CASE(tsk_04_wakes_by_time, *label("TSK-04")) {
  World world;
  const TaskId waiter = world.root("waiter"), other = world.root("other");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({other}, 0, false, kStart + 50)), Status::ok);
  BOOST_CHECK_EQUAL(world.effects().next_due, kStart + 50);
  BOOST_CHECK_EQUAL(world.get(waiter).row.due_at, kStart + 50);
  world.advance(49);
  BOOST_CHECK(world.idle("waiter"));
  world.advance(1);
  Run run = world.claim("waiter");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::timer);
  BOOST_CHECK_EQUAL(run.record.waiting_for.at(0), other);
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified(kStart + 50)), Status::ok);  // that is now
  run = world.claim("waiter");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::timer);
  BOOST_CHECK(run.record.waiting_for.empty());
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified(kStart + 100)), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(waiter, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.get(waiter).row.due_at, kNever);
  BOOST_CHECK_EQUAL(world.claim("waiter").record.row.woken_by, Wake::message);
}

// The time's waking leaves the join as it is: ends go on to strike it out.
BOOST_AUTO_TEST_CASE(tsk_07_the_remainder_is_kept_across_wakes, *label("TSK-07") * label("T-25")) {
  World world;
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  for (int i = 0; i < 3; i++) world.child(run, "child");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(parent, R"("early")"), Status::ok);
  run = world.claim("parent");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::message);
  BOOST_CHECK_EQUAL(run.record.waiting_open, 3);
  BOOST_CHECK_EQUAL(run.record.row.until == Until::children, true);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  BOOST_CHECK_EQUAL(world.get(parent).waiting_open, 2);  // while it runs
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  BOOST_CHECK_EQUAL(world.claim("parent").record.row.woken_by, Wake::join);
}

BOOST_AUTO_TEST_CASE(tsk_07_the_remainder_is_kept_across_retries_and_restarts, *label("TSK-07") * label("TSK-19")) {
  World world;
  Submission submission = World::task("waiter");
  submission.max_attempts = 2;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  const TaskId first = world.root("one"), second = world.root("two");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({first, second})), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(submission.id, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("waiter"), "Broken", Retry::after, 10), Status::ok);
  BOOST_CHECK_EQUAL(world.get(submission.id).waiting_open, 2);
  BOOST_CHECK_EQUAL(world.done(world.claim("one")), Status::ok);
  BOOST_CHECK_EQUAL(world.get(submission.id).waiting_for.at(0), second);
  world.restart();
  world.advance(10);
  const Run run = world.claim("waiter");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::retry);
  BOOST_CHECK(run.record.row.resumed);
  BOOST_CHECK_EQUAL(run.record.waiting_for.at(0), second);
  BOOST_CHECK_EQUAL(world.done(world.claim("two")), Status::ok);
  BOOST_CHECK(world.get(submission.id).waiting_for.empty());
}

// N-10: waiting for a message gives up the join that is open.
BOOST_AUTO_TEST_CASE(n_10_each_suspend_states_its_whole_condition, *label("N-10") * label("TSK-04")) {
  World world;
  const TaskId waiter = world.root("waiter"), other = world.root("other");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({other})), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(waiter, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until_notified()), Status::ok);
  BOOST_CHECK(world.get(waiter).waiting_for.empty());
  BOOST_CHECK_EQUAL(world.done(world.claim("other")), Status::ok);
  BOOST_CHECK_EQUAL(world.status(waiter), TaskStatus::suspended);
}

BOOST_AUTO_TEST_CASE(tsk_03_resumed_comes_from_the_store, *label("TSK-03") * label("T-19")) {
  World world;
  const TaskId id = world.root("work");
  Run run = world.claim("work");
  BOOST_CHECK(!run.record.row.resumed);
  BOOST_CHECK(run.record.texts.state.empty() && run.messages.empty());
  world.child(run, "child");
  BOOST_CHECK_EQUAL(world.update(run, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  run = world.claim("work");
  BOOST_CHECK(run.record.row.resumed);
  BOOST_CHECK_EQUAL(run.record.texts.state, "1");
  BOOST_CHECK_EQUAL(world.update(run, "2"), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, R"("go")"), Status::ok);
  run = world.claim("work");
  BOOST_CHECK(run.record.row.resumed);
  BOOST_CHECK_EQUAL(run.record.texts.state, "2");
  BOOST_CHECK_EQUAL(payloads(run).at(0), R"("go")");
}

// A suspend begins a new round: its tries are counted anew.
BOOST_AUTO_TEST_CASE(tsk_14_a_suspend_resets_the_tries, *label("TSK-14")) {
  World world;
  Submission submission = World::task("work");
  submission.max_attempts = 2;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Broken", Retry::after, 0), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(world.claim("work"), until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.get(submission.id).row.attempt, 0U);
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(run.record.row.attempt, 1U);
  BOOST_CHECK_EQUAL(run.record.row.deliveries, 3U);
  BOOST_CHECK_EQUAL(world.fail(run, "Broken", Retry::after, 0), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::queued);  // one more try
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Broken", Retry::after, 0), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::failed);
}

BOOST_AUTO_TEST_CASE(n_11_waits_that_cannot_be, *label("N-11") * label("TSK-04")) {
  World world;
  const TaskId waiter = world.root("waiter"), other = world.root("other"), nobody = make_task_id();
  const Run run = world.claim("waiter");
  BOOST_CHECK_EQUAL(world.suspend(run, until({other, nobody})), Status::unknown);
  BOOST_CHECK(world.message().find(to_text(nobody)) != std::string::npos);
  BOOST_CHECK_EQUAL(world.suspend(run, until({waiter})), Status::state);
  // Refused, so it is still this run's, and nothing has changed.
  const Record record = world.get(waiter);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::running);
  BOOST_CHECK_EQUAL(record.row.attempt, 1U);
  BOOST_CHECK(!record.row.resumed);
  BOOST_CHECK(record.waiting_for.empty());
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);

  // A purged one is as unknown as one that never was.
  world.advance(10);
  BOOST_CHECK_EQUAL(world.purge(kStart + 5).purged, 1U);
  BOOST_CHECK_EQUAL(world.suspend(world.claim("other"), until({waiter})), Status::unknown);
}

BOOST_AUTO_TEST_CASE(n_11_circles_are_refused_and_named, *label("N-11") * label("TSK-04")) {
  World world;
  const TaskId a = world.root("a"), b = world.root("b"), c = world.root("c");
  const Run run = world.claim("a");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("b"), until({a})), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(world.claim("c"), until({b})), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until({c})), Status::state);
  for (const TaskId& id : {a, b, c})
    BOOST_CHECK_MESSAGE(world.message().find(to_text(id)) != std::string::npos, world.message());
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_CHECK_EQUAL(world.status(b), TaskStatus::queued);
}

BOOST_AUTO_TEST_CASE(n_11_a_child_may_not_wait_for_a_parent_that_waits_for_it, *label("N-11")) {
  World world;
  const TaskId parent = world.root("parent");
  const Run above = world.claim("parent");
  const TaskId child = world.child(above, "child");
  const Run below = world.claim("child");
  BOOST_CHECK_EQUAL(world.suspend(above, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(below, until({parent})), Status::state);
  BOOST_CHECK_EQUAL(world.done(below), Status::ok);
  BOOST_CHECK_EQUAL(world.status(child), TaskStatus::completed);

  // The other way round: the child waits already.
  const Run again = world.claim("parent");
  world.child(again, "second");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("second"), until({parent})), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(again, until_children()), Status::state);
  BOOST_CHECK_EQUAL(world.done(again), Status::ok);
  BOOST_CHECK_EQUAL(world.claim("second").record.row.woken_by, Wake::join);
}

// Who was woken and runs waits for nobody, so that is no circle.
BOOST_AUTO_TEST_CASE(n_11_an_old_join_of_one_that_runs_closes_no_circle, *label("N-11") * label("TSK-07")) {
  World world;
  const TaskId a = world.root("a"), b = world.root("b");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("a"), until({b})), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(a, "1"), Status::ok);
  const Run awake = world.claim("a");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("b"), until({a})), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(awake, until({b})), Status::state);
  BOOST_CHECK_EQUAL(world.done(awake), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("b")), Status::ok);
}

BOOST_AUTO_TEST_CASE(n_11_the_look_for_circles_is_bounded, *label("N-11") * label("TSK-30")) {
  Limits limits;
  limits.cycle_walk = 4;
  World world(false, limits);
  std::vector<TaskId> chain = {world.root("task0")};
  const Run first = world.claim("task0");
  for (int i = 1; i < 10; i++) {
    chain.push_back(world.root("task" + std::to_string(i)));
    BOOST_CHECK_EQUAL(world.suspend(world.claim("task" + std::to_string(i)), until({chain[chain.size() - 2]})),
                      Status::ok);
  }
  BOOST_CHECK_EQUAL(world.suspend(first, until({chain.back()})), Status::ok);  // too far away to be seen
  BOOST_CHECK_EQUAL(world.cancel(chain[5]), Status::ok);                       // and not beyond help
  BOOST_CHECK_EQUAL(world.status(chain[6]), TaskStatus::queued);
}

// N-12: each end strikes one edge, whatever the number of those that are left.
BOOST_AUTO_TEST_CASE(n_12_a_wide_join, *label("N-12") * label("TSK-06")) {
  World world;
  const TaskId parent = world.root("parent");
  const Run run = world.claim("parent");
  constexpr uint32_t kChildren = 2000;
  for (uint32_t made = 0; made < kChildren; made += 500) {
    Submit many;
    many.by = run.claimed;
    for (int i = 0; i < 500; i++) many.tasks.push_back(World::task("child"));
    BOOST_REQUIRE_EQUAL(world.ask(many), Status::ok);
  }
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  const Record parked = world.get(parent);
  BOOST_CHECK_EQUAL(parked.waiting_open, kChildren);
  BOOST_CHECK_EQUAL(parked.waiting_for.size(), kWaitingShown);
  // All of them in a few batches: the parent is written once a batch.
  uint32_t ended = 0;
  while (ended < kChildren) {
    BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::suspended);
    std::vector<Request> requests;
    for (const Run& child : world.claim_up_to(500, {"child"})) {
      Settle settle;
      settle.by = child.claimed;
      requests.push_back({settle, {}});
    }
    std::vector<Request*> batch;
    for (Request& request : requests) batch.push_back(&request);
    Effects effects;
    world.store().execute(batch, effects);
    for (const Request& request : requests) BOOST_REQUIRE_EQUAL(request.answer.status, Status::ok);
    ended += static_cast<uint32_t>(requests.size());
  }
  BOOST_CHECK_EQUAL(world.claim("parent").record.row.woken_by, Wake::join);
  BOOST_CHECK_EQUAL(world.count().repairs, 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
