// Slots, workers and the capacity epoch.
#include "sched/blocking_scenarios.hpp"

namespace sched {

namespace {

// Submits until accepted, by the protocol: on saturation wait for a later epoch, then try again. The last answer;
// each try makes a new value, ten higher than the last.
nocter_status submit_patiently(const std::shared_ptr<Blocking>& world, int& number, nocter_job_id& id) {
  for (;; number += 10) {
    nocter_epoch epoch;
    const nocter_status status = world->submit(number, id, epoch);
    if (status != NOCTER_SATURATED) return status;
    require(epoch.service != 0 && epoch.sequence != 0, "saturated without an epoch");
    const nocter_wait wait = forever();
    const nocter_status waited = world->wait_epoch(epoch, &wait);
    if (waited == NOCTER_CLOSED) return waited;
    require_equal(waited, NOCTER_OK, "wait_epoch");
  }
}

// One slot. The slot is freed at any moment around the saturation: the waiter never misses it.
template <bool stays_awake>
void saturated_against_take(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1, .stays_awake = stays_awake});
  const nocter_job_id first = world->accepted(1);
  world->work_once();
  play.thread("submitter", [=] {
    nocter_job_id id;
    int number = 2;
    require_equal(submit_patiently(world, number, id), NOCTER_OK, "submit");
  });
  play.thread("waiter", [=] { require_equal(world->take(first, 1), NOCTER_OK, "take"); });
  play.at_end([=] { world->settle(); });
}

// Two saturated submitters and one slot: both are woken, one may find the slot taken, and waits on.
void two_saturated_submitters(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id first = world->accepted(1);
  world->work_once();
  for (const int first_number : {2, 3}) {
    play.thread(first_number == 2 ? "second submitter" : "third submitter", [=] {
      nocter_job_id id;
      int number = first_number;
      require_equal(submit_patiently(world, number, id), NOCTER_OK, "submit");
      require_equal(world->work_once(), NOCTER_OK, "work_once");
      require_equal(world->take(id, number), NOCTER_OK, "take");
    });
  }
  play.thread("waiter", [=] { require_equal(world->take(first, 1), NOCTER_OK, "take"); });
  play.at_end([=] {
    require_equal(world->counts().epoch, 3, "slots freed");
    world->settle();
  });
}

// A cancelled running job frees its slot when its guard ends, and that wakes who is saturated.
template <bool completes>
void abandoned_frees_slot(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id first = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("submitter", [=] {
    nocter_job_id id;
    int number = 2;
    require_equal(submit_patiently(world, number, id), NOCTER_OK, "submit");
  });
  play.thread("canceller", [=] { require(world->cancel(first, 1) > 0, "cancel"); });
  play.thread("worker", [=] { completes ? world->complete(begun) : world->lose(begun); });
  play.at_end([=] { world->settle(); });
}

// Every slot is held by a running job, so shutdown frees none and the epoch stays: the waiter is told all the same.
void saturated_against_shutdown(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("submitter", [=] {
    nocter_job_id id;
    int number = 2;
    require_equal(submit_patiently(world, number, id), NOCTER_CLOSED, "what a saturated submitter hears of shutdown");
  });
  play.thread("closer", [=] { world->shutdown(); });
  play.at_end([=] {
    require(nocter_completion_abandoned(begun.completion), "shutdown abandons what runs");
    world->complete(begun);
    world->settle();
  });
}

// The epoch moves when a slot is freed, and for nothing else.
void epoch_moves_by_freed_slots(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  const nocter_job_id first = world->accepted(1);
  const uint64_t start = world->epoch().sequence;
  play.thread("reader", [=] {
    const uint64_t before = world->tally.taken + world->tally.cancelled_queued;
    const uint64_t now = world->epoch().sequence - start;
    require(now >= before && now <= 2, "the epoch is what was freed");
  });
  play.thread("worker", [=] {
    world->work_once();
    world->work_once();
  });
  play.thread("owner", [=] {
    const nocter_job_id second = world->accepted(2);
    const int32_t was = world->cancel(second, 2);
    require(was > 0, "cancel");
    const nocter_status heard = world->take(first, 1);
    require(heard == NOCTER_OK || heard == NOCTER_PENDING, "take");
  });
  play.at_end([=] { world->settle(); });
}

template <bool stays_awake>
void epoch_against_deadline(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1, .stays_awake = stays_awake});
  const nocter_job_id first = world->accepted(1);
  play.thread("submitter", [=] {
    nocter_epoch epoch = world->epoch();
    const nocter_wait wait = within(1'000'000'000);
    const nocter_status heard = world->wait_epoch(epoch, &wait);
    require(heard == NOCTER_OK || heard == NOCTER_TIMEOUT, "wait_epoch");
    if (heard == NOCTER_TIMEOUT) require(nocter_now_ns() >= wait.deadline_ns, "timed out before its deadline");
  });
  play.thread("canceller", [=] { require_equal(world->cancel(first, 1), NOCTER_JOB_QUEUED, "cancel"); });
  play.at_end([=] { world->settle(); });
}

void epoch_against_interrupt(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  auto interrupt = std::make_shared<OwnInterrupt>();
  const nocter_job_id first = world->accepted(1);
  play.thread("submitter", [=] {
    nocter_epoch epoch = world->epoch();
    const nocter_wait wait = forever(*interrupt);
    const nocter_status heard = world->wait_epoch(epoch, &wait);
    require(heard == NOCTER_OK || heard == NOCTER_INTERRUPTED, "wait_epoch");
    if (heard == NOCTER_INTERRUPTED) require(nocter_interrupt_raised(*interrupt), "interrupted by nobody");
  });
  play.thread("canceller", [=] { world->cancel(first, 1); });
  play.thread("raiser", [=] { nocter_interrupt_raise(*interrupt); });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> capacity_scenarios() {
  return {
      {"b22_b23_saturated_against_take", "BLK-03 BLK-04 B-22 B-23", saturated_against_take<false>},
      {"b22_b23_saturated_and_awake", "BLK-03 BLK-04 B-22 B-23", saturated_against_take<true>},
      {"b24_two_saturated_submitters", "BLK-01 BLK-03 B-24", two_saturated_submitters},
      {"b18_abandoned_completion_frees_slot", "BLK-08 B-18 B-22", abandoned_frees_slot<true>},
      {"b03_abandoned_drop_frees_slot", "BLK-06 BLK-08 B-3 B-22", abandoned_frees_slot<false>},
      {"b25_saturated_against_shutdown", "BLK-03 BLK-11 B-25", saturated_against_shutdown},
      {"b24_epoch_moves_by_freed_slots", "BLK-04", epoch_moves_by_freed_slots},
      {"b23_epoch_against_deadline", "GEN-07 BLK-03 B-23", epoch_against_deadline<false>},
      {"b23_epoch_against_deadline_awake", "GEN-07 BLK-03 B-23", epoch_against_deadline<true>},
      {"b23_epoch_against_interrupt", "GEN-07 BLK-03 B-23", epoch_against_interrupt},
  };
}

}  // namespace sched
