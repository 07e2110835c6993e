#include <fcntl.h>
#include <unistd.h>

#include <random>

#include "crash/sqlite_kill.hpp"

namespace nocter_tests {

namespace {

class Journal {
 public:
  explicit Journal(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  ~Journal() { close(file_); }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  // What the system has taken survives the process; a line that is torn by its end counts as not said.
  void say(const std::string& line) const {
    const std::string whole = line + "\n";
    if (write(file_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) _exit(4);
  }

 private:
  const int file_;
};

}  // namespace

tasks::StoreOptions options_of_killed() {
  tasks::StoreOptions options;
  options.events = true;
  options.limits.max_rescues = 1'000'000;
  return options;
}

Status done_with_effect(Hand& hand, const tasks::Claimed& claimed) {
  tasks::Settle settle;
  settle.by = claimed;
  settle.result = "1";
  tasks::SharedPut effect;
  effect.scope = kEffects;
  effect.key = to_text(claimed.id) + "/" + std::to_string(claimed.fence);
  effect.value = "1";
  effect.by = claimed;
  settle.staged.emplace_back(std::move(effect));
  return hand.ask(settle);
}

int work_until_killed(const std::string& database, const std::string& path, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  const Journal journal(path);
  Hand hand(database, options_of_killed());
  const int64_t node = hand.join("worker-" + std::to_string(getpid()) + "-" + std::to_string(seed));
  if (node == 0) return 3;
  std::vector<tasks::TaskId> mine;
  std::vector<tasks::Claimed> runs;
  int64_t states = 0;
  for (uint64_t turn = 0; turn < 100'000; turn++) {
    if (turn % 16 == 0) {
      tasks::Maintain maintain;
      maintain.dead = hand.store().dead_nodes();
      hand.ask(maintain);
    }
    const uint64_t what = below(12);
    // A few in each life: on a fast disk there would be so many that running them out takes longer than making them.
    if (what < 3 && mine.size() < 8) {
      const tasks::TaskId id = tasks::make_task_id();
      const tasks::TaskId parent = mine.empty() || below(2) == 0 ? tasks::TaskId{} : mine[below(mine.size())];
      if (hand.submit(id, "work", R"({"a":1})", parent) != Status::ok) continue;
      journal.say("submit " + to_text(id));
      mine.push_back(id);
    } else if (what < 6) {
      const tasks::ClaimedTask claimed = hand.claim(node);
      if (claimed.claimed.token != 0) runs.push_back(claimed.claimed);
    } else if (what == 6 && !mine.empty()) {
      const tasks::TaskId& to = mine[below(mine.size())];
      const std::string key = std::to_string(seed) + "-" + std::to_string(turn);
      if (hand.notify(to, R"("mail")", key) == Status::ok) journal.say("notify " + to_text(to) + " " + key);
    } else if (what == 7 && !mine.empty() && below(6) == 0) {
      const tasks::TaskId& id = mine[below(mine.size())];
      if (hand.cancel(id) == Status::ok) journal.say("cancel " + to_text(id));
    } else if (what > 7 && !runs.empty()) {
      const size_t at = below(runs.size());
      const tasks::Claimed run = runs[at];
      if (what == 8) {
        // Grows within a claim, and from claim to claim.
        const std::string state = std::to_string(run.fence * 1'000'000 + static_cast<uint64_t>(++states));
        if (hand.state(run, state) == Status::ok) journal.say("state " + to_text(run.id) + " " + state);
        continue;
      }
      runs.erase(runs.begin() + static_cast<int64_t>(at));
      if (what == 9) {
        hand.park(run, below(2) == 0 ? tasks::Until::children : tasks::Until::notified);
        continue;
      }
      const std::string name = to_text(run.id) + " " + std::to_string(run.fence);
      journal.say("try " + name);
      if (done_with_effect(hand, run) == Status::ok) journal.say("done " + name);
    }
  }
  return 0;
}

}  // namespace nocter_tests
