/**
 * @file nocter/runs.h
 * @brief Durable tasks, from a worker's side: claim a task, run one round of it, say what came of it.
 *
 * A task is delivered at least once: a round whose worker died is made again. What a run writes is refused with
 * NOCTER_E_LEASE_LOST once somebody else has claimed or rescued its task, so no late worker changes anything.
 */
#ifndef NOCTER_RUNS_H
#define NOCTER_RUNS_H

#include <nocter/task_store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A guard: one round of a task, the one right to work on it and the duty to end it with an outcome. */
typedef struct nocter_run nocter_run;

/* ---- Claiming ------------------------------------------------------------------------------------------ */

/**
 * @brief Claims tasks that are due, by priority, then by age.
 * @param tasks the store.
 * @param types which types; NULL with type_count 0: every type.
 * @param type_count how many, up to 1,000.
 * @param max how many tasks at most, 1 to 1,000.
 * @param wait how long to wait for the first; NULL: do not wait.
 * @param[out] out room for max runs, each to be ended with an outcome or nocter_run_drop(); NULLs on failure.
 * @param[out] out_count how many were claimed.
 * @return NOCTER_OK with at least one; NOCTER_EMPTY: none is due and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED;
 *         NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_claim(nocter_tasks *tasks, const nocter_text *types,
                                                             size_t type_count, uint32_t max, const nocter_wait *wait,
                                                             nocter_run **out, size_t *out_count);

/* ---- What a run was given ------------------------------------------------------------------------------ */

/**
 * @brief The record as it was claimed.
 * @param run the run.
 * @return the record, which ends with the run; NULL for NULL or a stale guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API const nocter_task *nocter_run_task(const nocter_run *run);

/**
 * @brief Whether the task has suspended before: false exactly in its first round, on every try of that.
 * @param run the run; NULL says false.
 * @return true on a continuation.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API bool nocter_run_resumed(const nocter_run *run);

/**
 * @brief Why this round was started.
 * @param run the run; NULL: 0.
 * @return a nocter_wake.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API nocter_wake nocter_run_woken_by(const nocter_run *run);

/**
 * @brief The messages handed to this round, oldest first. They are gone when it suspends or is done, and come again when it fails or dies.
 * @param run the run.
 * @param[out] out the messages, which end with the run; NULL on failure.
 * @param[out] out_count how many.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_notifications(const nocter_run *run,
                                                                   const nocter_notification **out, size_t *out_count);

/**
 * @brief A number that grows with every claim of the task: hand it to whatever the run changes outside, so that it can refuse older ones.
 * @param run the run; NULL: 0.
 * @return the fence.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API uint64_t nocter_run_fence(const nocter_run *run);

/**
 * @brief Whether the task was cancelled meanwhile. Asks nobody: what this process has heard.
 * @param run the run; NULL says false.
 * @return true when it was.
 * @par Threads any thread while the run lives.
 * @since 0.1
 */
NOCTER_API bool nocter_run_cancel_requested(const nocter_run *run);

/** Why a run's interrupt was raised; results that hold one are int32_t. */
enum nocter_interrupt_reason {
  /** It was not. */
  NOCTER_REASON_NONE = 0,
  /** The task was cancelled. */
  NOCTER_REASON_CANCEL = 1,
  /** Others may run the task now. */
  NOCTER_REASON_LEASE_LOST = 2,
  /** The workers are being stopped, or the store closed: hand back, or be quick. */
  NOCTER_REASON_STOP = 3
};

/**
 * @brief An interrupt to carry in the waits that the run makes: raised on a cancel, a lost lease, a stop.
 * @param run the run.
 * @return the interrupt, which is the run's and ends with it; NULL for NULL or a stale guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API nocter_interrupt *nocter_run_interrupt(nocter_run *run);

/**
 * @brief Why it was raised, the first reason there was.
 * @param run the run; NULL: NOCTER_REASON_NONE.
 * @return one of enum nocter_interrupt_reason.
 * @par Threads any thread while the run lives.
 * @since 0.1
 */
NOCTER_API int32_t nocter_run_interrupt_reason(const nocter_run *run);

/* ---- During a round ------------------------------------------------------------------------------------ */

/**
 * @brief Writes the task's state, which every reader sees at once and every later round is given. A failure does not undo it.
 * @param run the run.
 * @param state JSON; empty means {}.
 * @return NOCTER_OK; NOCTER_E_LEASE_LOST; NOCTER_E_JSON; NOCTER_E_LIMIT; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE;
 *         NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_update_state(nocter_run *run, nocter_text state);

/**
 * @brief Renews the lease of this process, and asks whether the run still owns its task. Only needed with NOCTER_TASKS_BY_HAND.
 * @param run the run.
 * @return NOCTER_OK; NOCTER_E_LEASE_LOST; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY;
 *         NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_heartbeat(nocter_run *run);

/**
 * @brief The task's children as they are now, in the order of their identities; in an atomic round also those it has staged.
 * @param run the run.
 * @param[out] out the records, to be freed with nocter_task_list_free(); empty on failure.
 * @return NOCTER_OK; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_children(nocter_run *run, nocter_task_list *out);

/**
 * @brief Makes children of the task, all or none.
 * @param run the run.
 * @param submissions what to make; their parent must be none, or this task.
 * @param count how many, 1 to 100,000.
 * @param[out] out_ids as in nocter_tasks_submit(); may be NULL.
 * @return NOCTER_OK; else as nocter_tasks_submit(), and NOCTER_E_LEASE_LOST; NOCTER_CANCELLED when this task was cancelled.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_submit_child(nocter_run *run, const nocter_submission *submissions,
                                                                  size_t count, nocter_task_id *out_ids);

/**
 * @brief Sends a message from this task.
 * @param run the run.
 * @param to the task it is for.
 * @param payload JSON; empty means {}.
 * @return NOCTER_OK; else as nocter_tasks_notify(), and NOCTER_E_LEASE_LOST.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_notify(nocter_run *run, nocter_task_id to, nocter_text payload);

/**
 * @brief Sends a message to this task's parent.
 * @param run the run.
 * @param payload JSON; empty means {}.
 * @return NOCTER_OK; else as nocter_run_notify(); NOCTER_E_STATE also when it has no parent.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_notify_parent(nocter_run *run, nocter_text payload);

/**
 * @brief Reads a remembered step.
 * @param run the run.
 * @param name the step's name, 1 to 255 bytes.
 * @param[out] out_value JSON, valid until the run ends; empty unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_EMPTY: no round has put it; NOCTER_E_LEASE_LOST; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE;
 *         NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_step_get(nocter_run *run, nocter_text name,
                                                              nocter_text *out_value);

/**
 * @brief Remembers a step for all later rounds and tries: the first value stays.
 * @param run the run.
 * @param name the step's name, 1 to 255 bytes.
 * @param value JSON; empty means {}.
 * @return NOCTER_OK; NOCTER_EXISTS when there was a value: read it with nocter_run_step_get(); NOCTER_E_LEASE_LOST; NOCTER_E_JSON;
 *         NOCTER_E_LIMIT; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_step_put(nocter_run *run, nocter_text name, nocter_text value);

/**
 * @brief Writes a value shared by the task's tree, checked like everything a run writes.
 * @param run the run.
 * @param key its name, 1 to 255 bytes.
 * @param value JSON; empty means {}.
 * @return NOCTER_OK; NOCTER_E_LEASE_LOST; NOCTER_E_JSON; NOCTER_E_LIMIT; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE;
 *         NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_shared_put(nocter_run *run, nocter_text key, nocter_text value);

/**
 * @brief The same, if there is none yet. In an atomic round somebody may come first until the outcome commits: that says NOCTER_EXISTS then.
 * @param run the run.
 * @param key its name, 1 to 255 bytes.
 * @param value JSON; empty means {}.
 * @param[out] out_existing after NOCTER_EXISTS, the value there is, to be freed with nocter_value_free(); else NULL. May be NULL.
 * @return NOCTER_OK; else as nocter_run_shared_put(), and NOCTER_EXISTS.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_shared_put_if_absent(nocter_run *run, nocter_text key,
                                                                          nocter_text value,
                                                                          nocter_value **out_existing);

/**
 * @brief Reads a value shared by the task's tree; in an atomic round also one that it has staged.
 * @param run the run.
 * @param key its name, 1 to 255 bytes.
 * @param[out] out the value, to be freed with nocter_value_free(); NULL unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_EMPTY; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY;
 *         NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_shared_get(nocter_run *run, nocter_text key, nocter_value **out);

/**
 * @brief From here on children, messages, state, steps and shared values of this round are kept back, and commit with its outcome in
 *        one step or not at all. The run sees its own; nobody else does.
 * @param run the run.
 * @return NOCTER_OK, also when asked again; NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_atomic(nocter_run *run);

/* ---- Outcomes: each ends the run when it returns NOCTER_OK, NOCTER_CANCELLED or NOCTER_E_LEASE_LOST ----- */

/**
 * @brief The task has completed.
 * @param run the run; ended by NOCTER_OK, NOCTER_CANCELLED and NOCTER_E_LEASE_LOST, else still yours.
 * @param result JSON; empty means {}.
 * @return NOCTER_OK; NOCTER_CANCELLED: a cancel came first, the task is cancelled and the result kept readable; NOCTER_EXISTS: in an
 *         atomic round, a staged value or key was taken meanwhile; NOCTER_E_LEASE_LOST: nothing changed; NOCTER_E_JSON;
 *         NOCTER_E_LIMIT; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_UNKNOWN and NOCTER_E_STATE: what was staged cannot be done;
 *         NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_done(nocter_run *run, nocter_text result);

/** What follows a failure; fields that hold one are int32_t. */
enum nocter_retry_code {
  /** Another try after a backoff while the task has tries left, else it has failed. */
  NOCTER_RETRY_BY_POLICY = 0,
  /** It has failed. */
  NOCTER_RETRY_NEVER = 1,
  /** As by policy, after retry_after_ms. */
  NOCTER_RETRY_AFTER = 2
};

/** Why a round failed. Texts are copied. */
typedef struct nocter_failure {
  /** sizeof(nocter_failure). */
  uint32_t size;
  /** One of enum nocter_retry_code. */
  int32_t retry;
  /** What sort, for programs: 1 to 255 bytes. */
  nocter_text kind;
  /** What happened, for people. Longer ones than 8 KiB are cut, between characters. */
  nocter_text message;
  /** More of it, a trace say; cut in the same way. */
  nocter_text detail;
  /** For NOCTER_RETRY_AFTER. */
  int64_t retry_after_ms;
} nocter_failure;

#ifndef NOCTER_BINDINGS
/** The same as nocter_failure_init(): by policy, without words. */
#define NOCTER_FAILURE_INIT \
  { sizeof(nocter_failure), 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, 0 }
#endif

/**
 * @brief Fills in the defaults: by policy, without words.
 * @param[out] failure what to fill; NULL does nothing.
 * @param size sizeof(nocter_failure) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_failure_init(nocter_failure *failure, size_t size);

/**
 * @brief This try failed.
 * @param run the run; ended by NOCTER_OK, NOCTER_CANCELLED and NOCTER_E_LEASE_LOST, else still yours.
 * @param failure why, and what follows.
 * @return NOCTER_OK; else as nocter_run_done().
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_fail(nocter_run *run, const nocter_failure *failure);

/** In suspension.flags: the first of those it waits for that fails or is cancelled wakes it too. */
#define NOCTER_WAKE_ON_FAILURE 1

/** What a task waits for. A message always wakes it, whatever it waits for. */
typedef struct nocter_suspension {
  /** sizeof(nocter_suspension). */
  uint32_t size;
  /** NOCTER_UNTIL_TASKS, NOCTER_UNTIL_CHILDREN or NOCTER_UNTIL_NOTIFIED. */
  nocter_until until;
  /** For NOCTER_UNTIL_TASKS: which. */
  const nocter_task_id *ids;
  /** How many. */
  size_t count;
  /** How many of them must end; 0: all. */
  uint32_t need;
  /** 0 or NOCTER_WAKE_ON_FAILURE. */
  uint32_t flags;
  /** Unix time in ms at which it wakes whatever has happened; 0: never by time. */
  int64_t wake_at_ms;
} nocter_suspension;

#ifndef NOCTER_BINDINGS
/** The same as nocter_suspension_init(): until notified. */
#define NOCTER_SUSPENSION_INIT \
  { sizeof(nocter_suspension), NOCTER_UNTIL_NOTIFIED, NULL, 0, 0, 0, 0 }
#endif

/**
 * @brief Fills in the defaults: until notified.
 * @param[out] suspension what to fill; NULL does nothing.
 * @param size sizeof(nocter_suspension) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_suspension_init(nocter_suspension *suspension, size_t size);

/**
 * @brief Ends the round without ending the task: it holds no worker until what it waits for has happened. If that has happened already,
 *        or a message waits, it is queued again at once.
 * @param run the run; ended by NOCTER_OK, NOCTER_CANCELLED and NOCTER_E_LEASE_LOST, else still yours.
 * @param suspension what it waits for.
 * @return NOCTER_OK; else as nocter_run_done(); NOCTER_E_UNKNOWN names a task that does not exist; NOCTER_E_STATE also when it would wait for itself, or in
 *         a circle, which the message names.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_suspend(nocter_run *run, const nocter_suspension *suspension);

/**
 * @brief Gives the task back as if it had not been claimed: no try is spent. For workers that stop.
 * @param run the run; ended by NOCTER_OK, NOCTER_CANCELLED and NOCTER_E_LEASE_LOST, else still yours.
 * @return NOCTER_OK; else as nocter_run_done(). What an atomic round staged is gone.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_run_hand_back(nocter_run *run);

/**
 * @brief Ends a run without an outcome: the worker is lost, which counts as a failed try.
 * @param run the run; NULL does nothing. When the store cannot be reached the task is rescued after the lease.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API void nocter_run_drop(nocter_run *run);

/* ---- Serving ------------------------------------------------------------------------------------------- */

/**
 * @brief Works on one round. It must end the run with an outcome; a return without one, or a C++ exception, is a failed try.
 * @param user as given in the handler.
 * @param run the run.
 */
typedef void (*nocter_task_fn)(void *user, nocter_run *run);

/** Who works on tasks of a type. */
typedef struct nocter_task_handler {
  /** sizeof(nocter_task_handler). */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** The type, copied. */
  nocter_text type;
  /** What works on them. */
  nocter_task_fn run;
  /** Passed to it. */
  void *user;
} nocter_task_handler;

/**
 * @brief Works on tasks of these types with threads of the library's own. A stop raises the interrupts of the runs at hand, and what
 *        was claimed and not begun is handed back.
 * @param tasks the store.
 * @param handlers who works on what; no type twice.
 * @param count how many, 1 to 1,000.
 * @param concurrency how many rounds at once, 1 to 1,024.
 * @param options how the threads are made; NULL: the defaults. Its `threads` must be 0 or concurrency.
 * @param[out] out the workers, to be given up with nocter_workers_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_MEMORY; NOCTER_E_FORKED; what a failing start hook said.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_serve(nocter_tasks *tasks, const nocter_task_handler *handlers,
                                                             size_t count, uint32_t concurrency,
                                                             const nocter_workers_options *options,
                                                             nocter_workers **out);

#ifdef __cplusplus
}
#endif
#endif
