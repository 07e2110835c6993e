// FFI-18, FFI-20, RSC-02: small stacks, numbers near their maxima, and a system that refuses memory, threads or descriptors.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "objects.hpp"

void call_everything_keyed();     // keyed_cases.cpp
void call_everything_of_tasks();  // tasks_cases.cpp

namespace {

// Every call of the library at least once, failing ones among them.
void call_everything() {
  nocter_signal* signal;
  nocter_interrupt* interrupt;
  nocter_eventfd* eventfd;
  uint64_t version;
  nocter_epoch epoch;
  CHECK(nocter_status_name(NOCTER_E_ARGUMENT) != nullptr && nocter_version() != nullptr);
  CHECK(nocter_version_number() == NOCTER_VERSION_NUMBER && nocter_text_of("text").size == 4);
  CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
  CHECK_STATUS(nocter_interrupt_create(&interrupt), NOCTER_OK);
  CHECK_STATUS(nocter_eventfd_create(&eventfd), NOCTER_OK);
  nocter_wait wait = within(1);
  wait.interrupt = interrupt;
  CHECK_STATUS(nocter_signal_wait(signal, nocter_signal_version(signal), &wait, &version), NOCTER_TIMEOUT);
  nocter_interrupt_raise(interrupt);
  CHECK(nocter_interrupt_raised(interrupt));
  CHECK_STATUS(nocter_signal_wait(signal, version, &wait, &version), NOCTER_INTERRUPTED);
  nocter_interrupt_clear(interrupt);
  CHECK_STATUS(nocter_signal_publish(signal, &version), NOCTER_OK);
  nocter_blocking* const of = service(8, 4, nocter_signal_notifier(signal), nocter_eventfd_notifier(eventfd));
  one_job(of);
  CHECK(nocter_eventfd_fd(eventfd) >= 0);
  nocter_eventfd_clear(eventfd);
  nocter_workers* const workers = serve(of, run_nothing, nullptr, 2);
  const nocter_wait long_wait = within(5'000);
  CHECK_STATUS(take(of, submit(of), &long_wait), NOCTER_OK);
  CHECK_STATUS(nocter_workers_stop(workers, &long_wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_job_state state;
  nocter_job_id ids[4];
  size_t count;
  const nocter_job_id id = submit(of);
  CHECK_STATUS(nocter_blocking_query(of, id, &state), NOCTER_OK);
  CHECK_STATUS(nocter_blocking_query(of, {1, 1}, &state), NOCTER_E_FOREIGN);
  CHECK(*nocter_error_message() != '\0');
  nocter_running_job* const job = claim(of);
  CHECK(nocter_job_id_equal(nocter_running_job_id(job), id));
  nocter_completion* const completion = begin(job);
  CHECK(nocter_job_id_equal(nocter_completion_id(completion), id) && !nocter_completion_abandoned(completion));
  CHECK(nocter_completion_interrupt(completion) != nullptr);
  complete(completion);
  CHECK_STATUS(nocter_blocking_completed(of, ids, 4, &count), NOCTER_OK);
  CHECK_STATUS(nocter_blocking_cancel(of, id, &state, nullptr), NOCTER_OK);
  CHECK_STATUS(nocter_blocking_epoch(of, &epoch), NOCTER_OK);
  wait = within(1);
  CHECK_STATUS(nocter_blocking_wait_epoch(of, epoch, &wait, &epoch), NOCTER_TIMEOUT);
  CHECK(nocter_epoch_equal(epoch, epoch) && counts(of).admitted == 0);
  submit(of);
  nocter_running_job_drop(claim(of));
  submit(of);
  nocter_completion_drop(begin(claim(of)));
  submit(of);
  const auto sink = [](void*, nocter_job_state, nocter_owned*) {};
  CHECK_STATUS(nocter_blocking_shutdown(of, sink, nullptr), NOCTER_OK);
  CHECK_STATUS(nocter_blocking_drained(of, &long_wait), NOCTER_OK);
  nocter_blocking_destroy(of);
  nocter_signal_close(signal);
  nocter_signal_destroy(signal);
  nocter_eventfd_destroy(eventfd);
  nocter_interrupt_destroy(interrupt);
  call_everything_keyed();
  call_everything_of_tasks();
}

// Bytes of a stack that were ever written, by a thread that runs the function on it.
size_t stack_used_by(void (*function)()) {
  constexpr size_t kStack = 128 * 1024;
  void* const memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  std::memset(memory, 0xee, kStack);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstack(&attributes, memory, kStack) == 0);
  pthread_t thread;
  CHECK(pthread_create(
            &thread, &attributes,
            [](void* argument) -> void* {
              reinterpret_cast<void (*)()>(argument)();
              return nullptr;
            },
            reinterpret_cast<void*>(function)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  const auto* const bytes = static_cast<const unsigned char*>(memory);
  size_t untouched = 0;
  while (untouched < kStack && bytes[untouched] == 0xee) untouched++;
  munmap(memory, kStack);
  return kStack - untouched;
}

long status_field(const char* field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(field, 0) == 0) return std::atol(line.c_str() + std::strlen(field));
  }
  return -1;
}

void limit(__rlimit_resource what, rlim_t value) {
  rlimit now;
  CHECK(getrlimit(what, &now) == 0);
  now.rlim_cur = value < now.rlim_max ? value : now.rlim_max;
  CHECK(setrlimit(what, &now) == 0);
}
void lift(__rlimit_resource what) { limit(what, RLIM_INFINITY); }

}  // namespace

CASE(ffi_18_every_call_on_a_small_stack, "FFI-18") {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, 64 * 1024) == 0);
  pthread_t thread;
  CHECK(pthread_create(
            &thread, &attributes,
            [](void*) -> void* {
              call_everything();
              return nullptr;
            },
            nullptr) == 0);
  pthread_join(thread, nullptr);
  check_all_dropped();
}

CASE(ffi_18_no_call_needs_more_than_sixteen_kilobytes, "FFI-18") {
  if (kSanitized) skip("a sanitizer makes every stack frame larger: only the library as it is shipped is measured");
  call_everything();  // what is resolved and allocated once is not counted
  const size_t empty = stack_used_by([] {});
  const size_t used = stack_used_by(call_everything);
  std::fprintf(stderr, "stack: %zu bytes, %zu of them the thread's own\n", used, empty);
  CHECK(used - empty <= 16 * 1024);
  check_all_dropped();
}

CASE(ffi_18_workers_on_the_smallest_stack, "FFI-18") {
  nocter_blocking* const of = service(64, 4);
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = 4;
  options.stack_size = 65536;
  nocter_workers* workers;
  const auto run = [](void*, nocter_owned*, nocter_owned* output, nocter_completion*) {
    call_everything();
    *output = payload();
  };
  CHECK_STATUS(nocter_blocking_serve(of, run, nullptr, &options, &workers), NOCTER_OK);
  const nocter_wait wait = within(5'000);
  for (int i = 0; i < 10; i++) CHECK_STATUS(take(of, submit(of), &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

// ---- FFI-20 ---------------------------------------------------------------------------------------------------------------

CASE(ffi_20_more_room_than_there_is_memory_on_earth, "FFI-20") {
  nocter_blocking* const of = service();
  nocter_job_id ids[8];
  size_t count = 7;
  for (int i = 0; i < 3; i++) {
    submit(of);
    nocter_running_job_drop(claim(of));
  }
  // The capacity is a promise of the caller's: no arithmetic on it may overflow.
  CHECK_STATUS(nocter_blocking_completed(of, ids, SIZE_MAX, &count), NOCTER_OK);
  CHECK(count == 3);
  CHECK_STATUS(nocter_blocking_completed(of, ids, SIZE_MAX / sizeof *ids + 2, &count), NOCTER_OK);
  CHECK(count == 0);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_20_deadlines_at_the_ends_of_the_clock, "FFI-20 CLK-04") {
  CHECK(nocter_wait_for_ms(-1).deadline_ns == NOCTER_FOREVER);
  CHECK(nocter_wait_for_ms(INT64_MIN).deadline_ns == NOCTER_FOREVER);
  CHECK(nocter_wait_for_ms(INT64_MAX).deadline_ns == NOCTER_FOREVER);
  CHECK(nocter_wait_for_ms(INT64_MAX / 1'000'000).deadline_ns == NOCTER_FOREVER);
  CHECK(nocter_wait_for_ms(0).deadline_ns <= nocter_now_ns());
  CHECK(nocter_wait_for_ms(1'000'000'000'000).deadline_ns > nocter_now_ns());
  nocter_signal* signal;
  uint64_t version;
  CHECK_STATUS(nocter_signal_create(&signal), NOCTER_OK);
  const int64_t far_ahead[] = {INT64_MAX, INT64_MAX - 1, int64_t{1} << 62, NOCTER_FOREVER};
  for (const int64_t deadline : far_ahead) {
    const nocter_wait wait = {deadline, nullptr, 0, 0};
    const uint64_t seen = nocter_signal_version(signal);
    std::thread publisher([&] {
      usleep(30'000);
      CHECK_STATUS(nocter_signal_publish(signal, nullptr), NOCTER_OK);
    });
    const int64_t start = nocter_now_ns();
    CHECK_STATUS(nocter_signal_wait(signal, seen, &wait, &version), NOCTER_OK);
    CHECK(nocter_now_ns() - start >= 20'000'000);
    publisher.join();
  }
  const int64_t past[] = {0, 1, nocter_now_ns() - 1};
  for (const int64_t deadline : past) {
    const nocter_wait wait = {deadline, nullptr, 0, 0};
    CHECK_STATUS(nocter_signal_wait(signal, nocter_signal_version(signal), &wait, &version), NOCTER_TIMEOUT);
  }
  nocter_signal_destroy(signal);
}

CASE(ffi_20_every_status_has_a_name, "FFI-20") {
  for (int64_t status = -300; status <= 300; status++) {
    const char* const name = nocter_status_name(static_cast<nocter_status>(status));
    CHECK(std::strncmp(name, "NOCTER_", 7) == 0);
    const bool known = status >= NOCTER_E_INTERNAL && status <= NOCTER_CANCELLED;
    CHECK((std::strcmp(name, "NOCTER_?") == 0) == !known);
    CHECK(!known || (std::strncmp(name, "NOCTER_E_", 9) == 0) == (status < 0));
  }
  CHECK(std::strcmp(nocter_status_name(INT32_MIN), "NOCTER_?") == 0);
  CHECK(std::strcmp(nocter_status_name(INT32_MAX), "NOCTER_?") == 0);
}

CASE(ffi_20_as_many_jobs_as_there_may_be, "FFI-20 RSC-01") {
  if (kSanitized) skip("a limited address space has no room for the shadow memory of a sanitizer");
  const long before = status_field("VmSize:");
  limit(RLIMIT_AS, static_cast<rlim_t>(before + 128 * 1024) * 1024);
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = NOCTER_BLOCKING_MAXIMUM_JOBS;
  options.workers = NOCTER_BLOCKING_MAXIMUM_JOBS;
  std::atomic<int> dropped{0};
  options.waiters = {nullptr, [](void* user) { (*static_cast<std::atomic<int>*>(user))++; }, &dropped};
  for (int i = 0; i < 10; i++) {
    nocter_blocking* out = nullptr;
    CHECK_STATUS(nocter_blocking_create(&options, &out), NOCTER_E_MEMORY);
    CHECK(out == nullptr && dropped == 0);  // a failed call owns nothing
    CHECK(*nocter_error_message() != '\0');
  }
  CHECK(status_field("VmSize:") <= before + 1'024);
  nocter_blocking* const of = service();
  one_job(of);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(rsc_01_handles_until_memory_is_exhausted, "RSC-01 FFI-20") {
  if (kSanitized) skip("a limited address space has no room for the shadow memory of a sanitizer");
  std::vector<nocter_signal*> signals;
  std::vector<nocter_interrupt*> interrupts;
  signals.reserve(1'000'000);
  interrupts.reserve(1'000'000);
  limit(RLIMIT_AS, static_cast<rlim_t>(status_field("VmSize:") + 16 * 1024) * 1024);
  nocter_status status;
  do {
    nocter_signal* signal = nullptr;
    nocter_interrupt* interrupt = nullptr;
    status = nocter_signal_create(&signal);
    CHECK((status == NOCTER_OK) == (signal != nullptr));
    if (status != NOCTER_OK) break;
    signals.push_back(signal);
    status = nocter_interrupt_create(&interrupt);
    CHECK((status == NOCTER_OK) == (interrupt != nullptr));
    if (status == NOCTER_OK) interrupts.push_back(interrupt);
  } while (status == NOCTER_OK && signals.size() < 1'000'000);
  CHECK_STATUS(status, NOCTER_E_MEMORY);
  CHECK(std::strstr(nocter_error_message(), "memory") != nullptr);
  CHECK(signals.size() > 1'000);
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = 100'000;
  nocter_blocking* none = nullptr;
  CHECK_STATUS(nocter_blocking_create(&options, &none), NOCTER_E_MEMORY);
  // What there is works on, without memory.
  for (nocter_signal* signal : signals) CHECK(nocter_signal_publish(signal, nullptr) == NOCTER_OK);
  for (nocter_signal* signal : signals) nocter_signal_destroy(signal);
  for (nocter_interrupt* interrupt : interrupts) nocter_interrupt_destroy(interrupt);
  // Their memory rests for others of their kind: that a service finds some elsewhere was luck.
  lift(RLIMIT_AS);
  nocter_blocking* const of = service();
  one_job(of);
  nocter_blocking_destroy(of);
}

// ---- RSC-02 ---------------------------------------------------------------------------------------------------------------

namespace {

// So that the system counts our threads: root is exempt. A number that no account of a usual system has.
void be_nobody_else() {
  constexpr uid_t kUnused = 64'871;
  if (geteuid() == 0) CHECK(setresuid(kUnused, kUnused, kUnused) == 0);
}

std::atomic<int> started{0}, stopped{0};

void check_serve_is_refused(nocter_blocking* of, uint32_t threads, uint64_t stack_size) {
  started = 0, stopped = 0;
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = threads;
  options.stack_size = stack_size;
  options.start = [](void*) -> nocter_status {
    started++;
    return NOCTER_OK;
  };
  options.stop = [](void*) { stopped++; };
  const int before = thread_count();
  nocter_workers* out = nullptr;
  CHECK_STATUS(nocter_blocking_serve(of, run_nothing, nullptr, &options, &out), NOCTER_E_MEMORY);
  CHECK(out == nullptr);
  CHECK(*nocter_error_message() != '\0');
  CHECK(thread_count() == before);
  CHECK(started == stopped);
}

}  // namespace

CASE(rsc_02_no_more_threads, "RSC-02 B-38") {
  if (geteuid() != 0) skip("not root: the threads of this account cannot be counted apart from its others");
  if (kThreadSanitizer) skip("ThreadSanitizer has a thread of its own that cannot be made then");
  nocter_blocking* const of = service(64, 16);
  const nocter_job_id id = submit(of);
  be_nobody_else();
  for (rlim_t spare = 1; spare <= 9; spare++) {
    limit(RLIMIT_NPROC, spare);
    check_serve_is_refused(of, 16, 0);
  }
  lift(RLIMIT_NPROC);
  CHECK(counts(of).queued == 1);  // no thread had claimed it
  nocter_workers* const workers = serve(of, run_nothing, nullptr, 16);
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(take(of, id, &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(rsc_02_no_more_memory_maps, "RSC-02 B-38") {
  if (kSanitized) skip("a limited address space has no room for the shadow memory of a sanitizer");
  nocter_blocking* const of = service(64, 64);
  limit(RLIMIT_AS, static_cast<rlim_t>(status_field("VmSize:") + 256 * 1024) * 1024);
  for (int i = 0; i < 5; i++) check_serve_is_refused(of, 64, 16 * 1024 * 1024);
  nocter_workers* const workers = serve(of, run_nothing, nullptr, 2);
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(take(of, submit(of), &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(rsc_02_no_more_descriptors, "RSC-02") {
  const std::vector<int> before = descriptors();
  int room[8];
  for (int& descriptor : room) descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  limit(RLIMIT_NOFILE, static_cast<rlim_t>(room[7] + 1));
  for (int i = 0; i < 200; i++) {
    nocter_eventfd* out = reinterpret_cast<nocter_eventfd*>(&out);
    CHECK_STATUS(nocter_eventfd_create(&out), NOCTER_E_MEMORY);
    CHECK(out == nullptr);
  }
  CHECK(std::strstr(nocter_error_message(), "descriptor") != nullptr);
  // Nothing else needs one. (The check of virtual tables of UndefinedBehaviorSanitizer does: it opens a pipe to look through.)
  if (kSanitized) lift(RLIMIT_NOFILE);
  nocter_blocking* const of = service();
  nocter_workers* const workers = serve(of, run_nothing, nullptr, 2);
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(take(of, submit(of), &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(of);
  lift(RLIMIT_NOFILE);
  for (const int descriptor : room) close(descriptor);
  nocter_eventfd* eventfd;
  CHECK_STATUS(nocter_eventfd_create(&eventfd), NOCTER_OK);
  nocter_eventfd_destroy(eventfd);
  CHECK(descriptors() == before);
  check_all_dropped();
}
