/* How the structs of durable tasks are made and used, for the checks of structs.c. */
#include <stddef.h>
#include <string.h>

#include "fixture.h"
#include "structs.h"

static nocter_tasks *store;

static void run_nothing(void *user, nocter_run *run) { (void)user, nocter_run_drop(run); }

void tasks_structs_begin(void) {
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  options.flags = NOCTER_TASKS_BY_HAND;
  REQUIRE(nocter_tasks_open(nocter_text_of("memory:"), &options, &store) == NOCTER_OK);
}
void tasks_structs_end(void) { nocter_tasks_close(store); }

static nocter_run *a_run(void) {
  nocter_submission submission = NOCTER_SUBMISSION_INIT;
  submission.type = nocter_text_of("run");
  const nocter_text types = submission.type;
  nocter_run *run = NULL;
  size_t count = 0;
  REQUIRE(nocter_tasks_submit(store, &submission, 1, NULL) == NOCTER_OK);
  REQUIRE(nocter_tasks_claim(store, &types, 1, 1, NULL, &run, &count) == NOCTER_OK);
  return run;
}

nocter_status try_tasks_options(void *options) {
  nocter_tasks *out = store;
  const nocter_status status = nocter_tasks_open(nocter_text_of("memory:"), options, &out);
  if ((status == NOCTER_OK) != (out != NULL) || out == store) return NOCTER_E_INTERNAL;
  nocter_tasks_close(out);
  return status;
}
nocter_status try_submission(void *submission) { return nocter_tasks_submit(store, submission, 1, NULL); }
nocter_status try_task_filter(void *filter) {
  nocter_task_list list;
  const nocter_status status = nocter_tasks_list(store, filter, &list);
  nocter_task_list_free(&list);
  return status;
}
nocter_status try_tasks_counts(void *counts) { return nocter_tasks_count(store, counts); }
nocter_status try_failure(void *failure) {
  nocter_run *run = a_run();
  const nocter_status status = nocter_run_fail(run, failure);
  if (status != NOCTER_OK) nocter_run_drop(run);
  return status;
}
nocter_status try_suspension(void *suspension) {
  nocter_run *run = a_run();
  const nocter_status status = nocter_run_suspend(run, suspension);
  if (status != NOCTER_OK) nocter_run_drop(run);
  return status;
}
nocter_status try_task_handler(void *handler) {
  nocter_workers *out = NULL;
  const nocter_status status = nocter_tasks_serve(store, handler, 1, 1, NULL, &out);
  if ((status == NOCTER_OK) != (out != NULL)) return NOCTER_E_INTERNAL;
  nocter_workers_destroy(out);
  return status;
}

/* What has no default is filled in, as far as there is room for it. */
static void set_text(void *at, size_t size, size_t offset, const char *text) {
  const nocter_text value = nocter_text_of(text);
  if (at != NULL && size >= offset + sizeof value) memcpy((char *)at + offset, &value, sizeof value);
}
void init_tasks_options(void *at, size_t size) { nocter_tasks_options_init(at, size); }
void init_submission(void *at, size_t size) {
  nocter_submission_init(at, size);
  set_text(at, size, offsetof(nocter_submission, type), "made");
}
void init_task_filter(void *at, size_t size) { nocter_task_filter_init(at, size); }
void init_tasks_counts(void *at, size_t size) { nocter_tasks_counts_init(at, size); }
void init_failure(void *at, size_t size) {
  nocter_failure_init(at, size);
  set_text(at, size, offsetof(nocter_failure, kind), "Test");
}
void init_suspension(void *at, size_t size) { nocter_suspension_init(at, size); }
/* It has no function of its own: nothing of it could be left out. */
void init_task_handler(void *at, size_t size) {
  nocter_task_handler handler = {(uint32_t)size, 0, nocter_text_of("served"), run_nothing, NULL};
  if (at == NULL || size < sizeof handler.size) return;
  memset(at, 0, size);
  memcpy(at, &handler, size < sizeof handler ? size : sizeof handler);
}
