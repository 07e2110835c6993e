/* A part of generated_test.c: what can be wrong with the arguments of durable tasks. */
/* Texts of durable tasks: see generate for which is what. */
static char long_text[300000];
static const struct {
  enum kind kind;
  const char *data;
  size_t size;
  nocter_status expected;
} bad_texts[] = {
    {IS_NAME, NULL, 1, NOCTER_E_ARGUMENT},
    {IS_NAME, "", 0, NOCTER_E_ARGUMENT},
    {IS_NAME, long_text, 256, NOCTER_E_ARGUMENT},
    {IS_NAME, long_text, SIZE_MAX, NOCTER_E_ARGUMENT},
    {IS_NAME, "a\nb", 3, NOCTER_E_ARGUMENT},
    {IS_NAME, "a\0b", 3, NOCTER_E_ARGUMENT},
    {IS_NAME, "\xc2\x85", 2, NOCTER_E_ARGUMENT},
    {IS_NAME, "\xc0\xaf", 2, NOCTER_E_ARGUMENT},
    {IS_NAME, "\xed\xa0\x80", 3, NOCTER_E_ARGUMENT},
    {IS_NAME, "\xf4\x90\x80\x80", 4, NOCTER_E_ARGUMENT},
    {IS_NAME, "\xe2\x82", 2, NOCTER_E_ARGUMENT},
    {IS_JSON, NULL, 1, NOCTER_E_ARGUMENT},
    {IS_JSON, "[1", 2, NOCTER_E_JSON},
    {IS_JSON, " ", 1, NOCTER_E_JSON},
    {IS_JSON, "\"\xff\"", 3, NOCTER_E_JSON},
    {IS_JSON, "\"\\u0000\"", 8, NOCTER_E_JSON},
    {IS_JSON, long_text, 2000000, NOCTER_E_LIMIT},
    {IS_JSON, long_text, SIZE_MAX, NOCTER_E_LIMIT},
    {IS_TEXT, NULL, 1, NOCTER_E_ARGUMENT},
    {IS_TEXT, "", 0, NOCTER_E_ARGUMENT},
    {IS_TEXT, "nothing:", 8, NOCTER_E_ARGUMENT},
    {IS_TEXT, long_text, SIZE_MAX, NOCTER_E_ARGUMENT},
};
#define BAD_TEXTS (sizeof bad_texts / sizeof *bad_texts)

static void add_for_text(const struct function *function, int index, enum kind kind, int how) {
  for (size_t i = 0; i < BAD_TEXTS; i++) {
    if (bad_texts[i].kind == kind) add(function, index, how, i, bad_texts[i].expected, "bad text, number");
  }
}

static void add_for_task_id(const struct function *function, int index) {
  /* One that is not known in the store, and none. A sender may be anybody. */
  if (function->returns != RETURNS_STATUS || strcmp(function->parameters[index].name, "from") == 0) return;
  add(function, index, SPOIL_TASK_ID, 0, NOCTER_E_UNKNOWN, "zero id");
  add(function, index, SPOIL_TASK_ID, 1, NOCTER_E_UNKNOWN, "id of no task");
}

/* Numbers of durable tasks. False for a name that is not theirs. */
static bool add_for_number_of_tasks(const struct function *function, int index) {
  static const struct {
    const char *name;
    uint64_t bad[3];
  } ranges[] = {{"max", {0, 10001, UINT32_MAX}},
                {"concurrency", {0, 1025, UINT32_MAX}},
                {"type_count", {1001, UINT64_C(1) << 40, SIZE_MAX}},
                {"lease_ms", {0, UINT64_MAX, INT64_MAX}},
                {"now_ms", {UINT64_MAX, UINT64_C(1) << 63, INT64_MAX}},
                {"older_than_ms", {UINT64_MAX, UINT64_C(1) << 63, INT64_MAX}},
                {"after", {UINT64_MAX, UINT64_C(1) << 63, UINT64_MAX}},
                {"count", {0, 100001, SIZE_MAX}}};
  const char *name = function->parameters[index].name;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    if (strcmp(name, ranges[i].name) != 0) continue;
    if (strcmp(name, "count") == 0 && strncmp(function->name, "nocter_tasks_", 13) != 0 &&
        strncmp(function->name, "nocter_run_", 11) != 0)
      return false;
    for (int k = 0; k < 3; k++) {
      add(function, index, SPOIL_NUMBER, ranges[i].bad[k], NOCTER_E_ARGUMENT, "out of range");
    }
    return true;
  }
  return false;
}
