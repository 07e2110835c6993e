/*
 * crawl START [--db FILE] [--workers N] [--timeout SECONDS]
 *
 * Crawls a web site: every HTML page that START leads to on the same scheme, host and port. Prints how many pages and bytes there are,
 * and which links lead nowhere.
 *
 * Each page is a durable task in FILE (crawl.db unless given), a SQLite database. A page submits a child for every link that nobody has
 * seen, is parked until they have ended, and adds up what they came to; what START comes to is the report. A parked page needs no
 * thread, so N workers serve any depth. What was fetched is remembered: killed at any moment, the same command goes on where it was and
 * prints the same report in the end; so does a second one that is started beside the first, on the same FILE: they share the work. Once
 * the crawl has ended, FILE keeps the report; `nocter tree --db FILE` shows who found what.
 *
 * Ctrl-C hands back what is being fetched and ends with status 130. Otherwise 0: no broken links; 1: there are some; 2: no report.
 *
 * Build: cc -std=c11 crawl.c $(pkg-config --cflags --libs nocter libcurl libxml-2.0) -o crawl
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <strings.h>
#include <unistd.h>

#include "crawl_page.h"

#define USAGE "usage: crawl START [--db FILE] [--workers N] [--timeout SECONDS]\n"
#define MAXIMUM_WORKERS 1024
#define MAXIMUM_JSON (32u << 20)
#define MAXIMUM_RESCUES 1000 /* a crawl may be killed that often */
#define PROGRESS_MS 250

/* ---- Ctrl-C -------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught; /* the first SIGINT or SIGTERM; a second one waits for nothing */
static nocter_interrupt *interrupt;

static void on_signal(int number) {
  if (caught != 0) _exit(128 + number);
  caught = number;
  nocter_interrupt_raise(interrupt);
}

static void handle_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
}

static int problem(const char *what, nocter_status status) {
  const char *message = nocter_error_message();
  fprintf(stderr, "crawl: %s: %s\n", what, status < 0 && *message != '\0' ? message : nocter_status_name(status));
  return 2;
}

/* ---- The workers ------------------------------------------------------------------------------------------------------ */

static _Thread_local struct fetcher *fetcher; /* one for each thread that serves */

static nocter_status start_thread(void *user) {
  fetcher = make_fetcher(*(const long *)user);
  return NOCTER_OK;
}

static void stop_thread(void *user) {
  (void)user;
  free_fetcher(fetcher);
  fetcher = NULL;
}

static void serve_page(void *user, nocter_run *run) {
  (void)user;
  crawl_page(run, fetcher);
}

static nocter_status serve(nocter_tasks *tasks, uint32_t workers, long *timeout_s, nocter_workers **out) {
  nocter_task_handler handler = {sizeof handler, 0, nocter_text_of(TYPE), serve_page, NULL};
  nocter_workers_options threads = NOCTER_WORKERS_OPTIONS_INIT;
  threads.name = "crawl";
  threads.start = start_thread;
  threads.stop = stop_thread;
  threads.user = timeout_s;
  return nocter_tasks_serve(tasks, &handler, 1, workers, &threads, out);
}

/* ---- The root -------------------------------------------------------------------------------------------------------- */

/* Whoever is first names the crawl of this START, and everybody submits it: with one identity that is one task. */
static nocter_status begin_crawl(nocter_tasks *tasks, const char *url, nocter_task_id *out) {
  char key[MAXIMUM_KEY + 1], name[39] = "\"";
  struct text payload = {NULL, 0, 0};
  nocter_value *first = NULL;
  nocter_submission root = NOCTER_SUBMISSION_INIT;
  write_payload(&payload, url);
  root.id = nocter_task_id_make();
  root.type = nocter_text_of(TYPE);
  root.payload = view(&payload);
  root.key = key_of(url, key);
  root.key_scope = NOCTER_KEY_TREE;
  root.max_attempts = TRIES;
  nocter_task_id_format(root.id, name + 1);
  strcat(name, "\"");
  nocter_status status =
      nocter_shared_put_if_absent(tasks, nocter_text_of("crawl"), root.key, nocter_text_of(name), &first);
  if (status == NOCTER_EXISTS) {
    const nocter_text text = nocter_value_text(first);
    status = NOCTER_E_ARGUMENT;
    if (text.size == 38) status = nocter_task_id_parse((nocter_text){text.data + 1, 36}, &root.id);
    nocter_value_free(first);
  }
  if (status == NOCTER_OK) status = nocter_tasks_submit(tasks, &root, 1, out);
  free(payload.data);
  return status;
}

/* ---- While it runs --------------------------------------------------------------------------------------------------- */

static void show_progress(nocter_tasks *tasks, bool last) {
  nocter_tasks_counts counts = NOCTER_TASKS_COUNTS_INIT;
  if (!isatty(STDERR_FILENO) || nocter_tasks_count(tasks, &counts) != NOCTER_OK) return;
  fprintf(stderr, "\r\033[K%" PRIu64 " fetched, %" PRIu64 " to go, %" PRIu64 " broken%s",
          counts.suspended + counts.completed, counts.queued + counts.running, counts.failed, last ? "\n" : "");
}

/* A store that others keep busy is asked again. */
static nocter_status await_root(nocter_tasks *tasks, nocter_task_id root, const nocter_task **out) {
  nocter_status status;
  do {
    nocter_wait wait = nocter_wait_for_ms(PROGRESS_MS);
    wait.interrupt = interrupt;
    show_progress(tasks, false);
    status = nocter_tasks_await(tasks, root, &wait, out);
    if (status == NOCTER_E_UNAVAILABLE) usleep(PROGRESS_MS * 1000);
  } while ((status == NOCTER_TIMEOUT || status == NOCTER_E_UNAVAILABLE) && caught == 0);
  return caught != 0 && status != NOCTER_OK ? NOCTER_INTERRUPTED : status;
}

/* ---- The report ------------------------------------------------------------------------------------------------------ */

static int report(const char *url, const nocter_task *root) {
  struct totals totals = {0, 0, 0, {NULL, 0, 0}};
  if (root->status != NOCTER_TASK_COMPLETED) {
    const bool failed = root->status == NOCTER_TASK_FAILED;
    const nocter_text reason = failed ? root->failure.message : nocter_text_of("was cancelled");
    add_broken(&totals, url, reason);
    fprintf(stderr, "crawl: %s\n", totals.broken.items[0]);
    free_strings(&totals.broken);
    return 2;
  }
  if (!read_totals(root->result, &totals)) {
    fprintf(stderr, "crawl: %s: a result that no crawl has written\n", url);
    return 2;
  }
  sort_strings(&totals.broken);
  printf("%" PRIu64 " pages, %" PRIu64 " bytes, %" PRIu64 " other files, %zu broken links\n", totals.pages,
         totals.bytes, totals.files, totals.broken.count);
  for (size_t i = 0; i < totals.broken.count; i++) puts(totals.broken.items[i]);
  const int status = totals.broken.count == 0 ? 0 : 1;
  free_strings(&totals.broken);
  if (fflush(stdout) == 0 && ferror(stdout) == 0) return status;
  fprintf(stderr, "crawl: standard output: %s\n", strerror(errno));
  return 2;
}

/* ---- From the beginning to the end ------------------------------------------------------------------------------------ */

static int crawl_with(nocter_tasks *tasks, const char *url, const char *file, uint32_t workers, long timeout_s) {
  nocter_task_id id;
  const nocter_task *root = NULL;
  nocter_workers *threads = NULL;
  nocter_status status = begin_crawl(tasks, url, &id);
  if (status != NOCTER_OK) return problem(file, status);
  status = nocter_tasks_await(tasks, id, NULL, &root);
  if (status == NOCTER_OK) {
    fprintf(stderr, "crawl: ended before: the report in %s; remove it to crawl again\n", file);
  } else if (status == NOCTER_PENDING) {
    status = serve(tasks, workers, &timeout_s, &threads);
    if (status == NOCTER_OK) status = await_root(tasks, id, &root);
    show_progress(tasks, true);
    nocter_workers_destroy(threads); /* what is being fetched is handed back */
  }
  if (status == NOCTER_INTERRUPTED) {
    fputs("crawl: interrupted; the same command goes on\n", stderr);
    return 128 + caught;
  }
  const int code = status == NOCTER_OK ? report(url, root) : problem(file, status);
  nocter_task_free(root);
  return code;
}

static int crawl(const char *url, const char *file, uint32_t workers, long timeout_s) {
  struct text store = {NULL, 0, 0};
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  nocter_tasks *tasks = NULL;
  options.maximum_json = MAXIMUM_JSON;
  options.maximum_rescues = MAXIMUM_RESCUES;
  append(&store, "sqlite:");
  append(&store, file);
  nocter_status status = nocter_interrupt_create(&interrupt);
  if (status != NOCTER_OK) return problem("nocter_interrupt_create", status);
  handle_signals();
  status = nocter_tasks_open(view(&store), &options, &tasks);
  free(store.data);
  if (status != NOCTER_OK) return problem(file, status);
  const int code = crawl_with(tasks, url, file, workers, timeout_s);
  nocter_tasks_close(tasks);
  signal(SIGINT, SIG_IGN); /* what is left takes no time, and the interrupt goes now */
  signal(SIGTERM, SIG_IGN);
  nocter_interrupt_destroy(interrupt);
  return code;
}

/* ---- Arguments ------------------------------------------------------------------------------------------------------- */

static uint32_t default_workers(void) {
  cpu_set_t cores;
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 2;
  return count < 2 ? 4 : (uint32_t)(2 * count); /* they wait for the server most of the time */
}

static int usage_error(const char *before, const char *argument, const char *after) {
  fprintf(stderr, "crawl: %s%s%s\n" USAGE, before, argument, after);
  return 2;
}

/* Whether the text is a number from 1 to the maximum. */
static bool is_number(const char *text, uint32_t maximum, uint32_t *out) {
  uint32_t number = 0;
  if (*text == '\0') return false;
  for (; *text >= '0' && *text <= '9' && number <= maximum; text++) number = number * 10 + (uint32_t)(*text - '0');
  *out = number;
  return *text == '\0' && number >= 1 && number <= maximum;
}

/* Whether the argument is this option; its value follows a '=' or is the next argument, NULL when there is none. */
static bool is_option(const char *name, char ***argument, const char **out_value) {
  const size_t size = strlen(name);
  if (strncmp(**argument, name, size) != 0) return false;
  const char next = (**argument)[size];
  if (next != '\0' && next != '=') return false;
  *out_value = next == '=' ? **argument + size + 1 : *++*argument;
  return true;
}

int main(int argc, char **argv) {
  const char *start = NULL, *file = "crawl.db", *value = NULL;
  uint32_t workers = default_workers(), timeout_s = 10;
  bool options = true;
  for (char **argument = argv + (argc > 0); *argument != NULL; argument++) {
    if (!options || (*argument)[0] != '-' || (*argument)[1] == '\0') {
      if (start != NULL) return usage_error("only one START can be given", "", "");
      start = *argument;
    } else if (strcmp(*argument, "--") == 0) {
      options = false;
    } else if (strcmp(*argument, "--help") == 0) {
      return fputs(USAGE, stdout) == EOF || fflush(stdout) != 0 ? 2 : 0;
    } else if (is_option("--db", &argument, &value)) {
      if (value == NULL || *value == '\0') return usage_error("--db needs the name of a file", "", "");
      file = value;
    } else if (is_option("--workers", &argument, &value)) {
      if (value == NULL || !is_number(value, MAXIMUM_WORKERS, &workers))
        return usage_error("--workers needs a number from 1 to 1024", "", "");
    } else if (is_option("--timeout", &argument, &value)) {
      if (value == NULL || !is_number(value, 86400, &timeout_s))
        return usage_error("--timeout needs a number of seconds from 1 to 86400", "", "");
    } else {
      return usage_error("unknown option '", *argument, "'");
    }
  }
  if (start == NULL) return usage_error("START is missing", "", "");
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return usage_error("libcurl does not start", "", "");
  xmlInitParser();
  char *url = resolve(NULL, start);
  if (url == NULL) return usage_error("'", start, "' is no http:// or https:// URL");
  const int code = crawl(url, file, workers, timeout_s);
  free(url);
  xmlCleanupParser();
  curl_global_cleanup();
  return code;
}
