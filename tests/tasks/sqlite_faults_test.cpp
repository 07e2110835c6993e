// A disk that refuses: every operation of the file system fails, once and from then on. T-IO.
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "support/fixture.hpp"
#include "support/share_of_time.hpp"
#include "tasks/sqlite_support.hpp"
#include "tasks/sqlite_vfs.hpp"

using namespace nocter_tests;

namespace {

// What somebody was told, to be compared with what is there afterwards.
struct Told {
  std::set<tasks::TaskId> submitted, completed, cancelled;
  std::vector<std::pair<tasks::TaskId, std::string>> states;
  std::set<std::string> values;
};

// A little of everything; whatever fails, the rest is tried as well.
void work(Hand& hand, Told& told) {
  const int64_t node = hand.join("worker");
  const tasks::TaskId root = tasks::make_task_id();
  if (hand.submit(root, "root", R"({"n":1})") == Status::ok) told.submitted.insert(root);
  const tasks::ClaimedTask run = hand.claim(node);
  for (int i = 0; i < 4; i++) {
    const tasks::TaskId child = tasks::make_task_id();
    if (hand.submit(child, "child", "{}", root, i == 0 ? "key" : "") == Status::ok) told.submitted.insert(child);
  }
  if (hand.state(run.claimed, "[1]") == Status::ok) told.states.emplace_back(root, "[1]");
  tasks::StepPut step{run.claimed, "step", "1"};
  hand.ask(step);
  hand.park(run.claimed, tasks::Until::children);
  for (int i = 0; i < 3; i++) {
    const tasks::ClaimedTask child = hand.claim(node);
    if (child.claimed.token != 0 && hand.done(child.claimed, "2") == Status::ok)
      told.completed.insert(child.claimed.id);
  }
  hand.notify(root, R"("hello")", "once");
  hand.counts();
  hand.record(root);
  tasks::SharedPut shared;
  shared.scope = "scope";
  shared.key = "key";
  shared.value = std::string(9000, '7');
  if (hand.ask(shared) == Status::ok) told.values.insert("key");
  const tasks::TaskId doomed = tasks::make_task_id();
  if (hand.submit(doomed) == Status::ok) told.submitted.insert(doomed);
  if (hand.cancel(doomed) == Status::ok) told.cancelled.insert(doomed);
  tasks::Maintain maintain;
  maintain.search_everything = true;
  hand.ask(maintain);
}

// What was told is there, and nothing is out of joint; then it works as before.
void check(const std::string& path, const Told& told, const std::string& when) {
  const std::string wrong = inconsistency(path);
  BOOST_TEST(wrong == "", when << ": " << wrong);
  Hand hand(path);
  for (const tasks::TaskId& id : told.submitted) BOOST_TEST((hand.record(id).row.id == id), when << ": a task is lost");
  for (const tasks::TaskId& id : told.completed) {
    BOOST_TEST((hand.record(id).row.phase == tasks::Phase::completed), when << ": an outcome is lost");
  }
  for (const tasks::TaskId& id : told.cancelled) {
    BOOST_TEST((hand.record(id).row.phase == tasks::Phase::cancelled), when << ": a cancel is lost");
  }
  for (const auto& [id, state] : told.states)
    BOOST_TEST(hand.record(id).texts.state == state, when << ": a state is lost");
  std::string value;
  for (const std::string& key : told.values)
    BOOST_TEST((hand.store().shared("scope", key, value).status == Status::ok), when);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite_faults, EveryTest)

BOOST_AUTO_TEST_CASE(rsc_03_dur_08_t_io_every_operation_may_fail,
                     *label("RSC-03") * label("DUR-08") * label("DUR-01")) {
  Disk disk;
  stores::SqliteTuning tuning;
  tuning.vfs = Disk::name();
  tuning.busy_ms = 50;
  tuning.checkpoint_pages = 12;
  tuning.log_piece = 4096;
  // How many there are when nothing fails; the opening has its share.
  uint64_t all = 0;
  {
    const Folder folder;
    Told told;
    disk.fail_at(0, 0, false);
    Hand hand(folder / "tasks.db", {}, tuning);
    work(hand, told);
    all = disk.operations();
    hand.close();
    check(folder / "tasks.db", told, "nothing failed");
    BOOST_TEST(told.completed.size() == 3U);
  }
  struct Point {
    uint64_t at;
    int code;
    bool for_ever;
  };
  std::vector<Point> points;
  for (uint64_t at = 1; at <= all; at++) {
    for (const int code : {SQLITE_IOERR, SQLITE_FULL}) {
      for (const bool for_ever : {false, true}) points.push_back({at, code, for_ever});
    }
  }
  auto random = random_stream(0x10);
  std::shuffle(points.begin(), points.end(), random);
  uint64_t runs = 0, refused = 0;
  const ShareOfTime time(25);
  for (const auto& [at, code, for_ever] : points) {
    if (time.over()) break;
    const std::string when =
        "operation " + std::to_string(at) + (for_ever ? " and all after it" : "") + ", code " + std::to_string(code);
    const Folder folder;
    Told told;
    disk.fail_at(at, code, for_ever);
    runs++;
    try {
      Hand hand(folder / "tasks.db", {}, tuning);
      work(hand, told);
      // Space is back, the cable is in again: the same store goes on.
      disk.heal();
      const tasks::TaskId later = tasks::make_task_id();
      BOOST_TEST((hand.submit(later) == Status::ok), when << ": " << hand.message);
      told.submitted.insert(later);
      BOOST_TEST((hand.record(later).row.id == later), when << ": " << hand.message);
    } catch (const tasks::StoreError& error) {
      refused++;
      BOOST_TEST((error.status == Status::store || error.status == Status::unavailable), when << ": " << error.what());
      BOOST_TEST(std::string(error.what()).find("tasks.db") != std::string::npos, error.what());
    }
    disk.heal();
    check(folder / "tasks.db", told, when);
  }
  std::cout << "T-IO: " << all << " operations, " << runs << " of " << points.size() << " points, " << refused
            << " refused at open\n";
}

BOOST_AUTO_TEST_SUITE_END()
