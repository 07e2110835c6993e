// Messages: durable facts, each delivered to one round that commits.
#include "tasks/world.hpp"

namespace tasks_tests {

namespace {
using Texts = std::vector<std::string>;
}  // namespace

BOOST_AUTO_TEST_SUITE(messages)

BOOST_AUTO_TEST_CASE(tsk_08_one_before_parking_prevents_it, *label("TSK-08") * label("T-21")) {
  World world;
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  world.child(run, "child");
  const Run below = world.claim("child");
  Notify report;
  report.to = parent;
  report.payload = R"("found")";
  report.by = below.claimed;
  BOOST_CHECK_EQUAL(world.ask(report), Status::ok);
  BOOST_CHECK_EQUAL(world.done(below), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::ok);
  BOOST_CHECK_EQUAL(world.status(parent), TaskStatus::queued);
  run = world.claim("parent");
  BOOST_CHECK_EQUAL(run.record.row.woken_by, Wake::message);
  BOOST_REQUIRE_EQUAL(run.messages.size(), 1U);
  BOOST_CHECK_EQUAL(run.messages[0].payload, R"("found")");
  BOOST_CHECK_EQUAL(run.messages[0].from, below.claimed.id);
  BOOST_CHECK_EQUAL(run.messages[0].at, kStart);
  BOOST_CHECK_EQUAL(run.messages[0].deliveries, 1U);
}

BOOST_AUTO_TEST_CASE(tsk_08_one_while_it_runs_comes_with_the_next_round, *label("TSK-08") * label("T-22")) {
  World world;
  const TaskId id = world.root("work");
  Run run = world.claim("work");
  BOOST_CHECK(run.messages.empty());
  BOOST_CHECK_EQUAL(world.notify(id, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.get(id).row.mail, 1);
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::ok);
  run = world.claim("work");
  BOOST_TEST(payloads(run) == Texts{"1"}, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::ok);  // used up with that round
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::suspended);
  BOOST_CHECK_EQUAL(world.get(id).row.mail, 0);
  BOOST_CHECK_EQUAL(world.get(id).row.mail_bytes, 0);
}

// The child's report came first, so the task is not parked, and nobody is told that it was.
BOOST_AUTO_TEST_CASE(tsk_08_a_refused_park_is_no_suspension, *label("TSK-08") * label("T-24")) {
  World world(true);
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  world.child(run, "child");
  BOOST_CHECK_EQUAL(world.notify(parent, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  run = world.claim("parent");
  BOOST_TEST(payloads(run) == Texts{"1"}, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  for (const Event& event : world.events()) BOOST_CHECK(event.kind != Event::Kind::suspended);
}

// A report a child, each seen once; the parent ends when none is open.
BOOST_AUTO_TEST_CASE(tsk_08_reports_of_children, *label("TSK-08") * label("T-20")) {
  World world;
  const TaskId parent = world.root("parent");
  Run run = world.claim("parent");
  for (int i = 0; i < 3; i++) world.child(run, "child");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  Texts seen;
  for (int i = 0; i < 3; i++) {
    const Run below = world.claim("child");
    Notify report;
    report.to = parent;
    report.payload = std::to_string(i);
    report.by = below.claimed;
    BOOST_CHECK_EQUAL(world.ask(report), Status::ok);
    BOOST_CHECK_EQUAL(world.done(below), Status::ok);
    run = world.claim("parent");
    for (const std::string& payload : payloads(run)) seen.push_back(payload);
    BOOST_CHECK_EQUAL(run.record.waiting_open, 2 - i);
    if (i < 2) BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  }
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_TEST(seen == (Texts{"0", "1", "2"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(tsk_09_anybody_may_notify_anybody, *label("TSK-09") * label("T-23")) {
  World world;
  const TaskId sleeper = world.root("sleeper"), stranger = world.root("stranger");
  BOOST_CHECK_EQUAL(world.suspend(world.claim("sleeper"), until_notified()), Status::ok);
  const Run run = world.claim("stranger");
  Notify notify;
  notify.to = sleeper;
  notify.payload = R"("hello")";
  notify.by = run.claimed;
  BOOST_CHECK_EQUAL(world.ask(notify), Status::ok);
  const Run awake = world.claim("sleeper");
  BOOST_CHECK_EQUAL(awake.messages.at(0).from, stranger);
  BOOST_CHECK_EQUAL(awake.messages.at(0).payload, R"("hello")");
}

BOOST_AUTO_TEST_CASE(tsk_09_what_has_ended_refuses_messages, *label("TSK-09")) {
  World world;
  const TaskId id = world.root("work");
  BOOST_CHECK_EQUAL(world.notify(id, "1"), Status::ok);  // before its first round
  const Run run = world.claim("work");
  BOOST_TEST(payloads(run) == Texts{"1"}, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(world.notify(id, "2"), Status::ok);
  BOOST_CHECK_EQUAL(world.done(run), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, "3"), Status::state);
  BOOST_CHECK_EQUAL(world.notify(make_task_id(), "3"), Status::unknown);
  // What it was not handed can be read until the purge.
  std::vector<Message> left;
  BOOST_CHECK_EQUAL(world.store().mail(id, left).status, Status::ok);
  BOOST_REQUIRE_EQUAL(left.size(), 1U);
  BOOST_CHECK_EQUAL(left[0].payload, "2");
  BOOST_CHECK_EQUAL(world.store().mail(make_task_id(), left).status, Status::unknown);
}

// N-07: a round that fails or dies has not used them up.
BOOST_AUTO_TEST_CASE(n_07_messages_survive_their_round, *label("N-07") * label("TSK-08")) {
  World world;
  Submission submission = World::task("work");
  submission.max_attempts = 2;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(submission.id, "1"), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(submission.id, "2"), Status::ok);
  Run run = world.claim("work");
  BOOST_CHECK_EQUAL(world.fail(run, "Broken", Retry::after, 0), Status::ok);
  run = world.claim("work");
  BOOST_TEST(payloads(run) == (Texts{"1", "2"}), boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(run.messages[0].deliveries, 2U);
  world.restart();
  run = world.claim("work");
  BOOST_TEST(payloads(run) == (Texts{"1", "2"}), boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(run.messages[0].deliveries, 3U);
  BOOST_CHECK_EQUAL(world.hand_back(run), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(submission.id, "3"), Status::ok);
  run = world.claim("work");
  BOOST_TEST(payloads(run) == (Texts{"1", "2", "3"}), boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(world.fail(run), Status::ok);  // for good
  std::vector<Message> left;
  BOOST_CHECK_EQUAL(world.store().mail(submission.id, left).status, Status::ok);
  BOOST_CHECK_EQUAL(left.size(), 3U);
}

BOOST_AUTO_TEST_CASE(tsk_08_a_key_is_taken_once, *label("TSK-08")) {
  World world;
  const TaskId id = world.root("work"), other = world.root("other");
  BOOST_CHECK_EQUAL(world.notify(id, "1", "key"), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, "2", "key"), Status::exists);
  BOOST_CHECK_EQUAL(world.notify(other, "1", "key"), Status::ok);  // each mailbox has its own
  Run run = world.claim("work");
  BOOST_TEST(payloads(run) == Texts{"1"}, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, "3", "key"), Status::exists);  // also when it was delivered
  BOOST_CHECK_EQUAL(world.status(id), TaskStatus::suspended);
}

// D-07: it does not make a delayed task due.
BOOST_AUTO_TEST_CASE(tsk_13_a_message_hurries_nobody, *label("TSK-13")) {
  World world;
  Submission later = World::task("work");
  later.run_after = kStart + 100;
  later.max_attempts = 2;
  BOOST_CHECK_EQUAL(world.submit(later), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(later.id, "1"), Status::ok);
  BOOST_CHECK(world.idle());
  world.advance(100);
  BOOST_CHECK_EQUAL(world.fail(world.claim("work"), "Broken", Retry::after, 100), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(later.id, "2"), Status::ok);
  BOOST_CHECK(world.idle());
  world.advance(100);
  BOOST_TEST(payloads(world.claim("work")) == (Texts{"1", "2"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(n_21_a_mailbox_is_bounded, *label("N-21") * label("TSK-30") * label("RSC-05")) {
  Limits limits;
  limits.mailbox = 3;
  limits.mailbox_bytes = 20;
  limits.message = 12;
  World world(false, limits);
  const TaskId id = world.root("work");
  BOOST_CHECK_EQUAL(world.notify(id, std::string(13, '1')), Status::limit);
  BOOST_CHECK_EQUAL(world.notify(id, std::string(12, '1')), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, std::string(9, '1')), Status::limit);  // 21 bytes
  BOOST_CHECK_EQUAL(world.notify(id, "22", "key"), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, "3"), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, "4"), Status::limit);           // three of them
  BOOST_CHECK_EQUAL(world.notify(id, "22", "key"), Status::exists);  // a repeat is one of those that are there
  BOOST_CHECK_EQUAL(world.get(id).row.mail, 3);
  BOOST_CHECK_EQUAL(world.get(id).row.mail_bytes, 15);
  BOOST_CHECK_EQUAL(world.suspend(world.claim("work"), until_notified()), Status::ok);
  BOOST_CHECK_EQUAL(world.notify(id, "4"), Status::ok);  // there is room again
}

// What one round is not handed stays, and keeps the task from parking.
BOOST_AUTO_TEST_CASE(n_21_a_flood_is_handed_out_in_parts,
                     *label("N-21") * label("TSK-30") * label("TSK-08") * label("RSC-05")) {
  Limits limits;
  limits.handed = 4;
  limits.handed_bytes = 10;
  World world(false, limits);
  const TaskId id = world.root("work");
  Texts sent, seen;
  for (int i = 0; i < 11; i++) {
    sent.push_back(i == 5 ? std::string(12, '5')
                          : std::to_string(i));  // that one is too big for any round, and still comes
    BOOST_CHECK_EQUAL(world.notify(id, sent.back()), Status::ok);
  }
  int rounds = 0;
  while (world.status(id) != TaskStatus::suspended && rounds < 20) {
    const Run run = world.claim("work");
    BOOST_CHECK_LE(run.messages.size(), 4U);
    for (const std::string& payload : payloads(run)) seen.push_back(payload);
    BOOST_CHECK_EQUAL(world.suspend(run, until_notified()), Status::ok);
    rounds++;
  }
  BOOST_TEST(seen == sent, boost::test_tools::per_element());
  BOOST_CHECK_GE(rounds, 4);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
