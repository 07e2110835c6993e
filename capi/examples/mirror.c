/*
 * mirror SRC DST [--workers N] [--keys N] [--resync SECONDS] [--once]
 *
 * Keeps DST equal to SRC while SRC changes: files, links, directories and their modes; until Ctrl-C, or with --once until
 * nothing is due any more.
 *
 * The kernel's events become keys of a nocter keyed queue: the path, and nothing of what happened to it. N threads make
 * passes: each looks at the path in SRC as it is now, and makes the same path in DST equal to that. However often a file
 * changes, one path is in one pass at a time, and a change during a pass brings exactly one more. Where the kernel loses
 * events, or the queue is full, nothing is remembered of what was lost: a round over everything is asked for, which the queue
 * makes a slice at a time beside its other work. Memory is that of the keys and of the directories that are watched.
 *
 * Equal means: the same content, or for a file the same size and time of change, and the same modes. Owners and special files
 * are not mirrored, and a file with several names becomes several files. What is written through a mapping of the file, or
 * under another name of it, is told by nobody: a round finds it.
 *
 * Build: cc -std=c11 mirror.c $(pkg-config --cflags --libs nocter) -lpthread -o mirror
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>

#include "mirror_round.h"

#define USAGE "usage: mirror SRC DST [--workers N] [--keys N] [--resync SECONDS] [--once]\n"
#define MAXIMUM_WORKERS 1024
#define MAXIMUM_KEYS 1048576
#define MAXIMUM_SECONDS 31536000
#define ATTEMPTS 6
#define SLICE_NS 1000000
#define SLICE 256

/* ---- Ctrl-C -------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught; /* the first SIGINT or SIGTERM */
static nocter_interrupt *interrupt;

static void on_signal(int number) {
  if (caught == 0) caught = number;
  nocter_interrupt_raise(interrupt);
}

/* Blocked, but where this thread waits; so they end the wait also when they come just before it. */
static void handle_signals(sigset_t *out_open) {
  sigset_t both;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &both, out_open);
  sigdelset(out_open, SIGINT);
  sigdelset(out_open, SIGTERM);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* ---- Standard error ------------------------------------------------------------------------------------------ */

/* "mirror: PATH: reason", in one line whatever the path is, and in one piece whoever else writes. */
static void report(const char *path, const char *reason) {
  flockfile(stderr);
  fputs("mirror: ", stderr);
  for (; *path != '\0'; path++) {
    if (*path == '\\' || *path == '\n' || *path == '\r') fputc('\\', stderr);
    fputc(*path == '\n' ? 'n' : *path == '\r' ? 'r' : *path, stderr);
  }
  fprintf(stderr, ": %s\n", reason);
  funlockfile(stderr);
}

static int usage_error(const char *before, const char *argument, const char *after) {
  fprintf(stderr, "mirror: %s%s%s\n" USAGE, before, argument, after);
  return 2;
}

static int fail(const char *what, nocter_status status) {
  const char *message = nocter_error_message();
  report(what, status < 0 && *message != '\0' ? message : nocter_status_name(status));
  return 2;
}

/* ---- A pass, on a thread of the queue's ---------------------------------------------------------------------- */

static const char *reason_of(int result) {
  if (result == NO_KIND) return "neither a file nor a link nor a directory";
  if (result == RESERVED) return "the name of mirror's own work folder";
  return strerror(result);
}

static nocter_status make_pass(void *user, nocter_text key, nocter_pass *pass) {
  struct mirror *mirror = user;
  char path[MAXIMUM_PATH + 1];
  memcpy(path, key.data, key.size);
  path[key.size] = '\0';
  const int result = bring_up_to_date(mirror, path, pass);
  nocter_status ended;
  if (nocter_pass_interrupted(pass)) return NOCTER_INTERRUPTED;
  if (result == UP_TO_DATE || result == CHANGED_MEANWHILE) {
    if (result == CHANGED_MEANWHILE) notify(mirror, path); /* one more, behind all that wait */
    ended = nocter_pass_complete(pass);
  } else if (result > 0 && nocter_pass_failures(pass) + 1 < ATTEMPTS) {
    ended = nocter_pass_retry_after(pass, -1); /* may be over soon: too many open files, no room */
  } else {
    atomic_fetch_add(&mirror->problems, 1);
    report(path, reason_of(result));
    ended = nocter_pass_fail(pass);
  }
  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
  if (ended == NOCTER_OK && mirror->once && nocter_keyed_count(mirror->queue, &counts) == NOCTER_OK &&
      counts.retained == 0) {
    mirror->main_thread.wake(mirror->main_thread.user);
  }
  return NOCTER_OK;
}

/* ---- The main thread: events, rounds, the end ---------------------------------------------------------------- */

struct run {
  struct mirror mirror;
  nocter_eventfd *woken;
  nocter_workers *threads;
  sigset_t open; /* while it waits: with the signals that end it */
  bool rounds;   /* the queue has a source */
  uint64_t overflows;
  int64_t resync_ns, next_resync_ns;
};

/* Whatever happened to it: it is to be looked at. False when SRC itself has gone. */
static bool on_event(struct run *run, const struct inotify_event *event) {
  struct mirror *mirror = &run->mirror;
  char path[MAXIMUM_PATH + 1];
  if ((event->mask & IN_Q_OVERFLOW) != 0) {
    run->overflows++;
    atomic_fetch_add(&mirror->wanted, 1);
  } else if ((event->mask & IN_IGNORED) != 0) {
    return watch_ended(&mirror->watches, event->wd);
  } else if (path_of_event(&mirror->watches, event, path) != SIZE_MAX) {
    notify(mirror, path);
  }
  return true;
}

static bool read_events(struct run *run) {
  union {
    char bytes[65536];
    struct inotify_event alignment;
  } buffer;
  const ssize_t size = read(run->mirror.watches.inotify, buffer.bytes, sizeof buffer.bytes);
  for (ssize_t at = 0; at < size;) {
    const struct inotify_event *event = (const struct inotify_event *)(buffer.bytes + at);
    if (!on_event(run, event)) return false;
    at += (ssize_t)(sizeof *event + event->len);
  }
  return true;
}

/* The queue has a source while a round is wanted. */
static nocter_status make_rounds(struct run *run) {
  struct mirror *mirror = &run->mirror;
  const bool wanted = atomic_load(&mirror->wanted) != atomic_load(&mirror->made);
  nocter_status status = NOCTER_OK;
  if (run->resync_ns != 0 && nocter_now_ns() >= run->next_resync_ns) {
    atomic_fetch_add(&mirror->wanted, 1);
    run->next_resync_ns = nocter_now_ns() + run->resync_ns;
    return make_rounds(run);
  }
  if (wanted && !run->rounds) {
    struct round *round = checked(calloc(1, sizeof *round));
    round->mirror = mirror;
    const nocter_keyed_source source = {next_path, drop_round, round};
    status = nocter_keyed_resync(mirror->queue, &source, SLICE_NS, SLICE);
    if (status != NOCTER_OK) free(round);
    run->rounds = true;
  } else if (!wanted && run->rounds) {
    status = nocter_keyed_resync(mirror->queue, NULL, 0, 0);
    run->rounds = false;
  }
  return status;
}

/* Nothing is due, and nothing was said that would make something due; looked at in this order. */
static bool is_settled(const struct run *run) {
  const struct mirror *mirror = &run->mirror;
  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
  struct pollfd events = {mirror->watches.inotify, POLLIN, 0};
  return nocter_keyed_count(mirror->queue, &counts) == NOCTER_OK && counts.retained == 0 &&
         atomic_load(&mirror->wanted) == atomic_load(&mirror->made) && poll(&events, 1, 0) == 0;
}

static int keep_equal(struct run *run) {
  struct pollfd ready[] = {{run->mirror.watches.inotify, POLLIN, 0}, {nocter_eventfd_fd(run->woken), POLLIN, 0}};
  notify(&run->mirror, "");
  while (caught == 0) {
    const nocter_status status = make_rounds(run);
    if (status != NOCTER_OK) return fail("nocter_keyed_resync", status);
    if (run->mirror.once && is_settled(run)) return 0;
    int64_t left = run->next_resync_ns - nocter_now_ns();
    if (left < 0) left = 0;
    const struct timespec timeout = {left / 1000000000, left % 1000000000};
    const int count = ppoll(ready, 2, run->resync_ns == 0 ? NULL : &timeout, &run->open);
    if (count <= 0) continue;
    if (ready[1].revents != 0) nocter_eventfd_clear(run->woken);
    if (ready[0].revents != 0 && !read_events(run)) {
      report("SRC", "was removed");
      return 2;
    }
  }
  return 0;
}

/* What waits is discarded, what runs stops at its next look. Another Ctrl-C ends that wait, and the process. */
static void shut_down(struct run *run) {
  const nocter_wait wait = {NOCTER_FOREVER, interrupt, 0, 0};
  if (caught != 0) fputs("mirror: interrupted\n", stderr);
  nocter_interrupt_clear(interrupt);
  pthread_sigmask(SIG_SETMASK, &run->open, NULL);
  nocter_keyed_close(run->mirror.queue, NOCTER_CLOSE_DISCARD);
  if (nocter_keyed_drained(run->mirror.queue, &wait) == NOCTER_INTERRUPTED) _exit(128 + caught);
}

static int start(struct run *run, uint32_t workers, uint32_t keys) {
  struct mirror *mirror = &run->mirror;
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  nocter_workers_options threads = NOCTER_WORKERS_OPTIONS_INIT;
  options.maximum_keys = keys;
  options.workers = workers;
  options.maximum_key_size = MAXIMUM_PATH;
  threads.name = "mirror";
  threads.stack_size = 1 << 20;
  nocter_status status = nocter_interrupt_create(&interrupt);
  if (status != NOCTER_OK) return fail("nocter_interrupt_create", status);
  handle_signals(&run->open);
  status = nocter_eventfd_create(&run->woken);
  if (status != NOCTER_OK) return fail("nocter_eventfd_create", status);
  mirror->main_thread = nocter_eventfd_notifier(run->woken);
  status = nocter_keyed_create(&options, &mirror->queue);
  if (status != NOCTER_OK) return fail("nocter_keyed_create", status);
  status = nocter_keyed_serve(mirror->queue, make_pass, mirror, &threads, &run->threads);
  return status == NOCTER_OK ? 0 : fail("nocter_keyed_serve", status);
}

static int run_mirror(struct run *run, uint32_t workers, uint32_t keys) {
  struct mirror *mirror = &run->mirror;
  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
  int status = start(run, workers, keys);
  if (status == 0) {
    status = keep_equal(run);
    shut_down(run);
    if (nocter_keyed_count(mirror->queue, &counts) == NOCTER_OK) {
      fprintf(stderr,
              "mirror: %" PRIu64 " passes, %" PRIu64 " problems, %" PRIu64 " overflows, %" PRIu64 " refused, %" PRIu64
              " rounds\n",
              counts.started, (uint64_t)mirror->problems, run->overflows, (uint64_t)mirror->refused,
              (uint64_t)mirror->rounds);
    }
  }
  nocter_workers_destroy(run->threads);
  nocter_keyed_destroy(mirror->queue);
  if (mirror->main_thread.drop != NULL) mirror->main_thread.drop(mirror->main_thread.user);
  nocter_eventfd_destroy(run->woken);
  signal(SIGINT, SIG_IGN); /* what is left takes no time, and the interrupt goes now */
  signal(SIGTERM, SIG_IGN);
  nocter_interrupt_destroy(interrupt);
  if (status != 0) return status;
  if (caught != 0) return 128 + caught;
  return mirror->problems == 0 ? 0 : 1;
}

/* ---- Beginning ------------------------------------------------------------------------------------------------ */

static bool lies_in(const char *inner, const char *outer) {
  const size_t size = strcmp(outer, "/") == 0 ? 0 : strlen(outer);
  return strncmp(inner, outer, size) == 0 && (inner[size] == '\0' || inner[size] == '/');
}

static int open_root(const char *name) {
  const int root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) report(name, strerror(errno));
  return root;
}

/* The two trees, apart from each other, and the work folder, empty and nobody else's. */
static bool open_trees(struct mirror *mirror, const char *source, const char *target) {
  mirror->source = open_root(source);
  if (mirror->source < 0) return false;
  if (mkdir(target, 0700) != 0 && errno != EEXIST) {
    report(target, strerror(errno));
    return false;
  }
  mirror->target = open_root(target);
  if (mirror->target < 0) return false;
  char *full_source = realpath(source, NULL), *full_target = realpath(target, NULL);
  const bool apart = full_source != NULL && full_target != NULL && !lies_in(full_source, full_target) &&
                     !lies_in(full_target, full_source);
  free(full_source);
  free(full_target);
  if (!apart) {
    report(target, "one of SRC and DST lies in the other");
    return false;
  }
  if (mkdirat(mirror->target, WORK, 0700) != 0 && errno != EEXIST) {
    report(target, strerror(errno));
    return false;
  }
  mirror->work = openat(mirror->target, WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (mirror->work < 0 || flock(mirror->work, LOCK_EX | LOCK_NB) != 0) {
    report(target, errno == EWOULDBLOCK ? "another mirror writes here" : strerror(errno));
    return false;
  }
  remove_tree(mirror->work, ".");
  return true;
}

static uint32_t default_workers(void) {
  cpu_set_t cores;
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 2;
  if (count < 2) return 2;
  return count > MAXIMUM_WORKERS ? MAXIMUM_WORKERS : (uint32_t)count;
}

/* Whether the text is a number from the minimum to the maximum. */
static bool is_number(const char *text, uint32_t minimum, uint32_t maximum, uint32_t *out) {
  uint32_t number = 0;
  if (*text == '\0') return false;
  for (; *text >= '0' && *text <= '9' && number <= maximum; text++) number = number * 10 + (uint32_t)(*text - '0');
  *out = number;
  return *text == '\0' && number >= minimum && number <= maximum;
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
  static struct run run;
  const char *names[2] = {NULL, NULL}, *value = NULL;
  uint32_t workers = default_workers(), keys = 16384, resync = 600;
  int given = 0;
  bool options = true;
  for (char **argument = argv + (argc > 0); *argument != NULL; argument++) {
    if (!options || (*argument)[0] != '-' || (*argument)[1] == '\0') {
      if (given == 2) return usage_error("only SRC and DST can be given", "", "");
      names[given++] = *argument;
    } else if (strcmp(*argument, "--") == 0) {
      options = false;
    } else if (strcmp(*argument, "--help") == 0) {
      return fputs(USAGE, stdout) == EOF || fflush(stdout) != 0 ? 2 : 0;
    } else if (strcmp(*argument, "--once") == 0) {
      run.mirror.once = true;
    } else if (is_option("--workers", &argument, &value)) {
      if (value == NULL) return usage_error("--workers needs a number", "", "");
      if (!is_number(value, 1, MAXIMUM_WORKERS, &workers))
        return usage_error("--workers must be a number from 1 to 1024, not '", value, "'");
    } else if (is_option("--keys", &argument, &value)) {
      if (value == NULL) return usage_error("--keys needs a number", "", "");
      if (!is_number(value, 1, MAXIMUM_KEYS, &keys))
        return usage_error("--keys must be a number from 1 to 1048576, not '", value, "'");
    } else if (is_option("--resync", &argument, &value)) {
      if (value == NULL) return usage_error("--resync needs a number", "", "");
      if (!is_number(value, 0, MAXIMUM_SECONDS, &resync))
        return usage_error("--resync must be a number from 0 to 31536000, not '", value, "'");
    } else {
      return usage_error("unknown option: ", *argument, "");
    }
  }
  if (given != 2) return usage_error(given == 0 ? "SRC is missing" : "DST is missing", "", "");
  if (workers > keys) workers = keys;
  run.resync_ns = (int64_t)resync * 1000000000;
  run.next_resync_ns = nocter_now_ns() + run.resync_ns;

  struct mirror *mirror = &run.mirror;
  umask(0);
  pthread_rwlock_init(&mirror->places, NULL);
  if (!open_trees(mirror, names[0], names[1])) return 2;
  const int error = watches_begin(&mirror->watches);
  if (error != 0) {
    report("inotify", strerror(error));
    return 2;
  }
  const int status = run_mirror(&run, workers, keys);
  watches_end(&mirror->watches);
  remove_tree(mirror->work, ".");
  unlinkat(mirror->target, WORK, AT_REMOVEDIR);
  pthread_rwlock_destroy(&mirror->places);
  return status;
}
