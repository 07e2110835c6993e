// The PostgreSQL store beside the rules that all stores share (conformance): connections that are lost, replies that are lost, servers that
// go, several stores on one database, and what is said of all that.
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <set>

#include "nocter/stores/open.hpp"
#include "support/fixture.hpp"
#include "support/seed.hpp"
#include "tasks/postgres_support.hpp"

using namespace postgres_tests;
using boost::unit_test::label;

namespace nocter {
static std::ostream& operator<<(std::ostream& out, Status status) { return out << static_cast<int>(status); }
}  // namespace nocter

namespace {

constexpr const char* kOthers =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = "
    "'client backend'";

std::string refusal(const std::string& url, Status& status) {
  try {
    open_again(url);
  } catch (const StoreError& error) {
    status = error.status;
    return error.what();
  }
  status = Status::ok;
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(postgres_store)

// ---- What is said ---------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(sec_03_no_message_has_the_password, *label("SEC-03")) {
  const std::string secret = "s3cr3tw0rd";
  for (const std::string& url :
       {"postgresql://user:" + secret + "@%2Fnowhere/db", "postgresql://user:" + secret + "@[::1/db",
        "postgresql://user:" + secret + "@host:99999999/db?nothing=1", "postgresql://user:" + secret + "%zz@host/db",
        "postgresql://user@%2Fnowhere/db?password=" + secret}) {
    Status status = Status::ok;
    const std::string said = refusal(url, status);
    BOOST_CHECK_MESSAGE(status == Status::argument || status == Status::unavailable, url + ": " + said);
    BOOST_CHECK_MESSAGE(!said.empty(), url);
    BOOST_CHECK_MESSAGE(said.find(secret) == std::string::npos, said);
  }
}

BOOST_AUTO_TEST_CASE(tsk_24_what_is_no_text_harms_nobody_else, *label("TSK-24") * label("DUR-10")) {
  const auto store = open_fresh();
  Request first{Submit{}, {}}, bad{Submit{}, {}}, last{Submit{}, {}};
  for (Request* request : {&first, &bad, &last}) {
    Submission& one = std::get<Submit>(request->demand).tasks.emplace_back();
    one.id = make_task_id();
    one.type = "work";
    one.payload = request == &bad ? std::string("\"\0\"", 3) : "1";
  }
  Request* batch[] = {&first, &bad, &last};
  Effects effects;
  store->execute(batch, effects);
  BOOST_CHECK_EQUAL(first.answer.status, Status::ok);
  BOOST_CHECK_EQUAL(bad.answer.status, Status::argument);
  BOOST_CHECK_EQUAL(last.answer.status, Status::ok);
  Counts counts;
  BOOST_CHECK_EQUAL(store->count(counts).status, Status::ok);
  BOOST_CHECK_EQUAL(counts.tasks, 2U);
}

// ---- The schema -----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(sec_05_a_schema_of_others_is_left_alone, *label("SEC-05")) {
  PostgresServer& server = PostgresServer::shared();
  server.forget_everything();
  server.run("CREATE SCHEMA nocter; CREATE TABLE nocter.mine (x int)");
  Status status = Status::ok;
  BOOST_CHECK(refusal(server.url(), status).find("another program") != std::string::npos);
  BOOST_CHECK_EQUAL(status, Status::version);
  BOOST_CHECK_EQUAL(server.run("SELECT count(*) FROM pg_class WHERE relnamespace = 'nocter'::regnamespace"), "1");
}

BOOST_AUTO_TEST_CASE(dur_09_a_newer_schema_is_refused, *label("DUR-09")) {
  PostgresServer& server = PostgresServer::shared();
  open_fresh();
  server.run("INSERT INTO nocter.schema_version (version) VALUES (1000)");
  Status status = Status::ok;
  BOOST_CHECK(refusal(server.url(), status).find("newer version") != std::string::npos);
  BOOST_CHECK_EQUAL(status, Status::version);
}

BOOST_AUTO_TEST_CASE(dur_09_many_open_at_once, *label("DUR-09")) {
  PostgresServer::shared().forget_everything();
  std::vector<std::thread> threads;
  std::atomic<int> opened{0};
  for (int i = 0; i < 6; i++) {
    threads.emplace_back([&opened] {
      try {
        if (open_again() != nullptr) opened++;
      } catch (const std::exception&) {  // the number tells
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_CHECK_EQUAL(opened.load(), 6);
  BOOST_CHECK_EQUAL(PostgresServer::shared().run("SELECT count(*) FROM nocter.schema_version"), "1");
}

BOOST_AUTO_TEST_CASE(every_table_says_what_it_is_for) {
  open_fresh();
  BOOST_CHECK_EQUAL(
      PostgresServer::shared().run("SELECT count(*) FROM pg_class WHERE relnamespace = 'nocter'::regnamespace "
                                   "AND relkind = 'r' AND obj_description(oid, 'pg_class') IS NULL"),
      "0");
}

// ---- Connections that are lost --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(dur_04_ended_connections_are_made_anew, *label("DUR-04")) {
  const auto store = open_fresh();
  TaskId id;
  BOOST_CHECK_EQUAL(submit(*store, "work", id).status, Status::ok);
  BOOST_CHECK_EQUAL(mail_of(*store, id), 0);
  for (int i = 1; i <= 3; i++) {
    PostgresServer::shared().run(kOthers);
    BOOST_CHECK_EQUAL(notify(*store, id, "1").status, Status::ok);
    PostgresServer::shared().run(kOthers);
    BOOST_CHECK_EQUAL(mail_of(*store, id), i);
  }
}

BOOST_AUTO_TEST_CASE(dur_01_a_server_that_is_away_comes_back, *label("DUR-01")) {
  PostgresServer server;
  StoreOptions options;
  nocter::stores::postgres::Tuning tuning;
  tuning.retry_ms = 200;
  const auto store = nocter::stores::open_postgres(server.url(), options, tuning);
  TaskId id, other;
  BOOST_CHECK_EQUAL(submit(*store, "work", id).status, Status::ok);
  server.stop();
  BOOST_CHECK_EQUAL(submit(*store, "work", other).status, Status::unavailable);
  Record record;
  BOOST_CHECK_EQUAL(store->get(id, record).status, Status::unavailable);
  server.start();
  Answer again;
  while ((again = submit(*store, "work", other)).status == Status::unavailable) continue;  // one try is short here
  BOOST_CHECK_EQUAL(again.status, Status::ok);
  BOOST_CHECK_EQUAL(store->get(id, record).status, Status::ok);
  server.crash();
  server.start();
  BOOST_CHECK_EQUAL(store->get(other, record).status, Status::ok);
  while ((again = notify(*store, id, "1")).status == Status::unavailable) continue;
  BOOST_CHECK_EQUAL(again.status, Status::ok);
}

// A message has no name by which a second one could be told from a first: so it is there once, or the reply was not understood.
BOOST_AUTO_TEST_CASE(dur_04_a_lost_commit_is_done_again, *label("DUR-04")) {
  PostgresServer& server = PostgresServer::shared();
  Cutter cutter(server);
  const auto store = open_fresh(cutter.url());
  TaskId id;
  BOOST_CHECK_EQUAL(submit(*store, "work", id).status, Status::ok);
  cutter.cut_next(Cutter::Cut::before);
  BOOST_CHECK_EQUAL(notify(*store, id, "1").status, Status::ok);
  BOOST_CHECK(cutter.has_cut());
  BOOST_CHECK_EQUAL(mail_of(*store, id), 1);
}

BOOST_AUTO_TEST_CASE(dur_04_a_commit_whose_reply_is_lost_is_not_done_twice, *label("DUR-04")) {
  PostgresServer& server = PostgresServer::shared();
  Cutter cutter(server);
  const auto store = open_fresh(cutter.url());
  TaskId id;
  BOOST_CHECK_EQUAL(submit(*store, "work", id).status, Status::ok);
  cutter.cut_next(Cutter::Cut::after);
  BOOST_CHECK_EQUAL(notify(*store, id, "1").status, Status::ok);
  BOOST_CHECK(cutter.has_cut());
  BOOST_CHECK_EQUAL(mail_of(*store, id), 1);
}

BOOST_AUTO_TEST_CASE(dur_04_connections_are_ended_at_any_moment, *label("DUR-04")) {
  const auto store = open_fresh();
  TaskId id;
  BOOST_CHECK_EQUAL(submit(*store, "work", id).status, Status::ok);
  std::atomic<bool> over{false};
  std::thread ending([&over] {
    std::mt19937_64 random = nocter_tests::random_stream(1);
    while (!over.load()) {
      std::this_thread::sleep_for(std::chrono::microseconds(nocter_tests::below(random, 60'000)));
      PostgresServer::shared().run(kOthers);
    }
  });
  int64_t done = 0, unanswered = 0;
  for (int i = 0; i < 300; i++) (notify(*store, id, "1").status == Status::ok ? done : unanswered)++;
  over.store(true);
  ending.join();
  const int64_t mail = mail_of(*store, id);
  BOOST_CHECK_GT(done, 0);
  BOOST_CHECK_GE(mail, done);
  BOOST_CHECK_LE(mail, done + unanswered);
}

BOOST_AUTO_TEST_CASE(gen_11_a_fork_leaves_the_parents_connection_alone, *label("GEN-11")) {
  const auto store = open_fresh();
  TaskId id;
  BOOST_CHECK_EQUAL(submit(*store, "work", id).status, Status::ok);
  const pid_t child = fork();
  if (child == 0) {
    Record record;
    const bool right =
        store->get(id, record).status == Status::forked && notify(*store, id, "1").status == Status::forked;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  BOOST_CHECK_EQUAL(status, 0);
  BOOST_CHECK_EQUAL(notify(*store, id, "1").status, Status::ok);
  BOOST_CHECK_EQUAL(mail_of(*store, id), 1);
}

// ---- Several on one database ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tsk_26_nodes_share_work, *label("TSK-26")) {
  constexpr size_t kTasks = 300;
  const auto first = open_fresh();
  Submit all;
  for (size_t i = 0; i < kTasks; i++) {
    Submission& one = all.tasks.emplace_back();
    one.id = make_task_id();
    one.type = "work";
    one.payload = "1";
  }
  BOOST_CHECK_EQUAL(ask(*first, all).status, Status::ok);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::map<TaskId, int> claimed;
  size_t refused = 0;
  for (int i = 0; i < 3; i++) {
    threads.emplace_back([&] {
      const auto store = open_again();
      const int64_t node = enter(*store, "node");
      for (uint64_t number = 1;; number++) {
        const std::vector<ClaimedTask> runs = claim(*store, node, number, 7);
        if (runs.empty()) return;
        for (const ClaimedTask& run : runs) {
          const bool done = finish(*store, run).status == Status::ok;
          const std::scoped_lock lock(mutex);
          claimed[run.claimed.id]++;
          if (!done) refused++;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_CHECK_EQUAL(refused, 0U);
  BOOST_CHECK_EQUAL(claimed.size(), kTasks);
  for (const auto& [id, times] : claimed) BOOST_CHECK_EQUAL(times, 1);
  Counts counts;
  BOOST_CHECK_EQUAL(first->count(counts).status, Status::ok);
  BOOST_CHECK_EQUAL(counts.by_status[static_cast<int>(TaskStatus::completed)], kTasks);
}

BOOST_AUTO_TEST_CASE(shr_01_one_of_many_nodes_puts, *label("SHR-01") * label("SHR-04")) {
  open_fresh();
  std::vector<std::thread> threads;
  std::atomic<int> first{0}, later{0};
  std::mutex mutex;
  std::set<uint64_t> fences;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&, i] {
      const auto store = open_again();
      for (int key = 0; key < 20; key++) {
        SharedPut put;
        put.scope = "scope";
        put.key = std::to_string(key);
        put.value = std::to_string(i);
        put.if_absent = true;
        (ask(*store, put).status == Status::ok ? first : later)++;
        LockAcquire acquire;
        acquire.name = "lock";
        acquire.lease_ms = 60'000;
        acquire.token = static_cast<uint64_t>(i) + 1;
        if (ask(*store, acquire).status != Status::ok) continue;
        {
          const std::scoped_lock lock(mutex);
          fences.insert(acquire.fence);
        }
        LockRelease release{"lock", acquire.token};
        ask(*store, release);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_CHECK_EQUAL(first.load(), 20);
  BOOST_CHECK_EQUAL(later.load(), 60);
  BOOST_CHECK(!fences.empty());
  BOOST_CHECK_EQUAL(*fences.rbegin(), fences.size());  // each a new one
}

BOOST_AUTO_TEST_CASE(tsk_27_what_others_commit_is_seen, *label("TSK-27")) {
  const auto one = open_fresh();
  const auto other = open_again();
  one->changes_by_others();
  for (int i = 0; i < 3; i++) {
    const uint64_t before = one->changes_by_others();
    TaskId id;
    BOOST_CHECK_EQUAL(submit(*other, "work", id).status, Status::ok);
    while (one->changes_by_others() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Where no notification comes, the number of commits tells.
BOOST_AUTO_TEST_CASE(tsk_27_it_is_seen_without_notifications, *label("TSK-27")) {
  const auto one = open_fresh();
  uint64_t before = one->changes_by_others();
  PostgresServer::shared().run("UPDATE nocter.counter SET value = value + 5 WHERE name = 'commits'");
  while (one->changes_by_others() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // And a connection that was ended is made anew, after which everybody looks once more.
  before = one->changes_by_others();
  PostgresServer::shared().run(kOthers);
  while (one->changes_by_others() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  BOOST_CHECK_NE(one->changes_by_others(), before);
}

// ---- Batches ---------------------------------------------------------------------------------------------------------

namespace {

// A batch of random requests, the same for two stores: submissions, claims, ends of what was claimed.
std::vector<Request> random_batch(std::mt19937_64& random, int64_t node, uint64_t& number,
                                  std::vector<Claimed>& running) {
  const auto below = [&random](uint64_t bound) { return nocter_tests::below(random, bound); };
  std::vector<Request> batch;
  for (uint64_t left = 1 + below(12); left > 0; left--) {
    switch (below(3)) {
      case 0: {
        Submit submit;
        for (uint64_t count = 1 + below(3); count > 0; count--) {
          Submission& one = submit.tasks.emplace_back();
          one.id = make_task_id();
          one.type = below(2) == 0 ? "a" : "b";
          one.priority = static_cast<int32_t>(below(4));
          one.payload = std::to_string(below(100));
        }
        batch.push_back({std::move(submit), {}});
        break;
      }
      case 1: {
        Claim claim;
        if (below(3) != 0) claim.types.emplace_back(below(2) == 0 ? "a" : "b");
        claim.most = static_cast<uint32_t>(1 + below(4));
        claim.number = below(10) == 0 && number > 0 ? number : ++number;
        claim.node = node;
        batch.push_back({std::move(claim), {}});
        break;
      }
      default: {
        if (running.empty()) break;
        Settle settle;
        const size_t at = below(running.size());
        settle.by = running[at];
        settle.outcome = below(3) == 0 ? Outcome::hand_back : Outcome::done;
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
        batch.push_back({std::move(settle), {}});
      }
    }
  }
  return batch;
}

// What its claims were given, in words.
std::string play(Store& store, std::vector<Request> requests, std::vector<Claimed>* running) {
  std::vector<Request*> batch;
  for (Request& request : requests) batch.push_back(&request);
  Effects effects;
  store.execute(batch, effects);
  std::string out;
  for (const Request& request : requests) {
    out += std::to_string(static_cast<int>(request.answer.status)) + " ";
    const auto* const claim = std::get_if<Claim>(&request.demand);
    if (claim == nullptr) continue;
    for (const ClaimedTask& task : claim->tasks) {
      out += to_text(task.claimed.id) + "/" + task.record.texts.payload + " ";
      if (running != nullptr) running->push_back(task.claimed);
    }
  }
  return out;
}

}  // namespace

// What is kept of what may be claimed, within a batch and from one to the next, is what the tables have.
BOOST_AUTO_TEST_CASE(tsk_25_batches_claim_what_they_do_in_memory, *label("TSK-25")) {
  PostgresServer::shared().forget_everything();
  std::unique_ptr<Store> stores[2];
  for (int i = 0; i < 2; i++) {
    StoreOptions options;
    options.clock = std::make_shared<SteerableClock>(1'700'000'000'000);
    options.random = std::make_shared<SeededRandom>(7);
    stores[i] = i == 0 ? nocter::stores::open("memory:", options)
                       : nocter::stores::open_postgres(PostgresServer::shared().url(), options);
    BOOST_REQUIRE_EQUAL(enter(*stores[i], "node"), 1);
  }
  const auto meanwhile = open_again();  // another process, after whose commits nothing that was kept is believed
  std::mt19937_64 random = nocter_tests::random_stream(2);
  std::vector<Claimed> running;
  uint64_t number = 0;
  for (int i = 0; i < 300; i++) {
    const std::vector<Request> batch = random_batch(random, 1, number, running);
    const std::string expected = play(*stores[0], batch, &running);
    BOOST_REQUIRE_EQUAL(play(*stores[1], batch, nullptr), expected);
    if (i % 10 != 0) continue;
    SharedPut put;
    put.scope = put.key = put.value = "1";
    BOOST_CHECK_EQUAL(ask(*meanwhile, put).status, Status::ok);
  }
}

// ---- Time -----------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(clk_the_time_is_the_databases) {
  const auto store = open_fresh();
  const int64_t there =
      std::stoll(PostgresServer::shared().run("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"));
  BOOST_CHECK_LT(std::abs(store->now() - there), 60'000);
}

BOOST_AUTO_TEST_SUITE_END()
