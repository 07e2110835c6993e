// Those who wait for something of a store: no call is lost, and one that somebody cannot use goes on to the next.
#include "sched/tasks_world.hpp"

namespace sched {

namespace {

using nocter::base::Wait;
using tasks::Phase;
using tasks::Run;

// ---- Claims ---------------------------------------------------------------------------------------------------------

void works_once(const std::shared_ptr<Durable>& store, const char* type = "a") {
  is(store->done(store->claimed(type)), Status::ok, "done");
}

void claim_against_submit(Play& play) {
  auto store = durable();
  store->thread(play, "claimer", [=] { works_once(store); });
  store->thread(play, "submitter", [=] { store->accepted(1); });
  play.at_end([=] {
    require(store->in(1, Phase::completed), "TSK-13: the task was claimed and done");
    store->settle();
  });
}

template <bool at_once>
void two_claimers(Play& play) {
  auto store = durable();
  store->thread(play, "first claimer", [=] { works_once(store); });
  store->thread(play, "second claimer", [=] { works_once(store); });
  store->thread(play, "submitter", [=] {
    if (at_once) {
      is(store->submit({1, 2}), Status::ok, "submit");
    } else {
      store->accepted(1);
      store->accepted(2);
    }
  });
  play.at_end([=] {
    require(store->in(1, Phase::completed) && store->in(2, Phase::completed), "TSK-13: each has got a task");
    store->settle();
  });
}

// One that waits for something else is not called, or calls the one who can do it.
void claimers_of_two_types(Play& play) {
  auto store = durable();
  store->thread(play, "claimer of b", [=] { works_once(store, "b"); });
  store->thread(play, "claimer of a", [=] { works_once(store, "a"); });
  store->thread(play, "submitter", [=] {
    store->accepted(1, "a");
    store->accepted(2, "b");
  });
  play.at_end([=] { store->settle(); });
}

// A claimer that is called and gives up at that moment leaves the task to the other one.
template <bool by_deadline>
void called_claimer_leaves(Play& play) {
  auto store = durable();
  auto interrupt = std::make_shared<nocter::base::Interrupt>();
  auto left = std::make_shared<bool>(false);
  store->thread(play, "claimer that leaves", [=] {
    Wait wait;
    wait.interrupt = interrupt.get();
    if (by_deadline) wait.deadline_ns = nocter::base::now_ns() + 1'000'000;
    Status said;
    Run* const run = store->claim("a", &wait, said);
    if (run == nullptr) {
      is(said, by_deadline ? Status::timeout : Status::interrupted, "a claim that was left");
      *left = true;
      return;
    }
    is(store->done(run), Status::ok, "done");
    store->accepted(2);  // for the other one
  });
  store->thread(play, "claimer that stays", [=] { works_once(store); });
  store->thread(play, "submitter", [=] {
    store->accepted(1);
    if (!by_deadline) interrupt->raise();
  });
  play.at_end([=] {
    require(store->in(1, Phase::completed), "TSK-13: a task that somebody was called for is claimed");
    store->settle();
  });
}

// ---- Awaits ---------------------------------------------------------------------------------------------------------

template <bool by_cancel>
void await_against_end(Play& play) {
  auto store = durable();
  Run* const run = by_cancel ? nullptr : store->running(1);
  if (by_cancel) store->accepted(1);
  store->thread(play, "awaiter", [=] {
    tasks::Record record;
    const Wait forever;
    is(store->engine->await(Durable::id_of(1), &forever, record).status, Status::ok, "await");
    require(record.row.phase == (by_cancel ? Phase::cancelled : Phase::completed),
            "TSK-29: what was awaited has ended");
  });
  store->thread(play, "ender", [=] { is(by_cancel ? store->cancel(1) : store->done(run), Status::ok, "the end"); });
  require_heard(play, "ender", "awaiter", "TSK-29: an end was slept through");
  play.at_end([=] { store->settle(); });
}

// ---- Locks ----------------------------------------------------------------------------------------------------------

constexpr const char* kLock = "lock";

Status acquire(Durable& store, uint64_t token, const Wait* wait) {
  tasks::LockAcquire wanted;
  wanted.name = kLock;
  wanted.lease_ms = 1'000'000;
  wanted.token = token;
  return store.engine->acquire(wanted, wait).status;
}
Status release(Durable& store, uint64_t token) {
  tasks::LockRelease given{kLock, token};
  return store.engine->ask(given).status;
}

void acquire_against_release(Play& play) {
  auto store = durable();
  is(acquire(*store, 1, nullptr), Status::ok, "acquire");
  store->thread(play, "acquirer", [=] {
    const Wait forever;
    is(acquire(*store, 2, &forever), Status::ok, "an acquire that waits");
    is(acquire(*store, 3, nullptr), Status::held, "SHR-03: the lock has one owner");
  });
  store->thread(play, "releaser", [=] { is(release(*store, 1), Status::ok, "release"); });
  require_heard(play, "releaser", "acquirer", "SHR-03: a release was slept through");
  play.at_end([=] { store->settle(); });
}

// One is called and gives up: the other must hear of it.
void called_acquirer_leaves(Play& play) {
  auto store = durable();
  auto interrupt = std::make_shared<nocter::base::Interrupt>();
  is(acquire(*store, 1, nullptr), Status::ok, "acquire");
  store->thread(play, "acquirer that leaves", [=] {
    Wait wait;
    wait.interrupt = interrupt.get();
    const Status said = acquire(*store, 2, &wait);
    if (said == Status::ok) return is(release(*store, 2), Status::ok, "release");
    is(said, Status::interrupted, "an acquire that was left");
  });
  store->thread(play, "acquirer that stays", [=] {
    const Wait forever;
    is(acquire(*store, 3, &forever), Status::ok, "an acquire that waits");
  });
  store->thread(play, "releaser", [=] {
    is(release(*store, 1), Status::ok, "release");
    interrupt->raise();
  });
  play.thread("judge", [=] {
    wait_until([=] { return ended("releaser") && ended("acquirer that leaves") && asleep("acquirer that stays"); });
    require(ended("acquirer that stays"), "SHR-03: a free lock was slept through");
  });
  play.at_end([=] { store->settle(); });
}

// ---- Events ---------------------------------------------------------------------------------------------------------

void events_against_submit(Play& play) {
  auto store = durable(true);
  store->thread(play, "reader", [=] {
    std::vector<tasks::Event> out;
    const Wait forever;
    is(store->engine->events(0, 10, &forever, out).status, Status::ok, "events");
    require(!out.empty() && out.front().task == Durable::id_of(1), "TSK-29: the event of the submit");
  });
  store->thread(play, "submitter", [=] { store->accepted(1); });
  require_heard(play, "submitter", "reader", "TSK-29: an event was slept through");
  play.at_end([=] { store->settle(); });
}

// ---- Time -----------------------------------------------------------------------------------------------------------

// The keeper hears of a clock that moves, makes the task ready, and the claimer hears of that.
void due_task_against_claim(Play& play) {
  auto store = durable();
  tasks::Submit submit;
  tasks::Submission& task = submit.tasks.emplace_back();
  task.id = Durable::id_of(1);
  task.type = "a";
  task.run_after = store->clock->now_ms() + 1'000;
  is(store->engine->ask(submit).status, Status::ok, "submit");
  store->keeper(play);
  store->thread(play, "claimer", [=] { works_once(store); });
  store->mover(play, 1'000);
  play.thread("judge", [=] {
    wait_until([=] { return ended("mover") && asleep("claimer") && asleep("keeper"); });
    require(ended("claimer"), "TSK-13: a task that came due was slept through");
  });
  play.at_end([=] {
    require(store->in(1, Phase::completed), "the task that came due");
    store->settle();
  });
}

}  // namespace

std::vector<Scenario> tasks_wait_scenarios() {
  return {
      {"claim_against_submit", "TSK-13 GEN-04", claim_against_submit},
      {"claim_two_claimers_of_one_submit", "TSK-13 GEN-04", two_claimers<true>},
      {"claim_two_claimers_of_two_submits", "TSK-13 GEN-04", two_claimers<false>},
      {"claim_of_two_types", "TSK-13 GEN-04", claimers_of_two_types},
      {"claim_that_is_interrupted_when_called", "TSK-13 GEN-04 GEN-07", called_claimer_leaves<false>},
      {"claim_that_times_out_when_called", "TSK-13 GEN-04 GEN-07", called_claimer_leaves<true>},
      {"await_against_done", "TSK-29 GEN-04", await_against_end<false>},
      {"await_against_cancel", "TSK-29 GEN-04", await_against_end<true>},
      {"lock_acquire_against_release", "SHR-03 GEN-04", acquire_against_release},
      {"lock_acquirer_leaves_when_called", "SHR-03 GEN-04", called_acquirer_leaves},
      {"events_against_submit", "TSK-29 GEN-04", events_against_submit},
      {"due_task_against_claim", "TSK-13 GEN-04", due_task_against_claim},
  };
}

}  // namespace sched
