/**
 * @file nocter/task_store.h
 * @brief Durable tasks, from outside: opening a store, submitting, looking, telling, upkeep.
 *
 * The store decides how far that reaches: "memory:" lives as long as the handle, "sqlite:PATH" as long as the file, and processes of
 * one machine may share it; processes of many may share a "postgresql://..." database. The same program runs on each. A worker's side
 * is in runs.h; values, locks and events that tasks share in shared.h.
 */
#ifndef NOCTER_TASK_STORE_H
#define NOCTER_TASK_STORE_H

#include <nocter/base.h>
#include <nocter/task_records.h>
#include <nocter/workers.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An open store of tasks. */
typedef struct nocter_tasks nocter_tasks;

/* ---- Opening ------------------------------------------------------------------------------------------- */

/** How serious a line of the log is; parameters that hold one are int32_t. */
enum nocter_log_level {
  /** Something works worse than it should, and goes on. */
  NOCTER_LOG_WARNING = 1,
  /** Worth knowing: opened, rescued, purged. */
  NOCTER_LOG_INFORMATION = 2
};

/** In options.flags: commits do not wait for the disk. A power cut may undo the last ones; a kill undoes none. */
#define NOCTER_TASKS_NORMAL_SYNC 1
/** In options.flags: every transition is kept as an event, see nocter_events_read(). */
#define NOCTER_TASKS_EVENTS 2
/** In options.flags: no thread of the library's: nocter_tasks_maintain() and nocter_run_heartbeat() do what it would. */
#define NOCTER_TASKS_BY_HAND 4
/** In options.flags: the whole database is read first, and damage is NOCTER_E_STORE (SQLite: quick_check; a second or so a gigabyte). */
#define NOCTER_TASKS_CHECK 8

/** How a store is opened. Every member may be zero: the default is meant. */
typedef struct nocter_tasks_options {
  /** sizeof(nocter_tasks_options). */
  uint32_t size;
  /** NOCTER_TASKS_NORMAL_SYNC, NOCTER_TASKS_EVENTS, NOCTER_TASKS_BY_HAND, NOCTER_TASKS_CHECK. */
  uint32_t flags;
  /** What people call this process, 255 bytes at most; empty: the host's name and the process id. */
  nocter_text node;
  /** How long the store waits for a process that gives no sign before others run its tasks; 15,000. At least 100. */
  int64_t lease_ms;
  /** How long ended trees are kept, in milliseconds; 0: for ever. */
  int64_t retention_ms;
  /** How long events are kept, in milliseconds; 0: for ever. */
  int64_t event_retention_ms;
  /** The longest payload, result, state, step or shared value, in bytes; 1 MiB. */
  uint64_t maximum_json;
  /** The longest message, in bytes; 64 KiB. */
  uint64_t maximum_message;
  /** Messages in one mailbox; 10,000. */
  uint64_t maximum_mailbox;
  /** Bytes in one mailbox; 8 MiB. */
  uint64_t maximum_mailbox_bytes;
  /** Children of one task, and tasks one task may wait for; 1,000,000. */
  uint64_t maximum_children;
  /** Workers that one task may lose before it fails; 3. */
  uint32_t maximum_rescues;
  /** Delay after the first failed try in milliseconds; doubled each time, and a random part of it is taken; 200. */
  uint32_t retry_base_ms;
  /** The longest such delay; 300,000. */
  uint32_t retry_cap_ms;
  /** How often one look at the store stands in for a wake that was lost; 1,000. */
  uint32_t poll_ms;
  /** The clock of the store; NULL: the system's, of PostgreSQL the database's. */
  nocter_clock *clock;
  /** Told what is worth a line, from any thread, with no lock held; may be NULL. Control characters are escaped. */
  void (*log)(void *user, int32_t level, nocter_text line);
  /** Ends log_user; called once when the store lets go of it; may be NULL. */
  void (*log_drop)(void *user);
  /** Passed to both. */
  void *log_user;
} nocter_tasks_options;

#ifndef NOCTER_BINDINGS
/** The same as nocter_tasks_options_init(): every default. */
#define NOCTER_TASKS_OPTIONS_INIT \
  { sizeof(nocter_tasks_options), 0, {NULL, 0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL }
#endif

/**
 * @brief Fills in the defaults: zero everywhere.
 * @param[out] options what to fill; NULL does nothing.
 * @param size sizeof(nocter_tasks_options) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_tasks_options_init(nocter_tasks_options *options, size_t size);

/**
 * @brief Opens a store, and makes or brings up to date what it needs.
 * @param url "memory:"; "sqlite:" and the path of a file (a path, never a URI), which is made if there is none; or a connection URL of
 *        PostgreSQL's, "postgresql://user@host/database", where a schema "nocter" is made.
 * @param options how; NULL: the defaults. Its log becomes the store's when the call succeeds.
 * @param[out] out the store, to be given up with nocter_tasks_close(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_VERSION when the file is of a newer nocter or of somebody else, which is left as it
 *         is; NOCTER_E_STORE when it cannot be read or written, is damaged, lies on a network file system, or another copy of
 *         SQLite is loaded; NOCTER_E_UNAVAILABLE when others keep it busy, or a server cannot be reached; NOCTER_E_MEMORY.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_open(nocter_text url, const nocter_tasks_options *options,
                                                            nocter_tasks **out);

/**
 * @brief Gives the store up: waits end with NOCTER_CLOSED, interrupts of runs are raised, what this process had claimed and did not
 *        end is handed back without costing a try. Runs that are out stay yours to be dropped.
 * @param tasks the store; NULL does nothing.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API void nocter_tasks_close(nocter_tasks *tasks);

/* ---- Submitting ---------------------------------------------------------------------------------------- */

/** In submission.flags: `priority` is taken as it stands; else a child's is its parent's plus one. */
#define NOCTER_SUBMIT_PRIORITY 1

/** A task to be made. Texts are copied. */
typedef struct nocter_submission {
  /** sizeof(nocter_submission). */
  uint32_t size;
  /** Claimed sooner when higher; a root's own, 0 by default. */
  int32_t priority;
  /** What sort of work it is: 1 to 255 bytes of UTF-8 without control characters. */
  nocter_text type;
  /** JSON; empty means {}. */
  nocter_text payload;
  /** Empty: none; else up to 255 bytes like a type. */
  nocter_text key;
  /** Where the key is the only one of its name. */
  nocter_key_scope key_scope;
  /** 0 or NOCTER_SUBMIT_PRIORITY. */
  uint32_t flags;
  /** Its parent; none: a root. */
  nocter_task_id parent;
  /** Unix time in ms before which it is not run; 0: now. */
  int64_t run_after_ms;
  /** Failed tries of one round before it fails; 0 means 1. */
  uint32_t max_attempts;
  /** 0. */
  uint32_t reserved;
  /** Its identity, from nocter_task_id_make(): a submit that is repeated with it makes no second task. None: made here. */
  nocter_task_id id;
} nocter_submission;

#ifndef NOCTER_BINDINGS
/** The same as nocter_submission_init(): a root without payload and key. */
#define NOCTER_SUBMISSION_INIT                                                             \
  {                                                                                        \
    sizeof(nocter_submission), 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, 0, 0, {{0}}, 0, 0, 0, { \
      { 0 }                                                                                \
    }                                                                                      \
  }
#endif

/**
 * @brief Fills in the defaults: a root without payload and key.
 * @param[out] submission what to fill; NULL does nothing.
 * @param size sizeof(nocter_submission) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_submission_init(nocter_submission *submission, size_t size);

/**
 * @brief Makes tasks, all or none. When it returns they are kept as surely as the store keeps anything.
 * @param tasks the store.
 * @param submissions what to make; the first may be the parent of a later one.
 * @param count how many, 1 to 100,000.
 * @param[out] out_ids room for as many: what each is named; after NOCTER_EXISTS, the one that has the key. May be NULL.
 * @return NOCTER_OK; NOCTER_EXISTS when one or more keys were taken: the others were made all the same; NOCTER_CANCELLED when a parent
 *         is cancelled, and NOCTER_E_STATE when it has ended otherwise or an id is another task's; NOCTER_E_UNKNOWN: no such parent;
 *         NOCTER_E_JSON; NOCTER_E_LIMIT; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY;
 *         NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_submit(nocter_tasks *tasks, const nocter_submission *submissions,
                                                              size_t count, nocter_task_id *out_ids);

/* ---- Looking ------------------------------------------------------------------------------------------- */

/**
 * @brief The record of a task.
 * @param tasks the store.
 * @param id which.
 * @param[out] out the record, to be freed with nocter_task_free(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_UNKNOWN; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY;
 *         NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_get(nocter_tasks *tasks, nocter_task_id id,
                                                           const nocter_task **out);

/**
 * @brief The children of a task, ended ones too, in the order of their identities.
 * @param tasks the store.
 * @param id which.
 * @param[out] out the records, to be freed with nocter_task_list_free(); empty on failure.
 * @return NOCTER_OK; else as nocter_tasks_get().
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_children(nocter_tasks *tasks, nocter_task_id id,
                                                                nocter_task_list *out);

/** Which tasks to list. Every member may be zero: it excludes nothing. */
typedef struct nocter_task_filter {
  /** sizeof(nocter_task_filter). */
  uint32_t size;
  /** Only those that stand there; 0: anywhere. */
  nocter_task_status status;
  /** Only those of this type. */
  nocter_text type;
  /** Only children of this task. */
  nocter_task_id parent;
  /** Only members of this tree. */
  nocter_task_id root;
  /** Only those with a later identity: the last one of the page before. */
  nocter_task_id after;
  /** Only those submitted before, Unix time in ms. */
  int64_t created_before_ms;
  /** At most so many, up to 10,000; 0: 100. */
  uint32_t limit;
  /** 1: only tasks without a parent. */
  uint32_t roots_only;
} nocter_task_filter;

#ifndef NOCTER_BINDINGS
/** The same as nocter_task_filter_init(): the first hundred of all. */
#define NOCTER_TASK_FILTER_INIT \
  { sizeof(nocter_task_filter), 0, {NULL, 0}, {{0}}, {{0}}, {{0}}, 0, 0, 0 }
#endif

/**
 * @brief Fills in the defaults: the first hundred of all.
 * @param[out] filter what to fill; NULL does nothing.
 * @param size sizeof(nocter_task_filter) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_task_filter_init(nocter_task_filter *filter, size_t size);

/**
 * @brief Tasks, in the order of their identities: of the time at which they were made.
 * @param tasks the store.
 * @param filter which; NULL: the first hundred of all.
 * @param[out] out the records, to be freed with nocter_task_list_free(); empty on failure.
 * @return NOCTER_OK; else as nocter_tasks_get(), but never NOCTER_E_UNKNOWN.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_list(nocter_tasks *tasks, const nocter_task_filter *filter,
                                                            nocter_task_list *out);

/**
 * @brief Waits until a task has ended, wherever it runs.
 * @param tasks the store.
 * @param id which.
 * @param wait how long; NULL: do not wait.
 * @param[out] out its record, to be freed with nocter_task_free(); NULL unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_PENDING; NOCTER_TIMEOUT; NOCTER_INTERRUPTED; NOCTER_CLOSED; NOCTER_E_UNKNOWN; NOCTER_E_ARGUMENT;
 *         NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED; NOCTER_E_WOULD_DEADLOCK from a thread of a serve
 *         call of this store: suspend instead.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_await(nocter_tasks *tasks, nocter_task_id id,
                                                             const nocter_wait *wait, const nocter_task **out);

/** How many there are. */
typedef struct nocter_tasks_counts {
  /** sizeof(nocter_tasks_counts). */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** Records of each status. */
  uint64_t queued;
  /** A worker has them. */
  uint64_t running;
  /** They wait, and hold no worker. */
  uint64_t suspended;
  /** Ended with a result. */
  uint64_t completed;
  /** Ended with a failure. */
  uint64_t failed;
  /** Ended by a cancel. */
  uint64_t cancelled;
  /** Of the queued ones, those that could be claimed now. */
  uint64_t ready;
  /** When the oldest of those was submitted, Unix time in ms; 0: there is none. */
  int64_t oldest_ready_ms;
  /** Workers lost, ever. */
  uint64_t rescues;
  /** Wakes that were found lost, ever: there should be none. */
  uint64_t repairs;
  /** Records removed after their retention, ever. */
  uint64_t purged;
  /** Runs that this process holds. */
  uint64_t runs;
} nocter_tasks_counts;

#ifndef NOCTER_BINDINGS
/** The same as nocter_tasks_counts_init(): its size and zeros. */
#define NOCTER_TASKS_COUNTS_INIT \
  { sizeof(nocter_tasks_counts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#endif

/**
 * @brief Zeroes counts and sets their size.
 * @param[out] counts what to fill; NULL does nothing.
 * @param size sizeof(nocter_tasks_counts) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_tasks_counts_init(nocter_tasks_counts *counts, size_t size);

/**
 * @brief Counts, seen in one moment.
 * @param tasks the store.
 * @param[in,out] out the counts; their size says how much the caller knows.
 * @return NOCTER_OK; else as nocter_tasks_list().
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_count(nocter_tasks *tasks, nocter_tasks_counts *out);

/* ---- Telling ------------------------------------------------------------------------------------------- */

/**
 * @brief Sends a message, which wakes the task if it is suspended and is handed to one round that succeeds.
 * @param tasks the store.
 * @param to the task.
 * @param from the task on whose behalf; none: from outside.
 * @param payload JSON; empty means {}.
 * @return NOCTER_OK; NOCTER_E_UNKNOWN; NOCTER_E_STATE when it has ended; NOCTER_E_LIMIT when its mailbox is full or the message too
 *         long; NOCTER_E_JSON; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY;
 *         NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_notify(nocter_tasks *tasks, nocter_task_id to,
                                                              nocter_task_id from, nocter_text payload);

/**
 * @brief Ends a task and everything below it. What waits ends at once; what runs is asked to, and ends cancelled whatever it then says.
 * @param tasks the store.
 * @param id the task.
 * @param[out] out_touched how many tasks were ended or asked; may be NULL.
 * @return NOCTER_OK: all of them will be NOCTER_TASK_CANCELLED in the end; NOCTER_E_STATE when it has ended already; NOCTER_E_UNKNOWN;
 *         NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_cancel(nocter_tasks *tasks, nocter_task_id id,
                                                              uint64_t *out_touched);

/**
 * @brief Lets a task that waits out a delay run now; of one that has failed or was cancelled, makes a new root like it.
 * @param tasks the store.
 * @param id the task.
 * @param[out] out_id the task that will run: the same, or the new one; none on failure. May be NULL.
 * @return NOCTER_OK; NOCTER_E_STATE when it is suspended, runs, or has completed; NOCTER_E_UNKNOWN; NOCTER_EXISTS when a live task
 *         has the key; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_retry(nocter_tasks *tasks, nocter_task_id id,
                                                             nocter_task_id *out_id);

/* ---- Upkeep -------------------------------------------------------------------------------------------- */

/**
 * @brief Does now what the store's thread does by itself: brings up what is due, rescues what lost workers ran, repairs lost wakes,
 *        purges what is past its retention.
 * @param tasks the store.
 * @return NOCTER_OK; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_maintain(nocter_tasks *tasks);

/**
 * @brief Removes trees of which every member ended longer ago than that, with their messages, steps and shared values.
 * @param tasks the store.
 * @param older_than_ms milliseconds; 0: everything that has ended.
 * @param[out] out_removed how many tasks; may be NULL.
 * @return NOCTER_OK; else as nocter_tasks_maintain().
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_tasks_purge(nocter_tasks *tasks, int64_t older_than_ms,
                                                             uint64_t *out_removed);

#ifdef __cplusplus
}
#endif

#endif
