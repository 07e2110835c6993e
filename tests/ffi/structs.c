/* FFI-02: structs that begin with their size, put where reading or writing one byte too many is a fault; and FFI-20: members at
   and past their limits. */
#include "structs.h"

#include <nocter.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

/* Every size that a released header gave each struct, oldest first. Grows with each release that adds members. */
static const uint32_t released_blocking_options[] = {72};
static const uint32_t released_workers_options[] = {48};
static const uint32_t released_counts[] = {152};
static const uint32_t released_retirement_options[] = {72};
static const uint32_t released_retirement_counts[] = {160};
static const uint32_t released_keyed_options[] = {96};
static const uint32_t released_keyed_counts[] = {184};
static const uint32_t released_tasks_options[] = {136};
static const uint32_t released_submission[] = {112};
static const uint32_t released_task_filter[] = {88};
static const uint32_t released_tasks_counts[] = {104};
static const uint32_t released_failure[] = {64};
static const uint32_t released_suspension[] = {40};
static const uint32_t released_task_handler[] = {40};

static unsigned char *page_end;
static char *label;
static size_t label_size;
static size_t checks_ran;
static nocter_blocking *service;
static nocter_retirement *retirement;
static nocter_keyed *keyed;
static int runs;

static void run_nothing(void *user, nocter_owned *input, nocter_owned *output, nocter_completion *completion) {
  (void)user, (void)input, (void)output, (void)completion;
  runs++;
}

/* The last `size` bytes before a page that cannot be touched; a few bytes earlier where the struct must be aligned. */
static unsigned char *place(size_t size) {
  unsigned char *at = page_end - (size < 4 ? 4 : size);
  return at - (uintptr_t)at % 8;
}

static nocter_status try_blocking_options(void *options) {
  nocter_blocking *out = service;
  const nocter_status status = nocter_blocking_create(options, &out);
  if (status == NOCTER_OK) {
    if (out == NULL || out == service) return NOCTER_E_INTERNAL;
    nocter_blocking_destroy(out);
  } else if (out != NULL) {
    return NOCTER_E_INTERNAL;
  }
  return status;
}

static nocter_status try_workers_options(void *options) {
  nocter_workers *out = NULL;
  const nocter_status status = nocter_blocking_serve(service, run_nothing, NULL, options, &out);
  if (status == NOCTER_OK && out == NULL) return NOCTER_E_INTERNAL;
  if (status != NOCTER_OK && out != NULL) return NOCTER_E_INTERNAL;
  nocter_workers_destroy(out);
  return status;
}

static nocter_status try_counts(void *counts) { return nocter_blocking_count(service, counts); }

static nocter_status try_retirement_options(void *options) {
  nocter_retirement *out = retirement;
  const nocter_status status = nocter_retirement_create(options, &out);
  if (status == NOCTER_OK && (out == NULL || out == retirement)) return NOCTER_E_INTERNAL;
  if (status != NOCTER_OK && out != NULL) return NOCTER_E_INTERNAL;
  nocter_retirement_destroy(out);
  return status;
}

static nocter_status try_retirement_counts(void *counts) { return nocter_retirement_count(retirement, counts); }

static nocter_status try_keyed_options(void *options) {
  nocter_keyed *out = keyed;
  const nocter_status status = nocter_keyed_create(options, &out);
  if (status == NOCTER_OK && (out == NULL || out == keyed)) return NOCTER_E_INTERNAL;
  if (status != NOCTER_OK && out != NULL) return NOCTER_E_INTERNAL;
  nocter_keyed_destroy(out);
  return status;
}

static nocter_status try_keyed_counts(void *counts) { return nocter_keyed_count(keyed, counts); }

static void init_keyed_options(void *at, size_t size) { nocter_keyed_options_init(at, size); }
static void init_keyed_counts(void *at, size_t size) { nocter_keyed_counts_init(at, size); }
static void init_retirement_options(void *at, size_t size) { nocter_retirement_options_init(at, size); }
static void init_retirement_counts(void *at, size_t size) { nocter_retirement_counts_init(at, size); }
static void init_blocking_options(void *at, size_t size) { nocter_blocking_options_init(at, size); }
static void init_workers_options(void *at, size_t size) { nocter_workers_options_init(at, size); }
static void init_counts(void *at, size_t size) { nocter_blocking_counts_init(at, size); }

struct sized {
  const char *name;
  uint32_t size;
  nocter_status (*use)(void *);
  void (*init)(void *, size_t);
  const uint32_t *released;
  size_t released_count;
  bool written; /* by the call, not only read */
};

#define RELEASED(list) list, sizeof list / sizeof *list
static const struct sized structs[] = {
    {"nocter_blocking_options", sizeof(nocter_blocking_options), try_blocking_options, init_blocking_options,
     RELEASED(released_blocking_options), false},
    {"nocter_workers_options", sizeof(nocter_workers_options), try_workers_options, init_workers_options,
     RELEASED(released_workers_options), false},
    {"nocter_blocking_counts", sizeof(nocter_blocking_counts), try_counts, init_counts, RELEASED(released_counts),
     true},
    {"nocter_retirement_options", sizeof(nocter_retirement_options), try_retirement_options, init_retirement_options,
     RELEASED(released_retirement_options), false},
    {"nocter_retirement_counts", sizeof(nocter_retirement_counts), try_retirement_counts, init_retirement_counts,
     RELEASED(released_retirement_counts), true},
    {"nocter_keyed_options", sizeof(nocter_keyed_options), try_keyed_options, init_keyed_options,
     RELEASED(released_keyed_options), false},
    {"nocter_keyed_counts", sizeof(nocter_keyed_counts), try_keyed_counts, init_keyed_counts,
     RELEASED(released_keyed_counts), true},
    {"nocter_tasks_options", sizeof(nocter_tasks_options), try_tasks_options, init_tasks_options,
     RELEASED(released_tasks_options), false},
    {"nocter_submission", sizeof(nocter_submission), try_submission, init_submission, RELEASED(released_submission),
     false},
    {"nocter_task_filter", sizeof(nocter_task_filter), try_task_filter, init_task_filter,
     RELEASED(released_task_filter), false},
    {"nocter_tasks_counts", sizeof(nocter_tasks_counts), try_tasks_counts, init_tasks_counts,
     RELEASED(released_tasks_counts), true},
    {"nocter_failure", sizeof(nocter_failure), try_failure, init_failure, RELEASED(released_failure), false},
    {"nocter_suspension", sizeof(nocter_suspension), try_suspension, init_suspension, RELEASED(released_suspension),
     false},
    {"nocter_task_handler", sizeof(nocter_task_handler), try_task_handler, init_task_handler,
     RELEASED(released_task_handler), false},
};

static void name_it(const char *what, const char *detail, unsigned long long number) {
  snprintf(label, label_size, "%s: %s %llu", what, detail, number);
  checks_ran++;
}

static bool expect(nocter_status found, nocter_status wanted) {
  if (found == wanted && (found >= 0 || strlen(nocter_error_message()) >= 8)) return true;
  fprintf(stderr, "FAILED: %s: %s instead of %s; error message: \"%s\"\n", label, nocter_status_name(found),
          nocter_status_name(wanted), nocter_error_message());
  return false;
}

static bool expect_that(bool fine, const char *what) {
  if (!fine) fprintf(stderr, "FAILED: %s: %s\n", label, what);
  return fine;
}

/* A struct of `size` bytes, correct as far as today's library knows it, all bytes past that `tail`, saying it is `says` long. */
static unsigned char *make(const struct sized *type, size_t size, unsigned char tail, uint32_t says) {
  unsigned char whole[4096];
  memset(whole, tail, sizeof whole);
  type->init(whole, type->size);
  unsigned char *at = place(size);
  memcpy(at, whole, size);
  memcpy(at, &says, sizeof says);
  return at;
}

static size_t check_sizes(const struct sized *type) {
  size_t failed = 0;
  /* Too short to hold even its own size, then everything between that and today's. */
  for (uint32_t size = 0; size < type->size; size++) {
    name_it(type->name, "size", size);
    bool is_released = false;
    for (size_t i = 0; i < type->released_count; i++) is_released = is_released || type->released[i] == size;
    unsigned char before[4096];
    unsigned char *at = make(type, size, 0, size);
    memcpy(before, at, size);
    const nocter_status status = type->use(at);
    if (size < 4 || status != NOCTER_OK) {
      if (!expect(status, is_released ? NOCTER_OK : NOCTER_E_ARGUMENT)) failed++;
      if (!expect_that(memcmp(before, at, size) == 0, "a struct that was refused was changed")) failed++;
    }
    if (!expect_that(memcmp(at, &size, sizeof size) == 0, "the size was changed")) failed++;
  }
  for (size_t i = 0; i < type->released_count; i++) {
    name_it(type->name, "released size", type->released[i]);
    unsigned char *at = make(type, type->released[i], 0, type->released[i]);
    if (!expect(type->use(at), NOCTER_OK)) failed++;
  }
  name_it(type->name, "size", type->size);
  if (!expect(type->use(make(type, type->size, 0, type->size)), NOCTER_OK)) failed++;
  return failed;
}

static size_t check_longer(const struct sized *type) {
  size_t failed = 0;
  for (uint32_t more = 8; more <= 512; more += 8) {
    const uint32_t size = type->size + more;
    name_it(type->name, "zero tail of bytes", more);
    if (!expect(type->use(make(type, size, 0, size)), NOCTER_OK)) failed++;
    name_it(type->name, "non-zero tail of bytes", more);
    unsigned char *at = make(type, size, 0x11, size);
    if (type->written) {
      /* What the library does not know of, it does not write: a count has no tail to refuse. */
      const nocter_status status = type->use(at);
      if (status != NOCTER_OK && !expect(status, NOCTER_E_ARGUMENT)) failed++;
    } else if (!expect(type->use(at), NOCTER_E_ARGUMENT)) {
      failed++;
    }
  }
  /* One byte of the tail that is not zero, at each place. */
  for (uint32_t place_in_tail = 0; place_in_tail < 32 && !type->written; place_in_tail++) {
    name_it(type->name, "one byte in the tail, at", place_in_tail);
    unsigned char *at = make(type, type->size + 32, 0, type->size + 32);
    at[type->size + place_in_tail] = 1;
    if (!expect(type->use(at), NOCTER_E_ARGUMENT)) failed++;
  }
  const uint32_t absurd[] = {UINT32_MAX, UINT32_MAX - 3, INT32_MAX, 1u << 31, 1u << 24};
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
    name_it(type->name, "absurd size", absurd[i]);
    if (!expect(type->use(make(type, type->size, 0, absurd[i])), NOCTER_E_ARGUMENT)) failed++;
  }
  return failed;
}

/* The _init functions write no more than they were told, and never more than they know. */
static size_t check_init(const struct sized *type) {
  size_t failed = 0;
  type->init(NULL, type->size);
  for (uint32_t size = 0; size <= type->size + 64; size++) {
    name_it(type->name, "_init with size", size);
    unsigned char *at = place(size);
    memset(at - 16, 0x77, (size_t)(page_end - at) + 16);
    type->init(at, size);
    bool beyond = false;
    for (unsigned char *byte = at + size; byte < page_end; byte++) beyond = beyond || *byte != 0x77;
    if (!expect_that(!beyond && at[-1] == 0x77, "wrote outside of the struct")) failed++;
    uint32_t says = 0;
    memcpy(&says, at, sizeof says);
    if (size >= type->size && !expect_that(says >= type->size && says <= size, "did not set the size")) failed++;
    if (size >= type->size && size % 8 == 0) {
      if (!expect(type->use(at), NOCTER_OK)) failed++;
    }
  }
  return failed;
}

/* What the services' options have in common, by whichever name. */
struct service_member {
  uint32_t maximum, workers, reserved;
  nocter_status expected;
};

static nocter_status try_blocking_members(const struct service_member *members, uint32_t patience) {
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = members->maximum;
  options.workers = members->workers;
  options.reserved = members->reserved;
  options.wait_spins = patience;
  options.wait_yields = patience;
  return try_blocking_options(&options);
}

static nocter_status try_retirement_members(const struct service_member *members, uint32_t patience) {
  nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
  options.maximum_resources = members->maximum;
  options.workers = members->workers;
  options.reserved = members->reserved;
  options.wait_spins = patience;
  options.wait_yields = patience;
  return try_retirement_options(&options);
}

/* It has no reserved member: in its place another one is out of range. */
static nocter_status try_keyed_members(const struct service_member *members, uint32_t patience) {
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  options.maximum_keys = members->maximum;
  options.workers = members->workers;
  if (members->reserved != 0) options.maximum_key_size = 0;
  options.wait_spins = patience;
  options.wait_yields = patience;
  return try_keyed_options(&options);
}

static size_t check_service_members(const char *name, uint32_t most,
                                    nocter_status (*try_members)(const struct service_member *, uint32_t)) {
  const struct service_member members[] = {
      {1, 1, 0, NOCTER_OK},
      {2, 2, 0, NOCTER_OK},
      {64, 1, 0, NOCTER_OK},
      {0, 0, 0, NOCTER_E_ARGUMENT},
      {0, 1, 0, NOCTER_E_ARGUMENT},
      {1, 0, 0, NOCTER_E_ARGUMENT},
      {1, 2, 0, NOCTER_E_ARGUMENT},
      {64, 65, 0, NOCTER_E_ARGUMENT},
      {64, UINT32_MAX, 0, NOCTER_E_ARGUMENT},
      {most + 1, 1, 0, NOCTER_E_ARGUMENT},
      {most + 1, most + 1, 0, NOCTER_E_ARGUMENT},
      {1u << 31, 1, 0, NOCTER_E_ARGUMENT},
      {UINT32_MAX - 1, 1, 0, NOCTER_E_ARGUMENT},
      {UINT32_MAX, 1, 0, NOCTER_E_ARGUMENT},
      {UINT32_MAX, UINT32_MAX, 0, NOCTER_E_ARGUMENT},
      {64, 2, 1, NOCTER_E_ARGUMENT},
      {64, 2, 1u << 31, NOCTER_E_ARGUMENT},
      {64, 2, UINT32_MAX, NOCTER_E_ARGUMENT},
  };
  size_t failed = 0;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    name_it(name, "members, row", i);
    if (!expect(try_members(&members[i], 0), members[i].expected)) failed++;
  }
  const uint32_t patience[] = {0, 1, 1000, UINT32_MAX - 1, NOCTER_WAIT_NONE};
  for (size_t i = 0; i < sizeof patience / sizeof *patience; i++) {
    name_it(name, "wait_spins and wait_yields", patience[i]);
    if (!expect(try_members(&members[0], patience[i]), NOCTER_OK)) failed++;
  }
  return failed;
}

struct keyed_member {
  uint32_t maximum_key_size;
  int64_t initial_ns, maximum_ns;
  uint32_t percent, jitter_percent;
  nocter_status expected;
};

static size_t check_keyed_members(void) {
  const struct keyed_member members[] = {
      {1, 0, 0, 100, 0, NOCTER_OK},
      {NOCTER_KEYED_MAXIMUM_KEY_SIZE, 1, INT64_MAX, 10000, 100, NOCTER_OK},
      {256, INT64_MAX, INT64_MAX, 200, 10, NOCTER_OK},
      {0, 1, 2, 200, 10, NOCTER_E_ARGUMENT},
      {NOCTER_KEYED_MAXIMUM_KEY_SIZE + 1, 1, 2, 200, 10, NOCTER_E_ARGUMENT},
      {1u << 31, 1, 2, 200, 10, NOCTER_E_ARGUMENT},
      {UINT32_MAX, 1, 2, 200, 10, NOCTER_E_ARGUMENT},
      {256, -1, 2, 200, 10, NOCTER_E_ARGUMENT},
      {256, INT64_MIN, 2, 200, 10, NOCTER_E_ARGUMENT},
      {256, 2, 1, 200, 10, NOCTER_E_ARGUMENT},
      {256, 2, -1, 200, 10, NOCTER_E_ARGUMENT},
      {256, INT64_MAX, INT64_MAX - 1, 200, 10, NOCTER_E_ARGUMENT},
      {256, 1, 2, 0, 10, NOCTER_E_ARGUMENT},
      {256, 1, 2, 99, 10, NOCTER_E_ARGUMENT},
      {256, 1, 2, 10001, 10, NOCTER_E_ARGUMENT},
      {256, 1, 2, UINT32_MAX, 10, NOCTER_E_ARGUMENT},
      {256, 1, 2, 200, 101, NOCTER_E_ARGUMENT},
      {256, 1, 2, 200, UINT32_MAX, NOCTER_E_ARGUMENT},
  };
  size_t failed = 0;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    name_it("nocter_keyed_options", "members of its own, row", i);
    nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
    options.maximum_keys = 16;
    options.maximum_key_size = members[i].maximum_key_size;
    options.backoff_initial_ns = members[i].initial_ns;
    options.backoff_maximum_ns = members[i].maximum_ns;
    options.backoff_percent = members[i].percent;
    options.backoff_jitter_percent = members[i].jitter_percent;
    if (!expect(try_keyed_options(&options), members[i].expected)) failed++;
  }
  return failed;
}

struct workers_member {
  uint32_t threads;
  uint64_t stack_size;
  const char *name;
  nocter_status expected;
};

static size_t check_workers_members(void) {
  const struct workers_member members[] = {
      {0, 0, NULL, NOCTER_OK},
      {1, 65536, "", NOCTER_OK},
      {2, 65537, "a name of far more than fifteen bytes", NOCTER_OK},
      {1, 1u << 20, "\xc3\xa4\xc3\xb6", NOCTER_OK},
      {1025, 0, NULL, NOCTER_E_ARGUMENT},
      {1u << 31, 0, NULL, NOCTER_E_ARGUMENT},
      {UINT32_MAX, 0, NULL, NOCTER_E_ARGUMENT},
      {1, 1, NULL, NOCTER_E_ARGUMENT},
      {1, 4096, NULL, NOCTER_E_ARGUMENT},
      {1, 65535, NULL, NOCTER_E_ARGUMENT},
  };
  size_t failed = 0;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    name_it("nocter_workers_options", "members, row", i);
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    options.threads = members[i].threads;
    options.stack_size = members[i].stack_size;
    options.name = members[i].name;
    if (!expect(try_workers_options(&options), members[i].expected)) failed++;
  }
  /* No machine has such a stack: refused as an argument or as memory, never rounded to a small one. */
  const uint64_t absurd[] = {UINT64_MAX, UINT64_MAX - 4095, UINT64_C(1) << 63, UINT64_C(1) << 48};
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
    name_it("nocter_workers_options", "stack of bytes", absurd[i]);
    nocter_workers_options options = NOCTER_WORKERS_OPTIONS_INIT;
    options.threads = 1;
    options.stack_size = absurd[i];
    const nocter_status status = try_workers_options(&options);
    if (!expect(status, status == NOCTER_E_ARGUMENT ? NOCTER_E_ARGUMENT : NOCTER_E_MEMORY)) failed++;
  }
  return failed;
}

size_t check_structs(size_t *ran, char *current, size_t current_size) {
  label = current;
  label_size = current_size;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(pages + 2 * page, page, PROT_NONE) == 0);
  page_end = pages + 2 * page;
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  REQUIRE(nocter_blocking_create(&options, &service) == NOCTER_OK);
  nocter_retirement_options retirement_options = NOCTER_RETIREMENT_OPTIONS_INIT;
  REQUIRE(nocter_retirement_create(&retirement_options, &retirement) == NOCTER_OK);
  nocter_keyed_options keyed_options = NOCTER_KEYED_OPTIONS_INIT;
  REQUIRE(nocter_keyed_create(&keyed_options, &keyed) == NOCTER_OK);

  tasks_structs_begin();

  alarm(60);
  size_t failed = 0;
  for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
    REQUIRE(structs[i].released[structs[i].released_count - 1] == structs[i].size);
    failed += check_sizes(&structs[i]);
    failed += check_longer(&structs[i]);
    failed += check_init(&structs[i]);
  }
  failed += check_service_members("nocter_blocking_options", NOCTER_BLOCKING_MAXIMUM_JOBS, try_blocking_members);
  failed +=
      check_service_members("nocter_retirement_options", NOCTER_RETIREMENT_MAXIMUM_RESOURCES, try_retirement_members);
  failed += check_service_members("nocter_keyed_options", NOCTER_KEYED_MAXIMUM_KEYS, try_keyed_members);
  failed += check_keyed_members();
  failed += check_workers_members();
  tasks_structs_end();
  alarm(0);

  REQUIRE(runs == 0);
  nocter_blocking_destroy(service);
  nocter_retirement_destroy(retirement);
  nocter_keyed_destroy(keyed);
  munmap(pages, 3 * page);
  *ran = checks_ran;
  return failed;
}
