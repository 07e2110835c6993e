/*
 * The watches of mirror: which directory of SRC the kernel speaks of when it names one of its numbers.
 *
 * The kernel watches directories, wherever they are moved to; the table says at which path each was seen last. A pass that
 * finds a directory at a path that the table does not give for it enters it, and has to look at all that is in it: what
 * happened there before was told under another path, or not at all.
 */
#ifndef MIRROR_WATCH_H
#define MIRROR_WATCH_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Longer paths cannot be mirrored. */
#define MAXIMUM_PATH 4095

#define WATCHED                                                                                                \
  (IN_CREATE | IN_DELETE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | \
   IN_EXCL_UNLINK)

/* Nothing useful can be done without memory, and the kernel frees everything at the end of the process. */
static void *checked(void *memory) {
  if (memory != NULL) return memory;
  static const char message[] = "mirror: Cannot allocate memory\n";
  if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(2);
  _exit(2);
}

/* A directory of SRC, or the way to one. */
struct watch {
  char *name;
  struct watch *parent; /* NULL for SRC itself */
  void *children;       /* by name */
  int number;           /* what the kernel calls it; -1: not watched */
};

struct watches {
  pthread_mutex_t mutex;
  int inotify;
  struct watch root;
  void *by_number;
};

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct watch *)a)->name, ((const struct watch *)b)->name);
}

static int by_number(const void *a, const void *b) {
  const int left = ((const struct watch *)a)->number, right = ((const struct watch *)b)->number;
  return (left > right) - (left < right);
}

/* The one whose name is `size` bytes of `name`; NULL when there is none and `make` is false. */
static struct watch *child_of(struct watch *parent, const char *name, size_t size, bool make) {
  char copy[NAME_MAX + 1];
  struct watch wanted = {copy, NULL, NULL, -1};
  if (size > NAME_MAX) return NULL;
  memcpy(copy, name, size);
  copy[size] = '\0';
  struct watch **found = tfind(&wanted, &parent->children, by_name);
  if (found != NULL || !make) return found == NULL ? NULL : *found;
  struct watch *child = checked(calloc(1, sizeof *child));
  *child = (struct watch){checked(strdup(copy)), parent, NULL, -1};
  checked(tsearch(child, &parent->children, by_name));
  return child;
}

static struct watch *watch_at(struct watches *watches, const char *path, bool make) {
  struct watch *watch = &watches->root;
  while (*path != '\0' && watch != NULL) {
    const size_t size = strcspn(path, "/");
    watch = child_of(watch, path, size, make);
    path += size + (path[size] == '/');
  }
  return watch;
}

static struct watch *watch_of(struct watches *watches, int number) {
  const struct watch wanted = {NULL, NULL, NULL, number};
  struct watch **found = tfind(&wanted, &watches->by_number, by_number);
  return found == NULL ? NULL : *found;
}

static void take_number(struct watches *watches, struct watch *watch, bool of_kernel) {
  if (watch->number < 0) return;
  tdelete(watch, &watches->by_number, by_number);
  if (of_kernel) inotify_rm_watch(watches->inotify, watch->number); /* fails when the directory is gone already */
  watch->number = -1;
}

static void forget_below(struct watches *watches, struct watch *watch) {
  while (watch->children != NULL) {
    struct watch *child = *(struct watch **)watch->children; /* as the manual has it: the first member of a node */
    forget_below(watches, child);
    take_number(watches, child, true);
    tdelete(child, &watch->children, by_name);
    free(child->name);
    free(child);
  }
}

/* ---- What others call ---------------------------------------------------------------------------------------- */

static int watches_begin(struct watches *watches) {
  *watches = (struct watches){.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .root = {NULL, NULL, NULL, -1}};
  pthread_mutex_init(&watches->mutex, NULL);
  return watches->inotify < 0 ? errno : 0;
}

static void watches_end(struct watches *watches) {
  forget_below(watches, &watches->root);
  take_number(watches, &watches->root, true);
  close(watches->inotify);
  pthread_mutex_destroy(&watches->mutex);
}

enum watched { WATCHED_ALREADY, WATCHED_NOW, WATCHED_ELSEWHERE, WATCHED_NOT };

/* Watches the open directory, which is at that path if `still_there` says so. WATCHED_NOT: errno says why. */
static enum watched watch_directory(struct watches *watches, const char *path, int directory,
                                    bool (*still_there)(void *user), void *user) {
  char opened[32];
  enum watched result = WATCHED_NOW;
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", directory);
  pthread_mutex_lock(&watches->mutex);
  const int number = inotify_add_watch(watches->inotify, opened, WATCHED);
  struct watch *before = number < 0 ? NULL : watch_of(watches, number);
  if (number < 0) {
    result = WATCHED_NOT;
  } else if (!still_there(user)) {
    /* Entered now it would stand in the table at a path that nobody corrects. */
    if (before == NULL) inotify_rm_watch(watches->inotify, number);
    result = WATCHED_ELSEWHERE;
  } else {
    struct watch *watch = watch_at(watches, path, true);
    if (watch == before) {
      result = WATCHED_ALREADY;
    } else {
      if (before != NULL) take_number(watches, before, false);
      take_number(watches, watch, true);
      watch->number = number;
      checked(tsearch(watch, &watches->by_number, by_number));
    }
  }
  const int error = errno;
  pthread_mutex_unlock(&watches->mutex);
  errno = error;
  return result;
}

/* There is no directory at that path now: whatever comes there, and below it, is to be looked at whole. */
static void forget_watches(struct watches *watches, const char *path) {
  pthread_mutex_lock(&watches->mutex);
  struct watch *watch = watch_at(watches, path, false);
  if (watch != NULL) {
    forget_below(watches, watch);
    take_number(watches, watch, true);
    if (watch->parent != NULL) {
      tdelete(watch, &watch->parent->children, by_name);
      free(watch->name);
      free(watch);
    }
  }
  pthread_mutex_unlock(&watches->mutex);
}

/* The kernel has ended a watch. False when it was that of SRC. */
static bool watch_ended(struct watches *watches, int number) {
  pthread_mutex_lock(&watches->mutex);
  struct watch *watch = watch_of(watches, number);
  if (watch != NULL) take_number(watches, watch, false);
  pthread_mutex_unlock(&watches->mutex);
  return watch != &watches->root;
}

/* The path of what an event is about; SIZE_MAX when nobody knows the directory, or the path is too long. */
static size_t path_of_event(struct watches *watches, const struct inotify_event *event, char path[MAXIMUM_PATH + 1]) {
  size_t at = MAXIMUM_PATH;
  bool fits = true;
  const size_t size = event->len == 0 ? 0 : strlen(event->name);
  path[at] = '\0';
  at -= size;
  memcpy(path + at, event->name, size);
  pthread_mutex_lock(&watches->mutex);
  const struct watch *watch = watch_of(watches, event->wd);
  fits = watch != NULL;
  for (; fits && watch->parent != NULL; watch = watch->parent) {
    const size_t part = strlen(watch->name);
    const bool slash = path[at] != '\0';
    fits = part + slash <= at;
    if (!fits) break;
    if (slash) path[--at] = '/';
    at -= part;
    memcpy(path + at, watch->name, part);
  }
  pthread_mutex_unlock(&watches->mutex);
  if (!fits) return SIZE_MAX;
  memmove(path, path + at, MAXIMUM_PATH + 1 - at);
  return MAXIMUM_PATH - at;
}

#endif
