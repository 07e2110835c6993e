// T-KILL: three processes work on one SQLite database and are killed at random moments, again and again; others take their places. What any of
// them was told stands in a journal outside. At the end everything runs out, and is compared with it. DUR-01, DUR-03, TSK-18, TSK-19, I-14.
//
//   sqlite_kill [--rounds N] [--seconds N] [--seed N]      as many rounds as fit the time
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "crash/sqlite_kill.hpp"

using namespace nocter_tests;

namespace {

using Moment = std::chrono::steady_clock;
int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  if (failures++ < 20) std::printf("FAILED: %s\n", what.c_str());
}

struct Told {
  std::set<std::string> submitted, cancelled, completed;
  std::map<std::string, uint64_t> states, tried;  // the highest
  std::set<std::pair<std::string, std::string>> messages;
};

void read_journal(const std::string& path, Told& told) {
  std::ifstream file(path);
  std::string line, what, id, rest;
  while (std::getline(file, line)) {
    if (file.eof()) return;  // torn: it was killed while it said this
    std::istringstream words(line);
    rest.clear();
    words >> what >> id >> rest;
    if (what == "submit") told.submitted.insert(id);
    if (what == "cancel") told.cancelled.insert(id);
    if (what == "done") told.completed.insert(id);
    if (what == "notify") told.messages.emplace(id, rest);
    if (what == "state") told.states[id] = std::max<uint64_t>(told.states[id], std::stoull(rest));
    if (what == "try") told.tried[id] = std::max<uint64_t>(told.tried[id], std::stoull(rest));
  }
}

// I-14: every task ends when there are workers for it.
void run_out(Hand& hand) {
  const int64_t node = hand.join("the-last");
  for (int round = 0; round < 1000; round++) {
    tasks::Maintain maintain;
    maintain.dead = hand.store().dead_nodes();
    expect(hand.ask(maintain) == Status::ok, "maintain: " + hand.message);
    while (true) {
      const tasks::ClaimedTask claimed = hand.claim(node);
      if (claimed.claimed.token == 0) break;
      const Status status = done_with_effect(hand, claimed.claimed);
      expect(status == Status::ok || status == Status::cancelled, "an outcome at the end: " + hand.message);
    }
    // Some wait for nobody but a message.
    tasks::Filter filter;
    filter.status = tasks::TaskStatus::suspended;
    filter.most = 100'000;
    std::vector<tasks::Record> waiting;
    hand.store().list(filter, waiting);
    for (const tasks::Record& record : waiting) {
      if (record.row.until == tasks::Until::notified) hand.notify(record.row.id, "1");
    }
    const tasks::Counts counts = hand.counts();
    if (counts.ready + counts.delayed + counts.by_status[2] + counts.by_status[3] == 0 && !maintain.more) return;
  }
  expect(false, "tasks are stuck");
}

void compare(Hand& hand, const std::string& database, const Told& told) {
  std::vector<std::pair<std::string, std::string>> effects;
  hand.store().shared_all(kEffects, effects);
  std::map<std::string, std::vector<uint64_t>> fences;
  for (const auto& [key, ignored] : effects) fences[key.substr(0, 36)].push_back(std::stoull(key.substr(37)));
  for (const std::string& text : told.submitted) {
    tasks::TaskId id;
    parse_task_id(text, id);
    const tasks::Record record = hand.record(id);
    expect(record.row.id == id, text + ": was accepted, and is not there");
    expect(tasks::ended(record.row.phase), text + ": has not ended");
    const bool completed = record.row.phase == tasks::Phase::completed;
    if (told.completed.contains(text)) expect(completed, text + ": was told to be completed");
    if (told.cancelled.contains(text))
      expect(record.row.phase == tasks::Phase::cancelled, text + ": was told to be cancelled");
    // One effect inside for each that completed, none for another; and the one of the last who tried.
    expect(fences[text].size() == (completed ? 1 : 0), text + ": " + std::to_string(fences[text].size()) + " effects");
    const auto tried = told.tried.find(text);
    if (completed && tried != told.tried.end() && !fences[text].empty()) {
      expect(tried->second <= fences[text].front(), text + ": completed by a claim that was not the last");
    }
    const auto state = told.states.find(text);
    if (state != told.states.end()) {
      expect(!record.texts.state.empty() && std::stoull(record.texts.state) >= state->second,
             text + ": a state is lost");
    }
  }
  const tasks::Counts counts = hand.counts();
  expect(counts.repairs == 0, "P-7: something had to be repaired");
  hand.close();
  const std::string wrong = inconsistency(database);
  expect(wrong.empty(), wrong);
  const std::string keys = ask_sql(database, "SELECT group_concat(key, ' ') FROM message_key");
  std::set<std::string> known;
  std::istringstream words(keys);
  for (std::string word; words >> word;) known.insert(word);
  for (const auto& [id, key] : told.messages) expect(known.contains(key), id + ": message " + key + " is lost");
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 5 && std::string(arguments[1]) == "--worker") {
    return work_until_killed(arguments[2], arguments[3], std::strtoull(arguments[4], nullptr, 10));
  }
  uint64_t rounds = 1000, seconds = 50;
  const char* given = std::getenv("NOCTER_SEED");
  uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = arguments[i];
    const uint64_t value = std::strtoull(arguments[i + 1], nullptr, 0);
    (option == "--rounds" ? rounds : option == "--seconds" ? seconds : seed) = value;
  }
  std::printf("NOCTER_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  const Folder folder;
  const std::string database = folder / "tasks.db";
  std::vector<std::string> journals;
  uint64_t started = 0;
  const auto start = [&] {
    journals.push_back(folder / ("journal" + std::to_string(started++)));
    const std::string number = std::to_string(random() >> 1);
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "sqlite_kill", "--worker", database.c_str(), journals.back().c_str(), number.c_str(),
            nullptr);
      _exit(127);
    }
    return child;
  };
  std::vector<pid_t> workers = {start(), start(), start()};
  const auto until = Moment::now() + std::chrono::seconds(seconds);
  uint64_t killed = 0;
  while (killed < rounds && Moment::now() < until) {
    usleep(static_cast<useconds_t>(1000 + random() % 25'000));
    pid_t& victim = workers[random() % workers.size()];
    kill(victim, SIGKILL);
    int status = 0;
    waitpid(victim, &status, 0);
    expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a worker ended by itself: " + std::to_string(status));
    killed++;
    victim = start();
  }
  for (const pid_t worker : workers) {
    kill(worker, SIGKILL);
    waitpid(worker, nullptr, 0);
  }
  Told told;
  for (const std::string& journal : journals) read_journal(journal, told);
  Hand hand(database, options_of_killed());
  run_out(hand);
  compare(hand, database, told);
  expect(killed < 20 || !told.completed.empty(), "nothing was ever completed");
  std::printf(
      "T-KILL: %llu rounds; accepted %zu, completed %zu, cancelled %zu, messages %zu, states %zu; %d failures\n",
      static_cast<unsigned long long>(killed), told.submitted.size(), told.completed.size(), told.cancelled.size(),
      told.messages.size(), told.states.size(), failures);
  return failures == 0 ? 0 : 1;
}
