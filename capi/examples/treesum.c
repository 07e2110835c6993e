/*
 * treesum DIR [--workers N] [--jobs M]
 *
 * Prints the CRC-32, the size and the path of every regular file below DIR, in bytewise order of the paths.
 *
 * Reading files blocks, so it is done by N threads of a nocter blocking service. The main thread walks the tree, submits
 * one job a file and takes the results in the same order; at most M jobs are out at any time, so the memory needed is
 * that of M jobs and of the directories on the current path, however large the tree is. Ctrl-C raises an interrupt that
 * the main thread's waits carry: it shuts the service down, which hands back what nobody has begun and abandons what
 * runs; the running jobs notice between two reads and stop.
 *
 * Build: cc -std=c11 treesum.c $(pkg-config --cflags --libs nocter) -lz -o treesum
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nocter.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "treesum_walk.h"

#define USAGE "usage: treesum DIR [--workers N] [--jobs M]\n"
#define MAXIMUM_WORKERS 1024
#define MAXIMUM_JOBS 65536
#define CHUNK (256 * 1024)
#define REDRAW_NS 100000000 /* the progress bar: ten times a second */

/* ---- Ctrl-C ------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught; /* the first SIGINT or SIGTERM */
static nocter_interrupt *interrupt;

static void on_signal(int number) {
  if (caught == 0) caught = number;
  nocter_interrupt_raise(interrupt);
}

/* Without SA_RESTART: a write to a reader that does not read must end too. */
static void handle_signals(void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = handler;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* ---- Standard output and standard error --------------------------------------------------------------------- */

static struct {
  char buffer[65536];
  size_t used;
  int error;     /* of the first write that failed: nothing more is written */
  bool terminal; /* then line by line */
} output;

static struct {
  bool wanted, drawn;
  int64_t drawn_ns;
  uint64_t total_bytes;
} bar;

static void erase_bar(void) {
  if (!bar.drawn) return;
  fputs("\r\033[K", stderr);
  bar.drawn = false;
}

/* After a signal only what can be written without waiting: nobody may be reading. */
static void flush_output(void) {
  size_t done = 0;
  if (output.terminal) erase_bar();
  while (done < output.used && output.error == 0) {
    size_t size = output.used - done;
    if (caught != 0) {
      struct pollfd writable = {STDOUT_FILENO, POLLOUT, 0};
      if (poll(&writable, 1, 0) != 1) break;
      if (size > 4096) size = 4096; /* a pipe that is ready takes as much */
    }
    const ssize_t written = write(STDOUT_FILENO, output.buffer + done, size);
    if (written > 0) done += (size_t)written;
    if (written < 0 && errno != EINTR) output.error = errno;
  }
  output.used = 0;
}

static void print(const char *bytes, size_t size) {
  while (size != 0) {
    size_t part = sizeof output.buffer - output.used;
    if (part > size) part = size;
    memcpy(output.buffer + output.used, bytes, part);
    output.used += part;
    bytes += part;
    size -= part;
    if (output.used == sizeof output.buffer) flush_output();
  }
  if (output.terminal) flush_output();
}

/* "treesum: PATH: reason", after everything that was printed before it. */
static void report(const char *path, const char *reason) {
  struct text line = {NULL, 0, 0};
  flush_output();
  if (output.error != 0) return;
  erase_bar();
  text_add_escaped(&line, path);
  fprintf(stderr, "treesum: %s: %s\n", line.data == NULL ? "" : line.data, reason);
  free(line.data);
}

/* "treesum: BEFORE ARGUMENT AFTER" and how it is called. */
static int usage_error(const char *before, const char *argument, const char *after) {
  struct text line = {NULL, 0, 0};
  text_add(&line, before, strlen(before));
  text_add_escaped(&line, argument);
  fprintf(stderr, "treesum: %s%s\n" USAGE, line.data, after);
  free(line.data);
  return 2;
}

/* ---- The job: sums one file, on a thread of the service ------------------------------------------------------ */

/* What all jobs share. */
struct tree {
  const char *name; /* as it was given */
  int root;
  atomic_uint_fast64_t bytes_read;
};

/* Goes in as the input of a job and comes back as its output. */
struct job {
  uint32_t crc;
  uint64_t size;
  bool nothing;        /* a link to a directory: neither summed nor reported */
  int error;           /* errno, or 0 */
  const char *problem; /* another reason, or NULL */
  char path[];
};

static const char *kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "not a regular file: FIFO";
  if (S_ISSOCK(mode)) return "not a regular file: socket";
  if (S_ISCHR(mode)) return "not a regular file: character device";
  return "not a regular file: block device";
}

static bool same_content(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void read_file(struct tree *tree, struct job *job, int file, const struct stat *before,
                      const nocter_completion *completion) {
  unsigned char buffer[CHUNK];
  struct stat after;
  uLong crc = crc32(0, Z_NULL, 0);
  /* One that grows as fast as it is read must end too. */
  while (job->size <= (uint64_t)before->st_size && !nocter_completion_abandoned(completion)) {
    const ssize_t size = read(file, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      job->error = errno;
      return;
    }
    if (size == 0) break;
    crc = crc32(crc, buffer, (uInt)size);
    job->size += (uint64_t)size;
    atomic_fetch_add_explicit(&tree->bytes_read, (uint64_t)size, memory_order_relaxed);
  }
  job->crc = (uint32_t)crc;
  if (fstat(file, &after) != 0) {
    job->error = errno;
  } else if (job->size != (uint64_t)before->st_size || !same_content(before, &after)) {
    job->problem = "changed while it was read";
  }
}

static void sum_file(void *user, nocter_owned *input, nocter_owned *output_value, nocter_completion *completion) {
  struct tree *tree = user;
  struct job *job = input->data;
  struct stat before;
  *output_value = *input;
  *input = (nocter_owned){NULL, NULL};

  /* Asked before it is opened: opening a device or a FIFO is felt at its other end. */
  if (fstatat(tree->root, job->path, &before, 0) != 0) {
    job->error = errno;
    return;
  }
  if (S_ISDIR(before.st_mode)) {
    job->nothing = true;
    return;
  }
  if (!S_ISREG(before.st_mode)) {
    job->problem = kind_of(before.st_mode);
    return;
  }
  const int file = openat(tree->root, job->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    job->error = errno;
    return;
  }
  read_file(tree, job, file, &before, completion);
  close(file);
}

/* ---- The main thread: submits in order, takes in order ------------------------------------------------------- */

/* One entry that was found and not yet printed. */
struct pending {
  nocter_job_id id;
  char *path;
  const char *problem; /* known without a job, or NULL */
};

struct summing {
  nocter_blocking *service;
  struct tree tree;
  struct walk walk;
  struct pending *ring; /* the oldest first */
  size_t capacity, first, count;
  uint64_t files, bytes, problems;
  bool failed;    /* something that is not a file's fault: exit 2 */
  int stopped_by; /* the signal that ended it before its end, or 0 */
};

static bool going_on(const struct summing *summing) { return caught == 0 && !summing->failed && output.error == 0; }

static void fail(struct summing *summing, const char *what, nocter_status status) {
  const char *message = nocter_error_message();
  report(what, status < 0 && *message != '\0' ? message : nocter_status_name(status));
  summing->failed = true;
}

static void count_problem(struct summing *summing, const char *path, const char *reason) {
  report(path, reason);
  summing->problems++;
}

static void draw_bar(const struct summing *summing) {
  if (!bar.wanted) return;
  const int64_t now = nocter_now_ns();
  if (bar.drawn_ns != 0 && now - bar.drawn_ns < REDRAW_NS) return;
  const uint64_t read_now = summing->tree.bytes_read;
  unsigned percent = 100;
  if (read_now < bar.total_bytes) percent = (unsigned)((double)read_now / (double)bar.total_bytes * 100);
  fprintf(stderr, "\r[%.*s%.*s] %3u%% %" PRIu64 " files %" PRIu64 " bytes", (int)(percent / 10), "##########",
          (int)(10 - percent / 10), "----------", percent, summing->files, read_now);
  bar.drawn_ns = now;
  bar.drawn = true;
}

static void print_sum(struct summing *summing, const char *path, const struct job *job) {
  struct text line = {NULL, 0, 0};
  char sum[64];
  if (strpbrk(path, "\\\n\r") != NULL) text_add(&line, "\\", 1);
  const int size = snprintf(sum, sizeof sum, "%08" PRIx32 " %" PRIu64 " ", job->crc, job->size);
  text_add(&line, sum, (size_t)size);
  text_add_escaped(&line, path);
  text_add(&line, "\n", 1);
  print(line.data, line.size);
  free(line.data);
  summing->files++;
  summing->bytes += job->size;
}

static void print_outcome(struct summing *summing, const char *path, const struct job *job) {
  if (job->nothing) return;
  if (!is_utf8(last_name(path))) count_problem(summing, path, NAME_PROBLEM);
  if (job->error != 0) {
    count_problem(summing, path, strerror(job->error));
  } else if (job->problem != NULL) {
    count_problem(summing, path, job->problem);
  } else {
    print_sum(summing, path, job);
  }
}

/* Prints the oldest entry once its job has ended, waiting for that if `waiting`. False when it has not ended. */
static bool finish_oldest(struct summing *summing, bool waiting) {
  struct pending *oldest = &summing->ring[summing->first];
  if (oldest->problem != NULL) {
    count_problem(summing, oldest->path[0] == '\0' ? summing->tree.name : oldest->path, oldest->problem);
  } else {
    nocter_owned result;
    nocter_status status;
    do {
      nocter_wait wait = {NOCTER_FOREVER, interrupt, 0, 0};
      if (bar.wanted) wait.deadline_ns = nocter_now_ns() + REDRAW_NS;
      draw_bar(summing);
      status = nocter_blocking_take(summing->service, oldest->id, waiting ? &wait : NULL, &result);
    } while (status == NOCTER_TIMEOUT);
    if (status == NOCTER_PENDING || status == NOCTER_INTERRUPTED) return false;
    if (status == NOCTER_OK) {
      print_outcome(summing, oldest->path, result.data);
      result.drop(result.data);
    } else if (status == NOCTER_WORKER_LOST) {
      count_problem(summing, oldest->path, "worker lost");
    } else {
      fail(summing, "nocter_blocking_take", status);
      return false;
    }
  }
  free(oldest->path);
  summing->first = (summing->first + 1) % summing->capacity;
  summing->count--;
  return true;
}

static void submit(struct summing *summing, const char *path, nocter_job_id *out_id) {
  const size_t size = strlen(path) + 1;
  struct job *job = checked(calloc(1, sizeof *job + size));
  memcpy(job->path, path, size);
  nocter_owned input = {job, free};
  nocter_status status;
  nocter_epoch epoch; /* not waited for: taking the oldest result is what frees a place here */
  while ((status = nocter_blocking_submit(summing->service, &input, out_id, &epoch)) == NOCTER_SATURATED) {
    if (!finish_oldest(summing, true)) break;
  }
  if (status < 0) fail(summing, "nocter_blocking_submit", status);
  if (input.data != NULL) free(input.data); /* not taken over: it is still ours */
}

static void sum_tree(struct summing *summing) {
  const char *problem = NULL;
  enum found found;
  walk_begin(&summing->walk, summing->tree.root);
  while (going_on(summing) && (found = walk_next(&summing->walk, &problem)) != FOUND_END) {
    while (summing->count == summing->capacity && going_on(summing)) finish_oldest(summing, true);
    if (!going_on(summing)) break;
    struct pending next = {{0, 0}, NULL, found == FOUND_PROBLEM ? problem : NULL};
    if (found == FOUND_FILE) submit(summing, summing->walk.path.data, &next.id);
    if (!going_on(summing)) break;
    next.path = checked(strdup(summing->walk.path.data));
    summing->ring[(summing->first + summing->count++) % summing->capacity] = next;
    while (summing->count != 0 && going_on(summing) && finish_oldest(summing, false)) {
    }
  }
  while (summing->count != 0 && going_on(summing)) finish_oldest(summing, true);
  walk_end(&summing->walk);
  for (; summing->count != 0; summing->count--) {
    free(summing->ring[summing->first].path);
    summing->first = (summing->first + 1) % summing->capacity;
  }
}

/* What the progress bar calls 100 %. */
static void count_tree(struct summing *summing) {
  const char *problem;
  enum found found;
  struct stat status;
  walk_begin(&summing->walk, summing->tree.root);
  while (caught == 0 && (found = walk_next(&summing->walk, &problem)) != FOUND_END) {
    if (found == FOUND_FILE && fstatat(summing->tree.root, summing->walk.path.data, &status, 0) == 0 &&
        S_ISREG(status.st_mode)) {
      bar.total_bytes += (uint64_t)status.st_size;
    }
  }
  walk_end(&summing->walk);
}

/* ---- Beginning and end -------------------------------------------------------------------------------------- */

static void hand_back(void *user, nocter_job_state was, nocter_owned *value) {
  uint64_t *queued = user;
  if (was == NOCTER_JOB_QUEUED) ++*queued;
  value->drop(value->data);
  *value = (nocter_owned){NULL, NULL};
}

/* Nothing new is begun, what runs is abandoned and waited for. Another Ctrl-C ends that wait, and the process. */
static void shut_down(struct summing *summing) {
  uint64_t queued = 0;
  nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
  const nocter_wait wait = {NOCTER_FOREVER, interrupt, 0, 0};
  nocter_interrupt_clear(interrupt);
  nocter_status status = nocter_blocking_shutdown(summing->service, hand_back, &queued);
  if (status == NOCTER_OK) status = nocter_blocking_count(summing->service, &counts);
  if (status != NOCTER_OK) fail(summing, "nocter_blocking_shutdown", status);
  if (summing->stopped_by != 0) {
    fprintf(stderr, "treesum: interrupted: %" PRIu64 " running abandoned, %" PRIu64 " queued handed back\n",
            counts.abandoned + counts.abandoned_retired, queued);
  }
  if (nocter_blocking_drained(summing->service, &wait) == NOCTER_INTERRUPTED) _exit(128 + caught);
}

static int run(const char *name, int root, uint32_t workers, uint32_t jobs) {
  struct summing summing = {0};
  nocter_workers *threads = NULL;
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  nocter_workers_options threads_options = NOCTER_WORKERS_OPTIONS_INIT;
  options.maximum_jobs = jobs;
  options.workers = workers;
  threads_options.name = "treesum";
  threads_options.stack_size = 4 * CHUNK;
  summing.tree.name = name;
  summing.tree.root = root;
  summing.capacity = jobs;
  summing.ring = checked(calloc(jobs, sizeof *summing.ring));

  nocter_status status = nocter_interrupt_create(&interrupt);
  if (status != NOCTER_OK) fail(&summing, "nocter_interrupt_create", status);
  if (!summing.failed) {
    handle_signals(on_signal);
    status = nocter_blocking_create(&options, &summing.service);
    if (status != NOCTER_OK) fail(&summing, "nocter_blocking_create", status);
  }
  if (!summing.failed) {
    status = nocter_blocking_serve(summing.service, sum_file, &summing.tree, &threads_options, &threads);
    if (status != NOCTER_OK) fail(&summing, "nocter_blocking_serve", status);
  }
  if (!summing.failed) {
    if (bar.wanted) count_tree(&summing);
    sum_tree(&summing);
    flush_output();
    erase_bar();
    summing.stopped_by = caught;
    shut_down(&summing);
  }
  nocter_workers_destroy(threads);
  nocter_blocking_destroy(summing.service);
  handle_signals(SIG_IGN); /* what is left takes no time, and the interrupt goes now */
  nocter_interrupt_destroy(interrupt);
  free(summing.ring);

  if (output.error != 0) {
    fprintf(stderr, "treesum: standard output: %s\n", strerror(output.error));
    return 2;
  }
  if (summing.failed) return 2;
  fprintf(stderr, "treesum: %" PRIu64 " files, %" PRIu64 " bytes, %" PRIu64 " problems\n", summing.files, summing.bytes,
          summing.problems);
  if (summing.stopped_by != 0) return 128 + summing.stopped_by;
  return summing.problems == 0 ? 0 : 1;
}

static uint32_t default_workers(void) {
  cpu_set_t cores;
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 2;
  if (count < 2) return 2;
  return count > MAXIMUM_WORKERS ? MAXIMUM_WORKERS : (uint32_t)count;
}

/* 0 for what is no number from 1 to the maximum. */
static uint32_t number_of(const char *text, uint32_t maximum) {
  uint32_t number = 0;
  for (; *text >= '0' && *text <= '9' && number <= maximum; text++) number = number * 10 + (uint32_t)(*text - '0');
  return *text == '\0' && number <= maximum ? number : 0;
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

/* A descriptor that is closed would be given to the next file opened, and be written to. */
static bool hold_standard_descriptors(void) {
  bool complete = true;
  for (int descriptor = 0; descriptor <= 2; descriptor++) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    if (descriptor == STDOUT_FILENO) complete = false;
    if (open("/dev/null", O_RDWR) < 0) _exit(2);
  }
  return complete;
}

static int printed(const char *text) {
  print(text, strlen(text));
  flush_output();
  if (output.error == 0) return 0;
  fprintf(stderr, "treesum: standard output: %s\n", strerror(output.error));
  return 2;
}

int main(int argc, char **argv) {
  (void)argc;
  const char *name = NULL, *value = NULL;
  uint32_t workers = 0, jobs = 0;
  bool options = true;
  const bool complete = hold_standard_descriptors();
  signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of write() */
  output.terminal = isatty(STDOUT_FILENO);
  bar.wanted = isatty(STDERR_FILENO);
  if (!complete) {
    report("standard output", strerror(EBADF));
    return 2;
  }

  for (char **argument = argv + 1; argv[0] != NULL && *argument != NULL; argument++) {
    const bool option = options && (*argument)[0] == '-' && (*argument)[1] != '\0';
    if (!option) {
      if (name != NULL) return usage_error("only one DIR can be given", "", "");
      name = *argument;
    } else if (strcmp(*argument, "--") == 0) {
      options = false;
    } else if (strcmp(*argument, "--help") == 0) {
      return printed(USAGE);
    } else if (is_option("--workers", &argument, &value)) {
      if (value == NULL) return usage_error("--workers needs a number", "", "");
      workers = number_of(value, MAXIMUM_WORKERS);
      if (workers == 0) return usage_error("--workers must be a number from 1 to 1024, not '", value, "'");
    } else if (is_option("--jobs", &argument, &value)) {
      if (value == NULL) return usage_error("--jobs needs a number", "", "");
      jobs = number_of(value, MAXIMUM_JOBS);
      if (jobs == 0) return usage_error("--jobs must be a number from 1 to 65536, not '", value, "'");
    } else {
      return usage_error("unknown option: ", *argument, "");
    }
  }
  if (name == NULL) return usage_error("DIR is missing", "", "");
  if (workers == 0) {
    workers = default_workers();
    if (jobs != 0 && jobs < workers) workers = jobs;
  }
  if (jobs == 0) jobs = 4 * workers;
  if (jobs < workers) return usage_error("--jobs must be at least --workers", "", "");

  const int root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    report(name, strerror(errno));
    return 2;
  }
  const int status = run(name, root, workers, jobs);
  close(root);
  return status;
}
