// Durable tasks left in every way: forks, threads that end inside callbacks, small stacks, exits, dead runs.
#include <pthread.h>

#include <csignal>
#include <cstring>
#include <string>

#include "objects.hpp"

void call_everything_of_tasks();  // for limits_cases.cpp

namespace {

nocter_text text(const char* of) { return nocter_text_of(of); }

nocter_tasks* store(uint32_t flags = 0) {
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  options.flags = flags;
  nocter_tasks* out = nullptr;
  CHECK_STATUS(nocter_tasks_open(text("memory:"), &options, &out), NOCTER_OK);
  return out;
}

nocter_task_id submit(nocter_tasks* to, const char* type) {
  nocter_submission made = NOCTER_SUBMISSION_INIT;
  made.type = text(type);
  nocter_task_id id;
  CHECK_STATUS(nocter_tasks_submit(to, &made, 1, &id), NOCTER_OK);
  return id;
}

nocter_run* claim(nocter_tasks* from, const char* type) {
  const nocter_text types = text(type);
  nocter_run* run = nullptr;
  size_t count = 0;
  CHECK_STATUS(nocter_tasks_claim(from, &types, 1, 1, nullptr, &run, &count), NOCTER_OK);
  return run;
}

nocter_task_status status_of(nocter_tasks* tasks, nocter_task_id id) {
  const nocter_task* task = nullptr;
  CHECK_STATUS(nocter_tasks_get(tasks, id, &task), NOCTER_OK);
  const nocter_task_status status = task->status;
  nocter_task_free(task);
  return status;
}

nocter_workers* serve(nocter_tasks* of, const char* type, nocter_task_fn run, uint32_t threads,
                      const nocter_workers_options* options = nullptr) {
  const nocter_task_handler handler = {sizeof handler, 0, text(type), run, nullptr};
  nocter_workers* workers = nullptr;
  CHECK_STATUS(nocter_tasks_serve(of, &handler, 1, threads, options, &workers), NOCTER_OK);
  return workers;
}

void done(void*, nocter_run* run) { CHECK_STATUS(nocter_run_done(run, text("1")), NOCTER_OK); }

void one_task(nocter_tasks* tasks) {
  const nocter_task_id id = submit(tasks, "one");
  done(nullptr, claim(tasks, "one"));
  CHECK(status_of(tasks, id) == NOCTER_TASK_COMPLETED);
}

struct All {
  nocter_tasks* tasks = store();
  nocter_clock* clock = nullptr;
  nocter_lock* lock = nullptr;
  nocter_task_id id = submit(tasks, "a");
  nocter_run* run = claim(tasks, "a");
  nocter_workers* workers = serve(tasks, "b", done, 2);
  All() {
    CHECK_STATUS(nocter_clock_create(5, &clock), NOCTER_OK);
    CHECK_STATUS(nocter_lock_acquire(tasks, text("l"), 60'000, nullptr, &lock), NOCTER_OK);
  }
  void give_up() const {
    nocter_run_drop(run);
    (void)!nocter_lock_release(lock);
    nocter_workers_destroy(workers);
    nocter_tasks_close(tasks);
    nocter_clock_destroy(clock);
  }
};

int all_say_forked(const All& of) {
  const nocter_wait forever = within(-1);
  const nocter_task* task;
  nocter_run* run;
  nocter_lock* lock;
  nocter_value* value;
  nocter_task_list list;
  nocter_event_list events;
  nocter_text bytes;
  size_t count;
  const nocter_notification* messages;
  nocter_submission made = NOCTER_SUBMISSION_INIT;
  made.type = text("a");
  CHECK_STATUS(nocter_tasks_submit(of.tasks, &made, 1, nullptr), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_tasks_get(of.tasks, of.id, &task), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_tasks_list(of.tasks, nullptr, &list), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_tasks_await(of.tasks, of.id, &forever, &task), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_tasks_cancel(of.tasks, of.id, nullptr), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_tasks_maintain(of.tasks), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_tasks_claim(of.tasks, nullptr, 0, 1, &forever, &run, &count), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_shared_get(of.tasks, text("s"), text("k"), &value), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_lock_acquire(of.tasks, text("l"), 1, &forever, &lock), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_events_read(of.tasks, 0, 1, &forever, &events), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_run_update_state(of.run, text("1")), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_run_step_get(of.run, text("s"), &bytes), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_run_notifications(of.run, &messages, &count), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_run_heartbeat(of.run), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_run_atomic(of.run), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_run_done(of.run, text("1")), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_run_hand_back(of.run), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_lock_renew(of.lock, 1), NOCTER_E_FORKED);
  CHECK_STATUS(nocter_lock_release(of.lock), NOCTER_E_FORKED);
  CHECK(nocter_run_task(of.run) == nullptr && nocter_run_fence(of.run) == 0 && nocter_lock_fence(of.lock) == 0);
  CHECK(nocter_run_interrupt(of.run) == nullptr && nocter_clock_now_ms(of.clock) == 0);
  return 0;
}

int exited;

}  // namespace

void call_everything_of_tasks() {
  nocter_tasks* const tasks = store(NOCTER_TASKS_BY_HAND | NOCTER_TASKS_EVENTS);
  nocter_submission made = NOCTER_SUBMISSION_INIT;
  made.type = text("a");
  made.payload = text("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
  nocter_task_id id;
  CHECK_STATUS(nocter_tasks_submit(tasks, &made, 1, &id), NOCTER_OK);
  nocter_run* const run = claim(tasks, "a");
  CHECK(nocter_run_task(run) != nullptr);
  CHECK_STATUS(nocter_run_atomic(run), NOCTER_OK);
  CHECK_STATUS(nocter_run_submit_child(run, &made, 1, nullptr), NOCTER_OK);
  CHECK_STATUS(nocter_run_update_state(run, text("1")), NOCTER_OK);
  CHECK_STATUS(nocter_run_step_put(run, text("s"), text("1")), NOCTER_OK);
  CHECK_STATUS(nocter_run_shared_put(run, text("s"), text("1")), NOCTER_OK);
  nocter_task_list list;
  CHECK_STATUS(nocter_run_children(run, &list), NOCTER_OK);
  nocter_task_list_free(&list);
  nocter_suspension until = NOCTER_SUSPENSION_INIT;
  until.until = NOCTER_UNTIL_CHILDREN;
  CHECK_STATUS(nocter_run_suspend(run, &until), NOCTER_OK);
  CHECK_STATUS(nocter_tasks_notify(tasks, id, id, text("1")), NOCTER_OK);
  CHECK_STATUS(nocter_tasks_list(tasks, nullptr, &list), NOCTER_OK);
  nocter_task_list_free(&list);
  const nocter_wait soon = within(1);
  const nocter_task* task;
  CHECK_STATUS(nocter_tasks_await(tasks, id, &soon, &task), NOCTER_TIMEOUT);
  CHECK_STATUS(nocter_tasks_cancel(tasks, id, nullptr), NOCTER_OK);
  CHECK_STATUS(nocter_tasks_maintain(tasks), NOCTER_OK);
  CHECK_STATUS(nocter_tasks_purge(tasks, 0, nullptr), NOCTER_OK);
  nocter_lock* lock;
  CHECK_STATUS(nocter_lock_acquire(tasks, text("l"), 1'000, nullptr, &lock), NOCTER_OK);
  CHECK_STATUS(nocter_lock_release(lock), NOCTER_OK);
  nocter_event_list events;
  CHECK_STATUS(nocter_events_read(tasks, 0, 100, nullptr, &events), NOCTER_OK);
  nocter_event_list_free(&events);
  nocter_tasks_close(tasks);
}

CASE(ffi_11_every_call_on_a_store_of_the_parent_says_forked, "FFI-11") {
  const All all;
  CHECK(in_child([&] {
          CHECK(all_say_forked(all) == 0);
          all.give_up();
          all.give_up();
          CHECK(all_say_forked(all) == 0);
          nocter_tasks* const mine = store();
          one_task(mine);
          nocter_tasks_close(mine);
          return 0;
        }) == 0);
  CHECK_STATUS(nocter_run_heartbeat(all.run), NOCTER_OK);
  one_task(all.tasks);
  all.give_up();
}

CASE(ffi_07_thread_exit_in_a_task, "FFI-07") {
  nocter_tasks* const tasks = store();
  nocter_workers* const workers = serve(
      tasks, "a",
      [](void*, nocter_run* run) {
        if (nocter_run_task(run)->payload.size == 1) pthread_exit(&exited);
        done(nullptr, run);
      },
      2);
  const int threads = thread_count();
  nocter_submission leaves = NOCTER_SUBMISSION_INIT;
  leaves.type = text("a");
  leaves.payload = text("1");
  nocter_task_id id;
  CHECK_STATUS(nocter_tasks_submit(tasks, &leaves, 1, &id), NOCTER_OK);
  const nocter_wait wait = within(5'000);
  const nocter_task* task;
  CHECK_STATUS(nocter_tasks_await(tasks, id, &wait, &task), NOCTER_OK);
  CHECK(task->status == NOCTER_TASK_FAILED);
  nocter_task_free(task);
  eventually([&] { return thread_count() == threads - 1; });
  CHECK_STATUS(nocter_tasks_await(tasks, submit(tasks, "a"), &wait, &task), NOCTER_OK);
  CHECK(task->status == NOCTER_TASK_COMPLETED);
  nocter_task_free(task);
  CHECK_STATUS(nocter_workers_stop(workers, &wait), NOCTER_OK);
  nocter_workers_destroy(workers);
  nocter_tasks_close(tasks);
}

CASE(ffi_04_a_run_is_ended_once, "FFI-04") {
  nocter_tasks* const tasks = store();
  submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  nocter_interrupt* const interrupt = nocter_run_interrupt(run);
  nocter_interrupt_raise(interrupt);  // it is the run's: nobody else raises it
  CHECK(!nocter_interrupt_raised(interrupt));
  nocter_interrupt_destroy(interrupt);
  CHECK_STATUS(nocter_run_done(run, text("1")), NOCTER_OK);
  CHECK_STATUS(nocter_run_done(run, text("1")), NOCTER_E_ARGUMENT);
  CHECK(nocter_run_task(run) == nullptr && !nocter_interrupt_raised(interrupt));
  nocter_run_drop(run);
  nocter_tasks_close(tasks);
  nocter_tasks_close(tasks);
}

CASE_ENDING(ffi_04_check_run_used_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_run_done", "nocter_run"}, .check = true}) {
  nocter_tasks* const tasks = store();
  submit(tasks, "a");
  nocter_run* const run = claim(tasks, "a");
  CHECK_STATUS(nocter_run_done(run, text("1")), NOCTER_OK);
  (void)!nocter_run_done(run, text("1"));
}

CASE(ffi_18_tasks_on_the_smallest_stack, "FFI-18") {
  nocter_tasks* const tasks = store();
  nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
  options.stack_size = 65536;
  nocter_workers* const workers = serve(tasks, "a", done, 4, &options);
  const nocter_wait wait = within(5'000);
  for (int i = 0; i < 100; i++) {
    const nocter_task* task;
    CHECK_STATUS(nocter_tasks_await(tasks, submit(tasks, "a"), &wait, &task), NOCTER_OK);
    nocter_task_free(task);
  }
  nocter_workers_destroy(workers);
  nocter_tasks_close(tasks);
}

CASE_ENDING(ffi_17_exit_with_tasks_that_run, "FFI-17", {.leaves_within_ms = kLeave}) {
  nocter_tasks* const tasks = store();
  serve(
      tasks, "a",
      [](void*, nocter_run* run) {
        nocter_wait wait = within(-1);
        wait.interrupt = nocter_run_interrupt(run);
        nocter_signal* never = nullptr;
        uint64_t version;
        (void)!nocter_signal_create(&never);
        (void)!nocter_signal_wait(never, 1, &wait, &version);
      },
      2);
  for (int i = 0; i < 5; i++) submit(tasks, "a");
  usleep(20'000);
  leaving();
  std::exit(0);
}
