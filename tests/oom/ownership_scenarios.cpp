// The calls that move an owned value: submit, claim, begin, complete, drop, take, cancel.
#include <utility>

#include "oom/world.hpp"

namespace oom {

namespace {

void a_value_for_an_empty_service(World& world) {
  an_empty_service(world);
  a_value(world);
}

void every_slot_in_use(World& world) {
  a_claimed_job(world);
  nocter_owned input = nocter_tests::payload(6);
  nocter_job_id id;
  nocter_epoch epoch;
  nocter_tests::status_is(nocter_blocking_submit(world.service, &input, &id, &epoch), NOCTER_OK);
}

nocter_status submit(World& world) {
  return nocter_blocking_submit(world.service, world.lend(world.value), world.fill(world.out.id), &world.out.epoch);
}

nocter_status claim(World& world, const nocter_wait* wait) {
  return nocter_blocking_claim(world.service, wait, world.fill(world.out.job));
}

nocter_status begin(World& world) {
  const nocter_status status = nocter_running_job_begin(world.job, &world.out.value, world.fill(world.out.completion));
  if (status == NOCTER_OK) world.job = nullptr;
  return status;
}

nocter_status complete(World& world) {
  const nocter_status status = nocter_completion_complete(world.completion, world.lend(world.value));
  if (status == NOCTER_OK) world.completion = nullptr;
  return status;
}

nocter_status drop_job(World& world) {
  nocter_running_job_drop(std::exchange(world.job, nullptr));
  return NOCTER_OK;
}

nocter_status drop_completion(World& world) {
  nocter_completion_drop(std::exchange(world.completion, nullptr));
  return NOCTER_OK;
}

nocter_status take(World& world, const nocter_wait* wait) {
  return nocter_blocking_take(world.service, world.id, wait, world.fill(world.out.value));
}

nocter_status cancel(World& world) {
  return nocter_blocking_cancel(world.service, world.id, world.fill(world.out.state), &world.out.value);
}

nocter_status cancel_and_drop(World& world) {
  return nocter_blocking_cancel(world.service, world.id, world.fill(world.out.state), nullptr);
}

}  // namespace

Scenarios ownership_scenarios() {
  return {
      {"submit", a_value_for_an_empty_service, submit, NOCTER_OK},
      {"submit_saturated", a_full_service, submit, NOCTER_SATURATED},
      {"submit_closed", a_service_shut_down, submit, NOCTER_CLOSED},
      {"submit_without_input", an_empty_service,
       [](World& world) {
         return nocter_blocking_submit(world.service, nullptr, world.fill(world.out.id), &world.out.epoch);
       },
       NOCTER_E_ARGUMENT},

      {"claim", a_queued_job, [](World& world) { return claim(world, nullptr); }, NOCTER_OK},
      {"claim_empty", an_empty_service, [](World& world) { return claim(world, nullptr); }, NOCTER_EMPTY},
      {"claim_timeout", an_empty_service, [](World& world) { return claim(world, &kPast); }, NOCTER_TIMEOUT},
      {"claim_asleep", an_empty_service,
       [](World& world) {
         const nocter_wait soon = nocter_wait_for_ms(2);
         return claim(world, &soon);
       },
       NOCTER_TIMEOUT},
      {"claim_with_every_slot_in_use", every_slot_in_use, [](World& world) { return claim(world, nullptr); },
       NOCTER_EMPTY},
      {"claim_closed", a_service_shut_down, [](World& world) { return claim(world, &kForever); }, NOCTER_CLOSED},

      {"running_job_id", a_claimed_job,
       [](World& world) { return as_status(nocter_job_id_equal(nocter_running_job_id(world.job), world.id)); },
       NOCTER_OK},
      {"begin", a_claimed_job, begin, NOCTER_OK},
      {"running_job_drop", a_claimed_job, drop_job, NOCTER_OK},
      {"running_job_drop_of_nothing", nothing, drop_job, NOCTER_OK},

      {"completion_questions", a_begun_job,
       [](World& world) {
         nocter_interrupt* const interrupt = nocter_completion_interrupt(world.completion);
         return as_status(nocter_job_id_equal(nocter_completion_id(world.completion), world.id) &&
                          !nocter_completion_abandoned(world.completion) && interrupt != nullptr &&
                          !nocter_interrupt_raised(interrupt));
       },
       NOCTER_OK},
      {"completion_questions_when_abandoned", an_abandoned_job,
       [](World& world) {
         return as_status(nocter_completion_abandoned(world.completion) &&
                          nocter_interrupt_raised(nocter_completion_interrupt(world.completion)));
       },
       NOCTER_OK},
      {"complete", a_begun_job, complete, NOCTER_OK},
      {"complete_abandoned", an_abandoned_job, complete, NOCTER_OK},
      {"complete_without_output", a_begun_job,
       [](World& world) { return nocter_completion_complete(world.completion, nullptr); }, NOCTER_E_ARGUMENT},
      {"completion_drop", a_begun_job, drop_completion, NOCTER_OK},
      {"completion_drop_abandoned", an_abandoned_job, drop_completion, NOCTER_OK},

      {"take", a_completed_job, [](World& world) { return take(world, &kForever); }, NOCTER_OK},
      {"take_lost", a_lost_job, [](World& world) { return take(world, &kForever); }, NOCTER_WORKER_LOST},
      {"take_pending", a_queued_job, [](World& world) { return take(world, nullptr); }, NOCTER_PENDING},
      {"take_timeout", a_begun_job, [](World& world) { return take(world, &kPast); }, NOCTER_TIMEOUT},
      {"take_asleep", a_begun_job,
       [](World& world) {
         const nocter_wait soon = nocter_wait_for_ms(2);
         return take(world, &soon);
       },
       NOCTER_TIMEOUT},
      {"take_cancelled", an_abandoned_job, [](World& world) { return take(world, nullptr); }, NOCTER_E_STATE},
      {"take_unknown", an_empty_service, [](World& world) { return take(world, nullptr); }, NOCTER_E_UNKNOWN},
      {"take_foreign", a_foreign_identity, [](World& world) { return take(world, nullptr); }, NOCTER_E_FOREIGN},

      {"cancel_queued", a_queued_job, cancel, NOCTER_OK},
      {"cancel_running", a_begun_job, cancel, NOCTER_OK},
      {"cancel_completed", a_completed_job, cancel, NOCTER_OK},
      {"cancel_lost", a_lost_job, cancel, NOCTER_OK},
      {"cancel_queued_and_drop", a_queued_job, cancel_and_drop, NOCTER_OK},
      {"cancel_completed_and_drop", a_completed_job, cancel_and_drop, NOCTER_OK},
      {"cancel_again", an_abandoned_job, cancel, NOCTER_E_STATE},
      {"cancel_unknown", an_empty_service, cancel, NOCTER_E_UNKNOWN},
      {"cancel_foreign", a_foreign_identity, cancel, NOCTER_E_FOREIGN},
  };
}

}  // namespace oom
