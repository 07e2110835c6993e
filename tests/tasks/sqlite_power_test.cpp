// Power that goes at any moment: what was written and not synced is there, half there, torn, or not there at all. T-PWR.
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>

#include "support/fixture.hpp"
#include "support/share_of_time.hpp"
#include "tasks/sqlite_support.hpp"
#include "tasks/sqlite_vfs.hpp"

using namespace nocter_tests;
using Kind = Disk::Step::Kind;

namespace {

// What was acknowledged, and how many steps the disk had made by then.
struct Acknowledged {
  size_t steps;
  tasks::TaskId id;
  tasks::Phase phase;  // at least so far
  std::string state;
};

struct Recorded {
  std::vector<Disk::Step> steps;
  std::vector<std::string> files;
  std::vector<Acknowledged> answers;  // in order
};

// A random life of a database, from its making on: single requests and groups of them, checkpoints, purges, a reopen.
Recorded record(bool full, bool never_sync, uint64_t which) {
  Recorded out;
  const Folder folder;
  Disk disk;
  std::mt19937_64 random = random_stream(which);
  tasks::StoreOptions options;
  options.events = true;
  options.durability = full ? tasks::Durability::full : tasks::Durability::normal;
  options.clock = std::make_shared<tasks::SteerableClock>(1'000'000);
  stores::SqliteTuning tuning;
  tuning.vfs = Disk::name();
  tuning.never_sync = never_sync;
  tuning.checkpoint_pages = 20 + static_cast<int64_t>(below(random, 100));
  tuning.log_piece = 1 << (12 + below(random, 5));
  disk.record(true);
  auto hand = std::make_unique<Hand>(folder / "tasks.db", options, tuning);
  int64_t node = hand->join("node0");
  std::vector<tasks::TaskId> live;
  std::vector<tasks::ClaimedTask> runs;
  const auto told = [&](const tasks::TaskId& id, tasks::Phase phase, const std::string& state = "") {
    out.answers.push_back({disk.steps().size(), id, phase, state});
  };
  for (int i = 0; i < 120; i++) {
    switch (below(random, 10)) {
      case 0: {  // a group: one commit
        std::vector<tasks::Request> requests;
        for (uint64_t n = 1 + below(random, 8); n > 0; n--) {
          tasks::Submit submit;
          tasks::Submission& task = submit.tasks.emplace_back();
          task.id = tasks::make_task_id();
          task.type = "group";
          requests.push_back({std::move(submit), {}});
        }
        std::vector<tasks::Request*> batch;
        for (tasks::Request& request : requests) batch.push_back(&request);
        hand->store().execute(batch, hand->effects);
        for (tasks::Request& request : requests) {
          if (request.answer.status != Status::ok) continue;
          live.push_back(std::get<tasks::Submit>(request.demand).tasks.front().id);
          told(live.back(), tasks::Phase::ready);
        }
        break;
      }
      case 1:
      case 2: {
        const tasks::TaskId id = tasks::make_task_id();
        const tasks::TaskId parent =
            live.empty() || below(random, 2) == 0 ? tasks::TaskId{} : live[below(random, live.size())];
        if (hand->submit(id, "one", "\"" + std::string(below(random, 6000), 'p') + "\"", parent) == Status::ok) {
          live.push_back(id);
          told(id, tasks::Phase::ready);
        }
        break;
      }
      case 3:
      case 4: {
        const tasks::ClaimedTask run = hand->claim(node);
        if (run.claimed.token != 0) runs.push_back(run);
        break;
      }
      case 5:
        if (!runs.empty()) {
          const std::string state = std::to_string(i);
          const tasks::Claimed& claimed = runs[below(random, runs.size())].claimed;
          if (hand->state(claimed, state) == Status::ok) told(claimed.id, tasks::Phase::ready, state);
        }
        break;
      case 6:
      case 7:
        if (!runs.empty()) {
          const size_t at = below(random, runs.size());
          const tasks::Claimed claimed = runs[at].claimed;
          runs.erase(runs.begin() + static_cast<int64_t>(at));
          if (below(random, 4) == 0) {
            hand->park(claimed, tasks::Until::children);
          } else if (hand->done(claimed, "1") == Status::ok) {
            told(claimed.id, tasks::Phase::completed);
          }
        }
        break;
      case 8:
        if (!live.empty()) hand->notify(live[below(random, live.size())], R"("mail")");
        break;
      default:
        if (below(random, 10) == 0) {
          hand.reset();  // the last one to close copies the log and takes it away
          hand = std::make_unique<Hand>(folder / "tasks.db", options, tuning);
          node = hand->join("node" + std::to_string(i));
          runs.clear();
        } else if (!live.empty()) {
          const tasks::TaskId id = live[below(random, live.size())];
          if (below(random, 3) == 0 && hand->cancel(id) == Status::ok) told(id, tasks::Phase::ready);
        }
    }
  }
  hand.reset();
  disk.record(false);
  out.steps = disk.steps();
  for (const std::string& file : disk.files()) out.files.push_back(std::filesystem::path(file).filename());
  return out;
}

// What the disk holds: what was synced, and of what was not, whatever it likes.
class Platter {
 public:
  explicit Platter(const Recorded& recorded) : recorded_(recorded), files_(recorded.files.size()) {}
  void advance(size_t to) {
    for (; at_ < to; at_++) {
      const Disk::Step& step = recorded_.steps[at_];
      File& file = files_[step.file];
      switch (step.kind) {
        case Kind::sync:
          for (const Disk::Step* pending : file.pending) apply(*pending, pending->data.size(), file);
          file.pending.clear();
          break;
        case Kind::remove:
          file = {};
          break;
        default:
          file.there = true;
          file.pending.push_back(&step);
      }
    }
  }
  void burn(std::mt19937_64& random, const std::string& folder) const {
    const uint64_t fate = below(random, 4);  // all of it is lost; a part in order; each by lot; each by lot and torn
    for (size_t i = 0; i < files_.size(); i++) {
      if (!files_[i].there) continue;
      File file = files_[i];
      const size_t reached = fate == 0 ? 0 : fate == 1 ? below(random, file.pending.size() + 1) : file.pending.size();
      for (size_t n = 0; n < reached; n++) {
        const Disk::Step& step = *file.pending[n];
        if (fate >= 2 && below(random, 2) == 0) continue;
        size_t whole = step.data.size();
        if (fate == 3 && below(random, 2) == 0) whole = whole / 512 == 0 ? 0 : below(random, whole / 512 + 1) * 512;
        apply(step, whole, file);
      }
      write_file(folder + "/" + recorded_.files[i], file.content);
    }
  }

 private:
  struct File {
    bool there = false;
    std::string content;
    std::vector<const Disk::Step*> pending;
  };
  static void apply(const Disk::Step& step, size_t size, File& file) {
    if (step.kind == Kind::truncate) {
      file.content.resize(static_cast<size_t>(step.at));
      return;
    }
    const auto at = static_cast<size_t>(step.at);
    if (size == 0) return;
    if (file.content.size() < at + size) file.content.resize(at + size);
    std::copy_n(step.data.begin(), size, file.content.begin() + static_cast<int64_t>(at));
  }
  const Recorded& recorded_;
  std::vector<File> files_;
  size_t at_ = 0;
};

struct Verdict {
  uint64_t points = 0, broken = 0, lost = 0;
  std::string first;
};

// The same as the power sees it: for each moment, is what was acknowledged there, and is everything in joint?
void look(const Recorded& recorded, std::mt19937_64& random, uint64_t points, Verdict& verdict) {
  std::vector<size_t> moments;
  for (uint64_t i = 0; i < points; i++) moments.push_back(1 + below(random, recorded.steps.size()));
  std::sort(moments.begin(), moments.end());
  Platter platter(recorded);
  for (const size_t moment : moments) {
    platter.advance(moment);
    const Folder folder;
    platter.burn(random, folder.path());
    verdict.points++;
    std::string wrong, missing;
    try {
      Hand hand(folder / "tasks.db");
      std::map<tasks::TaskId, tasks::Phase> phases;
      std::map<tasks::TaskId, std::string> states;
      for (const Acknowledged& answer : recorded.answers) {
        if (answer.steps > moment) break;
        phases[answer.id] = std::max(phases[answer.id], answer.phase);
        if (!answer.state.empty()) states[answer.id] = answer.state;
      }
      for (const auto& [id, phase] : phases) {
        const tasks::Record record = hand.record(id);
        if (record.row.id != id) {
          missing = "a task";
        } else if (phase == tasks::Phase::completed && !tasks::ended(record.row.phase)) {
          missing = "an outcome";
        }
        const auto state = states.find(id);
        if (state != states.end() &&
            (record.texts.state.empty() || std::stoi(record.texts.state) < std::stoi(state->second))) {
          missing = "a state";
        }
      }
      hand.close();
      wrong = inconsistency(folder / "tasks.db");
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    if (!wrong.empty()) {
      verdict.broken++;
    } else if (!missing.empty()) {
      verdict.lost++;
    }
    if (verdict.first.empty() && !(wrong + missing).empty()) {
      verdict.first = "at step " + std::to_string(moment) + ": " + (wrong.empty() ? missing + " is lost" : wrong);
    }
  }
}

// At least `lives` of them, and more while there is time.
Verdict try_power(bool full, bool never_sync, uint64_t points, uint64_t lives, uint64_t which, int seconds = 0,
                  uint64_t most = 0) {
  Verdict verdict;
  const ShareOfTime time(seconds);
  for (uint64_t life = 0; life < lives || (verdict.points < most && !time.over()); life++) {
    const Recorded recorded = record(full, never_sync, which + life);
    std::mt19937_64 random = random_stream(which + 1000 + life);
    look(recorded, random, points / lives, verdict);
  }
  std::cout << "T-PWR: "
            << (never_sync ? "OFF"
                : full     ? "FULL"
                           : "NORMAL")
            << ": " << verdict.points << " moments, " << verdict.broken << " broken, " << verdict.lost
            << " with something lost\n";
  return verdict;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite_power, EveryTest)

BOOST_AUTO_TEST_CASE(dur_02_dur_03_dur_09_t_pwr_full_loses_nothing,
                     *label("DUR-01") * label("DUR-02") * label("DUR-03") * label("DUR-09")) {
  const Verdict verdict = try_power(true, false, rounds(1'000, 100), 10, 0x90, kSanitized ? 0 : 25, 20'000);
  BOOST_TEST(verdict.broken == 0U, verdict.first);
  BOOST_TEST(verdict.lost == 0U, verdict.first);
}

// A net that catches: what loses something is seen to, and NORMAL never breaks what is left.
BOOST_AUTO_TEST_CASE(dur_02_t_pwr_controls_must_fail, *label("DUR-02")) {
  const Verdict normal = try_power(false, false, rounds(200, 50), 5, 0x91);
  BOOST_TEST(normal.broken == 0U, normal.first);
  BOOST_TEST(normal.lost * 5 > normal.points, "NORMAL must lose something");
  const Verdict off = try_power(false, true, rounds(120, 40), 4, 0x92);
  BOOST_TEST((off.broken + off.lost) * 4 > off.points * 3, "OFF must fail nearly always");
  BOOST_TEST(off.broken > 0U, "OFF must break something");
}

BOOST_AUTO_TEST_SUITE_END()
