// The retirement service: made, reserved from, cleaned, asked, given up. Once it is made nothing of it needs memory.
#include <utility>

#include "oom/world.hpp"
#include "support/retirement.hpp"

namespace oom {

namespace {

using namespace nocter_tests;

nocter_status create(World& world, uint32_t maximum_resources, uint32_t workers) {
  world.retirement_options = NOCTER_RETIREMENT_OPTIONS_INIT;
  world.retirement_options.maximum_resources = maximum_resources;
  world.retirement_options.workers = workers;
  world.retirement_options.waiters = world.waiters.notifier();
  world.retirement_options.work = world.work.notifier();
  return nocter_retirement_create(world.lend(world.retirement_options), world.fill(world.out.retirement));
}

// ---- States ---------------------------------------------------------------------------------------------------------

void empty(World& world) {
  const nocter_retirement_options options = retiring::options_of(
      {.maximum_resources = 2, .workers = 1, .waiters = world.waiters.notifier(), .work = world.work.notifier()});
  STATUS(nocter_retirement_create(&options, &world.retirement), NOCTER_OK);
  world.epoch = retiring::epoch_of(world.retirement);
}

void with_permit(World& world) {
  empty(world);
  world.permit = retiring::reserve(world.retirement);
}

void with_permit_and_value(World& world) {
  with_permit(world);
  world.value = payload(4);
}

void with_owner(World& world) {
  empty(world);
  world.resource = retiring::own(world.retirement, 1);
}

void full(World& world) {
  with_owner(world);
  world.permit = retiring::reserve(world.retirement);
}

void queued(World& world) {
  empty(world);
  world.retirement_id = retiring::retire(retiring::own(world.retirement, 1));
}

void queued_and_interrupt(World& world) {
  queued(world);
  an_interrupt(world);
}

void claimed(World& world) {
  queued(world);
  world.cleanup = retiring::claim(world.retirement);
}

void begun(World& world) {
  claimed(world);
  retiring::begin(world.cleanup);
}

void completed(World& world) {
  begun(world);
  retiring::complete(std::exchange(world.cleanup, nullptr), 5);
}

void closed(World& world) {
  full(world);
  nocter_retirement_close(world.retirement);
}

void served_one(World& world) {
  empty(world);
  STATUS(nocter_retirement_serve(world.retirement, nullptr, &world.workers), NOCTER_OK);
  world.resource = retiring::own(world.retirement, 3);
}

// Everything at once: a permit, an owner, one queued, one running, one completed.
void busy(World& world) {
  const nocter_retirement_options options = retiring::options_of({.maximum_resources = 8, .workers = 2});
  STATUS(nocter_retirement_create(&options, &world.retirement), NOCTER_OK);
  world.retirement_id = retiring::retire(retiring::own(world.retirement, 1));
  retiring::clean_one(world.retirement, 3);
  nocter_resource_drop(retiring::own(world.retirement, 2));
  world.cleanup = retiring::claim(world.retirement);
  retiring::retire(retiring::own(world.retirement, 3));
  world.resource = retiring::own(world.retirement, 4);
  world.permit = retiring::reserve(world.retirement);
}

void many(World& world) {
  static size_t number = 200;
  world.many_retirements.resize(number++);
  for (nocter_retirement*& one : world.many_retirements) {
    const nocter_retirement_options options = retiring::options_of({.maximum_resources = 1, .workers = 1});
    STATUS(nocter_retirement_create(&options, &one), NOCTER_OK);
  }
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

nocter_status reserve(World& world) {
  return nocter_retirement_reserve(world.retirement, world.fill(world.out.permit), &world.out.epoch);
}

nocter_status attach(World& world) {
  world.resource = nocter_permit_attach(std::exchange(world.permit, nullptr), &world.value);
  return as_status(world.resource != nullptr && is_none(world.value));
}

nocter_status drop_permit(World& world) {
  nocter_permit_drop(std::exchange(world.permit, nullptr));
  return NOCTER_OK;
}

nocter_status drop(World& world) {
  nocter_resource_drop(std::exchange(world.resource, nullptr));
  return as_status(retiring::counts_of(world.retirement).live == 0);
}

nocter_status retire(World& world) {
  return nocter_resource_retire(std::exchange(world.resource, nullptr), world.fill(world.out.retirement_id));
}

nocter_status claim(World& world, const nocter_wait* wait) {
  return nocter_retirement_claim(world.retirement, wait, world.fill(world.out.cleanup));
}

nocter_status complete(World& world) { return nocter_cleanup_complete(std::exchange(world.cleanup, nullptr), 1); }

nocter_status drop_cleanup(World& world) {
  nocter_cleanup_drop(std::exchange(world.cleanup, nullptr));
  return as_status(retiring::counts_of(world.retirement).running == 0);
}

nocter_status take(World& world, const nocter_wait* wait) {
  return nocter_retirement_take(world.retirement, world.retirement_id, wait, world.fill(world.out.code));
}

nocter_status serve(World& world) {
  return nocter_retirement_serve(world.retirement, nullptr, world.fill(world.out.workers));
}

nocter_status give_up(World& world) {
  nocter_retirement_destroy(std::exchange(world.retirement, nullptr));
  return NOCTER_OK;
}

}  // namespace

Scenarios retirement_scenarios() {
  return {
      {"retirement_create_for_one", nothing, [](World& world) { return create(world, 1, 1); }, NOCTER_OK},
      {"retirement_create_for_100000", nothing, [](World& world) { return create(world, 100'000, 100); }, NOCTER_OK},
      {"retirement_create_beside_many", many, [](World& world) { return create(world, 3, 2); }, NOCTER_OK, 1},
      {"retirement_create_refused", nothing, [](World& world) { return create(world, 1, 2); }, NOCTER_E_ARGUMENT},

      {"retirement_reserve", empty, reserve, NOCTER_OK},
      {"retirement_reserve_saturated", full, reserve, NOCTER_SATURATED},
      {"retirement_reserve_closed", closed, reserve, NOCTER_CLOSED},
      {"permit_attach", with_permit_and_value, attach, NOCTER_OK},
      {"permit_drop", with_permit, drop_permit, NOCTER_OK},
      {"resource_drop", with_owner, drop, NOCTER_OK},
      {"resource_drop_when_full", full, drop, NOCTER_OK},
      {"resource_drop_when_closed", closed, drop, NOCTER_OK},
      {"resource_retire", with_owner, retire, NOCTER_OK},
      {"resource_get", with_owner,
       [](World& world) { return as_status(nocter_resource_get(world.resource) != nullptr); }, NOCTER_OK},

      {"retirement_claim", queued, [](World& world) { return claim(world, nullptr); }, NOCTER_OK},
      {"retirement_claim_nothing", empty, [](World& world) { return claim(world, nullptr); }, NOCTER_EMPTY},
      {"retirement_claim_too_late", empty, [](World& world) { return claim(world, &kPast); }, NOCTER_TIMEOUT},
      {"cleanup_begin", claimed,
       [](World& world) { return nocter_cleanup_begin(world.cleanup, world.fill(world.out.value)); }, NOCTER_OK},
      {"cleanup_begin_again", begun,
       [](World& world) { return nocter_cleanup_begin(world.cleanup, world.fill(world.out.value)); }, NOCTER_E_STATE},
      {"cleanup_complete", begun, complete, NOCTER_OK},
      {"cleanup_drop_before_begin", claimed, drop_cleanup, NOCTER_OK},
      {"cleanup_drop_after_begin", begun, drop_cleanup, NOCTER_OK},

      {"retirement_take", completed, [](World& world) { return take(world, nullptr); }, NOCTER_OK},
      {"retirement_take_early", queued, [](World& world) { return take(world, nullptr); }, NOCTER_PENDING},
      {"retirement_take_interrupted", queued_and_interrupt,
       [](World& world) {
         const nocter_wait wait = interrupted(world);
         return take(world, &wait);
       },
       NOCTER_INTERRUPTED},
      {"retirement_take_unknown", empty, [](World& world) { return take(world, nullptr); }, NOCTER_E_UNKNOWN},
      {"retirement_query", busy,
       [](World& world) {
         return nocter_retirement_query(world.retirement, world.retirement_id, world.fill(world.out.state));
       },
       NOCTER_OK},
      {"retirement_detach", completed,
       [](World& world) { return nocter_retirement_detach(world.retirement, world.retirement_id); }, NOCTER_OK},
      {"retirement_detach_all", busy,
       [](World& world) {
         nocter_retirement_detach_all(world.retirement);
         return as_status(retiring::counts_of(world.retirement).completed == 0);
       },
       NOCTER_OK},

      {"retirement_epoch", empty,
       [](World& world) { return nocter_retirement_epoch(world.retirement, world.fill(world.out.epoch)); }, NOCTER_OK},
      {"retirement_wait_epoch", empty,
       [](World& world) {
         return nocter_retirement_wait_epoch(world.retirement, world.epoch, &kPast, world.fill(world.out.epoch));
       },
       NOCTER_TIMEOUT},
      {"retirement_close", busy,
       [](World& world) {
         nocter_retirement_close(world.retirement);
         return as_status(retiring::counts_of(world.retirement).accepting == 0);
       },
       NOCTER_OK},
      {"retirement_drained", empty, [](World& world) { return nocter_retirement_drained(world.retirement, nullptr); },
       NOCTER_OK},
      {"retirement_not_drained", busy, [](World& world) { return nocter_retirement_drained(world.retirement, &kPast); },
       NOCTER_TIMEOUT},
      {"retirement_count", busy,
       [](World& world) {
         world.retirement_counts = NOCTER_RETIREMENT_COUNTS_INIT;
         return nocter_retirement_count(world.retirement, &world.retirement_counts);
       },
       NOCTER_OK},

      {"retirement_serve", queued, serve, NOCTER_OK},
      {"retirement_serve_what_is_over", empty,
       [](World& world) {
         nocter_retirement_close(world.retirement);
         return serve(world);
       },
       NOCTER_CLOSED},
      {"retirement_served_drop", served_one,
       [](World& world) {
         nocter_resource_drop(std::exchange(world.resource, nullptr));
         nocter_retirement_close(world.retirement);
         return nocter_retirement_drained(world.retirement, &kForever);
       },
       NOCTER_OK},
      {"retirement_destroy", empty, give_up, NOCTER_OK},
      {"retirement_destroy_before_its_guards", busy, give_up, NOCTER_OK},
      {"retirement_drop_after_destroy", with_owner,
       [](World& world) {
         const nocter_status given_up = give_up(world);
         nocter_resource_drop(std::exchange(world.resource, nullptr));
         return given_up;
       },
       NOCTER_OK},
  };
}

}  // namespace oom
