// Waits for work and for the end of a job: none is forgotten, and each ends for a reason.
#include <poll.h>

#include "sched/blocking_scenarios.hpp"

namespace sched {

namespace {

// As many claimers as jobs, and no more: whoever sleeps through a job sleeps for ever.
template <uint32_t workers, bool stays_awake>
void claimers_and_submits(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = workers, .stays_awake = stays_awake});
  for (const char* name : {"first worker", "second worker"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      require_equal(world->work_once(&wait), NOCTER_OK, "claim");
    });
  }
  play.thread("submitter", [=] {
    world->accepted(1);
    world->accepted(2);
  });
  play.at_end([=] {
    require_equal(world->counts().completed, 2, "jobs that were completed");
    world->settle();
  });
}

// Two jobs for two workers run at once: the second claimer does not sleep until the first has ended its job.
template <bool stays_awake, bool claims_late>
void claimers_run_together(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 2, .stays_awake = stays_awake});
  auto running = std::make_shared<int>(0);
  for (const char* name : {"first worker", "second worker"}) {
    play.thread(name, [=] {
      const nocter_wait wait = forever();
      const auto begun = world->claimed_and_begun(&wait);
      ++*running;
      wait_until([=] { return *running == 2; });
      world->complete(begun);
    });
  }
  play.thread("submitter", [=] {
    if (claims_late) wait_until([] { return asleep("first worker") && asleep("second worker"); });
    world->accepted(1);
    world->accepted(2);
  });
  play.at_end([=] { world->settle(); });
}

// One claimer gives up at its deadline, perhaps with the wake in its hand that was meant for the other.
template <bool stays_awake, bool interrupted>
void claimer_gives_up(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 2, .stays_awake = stays_awake});
  auto interrupt = std::make_shared<OwnInterrupt>();
  play.thread("impatient worker", [=] {
    const nocter_wait wait = interrupted ? forever(*interrupt) : within(1'000'000'000);
    const nocter_status heard = world->work_once(&wait);
    if (heard == NOCTER_TIMEOUT) require(nocter_now_ns() >= wait.deadline_ns, "timed out before its deadline");
    if (heard == NOCTER_INTERRUPTED) require(nocter_interrupt_raised(*interrupt), "interrupted by nobody");
    if (heard == NOCTER_OK) {
      world->accepted(2);  // the other gets one of its own
    } else {
      require_equal(heard, interrupted ? NOCTER_INTERRUPTED : NOCTER_TIMEOUT, "claim");
    }
  });
  play.thread("patient worker", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("submitter", [=] {
    if (interrupted) nocter_interrupt_raise(*interrupt);
    world->accepted(1);
  });
  play.at_end([=] { world->settle(); });
}

// All worker slots are in use: a claimer sleeps beside a queued job until one of them is free.
template <bool completes>
void claim_waits_for_worker(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  world->accepted(1);
  world->accepted(2);
  const auto begun = world->claimed_and_begun();
  play.thread("waiting worker", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("busy worker", [=] { completes ? world->complete(begun) : world->lose(begun); });
  play.at_end([=] {
    require_equal(world->counts().completed, 2, "jobs that ended");
    world->settle();
  });
}

template <bool stays_awake>
void take_against_deadline(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1, .stays_awake = stays_awake});
  auto heard = std::make_shared<nocter_status>();
  const nocter_job_id id = world->accepted(1);
  play.thread("waiter", [=] {
    const nocter_wait wait = within(1'000'000'000);
    *heard = world->take(id, 1, &wait);
    require(*heard == NOCTER_OK || *heard == NOCTER_TIMEOUT, "take");
    if (*heard == NOCTER_TIMEOUT) require(nocter_now_ns() >= wait.deadline_ns, "timed out before its deadline");
  });
  play.thread("worker", [=] { world->work_once(); });
  play.at_end([=] {
    if (*heard == NOCTER_TIMEOUT) require_equal(world->take(id, 1), NOCTER_OK, "a take after the one that timed out");
    world->settle();
  });
}

void take_against_interrupt(Play& play) {
  auto world = blocking();
  auto interrupt = std::make_shared<OwnInterrupt>();
  auto heard = std::make_shared<nocter_status>();
  const nocter_job_id id = world->accepted(1);
  play.thread("waiter", [=] {
    const nocter_wait wait = within(1'000'000'000, *interrupt);
    *heard = world->take(id, 1, &wait);
    if (*heard == NOCTER_INTERRUPTED) require(nocter_interrupt_raised(*interrupt), "interrupted by nobody");
    require(*heard == NOCTER_OK || *heard == NOCTER_INTERRUPTED || *heard == NOCTER_TIMEOUT, "take");
  });
  play.thread("worker", [=] { world->work_once(); });
  play.thread("raiser", [=] { nocter_interrupt_raise(*interrupt); });
  play.at_end([=] {
    if (*heard != NOCTER_OK) require_equal(world->take(id, 1), NOCTER_OK, "a take after the one that ended early");
    world->settle();
  });
}

template <bool claimed>
void take_against_cancel(Play& play) {
  auto world = blocking();
  const nocter_job_id id = world->accepted(1);
  Blocking::Begun begun = {};
  if (claimed) begun = world->claimed_and_begun();
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    const nocter_status heard = world->take(id, 1, &wait);
    require(heard == NOCTER_E_UNKNOWN || (claimed && heard == NOCTER_E_STATE), "what a waiter hears of a cancel");
  });
  play.thread("canceller", [=] {
    require_equal(world->cancel(id, 1), claimed ? NOCTER_JOB_RUNNING : NOCTER_JOB_QUEUED, "cancel");
    if (claimed) world->complete(begun);
  });
  play.at_end([=] { world->settle(); });
}

void signal_handlers(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 2});
  auto heard = std::make_shared<nocter_status>();
  const nocter_job_id id = world->accepted(1);
  play.thread("asks for it", [=] {
    nocter_wait wait = forever();
    wait.flags = NOCTER_WAIT_EINTR;
    *heard = world->take(id, 1, &wait);
    require(*heard == NOCTER_OK || *heard == NOCTER_INTERRUPTED, "take");
  });
  play.thread("does not", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("submitter", [=] { world->accepted(2); });
  play.at_end([=] {
    if (*heard == NOCTER_INTERRUPTED) require_equal(world->take(id, 1), NOCTER_OK, "a take after a handler");
    world->settle();
  });
}

// An event loop: clear, ask, and only then poll. Every wake finds the descriptor readable in the end.
struct EventFds {
  nocter_eventfd* done = nullptr;
  nocter_blocking* service = nullptr;
  Ledger ledger;
  bool readable() const {
    pollfd descriptor = {nocter_eventfd_fd(done), POLLIN, 0};
    return poll(&descriptor, 1, 0) == 1;
  }
};

void event_loop(Play& play) {
  auto loop = std::make_shared<EventFds>();
  require_equal(nocter_eventfd_create(&loop->done), NOCTER_OK, "eventfd_create");
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = 2;
  options.workers = 2;
  options.waiters = nocter_eventfd_notifier(loop->done);
  require_equal(nocter_blocking_create(&options, &loop->service), NOCTER_OK, "blocking_create");
  nocter_job_id ids[2];
  for (int i = 0; i < 2; i++) {
    nocter_owned input = loop->ledger.make(i);
    nocter_epoch epoch;
    require_equal(nocter_blocking_submit(loop->service, &input, &ids[i], &epoch), NOCTER_OK, "submit");
  }
  play.thread("event loop", [=] {
    for (int left = 2; left > 0;) {
      wait_until([=] { return loop->readable(); });
      nocter_eventfd_clear(loop->done);
      nocter_job_id ended[2];
      size_t count;
      require_equal(nocter_blocking_completed(loop->service, ended, 2, &count), NOCTER_OK, "completed");
      for (size_t i = 0; i < count; i++) {
        nocter_owned output;
        require_equal(nocter_blocking_take(loop->service, ended[i], nullptr, &output), NOCTER_OK, "take");
        loop->ledger.end(output, Ledger::number(output));
        left--;
      }
    }
  });
  for (const char* name : {"first worker", "second worker"}) {
    play.thread(name, [=] {
      nocter_running_job* job;
      require_equal(nocter_blocking_claim(loop->service, nullptr, &job), NOCTER_OK, "claim");
      nocter_owned value;
      nocter_completion* completion;
      require_equal(nocter_running_job_begin(job, &value, &completion), NOCTER_OK, "begin");
      require_equal(nocter_completion_complete(completion, &value), NOCTER_OK, "complete");
    });
  }
  play.at_end([=] {
    nocter_blocking_destroy(loop->service);
    nocter_eventfd_destroy(loop->done);
    loop->ledger.check();
  });
}

}  // namespace

std::vector<Scenario> wait_scenarios() {
  return {
      {"b34_claimers_and_submits", "BLK-05 B-34", claimers_and_submits<2, false>},
      {"b34_claimers_awake", "BLK-05 B-34", claimers_and_submits<2, true>},
      {"b34_claimers_run_together", "BLK-05 B-34", claimers_run_together<false, false>},
      {"b34_claimers_awake_run_together", "BLK-05 B-34", claimers_run_together<true, false>},
      {"b34_sleepers_run_together", "BLK-05 B-34", claimers_run_together<false, true>},
      {"b36_claimers_for_one_worker", "BLK-02 BLK-07 B-36", claimers_and_submits<1, false>},
      {"b36_claimers_awake_for_one_worker", "BLK-02 BLK-07 B-36", claimers_and_submits<1, true>},
      {"b34_claimer_times_out", "BLK-05 GEN-07 B-34", claimer_gives_up<false, false>},
      {"b34_claimer_times_out_awake", "BLK-05 GEN-07 B-34", claimer_gives_up<true, false>},
      {"b34_claimer_interrupted", "BLK-05 GEN-07 B-34", claimer_gives_up<false, true>},
      {"b36_claim_against_completion", "BLK-02 BLK-07 B-36", claim_waits_for_worker<true>},
      {"b36_claim_against_drop", "BLK-02 BLK-06 B-36", claim_waits_for_worker<false>},
      {"b07_take_against_deadline", "BLK-12 GEN-07 B-7", take_against_deadline<false>},
      {"b07_take_against_deadline_awake", "BLK-12 GEN-07 B-7", take_against_deadline<true>},
      {"b07_take_against_interrupt", "BLK-12 GEN-07 B-7", take_against_interrupt},
      {"b01_take_against_cancel_of_queued", "BLK-09 BLK-12 B-1", take_against_cancel<false>},
      {"b05_take_against_cancel_of_running", "BLK-09 BLK-12 B-5", take_against_cancel<true>},
      {"b31_signal_handlers", "GEN-07 B-31", signal_handlers, Disturbance::signals},
      {"b30_event_loop", "GEN-04 BLK-12 BLK-14 B-30 B-31", event_loop},
  };
}

}  // namespace sched
