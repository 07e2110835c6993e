#include "fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const handle_types[HANDLE_TYPES] = {
    "nocter_blocking",  "nocter_workers", "nocter_running_job", "nocter_completion", "nocter_signal",
    "nocter_interrupt", "nocter_eventfd", "nocter_retirement",  "nocter_permit",     "nocter_resource",
    "nocter_cleanup",   "nocter_keyed",   "nocter_pass",        "nocter_tasks",      "nocter_clock",
    "nocter_run",       "nocter_lock",    "nocter_value"};
enum { OF_RETIREMENT = 7, OF_KEYED = 11, OF_TASKS = 13 }; /* where their types begin */

_Noreturn void require_failed(const char *file, int line, const char *condition) {
  fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", file, line, condition, nocter_error_message());
  abort();
}

static void unknown(const char *what, const char *name) {
  fprintf(stderr, "the generated calls do not know the %s %s: teach fixture.c\n", what, name);
  abort();
}

static void drop_payload(void *data) { atomic_fetch_add((atomic_int *)data, 1); }

nocter_owned fixture_payload(struct fixture *fixture) {
  REQUIRE(fixture->payloads_made < PAYLOADS);
  nocter_owned owned = {&fixture->payload_drops[fixture->payloads_made++], drop_payload};
  return owned;
}

static void wake(void *user) { atomic_fetch_add(&((struct fixture *)user)->wakes, 1); }
static void drop_notifier(void *user) { atomic_fetch_add(&((struct fixture *)user)->notifier_drops, 1); }

nocter_notifier fixture_notifier(struct fixture *fixture) {
  fixture->notifiers_made++;
  return (nocter_notifier){wake, drop_notifier, fixture};
}

static nocter_blocking *make_service(struct fixture *fixture) {
  nocter_blocking_options options = fixture->options;
  options.waiters = fixture_notifier(fixture);
  options.work = fixture_notifier(fixture);
  nocter_blocking *service = NULL;
  REQUIRE(nocter_blocking_create(&options, &service) == NOCTER_OK);
  return service;
}

static nocter_job_id submit(struct fixture *fixture, nocter_blocking *service) {
  nocter_owned input = fixture_payload(fixture);
  nocter_job_id id;
  nocter_epoch epoch;
  REQUIRE(nocter_blocking_submit(service, &input, &id, &epoch) == NOCTER_OK);
  return id;
}

static nocter_completion *claim_and_begin(nocter_blocking *service) {
  nocter_running_job *job = NULL;
  REQUIRE(nocter_blocking_claim(service, NULL, &job) == NOCTER_OK);
  nocter_owned input;
  nocter_completion *completion = NULL;
  REQUIRE(nocter_running_job_begin(job, &input, &completion) == NOCTER_OK);
  input.drop(input.data);
  return completion;
}

static nocter_job_id complete_one(struct fixture *fixture, nocter_blocking *service) {
  const nocter_job_id id = submit(fixture, service);
  nocter_owned output = fixture_payload(fixture);
  REQUIRE(nocter_completion_complete(claim_and_begin(service), &output) == NOCTER_OK);
  return id;
}

static void run_served(void *user, nocter_owned *input, nocter_owned *output, nocter_completion *completion) {
  (void)input, (void)output, (void)completion;
  atomic_fetch_add(&((struct fixture *)user)->runs, 1);
}

static void sink(void *user, nocter_job_state was, nocter_owned *value) { (void)user, (void)was, (void)value; }

static void make_jobs(struct fixture *fixture) {
  nocter_owned output;
  fixture->ids.stale = complete_one(fixture, fixture->blocking);
  REQUIRE(nocter_blocking_take(fixture->blocking, fixture->ids.stale, NULL, &output) == NOCTER_OK);
  output.drop(output.data);
  fixture->ids.completed = complete_one(fixture, fixture->blocking);
  (void)submit(fixture, fixture->blocking);
  REQUIRE(nocter_blocking_claim(fixture->blocking, NULL, &fixture->running) == NOCTER_OK);
  (void)submit(fixture, fixture->blocking);
  fixture->completion = claim_and_begin(fixture->blocking);
  fixture->queued = submit(fixture, fixture->blocking);

  /* The second job of each service, so that the sequence numbers may well coincide. */
  (void)submit(fixture, fixture->other);
  fixture->ids.foreign = submit(fixture, fixture->other);
  REQUIRE(nocter_blocking_epoch(fixture->blocking, &fixture->ids.epoch) == NOCTER_OK);
  REQUIRE(nocter_blocking_epoch(fixture->other, &fixture->ids.foreign_epoch) == NOCTER_OK);
}

static void make_dead(struct fixture *fixture) {
  nocter_blocking *service = make_service(fixture);
  fixture->grave = make_service(fixture);
  nocter_running_job *job = NULL;
  nocter_workers *workers = NULL;
  nocter_signal *signal = NULL;
  nocter_interrupt *interrupt = NULL;
  nocter_eventfd *eventfd = NULL;
  REQUIRE(nocter_blocking_serve(service, run_served, fixture, &fixture->workers_options, &workers) == NOCTER_OK);
  nocter_workers_destroy(workers);
  (void)submit(fixture, fixture->grave);
  nocter_completion *completion = claim_and_begin(fixture->grave);
  (void)submit(fixture, fixture->grave);
  REQUIRE(nocter_blocking_claim(fixture->grave, NULL, &job) == NOCTER_OK);
  REQUIRE(nocter_signal_create(&signal) == NOCTER_OK);
  REQUIRE(nocter_interrupt_create(&interrupt) == NOCTER_OK);
  REQUIRE(nocter_eventfd_create(&eventfd) == NOCTER_OK);
  nocter_completion_drop(completion);
  nocter_running_job_drop(job);
  nocter_blocking_destroy(service);
  nocter_signal_destroy(signal);
  nocter_interrupt_destroy(interrupt);
  nocter_eventfd_destroy(eventfd);
  void *const dead[OF_RETIREMENT] = {service, workers, job, completion, signal, interrupt, eventfd};
  memcpy(fixture->dead, dead, sizeof dead);
}

void fixture_make(struct fixture *fixture) {
  memset(fixture, 0, sizeof *fixture);
  fixture->wait.deadline_ns = 1;
  nocter_blocking_options_init(&fixture->options, sizeof fixture->options);
  fixture->options.maximum_jobs = 8;
  fixture->options.workers = 4;
  nocter_workers_options_init(&fixture->workers_options, sizeof fixture->workers_options);
  fixture->workers_options.threads = 1;
  nocter_blocking_counts_init(&fixture->counts, sizeof fixture->counts);
  make_dead(fixture);

  fixture->blocking = make_service(fixture);
  fixture->other = make_service(fixture);
  fixture->shut = make_service(fixture);
  fixture->served = make_service(fixture);
  REQUIRE(nocter_blocking_shutdown(fixture->shut, NULL, NULL) == NOCTER_OK);
  REQUIRE(nocter_blocking_serve(fixture->served, run_served, fixture, &fixture->workers_options, &fixture->workers) ==
          NOCTER_OK);
  make_jobs(fixture);
  retirement_make(fixture, &fixture->dead[OF_RETIREMENT]);
  keyed_make(fixture, &fixture->dead[OF_KEYED]);
  tasks_make(fixture, &fixture->dead[OF_TASKS]);
  REQUIRE(nocter_signal_create(&fixture->signal) == NOCTER_OK);
  REQUIRE(nocter_interrupt_create(&fixture->interrupt) == NOCTER_OK);
  REQUIRE(nocter_eventfd_create(&fixture->eventfd) == NOCTER_OK);
  fixture->owned = fixture_payload(fixture);
}

bool fixture_end(struct fixture *fixture) {
  /* Some of these were ended by the call that was tried: doing it again does nothing (FFI-04). */
  nocter_running_job_drop(fixture->running);
  nocter_completion_drop(fixture->completion);
  nocter_workers_destroy(fixture->workers);
  nocter_blocking_destroy(fixture->blocking);
  nocter_blocking_destroy(fixture->other);
  nocter_blocking_destroy(fixture->shut);
  nocter_blocking_destroy(fixture->served);
  nocter_blocking_destroy(fixture->grave);
  retirement_end(fixture);
  keyed_end(fixture);
  tasks_end(fixture);
  nocter_signal_destroy(fixture->signal);
  nocter_interrupt_destroy(fixture->interrupt);
  nocter_eventfd_destroy(fixture->eventfd);
  if (fixture->owned.drop != NULL) fixture->owned.drop(fixture->owned.data);
  bool fine = true;
  for (int i = 0; i < fixture->payloads_made; i++) {
    const int drops = atomic_load(&fixture->payload_drops[i]);
    if (drops != 1) fprintf(stderr, "payload %d was dropped %d times\n", i, drops);
    fine = fine && drops == 1;
  }
  const int notifier_drops = atomic_load(&fixture->notifier_drops);
  if (notifier_drops != fixture->notifiers_made) {
    fprintf(stderr, "%d notifiers were dropped of %d\n", notifier_drops, fixture->notifiers_made);
    fine = false;
  }
  return fine;
}

void fixture_picture(const struct fixture *fixture, struct picture *picture) {
  memset(picture, 0, sizeof *picture);
  const nocter_blocking *const services[4] = {fixture->blocking, fixture->other, fixture->shut, fixture->served};
  for (int i = 0; i < 4; i++) {
    nocter_blocking_counts_init(&picture->counts[i], sizeof picture->counts[i]);
    REQUIRE(nocter_blocking_count(services[i], &picture->counts[i]) == NOCTER_OK);
    picture->counts[i].oldest_queued_ns = 0;
    picture->counts[i].longest_running_ns = 0;
  }
  const nocter_job_id ids[3] = {fixture->queued, nocter_running_job_id(fixture->running),
                                nocter_completion_id(fixture->completion)};
  for (int i = 0; i < 3; i++) {
    REQUIRE(nocter_blocking_query(fixture->blocking, ids[i], &picture->states[i]) == NOCTER_OK);
  }
  retirement_picture(fixture, picture);
  keyed_picture(fixture, picture);
  tasks_picture(fixture, picture);
  picture->version = nocter_signal_version(fixture->signal);
  picture->raised = nocter_interrupt_raised(fixture->interrupt);
  struct pollfd poll_for = {nocter_eventfd_fd(fixture->eventfd), POLLIN, 0};
  REQUIRE(poll_for.fd >= 0);
  picture->readable = poll(&poll_for, 1, 0) == 1;
  for (int i = 0; i < PAYLOADS; i++) picture->payload_drops[i] = atomic_load(&fixture->payload_drops[i]);
  picture->notifier_drops = atomic_load(&fixture->notifier_drops);
  picture->wakes = atomic_load(&fixture->wakes);
}

void *fixture_live(const struct fixture *fixture, const char *type) {
  const struct retirement_part *retirement = &fixture->retirement;
  void *const live[HANDLE_TYPES] = {
      fixture->blocking,   fixture->workers,     fixture->running,    fixture->completion,  fixture->signal,
      fixture->interrupt,  fixture->eventfd,     retirement->service, retirement->permit,   retirement->resource,
      retirement->cleanup, fixture->keyed.queue, fixture->keyed.pass, fixture->tasks.store, fixture->tasks.clock,
      fixture->tasks.run,  fixture->tasks.lock,  fixture->tasks.value};
  for (int i = 0; i < HANDLE_TYPES; i++) {
    if (strcmp(type, handle_types[i]) == 0) return live[i];
  }
  unknown("handle", type);
  return NULL;
}

void *fixture_dead(const struct fixture *fixture, const char *type) {
  for (int i = 0; i < HANDLE_TYPES; i++) {
    if (strcmp(type, handle_types[i]) == 0) return fixture->dead[i];
  }
  unknown("handle", type);
  return NULL;
}

static void *sized_struct(struct fixture *fixture, const char *type) {
  if (strcmp(type, "nocter_blocking_options") == 0) return &fixture->options;
  if (strcmp(type, "nocter_workers_options") == 0) return &fixture->workers_options;
  if (strcmp(type, "nocter_blocking_counts") == 0) return &fixture->counts;
  if (strcmp(type, "nocter_retirement_options") == 0) return &fixture->retirement.options;
  if (strcmp(type, "nocter_retirement_counts") == 0) return &fixture->retirement.counts;
  if (strcmp(type, "nocter_keyed_options") == 0) return &fixture->keyed.options;
  if (strcmp(type, "nocter_keyed_counts") == 0) return &fixture->keyed.counts;
  void *const of_tasks = tasks_struct(fixture, type);
  if (of_tasks != NULL) return of_tasks;
  unknown("struct", type);
  return NULL;
}

static uint64_t number(const struct fixture *fixture, const struct function *function, const char *name) {
  if (strcmp(name, "capacity") == 0) return 1;
  if (strcmp(name, "seen") == 0) return nocter_signal_version(fixture->signal);
  if (strcmp(name, "size") == 0) return function->parameters[0].size;
  if (strcmp(name, "ms") == 0 || strcmp(name, "status") == 0 || strcmp(name, "code") == 0) return 1;
  if (strcmp(name, "delay_ns") == 0 || strcmp(name, "interval_ns") == 0) return 1000000000;
  if (strcmp(name, "slice") == 0 || strcmp(name, "count") == 0 || strcmp(name, "mode") == 0) return 1;
  if (strcmp(name, "type_count") == 0 || strcmp(name, "max") == 0 || strcmp(name, "concurrency") == 0) return 1;
  if (strcmp(name, "lease_ms") == 0 || strcmp(name, "now_ms") == 0 || strcmp(name, "by_ms") == 0) return 3600000;
  if (strcmp(name, "older_than_ms") == 0) return 3600000;
  if (strcmp(name, "after") == 0) return 0;
  unknown("number", name);
  return 0;
}

const struct identities *fixture_identities(const struct fixture *fixture, const struct function *function) {
  const bool retirement = strncmp(function->name, "nocter_retirement_", strlen("nocter_retirement_")) == 0;
  return retirement ? &fixture->retirement.ids : &fixture->ids;
}

union value fixture_argument(struct fixture *fixture, const struct function *function, int index, void *out) {
  const struct parameter *parameter = &function->parameters[index];
  union value value = {NULL};
  switch (parameter->kind) {
    case IS_HANDLE:
      value.pointer = fixture_live(fixture, parameter->type);
      if (strcmp(function->name, "nocter_blocking_drained") == 0) value.pointer = fixture->shut;
      if (strcmp(function->name, "nocter_blocking_serve") == 0) value.pointer = fixture->other;
      if (strcmp(function->name, "nocter_retirement_serve") == 0) value.pointer = fixture->retirement.other;
      if (strcmp(function->name, "nocter_cleanup_complete") == 0) value.pointer = fixture->retirement.begun;
      if (strcmp(function->name, "nocter_keyed_drained") == 0) value.pointer = fixture->keyed.shut;
      if (strcmp(function->name, "nocter_keyed_serve") == 0) value.pointer = fixture->keyed.other;
      if (strcmp(function->name, "nocter_tasks_serve") == 0) value.pointer = fixture->tasks.other;
      break;
    case IS_WAIT:
      value.pointer = &fixture->wait;
      break;
    case IS_SIZED_STRUCT:
    case IS_STRUCT_TO_FILL:
      value.pointer = sized_struct(fixture, parameter->type);
      break;
    case IS_OWNED:
      value.pointer = &fixture->owned;
      break;
    case IS_OUT:
    case IS_OUT_HANDLE:
      value.pointer = out;
      break;
    case IS_ID:
      value.id = fixture_identities(fixture, function)->completed;
      break;
    case IS_EPOCH:
      value.epoch = fixture_identities(fixture, function)->epoch;
      break;
    case IS_KEY:
      value.text = fixture->keyed.keys[0];
      break;
    case IS_KEYS:
      value.pointer = fixture->keyed.keys;
      break;
    case IS_TASK_ID:
      value.task_id = fixture->tasks.waits;
      break;
    case IS_NAME:
      value.text = fixture->tasks.name;
      break;
    case IS_NAMES:
      value.pointer = fixture->tasks.types;
      break;
    case IS_JSON:
      value.text = fixture->tasks.json;
      break;
    case IS_TEXT:
      value.text = strcmp(parameter->name, "url") == 0 ? fixture->tasks.url : fixture->tasks.id_text;
      break;
    case IS_RECORD:
      value.pointer = tasks_record(fixture);
      break;
    case IS_LIST:
      value.pointer = strcmp(parameter->type, "nocter_task_list") == 0    ? (void *)&fixture->tasks.no_tasks
                      : strcmp(parameter->type, "nocter_value_list") == 0 ? (void *)&fixture->tasks.no_values
                                                                          : (void *)&fixture->tasks.no_events;
      break;
    case IS_SOURCE:
      value.pointer = &fixture->keyed.source;
      break;
    case IS_NUMBER:
      value.number = number(fixture, function, parameter->name);
      break;
    case IS_FUNCTION:
      if (strcmp(parameter->type, "nocter_blocking_fn") == 0) {
        value.function = (void (*)(void))run_served;
      } else if (strcmp(parameter->type, "nocter_blocking_sink") == 0) {
        value.function = (void (*)(void))sink;
      } else if (strcmp(parameter->type, "nocter_keyed_fn") == 0) {
        value.function = (void (*)(void))keyed_run;
      } else {
        unknown("callback", parameter->type);
      }
      break;
    case IS_USER:
      value.pointer = fixture;
      break;
    case IS_STRING:
      value.pointer = (void *)(uintptr_t) "text";
      break;
  }
  return value;
}

void fixture_give_up(const char *type, void *handle) {
  if (strcmp(type, "nocter_blocking") == 0) {
    nocter_blocking_destroy(handle);
  } else if (strcmp(type, "nocter_workers") == 0) {
    nocter_workers_destroy(handle);
  } else if (strcmp(type, "nocter_running_job") == 0) {
    nocter_running_job_drop(handle);
  } else if (strcmp(type, "nocter_completion") == 0) {
    nocter_completion_drop(handle);
  } else if (strcmp(type, "nocter_signal") == 0) {
    nocter_signal_destroy(handle);
  } else if (strcmp(type, "nocter_interrupt") == 0) {
    nocter_interrupt_destroy(handle);
  } else if (strcmp(type, "nocter_eventfd") == 0) {
    nocter_eventfd_destroy(handle);
  } else if (strcmp(type, "nocter_retirement") == 0) {
    nocter_retirement_destroy(handle);
  } else if (strcmp(type, "nocter_permit") == 0) {
    nocter_permit_drop(handle);
  } else if (strcmp(type, "nocter_resource") == 0) {
    nocter_resource_drop(handle);
  } else if (strcmp(type, "nocter_cleanup") == 0) {
    nocter_cleanup_drop(handle);
  } else if (strcmp(type, "nocter_keyed") == 0) {
    nocter_keyed_destroy(handle);
  } else if (strcmp(type, "nocter_pass") == 0) {
    nocter_pass_drop(handle);
  } else if (strcmp(type, "nocter_tasks") == 0) {
    nocter_tasks_close(handle);
  } else if (strcmp(type, "nocter_clock") == 0) {
    nocter_clock_destroy(handle);
  } else if (strcmp(type, "nocter_run") == 0) {
    nocter_run_drop(handle);
  } else if (strcmp(type, "nocter_lock") == 0) {
    (void)!nocter_lock_release(handle);
  } else if (strcmp(type, "nocter_value") == 0) {
    nocter_value_free(handle);
  } else if (strcmp(type, "nocter_task") == 0) {
    nocter_task_free(handle);
  } else if (strcmp(type, "nocter_notification") == 0) {
    return; /* the run's */
  } else {
    unknown("handle", type);
  }
}
