// The library's own threads: started, asked to end, given up.
#include <utility>

#include "oom/world.hpp"

namespace oom {

namespace {

nocter_status count_start(void* user) {
  static_cast<World*>(user)->started.fetch_add(1);
  return NOCTER_OK;
}
void count_stop(void* user) { static_cast<World*>(user)->stopped.fetch_add(1); }

nocter_status serve(World& world) {
  return nocter_blocking_serve(world.service, pass_on, nullptr, nullptr, world.fill(world.out.workers));
}

nocter_status serve_with_options(World& world) {
  world.workers_options = NOCTER_WORKERS_OPTIONS_INIT;
  world.workers_options.threads = 3;
  world.workers_options.stack_size = 256 * 1024;
  world.workers_options.name = "a name that is too long for the kernel";
  world.workers_options.start = count_start;
  world.workers_options.stop = count_stop;
  world.workers_options.user = &world;
  return nocter_blocking_serve(world.service, pass_on, nullptr, world.lend(world.workers_options),
                               world.fill(world.out.workers));
}

void a_value_for_a_served_service(World& world) {
  served(world);
  a_value(world);
}

}  // namespace

Scenarios worker_scenarios() {
  return {
      {"serve", an_empty_service, serve, NOCTER_OK},
      {"serve_when_full", a_full_service, serve, NOCTER_OK},
      {"serve_with_options", an_empty_service, serve_with_options, NOCTER_OK},
      // One more thread each time, of which the C library keeps something where no sanitizer has taken its place.
      {"serve_beside_many", many_workers, serve, NOCTER_OK, 2},
      // The C library keeps no stacks of this size, so each thread asks for memory again.
      {"serve_with_large_stacks", an_empty_service,
       [](World& world) {
         world.workers_options = NOCTER_WORKERS_OPTIONS_INIT;
         world.workers_options.threads = 2;
         world.workers_options.stack_size = 64 << 20;
         return nocter_blocking_serve(world.service, pass_on, nullptr, world.lend(world.workers_options),
                                      world.fill(world.out.workers));
       },
       NOCTER_OK},
      {"serve_a_served_service", served,
       [](World& world) {
         nocter_workers* more = nullptr;
         const nocter_status status = nocter_blocking_serve(world.service, pass_on, nullptr, nullptr, &more);
         nocter_workers_destroy(more);
         return status;
       },
       NOCTER_OK},
      {"serve_closed", a_service_shut_down, serve, NOCTER_CLOSED},
      {"serve_nothing", an_empty_service,
       [](World& world) {
         return nocter_blocking_serve(world.service, nullptr, nullptr, nullptr, world.fill(world.out.workers));
       },
       NOCTER_E_ARGUMENT},

      {"submit_and_take_served", a_value_for_a_served_service,
       [](World& world) {
         nocter_job_id id;
         nocter_epoch epoch;
         const nocter_status status = nocter_blocking_submit(world.service, world.lend(world.value), &id, &epoch);
         return status == NOCTER_OK ? nocter_blocking_take(world.service, id, &kForever, world.fill(world.out.value))
                                    : status;
       },
       NOCTER_OK},
      {"workers_stop", served, [](World& world) { return nocter_workers_stop(world.workers, &kForever); }, NOCTER_OK},
      {"workers_stop_again", served,
       [](World& world) {
         const nocter_status status = nocter_workers_stop(world.workers, &kForever);
         return status == NOCTER_OK ? nocter_workers_stop(world.workers, nullptr) : status;
       },
       NOCTER_OK},
      {"workers_destroy", served,
       [](World& world) -> nocter_status {
         nocter_workers_destroy(std::exchange(world.workers, nullptr));
         return NOCTER_OK;
       },
       NOCTER_OK},
      {"destroy_a_served_service", served,
       [](World& world) -> nocter_status {
         nocter_blocking_destroy(std::exchange(world.service, nullptr));
         nocter_workers_destroy(std::exchange(world.workers, nullptr));
         return NOCTER_OK;
       },
       NOCTER_OK},
  };
}

}  // namespace oom
