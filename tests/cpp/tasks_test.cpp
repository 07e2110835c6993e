// Durable tasks through the C++ layer: rounds by hand and on the library's threads, records, values, locks, events.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nocter.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace unit_test = boost::unit_test;
using namespace std::chrono_literals;
using nocter::status;
using nocter::suspension;
using nocter::task_status;

namespace {

const nocter::task_time kStart{std::chrono::seconds(1'700'000'000)};

nocter::steerable_clock still() { return nocter::steerable_clock::create(kStart).value(); }

nocter::tasks open_with(const nocter::steerable_clock& clock) {
  nocter::tasks_options options;
  options.node = "here";
  options.events = true;
  options.clock = &clock;
  return nocter::tasks::open("memory:", std::move(options)).value();
}

// A folder that goes with the test.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("nocter-cpp-" + nocter::task_id::make().text())) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string url() const { return "sqlite:" + (path_ / "work.db").string(); }

 private:
  std::filesystem::path path_;
};

nocter::outcome tree(nocter::task_run& run) {
  const int depth = std::stoi(std::string(run.payload()));
  if (!run.resumed() && depth > 0) {
    const std::string below = std::to_string(depth - 1);
    for (int child = 0; child < 2; ++child) run.submit_child({"tree", below}).value();
    return suspension::children();
  }
  int sum = 1;
  const auto children = run.children().value();
  for (const auto child : children) sum += std::stoi(std::string(child.result()));
  return std::to_string(sum);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tasks)

static_assert(!std::is_copy_constructible_v<nocter::tasks> && std::is_nothrow_move_constructible_v<nocter::tasks>);
static_assert(!std::is_copy_constructible_v<nocter::run> && std::is_nothrow_move_assignable_v<nocter::run>);
static_assert(!std::is_copy_constructible_v<nocter::task_lock> && !std::is_copy_constructible_v<nocter::task>);

BOOST_AUTO_TEST_CASE(tsk_01_a_task_is_submitted_run_and_completed,
                     *unit_test::label("TSK-01") * unit_test::label("BND-05")) {
  const auto clock = still();
  auto store = open_with(clock);
  const auto id = store.submit({"greet", R"({"name": "x"})"}).value().id;
  BOOST_TEST((store.try_await(id).status() == status::pending));
  BOOST_TEST((store.await(id, 1ms).status() == status::timeout));
  auto run = store.try_claim({"greet"}).value();
  BOOST_TEST((run.task().id() == id && run.task().root() == id && !run.task().parent()));
  BOOST_TEST(run.payload() == R"({"name": "x"})");
  BOOST_TEST((!run.resumed() && run.woken_by() == nocter::wake::first && !run.cancelled()));
  BOOST_TEST((run.messages().value().empty() && run.fence() > 0 && !run.interrupt().raised()));
  BOOST_TEST(run.update_state("[1]").ok());
  {
    const auto seen = store.get(id).value();
    BOOST_TEST((seen.status() == task_status::running && seen.state() == "[1]" && !seen.ended()));
    BOOST_TEST((seen.created_at() == kStart && seen.ended_at() == nocter::task_time()));
    BOOST_TEST(name_of(seen.status()) == "RUNNING");
  }
  BOOST_TEST((run.done("{").status() == status::e_json));
  BOOST_TEST(run.native() != nullptr);
  BOOST_TEST(run.done("2").ok());
  BOOST_TEST(run.native() == nullptr);
  auto done = store.await(id).value();
  const auto moved = std::move(done);
  BOOST_TEST((moved.status() == task_status::completed && moved.result() == "2"));
  BOOST_TEST(store.count().value().completed == 1u);
  BOOST_TEST((store.get(nocter::task_id::make()).status() == status::e_unknown));
  BOOST_TEST((store.try_claim().status() == status::empty));
}

BOOST_AUTO_TEST_CASE(tsk_21_identities_are_read_written_and_kept_in_containers, *unit_test::label("TSK-21")) {
  const auto first = nocter::task_id::make(), second = nocter::task_id::make();
  BOOST_TEST((first < second && first != second && first && !nocter::task_id()));
  BOOST_TEST((nocter::task_id::parse(first.text()).value() == first));
  BOOST_TEST((nocter::task_id::parse("no").status() == status::e_argument));
  BOOST_TEST(std::set<nocter::task_id>({first, second, first}).size() == 2u);
  BOOST_TEST(std::unordered_set<nocter::task_id>({first, second, first}).size() == 2u);
}

BOOST_AUTO_TEST_CASE(tsk_05_a_tree_of_tasks_is_worked_off_by_threads, *unit_test::label("TSK-05")) {
  const Folder folder;
  for (const std::string& url : {std::string("memory:"), folder.url()}) {
    nocter::tasks_options options;
    options.normal_sync = true;
    auto store = nocter::tasks::open(url, std::move(options)).value();
    auto workers = store.serve(nocter::task_handlers().on("tree", tree), 3).value();
    const auto id = store.submit({"tree", "4"}).value().id;
    BOOST_TEST(store.await(id, 60s).value().result() == "31");
    BOOST_TEST(workers.stop().ok());
    const auto counts = store.count().value();
    BOOST_TEST(counts.completed == 31u);
    BOOST_TEST(counts.running + counts.suspended + counts.repairs == 0u);
    nocter::task_filter filter;
    filter.root = id;
    filter.limit = 1000;
    BOOST_TEST(store.list(filter).value().size() == 31u);
    BOOST_TEST(store.children(id).value().size() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(tsk_04_outcomes_of_every_kind, *unit_test::label("TSK-04") * unit_test::label("T-13")) {
  auto clock = still();
  auto store = open_with(clock);
  const auto other = store.submit({"other"}).value().id;
  const auto id = store.submit({"work", {}, {}, {}, {}, 1}).value().id;
  {
    auto run = store.try_claim().value();
    BOOST_TEST((run.task().id() == id));
    BOOST_TEST((run.suspend(suspension::tasks({nocter::task_id::make()})).status() == status::e_unknown));
    BOOST_TEST(run.suspend(suspension::tasks({other, store.submit({"last", {}, {}, {}, {}, -1}).value().id})
                               .or_failure()
                               .or_at(kStart + 5s))
                   .ok());
  }
  BOOST_TEST((store.get(id).value().status() == task_status::suspended));
  BOOST_TEST(store.try_claim().value().fail({"Bad", "very", "so", true}).ok());
  const auto failed = store.get(other).value();
  BOOST_TEST((failed.failure() && failed.failure().kind() == "Bad" && failed.failure().detail() == "so"));
  auto run = store.try_claim().value();
  BOOST_TEST((run.woken_by() == nocter::wake::failure && run.resumed()));
  BOOST_TEST(run.suspend(suspension::notified().or_at(kStart + 9s)).ok());
  clock.advance(9s);
  BOOST_TEST(store.maintain().ok());
  run = store.try_claim().value();
  BOOST_TEST((run.woken_by() == nocter::wake::timer));
  BOOST_TEST(run.give_back().ok());
  run = store.try_claim().value();
  BOOST_TEST(run.task().native().attempt == 1u);
  run.drop();
  BOOST_TEST(store.get(id).value().failure().kind() == "WorkerLost");
  BOOST_TEST((store.retry(id).value() != id));
}

BOOST_AUTO_TEST_CASE(tsk_09_tsk_11_messages_and_cancel, *unit_test::label("TSK-09") * unit_test::label("TSK-11")) {
  const auto clock = still();
  auto store = open_with(clock);
  const auto id = store.submit({"work"}).value().id;
  BOOST_TEST(store.notify(id, "1").ok());
  auto run = store.try_claim().value();
  BOOST_TEST(run.messages().value().size() == 1u);
  const auto child = run.submit_child({"child"}).value().id;
  auto below = store.try_claim({"child"}).value();
  BOOST_TEST(below.notify_parent("2").ok());
  BOOST_TEST(below.notify(id, "3").ok());
  BOOST_TEST((store.get(child).value().parent() == id));
  BOOST_TEST(store.cancel(id).value() == 2u);
  BOOST_TEST((run.cancelled() && run.reason() == nocter::interrupt_reason::cancel));
  BOOST_TEST((run.submit_child({"child"}).status() == status::cancelled));
  BOOST_TEST((run.done().status() == status::cancelled));
  BOOST_TEST(run.native() == nullptr);
  BOOST_TEST((store.cancel(id).status() == status::e_state));
}

BOOST_AUTO_TEST_CASE(tsk_20_tsk_22_tsk_31_keys_steps_and_atomic_rounds,
                     *unit_test::label("TSK-20") * unit_test::label("TSK-22") * unit_test::label("TSK-31")) {
  const auto clock = still();
  auto store = open_with(clock);
  const auto id = store.submit({"work", {}, "k"}).value().id;
  const auto lost = store.submit({"work", {}, "k"}).value();
  BOOST_TEST((lost.exists && lost.id == id));
  const auto many = store.submit_many({{"work", {}, "k"}, {"other"}}).value();
  BOOST_TEST((many.exists && many.ids.size() == 2 && many.ids[0] == id));
  auto run = store.try_claim({"work"}).value();
  BOOST_TEST(run.step("s", [] { return std::string("1"); }).value() == "1");
  BOOST_TEST(run.step("s", [] { return std::string("2"); }).value() == "1");
  BOOST_TEST((run.step_put("s", "3").status() == status::exists));
  BOOST_TEST((run.step_get("t").status() == status::empty));
  BOOST_TEST(run.atomic().ok());
  BOOST_TEST(run.submit_children({{"child"}, {"child"}}).value().ids.size() == 2u);
  BOOST_TEST(!run.shared_put_if_absent("a", "1").value().has_value());
  BOOST_TEST(run.shared_put_if_absent("a", "2").value().value() == "1");
  BOOST_TEST((run.shared_put("b", "2").ok() && run.shared_get("b").value() == "2"));
  BOOST_TEST(!run.shared_get("c").value().has_value());
  BOOST_TEST(store.children(id).value().empty());
  BOOST_TEST(run.suspend(suspension::children()).ok());
  BOOST_TEST(store.children(id).value().size() == 2u);
  const auto values = store.shared(id).all().value();
  BOOST_TEST((values.size() == 2 && values[0].key == "a" && values[0].value == "1"));
}

BOOST_AUTO_TEST_CASE(shr_01_shr_03_tsk_29_values_locks_and_events,
                     *unit_test::label("SHR-01") * unit_test::label("SHR-03") * unit_test::label("TSK-29")) {
  auto clock = still();
  auto store = open_with(clock);
  auto shared = store.shared("scope");
  BOOST_TEST(!shared.put_if_absent("k", "1").value().has_value());
  BOOST_TEST(shared.put_if_absent("k", "2").value().value() == "1");
  BOOST_TEST((shared.put("k", "3").ok() && shared.get("k").value() == "3"));
  BOOST_TEST((shared.clear().ok() && !shared.get("k").value()));
  auto first = store.lock("name", 1s).value();
  BOOST_TEST((store.try_lock("name", 1s).status() == status::held));
  BOOST_TEST(first.renew(2s).ok());
  clock.advance(3s);
  auto second = store.try_lock("name", 1s).value();
  BOOST_TEST(second.fence() > first.fence());
  BOOST_TEST((first.renew(1s).status() == status::e_lease_lost));
  BOOST_TEST((first.release().status() == status::e_lease_lost));
  BOOST_TEST(second.release().ok());
  BOOST_TEST((store.try_events(0, 9).status() == status::empty));
  const auto id = store.submit({"work"}).value().id;
  BOOST_TEST(store.try_claim().value().done("1").ok());
  const auto events = store.events(0, 9).value();
  BOOST_TEST(events.size() == 3u);
  BOOST_TEST((events[2].kind() == nocter::event_kind::ended && events[2].data() == "1" && events[2].task() == id));
  clock.advance(1h);
  BOOST_TEST(store.purge(1min).value() == 1u);
}

BOOST_AUTO_TEST_CASE(bnd_05_what_a_handler_throws_or_gives_wrongly_is_a_failed_try,
                     *unit_test::label("BND-05") * unit_test::label("TSK-16")) {
  auto store = nocter::tasks::open("memory:").value();
  nocter::task_handlers handlers;
  handlers.on("throws", [](nocter::task_run&) { throw std::runtime_error("no luck"); })
      .on("no json", [](nocter::task_run&) { return std::string("{"); })
      .on("itself", [](nocter::task_run& run) { run.done("1").value(); })
      .on("nothing", [](nocter::task_run&) {});
  auto workers = store.serve(handlers, 2).value();
  const auto end_of = [&](std::string_view type) { return store.await(store.submit({type}).value().id, 60s).value(); };
  BOOST_TEST((end_of("throws").status() == task_status::failed));
  BOOST_TEST(end_of("no json").failure().kind() == "NOCTER_E_JSON");
  BOOST_TEST(end_of("itself").result() == "1");
  BOOST_TEST(end_of("nothing").result() == "{}");
  store.submit({"nobody"}).value();
  auto run = store.claim().value();
  BOOST_TEST(handlers.make(run).ok());
  BOOST_TEST(store.count().value().failed == 3u);
  BOOST_TEST((nocter::tasks::open("nothing:").status() == status::e_argument));
}

BOOST_AUTO_TEST_SUITE_END()
