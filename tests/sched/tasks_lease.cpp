// The lease of a process that could not renew it: it believes that it is dead before anybody else does, and no effect happens twice.
#include "sched/tasks_world.hpp"

namespace sched {

namespace {

using tasks::Phase;
using tasks::Run;

constexpr int64_t kMarginMs = 2'000;

// The time jumps into the margin: the keeper interrupts what runs. An outcome is accepted, or refused as lost; never both.
void fence_against_done(Play& play) {
  auto store = durable();
  Run* const run = store->running(1);
  store->keeper(play);
  const auto said = store->worker(play, run);
  store->mover(play, kLeaseMs - kMarginMs);
  play.at_end([=] {
    require(*said == Status::ok || *said == Status::lease_lost, "an outcome beside the end of a lease");
    require(store->in(1, *said == Status::ok ? Phase::completed : Phase::running),
            "TSK-17: an outcome that was refused has changed nothing");
    store->settle();
  });
}

// A run that goes on is told before the lease is over.
void fence_raises_the_interrupt(Play& play) {
  auto store = durable();
  Run* const run = store->running(1);
  run->hold();
  store->keeper(play);
  store->mover(play, kLeaseMs - kMarginMs);
  store->thread(play, "worker", [=] {
    wait_until([=] { return ended("mover") && asleep("keeper"); });
    require(run->reason() == tasks::Reason::lease_lost, "CLK-05: a run is not told that its lease is lost");
    is(store->done(run), Status::lease_lost, "CLK-05: an outcome after the lease");
  });
  play.at_end([=] {
    run->release();
    store->settle();
  });
}

// Past the end of the lease: whoever claims the task next has it alone.
void rescue_against_done(Play& play) {
  auto store = durable();
  Run* const run = store->running(1);
  auto second = std::make_shared<Status>(Status::empty);
  store->keeper(play);
  const auto first = store->worker(play, run);
  store->thread(play, "mover", [=] {
    store->clock->advance(kLeaseMs + 1);
    Status said;
    Run* const again = store->claim("a", nullptr, said);
    if (again == nullptr) return;
    require(again->record().row.woken_by == tasks::Wake::rescue, "TSK-18: a task that is run again was rescued");
    *second = store->done(again);
  });
  play.at_end([=] {
    const int accepted = (*first == Status::ok ? 1 : 0) + (*second == Status::ok ? 1 : 0);
    require(accepted <= 1, "TSK-17: two outcomes of one task");
    require((accepted == 1) == store->in(1, Phase::completed), "an outcome that was accepted is there");
    store->settle();
  });
}

// A renewal and the end of the lease.
void renew_against_fence(Play& play) {
  auto store = durable();
  Run* const run = store->running(1);
  store->keeper(play);
  store->thread(play, "worker", [=] {
    const Status heard = run->heartbeat().status;
    require(heard == Status::ok || heard == Status::lease_lost, "a heartbeat beside the end of a lease");
    const Status said = store->done(run);
    require(said == Status::ok || said == Status::lease_lost, "an outcome beside the end of a lease");
    require(heard == Status::ok || said == Status::lease_lost, "what is lost stays lost");
  });
  store->mover(play, kLeaseMs - kMarginMs);
  play.at_end([=] { store->settle(); });
}

}  // namespace

std::vector<Scenario> lease_scenarios() {
  return {
      {"fence_against_done", "TSK-17 CLK-05", fence_against_done},
      {"fence_raises_the_interrupt", "TSK-19 CLK-05", fence_raises_the_interrupt},
      {"rescue_against_done", "TSK-17 TSK-18", rescue_against_done},
      {"renew_against_fence", "TSK-17 CLK-05", renew_against_fence},
  };
}

}  // namespace sched
