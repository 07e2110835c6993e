// What is kept and for how long: atomic rounds, purges, the event log, what a stuck task says of itself.
#include "tasks/world.hpp"

namespace tasks_tests {

namespace {

using Kind = Event::Kind;
using Kinds = std::vector<Kind>;

Submit one(const Submission& submission) {
  Submit submit;
  submit.tasks = {submission};
  return submit;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keeping)

// ---- Atomic rounds --------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tsk_31_a_round_commits_whole, *label("TSK-31") * label("TSK-12")) {
  World world;
  const TaskId id = world.root("work"), friendly = world.root("friend");
  const Run run = world.claim("work");
  Settle settle;
  settle.by = run.claimed;
  settle.outcome = Outcome::suspend;
  settle.suspension = until_children();
  Submit children;
  children.tasks = {World::task("child"), World::task("child")};
  children.by = run.claimed;
  Notify notify;
  notify.to = friendly;
  notify.payload = "1";
  notify.by = run.claimed;
  SharedPut put;
  put.scope = to_text(id);
  put.key = "key";
  put.value = "2";
  put.if_absent = true;
  put.by = run.claimed;
  settle.staged = {children, notify, UpdateState{run.claimed, "3"}, StepPut{run.claimed, "step", "4"}, put};
  BOOST_CHECK_EQUAL(world.ask(settle), Status::ok);
  const Record record = world.get(id);
  BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::suspended);  // the children count already
  BOOST_CHECK_EQUAL(record.waiting_open, 2);
  BOOST_CHECK_EQUAL(record.texts.state, "3");
  BOOST_CHECK_EQUAL(world.get(friendly).row.mail, 1);
  std::string value;
  BOOST_CHECK_EQUAL(world.store().shared(to_text(id), "key", value).status, Status::ok);
  BOOST_CHECK_EQUAL(value, "2");
  BOOST_CHECK_EQUAL(world.ask(settle), Status::ok);  // repeated: nothing is done twice
  BOOST_CHECK_EQUAL(world.get(friendly).row.mail, 1);
  for (const Run& child : world.claim_up_to(2, {"child"})) BOOST_CHECK_EQUAL(world.done(child), Status::ok);
  const Run again = world.claim("work");
  BOOST_CHECK_EQUAL(world.store().step(again.claimed, "step", value).status, Status::ok);
  BOOST_CHECK_EQUAL(value, "4");
}

BOOST_AUTO_TEST_CASE(tsk_31_or_not_at_all, *label("TSK-31")) {
  World world(true);
  const TaskId id = world.root("work"), friendly = world.root("friend");
  const Run run = world.claim("work");
  const size_t events = world.events().size();
  Settle good;
  good.by = run.claimed;
  good.outcome = Outcome::done;
  good.result = "9";
  Submit child = one(World::task("child"));
  child.by = run.claimed;
  Notify notify;
  notify.to = friendly;
  notify.payload = "1";
  good.staged = {child, notify, UpdateState{run.claimed, "3"}, StepPut{run.claimed, "step", "4"}};

  SharedPut taken;
  taken.scope = "scope";
  taken.key = "key";
  taken.value = "1";
  BOOST_CHECK_EQUAL(world.ask(taken), Status::ok);
  taken.if_absent = true;
  Submission rival = World::task("rival");
  rival.key = "key";
  BOOST_CHECK_EQUAL(world.submit(rival), Status::ok);
  rival.id = make_task_id();
  Notify nobody = notify;
  nobody.to = make_task_id();
  Settle settle = good;
  const auto changes_nothing = [&](Status expected) {
    BOOST_CHECK_EQUAL(world.ask(settle), expected);
    BOOST_CHECK(world.effects().ready.empty() && world.effects().ended.empty());
    const Record record = world.get(id);
    BOOST_CHECK_EQUAL(status_of(record.row.phase), TaskStatus::running);
    BOOST_CHECK_EQUAL(record.row.children, 0);
    BOOST_CHECK(record.texts.state.empty() && record.texts.result.empty());
    BOOST_CHECK_EQUAL(world.get(friendly).row.mail, 0);
    std::string value;
    BOOST_CHECK_EQUAL(world.store().step(run.claimed, "step", value).status, Status::empty);
    BOOST_CHECK(!world.exists(child.tasks[0].id));
    settle = good;
  };
  settle.staged.push_back(taken);  // somebody came first
  changes_nothing(Status::exists);
  settle.staged.push_back(one(rival));
  changes_nothing(Status::exists);
  settle.staged.push_back(nobody);
  changes_nothing(Status::unknown);
  settle.outcome = Outcome::suspend;
  settle.suspension = until({make_task_id()});
  changes_nothing(Status::unknown);
  settle.suspension = until({id});
  settle.outcome = Outcome::suspend;
  changes_nothing(Status::state);
  BOOST_CHECK_EQUAL(world.events().size(), events + 1);  // the rival's submission
  BOOST_CHECK_EQUAL(world.ask(settle), Status::ok);
  BOOST_CHECK_EQUAL(world.get(id).texts.result, "9");
  BOOST_CHECK(world.exists(child.tasks[0].id));
}

BOOST_AUTO_TEST_CASE(tsk_31_a_cancelled_round_leaves_nothing, *label("TSK-31") * label("TSK-11")) {
  World world;
  const TaskId id = world.root("work"), friendly = world.root("friend");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.cancel(id), Status::ok);
  Settle settle;
  settle.by = run.claimed;
  settle.result = "1";
  Notify notify;
  notify.to = friendly;
  notify.payload = "1";
  settle.staged = {notify, UpdateState{run.claimed, "3"}};
  BOOST_CHECK_EQUAL(world.ask(settle), Status::cancelled);
  BOOST_CHECK_EQUAL(world.get(friendly).row.mail, 0);
  BOOST_CHECK(world.get(id).texts.state.empty());
  BOOST_CHECK_EQUAL(world.get(id).texts.result, "1");
}

// ---- Purge ----------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tsk_23_whole_trees_and_they_are_counted, *label("TSK-23") * label("T-36")) {
  World world;
  const TaskId parent = world.root("parent");
  const Run run = world.claim("parent");
  const TaskId first = world.child(run, "child"), second = world.child(run, "child");
  StepPut step{run.claimed, "step", "1"};
  BOOST_CHECK_EQUAL(world.ask(step), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(parent, "1", "key"), Status::ok);
  for (const Run& child : world.claim_up_to(2, {"child"})) BOOST_CHECK_EQUAL(world.done(child), Status::ok);
  BOOST_CHECK_EQUAL(world.done(run, "1"), Status::ok);
  world.advance(1);
  BOOST_CHECK_EQUAL(world.purge(world.now()).purged, 3U);
  for (const TaskId& id : {parent, first, second}) {
    BOOST_CHECK(!world.exists(id));
    BOOST_CHECK_EQUAL(world.notify(id, "1"), Status::unknown);
  }
  BOOST_CHECK_EQUAL(world.count().tasks, 0U);
  BOOST_CHECK_EQUAL(world.count().purged, 3U);
  BOOST_CHECK_EQUAL(world.done(run, "1"), Status::lease_lost);
}

BOOST_AUTO_TEST_CASE(tsk_23_not_while_one_member_is_open, *label("TSK-23") * label("T-37") * label("N-20")) {
  World world;
  const TaskId parent = world.root("parent"), loner = world.root("loner");
  const Run run = world.claim("parent");
  world.child(run, "child");
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("loner")), Status::ok);
  const Run child = world.claim("child");
  const TaskId grandchild = world.child(child, "leaf");
  world.advance(1000);
  BOOST_CHECK_EQUAL(world.purge(world.now()).purged, 1U);  // the loner
  BOOST_CHECK(!world.exists(loner));
  BOOST_CHECK(world.exists(parent));
  BOOST_CHECK_EQUAL(world.done(child), Status::ok);
  BOOST_CHECK_EQUAL(world.purge(world.now() + 1).purged, 0U);
  BOOST_CHECK_EQUAL(world.cancel(grandchild), Status::ok);
  BOOST_CHECK_EQUAL(world.purge(world.now()).purged, 0U);  // it ended just now
  BOOST_CHECK_EQUAL(world.purge(world.now() + 1).purged, 3U);
  Submission late = World::task("child");
  late.parent = parent;
  BOOST_CHECK_EQUAL(world.submit(late), Status::unknown);
}

BOOST_AUTO_TEST_CASE(tsk_23_respects_the_cutoff, *label("TSK-23") * label("T-38") * label("T-39")) {
  World world;
  const TaskId id = world.root("work");
  BOOST_CHECK_EQUAL(world.done(world.claim("work")), Status::ok);
  world.advance(1);
  BOOST_CHECK_EQUAL(world.purge(world.now() - 60'000).purged, 0U);
  BOOST_CHECK_EQUAL(world.maintain().purged, 0U);  // nobody asked for it
  BOOST_CHECK(world.exists(id));
  BOOST_CHECK_EQUAL(world.purge(world.now()).purged, 1U);
}

BOOST_AUTO_TEST_CASE(tsk_23_never_one_that_somebody_waits_for, *label("TSK-23")) {
  World world;
  const TaskId waiter = world.root("waiter"), target = world.root("target");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({target})), Status::ok);
  world.advance(1000);
  BOOST_CHECK_EQUAL(world.purge(world.now()).purged, 0U);
  BOOST_CHECK_EQUAL(world.done(world.claim("target")), Status::ok);
  world.advance(1);
  BOOST_CHECK_EQUAL(world.purge(world.now()).purged, 1U);  // its end has told the waiter
  BOOST_CHECK_EQUAL(world.claim("waiter").record.row.woken_by, Wake::join);
  BOOST_CHECK(world.exists(waiter));
}

BOOST_AUTO_TEST_CASE(shr_02_a_trees_values_go_with_it, *label("SHR-02") * label("TSK-23")) {
  World world;
  const TaskId id = world.root("work"), other = world.root("other");
  for (const TaskId& scope : {id, other}) {
    SharedPut put;
    put.scope = to_text(scope);
    put.key = "key";
    put.value = "1";
    BOOST_CHECK_EQUAL(world.ask(put), Status::ok);
  }
  BOOST_CHECK_EQUAL(world.cancel(id), Status::ok);
  world.advance(1);
  BOOST_CHECK_EQUAL(world.purge(world.now()).purged, 1U);
  std::string value;
  BOOST_CHECK_EQUAL(world.store().shared(to_text(id), "key", value).status, Status::empty);
  BOOST_CHECK_EQUAL(world.store().shared(to_text(other), "key", value).status, Status::ok);
}

BOOST_AUTO_TEST_CASE(tsk_23_in_bounded_pieces_and_what_is_left_is_a_tree, *label("TSK-23")) {
  Limits limits;
  limits.purge = 10;
  World world(false, limits);
  const TaskId top = world.root("top");
  const Run run = world.claim("top");
  std::vector<TaskId> members = {top};
  for (int i = 0; i < 24; i++) {
    Submission submission = World::task("member");
    submission.parent = members[static_cast<size_t>(i) / 2];
    submission.key = "key" + std::to_string(i);
    submission.key_scope = KeyScope::tree;
    BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
    members.push_back(submission.id);
  }
  BOOST_CHECK_EQUAL(world.cancel(top), Status::ok);
  BOOST_CHECK_EQUAL(world.done(run), Status::cancelled);
  world.advance(1);
  uint64_t purged = 0;
  Maintain upkeep;
  do {
    upkeep = Maintain{};
    upkeep.purge_before = world.now();
    BOOST_REQUIRE_EQUAL(world.ask(upkeep), Status::ok);
    BOOST_CHECK_LE(upkeep.purged, 10U);
    purged += upkeep.purged;
    for (const TaskId& id : members) {
      if (!world.exists(id)) continue;
      const Record record = world.get(id);
      BOOST_CHECK_EQUAL(record.root, top);
      BOOST_CHECK_EQUAL(record.parent.none(), id == top);
    }
  } while (upkeep.more && purged < 100);
  BOOST_CHECK_EQUAL(purged, 25U);
  BOOST_CHECK_EQUAL(world.count().tasks, 0U);
}

// ---- Events ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tsk_29_a_whole_life, *label("TSK-29") * label("T-42") * label("T-79") * label("N-23")) {
  World world(true);
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  const TaskId child = world.child(run, "child");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  BOOST_CHECK_EQUAL(world.done(world.claim("child"), "7"), Status::ok);
  BOOST_CHECK(world.effects().events);
  BOOST_CHECK_EQUAL(world.done(world.claim("parent")), Status::ok);
  const Kinds expected = {Kind::submitted, Kind::started, Kind::suspended, Kind::woken, Kind::started, Kind::ended};
  const Kinds seen = world.history(parent);
  BOOST_CHECK_EQUAL_COLLECTIONS(seen.begin(), seen.end(), expected.begin(), expected.end());
  const Kinds of_child = {Kind::submitted, Kind::started, Kind::ended};
  const Kinds seen_child = world.history(child);
  BOOST_CHECK_EQUAL_COLLECTIONS(seen_child.begin(), seen_child.end(), of_child.begin(), of_child.end());
  uint64_t sequence = 0;
  for (const Event& event : world.events()) {
    BOOST_CHECK_EQUAL(event.sequence, ++sequence);  // none is missing
    BOOST_CHECK_EQUAL(event.at, kStart);
    BOOST_CHECK_EQUAL(event.type, event.task == parent ? "parent" : "child");
  }
}

BOOST_AUTO_TEST_CASE(tsk_29_progress_and_the_end_are_told,
                     *label("TSK-29") * label("T-77") * label("T-78") * label("T-82")) {
  World world(true);
  const TaskId id = world.root("work");
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.update(run, R"("searching")"), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(run, "Bro\"ken"), Status::ok);
  const std::vector<Event> events = world.events();  // a late reader gets all of it
  BOOST_REQUIRE_EQUAL(events.size(), 4U);
  BOOST_CHECK_EQUAL(events[0].kind, Kind::submitted);
  BOOST_CHECK_EQUAL(events[1].kind, Kind::started);
  BOOST_CHECK_EQUAL(events[1].status, TaskStatus::running);
  BOOST_CHECK_EQUAL(events[1].attempt, 1U);
  BOOST_CHECK_EQUAL(events[2].kind, Kind::state);
  BOOST_CHECK_EQUAL(events[2].data, R"("searching")");
  BOOST_CHECK_EQUAL(events[3].kind, Kind::ended);
  BOOST_CHECK_EQUAL(events[3].status, TaskStatus::failed);
  BOOST_CHECK_EQUAL(events[3].data, R"({"kind":"Bro\"ken","message":"it went wrong"})");
  BOOST_CHECK_EQUAL(events[3].task, id);
  BOOST_CHECK_EQUAL(world.events(2).size(), 2U);  // from any point on
  BOOST_CHECK(world.events(4).empty());
  std::vector<Event> page;
  BOOST_CHECK_EQUAL(world.store().events(1, 2, page).status, Status::ok);
  BOOST_REQUIRE_EQUAL(page.size(), 2U);
  BOOST_CHECK_EQUAL(page[0].sequence, 2U);
}

BOOST_AUTO_TEST_CASE(tsk_29_every_other_kind, *label("TSK-29")) {
  World world(true);
  Submission submission = World::task("work");
  submission.max_attempts = 2;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Broken", Retry::after, 0), Status::ok);
  BOOST_CHECK_EQUAL(world.hand_back(world.claim("work")), Status::ok);
  world.claim("work");
  world.restart();
  BOOST_CHECK_EQUAL(world.notify(submission.id, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(world.claim("work"), until_notified(kStart + 10)), Status::ok);
  world.advance(10);
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.cancel(submission.id), Status::ok);
  BOOST_CHECK_EQUAL(world.done(run), Status::cancelled);
  const Kinds expected = {Kind::submitted, Kind::started, Kind::retried,          Kind::started, Kind::handed_back,
                          Kind::started,   Kind::rescued, Kind::message,          Kind::started, Kind::suspended,
                          Kind::woken,     Kind::started, Kind::cancel_requested, Kind::ended};
  const Kinds seen = world.history(submission.id);
  BOOST_CHECK_EQUAL_COLLECTIONS(seen.begin(), seen.end(), expected.begin(), expected.end());
}

BOOST_AUTO_TEST_CASE(tsk_29_without_the_option_there_are_none, *label("TSK-29")) {
  World world;
  world.root("work");
  BOOST_CHECK_EQUAL(world.done(world.claim("work")), Status::ok);
  BOOST_CHECK(!world.effects().events);
  BOOST_CHECK(world.events().empty());
}

// N-28: old ones go, and the sequence goes on where it was, also when none is left.
BOOST_AUTO_TEST_CASE(n_28_old_events_go_and_the_sequence_stays,
                     *label("N-28") * label("TSK-29") * label("T-40") * label("T-41")) {
  World world(true);
  world.root("work");
  world.root("work");
  world.advance(10);
  world.root("work");
  Maintain upkeep;
  upkeep.events_before = kStart + 10;
  BOOST_CHECK_EQUAL(world.maintain(upkeep).purged_events, 2U);
  BOOST_REQUIRE_EQUAL(world.events().size(), 1U);
  BOOST_CHECK_EQUAL(world.events()[0].sequence, 3U);
  upkeep.events_before = kStart + 11;
  BOOST_CHECK_EQUAL(world.maintain(upkeep).purged_events, 1U);
  BOOST_CHECK(world.events().empty());
  world.restart();
  const TaskId id = world.root("work");
  BOOST_REQUIRE_EQUAL(world.events().size(), 1U);
  BOOST_CHECK_EQUAL(world.events()[0].sequence, 4U);
  BOOST_CHECK_EQUAL(world.events()[0].task, id);
}

// ---- What there is to see -------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tsk_32_a_record_says_what_it_waits_for, *label("TSK-32") * label("TSK-07")) {
  World world;
  const TaskId waiter = world.root("waiter"), other = world.root("other");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("waiter"), until({other}, 0, true, kStart + 1000)), Status::ok);
  const Record record = world.get(waiter);
  BOOST_CHECK(record.row.until == Until::tasks);
  BOOST_CHECK(record.row.wake_on_failure);
  BOOST_CHECK_EQUAL(record.row.due_at, kStart + 1000);
  BOOST_CHECK_EQUAL(record.waiting_for.at(0), other);
  const Run run = world.claim("other");
  BOOST_CHECK_EQUAL(world.get(other).node, "first");
  BOOST_CHECK_EQUAL(world.get(other).lease_until, kStart + kLease);
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_CHECK(world.get(waiter).waiting_for.empty());
  Record nobody;
  BOOST_CHECK_EQUAL(world.store().get(make_task_id(), nobody).status, Status::unknown);
}

BOOST_AUTO_TEST_CASE(tsk_24_json_is_kept_byte_for_byte, *label("TSK-24") * label("TSK-25")) {
  World world;
  Submission submission = World::task("work");
  submission.payload = " { \"a\" : 1e400 , \"a\" : 12345678901234567890123 , \"\xc3\xa9\" : \"\\u00e9\" } ";
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  const Run run = world.claim("work");
  BOOST_CHECK_EQUAL(run.record.texts.payload, submission.payload);
  BOOST_CHECK_EQUAL(world.done(run, submission.payload), Status::ok);
  BOOST_CHECK_EQUAL(world.get(submission.id).texts.result, submission.payload);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
