// Notifiers: the queue itself tells those who do not wait inside of it, and under no lock.
#include <algorithm>

#include "sched/keyed_world.hpp"

namespace sched {

namespace {

// A host that was refused sleeps until it is told, and then there is room, or the queue is closed.
template <Ends how, bool closes>
void host_waits_for_room(Play& play) {
  auto world = keyed({.maximum_keys = 1, .workers = 1});
  world->accepted(0);
  play.thread("host", [=] { sleeps_until_told(world->waiters, [=] { return world->notify(1) != NOCTER_SATURATED; }); });
  play.thread("worker", [=] {
    const nocter_status heard = world->work_once(nullptr, how);
    require(heard == NOCTER_OK || (closes && heard == NOCTER_CLOSED), "claim");
    if (how == Ends::retries) world->close(NOCTER_CLOSE_DISCARD);
  });
  if (closes) play.thread("closer", [=] { world->close(NOCTER_CLOSE_DISCARD); });
  play.at_end([=] { world->settle(); });
}

// Two hosts were refused, and both are told.
void hosts_wait_for_room(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->notify_many({0, 1});
  for (const int key : {2, 3}) {
    play.thread(key == 2 ? "host" : "other host",
                [=] { sleeps_until_told(world->waiters, [=] { return world->notify(key) != NOCTER_SATURATED; }); });
  }
  play.thread("worker", [=] {
    require_equal(world->work_once(), NOCTER_OK, "claim");
    require_equal(world->work_once(nullptr, Ends::fails), NOCTER_OK, "claim");
  });
  play.at_end([=] { world->settle(); });
}

template <nocter_close_mode mode, bool closed_before>
void host_waits_for_the_end(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->accepted(0);
  const auto pass = world->claimed();
  if (closed_before) world->close(mode);
  play.thread("host", [=] {
    sleeps_until_told(world->waiters, [=] {
      const nocter_status heard = world->drained();
      require(heard == NOCTER_OK || heard == NOCTER_PENDING || heard == NOCTER_E_STATE, "drained");
      return heard == NOCTER_OK;
    });
  });
  play.thread("worker", [=] { world->end(pass, Ends::drops); });
  if (!closed_before) play.thread("closer", [=] { world->close(mode); });
  play.at_end([=] { world->settle(); });
}

// Hosts that claim by themselves are told of keys that are due, and of a worker that is free again.
template <uint32_t workers, bool at_once>
void hosts_wait_for_keys(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = workers});
  for (const char* name : {"host", "other host"}) {
    play.thread(name, [=] { sleeps_until_told(world->work, [=] { return world->work_once() == NOCTER_OK; }); });
  }
  play.thread("notifier", [=] {
    if (at_once) {
      world->notify_many({0, 1});
    } else {
      world->accepted(0);
      world->accepted(1);
    }
  });
  play.at_end([=] { world->settle(); });
}

// A dirty key comes back by the end of its pass: the host is told of it.
template <Ends how>
void host_hears_of_a_dirty_key(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->accepted(0);
  const auto pass = world->claimed();
  world->accepted(0);
  play.thread("host", [=] { sleeps_until_told(world->work, [=] { return world->work_once() == NOCTER_OK; }); });
  play.thread("worker", [=] { world->end(pass, how); });
  play.at_end([=] { world->settle(); });
}

template <nocter_close_mode mode>
void host_hears_of_close(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 1});
  world->notify_after(0, kHour);
  play.thread("host", [=] {
    sleeps_until_told(world->work, [=] {
      // It asks until a claim finds nothing: only then is it told again.
      nocter_status heard = NOCTER_OK;
      while (heard == NOCTER_OK) heard = world->work_once();
      return heard == NOCTER_CLOSED;
    });
  });
  play.thread("closer", [=] { world->close(mode); });
  play.at_end([=] {
    require_equal(world->passes_of(0), mode == NOCTER_CLOSE_DRAIN ? 1 : 0, "passes");
    world->settle();
  });
}

// Inside a notifier of the same queue: questions are answered, lifecycle calls refused, drops and closes carried out; the wake of such a
// call is one more turn and no recursion.
void calls_inside(Play& play) {
  struct Inside {
    Keyed::Pass pass = {nullptr, -1};
    bool dropped = false;
    int deepest = 0;
  };
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  auto inside = std::make_shared<Inside>();
  world->notify_many({0, 1});
  inside->pass = world->claimed();
  Keyed* const self = world.get();  // no cycle of owners
  world->waiters.on_wake = [=] {
    const nocter_text key = Keyed::text_of(3);
    nocter_status each = 77;
    nocter_pass* pass = nullptr;
    const nocter_keyed_source source = {[](void*, nocter_text*) -> nocter_status { return NOCTER_EMPTY; }, nullptr,
                                        nullptr};
    require_equal(nocter_keyed_notify(self->queue, key), NOCTER_E_REENTRANT, "notify inside a notifier");
    require_equal(nocter_keyed_notify_after(self->queue, key, 1), NOCTER_E_REENTRANT, "notify_after inside a notifier");
    require_equal(nocter_keyed_notify_many(self->queue, &key, 1, &each), NOCTER_E_REENTRANT,
                  "notify_many inside a notifier");
    require_equal(each, 0, "its answer for each");
    require_equal(nocter_keyed_claim(self->queue, nullptr, &pass), NOCTER_E_REENTRANT, "claim inside a notifier");
    require_equal(nocter_keyed_drained(self->queue, nullptr), NOCTER_E_REENTRANT, "drained inside a notifier");
    require_equal(nocter_keyed_resync(self->queue, &source, 1, 1), NOCTER_E_REENTRANT, "resync inside a notifier");
    self->counts();
    int64_t due;
    require_equal(nocter_keyed_next_due(self->queue, &due), NOCTER_EMPTY, "next_due inside a notifier");
    if (inside->dropped) return;
    inside->dropped = true;
    require_equal(nocter_pass_complete(inside->pass.pass), NOCTER_E_REENTRANT, "complete inside a notifier");
    require_equal(nocter_pass_fail(inside->pass.pass), NOCTER_E_REENTRANT, "fail inside a notifier");
    require_equal(nocter_pass_retry_after(inside->pass.pass, 1), NOCTER_E_REENTRANT, "retry_after inside a notifier");
    const int wakes = self->waiters.wakes;
    self->end(inside->pass, Ends::drops);
    self->close(NOCTER_CLOSE_DISCARD);
    // Another thread may have woken it meanwhile; this one must not have.
    inside->deepest = self->waiters.wakes - wakes;
  };
  play.thread("worker", [=] {
    require_equal(world->notify(3), NOCTER_SATURATED, "notify when full");
    require_equal(world->work_once(), NOCTER_OK, "claim");
  });
  play.at_end([=] {
    require(inside->dropped, "GEN-04: room is told of after a refusal");
    require_equal(inside->deepest, 0, "FFI-13: wakes inside of a wake");
    require(world->waiters.wakes >= 2, "the end inside was told as one more turn");
    world->waiters.on_wake = nullptr;
    require_equal(world->drained(), NOCTER_OK, "drained");
    world->settle();
  });
}

// Two services that wake each other: a pass submits to the blocking service, whose waiters notify the queue of what ended; and the queue's
// own waiters call on the blocking service. None recurses, and nothing is forgotten.
void two_services(Play& play) {
  auto queue = keyed({.maximum_keys = 1, .workers = 1});
  auto jobs = std::make_shared<Blocking>(Shape{.maximum_jobs = 3, .workers = 2});
  auto deepest = std::make_shared<int>(0);
  Keyed* const q = queue.get();
  Blocking* const j = jobs.get();
  jobs->waiters.on_wake = [=] {
    *deepest = std::max({*deepest, j->waiters.inside, q->waiters.inside});
    const int state = q->change(0);
    const nocter_status heard = nocter_keyed_notify(q->queue, Keyed::text_of(0));
    // From inside the queue's own notifier it is refused; whoever is inside will have told it.
    if (heard != NOCTER_E_REENTRANT) q->tell(0, state, heard);
  };
  queue->waiters.on_wake = [=] {
    *deepest = std::max({*deepest, j->waiters.inside, q->waiters.inside});
    nocter_owned value = j->ledger.make(50 + q->waiters.wakes);
    nocter_job_id id;
    nocter_epoch epoch;
    const nocter_status submitted = nocter_blocking_submit(j->service, &value, &id, &epoch);
    if (submitted != NOCTER_OK) {
      require(submitted == NOCTER_E_REENTRANT || submitted == NOCTER_SATURATED, "submit");
      if (submitted == NOCTER_SATURATED) j->tally.saturated++;
      j->ledger.end(value, Ledger::number(value));
      return;
    }
    j->tally.accepted++;
    nocter_job_state was;
    nocter_owned back;
    require_equal(nocter_blocking_cancel(j->service, id, &was, &back), NOCTER_OK, "cancel");
    j->tally.cancelled_queued++;
    j->ledger.end(back, Ledger::number(back));
  };
  queue->accepted(0);
  play.thread("worker of the queue", [=] {
    const auto pass = queue->claimed();
    nocter_job_id id;
    nocter_epoch epoch;
    require_equal(jobs->submit(1, id, epoch), NOCTER_OK, "submit inside a pass");
    queue->notify(1);  // refused: so the end of the pass is told to the queue's waiters
    queue->end(pass);
  });
  play.thread("worker of the jobs", [=] {
    const nocter_wait wait = forever();
    require_equal(jobs->work_once(&wait), NOCTER_OK, "claim");
  });
  play.at_end([=] {
    require(*deepest <= 2, "a notifier was entered by one thread twice");
    require(queue->tally.ok + queue->tally.coalesced >= 2, "the end of the job was notified");
    jobs->waiters.on_wake = queue->waiters.on_wake = nullptr;
    queue->settle();
    jobs->settle();
  });
}

// A queue that is destroyed inside its own notifier lives until that notifier has returned.
void destroy_inside(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  world->notify_many({0, 1});
  const auto first = world->claimed(), second = world->claimed();
  require_equal(world->notify(3), NOCTER_SATURATED, "notify when full");
  auto destroyed = std::make_shared<bool>(false);
  Keyed* const self = world.get();
  world->waiters.on_wake = [=] {
    if (*destroyed) return;
    *destroyed = true;
    self->destroy();
    require(!self->waiters.dropped, "dropped inside of its own wake");
  };
  play.thread("worker", [=] { world->end(first); });
  play.thread("other worker", [=] { world->end(second, Ends::fails); });
  play.at_end([=] {
    require(*destroyed, "room is told of after a refusal");
    world->settle();
  });
}

// Creation while memory is short: it works or says so, and nothing stays behind; the queue that exists is not touched.
void creation_without_memory(Play& play) {
  auto world = keyed({.maximum_keys = 1, .workers = 1});
  play.thread("creator", [=] {
    Bell bell;
    nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
    options.maximum_keys = 4;
    options.waiters = bell.notifier();
    nocter_keyed* made = nullptr;
    const nocter_status status = nocter_keyed_create(&options, &made);
    require(status == NOCTER_OK || status == NOCTER_E_MEMORY, "create");
    require((status == NOCTER_OK) == (made != nullptr), "a queue when, and only when, it says so");
    nocter_keyed_destroy(made);
    require(bell.dropped == (status == NOCTER_OK), "a notifier is the queue's when creation worked, else not");
  });
  play.thread("user", [=] {
    world->accepted(0);
    require_equal(world->work_once(), NOCTER_OK, "claim");
  });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> keyed_notifier_scenarios() {
  return {
      {"k06_host_hears_of_room", "GEN-04 KEY-05 K-6", host_waits_for_room<Ends::completes, false>},
      {"k08_host_hears_of_room_after_a_failure", "GEN-04 KEY-06 K-8", host_waits_for_room<Ends::fails, false>},
      {"k06_refused_host_hears_of_close", "GEN-04 KEY-08 K-12", host_waits_for_room<Ends::retries, false>},
      {"k12_refused_host_hears_of_close_of_another", "GEN-04 KEY-08 K-12", host_waits_for_room<Ends::drops, true>},
      {"k06_hosts_hear_of_room", "GEN-04 KEY-05 K-6", hosts_wait_for_room},
      {"k21_host_hears_that_it_is_drained", "GEN-04 KEY-08 K-21", host_waits_for_the_end<NOCTER_CLOSE_DRAIN, true>},
      {"k21_host_hears_of_close_and_end", "GEN-04 KEY-08 K-21", host_waits_for_the_end<NOCTER_CLOSE_DISCARD, false>},
      {"k23_hosts_hear_of_keys", "GEN-04 K-23", hosts_wait_for_keys<2, false>},
      {"k23_hosts_hear_of_keys_of_one_call", "GEN-04 K-23", hosts_wait_for_keys<2, true>},
      {"k23_hosts_hear_of_a_free_worker", "GEN-04 K-23", hosts_wait_for_keys<1, false>},
      {"k23_host_hears_of_a_dirty_key", "GEN-04 KEY-03 K-23", host_hears_of_a_dirty_key<Ends::completes>},
      {"k23_host_hears_of_a_dirty_key_of_a_failure", "GEN-04 KEY-03 K-9 K-23", host_hears_of_a_dirty_key<Ends::fails>},
      {"k12_host_hears_of_discard", "GEN-04 KEY-08 K-23", host_hears_of_close<NOCTER_CLOSE_DISCARD>},
      {"k12_host_hears_of_drain", "GEN-04 KEY-08 K-23", host_hears_of_close<NOCTER_CLOSE_DRAIN>},
      {"k31_calls_inside", "GEN-05 FFI-13 K-31", calls_inside},
      {"k27_two_services_wake_each_other", "GEN-05 FFI-13 K-27", two_services},
      {"k31_destroy_inside", "GEN-05 K-31", destroy_inside},
      {"k24_creation_without_memory", "GEN-09 K-24", creation_without_memory, Disturbance::memory},
  };
}

}  // namespace sched
