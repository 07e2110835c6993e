/**
 * @file nocter/retirement.h
 * @brief Retirement: resources whose end may block are handed to somebody who ends them, and handing over cannot fail.
 *
 * A permit is reserved before the resource exists. Attaching the resource makes its owner; ending the owner queues the
 * resource in the place the permit had set apart, with no allocation, no wait and no way to fail. Then a cleanup
 * claims it, ends it, and the place is free again. Permits, owners, queued resources, running cleanups and
 * completions that nobody took share one bound. All memory is allocated at creation.
 */
#ifndef NOCTER_RETIREMENT_H
#define NOCTER_RETIREMENT_H

#include <nocter/base.h>
#include <nocter/workers.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The service. */
typedef struct nocter_retirement nocter_retirement;
/** A guard: a place set apart for a resource that may not exist yet. */
typedef struct nocter_permit nocter_permit;
/** A guard: the owner of a live resource. */
typedef struct nocter_resource nocter_resource;
/** A guard: the one right, and duty, to end one resource. */
typedef struct nocter_cleanup nocter_cleanup;

/** Which retirement. Opaque; compare with nocter_retirement_id_equal() only. Zero is none. Never issued twice. */
typedef struct nocter_retirement_id {
  /** Which service issued it, and where it keeps the resource. */
  uint64_t service;
  /** Its place in that service's order. */
  uint64_t sequence;
} nocter_retirement_id;

/**
 * @brief Whether two identities name the same retirement of the same service.
 * @param a one.
 * @param b the other.
 * @return true when equal.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API bool nocter_retirement_id_equal(nocter_retirement_id a, nocter_retirement_id b);

/** Where a retirement is; fields and parameters that hold one are nocter_retirement_state. */
enum nocter_retirement_state_code {
  /** Waits for a cleanup: the service owns the resource. */
  NOCTER_RETIREMENT_QUEUED = 1,
  /** A cleanup has claimed it. */
  NOCTER_RETIREMENT_RUNNING = 2,
  /** The cleanup has ended, one way or the other; waits to be taken. */
  NOCTER_RETIREMENT_COMPLETED = 3
};
/** One of enum nocter_retirement_state_code. */
typedef int32_t nocter_retirement_state;

/** The most resources one service can be made for. */
#define NOCTER_RETIREMENT_MAXIMUM_RESOURCES 16777216

/** What a service is made of. */
typedef struct nocter_retirement_options {
  /** sizeof(nocter_retirement_options). */
  uint32_t size;
  /** Permits that may be out at once, in whatever became of them, 1 to NOCTER_RETIREMENT_MAXIMUM_RESOURCES. */
  uint32_t maximum_resources;
  /** Cleanups that may run at once, 1 to maximum_resources. */
  uint32_t workers;
  /** 0. */
  uint32_t reserved;
  /** Woken after every transition a waiter can care about. */
  nocter_notifier waiters;
  /** Woken when a claim that found nothing may find something, or that nothing will come any more. */
  nocter_notifier work;
  /** How often a wait looks again before it yields its core; 0: the default; NOCTER_WAIT_NONE: never. */
  uint32_t wait_spins;
  /** How often a wait yields its core before it sleeps; 0: the default; NOCTER_WAIT_NONE: never. */
  uint32_t wait_yields;
} nocter_retirement_options;

#ifndef NOCTER_BINDINGS
/** The same as nocter_retirement_options_init(): 64 resources, 2 workers, nobody told. */
#define NOCTER_RETIREMENT_OPTIONS_INIT \
  { sizeof(nocter_retirement_options), 64, 2, 0, {NULL, NULL, NULL}, {NULL, NULL, NULL}, 0, 0 }
#endif

/**
 * @brief Fills in the defaults: 64 resources, 2 workers, nobody told.
 * @param[out] options what to fill; NULL does nothing.
 * @param size sizeof(nocter_retirement_options) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_retirement_options_init(nocter_retirement_options *options, size_t size);

/**
 * @brief Makes a service, with all the memory it will ever need.
 * @param options what it is made of; its notifiers become the service's when the call succeeds.
 * @param[out] out the service, to be given up with nocter_retirement_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_MEMORY.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_create(const nocter_retirement_options *options,
                                                                   nocter_retirement **out);

/**
 * @brief Sets a place apart, before the resource is made. Never waits, never allocates.
 * @param retirement the service.
 * @param[out] out the permit, to be ended with nocter_permit_attach() or nocter_permit_drop(); NULL unless NOCTER_OK.
 * @param[out] out_epoch the capacity epoch seen in the same moment: after NOCTER_SATURATED, waiting for a later
 *             one and trying again can never miss the place that was freed in between. Zero on an error.
 * @return NOCTER_OK; NOCTER_SATURATED; NOCTER_CLOSED; NOCTER_E_LIMIT when the identities of this service are used
 *         up; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_reserve(nocter_retirement *retirement, nocter_permit **out,
                                                                    nocter_epoch *out_epoch);

/**
 * @brief Makes the owner of a resource. Cannot fail, also after close and after the service was destroyed.
 * @param permit consumed.
 * @param[in,out] resource consumed and zeroed; its drop is the destructor that may block.
 * @return the owner, to be ended with nocter_resource_drop() or nocter_resource_retire(). NULL, with nothing
 *         consumed, only for what no right program passes: NULL, a consumed permit, one of a parent process.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_resource *nocter_permit_attach(nocter_permit *permit, nocter_owned *resource);

/**
 * @brief Gives the place back: there will be no resource.
 * @param permit consumed; NULL does nothing.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_permit_drop(nocter_permit *permit);

/**
 * @brief The resource, lent for as long as it has its owner.
 * @param resource the owner.
 * @return the data of the resource that was attached; NULL for NULL or a consumed owner.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API void *nocter_resource_get(const nocter_resource *resource);

/**
 * @brief Queues the resource for its cleanup, and nobody will ask how it went.
 *
 * No allocation, no wait, no failure; from any thread, also after close. After nocter_retirement_destroy() the threads
 * that still serve clean it; when there are none, it is cleaned here: see nocter_retirement_destroy().
 * @param resource consumed; NULL does nothing.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_resource_drop(nocter_resource *resource);

/**
 * @brief The same, and somebody will ask how it went: the completion keeps its place until it is taken or detached.
 * @param resource consumed when the call says NOCTER_OK or NOCTER_CLOSED.
 * @param[out] out the identity to ask with; zero unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_CLOSED: the service was destroyed, the resource is cleaned all the same and nobody can
 *         ask; NOCTER_E_ARGUMENT, also for an owner that was consumed; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_resource_retire(nocter_resource *resource, nocter_retirement_id *out);

/**
 * @brief Takes the resource that was queued first, to clean it. Goes on after close.
 * @param retirement the service.
 * @param wait how long to wait for one; NULL: do not wait.
 * @param[out] out the guard, to be ended with nocter_cleanup_complete() or nocter_cleanup_drop(); NULL unless
 *             NOCTER_OK.
 * @return NOCTER_OK; NOCTER_EMPTY: nothing queued or every worker slot in use, and no wait was given;
 *         NOCTER_TIMEOUT; NOCTER_INTERRUPTED; NOCTER_CLOSED: admission is closed, and no permit, owner or queued
 *         resource is left, or the service was destroyed meanwhile; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT;
 *         NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK: this thread cleans for this service and holds its last worker slot.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_claim(nocter_retirement *retirement,
                                                                  const nocter_wait *wait, nocter_cleanup **out);

/**
 * @brief Takes the resource out of its guard. Takes no lock.
 * @param cleanup the guard; it stays the caller's, to be ended once the resource has been.
 * @param[out] out_resource the resource, now the caller's to end; zero on failure.
 * @return NOCTER_OK; NOCTER_E_STATE: it was taken out already; NOCTER_E_ARGUMENT, also for a guard that was consumed;
 *         NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_cleanup_begin(nocter_cleanup *cleanup, nocter_owned *out_resource);

/**
 * @brief Ends a cleanup whose resource has been ended: its place is free, or its completion waits to be taken.
 * @param cleanup consumed when the call says NOCTER_OK.
 * @param code 0: clean; anything else: what went wrong, as nocter_retirement_take() reports it.
 * @return NOCTER_OK; NOCTER_E_STATE: the resource was not taken out yet; NOCTER_E_ARGUMENT, also for a guard that was
 *         consumed; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_cleanup_complete(nocter_cleanup *cleanup, int32_t code);

/**
 * @brief Gives the cleanup up: it failed. Drops the resource if it was not taken out; the place is free all the same.
 * @param cleanup consumed; NULL does nothing.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_cleanup_drop(nocter_cleanup *cleanup);

/**
 * @brief Takes how a cleanup went; NOCTER_OK and NOCTER_WORKER_LOST consume the identity and free its place.
 * @param retirement the service.
 * @param id from nocter_resource_retire().
 * @param wait how long to wait for the cleanup to end; NULL: do not wait.
 * @param[out] out_code the code the cleanup ended with; zero unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_WORKER_LOST: the cleanup was dropped, or its destructor threw; NOCTER_PENDING: not ended and
 *         no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED; NOCTER_CLOSED: the service was destroyed while it was
 *         waited for, the cleanup goes on; NOCTER_E_UNKNOWN: never issued, taken or detached, also while it was waited
 *         for; NOCTER_E_FOREIGN; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK: this
 *         thread runs that very cleanup, or it is queued behind worker slots that all wait likewise.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_take(nocter_retirement *retirement, nocter_retirement_id id,
                                                                 const nocter_wait *wait, int32_t *out_code);

/**
 * @brief Where a retirement is. Changes nothing.
 * @param retirement the service.
 * @param id from nocter_resource_retire().
 * @param[out] out the state; zero on failure.
 * @return NOCTER_OK; NOCTER_E_UNKNOWN: never issued, taken or detached; NOCTER_E_FOREIGN; NOCTER_E_ARGUMENT;
 *         NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_query(const nocter_retirement *retirement,
                                                                  nocter_retirement_id id,
                                                                  nocter_retirement_state *out);

/**
 * @brief Ends the caller's interest in a retirement. The cleanup goes on; a completion gives its place back.
 * @param retirement the service.
 * @param id consumed when the call says NOCTER_OK.
 * @return NOCTER_OK; NOCTER_E_UNKNOWN: never issued, taken or detached; NOCTER_E_FOREIGN; NOCTER_E_ARGUMENT;
 *         NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_detach(nocter_retirement *retirement,
                                                                   nocter_retirement_id id);

/**
 * @brief The same for every identity there is: for a host that goes away. Permits and owners are left alone.
 * @param retirement the service; NULL does nothing.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_retirement_detach_all(nocter_retirement *retirement);

/**
 * @brief The capacity epoch now: it advances whenever an occupied place became free, and only then.
 * @param retirement the service.
 * @param[out] out the epoch; zero on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_epoch(const nocter_retirement *retirement,
                                                                  nocter_epoch *out);

/**
 * @brief Waits until the capacity epoch is later than the one given.
 * @param retirement the service.
 * @param later_than an epoch of this service.
 * @param wait how long; NULL: do not wait.
 * @param[out] out the epoch now, also after a wait that ended early; zero on failure.
 * @return NOCTER_OK; NOCTER_PENDING: not later and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED;
 *         NOCTER_CLOSED: no permit will be given any more; NOCTER_E_FOREIGN; NOCTER_E_ARGUMENT, also for an epoch this
 *         service has not had yet; NOCTER_E_REENTRANT; NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK: this thread cleans for
 *         this service and holds its last worker slot.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_wait_epoch(nocter_retirement *retirement,
                                                                       nocter_epoch later_than, const nocter_wait *wait,
                                                                       nocter_epoch *out);

/**
 * @brief Closes admission for good: no new permits. Everything that was reserved before goes on.
 * @param retirement the service; NULL does nothing. A second close does nothing.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_retirement_close(nocter_retirement *retirement);

/**
 * @brief Waits until no place is occupied: every permit, owner, cleanup and completion has ended, and with them every
 *        destructor that the service ran.
 *
 * After nocter_retirement_close() that is final; before it, it was so in one moment.
 * @param retirement the service.
 * @param wait how long; NULL: do not wait.
 * @return NOCTER_OK; NOCTER_PENDING: not yet and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED;
 *         NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK: this thread runs a cleanup of
 *         this service.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_drained(nocter_retirement *retirement,
                                                                    const nocter_wait *wait);

/**
 * @brief A snapshot taken in one moment, and the totals since creation.
 *
 * reservations = permits_dropped + unobserved_done + detached_done + taken + detached_completed + reserved; epoch = the
 * sum of the first five; cleaned + failed + lost = all cleanups that have ended.
 */
typedef struct nocter_retirement_counts {
  /** sizeof(nocter_retirement_counts), set by the caller. */
  uint32_t size;
  /** 1 until close, then 0. */
  uint32_t accepting;
  /** Permits without a resource. */
  uint32_t permits;
  /** Resources that have their owner. */
  uint32_t live;
  /** Resources that wait for a cleanup. */
  uint32_t queued;
  /** Cleanups that run. */
  uint32_t running;
  /** Cleanups ended and not yet taken. */
  uint32_t completed;
  /** The sum of the five. */
  uint32_t reserved;
  /** The bound of reserved. */
  uint32_t maximum_resources;
  /** The bound of running. */
  uint32_t workers;
  /** Places freed so far. */
  uint64_t epoch;
  /** Permits given. */
  uint64_t reservations;
  /** Calls of reserve that said NOCTER_SATURATED. */
  uint64_t saturated;
  /** Permits dropped without a resource. */
  uint64_t permits_dropped;
  /** Dropped resources whose cleanup has ended. */
  uint64_t unobserved_done;
  /** Retirements detached before their cleanup ended, which it has now. */
  uint64_t detached_done;
  /** Retirements whose take said NOCTER_OK or NOCTER_WORKER_LOST. */
  uint64_t taken;
  /** Retirements detached when completed. */
  uint64_t detached_completed;
  /** Cleanups that ended with code 0. */
  uint64_t cleaned;
  /** Cleanups that ended with another code. */
  uint64_t failed;
  /** Cleanups that were dropped or threw. */
  uint64_t lost;
  /** Of failed and lost those that nobody heard of: dropped or detached. */
  uint64_t failed_unobserved;
  /** C++ exceptions swallowed out of notifiers and destructors. */
  uint64_t exceptions;
  /** How long the oldest queued resource has waited, in nanoseconds, to the kernel's tick; 0: none queued. */
  int64_t oldest_queued_ns;
  /** How long the longest running cleanup has run, in nanoseconds, to the kernel's tick; 0: none runs. */
  int64_t longest_running_ns;
} nocter_retirement_counts;

#ifndef NOCTER_BINDINGS
/** Ready to be passed to nocter_retirement_count(). */
#define NOCTER_RETIREMENT_COUNTS_INIT \
  { sizeof(nocter_retirement_counts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#endif

/**
 * @brief Zeroes it and sets its size.
 * @param[out] counts what to fill; NULL does nothing.
 * @param size sizeof(nocter_retirement_counts) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_retirement_counts_init(nocter_retirement_counts *counts, size_t size);

/**
 * @brief Takes the snapshot.
 * @param retirement the service.
 * @param[in,out] out its size member says how much the caller knows; the rest is filled in. Unchanged on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_count(const nocter_retirement *retirement,
                                                                  nocter_retirement_counts *out);

/**
 * @brief Starts threads of the library's that clean by calling the drop of each resource, which reports code 0.
 *
 * They end when admission is closed and nothing is left to clean, or when they are stopped. An exception out of a drop is
 * a failed cleanup; the thread serves on.
 * @param retirement the service; it lives on until the threads have ended.
 * @param options how the threads are made; NULL: the defaults.
 * @param[out] out the workers, to be given up with nocter_workers_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_CLOSED: nothing will come any more; NOCTER_E_MEMORY when a thread cannot be made;
 *         NOCTER_E_STATE when a start hook failed with a positive status, else that hook's own; NOCTER_E_ARGUMENT;
 *         NOCTER_E_REENTRANT; NOCTER_E_FORKED. After any but NOCTER_OK no thread is left.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_retirement_serve(nocter_retirement *retirement,
                                                                  const nocter_workers_options *options,
                                                                  nocter_workers **out);

/**
 * @brief Closes it, detaches every waiter, and gives it up.
 *
 * What is reserved stays valid: permits, owners and cleanups that are out work as before, and the last of them frees the
 * service. Threads that serve it clean what is queued and what is dropped later, and end when nothing is left. When no
 * thread serves it (any more), nobody else could clean: then this call cleans what is queued, the last serving thread
 * does before it ends, and from then on whoever drops an owner or ends a cleanup, on its own thread; never more at once
 * than there are worker slots. Threads that wait in it return NOCTER_CLOSED, but for nocter_retirement_drained(), which
 * still tells the truth.
 * @param retirement the service; NULL does nothing.
 * @par Threads any thread, also in a notifier; no other call on it may start after this one.
 * @since 0.1
 */
NOCTER_API void nocter_retirement_destroy(nocter_retirement *retirement);

#ifdef __cplusplus
}
#endif
#endif
