// Shutdown, drained and destroy against everything else.
#include "sched/blocking_scenarios.hpp"

namespace sched {

namespace {

void shutdown_against_submits(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  auto accepted = std::make_shared<std::vector<int>>();
  for (const int number : {1, 2}) {
    play.thread(number == 1 ? "first submitter" : "second submitter", [=] {
      nocter_job_id id;
      nocter_epoch epoch;
      const nocter_status status = world->submit(number, id, epoch);
      require(status == NOCTER_OK || status == NOCTER_CLOSED, "submit");
      if (status == NOCTER_OK) accepted->push_back(number);
    });
  }
  play.thread("closer", [=] { world->shutdown(); });
  play.at_end([=] {
    require_equal(static_cast<int64_t>(world->handed.size()), static_cast<int64_t>(accepted->size()),
                  "inputs handed over");
    require_equal(world->drained(), NOCTER_OK, "drained");
    world->settle();
  });
}

void shutdown_against_claim(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  auto heard = std::make_shared<nocter_status>();
  world->accepted(1);
  world->accepted(2);
  play.thread("worker", [=] { *heard = world->work_once(); });
  play.thread("closer", [=] { world->shutdown(); });
  play.at_end([=] {
    require(*heard == NOCTER_OK || *heard == NOCTER_CLOSED, "claim");
    // Handed over: what was not claimed in the order of submits, then what was completed.
    const bool completed = world->ledger.ended(1) && world->handed.size() == 2 && world->handed[1].number == 101;
    if (*heard == NOCTER_CLOSED) {
      require_equal(world->handed.size(), 2, "values handed over");
      require(world->handed[0].number == 1 && world->handed[1].number == 2, "not the oldest input first");
    } else {
      require(world->handed[0].number == 2, "the input that nobody claimed");
      require(completed || world->handed.size() == 1, "an output handed over that was not there");
    }
    world->settle();
  });
}

template <bool completes>
void shutdown_against_end(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("worker", [=] { completes ? world->complete(begun) : world->lose(begun); });
  play.thread("closer", [=] { world->shutdown(); });
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    const nocter_status heard = world->take(id, 1, &wait);
    require(
        heard == (completes ? NOCTER_OK : NOCTER_WORKER_LOST) || heard == NOCTER_CLOSED || heard == NOCTER_E_UNKNOWN,
        "take");
  });
  play.at_end([=] {
    const auto counts = world->counts();
    require_equal(counts.taken + counts.shutdown_completed + counts.abandoned_retired, 1, "ways that the job went");
    require_equal(world->drained(), NOCTER_OK, "drained");
    world->settle();
  });
}

void two_shutdowns(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  world->accepted(1);
  world->accepted(2);
  world->work_once();
  for (const char* name : {"first closer", "second closer"}) {
    play.thread(name, [=] {
      world->shutdown();
      nocter_job_id id;
      nocter_epoch epoch;
      require_equal(world->submit(3 + (name[0] == 's'), id, epoch), NOCTER_CLOSED, "submit after shutdown");
    });
  }
  play.at_end([=] {
    require_equal(world->handed.size(), 2, "values handed over by both together");
    world->settle();
  });
}

// drained says so only once the last drop function has returned: whoever hears it may unload the code.
void drained_against_last_drop(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  world->accepted(1);
  world->accepted(3);
  const auto begun = world->claimed_and_begun();
  play.thread("worker", [=] { world->complete(begun); });
  play.thread("closer", [=] { world->shutdown(); });
  play.thread("waiter", [=] {
    wait_until([=] {
      nocter_blocking_counts counts;
      return world->glance(counts) && counts.accepting == 0;
    });
    const nocter_wait wait = forever();
    require_equal(world->drained(&wait), NOCTER_OK, "drained");
    require(world->ledger.ended(3), "drained while an input is being dropped");
    require(world->ledger.ended(101), "drained while an output is being dropped");
    require_equal(world->counts().admitted, 0, "jobs in a drained service");
  });
  play.at_end([=] { world->settle(); });
}

// The same for what a cancel drops.
void drained_against_cancel_that_drops(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = world->accepted(1);
  play.thread("canceller", [=] {
    nocter_job_state was;
    const nocter_status status = nocter_blocking_cancel(world->service, id, &was, nullptr);
    require(status == NOCTER_OK || status == NOCTER_E_UNKNOWN, "cancel");
    if (status == NOCTER_OK) world->tally.cancelled_queued++;
  });
  play.thread("closer", [=] {
    world->shutdown();
    const nocter_wait wait = forever();
    require_equal(world->drained(&wait), NOCTER_OK, "drained");
    require(world->ledger.ended(1), "drained while an input is being dropped");
  });
  play.at_end([=] { world->settle(); });
}

void drained_against_deadline(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  auto interrupt = std::make_shared<OwnInterrupt>();
  world->accepted(1);
  const auto begun = world->claimed_and_begun();
  world->shutdown();
  play.thread("waiter", [=] {
    const nocter_wait wait = within(1'000'000'000, *interrupt);
    const nocter_status heard = world->drained(&wait);
    require(heard == NOCTER_OK || heard == NOCTER_TIMEOUT || heard == NOCTER_INTERRUPTED, "drained");
    if (heard == NOCTER_TIMEOUT) require(nocter_now_ns() >= wait.deadline_ns, "timed out before its deadline");
    if (heard == NOCTER_INTERRUPTED) require(nocter_interrupt_raised(*interrupt), "interrupted by nobody");
  });
  play.thread("worker", [=] { world->complete(begun); });
  play.thread("raiser", [=] { nocter_interrupt_raise(*interrupt); });
  play.at_end([=] { world->settle(); });
}

// A guard outlives the handle, and its end is the end of the service.
template <bool completes>
void guard_after_destroy(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 2});
  world->accepted(1);
  world->accepted(2);
  const auto first = world->claimed_and_begun();
  nocter_running_job* second;
  require_equal(world->claim(second), NOCTER_OK, "claim");
  play.thread("first worker", [=] { completes ? world->complete(first) : world->lose(first); });
  play.thread("second worker", [=] { nocter_running_job_drop(second); });
  play.thread("closer", [=] { world->destroy(); });
  play.at_end([=] { world->settle(); });
}

// Threads that wait in a service that is destroyed hear that it closed.
void destroy_against_waiters(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("claimer", [=] {
    const nocter_wait wait = forever();
    nocter_running_job* job;
    require_equal(world->claim(job, &wait), NOCTER_CLOSED, "claim");
  });
  play.thread("taker", [=] {
    const nocter_wait wait = forever();
    require_equal(world->take(id, 1, &wait), NOCTER_CLOSED, "take");
  });
  play.thread("submitter", [=] {
    const nocter_wait wait = forever();
    nocter_epoch epoch = world->epoch();
    require_equal(world->wait_epoch(epoch, &wait), NOCTER_CLOSED, "wait_epoch");
  });
  play.thread("closer", [=] {
    wait_until([] { return asleep("claimer") && asleep("taker") && asleep("submitter"); });
    nocter_blocking_destroy(world->service);
  });
  play.at_end([=] {
    require_equal(world->waiters.dropped, 0, "a guard keeps the service");
    world->complete(begun);
    world->service = nullptr;
    world->settle();
  });
}

// The waiter for drained may be the last one out.
void destroy_against_drained(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  world->accepted(1);
  const auto begun = world->claimed_and_begun();
  world->shutdown();
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    require_equal(world->drained(&wait), NOCTER_OK, "drained");
  });
  play.thread("worker", [=] { world->complete(begun); });
  play.thread("closer", [=] {
    wait_until([] { return asleep("waiter"); });
    nocter_blocking_destroy(world->service);
  });
  play.at_end([=] {
    world->service = nullptr;
    world->settle();
  });
}

// Calls that are on their way out when another thread destroys the service: what they still have to wake and to tell
// is there.
enum class Call { take, cancel, submit };
template <Call call>
void destroy_against_call(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  const nocter_job_id id = world->accepted(1);
  if (call == Call::take) world->work_once();
  play.thread("caller", [=] {
    if (call == Call::take) require_equal(world->take(id, 1), NOCTER_OK, "take");
    if (call == Call::cancel) require_equal(world->cancel(id, 1), NOCTER_JOB_QUEUED, "cancel");
    if (call == Call::submit) world->accepted(2);
  });
  play.thread("closer", [=] {
    // It sees what the call did, and by the rules it may then destroy: no other call starts after this one.
    wait_until([=] {
      nocter_blocking_counts counts;
      if (!world->glance(counts)) return false;
      return call == Call::submit ? counts.queued == 2 : counts.admitted == 0;
    });
    nocter_blocking_destroy(world->service);
  });
  play.at_end([=] {
    world->service = nullptr;
    world->settle();
  });
}

}  // namespace

std::vector<Scenario> shutdown_scenarios() {
  return {
      {"b10_shutdown_against_submits", "BLK-11 GEN-01 B-10", shutdown_against_submits},
      {"b11_shutdown_against_claim", "BLK-11 GEN-01 B-11", shutdown_against_claim},
      {"b12_shutdown_against_complete", "BLK-08 BLK-10 BLK-11 B-12", shutdown_against_end<true>},
      {"b12_shutdown_against_drop", "BLK-06 BLK-10 BLK-11 B-12", shutdown_against_end<false>},
      {"b14_two_shutdowns", "BLK-11 GEN-01 B-14", two_shutdowns},
      {"b18_drained_against_last_drop", "BLK-11 GEN-05 B-13 B-18", drained_against_last_drop},
      {"b18_drained_against_cancel_that_drops", "BLK-11 GEN-05 B-18", drained_against_cancel_that_drops},
      {"b13_drained_against_deadline", "BLK-11 GEN-07 B-13", drained_against_deadline},
      {"b19_completion_after_destroy", "BLK-11 B-19 B-33", guard_after_destroy<true>},
      {"b19_drop_after_destroy", "BLK-06 BLK-11 B-19 B-33", guard_after_destroy<false>},
      {"b39_destroy_against_waiters", "BLK-11 B-39", destroy_against_waiters},
      {"b39_destroy_against_drained", "BLK-11 B-39", destroy_against_drained},
      {"b33_destroy_against_take", "BLK-11 B-33", destroy_against_call<Call::take>},
      {"b33_destroy_against_cancel", "BLK-11 B-33", destroy_against_call<Call::cancel>},
      {"b33_destroy_against_submit", "BLK-11 B-33", destroy_against_call<Call::submit>},
  };
}

}  // namespace sched
