/*
 * A worker that does what it is told, line by line, so that the tests of the command-line tool decide what stands in a store.
 *
 *   worker URL [events]
 *
 * Each line is a command; the answer is one line: the name of the status, then what there is to say.
 *   claim TYPE             -> the number of the run, the id of its task
 *   child RUN TYPE KEY     -> the id; "-" is no key
 *   state RUN JSON         done RUN JSON         fail RUN KIND policy|never|MILLISECONDS MESSAGE
 *   park RUN children|first-child|notified|MILLISECONDS|ID   back RUN
 * first-child: until one child has ended, or one has failed.
 */
#include <inttypes.h>
#include <nocter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 1000

static nocter_tasks *tasks;
static nocter_run *runs[RUNS];
static int count;

static void answer(nocter_status status, const char *more) {
  printf("%s %s\n", nocter_status_name(status), status < 0 ? nocter_error_message() : more);
  fflush(stdout);
}

static int64_t in_ms(int64_t ms) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms;
}

static void claim(const char *type) {
  char line[64], id[37];
  size_t claimed;
  const nocter_text types = nocter_text_of(type);
  const nocter_wait wait = nocter_wait_for_ms(5000);
  const nocter_status status = nocter_tasks_claim(tasks, &types, 1, 1, &wait, &runs[count], &claimed);
  if (status != NOCTER_OK) {
    answer(status, "");
    return;
  }
  nocter_task_id_format(nocter_run_task(runs[count])->id, id);
  snprintf(line, sizeof line, "%d %s", count++, id);
  answer(status, line);
}

static void child(nocter_run *run, const char *type, const char *key) {
  char id[37];
  nocter_task_id made;
  nocter_submission submission = NOCTER_SUBMISSION_INIT;
  submission.type = nocter_text_of(type);
  if (strcmp(key, "-") != 0) submission.key = nocter_text_of(key);
  const nocter_status status = nocter_run_submit_child(run, &submission, 1, &made);
  nocter_task_id_format(made, id);
  answer(status, id);
}

static void fail(nocter_run *run, const char *kind, const char *retry, const char *message) {
  nocter_failure failure = NOCTER_FAILURE_INIT;
  failure.kind = nocter_text_of(kind);
  failure.message = nocter_text_of(message);
  failure.retry = strcmp(retry, "policy") == 0  ? NOCTER_RETRY_BY_POLICY
                  : strcmp(retry, "never") == 0 ? NOCTER_RETRY_NEVER
                                                : NOCTER_RETRY_AFTER;
  if (failure.retry == NOCTER_RETRY_AFTER) failure.retry_after_ms = strtoll(retry, NULL, 10);
  answer(nocter_run_fail(run, &failure), "");
}

static void park(nocter_run *run, const char *until) {
  nocter_suspension suspension = NOCTER_SUSPENSION_INIT;
  nocter_task_id id;
  if (strcmp(until, "children") == 0) {
    suspension.until = NOCTER_UNTIL_CHILDREN;
  } else if (strcmp(until, "first-child") == 0) {
    suspension.until = NOCTER_UNTIL_CHILDREN;
    suspension.need = 1;
    suspension.flags = NOCTER_WAKE_ON_FAILURE;
  } else if (strlen(until) == 36 && nocter_task_id_parse(nocter_text_of(until), &id) == NOCTER_OK) {
    suspension.until = NOCTER_UNTIL_TASKS;
    suspension.ids = &id;
    suspension.count = 1;
  } else if (strcmp(until, "notified") != 0) {
    suspension.wake_at_ms = in_ms(strtoll(until, NULL, 10));
  }
  answer(nocter_run_suspend(run, &suspension), "");
}

static void obey(char *line) {
  char *command = strtok(line, " "), *first = strtok(NULL, " "), *rest = strtok(NULL, "");
  if (strcmp(command, "claim") == 0) {
    claim(first);
    return;
  }
  nocter_run *run = runs[atoi(first)];
  if (strcmp(command, "state") == 0) {
    answer(nocter_run_update_state(run, nocter_text_of(rest)), "");
  } else if (strcmp(command, "done") == 0) {
    answer(nocter_run_done(run, nocter_text_of(rest)), "");
  } else if (strcmp(command, "back") == 0) {
    answer(nocter_run_hand_back(run), "");
  } else if (strcmp(command, "park") == 0) {
    park(run, rest);
  } else if (strcmp(command, "child") == 0) {
    char *type = strtok(rest, " ");
    child(run, type, strtok(NULL, ""));
  } else if (strcmp(command, "fail") == 0) {
    char *kind = strtok(rest, " "), *retry = strtok(NULL, " ");
    fail(run, kind, retry, strtok(NULL, ""));
  } else {
    exit(3);
  }
}

int main(int argc, char **argv) {
  static char line[1 << 20];
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  options.node = nocter_text_of("worker of the tests");
  options.lease_ms = 2000;
  if (argc > 2 && strcmp(argv[2], "events") == 0) options.flags = NOCTER_TASKS_EVENTS;
  const nocter_status status = argc > 1 ? nocter_tasks_open(nocter_text_of(argv[1]), &options, &tasks) : 1;
  answer(status, "");
  if (status != NOCTER_OK) return 1;
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    obey(line);
  }
  nocter_tasks_close(tasks);
  return 0;
}
