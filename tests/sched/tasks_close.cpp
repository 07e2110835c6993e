// A close with callers inside of the store: everybody who waits is sent away, what runs is handed back, and the store goes when the last has left.
#include "sched/tasks_world.hpp"

namespace sched {

namespace {

using nocter::base::Wait;
using tasks::Phase;
using tasks::Run;

bool ok_or_closed(Status said) { return said == Status::ok || said == Status::closed; }

void close_against_waits(Play& play) {
  auto store = durable();
  store->thread(play, "claimer", [=] {
    const Wait forever;
    Status said;
    Run* const run = store->claim("a", &forever, said);
    require(ok_or_closed(said), "a claim beside a close");
    if (run != nullptr) require(ok_or_closed(store->done(run)), "an outcome beside a close");
  });
  store->thread(play, "submitter", [=] { require(ok_or_closed(store->submit({1})), "a submit beside a close"); });
  store->closer(play);
  play.at_end([=] {
    require(store->submit({2}) == Status::closed, "a submit after a close");
    store->settle();
  });
}

void close_against_await(Play& play) {
  auto store = durable();
  Run* const run = store->running(1);
  store->thread(play, "awaiter", [=] {
    const Wait forever;
    tasks::Record record;
    require(ok_or_closed(store->engine->await(Durable::id_of(1), &forever, record).status), "an await beside a close");
  });
  const auto said = store->worker(play, run);
  store->closer(play);
  play.at_end([=] {
    require(ok_or_closed(*said), "an outcome beside a close");
    store->settle();
  });
}

// A worker that lets go of its run while the store closes: the store has heard of it, or was told that it is handed back.
void close_against_drop(Play& play) {
  auto store = durable();
  Run* const run = store->running(1);
  store->thread(play, "worker", [=] {
    const Status said = run->reason() == tasks::Reason::none ? Status::ok : Status::closed;
    require(said == Status::ok || run->reason() == tasks::Reason::stop, "why a run of a closing store is asked to end");
    require(run->header.tag.end(nocter::base::Kind::run), "a run ends once");
    run->drop("WorkerLost", "its worker went away");
  });
  store->closer(play);
  play.at_end([=] { store->settle(); });
}

void two_closers(Play& play) {
  auto store = durable();
  store->closer(play, "one");
  store->closer(play, "two");
  store->thread(play, "caller", [=] { require(ok_or_closed(store->submit({1})), "a submit beside a close"); });
  play.at_end([=] { store->settle(); });
}

void close_against_the_keeper(Play& play) {
  auto store = durable();
  store->keeper(play);
  store->thread(play, "claimer", [=] {
    const Wait forever;
    Status said;
    require(store->claim("a", &forever, said) == nullptr && said == Status::closed, "a claim beside a close");
  });
  store->closer(play);
  play.at_end([=] { store->settle(); });
}

}  // namespace

std::vector<Scenario> tasks_close_scenarios() {
  return {
      {"close_against_claim_and_submit", "GEN-01 TSK-13", close_against_waits},
      {"close_against_await_and_done", "GEN-01 TSK-29", close_against_await},
      {"close_against_drop", "GEN-01 TSK-18", close_against_drop},
      {"close_by_two", "GEN-01", two_closers},
      {"close_against_the_keeper", "GEN-01", close_against_the_keeper},
  };
}

}  // namespace sched
