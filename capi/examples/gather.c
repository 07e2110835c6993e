/*
 * gather URL-LIST [--workers N] [--closers N] [--open M] [--spool DIR]
 *
 * Reads what every line of URL-LIST names (a path, file:///path, tcp://host:port, http://host/path; "-": the list comes on
 * standard input) to its end, and prints the CRC-32, the size and the URL, sorted by URL. With --spool a copy of what the
 * n-th line of the output names is kept in DIR.
 *
 * Opening and reading block, and so does closing: fsync waits for the disk, close may wait for a server. So every source needs
 * a permit of a nocter retirement service before it is opened, M at most; the permit goes into a job of a blocking service,
 * N threads of which open and read; what comes back is the owner of what was opened, and giving that up queues it for threads
 * that do nothing but close. A close that takes its time holds up its own thread and one of the M places, and nothing else. The
 * main thread waits for both services at once, on one eventfd. Ctrl-C hands back what nobody has begun, abandons
 * what is being read, and closes what is open.
 *
 * Build: cc -std=c11 gather.c $(pkg-config --cflags --libs nocter) -lz -pthread -o gather
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include "gather_source.h"

#define USAGE "usage: gather URL-LIST [--workers N] [--closers N] [--open M] [--spool DIR]\n"
#define MAXIMUM_THREADS 1024
#define MAXIMUM_OPEN 65536
#define DEFAULT_OPEN 64

/* Nothing useful can be done without memory, and the kernel frees everything at the end of the process. */
static void *checked(void *memory) {
  if (memory != NULL) return memory;
  fprintf(stderr, "gather: %s\n", strerror(ENOMEM));
  _exit(2);
}

/* ---- Ctrl-C -------------------------------------------------------------------------------------------------- */

static volatile int64_t caught_ns;
static volatile sig_atomic_t caught;     /* the first SIGINT or SIGTERM */
static int caught_reader, caught_writer; /* a pipe: readable from then on */

/* A later one does not wait for what is being closed; one that comes along with the first means the same. */
static void on_signal(int number) {
  const int error = errno;
  const int64_t now = nocter_now_ns();
  if (caught != 0 && now - caught_ns > 500000000) _exit(128 + number);
  if (caught == 0) {
    caught = number;
    caught_ns = now;
    if (write(caught_writer, "", 1) < 0) _exit(128 + number);
  }
  errno = error;
}

/* Without SA_RESTART: reading the list must end too. */
static void handle_signals(void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = handler;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* ---- Standard output and standard error ---------------------------------------------------------------------- */

static struct {
  char buffer[32768];
  size_t used;
  int error; /* of the first write that failed: nothing more is written */
} output;

/* After a signal only what can be written without waiting: nobody may be reading. */
static void flush_output(void) {
  size_t done = 0;
  while (done < output.used && output.error == 0) {
    struct pollfd writable[] = {{STDOUT_FILENO, POLLOUT, 0}, {caught_reader, POLLIN, 0}};
    const bool stopping = caught != 0;
    if (poll(writable, stopping ? 1 : 2, stopping ? 0 : -1) < 0 && errno != EINTR) break;
    if (writable[0].revents == 0) {
      if (stopping) break;
      continue;
    }
    size_t size = output.used - done;
    if (size > 4096) size = 4096; /* a pipe that is ready takes as much */
    const ssize_t written = write(STDOUT_FILENO, output.buffer + done, size);
    if (written > 0) done += (size_t)written;
    if (written < 0 && errno != EINTR) output.error = errno;
  }
  output.used = 0;
}

static void print(const char *text, size_t size) {
  for (; size != 0; text++, size--) {
    if (output.used == sizeof output.buffer) flush_output();
    output.buffer[output.used++] = *text;
  }
}

/* "gather: SUBJECT: reason", after everything that was printed before it. */
static void report(const char *subject, const char *before, const char *reason) {
  flush_output();
  if (output.error == 0) fprintf(stderr, "gather: %s: %s%s\n", subject, before, reason);
}

/* ---- What is going on ---------------------------------------------------------------------------------------- */

struct gather {
  struct source *sources; /* sorted by URL */
  size_t count, next, printed;
  struct reading reading;
  int stop_writer;       /* closed to stop what is being read */
  nocter_eventfd *woken; /* by both services */
  nocter_retirement *retirement;
  nocter_blocking *blocking;
  nocter_workers *readers;
  pthread_t *closers;
  uint32_t closers_wanted, closers_made;
  nocter_permit *spare;    /* reserved when the blocking service was full */
  size_t jobs;             /* submitted and not taken */
  struct source **closing; /* retired and not taken, the first one first */
  size_t closing_count;
  uint64_t bytes, problems, handed_back;
  bool stopping, failed; /* failed: not the fault of a source: exit 2 */
};

static void fail(struct gather *gather, const char *what, nocter_status status) {
  const char *message = nocter_error_message();
  report(what, "", status < 0 && *message != '\0' ? message : nocter_status_name(status));
  gather->failed = true;
}

/* Whatever a source still holds, wherever it is: the place is free, now or once the source is closed. */
static void give_up(void *data) {
  struct source *source = data;
  nocter_permit_drop(source->permit);
  nocter_resource_drop(source->owner);
  source->permit = NULL;
  source->owner = NULL;
}

/* A thread of this program's: those that nocter_retirement_serve() makes report no errors of a close. */
static void *close_what_is_retired(void *user) {
  nocter_retirement *retirement = user;
  const nocter_wait forever = {NOCTER_FOREVER, NULL, 0, 0};
  nocter_cleanup *cleanup;
  while (nocter_retirement_claim(retirement, &forever, &cleanup) == NOCTER_OK) {
    nocter_owned resource;
    if (nocter_cleanup_begin(cleanup, &resource) != NOCTER_OK ||
        nocter_cleanup_complete(cleanup, close_opened(resource.data)) != NOCTER_OK) {
      nocter_cleanup_drop(cleanup);
    }
  }
  return NULL;
}

/* ---- The main thread: starts, takes, prints ------------------------------------------------------------------ */

static void start_more(struct gather *gather) {
  nocter_epoch epoch; /* not waited for: the eventfd tells when a place may be free */
  nocter_job_id id;
  while (gather->next < gather->count && !gather->stopping && !gather->failed) {
    nocter_status status = NOCTER_OK;
    if (gather->spare == NULL) status = nocter_retirement_reserve(gather->retirement, &gather->spare, &epoch);
    if (status < 0) fail(gather, "nocter_retirement_reserve", status);
    if (status != NOCTER_OK) return;
    struct source *source = &gather->sources[gather->next];
    nocter_owned input = {source, give_up};
    source->permit = gather->spare;
    status = nocter_blocking_submit(gather->blocking, &input, &id, &epoch);
    if (status < 0) fail(gather, "nocter_blocking_submit", status);
    if (status != NOCTER_OK) { /* nothing was taken over: the permit is for the next attempt */
      source->permit = NULL;
      return;
    }
    gather->spare = NULL;
    gather->next++;
    gather->jobs++;
  }
}

/* Its job has ended. What was opened for it is closed somewhere else, beginning now. */
static void finish_reading(struct gather *gather, struct source *source) {
  gather->jobs--;
  source->read = !source->stopped;
  if (source->owner == NULL) return;
  const nocter_status status = nocter_resource_retire(source->owner, &source->closing);
  if (status != NOCTER_OK) {
    fail(gather, "nocter_resource_retire", status);
    return;
  }
  source->owner = NULL;
  gather->closing[gather->closing_count++] = source;
}

static void take_read(struct gather *gather) {
  nocter_job_id ids[64];
  size_t count = 0;
  do {
    nocter_status status = nocter_blocking_completed(gather->blocking, ids, 64, &count);
    for (size_t i = 0; i < count && status == NOCTER_OK; i++) {
      nocter_owned value;
      status = nocter_blocking_take(gather->blocking, ids[i], NULL, &value);
      if (status == NOCTER_OK) finish_reading(gather, value.data);
    }
    if (status != NOCTER_OK) fail(gather, "nocter_blocking_take", status);
  } while (count == 64 && !gather->failed);
}

/* Closing begins in the order of retirement: once more are pending than there are threads, so are all after them. */
static void take_closed(struct gather *gather) {
  size_t kept = 0, i = 0;
  for (; i < gather->closing_count && kept <= gather->closers_made; i++) {
    struct source *source = gather->closing[i];
    int32_t code = 0;
    const nocter_status status = nocter_retirement_take(gather->retirement, source->closing, NULL, &code);
    if (status == NOCTER_PENDING) {
      gather->closing[kept++] = source;
    } else if (status == NOCTER_OK) {
      source->close_error = code;
    } else {
      fail(gather, "nocter_retirement_take", status);
    }
  }
  memmove(gather->closing + kept, gather->closing + i, (gather->closing_count - i) * sizeof *gather->closing);
  gather->closing_count -= i - kept;
}

static void print_source(struct gather *gather, const struct source *source) {
  if (source->problem[0] != '\0') {
    report(source->url, "", source->problem);
    gather->problems++;
    return;
  }
  char sum[48];
  const int size = snprintf(sum, sizeof sum, "%08" PRIx32 " %" PRIu64 " ", source->crc, source->size);
  print(sum, (size_t)size);
  print(source->url, strlen(source->url));
  print("\n", 1);
  gather->bytes += source->size;
}

/* In order, as far as all before it have been read. */
static void print_read(struct gather *gather) {
  while (gather->printed < gather->count && gather->sources[gather->printed].read) {
    print_source(gather, &gather->sources[gather->printed++]);
  }
  flush_output();
}

/* ---- The end ------------------------------------------------------------------------------------------------- */

static void hand_back(void *user, nocter_job_state was, nocter_owned *value) {
  struct gather *gather = user;
  if (was == NOCTER_JOB_QUEUED) {
    gather->handed_back++;
    return; /* what is left in *value is dropped: the permit gives its place back */
  }
  finish_reading(gather, value->data);
  *value = (nocter_owned){NULL, NULL};
}

/* Nothing new is begun, and what is being read is abandoned: it stops, and the service drops what it gives back. */
static void stop(struct gather *gather) {
  nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
  gather->stopping = true;
  nocter_permit_drop(gather->spare);
  gather->spare = NULL;
  nocter_status status = nocter_blocking_shutdown(gather->blocking, hand_back, gather);
  if (status == NOCTER_OK) status = nocter_blocking_count(gather->blocking, &counts);
  if (status != NOCTER_OK) fail(gather, "nocter_blocking_shutdown", status);
  gather->jobs = 0;
  close(gather->stop_writer);
  gather->stop_writer = -1;
  if (caught != 0) {
    fprintf(stderr, "gather: interrupted: %" PRIu64 " running abandoned, %" PRIu64 " queued handed back\n",
            counts.abandoned + counts.abandoned_retired, gather->handed_back);
  }
}

static void gather_all(struct gather *gather) {
  struct pollfd waiting[] = {{nocter_eventfd_fd(gather->woken), POLLIN, 0}, {caught_reader, POLLIN, 0}};
  for (;;) {
    if (!gather->stopping && (caught != 0 || gather->failed || output.error != 0)) stop(gather);
    nocter_eventfd_clear(gather->woken);
    if (!gather->stopping) take_read(gather);
    take_closed(gather);
    start_more(gather);
    print_read(gather);
    const bool begun = gather->stopping || gather->next == gather->count;
    if ((begun && gather->jobs == 0 && gather->closing_count == 0) || (gather->stopping && gather->failed)) return;
    poll(waiting, gather->stopping ? 1 : 2, -1); /* what else ends it shows in the next round */
  }
}

/* First those who use it, then what they use. Afterwards nothing is open, and nothing is left in any service. */
static void shut_down(struct gather *gather) {
  nocter_retirement_counts counts = NOCTER_RETIREMENT_COUNTS_INIT;
  const nocter_wait forever = {NOCTER_FOREVER, NULL, 0, 0};
  nocter_status status = NOCTER_OK;
  if (!gather->stopping) status = nocter_blocking_shutdown(gather->blocking, NULL, NULL);
  if (status == NOCTER_OK) status = nocter_blocking_drained(gather->blocking, &forever);
  if (status != NOCTER_OK) fail(gather, "nocter_blocking_drained", status);
  nocter_retirement_detach_all(gather->retirement); /* there is something only after a failure */
  nocter_retirement_close(gather->retirement);
  status = nocter_retirement_drained(gather->retirement, &forever);
  if (status == NOCTER_OK) status = nocter_retirement_count(gather->retirement, &counts);
  if (status != NOCTER_OK) fail(gather, "nocter_retirement_drained", status);

  for (; gather->printed < gather->count; gather->printed++) {
    if (gather->sources[gather->printed].read) print_source(gather, &gather->sources[gather->printed]);
  }
  for (size_t i = 0; i < gather->count; i++) {
    if (gather->sources[i].close_error == 0) continue;
    report(gather->sources[i].url, "close: ", strerror(gather->sources[i].close_error));
    gather->problems++;
  }
  if (counts.failed_unobserved != 0) {
    flush_output();
    fprintf(stderr, "gather: %" PRIu64 " of the abandoned could not be closed\n", counts.failed_unobserved);
    gather->problems += counts.failed_unobserved;
  }
  if (gather->reading.spool >= 0 && fsync(gather->reading.spool) != 0) { /* the names of the copies */
    report("--spool", "", strerror(errno));
    gather->failed = true;
  }
  flush_output();
}

/* ---- The beginning ------------------------------------------------------------------------------------------- */

static bool start(struct gather *gather, uint32_t workers, uint32_t maximum) {
  nocter_retirement_options closing = NOCTER_RETIREMENT_OPTIONS_INIT;
  nocter_blocking_options reading = NOCTER_BLOCKING_OPTIONS_INIT;
  nocter_workers_options threads = NOCTER_WORKERS_OPTIONS_INIT;
  nocter_status status = nocter_eventfd_create(&gather->woken);
  if (status == NOCTER_OK) {
    closing.maximum_resources = maximum;
    closing.workers = gather->closers_wanted;
    closing.waiters = nocter_eventfd_notifier(gather->woken);
    status = nocter_retirement_create(&closing, &gather->retirement);
    if (status != NOCTER_OK) closing.waiters.drop(closing.waiters.user);
  }
  if (status == NOCTER_OK) {
    /* One job for each thread waits: more would hold places without any use. */
    reading.maximum_jobs = 2 * workers < maximum ? 2 * workers : maximum;
    reading.workers = workers;
    reading.waiters = nocter_eventfd_notifier(gather->woken);
    status = nocter_blocking_create(&reading, &gather->blocking);
    if (status != NOCTER_OK) reading.waiters.drop(reading.waiters.user);
  }
  threads.name = "gather";
  if (status == NOCTER_OK) {
    status = nocter_blocking_serve(gather->blocking, gather_source, &gather->reading, &threads, &gather->readers);
  }
  if (status != NOCTER_OK) {
    fail(gather, "cannot begin", status);
    return false;
  }
  for (; gather->closers_made < gather->closers_wanted; gather->closers_made++) {
    pthread_t *closer = &gather->closers[gather->closers_made];
    const int error = pthread_create(closer, NULL, close_what_is_retired, gather->retirement);
    if (error == 0) continue;
    report("cannot begin", "", strerror(error));
    gather->failed = true;
    break;
  }
  return gather->closers_made != 0;
}

static int run(struct gather *gather, uint32_t workers, uint32_t maximum) {
  sigset_t signals, before;
  gather->closing = checked(calloc(maximum, sizeof *gather->closing));
  gather->closers = checked(calloc(gather->closers_wanted, sizeof *gather->closers));
  sigfillset(&signals); /* they are the main thread's: the threads inherit this */
  pthread_sigmask(SIG_SETMASK, &signals, &before);
  const bool started = start(gather, workers, maximum);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) {
    gather_all(gather);
    shut_down(gather);
  }
  nocter_retirement_close(gather->retirement);
  for (uint32_t i = 0; i < gather->closers_made; i++) pthread_join(gather->closers[i], NULL);
  nocter_workers_destroy(gather->readers);
  nocter_blocking_destroy(gather->blocking);
  nocter_retirement_destroy(gather->retirement);
  nocter_eventfd_destroy(gather->woken);
  free(gather->closers);
  free(gather->closing);

  if (output.error != 0) fprintf(stderr, "gather: standard output: %s\n", strerror(output.error));
  if (gather->failed || output.error != 0) return 2;
  size_t sources = 0;
  for (size_t i = 0; i < gather->count; i++)
    sources += gather->sources[i].read && gather->sources[i].problem[0] == '\0';
  fprintf(stderr, "gather: %zu sources, %" PRIu64 " bytes, %" PRIu64 " problems\n", sources, gather->bytes,
          gather->problems);
  if (caught != 0) return 128 + caught;
  return gather->problems == 0 ? 0 : 1;
}

/* The whole list, with a NUL at its end; NULL with errno when it cannot be read. */
static char *read_list(const char *name, size_t *out_size) {
  const int file = strcmp(name, "-") == 0 ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
  size_t size = 0, capacity = CHUNK;
  char *text = checked(malloc(capacity));
  ssize_t got = file < 0 ? -1 : 1;
  while (file >= 0 && (got = read(file, text + size, capacity - size - 1)) > 0) {
    size += (size_t)got;
    if (capacity - size < CHUNK) text = checked(realloc(text, capacity *= 2));
  }
  const int error = errno;
  if (file >= 0) close(file);
  errno = error;
  if (got < 0) {
    free(text);
    return NULL;
  }
  text[size] = '\0';
  *out_size = size;
  return text;
}

static int by_url(const void *a, const void *b) {
  return strcmp(((const struct source *)a)->url, ((const struct source *)b)->url);
}

/* A source for each line that is neither blank nor a comment, sorted. */
static void parse_list(struct gather *gather, char *text) {
  size_t lines = 1;
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
  gather->sources = checked(calloc(lines, sizeof *gather->sources));
  for (char *line = text, *next; line != NULL; line = next) {
    next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    const size_t size = strlen(line);
    if (size != 0 && line[size - 1] == '\r') line[size - 1] = '\0';
    if (*line != '\0' && *line != '#') gather->sources[gather->count++].url = line;
  }
  if (gather->count != 0) qsort(gather->sources, gather->count, sizeof *gather->sources, by_url);
  for (size_t i = 0; i < gather->count; i++) gather->sources[i].number = i + 1;
}

static int usage_error(const char *before, const char *argument, const char *after) {
  fprintf(stderr, "gather: %s%s%s\n" USAGE, before, argument, after);
  return 2;
}

/* 0 for what is no number from 1 to the maximum. */
static uint32_t number_of(const char *text, uint32_t maximum) {
  uint32_t number = 0;
  for (; *text >= '0' && *text <= '9' && number <= maximum; text++) number = number * 10 + (uint32_t)(*text - '0');
  return *text == '\0' && number <= maximum ? number : 0;
}

static uint32_t default_threads(uint32_t maximum) {
  cpu_set_t cores;
  uint32_t count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 2;
  if (count < 2) count = 2;
  if (count > MAXIMUM_THREADS) count = MAXIMUM_THREADS;
  return count < maximum ? count : maximum;
}

struct arguments {
  const char *list, *spool;
  uint32_t workers, closers, open;
};

/* An exit status when there is nothing to be done, else -1. */
static int parse(char **argument, struct arguments *out) {
  bool options = true;
  for (; *argument != NULL; argument++) {
    const char *name = *argument;
    if (!options || name[0] != '-' || name[1] == '\0') {
      if (out->list != NULL) return usage_error("only one URL-LIST can be given", "", "");
      out->list = name;
      continue;
    }
    if (strcmp(name, "--help") == 0) {
      print(USAGE, strlen(USAGE));
      flush_output();
      if (output.error != 0) fprintf(stderr, "gather: standard output: %s\n", strerror(output.error));
      return output.error == 0 ? 0 : 2;
    }
    if (strcmp(name, "--") == 0) {
      options = false;
      continue;
    }
    const struct {
      const char *name, *wrong;
      uint32_t *number, maximum;
    } known[] = {{"--workers", "--workers must be a number from 1 to 1024, not '", &out->workers, MAXIMUM_THREADS},
                 {"--closers", "--closers must be a number from 1 to 1024, not '", &out->closers, MAXIMUM_THREADS},
                 {"--open", "--open must be a number from 1 to 65536, not '", &out->open, MAXIMUM_OPEN},
                 {"--spool", NULL, NULL, 0}};
    const size_t size = strcspn(name, "=");
    size_t i = 0;
    while (i < 4 && (strlen(known[i].name) != size || strncmp(known[i].name, name, size) != 0)) i++;
    if (i == 4) return usage_error("unknown option: ", name, "");
    const char *value = name[size] == '=' ? name + size + 1 : *++argument;
    if (value == NULL) return usage_error(known[i].name, " needs a value", "");
    if (known[i].number == NULL) {
      out->spool = value;
    } else if ((*known[i].number = number_of(value, known[i].maximum)) == 0) {
      return usage_error(known[i].wrong, value, "'");
    }
  }
  if (out->list == NULL) return usage_error("URL-LIST is missing", "", "");
  if (out->open == 0) {
    out->open = DEFAULT_OPEN;
    if (out->open < out->workers) out->open = out->workers;
    if (out->open < out->closers) out->open = out->closers;
  }
  if (out->workers == 0) out->workers = default_threads(out->open);
  if (out->closers == 0) out->closers = default_threads(out->open);
  if (out->open < out->workers) return usage_error("--open must be at least --workers", "", "");
  if (out->open < out->closers) return usage_error("--open must be at least --closers", "", "");
  return -1;
}

static int open_spool_directory(const char *name) {
  if (mkdir(name, 0777) != 0 && errno != EEXIST) return -1;
  return open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int gather_list(const struct arguments *arguments) {
  struct gather gather = {0};
  size_t size = 0;
  int stop[2];
  if (pipe2(stop, O_CLOEXEC) != 0) {
    report("pipe", "", strerror(errno));
    return 2;
  }
  gather.reading = (struct reading){stop[0], -1};
  gather.stop_writer = stop[1];
  gather.closers_wanted = arguments->closers;
  char *text = read_list(arguments->list, &size);
  int status = 2;
  if (text == NULL && caught != 0) {
    status = 128 + caught;
  } else if (text == NULL) {
    report(arguments->list, "", strerror(errno));
  } else if (strlen(text) != size) {
    report(arguments->list, "", "not a list of URLs");
  } else if (arguments->spool != NULL && (gather.reading.spool = open_spool_directory(arguments->spool)) < 0) {
    report(arguments->spool, "", strerror(errno));
  } else {
    parse_list(&gather, text);
    status = run(&gather, arguments->workers, arguments->open);
  }
  if (gather.reading.spool >= 0) close(gather.reading.spool);
  if (gather.stop_writer >= 0) close(gather.stop_writer);
  close(gather.reading.stop);
  free(gather.sources);
  free(text);
  return status;
}

int main(int argc, char **argv) {
  (void)argc;
  struct arguments arguments = {NULL, NULL, 0, 0, 0};
  int caught_pipe[2];
  /* A descriptor that is closed would be given to the next file opened, and be written to. */
  for (int descriptor = 0; descriptor <= 2; descriptor++) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return 2;
  }
  signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of write() */
  if (pipe2(caught_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    report("pipe", "", strerror(errno));
    return 2;
  }
  caught_reader = caught_pipe[0];
  caught_writer = caught_pipe[1];
  int status = argv[0] == NULL ? usage_error("URL-LIST is missing", "", "") : parse(argv + 1, &arguments);
  if (status < 0) {
    handle_signals(on_signal);
    status = gather_list(&arguments);
    handle_signals(SIG_IGN); /* what is left takes no time */
  }
  close(caught_reader);
  close(caught_writer);
  return status;
}
