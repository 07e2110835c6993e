// RSC-01: each allocation of each exported call fails, once and from then on. One test case for each call and state. Where tasks lie in a
// database it is every so many of them, and another share with another seed; all of them with the argument --all (behind a `--`).
#include <array>
#include <filesystem>

#include "oom/faults.hpp"
#include "oom/suites.hpp"
#include "oom/world.hpp"
#include "support/fixture.hpp"
#include "support/service.hpp"
#include "support/share_of_time.hpp"

#ifdef NOCTER_SQLITE
#include <sqlite3.h>
#endif
#ifdef NOCTER_HAS_LEAK_CHECK
#include <sanitizer/lsan_interface.h>
#endif

namespace oom {

using namespace nocter_tests;

namespace {

// The database of one attempt, made anew: its schema is there already.
class Database {
 public:
  explicit Database(bool wanted) {
#ifdef NOCTER_SQLITE
    if (!wanted) return;
    static const std::string folder = make_folder();
    folder_ = folder;
    const std::string made = folder_ + "/made.db";
    if (!std::filesystem::exists(made)) {
      nocter_tasks* tasks = nullptr;
      STATUS(nocter_tasks_open(nocter_text_of(("sqlite:" + made).c_str()), nullptr, &tasks), NOCTER_OK);
      nocter_tasks_close(tasks);
    }
    remove();
    std::filesystem::copy_file(made, path());
#else
    (void)wanted;
#endif
  }
  ~Database() { remove(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  std::string url() const { return "sqlite:" + path(); }

  // Whatever has failed: SQLite finds it whole, and nocter finds nothing that nobody would have done.
  void check() const {
#ifdef NOCTER_SQLITE
    if (folder_.empty()) return;
    sqlite3* handle = nullptr;
    HOLDS(sqlite3_open(path().c_str(), &handle) == SQLITE_OK);
    std::string said;
    const auto take = [](void* out, int, char** values, char**) {
      *static_cast<std::string*>(out) = values[0];
      return 0;
    };
    HOLDS(sqlite3_exec(handle, "PRAGMA integrity_check", take, &said, nullptr) == SQLITE_OK && said == "ok");
    sqlite3_close(handle);
    nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
    options.flags = NOCTER_TASKS_BY_HAND;
    nocter_tasks* tasks = nullptr;
    STATUS(nocter_tasks_open(nocter_text_of(url().c_str()), &options, &tasks), NOCTER_OK);
    STATUS(nocter_tasks_maintain(tasks), NOCTER_OK);
    nocter_tasks_counts counts = NOCTER_TASKS_COUNTS_INIT;
    STATUS(nocter_tasks_count(tasks, &counts), NOCTER_OK);
    HOLDS(counts.repairs == 0);
    nocter_tasks_close(tasks);
#endif
  }

 private:
  std::string path() const { return folder_ + "/tasks.db"; }
  void remove() const {
    if (folder_.empty()) return;
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path() + end);
    std::filesystem::remove_all(path() + ".nocter");
  }
  static std::string make_folder() {
    std::string pattern = (std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                               : std::filesystem::temp_directory_path()) /
                          "nocter-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    static std::string to_remove;
    to_remove = pattern;
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(to_remove, ignored);
    });
    return pattern;
  }
  std::string folder_;
};

struct Attempt {
  nocter_status status = NOCTER_E_INTERNAL;
  uint64_t asked = 0;
  uint64_t failed = 0;
};

// In a thread of its own, so that what the library may keep for each thread is made anew.
Attempt attempt(const Scenario& scenario, uint64_t nth, faults::How how) {
  Attempt result;
  Thread thread([&] {
    Database database(scenario.on_disk);
    World world;
    if (scenario.on_disk) world.store = database.url();
    scenario.prepare(world);
    world.get_ready();
    {
      const faults::Allocations armed(nth, how);
      result.status = scenario.call(world);
      result.asked = armed.asked();
      result.failed = armed.failed();
    }
    if (result.status == NOCTER_E_MEMORY && result.failed != 0) {
      world.check_nothing_changed();
      // With memory back, the same objects do it.
      STATUS(scenario.call(world), scenario.expected);
    } else {
      STATUS(result.status, scenario.expected);
    }
    world.end();
    if (result.failed != 0) database.check();
  });
  thread.join();
  return result;
}

// The attempt leaves no block behind. Threads that ended a moment ago may still be giving theirs back.
Attempt attempt_without_leak(const Scenario& scenario, uint64_t nth, faults::How how) {
  const int64_t before = faults::live_blocks();
  const uint64_t payloads = Ledger::live();
  const Attempt result = attempt(scenario, nth, how);
  const auto balanced = [&] {
    const int64_t more = faults::live_blocks() - before;
    return more == 0 ? scenario.kept == 0 : more > 0 && more <= scenario.kept;
  };
  HOLDS(Ledger::live() == payloads);
  if (!eventually(balanced, 2'000)) {
    const int64_t more = faults::live_blocks() - before;
    Failures::add(Where::here(), std::to_string(more) + " blocks more for " + std::to_string(scenario.kept));
  }
  return result;
}

constexpr std::array kWays = {faults::How::once, faults::How::from_then_on};

// So many attempts of each scenario fit the time that there is.
uint64_t stride_on_disk(uint64_t asked) {
  constexpr uint64_t kAttempts = kSanitized ? 5 : 16;
  return ShareOfTime(0).all() ? 1 : 1 + asked / kAttempts;
}

// Until an allocation is reached that is not made: so the last attempt is one of a call that asks for nothing any more,
// and every call is made without memory at least once.
void run(const Scenario& scenario) {
  // Fill what the C library keeps for the next thread, and nocter for the next handle.
  for (int i = 0; i < 2; i++) attempt(scenario, faults::kNone, faults::How::once);
  const uint64_t asked = attempt_without_leak(scenario, faults::kNone, faults::How::once).asked;
  uint64_t refusals = 0;
  bool reached = true;
  const uint64_t stride = scenario.on_disk ? stride_on_disk(asked) : 1;
  for (uint64_t nth = stride == 1 ? 0 : seed() % stride; reached; nth += stride) {
    reached = false;
    for (const faults::How how : kWays) {
      const Attempt failing = attempt_without_leak(scenario, nth, how);
      reached = reached || failing.failed != 0;
      refusals += failing.status == NOCTER_E_MEMORY ? 1 : 0;
      for (const std::string& failure : Failures::collect()) {
        BOOST_ERROR("allocation " << nth << (how == faults::How::once ? " fails: " : " and all after it fail: ")
                                  << failure);
      }
    }
    BOOST_CHECK_MESSAGE(reached || nth >= asked, "only " << nth << " of " << asked << " allocations were reached");
  }
  BOOST_TEST_MESSAGE(scenario.name << ": " << asked << " allocations, " << refusals << " times NOCTER_E_MEMORY");
#ifdef NOCTER_HAS_LEAK_CHECK
  BOOST_CHECK_EQUAL(__lsan_do_recoverable_leak_check(), 0);
#endif
}

// Without this the whole suite could pass by failing nothing.
void the_failing_is_seen() {
  const Scenario creation = {"creation", nothing,
                             [](World& world) {
                               const nocter_blocking_options options = options_of({});
                               return nocter_blocking_create(&options, world.fill(world.out.service));
                             },
                             NOCTER_OK};
  const Attempt usual = attempt(creation, faults::kNone, faults::How::once);
  BOOST_CHECK_GT(usual.asked, 0u);
  const Attempt failing = attempt(creation, 0, faults::How::from_then_on);
  BOOST_CHECK_EQUAL(failing.status, NOCTER_E_MEMORY);
  BOOST_CHECK_GT(failing.failed, 0u);
  const int64_t before = faults::live_blocks();
  nocter_owned unfreed = payload(1);
  BOOST_CHECK_EQUAL(faults::live_blocks() - before, 1);
  discard(unfreed);
  BOOST_CHECK_EQUAL(faults::live_blocks() - before, 0);
}

}  // namespace

void add_allocation_tests(boost::unit_test::test_suite& all) {
  all.add(test_case("the_failing_is_seen", the_failing_is_seen, {"RSC-01"}));
  for (const Scenarios& scenarios :
       {base_scenarios(), blocking_scenarios(), ownership_scenarios(), worker_scenarios(), retirement_scenarios(),
        keyed_scenarios(), tasks_scenarios(), sqlite_scenarios()}) {
    for (const Scenario& scenario : scenarios) {
      all.add(test_case(scenario.name, [scenario] { run(scenario); }, {"RSC-01", "GEN-02", "GEN-09"}));
    }
  }
}

}  // namespace oom
