// FFI-11: the child after a fork. Every call on a handle of the parent's says NOCTER_E_FORKED, giving one up does nothing, new
// ones work; it does not matter where the fork happened or which locks were busy. (The multiprocess half, stores, comes with them.)
#include <fcntl.h>
#include <poll.h>

#include <csignal>
#include <cstring>

#include "objects.hpp"

namespace {

constexpr nocter_job_id kNoJob = {0, 0};

// Everything a parent may own.
struct Everything {
  nocter_blocking* service = ::service();
  nocter_blocking* served = ::service();
  nocter_workers* workers = serve(served, run_nothing, nullptr, 2);
  nocter_running_job* job;
  nocter_completion* completion;
  nocter_job_id completed;
  nocter_signal* signal = nullptr;
  nocter_interrupt* interrupt = nullptr;
  nocter_eventfd* eventfd = nullptr;

  Everything() {
    completed = submit(service);
    complete(begin(claim(service)));
    submit(service);
    job = claim(service);
    submit(service);
    completion = begin(claim(service));
    submit(service);
    CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
    CHECK_STATUS(nocter_interrupt_create(&interrupt), NOCTER_OK);
    CHECK_STATUS(nocter_eventfd_create(&eventfd), NOCTER_OK);
  }
  void give_up() const {
    nocter_running_job_drop(job);
    nocter_completion_drop(completion);
    nocter_workers_destroy(workers);
    nocter_blocking_destroy(service);
    nocter_blocking_destroy(served);
    nocter_signal_destroy(signal);
    nocter_interrupt_destroy(interrupt);
    nocter_eventfd_destroy(eventfd);
  }
};

// In the child. Returns 0, or leaves by a failed CHECK.
int everything_says_forked(const Everything& of) {
  nocter_owned value = {&value, nullptr}, output;
  const nocter_owned before = value;
  nocter_job_id id;
  nocter_epoch epoch = {0, 0};
  nocter_job_state state;
  size_t count;
  nocter_running_job* job;
  nocter_completion* completion;
  nocter_workers* workers;
  nocter_blocking_counts snapshot = NOCTER_BLOCKING_COUNTS_INIT;
  uint64_t version;
  nocter_wait forever = within(-1);
  CHECK_STATUS(nocter_blocking_submit(of.service, &value, &id, &epoch), NOCTER_E_FORKED);
  CHECK(std::memcmp(&value, &before, sizeof value) == 0);
  CHECK_STATUS(nocter_blocking_claim(of.service, &forever, &job), NOCTER_E_FORKED);
  CHECK(job == nullptr);
  CHECK_STATUS(nocter_blocking_take(of.service, of.completed, &forever, &output), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_query(of.service, of.completed, &state), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_completed(of.service, &id, 1, &count), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_cancel(of.service, of.completed, &state, &output), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_epoch(of.service, &epoch), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_wait_epoch(of.service, epoch, &forever, &epoch), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_shutdown(of.service, nullptr, nullptr), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_drained(of.service, &forever), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_count(of.service, &snapshot), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_blocking_serve(of.service, run_nothing, nullptr, nullptr, &workers), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_running_job_begin(of.job, &output, &completion), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_completion_complete(of.completion, &value), NOCTER_E_FORKED);
  CHECK(std::memcmp(&value, &before, sizeof value) == 0);
  CHECK(nocter_job_id_equal(nocter_running_job_id(of.job), kNoJob));
  CHECK(nocter_job_id_equal(nocter_completion_id(of.completion), kNoJob));
  CHECK(!nocter_completion_abandoned(of.completion));
  CHECK(nocter_completion_interrupt(of.completion) == nullptr);
  CHECK_STATUS(nocter_workers_stop(of.workers, &forever), NOCTER_E_FORKED);
  CHECK(nocter_signal_version(of.signal) == 0);
  CHECK_STATUS(nocter_signal_publish(of.signal, &version), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_signal_wait(of.signal, 1, &forever, &version), NOCTER_E_FORKED);
  CHECK(nocter_signal_notifier(of.signal).wake == nullptr);
  nocter_signal_close(of.signal);
  nocter_interrupt_raise(of.interrupt);
  CHECK(!nocter_interrupt_raised(of.interrupt));
  CHECK(nocter_eventfd_fd(of.eventfd) == -1);
  nocter_eventfd_clear(of.eventfd);
  CHECK(nocter_eventfd_notifier(of.eventfd).wake == nullptr);
  CHECK(std::strlen(nocter_error_message()) >= 8);
  return 0;
}

int new_handles_work() {
  nocter_blocking* const mine = service();
  one_job(mine);
  nocter_workers* const workers = serve(mine, run_nothing, nullptr, 2);
  const nocter_wait wait = within(5'000);
  for (int i = 0; i < 20; i++) CHECK_STATUS(take(mine, submit(mine), &wait), NOCTER_OK);
  CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(mine);
  nocter_signal* signal;
  CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
  uint64_t version = nocter_signal_version(signal);
  CHECK_STATUS(nocter_signal_publish(signal, nullptr), NOCTER_OK);
  CHECK_STATUS(nocter_signal_wait(signal, version, &wait, &version), NOCTER_OK);
  nocter_signal_destroy(signal);
  nocter_eventfd* eventfd;
  CHECK_STATUS(nocter_eventfd_create(&eventfd), NOCTER_OK);
  const nocter_notifier notifier = nocter_eventfd_notifier(eventfd);
  notifier.wake(notifier.user);
  pollfd readable = {nocter_eventfd_fd(eventfd), POLLIN, 0};
  CHECK(poll(&readable, 1, 0) == 1);
  notifier.drop(notifier.user);
  nocter_eventfd_destroy(eventfd);
  return 0;
}

}  // namespace

CASE(ffi_11_every_call_says_forked, "FFI-11") {
  const Everything all;
  CHECK(in_child([&] { return everything_says_forked(all); }) == 0);
  all.give_up();
  check_all_dropped();
}

CASE(ffi_11_giving_up_in_the_child_does_nothing, "FFI-11") {
  const Everything all;
  const int dropped = payloads.dropped;
  CHECK(in_child([&] {
          all.give_up();
          all.give_up();
          CHECK(payloads.dropped == dropped);
          return everything_says_forked(all);  // still FORKED: they were not ended
        }) == 0);
  CHECK(counts(all.service).admitted == 4);
  CHECK_STATUS(take(all.service, all.completed), NOCTER_OK);
  all.give_up();
  check_all_dropped();
}

CASE(ffi_11_new_handles_work_in_the_child, "FFI-11") {
  const Everything all;
  CHECK(in_child([&] {
          new_handles_work();
          return everything_says_forked(all);
        }) == 0);
  CHECK_STATUS(nocter_blocking_drained(all.service, nullptr), NOCTER_E_STATE);
  all.give_up();
  check_all_dropped();
}

CASE(ffi_11_grandchild, "FFI-11") {
  const Everything all;
  CHECK(in_child([&] {
          const Everything of_child;
          const int below = in_child([&] {
            everything_says_forked(all);
            everything_says_forked(of_child);
            return new_handles_work();
          });
          CHECK(below == 0);
          CHECK(counts(of_child.service).admitted == 4);
          of_child.give_up();
          return 0;
        }) == 0);
  all.give_up();
}

CASE(ffi_11_descriptors_are_close_on_exec, "FFI-11") {
  const std::vector<int> before = descriptors();
  const Everything all;
  const std::vector<int> after = descriptors();
  CHECK(after.size() == before.size() + 1);  // the eventfd, and nothing else is open
  for (const int descriptor : after) {
    bool is_old = false;
    for (const int old : before) is_old = is_old || old == descriptor;
    if (is_old) continue;
    CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0);
  }
  all.give_up();
  CHECK(descriptors() == before);
}

// The child inherits a duplicate of the parent's eventfd and must not make it readable.
CASE(ffi_11_a_notifier_of_the_parent_is_silent_in_the_child, "FFI-11") {
  nocter_eventfd* eventfd;
  CHECK_STATUS(nocter_eventfd_create(&eventfd), NOCTER_OK);
  const nocter_notifier notifier = nocter_eventfd_notifier(eventfd);
  CHECK(in_child([&] {
          notifier.wake(notifier.user);
          notifier.drop(notifier.user);
          return 0;
        }) == 0);
  pollfd readable = {nocter_eventfd_fd(eventfd), POLLIN, 0};
  CHECK(poll(&readable, 1, 0) == 0);
  notifier.wake(notifier.user);
  CHECK(poll(&readable, 1, 0) == 1);
  notifier.drop(notifier.user);
  nocter_eventfd_destroy(eventfd);
}

// ---- From inside callbacks ----------------------------------------------------------------------------------------------

namespace {
const Everything* everything_of_parent;
std::atomic<int> forks_done{0};

void fork_here(void*) {
  CHECK(in_child([] {
          everything_says_forked(*everything_of_parent);
          return new_handles_work();
        }) == 0);
  forks_done++;
}
}  // namespace

CASE(ffi_11_fork_inside_a_wake, "FFI-11") {
  const Everything all;
  everything_of_parent = &all;
  nocter_blocking* const of = service(8, 4, {fork_here, nullptr, nullptr}, {fork_here, nullptr, nullptr});
  for (int i = 0; i < 5; i++) {
    nocter_running_job* none;
    CHECK_STATUS(nocter_blocking_claim(of, nullptr, &none), NOCTER_EMPTY);
    one_job(of);
  }
  CHECK(forks_done >= 10);
  nocter_blocking_destroy(of);
  all.give_up();
  check_all_dropped();
}

CASE(ffi_11_fork_inside_a_served_function, "FFI-11") {
  const Everything all;
  everything_of_parent = &all;
  nocter_blocking* const of = service(8, 2);
  const auto run = [](void*, nocter_owned*, nocter_owned*, nocter_completion* completion) {
    CHECK(in_child([&] {
            nocter_completion_drop(completion);
            return 0;
          }) == 0);
    fork_here(nullptr);
  };
  nocter_workers* const workers = serve(of, run, nullptr, 2);
  const nocter_wait wait = within(5'000);
  for (int i = 0; i < 5; i++) CHECK_STATUS(take(of, submit(of), &wait), NOCTER_OK);
  CHECK(forks_done == 5);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  all.give_up();
  check_all_dropped();
}

CASE(ffi_11_fork_inside_drops_and_sinks, "FFI-11") {
  const Everything all;
  everything_of_parent = &all;
  nocter_blocking* const of = service(8, 4, {nullptr, fork_here, nullptr});
  for (int i = 0; i < 3; i++) {
    nocter_owned input = {nullptr, fork_here};
    nocter_job_id id;
    nocter_epoch epoch;
    nocter_job_state was;
    CHECK_STATUS(nocter_blocking_submit(of, &input, &id, &epoch), NOCTER_OK);
    CHECK_STATUS(nocter_blocking_cancel(of, id, &was, nullptr), NOCTER_OK);
    submit(of);
  }
  const auto sink = [](void*, nocter_job_state, nocter_owned*) { fork_here(nullptr); };
  CHECK_STATUS(nocter_blocking_shutdown(of, sink, nullptr), NOCTER_OK);
  nocter_blocking_destroy(of);
  CHECK(forks_done == 3 + 3 + 1);
  all.give_up();
  check_all_dropped();
}

// A child made inside a wake returns through it: what the parent was doing goes no further there.
CASE(ffi_11_the_child_returns_from_the_wake, "FFI-11") {
  static pid_t child;
  child = -1;
  nocter_blocking* const of = service(8, 4,
                                      {[](void*) {
                                         if (child == -1) child = fork();
                                       },
                                       nullptr, nullptr});
  submit(of);
  nocter_completion* const completion = begin(claim(of));
  complete(completion);
  if (child == 0) {
    nocter_epoch epoch;
    CHECK_STATUS(nocter_blocking_epoch(of, &epoch), NOCTER_E_FORKED);
    nocter_blocking_destroy(of);
    new_handles_work();
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(counts(of).completed == 1);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

// ---- Under load ---------------------------------------------------------------------------------------------------------

namespace {

// Forks again and again while two threads do `load` over and over.
void fork_under_load(const std::function<void()>& load) {
  const Everything all;
  std::atomic<bool> stop{false};
  std::atomic<long> turns{0};
  const auto repeat = [&] {
    for (; !stop; turns++) {
      load();
      if (turns % 8 == 0) usleep(50);  // or the C library's own locks of malloc keep fork() waiting
    }
  };
  std::thread first(repeat), second(repeat);
  // A fork copies the page tables of all the shadow memory of a sanitizer: there, as many as fit into four seconds.
  const int64_t end = nocter_now_ns() + 4'000'000'000;
  for (int round = 0; round < 250; round++) {
    if (kSanitized && round >= 10 && nocter_now_ns() > end) break;
    CHECK(in_child([&] {
            alarm(5);
            everything_says_forked(all);
            // Not under AddressSanitizer 12: its registry of threads may have been locked when the fork was made.
            if (!kAddressSanitizer && round % 4 == 0) new_handles_work();
            nocter_blocking* const mine = service();
            one_job(mine);
            nocter_blocking_destroy(mine);
            all.give_up();
            return 0;
          }) == 0);
  }
  stop = true;
  first.join();
  second.join();
  CHECK(turns > 0);
  all.give_up();
}

}  // namespace

// The locks of a service and of its sleepers are busy at every fork.
CASE(ffi_11_hundreds_of_forks_while_jobs_run, "FFI-11") {
  nocter_blocking* const of = service(32, 8);
  const auto run = [](void*, nocter_owned*, nocter_owned* output, nocter_completion*) { *output = payload(); };
  nocter_workers* const workers = serve(of, run, nullptr, 2);
  fork_under_load([of] {
    const nocter_wait wait = within(-1);
    CHECK(take(of, submit(of), &wait) == NOCTER_OK);
  });
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

// The locks of the pools that handles come from, and of a signal.
CASE(ffi_11_hundreds_of_forks_while_handles_come_and_go, "FFI-11") {
  fork_under_load([] {
    nocter_blocking_destroy(service(2, 1));
    nocter_interrupt* interrupt;
    nocter_signal* signal;
    CHECK(nocter_interrupt_create(&interrupt) == NOCTER_OK && nocter_signal_create(&signal) == NOCTER_OK);
    const nocter_notifier notifier = nocter_signal_notifier(signal);
    notifier.wake(notifier.user);
    notifier.drop(notifier.user);
    nocter_signal_destroy(signal);
    nocter_interrupt_destroy(interrupt);
  });
  check_all_dropped();
}

// Waits of other threads are untouched by a fork, and by the end of the child.
CASE(ffi_11_waits_of_the_parent_go_on, "FFI-11") {
  const Everything all;
  const uint64_t seen = nocter_signal_version(all.signal);
  std::atomic<int> returned{0};
  std::thread waiter([&] {
    uint64_t version;
    const nocter_wait wait = within(5'000);
    CHECK_STATUS(nocter_signal_wait(all.signal, seen, &wait, &version), NOCTER_OK);
    returned++;
  });
  usleep(20'000);
  for (int i = 0; i < 10; i++) {
    CHECK(in_child([&] {
            nocter_signal_close(all.signal);
            nocter_signal_destroy(all.signal);
            return 0;
          }) == 0);
  }
  CHECK(returned == 0);
  CHECK_STATUS(nocter_signal_publish(all.signal, nullptr), NOCTER_OK);
  waiter.join();
  all.give_up();
}
