// FFI-15: the library loaded by dlopen and unloaded while its threads run, while handles are alive, and again and again.
#include <dlfcn.h>
#include <nocter.h>

#include <atomic>
#include <thread>

#include "case.hpp"

namespace {

struct Library {
  void* handle = dlopen(NOCTER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  Library() {
    if (handle == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    CHECK(handle != nullptr);
  }
  template <class Function>
  Function* get(Function*, const char* name) const {
    void* const found = dlsym(handle, name);
    CHECK(found != nullptr);
    return reinterpret_cast<Function*>(found);
  }
};
#define GET(library, function) (library).get(static_cast<decltype(&(function))>(nullptr), #function)

nocter_blocking* service(const Library& library) {
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  nocter_blocking* out = nullptr;
  CHECK_STATUS(GET(library, nocter_blocking_create)(&options, &out), NOCTER_OK);
  return out;
}

std::atomic<int> ran{0};
std::atomic<bool> go_on{true};

void busy(void*, nocter_owned*, nocter_owned*, nocter_completion*) {
  ran++;
  while (go_on) usleep(1'000);
}

nocter_job_id submit(const Library& library, nocter_blocking* to) {
  nocter_owned input = {nullptr, nullptr};
  nocter_job_id id;
  nocter_epoch epoch;
  CHECK_STATUS(GET(library, nocter_blocking_submit)(to, &input, &id, &epoch), NOCTER_OK);
  return id;
}

}  // namespace

CASE(ffi_15_unloaded_with_running_workers, "FFI-15") {
  const Library library;
  nocter_blocking* const of = service(library);
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = 2;
  nocter_workers* workers = nullptr;
  CHECK_STATUS(GET(library, nocter_blocking_serve)(of, busy, nullptr, &options, &workers), NOCTER_OK);
  auto* const take = GET(library, nocter_blocking_take);
  auto* const destroy_workers = GET(library, nocter_workers_destroy);
  auto* const destroy = GET(library, nocter_blocking_destroy);
  auto* const wait_for_ms = GET(library, nocter_wait_for_ms);
  const nocter_job_id first = submit(library, of), second = submit(library, of);
  while (ran < 2) usleep(1'000);
  CHECK(dlclose(library.handle) == 0);
  usleep(50'000);
  go_on = false;
  // The threads come back into code that is still there, and so do we.
  nocter_owned output;
  const nocter_wait wait = wait_for_ms(5'000);
  CHECK_STATUS(take(of, first, &wait, &output), NOCTER_OK);
  CHECK_STATUS(take(of, second, &wait, &output), NOCTER_OK);
  destroy_workers(workers);
  destroy(of);
}

CASE(ffi_15_unloaded_while_a_thread_waits, "FFI-15") {
  const Library library;
  nocter_signal* signal = nullptr;
  CHECK_STATUS(GET(library, nocter_signal_create)(&signal), NOCTER_OK);
  auto* const wait_in = GET(library, nocter_signal_wait);
  auto* const publish = GET(library, nocter_signal_publish);
  auto* const destroy = GET(library, nocter_signal_destroy);
  const nocter_wait wait = {NOCTER_FOREVER, nullptr, 0, 0};
  const uint64_t seen = GET(library, nocter_signal_version)(signal);
  std::thread waiter([&] {
    uint64_t version;
    CHECK_STATUS(wait_in(signal, seen, &wait, &version), NOCTER_OK);
  });
  usleep(50'000);
  CHECK(dlclose(library.handle) == 0);
  CHECK_STATUS(publish(signal, nullptr), NOCTER_OK);
  waiter.join();
  destroy(signal);
}

CASE(ffi_15_loaded_and_unloaded_again_and_again, "FFI-15") {
  nocter_blocking* kept = nullptr;
  for (int i = 0; i < 100; i++) {
    const Library library;
    CHECK(GET(library, nocter_version_number)() == NOCTER_VERSION_NUMBER);
    if (kept != nullptr) GET(library, nocter_blocking_destroy)(kept);
    kept = service(library);
    submit(library, kept);
    CHECK(dlclose(library.handle) == 0);
  }
  const Library library;
  // The same library, not a second copy of it: a handle of the first loading is a handle still.
  nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
  CHECK_STATUS(GET(library, nocter_blocking_count)(kept, &counts), NOCTER_OK);
  CHECK(counts.queued == 1);
  GET(library, nocter_blocking_destroy)(kept);
}

CASE(ffi_15_loaded_by_a_thread_that_ends, "FFI-15 FFI-16") {
  nocter_blocking* of = nullptr;
  std::thread([&] {
    const Library library;
    nocter_epoch epoch;
    CHECK_STATUS(GET(library, nocter_blocking_epoch)(nullptr, &epoch), NOCTER_E_ARGUMENT);
    CHECK(*GET(library, nocter_error_message)() != '\0');
    of = service(library);
    CHECK(dlclose(library.handle) == 0);
  }).join();
  const Library library;
  CHECK(*GET(library, nocter_error_message)() == '\0');  // this thread's own
  submit(library, of);
  GET(library, nocter_blocking_destroy)(of);
}

// FFI-19: brings in nothing beside the C and C++ run-time libraries, and no name of its own into the process.
CASE(ffi_19_brings_no_names_into_the_process, "FFI-19") {
  CHECK(dlsym(RTLD_DEFAULT, "nocter_version") == nullptr);
  const Library library;
  CHECK(dlsym(RTLD_DEFAULT, "nocter_version") == nullptr);
  CHECK(dlclose(library.handle) == 0);
}
