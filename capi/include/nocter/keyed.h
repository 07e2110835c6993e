/**
 * @file nocter/keyed.h
 * @brief The keyed queue: a bounded set of keys that are due. Notify, claim, complete.
 *
 * A key says "look at this thing as it is now": a notification carries nothing else, so any number of them before a
 * pass are one, and any number during a pass ask for exactly one more. A key is WAITING, then ACTIVE while its one pass
 * runs, then gone; or it is DELAYED until its time has come. It holds one of maximum_keys places from its first
 * notification until it is gone, so a notification during a pass is never refused. Keys are bytes, compared as such and
 * copied. All memory is allocated at creation.
 *
 * Whoever changes the thing first and notifies then can rely on this: unless the queue is closed before, a pass of that
 * key starts later and sees the change, also when the pass that runs just now fails.
 */
#ifndef NOCTER_KEYED_H
#define NOCTER_KEYED_H

#include <nocter/base.h>
#include <nocter/workers.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The queue. */
typedef struct nocter_keyed nocter_keyed;
/** A guard: one claimed key, and the one right, and duty, to end its pass. */
typedef struct nocter_pass nocter_pass;

/** The most keys one queue can be made for. */
#define NOCTER_KEYED_MAXIMUM_KEYS 16777216
/** The longest key a queue can be made for, in bytes. */
#define NOCTER_KEYED_MAXIMUM_KEY_SIZE 65536

/** What a queue is made of. */
typedef struct nocter_keyed_options {
  /** sizeof(nocter_keyed_options). */
  uint32_t size;
  /** Distinct keys that may be retained, 1 to NOCTER_KEYED_MAXIMUM_KEYS. */
  uint32_t maximum_keys;
  /** Passes that may run at once, 1 to maximum_keys. */
  uint32_t workers;
  /** The longest key that is accepted, in bytes, 1 to NOCTER_KEYED_MAXIMUM_KEY_SIZE. Short keys are quicker, and for a
      long one its room is reserved for every key: memory that is touched only where a long key comes to lie. */
  uint32_t maximum_key_size;
  /** Woken when a key may be accepted after NOCTER_SATURATED, when the queue is closed, and when it is drained. */
  nocter_notifier waiters;
  /** Woken when a claim that found nothing may find something, and when nocter_keyed_next_due() came nearer after one.
      */
  nocter_notifier work;
  /** How often a wait looks again before it yields its core; 0: the default; NOCTER_WAIT_NONE: never. */
  uint32_t wait_spins;
  /** How often a wait yields its core before it sleeps; 0: the default; NOCTER_WAIT_NONE: never. */
  uint32_t wait_yields;
  /** How long a key waits after its first failure when nocter_pass_retry_after() leaves that to the queue; at least 0.
      */
  int64_t backoff_initial_ns;
  /** How long it waits at most, however often it failed; at least backoff_initial_ns. */
  int64_t backoff_maximum_ns;
  /** How much longer it waits after each further failure, in percent of the wait before: 100 to 10000; 200 doubles it.
      */
  uint32_t backoff_percent;
  /** How much of the wait is left to chance, in percent, 0 to 100: so many keys that failed at once do not come back at
      once. */
  uint32_t backoff_jitter_percent;
} nocter_keyed_options;

#ifndef NOCTER_BINDINGS
/** The same as nocter_keyed_options_init(): 1024 keys of up to 256 bytes, 2 workers, nobody told; backoff from 10
    milliseconds, doubling, to a minute, less up to a tenth. */
#define NOCTER_KEYED_OPTIONS_INIT                                                                                    \
  {                                                                                                                  \
    sizeof(nocter_keyed_options), 1024, 2, 256, {NULL, NULL, NULL}, {NULL, NULL, NULL}, 0, 0, 10000000, 60000000000, \
        200, 10                                                                                                      \
  }
#endif

/**
 * @brief Fills in the defaults: 1024 keys of up to 256 bytes, 2 workers, nobody told; backoff from 10 milliseconds,
 *        doubling, to a minute, less up to a tenth.
 * @param[out] options what to fill; NULL does nothing.
 * @param size sizeof(nocter_keyed_options) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_keyed_options_init(nocter_keyed_options *options, size_t size);

/**
 * @brief Makes a queue, with all the memory it will ever need.
 * @param options what it is made of; its notifiers become the queue's when the call succeeds.
 * @param[out] out the queue, to be given up with nocter_keyed_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_MEMORY.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_create(const nocter_keyed_options *options, nocter_keyed **out);

/**
 * @brief Says that a key is due: a pass of it will start after this call began. Never waits, never allocates, never
 *        runs a pass.
 *
 * A delayed key becomes due at once. A key whose pass runs now gets one more pass, behind all that wait when that one
 * ends.
 * @param keyed the queue.
 * @param key the key, copied; any bytes, also none.
 * @return NOCTER_OK: a further pass was asked for; NOCTER_COALESCED: one was due already and will serve both;
 *         NOCTER_SATURATED: a new key, and maximum_keys are retained: nothing was kept; NOCTER_CLOSED; NOCTER_E_LIMIT:
 *         longer than maximum_key_size; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread, also inside a pass.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_notify(nocter_keyed *keyed, nocter_text key);

/**
 * @brief Says that a key will be due: it holds its place meanwhile. The earliest time that was asked for wins.
 *
 * A key that waits stays where it is. A key whose pass runs now is due again at that time, or when the pass has ended.
 * @param keyed the queue.
 * @param key the key, copied.
 * @param delay_ns how long from now, in nanoseconds, at least 0; 0 is nocter_keyed_notify().
 * @return NOCTER_OK, and all else, as nocter_keyed_notify() says it.
 * @par Threads any thread, also inside a pass.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_notify_after(nocter_keyed *keyed, nocter_text key,
                                                                    int64_t delay_ns);

/**
 * @brief nocter_keyed_notify() for many keys, in order, with one wake.
 * @param keyed the queue.
 * @param keys the keys, copied.
 * @param count how many; 0 does nothing.
 * @param[out] out_each what nocter_keyed_notify() would have said to each; NULL when nobody asks. Zero on an error.
 * @return NOCTER_OK: each was accepted or coalesced; NOCTER_SATURATED: at least one was refused because the queue was
 *         full; NOCTER_CLOSED: at least one was refused because it was closed. An error changes nothing:
 *         NOCTER_E_LIMIT: one is longer than maximum_key_size; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread, also inside a pass.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_notify_many(nocter_keyed *keyed, const nocter_text *keys,
                                                                   size_t count, nocter_status *out_each);

/**
 * @brief Takes the key that has waited longest to make a pass of it.
 * @param keyed the queue.
 * @param wait how long to wait for one; NULL: do not wait.
 * @param[out] out the guard, to be ended with nocter_pass_complete(), nocter_pass_fail(), nocter_pass_retry_after() or
 *             nocter_pass_drop(); NULL unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_EMPTY: nothing due or as many passes as workers run, and no wait was given; NOCTER_TIMEOUT;
 *         NOCTER_INTERRUPTED; NOCTER_CLOSED: no pass will come any more, which while the queue drains is certain once
 *         no key is retained; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK: this
 *         thread runs a pass of this queue and holds its last worker slot.
 * @par Threads any thread; may wait. May call the source of nocter_keyed_resync().
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_claim(nocter_keyed *keyed, const nocter_wait *wait,
                                                             nocter_pass **out);

/**
 * @brief Which key this pass is of.
 * @param pass the guard.
 * @return the key: the guard's, valid until the guard is consumed; empty for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API nocter_text nocter_pass_key(const nocter_pass *pass);

/**
 * @brief How often in a row this key has failed while it was retained: a pass that ends well, or a key that goes, ends
 *        the row.
 * @param pass the guard.
 * @return the failures before this pass; 0 for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API uint32_t nocter_pass_failures(const nocter_pass *pass);

/**
 * @brief Whether the queue was closed with NOCTER_CLOSE_DISCARD: stop early if you can.
 * @param pass the guard.
 * @return true once it was; false for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API bool nocter_pass_interrupted(const nocter_pass *pass);

/**
 * @brief An interrupt that is raised when that happens, to carry in the waits the pass makes.
 * @param pass the guard.
 * @return the interrupt: the guard's, valid until the guard is consumed. Raising, clearing or destroying it by hand
 *         does nothing. NULL for NULL or a consumed guard.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API nocter_interrupt *nocter_pass_interrupt(nocter_pass *pass);

/**
 * @brief Ends the pass well. The key is gone, unless it was notified meanwhile: then it waits again, behind all others.
 * @param pass consumed when the call says NOCTER_OK.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT, also for a guard that was consumed; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_pass_complete(nocter_pass *pass);

/**
 * @brief Ends the pass as failed: as nocter_pass_complete(), and counted. The queue retries nothing by itself.
 * @param pass consumed when the call says NOCTER_OK.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT, also for a guard that was consumed; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_pass_fail(nocter_pass *pass);

/**
 * @brief Ends the pass as failed, with the key kept and due again later.
 *
 * A key that was notified meanwhile waits at once all the same. After nocter_keyed_close() this is nocter_pass_fail().
 * @param pass consumed when the call says NOCTER_OK.
 * @param delay_ns how long from now; negative: backoff by the options and the failures in a row, with this one.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT, also for a guard that was consumed; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_pass_retry_after(nocter_pass *pass, int64_t delay_ns);

/**
 * @brief Gives the pass up: nocter_pass_fail().
 * @param pass consumed; NULL does nothing.
 * @par Threads owner only; also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_pass_drop(nocter_pass *pass);

/**
 * @brief Where the keys of all things there are can be had again, one after the other.
 *
 * It is asked by the threads that claim, one at a time, outside of every lock, so it may wait, though the claim waits
 * with it. Where the next key is found is its own affair, kept behind `user`. Inside it this queue is as inside a
 * notifier: queries work, calls that return a status are NOCTER_E_REENTRANT.
 */
typedef struct nocter_keyed_source {
  /** Puts the next key into *out_key, valid until it is called again or dropped, and says NOCTER_OK; says NOCTER_EMPTY
      after the last one, and begins anew when it is called after that. Anything else, or a C++ exception: this slice
      ends. */
  nocter_status (*next)(void *user, nocter_text *out_key);
  /** May be NULL; called once, when the queue lets go of the source. */
  void (*drop)(void *user);
  /** Passed to both. */
  void *user;
} nocter_keyed_source;

/**
 * @brief Notifies every key there is again and again, a slice at a time, so that what was missed or refused is found.
 *
 * The first slice is due at once, each further one interval_ns after the one before; a thread that claims asks for it.
 * A slice ends after so many keys, at the end of a round, or when the queue is full: the key that found no place is
 * offered first next time. Each key is notified as by nocter_keyed_notify() and counted there too. A second call puts
 * another source in place of the first.
 * @param keyed the queue.
 * @param source copied, and the queue's when the call says NOCTER_OK; NULL: no more of this.
 * @param interval_ns how long between slices, at least 1; not looked at without a source.
 * @param slice how many keys at most, at least 1; not looked at without a source.
 * @return NOCTER_OK; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_resync(nocter_keyed *keyed, const nocter_keyed_source *source,
                                                              int64_t interval_ns, uint32_t slice);

/**
 * @brief When a delayed key or a slice of nocter_keyed_resync() will be due, for hosts that claim without waiting.
 *
 * While a thread waits in nocter_keyed_claim(), or serves, the queue keeps the time itself. A host whose event loop
 * claims without waiting sets a timer of its own to this and claims when it fires; the `work` notifier says when to ask
 * again.
 * @param keyed the queue.
 * @param[out] out_due_ns a deadline as in nocter_wait; perhaps in the past; never later than the first that is due, and
 *             earlier only where a time was given up since. 0 unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_EMPTY: nothing waits for a time; NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_next_due(const nocter_keyed *keyed, int64_t *out_due_ns);

/** What becomes of the keys that wait when a queue is closed; a parameter that holds one is nocter_close_mode. */
enum nocter_close_mode_code {
  /** They are discarded, with the notifications that came during a pass, and passes that run are interrupted. */
  NOCTER_CLOSE_DISCARD = 1,
  /** Each still gets its pass: delayed ones at once, and none is retried. */
  NOCTER_CLOSE_DRAIN = 2
};
/** One of enum nocter_close_mode_code; any other number is NOCTER_CLOSE_DISCARD. */
typedef int32_t nocter_close_mode;

/**
 * @brief Refuses further notifications for good, and ends resync. Returns at once; nocter_keyed_drained() tells when
 *        all has ended.
 *
 * A queue that drains may be closed again with NOCTER_CLOSE_DISCARD; every other second call does nothing.
 * @param keyed the queue; NULL does nothing.
 * @param mode what becomes of what waits.
 * @par Threads any thread, also inside a pass and in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_keyed_close(nocter_keyed *keyed, nocter_close_mode mode);

/**
 * @brief Waits until a queue that was closed retains no key, runs no pass, and calls no source.
 * @param keyed the queue.
 * @param wait how long; NULL: do not wait.
 * @return NOCTER_OK; NOCTER_PENDING: not yet and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED;
 *         NOCTER_E_STATE: it was not closed; NOCTER_E_ARGUMENT; NOCTER_E_REENTRANT; NOCTER_E_FORKED;
 *         NOCTER_E_WOULD_DEADLOCK: this thread runs a pass of this queue.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_drained(nocter_keyed *keyed, const nocter_wait *wait);

/**
 * @brief A snapshot taken in one moment, and the totals since creation. What notifications do without a lock while it is
 *        taken, coalesced, dirty and marked_dirty, may be a moment younger than the rest.
 *
 * Notifications = accepted_new + coalesced + marked_dirty + rejected_full + rejected_closed; started = completed +
 * failed + active; accepted_new + requeued + retried = started + waiting + delayed + discarded_waiting; marked_dirty =
 * requeued + dirty + discarded_dirty; retained = waiting + delayed + active.
 */
typedef struct nocter_keyed_counts {
  /** sizeof(nocter_keyed_counts), set by the caller. */
  uint32_t size;
  /** 1 until closed, then 0. */
  uint32_t accepting;
  /** Keys that are due and have no pass yet. */
  uint32_t waiting;
  /** Keys that will be due. */
  uint32_t delayed;
  /** Keys whose pass runs. */
  uint32_t active;
  /** Those of them that will have a further pass, now or later. */
  uint32_t dirty;
  /** Keys that hold a place: waiting, delayed or active. */
  uint32_t retained;
  /** The bound of retained. */
  uint32_t maximum_keys;
  /** The bound of active. */
  uint32_t workers;
  /** 0. */
  uint32_t reserved;
  /** Notifications of a key that was not retained, and now is. */
  uint64_t accepted_new;
  /** Notifications that said NOCTER_COALESCED. */
  uint64_t coalesced;
  /** Notifications that were the first to ask for a further pass while one ran. */
  uint64_t marked_dirty;
  /** Notifications that said NOCTER_SATURATED. */
  uint64_t rejected_full;
  /** Notifications that said NOCTER_CLOSED. */
  uint64_t rejected_closed;
  /** Passes claimed. */
  uint64_t started;
  /** Passes that ended well. */
  uint64_t completed;
  /** Passes that failed, however they said so. */
  uint64_t failed;
  /** Passes after which the key was kept because it was dirty. */
  uint64_t requeued;
  /** Passes after which it was kept because nocter_pass_retry_after() asked for that. */
  uint64_t retried;
  /** Keys that close found waiting or delayed and discarded. */
  uint64_t discarded_waiting;
  /** Further passes that close discarded. */
  uint64_t discarded_dirty;
  /** Keys that the source of nocter_keyed_resync() gave. */
  uint64_t resync_keys;
  /** How often it said that there are no more. */
  uint64_t resync_rounds;
  /** How often it said something else, or gave a key that is too long, so that its slice ended. */
  uint64_t resync_failures;
  /** C++ exceptions swallowed out of notifiers, drop functions, sources and served functions. */
  uint64_t exceptions;
  /** How long the key that is claimed next has waited, in nanoseconds, to the kernel's tick; 0: none waits. */
  int64_t oldest_waiting_ns;
  /** How long the longest pass has run, in nanoseconds, to the kernel's tick; 0: none runs. */
  int64_t longest_active_ns;
} nocter_keyed_counts;

#ifndef NOCTER_BINDINGS
/** Ready to be passed to nocter_keyed_count(). */
#define NOCTER_KEYED_COUNTS_INIT \
  { sizeof(nocter_keyed_counts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#endif

/**
 * @brief Zeroes it and sets its size.
 * @param[out] counts what to fill; NULL does nothing.
 * @param size sizeof(nocter_keyed_counts) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_keyed_counts_init(nocter_keyed_counts *counts, size_t size);

/**
 * @brief Takes the snapshot.
 * @param keyed the queue.
 * @param[in,out] out its size member says how much the caller knows; the rest is filled in. Unchanged on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_count(const nocter_keyed *keyed, nocter_keyed_counts *out);

/**
 * @brief Closes the queue, discarding what waits, and gives it up. Returns at once.
 *
 * Threads that wait in it return NOCTER_CLOSED; guards that are out stay valid; the last of them frees it.
 * @param keyed the queue; NULL does nothing.
 * @par Threads any thread, also in a notifier; no other call on it may start after this one.
 * @since 0.1
 */
NOCTER_API void nocter_keyed_destroy(nocter_keyed *keyed);

/**
 * @brief Makes one pass.
 *
 * The pass is lent to it for the length of the call: to ask for its failures and its interrupt, and to end it early, on
 * this thread, with nocter_pass_complete(), nocter_pass_fail(), nocter_pass_retry_after() or nocter_pass_drop().
 * Otherwise NOCTER_OK ends the pass well, and anything else, a C++ exception or a forced unwinding ends it as failed.
 */
typedef nocter_status (*nocter_keyed_fn)(void *user, nocter_text key, nocter_pass *pass);

/**
 * @brief Starts threads of the library's that claim and make passes until the queue is closed and empty or they are
 *        stopped.
 * @param keyed the queue; it lives on until the threads have ended.
 * @param run makes one pass, on any of the threads, several at once.
 * @param user passed to run; may be NULL; must live until the workers are stopped.
 * @param options how the threads are made; NULL: the defaults.
 * @param[out] out the workers, to be given up with nocter_workers_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_CLOSED: closed with NOCTER_CLOSE_DISCARD; NOCTER_E_MEMORY when a thread cannot be made;
 *         NOCTER_E_STATE when a start hook failed with a positive status, else that hook's own; NOCTER_E_ARGUMENT;
 *         NOCTER_E_REENTRANT; NOCTER_E_FORKED. After any but NOCTER_OK no thread is left.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_keyed_serve(nocter_keyed *keyed, nocter_keyed_fn run, void *user,
                                                             const nocter_workers_options *options,
                                                             nocter_workers **out);

#ifdef __cplusplus
}
#endif
#endif
