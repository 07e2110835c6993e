/**
 * @file nocter/base.h
 * @brief What every part of nocter shares: statuses, text, owned values, waits, interrupts, notifiers, eventfd.
 *
 * Rules for all headers. A status of zero is done; a positive one is an outcome (the call worked and this is
 * what it found); a negative one is an error (the call changed nothing, nocter_error_message() says why).
 * Out-parameters come last and are NULL or zero after a failure. NULL is accepted by every destroy and drop and
 * where a comment says so; elsewhere it is NOCTER_E_ARGUMENT. Every handle may be used from any thread at once;
 * a guard (a running job, a completion) has one owner at a time and may move between threads.
 */
#ifndef NOCTER_BASE_H
#define NOCTER_BASE_H

#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

#if defined(NOCTER_BINDINGS) || !defined(__GNUC__)
#define NOCTER_API
#define NOCTER_NODISCARD
#else
/** Marks what libnocter.so exports. */
#define NOCTER_API __attribute__((visibility("default")))
/** A status that is thrown away is a lost answer: the compiler warns. */
#define NOCTER_NODISCARD __attribute__((warn_unused_result))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What a call says; one of enum nocter_status_code. */
typedef int32_t nocter_status;

/** Every status. The enum is named because some binding generators drop anonymous ones. */
enum nocter_status_code {
  /** Done. */
  NOCTER_OK = 0,
  /** Nothing to claim, or every worker slot is in use. */
  NOCTER_EMPTY = 1,
  /** It has not finished yet. */
  NOCTER_PENDING = 2,
  /** At its bound: nothing was kept, the caller still owns what it passed. */
  NOCTER_SATURATED = 3,
  /** The key was due already; one pass will serve both notifications. */
  NOCTER_COALESCED = 4,
  /** Its owner went away without a result. */
  NOCTER_WORKER_LOST = 5,
  /** The deadline of the wait passed. */
  NOCTER_TIMEOUT = 6,
  /** The interrupt of the wait was raised, or a signal handler ran. */
  NOCTER_INTERRUPTED = 7,
  /** Closed or shut down: nothing further will come. */
  NOCTER_CLOSED = 8,
  /** Put-if-absent or a unique key: somebody was first. */
  NOCTER_EXISTS = 9,
  /** The lock is held by another owner. */
  NOCTER_HELD = 10,
  /** The task was cancelled: this outcome or submit gave way to it. */
  NOCTER_CANCELLED = 11,

  /** NULL, out of range, or a struct whose size field is unknown. */
  NOCTER_E_ARGUMENT = -1,
  /** An identity, epoch or guard of another service. */
  NOCTER_E_FOREIGN = -2,
  /** No such identity here, or it was consumed already. */
  NOCTER_E_UNKNOWN = -3,
  /** The right object at the wrong moment. */
  NOCTER_E_STATE = -4,
  /** A lifecycle call from inside a notifier of the same service. */
  NOCTER_E_REENTRANT = -5,
  /** Memory, threads or descriptors are exhausted. */
  NOCTER_E_MEMORY = -6,
  /** Not UTF-8 JSON; the message says at which byte. */
  NOCTER_E_JSON = -7,
  /** Larger than a configured limit; the message says which and how much. */
  NOCTER_E_LIMIT = -8,
  /** The database refused; the message says what it said. */
  NOCTER_E_STORE = -9,
  /** The database cannot be reached now; the call may be repeated. */
  NOCTER_E_UNAVAILABLE = -10,
  /** This run no longer owns its task: another claim fenced it out. */
  NOCTER_E_LEASE_LOST = -11,
  /** The database schema is newer than this library, or not nocter's. */
  NOCTER_E_VERSION = -12,
  /** The handle was made in the parent of this process. */
  NOCTER_E_FORKED = -13,
  /** This wait could only be ended by the thread that makes it. */
  NOCTER_E_WOULD_DEADLOCK = -14,
  /** A defect of nocter: an exception stopped at the boundary. */
  NOCTER_E_INTERNAL = -15
};

/**
 * @brief The name of a status, for example "NOCTER_EMPTY".
 * @param status any number.
 * @return a static string, never NULL; "NOCTER_?" for a number that is no status.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API const char *nocter_status_name(nocter_status status);

/**
 * @brief What the last negative status on this thread meant, in words.
 * @return UTF-8 text owned by nocter, valid until this thread's next nocter call; "" when there was none; never
 *         NULL and never a secret. Set by every negative status and by nothing else.
 * @par Threads any thread; each has its own.
 * @since 0.1
 */
NOCTER_API const char *nocter_error_message(void);

/**
 * @brief The version of the loaded library, for example "0.1.0".
 * @return a static string.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API const char *nocter_version(void);

/**
 * @brief The version of the loaded library as a number: 0x000100 is 0.1.0.
 * @return (major << 16) | (minor << 8) | patch.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API uint32_t nocter_version_number(void);

/**
 * @brief A value that exactly one party owns at every moment.
 *
 * A call that takes one takes a pointer, and zeroes it when, and only when, it took the value over. What nobody
 * collects is dropped exactly once, on no lock of nocter's.
 */
typedef struct nocter_owned {
  /** Opaque to nocter; may be NULL. */
  void *data;
  /** Ends the value; may be NULL. A C++ exception out of it is swallowed and counted. */
  void (*drop)(void *data);
} nocter_owned;

/** UTF-8 bytes without a terminating NUL. Given in: the caller's. Given out: inside the object it came with. */
typedef struct nocter_text {
  /** The bytes; may be NULL when size is 0. */
  const char *data;
  /** How many. */
  size_t size;
} nocter_text;

/**
 * @brief Makes a text of a C string.
 * @param string NUL-terminated, or NULL for the empty text; it must outlive the text.
 * @return a view of it.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API nocter_text nocter_text_of(const char *string);

/**
 * @brief A service's position in time: it advances whenever an occupied slot of that service became free.
 *
 * Opaque; compare with nocter_epoch_equal() only. Zero is no epoch.
 */
typedef struct nocter_epoch {
  /** Which service issued it. */
  uint64_t service;
  /** Its place in that service's order. */
  uint64_t sequence;
} nocter_epoch;

/**
 * @brief Whether two epochs are the same moment of the same service.
 * @param a one.
 * @param b the other.
 * @return true when equal.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API bool nocter_epoch_equal(nocter_epoch a, nocter_epoch b);

/* ---- Waiting ------------------------------------------------------------------------------------------- */

/** A flag that ends every wait that carries it. */
typedef struct nocter_interrupt nocter_interrupt;

/** A deadline that never comes. */
#define NOCTER_FOREVER (-1)
/** In the options wait_spins and wait_yields of a service: none at all. */
#define NOCTER_WAIT_NONE 4294967295
/** In nocter_wait.flags: return NOCTER_INTERRUPTED once a signal handler ran on the waiting thread. */
#define NOCTER_WAIT_EINTR 1
/** In the wait_spins and wait_yields of a service's options: none at all. */
#define NOCTER_WAIT_NONE 4294967295

/**
 * @brief How long a call may wait, and what ends the wait early. A NULL pointer to one means: do not wait.
 *
 * Several ends at once are reported in this order: closed, changed, interrupted, timed out. A deadline in the
 * past makes the call a poll. With NOCTER_WAIT_EINTR and an interrupt together, a handler installed with
 * SA_RESTART does not end the wait (the kernel restarts it); without an interrupt it does.
 */
typedef struct nocter_wait {
  /** On CLOCK_MONOTONIC, in nanoseconds; NOCTER_FOREVER for none. */
  int64_t deadline_ns;
  /** May be NULL; must outlive the wait. */
  nocter_interrupt *interrupt;
  /** 0 or NOCTER_WAIT_EINTR. */
  uint32_t flags;
  /** 0. */
  uint32_t reserved;
} nocter_wait;

/**
 * @brief A wait that ends so many milliseconds from now.
 * @param ms milliseconds; negative means for ever; too many for the clock means for ever.
 * @return a wait without interrupt and flags.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API nocter_wait nocter_wait_for_ms(int64_t ms);

/**
 * @brief The clock of all deadlines: CLOCK_MONOTONIC in nanoseconds.
 * @return the time now.
 * @par Threads any thread; async-signal-safe.
 * @since 0.1
 */
NOCTER_API int64_t nocter_now_ns(void);

/**
 * @brief Makes an interrupt that is not raised.
 * @param[out] out the interrupt, to be given up with nocter_interrupt_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT when out is NULL; NOCTER_E_MEMORY.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_interrupt_create(nocter_interrupt **out);

/**
 * @brief Raises it: every wait that carries it, now or later, ends with NOCTER_INTERRUPTED. It stays raised.
 * @param interrupt the interrupt; NULL does nothing.
 * @par Threads any thread; async-signal-safe, so that a SIGINT handler may call it.
 * @since 0.1
 */
NOCTER_API void nocter_interrupt_raise(nocter_interrupt *interrupt);

/**
 * @brief Takes a raise back, for the waits to come.
 * @param interrupt the interrupt; NULL does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_interrupt_clear(nocter_interrupt *interrupt);

/**
 * @brief Whether it is raised.
 * @param interrupt the interrupt; NULL says false.
 * @return true from a raise to the next clear.
 * @par Threads any thread; async-signal-safe.
 * @since 0.1
 */
NOCTER_API bool nocter_interrupt_raised(const nocter_interrupt *interrupt);

/**
 * @brief Gives an interrupt up. No wait may carry it any more.
 * @param interrupt from nocter_interrupt_create(); NULL does nothing. One that belongs to a job is left alone.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_interrupt_destroy(nocter_interrupt *interrupt);

/* ---- Notifiers ----------------------------------------------------------------------------------------- */

/**
 * @brief Who is told that something may have changed: a wake and nothing else.
 *
 * Wakes may collapse: clear first, then query. A wake runs on the thread that made the transition, with no lock
 * held, possibly on several threads at once. Inside one, read-only queries of the same service work; lifecycle
 * calls of it that return a status say NOCTER_E_REENTRANT; drops and destroys are carried out, and their wake
 * becomes one more turn of the notifier. A service that takes a notifier over owns it; a failed call does not.
 */
typedef struct nocter_notifier {
  /** May be NULL: nobody is told. A C++ exception out of it is swallowed and counted. */
  void (*wake)(void *user);
  /** May be NULL; called once, when the service lets go of the notifier. */
  void (*drop)(void *user);
  /** Passed to both. */
  void *user;
} nocter_notifier;

/** A descriptor that becomes readable on a wake, for epoll, libuv, GLib, asyncio, Asio, io_uring. */
typedef struct nocter_eventfd nocter_eventfd;

/**
 * @brief Makes one, close-on-exec and non-blocking.
 * @param[out] out the eventfd, to be given up with nocter_eventfd_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT when out is NULL; NOCTER_E_MEMORY when memory or descriptors are exhausted.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_eventfd_create(nocter_eventfd **out);

/**
 * @brief The descriptor to poll for reading; it stays nocter's and is closed with the eventfd's last notifier.
 * @param eventfd the eventfd.
 * @return the descriptor; -1 for NULL, a stale handle, or in a forked child.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API int nocter_eventfd_fd(const nocter_eventfd *eventfd);

/**
 * @brief Makes it unreadable until the next wake. Clear first, then query: the other order loses a wake.
 * @param eventfd the eventfd; NULL does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_eventfd_clear(nocter_eventfd *eventfd);

/**
 * @brief A notifier that makes the descriptor readable.
 * @param eventfd the eventfd; it lives on until the notifier is dropped too.
 * @return a notifier that holds a reference; pass it to one service, or end it by calling its drop. One without
 *         a wake for NULL or a stale handle.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API nocter_notifier nocter_eventfd_notifier(nocter_eventfd *eventfd);

/**
 * @brief Gives the eventfd up.
 * @param eventfd the eventfd; NULL does nothing.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_eventfd_destroy(nocter_eventfd *eventfd);

#ifdef __cplusplus
}
#endif
#endif
