/* FFI-01, FFI-03, FFI-04, FFI-05: every exported function, every parameter, everything that can be wrong with it, one at a
   time and NULLs two at a time. Each check has objects of its own. A call that fails must say exactly the right status, name the
   problem in words, leave its out-parameters zero, and change nothing at all. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "structs.h"

#define ROOM 512
#define GARBAGE_KINDS 10

/* One way to spoil one argument. */
struct spoil {
  const struct function *function;
  int index;     /* of the parameter; -1: none, the call must succeed */
  int second;    /* another parameter that is NULL as well; -1: none */
  char what[48]; /* in words */
  enum {
    SPOIL_NOTHING,
    SPOIL_NULL,
    SPOIL_GARBAGE,
    SPOIL_COPY,
    SPOIL_WRONG_TYPE,
    SPOIL_DEAD,
    SPOIL_FLAGS,
    SPOIL_RESERVED,
    SPOIL_DEADLINE,
    SPOIL_INTERRUPT_GARBAGE,
    SPOIL_INTERRUPT_WRONG_TYPE,
    SPOIL_INTERRUPT_DEAD,
    SPOIL_ID,
    SPOIL_EPOCH,
    SPOIL_KEY,
    SPOIL_KEYS,
    SPOIL_SOURCE,
    SPOIL_TASK_ID,
    SPOIL_TEXT,
    SPOIL_NAMES,
    SPOIL_NUMBER
  } how;
  uint64_t detail;
  nocter_status expected; /* where a status is returned */
};

static struct spoil *spoils;
static size_t spoil_count, spoil_room;
static char current[160];
static uint64_t garbage[GARBAGE_KINDS][ROOM];

static void on_crash(int number) {
  static const char text[] = "\ncrashed in this check: ";
  (void)!write(2, text, sizeof text - 1);
  (void)!write(2, current, strlen(current));
  (void)!write(2, "\n", 1);
  signal(number, SIG_DFL);
  raise(number);
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void make_garbage(uint64_t seed) {
  for (size_t i = 0; i < ROOM; i++) {
    garbage[0][i] = 0;
    garbage[1][i] = UINT64_MAX;
    garbage[2][i] = 0x5a5a5a5a5a5a5a5au;
    garbage[3][i] = (uintptr_t)garbage[3];
    garbage[4][i] = 1;
    garbage[5][i] = (uintptr_t)&garbage[5][i];
    for (size_t kind = 6; kind < GARBAGE_KINDS; kind++) garbage[kind][i] = next_random(&seed);
  }
}

/* ---- Which checks there are -------------------------------------------------------------------------------- */

static struct spoil *add(const struct function *function, int index, int how, uint64_t detail, nocter_status expected,
                         const char *what) {
  if (spoil_count == spoil_room) {
    spoil_room = spoil_room == 0 ? 1024 : spoil_room * 2;
    spoils = realloc(spoils, spoil_room * sizeof *spoils);
    REQUIRE(spoils != NULL);
  }
  struct spoil *spoil = &spoils[spoil_count++];
  memset(spoil, 0, sizeof *spoil);
  spoil->function = function;
  spoil->index = index;
  spoil->second = -1;
  spoil->how = how;
  spoil->detail = detail;
  spoil->expected = expected;
  snprintf(spoil->what, sizeof spoil->what, "%s %llu", what, (unsigned long long)detail);
  return spoil;
}

static bool can_be_null(const struct parameter *parameter) {
  return parameter->kind != IS_TASK_ID && parameter->kind != IS_NAME && parameter->kind != IS_JSON &&
         parameter->kind != IS_TEXT && parameter->kind != IS_ID && parameter->kind != IS_EPOCH &&
         parameter->kind != IS_KEY && parameter->kind != IS_NUMBER;
}

/* A NULL that is an error: of a handle also where the call can only answer with a zero. */
static bool null_is_wrong(const struct function *function, int index) {
  const struct parameter *parameter = &function->parameters[index];
  if (!can_be_null(parameter)) return false;
  return !parameter->may_be_null || (parameter->kind == IS_HANDLE && function->returns != RETURNS_STATUS);
}

static void add_for_handle(const struct function *function, int index) {
  const char *type = function->parameters[index].type;
  for (uint64_t i = 0; i < GARBAGE_KINDS; i++) add(function, index, SPOIL_GARBAGE, i, NOCTER_E_ARGUMENT, "garbage");
  add(function, index, SPOIL_COPY, 0, NOCTER_E_ARGUMENT, "copy of the head of a live handle");
  for (uint64_t i = 0; i < HANDLE_TYPES; i++) {
    add(function, index, SPOIL_DEAD, i, NOCTER_E_ARGUMENT, "dead handle of type");
    if (strcmp(handle_types[i], type) == 0) continue;
    add(function, index, SPOIL_WRONG_TYPE, i, NOCTER_E_ARGUMENT, "live handle of the wrong type");
  }
}

static void add_for_wait(const struct function *function, int index) {
  for (uint64_t bit = 1; bit < 32; bit++) {
    add(function, index, SPOIL_FLAGS, UINT64_C(1) << bit, NOCTER_E_ARGUMENT, "unknown flag");
    add(function, index, SPOIL_RESERVED, UINT64_C(1) << bit, NOCTER_E_ARGUMENT, "reserved");
  }
  add(function, index, SPOIL_RESERVED, 1, NOCTER_E_ARGUMENT, "reserved");
  add(function, index, SPOIL_FLAGS, UINT32_MAX, NOCTER_E_ARGUMENT, "unknown flags");
  add(function, index, SPOIL_DEADLINE, 2, NOCTER_E_ARGUMENT, "deadline is minus");
  add(function, index, SPOIL_DEADLINE, INT64_MAX, NOCTER_E_ARGUMENT, "deadline is minus");
  for (uint64_t i = 0; i < GARBAGE_KINDS; i++) {
    add(function, index, SPOIL_INTERRUPT_GARBAGE, i, NOCTER_E_ARGUMENT, "interrupt is garbage");
  }
  for (uint64_t i = 0; i < HANDLE_TYPES; i++) {
    add(function, index, SPOIL_INTERRUPT_DEAD, i, NOCTER_E_ARGUMENT, "interrupt is dead, of type");
    if (strcmp(handle_types[i], "nocter_interrupt") == 0) continue;
    add(function, index, SPOIL_INTERRUPT_WRONG_TYPE, i, NOCTER_E_ARGUMENT, "interrupt is alive, of type");
  }
}

enum { ID_ZERO, ID_STALE, ID_AHEAD, ID_FOREIGN, ID_FOREIGN_SAME_SEQUENCE, ID_FOREIGN_AHEAD, ID_NO_SERVICE };
enum {
  EPOCH_FOREIGN,
  EPOCH_FOREIGN_SAME_SEQUENCE,
  EPOCH_FOREIGN_AHEAD,
  EPOCH_NEXT,
  EPOCH_FAR_AHEAD,
  EPOCH_ZERO_SERVICE
};

static void add_for_identity(const struct function *function, int index) {
  add(function, index, SPOIL_ID, ID_ZERO, NOCTER_E_UNKNOWN, "zero id");
  add(function, index, SPOIL_ID, ID_STALE, NOCTER_E_UNKNOWN, "stale id");
  add(function, index, SPOIL_ID, ID_AHEAD, NOCTER_E_UNKNOWN, "id never issued");
  add(function, index, SPOIL_ID, ID_FOREIGN, NOCTER_E_FOREIGN, "foreign id");
  add(function, index, SPOIL_ID, ID_FOREIGN_SAME_SEQUENCE, NOCTER_E_FOREIGN, "foreign id, same sequence");
  add(function, index, SPOIL_ID, ID_FOREIGN_AHEAD, NOCTER_E_FOREIGN, "foreign id never issued");
  add(function, index, SPOIL_ID, ID_NO_SERVICE, NOCTER_E_FOREIGN, "id of no service");
}

static void add_for_epoch(const struct function *function, int index) {
  add(function, index, SPOIL_EPOCH, EPOCH_FOREIGN, NOCTER_E_FOREIGN, "foreign epoch");
  add(function, index, SPOIL_EPOCH, EPOCH_FOREIGN_SAME_SEQUENCE, NOCTER_E_FOREIGN, "foreign epoch, same sequence");
  add(function, index, SPOIL_EPOCH, EPOCH_FOREIGN_AHEAD, NOCTER_E_FOREIGN, "foreign epoch ahead");
  add(function, index, SPOIL_EPOCH, EPOCH_NEXT, NOCTER_E_ARGUMENT, "epoch one ahead");
  add(function, index, SPOIL_EPOCH, EPOCH_FAR_AHEAD, NOCTER_E_ARGUMENT, "epoch far ahead");
  add(function, index, SPOIL_EPOCH, EPOCH_ZERO_SERVICE, NOCTER_E_FOREIGN, "epoch of no service");
}

/* Bytes that are not there, and too many of them; in the fixture keys have at most 100. */
static const struct {
  size_t size;
  bool has_data;
  nocter_status expected;
} bad_keys[] = {
    {1, false, NOCTER_E_ARGUMENT}, {100, false, NOCTER_E_ARGUMENT},  {101, true, NOCTER_E_LIMIT},
    {400, true, NOCTER_E_LIMIT},   {1u << 31, true, NOCTER_E_LIMIT}, {SIZE_MAX, true, NOCTER_E_LIMIT},
};
#define BAD_KEYS (sizeof bad_keys / sizeof *bad_keys)

static void add_for_key(const struct function *function, int index, int how) {
  for (size_t i = 0; i < BAD_KEYS; i++) add(function, index, how, i, bad_keys[i].expected, "bad key, number");
}

#include "generated_tasks.h"

static void add_for_number(const struct function *function, int index) {
  const char *name = function->parameters[index].name;
  if (function->returns != RETURNS_STATUS || add_for_number_of_tasks(function, index)) return;
  if (strcmp(name, "capacity") == 0) {
    add(function, index, SPOIL_NUMBER, 0, NOCTER_E_ARGUMENT, "capacity");
  } else if (strcmp(name, "seen") == 0) {
    add(function, index, SPOIL_NUMBER, 0, NOCTER_E_ARGUMENT, "version");
    for (uint64_t ahead = 2; ahead < 64; ahead++) {
      add(function, index, SPOIL_NUMBER, UINT64_C(1) << ahead, NOCTER_E_ARGUMENT, "version not had yet");
    }
    add(function, index, SPOIL_NUMBER, UINT64_MAX, NOCTER_E_ARGUMENT, "version not had yet");
  } else if (strcmp(name, "interval_ns") == 0 || strcmp(name, "slice") == 0) {
    add(function, index, SPOIL_NUMBER, 0, NOCTER_E_ARGUMENT, "too small");
    if (strcmp(name, "slice") == 0) return;
    add(function, index, SPOIL_NUMBER, UINT64_MAX, NOCTER_E_ARGUMENT, "negative");
    add(function, index, SPOIL_NUMBER, UINT64_C(1) << 63, NOCTER_E_ARGUMENT, "negative");
  } else if (strcmp(name, "delay_ns") == 0) {
    /* A pass takes a negative one for its backoff. */
    if (strcmp(function->name, "nocter_pass_retry_after") == 0) return;
    add(function, index, SPOIL_NUMBER, UINT64_MAX, NOCTER_E_ARGUMENT, "negative");
    add(function, index, SPOIL_NUMBER, UINT64_C(1) << 63, NOCTER_E_ARGUMENT, "negative");
  } else if (strcmp(name, "code") != 0 && strcmp(name, "count") != 0) {
    fprintf(stderr, "%s: the range of %s is not known here\n", function->name, name);
    abort();
  }
}

static void add_for_parameter(const struct function *function, int index) {
  const struct parameter *parameter = &function->parameters[index];
  if (null_is_wrong(function, index)) add(function, index, SPOIL_NULL, 0, NOCTER_E_ARGUMENT, "NULL");
  if (parameter->kind == IS_HANDLE) add_for_handle(function, index);
  if (parameter->kind == IS_WAIT) add_for_wait(function, index);
  if (parameter->kind == IS_ID && function->returns == RETURNS_STATUS) add_for_identity(function, index);
  if (parameter->kind == IS_EPOCH && function->returns == RETURNS_STATUS) add_for_epoch(function, index);
  if (parameter->kind == IS_KEY) add_for_key(function, index, SPOIL_KEY);
  if (parameter->kind == IS_KEYS) add_for_key(function, index, SPOIL_KEYS);
  if (parameter->kind == IS_TASK_ID) add_for_task_id(function, index);
  if (parameter->kind == IS_NAME || parameter->kind == IS_JSON || parameter->kind == IS_TEXT) {
    add_for_text(function, index, parameter->kind, SPOIL_TEXT);
  }
  if (parameter->kind == IS_NAMES) add_for_text(function, index, IS_NAME, SPOIL_NAMES);
  if (parameter->kind == IS_SOURCE) add(function, index, SPOIL_SOURCE, 0, NOCTER_E_ARGUMENT, "source without next");
  if (parameter->kind == IS_NUMBER) add_for_number(function, index);
  for (int second = index + 1; second < function->parameter_count; second++) {
    if (null_is_wrong(function, index) && null_is_wrong(function, second)) {
      add(function, index, SPOIL_NULL, 0, NOCTER_E_ARGUMENT, "NULL twice")->second = second;
    }
  }
}

static void add_all(void) {
  for (size_t i = 0; i < function_count; i++) {
    add(&functions[i], -1, SPOIL_NOTHING, 0, NOCTER_OK, "correct call");
    for (int index = 0; index < functions[i].parameter_count; index++) add_for_parameter(&functions[i], index);
  }
}

/* ---- One check ----------------------------------------------------------------------------------------------- */

static nocter_job_id spoiled_id(const struct identities *ids, uint64_t detail) {
  nocter_job_id id = detail >= ID_FOREIGN ? ids->foreign : ids->completed;
  if (detail == ID_ZERO) id = (nocter_job_id){0, 0};
  if (detail == ID_STALE) id = ids->stale;
  if (detail == ID_AHEAD || detail == ID_FOREIGN_AHEAD) id.sequence += UINT64_C(1) << 40;
  if (detail == ID_FOREIGN_SAME_SEQUENCE) id.sequence = ids->completed.sequence;
  if (detail == ID_NO_SERVICE) id.service = UINT64_MAX;
  return id;
}

static nocter_epoch spoiled_epoch(const struct identities *ids, uint64_t detail) {
  nocter_epoch epoch = detail <= EPOCH_FOREIGN_AHEAD ? ids->foreign_epoch : ids->epoch;
  if (detail == EPOCH_FOREIGN_SAME_SEQUENCE) epoch.sequence = ids->epoch.sequence;
  if (detail == EPOCH_FOREIGN_AHEAD || detail == EPOCH_FAR_AHEAD) epoch.sequence += UINT64_C(1) << 40;
  if (detail == EPOCH_NEXT) epoch.sequence += 1;
  if (detail == EPOCH_ZERO_SERVICE) epoch.service = 0;
  return epoch;
}

static nocter_text bad_key(uint64_t detail) {
  static const char room[512];
  return (nocter_text){bad_keys[detail].has_data ? room : NULL, bad_keys[detail].size};
}

static void *bad_handle(const struct fixture *fixture, const struct spoil *spoil, const char *type) {
  static uint64_t copy[ROOM];
  switch (spoil->how) {
    case SPOIL_GARBAGE:
    case SPOIL_INTERRUPT_GARBAGE:
      return garbage[spoil->detail];
    case SPOIL_COPY:
      memcpy(copy, fixture_live(fixture, type), 8);
      return copy;
    case SPOIL_DEAD:
    case SPOIL_INTERRUPT_DEAD:
      return fixture_dead(fixture, handle_types[spoil->detail]);
    default:
      return fixture_live(fixture, handle_types[spoil->detail]);
  }
}

static void spoil_argument(struct fixture *fixture, const struct spoil *spoil, union value *values) {
  union value *value = &values[spoil->index];
  switch (spoil->how) {
    case SPOIL_NOTHING:
      break;
    case SPOIL_NULL:
      memset(value, 0, sizeof *value);
      if (spoil->second >= 0) memset(&values[spoil->second], 0, sizeof *value);
      break;
    case SPOIL_FLAGS:
      fixture->wait.flags = (uint32_t)spoil->detail;
      break;
    case SPOIL_RESERVED:
      fixture->wait.reserved = (uint32_t)spoil->detail;
      break;
    case SPOIL_DEADLINE:
      fixture->wait.deadline_ns = -(int64_t)spoil->detail;
      break;
    case SPOIL_INTERRUPT_GARBAGE:
    case SPOIL_INTERRUPT_WRONG_TYPE:
    case SPOIL_INTERRUPT_DEAD:
      fixture->wait.interrupt = bad_handle(fixture, spoil, "nocter_interrupt");
      break;
    case SPOIL_ID:
      value->id = spoiled_id(fixture_identities(fixture, spoil->function), spoil->detail);
      break;
    case SPOIL_EPOCH:
      value->epoch = spoiled_epoch(fixture_identities(fixture, spoil->function), spoil->detail);
      break;
    case SPOIL_KEY:
      value->text = bad_key(spoil->detail);
      break;
    case SPOIL_KEYS:
      fixture->keyed.keys[0] = bad_key(spoil->detail);
      break;
    case SPOIL_TASK_ID:
      memset(&value->task_id, spoil->detail == 0 ? 0 : 0x77, sizeof value->task_id);
      break;
    case SPOIL_TEXT:
      value->text = (nocter_text){bad_texts[spoil->detail].data, bad_texts[spoil->detail].size};
      break;
    case SPOIL_NAMES:
      fixture->tasks.types[0] = (nocter_text){bad_texts[spoil->detail].data, bad_texts[spoil->detail].size};
      break;
    case SPOIL_SOURCE:
      fixture->keyed.source.next = NULL;
      break;
    case SPOIL_NUMBER:
      value->number = spoil->detail;
      break;
    default:
      value->pointer = bad_handle(fixture, spoil, spoil->function->parameters[spoil->index].type);
      break;
  }
}

static bool contains_word_of(const char *text, const char *name) {
  if (strlen(name) > 2 && strstr(text, name) != NULL) return true;
  char word[64];
  size_t size = 0;
  for (const char *at = name;; at++) {
    if (*at != '\0' && *at != '_') {
      if (size < sizeof word - 1) word[size++] = *at;
      continue;
    }
    word[size] = '\0';
    if (size > 2 && strcmp(word, "nocter") != 0 && strcmp(word, "out") != 0 && strcasestr(text, word) != NULL)
      return true;
    size = 0;
    if (*at == '\0') return false;
  }
}

/* The message must be "function: words", and the words about this parameter or this problem. */
static bool message_is_good(const struct spoil *spoil) {
  const char *text = nocter_error_message();
  const struct parameter *parameter = &spoil->function->parameters[spoil->index];
  if (strlen(text) > 400) return false;
  for (const char *at = text; *at != '\0'; at++) {
    if (!isprint((unsigned char)*at)) return false;
  }
  const size_t prefix = strlen(spoil->function->name);
  if (strncmp(text, spoil->function->name, prefix) != 0 || strncmp(text + prefix, ": ", 2) != 0) return false;
  text += prefix + 2;
  switch (spoil->how) {
    case SPOIL_FLAGS:
      return strstr(text, "flag") != NULL;
    case SPOIL_RESERVED:
      return strstr(text, "reserved") != NULL;
    case SPOIL_DEADLINE:
      return strstr(text, "deadline") != NULL;
    case SPOIL_INTERRUPT_GARBAGE:
    case SPOIL_INTERRUPT_WRONG_TYPE:
    case SPOIL_INTERRUPT_DEAD:
      return strstr(text, "interrupt") != NULL;
    case SPOIL_KEYS:
      return strstr(text, "key") != NULL;
    case SPOIL_TASK_ID:
      return strstr(text, "task") != NULL;
    case SPOIL_ID:
    case SPOIL_EPOCH:
      if (spoil->expected == NOCTER_E_FOREIGN) return strstr(text, "another service") != NULL;
      break;
    default:
      break;
  }
  const bool about_first = contains_word_of(text, parameter->name) || contains_word_of(text, parameter->type);
  if (about_first || spoil->second < 0) return about_first;
  return contains_word_of(text, spoil->function->parameters[spoil->second].name);
}

static bool fail(const char *why) {
  fprintf(stderr, "FAILED: %s: %s; error message: \"%s\"\n", current, why, nocter_error_message());
  return false;
}

static bool all_zero(const unsigned char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

/* What a call with a bad argument must look like from outside. */
static bool result_is_right(const struct spoil *spoil, const struct result *result) {
  static const nocter_job_id zero_id;
  switch (spoil->function->returns) {
    case RETURNS_STATUS:
      if (result->number == spoil->expected) break;
      fprintf(stderr, "%s instead of %s: ", nocter_status_name((nocter_status)result->number),
              nocter_status_name(spoil->expected));
      return fail("wrong status");
    case RETURNS_NUMBER:
      if (result->number != 0) return fail("result is not 0");
      break;
    case RETURNS_DESCRIPTOR:
      if (result->number != -1) return fail("result is not -1");
      break;
    case RETURNS_POINTER:
      if (result->pointer != NULL) return fail("result is not NULL");
      break;
    case RETURNS_ID:
      if (!nocter_job_id_equal(result->id, zero_id)) return fail("result is not the zero id");
      break;
    case RETURNS_KEY:
      if (result->text.size != 0) return fail("result is not empty");
      break;
    case RETURNS_NOTIFIER:
      if (result->notifier.wake != NULL) return fail("result has a wake");
      if (result->notifier.drop != NULL) result->notifier.drop(result->notifier.user);
      break;
    default:
      break;
  }
  if (spoil->function->returns == RETURNS_STATUS && !message_is_good(spoil)) return fail("the message does not help");
  return true;
}

static bool check_failure(const struct spoil *spoil, struct fixture *fixture, const union value *values,
                          unsigned char out[MAXIMUM_PARAMETERS][ROOM]) {
  const struct function *function = spoil->function;
  struct fixture *before = malloc(sizeof *before);
  REQUIRE(before != NULL);
  struct picture first, second;
  fixture_picture(fixture, &first);
  memcpy(before, fixture, sizeof *before);
  char message[512];
  REQUIRE(nocter_signal_publish(NULL, NULL) == NOCTER_E_ARGUMENT);
  snprintf(message, sizeof message, "%s", nocter_error_message());

  struct result result = {0};
  function->call(values, &result);
  bool fine = result_is_right(spoil, &result);
  if (function->returns != RETURNS_STATUS && strcmp(message, nocter_error_message()) != 0) {
    fine = fail("a call without a status changed the message");
  }
  for (int i = 0; i < function->parameter_count; i++) {
    const struct parameter *parameter = &function->parameters[i];
    const bool is_out = parameter->kind == IS_OUT || parameter->kind == IS_OUT_HANDLE;
    /* Room for many that a failed call reports as none is not cleared: its count is. */
    const bool is_room = strcmp(parameter->name, "out_ids") == 0 || strcmp(parameter->name, "out_taken") == 0;
    if (!is_out || is_room || values[i].pointer == NULL) continue;
    if (!all_zero(out[i], parameter->size)) fine = fail("an out-parameter is not zero");
    if (out[i][parameter->size] != 0xa5) fine = fail("more than the out-parameter was written");
  }
  if (memcmp(before, fixture, sizeof *before) != 0) fine = fail("something of the caller's was changed");
  fixture_picture(fixture, &second);
  if (memcmp(&first, &second, sizeof first) != 0) fine = fail("the state changed");
  free(before);
  return fine;
}

/* The same call with nothing spoiled works: so it was the spoiled argument that made the others fail. */
static bool check_success(const struct spoil *spoil, const union value *values,
                          unsigned char out[MAXIMUM_PARAMETERS][ROOM]) {
  const struct function *function = spoil->function;
  struct result result = {0};
  function->call(values, &result);
  bool fine = true;
  if (function->returns == RETURNS_STATUS && result.number < 0)
    fine = fail(nocter_status_name((nocter_status)result.number));
  if (function->returns == RETURNS_TEXT && result.pointer == NULL) fine = fail("the text is NULL");
  if (function->returns == RETURNS_DESCRIPTOR && result.number < 0) fine = fail("no descriptor");
  if (function->returns == RETURNS_POINTER && result.pointer == NULL) fine = fail("no pointer");
  if (strcmp(function->name, "nocter_permit_attach") == 0)
    nocter_resource_drop((nocter_resource *)(uintptr_t)result.pointer);
  if (function->returns == RETURNS_NOTIFIER) {
    if (result.notifier.wake == NULL) fine = fail("no wake");
    if (result.notifier.drop != NULL) result.notifier.drop(result.notifier.user);
  }
  for (int i = 0; i < function->parameter_count; i++) {
    const struct parameter *parameter = &function->parameters[i];
    if (parameter->kind == IS_OUT_HANDLE) {
      void *handle;
      memcpy(&handle, out[i], sizeof handle);
      if (function->returns == RETURNS_STATUS && result.number == NOCTER_OK && handle == NULL) fine = fail("no handle");
      fixture_give_up(parameter->type, handle);
    } else if (parameter->kind == IS_OUT && strcmp(parameter->type, "nocter_owned") == 0) {
      nocter_owned owned;
      memcpy(&owned, out[i], sizeof owned);
      if (owned.drop != NULL) owned.drop(owned.data);
    } else if (parameter->kind == IS_OUT && strcmp(parameter->type, "nocter_taken") == 0) {
      nocter_taken taken;
      memcpy(&taken, out[i], sizeof taken);
      if (taken.output.drop != NULL) taken.output.drop(taken.output.data);
    } else if (parameter->kind == IS_OUT && strstr(parameter->type, "_list") != NULL) {
      tasks_free_list(parameter->type, out[i]);
    }
  }
  return fine;
}

static bool run(const struct spoil *spoil) {
  static _Alignas(16) unsigned char out[MAXIMUM_PARAMETERS][ROOM];
  static struct fixture fixture;
  const struct function *function = spoil->function;
  snprintf(current, sizeof current, "%s, %s: %s", function->name,
           spoil->index < 0 ? "-" : function->parameters[spoil->index].name, spoil->what);
  alarm(10);
  fixture_make(&fixture);
  memset(out, 0xa5, sizeof out);
  union value values[MAXIMUM_PARAMETERS];
  for (int i = 0; i < function->parameter_count; i++) values[i] = fixture_argument(&fixture, function, i, out[i]);
  if (spoil->index >= 0) spoil_argument(&fixture, spoil, values);
  bool fine = spoil->index < 0 ? check_success(spoil, values, out) : check_failure(spoil, &fixture, values, out);
  if (!fixture_end(&fixture)) fine = fail("something was not dropped exactly once");
  alarm(0);
  return fine;
}

int main(int count, char **arguments) {
  uint64_t seed = (uint64_t)time(NULL) | 1;
  const char *only = "";
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--seed") == 0) seed = strtoull(arguments[i + 1], NULL, 10) | 1;
    if (strcmp(arguments[i], "--only") == 0) only = arguments[i + 1];
  }
  if (getenv("NOCTER_CHECK") != NULL) {
    fputs("NOCTER_CHECK is set: misuse aborts instead of being reported; unset it\n", stderr);
    return 2;
  }
  const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGALRM, SIGFPE, SIGILL};
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], on_crash);
  make_garbage(seed);
  add_all();
  uint64_t state = seed;
  for (size_t i = spoil_count; i > 1; i--) {
    const size_t other = next_random(&state) % i;
    const struct spoil swap = spoils[other];
    spoils[other] = spoils[i - 1];
    spoils[i - 1] = swap;
  }
  size_t ran = 0, failed = 0;
  for (size_t i = 0; i < spoil_count; i++) {
    if (strstr(spoils[i].function->name, only) == NULL) continue;
    ran++;
    if (!run(&spoils[i])) failed++;
  }
  size_t struct_ran = 0;
  if (*only == '\0') failed += check_structs(&struct_ran, current, sizeof current);
  printf("generated calls: %zu checks of %zu functions, %zu of structs; %zu failed; seed %llu\n", ran, function_count,
         struct_ran, failed, (unsigned long long)seed);
  free(spoils);
  return failed == 0 && ran + struct_ran > 0 ? 0 : 1;
}
