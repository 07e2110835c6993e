/**
 * @file nocter/workers.h
 * @brief The library's own threads, as every `serve` call makes them.
 */
#ifndef NOCTER_WORKERS_H
#define NOCTER_WORKERS_H

#include <nocter/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A set of threads that serve one service. They block all signals and run with cancellation disabled. */
typedef struct nocter_workers nocter_workers;

/** How the threads are made. Every member may be zero. */
typedef struct nocter_workers_options {
  /** sizeof(nocter_workers_options). */
  uint32_t size;
  /** How many threads; 0: as many as the service has workers. At most 1024. */
  uint32_t threads;
  /** Stack of each thread in bytes; 0: the system's default; else at least 65536. */
  uint64_t stack_size;
  /** Name of the threads as the system shows it, 15 bytes at most (a longer one is cut); NULL: "nocter". */
  const char *name;
  /** Called first on each thread, for hosts that must attach threads; may be NULL. Anything but NOCTER_OK fails
      the serve call and ends the threads already started. */
  nocter_status (*start)(void *user);
  /** Called last on each thread whose start succeeded; may be NULL. */
  void (*stop)(void *user);
  /** Passed to both. */
  void *user;
} nocter_workers_options;

#ifndef NOCTER_BINDINGS
/** The same as nocter_workers_options_init(). */
#define NOCTER_WORKERS_OPTIONS_INIT \
  { sizeof(nocter_workers_options), 0, 0, NULL, NULL, NULL, NULL }
#endif

/**
 * @brief Fills in the defaults.
 * @param[out] options what to fill; NULL does nothing.
 * @param size sizeof(nocter_workers_options) as the caller knows it; no more than that is written.
 * @par Threads any thread.
 * @since 0.1
 */
NOCTER_API void nocter_workers_options_init(nocter_workers_options *options, size_t size);

/**
 * @brief Ends the threads: no further claims are made, what runs is left to end by itself.
 * @param workers the workers.
 * @param wait how long to wait for the threads; NULL: do not wait.
 * @return NOCTER_OK once all threads have ended, also when asked again; NOCTER_PENDING: asked, not yet ended, no
 *         wait was given; NOCTER_TIMEOUT; NOCTER_INTERRUPTED; NOCTER_E_ARGUMENT; NOCTER_E_FORKED;
 *         NOCTER_E_WOULD_DEADLOCK from one of these threads (they are asked to end all the same when no wait was given).
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API NOCTER_NODISCARD nocter_status nocter_workers_stop(nocter_workers *workers, const nocter_wait *wait);

/**
 * @brief Stops, waits for the threads, frees. From one of these threads it does not wait: they end by themselves.
 * @param workers the workers; NULL does nothing.
 * @par Threads any thread; may wait.
 * @since 0.1
 */
NOCTER_API void nocter_workers_destroy(nocter_workers *workers);

#ifdef __cplusplus
}
#endif
#endif
