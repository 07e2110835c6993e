#include "oom/world.hpp"

#include <filesystem>
#include <iterator>
#include <utility>

#include "support/keyed.hpp"
#include "support/retirement.hpp"
#include "support/service.hpp"
#include "support/thread.hpp"

namespace oom {

using namespace nocter_tests;

namespace {

size_t descriptor_count() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(descriptors), end(descriptors)));
}

// The counts without what passes with time.
template <class Counts>
Counts still(Counts counts) {
  counts.oldest_queued_ns = counts.longest_running_ns = 0;
  return counts;
}

nocter_keyed_counts still(nocter_keyed_counts counts) {
  counts.oldest_waiting_ns = counts.longest_active_ns = 0;
  return counts;
}

nocter_tasks_counts counts_of_tasks(nocter_tasks* tasks) {
  nocter_tasks_counts counts = NOCTER_TASKS_COUNTS_INIT;
  STATUS(nocter_tasks_count(tasks, &counts), NOCTER_OK);
  return counts;
}

template <class Handle, class Create>
void make_many(std::vector<Handle*>& handles, Create create) {
  static size_t many = 200;
  handles.resize(many++);
  for (Handle*& handle : handles) STATUS(create(&handle), NOCTER_OK);
}

void make_service(World& world, const Shape& shape) {
  const nocter_blocking_options options = options_of(shape);
  STATUS(nocter_blocking_create(&options, &world.service), NOCTER_OK);
}

}  // namespace

void World::get_ready() {
  lent_bytes_.reserve(sizeof(nocter_blocking_options) + sizeof(nocter_keyed_counts));
  filled_ = lent_ = {};
  std::memset(static_cast<void*>(&out), 0, sizeof out);
  if (service != nullptr) before_ = counts_of(service);
  if (retirement != nullptr) retirement_before_ = retiring::counts_of(retirement);
  if (queue != nullptr) keyed_before_ = counts_of(queue);
  if (tasks != nullptr) tasks_before_ = counts_of_tasks(tasks);
  threads_before_ = thread_count();
  descriptors_before_ = descriptor_count();
  drops_before_ = waiters.drops.load() + work.drops.load();
}

void World::check_nothing_changed() const {
  HOLDS(nocter_error_message()[0] != '\0');
  for (size_t i = 0; i < filled_.size; i++) {
    if (!holds(filled_.data[i] == 0, "FFI-03: the out-parameter is zero after a failure")) break;
  }
  HOLDS(lent_.size == lent_bytes_.size());
  HOLDS(lent_.size == 0 || std::memcmp(lent_.data, lent_bytes_.data(), lent_.size) == 0);
  if (service != nullptr) {
    const nocter_blocking_counts now = still(counts_of(service)), before = still(before_);
    HOLDS(std::memcmp(&now, &before, sizeof now) == 0);
  }
  if (retirement != nullptr) {
    const nocter_retirement_counts now = still(retiring::counts_of(retirement)), before = still(retirement_before_);
    HOLDS(std::memcmp(&now, &before, sizeof now) == 0);
  }
  if (queue != nullptr) {
    const nocter_keyed_counts now = still(counts_of(queue)), before = still(keyed_before_);
    HOLDS(std::memcmp(&now, &before, sizeof now) == 0);
  }
  if (tasks != nullptr) {
    const nocter_tasks_counts now = counts_of_tasks(tasks);
    HOLDS(std::memcmp(&now, &tasks_before_, sizeof now) == 0);
  }
  HOLDS(drops_before_ == waiters.drops.load() + work.drops.load());
  HOLDS(eventually([this] { return thread_count() <= threads_before_; }, 5'000));
  // A database may have been opened once more, for a reader; it is closed with the rest.
  HOLDS(descriptor_count() == descriptors_before_ || store != "memory:");
}

// What the last call produced becomes the world's.
void World::adopt() {
  const auto take_over = [](auto& kept, auto& given) {
    if (given != nullptr) kept = std::exchange(given, nullptr);
  };
  take_over(service, out.service);
  take_over(signal, out.signal);
  take_over(interrupt, out.interrupt);
  take_over(eventfd, out.eventfd);
  take_over(workers, out.workers);
  take_over(job, out.job);
  take_over(completion, out.completion);
  take_over(retirement, out.retirement);
  take_over(permit, out.permit);
  take_over(cleanup, out.cleanup);
  take_over(queue, out.queue);
  take_over(pass, out.pass);
  take_over(tasks, out.tasks);
  take_over(clock, out.clock);
  take_over(run, out.run);
  if (lock != nullptr) STATUS(nocter_lock_release(std::exchange(lock, nullptr)), NOCTER_OK);
  take_over(lock, out.lock);
  nocter_value_free(std::exchange(out.shared, nullptr));
  nocter_task_free(std::exchange(out.record, nullptr));
  nocter_task_list_free(&out.records);
  nocter_value_list_free(&out.values);
  nocter_event_list_free(&out.events);
  discard(out.value);
}

void World::end() {
  adopt();
  discard(value);
  if (notifier.drop != nullptr) notifier.drop(notifier.user);
  nocter_running_job_drop(job);
  nocter_completion_drop(completion);
  if (service != nullptr) {
    counts_of(service);
    STATUS(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_OK);
    const nocter_wait wait = long_wait();
    STATUS(nocter_blocking_drained(service, &wait), NOCTER_OK);
    HOLDS(counts_of(service).admitted == 0);
  }
  nocter_permit_drop(permit);
  nocter_resource_drop(resource);
  nocter_cleanup_drop(cleanup);
  if (retirement != nullptr) {
    retiring::counts_of(retirement);
    nocter_retirement_close(retirement);
    nocter_retirement_detach_all(retirement);
  }
  nocter_retirement_destroy(retirement);
  nocter_pass_drop(pass);
  if (queue != nullptr) {
    nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
    const nocter_wait wait = long_wait();
    STATUS(nocter_keyed_drained(queue, &wait), NOCTER_OK);
    HOLDS(counts_of(queue).retained == 0);
  }
  nocter_keyed_destroy(queue);
  nocter_run_drop(run);
  STATUS(nocter_lock_release(lock), NOCTER_OK);
  nocter_tasks_close(tasks);
  nocter_clock_destroy(clock);
  nocter_workers_destroy(workers);
  HOLDS(sources_given.load() == sources_dropped.load());
  HOLDS(started.load() == stopped.load());
  nocter_blocking_destroy(service);
  nocter_blocking_destroy(other);
  nocter_signal_destroy(signal);
  nocter_interrupt_destroy(interrupt);
  nocter_eventfd_destroy(eventfd);
  for (nocter_workers* one : many_workers) nocter_workers_destroy(one);
  for (nocter_blocking* one : many_services) nocter_blocking_destroy(one);
  for (nocter_retirement* one : many_retirements) nocter_retirement_destroy(one);
  for (nocter_keyed* one : many_queues) nocter_keyed_destroy(one);
  for (nocter_signal* one : many_signals) nocter_signal_destroy(one);
  for (nocter_interrupt* one : many_interrupts) nocter_interrupt_destroy(one);
  for (nocter_eventfd* one : many_eventfds) nocter_eventfd_destroy(one);
  HOLDS(waiters.drops.load() <= 1 && work.drops.load() <= 1);
}

nocter_wait interrupted(const World& world) { return {NOCTER_FOREVER, world.interrupt, 0, 0}; }

void pass_on(void*, nocter_owned* input, nocter_owned* output, nocter_completion*) {
  *output = *input;
  *input = {};
}

void nothing(World&) {}

void an_empty_service(World& world) {
  make_service(world, {2, 1, world.waiters.notifier(), world.work.notifier()});
  world.epoch = epoch_of(world.service);
}

void a_queued_job(World& world) {
  an_empty_service(world);
  world.id = accept(world.service, 1);
}

void a_full_service(World& world) {
  a_queued_job(world);
  accept(world.service, 2);
  a_value(world);
}

void a_claimed_job(World& world) {
  a_queued_job(world);
  world.job = claim(world.service);
}

void a_begun_job(World& world) {
  a_claimed_job(world);
  world.completion = begin(std::exchange(world.job, nullptr)).completion;
  a_value(world);
}

void an_abandoned_job(World& world) {
  a_begun_job(world);
  STATUS(cancel(world.service, world.id).status, NOCTER_OK);
}

void a_completed_job(World& world) {
  a_begun_job(world);
  STATUS(nocter_completion_complete(std::exchange(world.completion, nullptr), &world.value), NOCTER_OK);
}

void a_lost_job(World& world) {
  a_claimed_job(world);
  nocter_running_job_drop(std::exchange(world.job, nullptr));
}

void a_service_shut_down(World& world) {
  a_queued_job(world);
  STATUS(nocter_blocking_shutdown(world.service, nullptr, nullptr), NOCTER_OK);
  a_value(world);
}

void a_foreign_identity(World& world) {
  an_empty_service(world);
  const nocter_blocking_options options = options_of(Shape{});
  STATUS(nocter_blocking_create(&options, &world.other), NOCTER_OK);
  world.id = accept(world.other, 3);
  world.epoch = epoch_of(world.other);
}

void a_value(World& world) { world.value = payload(4); }

void a_signal(World& world) {
  STATUS(nocter_signal_create(&world.signal), NOCTER_OK);
  world.version = nocter_signal_version(world.signal);
}

void an_eventfd(World& world) { STATUS(nocter_eventfd_create(&world.eventfd), NOCTER_OK); }

void an_interrupt(World& world) {
  STATUS(nocter_interrupt_create(&world.interrupt), NOCTER_OK);
  nocter_interrupt_raise(world.interrupt);
}

void served(World& world) {
  an_empty_service(world);
  STATUS(nocter_blocking_serve(world.service, pass_on, nullptr, nullptr, &world.workers), NOCTER_OK);
}

void many_signals(World& world) { make_many(world.many_signals, nocter_signal_create); }
void many_interrupts(World& world) { make_many(world.many_interrupts, nocter_interrupt_create); }
void many_eventfds(World& world) { make_many(world.many_eventfds, nocter_eventfd_create); }

void many_services(World& world) {
  make_many(world.many_services, [](nocter_blocking** out) {
    const nocter_blocking_options options = options_of(Shape{1, 1, {}, {}});
    return nocter_blocking_create(&options, out);
  });
}

void many_workers(World& world) {
  an_empty_service(world);
  make_many(world.many_workers, [&world](nocter_workers** out) {
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    options.stack_size = 65536;
    return nocter_blocking_serve(world.service, pass_on, nullptr, &options, out);
  });
}

}  // namespace oom
