/*
 * The walk of treesum: the entries of a directory tree in bytewise order of their paths, one after the other.
 *
 * It keeps the entries of the directories on the current path and no descriptor open but the root's, and it does not
 * recurse: a tree may be as deep and as wide as it likes.
 */
#ifndef TREESUM_WALK_H
#define TREESUM_WALK_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_PROBLEM "name is not UTF-8"

/* ---- Memory and text ---------------------------------------------------------------------------------------- */

/* Nothing useful can be done without memory, and the kernel frees everything at the end of the process. */
static void *checked(void *memory) {
  if (memory != NULL) return memory;
  static const char message[] = "treesum: Cannot allocate memory\n";
  if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(2);
  _exit(2);
}

struct text {
  char *data; /* NUL-terminated once something was added */
  size_t size, capacity;
};

static void text_add(struct text *text, const char *bytes, size_t size) {
  if (text->size + size + 1 > text->capacity) {
    text->capacity = 2 * (text->size + size + 1);
    text->data = checked(realloc(text->data, text->capacity));
  }
  if (size != 0) memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->data[text->size] = '\0';
}

static void text_cut(struct text *text, size_t size) {
  text->size = size;
  text_add(text, "", 0);
}

/* A path so that it fits in one line: as sha256sum writes it, without the mark in front. */
static void text_add_escaped(struct text *text, const char *path) {
  for (; *path != '\0'; path++) {
    switch (*path) {
      case '\\':
        text_add(text, "\\\\", 2);
        break;
      case '\n':
        text_add(text, "\\n", 2);
        break;
      case '\r':
        text_add(text, "\\r", 2);
        break;
      default:
        text_add(text, path, 1);
    }
  }
}

static bool is_utf8(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  while (*p != 0) {
    const unsigned lead = *p++;
    if (lead < 0x80) continue;
    int more = 0;
    if (lead >= 0xC2 && lead <= 0xDF) more = 1;
    if (lead >= 0xE0 && lead <= 0xEF) more = 2;
    if (lead >= 0xF0 && lead <= 0xF4) more = 3;
    if (more == 0) return false;
    /* Longer than needed, a surrogate, or beyond the last character. */
    if ((lead == 0xE0 && *p < 0xA0) || (lead == 0xED && *p > 0x9F)) return false;
    if ((lead == 0xF0 && *p < 0x90) || (lead == 0xF4 && *p > 0x8F)) return false;
    for (; more > 0; more--) {
      if ((*p & 0xC0) != 0x80) return false; /* also the end of the text */
      p++;
    }
  }
  return true;
}

static const char *last_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* ---- The walk ------------------------------------------------------------------------------------------------ */

/* One directory on the current path, read whole. The names of directories end in '/', so that sorting them as they are
   puts the paths below them in order too. */
struct level {
  char **names;
  size_t count, capacity, next;
  size_t prefix; /* how much of the path belongs to this directory, with its '/' */
};

struct walk {
  int root;
  struct level *levels;
  size_t depth, capacity;
  struct text path; /* of the entry found last; empty for the root */
  int unreadable;   /* errno of the directory found last: to be told next */
};

enum found { FOUND_END, FOUND_FILE, FOUND_PROBLEM };

static bool is_directory(int directory, const struct dirent *entry) {
  struct stat status;
  if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
  return fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Takes the descriptor over. What could be read is kept also when something went wrong; returns errno then. */
static int read_level(struct level *level, int descriptor) {
  DIR *directory = fdopendir(descriptor);
  if (directory == NULL) {
    const int error = errno;
    close(descriptor);
    return error;
  }
  rewinddir(directory); /* the root is read more than once */
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(directory);
    if (entry == NULL && errno == EINTR) continue;
    if (entry == NULL) break;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (level->count == level->capacity) {
      level->capacity = level->capacity == 0 ? 16 : 2 * level->capacity;
      level->names = checked(realloc(level->names, level->capacity * sizeof *level->names));
    }
    struct text name = {NULL, 0, 0};
    text_add(&name, entry->d_name, strlen(entry->d_name));
    if (is_directory(dirfd(directory), entry)) text_add(&name, "/", 1);
    level->names[level->count++] = name.data;
  }
  const int error = errno;
  closedir(directory);
  if (level->count != 0) qsort(level->names, level->count, sizeof *level->names, by_bytes);
  return error;
}

/* Opens the directory at walk->path, and goes on there. A link that took its place is not followed. */
static void enter(struct walk *walk) {
  int descriptor;
  do {
    descriptor = walk->depth == 0
                     ? fcntl(walk->root, F_DUPFD_CLOEXEC, 3)
                     : openat(walk->root, walk->path.data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) {
    walk->unreadable = errno;
    return;
  }
  if (walk->depth == walk->capacity) {
    walk->capacity = walk->capacity == 0 ? 16 : 2 * walk->capacity;
    walk->levels = checked(realloc(walk->levels, walk->capacity * sizeof *walk->levels));
  }
  struct level *level = &walk->levels[walk->depth++];
  *level = (struct level){NULL, 0, 0, 0, walk->path.size == 0 ? 0 : walk->path.size + 1};
  walk->unreadable = read_level(level, descriptor);
}

static void leave(struct walk *walk) {
  struct level *level = &walk->levels[--walk->depth];
  for (size_t i = level->next; i < level->count; i++) free(level->names[i]);
  free(level->names);
}

static void walk_begin(struct walk *walk, int root) {
  *walk = (struct walk){root, NULL, 0, 0, {NULL, 0, 0}, 0};
  text_cut(&walk->path, 0);
  enter(walk);
}

static enum found walk_next(struct walk *walk, const char **out_problem) {
  if (walk->unreadable != 0) {
    *out_problem = strerror(walk->unreadable);
    walk->unreadable = 0;
    return FOUND_PROBLEM;
  }
  while (walk->depth != 0) {
    struct level *level = &walk->levels[walk->depth - 1];
    if (level->next == level->count) {
      leave(walk);
      continue;
    }
    if (level->prefix != 0) {
      text_cut(&walk->path, level->prefix - 1);
      text_add(&walk->path, "/", 1);
    } else {
      text_cut(&walk->path, 0);
    }
    char *name = level->names[level->next++];
    size_t size = strlen(name);
    const bool directory = name[size - 1] == '/';
    if (directory) name[--size] = '\0';
    text_add(&walk->path, name, size);
    const bool named_well = !directory || is_utf8(name);
    free(name);
    if (!directory) return FOUND_FILE;
    enter(walk);
    if (!named_well) {
      *out_problem = NAME_PROBLEM;
      return FOUND_PROBLEM;
    }
    if (walk->unreadable != 0) return walk_next(walk, out_problem);
  }
  return FOUND_END;
}

static void walk_end(struct walk *walk) {
  while (walk->depth != 0) leave(walk);
  free(walk->levels);
  free(walk->path.data);
}

#endif
