// The keyed queue misused and left in every way: dead handles and passes, exceptions and threads that end inside its callbacks, forks, exits.
#include <pthread.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "objects.hpp"

namespace {

nocter_keyed* queue(uint32_t keys = 8, uint32_t workers = 4, nocter_notifier waiters = {}, nocter_notifier work = {}) {
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  options.maximum_keys = keys;
  options.workers = workers;
  options.waiters = waiters;
  options.work = work;
  nocter_keyed* out = nullptr;
  CHECK_STATUS(nocter_keyed_create(&options, &out), NOCTER_OK);
  return out;
}

nocter_keyed* destroyed_queue() {
  nocter_keyed* const gone = queue();
  nocter_keyed_destroy(gone);
  return gone;
}

nocter_status notify(nocter_keyed* of, const char* key = "key") { return nocter_keyed_notify(of, nocter_text_of(key)); }

nocter_pass* claim(nocter_keyed* of) {
  nocter_pass* out = nullptr;
  CHECK_STATUS(nocter_keyed_claim(of, nullptr, &out), NOCTER_OK);
  return out;
}

nocter_pass* pass_of(nocter_keyed* of, const char* key = "key") {
  CHECK_STATUS(notify(of, key), NOCTER_OK);
  return claim(of);
}

void one_pass(nocter_keyed* of, const char* key = "key") {
  CHECK_STATUS(nocter_pass_complete(pass_of(of, key)), NOCTER_OK);
}

nocter_keyed_counts counts(const nocter_keyed* of) {
  nocter_keyed_counts out = NOCTER_KEYED_COUNTS_INIT;
  CHECK_STATUS(nocter_keyed_count(of, &out), NOCTER_OK);
  CHECK(out.started == out.completed + out.failed + out.active &&
        out.retained == out.waiting + out.delayed + out.active);
  return out;
}

bool key_is(const nocter_pass* pass, const char* key) {
  const nocter_text text = nocter_pass_key(pass);
  return text.size == std::strlen(key) && std::memcmp(text.data, key, text.size) == 0;
}

// A pass that is no more answers every question as NULL does, and cannot be ended.
void check_dead(nocter_pass* pass) {
  CHECK_STATUS(nocter_pass_complete(pass), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_pass_fail(pass), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_pass_retry_after(pass, 1), NOCTER_E_ARGUMENT);
  nocter_pass_drop(pass);
  CHECK(nocter_pass_key(pass).size == 0 && nocter_pass_failures(pass) == 0);
  CHECK(!nocter_pass_interrupted(pass) && nocter_pass_interrupt(pass) == nullptr);
}

nocter_status run_well(void*, nocter_text, nocter_pass*) { return NOCTER_OK; }

nocter_workers* serve(nocter_keyed* of, nocter_keyed_fn run, void* user, uint32_t threads) {
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.threads = threads;
  nocter_workers* out = nullptr;
  CHECK_STATUS(nocter_keyed_serve(of, run, user, &options, &out), NOCTER_OK);
  return out;
}

void until_ended(nocter_keyed* of, uint64_t passes) {
  eventually([&] { return counts(of).completed + counts(of).failed == passes; });
}

char exited;  // its address is the exit value

// What every call on a handle of another process or of no more says, but for those that say nothing.
void every_status(nocter_keyed* of, nocter_pass* pass, nocter_status expected) {
  const nocter_wait forever = {NOCTER_FOREVER, nullptr, 0, 0};
  const nocter_text key = nocter_text_of("key");
  const nocter_keyed_source source = {[](void*, nocter_text*) -> nocter_status { return NOCTER_EMPTY; }, nullptr,
                                      nullptr};
  nocter_status each = 7;
  nocter_pass* claimed = pass;
  nocter_workers* workers = nullptr;
  nocter_keyed_counts snapshot = NOCTER_KEYED_COUNTS_INIT;
  int64_t due = 7;
  CHECK_STATUS(nocter_keyed_notify(of, key), expected);
  CHECK_STATUS(nocter_keyed_notify_after(of, key, 1), expected);
  CHECK_STATUS(nocter_keyed_notify_many(of, &key, 1, &each), expected);
  CHECK(each == 0);
  CHECK_STATUS(nocter_keyed_claim(of, &forever, &claimed), expected);
  CHECK(claimed == nullptr);
  CHECK_STATUS(nocter_keyed_resync(of, &source, 1, 1), expected);
  CHECK_STATUS(nocter_keyed_next_due(of, &due), expected);
  CHECK(due == 0);
  CHECK_STATUS(nocter_keyed_drained(of, &forever), expected);
  CHECK_STATUS(nocter_keyed_count(of, &snapshot), expected);
  CHECK_STATUS(nocter_keyed_serve(of, run_well, nullptr, nullptr, &workers), expected);
  CHECK_STATUS(nocter_pass_complete(pass), expected);
  CHECK_STATUS(nocter_pass_fail(pass), expected);
  CHECK_STATUS(nocter_pass_retry_after(pass, 1), expected);
  CHECK(std::strlen(nocter_error_message()) >= 8);
}

}  // namespace

// Every call at least once: called by the case of small stacks.
void call_everything_keyed() {
  nocter_keyed* const of = queue();
  const nocter_text keys[] = {nocter_text_of("one"), nocter_text_of("other")};
  nocter_status each[2];
  CHECK_STATUS(nocter_keyed_notify_many(of, keys, 2, each), NOCTER_OK);
  nocter_pass* pass = claim(of);
  CHECK(key_is(pass, "one") && nocter_pass_failures(pass) == 0 && !nocter_pass_interrupted(pass));
  CHECK(nocter_pass_interrupt(pass) != nullptr);
  CHECK_STATUS(nocter_pass_retry_after(pass, -1), NOCTER_OK);
  CHECK_STATUS(nocter_pass_fail(claim(of)), NOCTER_OK);
  nocter_pass_drop(pass_of(of, "third"));
  CHECK_STATUS(nocter_keyed_notify_after(of, keys[0], 1), NOCTER_COALESCED);
  int64_t due;
  CHECK_STATUS(nocter_keyed_next_due(of, &due), NOCTER_OK);
  const nocter_keyed_source source = {[](void*, nocter_text* out_key) -> nocter_status {
                                        *out_key = nocter_text_of("of a source");
                                        return NOCTER_OK;
                                      },
                                      nullptr, nullptr};
  CHECK_STATUS(nocter_keyed_resync(of, &source, 1'000'000'000, 1), NOCTER_OK);
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(nocter_keyed_claim(of, &wait, &pass), NOCTER_OK);
  CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  nocter_workers* const workers = serve(of, run_well, nullptr, 2);
  CHECK(notify(of, "another") >= NOCTER_OK);
  eventually([&] { return counts(of).active == 0 && counts(of).waiting == 0; });
  CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_keyed_close(of, NOCTER_CLOSE_DRAIN);
  nocter_keyed_close(of, NOCTER_CLOSE_DISCARD);
  CHECK_STATUS(nocter_keyed_drained(of, &wait), NOCTER_OK);
  nocter_keyed_destroy(of);
}

// ---- Handles and passes that are no more ----------------------------------------------------------------------------------

CASE(ffi_04_destroyed_queue, "FFI-04") {
  nocter_keyed* const alive = queue();
  nocter_pass* const dead = pass_of(alive);
  CHECK_STATUS(nocter_pass_complete(dead), NOCTER_OK);
  nocter_keyed* const gone = destroyed_queue();
  every_status(gone, dead, NOCTER_E_ARGUMENT);
  nocter_keyed_close(gone, NOCTER_CLOSE_DRAIN);
  nocter_keyed_destroy(gone);
  one_pass(alive);
  nocter_keyed_destroy(alive);
}

CASE(ffi_04_pass_used_twice, "FFI-04 K-30") {
  nocter_keyed* const of = queue();
  for (int how = 0; how < 4; how++) {
    nocter_pass* const pass = pass_of(of);
    if (how == 0) CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
    if (how == 1) CHECK_STATUS(nocter_pass_fail(pass), NOCTER_OK);
    if (how == 2) nocter_pass_drop(pass);
    if (how == 3) CHECK_STATUS(nocter_pass_retry_after(pass, 3'600'000'000'000), NOCTER_OK);
    const nocter_keyed_counts before = counts(of);
    check_dead(pass);
    const nocter_keyed_counts after = counts(of);
    CHECK(before.completed == after.completed && before.failed == after.failed && before.retained == after.retained);
  }
  nocter_keyed_destroy(of);
}

CASE(ffi_04_passes_outlive_their_queue, "FFI-04 K-31") {
  static std::atomic<int> drops{0};
  const nocter_notifier notifier = {[](void*) {}, [](void*) { drops++; }, nullptr};
  nocter_keyed* const of = queue(8, 4, notifier, notifier);
  nocter_pass* const first = pass_of(of, "first");
  nocter_pass* const second = pass_of(of, "second");
  CHECK_STATUS(notify(of, "first"), NOCTER_OK);
  nocter_keyed_destroy(of);
  CHECK(drops == 0);
  CHECK(key_is(first, "first") && key_is(second, "second"));
  CHECK(nocter_pass_interrupted(first) && nocter_interrupt_raised(nocter_pass_interrupt(second)));
  CHECK_STATUS(nocter_pass_retry_after(first, 0), NOCTER_OK);
  check_dead(first);  // the memory of passes is their queue's, which the other one keeps
  CHECK(drops == 0);
  CHECK_STATUS(nocter_pass_complete(second), NOCTER_OK);
  CHECK(drops == 2);
}

CASE(ffi_04_a_pass_is_not_taken_for_the_next_one, "FFI-04 K-30") {
  nocter_keyed* const of = queue(1, 1);
  nocter_pass* const first = pass_of(of);
  CHECK_STATUS(nocter_pass_complete(first), NOCTER_OK);
  for (int i = 0; i < 60; i++) {
    nocter_pass* const next = pass_of(of);
    CHECK(next != first);
    check_dead(first);
    CHECK(counts(of).active == 1 && key_is(next, "key"));
    CHECK_STATUS(nocter_pass_complete(next), NOCTER_OK);
  }
  nocter_keyed_destroy(of);
}

CASE(ffi_04_the_interrupt_of_a_pass_is_its_own, "FFI-04 K-18") {
  nocter_keyed* const of = queue(1, 1);
  nocter_pass* const pass = pass_of(of);
  nocter_interrupt* const interrupt = nocter_pass_interrupt(pass);
  CHECK(interrupt != nullptr);
  // Not ours to end, to raise or to clear.
  nocter_interrupt_destroy(interrupt);
  nocter_interrupt_raise(interrupt);
  CHECK(!nocter_interrupt_raised(interrupt) && !nocter_pass_interrupted(pass));
  nocter_keyed_close(of, NOCTER_CLOSE_DISCARD);
  CHECK(nocter_interrupt_raised(interrupt));
  nocter_interrupt_clear(interrupt);
  CHECK(nocter_interrupt_raised(interrupt) && nocter_pass_interrupted(pass));
  nocter_pass_drop(pass);
  // Used after its pass, which the header forbids, it does no harm.
  nocter_interrupt_raise(interrupt);
  nocter_interrupt_clear(interrupt);
  nocter_interrupt_destroy(interrupt);
  CHECK(!nocter_interrupt_raised(interrupt));
  nocter_wait wait = within(0);
  wait.interrupt = interrupt;
  nocter_pass* none;
  CHECK_STATUS(nocter_keyed_claim(of, &wait, &none), NOCTER_E_ARGUMENT);
  nocter_keyed_destroy(of);
}

CASE_ENDING(ffi_04_check_destroyed_queue, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_keyed_notify", "nocter_keyed"}, .check = true}) {
  CHECK_STATUS(notify(destroyed_queue()), NOCTER_E_ARGUMENT);
}
CASE_ENDING(ffi_04_check_queue_destroyed_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_keyed_destroy"}, .check = true}) {
  nocter_keyed_destroy(destroyed_queue());
}
CASE_ENDING(ffi_04_check_pass_used_twice, "FFI-04 K-30",
            {.signal = SIGABRT, .says = {"nocter_pass_fail", "nocter_pass"}, .check = true}) {
  nocter_pass* const pass = pass_of(queue());
  CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  CHECK_STATUS(nocter_pass_fail(pass), NOCTER_E_ARGUMENT);
}
CASE_ENDING(ffi_04_check_leaves_bad_keys_alone, "FFI-04 FFI-01", {.check = true}) {
  nocter_keyed_destroy(nullptr);
  nocter_keyed_close(nullptr, NOCTER_CLOSE_DRAIN);
  nocter_pass_drop(nullptr);
  CHECK_STATUS(nocter_keyed_notify(nullptr, nocter_text_of("key")), NOCTER_E_ARGUMENT);
  nocter_keyed* const of = queue();
  CHECK_STATUS(nocter_keyed_notify(of, {nullptr, 1}), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_keyed_notify(of, {"key", 257}), NOCTER_E_LIMIT);
  CHECK_STATUS(nocter_keyed_notify(of, {nullptr, 0}), NOCTER_OK);
  CHECK(counts(of).accepted_new == 1);
  nocter_keyed_destroy(of);
}

// ---- Exceptions ---------------------------------------------------------------------------------------------------------

CASE(ffi_06_callbacks_of_a_queue_throw, "FFI-06 GEN-10 K-8") {
  static std::atomic<uint64_t> thrown{0};
  const auto throws = [](void*) {
    thrown++;
    throw std::runtime_error("on purpose");
  };
  nocter_keyed* const of = queue(1, 1, {throws, throws, nullptr}, {throws, throws, nullptr});
  const auto run = [](void*, nocter_text, nocter_pass*) -> nocter_status {
    thrown++;
    throw std::string("not of std::exception");
  };
  for (int i = 0; i < 10; i++) {
    nocter_pass* none;
    CHECK_STATUS(nocter_keyed_claim(of, nullptr, &none), NOCTER_EMPTY);
    nocter_pass* const pass = pass_of(of);
    CHECK_STATUS(notify(of, "another"), NOCTER_SATURATED);
    CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  }
  CHECK(thrown > 0);
  nocter_workers* const workers = serve(of, run, nullptr, 1);
  for (uint64_t i = 0; i < 20; i++) {
    CHECK_STATUS(notify(of), NOCTER_OK);
    until_ended(of, 10 + i + 1);
  }
  eventually([&] { return counts(of).exceptions == thrown; });
  CHECK(counts(of).failed == 20 && counts(of).retained == 0);
  nocter_workers_destroy(workers);
  nocter_keyed_destroy(of);
}

CASE(ffi_06_a_source_throws, "FFI-06 GEN-10 KEY-10") {
  struct Source {
    std::atomic<int> asked{0}, drops{0};
    static nocter_status next(void* user, nocter_text* out_key) {
      if (++static_cast<Source*>(user)->asked % 2 != 0) throw 7;
      *out_key = nocter_text_of("key");
      return NOCTER_OK;
    }
    static void drop(void* user) {
      static_cast<Source*>(user)->drops++;
      throw "text";
    }
  } given;
  nocter_keyed* const of = queue();
  const nocter_keyed_source source = {Source::next, Source::drop, &given};
  CHECK_STATUS(nocter_keyed_resync(of, &source, 1'000, 1), NOCTER_OK);
  const nocter_wait wait = within(5'000);
  for (int i = 0; i < 10; i++) {
    nocter_pass* pass;
    CHECK_STATUS(nocter_keyed_claim(of, &wait, &pass), NOCTER_OK);
    CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  }
  const nocter_keyed_counts seen = counts(of);
  CHECK(seen.resync_failures >= 10 && seen.resync_keys >= 10 && seen.exceptions == seen.resync_failures);
  CHECK_STATUS(nocter_keyed_resync(of, nullptr, 0, 0), NOCTER_OK);
  CHECK(given.drops == 1);
  CHECK(counts(of).exceptions == seen.exceptions + 1);
  nocter_keyed_destroy(of);
}

// ---- Threads that end inside --------------------------------------------------------------------------------------------

CASE(ffi_07_thread_exit_in_a_pass, "FFI-07 K-31") {
  nocter_keyed* const of = queue(64, 3);
  static std::atomic<bool> exit_next{false};
  const auto run = [](void*, nocter_text, nocter_pass*) -> nocter_status {
    if (exit_next.exchange(false)) pthread_exit(nullptr);
    return NOCTER_OK;
  };
  nocter_workers* const workers = serve(of, run, nullptr, 3);
  const int threads = thread_count();
  uint64_t passes = 0;
  for (int lost = 1; lost <= 2; lost++) {
    exit_next = true;
    CHECK_STATUS(notify(of), NOCTER_OK);
    until_ended(of, ++passes);
    eventually([&] { return thread_count() == threads - lost; });
    for (int i = 0; i < 20; i++) {
      CHECK_STATUS(notify(of), NOCTER_OK);
      until_ended(of, ++passes);
    }
  }
  CHECK(counts(of).failed == 2 && counts(of).active == 0 && counts(of).retained == 0);
  const nocter_wait wait = within(5'000);
  CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_keyed_destroy(of);
}

// A claim that asked the source is gone with its thread; others claim, and ask it again.
CASE(ffi_07_thread_exit_in_a_source, "FFI-07 KEY-10") {
  struct Source {
    std::atomic<int> asked{0}, drops{0};
    static nocter_status next(void* user, nocter_text* out_key) {
      if (static_cast<Source*>(user)->asked++ == 0) pthread_exit(&exited);
      *out_key = nocter_text_of("key");
      return NOCTER_OK;
    }
    static void drop(void* user) { static_cast<Source*>(user)->drops++; }
  } given;
  nocter_keyed* const of = queue();
  const nocter_keyed_source source = {Source::next, Source::drop, &given};
  CHECK_STATUS(nocter_keyed_resync(of, &source, 1'000, 1), NOCTER_OK);
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void* argument) -> void* {
              nocter_pass* pass = nullptr;
              (void)!nocter_keyed_claim(static_cast<nocter_keyed*>(argument), nullptr, &pass);
              return nullptr;
            },
            of) == 0);
  void* result = nullptr;
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == &exited);
  const nocter_wait wait = within(5'000);
  nocter_pass* pass;
  CHECK_STATUS(nocter_keyed_claim(of, &wait, &pass), NOCTER_OK);
  CHECK(key_is(pass, "key"));
  CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  nocter_keyed_close(of, NOCTER_CLOSE_DISCARD);
  CHECK_STATUS(nocter_keyed_drained(of, &wait), NOCTER_OK);
  CHECK(given.drops == 1);
  nocter_keyed_destroy(of);
}

CASE(ffi_07_thread_exit_in_a_wake_of_a_queue, "FFI-07") {
  static std::atomic<int> wakes{0};
  const nocter_notifier exiting = {[](void*) {
                                     if (wakes++ == 0) pthread_exit(&exited);
                                   },
                                   nullptr, nullptr};
  nocter_keyed* const of = queue(8, 4, {}, exiting);
  nocter_pass* none;
  CHECK_STATUS(nocter_keyed_claim(of, nullptr, &none), NOCTER_EMPTY);
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void* argument) -> void* {
              (void)!notify(static_cast<nocter_keyed*>(argument));
              return nullptr;
            },
            of) == 0);
  void* result = nullptr;
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == &exited && wakes == 1);
  CHECK_STATUS(nocter_pass_complete(claim(of)), NOCTER_OK);
  one_pass(of);
  nocter_keyed_destroy(of);
}

CASE(ffi_16_a_pass_outlives_the_thread_that_claimed_it, "FFI-16 K-31") {
  nocter_keyed* const of = queue();
  nocter_pass* pass = nullptr;
  std::thread([&] { pass = pass_of(of); }).join();
  CHECK(key_is(pass, "key") && counts(of).active == 1);
  CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  nocter_keyed_destroy(of);
}

// ---- Calls from inside --------------------------------------------------------------------------------------------------

CASE(ffi_13_inside_a_source_the_queue_may_be_asked_and_no_more, "FFI-13 GEN-05 KEY-10") {
  struct Source {
    nocter_keyed* of;
    nocter_pass* other;
    int asked = 0;
    static nocter_status next(void* user, nocter_text* out_key) {
      Source& self = *static_cast<Source*>(user);
      *out_key = nocter_text_of("key");
      if (self.asked++ != 0) return NOCTER_OK;
      const nocter_wait wait = within(5'000);
      nocter_pass* none;
      int64_t due;
      CHECK_STATUS(notify(self.of, "another"), NOCTER_E_REENTRANT);
      CHECK_STATUS(nocter_keyed_claim(self.of, &wait, &none), NOCTER_E_REENTRANT);
      CHECK_STATUS(nocter_pass_complete(self.other), NOCTER_E_REENTRANT);
      CHECK_STATUS(nocter_keyed_resync(self.of, nullptr, 0, 0), NOCTER_E_REENTRANT);
      // It could only wait for itself, whichever of the two is said.
      const nocter_status drained = nocter_keyed_drained(self.of, &wait);
      CHECK(drained == NOCTER_E_WOULD_DEADLOCK || drained == NOCTER_E_REENTRANT);
      CHECK(counts(self.of).active == 1);
      CHECK(nocter_keyed_next_due(self.of, &due) >= NOCTER_OK);
      nocter_pass_drop(self.other);
      CHECK(counts(self.of).active == 0);
      return NOCTER_OK;
    }
  };
  nocter_keyed* const of = queue();
  Source given = {of, pass_of(of, "other")};
  const nocter_keyed_source source = {Source::next, nullptr, &given};
  CHECK_STATUS(nocter_keyed_resync(of, &source, 1'000'000'000, 1), NOCTER_OK);
  nocter_pass* const pass = claim(of);
  CHECK(key_is(pass, "key") && given.asked == 1);
  CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  nocter_keyed_destroy(of);
}

// Given up inside of its own source: the claim that asks it hears that it is closed.
CASE(ffi_13_a_queue_destroyed_inside_its_source, "FFI-13 GEN-05 KEY-10") {
  struct Source {
    nocter_keyed* of;
    int drops = 0;
    static nocter_status next(void* user, nocter_text* out_key) {
      Source& self = *static_cast<Source*>(user);
      *out_key = nocter_text_of("key");
      nocter_keyed_destroy(std::exchange(self.of, nullptr));
      CHECK(self.drops == 0);
      return NOCTER_OK;
    }
    static void drop(void* user) { static_cast<Source*>(user)->drops++; }
  };
  Source given = {queue()};
  const nocter_keyed_source source = {Source::next, Source::drop, &given};
  nocter_keyed* const of = given.of;
  CHECK_STATUS(nocter_keyed_resync(of, &source, 1'000, 1), NOCTER_OK);
  nocter_pass* none;
  CHECK_STATUS(nocter_keyed_claim(of, nullptr, &none), NOCTER_CLOSED);
  CHECK(none == nullptr && given.drops == 1);
  check_dead(nullptr);
}

// ---- The child after a fork -----------------------------------------------------------------------------------------------

CASE(ffi_11_every_call_on_a_queue_says_forked, "FFI-11 GEN-11") {
  nocter_keyed* const of = queue();
  nocter_keyed* const served = queue();
  nocter_workers* const workers = serve(served, run_well, nullptr, 2);
  nocter_pass* const pass = pass_of(of);
  CHECK_STATUS(notify(of, "waits"), NOCTER_OK);
  CHECK(in_child([&] {
          every_status(of, pass, NOCTER_E_FORKED);
          CHECK(nocter_pass_key(pass).size == 0 && nocter_pass_failures(pass) == 0 && !nocter_pass_interrupted(pass));
          CHECK(nocter_pass_interrupt(pass) == nullptr);
          nocter_keyed_close(of, NOCTER_CLOSE_DISCARD);
          nocter_pass_drop(pass);
          nocter_workers_destroy(workers);
          nocter_keyed_destroy(of);
          nocter_keyed_destroy(served);
          call_everything_keyed();  // with new ones
          return 0;
        }) == 0);
  CHECK(counts(of).active == 1 && counts(of).waiting == 1 && counts(of).accepting == 1);
  CHECK_STATUS(nocter_pass_complete(pass), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_keyed_destroy(of);
  nocter_keyed_destroy(served);
}

CASE(ffi_11_fork_inside_a_pass_and_a_source, "FFI-11") {
  static nocter_keyed* of = nullptr;
  static std::atomic<int> forks{0};
  of = queue(8, 2);
  const auto fork_here = [](nocter_pass* pass) {
    CHECK(in_child([&] {
            CHECK_STATUS(notify(of), NOCTER_E_FORKED);
            nocter_pass_drop(pass);
            call_everything_keyed();
            return 0;
          }) == 0);
    forks++;
  };
  static constexpr auto kFork = +fork_here;
  const nocter_keyed_source source = {[](void*, nocter_text* out_key) -> nocter_status {
                                        *out_key = nocter_text_of("key");
                                        kFork(nullptr);
                                        return NOCTER_OK;
                                      },
                                      nullptr, nullptr};
  const auto run = [](void*, nocter_text, nocter_pass* pass) -> nocter_status {
    kFork(pass);
    return NOCTER_OK;
  };
  CHECK_STATUS(nocter_keyed_resync(of, &source, 1'000'000, 1), NOCTER_OK);
  nocter_workers* const workers = serve(of, run, nullptr, 2);
  eventually([] { return forks.load() >= 6; });
  nocter_keyed_close(of, NOCTER_CLOSE_DISCARD);
  nocter_workers_destroy(workers);
  CHECK(counts(of).failed == 0);
  nocter_keyed_destroy(of);
}

// ---- Leaving the process --------------------------------------------------------------------------------------------------

CASE_ENDING(ffi_17_exit_with_busy_passes, "FFI-17", {.exit_code = 3, .leaves_within_ms = kLeave}) {
  nocter_keyed* const of = queue(64, 4);
  const auto run = [](void* user, nocter_text key, nocter_pass*) -> nocter_status {
    const nocter_status status = nocter_keyed_notify(static_cast<nocter_keyed*>(user), key);
    return status == NOCTER_OK || status == NOCTER_COALESCED ? NOCTER_OK : NOCTER_E_STATE;
  };
  serve(of, run, of, 4);
  for (int i = 0; i < 8; i++) CHECK_STATUS(notify(of, std::to_string(i).c_str()), NOCTER_OK);
  CHECK_STATUS(nocter_keyed_notify_after(of, nocter_text_of("later"), 1'000'000), NOCTER_OK);
  eventually([&] { return counts(of).started > 100; });
  leaving();
  std::exit(3);
}
