/*
 * A round over everything: the paths of all that SRC and DST hold, one after the other, for nocter_keyed_resync().
 *
 * It finds what nobody was told of: events that the kernel had no room for, and keys that the queue had no room for. It
 * gives names and nothing else; the passes look for themselves, so it does not matter what changes under its feet.
 */
#ifndef MIRROR_ROUND_H
#define MIRROR_ROUND_H

#include "mirror_pass.h"

struct round {
  struct mirror *mirror;
  FTS *walk;       /* NULL between rounds */
  bool in_target;  /* the second half of it */
  size_t prefix;   /* what comes before the path proper */
  uint64_t wanted; /* the rounds that this one stands for: those that were wanted when it began */
};

static nocter_status begin_walk(struct round *round, int root) {
  char path[40];
  const int size = snprintf(path, sizeof path, "/proc/self/fd/%d/.", root);
  char *const roots[] = {path, NULL};
  round->prefix = (size_t)size + 1;
  round->walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
  return round->walk == NULL ? NOCTER_E_MEMORY : NOCTER_OK;
}

static void end_walk(struct round *round) {
  if (round->walk != NULL) fts_close(round->walk);
  round->walk = NULL;
}

static nocter_status next_path(void *user, nocter_text *out_key) {
  struct round *round = user;
  struct mirror *mirror = round->mirror;
  if (round->walk == NULL) {
    round->wanted = atomic_load(&mirror->wanted);
    if (round->wanted == atomic_load(&mirror->made)) return NOCTER_EMPTY;
    round->in_target = false;
    const nocter_status status = begin_walk(round, mirror->source);
    if (status != NOCTER_OK) return status;
  }
  for (;;) {
    FTSENT *entry = fts_read(round->walk);
    if (entry == NULL && round->in_target) break;
    if (entry == NULL) {
      end_walk(round);
      const nocter_status status = begin_walk(round, mirror->target);
      if (status != NOCTER_OK) return status;
      round->in_target = true;
      continue;
    }
    if (entry->fts_info == FTS_DP) continue;
    if (round->in_target && entry->fts_level == 1 && strcmp(entry->fts_name, WORK) == 0) {
      fts_set(round->walk, entry, FTS_SKIP);
      continue;
    }
    *out_key = (nocter_text){NULL, 0};
    if (entry->fts_level > 0)
      *out_key = (nocter_text){entry->fts_path + round->prefix, entry->fts_pathlen - round->prefix};
    if (out_key->size > MAXIMUM_PATH) continue; /* the pass of its directory has told of it */
    return NOCTER_OK;
  }
  end_walk(round);
  atomic_store(&mirror->made, round->wanted);
  atomic_fetch_add(&mirror->rounds, 1);
  mirror->main_thread.wake(mirror->main_thread.user);
  return NOCTER_EMPTY;
}

static void drop_round(void *user) {
  struct round *round = user;
  end_walk(round);
  free(round);
}

#endif
