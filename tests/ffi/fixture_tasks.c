/* What the fixture has of durable tasks. */
#include <string.h>

#include "fixture.h"

static nocter_tasks *open_store(struct fixture *fixture) {
  nocter_tasks *tasks = NULL;
  REQUIRE(nocter_tasks_open(fixture->tasks.url, &fixture->tasks.options, &tasks) == NOCTER_OK);
  return tasks;
}

static nocter_task_id submit(nocter_tasks *tasks, const char *type, nocter_task_id parent) {
  nocter_submission submission = NOCTER_SUBMISSION_INIT;
  submission.type = nocter_text_of(type);
  submission.parent = parent;
  nocter_task_id id;
  REQUIRE(nocter_tasks_submit(tasks, &submission, 1, &id) == NOCTER_OK);
  return id;
}

static nocter_run *claim(nocter_tasks *tasks, const char *type) {
  const nocter_text types = nocter_text_of(type);
  nocter_run *run = NULL;
  size_t count = 0;
  REQUIRE(nocter_tasks_claim(tasks, &types, 1, 1, NULL, &run, &count) == NOCTER_OK && count == 1);
  return run;
}

static nocter_value *value_of(nocter_tasks *tasks) {
  nocter_value *value = NULL;
  REQUIRE(nocter_shared_get(tasks, nocter_text_of("a name"), nocter_text_of("a name"), &value) == NOCTER_OK);
  return value;
}

static void run_task(void *user, nocter_run *run) {
  (void)user;
  if (nocter_run_done(run, nocter_text_of("1")) != NOCTER_OK) nocter_run_drop(run);
}

static void make_arguments(struct tasks_part *part) {
  part->url = nocter_text_of("memory:");
  part->id_text = nocter_text_of("01890a5d-ac96-774b-bcce-b302099a8057");
  part->name = nocter_text_of("a name");
  part->json = nocter_text_of("[1]");
  part->types[0] = nocter_text_of("that waits");
  nocter_tasks_options_init(&part->options, sizeof part->options);
  part->options.flags = NOCTER_TASKS_BY_HAND | NOCTER_TASKS_EVENTS;
  nocter_submission_init(&part->submission, sizeof part->submission);
  part->submission.type = nocter_text_of("that is made");
  nocter_task_filter_init(&part->filter, sizeof part->filter);
  nocter_tasks_counts_init(&part->counts, sizeof part->counts);
  nocter_failure_init(&part->failure, sizeof part->failure);
  part->failure.kind = nocter_text_of("Test");
  nocter_suspension_init(&part->suspension, sizeof part->suspension);
  part->handler = (nocter_task_handler){sizeof part->handler, 0, nocter_text_of("served"), run_task, NULL};
}

void tasks_make(struct fixture *fixture, void **dead) {
  static const nocter_task_id none = {{0}};
  struct tasks_part *part = &fixture->tasks;
  make_arguments(part);

  nocter_clock *clock = NULL;
  nocter_lock *lock = NULL;
  REQUIRE(nocter_clock_create(1, &clock) == NOCTER_OK);
  nocter_tasks *closed = open_store(fixture);
  part->grave = open_store(fixture);
  (void)submit(part->grave, "gone", none);
  nocter_run *run = claim(part->grave, "gone");
  REQUIRE(nocter_run_done(run, part->json) == NOCTER_OK);
  REQUIRE(nocter_lock_acquire(part->grave, part->name, 1000, NULL, &lock) == NOCTER_OK);
  REQUIRE(nocter_lock_release(lock) == NOCTER_OK);
  REQUIRE(nocter_shared_put(part->grave, part->name, part->name, part->json) == NOCTER_OK);
  nocter_value *value = value_of(part->grave);
  nocter_value_free(value);
  nocter_clock_destroy(clock);
  nocter_tasks_close(closed);
  void *const gone[5] = {closed, clock, run, lock, value};
  memcpy(dead, gone, sizeof gone);

  REQUIRE(nocter_clock_create(1000, &part->clock) == NOCTER_OK);
  part->store = open_store(fixture);
  part->other = open_store(fixture);
  part->waits = submit(part->store, "that waits", none);
  const nocter_task_id child = submit(part->store, "of a run", part->waits);
  REQUIRE(nocter_tasks_notify(part->store, child, none, part->json) == NOCTER_OK);
  part->run = claim(part->store, "of a run");
  REQUIRE(nocter_run_shared_put(part->run, part->name, part->json) == NOCTER_OK);
  REQUIRE(nocter_shared_put(part->store, part->name, part->name, part->json) == NOCTER_OK);
  REQUIRE(nocter_lock_acquire(part->store, nocter_text_of("that is held"), 3600000, NULL, &part->lock) == NOCTER_OK);
  part->value = value_of(part->store);
}

/* Some of these were ended by the call that was tried: doing it again does nothing (FFI-04). */
void tasks_end(struct fixture *fixture) {
  struct tasks_part *part = &fixture->tasks;
  nocter_run_drop(part->run);
  (void)!nocter_lock_release(part->lock);
  nocter_value_free(part->value);
  nocter_tasks_close(part->store);
  nocter_tasks_close(part->other);
  nocter_tasks_close(part->grave);
  nocter_clock_destroy(part->clock);
}

void tasks_picture(const struct fixture *fixture, struct picture *picture) {
  nocter_tasks *const stores[2] = {fixture->tasks.store, fixture->tasks.other};
  for (int i = 0; i < 2; i++) {
    nocter_tasks_counts *counts = &picture->tasks_counts[i];
    nocter_tasks_counts_init(counts, sizeof *counts);
    REQUIRE(nocter_tasks_count(stores[i], counts) == NOCTER_OK);
  }
  nocter_event_list events;
  REQUIRE(nocter_events_read(fixture->tasks.store, 0, 100, NULL, &events) == NOCTER_OK);
  picture->tasks_events = events.count;
  nocter_event_list_free(&events);
  picture->clock_ms = nocter_clock_now_ms(fixture->tasks.clock);
  picture->run_fence = nocter_run_fence(fixture->tasks.run);
}

void *tasks_struct(struct fixture *fixture, const char *type) {
  struct tasks_part *part = &fixture->tasks;
  if (strcmp(type, "nocter_tasks_options") == 0) return &part->options;
  if (strcmp(type, "nocter_submission") == 0) return &part->submission;
  if (strcmp(type, "nocter_task_filter") == 0) return &part->filter;
  if (strcmp(type, "nocter_tasks_counts") == 0) return &part->counts;
  if (strcmp(type, "nocter_failure") == 0) return &part->failure;
  if (strcmp(type, "nocter_suspension") == 0) return &part->suspension;
  if (strcmp(type, "nocter_task_handler") == 0) return &part->handler;
  return NULL;
}

/* For nocter_task_free(), which is always given it: NULL is no mistake there. */
void *tasks_record(struct fixture *fixture) {
  const nocter_task *task = NULL;
  REQUIRE(nocter_tasks_get(fixture->tasks.store, fixture->tasks.waits, &task) == NOCTER_OK);
  return (void *)(uintptr_t)task;
}

void tasks_free_list(const char *type, void *list) {
  if (strcmp(type, "nocter_task_list") == 0) nocter_task_list_free(list);
  if (strcmp(type, "nocter_value_list") == 0) nocter_value_list_free(list);
  if (strcmp(type, "nocter_event_list") == 0) nocter_event_list_free(list);
}
