/*
 * nocter in a main loop of GLib: the sizes of files, looked up by nocter's threads while the loop goes on.
 *
 * glib FILE…
 *
 * Build: cc -std=c11 glib.c $(pkg-config --cflags --libs nocter glib-2.0) -o glib
 */
#define _POSIX_C_SOURCE 200809L
#include <glib-unix.h>
#include <glib.h>
#include <nocter.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct file {
  const char *name;
  long long size;
};

struct waiting {
  nocter_eventfd *eventfd;
  nocter_blocking *service;
  int left;
  GMainLoop *loop;
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

static gboolean readable(gint fd, GIOCondition condition, gpointer user) {
  (void)fd;
  (void)condition;
  struct waiting *waiting = user;
  nocter_eventfd_clear(waiting->eventfd); /* first this, then the question: so no wake is lost */
  waiting->left -= take_ended(waiting->service);
  if (waiting->left != 0) return G_SOURCE_CONTINUE;
  g_main_loop_quit(waiting->loop);
  return G_SOURCE_REMOVE;
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
  waiting.loop = g_main_loop_new(NULL, FALSE);
  g_unix_fd_add(nocter_eventfd_fd(waiting.eventfd), G_IO_IN, readable, &waiting);
  for (int i = 1; i < argc; i++) {
    files[i].name = argv[i];
    submit(waiting.service, &files[i]);
  }
  g_main_loop_run(waiting.loop);
  g_main_loop_unref(waiting.loop);

  nocter_workers_destroy(threads);
  nocter_blocking_destroy(waiting.service);
  nocter_eventfd_destroy(waiting.eventfd);
  free(files);
  return 0;
}
