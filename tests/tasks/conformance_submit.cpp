// Submitting: idempotence, keys, trees, bounds.
#include <limits>

#include "tasks/world.hpp"

namespace tasks_tests {

BOOST_AUTO_TEST_SUITE(submitting)

BOOST_AUTO_TEST_CASE(tsk_21_the_same_id_again_is_the_same_task, *label("TSK-21") * label("T-01")) {
  World world;
  Submission submission = World::task("work");
  submission.payload = R"({"a":1})";
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.count().tasks, 1U);
  BOOST_CHECK_EQUAL(world.done(world.claim("work")), Status::ok);
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);  // after its end as well
  BOOST_CHECK(world.effects().ready.empty());
  BOOST_CHECK_EQUAL(world.get(submission.id).row.deliveries, 1U);
  BOOST_CHECK(world.idle());

  Submission other = submission;
  other.payload = R"({"a":2})";
  BOOST_CHECK_EQUAL(world.submit(other), Status::state);
  other = submission;
  other.type = "other";
  BOOST_CHECK_EQUAL(world.submit(other), Status::state);
  other = submission;
  other.parent = world.root("parent");
  BOOST_CHECK_EQUAL(world.submit(other), Status::state);
  BOOST_CHECK_EQUAL(world.get(submission.id).texts.payload, R"({"a":1})");
}

// Also below a parent that has ended since: the first try may have succeeded, and only its reply been lost.
BOOST_AUTO_TEST_CASE(tsk_21_a_child_repeated_after_its_parents_end, *label("TSK-21")) {
  World world;
  const TaskId parent = world.root("parent");
  Submission submission = World::task("child");
  submission.parent = parent;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("parent")), Status::ok);
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  submission.id = make_task_id();
  BOOST_CHECK_EQUAL(world.submit(submission), Status::state);
  BOOST_CHECK(!world.exists(submission.id));
  submission.parent = make_task_id();
  BOOST_CHECK_EQUAL(world.submit(submission), Status::unknown);
}

BOOST_AUTO_TEST_CASE(tsk_10_the_tree_is_readable_both_ways, *label("TSK-10") * label("T-16")) {
  World world;
  Submission submission = World::task("parent");
  submission.priority = 5;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  const Run run = world.claim("parent");
  const TaskId first = world.child(run, "child"), second = world.child(run, "child");
  Submission own = World::task("other");
  own.parent = submission.id;
  own.priority = -3;
  own.own_priority = true;
  BOOST_CHECK_EQUAL(world.submit(own), Status::ok);
  const TaskId grandchild = world.child(first, "leaf");

  BOOST_CHECK_EQUAL(world.get(first).row.priority, 6);
  BOOST_CHECK_EQUAL(world.get(grandchild).row.priority, 7);
  BOOST_CHECK_EQUAL(world.get(own.id).row.priority, -3);
  BOOST_CHECK_EQUAL(world.get(first).parent, submission.id);
  BOOST_CHECK_EQUAL(world.get(grandchild).parent, first);
  BOOST_CHECK_EQUAL(world.get(grandchild).root, submission.id);
  BOOST_CHECK_EQUAL(world.get(submission.id).root, submission.id);
  BOOST_CHECK(world.get(submission.id).parent.none());
  Filter filter;
  filter.parent = submission.id;
  std::vector<Record> found;
  BOOST_CHECK_EQUAL(world.store().list(filter, found).status, Status::ok);
  BOOST_CHECK_EQUAL(found.size(), 3U);
  filter.type = "child";
  BOOST_CHECK_EQUAL(world.store().list(filter, found).status, Status::ok);
  BOOST_REQUIRE_EQUAL(found.size(), 2U);
  BOOST_CHECK_EQUAL(found[0].row.id, std::min(first, second));
  BOOST_CHECK_EQUAL(found[1].row.id, std::max(first, second));
  Filter tree;
  tree.root = submission.id;
  BOOST_CHECK_EQUAL(world.store().list(tree, found).status, Status::ok);
  BOOST_CHECK_EQUAL(found.size(), 5U);

  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  const Record parked = world.get(submission.id);
  std::vector<TaskId> expected = {first, second, own.id};
  std::sort(expected.begin(), expected.end());
  BOOST_CHECK_EQUAL_COLLECTIONS(parked.waiting_for.begin(), parked.waiting_for.end(), expected.begin(), expected.end());
  BOOST_CHECK_EQUAL(parked.row.children, 3);
}

BOOST_AUTO_TEST_CASE(tsk_10_priority_does_not_overflow, *label("TSK-10")) {
  World world;
  Submission submission = World::task("parent");
  submission.priority = std::numeric_limits<int32_t>::max();
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  const TaskId child = world.child(submission.id, "child");
  BOOST_CHECK_EQUAL(world.get(child).row.priority, std::numeric_limits<int32_t>::max());
  Submission lowest = World::task("work");
  lowest.priority = std::numeric_limits<int32_t>::min();
  BOOST_CHECK_EQUAL(world.submit(lowest), Status::ok);
  BOOST_CHECK_EQUAL(world.claim_up_to(1)[0].claimed.id, submission.id);
  BOOST_CHECK_EQUAL(world.claim_up_to(1)[0].claimed.id, child);
  BOOST_CHECK_EQUAL(world.claim_up_to(1)[0].claimed.id, lowest.id);
}

BOOST_AUTO_TEST_CASE(tsk_20_one_live_task_a_type_and_key, *label("TSK-20")) {
  World world;
  Submission submission = World::task("work");
  submission.key = "key";
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  Submission second = submission;
  second.id = make_task_id();
  TaskId winner;
  BOOST_CHECK_EQUAL(world.submit(second, &winner), Status::exists);
  BOOST_CHECK_EQUAL(winner, submission.id);
  BOOST_CHECK(!world.exists(second.id));
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);  // its own repeat is no rival
  Submission other = World::task("other");
  other.key = "key";
  BOOST_CHECK_EQUAL(world.submit(other), Status::ok);  // another type

  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.submit(second, &winner), Status::exists);  // as long as it lives
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::ok);
  BOOST_CHECK_EQUAL(world.submit(second, &winner), Status::exists);
  BOOST_CHECK_EQUAL(world.cancel(submission.id), Status::ok);
  BOOST_CHECK_EQUAL(world.submit(second, &winner), Status::ok);
  BOOST_CHECK_EQUAL(winner, second.id);
  BOOST_CHECK_EQUAL(world.get(second.id).texts.key, "key");
}

// N-08: a first round that is run again makes no twins.
BOOST_AUTO_TEST_CASE(n_08_once_below_a_parent, *label("N-08") * label("TSK-20")) {
  World world;
  Submission parent = World::task("parent");
  parent.max_attempts = 2;
  BOOST_CHECK_EQUAL(world.submit(parent), Status::ok);
  Run run = world.claim("parent");
  Submit submit;
  submit.by = run.claimed;
  submit.tasks = {World::task("child")};
  submit.tasks[0].key = "part 1";
  submit.tasks[0].key_scope = KeyScope::parent;
  BOOST_CHECK_EQUAL(world.ask(submit), Status::ok);
  const TaskId child = submit.ids.at(0);
  BOOST_CHECK_EQUAL(world.done(world.claim("child")), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(run, "Broken", Retry::after, 0), Status::ok);
  run = world.claim("parent");
  submit.by = run.claimed;
  submit.tasks[0].id = make_task_id();
  BOOST_CHECK_EQUAL(world.ask(submit), Status::exists);  // also when it has ended
  BOOST_CHECK_EQUAL(submit.ids.at(0), child);
  BOOST_CHECK_EQUAL(world.get(parent.id).row.children, 1);
  // Below another parent it is another key; without one it makes no sense.
  Submission elsewhere = submit.tasks[0];
  elsewhere.id = make_task_id();
  elsewhere.parent = world.root("parent");
  BOOST_CHECK_EQUAL(world.submit(elsewhere), Status::ok);
  elsewhere.id = make_task_id();
  elsewhere.parent = TaskId{};
  BOOST_CHECK_EQUAL(world.submit(elsewhere), Status::argument);
}

BOOST_AUTO_TEST_CASE(tsk_20_once_in_a_tree, *label("TSK-20")) {
  World world;
  Submission top = World::task("page");
  top.key = "/";
  top.key_scope = KeyScope::tree;
  BOOST_CHECK_EQUAL(world.submit(top), Status::ok);
  Run run = world.claim("page");
  const auto visit = [&](const Run& by, const std::string& key, TaskId& winner) {
    Submit submit;
    submit.by = by.claimed;
    submit.tasks = {World::task("page")};
    submit.tasks[0].key = key;
    submit.tasks[0].key_scope = KeyScope::tree;
    const Status status = world.ask(submit);
    winner = submit.ids.at(0);
    return status;
  };
  TaskId first, winner;
  BOOST_CHECK_EQUAL(visit(run, "/", winner), Status::exists);  // the root has that
  BOOST_CHECK_EQUAL(winner, top.id);
  BOOST_CHECK_EQUAL(visit(run, "/a", first), Status::ok);
  const Run below = world.claim("page");
  BOOST_CHECK_EQUAL(visit(below, "/a", winner), Status::exists);
  BOOST_CHECK_EQUAL(winner, first);
  BOOST_CHECK_EQUAL(world.done(below), Status::ok);
  BOOST_CHECK_EQUAL(visit(run, "/a", winner), Status::exists);  // for ever
  // Another tree is another place.
  top.id = make_task_id();
  BOOST_CHECK_EQUAL(world.submit(top), Status::ok);
}

BOOST_AUTO_TEST_CASE(tsk_20_the_losers_of_a_batch_do_not_hold_up_the_others, *label("TSK-20")) {
  World world;
  Submit submit;
  for (int i = 0; i < 4; i++) {
    submit.tasks.push_back(World::task("work"));
    submit.tasks.back().key = i % 2 == 0 ? "even" : "odd" + std::to_string(i);
  }
  BOOST_CHECK_EQUAL(world.ask(submit), Status::exists);
  BOOST_REQUIRE_EQUAL(submit.ids.size(), 4U);
  BOOST_CHECK_EQUAL(submit.ids[2], submit.tasks[0].id);  // an earlier one of the same call
  for (const int i : {0, 1, 3})
    BOOST_CHECK_EQUAL(submit.ids[static_cast<size_t>(i)], submit.tasks[static_cast<size_t>(i)].id);
  BOOST_CHECK_EQUAL(world.count().tasks, 3U);
}

BOOST_AUTO_TEST_CASE(tsk_21_all_or_none, *label("TSK-21") * label("TSK-12")) {
  World world;
  const TaskId parent = world.root("parent");
  Submit submit;
  submit.tasks = {World::task("work"), World::task("brandnew"), World::task("work")};
  submit.tasks[0].parent = parent;
  submit.tasks[0].key = "key";
  submit.tasks[2].parent = make_task_id();
  BOOST_CHECK_EQUAL(world.ask(submit), Status::unknown);
  BOOST_CHECK(submit.ids.empty());
  BOOST_CHECK(world.effects().ready.empty());
  BOOST_CHECK_EQUAL(world.count().tasks, 1U);
  BOOST_CHECK_EQUAL(world.get(parent).row.children, 0);
  submit.tasks[2].parent = submit.tasks[1].id;  // one of the same call
  BOOST_CHECK_EQUAL(world.ask(submit), Status::ok);
  BOOST_CHECK_EQUAL(world.get(submit.tasks[2].id).root, submit.tasks[1].id);
  BOOST_CHECK_EQUAL(world.get(parent).row.children, 1);
  BOOST_REQUIRE_EQUAL(world.effects().ready.size(), 2U);
}

BOOST_AUTO_TEST_CASE(tsk_30_what_is_too_much_is_refused, *label("TSK-30") * label("TSK-24")) {
  Limits limits;
  limits.json = 10;
  limits.name = 5;
  limits.children = 2;
  World world(false, limits);
  Submission submission = World::task("sixsix");
  BOOST_CHECK_EQUAL(world.submit(submission), Status::limit);
  submission = World::task("work");
  submission.payload = std::string(11, '1');
  BOOST_CHECK_EQUAL(world.submit(submission), Status::limit);
  submission.payload = std::string(10, '1');
  submission.key = "sixsix";
  BOOST_CHECK_EQUAL(world.submit(submission), Status::limit);
  submission.key = "five5";
  submission.id = TaskId{};
  BOOST_CHECK_EQUAL(world.submit(submission), Status::argument);
  submission.id = make_task_id();
  submission.type.clear();
  BOOST_CHECK_EQUAL(world.submit(submission), Status::argument);
  BOOST_CHECK_EQUAL(world.count().tasks, 0U);

  const TaskId parent = world.root("work");
  const Run run = world.claim("work");
  const TaskId first = world.child(run, "child"), second = world.child(run, "child");
  Submission third = World::task("child");
  third.parent = parent;
  BOOST_CHECK_EQUAL(world.submit(third), Status::limit);
  BOOST_CHECK(!world.exists(third.id));
  BOOST_CHECK_EQUAL(world.update(run, std::string(11, '1')), Status::limit);
  BOOST_CHECK(world.get(parent).texts.state.empty());
  StepPut step{run.claimed, "sixsix", "1"};
  BOOST_CHECK_EQUAL(world.ask(step), Status::limit);
  step.name = "step";
  step.value = std::string(11, '1');
  BOOST_CHECK_EQUAL(world.ask(step), Status::limit);
  const TaskId other = world.root("other");
  BOOST_CHECK_EQUAL(world.suspend(run, until({first, second, other})), Status::limit);
  BOOST_CHECK_EQUAL(world.done(run, std::string(11, '1')), Status::limit);
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::running);  // refused, and still this run's
  SharedPut put;
  put.scope = put.key = "k";
  put.value = std::string(11, '1');
  BOOST_CHECK_EQUAL(world.ask(put), Status::limit);
  BOOST_CHECK_EQUAL(world.done(run, std::string(10, '1')), Status::ok);
}

BOOST_AUTO_TEST_CASE(tsk_32_lists_come_in_pages, *label("TSK-32") * label("TSK-10")) {
  World world;
  std::vector<TaskId> all;
  for (int i = 0; i < 10; i++) {
    all.push_back(world.root(i % 2 == 0 ? "even" : "odd"));
    world.advance(1);
  }
  world.child(all[0], "child");
  Filter filter;
  filter.roots_only = true;
  filter.most = 4;
  std::vector<TaskId> seen;
  std::vector<Record> page;
  do {
    BOOST_REQUIRE_EQUAL(world.store().list(filter, page).status, Status::ok);
    for (const Record& record : page) seen.push_back(record.row.id);
    if (!page.empty()) filter.after = page.back().row.id;
  } while (page.size() == 4);
  BOOST_CHECK_EQUAL_COLLECTIONS(seen.begin(), seen.end(), all.begin(), all.end());
  Filter early;
  early.created_before = kStart + 3;
  BOOST_REQUIRE_EQUAL(world.store().list(early, page).status, Status::ok);
  BOOST_CHECK_EQUAL(page.size(), 3U);
  Filter by_status;
  by_status.status = TaskStatus::queued;
  by_status.type = "odd";
  BOOST_REQUIRE_EQUAL(world.store().list(by_status, page).status, Status::ok);
  BOOST_CHECK_EQUAL(page.size(), 5U);
  by_status.status = TaskStatus::suspended;
  BOOST_REQUIRE_EQUAL(world.store().list(by_status, page).status, Status::ok);
  BOOST_CHECK(page.empty());
  by_status.type = "no such type";
  BOOST_REQUIRE_EQUAL(world.store().list(by_status, page).status, Status::ok);
  BOOST_CHECK(page.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
