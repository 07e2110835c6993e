/* How a call of any exported function is described: see generate and generated_test.c. */
#ifndef NOCTER_TESTS_FFI_CALLS_H
#define NOCTER_TESTS_FFI_CALLS_H

#include <nocter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is passed for one parameter. */
union value {
  void *pointer;
  void (*function)(void);
  uint64_t number;
  nocter_job_id id; /* all identities have this layout */
  nocter_retirement_id retirement_id;
  nocter_epoch epoch;
  nocter_text text;
  nocter_task_id task_id;
};

/* What came back. */
struct result {
  int64_t number;
  const void *pointer;
  nocter_job_id id;
  nocter_notifier notifier;
  nocter_text text;
};

enum returns {
  RETURNS_NOTHING,
  RETURNS_STATUS,
  RETURNS_NUMBER,     /* 0 for a bad handle */
  RETURNS_DESCRIPTOR, /* -1 for a bad handle */
  RETURNS_POINTER,    /* NULL for a bad handle */
  RETURNS_ID,         /* zero for a bad handle */
  RETURNS_NOTIFIER,   /* without a wake for a bad handle */
  RETURNS_TEXT,       /* never NULL */
  RETURNS_KEY,        /* empty for a bad handle */
  RETURNS_VALUE
};

enum kind {
  IS_HANDLE,
  IS_WAIT,
  IS_SIZED_STRUCT,   /* options, counts: begins with its size */
  IS_STRUCT_TO_FILL, /* the same, given to its _init function */
  IS_OWNED,          /* a value the call may take over */
  IS_OUT,
  IS_OUT_HANDLE,
  IS_ID,
  IS_EPOCH,
  IS_KEY,    /* a text by value */
  IS_KEYS,   /* an array of them */
  IS_SOURCE, /* a struct of functions */
  IS_TASK_ID,
  IS_NAME,   /* a text by value: 1 to 255 bytes without control characters */
  IS_NAMES,  /* an array of them */
  IS_JSON,   /* a text by value */
  IS_TEXT,   /* another text by value */
  IS_RECORD, /* a record to be freed */
  IS_LIST,   /* a list to be freed */
  IS_NUMBER,
  IS_FUNCTION,
  IS_USER,
  IS_STRING
};

struct parameter {
  const char *name;
  const char *type; /* without const and * */
  enum kind kind;
  bool may_be_null;
  size_t size; /* of what it points to */
};

#define MAXIMUM_PARAMETERS 7

struct function {
  const char *name;
  void (*call)(const union value *values, struct result *result);
  enum returns returns;
  int parameter_count;
  struct parameter parameters[MAXIMUM_PARAMETERS];
};

extern const struct function functions[];
extern const size_t function_count;

#endif
