// Two or three threads after one and the same job: exactly one of them wins, and the others learn it (BLK-10).
#include "sched/blocking_scenarios.hpp"

namespace sched {

namespace {

// Which way a race went, as its threads heard it.
struct Heard {
  int32_t cancel = 0, second_cancel = 0;
  nocter_status claim = -100, take = -100, second_take = -100;
};

void cancel_against_claim(Play& play) {
  auto world = blocking();
  auto heard = std::make_shared<Heard>();
  const nocter_job_id id = world->accepted(1);
  play.thread("canceller", [=] { heard->cancel = world->cancel(id, 1); });
  play.thread("worker", [=] { heard->claim = world->work_once(); });
  play.at_end([=] {
    const bool cancelled_first = heard->cancel == NOCTER_JOB_QUEUED;
    require_equal(heard->claim, cancelled_first ? NOCTER_EMPTY : NOCTER_OK, "what the claim heard");
    if (!cancelled_first) {
      // Ended before the cancel or after it: completed or running then.
      require(heard->cancel == NOCTER_JOB_RUNNING || heard->cancel == NOCTER_JOB_COMPLETED, "what the cancel heard");
    }
    require_equal(world->take(id, 1), NOCTER_E_UNKNOWN, "a take after the cancel");
    require_equal(world->counts().epoch, 1, "slots freed");
    world->settle();
  });
}

template <bool give_back>
void cancel_against_complete(Play& play) {
  auto world = blocking();
  auto heard = std::make_shared<Heard>();
  const nocter_job_id id = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("canceller", [=] { heard->cancel = world->cancel(id, 1, give_back); });
  play.thread("worker", [=] { world->complete(begun); });
  play.at_end([=] {
    require(heard->cancel == NOCTER_JOB_RUNNING || heard->cancel == NOCTER_JOB_COMPLETED, "what the cancel heard");
    const auto counts = world->counts();
    require_equal(counts.abandoned_retired, heard->cancel == NOCTER_JOB_RUNNING ? 1 : 0, "abandoned guards that ended");
    require_equal(counts.epoch, 1, "slots freed");
    require(world->ledger.ended(101), "the output has no owner left");
    world->settle();
  });
}

template <bool begun_first>
void cancel_against_drop(Play& play) {
  auto world = blocking();
  auto heard = std::make_shared<Heard>();
  const nocter_job_id id = world->accepted(1);
  nocter_running_job* job;
  require_equal(world->claim(job), NOCTER_OK, "claim");
  play.thread("canceller", [=] { heard->cancel = world->cancel(id, 1); });
  play.thread("worker", [=] {
    if (begun_first) {
      world->lose(world->begin(job));
    } else {
      world->lost.push_back(1);
      world->tally.lost++;
      nocter_running_job_drop(job);
    }
  });
  play.at_end([=] {
    require(heard->cancel == NOCTER_JOB_RUNNING || heard->cancel == NOCTER_JOB_COMPLETED, "what the cancel heard");
    require_equal(world->counts().epoch, 1, "slots freed");
    require_equal(world->take(id, 1), NOCTER_E_UNKNOWN, "a take after the cancel");
    world->settle();
  });
}

void cancel_against_take(Play& play) {
  auto world = blocking();
  auto heard = std::make_shared<Heard>();
  const nocter_job_id id = world->accepted(1);
  world->work_once();
  play.thread("canceller", [=] { heard->cancel = world->cancel(id, 1); });
  play.thread("waiter", [=] { heard->take = world->take(id, 1); });
  play.at_end([=] {
    if (heard->cancel == NOCTER_JOB_COMPLETED) {
      require_equal(heard->take, NOCTER_E_UNKNOWN, "the loser's answer");
    } else {
      require_equal(heard->cancel, NOCTER_E_UNKNOWN, "the loser's answer");
      require_equal(heard->take, NOCTER_OK, "the winner's answer");
    }
    world->settle();
  });
}

void two_cancels(Play& play) {
  auto world = blocking();
  auto heard = std::make_shared<Heard>();
  const nocter_job_id id = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("first canceller", [=] { heard->cancel = world->cancel(id, 1); });
  play.thread("second canceller", [=] { heard->second_cancel = world->cancel(id, 1); });
  play.thread("worker", [=] { world->complete(begun); });
  play.at_end([=] {
    const bool first_won = heard->cancel > 0;
    const int32_t winner = first_won ? heard->cancel : heard->second_cancel;
    const int32_t loser = first_won ? heard->second_cancel : heard->cancel;
    require(winner == NOCTER_JOB_RUNNING || winner == NOCTER_JOB_COMPLETED, "what the winner heard");
    require(loser == NOCTER_E_UNKNOWN || (loser == NOCTER_E_STATE && winner == NOCTER_JOB_RUNNING),
            "what the loser heard");
    world->settle();
  });
}

template <bool patient>
void two_takes(Play& play) {
  auto world = blocking();
  auto heard = std::make_shared<Heard>();
  const nocter_job_id id = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("first waiter", [=] {
    const nocter_wait wait = forever();
    heard->take = world->take(id, 1, &wait);
  });
  play.thread("second waiter", [=] {
    const nocter_wait wait = forever();
    heard->second_take = world->take(id, 1, patient ? &wait : nullptr);
  });
  play.thread("worker", [=] { world->complete(begun); });
  play.at_end([=] {
    const int won = (heard->take == NOCTER_OK) + (heard->second_take == NOCTER_OK);
    require_equal(won, 1, "winners");
    const nocter_status other = heard->take == NOCTER_OK ? heard->second_take : heard->take;
    require(other == NOCTER_E_UNKNOWN || (!patient && other == NOCTER_PENDING), "what the loser heard");
    world->settle();
  });
}

// A waiter is never told that its worker was lost before the input is gone.
void drop_of_unbegun(Play& play) {
  auto world = blocking();
  const nocter_job_id id = world->accepted(1);
  nocter_running_job* job;
  require_equal(world->claim(job), NOCTER_OK, "claim");
  world->lost.push_back(1);
  world->tally.lost++;
  play.thread("worker", [=] { nocter_running_job_drop(job); });
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    require_equal(world->take(id, 1, &wait), NOCTER_WORKER_LOST, "take");
    require(world->ledger.ended(1), "told of the loss before the input had ended");
  });
  play.at_end([=] { world->settle(); });
}

void take_against_drop(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1, .stays_awake = true});
  const nocter_job_id id = world->accepted(1);
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    require_equal(world->take(id, 1, &wait), NOCTER_WORKER_LOST, "take");
  });
  play.thread("worker", [=] { world->lose(world->claimed_and_begun()); });
  play.at_end([=] {
    require_equal(world->counts().epoch, 1, "slots freed");
    world->settle();
  });
}

// States only go forward, and after unknown comes nothing.
void query_against_life(Play& play) {
  auto world = blocking();
  const nocter_job_id id = world->accepted(1);
  play.thread("asker", [=] {
    nocter_job_state last = NOCTER_JOB_QUEUED;
    for (int i = 0; i < 3; i++) {
      const nocter_job_state now = world->state(id);
      require(last == 0 ? now == 0 : (now == 0 || now >= last), "a state went back");
      last = now;
    }
  });
  play.thread("worker", [=] { world->work_once(); });
  play.thread("waiter", [=] {
    const nocter_status heard = world->take(id, 1);
    require(heard == NOCTER_OK || heard == NOCTER_PENDING, "take");
  });
  play.at_end([=] { world->settle(); });
}

// Claimed by one thread, begun by it, ended by another.
void guard_moves(Play& play) {
  auto world = blocking();
  auto begun = std::make_shared<Blocking::Begun>();
  const nocter_job_id id = world->accepted(1);
  play.thread("claimer", [=] { *begun = world->claimed_and_begun(); });
  play.thread("completer", [=] {
    wait_until([=] { return begun->completion != nullptr; });
    world->complete(*begun);
  });
  play.thread("waiter", [=] {
    const nocter_wait wait = forever();
    require_equal(world->take(id, 1, &wait), NOCTER_OK, "take");
  });
  play.at_end([=] { world->settle(); });
}

// One slot, used again and again: the old identity never meets the new job.
void stale_identity(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  auto heard = std::make_shared<Heard>();
  const nocter_job_id old = world->accepted(1);
  world->work_once();
  require_equal(world->take(old, 1), NOCTER_OK, "take");
  auto young = std::make_shared<nocter_job_id>();
  play.thread("owner", [=] {
    *young = world->accepted(2);
    world->work_once();
  });
  play.thread("late canceller", [=] { heard->cancel = world->cancel(old, 1); });
  play.thread("late waiter", [=] {
    heard->take = world->take(old, 1);
    require_equal(world->state(old), 0, "the state of a job that is gone");
  });
  play.at_end([=] {
    require_equal(heard->cancel, NOCTER_E_UNKNOWN, "a cancel of a job that is gone");
    require_equal(heard->take, NOCTER_E_UNKNOWN, "a take of a job that is gone");
    require(!nocter_job_id_equal(old, *young), "an identity was issued twice");
    require_equal(world->take(*young, 2), NOCTER_OK, "take");
    world->settle();
  });
}

// A cancel that races with the end of a job must not interrupt the job that comes next into its place.
void late_interrupt(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  auto heard = std::make_shared<Heard>();
  const nocter_job_id id = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  play.thread("canceller", [=] { heard->cancel = world->cancel(id, 1); });
  play.thread("worker", [=] {
    world->complete(begun);
    nocter_job_id next;
    nocter_epoch epoch;
    if (world->submit(2, next, epoch) != NOCTER_OK) return;  // the slot is held until the cancel takes it
    const auto second = world->claimed_and_begun();
    require(!nocter_completion_abandoned(second.completion), "the interrupt of the job before");
    require(!nocter_interrupt_raised(nocter_completion_interrupt(second.completion)),
            "the interrupt of the job before");
    world->complete(second);
    require(!nocter_job_id_equal(id, next), "an identity was issued twice");
  });
  play.at_end([=] {
    require(heard->cancel > 0, "what the cancel heard");
    world->settle();
  });
}

// The job's own wait ends when its waiter goes away, and no sooner.
void interrupt_of_the_job(Play& play) {
  auto world = blocking();
  nocter_signal* never;
  require_equal(nocter_signal_create(&never), NOCTER_OK, "signal_create");
  const nocter_job_id id = world->accepted(1);
  play.thread("worker", [=] {
    const auto begun = world->claimed_and_begun();
    const nocter_wait wait = forever(nocter_completion_interrupt(begun.completion));
    uint64_t version;
    const nocter_status heard = nocter_signal_wait(never, nocter_signal_version(never), &wait, &version);
    require_equal(heard, NOCTER_INTERRUPTED, "the wait of an abandoned job");
    require(nocter_completion_abandoned(begun.completion), "interrupted, and not abandoned");
    world->complete(begun);
  });
  play.thread("canceller", [=] {
    wait_until([=] { return world->ledger.ended(1); });
    require_equal(world->cancel(id, 1), NOCTER_JOB_RUNNING, "cancel");
  });
  play.at_end([=] {
    require(world->ledger.ended(101), "the output of an abandoned job is dropped");
    nocter_signal_destroy(never);
    world->settle();
  });
}

// Each job that ended is named once, to one asker, in the order of the ends; or it was taken before.
void named_once(Play& play) {
  struct Named {
    std::vector<nocter_job_id> ids;
    bool taken = false;
  };
  auto world = blocking({.maximum_jobs = 2, .workers = 2});
  auto named = std::make_shared<Named>();
  const nocter_job_id first = world->accepted(1), second = world->accepted(2);
  const auto ask = [=](size_t room) {
    nocter_job_id ids[2];
    size_t count;
    require_equal(nocter_blocking_completed(world->service, ids, room, &count), NOCTER_OK, "completed");
    require(count <= room, "more identities than there is room");
    named->ids.insert(named->ids.end(), ids, ids + count);
  };
  play.thread("worker", [=] {
    world->work_once();
    world->work_once();
  });
  play.thread("asker", [=] {
    ask(1);
    ask(2);
  });
  play.thread("waiter", [=] { named->taken = world->take(second, 2) == NOCTER_OK; });
  play.at_end([=] {
    ask(2);
    int firsts = 0, seconds = 0;
    for (const nocter_job_id& id : named->ids) {
      firsts += nocter_job_id_equal(id, first);
      seconds += nocter_job_id_equal(id, second);
    }
    require_equal(firsts, 1, "times that the first job was named");
    require(seconds == 1 || (seconds == 0 && named->taken), "the second job was named once, or taken before");
    require_equal(firsts + seconds, static_cast<int64_t>(named->ids.size()), "only jobs of this service are named");
    if (named->ids.size() == 2) require(nocter_job_id_equal(named->ids[0], first), "not the oldest end first");
    world->settle();
  });
}

// The sums agree at every moment, whatever runs.
void counts_at_any_moment(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  const nocter_job_id first = world->accepted(1);
  play.thread("counter", [=] {
    uint64_t epoch = 0;
    for (int i = 0; i < 2; i++) {
      const auto counts = world->counts();
      require(counts.epoch >= epoch, "the epoch went back");
      epoch = counts.epoch;
    }
  });
  play.thread("worker", [=] { world->work_once(); });
  play.thread("owner", [=] {
    nocter_job_id id;
    nocter_epoch epoch;
    world->submit(2, id, epoch);
    world->cancel(first, 1, false);
  });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> races_on_one_job() {
  return {
      {"b01_cancel_against_claim", "BLK-09 BLK-10 GEN-01 B-1", cancel_against_claim},
      {"b02_cancel_against_complete", "BLK-08 BLK-10 GEN-01 B-2", cancel_against_complete<true>},
      {"b02_cancel_and_drop_against_complete", "BLK-09 BLK-10 GEN-05 B-2", cancel_against_complete<false>},
      {"b03_cancel_against_drop_of_guard", "BLK-06 BLK-10 B-3", cancel_against_drop<true>},
      {"b03_cancel_against_drop_of_unbegun", "BLK-06 BLK-10 B-3", cancel_against_drop<false>},
      {"b04_cancel_against_take", "BLK-10 GEN-03 B-4", cancel_against_take},
      {"b05_two_cancels", "BLK-09 BLK-10 B-5", two_cancels},
      {"b06_take_against_take_that_waits", "BLK-10 BLK-12 B-6", two_takes<true>},
      {"b07_take_before_completion", "BLK-12 B-6 B-7", two_takes<false>},
      {"b15_drop_of_unbegun", "BLK-06 B-15", drop_of_unbegun},
      {"b16_take_against_drop_of_guard", "BLK-06 BLK-07 B-16", take_against_drop},
      {"b09_query_against_life", "BLK-12 GEN-06 B-9", query_against_life},
      {"b20_guard_moves_between_threads", "BLK-07 B-20", guard_moves},
      {"b28_stale_identity", "GEN-03 B-8 B-28", stale_identity},
      {"b02_late_interrupt", "BLK-09 B-2", late_interrupt},
      {"b05_interrupt_of_the_job", "BLK-09 GEN-07 B-5", interrupt_of_the_job},
      {"named_once", "BLK-12", named_once},
      {"counts_at_any_moment", "GEN-12 BLK-01 BLK-02", counts_at_any_moment},
  };
}

}  // namespace sched
