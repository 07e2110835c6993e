/**
 * @file nocter/signal.h
 * @brief A versioned signal: closes the gap between reading a state and waiting for it to change.
 *
 * Read the version, test your state under its own lock, release that lock, and wait only while the version is
 * the one read: a publication in between makes the wait return at once. The idea is the eventcount of
 * D. P. Reed and R. K. Kanodia, "Synchronization with Eventcounts and Sequencers", 1979.
 */
#ifndef NOCTER_SIGNAL_H
#define NOCTER_SIGNAL_H

#include <nocter/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A version that only grows, and the threads that wait for it to move right now. */
typedef struct nocter_signal nocter_signal;

/**
 * @brief Makes a signal at its first version.
 * @param[out] out the signal, to be given up with nocter_signal_destroy(); NULL on failure.
 * @return NOCTER_OK; NOCTER_E_ARGUMENT when out is NULL; NOCTER_E_MEMORY.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_signal_create(nocter_signal **out);

/**
 * @brief The version now: read it before testing the state.
 * @param signal the signal.
 * @return the version; 0, which no signal ever has, for NULL, a stale handle or in a forked child.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API uint64_t nocter_signal_version(const nocter_signal *signal);

/**
 * @brief Says that the state has changed: call it after the change. Makes no system call when nobody waits.
 * @param signal the signal.
 * @param[out] out_version the new version; may be NULL; zero on failure.
 * @return NOCTER_OK; NOCTER_CLOSED (the version did not move); NOCTER_E_ARGUMENT; NOCTER_E_FORKED.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API nocter_status nocter_signal_publish(nocter_signal *signal, uint64_t *out_version);

/**
 * @brief Waits until the version is no longer the one seen.
 * @param signal the signal.
 * @param seen a version of this signal.
 * @param wait how long; NULL: do not wait.
 * @param[out] out_version the version now, also after a wait that ended early; zero on failure.
 * @return NOCTER_OK: changed; NOCTER_PENDING: not changed and no wait was given; NOCTER_TIMEOUT;
 *         NOCTER_INTERRUPTED; NOCTER_CLOSED; NOCTER_E_ARGUMENT, also for a version this signal has not had yet;
 *         NOCTER_E_FORKED.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_signal_wait(nocter_signal *signal, uint64_t seen,
                                                             const nocter_wait *wait, uint64_t *out_version);

/**
 * @brief Closes it for good: wakes all waiters, present and future, with NOCTER_CLOSED.
 * @param signal the signal; NULL does nothing.
 * @par Threads any thread, also in a notifier.
 * @since 0.1
 */
NOCTER_API void nocter_signal_close(nocter_signal *signal);

/**
 * @brief Closes it and gives it up. Threads that wait in it return NOCTER_CLOSED; the last one out frees it.
 * @param signal the signal; NULL does nothing.
 * @par Threads any thread, also in a notifier; no other call on it may start after this one.
 * @since 0.1
 */
NOCTER_API void nocter_signal_destroy(nocter_signal *signal);

/**
 * @brief A notifier each wake of which publishes the signal.
 * @param signal the signal; it lives on until the notifier is dropped too.
 * @return a notifier that holds a reference; pass it to one service, or end it by calling its drop. One without
 *         a wake for NULL or a stale handle.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API nocter_notifier nocter_signal_notifier(nocter_signal *signal);

#ifdef __cplusplus
}
#endif
#endif
