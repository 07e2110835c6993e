// The lane alone, before a store that only counts: whoever finds it free leads, each request is executed once, and what its batch brought
// about was told before its caller goes on.
#include "nocter/tasks/lane.hpp"
#include "sched/tasks_world.hpp"

namespace sched {

namespace {

class CountingStore final : public tasks::Store {
 public:
  void execute(std::span<tasks::Request* const> batch, tasks::Effects&) override {
    require_equal(++inside_, 1, "batches that are executed at once");
    point("store");
    if (memory_fails && executed == 0 && maybe("(no memory)")) {
      inside_--;
      memory_fails = false;
      throw std::bad_alloc();
    }
    for (tasks::Request* request : batch) {
      std::get<tasks::SharedClear>(request->demand).removed++;
      request->answer.status = Status::ok;
      executed++;
    }
    batches++;
    inside_--;
  }
  tasks::Answer get(const tasks::TaskId&, tasks::Record&) override { return {}; }
  tasks::Answer list(const tasks::Filter&, std::vector<tasks::Record>&) override { return {}; }
  tasks::Answer mail(const tasks::TaskId&, std::vector<tasks::Message>&) override { return {}; }
  tasks::Answer step(const tasks::Claimed&, const std::string&, std::string&) override { return {}; }
  tasks::Answer shared(const std::string&, const std::string&, std::string&) override { return {}; }
  tasks::Answer shared_all(const std::string&, std::vector<std::pair<std::string, std::string>>&) override {
    return {};
  }
  tasks::Answer events(uint64_t, size_t, std::vector<tasks::Event>&) override { return {}; }
  tasks::Answer count(tasks::Counts&) override { return {}; }
  tasks::Millis now() override { return 0; }

  int executed = 0, batches = 0;
  bool memory_fails = false;

 private:
  int inside_ = 0;
};

struct Lanes final : tasks::Lane::Observer {
  void committed(std::span<tasks::Request* const> batch, const tasks::Effects&) override {
    require_equal(locks_held(), 0, "locks of the lane while it tells of a batch");
    point("told");
    for (const tasks::Request* request : batch) told.push_back(request);
  }
  void ask() {
    tasks::Request request{tasks::SharedClear{}, {}};
    lane.execute(request);
    const bool refused = request.answer.status == Status::memory;
    require(request.answer.status == Status::ok || refused, "an answer of the lane");
    require_equal(static_cast<int64_t>(std::get<tasks::SharedClear>(request.demand).removed), refused ? 0 : 1,
                  "how often a request was executed");
    int heard = 0;
    for (const tasks::Request* one : told) heard += one == &request ? 1 : 0;
    require_equal(heard, 1, "how often a batch was told of before its caller went on");
    // The next request may lie in the same place.
    for (const tasks::Request*& one : told) one = one == &request ? nullptr : one;
    (refused ? failed : answered)++;
  }

  CountingStore store;
  tasks::Lane lane{store, *this};
  std::vector<const tasks::Request*> told;
  int answered = 0, failed = 0;
};

constexpr const char* kNames[] = {"one", "two", "three", "four"};

template <int threads, int each, bool memory_fails>
void callers_meet(Play& play) {
  auto lanes = std::make_shared<Lanes>();
  lanes->store.memory_fails = memory_fails;
  for (int i = 0; i < threads; i++) {
    play.thread(kNames[i], [=] {
      for (int k = 0; k < each; k++) lanes->ask();
    });
  }
  play.at_end([=] {
    require_equal(lanes->answered + lanes->failed, threads * each, "requests that were answered");
    require_equal(lanes->store.executed, lanes->answered, "requests that were executed");
    require(lanes->store.batches <= threads * each, "more batches than requests");
    lanes->ask();  // it is free again
  });
}

}  // namespace

std::vector<Scenario> lane_scenarios() {
  return {
      {"lane_two_callers", "DUR-10 GEN-12", callers_meet<2, 2, false>},
      {"lane_three_callers", "DUR-10 GEN-12", callers_meet<3, 1, false>},
      {"lane_three_callers_twice", "DUR-10 GEN-12", callers_meet<3, 2, false>},
      {"lane_four_callers", "DUR-10 GEN-12", callers_meet<4, 1, false>},
      {"lane_a_batch_without_memory", "RSC-01 DUR-10", callers_meet<3, 1, true>},
  };
}

}  // namespace sched
