// Names, text, waits, interrupts, eventfds, signals.
#include <utility>

#include "oom/world.hpp"

namespace oom {

namespace {

void a_raised_signal(World& world) {
  a_signal(world);
  if (nocter_signal_publish(world.signal, nullptr) != NOCTER_OK) nocter_tests::holds(false, "publish");
}

void a_closed_signal(World& world) {
  a_signal(world);
  nocter_signal_close(world.signal);
}

void a_signal_and_an_interrupt(World& world) {
  a_signal(world);
  an_interrupt(world);
}

void a_signal_notifier(World& world) {
  a_signal(world);
  world.notifier = nocter_signal_notifier(world.signal);
}

void an_eventfd_notifier(World& world) {
  an_eventfd(world);
  world.notifier = nocter_eventfd_notifier(world.eventfd);
}

void a_readable_eventfd(World& world) {
  an_eventfd_notifier(world);
  world.notifier.wake(world.notifier.user);
}

nocter_status wait_with(World& world, const nocter_wait* wait) {
  return nocter_signal_wait(world.signal, world.version, wait, world.fill(world.out.version));
}

bool drop_notifier(World& world) {
  const nocter_notifier gone = std::exchange(world.notifier, nocter_notifier{});
  if (gone.drop == nullptr) return false;
  gone.drop(gone.user);
  return true;
}

}  // namespace

Scenarios base_scenarios() {
  return {
      {"status_name", nothing,
       [](World&) { return as_status(std::strcmp(nocter_status_name(NOCTER_E_MEMORY), "NOCTER_E_MEMORY") == 0); },
       NOCTER_OK},
      {"error_message_without_an_error", nothing, [](World&) { return as_status(nocter_error_message()[0] == '\0'); },
       NOCTER_OK},
      {"error_message_after_an_error", nothing,
       [](World&) {
         const nocter_status refused = nocter_signal_create(nullptr);
         return as_status(refused == NOCTER_E_ARGUMENT && nocter_error_message()[0] != '\0');
       },
       NOCTER_OK},
      {"version", nothing,
       [](World&) {
         return as_status(nocter_version_number() == NOCTER_VERSION_NUMBER && nocter_version()[0] != '\0');
       },
       NOCTER_OK},
      {"text_of", nothing, [](World&) { return as_status(nocter_text_of("four").size == 4); }, NOCTER_OK},
      {"equal", nothing,
       [](World& world) {
         return as_status(nocter_epoch_equal(world.epoch, world.epoch) && nocter_job_id_equal(world.id, world.id));
       },
       NOCTER_OK},
      {"clock", nothing, [](World&) { return as_status(nocter_wait_for_ms(1000).deadline_ns > nocter_now_ns()); },
       NOCTER_OK},

      {"interrupt_create", nothing,
       [](World& world) { return nocter_interrupt_create(world.fill(world.out.interrupt)); }, NOCTER_OK},
      {"interrupt_create_beside_many", many_interrupts,
       [](World& world) { return nocter_interrupt_create(world.fill(world.out.interrupt)); }, NOCTER_OK, 1},
      {"interrupt_create_without_out", nothing, [](World&) { return nocter_interrupt_create(nullptr); },
       NOCTER_E_ARGUMENT},
      {"interrupt_clear_and_raise", an_interrupt,
       [](World& world) {
         nocter_interrupt_clear(world.interrupt);
         const bool was_clear = !nocter_interrupt_raised(world.interrupt);
         nocter_interrupt_raise(world.interrupt);
         return as_status(was_clear && nocter_interrupt_raised(world.interrupt));
       },
       NOCTER_OK},
      {"interrupt_destroy", an_interrupt,
       [](World& world) {
         nocter_interrupt_destroy(std::exchange(world.interrupt, nullptr));
         return as_status(true);
       },
       NOCTER_OK},

      {"eventfd_create", nothing, [](World& world) { return nocter_eventfd_create(world.fill(world.out.eventfd)); },
       NOCTER_OK},
      {"eventfd_create_beside_many", many_eventfds,
       [](World& world) { return nocter_eventfd_create(world.fill(world.out.eventfd)); }, NOCTER_OK, 1},
      {"eventfd_create_without_out", nothing, [](World&) { return nocter_eventfd_create(nullptr); }, NOCTER_E_ARGUMENT},
      {"eventfd_fd", an_eventfd, [](World& world) { return as_status(nocter_eventfd_fd(world.eventfd) >= 0); },
       NOCTER_OK},
      {"eventfd_clear", a_readable_eventfd,
       [](World& world) {
         nocter_eventfd_clear(world.eventfd);
         return as_status(true);
       },
       NOCTER_OK},
      {"eventfd_notifier", an_eventfd,
       [](World& world) {
         world.notifier = nocter_eventfd_notifier(world.eventfd);
         return as_status(world.notifier.wake != nullptr && drop_notifier(world));
       },
       NOCTER_OK},
      {"eventfd_wake", an_eventfd_notifier,
       [](World& world) {
         world.notifier.wake(world.notifier.user);
         return as_status(true);
       },
       NOCTER_OK},
      {"eventfd_destroy", an_eventfd,
       [](World& world) {
         nocter_eventfd_destroy(std::exchange(world.eventfd, nullptr));
         return as_status(true);
       },
       NOCTER_OK},
      {"eventfd_destroy_before_its_notifier", an_eventfd_notifier,
       [](World& world) {
         nocter_eventfd_destroy(std::exchange(world.eventfd, nullptr));
         world.notifier.wake(world.notifier.user);
         return as_status(drop_notifier(world));
       },
       NOCTER_OK},

      {"signal_create", nothing, [](World& world) { return nocter_signal_create(world.fill(world.out.signal)); },
       NOCTER_OK},
      {"signal_create_beside_many", many_signals,
       [](World& world) { return nocter_signal_create(world.fill(world.out.signal)); }, NOCTER_OK, 1},
      {"signal_create_without_out", nothing, [](World&) { return nocter_signal_create(nullptr); }, NOCTER_E_ARGUMENT},
      {"signal_version", a_signal,
       [](World& world) { return as_status(nocter_signal_version(world.signal) == world.version); }, NOCTER_OK},
      {"signal_publish", a_signal,
       [](World& world) { return nocter_signal_publish(world.signal, world.fill(world.out.version)); }, NOCTER_OK},
      {"signal_publish_closed", a_closed_signal,
       [](World& world) { return nocter_signal_publish(world.signal, world.fill(world.out.version)); }, NOCTER_CLOSED},
      {"signal_wait_changed", a_raised_signal, [](World& world) { return wait_with(world, &kForever); }, NOCTER_OK},
      {"signal_wait_pending", a_signal, [](World& world) { return wait_with(world, nullptr); }, NOCTER_PENDING},
      {"signal_wait_timeout", a_signal, [](World& world) { return wait_with(world, &kPast); }, NOCTER_TIMEOUT},
      {"signal_wait_asleep", a_signal,
       [](World& world) {
         const nocter_wait soon = nocter_wait_for_ms(2);
         return wait_with(world, &soon);
       },
       NOCTER_TIMEOUT},
      {"signal_wait_interrupted", a_signal_and_an_interrupt,
       [](World& world) {
         const nocter_wait wait = interrupted(world);
         return wait_with(world, &wait);
       },
       NOCTER_INTERRUPTED},
      {"signal_wait_closed", a_closed_signal, [](World& world) { return wait_with(world, &kForever); }, NOCTER_CLOSED},
      {"signal_wait_for_a_version_to_come", a_signal,
       [](World& world) {
         return nocter_signal_wait(world.signal, world.version + 1, &kForever, world.fill(world.out.version));
       },
       NOCTER_E_ARGUMENT},
      {"signal_close", a_signal,
       [](World& world) {
         nocter_signal_close(world.signal);
         return as_status(true);
       },
       NOCTER_OK},
      {"signal_notifier", a_signal,
       [](World& world) {
         world.notifier = nocter_signal_notifier(world.signal);
         return as_status(world.notifier.wake != nullptr && drop_notifier(world));
       },
       NOCTER_OK},
      {"signal_wake", a_signal_notifier,
       [](World& world) {
         world.notifier.wake(world.notifier.user);
         return as_status(nocter_signal_version(world.signal) != 0);
       },
       NOCTER_OK},
      {"signal_destroy", a_signal,
       [](World& world) {
         nocter_signal_destroy(std::exchange(world.signal, nullptr));
         return as_status(true);
       },
       NOCTER_OK},
      {"signal_destroy_before_its_notifier", a_signal_notifier,
       [](World& world) {
         nocter_signal_destroy(std::exchange(world.signal, nullptr));
         world.notifier.wake(world.notifier.user);
         return as_status(drop_notifier(world));
       },
       NOCTER_OK},
  };
}

}  // namespace oom
