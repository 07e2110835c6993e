/* A program as it was compiled with the oldest released headers, 0.1: it declares what it needs the way they did, and includes no
   header of today's. Linked with today's library it must work as it did. Frozen: never changed when the headers are. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  void *data;
  void (*drop)(void *data);
} owned;
typedef struct {
  void (*wake)(void *user);
  void (*drop)(void *user);
  void *user;
} notifier;
typedef struct {
  uint64_t service, sequence;
} identity;
typedef struct {
  int64_t deadline_ns;
  void *interrupt;
  uint32_t flags, reserved;
} wait_argument;
typedef struct {
  uint32_t size, maximum_jobs, workers, reserved;
  notifier waiters, work;
  uint32_t wait_spins, wait_yields;
} blocking_options;
typedef struct {
  uint32_t size, threads;
  uint64_t stack_size;
  const char *name;
  int32_t (*start)(void *user);
  void (*stop)(void *user);
  void *user;
} workers_options;
typedef struct {
  uint32_t size, accepting, queued, running, completed, abandoned, admitted, maximum_jobs, workers, reserved;
  uint64_t epoch, accepted, saturated, taken, cancelled_queued, cancelled_completed, shutdown_queued,
      shutdown_completed, abandoned_retired, completed_ok, completed_lost, exceptions;
  int64_t oldest_queued_ns, longest_running_ns;
} blocking_counts;

typedef struct nocter_blocking service;
typedef struct nocter_workers workers;
typedef void (*job_function)(void *user, owned *input, owned *output, void *completion);

void nocter_blocking_options_init(blocking_options *options, size_t size);
void nocter_workers_options_init(workers_options *options, size_t size);
void nocter_blocking_counts_init(blocking_counts *counts, size_t size);
int32_t nocter_blocking_create(const blocking_options *options, service **out);
int32_t nocter_blocking_serve(service *of, job_function run, void *user, const workers_options *options, workers **out);
int32_t nocter_blocking_submit(service *to, owned *input, identity *out_id, identity *out_epoch);
int32_t nocter_blocking_take(service *from, identity id, const wait_argument *wait, owned *out_output);
int32_t nocter_blocking_count(const service *of, blocking_counts *out);
void nocter_workers_destroy(workers *of);
void nocter_blocking_destroy(service *of);

/* Room behind each struct that nobody may write to. */
#define GUARD 64
#define GUARDED(type, name)     \
  struct {                      \
    type it;                    \
    unsigned char guard[GUARD]; \
  } name;                       \
  memset(&name, 0x5a, sizeof name)

static void require(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "oldest.c: %s\n", what);
  exit(1);
}
static void require_guard(const unsigned char *guard, const char *what) {
  for (int i = 0; i < GUARD; i++) require(guard[i] == 0x5a, what);
}

static void twice(void *user, owned *input, owned *output, void *completion) {
  (void)completion;
  output->data = (void *)((uintptr_t)input->data * *(const uintptr_t *)user);
}

int main(void) {
  GUARDED(blocking_options, options);
  GUARDED(workers_options, threads);
  GUARDED(blocking_counts, counts);
  require(sizeof options.it == 72 && sizeof threads.it == 48 && sizeof counts.it == 152,
          "a size of 0.1 was changed here");
  nocter_blocking_options_init(&options.it, sizeof options.it);
  nocter_workers_options_init(&threads.it, sizeof threads.it);
  nocter_blocking_counts_init(&counts.it, sizeof counts.it);
  require_guard(options.guard, "nocter_blocking_options_init wrote past the options");
  require_guard(threads.guard, "nocter_workers_options_init wrote past the options");
  require_guard(counts.guard, "nocter_blocking_counts_init wrote past the counts");
  require(options.it.size == 72 && options.it.maximum_jobs == 64 && options.it.workers == 2,
          "other defaults than 0.1 had");

  service *of = NULL;
  workers *serving = NULL;
  uintptr_t factor = 2;
  require(nocter_blocking_create(&options.it, &of) == 0, "nocter_blocking_create");
  require(nocter_blocking_serve(of, twice, &factor, &threads.it, &serving) == 0, "nocter_blocking_serve");
  for (uintptr_t i = 1; i <= 100; i++) {
    const wait_argument for_ever = {-1, NULL, 0, 0};
    owned input = {(void *)i, NULL}, output;
    identity id, epoch;
    require(nocter_blocking_submit(of, &input, &id, &epoch) == 0, "nocter_blocking_submit");
    require(nocter_blocking_take(of, id, &for_ever, &output) == 0, "nocter_blocking_take");
    require((uintptr_t)output.data == 2 * i, "the output");
  }
  require(nocter_blocking_count(of, &counts.it) == 0, "nocter_blocking_count");
  require(counts.it.size == 152 && counts.it.accepted == 100 && counts.it.taken == 100 && counts.it.completed_ok == 100,
          "the counts");
  require_guard(counts.guard, "nocter_blocking_count wrote past the counts");
  nocter_workers_destroy(serving);
  nocter_blocking_destroy(of);
  puts("a program of 0.1 works");
  return 0;
}
