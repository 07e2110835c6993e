// How what a durable task costs depends on what else is in the store: the CPU time of the calling thread for a submit, a claim, a suspend,
// a message and an end, among so many ended, delayed and suspended tasks each; an end in a join over so many children; what a store of
// suspended tasks takes of the process's memory, and how long it takes to be opened again.
//   k_nocter rows STORE FOLDER MOST      STORE: memory, sqlite-normal, sqlite-full
//   k_nocter join STORE FOLDER CHILDREN
//   k_nocter open STORE FOLDER           what `rows` left
#include <nocter.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, nocter_error_message());
  std::_Exit(1);
}
void check(nocter_status status, const char* what) {
  if (status != NOCTER_OK) fail(what);
}

int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

long resident_kib() {
  long pages = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

struct Place {
  std::string store, folder;
  nocter_tasks* open() const {
    nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
    options.flags = store == "sqlite-normal" ? NOCTER_TASKS_NORMAL_SYNC : 0;
    const std::string url = store == "memory" ? "memory:" : "sqlite:" + folder + "/curves.db";
    nocter_tasks* tasks = nullptr;
    check(nocter_tasks_open({url.data(), url.size()}, &options, &tasks), "open");
    return tasks;
  }
  void print(const std::string& workload, const char* metric, double value) const {
    std::printf("K,nocter,%s;store=%s,%s,%.6g\n", workload.c_str(), store.c_str(), metric, value);
    std::fflush(stdout);
  }
};

using Ids = std::vector<nocter_task_id>;

Ids submit(nocter_tasks* tasks, size_t count, const char* type, nocter_task_id parent = {}, int64_t run_after_ms = 0,
           int32_t priority = 0) {
  constexpr size_t kAtOnce = 10'000;
  nocter_submission one = NOCTER_SUBMISSION_INIT;
  one.type = nocter_text_of(type);
  one.parent = parent;
  one.run_after_ms = run_after_ms;
  one.priority = priority;
  const std::vector<nocter_submission> batch(std::min(count, kAtOnce), one);
  Ids ids(count);
  for (size_t done = 0; done < count;) {
    const size_t now = std::min(batch.size(), count - done);
    check(nocter_tasks_submit(tasks, batch.data(), now, &ids[done]), "submit");
    done += now;
  }
  return ids;
}

size_t claim(nocter_tasks* tasks, const char* type, std::vector<nocter_run*>& runs, size_t most) {
  const nocter_text types = nocter_text_of(type);
  size_t count = 0;
  runs.resize(most);
  const nocter_status status =
      nocter_tasks_claim(tasks, &types, 1, static_cast<uint32_t>(most), nullptr, runs.data(), &count);
  if (status != NOCTER_OK && status != NOCTER_EMPTY && status != NOCTER_PENDING) fail("claim");
  runs.resize(count);
  return count;
}

// Sixteen at once, so that they share commits.
void suspend_all(nocter_tasks* tasks, const char* type) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; i++) {
    threads.emplace_back([=] {
      const nocter_suspension until = NOCTER_SUSPENSION_INIT;
      std::vector<nocter_run*> runs;
      while (claim(tasks, type, runs, 200) != 0) {
        for (nocter_run* run : runs) check(nocter_run_suspend(run, &until), "suspend");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void fill(nocter_tasks* tasks, size_t count) {
  const nocter_task_id root = submit(tasks, 1, "old").front();
  submit(tasks, count - 1, "old", root);
  check(nocter_tasks_cancel(tasks, root, nullptr), "cancel");  // ended
  submit(tasks, count, "waiting");
  suspend_all(tasks, "waiting");                                 // suspended
  submit(tasks, count, "work", {}, 4'000'000'000'000LL, 1'000);  // not due, and of a higher priority
}

constexpr const char* kCalls[] = {"submit", "claim", "suspend", "notify", "claim_again", "finish"};

using Blocks = std::map<std::string, std::vector<double>>;  // of each call, nanoseconds of CPU time a task

// So many lives, call by call.
void measure(nocter_tasks* tasks, Blocks& blocks) {
  constexpr size_t kLives = 50;
  std::vector<nocter_run*> runs(kLives), one;
  const nocter_suspension until = NOCTER_SUSPENSION_INIT;
  Ids ids;
  const auto timed = [&](const char* call, auto&& each) {
    const int64_t start = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < kLives; i++) each(i);
    const int64_t end = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    blocks[call].push_back(static_cast<double>(end - start) / kLives);
  };
  const auto claim_one = [&](size_t i) {
    if (claim(tasks, "work", one, 1) != 1) fail("nothing to claim");
    runs[i] = one.front();
  };
  timed("submit", [&](size_t) { ids.push_back(submit(tasks, 1, "work").front()); });
  timed("claim", claim_one);
  timed("suspend", [&](size_t i) { check(nocter_run_suspend(runs[i], &until), "suspend"); });
  timed("notify", [&](size_t i) { check(nocter_tasks_notify(tasks, ids[i], {}, {"1", 1}), "notify"); });
  timed("claim_again", claim_one);
  timed("finish", [&](size_t i) { check(nocter_run_done(runs[i], {"1", 1}), "done"); });
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Block by block in turn with a store of a thousand rows, so that what else the machine does falls on both.
void compare(const Place& place, const std::string& workload, nocter_tasks* tasks, nocter_tasks* small) {
  constexpr size_t kBlocks = 60;
  Blocks here, there;
  for (size_t block = 0; block <= kBlocks; block++) {
    measure(small, there);
    measure(tasks, here);
    if (block == 0) here.clear(), there.clear();  // warms up
  }
  for (const char* call : kCalls) place.print(workload, (std::string(call) + "_cpu_ns").c_str(), median(here[call]));
  for (const char* call : kCalls) {
    std::vector<double> growths;
    for (size_t block = 0; block < kBlocks; block++) growths.push_back(here[call][block] / there[call][block]);
    place.print(workload, (std::string(call) + "_growth").c_str(), median(growths));
  }
}

int rows(const Place& place, const char* self, size_t most) {
  const Place beside{place.store, place.folder + "/small"};
  std::filesystem::create_directories(beside.folder);
  nocter_tasks* small = beside.open();
  fill(small, 1'000);
  nocter_tasks* tasks = place.open();
  const long empty = resident_kib();
  size_t there = 0;
  for (size_t count = 1'000; count <= most; count *= 10) {
    fill(tasks, count - there);
    there = count;
    const std::string workload = "rows=" + std::to_string(count);
    compare(place, workload, tasks, small);
    place.print(workload, "rss_grown_kib", static_cast<double>(resident_kib() - empty));
  }
  nocter_tasks_close(tasks);
  nocter_tasks_close(small);
  if (place.store == "memory") return 0;
  const pid_t child = fork();  // another process: memory that this one has kept does not count
  if (child == 0) execl(self, self, "open", place.store.c_str(), place.folder.c_str(), static_cast<char*>(nullptr));
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

int open_again(const Place& place) {
  const long before = resident_kib();
  const int64_t start = nanoseconds(CLOCK_MONOTONIC);
  nocter_tasks* tasks = place.open();
  const int64_t opened = nanoseconds(CLOCK_MONOTONIC);
  submit(tasks, 1, "work");
  std::vector<nocter_run*> runs;
  if (claim(tasks, "work", runs, 1) != 1) fail("nothing to claim");
  const int64_t claimed = nanoseconds(CLOCK_MONOTONIC);
  check(nocter_run_done(runs.front(), {"1", 1}), "done");
  nocter_tasks_counts counts = {};
  counts.size = sizeof counts;
  check(nocter_tasks_count(tasks, &counts), "count");
  const std::string named = "suspended=" + std::to_string(counts.suspended);
  place.print(named, "open_ms", static_cast<double>(opened - start) / 1e6);
  place.print(named, "open_and_claim_ms", static_cast<double>(claimed - start) / 1e6);
  place.print(named, "rss_grown_kib", static_cast<double>(resident_kib() - before));
  nocter_tasks_close(tasks);
  return 0;
}

int join(const Place& place, size_t children) {
  constexpr size_t kLast = 500;
  nocter_tasks* tasks = place.open();
  const nocter_task_id parent = submit(tasks, 1, "parent").front();
  std::vector<nocter_run*> runs;
  if (claim(tasks, "parent", runs, 1) != 1) fail("no parent");
  submit(tasks, children, "child", parent);
  nocter_suspension until = NOCTER_SUSPENSION_INIT;
  until.until = NOCTER_UNTIL_CHILDREN;
  check(nocter_run_suspend(runs.front(), &until), "suspend");
  const int64_t start = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  int64_t last = 0;
  for (size_t left = children; left != 0;) {
    if (claim(tasks, "child", runs, std::min<size_t>(100, left)) == 0) fail("no child");
    for (nocter_run* run : runs) {
      const int64_t before = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
      check(nocter_run_done(run, {"1", 1}), "done");
      if (--left < kLast) last += nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before;
    }
  }
  const std::string workload = "children=" + std::to_string(children);
  place.print(workload, "child_cpu_ns",
              static_cast<double>(nanoseconds(CLOCK_THREAD_CPUTIME_ID) - start) / static_cast<double>(children));
  place.print(workload, "last_ends_cpu_ns", static_cast<double>(last) / kLast);
  if (claim(tasks, "parent", runs, 1) != 1) fail("the parent did not wake");
  check(nocter_run_done(runs.front(), {"1", 1}), "done");
  nocter_tasks_close(tasks);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (argc < 4) return 2;
  const Place place{argv[2], argv[3]};
  const size_t count = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0;
  if (what == "rows" && count != 0) return rows(place, argv[0], count);
  if (what == "join" && count != 0) return join(place, count);
  return what == "open" ? open_again(place) : 2;
}
