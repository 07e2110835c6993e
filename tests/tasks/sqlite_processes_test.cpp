// Several processes on one file: who lives, who has written, who comes first. TSK-18, N-15; D-19.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support/fixture.hpp"
#include "tasks/sqlite_support.hpp"

using namespace nocter_tests;

namespace {

// A process of its own, which says a word through a pipe and then waits to be killed, or goes on when told to.
class Other {
 public:
  template <class Body>
  explicit Other(Body body) {
    if (pipe(from_) != 0 || pipe(to_) != 0) throw std::runtime_error("no pipe");
    child_ = fork();
    if (child_ == 0) {
      alarm(60);
      body(*this);
      _exit(0);
    }
  }
  ~Other() {
    kill();
    for (const int descriptor : {from_[0], from_[1], to_[0], to_[1]}) close(descriptor);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  // In the child
  void say(char word) const { BOOST_REQUIRE(write(from_[1], &word, 1) == 1); }
  void wait_for_more() const {
    char word = 0;
    while (read(to_[0], &word, 1) < 0) continue;
  }
  // In the parent
  char hear() const {
    char word = 0;
    return read(from_[0], &word, 1) == 1 ? word : '\0';
  }
  void go_on() const { BOOST_REQUIRE(write(to_[1], "g", 1) == 1); }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  int end() {
    int status = -1;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int from_[2] = {-1, -1}, to_[2] = {-1, -1};
  pid_t child_ = -1;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite_processes, EveryTest)

// The lease is an hour: what tells is the lock that the kernel lets go.
BOOST_AUTO_TEST_CASE(tsk_18_a_killed_process_is_rescued_at_once, *label("TSK-18") * label("DUR-01")) {
  const Folder folder;
  const std::string path = folder / "tasks.db";
  const tasks::TaskId id = tasks::make_task_id();
  Hand(path).close();
  Other other([&](const Other& me) {
    Hand hand(path);
    const int64_t node = hand.join("victim");
    hand.submit(id);
    me.say(hand.claim(node).claimed.id == id ? 'y' : 'n');
    me.wait_for_more();
  });
  BOOST_REQUIRE_EQUAL(other.hear(), 'y');
  Hand hand(path);
  const int64_t node = hand.join("survivor");
  BOOST_TEST(hand.store().dead_nodes().empty());
  BOOST_TEST((hand.claim(node).claimed.token == 0U));
  other.kill();
  const std::vector<int64_t> dead = hand.store().dead_nodes();
  BOOST_REQUIRE_EQUAL(dead.size(), 1U);
  tasks::Maintain maintain;
  maintain.dead = dead;
  BOOST_TEST((hand.ask(maintain) == Status::ok), hand.message);
  BOOST_TEST(maintain.rescued == 1U);
  const tasks::ClaimedTask claimed = hand.claim(node);
  BOOST_TEST((claimed.claimed.id == id));
  BOOST_TEST((claimed.record.row.woken_by == tasks::Wake::rescue));
  BOOST_TEST((hand.done(claimed.claimed) == Status::ok));
  BOOST_TEST(hand.store().dead_nodes().empty());
  BOOST_TEST(!std::filesystem::exists(folder / "tasks.db.nocter/victim"));
  BOOST_TEST(std::filesystem::exists(folder / "tasks.db.nocter/survivor"));
}

BOOST_AUTO_TEST_CASE(tsk_18_who_leaves_or_closes_is_seen_too, *label("TSK-18")) {
  const Folder folder;
  Hand one(folder / "tasks.db"), two(folder / "tasks.db");
  const int64_t first = one.join("first"), second = two.join("second");
  BOOST_TEST(one.store().dead_nodes().empty());
  tasks::Leave leave{first};
  BOOST_TEST((one.ask(leave) == Status::ok));
  BOOST_TEST(!std::filesystem::exists(folder / "tasks.db.nocter/first"));
  two.close();  // without a word
  BOOST_TEST(one.store().dead_nodes() == std::vector<int64_t>{second}, boost::test_tools::per_element());
  // Nothing can be known of one whose file is gone, or whose name leads elsewhere: its lease tells.
  std::filesystem::remove(folder / "tasks.db.nocter/second");
  BOOST_TEST(one.store().dead_nodes().empty());
  run_sql(folder / "tasks.db", "UPDATE node SET instance = '../tasks.db'");
  BOOST_TEST(one.store().dead_nodes().empty());
  one.close();
  BOOST_TEST(!std::filesystem::exists(folder / "tasks.db.nocter"));
}

BOOST_AUTO_TEST_CASE(d_19_commits_of_others_are_seen_and_ones_own_are_not) {
  const Folder folder;
  const std::string path = folder / "tasks.db";
  Hand(path).close();
  Other other([&](const Other& me) {
    Hand hand(path);
    me.say('r');
    for (int i = 0; i < 3; i++) {
      me.wait_for_more();
      hand.submit(tasks::make_task_id());
      me.say('d');
    }
  });
  Hand hand(path);
  BOOST_TEST(hand.store().shared_with_others());
  BOOST_REQUIRE_EQUAL(other.hear(), 'r');
  uint64_t seen = hand.store().changes_by_others();
  for (int i = 0; i < 3; i++) {
    for (int n = 0; n < 3; n++) {
      hand.submit(tasks::make_task_id());
      BOOST_TEST(hand.store().changes_by_others() == seen);
    }
    other.go_on();
    BOOST_REQUIRE_EQUAL(other.hear(), 'd');
    const uint64_t now = hand.store().changes_by_others();
    BOOST_TEST(now != seen);
    seen = now;
  }
  BOOST_TEST(other.end() == 0);
  BOOST_TEST(hand.counts().tasks == 12U);
}

BOOST_AUTO_TEST_CASE(rsc_03_n_18_a_database_that_another_keeps_is_unavailable, *label("RSC-03")) {
  const Folder folder;
  const std::string path = folder / "tasks.db";
  stores::SqliteTuning tuning;
  tuning.busy_ms = 100;
  Hand hand(path, {}, tuning);
  sqlite3* keeper = nullptr;
  BOOST_REQUIRE_EQUAL(sqlite3_open(path.c_str(), &keeper), SQLITE_OK);
  BOOST_REQUIRE_EQUAL(sqlite3_exec(keeper, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  BOOST_TEST((hand.submit(tasks::make_task_id()) == Status::unavailable));
  BOOST_TEST(hand.message.find("locked") != std::string::npos, hand.message);
  BOOST_TEST(hand.counts().tasks == 0U, "who reads does not wait for who writes");
  BOOST_REQUIRE_EQUAL(sqlite3_exec(keeper, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  BOOST_TEST((hand.submit(tasks::make_task_id()) == Status::ok));
  sqlite3_close(keeper);
}

// Two that make it at once: one does it, and both have it.
BOOST_AUTO_TEST_CASE(dur_09_many_open_a_new_file_at_once, *label("DUR-09")) {
  for (uint64_t round = 0; round < rounds(10, 2); round++) {
    const Folder folder;
    std::vector<std::unique_ptr<Other>> others;
    for (int i = 0; i < 6; i++) {
      others.push_back(std::make_unique<Other>([&](const Other& me) {
        me.say('r');
        me.wait_for_more();
        Hand hand(folder / "tasks.db");
        if (hand.submit(tasks::make_task_id()) != Status::ok) _exit(1);
      }));
    }
    for (const auto& other : others) BOOST_TEST(other->hear() == 'r');
    for (const auto& other : others) other->go_on();
    for (const auto& other : others) BOOST_TEST(other->end() == 0);
    BOOST_TEST(ask_sql(folder / "tasks.db", "SELECT count(*) FROM task WHERE phase = 1") == "6");
    const std::string wrong = inconsistency(folder / "tasks.db");
    BOOST_TEST(wrong == "", wrong);
  }
}

BOOST_AUTO_TEST_SUITE_END()
