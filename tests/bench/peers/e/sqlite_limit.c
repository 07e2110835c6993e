/* Benchmark E, practical limit: C over libsqlite3, WAL, one connection a thread.
 * PROGRAM full|normal MODE N [BATCH]; BENCH_DIR names the folder for the file.
 *   enqueue-single N      one INSERT per transaction
 *   enqueue-batch  N B    B INSERTs per transaction
 *   process-single N      claim 1 (commit), complete 1 (commit)
 *   process-batch  N B    claim B (commit), complete B (commit)
 *   process-fused  N B    [complete previous batch, claim next batch] in one transaction
 *   cycle-single   N      insert, claim, complete, each in its own transaction
 *   cycle-batch    N B    [complete previous batch, insert B, claim B] in one transaction: a third of
 *                         the commits that callers need who wait for each of their steps
 *   cycle-callers  N B    what B such callers can reach in groups: B lives at a time, each step of a
 *                         life committed before its next one begins, and in every transaction one
 *                         step of each of the B: a third inserts, a third claims, a third completes
 *   latency        N      two connections, two threads; the worker is woken through a
 *                         condition variable of the process after the commit */
#include "../common/bench.h"

#include <sqlite3.h>
#include <unistd.h>

static char g_path[512];
static const char *g_sync;

static void ok(int rc, sqlite3 *db, const char *what) {
  if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE) {
    fprintf(stderr, "%s: %s\n", what, db ? sqlite3_errmsg(db) : "?");
    exit(1);
  }
}
static void sql(sqlite3 *db, const char *s) { ok(sqlite3_exec(db, s, 0, 0, 0), db, s); }

struct db {
  sqlite3 *h;
  sqlite3_stmt *begin, *commit, *ins, *claim, *done;
};
static struct db open_db(void) {
  struct db d;
  ok(sqlite3_open(g_path, &d.h), d.h, "open");
  sqlite3_busy_timeout(d.h, 10000);
  sql(d.h, "PRAGMA journal_mode=WAL");
  sql(d.h, strcmp(g_sync, "full") ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL");
  sql(d.h,
      "CREATE TABLE IF NOT EXISTS task(id INTEGER PRIMARY KEY, queue INTEGER NOT NULL DEFAULT 1,"
      " state INTEGER NOT NULL DEFAULT 0, run_at INTEGER NOT NULL DEFAULT 0,"
      " attempts INTEGER NOT NULL DEFAULT 0, lease_until INTEGER, payload TEXT NOT NULL);"
      "CREATE INDEX IF NOT EXISTS task_ready ON task(queue, run_at, id) WHERE state=0");
  struct { sqlite3_stmt **s; const char *q; } p[] = {
      {&d.begin, "BEGIN IMMEDIATE"},
      {&d.commit, "COMMIT"},
      {&d.ins, "INSERT INTO task(payload) VALUES(?1)"},
      {&d.claim,
       "UPDATE task SET state=1, attempts=attempts+1, lease_until=?2 WHERE id IN"
       " (SELECT id FROM task WHERE queue=1 AND state=0 AND run_at<=?2 ORDER BY run_at, id"
       "  LIMIT ?1) RETURNING id, payload"},
      {&d.done, "DELETE FROM task WHERE id=?1 AND state=1"},
  };
  for (size_t i = 0; i < sizeof p / sizeof *p; i++)
    ok(sqlite3_prepare_v3(d.h, p[i].q, -1, SQLITE_PREPARE_PERSISTENT, p[i].s, 0), d.h, p[i].q);
  return d;
}
static void step(struct db *d, sqlite3_stmt *s) {
  ok(sqlite3_step(s), d->h, sqlite3_sql(s));
  sqlite3_reset(s);
}
static void insert(struct db *d, uint64_t i) {
  char p[256];
  int n = snprintf(p, sizeof p,
                   "{\"n\":%" PRIu64 ",\"t\":%" PRIu64
                   ",\"text\":\"sixty-four bytes of text that stand for the arguments of one task\"}",
                   i, now_ns());
  sqlite3_bind_text(d->ins, 1, p, n, SQLITE_STATIC);
  step(d, d->ins);
}
static uint64_t *g_ids;
static samples *g_lat;
static uint64_t claim(struct db *d, uint64_t limit) {
  uint64_t n = 0;
  sqlite3_bind_int64(d->claim, 1, (sqlite3_int64)limit);
  sqlite3_bind_int64(d->claim, 2, (sqlite3_int64)(now_ns() / 1000000));
  int rc;
  while ((rc = sqlite3_step(d->claim)) == SQLITE_ROW) {
    g_ids[n++] = (uint64_t)sqlite3_column_int64(d->claim, 0);
    const char *p = (const char *)sqlite3_column_text(d->claim, 1);
    if (g_lat) samples_add(g_lat, strtoull(strstr(p, "\"t\":") + 4, 0, 10));
  }
  ok(rc, d->h, "claim");
  sqlite3_reset(d->claim);
  return n;
}
static void done(struct db *d, uint64_t id) {
  sqlite3_bind_int64(d->done, 1, (sqlite3_int64)id);
  step(d, d->done);
  if (sqlite3_changes(d->h) != 1) fail("complete");
}
static void load(struct db *d, uint64_t n, uint64_t batch) {
  for (uint64_t i = 0; i < n; i += batch) {
    step(d, d->begin);
    for (uint64_t j = i; j < n && j < i + batch; j++) insert(d, j);
    step(d, d->commit);
  }
}
static uint64_t count(struct db *d) {
  sqlite3_stmt *s;
  ok(sqlite3_prepare_v2(d->h, "SELECT count(*) FROM task", -1, &s, 0), d->h, "count");
  sqlite3_step(s);
  uint64_t n = (uint64_t)sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  return n;
}

static pthread_mutex_t g_m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_c = PTHREAD_COND_INITIALIZER;
static uint64_t g_version;
struct lat { uint64_t n; samples s; int ready; };
static void *latency_worker(void *arg) {
  struct lat *l = arg;
  struct db d = open_db();
  samples sub;
  samples_init(&sub, l->n);
  g_lat = &sub;
  __atomic_store_n(&l->ready, 1, __ATOMIC_RELEASE);
  uint64_t seen = 0;
  while (l->s.n < l->n) {
    pthread_mutex_lock(&g_m);
    while (g_version == seen) pthread_cond_wait(&g_c, &g_m);
    seen = g_version;
    pthread_mutex_unlock(&g_m);
    uint64_t k;
    while ((k = claim(&d, 10))) {
      uint64_t t = now_ns();
      for (uint64_t i = 0; i < k; i++) samples_add(&l->s, t - sub.v[sub.n - k + i]);
      for (uint64_t i = 0; i < k; i++) done(&d, g_ids[i]);
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  g_sync = argc > 1 ? argv[1] : "full";
  const char *mode = argc > 2 ? argv[2] : "enqueue-single";
  uint64_t n = argc > 3 ? strtoull(argv[3], 0, 10) : 10000;
  uint64_t b = argc > 4 ? strtoull(argv[4], 0, 10) : 1;
  const char *dir = getenv("BENCH_DIR");
  snprintf(g_path, sizeof g_path, "%s/limit.db", dir ? dir : ".");
  char aux[600];
  const char *suffix[] = {"", "-wal", "-shm"};
  for (int i = 0; i < 3; i++) {
    snprintf(aux, sizeof aux, "%s%s", g_path, suffix[i]);
    unlink(aux);
  }
  g_ids = malloc((b < 16 ? 16 : b) * sizeof *g_ids);
  struct db d = open_db();
  char wl[160];
  snprintf(wl, sizeof wl, "%s;n=%" PRIu64 ";batch=%" PRIu64 ";sync=%s", mode, n, b, g_sync);
  uint64_t t0 = 0, t1, total = 0;
  if (!strncmp(mode, "process", 7)) {
    load(&d, n, 1000);
    sql(d.h, "PRAGMA wal_checkpoint(TRUNCATE)");
  }
  t0 = now_ns();
  if (!strcmp(mode, "enqueue-single")) {
    for (uint64_t i = 0; i < n; i++) insert(&d, i);
  } else if (!strcmp(mode, "enqueue-batch")) {
    load(&d, n, b);
  } else if (!strcmp(mode, "process-single")) {
    while (claim(&d, 1)) {
      done(&d, g_ids[0]);
      total++;
    }
  } else if (!strcmp(mode, "process-batch")) {
    uint64_t k;
    while ((k = claim(&d, b))) {
      step(&d, d.begin);
      for (uint64_t i = 0; i < k; i++) done(&d, g_ids[i]);
      step(&d, d.commit);
      total += k;
    }
  } else if (!strcmp(mode, "process-fused")) {
    uint64_t k = 0;
    do {
      step(&d, d.begin);
      for (uint64_t i = 0; i < k; i++) done(&d, g_ids[i]);
      k = claim(&d, b);
      step(&d, d.commit);
      total += k;
    } while (k);
  } else if (!strcmp(mode, "cycle-single")) {
    for (uint64_t i = 0; i < n; i++) {
      insert(&d, i);
      if (claim(&d, 1) != 1) fail("claim");
      done(&d, g_ids[0]);
      total++;
    }
  } else if (!strcmp(mode, "cycle-batch")) {
    uint64_t k = 0;
    for (uint64_t i = 0; i < n || k; i += b) {
      step(&d, d.begin);
      for (uint64_t j = 0; j < k; j++) done(&d, g_ids[j]);
      for (uint64_t j = i; j < n && j < i + b; j++) insert(&d, j);
      k = claim(&d, b);
      step(&d, d.commit);
      total += k;
    }
  } else if (!strcmp(mode, "cycle-callers")) {
    uint64_t running = 0, ready = 0, made = 0;
    for (uint64_t turn = 0; total < n; turn++) {
      uint64_t third = (b + turn % 3) / 3, end = made + third < n ? made + third : n, k = 0;
      step(&d, d.begin);
      for (uint64_t j = 0; j < running; j++) done(&d, g_ids[j]);
      total += running;
      if (ready) k = claim(&d, ready);
      ready = end - made;
      while (made < end) insert(&d, made++);
      step(&d, d.commit);
      running = k;
    }
  } else if (!strcmp(mode, "latency")) {
    struct lat l = {n, {0, 0, 0}, 0};
    samples_init(&l.s, n);
    pthread_t th;
    pthread_create(&th, 0, latency_worker, &l);
    while (!__atomic_load_n(&l.ready, __ATOMIC_ACQUIRE)) usleep(1000);
    for (uint64_t i = 0; i < n; i++) {
      usleep(5000 + (unsigned)(mix64(i) % 10000));
      insert(&d, i);
      pthread_mutex_lock(&g_m);
      g_version++;
      pthread_mutex_unlock(&g_m);
      pthread_cond_signal(&g_c);
    }
    pthread_join(th, 0);
    emit("E", "limit-c-sqlite3", wl, "p50_us", (double)samples_pct(&l.s, 50) / 1e3);
    emit("E", "limit-c-sqlite3", wl, "p99_us", (double)samples_pct(&l.s, 99) / 1e3);
    return 0;
  } else {
    return 2;
  }
  t1 = now_ns();
  if (!strncmp(mode, "enqueue", 7) ? count(&d) != n : (total != n || count(&d) != 0)) fail("count");
  emit("E", "limit-c-sqlite3", wl, "tasks_per_s", (double)n * 1e9 / (double)(t1 - t0));
  return 0;
}
