// Destroy against everything: whoever comes last cleans, nothing is left behind, and the service is freed once.
#include "nocter/blocking.h"
#include "sched/retirement_world.hpp"

namespace sched {

namespace {

// Nobody serves: the owner and the destroying thread share out what there is to clean.
template <bool explicitly>
void destroy_against_drop(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1});
  nocter_resource* const one = world->own(1);
  nocter_resource* const other = world->own(2);
  play.thread("host", [=] { world->destroy(); });
  play.thread("owner", [=] {
    if (explicitly) {
      nocter_retirement_id id;
      const nocter_status status = nocter_resource_retire(one, &id);
      require(status == NOCTER_OK || status == NOCTER_CLOSED, "retire");
    } else {
      nocter_resource_drop(one);
    }
  });
  play.thread("other owner", [=] { nocter_resource_drop(other); });
  play.at_end([=] { world->settle(); });
}

void destroy_against_permit(Play& play) {
  auto world = retiring({.maximum_resources = 1, .workers = 1});
  nocter_permit* const permit = world->reserved();
  play.thread("host", [=] { world->destroy(); });
  play.thread("owner", [=] { nocter_permit_drop(permit); });
  play.at_end([=] { world->settle(); });
}

// A guard that is out when the service is destroyed, and something queued behind it.
template <bool begun>
void destroy_against_cleanup(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1});
  nocter_resource_drop(world->own(1));
  nocter_cleanup* cleanup;
  require_equal(world->claim(cleanup), NOCTER_OK, "claim");
  if (begun) world->begin(cleanup);
  nocter_resource* const other = world->own(2);
  play.thread("host", [=] { world->destroy(); });
  play.thread("cleaner", [=] {
    if (begun) {
      require_equal(nocter_cleanup_complete(cleanup, 0), NOCTER_OK, "complete");
    } else {
      nocter_cleanup_drop(cleanup);
    }
  });
  play.thread("owner", [=] { nocter_resource_drop(other); });
  play.at_end([=] { world->settle(); });
}

void destroy_against_claim(Play& play) {
  auto world = retiring({.maximum_resources = 1, .workers = 1});
  nocter_resource* const resource = world->own(1);
  nocter_retirement* const service = world->service;
  play.thread("claimer", [=] {
    const nocter_wait wait = forever();
    nocter_cleanup* cleanup;
    const nocter_status status = nocter_retirement_claim(service, &wait, &cleanup);
    require(status == NOCTER_OK || status == NOCTER_CLOSED, "claim");
    if (status == NOCTER_OK) nocter_cleanup_drop(cleanup);
  });
  play.thread("host", [=] {
    wait_until([] { return asleep("claimer") || ended("claimer"); });
    world->destroy();
  });
  play.thread("owner", [=] { nocter_resource_drop(resource); });
  play.at_end([=] { world->settle(); });
}

void destroy_against_take(Play& play) {
  auto world = retiring({.maximum_resources = 1, .workers = 1});
  const nocter_retirement_id id = world->retired(1);
  nocter_cleanup* cleanup;
  require_equal(world->claim(cleanup), NOCTER_OK, "claim");
  nocter_retirement* const service = world->service;
  play.thread("taker", [=] {
    const nocter_wait wait = forever();
    int32_t code;
    const nocter_status status = nocter_retirement_take(service, id, &wait, &code);
    require(status == NOCTER_WORKER_LOST || status == NOCTER_CLOSED, "take");
  });
  play.thread("host", [=] {
    wait_until([] { return asleep("taker") || ended("taker"); });
    world->destroy();
  });
  play.thread("cleaner", [=] { nocter_cleanup_drop(cleanup); });
  play.at_end([=] { world->settle(); });
}

// A thread of the library's serves: it cleans what is dropped after destroy, then ends by itself.
void server_outlives_the_handle(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1});
  auto stop = std::make_shared<OwnInterrupt>();
  nocter_resource* const one = world->own(1);
  nocter_resource* const other = world->own(2);
  world->announce_serving(1);
  play.thread("server", [=, service = world->service] {
    world->serve(*stop);
    (void)service;
  });
  play.thread("owner", [=] { nocter_resource_drop(one); });
  play.thread("host", [=] {
    wait_until([] { return asleep("server") || ended("server"); });
    world->destroy();
    nocter_resource_drop(other);
  });
  play.at_end([=] { world->settle(); });
}

// It is stopped while something is dropped: it cleans it, or the owner does.
template <uint32_t servers>
void stop_against_drop_and_destroy(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = servers});
  auto stop = std::make_shared<OwnInterrupt>();
  nocter_resource* const one = world->own(1);
  nocter_resource* const other = world->own(2);
  world->announce_serving(servers);
  constexpr const char* kNames[] = {"server", "second server"};
  for (uint32_t i = 0; i < servers; i++) play.thread(kNames[i], [=] { world->serve(*stop); });
  play.thread("host", [=] {
    wait_until([] { return asleep("server"); });
    if (servers == 2) wait_until([] { return asleep("second server"); });
    nocter_interrupt_raise(*stop);
    world->destroy();
  });
  play.thread("owner", [=] {
    nocter_resource_drop(one);
    nocter_resource_drop(other);
  });
  play.at_end([=] { world->settle(); });
}

// A cleanup that gives up another owner, in a service that nobody serves any more.
void nested_in_place(Play& play) {
  auto world = retiring({.maximum_resources = 3, .workers = 1});
  nocter_resource* const inner = world->own(1);
  auto depth = std::make_shared<int>(0);
  struct Outer {
    nocter_resource* inner;
    int* depth;
  };
  auto outer = std::make_shared<Outer>(Outer{inner, depth.get()});
  nocter_owned value = {outer.get(), [](void* data) {
                          Outer& o = *static_cast<Outer*>(data);
                          require_equal((*o.depth)++, 0, "how deep it is");
                          nocter_resource_drop(o.inner);
                          point("drop function");
                          (*o.depth)--;
                        }};
  nocter_resource* const resource = nocter_permit_attach(world->reserved(), &value);
  nocter_resource* const other = world->own(2);
  play.thread("host", [=] { world->destroy(); });
  play.thread("owner", [=] { nocter_resource_drop(resource); });
  play.thread("other owner", [=] { nocter_resource_drop(other); });
  play.at_end([=] {
    require_equal(*depth, 0, "cleanups that have not returned");
    require(outer.use_count() > 0, "the outer resource");
    world->settle();
  });
}

// Destroyed from inside its own notifier, while somebody else gives something up.
void destroy_in_a_notifier(Play& play) {
  auto world = retiring({.maximum_resources = 2, .workers = 1});
  nocter_permit* const permit = world->reserved();
  nocter_resource* const resource = world->own(1);
  auto destroyed = std::make_shared<bool>(false);
  world->waiters.on_wake = [=, w = world.get()] {
    if (*destroyed) return;
    *destroyed = true;
    w->destroy();
  };
  play.thread("owner of the permit", [=] { nocter_permit_drop(permit); });
  play.thread("owner", [=] { nocter_resource_drop(resource); });
  play.at_end([=] {
    world->waiters.on_wake = nullptr;
    world->settle();
  });
}

// Two services that wake each other: a cleanup that submits a job, a job that ends with a cleanup.
void two_services(Play& play) {
  auto retiring_world = retiring({.maximum_resources = 2, .workers = 1});
  auto blocking_world = blocking({.maximum_jobs = 2, .workers = 1});
  nocter_resource* const resource = retiring_world->own(1);
  retiring_world->waiters.on_wake = [b = blocking_world.get()] { b->counts(); };
  blocking_world->waiters.on_wake = [r = retiring_world.get()] { r->counts(); };
  play.thread("cleaner", [=] {
    const nocter_wait wait = forever();
    require_equal(retiring_world->clean_once(&wait), NOCTER_OK, "claim");
    blocking_world->accepted(2);
  });
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    require_equal(blocking_world->work_once(&wait), NOCTER_OK, "claim");
    nocter_retirement_close(retiring_world->service);
  });
  play.thread("owner", [=] {
    const nocter_wait wait = forever();
    nocter_resource_drop(resource);
    require_equal(retiring_world->drained(&wait), NOCTER_OK, "drained");
  });
  play.at_end([=] {
    retiring_world->waiters.on_wake = nullptr;
    blocking_world->waiters.on_wake = nullptr;
    retiring_world->settle();
    blocking_world->settle();
  });
}

}  // namespace

std::vector<Scenario> retirement_ends() {
  return {
      {"r07_destroy_against_drops", "RET-03 GEN-01 R-6 R-7", destroy_against_drop<false>},
      {"r07_destroy_against_retire", "RET-03 GEN-01 R-7 R-24", destroy_against_drop<true>},
      {"r01_destroy_against_permit", "RET-02 R-1", destroy_against_permit},
      {"r07_destroy_against_complete", "RET-05 R-7", destroy_against_cleanup<true>},
      {"r07_destroy_against_drop_of_cleanup", "RET-05 R-7", destroy_against_cleanup<false>},
      {"r07_destroy_against_claim", "GEN-07 R-7", destroy_against_claim},
      {"r24_destroy_against_take", "GEN-07 R-24", destroy_against_take},
      {"r06_server_outlives_the_handle", "RET-03 R-6", server_outlives_the_handle},
      {"r07_stop_against_drop_and_destroy", "RET-03 R-7", stop_against_drop_and_destroy<1>},
      {"r07_two_servers_stop", "RET-03 R-7", stop_against_drop_and_destroy<2>},
      {"r19_nested_in_place", "R-7 R-19", nested_in_place},
      {"r07_destroy_in_a_notifier", "GEN-05 R-7", destroy_in_a_notifier},
      {"two_services_that_wake_each_other", "RET-01 GEN-04 FFI-13", two_services},
  };
}

}  // namespace sched
