// One task from submit to its end: order, due times, retries, failures, state.
#include "tasks/world.hpp"

namespace tasks_tests {

BOOST_AUTO_TEST_SUITE(life)

BOOST_AUTO_TEST_CASE(tsk_01_submit_claim_done, *label("TSK-01") * label("T-03") * label("T-83")) {
  World world;
  Submission submission = World::task("echo");
  submission.payload = R"({"n":1})";
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::queued);
  world.advance(5);
  const Run run = world.claim("echo");
  BOOST_CHECK_EQUAL(run.record.texts.payload, R"({"n":1})");
  BOOST_CHECK_EQUAL(run.record.row.attempt, 1U);
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::first);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::running);
  world.advance(5);
  BOOST_CHECK_EQUAL(world.done(run, "7"), Status::ok);
  BOOST_REQUIRE_EQUAL(world.effects().ended.size(), 1U);
  BOOST_CHECK_EQUAL(world.effects().ended[0], submission.id);
  const Record record = world.get(submission.id);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::completed);
  BOOST_CHECK_EQUAL(record.texts.result, "7");
  BOOST_CHECK_EQUAL(record.row.created_at, kStart);
  BOOST_CHECK_EQUAL(record.row.started_at, kStart + 5);
  BOOST_CHECK_EQUAL(record.row.ended_at, kStart + 10);
  BOOST_CHECK(world.idle());
}

// Status is the queue's, state the worker's: seen while it runs, kept after the end, never mixed.
BOOST_AUTO_TEST_CASE(tsk_01_state_is_visible_at_once_and_stays, *label("TSK-01") * label("T-15") * label("T-02")) {
  World world;
  const TaskId id = world.root("work");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.update(run, R"({"at":1})"), Status::ok);
  Filter running;
  running.status = TaskStatus::running;
  std::vector<Record> records;
  BOOST_REQUIRE_EQUAL(world.store().list(running, records).status, Status::ok);
  BOOST_REQUIRE_EQUAL(records.size(), 1U);
  BOOST_CHECK_EQUAL(records[0].texts.state, R"({"at":1})");
  BOOST_CHECK_EQUAL(records[0].texts.payload, "{}");
  BOOST_CHECK_EQUAL(records[0].node, "first");
  BOOST_CHECK_EQUAL(records[0].lease_until, kStart + kLease);
  BOOST_CHECK_EQUAL(world.fail(run), Status::ok);
  BOOST_CHECK_EQUAL(world.get(id).texts.state, R"({"at":1})");
}

BOOST_AUTO_TEST_CASE(tsk_16_a_failure_is_recorded_by_the_queue, *label("TSK-16") * label("T-04") * label("T-32")) {
  World world;
  const TaskId id = world.root("work");
  world.advance(3);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Broken"), Status::ok);
  const Record record = world.get(id);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::failed);
  BOOST_CHECK_EQUAL(record.texts.failure.kind, "Broken");
  BOOST_CHECK_EQUAL(record.texts.failure.message, "it went wrong");
  BOOST_CHECK_EQUAL(record.texts.failure.detail, "line 7");
  BOOST_CHECK_EQUAL(record.texts.failure.attempt, 1U);
  BOOST_CHECK_EQUAL(record.texts.failure.node, "first");
  BOOST_CHECK_EQUAL(record.texts.failure.at, kStart + 3);
}

BOOST_AUTO_TEST_CASE(tsk_16_long_failures_are_cut_between_characters, *label("TSK-16") * label("TSK-30")) {
  Limits limits;
  limits.failure_text = 4;
  World world(false, limits);
  const TaskId id = world.root("work");
  Settle settle;
  settle.by = world.claim("work").claimed;
  settle.outcome = Outcome::fail;
  settle.failure.kind = "K";
  settle.failure.message = "abc\xc3\xa9";  // four bytes would halve the last character
  BOOST_CHECK_EQUAL(world.ask(settle), Status::ok);
  BOOST_CHECK_EQUAL(world.get(id).texts.failure.message, "abc");
}

BOOST_AUTO_TEST_CASE(tsk_13_priority_then_age, *label("TSK-13") * label("T-05")) {
  World world;
  const TaskId plain = world.root("work"), second = world.root("work");
  Submission urgent = World::task("work");
  urgent.priority = 1;
  BOOST_CHECK_EQUAL(world.submit(urgent), Status::ok);
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, urgent.id);
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, plain);
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, second);
}

// A child has one more than its parent, so it overtakes roots that were there before it.
BOOST_AUTO_TEST_CASE(tsk_13_children_overtake_roots, *label("TSK-13") * label("TSK-10") * label("T-05")) {
  World world;
  const TaskId parent = world.root("parent");
  const TaskId root = world.root("work"), child = world.child(parent, "work");
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, child);
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, root);
}

BOOST_AUTO_TEST_CASE(tsk_13_claims_of_several_types_merge_their_orders, *label("TSK-13")) {
  World world;
  std::vector<TaskId> expected;
  for (int i = 0; i < 6; i++) {
    Submission submission = World::task(i % 2 == 0 ? "even" : "odd");
    submission.priority = i < 3 ? 0 : 5;
    BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
    expected.insert(i < 3 ? expected.end() : expected.begin() + (i - 3), submission.id);
  }
  world.root("other");
  std::vector<TaskId> claimed;
  for (const Run& run : world.claim_up_to(4, {"odd", "even", "nobody"})) claimed.push_back(run.claimed.id);
  for (const Run& run : world.claim_up_to(10, {"even", "odd"})) claimed.push_back(run.claimed.id);
  BOOST_CHECK_EQUAL_COLLECTIONS(claimed.begin(), claimed.end(), expected.begin(), expected.end());
  BOOST_CHECK_EQUAL(world.claim_up_to(10).size(), 1U);  // every type
}

BOOST_AUTO_TEST_CASE(tsk_13_a_type_that_nobody_serves_stays_queued, *label("TSK-13") * label("T-09")) {
  World world;
  const TaskId id = world.root("rare");
  BOOST_CHECK(world.idle("work"));
  world.advance(3'600'000);
  BOOST_CHECK(world.idle("work"));
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::queued);
}

BOOST_AUTO_TEST_CASE(tsk_13_not_before_its_time, *label("TSK-13") * label("T-30")) {
  World world;
  Submission later = World::task("work");
  later.run_after = kStart + 600'000;
  BOOST_CHECK_EQUAL(world.submit(later), Status::ok);
  BOOST_CHECK(world.effects().ready.empty());
  BOOST_CHECK_EQUAL(world.effects().next_due, later.run_after);
  BOOST_CHECK(world.idle());
  BOOST_CHECK_EQUAL(world.status(later.id), TaskStatus::queued);
  world.advance(599'999);
  BOOST_CHECK(world.idle());
  world.advance(1);
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, later.id);
  BOOST_CHECK(world.idle());
}

// N-14: twenty thousand of them, with a higher priority, do not stand in the way.
BOOST_AUTO_TEST_CASE(tsk_13_what_is_not_due_blocks_nobody, *label("TSK-13") * label("T-31") * label("N-14")) {
  World world;
  for (int batch = 0; batch < 20; batch++) {
    Submit many;
    for (int i = 0; i < 100; i++) {
      many.tasks.push_back(World::task("work"));
      many.tasks.back().priority = 10;
      many.tasks.back().run_after = kStart + 600'000;
    }
    BOOST_REQUIRE_EQUAL(world.ask(many), Status::ok);
  }
  const TaskId due = world.root("work");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(run.claimed.id, due);
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_CHECK(world.idle());
  BOOST_CHECK_EQUAL(world.count().delayed, 2000U);
}

BOOST_AUTO_TEST_CASE(tsk_13_upkeep_and_claims_promote_what_is_due, *label("TSK-13")) {
  World world;
  Submission early = World::task("work"), late = World::task("work");
  early.run_after = kStart + 10;
  late.run_after = kStart + 20;
  BOOST_CHECK_EQUAL(world.submit(late), Status::ok);
  BOOST_CHECK_EQUAL(world.submit(early), Status::ok);
  world.advance(10);
  BOOST_CHECK_EQUAL(world.maintain().promoted, 1U);
  BOOST_CHECK_EQUAL(world.effects().next_due, late.run_after);
  world.advance(10);
  // Age counts from the submission, not from the due time.
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, late.id);
  BOOST_CHECK_EQUAL(world.claim("work").claimed.id, early.id);
  BOOST_CHECK_EQUAL(world.get(late.id).row.due_at, kNever);
}

BOOST_AUTO_TEST_CASE(tsk_13_hurry_makes_due, *label("TSK-13")) {
  World world;
  Submission later = World::task("work");
  later.run_after = kStart + 600'000;
  BOOST_CHECK_EQUAL(world.submit(later), Status::ok);
  Hurry hurry{later.id};
  BOOST_CHECK_EQUAL(world.ask(hurry), Status::ok);
  BOOST_REQUIRE_EQUAL(world.effects().ready.size(), 1U);
  BOOST_CHECK_EQUAL(world.effects().ready[0].type, "work");
  BOOST_CHECK_EQUAL(world.done(world.claim("work")), Status::ok);
  BOOST_CHECK_EQUAL(world.ask(hurry), Status::state);
  Hurry nobody{make_task_id()};
  BOOST_CHECK_EQUAL(world.ask(nobody), Status::unknown);
}

BOOST_AUTO_TEST_CASE(tsk_14_one_try_is_the_default, *label("TSK-14") * label("T-35")) {
  World world;
  Submission submission = World::task("work");
  submission.max_attempts = 0;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.get(submission.id).row.max_attempts, 1U);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work")), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::failed);
  world.advance(3'600'000);
  BOOST_CHECK(world.idle());
}

BOOST_AUTO_TEST_CASE(tsk_15_retries_back_off_and_give_up, *label("TSK-15") * label("TSK-14") * label("T-33")) {
  Limits limits;
  limits.retry_base_ms = 10'000;
  World world(false, limits);
  Submission submission = World::task("work");
  submission.max_attempts = 3;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  for (uint32_t attempt = 1; attempt < 3; attempt++) {
    const Run run = world.claim("work");
    BOOST_CHECK_EQUAL(run.record.row.attempt, attempt);
    BOOST_CHECK_EQUAL(run.record.row.woken_by, attempt == 1 ? Wake::first : Wake::retry);
    BOOST_CHECK(!run.record.row.resumed);
    BOOST_CHECK_EQUAL(world.fail(run, "Broken" + std::to_string(attempt)), Status::ok);
    const Record between = world.get(submission.id);
    BOOST_CHECK_EQUAL(status_of(between.row.phase), TaskStatus::queued);
    BOOST_CHECK_EQUAL(between.texts.failure.kind, "Broken" + std::to_string(attempt));
    BOOST_CHECK_EQUAL(between.texts.failure.attempt, attempt);
    // Full jitter: anything up to the bound, which doubles.
    BOOST_CHECK_GT(between.row.due_at, world.now());
    BOOST_CHECK_LE(between.row.due_at, world.now() + 10'000 * attempt);
    world.clock().advance(between.row.due_at - world.now() - 1);
    BOOST_CHECK(world.idle());
    world.advance(1);
  }
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Broken3"), Status::ok);
  const Record record = world.get(submission.id);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::failed);
  BOOST_CHECK_EQUAL(record.texts.failure.kind, "Broken3");
  BOOST_CHECK_EQUAL(record.row.deliveries, 3U);
}

BOOST_AUTO_TEST_CASE(tsk_15_backoff_is_jittered_and_capped, *label("TSK-15")) {
  Limits limits;
  BOOST_CHECK_EQUAL(longest_backoff(1, limits), 200);
  BOOST_CHECK_EQUAL(longest_backoff(2, limits), 400);
  BOOST_CHECK_EQUAL(longest_backoff(11, limits), 204'800);
  BOOST_CHECK_EQUAL(longest_backoff(12, limits), 300'000);
  BOOST_CHECK_EQUAL(longest_backoff(4'000'000'000, limits), 300'000);
  limits.retry_base_ms = limits.retry_cap_ms = 1'000'000;
  World world(false, limits);
  std::vector<Millis> delays;
  for (int i = 0; i < 20; i++) {
    Submission submission = World::task("work");
    submission.max_attempts = 2;
    BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
    BOOST_CHECK_EQUAL(world.fail(world.claim("work")), Status::ok);
    delays.push_back(world.get(submission.id).row.due_at - world.now());
  }
  BOOST_CHECK_LT(*std::min_element(delays.begin(), delays.end()), 500'000);
  BOOST_CHECK_GT(*std::max_element(delays.begin(), delays.end()), 500'000);
}

BOOST_AUTO_TEST_CASE(tsk_15_a_retried_task_may_succeed, *label("TSK-15") * label("T-34")) {
  World world;
  Submission submission = World::task("work");
  submission.max_attempts = 2;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work")), Status::ok);
  world.advance(300'000);
  const Run second = world.claim("work");
  BOOST_CHECK_EQUAL(second.record.row.attempt, 2U);
  BOOST_CHECK_EQUAL(world.done(second), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::completed);
}

BOOST_AUTO_TEST_CASE(tsk_15_a_worker_names_its_own_delay_or_none, *label("TSK-15")) {
  World world;
  Submission submission = World::task("work");
  submission.max_attempts = 3;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Busy", Retry::after, 77'000), Status::ok);
  BOOST_CHECK_EQUAL(world.get(submission.id).row.due_at, kStart + 77'000);
  world.advance(77'000);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Busy", Retry::after, 0), Status::ok);
  const Run third = world.claim("work");  // at once
  BOOST_CHECK_EQUAL(third.record.row.woken_by, Wake::retry);
  BOOST_CHECK_EQUAL(world.fail(third, "Busy", Retry::after, 10), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::failed);  // no tries are left for that

  submission = World::task("work");
  submission.max_attempts = 3;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Hopeless", Retry::never), Status::ok);
  BOOST_CHECK_EQUAL(world.status(submission.id), TaskStatus::failed);
}

BOOST_AUTO_TEST_CASE(tsk_14_handing_back_counts_as_nothing, *label("TSK-14")) {
  World world;
  const TaskId id = world.root("work");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.hand_back(run), Status::ok);
  const Record record = world.get(id);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::queued);
  BOOST_CHECK_EQUAL(record.row.attempt, 0U);
  BOOST_CHECK_EQUAL(record.row.deliveries, 0U);
  const Run again = world.claim("work");
  BOOST_CHECK_EQUAL(again.record.row.attempt, 1U);
  BOOST_CHECK_EQUAL(again.record.row.woken_by, Wake::first);
  BOOST_CHECK_GT(again.claimed.fence, run.claimed.fence);
}

// N-22: a clock that is set back neither holds back what is due nor revives what has ended.
BOOST_AUTO_TEST_CASE(n_22_the_clock_jumps, *label("N-22") * label("TSK-13") * label("TSK-18")) {
  World world;
  Submission later = World::task("work");
  later.run_after = kStart + 1000;
  BOOST_CHECK_EQUAL(world.submit(later), Status::ok);
  world.advance(1000);
  BOOST_CHECK_EQUAL(world.maintain().promoted, 1U);
  world.advance(-500'000);
  BOOST_CHECK_EQUAL(world.now(), kStart + 1000);
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(run.record.row.started_at, kStart + 1000);
  BOOST_CHECK_EQUAL(world.get(later.id).row.started_at, kStart + 1000);
  world.advance(500'000 + kLease);  // far ahead: the lease is over
  BOOST_CHECK_EQUAL(world.maintain().rescued, 1U);
  world.advance(-500'000);
  BOOST_CHECK_EQUAL(world.done(run), Status::lease_lost);
}

BOOST_AUTO_TEST_CASE(counts_add_up, *label("TSK-32")) {
  World world;
  world.root("a");
  world.advance(10);
  world.root("a");
  Submission later = World::task("a");
  later.run_after = kStart + 600'000;
  BOOST_CHECK_EQUAL(world.submit(later), Status::ok);
  Counts counts = world.count();
  BOOST_CHECK_EQUAL(counts.tasks, 3U);
  BOOST_CHECK_EQUAL(counts.by_status[static_cast<int>(TaskStatus::queued)], 3U);
  BOOST_CHECK_EQUAL(counts.ready, 2U);
  BOOST_CHECK_EQUAL(counts.delayed, 1U);
  BOOST_CHECK_EQUAL(counts.oldest_ready, kStart);
  BOOST_CHECK_EQUAL(world.done(world.claim("a")), Status::ok);
  counts = world.count();
  BOOST_CHECK_EQUAL(counts.by_status[static_cast<int>(TaskStatus::completed)], 1U);
  BOOST_CHECK_EQUAL(counts.oldest_ready, kStart + 10);
  BOOST_CHECK_EQUAL(counts.repairs, 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
