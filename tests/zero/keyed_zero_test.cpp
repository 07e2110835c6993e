// GEN-08 for the keyed queue: all it needs is allocated at creation, and what nobody waits for makes no system call.
#include <nocter.h>

#include <atomic>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/service.hpp"
#include "zero/steady.hpp"
#include "zero/system_calls.hpp"

using namespace nocter_tests;
using zero::check_steady;
using zero::leave;

namespace {

constexpr nocter_wait kForever = {NOCTER_FOREVER, nullptr, 0, 0};

// Some lie in a record itself, some do not.
constexpr const char* kKeys[] = {"a", "key two", "a key of so many bytes that it does not lie in a record itself", "4"};
nocter_text key(size_t which) { return nocter_text_of(kKeys[which]); }

nocter_pass* claimed(nocter_keyed* queue) {
  nocter_pass* pass = nullptr;
  STATUS(nocter_keyed_claim(queue, nullptr, &pass), NOCTER_OK);
  return pass;
}

// Through every state, and every way to end a pass.
void ordinary_turn(nocter_keyed* queue) {
  STATUS(nocter_keyed_notify(queue, key(2)), NOCTER_OK);
  STATUS(nocter_keyed_notify(queue, key(2)), NOCTER_COALESCED);
  nocter_pass* pass = claimed(queue);
  HOLDS(nocter_pass_key(pass).size == key(2).size && nocter_pass_failures(pass) == 0);
  HOLDS(!nocter_pass_interrupted(pass) && nocter_pass_interrupt(pass) != nullptr);
  STATUS(nocter_keyed_notify(queue, key(2)), NOCTER_OK);
  STATUS(nocter_keyed_notify(queue, key(2)), NOCTER_COALESCED);
  STATUS(nocter_pass_fail(pass), NOCTER_OK);
  pass = claimed(queue);
  HOLDS(nocter_pass_failures(pass) == 1);
  STATUS(nocter_pass_complete(pass), NOCTER_OK);
  STATUS(nocter_keyed_notify(queue, key(0)), NOCTER_OK);
  nocter_pass_drop(claimed(queue));
}

void delaying_turn(nocter_keyed* queue) {
  STATUS(nocter_keyed_notify_after(queue, key(0), kMuchLater), NOCTER_OK);
  STATUS(nocter_keyed_notify_after(queue, key(0), kMuchLater / 2), NOCTER_COALESCED);
  int64_t due = 0;
  STATUS(nocter_keyed_next_due(queue, &due), NOCTER_OK);
  STATUS(nocter_keyed_notify(queue, key(0)), NOCTER_COALESCED);
  nocter_pass* pass = claimed(queue);
  STATUS(nocter_pass_retry_after(pass, -1), NOCTER_OK);
  STATUS(nocter_keyed_notify(queue, key(0)), NOCTER_COALESCED);
  pass = claimed(queue);
  STATUS(nocter_keyed_notify_after(queue, key(0), kMuchLater), NOCTER_OK);
  STATUS(nocter_pass_complete(pass), NOCTER_OK);
  STATUS(nocter_keyed_notify(queue, key(0)), NOCTER_COALESCED);
  STATUS(nocter_pass_complete(claimed(queue)), NOCTER_OK);
}

// Fills the queue of three keys and two workers to its bounds.
void full_turn(nocter_keyed* queue) {
  nocter_text keys[4];
  nocter_status each[4];
  for (size_t i = 0; i < 4; i++) keys[i] = key(i);
  STATUS(nocter_keyed_notify_many(queue, keys, 4, each), NOCTER_SATURATED);
  HOLDS(each[2] == NOCTER_OK && each[3] == NOCTER_SATURATED);
  nocter_pass* const passes[2] = {claimed(queue), claimed(queue)};
  nocter_pass* none = nullptr;
  STATUS(nocter_keyed_claim(queue, nullptr, &none), NOCTER_EMPTY);
  counts_of(queue);
  for (nocter_pass* pass : passes) STATUS(nocter_pass_complete(pass), NOCTER_OK);
  STATUS(nocter_keyed_notify(queue, key(3)), NOCTER_OK);
  for (int i = 0; i < 2; i++) STATUS(nocter_pass_complete(claimed(queue)), NOCTER_OK);
}

// Another source each turn, which gives one key.
void resync_turn(nocter_keyed* queue) {
  struct Source {
    static nocter_status next(void* user, nocter_text* out_key) {
      if (++*static_cast<int*>(user) % 2 == 0) return NOCTER_EMPTY;
      *out_key = key(1);
      return NOCTER_OK;
    }
  };
  static int asked = 0;
  asked = 0;
  const nocter_keyed_source source = {Source::next, nullptr, &asked};
  STATUS(nocter_keyed_resync(queue, &source, kMuchLater, 2), NOCTER_OK);
  STATUS(nocter_pass_complete(claimed(queue)), NOCTER_OK);
  HOLDS(asked == 2);
  STATUS(nocter_keyed_resync(queue, nullptr, 0, 0), NOCTER_OK);
}

nocter_status count_pass(void* user, nocter_text, nocter_pass*) {
  static_cast<std::atomic<uint64_t>*>(user)->fetch_add(1);
  return NOCTER_OK;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_zero, EveryTest)

BOOST_AUTO_TEST_CASE(gen_08_a_million_operations_on_keys_allocate_nothing, *label("GEN-08") * label("K-26")) {
  const Signal signal;
  nocter_eventfd* eventfd = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_eventfd_create(&eventfd), NOCTER_OK);
  const Queue queue(QueueShape{.maximum_keys = 3,
                               .workers = 2,
                               .waiters = nocter_signal_notifier(signal),
                               .work = nocter_eventfd_notifier(eventfd)});
  check_steady(rounds(20'000, 2'000), [&] {
    ordinary_turn(queue);
    delaying_turn(queue);
    full_turn(queue);
    resync_turn(queue);
    nocter_eventfd_clear(eventfd);
  });
  nocter_eventfd_destroy(eventfd);
}

// Ever new keys: each takes the place of one that is gone.
BOOST_AUTO_TEST_CASE(gen_08_ever_new_keys_allocate_nothing, *label("GEN-08") * label("K-26")) {
  const Queue queue(QueueShape{.maximum_keys = 16, .workers = 2});
  char name[48];
  uint64_t number = 0;
  check_steady(rounds(200'000, 20'000), [&] {
    const int size =
        std::snprintf(name, sizeof name, number % 2 == 0 ? "%lu" : "a name of more than thirty-two bytes %lu", number);
    number++;
    STATUS(nocter_keyed_notify(queue, {name, static_cast<size_t>(size)}), NOCTER_OK);
    STATUS(nocter_pass_complete(claimed(queue)), NOCTER_OK);
  });
}

BOOST_AUTO_TEST_CASE(gen_08_served_keys_allocate_nothing_on_any_thread, *label("GEN-08")) {
  std::atomic<uint64_t> passes{0};
  const Queue queue(QueueShape{.maximum_keys = 4, .workers = 2});
  nocter_workers* workers = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_keyed_serve(queue, count_pass, &passes, nullptr, &workers), NOCTER_OK);
  check_steady(1, [&] {
    const uint64_t enough = passes.load() + rounds(100'000, 5'000);
    while (passes.load() < enough) {
      for (size_t i = 0; i < 4; i++) HOLDS(nocter_keyed_notify(queue, key(i)) >= NOCTER_OK);
    }
  });
  nocter_workers_destroy(workers);
}

// One key at a time between two threads that both wait, with pauses in which they fall asleep, and times that they keep.
BOOST_AUTO_TEST_CASE(gen_08_waits_for_keys_and_times_allocate_nothing, *label("GEN-08")) {
  const Queue queue(QueueShape{.maximum_keys = 2, .workers = 1});
  std::atomic<uint64_t> passes{0};
  Thread worker([&] {
    for (;;) {
      nocter_pass* pass = nullptr;
      if (nocter_keyed_claim(queue, &kForever, &pass) != NOCTER_OK) break;
      STATUS(nocter_pass_complete(pass), NOCTER_OK);
      passes.fetch_add(1);
    }
  });
  check_steady(rounds(2'000, 200), [&, turn = 0]() mutable {
    if (++turn % 100 == 0) pause_ms(5);
    const uint64_t before = passes.load();
    STATUS(turn % 10 == 0 ? nocter_keyed_notify_after(queue, key(2), 50'000) : nocter_keyed_notify(queue, key(2)),
           NOCTER_OK);
    HOLDS(eventually([&] { return passes.load() > before; }));
  });
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
}

BOOST_AUTO_TEST_CASE(gen_08_keys_that_nobody_waits_for_make_no_system_call, *label("GEN-08")) {
  nocter_keyed* queue = nullptr;
  const zero::SystemCalls calls = zero::system_calls_of(
      [&] {
        const nocter_keyed_options options = options_of(QueueShape{.maximum_keys = 3, .workers = 2});
        if (nocter_keyed_create(&options, &queue) != NOCTER_OK) leave(1);
      },
      [&] {
        for (uint64_t i = 0; i < rounds(50'000, 2'000); i++) {
          ordinary_turn(queue);
          delaying_turn(queue);
          full_turn(queue);
        }
        if (!Failures::collect().empty()) leave(2);
      });
  BOOST_CHECK(calls.measured);
  BOOST_CHECK_MESSAGE(calls.count == 0, calls.count << " system calls, the first is number " << calls.first);
}

BOOST_AUTO_TEST_SUITE_END()
