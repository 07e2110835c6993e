// FFI-12: signals. A wait with NOCTER_WAIT_EINTR ends when a handler ran, any other goes on with the deadline it had; threads of
// the library take no signals; a handler may raise an interrupt and read the clock.
#include <dirent.h>
#include <pthread.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

#include "objects.hpp"

namespace {

std::atomic<int> handled{0};
std::atomic<int64_t> handled_at{0};
std::atomic<nocter_interrupt*> to_raise{nullptr};
std::atomic<pthread_t> handled_by{};

void on_signal(int) {
  handled++;
  handled_at = nocter_now_ns();
  handled_by = pthread_self();
  nocter_interrupt_raise(to_raise);
}

void handle(int number, int flags) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  CHECK(sigaction(number, &action, nullptr) == 0);
}

// Every call that may wait, made so that nothing but the wait itself ends it.
struct Waits {
  nocter_blocking* idle = service();
  nocter_blocking* busy = service();
  nocter_blocking* shut = service();
  nocter_job_id running = submit(busy);
  nocter_completion* completion = begin(claim(busy));
  nocter_completion* last;
  nocter_workers* workers;
  nocter_signal* signal = nullptr;
  static std::atomic<bool> release;

  Waits() {
    submit(shut);
    last = begin(claim(shut));
    CHECK_STATUS(nocter_blocking_shutdown(shut, nullptr, nullptr), NOCTER_OK);
    CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
    release = false;
    workers = serve(
        idle,
        [](void*, nocter_owned*, nocter_owned*, nocter_completion*) {
          while (!release) usleep(1'000);
        },
        nullptr, 1);
    submit(idle);
    eventually([&] { return counts(idle).running == 1; });
  }
  ~Waits() {
    release = true;
    nocter_completion_drop(completion);
    nocter_completion_drop(last);
    nocter_workers_destroy(workers);
    nocter_blocking_destroy(idle);
    nocter_blocking_destroy(busy);
    nocter_blocking_destroy(shut);
    nocter_signal_destroy(signal);
  }
  static constexpr int kCount = 6;
  nocter_status wait(int which, const nocter_wait& wait) const {
    nocter_running_job* job;
    nocter_owned output;
    nocter_epoch epoch;
    uint64_t version;
    switch (which) {
      case 0:
        return nocter_blocking_claim(busy, &wait, &job);
      case 1:
        return nocter_blocking_take(busy, running, &wait, &output);
      case 2:
        CHECK_STATUS(nocter_blocking_epoch(busy, &epoch), NOCTER_OK);
        return nocter_blocking_wait_epoch(busy, epoch, &wait, &epoch);
      case 3:
        return nocter_blocking_drained(shut, &wait);
      case 4:
        return nocter_signal_wait(signal, nocter_signal_version(signal), &wait, &version);
      default:
        // Asked to stop, but what runs is left to end by itself.
        return nocter_workers_stop(workers, &wait);
    }
  }
};
std::atomic<bool> Waits::release;

// Sends this thread a signal after a while, and again until it is over: on a busy machine the first one may come before the wait does.
class Later {
 public:
  explicit Later(int number, int after_ms = 60, int times = 100)
      : thread_([number, after_ms, times, to = pthread_self(), &stop = stop_] {
          for (int i = 0; i < times && !stop; i++) {
            usleep(static_cast<useconds_t>(after_ms) * 1'000);
            pthread_kill(to, number);
          }
        }) {}
  ~Later() {
    stop_ = true;
    thread_.join();
  }
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

int64_t milliseconds_since(int64_t start_ns) { return (nocter_now_ns() - start_ns) / 1'000'000; }

}  // namespace

CASE(ffi_12_eintr_flag_ends_each_wait, "FFI-12") {
  handle(SIGUSR1, 0);
  const Waits waits;
  for (int which = 0; which < Waits::kCount; which++) {
    nocter_wait wait = within(5'000);
    wait.flags = NOCTER_WAIT_EINTR;
    const int64_t start = nocter_now_ns();
    const int before = handled;
    const Later later(SIGUSR1);
    CHECK_STATUS(waits.wait(which, wait), NOCTER_INTERRUPTED);
    CHECK(handled > before);
    CHECK(milliseconds_since(start) >= 50 && milliseconds_since(start) < 3'000);
  }
}

CASE(ffi_12_eintr_flag_and_a_restarting_handler, "FFI-12") {
  handle(SIGUSR1, SA_RESTART);
  const Waits waits;
  for (int which = 0; which < Waits::kCount; which++) {
    nocter_wait wait = within(5'000);
    wait.flags = NOCTER_WAIT_EINTR;
    const int before = handled;
    const Later later(SIGUSR1);
    CHECK_STATUS(waits.wait(which, wait), NOCTER_INTERRUPTED);
    CHECK(handled > before);
  }
}

CASE(ffi_12_eintr_flag_and_an_interrupt, "FFI-12") {
  handle(SIGUSR1, 0);
  handle(SIGUSR2, SA_RESTART);
  const Waits waits;
  nocter_interrupt* interrupt;
  CHECK_STATUS(nocter_interrupt_create(&interrupt), NOCTER_OK);
  for (int which = 0; which < Waits::kCount; which++) {
    nocter_wait wait = within(5'000);
    wait.flags = NOCTER_WAIT_EINTR;
    wait.interrupt = interrupt;
    {
      const Later later(SIGUSR1);
      CHECK_STATUS(waits.wait(which, wait), NOCTER_INTERRUPTED);
    }
    // As the header says: with both, a handler that restarts does not end the wait.
    wait.deadline_ns = within(200).deadline_ns;
    const int before = handled;
    const Later later(SIGUSR2, 60, 1);
    CHECK_STATUS(waits.wait(which, wait), NOCTER_TIMEOUT);
    eventually([&] { return handled == before + 1; });
  }
  nocter_interrupt_destroy(interrupt);
}

CASE(ffi_12_without_the_flag_the_wait_goes_on, "FFI-12 S-8") {
  handle(SIGUSR1, 0);
  handle(SIGUSR2, SA_RESTART);
  const Waits waits;
  for (int which = 0; which < Waits::kCount; which++) {
    const int before = handled;
    const int64_t start = nocter_now_ns();
    const nocter_wait wait = within(250);
    const Later later(which % 2 == 0 ? SIGUSR1 : SIGUSR2, 20, 8);
    CHECK_STATUS(waits.wait(which, wait), NOCTER_TIMEOUT);
    // The same deadline, however many signals came: neither earlier nor later.
    CHECK(nocter_now_ns() >= wait.deadline_ns);
    CHECK(milliseconds_since(start) < 2'000);
    CHECK(handled - before >= 5);
  }
}

CASE(ffi_12_a_handler_raises_an_interrupt, "FFI-12") {
  if (kThreadSanitizer)
    skip("ThreadSanitizer holds a signal back until the next call that it intercepts, which is after the wait");
  handle(SIGINT, SA_RESTART);
  const Waits waits;
  nocter_interrupt* interrupt;
  CHECK_STATUS(nocter_interrupt_create(&interrupt), NOCTER_OK);
  to_raise = interrupt;
  for (int which = 0; which < Waits::kCount; which++) {
    nocter_wait wait = within(5'000);
    wait.interrupt = interrupt;
    const int64_t start = nocter_now_ns();
    {
      const Later later(SIGINT);
      CHECK_STATUS(waits.wait(which, wait), NOCTER_INTERRUPTED);
    }
    CHECK(milliseconds_since(start) < 3'000);
    CHECK(handled_at >= start);
    CHECK(nocter_interrupt_raised(interrupt));
    // It stays raised: the next wait that carries it ends at once.
    CHECK_STATUS(waits.wait(which, wait), NOCTER_INTERRUPTED);
    nocter_interrupt_clear(interrupt);
    wait.deadline_ns = 1;
    CHECK_STATUS(waits.wait(which, wait), NOCTER_TIMEOUT);
  }
  to_raise = nullptr;
  nocter_interrupt_destroy(interrupt);
}

// Raised from a handler that interrupts the library itself at any instruction, thousands of times.
CASE(ffi_12_a_storm_of_raises, "FFI-12") {
  handle(SIGPROF, SA_RESTART);
  nocter_interrupt* interrupt;
  CHECK_STATUS(nocter_interrupt_create(&interrupt), NOCTER_OK);
  to_raise = interrupt;
  nocter_blocking* const of = service(8, 4);
  std::atomic<bool> stop{false};
  const pthread_t worker = pthread_self();
  std::thread sender([&] {
    while (!stop) {
      pthread_kill(worker, SIGPROF);
      usleep(100);
    }
  });
  const int64_t end = nocter_now_ns() + 1'000'000'000;
  long rounds = 0;
  while (nocter_now_ns() < end) {
    nocter_wait wait = within(1);
    wait.interrupt = interrupt;
    nocter_running_job* none = nullptr;
    const nocter_status status = nocter_blocking_claim(of, &wait, &none);
    CHECK(status == NOCTER_INTERRUPTED || status == NOCTER_TIMEOUT);
    nocter_interrupt_clear(interrupt);
    one_job(of);
    rounds++;
  }
  stop = true;
  sender.join();
  CHECK(rounds > 0 && handled > 100);
  to_raise = nullptr;
  nocter_blocking_destroy(of);
  nocter_interrupt_destroy(interrupt);
  check_all_dropped();
}

CASE(ffi_12_threads_of_ours_block_every_signal, "FFI-12") {
  const Waits waits;
  const std::string own = std::to_string(getpid());
  int others = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] == '.' || task->d_name == own) continue;
    std::ifstream status(std::string("/proc/self/task/") + task->d_name + "/status");
    std::string line, name;
    while (std::getline(status, line)) {
      if (line.rfind("Name:", 0) == 0) name = line.substr(6);
      if (line.rfind("SigBlk:", 0) != 0 || name != "nocter") continue;
      others++;
      // All but SIGKILL and SIGSTOP, which cannot be blocked, and the two that the C library keeps for itself.
      const uint64_t blocked = std::stoull(line.substr(8), nullptr, 16);
      for (int number = 1; number < SIGRTMIN; number++) {
        if (number == SIGKILL || number == SIGSTOP || (number >= 32 && number < SIGRTMIN)) continue;
        CHECK((blocked >> (number - 1) & 1) == 1);
      }
    }
  }
  closedir(tasks);
  CHECK(others == 1);
}

CASE(ffi_12_a_signal_of_the_process_reaches_the_host, "FFI-12") {
  handle(SIGUSR1, 0);
  nocter_blocking* const of = service(64, 8);
  nocter_workers* const workers = serve(of, run_nothing, nullptr, 8);
  // The caller's own mask is left as it was.
  sigset_t mask;
  CHECK(pthread_sigmask(SIG_SETMASK, nullptr, &mask) == 0);
  for (int number = 1; number < 32; number++) CHECK(sigismember(&mask, number) == 0);
  for (int i = 1; i <= 50; i++) {
    kill(getpid(), SIGUSR1);
    eventually([&] { return handled == i; });
    CHECK(pthread_equal(handled_by, pthread_self()));
  }
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
}

CASE(ffi_12_order_of_several_ends, "FFI-12 S-9 S-14") {
  nocter_signal* signal;
  nocter_interrupt* interrupt;
  uint64_t version;
  CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
  CHECK_STATUS(nocter_interrupt_create(&interrupt), NOCTER_OK);
  nocter_wait wait = {1, interrupt, NOCTER_WAIT_EINTR, 0};  // long past
  const uint64_t seen = nocter_signal_version(signal);
  CHECK_STATUS(nocter_signal_wait(signal, seen, &wait, &version), NOCTER_TIMEOUT);
  nocter_interrupt_raise(interrupt);
  CHECK_STATUS(nocter_signal_wait(signal, seen, &wait, &version), NOCTER_INTERRUPTED);
  CHECK_STATUS(nocter_signal_publish(signal, nullptr), NOCTER_OK);
  CHECK_STATUS(nocter_signal_wait(signal, seen, &wait, &version), NOCTER_OK);
  CHECK(version != seen);
  nocter_signal_close(signal);
  CHECK_STATUS(nocter_signal_wait(signal, seen, &wait, &version), NOCTER_CLOSED);
  nocter_signal_destroy(signal);
  nocter_interrupt_destroy(interrupt);
}
