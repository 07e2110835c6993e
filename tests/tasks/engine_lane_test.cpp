// The lane alone, before a store that only counts: how requests become batches. DUR-10, GEN-12, RSC-01.
#include <deque>
#include <new>
#include <set>

#include "nocter/tasks/lane.hpp"
#include "tasks/engine.hpp"

using namespace nocter_tests;
namespace core = nocter::tasks;

namespace {

// Answers each request; one batch at a time, each of which takes a moment.
class Counting final : public core::Store {
 public:
  void execute(std::span<core::Request* const> batch, core::Effects& effects) override {
    HOLDS(inside_.fetch_add(1) == 0);
    if (slow) pause_ms(1);
    while (held.load()) pause_ms(1);
    if (without_memory.exchange(false)) {
      inside_.fetch_sub(1);
      throw std::bad_alloc();
    }
    for (core::Request* request : batch) {
      std::get<core::SharedClear>(request->demand).removed++;
      request->answer.status = nocter::Status::ok;
      executed++;
    }
    effects.next_due = static_cast<core::Millis>(batch.size());
    batches++;
    if (batch.size() > largest) largest = batch.size();
    inside_.fetch_sub(1);
  }
  core::Answer get(const core::TaskId&, core::Record&) override { return {}; }
  core::Answer list(const core::Filter&, std::vector<core::Record>&) override { return {}; }
  core::Answer mail(const core::TaskId&, std::vector<core::Message>&) override { return {}; }
  core::Answer step(const core::Claimed&, const std::string&, std::string&) override { return {}; }
  core::Answer shared(const std::string&, const std::string&, std::string&) override { return {}; }
  core::Answer shared_all(const std::string&, std::vector<std::pair<std::string, std::string>>&) override { return {}; }
  core::Answer events(uint64_t, size_t, std::vector<core::Event>&) override { return {}; }
  core::Answer count(core::Counts&) override { return {}; }
  core::Millis now() override { return 0; }

  bool slow = false;
  std::atomic<bool> without_memory{false}, held{false};
  uint64_t executed = 0, batches = 0;
  size_t largest = 0;

 private:
  std::atomic<int> inside_{0};
};

// What it was told of must be told before any caller goes on.
struct Watching final : core::Lane::Observer {
  void committed(std::span<core::Request* const> batch, const core::Effects&) override { told.fetch_add(batch.size()); }
  std::atomic<uint64_t> told{0};
};

struct Asked {
  core::Request request{core::SharedClear{}, {}};
  uint64_t times() const { return std::get<core::SharedClear>(request.demand).removed; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tasks_engine_lane, EveryTest)

BOOST_AUTO_TEST_CASE(dur_10_one_caller_alone_commits_at_once, *label("DUR-10")) {
  Counting store;
  Watching watching;
  core::Lane lane(store, watching);
  for (int i = 0; i < 100; i++) {
    Asked asked;
    lane.execute(asked.request);
    BOOST_REQUIRE_EQUAL(asked.times(), 1u);
  }
  BOOST_CHECK_EQUAL(store.batches, 100u);
}

BOOST_AUTO_TEST_CASE(gen_12_many_callers_share_commits_and_each_is_answered_once, *label("GEN-12")) {
  constexpr uint64_t kThreads = 16;
  for (const bool slow : {true, false}) {
    Counting store;
    store.slow = slow;
    Watching watching;
    core::Lane lane(store, watching);
    const uint64_t each = slow ? 50 : rounds(5'000, 300);
    std::atomic<uint64_t> answered{0};
    std::deque<Thread> threads;
    for (uint64_t i = 0; i < kThreads; i++) {
      threads.emplace_back([&] {
        for (uint64_t k = 0; k < each; k++) {
          Asked asked;
          lane.execute(asked.request);
          HOLDS(asked.times() == 1 && asked.request.answer.status == nocter::Status::ok);
          HOLDS(answered.fetch_add(1) < watching.told.load());
        }
      });
    }
    threads.clear();
    BOOST_CHECK_EQUAL(store.executed, kThreads * each);
    BOOST_CHECK_EQUAL(watching.told.load(), kThreads * each);
    if (slow) BOOST_CHECK_LT(store.batches, kThreads * each / 4);
    BOOST_TEST_MESSAGE(kThreads * each << " requests in " << store.batches << " batches, the largest of "
                                       << store.largest);
    BOOST_CHECK_LE(store.largest, core::Lane::kBatch);
  }
}

// More at once than fit into one batch: those who are left over sleep apart from those who come after them.
BOOST_AUTO_TEST_CASE(gen_12_more_callers_than_a_batch_holds, *label("GEN-12")) {
  constexpr size_t kThreads = 2 * core::Lane::kBatch + 50;
  Counting store;
  store.held.store(true);
  Watching watching;
  core::Lane lane(store, watching);
  {
    std::atomic<size_t> come{0};
    std::deque<Thread> threads;
    for (size_t i = 0; i < kThreads; i++) {
      threads.emplace_back([&] {
        come++;
        for (int k = 0; k < 3; k++) {
          Asked asked;
          lane.execute(asked.request);
          HOLDS(asked.times() == 1);
        }
      });
    }
    while (come.load() != kThreads) pause_ms(1);
    pause_ms(20);
    store.held.store(false);
  }
  BOOST_CHECK_EQUAL(store.executed, 3 * kThreads);
  BOOST_CHECK_LE(store.largest, core::Lane::kBatch);
  BOOST_TEST_MESSAGE(3 * kThreads << " requests in " << store.batches << " batches, the largest of " << store.largest);
}

BOOST_AUTO_TEST_CASE(rsc_01_a_batch_without_memory_is_answered_and_the_next_works, *label("RSC-01")) {
  Counting store;
  store.slow = true;
  Watching watching;
  core::Lane lane(store, watching);
  std::atomic<uint64_t> failed{0}, worked{0};
  store.without_memory.store(true);
  {
    std::deque<Thread> threads;
    for (int i = 0; i < 8; i++) {
      threads.emplace_back([&] {
        Asked asked;
        lane.execute(asked.request);
        const bool ok = asked.request.answer.status == nocter::Status::ok;
        HOLDS(ok || asked.request.answer.status == nocter::Status::memory);
        (ok ? worked : failed)++;
      });
    }
  }
  BOOST_CHECK_EQUAL(failed.load() + worked.load(), 8u);
  BOOST_CHECK_GE(failed.load(), 1u);
  BOOST_CHECK_EQUAL(store.executed, worked.load());
}

BOOST_AUTO_TEST_SUITE_END()
