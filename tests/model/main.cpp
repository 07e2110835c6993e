// Random operations on a store and on the model of it: tasks_model_test URL [--seed N] [--sequences N] [--operations N] [--seconds S]
// [--shrink S] [--control] [--saved FOLDER] [FILE.ops...]. `sqlite:` alone means a file of its own, in memory if the system has a place there;
// `postgresql:` a server of its own.
//
// With --control each rule of the model is broken in turn: the test has to notice, or it would not notice a store that breaks it either.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "model/generate.hpp"
#include "model/world.hpp"
#include "nocter/stores/open.hpp"
#ifdef NOCTER_POSTGRES_BIN
#include "support/postgres_server.hpp"
#endif

namespace {

using namespace tasks_model;
namespace files = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string url;
  uint64_t seed = 0;
  uint64_t sequences = UINT64_MAX;
  size_t operations = 60;
  double seconds = 10;
  double shrink = 20;
  bool control = false;
  std::string saved;
  std::vector<std::string> replay;
};

struct Place {
  files::path made;  // to be removed
  Opener opener;
  bool lasting = false;
  ~Place() {
    std::error_code ignored;
    if (!made.empty()) files::remove_all(made, ignored);
  }
};

void find_place(std::string url, Place& place) {
  const std::string sqlite = "sqlite:";
#ifdef NOCTER_POSTGRES_BIN
  if (url == "postgresql:") {
    const nocter_tests::PostgresServer& server = nocter_tests::PostgresServer::shared();
    place.lasting = true;
    place.opener = [&server](const nocter::tasks::StoreOptions& options, bool fresh) {
      if (fresh) server.forget_everything();
      return nocter::stores::open(server.url(), options);
    };
    return;
  }
#endif
  place.lasting = url.rfind(sqlite, 0) == 0;
  if (url == sqlite) {
    const bool in_memory = files::is_directory("/dev/shm");
    std::string name =
        ((in_memory ? files::path("/dev/shm") : files::temp_directory_path()) / "nocter-model-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no place for a database");
    place.made = name;
    url += name + "/tasks.db";
  }
  place.opener = [url, sqlite](const nocter::tasks::StoreOptions& options, bool fresh) {
    if (fresh && url.rfind(sqlite, 0) == 0) {
      std::error_code ignored;
      for (const char* part : {"", "-wal", "-shm", ".nocter"})
        files::remove_all(url.substr(sqlite.size()) + part, ignored);
    }
    return nocter::stores::open(url, options);
  };
}

Setup setup_of(uint64_t seed, bool lasting, Broken broken) {
  Setup setup;
  setup.seed = seed;
  setup.lasting = lasting;
  setup.processes = lasting && seed % 2 == 1 ? 2 : 1;
  setup.broken = broken;
  setup.events = seed % 4 != 0;
  setup.limits.message = 58;
  setup.limits.mailbox = 4;
  setup.limits.mailbox_bytes = 150;
  setup.limits.handed = 2;
  setup.limits.handed_bytes = 70;
  setup.limits.children = 6;
  setup.limits.max_rescues = 2;
  setup.limits.retry_base_ms = 200;
  setup.limits.retry_cap_ms = 500;
  if (seed % 8 == 1) setup.limits.cascade = 2;
  if (seed % 8 == 2) setup.limits.purge = 2;
  return setup;
}

std::string replay(const std::vector<Op>& ops, const Opener& opener, const Setup& setup) {
  World world(opener, setup);
  for (const Op& op : ops)
    if (!world.play(op)) return world.failure();
  return world.finish() ? std::string() : world.failure();
}

// Of the tasks at each moment: how many have which status.
struct Shares {
  uint64_t by_status[7] = {}, all = 0;
  void add(const Model& model) {
    const auto counts = model.count();
    for (int status = 1; status <= 6; status++) by_status[status] += counts.by_status[status];
    all += counts.tasks;
  }
};

// Empty when store and model agree; then `ops` is the sequence.
std::string generate(uint64_t seed, const Arguments& arguments, const Opener& opener, const Setup& setup,
                     std::vector<Op>& ops, Shares& shares) {
  World world(opener, setup);
  Generator generator(seed, world);
  ops.clear();
  for (size_t at = 0; at < arguments.operations; at++) {
    ops.push_back(generator.next());
    if (!world.play(ops.back())) return world.failure();
    if (at % 10 == 9) shares.add(world.model());
  }
  return world.finish() ? std::string() : world.failure();
}

// What a failure is about, without the tasks and numbers that differ from list to list.
std::string subject(const std::string& failure) {
  const size_t named = failure.rfind("task ", 0) == 0 ? failure.find(": ") : std::string::npos;
  const size_t from = named == std::string::npos ? 0 : named + 2;
  return failure.substr(from, failure.find_first_of(":0123456789\n", from + 8) - from);
}

void report(std::vector<Op> ops, uint64_t seed, const std::string& failure, const Place& place, const Setup& setup,
            double seconds) {
  std::cout << "seed " << seed << ": " << failure << "\nafter " << ops.size()
            << " operations; made shorter:" << std::endl;
  ops = shrink(
      std::move(ops),
      [&](const std::vector<Op>& some) {
        const std::string why = replay(some, place.opener, setup);
        return !why.empty() && subject(why) == subject(failure);
      },
      seconds);
  const std::string why = replay(ops, place.opener, setup);
  std::ostringstream text;
  std::istringstream lines("seed=" + std::to_string(seed) + "\n" + why);
  for (std::string line; std::getline(lines, line);) text << "# " << line << '\n';
  text << to_text(ops);
  std::ofstream("tasks_model_failure.ops") << text.str();
  std::cout << text.str() << "written to tasks_model_failure.ops; belongs into tests/model/saved" << std::endl;
}

// A saved list says in its first line with which seed its store is set up.
bool replay_file(const std::string& path, const Place& place) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<Op> ops;
  std::string wrong;
  if (!file || !parse(text.str(), ops, wrong)) {
    std::cout << path << ": cannot be read: " << wrong << std::endl;
    return false;
  }
  uint64_t seed = 1;
  if (const size_t at = text.str().find("# seed="); at != std::string::npos)
    seed = std::strtoull(text.str().c_str() + at + 7, nullptr, 10);
  const std::string failure = replay(ops, place.opener, setup_of(seed, place.lasting, Broken::none));
  if (!failure.empty()) std::cout << path << ": " << failure << std::endl;
  return failure.empty();
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// How many sequences it took to notice that the model breaks the rule; 0: it was not noticed.
uint64_t notice(Broken rule, const Arguments& arguments, const Place& place, double seconds) {
  const auto start = Clock::now();
  std::vector<Op> ops;
  Shares shares;
  for (uint64_t at = 0; seconds_since(start) < seconds; at++) {
    const uint64_t seed = arguments.seed + at;
    if (!generate(seed, arguments, place.opener, setup_of(seed, place.lasting, rule), ops, shares).empty())
      return at + 1;
  }
  return 0;
}

int control(const Arguments& arguments, const Place& place) {
  int missed = 0;
  for (const Broken rule : kBroken) {
    const uint64_t sequences = notice(rule, arguments, place, arguments.seconds);
    if (sequences == 0) missed++;
    std::cout << "broken rule " << static_cast<int>(rule) << ": "
              << (sequences == 0 ? "NOT NOTICED" : "noticed in sequence " + std::to_string(sequences)) << std::endl;
  }
  std::cout << (missed == 0 ? "every broken rule was noticed" : "the net has a hole") << std::endl;
  return missed == 0 ? 0 : 1;
}

int search(const Arguments& arguments, const Place& place) {
  const auto start = Clock::now();
  uint64_t sequences = 0;
  std::vector<Op> ops;
  Shares shares;
  for (; sequences < arguments.sequences && seconds_since(start) < arguments.seconds; sequences++) {
    const uint64_t seed = arguments.seed + sequences;
    const Setup setup = setup_of(seed, place.lasting, Broken::none);
    const std::string failure = generate(seed, arguments, place.opener, setup, ops, shares);
    if (failure.empty()) continue;
    report(ops, seed, failure, place, setup, arguments.shrink);
    return 1;
  }
  std::cout << sequences << " sequences of " << arguments.operations << " operations in " << seconds_since(start)
            << " s; of 100 tasks";
  bool balanced = true;
  constexpr uint64_t kEnough = 200;  // sequences to judge the weights by
  constexpr const char* kStatusNames[] = {"", "queued", "running", "suspended", "completed", "failed", "cancelled"};
  for (int status = 1; status <= 6; status++) {
    const uint64_t share = shares.all == 0 ? 0 : shares.by_status[status] * 100 / shares.all;
    balanced &= share <= 60 || sequences < kEnough;
    std::cout << ' ' << share << ' ' << kStatusNames[status];
  }
  std::cout << std::endl;
  if (!balanced) std::cout << "one status holds too many: the weights in generate.cpp are off" << std::endl;
  return balanced ? 0 : 1;
}

bool read_arguments(int count, char** words, Arguments& arguments) {
  for (int at = 1; at < count; at++) {
    const std::string word = words[at];
    const auto value = [&]() -> const char* { return at + 1 < count ? words[++at] : "0"; };
    if (word == "--seed")
      arguments.seed = std::strtoull(value(), nullptr, 0);
    else if (word == "--sequences")
      arguments.sequences = std::strtoull(value(), nullptr, 0);
    else if (word == "--operations")
      arguments.operations = std::strtoull(value(), nullptr, 0);
    else if (word == "--seconds")
      arguments.seconds = std::strtod(value(), nullptr);
    else if (word == "--shrink")
      arguments.shrink = std::strtod(value(), nullptr);
    else if (word == "--control")
      arguments.control = true;
    else if (word == "--saved")
      arguments.saved = value();
    else if (word.rfind("--", 0) == 0)
      return false;
    else if (arguments.url.empty())
      arguments.url = word;
    else
      arguments.replay.push_back(word);
  }
  return !arguments.url.empty();
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  const char* given = std::getenv("NOCTER_SEED");
  arguments.seed = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  if (!read_arguments(count, words, arguments)) {
    std::cout
        << "tasks_model_test URL [--seed N] [--sequences N] [--operations N] [--seconds S] [--shrink S] [--control]"
           " [--saved FOLDER] [FILE.ops...]\n";
    return 2;
  }
  Place place;
  find_place(arguments.url, place);
  std::cout << "NOCTER_SEED=" << arguments.seed << std::endl;
  if (!arguments.saved.empty())
    for (const auto& entry : files::directory_iterator(arguments.saved))
      if (entry.path().extension() == ".ops") arguments.replay.push_back(entry.path().string());
  bool good = true;
  for (const std::string& path : arguments.replay) good &= replay_file(path, place);
  std::cout << arguments.replay.size() << " saved lists" << std::endl;
  if (!good) return 1;
  return arguments.control ? control(arguments, place) : search(arguments, place);
}
