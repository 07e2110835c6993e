/*
 * The pass of mirror: one path below DST is brought up to what the same path below SRC is now.
 *
 * What a pass is told is the path, so it looks for itself, and it looks twice: what it found at first is copied into the
 * work folder, and goes to its place only if SRC still has the same thing there. Both, the second look and the placing,
 * happen under the lock `places`: shared where a name appears or is replaced, alone where a directory of DST goes, with all
 * that other passes have put into it. So nothing that a pass has placed is removed for a reason older than it.
 *
 * Names are opened one after the other without following links: neither the look nor the placing leaves its tree.
 */
#ifndef MIRROR_PASS_H
#define MIRROR_PASS_H

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <nocter.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "mirror_watch.h"

#define WORK ".mirror-work" /* in DST: what is not finished, and what is on its way out */
#define MODES 01777         /* Not set-user-ID: the owner of the copy is another. */
#define CHUNK 65536

/* A file that changed less than this ago may change again and still show the same time: the kernel's clock ticks. Its copy
   gets another time, so that nobody takes the two for equal, and is looked at once more after it. */
#define UNSURE_NS 100000000

/* What a pass comes to, where it is not an errno. */
enum { UP_TO_DATE = 0, CHANGED_MEANWHILE = -1, STOPPED = -2, NO_KIND = -3, RESERVED = -4 };

struct mirror {
  nocter_keyed *queue;
  int source, target, work; /* the roots, and the work folder */
  pthread_rwlock_t places;
  struct watches watches;
  atomic_uint_fast64_t names;    /* given in the work folder */
  atomic_uint_fast64_t refused;  /* keys that the queue had no room for */
  atomic_uint_fast64_t problems; /* paths given up */
  atomic_uint_fast64_t wanted;   /* how often a round over everything was asked for */
  atomic_uint_fast64_t made;     /* how many of these a round has served */
  atomic_uint_fast64_t rounds;
  nocter_notifier main_thread;
  bool once;
};

static void report(const char *path, const char *reason);
static void notify(struct mirror *mirror, const char *path);

/* ---- Looking ------------------------------------------------------------------------------------------------- */

/* A name in an open directory, and what is there. */
struct place {
  int folder; /* -1 when the way there leads through something that is no directory */
  const char *name;
  bool there;
  struct stat status;
};

static void close_place(struct place *place) {
  if (place->folder >= 0) close(place->folder);
  place->folder = -1;
}

static bool is_absence(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

/* Makes a folder of what is in the way, if anything; a pass of that path will give it its modes. */
static int make_folder(int folder, const char *name) {
  if (mkdirat(folder, name, 0700) == 0 || errno != EEXIST) return errno == EEXIST ? 0 : errno;
  struct stat status;
  if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode)) {
    unlinkat(folder, name, 0);
    if (mkdirat(folder, name, 0700) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

/* Opens the folder of a path, and looks at what is there. Returns errno; that nothing is there is no error. */
static int find_place(int root, const char *path, bool make, struct place *out) {
  int folder = fcntl(root, F_DUPFD_CLOEXEC, 3);
  *out = (struct place){-1, *path == '\0' ? "." : path, false, {0}};
  for (const char *slash; folder >= 0 && (slash = strchr(out->name, '/')) != NULL; out->name = slash + 1) {
    char name[NAME_MAX + 1];
    const size_t size = (size_t)(slash - out->name);
    if (size > NAME_MAX) {
      close(folder);
      return ENAMETOOLONG;
    }
    memcpy(name, out->name, size);
    name[size] = '\0';
    int next = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error = errno;
    if (next < 0 && make && is_absence(error)) {
      error = make_folder(folder, name);
      if (error == 0) {
        next = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        error = errno;
      }
    }
    close(folder);
    folder = next;
    errno = error;
  }
  if (folder < 0) return is_absence(errno) ? 0 : errno;
  out->folder = folder;
  out->there = fstatat(folder, out->name, &out->status, AT_SYMLINK_NOFOLLOW) == 0;
  if (out->there || is_absence(errno)) return 0;
  const int error = errno;
  close_place(out);
  return error;
}

/* What a pass is about. */
struct subject {
  struct mirror *mirror;
  const char *path;
  nocter_pass *pass;
  struct place seen; /* in SRC */
};

/* Whether SRC still has there what was seen: the same file, link or directory, or still nothing. */
static bool still_there(void *user) {
  const struct subject *subject = user;
  struct place now;
  if (find_place(subject->mirror->source, subject->path, false, &now) != 0) return false;
  const struct stat *before = &subject->seen.status;
  const bool same = now.there == subject->seen.there &&
                    (!now.there || (now.status.st_dev == before->st_dev && now.status.st_ino == before->st_ino &&
                                    (now.status.st_mode & S_IFMT) == (before->st_mode & S_IFMT)));
  close_place(&now);
  return same;
}

static bool same_time(const struct stat *a, const struct stat *b) {
  return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* ---- The work folder ------------------------------------------------------------------------------------------ */

static void new_name(struct mirror *mirror, char name[32]) {
  snprintf(name, 32, "%llu", (unsigned long long)atomic_fetch_add(&mirror->names, 1));
}

/* Removes what is there with all that is in it. Returns errno. */
static int remove_tree(int folder, const char *name) {
  char path[MAXIMUM_PATH];
  int error = 0;
  snprintf(path, sizeof path, "/proc/self/fd/%d/%s", folder, name);
  char *const roots[] = {path, NULL};
  FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  if (walk == NULL) return errno;
  for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
    if (entry->fts_info == FTS_D) {
      chmod(entry->fts_path, 0700); /* before it is read */
      continue;
    }
    if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR) error = entry->fts_errno;
    if (remove(entry->fts_path) != 0 && errno != ENOENT) error = errno;
  }
  fts_close(walk);
  return error;
}

/* ---- Placing -------------------------------------------------------------------------------------------------- */

static void lock_places(struct mirror *mirror, bool alone) {
  if (alone) {
    pthread_rwlock_wrlock(&mirror->places);
  } else {
    pthread_rwlock_rdlock(&mirror->places);
  }
}

/* Takes what DST has there out of its place. A directory, which only happens alone, goes into the work folder. */
static int take_out(struct mirror *mirror, const struct place *place, char trash[32]) {
  if (!S_ISDIR(place->status.st_mode)) {
    return unlinkat(place->folder, place->name, 0) == 0 || errno == ENOENT ? 0 : errno;
  }
  new_name(mirror, trash);
  if (renameat(place->folder, place->name, mirror->work, trash) == 0) return 0;
  trash[0] = '\0';
  return errno == ENOENT ? 0 : errno;
}

/* Of what is there itself, and never of what a link there leads to. Returns errno. */
static int set_modes(const struct place *place, mode_t modes) {
  char opened[32];
  const int there = openat(place->folder, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (there < 0) return errno;
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", there);
  const int error = chmod(opened, modes & MODES) == 0 ? 0 : errno;
  close(there);
  return error;
}

/* The directories of DST on that path may be written to, until the passes that this asks for give them their modes again. */
static void open_up(struct mirror *mirror, const char *path) {
  char here[MAXIMUM_PATH + 1] = "";
  for (size_t size = 0;; size += strcspn(path + size, "/")) {
    struct place place;
    memcpy(here, path, size);
    here[size] = '\0';
    if (find_place(mirror->target, here, false, &place) == 0 && place.there && S_ISDIR(place.status.st_mode) &&
        (place.status.st_mode & 0700) != 0700 && set_modes(&place, place.status.st_mode | 0700) == 0) {
      notify(mirror, here);
    }
    close_place(&place);
    if (path[size] == '\0') return;
    size += path[size] == '/';
  }
}

/* Puts what was prepared in the work folder where it belongs. Without it the place becomes a directory if that is what was
   seen, and is emptied if not. */
static int put_in_place(const struct subject *subject, const char *prepared) {
  struct mirror *mirror = subject->mirror;
  const mode_t modes = subject->seen.status.st_mode & MODES;
  const bool directory = subject->seen.there && S_ISDIR(subject->seen.status.st_mode);
  const bool filled = prepared != NULL || directory;
  char trash[32] = "";
  bool opened = false;
  for (bool alone = false;; alone = true) {
    struct place place = {.folder = -1};
    bool kept = false, again = false;
    lock_places(mirror, alone);
    int result = CHANGED_MEANWHILE;
    if (still_there((void *)subject)) result = find_place(mirror->target, subject->path, filled, &place);
    if (result == UP_TO_DATE && place.there) {
      kept = directory && S_ISDIR(place.status.st_mode);
      /* What is renamed over a file replaces it in one step. */
      const bool replaced = prepared != NULL && !S_ISDIR(place.status.st_mode);
      again = !alone && !kept && S_ISDIR(place.status.st_mode);
      if (!kept && !replaced && !again) result = take_out(mirror, &place, trash);
    }
    if (result == UP_TO_DATE && !again && filled) {
      if (place.folder < 0) {
        result = CHANGED_MEANWHILE;
      } else if (prepared != NULL) {
        if (renameat(mirror->work, prepared, place.folder, place.name) != 0) result = errno;
      } else if (!kept && mkdirat(place.folder, place.name, 0700) != 0 && errno != EEXIST) {
        result = errno;
      }
      const bool right = !directory || (kept && (place.status.st_mode & MODES) == modes);
      if (result == UP_TO_DATE && !right) result = set_modes(&place, modes);
    }
    pthread_rwlock_unlock(&mirror->places);
    close_place(&place);
    /* Another pass was quicker: what is in the way now is a directory. */
    if (!alone && (result == EISDIR || result == ENOTEMPTY || result == EEXIST)) again = true;
    if (result == EACCES && !opened) {
      open_up(mirror, subject->path);
      opened = again = true;
    }
    if (again) continue;
    if (trash[0] != '\0') {
      const int error = remove_tree(mirror->work, trash);
      if (result == UP_TO_DATE) result = error;
    }
    return result;
  }
}

/* ---- Files and links ------------------------------------------------------------------------------------------ */

static int copy_content(const struct subject *subject, int from, int to) {
  char buffer[CHUNK];
  for (;;) {
    if (nocter_pass_interrupted(subject->pass)) return STOPPED;
    ssize_t size = read(from, buffer, sizeof buffer);
    if (size <= 0) return size == 0 ? UP_TO_DATE : errno;
    for (ssize_t done = 0; done < size;) {
      const ssize_t written = write(to, buffer + done, (size_t)(size - done));
      if (written < 0) return errno;
      done += written;
    }
  }
}

static bool is_unsure(const struct stat *status) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t seconds = now.tv_sec - status->st_mtim.tv_sec;
  if (seconds < -2 || seconds > 2) return false;
  const int64_t age = seconds * 1000000000 + (now.tv_nsec - status->st_mtim.tv_nsec);
  return age > -UNSURE_NS && age < UNSURE_NS;
}

/* Looked at again once its time says something; a key that has a pass is never refused. */
static void look_again(const struct subject *subject, int64_t delay_ns) {
  const nocter_text key = {subject->path, strlen(subject->path)};
  if (nocter_keyed_notify_after(subject->mirror->queue, key, delay_ns) < 0)
    report(subject->path, nocter_error_message());
}

/* Whether DST has the file already; then only its modes may have to be set. */
static bool is_copied(const struct subject *subject, int *out_result) {
  const struct stat *status = &subject->seen.status;
  struct place place;
  lock_places(subject->mirror, false);
  int result = find_place(subject->mirror->target, subject->path, false, &place);
  const bool equal = result == UP_TO_DATE && place.there && S_ISREG(place.status.st_mode) &&
                     place.status.st_size == status->st_size && same_time(&place.status, status);
  if (equal && (place.status.st_mode & MODES) != (status->st_mode & MODES)) {
    result = still_there((void *)subject) ? set_modes(&place, status->st_mode) : CHANGED_MEANWHILE;
  }
  pthread_rwlock_unlock(&subject->mirror->places);
  close_place(&place);
  *out_result = result;
  return equal || result != UP_TO_DATE;
}

static int copy_file(struct subject *subject) {
  struct mirror *mirror = subject->mirror;
  struct stat *status = &subject->seen.status;
  char prepared[32];
  int result = UP_TO_DATE;
  if (is_copied(subject, &result)) return result;

  const int from =
      openat(subject->seen.folder, subject->seen.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (from < 0) return is_absence(errno) ? CHANGED_MEANWHILE : errno;
  if (fstat(from, status) != 0) result = errno; /* from before it is read */
  if (result == UP_TO_DATE && !S_ISREG(status->st_mode)) result = CHANGED_MEANWHILE;
  if (result != UP_TO_DATE) {
    close(from);
    return result;
  }
  new_name(mirror, prepared);
  const int to = openat(mirror->work, prepared, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (to < 0) {
    result = errno;
    close(from);
    return result;
  }
  struct timespec times[2] = {{0, UTIME_OMIT}, status->st_mtim};
  const bool unsure = is_unsure(status);
  if (unsure) times[1].tv_nsec = times[1].tv_nsec == 0 ? 1 : times[1].tv_nsec - 1;
  result = copy_content(subject, from, to);
  if (result == UP_TO_DATE && (fchmod(to, status->st_mode & MODES) != 0 || futimens(to, times) != 0)) result = errno;
  if (close(to) != 0 && result == UP_TO_DATE) result = errno;
  close(from);
  if (result == UP_TO_DATE) result = put_in_place(subject, prepared);
  if (result != UP_TO_DATE) unlinkat(mirror->work, prepared, 0);
  if (result == UP_TO_DATE && unsure) look_again(subject, 2 * UNSURE_NS);
  return result;
}

/* Reads a link; returns its size, or -1. */
static ssize_t read_link(const struct place *place, char target[MAXIMUM_PATH + 1]) {
  const ssize_t size = readlinkat(place->folder, place->name, target, MAXIMUM_PATH);
  if (size >= 0) target[size] = '\0';
  return size;
}

static int copy_link(const struct subject *subject) {
  struct mirror *mirror = subject->mirror;
  struct place place;
  char wanted[MAXIMUM_PATH + 1], found[MAXIMUM_PATH + 1], prepared[32];
  if (read_link(&subject->seen, wanted) < 0) return is_absence(errno) || errno == EINVAL ? CHANGED_MEANWHILE : errno;
  int result = find_place(mirror->target, subject->path, false, &place);
  if (result != UP_TO_DATE) return result;
  const bool equal =
      place.there && S_ISLNK(place.status.st_mode) && read_link(&place, found) >= 0 && strcmp(wanted, found) == 0;
  close_place(&place);
  if (equal) return UP_TO_DATE;
  new_name(mirror, prepared);
  if (symlinkat(wanted, mirror->work, prepared) != 0) return errno;
  result = put_in_place(subject, prepared);
  if (result != UP_TO_DATE) unlinkat(mirror->work, prepared, 0);
  return result;
}

/* ---- Directories ---------------------------------------------------------------------------------------------- */

/* Says that a path is due. What the queue has no room for is found by the next round over everything. */
static void notify(struct mirror *mirror, const char *path) {
  const nocter_status status = nocter_keyed_notify(mirror->queue, (nocter_text){path, strlen(path)});
  if (status == NOCTER_SATURATED) {
    atomic_fetch_add(&mirror->refused, 1);
    atomic_fetch_add(&mirror->wanted, 1);
    mirror->main_thread.wake(mirror->main_thread.user);
  } else if (status < 0) {
    atomic_fetch_add(&mirror->problems, 1);
    report(path, nocter_error_message());
  }
}

/* All names in a directory are due. Takes the descriptor over. */
static int notify_names(const struct subject *subject, int descriptor) {
  char path[MAXIMUM_PATH + NAME_MAX + 2];
  DIR *directory = fdopendir(descriptor);
  if (directory == NULL) {
    const int error = errno;
    close(descriptor);
    return error;
  }
  const char *slash = *subject->path == '\0' ? "" : "/";
  errno = 0;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL; errno = 0) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    snprintf(path, sizeof path, "%s%s%s", subject->path, slash, entry->d_name);
    notify(subject->mirror, path);
  }
  const int error = errno;
  closedir(directory);
  return error;
}

static int open_directory(const struct place *place) {
  return openat(place->folder, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int copy_directory(struct subject *subject) {
  struct mirror *mirror = subject->mirror;
  struct place place;
  const int directory = open_directory(&subject->seen);
  if (directory < 0) return is_absence(errno) ? CHANGED_MEANWHILE : errno;
  int result = fstat(directory, &subject->seen.status) == 0 ? put_in_place(subject, NULL) : errno;
  if (result != UP_TO_DATE) {
    close(directory);
    return result;
  }
  /* First watched, then read: what comes after the one is told, what came before is found by the other. */
  const enum watched watched = watch_directory(&mirror->watches, subject->path, directory, still_there, subject);
  if (watched == WATCHED_NOW) {
    result = notify_names(subject, directory);
    /* What DST has and SRC has not, from before. */
    int there = -1;
    if (result == UP_TO_DATE) result = find_place(mirror->target, subject->path, false, &place);
    if (result == UP_TO_DATE && place.folder >= 0) there = open_directory(&place);
    if (there >= 0) result = notify_names(subject, there);
    if (result == UP_TO_DATE) close_place(&place);
    return result;
  }
  if (watched == WATCHED_NOT) result = errno;
  close(directory);
  return watched == WATCHED_ELSEWHERE ? CHANGED_MEANWHILE : result;
}

/* ---- The pass ------------------------------------------------------------------------------------------------- */

static int bring_up_to_date(struct mirror *mirror, const char *path, nocter_pass *pass) {
  struct subject subject = {mirror, path, pass, {.folder = -1}};
  int result = find_place(mirror->source, path, false, &subject.seen);
  if (result != UP_TO_DATE) return result;
  const size_t work = strlen(WORK);
  const mode_t kind = subject.seen.there ? subject.seen.status.st_mode & S_IFMT : 0;
  if (strncmp(path, WORK, work) == 0 && (path[work] == '\0' || path[work] == '/')) {
    result = subject.seen.there ? RESERVED : UP_TO_DATE;
  } else if (kind == S_IFREG) {
    result = copy_file(&subject);
  } else if (kind == S_IFLNK) {
    result = copy_link(&subject);
  } else if (kind == S_IFDIR) {
    result = copy_directory(&subject);
  } else if (kind != 0) {
    result = put_in_place(&subject, NULL); /* nothing is there in DST */
    if (result == UP_TO_DATE) result = NO_KIND;
  } else {
    result = put_in_place(&subject, NULL);
    forget_watches(&mirror->watches, path);
  }
  close_place(&subject.seen);
  return result;
}

#endif
