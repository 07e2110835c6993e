/* One of everything, alive and dead, for a single generated check; and what must be unchanged after a call that failed. */
#ifndef NOCTER_TESTS_FFI_FIXTURE_H
#define NOCTER_TESTS_FFI_FIXTURE_H

#include <nocter.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "calls.h"

#define PAYLOADS 32
#define HANDLE_TYPES 18

extern const char *const handle_types[HANDLE_TYPES];

/* What there is of one service: an identity in each condition, and its epoch. */
struct identities {
  nocter_job_id completed, stale, foreign; /* of whatever kind: all identities have this layout */
  nocter_epoch epoch, foreign_epoch;
};

/* The part of the retirement service: see fixture_retirement.c. */
struct retirement_part {
  nocter_retirement *service; /* holds one place in each condition */
  nocter_retirement *other;   /* the same number of identities */
  nocter_retirement *grave;   /* empty; the guards that are gone were its */
  nocter_permit *permit;
  nocter_resource *resource;
  nocter_cleanup *cleanup; /* not begun */
  nocter_cleanup *begun;
  nocter_retirement_id queued;
  struct identities ids;
  nocter_retirement_options options;
  nocter_retirement_counts counts;
};

/* The part of the keyed queue: see fixture_keyed.c. */
struct keyed_part {
  nocter_keyed *queue; /* a key waits, one is delayed, two have passes */
  nocter_keyed *other; /* empty */
  nocter_keyed *shut;  /* closed, empty */
  nocter_keyed *grave; /* empty; the pass that is gone was its */
  nocter_pass *pass;
  nocter_pass *second;
  nocter_text keys[1];
  nocter_keyed_source source;
  nocter_keyed_options options;
  nocter_keyed_counts counts;
};

/* The part of durable tasks: see fixture_tasks.c. */
struct tasks_part {
  nocter_tasks *store; /* by hand; a task waits, its child has a run and a message */
  nocter_tasks *other; /* empty */
  nocter_tasks *grave; /* what is gone was its */
  nocter_clock *clock;
  nocter_run *run;
  nocter_lock *lock;
  nocter_value *value;
  nocter_task_id waits;
  nocter_text url, id_text, name, json;
  nocter_text types[1];
  nocter_tasks_options options;
  nocter_submission submission;
  nocter_task_filter filter;
  nocter_tasks_counts counts;
  nocter_failure failure;
  nocter_suspension suspension;
  nocter_task_handler handler;
  nocter_task_list no_tasks;
  nocter_value_list no_values;
  nocter_event_list no_events;
};

struct fixture {
  /* Alive. */
  nocter_blocking *blocking; /* holds one job of each state */
  nocter_blocking *other;    /* the same number of jobs, all queued */
  nocter_blocking *shut;     /* shut down, empty */
  nocter_blocking *served;   /* empty, served by `workers` */
  nocter_blocking *grave;    /* empty; the guards that are gone were its: their memory is a service's */
  nocter_workers *workers;
  nocter_running_job *running;
  nocter_completion *completion;
  nocter_signal *signal;
  nocter_interrupt *interrupt;
  nocter_eventfd *eventfd;
  /* Gone. */
  void *dead[HANDLE_TYPES];

  nocter_job_id queued;
  struct identities ids;
  struct retirement_part retirement;
  struct keyed_part keyed;
  struct tasks_part tasks;

  /* What is passed where a call wants a struct. */
  nocter_owned owned;
  nocter_wait wait; /* its deadline is long past: a poll */
  nocter_blocking_options options;
  nocter_workers_options workers_options;
  nocter_blocking_counts counts;

  int payloads_made;
  atomic_int payload_drops[PAYLOADS];
  int notifiers_made;
  atomic_int notifier_drops;
  atomic_int wakes;
  atomic_int runs;
  atomic_int source_drops;
};

/* Fields that no failed call may change. */
struct picture {
  nocter_blocking_counts counts[4];
  nocter_job_state states[3];
  nocter_retirement_counts retirement_counts[2];
  nocter_retirement_state retirement_state;
  nocter_keyed_counts keyed_counts[3];
  bool pass_interrupted;
  int source_drops;
  nocter_tasks_counts tasks_counts[2];
  size_t tasks_events;
  int64_t clock_ms;
  uint64_t run_fence;
  uint64_t version;
  bool raised;
  bool readable;
  int payload_drops[PAYLOADS];
  int notifier_drops;
  int wakes;
};

void fixture_make(struct fixture *fixture);
/* Gives everything up and says whether each payload and each notifier was dropped exactly once. */
bool fixture_end(struct fixture *fixture);
nocter_owned fixture_payload(struct fixture *fixture);
void fixture_picture(const struct fixture *fixture, struct picture *picture);

/* What a part adds to the above: its dead handles go to dead[0..]. */
void retirement_make(struct fixture *fixture, void **dead);
void retirement_end(struct fixture *fixture);
void retirement_picture(const struct fixture *fixture, struct picture *picture);
void keyed_make(struct fixture *fixture, void **dead);
void keyed_end(struct fixture *fixture);
void keyed_picture(const struct fixture *fixture, struct picture *picture);
nocter_status keyed_run(void *user, nocter_text key, nocter_pass *pass);

void tasks_make(struct fixture *fixture, void **dead);
void tasks_end(struct fixture *fixture);
void tasks_picture(const struct fixture *fixture, struct picture *picture);
void *tasks_struct(struct fixture *fixture, const char *type);
void *tasks_record(struct fixture *fixture);
void tasks_free_list(const char *type, void *list);

/* Those of the service that the function belongs to. */
const struct identities *fixture_identities(const struct fixture *fixture, const struct function *function);
nocter_notifier fixture_notifier(struct fixture *fixture);

/* By the names of the types as the headers spell them; an unknown one ends the program. */
void *fixture_live(const struct fixture *fixture, const char *type);
void *fixture_dead(const struct fixture *fixture, const char *type);
/* What a correct call would pass. `out` is the room for what comes back. */
union value fixture_argument(struct fixture *fixture, const struct function *function, int index, void *out);
/* Ends what a call that succeeded handed out. */
void fixture_give_up(const char *type, void *handle);

#define REQUIRE(condition) ((condition) ? (void)0 : require_failed(__FILE__, __LINE__, #condition))
_Noreturn void require_failed(const char *file, int line, const char *condition);

#endif
