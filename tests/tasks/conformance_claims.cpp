// Claims, leases, fences, and what becomes of the tasks of a node that is lost.
#include "tasks/world.hpp"

namespace tasks_tests {

BOOST_AUTO_TEST_SUITE(claims)

BOOST_AUTO_TEST_CASE(tsk_17_the_fence_grows_with_every_claim, *label("TSK-17")) {
  World world;
  world.root("work");
  uint64_t fence = 0, token = 0;
  for (int i = 0; i < 4; i++) {
    const Run run = world.claim("work");
    BOOST_CHECK_GT(run.claimed.fence, fence);
    BOOST_CHECK_NE(run.claimed.token, token);
    BOOST_CHECK_NE(run.claimed.token, 0U);
    fence = run.claimed.fence;
    token = run.claimed.token;
    BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  }
}

// T-88, N-02: whatever a run writes after another one has its task changes nothing.
BOOST_AUTO_TEST_CASE(tsk_17_no_zombie_changes_anything, *label("TSK-17") * label("T-88") * label("N-02")) {
  World world;
  const TaskId id = world.root("work"), other = world.root("other");
  const Run zombie = world.claim("work");
  BOOST_CHECK_EQUAL(world.update(zombie, R"("old")"), Status::ok);
  world.restart();
  const auto nothing_works = [&](const Run& run) {
    BOOST_CHECK_EQUAL(world.update(run, R"("zombie")"), Status::lease_lost);
    StepPut step{run.claimed, "step", "1"};
    BOOST_CHECK_EQUAL(world.ask(step), Status::lease_lost);
    Submit submit;
    submit.by = run.claimed;
    submit.tasks = {World::task("child")};
    BOOST_CHECK_EQUAL(world.ask(submit), Status::lease_lost);
    Notify notify;
    notify.to = other;
    notify.payload = "1";
    notify.by = run.claimed;
    BOOST_CHECK_EQUAL(world.ask(notify), Status::lease_lost);
    SharedPut put;
    put.scope = "scope";
    put.key = "key";
    put.value = "1";
    put.by = run.claimed;
    BOOST_CHECK_EQUAL(world.ask(put), Status::lease_lost);
    std::string value;
    BOOST_CHECK_EQUAL(world.store().step(run.claimed, "step", value).status, Status::lease_lost);
    BOOST_CHECK_EQUAL(world.store().shared("scope", "key", value).status, Status::empty);
    BOOST_CHECK_EQUAL(world.done(run, "1"), Status::lease_lost);
    BOOST_CHECK_EQUAL(world.fail(run), Status::lease_lost);
    BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::lease_lost);
    BOOST_CHECK_EQUAL(world.hand_back(run), Status::lease_lost);
    BOOST_CHECK_EQUAL(world.get(other).row.mail, 0);
    BOOST_CHECK_EQUAL(world.get(id).row.children, 0);
    BOOST_CHECK_EQUAL(world.get(id).texts.state, R"("old")");
  };
  nothing_works(zombie);  // queued again
  const Run owner = world.claim("work");
  nothing_works(zombie);  // another claim
  Run guessed = owner;
  guessed.claimed.token = zombie.claimed.token;
  nothing_works(guessed);  // the right fence and another's token
  guessed = owner;
  guessed.claimed.fence = zombie.claimed.fence;
  nothing_works(guessed);
  guessed.claimed.token = 0;
  nothing_works(guessed);
  BOOST_CHECK_EQUAL(world.update(owner, R"("new")"), Status::ok);
  BOOST_CHECK_EQUAL(world.done(owner, "2"), Status::ok);
  BOOST_CHECK_EQUAL(world.done(zombie, "1"), Status::lease_lost);  // after the end
  BOOST_CHECK_EQUAL(world.get(id).texts.result, "2");
}

// The reply to an outcome was lost: asked again, the store says what it said.
BOOST_AUTO_TEST_CASE(tsk_17_a_repeated_outcome_is_answered_as_before,
                     *label("TSK-17") * label("TSK-21") * label("DUR-04")) {
  World world;
  const TaskId id = world.root("work");
  Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.get(id).row.deliveries, 1U);
  const Run second = world.claim("work");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);  // a late duplicate
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::running);
  BOOST_CHECK_EQUAL(world.done(second, "2"), Status::ok);
  BOOST_CHECK_EQUAL(world.done(second, "2"), Status::ok);
  BOOST_CHECK_EQUAL(world.done(run), Status::lease_lost);
  BOOST_CHECK_EQUAL(world.get(id).texts.result, "2");
}

BOOST_AUTO_TEST_CASE(tsk_17_a_claim_repeated_is_the_same_claim, *label("TSK-17") * label("TSK-21") * label("DUR-05")) {
  World world;
  for (int i = 0; i < 3; i++) world.root("work");
  const std::vector<Run> first = world.claim_up_to(2, {"work"}, 99);
  BOOST_REQUIRE_EQUAL(first.size(), 2U);
  BOOST_CHECK_EQUAL(world.notify(first[0].claimed.id, "1"), Status::ok);  // not for this claim
  std::vector<Run> again = world.claim_up_to(2, {"work"}, 99);
  BOOST_REQUIRE_EQUAL(again.size(), 2U);
  for (size_t i = 0; i < 2; i++) {
    BOOST_CHECK_EQUAL(again[i].claimed.id, first[i].claimed.id);
    BOOST_CHECK_EQUAL(again[i].claimed.fence, first[i].claimed.fence);
    BOOST_CHECK_EQUAL(again[i].claimed.token, first[i].claimed.token);
    BOOST_CHECK(again[i].messages.empty());
  }
  BOOST_CHECK_EQUAL(world.done(first[0]), Status::ok);
  again = world.claim_up_to(2, {"work"}, 99);
  BOOST_REQUIRE_EQUAL(again.size(), 1U);  // what still runs under it
  BOOST_CHECK_EQUAL(world.done(first[1]), Status::ok);
  // So late that all of it has ended: it takes nothing. A process remembers that, and duplicates do not outlive it.
  if (!world.reopens()) BOOST_CHECK(world.claim_up_to(2, {"work"}, 99).empty());
  BOOST_CHECK_EQUAL(world.claim_up_to(2, {"work"}).size(), 1U);
  Claim without;
  without.node = world.node();
  BOOST_CHECK_EQUAL(world.ask(without), Status::argument);
}

BOOST_AUTO_TEST_CASE(tsk_18_a_lease_that_is_not_renewed_ends, *label("TSK-18") * label("T-86") * label("N-03")) {
  World world;
  const TaskId id = world.root("work");
  const Run run = world.claim("work");
  Renew renew;
  renew.node = world.node();
  renew.lease_ms = kLease;
  world.advance(kLease - 1);
  BOOST_CHECK_EQUAL(world.maintain().rescued, 0U);
  BOOST_CHECK_EQUAL(world.ask(renew), Status::ok);  // one statement for all it runs
  BOOST_CHECK_EQUAL(world.get(id).lease_until, kStart + 2 * kLease - 1);
  world.advance(kLease - 1);
  BOOST_CHECK_EQUAL(world.maintain().rescued, 0U);
  world.advance(1);
  const int64_t second = world.enter("second");
  BOOST_CHECK_EQUAL(world.maintain().rescued, 1U);
  BOOST_CHECK_EQUAL(world.ask(renew), Status::lease_lost);
  Claim dead;
  dead.node = world.node();
  dead.number = 1234;
  BOOST_CHECK_EQUAL(world.ask(dead), Status::lease_lost);
  const Record record = world.get(id);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::queued);
  BOOST_CHECK_EQUAL(record.row.rescues, 1U);
  const std::vector<Run> again = world.claim_up_to(1, {"work"}, 0, second);
  BOOST_REQUIRE_EQUAL(again.size(), 1U);
  BOOST_CHECK_EQUAL(again[0].record.row.woken_by, Wake::rescue);
  BOOST_CHECK_EQUAL(again[0].record.row.attempt, 2U);
  BOOST_CHECK_EQUAL(again[0].record.node, "second");
  BOOST_CHECK_EQUAL(world.done(run), Status::lease_lost);
  BOOST_CHECK_EQUAL(world.done(again[0]), Status::ok);
  BOOST_CHECK_EQUAL(world.count().rescues, 1U);
}

// Late is not too late: nobody has declared the node dead.
BOOST_AUTO_TEST_CASE(tsk_18_a_late_renewal_is_one, *label("TSK-18")) {
  World world;
  world.root("work");
  const Run run = world.claim("work");
  world.advance(kLease * 10);
  Renew renew;
  renew.node = world.node();
  renew.lease_ms = kLease;
  BOOST_CHECK_EQUAL(world.ask(renew), Status::ok);
  BOOST_CHECK_EQUAL(world.maintain().rescued, 0U);
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
}

BOOST_AUTO_TEST_CASE(tsk_14_lost_workers_are_counted_apart_and_bounded,
                     *label("TSK-14") * label("TSK-18") * label("TSK-16")) {
  Limits limits;
  limits.max_rescues = 2;
  World world(false, limits);
  world.root("parent");
  const Run above = world.claim("parent");
  const TaskId child = world.child(above, "child");  // one failed try is all it has
  BOOST_CHECK_EQUAL(world.suspend(above, until_children()), Status::ok);
  for (uint32_t lost = 1; lost <= 2; lost++) {
    world.claim("child");
    world.restart();
    BOOST_CHECK_EQUAL(world.status(child), TaskStatus::queued);
    BOOST_CHECK_EQUAL(world.get(child).row.rescues, lost);
    BOOST_CHECK_EQUAL(world.get(child).row.failures, 0U);
  }
  world.claim("child");
  world.restart();
  const Record record = world.get(child);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::failed);
  BOOST_CHECK_EQUAL(record.texts.failure.kind, "WorkerLost");
  BOOST_CHECK_EQUAL(record.texts.failure.attempt, 3U);
  BOOST_CHECK_EQUAL(record.texts.failure.node, "second");
  BOOST_CHECK_EQUAL(world.claim("parent").record.row.woken_by, Wake::join);  // who waited is woken
}

// T-10, T-29: a restart rescues what was running. Only an end wakes those who wait.
BOOST_AUTO_TEST_CASE(tsk_19_a_restart_rescues, *label("TSK-19") * label("T-10") * label("T-29")) {
  World world;
  const TaskId parent = world.root("parent");
  const Run above = world.claim("parent");
  world.child(above, "child");
  world.child(above, "child");
  BOOST_CHECK_EQUAL(world.suspend(above, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.claim_up_to(5, {"child"}).size(), 2U);
  world.restart();
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.get(parent).waiting_open, 2);
  const std::vector<Run> again = world.claim_up_to(5, {"child"});
  BOOST_REQUIRE_EQUAL(again.size(), 2U);
  for (const Run& run : again) BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_CHECK_EQUAL(world.claim("parent").record.row.woken_by, Wake::join);
  BOOST_CHECK_EQUAL(world.count().rescues, 2U);
  BOOST_CHECK_EQUAL(world.count().repairs, 0U);  // there was nothing to repair
}

BOOST_AUTO_TEST_CASE(tsk_18_rescue_goes_in_bounded_pieces, *label("TSK-18")) {
  World world;
  for (int i = 0; i < 23; i++) {
    Submit many;
    for (int k = 0; k < 50; k++) many.tasks.push_back(World::task("work"));
    BOOST_REQUIRE_EQUAL(world.ask(many), Status::ok);
  }
  BOOST_CHECK_EQUAL(world.claim_up_to(2000, {"work"}).size(), 1150U);
  const int64_t before = world.node();
  world.enter("second");
  Maintain upkeep;
  upkeep.dead = {before};
  BOOST_CHECK_EQUAL(world.ask(upkeep), Status::ok);
  BOOST_CHECK(upkeep.more);
  BOOST_CHECK_GT(upkeep.rescued, 0U);
  BOOST_CHECK_LE(upkeep.rescued, 1000U);
  BOOST_CHECK_EQUAL(upkeep.rescued + world.maintain().rescued, 1150U);
  BOOST_CHECK_EQUAL(world.count().ready, 1150U);
}

BOOST_AUTO_TEST_CASE(tsk_18_who_leaves_in_an_orderly_way, *label("TSK-18")) {
  World world;
  world.root("work");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.hand_back(run), Status::ok);
  const int64_t second = world.enter("second");
  Leave leave{world.node()};
  BOOST_CHECK_EQUAL(world.ask(leave), Status::ok);
  BOOST_CHECK_EQUAL(world.maintain().rescued, 0U);
  BOOST_CHECK_EQUAL(world.claim_up_to(1, {"work"}, 0, second).size(), 1U);
  Leave too_early{second};  // what it still runs is rescued
  BOOST_CHECK_EQUAL(world.ask(too_early), Status::ok);
  BOOST_CHECK_EQUAL(world.maintain().rescued, 1U);
}

// DUR-10: what cannot be done in a batch harms nobody else in it, and all of the others are done.
BOOST_AUTO_TEST_CASE(tsk_17_one_bad_request_of_a_batch, *label("TSK-17") * label("TSK-12")) {
  World world;
  const TaskId first = world.root("work"), second = world.root("work");
  const std::vector<Run> runs = world.claim_up_to(2, {"work"});
  Settle good, bad, other;
  good.by = runs[0].claimed;
  bad.by = runs[0].claimed;
  bad.by.token++;
  other.by = runs[1].claimed;
  Request requests[] = {{good, {}}, {bad, {}}, {Notify{make_task_id(), {}, "1", {}, {}}, {}}, {other, {}}};
  Request* batch[] = {&requests[0], &requests[1], &requests[2], &requests[3]};
  Effects effects;
  world.store().execute(batch, effects);
  BOOST_CHECK_EQUAL(requests[0].answer.status, Status::ok);
  BOOST_CHECK_EQUAL(requests[1].answer.status, Status::lease_lost);
  BOOST_CHECK_EQUAL(requests[2].answer.status, Status::unknown);
  BOOST_CHECK_EQUAL(requests[3].answer.status, Status::ok);
  BOOST_CHECK_EQUAL(effects.ended.size(), 2U);
  BOOST_CHECK_EQUAL(world.status(first), TaskStatus::completed);
  BOOST_CHECK_EQUAL(world.status(second), TaskStatus::completed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
