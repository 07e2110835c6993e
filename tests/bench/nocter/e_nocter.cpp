// nocter in benchmark E, over the C interface: durable tasks on SQLite.
//   PROGRAM full|normal MODE N [BATCH]; BENCH_DIR names the folder for the file. Modes as in e/sqlite_limit.c, where
//   *-batch and *-fused mean BATCH callers at once, each with one task at a time: grouping them is nocter's work. cycle-callers is the
//   whole life of a task (submit, claim, done) by BATCH callers, each of which waits for every step of it.
#include <nocter.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "../peers/common/bench.h"
}

namespace {

void need(nocter_status status, const char* what) {
  if (status == NOCTER_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, nocter_status_name(status), nocter_error_message());
  exit(3);
}

const nocter_text kType = nocter_text_of("bench");
nocter_tasks* tasks = nullptr;

void submit(uint64_t number) {
  char payload[256];
  const int size = snprintf(payload, sizeof payload,
                            "{\"n\":%" PRIu64 ",\"t\":%" PRIu64
                            ",\"text\":\"sixty-four bytes of text that stand for the arguments of one task\"}",
                            number, now_ns());
  nocter_submission submission = NOCTER_SUBMISSION_INIT;
  submission.type = kType;
  submission.payload = {payload, static_cast<size_t>(size)};
  need(nocter_tasks_submit(tasks, &submission, 1, nullptr), "submit");
}

// False when there is nothing left.
bool work_one(samples* latencies = nullptr, const nocter_wait* wait = nullptr) {
  nocter_run* run = nullptr;
  size_t count = 0;
  const nocter_status status = nocter_tasks_claim(tasks, &kType, 1, 1, wait, &run, &count);
  if (status == NOCTER_EMPTY) return false;
  need(status, "claim");
  if (latencies != nullptr) {
    const uint64_t now = now_ns();
    const nocter_text payload = nocter_run_task(run)->payload;
    samples_add(latencies,
                now - strtoull(strstr(std::string(payload.data, payload.size).c_str(), "\"t\":") + 4, nullptr, 10));
  }
  need(nocter_run_done(run, nocter_text{nullptr, 0}), "done");
  return true;
}

// Calls each(number) for 0 to n from so many threads at once; it says when to stop early.
template <class Each>
void callers(uint64_t threads, uint64_t n, Each&& each) {
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> all;
  for (uint64_t i = 0; i < threads; i++) {
    all.emplace_back([&] {
      for (uint64_t number = next++; number < n && each(number); number = next++) {
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

void load(uint64_t n) {
  std::vector<nocter_submission> batch;
  const char* payload =
      "{\"n\":0,\"t\":0,\"text\":\"sixty-four bytes of text that stand for the arguments of one task\"}";
  for (uint64_t done = 0; done < n; done += batch.size()) {
    nocter_submission submission = NOCTER_SUBMISSION_INIT;
    submission.type = kType;
    submission.payload = nocter_text_of(payload);
    batch.assign(n - done < 1000 ? n - done : 1000, submission);
    need(nocter_tasks_submit(tasks, batch.data(), batch.size(), nullptr), "load");
  }
}

nocter_tasks_counts count() {
  nocter_tasks_counts counts = NOCTER_TASKS_COUNTS_INIT;
  need(nocter_tasks_count(tasks, &counts), "count");
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string sync = argc > 1 ? argv[1] : "full", mode = argc > 2 ? argv[2] : "enqueue-single";
  const uint64_t n = argc > 3 ? strtoull(argv[3], nullptr, 10) : 10000;
  const uint64_t batch = argc > 4 ? strtoull(argv[4], nullptr, 10) : 1;
  const char* folder = getenv("BENCH_DIR");
  const std::string path = std::string(folder != nullptr ? folder : ".") + "/nocter.db";
  for (const char* suffix : {"", "-wal", "-shm"}) unlink((path + suffix).c_str());
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  if (sync == "normal") options.flags = NOCTER_TASKS_NORMAL_SYNC;
  need(nocter_tasks_open(nocter_text_of(("sqlite:" + path).c_str()), &options, &tasks), "open");
  char workload[160];
  snprintf(workload, sizeof workload, "%s;n=%" PRIu64 ";batch=%" PRIu64 ";sync=%s", mode.c_str(), n, batch,
           sync.c_str());
  const bool grouped = mode.find("-single") == std::string::npos;
  // A thousand threads would measure the scheduler.
  const uint64_t threads = grouped ? (batch < 64 ? batch : 64) : 1;

  if (mode == "latency") {
    samples latencies;
    samples_init(&latencies, n);
    std::thread worker([&] {
      const nocter_wait forever = {NOCTER_FOREVER, nullptr, 0, 0};
      while (latencies.n < n) work_one(&latencies, &forever);
    });
    for (uint64_t i = 0; i < n; i++) {
      usleep(5000 + static_cast<unsigned>(mix64(i) % 10000));
      submit(i);
    }
    worker.join();
    emit("E", "nocter", workload, "p50_us", static_cast<double>(samples_pct(&latencies, 50)) / 1e3);
    emit("E", "nocter", workload, "p99_us", static_cast<double>(samples_pct(&latencies, 99)) / 1e3);
    return 0;
  }

  if (mode.rfind("process", 0) == 0) load(n);
  const uint64_t start = now_ns(), cpu = cpu_ns();
  if (mode.rfind("enqueue", 0) == 0) {
    callers(threads, n, [](uint64_t i) { return submit(i), true; });
  } else if (mode.rfind("process", 0) == 0) {
    callers(threads, n, [](uint64_t) { return work_one(); });
  } else if (mode.rfind("cycle", 0) == 0) {
    callers(threads, n, [](uint64_t i) {
      submit(i);
      while (!work_one()) {
      }
      return true;
    });
  } else {
    return 2;
  }
  const uint64_t end = now_ns();
  const nocter_tasks_counts counts = count();
  if (counts.queued + counts.completed != n || (mode[0] == 'e' ? counts.queued : counts.completed) != n) fail("count");
  emit("E", "nocter", workload, "tasks_per_s", static_cast<double>(n) * 1e9 / static_cast<double>(end - start));
  emit("E", "nocter", workload, "cpu_us_per_task", static_cast<double>(cpu_ns() - cpu) / 1e3 / static_cast<double>(n));
  nocter_tasks_close(tasks);
  return 0;
}
