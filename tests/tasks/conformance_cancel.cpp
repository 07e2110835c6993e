// Cancels: whom they reach, and what becomes of outcomes that come too late.
#include "tasks/world.hpp"

namespace tasks_tests {

BOOST_AUTO_TEST_SUITE(cancelling)

BOOST_AUTO_TEST_CASE(tsk_11_a_queued_task_never_runs, *label("TSK-11") * label("T-06")) {
  World world;
  const TaskId id = world.root("work");
  Submission later = World::task("work");
  later.run_after = kStart + 10;
  BOOST_CHECK_EQUAL(world.submit(later), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(id), Status::ok);
  BOOST_REQUIRE_EQUAL(world.effects().ended.size(), 1U);
  BOOST_CHECK_EQUAL(world.cancel(later.id), Status::ok);
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::cancelled);
  BOOST_CHECK_EQUAL(world.status(later.id), TaskStatus::cancelled);
  BOOST_CHECK(world.get(id).row.cancel_requested);
  world.advance(20);
  BOOST_CHECK(world.idle());
  BOOST_CHECK_EQUAL(world.cancel(id), Status::state);
  BOOST_CHECK_EQUAL(world.cancel(make_task_id()), Status::unknown);
}

BOOST_AUTO_TEST_CASE(tsk_11_a_running_task_is_asked, *label("TSK-11") * label("T-07") * label("N-04")) {
  World world;
  const TaskId id = world.root("work");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.cancel(id), Status::ok);
  BOOST_REQUIRE_EQUAL(world.effects().cancelled.size(), 1U);
  BOOST_CHECK_EQUAL(world.effects().cancelled[0].token, run.claimed.token);
  BOOST_CHECK(world.effects().ended.empty());
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::running);
  BOOST_CHECK(world.get(id).row.cancel_requested);
  BOOST_CHECK_EQUAL(world.cancel(id), Status::ok);  // asked already
  Renew renew;
  renew.node = world.node();
  renew.lease_ms = kLease;
  BOOST_CHECK_EQUAL(world.ask(renew), Status::ok);
  BOOST_REQUIRE_EQUAL(renew.cancelled.size(), 1U);
  BOOST_CHECK_EQUAL(renew.cancelled[0].id, id);
  BOOST_CHECK_EQUAL(world.update(run, "1"), Status::ok);  // it still holds the task
  BOOST_CHECK_EQUAL(world.done(run, R"("late")"), Status::cancelled);
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::cancelled);
  BOOST_CHECK_EQUAL(world.get(id).texts.result, R"("late")");
  BOOST_CHECK_EQUAL(world.done(run, R"("late")"), Status::cancelled);  // repeated: told the same
}

// N-04, the other order: the outcome stands, and the cancel does not say OK.
BOOST_AUTO_TEST_CASE(n_04_an_outcome_that_comes_first_stands, *label("N-04") * label("TSK-11")) {
  World world;
  const TaskId id = world.root("work");
  BOOST_CHECK_EQUAL(world.done(world.claim("work")), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(id), Status::state);
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::completed);
}

BOOST_AUTO_TEST_CASE(tsk_11_whatever_outcome, *label("TSK-11") * label("T-27") * label("N-04")) {
  World world;
  for (const Outcome outcome : {Outcome::done, Outcome::fail, Outcome::suspend, Outcome::hand_back}) {
    Submission submission = World::task("work");
    submission.max_attempts = 5;
    BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
    Settle settle;
    settle.by = world.claim("work").claimed;
    settle.outcome = outcome;
    settle.failure.kind = "Broken";
    settle.suspension = until_notified();
    BOOST_CHECK_EQUAL(world.cancel(submission.id), Status::ok);
    BOOST_CHECK_EQUAL(world.ask(settle), Status::cancelled);
    const Record record = world.get(submission.id);
    BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::cancelled);
    BOOST_CHECK_EQUAL(record.texts.failure.kind, outcome == Outcome::fail ? "Broken" : "");
    BOOST_CHECK(!record.row.resumed);
  }
}

BOOST_AUTO_TEST_CASE(tsk_11_goes_down_the_whole_tree,
                     *label("TSK-11") * label("T-14") * label("T-17") * label("T-18")) {
  World world;
  const TaskId top = world.root("top");
  const Run run = world.claim("top");
  const TaskId middle = world.child(run, "middle"), never = world.child(run, "nobody");
  const Run below = world.claim("middle");
  const TaskId leaf = world.child(below, "leaf");
  Submission later = World::task("leaf");
  later.parent = middle;
  later.run_after = kStart + 1000;
  BOOST_CHECK_EQUAL(world.submit(later), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  world.root("outside");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("outside"), until({leaf})), Status::ok);

  Cancel cancel{top, 0, false};
  BOOST_CHECK_EQUAL(world.ask(cancel), Status::ok);
  BOOST_CHECK_EQUAL(cancel.touched, 5U);
  BOOST_CHECK(!cancel.more);
  BOOST_CHECK_EQUAL(world.effects().ended.size(), 4U);
  for (const TaskId& id : {top, never, leaf, later.id}) BOOST_CHECK_EQUAL(world.status(id), TaskStatus::cancelled);
  BOOST_CHECK_EQUAL(world.status(middle), TaskStatus::running);
  // Who waits outside is woken in the same step.
  BOOST_CHECK_EQUAL(world.claim("outside").record.row.woken_by, Wake::join);
  BOOST_CHECK_EQUAL(world.done(below), Status::cancelled);
  BOOST_CHECK_EQUAL(world.get(top).row.tree_ended_at, kStart);
  BOOST_CHECK(world.idle());
}

// Members of one cancel do not wake each other on the way.
BOOST_AUTO_TEST_CASE(tsk_11_nobody_in_it_is_woken, *label("TSK-11")) {
  World world(true);
  const TaskId top = world.root("top");
  const Run run = world.claim("top");
  const TaskId first = world.child(run, "first");
  const TaskId second = world.child(run, "second");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("second"), until({first})), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_children(0, true)), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(top), Status::ok);
  BOOST_CHECK(world.effects().ready.empty());
  for (const Event& event : world.events()) BOOST_CHECK(event.kind != Event::Kind::woken);
  BOOST_CHECK_EQUAL(world.status(second), TaskStatus::cancelled);
}

// A task that has ended is no wall for what is below it.
BOOST_AUTO_TEST_CASE(tsk_11_through_what_has_ended, *label("TSK-11")) {
  World world;
  const TaskId top = world.root("top");
  const Run run = world.claim("top");
  world.child(run, "middle");
  const Run middle = world.claim("middle");
  const TaskId leaf = world.child(middle, "leaf");
  BOOST_CHECK_EQUAL(world.done(middle), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(top), Status::ok);
  BOOST_CHECK_EQUAL(world.status(leaf), TaskStatus::cancelled);
}

BOOST_AUTO_TEST_CASE(tsk_11_only_downwards, *label("TSK-11")) {
  World world;
  const TaskId top = world.root("top");
  const Run run = world.claim("top");
  const TaskId left = world.child(run, "left"), right = world.child(run, "right");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(left), Status::ok);
  BOOST_CHECK_EQUAL(world.status(top), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.status(right), TaskStatus::queued);
  BOOST_CHECK_EQUAL(world.done(world.claim("right")), Status::ok);
  const Run again = world.claim("top");
  BOOST_CHECK_EQUAL(again.record.row.woken_by, Wake::join);
  BOOST_CHECK_EQUAL(again.record.row.failed_children, 1);
}

BOOST_AUTO_TEST_CASE(n_19_a_submit_below_a_cancel_is_refused, *label("N-19") * label("TSK-11")) {
  World world;
  const TaskId queued = world.root("queued"), running = world.root("running");
  const Run run = world.claim("running");
  BOOST_CHECK_EQUAL(world.cancel(queued), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(running), Status::ok);
  for (const TaskId& parent : {queued, running}) {
    Submission submission = World::task("child");
    submission.parent = parent;
    BOOST_CHECK_EQUAL(world.submit(submission), Status::cancelled);
    BOOST_CHECK(!world.exists(submission.id));
  }
  Submit submit;
  submit.by = run.claimed;
  submit.tasks = {World::task("child")};
  BOOST_CHECK_EQUAL(world.ask(submit), Status::cancelled);
  BOOST_CHECK_EQUAL(world.done(run), Status::cancelled);
}

// N-05: in a backoff, and in the middle of a cancel by way of a retry.
BOOST_AUTO_TEST_CASE(n_05_a_cancel_against_a_retry, *label("N-05") * label("TSK-11")) {
  World world;
  Submission submission = World::task("work");
  submission.max_attempts = 5;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Broken", Retry::after, 100), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(submission.id), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::cancelled);
  BOOST_CHECK_EQUAL(world.get(submission.id).texts.failure.kind, "Broken");
  world.advance(100);
  BOOST_CHECK(world.idle());
}

// N-06: a node dies with a task that was asked to end.
BOOST_AUTO_TEST_CASE(n_06_a_lost_worker_does_not_undo_a_cancel, *label("N-06") * label("TSK-11") * label("T-28")) {
  World world;
  const TaskId id = world.root("work");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.notify(id, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.cancel(id), Status::ok);
  world.restart();
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::cancelled);
  BOOST_CHECK(world.idle());
  BOOST_CHECK_EQUAL(world.done(run), Status::lease_lost);
  std::vector<Message> left;
  BOOST_CHECK_EQUAL(world.store().mail(id, left).status, Status::ok);
  BOOST_CHECK_EQUAL(left.size(), 1U);
}

// A tree above the bound is told in parts; in between, nothing of it is started, created or completed.
BOOST_AUTO_TEST_CASE(tsk_11_big_trees_in_parts, *label("TSK-11")) {
  Limits limits;
  limits.cascade = 10;
  World world(false, limits);
  const TaskId top = world.root("top");
  const Run run = world.claim("top");
  std::vector<TaskId> middles, leaves;
  for (int i = 0; i < 8; i++) middles.push_back(world.child(run, "middle"));
  const std::vector<Run> running = world.claim_up_to(8, {"middle"});
  for (const Run& middle : running)
    for (int i = 0; i < 8; i++) leaves.push_back(world.child(middle, "leaf"));
  const Run leaf = world.claim_up_to(100, {"leaf"}).back();  // of the last middle one
  world.root("waiting");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiting"), until(leaves)), Status::ok);
  const TaskId last = world.child(leaf, "last");

  Cancel cancel{top, 0, false};
  BOOST_CHECK_EQUAL(world.ask(cancel), Status::ok);
  BOOST_CHECK(cancel.more);
  BOOST_CHECK_EQUAL(cancel.touched, 11U);  // itself, and ten below it
  world.restart();                         // and it is not forgotten with the process
  BOOST_CHECK(!world.get(last).row.cancel_requested || status_of(world.get(last).row.phase) == TaskStatus::cancelled);
  world.maintain();
  BOOST_CHECK(world.idle("leaf") && world.idle("middle") && world.idle("top"));
  for (const TaskId& id : leaves) BOOST_CHECK_EQUAL(world.status(id), TaskStatus::cancelled);
  for (const TaskId& id : middles) BOOST_CHECK_EQUAL(world.status(id), TaskStatus::cancelled);
  BOOST_CHECK_EQUAL(world.status(last), TaskStatus::cancelled);
  BOOST_CHECK_EQUAL(world.claim("waiting").record.row.woken_by, Wake::join);
}

BOOST_AUTO_TEST_CASE(tsk_11_between_the_parts_of_a_cancel, *label("TSK-11") * label("TSK-13")) {
  Limits limits;
  limits.cascade = 2;
  World world(false, limits);
  const TaskId top = world.root("top");
  const Run run = world.claim("top");
  for (int i = 0; i < 4; i++) world.child(run, "middle");
  std::vector<Run> middles = world.claim_up_to(4, {"middle"});
  Submission retried = World::task("queued");
  retried.parent = middles[3].claimed.id;
  BOOST_CHECK_EQUAL(world.submit(retried), Status::ok);

  Cancel cancel{top, 0, false};
  BOOST_CHECK_EQUAL(world.ask(cancel), Status::ok);
  BOOST_REQUIRE(cancel.more);
  BOOST_REQUIRE(!world.get(middles[3].claimed.id).row.cancel_requested);  // it has not heard of it yet
  Submission child = World::task("child");
  child.parent = middles[3].claimed.id;
  BOOST_CHECK_EQUAL(world.submit(child), Status::cancelled);
  BOOST_CHECK_EQUAL(world.done(middles[3]), Status::cancelled);
  BOOST_CHECK(world.idle("queued"));
  BOOST_CHECK_EQUAL(world.status(retried.id), TaskStatus::cancelled);  // the claim ended it then and there
  world.maintain();
  BOOST_CHECK_EQUAL(world.done(middles[2]), Status::cancelled);
  BOOST_CHECK_EQUAL(world.status(top), TaskStatus::running);
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::cancelled);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
