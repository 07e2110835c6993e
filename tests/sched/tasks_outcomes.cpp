// What ends a round, or wakes a task, against what comes at the same moment: whatever the order, nothing is lost and everybody is told the truth.
#include "sched/tasks_world.hpp"

namespace sched {

namespace {

using tasks::Phase;
using tasks::Run;
using tasks::Until;

// ---- Cancels --------------------------------------------------------------------------------------------------------

void done_against_cancel(Play& play) {
  auto store = durable();
  Run* const run = store->running(1);
  run->hold();  // to be read after its end
  const auto said = store->worker(play, run);
  store->thread(play, "canceller", [=] {
    const Status heard = store->cancel(1);
    if (heard == Status::state) return require(store->in(1, Phase::completed), "a cancel that came too late");
    is(heard, Status::ok, "cancel");
    require(run->cancel_requested() && run->reason() == tasks::Reason::cancel,
            "TSK-11: a cancel that was told of, and its run does not know");
  });
  play.at_end([=] {
    if (*said == Status::ok) {
      require(store->in(1, Phase::completed), "an outcome that was accepted stands");
    } else {
      is(*said, Status::cancelled, "an outcome after a cancel");
      require(store->in(1, Phase::cancelled), "a cancel that came first stands");
    }
    run->release();
    store->settle();
  });
}

// However they meet, a run that was given out after all knows that it was cancelled.
void claim_against_cancel(Play& play) {
  auto store = durable();
  store->accepted(1);
  auto cancelled = std::make_shared<bool>(false);
  store->thread(play, "worker", [=] {
    Status said;
    Run* const run = store->claim("a", nullptr, said);
    if (run == nullptr) return is(said, Status::empty, "a claim of what was cancelled");
    const bool after = *cancelled;
    require(!after || run->cancel_requested(), "TSK-11: a run of a cancelled task is not told of it");
    const Status heard = store->done(run);
    require(heard == Status::ok || heard == Status::cancelled, "an outcome beside a cancel");
  });
  store->thread(play, "canceller", [=] {
    const Status heard = store->cancel(1);
    require(heard == Status::ok || heard == Status::state, "cancel");
    *cancelled = heard == Status::ok;
  });
  play.at_end([=] {
    const Phase phase = store->record(1).row.phase;
    require(phase == Phase::cancelled || phase == Phase::completed, "one of both");
    store->settle();
  });
}

// ---- Suspensions ----------------------------------------------------------------------------------------------------

void resumes(const std::shared_ptr<Durable>& store, tasks::Wake why, size_t messages) {
  Run* const run = store->claimed("parent");
  require(run->record().row.woken_by == why, "TSK-07: why the task goes on");
  require_equal(static_cast<int64_t>(run->messages().size()), static_cast<int64_t>(messages), "messages of the round");
  is(store->done(run), Status::ok, "the end of the parent");
}

template <bool fails>
void suspend_against_childs_end(Play& play) {
  auto store = durable();
  Run* const parent = store->running(1, "parent");
  Run* const child = store->running(2, "child", 1);
  store->sleeper(play, parent, Until::children);
  store->thread(play, "child's worker", [=] {
    tasks::Settle settle;
    settle.outcome = fails ? tasks::Outcome::fail : tasks::Outcome::done;
    is(store->end(child, std::move(settle)), Status::ok, "the end of the child");
  });
  store->thread(play, "next worker", [=] { resumes(store, tasks::Wake::join, 0); });
  play.at_end([=] {
    require(store->in(1, Phase::completed), "TSK-12: the parent was woken");
    store->settle();
  });
}

void two_children_end(Play& play) {
  auto store = durable();
  Run* const parent = store->running(1, "parent");
  Run* const first = store->running(2, "child", 1);
  Run* const second = store->running(3, "child", 1);
  is(store->suspend(parent, Until::children), Status::ok, "suspend");
  store->thread(play, "first child's worker", [=] { is(store->done(first), Status::ok, "done"); });
  store->thread(play, "second child's worker", [=] { is(store->done(second), Status::ok, "done"); });
  store->thread(play, "next worker", [=] { resumes(store, tasks::Wake::join, 0); });
  play.at_end([=] { store->settle(); });
}

template <bool two>
void notify_against_suspend(Play& play) {
  auto store = durable();
  Run* const run = store->running(1, "parent");
  store->sleeper(play, run, Until::notified);
  store->thread(play, "sender", [=] { is(store->notify(1), Status::ok, "notify"); });
  if (two) store->thread(play, "other sender", [=] { is(store->notify(1), Status::ok, "notify"); });
  store->thread(play, "next worker", [=] {
    size_t messages = 0;
    for (bool over = false; !over;) {
      Run* const next = store->claimed("parent");
      require(next->record().row.woken_by == tasks::Wake::message, "TSK-08: woken by a message");
      require(!next->messages().empty(), "TSK-08: a round without the message it was woken by");
      messages += next->messages().size();
      over = messages == (two ? 2 : 1);
      is(over ? store->done(next) : store->suspend(next, Until::notified), Status::ok, "the end of a round");
    }
  });
  play.at_end([=] {
    require(store->in(1, Phase::completed), "TSK-08: no message is lost");
    store->settle();
  });
}

void cancel_against_suspend(Play& play) {
  auto store = durable();
  Run* const run = store->running(1, "parent");
  auto said = std::make_shared<Status>();
  store->thread(play, "worker", [=] { *said = store->suspend(run, Until::notified); });
  store->thread(play, "canceller", [=] { is(store->cancel(1), Status::ok, "cancel"); });
  play.at_end([=] {
    require(*said == Status::ok || *said == Status::cancelled, "a suspend beside a cancel");
    require(store->in(1, Phase::cancelled), "TSK-11: what was cancelled does not wait on");
    store->settle();
  });
}

}  // namespace

std::vector<Scenario> outcome_scenarios() {
  return {
      {"done_against_cancel", "TSK-17 TSK-11", done_against_cancel},
      {"claim_against_cancel", "TSK-11", claim_against_cancel},
      {"suspend_against_a_childs_end", "TSK-12 DUR-03", suspend_against_childs_end<false>},
      {"suspend_against_a_childs_failure", "TSK-12 DUR-03", suspend_against_childs_end<true>},
      {"two_children_end", "TSK-12", two_children_end},
      {"notify_against_suspend", "TSK-08", notify_against_suspend<false>},
      {"two_notifies_against_suspend", "TSK-08", notify_against_suspend<true>},
      {"cancel_against_suspend", "TSK-11", cancel_against_suspend},
  };
}

}  // namespace sched
