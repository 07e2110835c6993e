// T-STOP: a process that stands still for longer than its lease; others go on with its task, and what it does when it wakes is refused.
// T-CLK: a clock that somebody sets, forward and back by days, under processes that work. CLK-02, CLK-05, TSK-17, TSK-18.
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include "crash/processes.hpp"
#include "support/main.hpp"
#include "support/share_of_time.hpp"
#include "tasks/engine.hpp"
#include "tasks/sqlite_support.hpp"

using namespace nocter_tests;

namespace nocter_tests {

namespace {

// What a worker says of a call.
std::string word(nocter_status status) { return nocter_status_name(status); }

constexpr const char* kLost = "NOCTER_E_LEASE_LOST";

}  // namespace

// ---- T-STOP: the process that stands still ----------------------------------------------------------------------------------------------

// Claims one task, and says how it was told and what became of each thing that it tried after it had been told to go on.
int stopped_worker(const std::string& url, const std::string& lease_ms) {
  Tasks tasks({.lease_ms = std::stoll(lease_ms)}, url);
  nocter_run* const run = claim(tasks, "work");
  if (run == nullptr) return 1;
  say("claimed");
  heard();
  const std::string state = word(nocter_run_update_state(run, text("\"late\"")));
  const std::string step = word(nocter_run_step_put(run, text("step"), text("\"late\"")));
  const nocter_submission child = submission("late");
  const std::string submitted = word(nocter_run_submit_child(run, &child, 1, nullptr));
  // The keeper has had its turn by then or has it soon.
  const bool told = eventually([&] { return nocter_run_interrupt_reason(run) != NOCTER_REASON_NONE; },
                               state == "NOCTER_OK" ? 0 : 60'000);
  const std::string reason = std::to_string(told ? nocter_run_interrupt_reason(run) : 0);
  const std::string outcome = word(done(run, "\"late\""));
  say(state + " " + step + " " + submitted + " " + reason + " " + outcome);
  heard();
  return 0;
}

// ---- T-CLK: one that works by a clock that lies -----------------------------------------------------------------------------------------

// Works until it is told to stop. Each effect is committed with its outcome, under task and fence; waits are measured by the steady clock.
int worker_by_the_clock(const std::string& url, const std::string& name) {
  Tasks tasks({.lease_ms = 2'000}, url);
  std::atomic<bool> over{false};
  uint64_t done_here = 0, lost = 0;
  int64_t wrong_waits = 0;
  Thread worker([&] {
    for (int turn = 1; !over.load(); turn++) {
      const int64_t before = nocter_now_ns();
      const nocter_wait wait = nocter_wait_for_ms(50);
      nocter_status status;
      nocter_run* const run = try_claim(tasks, "work", &wait, &status);
      if (run == nullptr) {
        const int64_t waited = nocter_now_ns() - before;
        if (status == NOCTER_TIMEOUT && (waited < 49'000'000 || waited > 30'000'000'000)) wrong_waits++;
        continue;
      }
      if (nocter_run_atomic(run) != NOCTER_OK) return;
      const std::string effect = "effect/" + std::to_string(nocter_run_fence(run)) + "/" + name;
      if (nocter_run_shared_put(run, text(effect), text("1")) < 0) {
        nocter_run_drop(run);
        continue;
      }
      pause_ms(turn % 16 == 0 ? 500 : 2);
      const nocter_status said = done(run, "1");
      if (said == NOCTER_OK) done_here++;
      if (said == NOCTER_E_LEASE_LOST) lost++;
      if (said != NOCTER_OK && said != NOCTER_E_LEASE_LOST) nocter_run_drop(run);
    }
  });
  say("ready");
  heard();
  over.store(true);
  worker.join();
  say(std::to_string(done_here) + " " + std::to_string(lost) + " " + std::to_string(wrong_waits));
  return 0;
}

namespace {

// ---- The clock --------------------------------------------------------------------------------------------------------------------------

// One file says how far the clock of all who were started with it is off.
class SetClock {
 public:
  explicit SetClock(std::string file) : file_(std::move(file)) { set(0); }
  static const char* library() { return access(NOCTER_FAKETIME, R_OK) == 0 ? NOCTER_FAKETIME : nullptr; }
  std::vector<std::string> environment() const {
    return {std::string("LD_PRELOAD=") + library(), "FAKETIME_TIMESTAMP_FILE=" + file_, "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1"};
  }
  // A reader finds the old file or the new one, never half of it.
  void set(int64_t seconds) const {
    write_file(file_ + ".new", (seconds >= 0 ? "+" : "") + std::to_string(seconds) + "\n");
    std::filesystem::rename(file_ + ".new", file_);
  }

 private:
  const std::string file_;
};

bool without_faketime() {
  if (!kSanitized && SetClock::library() != nullptr) return false;
  std::cout << "SKIPPED clocks cannot be set here: "
            << (kSanitized ? "a sanitizer must come first" : "libfaketime is not installed") << std::endl;
  return true;
}

}  // namespace

}  // namespace nocter_tests

BOOST_FIXTURE_TEST_SUITE(processes, EveryTest)

BOOST_AUTO_TEST_CASE(clk_05_tsk_17_t_stop_what_stood_still_past_its_lease_changes_nothing,
                     *label("CLK-05") * label("TSK-17") * label("TSK-18")) {
  constexpr size_t kAtOnce = 6;
  const ShareOfTime time(12);
  uint64_t stops = 0, blocked_rounds = 0;
  const Folder folder;
  const std::string url = "sqlite:" + (folder / "tasks.db");
  Tasks tasks({.lease_ms = 6'000}, url);  // a third of it is how often it looks for the dead
  for (uint64_t round = 0; round == 0 || (round < 20 && !time.over()); round++) {
    std::vector<nocter_task_id> ids;
    std::vector<std::unique_ptr<Process>> workers;
    for (size_t i = 0; i < kAtOnce; i++) {
      workers.push_back(std::make_unique<Process>(std::vector<std::string>{"--stopped", url, "700"}));
    }
    for (size_t i = 0; i < kAtOnce; i++) ids.push_back(submit(tasks, "work"));
    for (const auto& worker : workers) BOOST_REQUIRE_EQUAL(worker->hear(), "claimed");
    for (const auto& worker : workers) worker->stop();
    // The kernel still holds their locks: nothing but the lease tells that they are gone.
    bool blocked = false;
    for (size_t i = 0; i < kAtOnce && !blocked; i++) {
      const nocter_wait wait = long_wait();
      nocter_status status = NOCTER_OK;
      nocter_run* const run = try_claim(tasks, "work", &wait, &status);
      blocked = status == NOCTER_E_UNAVAILABLE;
      if (blocked) break;
      STATUS(status, NOCTER_OK);
      BOOST_REQUIRE(run != nullptr);
      STATUS(done(run, "\"in time\""), NOCTER_OK);
    }
    for (const auto& worker : workers) worker->go_on();
    for (const auto& worker : workers) worker->tell("go on");
    for (const auto& worker : workers) {
      const std::string said = worker->hear();
      const std::string refused =
          std::string(kLost) + " " + kLost + " " + kLost + " " + std::to_string(NOCTER_REASON_LEASE_LOST) + " " + kLost;
      BOOST_CHECK_MESSAGE(said == refused || blocked, said);
      worker->tell("end");
      BOOST_CHECK_EQUAL(worker->end(), 0);
    }
    if (blocked) {  // one of them stood still in the middle of a commit: then nobody else can write, and none of this can be seen
      blocked_rounds++;
      while (nocter_run* const run = try_claim(tasks, "work")) STATUS(done(run), NOCTER_OK);
      continue;
    }
    stops += kAtOnce;
    for (const nocter_task_id& id : ids) {
      const Seen task(tasks, id);
      BOOST_CHECK_EQUAL(task->status, NOCTER_TASK_COMPLETED);
      BOOST_CHECK_EQUAL(to_string(task->result), "\"in time\"");
      BOOST_CHECK_EQUAL(to_string(task->state), "");
      nocter_task_list children = {};
      STATUS(nocter_tasks_children(tasks, id, &children), NOCTER_OK);
      BOOST_CHECK_EQUAL(children.count, 0u);
      nocter_task_list_free(&children);
    }
  }
  BOOST_CHECK_GE(counts_of(tasks).rescues, stops);
  BOOST_CHECK_EQUAL(counts_of(tasks).repairs, 0u);
  tasks.close();
  BOOST_CHECK_EQUAL(inconsistency(folder / "tasks.db"), "");
  std::cout << "T-STOP: " << stops << " processes stood still past their lease; " << blocked_rounds
            << " rounds in which one of them kept the database\n";
}

BOOST_AUTO_TEST_CASE(clk_05_t_stop_a_pause_within_the_lease_is_no_loss, *label("CLK-05")) {
  const Folder folder;
  const std::string url = "sqlite:" + (folder / "tasks.db");
  Tasks tasks({.lease_ms = 600'000}, url);
  const nocter_task_id id = submit(tasks, "work");
  Process worker({"--stopped", url, "600000"});
  BOOST_REQUIRE_EQUAL(worker.hear(), "claimed");
  worker.stop();
  pause_ms(300);
  BOOST_CHECK(try_claim(tasks, "work") == nullptr);
  worker.go_on();
  worker.tell("go on");
  BOOST_CHECK_EQUAL(worker.hear(), "NOCTER_OK NOCTER_OK NOCTER_OK 0 NOCTER_OK");
  worker.tell("end");
  BOOST_CHECK_EQUAL(worker.end(), 0);
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_COMPLETED);
}

BOOST_AUTO_TEST_CASE(clk_02_t_clk_a_clock_that_is_set_loses_and_doubles_nothing,
                     *label("CLK-02") * label("CLK-01") * label("TSK-17")) {
  if (without_faketime()) return;
  constexpr int64_t kHour = 3'600, kDay = 24 * kHour;
  const Folder folder;
  const std::string database = folder / "tasks.db", url = "sqlite:" + database;
  const SetClock clock(folder / "clock");
  auto random = random_stream(0xc1);
  std::vector<nocter_task_id> ids;
  uint64_t jumps = 0;
  {
    // It is here for submits alone, and by the right clock; whoever shares a machine shares a clock otherwise.
    Tasks tasks({.flags = NOCTER_TASKS_BY_HAND, .lease_ms = 600'000}, url);
    std::vector<std::unique_ptr<Process>> workers;
    for (const char* name : {"one", "two", "three"}) {
      workers.push_back(
          std::make_unique<Process>(std::vector<std::string>{"--by-the-clock", url, name}, clock.environment()));
    }
    for (const auto& worker : workers) BOOST_REQUIRE_EQUAL(worker->hear(), "ready");
    const ShareOfTime time(8);
    while (ids.size() < 40 || (ids.size() < 2'000 && !time.over())) {
      for (int i = 0; i < 5; i++) ids.push_back(submit(tasks, "work"));
      pause_ms(static_cast<int64_t>(below(random, 40)));
      if (below(random, 6) != 0) continue;
      constexpr int64_t kJumps[] = {kHour, -kHour, kDay, -kDay, 0};
      clock.set(kJumps[below(random, 5)]);
      jumps++;
    }
    // Whatever the clock shows in the end, all is done soon: nothing here waits for a time.
    const bool all = eventually([&] {
      const nocter_tasks_counts counts = counts_of(tasks);
      return counts.completed + counts.failed == ids.size();
    });
    BOOST_CHECK_MESSAGE(all, "CLK-02: tasks are stuck");
    uint64_t done_by_all = 0, lost = 0;
    for (const auto& worker : workers) {
      worker->tell("end");
      uint64_t done_here = 0, lost_here = 0, wrong_waits = 1;
      std::istringstream(worker->hear()) >> done_here >> lost_here >> wrong_waits;
      BOOST_CHECK_EQUAL(wrong_waits, 0u);
      BOOST_CHECK_EQUAL(worker->end(), 0);
      done_by_all += done_here;
      lost += lost_here;
    }
    for (const nocter_task_id& id : ids) {
      const Seen task(tasks, id);
      const bool completed = task->status == NOCTER_TASK_COMPLETED;
      // A clock that jumps ends leases; a task that lost three workers to it may have failed, and says so.
      if (!completed) {
        BOOST_CHECK_EQUAL(task->status, NOCTER_TASK_FAILED);
        BOOST_CHECK_EQUAL(to_string(task->failure.kind), "WorkerLost");
      }
      char scope[37];
      nocter_task_id_format(id, scope);
      nocter_value_list effects = {};
      STATUS(nocter_shared_all(tasks, nocter_text_of(scope), &effects), NOCTER_OK);
      BOOST_CHECK_EQUAL(effects.count, completed ? 1u : 0u);
      nocter_value_list_free(&effects);
    }
    std::cout << "T-CLK: " << ids.size() << " tasks, " << jumps << " jumps of the clock, " << done_by_all << " done, "
              << lost << " runs lost\n";
    BOOST_CHECK_EQUAL(counts_of(tasks).repairs, 0u);
  }
  BOOST_CHECK_EQUAL(inconsistency(database), "");
}

// One process has seen a clock that was a day ahead, and goes on by that time; the other one, whose clock never was, does not lose its lease for
// a day because of it.
BOOST_AUTO_TEST_CASE(clk_02_processes_that_saw_different_times_agree, *label("CLK-02")) {
  constexpr int64_t kDayMs = 24 * 3'600'000;
  const Folder folder;
  const auto ahead = std::make_shared<tasks::SteerableClock>(1'000'000);
  const auto right = std::make_shared<tasks::SteerableClock>(1'000'000);
  tasks::StoreOptions options;
  options.clock = ahead;
  Hand one(folder / "tasks.db", options);
  options.clock = right;
  Hand other(folder / "tasks.db", options);
  ahead->advance(kDayMs);
  BOOST_REQUIRE((one.submit(tasks::make_task_id()) == Status::ok));
  ahead->advance(-kDayMs);
  const int64_t node = other.join("other", 60'000);
  const tasks::ClaimedTask run = other.claim(node);
  BOOST_REQUIRE(run.claimed.token != 0U);
  tasks::Maintain maintain;
  BOOST_REQUIRE((one.ask(maintain) == Status::ok));
  BOOST_CHECK_EQUAL(maintain.rescued, 0u);
  BOOST_CHECK((other.done(run.claimed) == Status::ok));
}

// What waits for an hour is due at once when the clock goes a day forward, and no sooner.
BOOST_AUTO_TEST_CASE(clk_02_t_clk_what_comes_due_follows_the_clock, *label("CLK-02")) {
  if (without_faketime()) return;
  const Folder folder;
  const std::string url = "sqlite:" + (folder / "tasks.db");
  const SetClock clock(folder / "clock");
  Tasks tasks({.flags = NOCTER_TASKS_BY_HAND, .lease_ms = 600'000}, url);
  nocter_submission later = submission("work");
  later.run_after_ms = static_cast<int64_t>(time(nullptr) + 3'600) * 1'000;
  const nocter_task_id id = submit(tasks, later);
  Process worker({"--by-the-clock", url, "one"}, clock.environment());
  BOOST_REQUIRE_EQUAL(worker.hear(), "ready");
  pause_ms(500);
  BOOST_CHECK_EQUAL(status_of(tasks, id), NOCTER_TASK_QUEUED);
  clock.set(24 * 3'600);
  BOOST_CHECK(eventually([&] { return status_of(tasks, id) == NOCTER_TASK_COMPLETED; }));
  clock.set(-24 * 3'600);
  const nocter_task_id next = submit(tasks, "work");
  BOOST_CHECK_MESSAGE(eventually([&] { return status_of(tasks, next) == NOCTER_TASK_COMPLETED; }),
                      "CLK-02: a clock that goes back stops what is due");
  worker.tell("end");
  worker.hear();
  BOOST_CHECK_EQUAL(worker.end(), 0);
}

BOOST_AUTO_TEST_SUITE_END()

static const OtherRole as_a_worker([](int count, char** arguments) -> std::optional<int> {
  const std::string role = count == 4 ? arguments[1] : "";
  if (role == "--stopped") return stopped_worker(arguments[2], arguments[3]);
  if (role == "--by-the-clock") return worker_by_the_clock(arguments[2], arguments[3]);
  return std::nullopt;
});
