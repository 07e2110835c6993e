// Durable tasks, in memory and in a database: every call that makes, moves or looks at something. By hand, so that no thread of the library's asks for memory too.
#include <deque>
#include <filesystem>
#include <string>
#include <utility>

#include "oom/world.hpp"

namespace oom {

using namespace nocter_tests;

namespace {

constexpr const char* kName = "a name of so many bytes that it needs memory of its own";
constexpr const char* kJson = "[\"a value of so many bytes that it needs memory of its own\"]";

nocter_text name() { return nocter_text_of(kName); }
nocter_text json() { return nocter_text_of(kJson); }

nocter_submission submission() {
  nocter_submission made = NOCTER_SUBMISSION_INIT;
  made.type = name();
  made.payload = json();
  return made;
}

// ---- States ---------------------------------------------------------------------------------------------------------

nocter_status open_store(const World& world, nocter_tasks** out) {
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  options.flags = NOCTER_TASKS_BY_HAND | NOCTER_TASKS_EVENTS;
  options.node = nocter_text_of("a node of so many bytes that it needs memory of its own");
  return nocter_tasks_open(nocter_text{world.store.data(), world.store.size()}, &options, out);
}

void a_store(World& world) { STATUS(open_store(world, &world.tasks), NOCTER_OK); }

void a_queued_task(World& world) {
  a_store(world);
  const nocter_submission made = submission();
  STATUS(nocter_tasks_submit(world.tasks, &made, 1, &world.task), NOCTER_OK);
}

nocter_status claim(World& world, nocter_run** out, const nocter_wait* wait = nullptr) {
  const nocter_text types = name();
  return nocter_tasks_claim(world.tasks, &types, 1, 1, wait, out, &world.out.count);
}

void a_run(World& world) {
  a_queued_task(world);
  STATUS(nocter_tasks_notify(world.tasks, world.task, nocter_task_id{}, json()), NOCTER_OK);
  STATUS(claim(world, &world.run), NOCTER_OK);
}

void an_atomic_run(World& world) {
  a_run(world);
  STATUS(nocter_run_atomic(world.run), NOCTER_OK);
}

void a_full_round(World& world) {
  an_atomic_run(world);
  const nocter_submission made = submission();
  STATUS(nocter_run_submit_child(world.run, &made, 1, nullptr), NOCTER_OK);
  STATUS(nocter_run_update_state(world.run, json()), NOCTER_OK);
  STATUS(nocter_run_step_put(world.run, name(), json()), NOCTER_OK);
  STATUS(nocter_run_shared_put(world.run, name(), json()), NOCTER_OK);
}

void a_step(World& world) {
  a_run(world);
  STATUS(nocter_run_step_put(world.run, name(), json()), NOCTER_OK);
}

void a_parent_that_waits(World& world) {
  a_run(world);
  const nocter_submission made = submission();
  STATUS(nocter_run_submit_child(world.run, &made, 1, nullptr), NOCTER_OK);
  nocter_suspension until = NOCTER_SUSPENSION_INIT;
  until.until = NOCTER_UNTIL_CHILDREN;
  STATUS(nocter_run_suspend(std::exchange(world.run, nullptr), &until), NOCTER_OK);
}

void the_last_child(World& world) {
  a_parent_that_waits(world);
  STATUS(claim(world, &world.run), NOCTER_OK);
}

void an_ended_task(World& world) {
  a_run(world);
  nocter_failure failure = NOCTER_FAILURE_INIT;
  failure.kind = name();
  STATUS(nocter_run_fail(std::exchange(world.run, nullptr), &failure), NOCTER_OK);
}

void a_value_shared(World& world) {
  a_store(world);
  STATUS(nocter_shared_put(world.tasks, name(), name(), json()), NOCTER_OK);
}

void a_lock(World& world) {
  a_store(world);
  STATUS(nocter_lock_acquire(world.tasks, name(), 60'000, nullptr, &world.lock), NOCTER_OK);
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

template <size_t count>
nocter_status submit(World& world) {
  nocter_submission made[count];
  for (nocter_submission& one : made) one = submission();
  made[0].key = name();
  made[0].id.bytes[0] = 1;
  return nocter_tasks_submit(world.tasks, made, count, nullptr);
}

template <nocter_status (*call)(nocter_run*)>
nocter_status end(World& world) {
  const nocter_status status = call(world.run);
  if (status == NOCTER_OK) world.run = nullptr;
  return status;
}
nocter_status done(nocter_run* run) { return nocter_run_done(run, json()); }
nocter_status fail(nocter_run* run) {
  nocter_failure failure = NOCTER_FAILURE_INIT;
  failure.kind = name();
  failure.message = failure.detail = json();
  return nocter_run_fail(run, &failure);
}
nocter_status suspend(nocter_run* run) {
  nocter_suspension until = NOCTER_SUSPENSION_INIT;
  until.wake_at_ms = 1;
  return nocter_run_suspend(run, &until);
}

nocter_status drop(World& world) {
  nocter_run_drop(std::exchange(world.run, nullptr));
  return NOCTER_OK;
}
nocter_status close(World& world) {
  nocter_tasks_close(std::exchange(world.tasks, nullptr));
  return NOCTER_OK;
}

nocter_status submit_child(World& world) {
  const nocter_submission made = submission();
  return nocter_run_submit_child(world.run, &made, 1, nullptr);
}

}  // namespace

Scenarios tasks_scenarios() {
  return {
      {"tasks_open", nothing, [](World& world) { return open_store(world, world.fill(world.out.tasks)); }, NOCTER_OK},
      {"tasks_open_what_is_not", nothing,
       [](World& world) { return nocter_tasks_open(name(), nullptr, world.fill(world.out.tasks)); }, NOCTER_E_ARGUMENT},
      {"tasks_close", a_run, close, NOCTER_OK},
      {"clock_create", nothing, [](World& world) { return nocter_clock_create(5, world.fill(world.out.clock)); },
       NOCTER_OK},
      {"tasks_submit", a_store, submit<1>, NOCTER_OK},
      {"tasks_submit_many", a_store, submit<3>, NOCTER_OK},
      {"tasks_get", a_queued_task,
       [](World& world) { return nocter_tasks_get(world.tasks, world.task, world.fill(world.out.record)); }, NOCTER_OK},
      {"tasks_get_unknown", a_store,
       [](World& world) { return nocter_tasks_get(world.tasks, world.task, world.fill(world.out.record)); },
       NOCTER_E_UNKNOWN},
      {"tasks_list", a_parent_that_waits,
       [](World& world) { return nocter_tasks_list(world.tasks, nullptr, world.fill(world.out.records)); }, NOCTER_OK},
      {"tasks_children", a_parent_that_waits,
       [](World& world) { return nocter_tasks_children(world.tasks, world.task, world.fill(world.out.records)); },
       NOCTER_OK},
      {"tasks_notify", a_queued_task,
       [](World& world) { return nocter_tasks_notify(world.tasks, world.task, world.task, json()); }, NOCTER_OK},
      {"tasks_cancel", a_parent_that_waits,
       [](World& world) { return nocter_tasks_cancel(world.tasks, world.task, nullptr); }, NOCTER_OK},
      {"tasks_cancel_what_runs", a_run,
       [](World& world) { return nocter_tasks_cancel(world.tasks, world.task, nullptr); }, NOCTER_OK},
      {"tasks_retry", an_ended_task, [](World& world) { return nocter_tasks_retry(world.tasks, world.task, nullptr); },
       NOCTER_OK},
      {"tasks_maintain", a_run, [](World& world) { return nocter_tasks_maintain(world.tasks); }, NOCTER_OK},
      {"tasks_purge", an_ended_task, [](World& world) { return nocter_tasks_purge(world.tasks, 0, nullptr); },
       NOCTER_OK},
      {"tasks_await", an_ended_task,
       [](World& world) {
         return nocter_tasks_await(world.tasks, world.task, &kForever, world.fill(world.out.record));
       },
       NOCTER_OK},
      {"tasks_await_timeout", a_run,
       [](World& world) { return nocter_tasks_await(world.tasks, world.task, &kPast, world.fill(world.out.record)); },
       NOCTER_TIMEOUT},

      {"tasks_claim", a_queued_task, [](World& world) { return claim(world, world.fill(world.out.run)); }, NOCTER_OK},
      {"tasks_claim_waiting", a_queued_task,
       [](World& world) { return claim(world, world.fill(world.out.run), &kForever); }, NOCTER_OK},
      {"tasks_claim_empty", a_store, [](World& world) { return claim(world, world.fill(world.out.run)); },
       NOCTER_EMPTY},
      {"tasks_claim_timeout", a_store, [](World& world) { return claim(world, world.fill(world.out.run), &kPast); },
       NOCTER_TIMEOUT},
      {"run_notifications", a_run,
       [](World& world) {
         const nocter_notification* messages = nullptr;
         return nocter_run_notifications(world.run, &messages, &world.out.count);
       },
       NOCTER_OK},
      {"run_update_state", a_run, [](World& world) { return nocter_run_update_state(world.run, json()); }, NOCTER_OK},
      {"run_heartbeat", a_run, [](World& world) { return nocter_run_heartbeat(world.run); }, NOCTER_OK},
      {"run_submit_child", a_run, submit_child, NOCTER_OK},
      {"run_submit_child_staged", an_atomic_run, submit_child, NOCTER_OK},
      {"run_children", a_full_round,
       [](World& world) { return nocter_run_children(world.run, world.fill(world.out.records)); }, NOCTER_OK},
      {"run_notify_staged", an_atomic_run,
       [](World& world) { return nocter_run_notify(world.run, world.task, json()); }, NOCTER_OK},
      {"run_step_put", a_run, [](World& world) { return nocter_run_step_put(world.run, name(), json()); }, NOCTER_OK},
      {"run_step_put_again", a_step, [](World& world) { return nocter_run_step_put(world.run, name(), json()); },
       NOCTER_EXISTS},
      {"run_step_get", a_step,
       [](World& world) {
         nocter_text value;
         return nocter_run_step_get(world.run, name(), &value);
       },
       NOCTER_OK},
      {"run_shared_put_staged", an_atomic_run,
       [](World& world) { return nocter_run_shared_put_if_absent(world.run, name(), json(), nullptr); }, NOCTER_OK},
      {"run_shared_get", a_full_round,
       [](World& world) { return nocter_run_shared_get(world.run, name(), world.fill(world.out.shared)); }, NOCTER_OK},
      {"run_done", a_run, end<done>, NOCTER_OK},
      {"run_done_staged", a_full_round, end<done>, NOCTER_OK},
      {"run_done_and_wakes", the_last_child, end<done>, NOCTER_OK},
      {"run_fail", a_run, end<fail>, NOCTER_OK},
      {"run_suspend", a_run, end<suspend>, NOCTER_OK},
      {"run_hand_back", a_full_round, end<nocter_run_hand_back>, NOCTER_OK},
      {"run_drop", a_full_round, drop, NOCTER_OK},

      {"shared_put", a_store, [](World& world) { return nocter_shared_put(world.tasks, name(), name(), json()); },
       NOCTER_OK},
      {"shared_put_if_absent", a_value_shared,
       [](World& world) {
         return nocter_shared_put_if_absent(world.tasks, name(), name(), json(), world.fill(world.out.shared));
       },
       NOCTER_EXISTS},
      {"shared_get", a_value_shared,
       [](World& world) { return nocter_shared_get(world.tasks, name(), name(), world.fill(world.out.shared)); },
       NOCTER_OK},
      {"shared_all", a_value_shared,
       [](World& world) { return nocter_shared_all(world.tasks, name(), world.fill(world.out.values)); }, NOCTER_OK},
      {"shared_clear", a_value_shared, [](World& world) { return nocter_shared_clear(world.tasks, name()); },
       NOCTER_OK},
      {"lock_acquire", a_store,
       [](World& world) {
         return nocter_lock_acquire(world.tasks, name(), 60'000, nullptr, world.fill(world.out.lock));
       },
       NOCTER_OK},
      {"lock_acquire_timeout", a_lock,
       [](World& world) {
         return nocter_lock_acquire(world.tasks, name(), 60'000, &kPast, world.fill(world.out.lock));
       },
       NOCTER_TIMEOUT},
      {"lock_renew", a_lock, [](World& world) { return nocter_lock_renew(world.lock, 60'000); }, NOCTER_OK},
      {"events_read", a_run,
       [](World& world) { return nocter_events_read(world.tasks, 0, 100, nullptr, world.fill(world.out.events)); },
       NOCTER_OK},
  };
}

Scenarios sqlite_scenarios() {
  Scenarios all;
#ifdef NOCTER_SQLITE
  static std::deque<std::string> names;
  for (Scenario scenario : tasks_scenarios()) {
    scenario.name = names.emplace_back(std::string("sqlite_") + scenario.name).c_str();
    scenario.on_disk = true;
    all.push_back(scenario);
  }
  // One that has to be made first, with its schema.
  all.push_back({"sqlite_tasks_open_new",
                 [](World& world) { std::filesystem::remove(world.store.substr(std::string("sqlite:").size())); },
                 [](World& world) { return open_store(world, world.fill(world.out.tasks)); }, NOCTER_OK, 0, true});
#endif
  return all;
}

}  // namespace oom
