// The retirement service misused, forked, left in a hurry: FFI-04, FFI-07, FFI-11, FFI-12, FFI-17, FFI-18, FFI-20.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "objects.hpp"

namespace {

nocter_retirement* retirement(uint32_t resources = 8, uint32_t workers = 2, nocter_notifier waiters = {}) {
  nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
  options.maximum_resources = resources;
  options.workers = workers;
  options.waiters = waiters;
  nocter_retirement* out = nullptr;
  CHECK_STATUS(nocter_retirement_create(&options, &out), NOCTER_OK);
  return out;
}

nocter_permit* reserve(nocter_retirement* from) {
  nocter_permit* permit = nullptr;
  nocter_epoch epoch;
  CHECK_STATUS(nocter_retirement_reserve(from, &permit, &epoch), NOCTER_OK);
  return permit;
}

nocter_resource* own(nocter_retirement* from, nocter_owned value = payload()) {
  nocter_resource* const resource = nocter_permit_attach(reserve(from), &value);
  CHECK(resource != nullptr && value.drop == nullptr);
  return resource;
}

nocter_retirement_id retire(nocter_retirement* from) {
  nocter_retirement_id id;
  CHECK_STATUS(nocter_resource_retire(own(from), &id), NOCTER_OK);
  return id;
}

nocter_cleanup* claim(nocter_retirement* from) {
  nocter_cleanup* cleanup = nullptr;
  CHECK_STATUS(nocter_retirement_claim(from, nullptr, &cleanup), NOCTER_OK);
  return cleanup;
}

void begin(nocter_cleanup* cleanup) {
  nocter_owned value;
  CHECK_STATUS(nocter_cleanup_begin(cleanup, &value), NOCTER_OK);
  drop(value);
}

nocter_workers* serve(nocter_retirement* from, uint32_t threads) {
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = threads;
  nocter_workers* workers = nullptr;
  CHECK_STATUS(nocter_retirement_serve(from, &options, &workers), NOCTER_OK);
  return workers;
}

nocter_retirement_counts counts(const nocter_retirement* of) {
  nocter_retirement_counts out = NOCTER_RETIREMENT_COUNTS_INIT;
  CHECK_STATUS(nocter_retirement_count(of, &out), NOCTER_OK);
  return out;
}

// One of everything that a service hands out.
struct All {
  nocter_retirement* service = retirement();
  nocter_permit* permit = reserve(service);
  nocter_resource* resource = own(service);
  nocter_retirement_id id = retire(service);
  nocter_cleanup* cleanup = claim(service);
  nocter_resource* other = own(service);

  void give_up() const {
    nocter_permit_drop(permit);
    nocter_resource_drop(resource);
    nocter_cleanup_drop(cleanup);
    nocter_retirement_close(service);
    nocter_retirement_detach_all(service);
    nocter_retirement_destroy(service);
    nocter_resource_drop(other);
  }
  int says_forked() const {
    nocter_permit* out_permit;
    nocter_cleanup* out_cleanup;
    nocter_workers* out_workers;
    nocter_epoch epoch;
    nocter_retirement_id out_id;
    nocter_retirement_state state;
    nocter_retirement_counts out_counts = NOCTER_RETIREMENT_COUNTS_INIT;
    nocter_owned value = payload();
    int32_t code;
    const nocter_wait wait = within(-1);
    CHECK_STATUS(nocter_retirement_reserve(service, &out_permit, &epoch), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_claim(service, &wait, &out_cleanup), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_take(service, id, &wait, &code), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_query(service, id, &state), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_detach(service, id), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_epoch(service, &epoch), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_wait_epoch(service, epoch, &wait, &epoch), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_drained(service, &wait), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_count(service, &out_counts), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_retirement_serve(service, nullptr, &out_workers), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_resource_retire(resource, &out_id), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_cleanup_begin(cleanup, &value), NOCTER_E_FORKED);
    CHECK_STATUS(nocter_cleanup_complete(cleanup, 0), NOCTER_E_FORKED);
    CHECK(value.data == nullptr);
    nocter_owned kept = payload();
    CHECK(nocter_permit_attach(permit, &kept) == nullptr && kept.drop != nullptr);
    CHECK(nocter_resource_get(resource) == nullptr);
    return 0;
  }
};

void in_a_thread(const std::function<void()>& body) { std::thread(body).join(); }

}  // namespace

// ---- Handles ----------------------------------------------------------------------------------------------------------

CASE(ffi_04_permit_owner_and_cleanup_used_twice, "FFI-04 R-8") {
  nocter_retirement* const of = retirement(200, 4);
  nocter_permit* const permit = reserve(of);
  nocter_owned value = payload();
  nocter_resource* const resource = nocter_permit_attach(permit, &value);
  nocter_owned second = payload();
  CHECK(nocter_permit_attach(permit, &second) == nullptr && second.drop != nullptr);
  drop(second);
  nocter_permit_drop(permit);
  CHECK(counts(of).live == 1);
  nocter_retirement_id id;
  CHECK_STATUS(nocter_resource_retire(resource, &id), NOCTER_OK);
  nocter_resource_drop(resource);
  CHECK_STATUS(nocter_resource_retire(resource, &id), NOCTER_E_ARGUMENT);
  CHECK(nocter_resource_get(resource) == nullptr && counts(of).queued == 1);
  nocter_cleanup* const cleanup = claim(of);
  begin(cleanup);
  CHECK_STATUS(nocter_cleanup_complete(cleanup, 0), NOCTER_OK);
  nocter_cleanup_drop(cleanup);
  CHECK_STATUS(nocter_cleanup_complete(cleanup, 0), NOCTER_E_ARGUMENT);
  CHECK(counts(of).completed == 1 && counts(of).lost == 0);
  nocter_retirement_destroy(of);
  check_all_dropped();
}

// Also when the place has its next permit, for a while.
CASE(ffi_04_an_owner_is_not_taken_for_the_next_one, "FFI-04") {
  nocter_retirement* const of = retirement(200, 4);
  nocter_resource* const old = own(of);
  nocter_resource_drop(old);
  nocter_cleanup_drop(claim(of));
  nocter_resource* young[60];
  for (nocter_resource*& one : young) one = own(of);
  nocter_resource_drop(old);
  CHECK(counts(of).live == 60 && counts(of).queued == 0);
  for (nocter_resource* one : young) nocter_resource_drop(one);
  nocter_retirement_destroy(of);
  check_all_dropped();
}

CASE_ENDING(ffi_04_check_owner_used_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_resource_drop", "nocter_resource"}, .check = true}) {
  nocter_resource* const resource = own(retirement());
  nocter_resource_drop(resource);
  nocter_resource_drop(resource);
}
CASE_ENDING(ffi_04_check_permit_used_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_permit_attach", "nocter_permit"}, .check = true}) {
  nocter_permit* const permit = reserve(retirement());
  nocter_permit_drop(permit);
  nocter_owned value = {nullptr, nullptr};
  CHECK(nocter_permit_attach(permit, &value) == nullptr);
}
CASE_ENDING(ffi_04_check_cleanup_used_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_cleanup_complete", "nocter_cleanup"}, .check = true}) {
  nocter_retirement* const of = retirement();
  nocter_resource_drop(own(of));
  nocter_cleanup* const cleanup = claim(of);
  nocter_cleanup_drop(cleanup);
  CHECK_STATUS(nocter_cleanup_complete(cleanup, 0), NOCTER_E_ARGUMENT);
}
CASE_ENDING(ffi_04_check_destroyed_retirement, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_retirement_close", "nocter_retirement"}, .check = true}) {
  nocter_retirement* const of = retirement();
  nocter_retirement_destroy(of);
  nocter_retirement_close(of);
}

// ---- Unwinding ----------------------------------------------------------------------------------------------------------

CASE(ffi_07_thread_exit_in_the_drop_of_a_cleanup, "FFI-07 R-16") {
  nocter_retirement* const of = retirement();
  nocter_resource_drop(own(of, {nullptr, [](void*) { pthread_exit(nullptr); }}));
  nocter_cleanup* const cleanup = claim(of);
  in_a_thread([cleanup] {
    nocter_cleanup_drop(cleanup);
    CHECK(false && "the thread went on");
  });
  CHECK(counts(of).reserved == 0 && counts(of).lost == 1);
  nocter_retirement_destroy(of);
}

CASE(ffi_07_thread_exit_in_a_wake_on_a_dropped_permit, "FFI-07 R-1") {
  static std::atomic<bool> exits;
  exits = false;
  nocter_retirement* const of = retirement(1, 1,
                                           {[](void*) {
                                              if (exits.exchange(false)) pthread_exit(nullptr);
                                            },
                                            nullptr, nullptr});
  nocter_permit* const permit = reserve(of);
  in_a_thread([permit] {
    exits = true;
    nocter_permit_drop(permit);
    CHECK(false && "the thread went on");
  });
  CHECK(counts(of).reserved == 0);
  nocter_permit_drop(reserve(of));
  nocter_retirement_destroy(of);
}

// ---- Fork -------------------------------------------------------------------------------------------------------------

CASE(ffi_11_every_call_of_a_retirement_says_forked, "FFI-11 GEN-11 R-25") {
  const All all;
  const int dropped = payloads.dropped;
  CHECK(in_child([&] { return all.says_forked(); }) == 0);
  CHECK(in_child([&] {
          all.give_up();
          CHECK(payloads.dropped == dropped);  // nothing of the parent's was ended here
          return all.says_forked();
        }) == 0);
  CHECK(counts(all.service).reserved == 4 && counts(all.service).live == 2);
  all.give_up();
  check_all_dropped();
}

CASE(ffi_11_a_new_retirement_works_in_the_child, "FFI-11") {
  const All all;
  nocter_workers* const workers = serve(all.service, 2);
  CHECK(in_child([] {
          nocter_retirement* const of = retirement();
          nocter_workers* const mine = serve(of, 2);
          const nocter_wait wait = within(5'000);
          int32_t code;
          for (int i = 0; i < 20; i++) CHECK_STATUS(nocter_retirement_take(of, retire(of), &wait, &code), NOCTER_OK);
          nocter_retirement_close(of);
          CHECK_STATUS(nocter_retirement_drained(of, &wait), NOCTER_OK);
          nocter_workers_destroy(mine);
          nocter_retirement_destroy(of);
          return 0;
        }) == 0);
  all.give_up();
  nocter_workers_destroy(workers);
  check_all_dropped();
}

// A lock on a file is an effect, not a handle: the child's copy of the descriptor would keep it, so the cleanup undoes the effect.
CASE(r_25_a_cleanup_undoes_the_effect_although_a_child_has_the_descriptor, "R-25 FFI-11") {
  char path[] = "/tmp/nocter-lock-XXXXXX";
  const int fd = mkstemp(path);
  CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
  nocter_retirement* const of = retirement();
  nocter_resource* const resource = own(of, {reinterpret_cast<void*>(static_cast<intptr_t>(fd)), [](void* data) {
                                               const int descriptor =
                                                   static_cast<int>(reinterpret_cast<intptr_t>(data));
                                               CHECK(flock(descriptor, LOCK_UN) == 0);
                                               close(descriptor);
                                             }});
  int to_child[2];
  CHECK(pipe(to_child) == 0);
  const pid_t child = fork();
  if (child == 0) {
    nocter_resource_drop(resource);  // does nothing here
    char byte;
    close(to_child[1]);
    std::ignore = read(to_child[0], &byte, 1);
    _exit(0);
  }
  const int other = open(path, O_RDWR | O_CLOEXEC);
  CHECK(other >= 0 && flock(other, LOCK_EX | LOCK_NB) != 0);
  nocter_workers* const workers = serve(of, 1);
  nocter_resource_drop(resource);
  nocter_retirement_close(of);
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(nocter_retirement_drained(of, &wait), NOCTER_OK);
  CHECK(flock(other, LOCK_EX | LOCK_NB) == 0);
  close(to_child[1]);
  close(to_child[0]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  close(other);
  unlink(path);
  nocter_workers_destroy(workers);
  nocter_retirement_destroy(of);
}

// ---- Signals, exit, limits ----------------------------------------------------------------------------------------------

CASE(ffi_12_eintr_flag_ends_each_wait_of_a_retirement, "FFI-12") {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  nocter_retirement* const of = retirement(2, 1);
  const nocter_retirement_id id = retire(of);
  nocter_cleanup* const cleanup = claim(of);
  nocter_permit* const permit = reserve(of);
  for (int which = 0; which < 4; which++) {
    const pthread_t here = pthread_self();
    std::thread later([here] {
      usleep(60'000);
      pthread_kill(here, SIGUSR1);
    });
    nocter_wait wait = within(5'000);
    wait.flags = NOCTER_WAIT_EINTR;
    nocter_cleanup* none;
    nocter_epoch epoch;
    int32_t code;
    CHECK_STATUS(nocter_retirement_epoch(of, &epoch), NOCTER_OK);
    const nocter_status status = which == 0   ? nocter_retirement_take(of, id, &wait, &code)
                                 : which == 1 ? nocter_retirement_claim(of, &wait, &none)
                                 : which == 2 ? nocter_retirement_wait_epoch(of, epoch, &wait, &epoch)
                                              : nocter_retirement_drained(of, &wait);
    later.join();
    CHECK_STATUS(status, NOCTER_INTERRUPTED);
  }
  nocter_permit_drop(permit);
  nocter_cleanup_drop(cleanup);
  nocter_retirement_destroy(of);
  check_all_dropped();
}

CASE_ENDING(ffi_17_exit_while_cleanups_run, "FFI-17", {.exit_code = 3, .leaves_within_ms = kLeave}) {
  static std::atomic<int> running;
  running = 0;
  nocter_retirement* const of = retirement(8, 4);
  serve(of, 3);
  for (int i = 0; i < 2; i++) {
    nocter_resource_drop(own(of, {nullptr, [](void*) {
                                    running++;
                                    for (;;) sleep(1'000);
                                  }}));
  }
  eventually([] { return running == 2; });
  std::thread([of] {
    for (;;) {
      nocter_permit* permit = nullptr;
      nocter_epoch epoch;
      if (nocter_retirement_reserve(of, &permit, &epoch) != NOCTER_OK) continue;  // one thread is left to clean
      nocter_owned value = payload();
      nocter_resource_drop(nocter_permit_attach(permit, &value));
    }
  }).detach();
  leaving();
  std::exit(3);
}

CASE(ffi_18_giving_up_and_cleaning_on_a_small_stack, "FFI-18 R-7") {
  const auto body = [](void*) -> void* {
    nocter_retirement* const of = retirement(64, 2);
    nocter_permit_drop(reserve(of));
    nocter_cleanup* cleanup;
    const nocter_wait wait = within(1);
    CHECK_STATUS(nocter_retirement_claim(of, &wait, &cleanup), NOCTER_TIMEOUT);
    const nocter_retirement_id id = retire(of);
    cleanup = claim(of);
    begin(cleanup);
    CHECK_STATUS(nocter_cleanup_complete(cleanup, 0), NOCTER_OK);
    int32_t code;
    CHECK_STATUS(nocter_retirement_take(of, id, nullptr, &code), NOCTER_OK);
    nocter_workers* const workers = serve(of, 1);
    nocter_resource_drop(own(of));
    const nocter_wait longer = within(5'000);
    CHECK_STATUS(nocter_retirement_drained(of, &longer), NOCTER_OK);
    nocter_workers_destroy(workers);
    nocter_resource* owners[32];
    for (nocter_resource*& one : owners) one = own(of);
    nocter_retirement_destroy(of);
    for (nocter_resource* one : owners) nocter_resource_drop(one);
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, 64 * 1024) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, &attributes, body, nullptr) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  check_all_dropped();
}

CASE(ffi_20_as_many_resources_as_there_may_be, "FFI-20") {
  nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
  options.maximum_resources = NOCTER_RETIREMENT_MAXIMUM_RESOURCES;
  options.workers = NOCTER_RETIREMENT_MAXIMUM_RESOURCES;
  nocter_retirement* of = nullptr;
  const nocter_status status = nocter_retirement_create(&options, &of);
  if (status == NOCTER_OK) {
    nocter_resource_drop(own(of));
    nocter_cleanup_drop(claim(of));
    CHECK(counts(of).maximum_resources == NOCTER_RETIREMENT_MAXIMUM_RESOURCES);
  } else {
    CHECK_STATUS(status, NOCTER_E_MEMORY);  // where so much address space is not to be had
    CHECK(of == nullptr);
  }
  nocter_retirement_destroy(of);
  check_all_dropped();
}
