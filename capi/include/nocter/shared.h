/**
 * @file nocter/shared.h
 * @brief What several tasks or processes agree on: values, leased locks, and the log of what happened.
 */
#ifndef NOCTER_SHARED_H
#define NOCTER_SHARED_H

#include <nocter/task_store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Shared values ------------------------------------------------------------------------------------- */

/** One of several values. */
typedef struct nocter_shared_value {
  /** Its key. */
  nocter_text key;
  /** JSON. */
  nocter_text value;
} nocter_shared_value;

/** Values that a call handed out together. */
typedef struct nocter_value_list {
  /** The values, by key; they end with the list. */
  const nocter_shared_value *values;
  /** How many. */
  size_t count;
  /** The library's. */
  void *memory;
} nocter_value_list;

/**
 * @brief Frees a list and its values, and zeroes it.
 * @param list from a call that says so; NULL, or a zeroed one, does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_value_list_free(nocter_value_list *list);

/**
 * @brief Writes a value if there is none: of all who try, anywhere, one succeeds.
 * @param tasks the store.
 * @param scope whose value: the text of a root's identity, then it is purged with the tree, or any name; 1 to 255 bytes.
 * @param key its name, 1 to 255 bytes.
 * @param value JSON.
 * @param[out] out_existing after NOCTER_EXISTS, the value there is, to be freed with nocter_value_free(); else NULL. May be NULL.
 * @return NOCTER_OK; NOCTER_EXISTS; NOCTER_E_JSON; NOCTER_E_LIMIT; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE;
 *         NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_shared_put_if_absent(nocter_tasks *tasks, nocter_text scope,
                                                                      nocter_text key, nocter_text value,
                                                                      nocter_value **out_existing);

/**
 * @brief Writes a value, whether there was one or not.
 * @param tasks the store.
 * @param scope whose value.
 * @param key its name.
 * @param value JSON.
 * @return NOCTER_OK; else as nocter_shared_put_if_absent(), but never NOCTER_EXISTS.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_shared_put(nocter_tasks *tasks, nocter_text scope, nocter_text key,
                                                            nocter_text value);

/**
 * @brief Reads a value.
 * @param tasks the store.
 * @param scope whose value.
 * @param key its name.
 * @param[out] out the value, to be freed with nocter_value_free(); NULL unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_EMPTY when there is none; NOCTER_CLOSED; NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE;
 *         NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_shared_get(nocter_tasks *tasks, nocter_text scope, nocter_text key,
                                                            nocter_value **out);

/**
 * @brief Reads all values of a scope.
 * @param tasks the store.
 * @param scope whose values.
 * @param[out] out the values, to be freed with nocter_value_list_free(); empty on failure.
 * @return NOCTER_OK; else as nocter_shared_get(), with NOCTER_OK when there are none.
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_shared_all(nocter_tasks *tasks, nocter_text scope,
                                                            nocter_value_list *out);

/**
 * @brief Removes all values of a scope.
 * @param tasks the store.
 * @param scope whose values.
 * @return NOCTER_OK; else as nocter_shared_put().
 * @par Threads any thread; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_shared_clear(nocter_tasks *tasks, nocter_text scope);

/* ---- Locks --------------------------------------------------------------------------------------------- */

/** A guard: a lock that is held until it is released or its lease ends. */
typedef struct nocter_lock nocter_lock;

/**
 * @brief Takes a lock, which one owner at a time has, on whatever machine.
 * @param tasks the store.
 * @param name the lock's name, 1 to 255 bytes.
 * @param lease_ms how long it is held unless it is renewed; at least 1.
 * @param wait how long to wait for it; NULL: do not wait.
 * @param[out] out the guard, to be ended with nocter_lock_release(); NULL unless NOCTER_OK.
 * @return NOCTER_OK; NOCTER_HELD when it is another's and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED; NOCTER_CLOSED;
 *         NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_lock_acquire(nocter_tasks *tasks, nocter_text name, int64_t lease_ms,
                                                              const nocter_wait *wait, nocter_lock **out);

/**
 * @brief A number that is greater than that of every acquisition of the name before, for ever: hand it to what the lock guards.
 * @param lock the guard; NULL: 0.
 * @return the fence.
 * @par Threads owner only.
 * @since 0.1
 */
NOCTER_API uint64_t nocter_lock_fence(const nocter_lock *lock);

/**
 * @brief Holds it for longer.
 * @param lock the guard.
 * @param lease_ms how long from now; at least 1.
 * @return NOCTER_OK; NOCTER_E_LEASE_LOST when its lease had ended: release it all the same; NOCTER_CLOSED; NOCTER_E_ARGUMENT;
 *         NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_lock_renew(nocter_lock *lock, int64_t lease_ms);

/**
 * @brief Gives it up, and frees the guard, whatever it says; harmless when another has the lock by now.
 * @param lock the guard; NULL does nothing and says NOCTER_OK.
 * @return NOCTER_OK; NOCTER_E_LEASE_LOST when its lease had ended before; NOCTER_CLOSED; NOCTER_E_ARGUMENT when it is no live guard;
 *         NOCTER_E_STORE and NOCTER_E_UNAVAILABLE: it ends with its lease; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads owner only; may wait for the disk.
 * @since 0.1
 */
NOCTER_API nocter_status nocter_lock_release(nocter_lock *lock);

/* ---- Events -------------------------------------------------------------------------------------------- */

/** What happened to a task; fields that hold one are nocter_event_kind. */
enum nocter_event_kind_code {
  /** It was submitted. */
  NOCTER_EVENT_SUBMITTED = 1,
  /** A round was claimed. */
  NOCTER_EVENT_STARTED = 2,
  /** Its worker wrote its state. */
  NOCTER_EVENT_STATE = 3,
  /** It was parked. */
  NOCTER_EVENT_SUSPENDED = 4,
  /** It was queued again, for what it waited for, a message or a time. */
  NOCTER_EVENT_WOKEN = 5,
  /** A message was sent to it. */
  NOCTER_EVENT_MESSAGE = 6,
  /** A try failed, and another follows. */
  NOCTER_EVENT_RETRIED = 7,
  /** Its worker was lost. */
  NOCTER_EVENT_RESCUED = 8,
  /** Its worker stopped in an orderly way. */
  NOCTER_EVENT_HANDED_BACK = 9,
  /** It runs, and was asked to end. */
  NOCTER_EVENT_CANCEL_REQUESTED = 10,
  /** It ended; its status says how. */
  NOCTER_EVENT_ENDED = 11
};
/** One of enum nocter_event_kind_code. */
typedef int32_t nocter_event_kind;

/** One event. */
typedef struct nocter_event {
  /** Its place: each one is one more than the one before. */
  uint64_t sequence;
  /** When. */
  int64_t at_ms;
  /** The task. */
  nocter_task_id task;
  /** What happened. */
  nocter_event_kind kind;
  /** Where the task stood after it. */
  nocter_task_status status;
  /** Which try. */
  uint32_t attempt;
  /** 0. */
  uint32_t reserved;
  /** The task's type. */
  nocter_text type;
  /** JSON: the new state, or what it ended with; else empty. */
  nocter_text data;
} nocter_event;

/** Events that a call handed out together. */
typedef struct nocter_event_list {
  /** The events, in order; they end with the list. */
  const nocter_event *const *events;
  /** How many. */
  size_t count;
  /** The library's. */
  void *memory;
} nocter_event_list;

/**
 * @brief Frees a list and its events, and zeroes it.
 * @param list from a call that says so; NULL, or a zeroed one, does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_event_list_free(nocter_event_list *list);

/**
 * @brief Reads the log from a point on, and waits for more when it is at its end.
 * @param tasks the store, opened with NOCTER_TASKS_EVENTS by whoever makes the events.
 * @param after the sequence of the last event seen; 0: from the beginning, or from what retention has left.
 * @param max how many at most, 1 to 10,000.
 * @param wait how long to wait for the first; NULL: do not wait.
 * @param[out] out the events, to be freed with nocter_event_list_free(); empty on failure.
 * @return NOCTER_OK with at least one; NOCTER_EMPTY: none yet and no wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED; NOCTER_CLOSED;
 *         NOCTER_E_ARGUMENT; NOCTER_E_STORE; NOCTER_E_UNAVAILABLE; NOCTER_E_MEMORY; NOCTER_E_FORKED.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_events_read(nocter_tasks *tasks, uint64_t after, size_t max,
                                                             const nocter_wait *wait, nocter_event_list *out);

#ifdef __cplusplus
}
#endif
#endif
