// The service: made, asked, waited for, shut down, given up.
#include <utility>

#include "oom/world.hpp"

namespace oom {

namespace {

nocter_status create(World& world, uint32_t maximum_jobs, uint32_t workers) {
  world.options = NOCTER_BLOCKING_OPTIONS_INIT;
  world.options.maximum_jobs = maximum_jobs;
  world.options.workers = workers;
  world.options.waiters = world.waiters.notifier();
  world.options.work = world.work.notifier();
  return nocter_blocking_create(world.lend(world.options), world.fill(world.out.service));
}

void with_interrupt(World& world) {
  an_empty_service(world);
  an_interrupt(world);
}

void queued_with_interrupt(World& world) {
  a_queued_job(world);
  an_interrupt(world);
}

// Everything at once: a job queued, one running, two completed, one abandoned.
void a_busy_service(World& world) {
  const auto must = [](nocter_status status) { nocter_tests::status_is(status, NOCTER_OK); };
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = 8;
  options.workers = 3;
  must(nocter_blocking_create(&options, &world.service));
  nocter_job_id ids[5];
  for (nocter_job_id& id : ids) {
    nocter_owned input = nocter_tests::payload(5);
    nocter_epoch epoch;
    must(nocter_blocking_submit(world.service, &input, &id, &epoch));
  }
  for (int i = 0; i < 2; i++) {
    nocter_running_job* job = nullptr;
    nocter_completion* completion = nullptr;
    nocter_owned moved = {};
    must(nocter_blocking_claim(world.service, nullptr, &job));
    must(nocter_running_job_begin(job, &moved, &completion));
    must(nocter_completion_complete(completion, &moved));
  }
  must(nocter_blocking_claim(world.service, nullptr, &world.job));
  nocter_running_job* job = nullptr;
  nocter_owned moved = {};
  must(nocter_blocking_claim(world.service, nullptr, &job));
  must(nocter_running_job_begin(job, &moved, &world.completion));
  world.value = moved;
  nocter_job_state was;
  must(nocter_blocking_cancel(world.service, ids[3], &was, nullptr));
  world.id = ids[0];
}

void a_drained_service(World& world) {
  an_empty_service(world);
  nocter_tests::status_is(nocter_blocking_shutdown(world.service, nullptr, nullptr), NOCTER_OK);
}

void keep_value(void* user, nocter_job_state, nocter_owned* value) {
  nocter_owned& kept = *static_cast<nocter_owned*>(user);
  if (kept.data == nullptr) kept = std::exchange(*value, nocter_owned{});
}

nocter_status query(World& world) {
  return nocter_blocking_query(world.service, world.id, world.fill(world.out.state));
}

nocter_status completed(World& world, size_t capacity) {
  return nocter_blocking_completed(world.service, world.out.ids, capacity, world.fill(world.out.count));
}

nocter_status take_many(World& world, size_t capacity) {
  nocter_taken taken[4];
  size_t count = 0;
  const nocter_status status = nocter_blocking_take_many(world.service, nullptr, taken, capacity, &count);
  for (size_t i = 0; i < count; i++) {
    if (taken[i].output.drop != nullptr) taken[i].output.drop(taken[i].output.data);
  }
  return status;
}

nocter_status wait_epoch(World& world, const nocter_wait* wait) {
  return nocter_blocking_wait_epoch(world.service, world.epoch, wait, world.fill(world.out.epoch));
}

nocter_status give_up(World& world) {
  nocter_blocking_destroy(std::exchange(world.service, nullptr));
  return NOCTER_OK;
}

}  // namespace

Scenarios blocking_scenarios() {
  return {
      {"options_init", nothing,
       [](World& world) {
         nocter_blocking_options_init(&world.options, sizeof world.options);
         nocter_workers_options_init(&world.workers_options, sizeof world.workers_options);
         nocter_blocking_counts_init(&world.counts, sizeof world.counts);
         return as_status(world.options.maximum_jobs == 64 && world.counts.size == sizeof world.counts);
       },
       NOCTER_OK},

      {"create_for_one_job", nothing, [](World& world) { return create(world, 1, 1); }, NOCTER_OK},
      {"create_for_64_jobs", nothing, [](World& world) { return create(world, 64, 2); }, NOCTER_OK},
      {"create_for_100000_jobs", nothing, [](World& world) { return create(world, 100'000, 100); }, NOCTER_OK},
      {"create_beside_many", many_services, [](World& world) { return create(world, 3, 2); }, NOCTER_OK, 1},
      {"create_with_too_many_workers", nothing, [](World& world) { return create(world, 1, 2); }, NOCTER_E_ARGUMENT},
      {"create_for_too_many_jobs", nothing,
       [](World& world) { return create(world, NOCTER_BLOCKING_MAXIMUM_JOBS + 1, 1); }, NOCTER_E_ARGUMENT},
      {"create_without_options", nothing,
       [](World& world) { return nocter_blocking_create(nullptr, world.fill(world.out.service)); }, NOCTER_E_ARGUMENT},

      {"query_queued", a_queued_job, query, NOCTER_OK},
      {"query_running", a_claimed_job, query, NOCTER_OK},
      {"query_completed", a_completed_job, query, NOCTER_OK},
      {"query_abandoned", an_abandoned_job, query, NOCTER_E_UNKNOWN},
      {"query_unknown", an_empty_service, query, NOCTER_E_UNKNOWN},
      {"query_foreign", a_foreign_identity, query, NOCTER_E_FOREIGN},

      {"completed_none", a_queued_job, [](World& world) { return completed(world, 4); }, NOCTER_OK},
      {"completed_some", a_busy_service, [](World& world) { return completed(world, 4); }, NOCTER_OK},
      {"completed_more_than_fit", a_busy_service, [](World& world) { return completed(world, 1); }, NOCTER_OK},
      {"take_many_none", a_queued_job, [](World& world) { return take_many(world, 4); }, NOCTER_PENDING},
      {"take_many_some", a_busy_service, [](World& world) { return take_many(world, 4); }, NOCTER_OK},
      {"take_many_without_room", a_busy_service, [](World& world) { return take_many(world, 0); }, NOCTER_E_ARGUMENT},
      {"completed_without_room", a_busy_service, [](World& world) { return completed(world, 0); }, NOCTER_E_ARGUMENT},

      {"epoch", an_empty_service,
       [](World& world) { return nocter_blocking_epoch(world.service, world.fill(world.out.epoch)); }, NOCTER_OK},
      {"wait_epoch_pending", an_empty_service, [](World& world) { return wait_epoch(world, nullptr); }, NOCTER_PENDING},
      {"wait_epoch_timeout", an_empty_service, [](World& world) { return wait_epoch(world, &kPast); }, NOCTER_TIMEOUT},
      {"wait_epoch_interrupted", with_interrupt,
       [](World& world) {
         const nocter_wait wait = interrupted(world);
         return wait_epoch(world, &wait);
       },
       NOCTER_INTERRUPTED},
      {"wait_epoch_foreign", a_foreign_identity, [](World& world) { return wait_epoch(world, &kForever); },
       NOCTER_E_FOREIGN},
      {"wait_epoch_to_come", an_empty_service,
       [](World& world) {
         nocter_epoch later = world.epoch;
         later.sequence += 7;
         return nocter_blocking_wait_epoch(world.service, later, &kForever, world.fill(world.out.epoch));
       },
       NOCTER_E_ARGUMENT},
      {"wait_epoch_closed", a_drained_service, [](World& world) { return wait_epoch(world, &kForever); },
       NOCTER_CLOSED},

      {"count", a_busy_service,
       [](World& world) {
         world.counts = NOCTER_BLOCKING_COUNTS_INIT;
         return nocter_blocking_count(world.service, world.lend(world.counts));
       },
       NOCTER_OK},
      {"count_of_unknown_size", a_busy_service,
       [](World& world) {
         world.counts = {};
         return nocter_blocking_count(world.service, world.lend(world.counts));
       },
       NOCTER_E_ARGUMENT},

      {"shutdown_of_an_empty_service", an_empty_service,
       [](World& world) { return nocter_blocking_shutdown(world.service, nullptr, nullptr); }, NOCTER_OK},
      {"shutdown_of_a_busy_service", a_busy_service,
       [](World& world) { return nocter_blocking_shutdown(world.service, nullptr, nullptr); }, NOCTER_OK},
      {"shutdown_with_a_sink", a_busy_service,
       [](World& world) { return nocter_blocking_shutdown(world.service, keep_value, &world.out.value); }, NOCTER_OK},
      {"shutdown_again", a_service_shut_down,
       [](World& world) { return nocter_blocking_shutdown(world.service, nullptr, nullptr); }, NOCTER_OK},

      {"drained_before_shutdown", an_empty_service,
       [](World& world) { return nocter_blocking_drained(world.service, &kForever); }, NOCTER_E_STATE},
      {"drained", a_drained_service, [](World& world) { return nocter_blocking_drained(world.service, &kForever); },
       NOCTER_OK},
      {"drained_while_a_job_runs", a_begun_job,
       [](World& world) {
         const nocter_status closed = nocter_blocking_shutdown(world.service, nullptr, nullptr);
         return closed == NOCTER_OK ? nocter_blocking_drained(world.service, &kPast) : closed;
       },
       NOCTER_TIMEOUT},

      {"destroy_an_empty_service", an_empty_service, give_up, NOCTER_OK},
      {"destroy_with_queued_jobs", a_full_service, give_up, NOCTER_OK},
      {"destroy_before_its_guards", a_busy_service, give_up, NOCTER_OK},
      {"destroy_nothing", nothing, give_up, NOCTER_OK},

      {"claim_interrupted", with_interrupt,
       [](World& world) {
         const nocter_wait wait = interrupted(world);
         return nocter_blocking_claim(world.service, &wait, world.fill(world.out.job));
       },
       NOCTER_INTERRUPTED},
      {"take_interrupted", queued_with_interrupt,
       [](World& world) {
         const nocter_wait wait = interrupted(world);
         return nocter_blocking_take(world.service, world.id, &wait, world.fill(world.out.value));
       },
       NOCTER_INTERRUPTED},
  };
}

}  // namespace oom
