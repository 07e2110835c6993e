/**
 * @file nocter/task_records.h
 * @brief What a durable task is: its identity, where it stands, its record; and the clock that tests can steer.
 *
 * Times are Unix times in milliseconds by the clock of the store. Texts that a record holds are valid until the record is
 * freed. JSON is kept byte for byte.
 */
#ifndef NOCTER_TASK_RECORDS_H
#define NOCTER_TASK_RECORDS_H

#include <nocter/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Identities ---------------------------------------------------------------------------------------- */

/**
 * @brief Which task: a UUID version 7 (RFC 9562), its 16 bytes in the order in which they are written. All zero is none.
 *
 * Compare with nocter_task_id_equal().
 */
typedef struct nocter_task_id {
  /** The bytes. */
  uint8_t bytes[16];
} nocter_task_id;

/**
 * @brief Makes an identity that nobody else has: later ones of this process are greater.
 * @return the identity; none when the system has no random bytes.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API nocter_task_id nocter_task_id_make(void);

/**
 * @brief Whether two identities are the same.
 * @param a one.
 * @param b the other.
 * @return true when equal.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API bool nocter_task_id_equal(nocter_task_id a, nocter_task_id b);

/**
 * @brief Reads an identity as it is written: 8-4-4-4-12 hexadecimal digits, of either case.
 * @param text 36 bytes.
 * @param[out] out the identity; none on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT when it is not the text of a UUID.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_task_id_parse(nocter_text text, nocter_task_id *out);

/**
 * @brief Writes an identity: 36 bytes and a NUL.
 * @param id the identity.
 * @param[out] out where to; room for 37 bytes. NULL does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_task_id_format(nocter_task_id id, char *out);

/* ---- Where a task stands ------------------------------------------------------------------------------- */

/** Where a task stands; fields and parameters that hold one are nocter_task_status. */
enum nocter_task_status_code {
  /** Waits for a worker, or for its time. */
  NOCTER_TASK_QUEUED = 1,
  /** A worker has claimed it. */
  NOCTER_TASK_RUNNING = 2,
  /** Waits for other tasks, a message or a time, and holds no worker. */
  NOCTER_TASK_SUSPENDED = 3,
  /** Ended with a result. */
  NOCTER_TASK_COMPLETED = 4,
  /** Ended with a failure. */
  NOCTER_TASK_FAILED = 5,
  /** Ended by a cancel. */
  NOCTER_TASK_CANCELLED = 6
};
/** One of enum nocter_task_status_code. */
typedef int32_t nocter_task_status;

/**
 * @brief The name of a status, for example "SUSPENDED".
 * @param status any number.
 * @return a static string, never NULL; "?" for a number that is no status.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API const char *nocter_task_status_name(nocter_task_status status);

/** Why a round was started; fields that hold one are nocter_wake. */
enum nocter_wake_code {
  /** It is the first one. */
  NOCTER_WAKE_FIRST = 1,
  /** What it waited for has ended. */
  NOCTER_WAKE_JOIN = 2,
  /** One of those it waited for failed or was cancelled. */
  NOCTER_WAKE_FAILURE = 3,
  /** A message came. */
  NOCTER_WAKE_MESSAGE = 4,
  /** Its time came. */
  NOCTER_WAKE_TIMER = 5,
  /** The last try of this round failed. */
  NOCTER_WAKE_RETRY = 6,
  /** Its worker was lost. */
  NOCTER_WAKE_RESCUE = 7
};
/** One of enum nocter_wake_code. */
typedef int32_t nocter_wake;

/** What a task suspends until; fields that hold one are nocter_until. */
enum nocter_until_code {
  /** It never suspended. */
  NOCTER_UNTIL_NOTHING = 0,
  /** Tasks that it named. */
  NOCTER_UNTIL_TASKS = 1,
  /** Its children. */
  NOCTER_UNTIL_CHILDREN = 2,
  /** A message. */
  NOCTER_UNTIL_NOTIFIED = 3
};
/** One of enum nocter_until_code. */
typedef int32_t nocter_until;

/** Where a key is the only one of its name; fields that hold one are nocter_key_scope. */
enum nocter_key_scope_code {
  /** Among the live tasks of its type. */
  NOCTER_KEY_LIVE_TYPE = 0,
  /** Among all children its parent ever had: a first round that is repeated makes no twins. */
  NOCTER_KEY_PARENT = 1,
  /** In its tree, for ever: the visited set of a crawl. */
  NOCTER_KEY_TREE = 2
};
/** One of enum nocter_key_scope_code. */
typedef int32_t nocter_key_scope;

/* ---- Records ------------------------------------------------------------------------------------------- */

/** Why a try failed. */
typedef struct nocter_task_failure {
  /** What sort of failure, for programs; empty: there was none. "WorkerLost" when the library wrote it. */
  nocter_text kind;
  /** What happened, for people. */
  nocter_text message;
  /** More of it: a trace, say. */
  nocter_text detail;
  /** Which try. */
  uint32_t attempt;
  /** 0. */
  uint32_t reserved;
  /** The name of the node it ran on. */
  nocter_text node;
  /** When. */
  int64_t at_ms;
} nocter_task_failure;

/** All there is to know of a task, as it was in one moment. */
typedef struct nocter_task {
  /** sizeof(nocter_task) as the library knows it. */
  uint32_t size;
  /** A nocter_task_status. */
  nocter_task_status status;
  /** Which task. */
  nocter_task_id id;
  /** The root of its tree; itself for a root. */
  nocter_task_id root;
  /** Its parent; none for a root. */
  nocter_task_id parent;
  /** What sort of work it is. */
  nocter_text type;
  /** Its key, or empty. */
  nocter_text key;
  /** What it was submitted with, JSON. */
  nocter_text payload;
  /** What its worker last wrote with nocter_run_update_state(), JSON; empty: nothing. */
  nocter_text state;
  /** What it ended with, JSON; empty: nothing. Of a cancelled task, what its worker reported too late. */
  nocter_text result;
  /** The last failure; its kind is empty when there was none. */
  nocter_task_failure failure;
  /** Where its key holds. */
  nocter_key_scope key_scope;
  /** Claimed sooner when higher. */
  int32_t priority;
  /** Tries of the present round, the one that runs included. */
  uint32_t attempt;
  /** Failed tries that one round may have. */
  uint32_t max_attempts;
  /** Claims in all. */
  uint32_t deliveries;
  /** Workers lost in all. */
  uint32_t rescues;
  /** Why the present or next round is made. */
  nocter_wake woken_by;
  /** 1 when it has suspended before, whether it was parked or not; else 0. */
  int32_t resumed;
  /** 1 when a cancel was committed; else 0. */
  int32_t cancel_requested;
  /** What it last suspended until. */
  nocter_until until;
  /** Grows with every claim. */
  uint64_t fence;
  /** When it was submitted. */
  int64_t created_at_ms;
  /** When it comes due, or wakes by time; 0: no such time is set. */
  int64_t due_at_ms;
  /** When it was first claimed; 0: never. */
  int64_t started_at_ms;
  /** When it ended; 0: it has not. */
  int64_t ended_at_ms;
  /** The node that runs it or ran it last; empty: none, or its process has left the store since. */
  nocter_text node;
  /** While it runs: until when its node holds it, unless it renews. */
  int64_t lease_until_ms;
  /** Children it ever had. */
  uint64_t children;
  /** Those of them that have not ended. */
  uint64_t open_children;
  /** Messages in its mailbox. */
  uint64_t messages;
  /** The open tasks of its join: all that it named, or the first 1000 children. Kept while it is woken otherwise. */
  const nocter_task_id *waiting_for;
  /** How many waiting_for lists. */
  size_t waiting_for_count;
  /** How many open ones there are in all. */
  uint64_t waiting_open;
  /** How many of them have yet to end before its join wakes it; 0: enough have, or it has no join. */
  uint64_t waiting_need;
  /** 1 when the failure or the cancel of any one of them wakes it too; else 0. */
  int32_t wake_on_failure;
  /** 0. */
  uint32_t reserved;
} nocter_task;

/**
 * @brief Frees a record.
 * @param task from a call that says so; NULL does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_task_free(const nocter_task *task);

/** Records that a call handed out together. */
typedef struct nocter_task_list {
  /** The records; they end with the list. */
  const nocter_task *const *tasks;
  /** How many. */
  size_t count;
  /** The library's. */
  void *memory;
} nocter_task_list;

/**
 * @brief Frees a list and its records, and zeroes it.
 * @param list from a call that says so; NULL, or a zeroed one, does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_task_list_free(nocter_task_list *list);

/** A message, as a round is handed it. */
typedef struct nocter_notification {
  /** The task that sent it; none: it came from outside. */
  nocter_task_id from;
  /** What it says, JSON. */
  nocter_text payload;
  /** When it was sent. */
  int64_t at_ms;
  /** 1 the first time it is handed out; more when earlier rounds died or failed. */
  uint32_t deliveries;
  /** 0. */
  uint32_t reserved;
} nocter_notification;

/* ---- Values -------------------------------------------------------------------------------------------- */

/** A value that a call handed out. */
typedef struct nocter_value nocter_value;

/**
 * @brief What a value says.
 * @param value from a call that says so; NULL: the empty text.
 * @return JSON, valid until the value is freed.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API nocter_text nocter_value_text(const nocter_value *value);

/**
 * @brief Frees a value.
 * @param value from a call that says so; NULL does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_value_free(nocter_value *value);

/* ---- The clock ----------------------------------------------------------------------------------------- */

/** A clock that stands still until it is told to go on: for tests of delays, leases and retention. */
typedef struct nocter_clock nocter_clock;

/**
 * @brief Makes a clock.
 * @param now_ms what it shows, a Unix time in milliseconds, 0 to 4,102,444,800,000 (the year 2100).
 * @param[out] out the clock, to be given up with nocter_clock_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT; NOCTER_E_MEMORY.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_clock_create(int64_t now_ms, nocter_clock **out);

/**
 * @brief Moves it, forward or back. Stores that use it look at once at what has come due.
 * @param clock the clock; NULL does nothing.
 * @param by_ms how far, in milliseconds.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_clock_advance(nocter_clock *clock, int64_t by_ms);

/**
 * @brief What it shows.
 * @param clock the clock; NULL: 0.
 * @return Unix time in milliseconds.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API int64_t nocter_clock_now_ms(const nocter_clock *clock);

/**
 * @brief Gives it up; stores that were opened with it keep it as long as they need it.
 * @param clock the clock; NULL does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_clock_destroy(nocter_clock *clock);

#ifdef __cplusplus
}
#endif
#endif
