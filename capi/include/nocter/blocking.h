/**
 * @file nocter/blocking.h
 * @brief Blocking operations: a bounded service of jobs. Submit, claim, begin, complete, take.
 *
 * A job is QUEUED, then RUNNING, then COMPLETED, then gone when its waiter takes it. A running job whose waiter
 * goes away is ABANDONED: its guard stays its owner until it ends, and nobody gets its output. The service knows
 * nothing of what a job means: inputs and outputs are opaque owned values. All memory is allocated at creation.
 */
#ifndef NOCTER_BLOCKING_H
#define NOCTER_BLOCKING_H

#include <nocter/base.h>
#include <nocter/workers.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The service. */
typedef struct nocter_blocking nocter_blocking;
/** A guard: one claimed job whose input has not been taken out yet. */
typedef struct nocter_running_job nocter_running_job;
/** A guard: the one right, and duty, to end a job that has begun. */
typedef struct nocter_completion nocter_completion;

/** Which job. Opaque; compare with nocter_job_id_equal() only. Zero is no job. Never issued twice. */
typedef struct nocter_job_id {
  /** Which service issued it, and where it keeps the job. */
  uint64_t service;
  /** Its place in that service's order. */
  uint64_t sequence;
} nocter_job_id;

/**
 * @brief Whether two identities name the same job of the same service.
 * @param a one.
 * @param b the other.
 * @return true when equal.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API bool nocter_job_id_equal(nocter_job_id a, nocter_job_id b);

/** Where a job is; fields and parameters that hold one are nocter_job_state. */
enum nocter_job_state_code {
  /** Accepted and not yet claimed: the service owns the input. */
  NOCTER_JOB_QUEUED = 1,
  /** Claimed: a guard owns it. */
  NOCTER_JOB_RUNNING = 2,
  /** Ended with an output or with its worker lost; waits to be taken. */
  NOCTER_JOB_COMPLETED = 3
};
/** One of enum nocter_job_state_code. */
typedef int32_t nocter_job_state;

/** The most jobs one service can be made for. */
#define NOCTER_BLOCKING_MAXIMUM_JOBS 16777216

/** What a service is made of. */
typedef struct nocter_blocking_options {
  /** sizeof(nocter_blocking_options). */
  uint32_t size;
  /** Jobs that may be accepted and not yet gone, 1 to NOCTER_BLOCKING_MAXIMUM_JOBS. */
  uint32_t maximum_jobs;
  /** Jobs that may run at once, 1 to maximum_jobs. */
  uint32_t workers;
  /** 0. */
  uint32_t reserved;
  /** Woken after every transition a waiter can care about. */
  nocter_notifier waiters;
  /** Woken when a claim that found nothing may find something. */
  nocter_notifier work;
  /** How often a wait looks again before it yields its core; 0: the default; NOCTER_WAIT_NONE: never. */
  uint32_t wait_spins;
  /** How often a wait yields its core before it sleeps; 0: the default; NOCTER_WAIT_NONE: never. */
  uint32_t wait_yields;
} nocter_blocking_options;

#ifndef NOCTER_BINDINGS
/** The same as nocter_blocking_options_init(): 64 jobs, 2 workers, nobody told. */
#define NOCTER_BLOCKING_OPTIONS_INIT \
  { sizeof(nocter_blocking_options), 64, 2, 0, {NULL, NULL, NULL}, {NULL, NULL, NULL}, 0, 0 }
#endif

/**
 * @brief Fills in the defaults: 64 jobs, 2 workers, nobody told.
 * @param[out] options what to fill; NULL does nothing.
 * @param size sizeof(nocter_blocking_options) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_blocking_options_init(nocter_blocking_options *options, size_t size);

/**
 * @brief Makes a service, with all the memory it will ever need.
 * @param options what it is made of; its notifiers become the service's when the call succeeds.
 * @param[out] out the service, to be given up with nocter_blocking_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_MEMORY.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_create(const nocter_blocking_options *options,
                                                                 nocter_blocking **out);

/**
 * @brief Hands a job in. Never waits, never allocates.
 * @param blocking the service.
 * @param[in,out] input zeroed when, and only when, the call says NOCTER_OK: then the service owns it.
 * @param[out] out_id the job; zero unless NOCTER_OK.
 * @param[out] out_epoch the capacity epoch seen in the same moment: after NOCTER_SATURATED, waiting for a later
 *             one and trying again can never miss the slot that was freed in between. Zero on an error.
 * @return NOCTER_OK; NOCTER_SATURATED; NOCTER_CLOSED; NOCTER_E_LIMIT when the identities of this service are used
 *         up; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_submit(nocter_blocking *blocking, nocter_owned *input,
                                                                 nocter_job_id *out_id, nocter_epoch *out_epoch);

/**
 * @brief Takes the oldest queued job to run it.
 * @param blocking the service.
 * @param wait how long to wait for one; NULL: do not wait.
 * @param[out] out the guard, to be ended with nocter_running_job_begin() or nocter_running_job_drop(); NULL
 *             unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_EMPTY: nothing queued or every worker slot in use, and no wait was given;
 *         NOCTER_TIMEOUT; NOCTER_INTERRUPTED; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT;
 *         NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK: this thread runs a job of this service and holds its last
 *         worker slot.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_claim(nocter_blocking *blocking, const nocter_wait *wait,
                                                                nocter_running_job **out);

/**
 * @brief Which job this is.
 * @param job the guard.
 * @return its identity; zero for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API nocter_job_id nocter_running_job_id(const nocter_running_job *job);

/**
 * @brief Parts the input from the one completion guard. Cannot fail on a live guard; takes no lock.
 * @param job consumed when the call says NOCTER_OK.
 * @param[out] out_input the input, now the caller's; zero on failure.
 * @param[out] out the completion, to be ended with nocter_completion_complete() or nocter_completion_drop();
 *             NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT, also for a guard that was consumed; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_running_job_begin(nocter_running_job *job, nocter_owned *out_input,
                                                                   nocter_completion **out);

/**
 * @brief Gives the job up: drops its input, then its waiter is told NOCTER_WORKER_LOST.
 * @param job consumed; NULL does nothing.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_running_job_drop(nocter_running_job *job);

/**
 * @brief Which job this is.
 * @param completion the guard.
 * @return its identity; zero for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API nocter_job_id nocter_completion_id(const nocter_completion *completion);

/**
 * @brief Whether nobody waits for this job any more: stop early if you can.
 * @param completion the guard.
 * @return true once it was cancelled or the service was shut down; false for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API bool nocter_completion_abandoned(const nocter_completion *completion);

/**
 * @brief An interrupt that is raised when the job is abandoned, to carry in the job's own waits.
 * @param completion the guard.
 * @return the interrupt: the guard's, valid until the guard is consumed. Raising, clearing or destroying it by hand
 *         does nothing. NULL for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API nocter_interrupt *nocter_completion_interrupt(nocter_completion *completion);

/**
 * @brief Ends the job with an output.
 * @param completion consumed when the call says NOCTER_OK.
 * @param[in,out] output consumed and zeroed with it: kept for the waiter, or dropped here when the job was abandoned.
 * @return NOCTER_OK, also when the job was abandoned; NOCTER_E_ARGUMENT, also for a guard that was consumed;
 *         NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_completion_complete(nocter_completion *completion,
                                                                     nocter_owned *output);

/**
 * @brief Ends the job without an output: its waiter is told NOCTER_WORKER_LOST.
 * @param completion consumed; NULL does nothing.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_completion_drop(nocter_completion *completion);

/**
 * @brief Takes what came out of a job; NOCTER_OK and NOCTER_WORKER_LOST consume the identity and free its slot.
 * @param blocking the service.
 * @param id the job.
 * @param wait how long to wait for it to end; NULL: do not wait.
 * @param[out] out_output the output, now the caller's; zero unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_WORKER_LOST; NOCTER_PENDING: not ended and no wait was given; NOCTER_TIMEOUT;
 *         NOCTER_INTERRUPTED; NOCTER_CLOSED: the service was shut down while the job was waited for or runs abandoned;
 *         NOCTER_E_STATE: the job was cancelled while it ran; NOCTER_E_UNKNOWN: never issued, consumed or cancelled;
 *         NOCTER_E_FOREIGN; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK: this thread
 *         runs that job, or it is queued behind worker slots that all wait likewise.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_take(nocter_blocking *blocking, nocter_job_id id,
                                                               const nocter_wait *wait, nocter_owned *out_output);

/**
 * @brief Where a job is. Changes nothing.
 * @param blocking the service.
 * @param id the job.
 * @param[out] out the state; zero on failure.
 * @return NOCTER_OK; NOCTER_E_UNKNOWN: never issued, consumed, cancelled or abandoned; NOCTER_E_FOREIGN;
 *         NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_query(const nocter_blocking *blocking, nocter_job_id id,
                                                                nocter_job_state *out);

/**
 * @brief A hint for event loops: which jobs ended since the last asking. Takes nothing.
 *
 * Each job that ended is named once, oldest end first, unless it was taken or cancelled before; what does not fit
 * is named next time. So many awaiting callers cost a wake what ended, not what waits.
 * @param blocking the service.
 * @param[out] out_ids room for the identities.
 * @param capacity how many fit, at least 1.
 * @param[out] out_count how many were written; zero on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_completed(nocter_blocking *blocking, nocter_job_id *out_ids,
                                                                    size_t capacity, size_t *out_count);

/** A job that nocter_blocking_take_many() took. */
typedef struct nocter_taken {
  /** Which. */
  nocter_job_id id;
  /** Its output, the caller's now; zero when the worker was lost. */
  nocter_owned output;
  /** NOCTER_OK or NOCTER_WORKER_LOST. */
  nocter_status status;
  /** 0. */
  uint32_t reserved;
} nocter_taken;

/**
 * @brief Takes jobs as they end, whichever they are: for a host where one place takes every job, one call a batch.
 *
 * Who takes some jobs by their identities leaves this call alone, for it takes those too. Jobs that
 * nocter_blocking_completed() has named are left to whoever was told.
 * @param blocking the service.
 * @param wait how long to wait for the first; NULL: do not wait.
 * @param[out] out_taken what was taken, in the order in which it ended; each consumed its identity.
 * @param capacity how many fit there, at least 1.
 * @param[out] out_count how many were taken; 0 unless NOCTER_OK.
 * @return NOCTER_OK: at least one; NOCTER_PENDING: none has ended and no wait was given; NOCTER_TIMEOUT;
 *         NOCTER_INTERRUPTED; NOCTER_CLOSED: shut down; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED;
 *         NOCTER_E_WOULD_DEADLOCK: this thread runs a job of this service, and all its other workers wait likewise.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_take_many(nocter_blocking *blocking, const nocter_wait *wait,
                                                                    nocter_taken *out_taken, size_t capacity,
                                                                    size_t *out_count);

/**
 * @brief Ends the caller's interest in a job.
 *
 * A queued or completed job ends at once and its input or output comes back; a running one becomes abandoned: its
 * interrupt is raised, its guard stays its owner, its output will be dropped.
 * @param blocking the service.
 * @param id the job.
 * @param[out] out_was the state it was in; zero on failure.
 * @param[out] out_reclaimed the input (was QUEUED) or output (was COMPLETED), now the caller's, else zero; NULL:
 *             what would come back is dropped.
 * @return NOCTER_OK; NOCTER_E_STATE: it was cancelled before and still runs; NOCTER_E_UNKNOWN; NOCTER_E_FOREIGN;
 *         NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_cancel(nocter_blocking *blocking, nocter_job_id id,
                                                                 nocter_job_state *out_was,
                                                                 nocter_owned *out_reclaimed);

/**
 * @brief The capacity epoch now: it advances whenever an occupied slot became free, and only then.
 * @param blocking the service.
 * @param[out] out the epoch; zero on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_epoch(const nocter_blocking *blocking, nocter_epoch *out);

/**
 * @brief Waits until the capacity epoch is later than the one given.
 * @param blocking the service.
 * @param later_than an epoch of this service.
 * @param wait how long; NULL: do not wait.
 * @param[out] out the epoch now, also after a wait that ended early; zero on failure.
 * @return NOCTER_OK; NOCTER_PENDING: not later and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED;
 *         NOCTER_CLOSED: shut down, no submit will be accepted; NOCTER_E_FOREIGN; NOCTER_E_ARGUMENT, also for an epoch
 *         this service has not had yet; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_wait_epoch(nocter_blocking *blocking, nocter_epoch later_than,
                                                                     const nocter_wait *wait, nocter_epoch *out);

/** Where shutdown hands values to: what the sink leaves in *value is dropped by the service after it returns. */
typedef void (*nocter_blocking_sink)(void *user, nocter_job_state was, nocter_owned *value);

/**
 * @brief Closes admission for good, hands back what nobody runs, abandons what runs, wakes every waiter.
 *
 * Returns at once, without waiting for what runs; nocter_blocking_drained() tells when it ended. A second call finds
 * nothing to hand back.
 * @param blocking the service.
 * @param sink called in this thread for every queued input, oldest first, then for every completed output in the order of
 *             the identities; a job whose worker was lost has no output and is not handed over. NULL: they are dropped.
 * @param user passed to sink; may be NULL.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_shutdown(nocter_blocking *blocking, nocter_blocking_sink sink,
                                                                   void *user);

/**
 * @brief Waits until a service that was shut down has no job left and runs no drop function of a payload.
 * @param blocking the service.
 * @param wait how long; NULL: do not wait.
 * @return NOCTER_OK; NOCTER_PENDING: not yet and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED;
 *         NOCTER_E_STATE: it was not shut down; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED;
 *         NOCTER_E_WOULD_DEADLOCK: this thread runs a job of this service.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_drained(nocter_blocking *blocking, const nocter_wait *wait);

/**
 * @brief A snapshot taken in one moment, and the totals since creation.
 *
 * accepted = taken + cancelled_queued + cancelled_completed + shutdown_queued + shutdown_completed + abandoned_retired +
 * admitted; epoch = the sum of those six; completed_ok + completed_lost = all jobs whose guard has ended.
 */
typedef struct nocter_blocking_counts {
  /** sizeof(nocter_blocking_counts), set by the caller. */
  uint32_t size;
  /** 1 until shutdown, then 0. */
  uint32_t accepting;
  /** Jobs not yet claimed. */
  uint32_t queued;
  /** Jobs claimed, not yet ended, still waited for. */
  uint32_t running;
  /** Jobs ended and not yet taken. */
  uint32_t completed;
  /** Jobs claimed, not yet ended, nobody waits for. */
  uint32_t abandoned;
  /** The sum of the four. */
  uint32_t admitted;
  /** The bound of admitted. */
  uint32_t maximum_jobs;
  /** The bound of running + abandoned. */
  uint32_t workers;
  /** 0. */
  uint32_t reserved;
  /** Slots freed so far. */
  uint64_t epoch;
  /** Submits that said NOCTER_OK. */
  uint64_t accepted;
  /** Submits that said NOCTER_SATURATED. */
  uint64_t saturated;
  /** Jobs whose take said NOCTER_OK or NOCTER_WORKER_LOST. */
  uint64_t taken;
  /** Jobs cancelled while queued. */
  uint64_t cancelled_queued;
  /** Jobs cancelled when completed. */
  uint64_t cancelled_completed;
  /** Jobs that shutdown found queued. */
  uint64_t shutdown_queued;
  /** Jobs that shutdown found completed. */
  uint64_t shutdown_completed;
  /** Abandoned jobs whose guard has ended. */
  uint64_t abandoned_retired;
  /** Guards that ended with an output. */
  uint64_t completed_ok;
  /** Guards that ended without one. */
  uint64_t completed_lost;
  /** C++ exceptions swallowed out of notifiers, drop functions and served functions. */
  uint64_t exceptions;
  /** How long the oldest queued job has waited, in nanoseconds, to the kernel's tick; 0: none queued. */
  int64_t oldest_queued_ns;
  /** How long the longest running job has run, in nanoseconds, to the kernel's tick; 0: none runs. */
  int64_t longest_running_ns;
} nocter_blocking_counts;

#ifndef NOCTER_BINDINGS
/** Ready to be passed to nocter_blocking_count(). */
#define NOCTER_BLOCKING_COUNTS_INIT \
  { sizeof(nocter_blocking_counts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#endif

/**
 * @brief Zeroes it and sets its size.
 * @param[out] counts what to fill; NULL does nothing.
 * @param size sizeof(nocter_blocking_counts) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_blocking_counts_init(nocter_blocking_counts *counts, size_t size);

/**
 * @brief Takes the snapshot.
 * @param blocking the service.
 * @param[in,out] out its size member says how much the caller knows; the rest is filled in. Unchanged on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_count(const nocter_blocking *blocking,
                                                                nocter_blocking_counts *out);

/**
 * @brief Shuts the service down, dropping what nobody runs, and gives it up. Returns at once.
 *
 * Threads that wait in it return NOCTER_CLOSED; guards that are out stay valid; the last of them frees it.
 * @param blocking the service; NULL does nothing.
 * @par Threads any thread, also in a notifier; no other call on it may start after this one.
 * @since 0.1
 */
NOCTER_API void nocter_blocking_destroy(nocter_blocking *blocking);

/**
 * @brief Runs one job.
 *
 * It owns the input: what it leaves in *input when it returns is dropped. What it leaves in *output becomes the
 * output of the job. The completion is lent to it for the length of the call: to ask whether the job was abandoned,
 * and to end the job early, on this thread, with nocter_completion_complete() or nocter_completion_drop() (which tells
 * the waiter NOCTER_WORKER_LOST). A C++ exception or a forced unwinding out of it counts as NOCTER_WORKER_LOST.
 */
typedef void (*nocter_blocking_fn)(void *user, nocter_owned *input, nocter_owned *output,
                                   nocter_completion *completion);

/**
 * @brief Starts threads of the library's that claim, run and complete jobs until the service is shut down or they are stopped.
 * @param blocking the service; it lives on until the threads have ended.
 * @param run runs one job, on any of the threads, several at once.
 * @param user passed to run; may be NULL; must live until the workers are stopped.
 * @param options how the threads are made; NULL: the defaults.
 * @param[out] out the workers, to be given up with nocter_workers_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_CLOSED; NOCTER_E_MEMORY when a thread cannot be made; NOCTER_E_STATE when a start hook failed
 *         with a positive status, else that hook's own; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED. After any
 *         but NOCTER_OK no thread is left.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_blocking_serve(nocter_blocking *blocking, nocter_blocking_fn run,
                                                                void *user, const nocter_workers_options *options,
                                                                nocter_workers **out);

#ifdef __cplusplus
}
#endif
#endif
