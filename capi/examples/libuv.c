/*
 * nocter in a loop of libuv: the sizes of files, looked up by nocter's threads while the loop goes on.
 *
 * libuv FILE…
 *
 * Build: cc -std=c11 libuv.c $(pkg-config --cflags --libs nocter libuv) -o libuv
 */
#define _POSIX_C_SOURCE 200809L
#include <nocter.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <uv.h>

struct file {
  const char *name;
  long long size;
};

struct waiting {
  nocter_eventfd *eventfd;
  nocter_blocking *service;
  int left;
};

static void fail(const char *what, nocter_status status) {
  fprintf(stderr, "%s: %s %s\n", what, nocter_status_name(status), status < 0 ? nocter_error_message() : "");
  exit(1);
}

/* Runs on a thread of the library's, and may block there. The size takes the place of the name. */
static void look(void *user, nocter_owned *input, nocter_owned *output, nocter_completion *completion) {
  (void)user;
  (void)completion;
  struct file *file = input->data;
  struct stat found;
  file->size = stat(file->name, &found) == 0 ? (long long)found.st_size : -1;
  *output = *input;
  *input = (nocter_owned){NULL, NULL};
}

static void submit(nocter_blocking *service, struct file *file) {
  nocter_job_id id; /* not kept: `completed` names the jobs that have ended */
  nocter_epoch epoch;
  nocter_owned input = {file, NULL};
  const nocter_status status = nocter_blocking_submit(service, &input, &id, &epoch);
  if (status != NOCTER_OK) fail("submit", status);
}

/* Prints what has ended; returns how many. */
static int take_ended(nocter_blocking *service) {
  nocter_job_id ended[8];
  size_t count = 0;
  int taken = 0;
  do {
    if (nocter_blocking_completed(service, ended, 8, &count) != NOCTER_OK) return taken;
    for (size_t i = 0; i < count; i++) {
      nocter_owned output;
      if (nocter_blocking_take(service, ended[i], NULL, &output) != NOCTER_OK) continue;
      const struct file *file = output.data;
      printf("%lld %s\n", file->size, file->name);
      taken++;
    }
  } while (count == 8);
  return taken;
}

static void readable(uv_poll_t *handle, int status, int events) {
  (void)status;
  (void)events;
  struct waiting *waiting = handle->data;
  nocter_eventfd_clear(waiting->eventfd); /* first this, then the question: so no wake is lost */
  waiting->left -= take_ended(waiting->service);
  if (waiting->left == 0) uv_close((uv_handle_t *)handle, NULL); /* the last one: the loop has nothing left to do */
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  struct waiting waiting = {.left = argc - 1};
  nocter_workers *threads = NULL;
  nocter_status status = nocter_eventfd_create(&waiting.eventfd);
  if (status != NOCTER_OK) fail("eventfd", status);
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = (uint32_t)argc; /* all of them at once */
  options.workers = 2;
  options.waiters = nocter_eventfd_notifier(waiting.eventfd); /* the service's from here on */
  status = nocter_blocking_create(&options, &waiting.service);
  if (status != NOCTER_OK) fail("create", status);
  status = nocter_blocking_serve(waiting.service, look, NULL, NULL, &threads);
  if (status != NOCTER_OK) fail("serve", status);
  struct file *files = calloc((size_t)argc, sizeof *files);
  if (files == NULL) return 1;
  uv_loop_t loop;
  uv_poll_t watch;
  if (uv_loop_init(&loop) != 0 || uv_poll_init(&loop, &watch, nocter_eventfd_fd(waiting.eventfd)) != 0) return 1;
  watch.data = &waiting;
  if (uv_poll_start(&watch, UV_READABLE, readable) != 0) return 1;
  for (int i = 1; i < argc; i++) {
    files[i].name = argv[i];
    submit(waiting.service, &files[i]);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);

  nocter_workers_destroy(threads);
  nocter_blocking_destroy(waiting.service);
  nocter_eventfd_destroy(waiting.eventfd);
  free(files);
  return 0;
}
