// Two or three threads after one and the same resource: its cleanup runs once, its place is freed once, and everybody hears the truth.
#include "sched/retirement_world.hpp"

namespace sched {

namespace {

// Which way a race went, as its threads heard it.
struct Heard {
  nocter_status one = -100, other = -100, third = -100;
};

void detach_against_claim(Play& play) {
  auto world = retiring();
  auto heard = std::make_shared<Heard>();
  const nocter_retirement_id id = world->retired(1);
  play.thread("detacher", [=] { heard->one = world->detach(id); });
  play.thread("cleaner", [=] { world->cleaned(); });
  play.at_end([=] {
    require_equal(heard->one, NOCTER_OK, "a detach");
    require_equal(world->take(id), NOCTER_E_UNKNOWN, "a take after the detach");
    const auto counts = world->counts();
    require_equal(counts.epoch, 1, "places freed");
    require_equal(counts.detached_done + counts.detached_completed, 1, "which detach it was");
    world->settle();
  });
}

template <bool loses>
void detach_against_end(Play& play) {
  auto world = retiring();
  const nocter_retirement_id id = world->retired(1);
  nocter_cleanup* cleanup;
  require_equal(world->claim(cleanup), NOCTER_OK, "claim");
  world->begin(cleanup);
  play.thread("detacher", [=] { require_equal(world->detach(id), NOCTER_OK, "a detach"); });
  play.thread("cleaner", [=] {
    if (loses) {
      nocter_cleanup_drop(cleanup);
    } else {
      require_equal(nocter_cleanup_complete(cleanup, 3), NOCTER_OK, "complete");
    }
  });
  play.at_end([=] {
    const auto counts = world->counts();
    require_equal(counts.epoch, 1, "places freed");
    require_equal(counts.failed_unobserved, 1, "a failure nobody heard of");
    world->settle();
  });
}

void take_against_detach(Play& play) {
  auto world = retiring();
  auto heard = std::make_shared<Heard>();
  const nocter_retirement_id id = world->retired(1);
  world->cleaned(7);
  play.thread("taker", [=] {
    int32_t code;
    heard->one = world->take(id, nullptr, &code);
    if (heard->one == NOCTER_OK) require_equal(code, 7, "the code");
  });
  play.thread("detacher", [=] { heard->other = world->detach(id); });
  play.at_end([=] {
    require_equal((heard->one == NOCTER_OK) + (heard->other == NOCTER_OK), 1, "winners");
    require(heard->one == NOCTER_OK || heard->one == NOCTER_E_UNKNOWN, "what the taker heard");
    require_equal(world->counts().epoch, 1, "places freed");
    world->settle();
  });
}

template <bool patient>
void two_takes(Play& play) {
  auto world = retiring();
  auto heard = std::make_shared<Heard>();
  const nocter_retirement_id id = world->retired(1);
  play.thread("first taker", [=] {
    const nocter_wait wait = forever();
    heard->one = world->take(id, &wait);
  });
  play.thread("second taker", [=] {
    const nocter_wait wait = forever();
    heard->other = world->take(id, patient ? &wait : nullptr);
  });
  play.thread("cleaner", [=] { world->cleaned(); });
  play.at_end([=] {
    require_equal((heard->one == NOCTER_OK) + (heard->other == NOCTER_OK), 1, "winners");
    const nocter_status loser = heard->one == NOCTER_OK ? heard->other : heard->one;
    require(loser == NOCTER_E_UNKNOWN || (!patient && loser == NOCTER_PENDING), "what the loser heard");
    world->settle();
  });
}

void take_against_detach_all(Play& play) {
  auto world = retiring({.maximum_resources = 3, .workers = 2});
  auto heard = std::make_shared<Heard>();
  const nocter_retirement_id id = world->retired(1);
  play.thread("taker", [=] {
    const nocter_wait wait = forever();
    heard->one = world->take(id, &wait);
  });
  play.thread("cleaner", [=] { world->cleaned(); });
  play.thread("host that goes", [=] { nocter_retirement_detach_all(world->service); });
  play.at_end([=] {
    require(heard->one == NOCTER_OK || heard->one == NOCTER_E_UNKNOWN, "what the taker heard");
    require_equal(world->counts().epoch, 1, "places freed");
    world->settle();
  });
}

// Nobody cleans meanwhile: it is the detach alone that ends the wait.
template <bool all>
void detach_under_a_take(Play& play) {
  auto world = retiring();
  const nocter_retirement_id id = world->retired(1);
  play.thread("taker", [=] {
    const nocter_wait wait = forever();
    require_equal(world->take(id, &wait), NOCTER_E_UNKNOWN, "what the taker heard");
  });
  play.thread("host that goes", [=] {
    if (all) {
      nocter_retirement_detach_all(world->service);
    } else {
      require_equal(world->detach(id), NOCTER_OK, "detach");
    }
  });
  play.at_end([=] {
    world->cleaned();
    world->settle();
  });
}

void retire_against_drop(Play& play) {
  auto world = retiring();
  auto heard = std::make_shared<Heard>();
  nocter_resource* const resource = world->own(1);
  play.thread("one", [=] {
    nocter_retirement_id id;
    heard->one = nocter_resource_retire(resource, &id);
    if (heard->one == NOCTER_OK) require_equal(world->detach(id), NOCTER_OK, "detach");
  });
  play.thread("other", [=] { nocter_resource_drop(resource); });
  play.at_end([=] {
    require(heard->one == NOCTER_OK || heard->one == NOCTER_E_ARGUMENT, "what the retire heard");
    world->cleaned();
    require_equal(world->clean_once(), NOCTER_EMPTY, "it is queued once");
    world->settle();
  });
}

void reserve_against_close(Play& play) {
  auto world = retiring();
  auto heard = std::make_shared<Heard>();
  play.thread("reserver", [=] {
    nocter_permit* permit;
    nocter_epoch epoch;
    heard->one = world->reserve(permit, epoch);
    if (heard->one == NOCTER_OK) nocter_resource_drop(world->attach(permit, 1));
  });
  play.thread("closer", [=] { nocter_retirement_close(world->service); });
  play.thread("second closer", [=] { nocter_retirement_close(world->service); });
  play.at_end([=] {
    require(heard->one == NOCTER_OK || heard->one == NOCTER_CLOSED, "what reserve heard");
    if (heard->one == NOCTER_OK) world->cleaned();
    require_equal(world->counts().reservations, heard->one == NOCTER_OK ? 1 : 0, "reservations");
    world->settle();
  });
}

// The one place is given back while somebody was told it is taken.
template <bool by_permit>
void saturated_reserver(Play& play) {
  auto world = retiring({.maximum_resources = 1});
  nocter_permit* const permit = world->reserved();
  play.thread("reserver", [=] {
    const nocter_wait wait = forever();
    nocter_permit* mine;
    nocter_epoch epoch;
    while (world->reserve(mine, epoch) == NOCTER_SATURATED) {
      require_equal(world->wait_epoch(epoch, &wait), NOCTER_OK, "wait_epoch");
    }
    nocter_permit_drop(mine);
  });
  play.thread("owner", [=] {
    if (by_permit) {
      nocter_permit_drop(permit);
    } else {
      nocter_resource_drop(world->attach(permit, 1));
      world->cleaned();
    }
  });
  play.at_end([=] {
    require_equal(world->counts().epoch, 2, "places freed");
    world->settle();
  });
}

void stale_identity(Play& play) {
  auto world = retiring({.maximum_resources = 1});
  const nocter_retirement_id id = world->retired(1);
  world->cleaned();
  play.thread("taker", [=] { require_equal(world->take(id), NOCTER_OK, "take"); });
  play.thread("next owner", [=] {
    nocter_permit* permit;
    nocter_epoch epoch;
    if (world->reserve(permit, epoch) != NOCTER_OK) return;
    const nocter_retirement_id next = world->retire(world->attach(permit, 2));
    require(!nocter_retirement_id_equal(id, next), "GEN-03: an identity was issued twice");
    require_equal(world->detach(id), NOCTER_E_UNKNOWN, "a stale identity");
    world->cleaned();
    require_equal(world->take(next), NOCTER_OK, "take of the next one");
  });
  play.at_end([=] { world->settle(); });
}

void counts_at_any_moment(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1});
  play.thread("counter", [=] {
    uint64_t epoch = 0;
    for (int i = 0; i < 2; i++) {
      const auto counts = world->counts();
      require(counts.epoch >= epoch, "the epoch went back");
      epoch = counts.epoch;
    }
  });
  play.thread("owner", [=] {
    const nocter_retirement_id id = world->retired(1);
    world->detach(id);
    nocter_permit_drop(world->reserved());
  });
  play.thread("cleaner", [=] { world->clean_once(); });
  play.at_end([=] {
    while (world->clean_once() == NOCTER_OK) {
    }
    world->settle();
  });
}

// A dropped cleanup ends its resource before its place is free.
void dropped_cleanup(Play& play) {
  auto world = retiring({.maximum_resources = 1});
  nocter_resource_drop(world->own(1));
  nocter_cleanup* cleanup;
  require_equal(world->claim(cleanup), NOCTER_OK, "claim");
  play.thread("cleaner", [=] { nocter_cleanup_drop(cleanup); });
  play.thread("reserver", [=] {
    nocter_permit* permit;
    nocter_epoch epoch;
    if (world->reserve(permit, epoch) != NOCTER_OK) return;
    require(world->ledger.ended(1), "RET-05: the place was free before its resource was gone");
    nocter_permit_drop(permit);
  });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> retirement_races() {
  return {
      {"r09_detach_against_claim", "RET-07 GEN-01 R-9", detach_against_claim},
      {"r10_detach_against_complete", "RET-07 R-10 R-17", detach_against_end<false>},
      {"r10_detach_against_drop_of_guard", "RET-05 RET-07 R-10", detach_against_end<true>},
      {"r11_take_against_detach", "RET-06 RET-07 R-11", take_against_detach},
      {"r12_two_takes_that_wait", "RET-06 R-12", two_takes<true>},
      {"r12_take_before_the_end", "RET-06 R-12", two_takes<false>},
      {"r24_take_against_detach_all", "RET-07 R-24", take_against_detach_all},
      {"r24_detach_under_a_take", "RET-07 GEN-04 R-24", detach_under_a_take<false>},
      {"r24_detach_all_under_a_take", "RET-07 GEN-04 R-24", detach_under_a_take<true>},
      {"r08_retire_against_drop", "RET-03 R-8", retire_against_drop},
      {"r02_reserve_against_close", "RET-08 R-2 R-3 R-4", reserve_against_close},
      {"r01_saturated_reserver_and_a_dropped_permit", "RET-02 GEN-04 R-1 R-21", saturated_reserver<true>},
      {"r21_saturated_reserver_and_a_cleanup", "RET-05 GEN-04 R-21 R-26", saturated_reserver<false>},
      {"r22_stale_identity", "GEN-03 R-22", stale_identity},
      {"r05_dropped_cleanup", "RET-05", dropped_cleanup},
      {"retirement_counts_at_any_moment", "GEN-12 RET-04", counts_at_any_moment},
  };
}

}  // namespace sched
