// Who waits for something to clean, for the end of a cleanup, for the end of it all: nobody sleeps through it.
#include "sched/retirement_world.hpp"

namespace sched {

namespace {

// As many claimers as resources, and no more: whoever sleeps through one sleeps for ever.
template <uint32_t workers, bool stays_awake>
void claimers_and_drops(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = workers, .stays_awake = stays_awake});
  nocter_resource* const one = world->own(1);
  nocter_resource* const other = world->own(2);
  for (const char* name : {"first cleaner", "second cleaner"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      require_equal(world->clean_once(&wait), NOCTER_OK, "claim");
    });
  }
  play.thread("owner", [=] {
    nocter_resource_drop(one);
    nocter_resource_drop(other);
  });
  play.at_end([=] {
    require_equal(world->counts().unobserved_done, 2, "cleanups");
    world->settle();
  });
}

template <bool stays_awake>
void cleaners_run_together(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 2, .stays_awake = stays_awake});
  auto running = std::make_shared<int>(0);
  nocter_resource* const one = world->own(1);
  nocter_resource* const other = world->own(2);
  for (const char* name : {"first cleaner", "second cleaner"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      nocter_cleanup* cleanup;
      require_equal(world->claim(cleanup, &wait), NOCTER_OK, "claim");
      ++*running;
      wait_until([=] { return *running == 2; });
      world->begin(cleanup);
      require_equal(nocter_cleanup_complete(cleanup, 0), NOCTER_OK, "complete");
    });
  }
  play.thread("owner", [=] {
    nocter_resource_drop(one);
    nocter_resource_drop(other);
  });
  play.at_end([=] { world->settle(); });
}

// One claimer gives up, perhaps with the wake in its hand that was meant for the other.
template <bool stays_awake, bool interrupted>
void claimer_gives_up(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 2, .stays_awake = stays_awake});
  auto interrupt = std::make_shared<OwnInterrupt>();
  nocter_resource* const one = world->own(1);
  nocter_resource* const other = world->own(2);
  auto left = std::make_shared<bool>(true);
  play.thread("impatient cleaner", [=] {
    const nocter_wait wait = interrupted ? forever(*interrupt) : within(1'000'000'000);
    const nocter_status heard = world->clean_once(&wait);
    if (heard == NOCTER_OK) {
      *left = false;
      nocter_resource_drop(other);  // the patient one gets one of its own
    } else {
      require_equal(heard, interrupted ? NOCTER_INTERRUPTED : NOCTER_TIMEOUT, "claim");
    }
  });
  play.thread("patient cleaner", [=] {
    const nocter_wait wait = forever();
    require_equal(world->clean_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("owner", [=] {
    if (interrupted) nocter_interrupt_raise(*interrupt);
    nocter_resource_drop(one);
  });
  play.at_end([=] {
    if (*left) {
      nocter_resource_drop(other);
      world->cleaned();
    }
    world->settle();
  });
}

// A worker slot that becomes free is as good as something queued.
template <bool completes>
void slot_freed_for_a_claimer(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1});
  nocter_resource_drop(world->own(1));
  nocter_resource_drop(world->own(2));
  nocter_cleanup* cleanup;
  require_equal(world->claim(cleanup), NOCTER_OK, "claim");
  world->begin(cleanup);
  play.thread("claimer", [=] {
    const nocter_wait wait = forever();
    require_equal(world->clean_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("cleaner", [=] {
    if (completes) {
      require_equal(nocter_cleanup_complete(cleanup, 0), NOCTER_OK, "complete");
    } else {
      nocter_cleanup_drop(cleanup);
    }
  });
  play.at_end([=] { world->settle(); });
}

// A host that claims from its own loop: misses, sleeps until the notifier tells, claims again.
void host_loop(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1});
  auto told = std::make_shared<int>(0);
  world->work.on_wake = [=] { ++*told; };
  nocter_resource* const one = world->own(1);
  nocter_resource* const other = world->own(2);
  play.thread("host", [=] {
    for (int cleaned = 0; cleaned < 2;) {
      const int before = *told;
      const nocter_status status = world->clean_once();
      if (status == NOCTER_OK) {
        cleaned++;
      } else {
        require_equal(status, NOCTER_EMPTY, "claim");
        wait_until([=] { return *told != before; });
      }
    }
  });
  play.thread("owner", [=] { nocter_resource_drop(one); });
  play.thread("other owner", [=] { nocter_resource_drop(other); });
  play.at_end([=] { world->settle(); });
}

template <bool stays_awake>
void take_and_cleanup(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1, .stays_awake = stays_awake});
  nocter_resource* const resource = world->own(1);
  play.thread("owner", [=] {
    const nocter_wait wait = forever();
    int32_t code;
    require_equal(world->take(world->retire(resource), &wait, &code), NOCTER_OK, "take");
    require_equal(code, 5, "the code");
    require(world->ledger.ended(1), "completed before the resource was gone");
  });
  play.thread("cleaner", [=] {
    const nocter_wait wait = forever();
    require_equal(world->clean_once(&wait, 5), NOCTER_OK, "claim");
  });
  play.at_end([=] { world->settle(); });
}

// Closed while somebody waits for a place, and for something to clean.
void close_against_waits(Play& play) {
  auto world = retiring({.maximum_resources = 1, .workers = 1});
  nocter_permit* const permit = world->reserved();
  play.thread("reserver", [=] {
    const nocter_wait wait = forever();
    nocter_permit* mine;
    nocter_epoch epoch;
    const nocter_status status = world->reserve(mine, epoch);
    if (status == NOCTER_CLOSED) return;
    require_equal(status, NOCTER_SATURATED, "reserve");
    require_equal(world->wait_epoch(epoch, &wait), NOCTER_CLOSED, "wait_epoch");
  });
  play.thread("claimer", [=] {
    const nocter_wait wait = forever();
    require_equal(world->clean_once(&wait), NOCTER_CLOSED, "claim");
  });
  play.thread("closer", [=] {
    nocter_retirement_close(world->service);
    nocter_permit_drop(permit);
  });
  play.at_end([=] { world->settle(); });
}

void drained_against_the_last(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 2});
  nocter_permit* const permit = world->reserved();
  nocter_resource_drop(world->own(1));
  nocter_retirement_close(world->service);
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    require_equal(world->drained(&wait), NOCTER_OK, "drained");
    require(world->ledger.ended(1), "RET-08: drained while a resource was there");
    require_equal(world->counts().reserved, 0, "places when drained");
  });
  play.thread("cleaner", [=] {
    nocter_cleanup* cleanup;
    require_equal(world->claim(cleanup), NOCTER_OK, "claim");
    nocter_cleanup_drop(cleanup);
  });
  play.thread("owner", [=] { nocter_permit_drop(permit); });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> retirement_waits() {
  return {
      {"retirement_claimers", "GEN-04 RET-05", claimers_and_drops<2, false>},
      {"retirement_claimers_of_one_slot", "GEN-04 RET-05", claimers_and_drops<1, false>},
      {"retirement_claimers_awake", "GEN-04", claimers_and_drops<2, true>},
      {"retirement_cleaners_together", "GEN-04", cleaners_run_together<false>},
      {"retirement_cleaners_together_awake", "GEN-04", cleaners_run_together<true>},
      {"retirement_claimer_times_out", "GEN-04 GEN-07", claimer_gives_up<false, false>},
      {"retirement_claimer_interrupted", "GEN-04 GEN-07", claimer_gives_up<false, true>},
      {"retirement_claimer_interrupted_awake", "GEN-04 GEN-07", claimer_gives_up<true, true>},
      {"retirement_slot_freed_by_complete", "GEN-04 RET-05", slot_freed_for_a_claimer<true>},
      {"retirement_slot_freed_by_drop", "GEN-04 RET-05", slot_freed_for_a_claimer<false>},
      {"retirement_host_loop", "GEN-04", host_loop},
      {"r12_take_and_cleanup", "RET-06 GEN-07 R-12", take_and_cleanup<false>},
      {"r12_take_and_cleanup_awake", "RET-06 GEN-07 R-12", take_and_cleanup<true>},
      {"r02_close_against_waits", "RET-08 GEN-07 R-2", close_against_waits},
      {"r23_drained_against_the_last", "RET-08 R-23", drained_against_the_last},
  };
}

}  // namespace sched
