// The keyed queue: made, notified, claimed from, asked, closed, given up. Once it is made nothing of it needs memory.
#include <utility>

#include "oom/world.hpp"
#include "support/keyed.hpp"
#include "support/thread.hpp"

namespace oom {

namespace {

using namespace nocter_tests;

constexpr const char* kKeys[] = {"one", "a key of so many bytes that it does not lie in a record", "three"};
nocter_text key(size_t which) { return nocter_text_of(kKeys[which]); }

nocter_status create(World& world, uint32_t maximum_keys, uint32_t workers, uint32_t maximum_key_size) {
  world.keyed_options = NOCTER_KEYED_OPTIONS_INIT;
  world.keyed_options.maximum_keys = maximum_keys;
  world.keyed_options.workers = workers;
  world.keyed_options.maximum_key_size = maximum_key_size;
  world.keyed_options.waiters = world.waiters.notifier();
  world.keyed_options.work = world.work.notifier();
  return nocter_keyed_create(world.lend(world.keyed_options), world.fill(world.out.queue));
}

// ---- States ---------------------------------------------------------------------------------------------------------

void many_queues(World& world) {
  static size_t many = 200;
  world.many_queues.resize(many++);
  for (nocter_keyed*& queue : world.many_queues) {
    const nocter_keyed_options options = options_of(QueueShape{.maximum_keys = 1, .workers = 1});
    STATUS(nocter_keyed_create(&options, &queue), NOCTER_OK);
  }
}

// Two keys, one worker.
void empty(World& world) {
  const nocter_keyed_options options = options_of(QueueShape{.maximum_keys = 2,
                                                             .workers = 1,
                                                             .maximum_key_size = 100,
                                                             .waiters = world.waiters.notifier(),
                                                             .work = world.work.notifier()});
  STATUS(nocter_keyed_create(&options, &world.queue), NOCTER_OK);
}

void one_waits(World& world) {
  empty(world);
  STATUS(nocter_keyed_notify(world.queue, key(1)), NOCTER_OK);
}

void full(World& world) {
  one_waits(world);
  STATUS(nocter_keyed_notify(world.queue, key(0)), NOCTER_OK);
}

void one_runs(World& world) {
  one_waits(world);
  world.pass = claim(world.queue);
}

void one_runs_dirty(World& world) {
  one_runs(world);
  STATUS(nocter_keyed_notify(world.queue, key(1)), NOCTER_OK);
}

void one_is_delayed(World& world) {
  empty(world);
  STATUS(nocter_keyed_notify_after(world.queue, key(1), kMuchLater), NOCTER_OK);
}

// A pass that runs and is dirty, and a key that waits and that no worker is left for.
void busy(World& world) {
  one_runs_dirty(world);
  STATUS(nocter_keyed_notify(world.queue, key(0)), NOCTER_OK);
}

void closed(World& world) {
  empty(world);
  nocter_keyed_close(world.queue, NOCTER_CLOSE_DISCARD);
}

void empty_with_interrupt(World& world) {
  empty(world);
  an_interrupt(world);
}

nocter_status give_key(void*, nocter_text* out_key) {
  *out_key = key(1);
  return NOCTER_OK;
}
void drop_source(void* user) { static_cast<World*>(user)->sources_dropped.fetch_add(1); }
nocter_status start_resync(World& world) {
  const nocter_keyed_source source = {give_key, drop_source, &world};
  const nocter_status status = nocter_keyed_resync(world.queue, &source, kMuchLater, 1);
  if (status == NOCTER_OK) world.sources_given.fetch_add(1);
  return status;
}

void resyncing(World& world) {
  empty(world);
  STATUS(start_resync(world), NOCTER_OK);
}

nocter_status run_well(void*, nocter_text, nocter_pass*) { return NOCTER_OK; }

void served_queue(World& world) {
  empty(world);
  STATUS(nocter_keyed_serve(world.queue, run_well, nullptr, nullptr, &world.workers), NOCTER_OK);
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

template <size_t which>
nocter_status tell(World& world) {
  return nocter_keyed_notify(world.queue, key(which));
}

template <size_t which>
nocter_status tell_later(World& world) {
  return nocter_keyed_notify_after(world.queue, key(which), kMuchLater);
}

nocter_status tell_many(World& world) {
  const nocter_text keys[] = {key(0), key(1), key(2)};
  return nocter_keyed_notify_many(world.queue, keys, 3, world.out.each);
}

nocter_status claim_once(World& world, const nocter_wait* wait) {
  return nocter_keyed_claim(world.queue, wait, world.fill(world.out.pass));
}

template <nocter_status (*end)(nocter_pass*)>
nocter_status end_pass(World& world) {
  const nocter_status status = end(world.pass);
  if (status == NOCTER_OK) world.pass = nullptr;
  return status;
}

nocter_status back_off(nocter_pass* pass) { return nocter_pass_retry_after(pass, -1); }

nocter_status drop_pass(World& world) {
  nocter_pass_drop(std::exchange(world.pass, nullptr));
  return NOCTER_OK;
}

template <nocter_close_mode mode>
nocter_status close_queue(World& world) {
  nocter_keyed_close(world.queue, mode);
  return NOCTER_OK;
}

}  // namespace

Scenarios keyed_scenarios() {
  return {
      {"keyed_options_init", nothing,
       [](World& world) {
         nocter_keyed_options_init(&world.keyed_options, sizeof world.keyed_options);
         nocter_keyed_counts_init(&world.keyed_counts, sizeof world.keyed_counts);
         return as_status(world.keyed_options.maximum_keys == 1024 &&
                          world.keyed_counts.size == sizeof world.keyed_counts);
       },
       NOCTER_OK},
      {"keyed_create_for_one_key", nothing, [](World& world) { return create(world, 1, 1, 1); }, NOCTER_OK},
      {"keyed_create_for_long_keys", nothing, [](World& world) { return create(world, 64, 2, 65536); }, NOCTER_OK},
      {"keyed_create_for_100000_keys", nothing, [](World& world) { return create(world, 100'000, 100, 256); },
       NOCTER_OK},
      {"keyed_create_beside_many", many_queues, [](World& world) { return create(world, 3, 2, 32); }, NOCTER_OK, 1},
      {"keyed_create_with_too_many_workers", nothing, [](World& world) { return create(world, 1, 2, 32); },
       NOCTER_E_ARGUMENT},

      {"keyed_notify", empty, tell<0>, NOCTER_OK},
      {"keyed_notify_long", empty, tell<1>, NOCTER_OK},
      {"keyed_notify_again", one_waits, tell<1>, NOCTER_COALESCED},
      {"keyed_notify_during_a_pass", one_runs, tell<1>, NOCTER_OK},
      {"keyed_notify_when_full", full, tell<2>, NOCTER_SATURATED},
      {"keyed_notify_closed", closed, tell<0>, NOCTER_CLOSED},
      {"keyed_notify_delayed", one_is_delayed, tell<1>, NOCTER_COALESCED},
      {"keyed_notify_after", empty, tell_later<1>, NOCTER_OK},
      {"keyed_notify_after_during_a_pass", one_runs, tell_later<1>, NOCTER_OK},
      {"keyed_notify_after_when_full", full, tell_later<2>, NOCTER_SATURATED},
      {"keyed_notify_many", empty, tell_many, NOCTER_SATURATED},

      {"keyed_claim", one_waits, [](World& world) { return claim_once(world, nullptr); }, NOCTER_OK},
      {"keyed_claim_empty", empty, [](World& world) { return claim_once(world, nullptr); }, NOCTER_EMPTY},
      {"keyed_claim_timeout", empty, [](World& world) { return claim_once(world, &kPast); }, NOCTER_TIMEOUT},
      {"keyed_claim_asleep", one_is_delayed,
       [](World& world) {
         const nocter_wait soon = nocter_wait_for_ms(2);
         return claim_once(world, &soon);
       },
       NOCTER_TIMEOUT},
      {"keyed_claim_interrupted", empty_with_interrupt,
       [](World& world) {
         const nocter_wait wait = interrupted(world);
         return claim_once(world, &wait);
       },
       NOCTER_INTERRUPTED},
      {"keyed_claim_with_every_worker_in_use", busy, [](World& world) { return claim_once(world, nullptr); },
       NOCTER_EMPTY},
      {"keyed_claim_closed", closed, [](World& world) { return claim_once(world, &kForever); }, NOCTER_CLOSED},
      {"keyed_claim_of_a_slice", resyncing, [](World& world) { return claim_once(world, &kForever); }, NOCTER_OK},

      {"pass_questions", one_runs,
       [](World& world) {
         return as_status(nocter_pass_key(world.pass).size == key(1).size && nocter_pass_failures(world.pass) == 0 &&
                          !nocter_pass_interrupted(world.pass) && nocter_pass_interrupt(world.pass) != nullptr);
       },
       NOCTER_OK},
      {"pass_complete", one_runs, end_pass<nocter_pass_complete>, NOCTER_OK},
      {"pass_complete_dirty", one_runs_dirty, end_pass<nocter_pass_complete>, NOCTER_OK},
      {"pass_complete_while_one_waits", busy, end_pass<nocter_pass_complete>, NOCTER_OK},
      {"pass_fail", one_runs, end_pass<nocter_pass_fail>, NOCTER_OK},
      {"pass_retry_after", one_runs, end_pass<back_off>, NOCTER_OK},
      {"pass_drop", one_runs_dirty, drop_pass, NOCTER_OK},
      {"pass_drop_of_nothing", nothing, drop_pass, NOCTER_OK},

      {"keyed_next_due", one_is_delayed,
       [](World& world) { return nocter_keyed_next_due(world.queue, world.fill(world.out.due)); }, NOCTER_OK},
      {"keyed_next_due_never", one_waits,
       [](World& world) { return nocter_keyed_next_due(world.queue, world.fill(world.out.due)); }, NOCTER_EMPTY},
      {"keyed_count", busy,
       [](World& world) {
         world.keyed_counts = NOCTER_KEYED_COUNTS_INIT;
         return nocter_keyed_count(world.queue, world.lend(world.keyed_counts));
       },
       NOCTER_OK},
      {"keyed_resync", empty, start_resync, NOCTER_OK},
      {"keyed_resync_again", resyncing, start_resync, NOCTER_OK},
      {"keyed_resync_closed", closed, start_resync, NOCTER_CLOSED},
      {"keyed_resync_no_more", resyncing, [](World& world) { return nocter_keyed_resync(world.queue, nullptr, 0, 0); },
       NOCTER_OK},

      {"keyed_discard", busy, close_queue<NOCTER_CLOSE_DISCARD>, NOCTER_OK},
      {"keyed_drain", busy,
       [](World& world) {
         nocter_keyed_close(world.queue, NOCTER_CLOSE_DRAIN);
         return nocter_keyed_drained(world.queue, &kPast);
       },
       NOCTER_TIMEOUT},
      {"keyed_drained", closed, [](World& world) { return nocter_keyed_drained(world.queue, &kForever); }, NOCTER_OK},
      {"keyed_drained_before_close", empty, [](World& world) { return nocter_keyed_drained(world.queue, &kForever); },
       NOCTER_E_STATE},
      {"keyed_destroy", busy,
       [](World& world) -> nocter_status {
         nocter_keyed_destroy(std::exchange(world.queue, nullptr));
         return NOCTER_OK;
       },
       NOCTER_OK},

      {"keyed_serve", empty,
       [](World& world) {
         return nocter_keyed_serve(world.queue, run_well, nullptr, nullptr, world.fill(world.out.workers));
       },
       NOCTER_OK},
      {"keyed_serve_closed", closed,
       [](World& world) {
         return nocter_keyed_serve(world.queue, run_well, nullptr, nullptr, world.fill(world.out.workers));
       },
       NOCTER_CLOSED},
      {"keyed_notify_served", served_queue,
       [](World& world) -> nocter_status {
         const nocter_status status = nocter_keyed_notify(world.queue, key(1));
         // Whether its pass has ended is seen in the counts; the threads that make it are not short of memory.
         return status == NOCTER_OK && eventually([&] {
                  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
                  return nocter_keyed_count(world.queue, &counts) == NOCTER_OK && counts.completed == 1;
                })
                    ? NOCTER_OK
                    : NOCTER_E_INTERNAL;
       },
       NOCTER_OK},
  };
}

}  // namespace oom
