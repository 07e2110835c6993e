// Notifiers: the service itself tells, after every transition that a waiter can care about, and under no lock.
#include "sched/blocking_scenarios.hpp"

namespace sched {

namespace {

// A host that sleeps until it is told and then asks: what it waits for is always told to it.
template <class Asks>
void until_told(const Bell& bell, Asks asks) {
  for (;;) {
    const int seen = bell.wakes;
    if (asks()) return;
    wait_until([&bell, seen] { return bell.wakes != seen; });
  }
}

enum class End { completes, loses, drops_unbegun, cancels_and_completes, shuts_down };

// The host waits for one thing: that the job is gone, or can be taken.
template <End end>
void host_waits_for_job(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id id = world->accepted(1);
  play.thread("host", [=] {
    until_told(world->waiters, [=] {
      const nocter_status heard = world->take(id, 1);
      return heard != NOCTER_PENDING && heard != NOCTER_E_STATE;
    });
  });
  play.thread("worker", [=] {
    nocter_running_job* job;
    require_equal(world->claim(job), NOCTER_OK, "claim");
    if (end == End::drops_unbegun) {
      world->lost.push_back(1);
      world->tally.lost++;
      nocter_running_job_drop(job);
      return;
    }
    const auto begun = world->begin(job);
    if (end == End::cancels_and_completes) require_equal(world->cancel(id, 1), NOCTER_JOB_RUNNING, "cancel");
    if (end == End::shuts_down) world->shutdown();
    end == End::loses ? world->lose(begun) : world->complete(begun);
  });
  play.at_end([=] { world->settle(); });
}

// The host waits for a free slot.
void host_waits_for_slot(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  const nocter_job_id first = world->accepted(1);
  play.thread("host", [=] {
    int number = 2;
    until_told(world->waiters, [&] {
      nocter_job_id id;
      nocter_epoch epoch;
      number += 2;
      return world->submit(number, id, epoch) == NOCTER_OK;
    });
  });
  play.thread("worker", [=] { world->work_once(); });
  play.thread("canceller", [=] { require(world->cancel(first, 1) > 0, "cancel"); });
  play.at_end([=] { world->settle(); });
}

// Two hosts that claim by themselves, told by the work notifier: of a submit, and of a worker slot that is free again.
template <uint32_t workers>
void hosts_wait_for_work(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = workers});
  for (const char* name : {"first host", "second host"}) {
    play.thread(name, [=] { until_told(world->work, [=] { return world->work_once() == NOCTER_OK; }); });
  }
  play.thread("submitter", [=] {
    world->accepted(1);
    world->accepted(2);
  });
  play.at_end([=] { world->settle(); });
}

void hosts_hear_of_shutdown(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  play.thread("host that claims", [=] {
    until_told(world->work, [=] {
      // It asks until a claim finds nothing: only then is it told again.
      nocter_status heard;
      do heard = world->work_once();
      while (heard == NOCTER_OK);
      return heard == NOCTER_CLOSED;
    });
  });
  play.thread("host that drains", [=] { until_told(world->waiters, [=] { return world->drained() == NOCTER_OK; }); });
  play.thread("closer", [=] {
    nocter_job_id id;
    nocter_epoch epoch;
    require_equal(world->submit(1, id, epoch), NOCTER_OK, "submit");
    world->shutdown();
  });
  play.at_end([=] { world->settle(); });
}

// Inside a notifier of the same service: questions are answered, lifecycle calls refused, and drops carried out; the
// wake of such a drop is one more turn and no recursion.
void calls_inside(Play& play) {
  struct Inside {
    nocter_running_job* job = nullptr;
    bool dropped = false;
    int deepest = 0;
  };
  auto world = blocking({.maximum_jobs = 3, .workers = 2});
  auto inside = std::make_shared<Inside>();
  world->accepted(1);
  require_equal(world->claim(inside->job), NOCTER_OK, "claim");
  world->lost.push_back(1);
  world->tally.lost++;
  const nocter_job_id id = world->accepted(2);
  Blocking* const service = world.get();  // no cycle of owners
  world->waiters.on_wake = [=] {
    nocter_owned value = {nullptr, nullptr};
    nocter_job_id ignored_id;
    nocter_epoch ignored_epoch;
    require_equal(nocter_blocking_submit(service->service, &value, &ignored_id, &ignored_epoch), NOCTER_E_REENTRANT,
                  "submit inside a notifier");
    nocter_job_state was;
    require_equal(nocter_blocking_cancel(service->service, id, &was, nullptr), NOCTER_E_REENTRANT,
                  "cancel inside a notifier");
    service->counts();
    service->state(id);
    service->epoch();
    if (inside->dropped) return;
    inside->dropped = true;
    const int wakes = service->waiters.wakes;
    nocter_running_job_drop(inside->job);
    require(service->waiters.inside >= 1, "inside still");
    // Another thread may have woken it meanwhile; this one must not have.
    inside->deepest = service->waiters.wakes - wakes;
  };
  play.thread("worker", [=] { require_equal(world->work_once(), NOCTER_OK, "claim"); });
  play.thread("canceller", [=] {
    // Only after it was dropped: then this thread has no guard to drop in its own turn.
    wait_until([=] { return inside->dropped; });
    require_equal(world->state(id) == 0 ? 0 : 1, 1, "the job that nobody took");
  });
  play.at_end([=] {
    require_equal(inside->deepest, 0, "wakes inside of a wake");
    require(world->waiters.wakes >= 2, "the drop inside was told as one more turn");
    world->waiters.on_wake = nullptr;
    world->settle();
  });
}

// Two services that wake each other: every wake leads to a call on the other, and none recurses.
void two_services(Play& play) {
  auto a = blocking({.maximum_jobs = 3, .workers = 2});
  auto b = blocking({.maximum_jobs = 3, .workers = 2});
  auto deepest = std::make_shared<int>(0);
  const auto chain = [deepest](Blocking* self, Blocking* other) {
    self->waiters.on_wake = [deepest, self, other] {
      *deepest = std::max(*deepest, self->waiters.inside);
      // What comes back from the other service while we are inside of it is refused, and nothing is lost.
      nocter_owned value = other->ledger.make(static_cast<int>(50 + self->waiters.wakes));
      nocter_job_id id;
      nocter_epoch epoch;
      const nocter_status submitted = nocter_blocking_submit(other->service, &value, &id, &epoch);
      if (submitted != NOCTER_OK) {
        require(submitted == NOCTER_E_REENTRANT || submitted == NOCTER_SATURATED, "submit");
        if (submitted == NOCTER_SATURATED) other->tally.saturated++;
        other->ledger.end(value, Ledger::number(value));
        return;
      }
      other->tally.accepted++;
      nocter_job_state was;
      nocter_owned back;
      require_equal(nocter_blocking_cancel(other->service, id, &was, &back), NOCTER_OK, "cancel");
      other->tally.cancelled_queued++;
      other->ledger.end(back, Ledger::number(back));
    };
  };
  chain(a.get(), b.get());
  chain(b.get(), a.get());
  for (const bool first : {true, false}) {
    play.thread(first ? "user of a" : "user of b", [=] {
      const auto& own = first ? a : b;
      const nocter_job_id id = own->accepted(1);
      require_equal(own->cancel(id, 1), NOCTER_JOB_QUEUED, "cancel");
    });
  }
  play.at_end([=] {
    require(*deepest <= 2, "a notifier was entered by one thread twice");
    for (const auto& world : {a, b}) {
      world->waiters.on_wake = nullptr;
      world->settle();
    }
  });
}

// A service that is destroyed inside its own notifier lives until that notifier has returned.
void destroy_inside(Play& play) {
  auto world = blocking({.maximum_jobs = 2, .workers = 1});
  const nocter_job_id id = world->accepted(1);
  const auto begun = world->claimed_and_begun();
  auto destroyed = std::make_shared<bool>(false);
  Blocking* const service = world.get();
  world->waiters.on_wake = [=] {
    if (*destroyed) return;
    *destroyed = true;
    nocter_blocking_destroy(service->service);
    require(!service->waiters.dropped, "dropped inside of its own wake");
  };
  play.thread("canceller", [=] { require_equal(world->cancel(id, 1), NOCTER_JOB_RUNNING, "cancel"); });
  play.thread("worker", [=] {
    wait_until([] { return ended("canceller"); });
    world->complete(begun);
  });
  play.at_end([=] {
    world->service = nullptr;
    world->settle();
  });
}

// Waits of a host by the signal's protocol, published by the service's own notifier.
void notifier_of_a_signal(Play& play) {
  struct State {
    nocter_signal* signal = nullptr;
    nocter_blocking* service = nullptr;
    nocter_job_id id = {0, 0};
    nocter_owned input = {nullptr, nullptr};
  };
  auto state = std::make_shared<State>();
  auto ledger = std::make_shared<Ledger>();
  require_equal(nocter_signal_create(&state->signal), NOCTER_OK, "signal_create");
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.waiters = nocter_signal_notifier(state->signal);
  require_equal(nocter_blocking_create(&options, &state->service), NOCTER_OK, "blocking_create");
  state->input = ledger->make(1);
  nocter_epoch epoch;
  require_equal(nocter_blocking_submit(state->service, &state->input, &state->id, &epoch), NOCTER_OK, "submit");
  play.thread("host", [=] {
    const nocter_wait wait = forever();
    for (;;) {
      const uint64_t seen = nocter_signal_version(state->signal);
      nocter_owned output;
      const nocter_status heard = nocter_blocking_take(state->service, state->id, nullptr, &output);
      if (heard == NOCTER_OK) {
        ledger->end(output, 1);
        return;
      }
      require_equal(heard, NOCTER_PENDING, "take");
      uint64_t now;
      require_equal(nocter_signal_wait(state->signal, seen, &wait, &now), NOCTER_OK, "wait");
    }
  });
  play.thread("worker", [=] {
    nocter_running_job* job;
    nocter_owned value;
    nocter_completion* completion;
    require_equal(nocter_blocking_claim(state->service, nullptr, &job), NOCTER_OK, "claim");
    require_equal(nocter_running_job_begin(job, &value, &completion), NOCTER_OK, "begin");
    require_equal(nocter_completion_complete(completion, &value), NOCTER_OK, "complete");
  });
  play.at_end([=] {
    nocter_signal_destroy(state->signal);  // the service's notifier still holds it
    nocter_blocking_destroy(state->service);
    ledger->check();
  });
}

// Creation while memory is short: it works or says so, and nothing stays behind; the services that exist are not
// touched.
void creation_without_memory(Play& play) {
  auto world = blocking({.maximum_jobs = 1, .workers = 1});
  for (const char* name : {"one", "two"}) {
    play.thread(name, [=] {
      Bell bell;
      nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
      options.waiters = bell.notifier();
      nocter_blocking* made = nullptr;
      const nocter_status status = nocter_blocking_create(&options, &made);
      require(status == NOCTER_OK || status == NOCTER_E_MEMORY, "create");
      require((status == NOCTER_OK) == (made != nullptr), "a service when, and only when, it says so");
      nocter_blocking_destroy(made);
      require(bell.dropped == (status == NOCTER_OK), "a notifier is the service's when creation worked, else not");
    });
  }
  play.thread("user", [=] {
    const nocter_job_id id = world->accepted(1);
    require_equal(world->work_once(), NOCTER_OK, "claim");
    require_equal(world->take(id, 1), NOCTER_OK, "take");
  });
  play.at_end([=] { world->settle(); });
}

}  // namespace

std::vector<Scenario> notifier_scenarios() {
  return {
      {"b30_host_hears_of_completion", "GEN-04 BLK-12 B-30", host_waits_for_job<End::completes>},
      {"b16_host_hears_of_drop", "GEN-04 BLK-06 B-16 B-30", host_waits_for_job<End::loses>},
      {"b15_host_hears_of_drop_of_unbegun", "GEN-04 BLK-06 B-15 B-30", host_waits_for_job<End::drops_unbegun>},
      {"b18_host_hears_of_abandoned_end", "GEN-04 BLK-08 B-18 B-30", host_waits_for_job<End::cancels_and_completes>},
      {"b12_host_hears_of_shutdown", "GEN-04 BLK-11 B-12 B-30", host_waits_for_job<End::shuts_down>},
      {"b22_host_hears_of_slot", "GEN-04 BLK-03 B-22", host_waits_for_slot},
      {"b35_hosts_hear_of_work", "GEN-04 BLK-05 B-35", hosts_wait_for_work<2>},
      {"b36_hosts_hear_of_worker", "GEN-04 BLK-07 B-35 B-36", hosts_wait_for_work<1>},
      {"b35_hosts_hear_of_shutdown", "GEN-04 BLK-11 B-35", hosts_hear_of_shutdown},
      {"b32_calls_inside", "GEN-05 FFI-13 B-32", calls_inside},
      {"b32_two_services_wake_each_other", "GEN-05 FFI-13 B-32", two_services},
      {"b33_destroy_inside", "GEN-05 B-33", destroy_inside},
      {"b30_notifier_of_a_signal", "GEN-04 SIG-01 B-30 S-2", notifier_of_a_signal},
      {"b38_creation_without_memory", "GEN-09 B-38", creation_without_memory, Disturbance::memory},
  };
}

}  // namespace sched
