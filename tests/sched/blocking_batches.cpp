// Taking jobs as they end, a batch a call: no end of a job is slept through, and each job is taken once.
#include "sched/blocking_scenarios.hpp"
#include "sched/world.hpp"

namespace sched {

namespace {

// Takes until there were so many, or the service is closed; how many there were.
size_t take_batches(const std::shared_ptr<Blocking>& world, size_t jobs, size_t room) {
  const nocter_wait wait = forever();
  size_t taken = 0;
  while (taken < jobs) {
    nocter_taken some[2];
    size_t count;
    const nocter_status status = nocter_blocking_take_many(world->service, &wait, some, room, &count);
    if (status == NOCTER_CLOSED) break;
    require_equal(status, NOCTER_OK, "take_many");
    require(count >= 1 && count <= room, "as many as fit, and one at least");
    for (size_t i = 0; i < count; i++) {
      require_equal(some[i].status, NOCTER_OK, "a job that was completed");
      world->ledger.end(some[i].output, Ledger::number(some[i].output));
      world->tally.taken++;
    }
    taken += count;
  }
  return taken;
}

// One taker or two, and workers that complete while they look, count themselves or sleep.
template <int takers, bool awake>
void ends_and_takers(Play& play) {
  auto world = std::make_shared<Blocking>(Shape{.maximum_jobs = 2, .workers = 2, .stays_awake = awake});
  world->accepted(1);
  world->accepted(2);
  for (int i = 0; i < 2; i++) play.thread("worker", [=] { require_equal(world->work_once(), NOCTER_OK, "claim"); });
  for (int i = 0; i < takers; i++) {
    play.thread("taker", [=] { take_batches(world, 2 / takers, takers == 1 ? 2 : 1); });
  }
  play.at_end([=] {
    require_equal(static_cast<int64_t>(world->tally.taken), 2, "jobs taken");
    world->settle();
  });
}

// A taker by identity beside one that takes whatever ends: one of them gets the job, and neither sleeps on.
void by_identity_and_by_batch(Play& play) {
  auto world = std::make_shared<Blocking>(Shape{.maximum_jobs = 2, .workers = 2});
  const nocter_job_id first = world->accepted(1);
  world->accepted(2);
  play.thread("worker", [=] {
    world->work_once();
    world->work_once();
  });
  play.thread("taker by identity", [=] {
    const nocter_wait wait = forever();
    const nocter_status status = world->take(first, 1, &wait);
    require(status == NOCTER_OK || status == NOCTER_E_UNKNOWN, "take");
  });
  play.thread("taker of batches", [=] { take_batches(world, 1, 1); });
  play.at_end([=] { world->settle(); });
}

// Shutdown ends the wait, whatever it extracts first.
void shutdown_ends_the_wait(Play& play) {
  auto world = std::make_shared<Blocking>(Shape{.maximum_jobs = 2, .workers = 1});
  world->accepted(1);
  play.thread("worker", [=] { world->work_once(); });
  play.thread("taker", [=] { take_batches(world, 2, 2); });
  play.thread("closer", [=] { world->shutdown(); });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> batch_scenarios() {
  return {
      {"blk12_ends_and_one_taker", "BLK-12 GEN-07", ends_and_takers<1, false>},
      {"blk12_ends_and_one_taker_awake", "BLK-12 GEN-07", ends_and_takers<1, true>},
      {"blk12_ends_and_two_takers", "BLK-12 GEN-07", ends_and_takers<2, false>},
      {"blk12_ends_and_two_takers_awake", "BLK-12 GEN-07", ends_and_takers<2, true>},
      {"blk12_by_identity_and_by_batch", "BLK-12 B-4", by_identity_and_by_batch},
      {"blk11_shutdown_ends_the_wait", "BLK-11 B-12", shutdown_ends_the_wait},
  };
}

}  // namespace sched
