/*
 * worker DB: works on the tasks "square" and "sum.c" of a store until its standard input ends.
 *
 * "square" gives the square of the number that is its payload, and says in its state who it was. "sum.c" submits a square for each
 * number up to its payload, waits for them all, and adds them up.
 */
#include <nocter.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long number_in(nocter_text json) {
  char digits[24];
  snprintf(digits, sizeof digits, "%.*s", (int)json.size, json.data);
  return strtol(digits, NULL, 10);
}

/* What is refused is a failed try. */
static void done(nocter_run *run, long number) {
  char json[24];
  snprintf(json, sizeof json, "%ld", number);
  if (nocter_run_done(run, nocter_text_of(json)) < 0) nocter_run_drop(run);
}

static void square(void *user, nocter_run *run) {
  const long number = number_in(nocter_run_task(run)->payload);
  (void)user;
  usleep(2000);
  if (nocter_run_update_state(run, nocter_text_of("\"c\"")) != NOCTER_OK) {
    nocter_run_drop(run);
  } else {
    done(run, number * number);
  }
}

static nocter_status begin(nocter_run *run) {
  const long last = number_in(nocter_run_task(run)->payload);
  nocter_status status = NOCTER_OK;
  for (long number = 1; number <= last && status == NOCTER_OK; number++) {
    char json[24];
    nocter_submission child = NOCTER_SUBMISSION_INIT;
    snprintf(json, sizeof json, "%ld", number);
    child.type = nocter_text_of("square");
    child.payload = nocter_text_of(json);
    child.key = child.payload;
    child.key_scope = NOCTER_KEY_PARENT;
    status = nocter_run_submit_child(run, &child, 1, NULL);
    if (status == NOCTER_EXISTS) status = NOCTER_OK; /* by an earlier try */
  }
  nocter_suspension until = NOCTER_SUSPENSION_INIT;
  until.until = NOCTER_UNTIL_CHILDREN;
  return status != NOCTER_OK ? status : nocter_run_suspend(run, &until);
}

static void sum(void *user, nocter_run *run) {
  nocter_task_list children;
  long total = 0;
  (void)user;
  if (!nocter_run_resumed(run)) {
    if (begin(run) != NOCTER_OK) nocter_run_drop(run);
    return;
  }
  if (nocter_run_children(run, &children) != NOCTER_OK) {
    nocter_run_drop(run);
    return;
  }
  for (size_t i = 0; i < children.count; i++) total += number_in(children.tasks[i]->result);
  nocter_task_list_free(&children);
  done(run, total);
}

int main(int argc, char **argv) {
  char url[4096], byte;
  nocter_tasks *tasks;
  nocter_workers *workers;
  nocter_task_handler handlers[2] = {{sizeof(nocter_task_handler), 0, nocter_text_of("square"), square, NULL},
                                     {sizeof(nocter_task_handler), 0, nocter_text_of("sum.c"), sum, NULL}};
  if (argc != 2 || snprintf(url, sizeof url, "sqlite:%s", argv[1]) >= (int)sizeof url) return 2;
  if (nocter_tasks_open(nocter_text_of(url), NULL, &tasks) != NOCTER_OK ||
      nocter_tasks_serve(tasks, handlers, 2, 2, NULL, &workers) != NOCTER_OK) {
    fprintf(stderr, "worker: %s\n", nocter_error_message());
    return 1;
  }
  puts("ready"), fflush(stdout);
  while (read(0, &byte, 1) > 0) {
  }
  nocter_workers_destroy(workers);
  nocter_tasks_close(tasks);
  return 0;
}
