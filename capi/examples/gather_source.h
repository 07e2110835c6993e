/*
 * The sources of gather: opening what a URL names, reading it to its end, and closing it.
 *
 * Opening and reading run on threads of the blocking service, closing on those of the retirement service. Nothing here
 * waits without also waiting for `stop`, so that a source that never says anything does not hold up the end; only looking up
 * the name of a host cannot be stopped.
 */
#ifndef GATHER_SOURCE_H
#define GATHER_SOURCE_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <nocter.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK (64 * 1024)
#define HEAD_SIZE (16 * 1024) /* what comes before the content of an HTTP answer */
#define NO_URL "not a URL of a known kind"

/* What retirement closes. */
struct opened {
  int input, spool; /* -1: none */
  bool whole;       /* what is in the spool is worth the wait for the disk */
};

/* One line of the list. The job that reads it owns it; before and after that it is the main thread's. */
struct source {
  const char *url;
  size_t number;          /* its line of the output, from 1 on; names its spool file */
  nocter_permit *permit;  /* until it is open: the place where its closing will be queued */
  nocter_resource *owner; /* from then on */
  struct opened opened;
  uint32_t crc;
  uint64_t size;
  bool read, stopped;
  char problem[160];            /* why it could not be read; "": it was, to the end */
  nocter_retirement_id closing; /* once it is retired */
  int close_error;              /* errno, or 0 */
};

/* What all jobs share. */
struct reading {
  int stop;  /* a pipe whose other end is closed to stop them */
  int spool; /* a directory, or -1 */
};

/* ---- What can go wrong --------------------------------------------------------------------------------------- */

static bool problem(struct source *source, const char *reason) {
  snprintf(source->problem, sizeof source->problem, "%s", reason);
  return false;
}

static bool problem_of(struct source *source, int error) {
  char text[128];
  return problem(source, strerror_r(error, text, sizeof text));
}

/* Until the descriptor is ready. False: it was stopped. */
static bool ready(const struct reading *reading, struct source *source, int descriptor, short events) {
  struct pollfd waiting[] = {{reading->stop, POLLIN, 0}, {descriptor, events, 0}};
  while (poll(waiting, 2, -1) < 0 && errno == EINTR) {
  }
  source->stopped = waiting[0].revents != 0;
  return !source->stopped;
}

/* ---- Closing: on a thread that claimed it, and it may take its time ------------------------------------------- */

/* The first errno, or 0. */
static int close_opened(const struct opened *opened) {
  int error = 0;
  if (opened->spool >= 0) {
    if (opened->whole && fsync(opened->spool) != 0) error = errno;
    if (close(opened->spool) != 0 && error == 0) error = errno;
  }
  if (close(opened->input) != 0 && error == 0) error = errno;
  return error;
}

static void end_opened(void *opened) { close_opened(opened); }

/* ---- Opening: the permit becomes the owner ------------------------------------------------------------------- */

static bool opened(struct source *source, int input) {
  source->opened = (struct opened){input, -1, false};
  nocter_owned resource = {&source->opened, end_opened};
  source->owner = nocter_permit_attach(source->permit, &resource);
  source->permit = NULL;
  return true;
}

static int hex(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

/* In place: %20 becomes a blank. False for what is no such number, and for a NUL. */
static bool decode(char *text) {
  char *out = text;
  for (; *text != '\0'; text++) {
    *out = *text;
    if (*text == '%') {
      const int high = hex(text[1]), low = high < 0 ? -1 : hex(text[2]);
      if (low < 0 || high + low == 0) return false;
      *out = (char)(16 * high + low);
      text += 2;
    }
    out++;
  }
  *out = '\0';
  return true;
}

/* Without waiting for the writer of a FIFO: reading waits for that. */
static bool open_file(struct source *source, const char *path) {
  const int input = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return input < 0 ? problem_of(source, errno) : opened(source, input);
}

static bool open_file_url(struct source *source, char *rest) {
  if (strncmp(rest, "localhost/", 10) == 0) rest += 9;
  if (*rest != '/' || !decode(rest)) return problem(source, NO_URL);
  return open_file(source, rest);
}

static int connect_to(const struct reading *reading, struct source *source, const struct addrinfo *address) {
  int error = 0;
  socklen_t size = sizeof error;
  const int connection = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connection < 0) {
    problem_of(source, errno);
    return -1;
  }
  if (connect(connection, address->ai_addr, address->ai_addrlen) == 0) return connection;
  if (errno != EINPROGRESS) {
    error = errno;
  } else if (ready(reading, source, connection, POLLOUT)) {
    if (getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error == 0) return connection;
  }
  if (error != 0) problem_of(source, error);
  close(connection); /* nothing was sent: this cannot block */
  return -1;
}

/* "host:port", "[address]:port", or without the port if there is a default. Takes the text apart. */
static bool open_socket(const struct reading *reading, struct source *source, char *place, const char *port) {
  char *host = place, *end = place;
  if (*place == '[') {
    host = place + 1;
    end = strchr(host, ']');
    if (end == NULL) return problem(source, NO_URL);
    *end++ = '\0';
  } else {
    end += strcspn(place, ":");
  }
  if (*end == ':') port = end + 1;
  if ((*end != ':' && *end != '\0') || port == NULL || *port == '\0') return problem(source, NO_URL);
  *end = '\0';
  if (*host == '\0') return problem(source, NO_URL);

  struct addrinfo *addresses, hints;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  const int failure = getaddrinfo(host, port, &hints, &addresses);
  if (failure != 0) return problem(source, gai_strerror(failure));
  int connection = -1;
  for (struct addrinfo *each = addresses; connection < 0 && each != NULL && !source->stopped; each = each->ai_next) {
    connection = connect_to(reading, source, each);
  }
  freeaddrinfo(addresses);
  if (connection < 0) return false;
  source->problem[0] = '\0'; /* of an address before the one that answered */
  return opened(source, connection);
}

/* ---- Reading to the end -------------------------------------------------------------------------------------- */

/* How many bytes came; 0 at the end; -1 with the problem, or when it was stopped. */
static ssize_t read_some(const struct reading *reading, struct source *source, char *buffer, size_t capacity) {
  for (;;) {
    if (!ready(reading, source, source->opened.input, POLLIN)) return -1;
    const ssize_t size = read(source->opened.input, buffer, capacity);
    if (size >= 0) return size;
    if (errno == EINTR || errno == EAGAIN) continue;
    problem_of(source, errno);
    return -1;
  }
}

static bool keep(struct source *source, const char *bytes, size_t size) {
  source->crc = (uint32_t)crc32(source->crc, (const Bytef *)bytes, (uInt)size);
  source->size += size;
  while (source->opened.spool >= 0 && size != 0) {
    const ssize_t written = write(source->opened.spool, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return problem_of(source, errno);
    bytes += written;
    size -= (size_t)written;
  }
  return true;
}

static bool read_rest(const struct reading *reading, struct source *source) {
  char buffer[CHUNK];
  ssize_t size;
  while ((size = read_some(reading, source, buffer, sizeof buffer)) > 0) {
    if (!keep(source, buffer, (size_t)size)) return false;
  }
  return size == 0;
}

/* The value of a field of the head, or NULL. */
static const char *field(const char *head, const char *name) {
  const size_t size = strlen(name);
  while ((head = strstr(head, "\r\n")) != NULL) {
    head += 2;
    if (strncasecmp(head, name, size) == 0 && head[size] == ':')
      return head + size + 1 + strspn(head + size + 1, " \t");
  }
  return NULL;
}

/* HTTP/1.0: the content ends with the connection. */
static bool read_answer(const struct reading *reading, struct source *source, const char *host, const char *path) {
  char head[HEAD_SIZE + 1], *content = NULL;
  const int length =
      snprintf(head, sizeof head, "GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host);
  if (length >= HEAD_SIZE) return problem(source, NO_URL);
  if (send(source->opened.input, head, (size_t)length, MSG_NOSIGNAL) != length)
    return problem(source, "cannot be asked");

  size_t used = 0;
  while (content == NULL) {
    if (used == HEAD_SIZE) return problem(source, "not an HTTP answer");
    const ssize_t size = read_some(reading, source, head + used, HEAD_SIZE - used);
    if (size < 0) return false;
    if (size == 0) return problem(source, "not an HTTP answer");
    used += (size_t)size;
    head[used] = '\0';
    content = strstr(head, "\r\n\r\n");
  }
  content[2] = '\0';
  content += 4;
  unsigned status;
  if (sscanf(head, "HTTP/1.%*1[01] %3u", &status) != 1) return problem(source, "not an HTTP answer");
  if (status != 200) {
    snprintf(source->problem, sizeof source->problem, "HTTP status %u", status);
    return false;
  }
  if (field(head, "Transfer-Encoding") != NULL) return problem(source, "not an HTTP/1.0 answer");
  const char *announced = field(head, "Content-Length");
  if (!keep(source, content, used - (size_t)(content - head)) || !read_rest(reading, source)) return false;
  if (announced != NULL && strtoull(announced, NULL, 10) != source->size)
    return problem(source, "not the announced size");
  return true;
}

static bool open_spool(const struct reading *reading, struct source *source, const char *name) {
  if (reading->spool < 0) return true;
  source->opened.spool = openat(reading->spool, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0666);
  return source->opened.spool >= 0 || problem_of(source, errno);
}

/* ---- The job ------------------------------------------------------------------------------------------------- */

static bool read_source(const struct reading *reading, struct source *source, char *text, const char *spool_name) {
  char *rest = strstr(text, "://");
  if (rest != NULL && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == (size_t)(rest - text)) {
    *rest = '\0';
    rest += 3;
  } else {
    rest = NULL;
  }
  if (rest == NULL) {
    return open_file(source, text) && open_spool(reading, source, spool_name) && read_rest(reading, source);
  }
  if (strcmp(text, "file") == 0) {
    return open_file_url(source, rest) && open_spool(reading, source, spool_name) && read_rest(reading, source);
  }
  const bool http = strcmp(text, "http") == 0;
  if (!http && strcmp(text, "tcp") != 0) return problem(source, NO_URL);
  char *slash = strchr(rest, '/');
  const char *path = slash == NULL ? "/" : source->url + (slash - text);
  if (!http && path[1] != '\0') return problem(source, NO_URL);
  if (slash != NULL) *slash = '\0';
  char host[300]; /* as the request names it */
  if (strlen(rest) >= sizeof host || strpbrk(path, " \r\n") != NULL) return problem(source, NO_URL);
  strcpy(host, rest);
  return open_socket(reading, source, rest, http ? "80" : NULL) && open_spool(reading, source, spool_name) &&
         (http ? read_answer(reading, source, host, path) : read_rest(reading, source));
}

/* What could not be read whole leaves no spool file. */
static void gather_source(void *user, nocter_owned *input, nocter_owned *output, nocter_completion *completion) {
  const struct reading *reading = user;
  struct source *source = input->data;
  char name[24], *text = strdup(source->url);
  (void)completion; /* that nobody waits any more is seen in `stop` */
  *output = *input;
  *input = (nocter_owned){NULL, NULL};
  snprintf(name, sizeof name, "%06zu", source->number);
  if (text == NULL) {
    problem_of(source, ENOMEM);
  } else if (read_source(reading, source, text, name)) {
    source->opened.whole = true;
  } else if (source->owner != NULL && source->opened.spool >= 0) {
    unlinkat(reading->spool, name, 0);
  }
  free(text);
  /* Nothing was opened: the place goes back at once. */
  nocter_permit_drop(source->permit);
  source->permit = NULL;
}

#endif
