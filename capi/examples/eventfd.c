/*
 * A program with an event loop hands its blocking calls to nocter and goes on: the loop is told by a descriptor when some
 * of them have ended. Here the blocking call is getaddrinfo(), which has no form that does not block.
 *
 * eventfd NAME…       for example: eventfd localhost ip6-localhost
 *
 * Build: cc -std=c11 eventfd.c $(pkg-config --cflags --libs nocter) -o eventfd
 */
#define _POSIX_C_SOURCE 200809L
#include <netdb.h>
#include <nocter.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define AT_ONCE 8
#define ADDRESS_SIZE 256

struct lookup {
  const char *name;
  char address[ADDRESS_SIZE]; /* or why there is none */
};

/* Runs on a thread of the library's. The lookup goes in as the input and comes back as the output. */
static void look_up(void *user, nocter_owned *input, nocter_owned *output, nocter_completion *completion) {
  (void)user;
  (void)completion;
  struct lookup *lookup = input->data;
  struct addrinfo *found = NULL;
  *output = *input;
  *input = (nocter_owned){NULL, NULL};
  int error = getaddrinfo(lookup->name, NULL, NULL, &found);
  if (error == 0) {
    error = getnameinfo(found->ai_addr, found->ai_addrlen, lookup->address, sizeof lookup->address, NULL, 0,
                        NI_NUMERICHOST);
    freeaddrinfo(found);
  }
  if (error != 0) snprintf(lookup->address, sizeof lookup->address, "%s", gai_strerror(error));
}

static void fail(const char *what, nocter_status status) {
  fprintf(stderr, "%s: %s %s\n", what, nocter_status_name(status), status < 0 ? nocter_error_message() : "");
  exit(1);
}

static nocter_status submit(nocter_blocking *service, const char *name) {
  nocter_job_id id; /* not kept: `completed` below names the jobs that have ended */
  nocter_epoch epoch;
  struct lookup *lookup = calloc(1, sizeof *lookup);
  if (lookup == NULL) return NOCTER_E_MEMORY;
  lookup->name = name;
  nocter_owned input = {lookup, free};
  const nocter_status status = nocter_blocking_submit(service, &input, &id, &epoch);
  free(input.data); /* NULL when the service took it over */
  return status;
}

/* Prints what has ended; returns how many. */
static size_t take_ended(nocter_blocking *service) {
  nocter_job_id ended[AT_ONCE];
  size_t count = 0;
  const nocter_status status = nocter_blocking_completed(service, ended, AT_ONCE, &count);
  if (status != NOCTER_OK) fail("completed", status);
  for (size_t i = 0; i < count; i++) {
    nocter_owned output;
    const nocter_status taken = nocter_blocking_take(service, ended[i], NULL, &output);
    if (taken != NOCTER_OK) fail("take", taken);
    const struct lookup *lookup = output.data;
    printf("%s %s\n", lookup->name, lookup->address);
    output.drop(output.data);
  }
  return count;
}

int main(int argc, char **argv) {
  nocter_eventfd *eventfd = NULL;
  nocter_blocking *service = NULL;
  nocter_workers *threads = NULL;
  nocter_status status = nocter_eventfd_create(&eventfd);
  if (status != NOCTER_OK) fail("eventfd", status);
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.maximum_jobs = AT_ONCE;
  options.workers = 4;
  options.waiters = nocter_eventfd_notifier(eventfd); /* the service's from here on */
  status = nocter_blocking_create(&options, &service);
  if (status != NOCTER_OK) fail("create", status);
  status = nocter_blocking_serve(service, look_up, NULL, NULL, &threads);
  if (status != NOCTER_OK) fail("serve", status);

  int next = 1;
  size_t waiting = 0;
  while (next < argc || waiting != 0) {
    /* As many as there is room for. A saturated service is no error: the next ones wait for their turn. */
    while (next < argc && (status = submit(service, argv[next])) == NOCTER_OK) {
      next++;
      waiting++;
    }
    if (status < 0) fail("submit", status);
    struct pollfd events[] = {{nocter_eventfd_fd(eventfd), POLLIN, 0}}; /* and the program's own descriptors */
    if (poll(events, 1, -1) < 0) continue;
    nocter_eventfd_clear(eventfd); /* first this, then the question: so no wake is lost */
    size_t ended;
    while ((ended = take_ended(service)) != 0) waiting -= ended;
  }

  nocter_workers_destroy(threads);
  nocter_blocking_destroy(service);
  nocter_eventfd_destroy(eventfd);
  return 0;
}
