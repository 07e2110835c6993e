/* What the fixture has of the keyed queue. */
#include <string.h>

#include "fixture.h"

static nocter_keyed *make_queue(struct fixture *fixture) {
  nocter_keyed_options options = fixture->keyed.options;
  options.waiters = fixture_notifier(fixture);
  options.work = fixture_notifier(fixture);
  nocter_keyed *queue = NULL;
  REQUIRE(nocter_keyed_create(&options, &queue) == NOCTER_OK);
  return queue;
}

static nocter_pass *claim(nocter_keyed *queue, const char *key) {
  nocter_pass *pass = NULL;
  REQUIRE(nocter_keyed_notify(queue, nocter_text_of(key)) == NOCTER_OK);
  REQUIRE(nocter_keyed_claim(queue, NULL, &pass) == NOCTER_OK);
  return pass;
}

static nocter_status next_key(void *user, nocter_text *out_key) {
  (void)user;
  *out_key = nocter_text_of("of a source");
  return NOCTER_OK;
}
static void drop_source(void *user) { atomic_fetch_add(&((struct fixture *)user)->source_drops, 1); }

nocter_status keyed_run(void *user, nocter_text key, nocter_pass *pass) {
  (void)key, (void)pass;
  atomic_fetch_add(&((struct fixture *)user)->runs, 1);
  return NOCTER_OK;
}

void keyed_make(struct fixture *fixture, void **dead) {
  struct keyed_part *part = &fixture->keyed;
  nocter_keyed_options_init(&part->options, sizeof part->options);
  part->options.maximum_keys = 8;
  part->options.workers = 4;
  part->options.maximum_key_size = 100;
  nocter_keyed_counts_init(&part->counts, sizeof part->counts);
  part->keys[0] = nocter_text_of("a key");
  part->source = (nocter_keyed_source){next_key, drop_source, fixture};

  nocter_keyed *queue = make_queue(fixture);
  part->grave = make_queue(fixture);
  nocter_pass *pass = claim(part->grave, "gone");
  REQUIRE(nocter_pass_complete(pass) == NOCTER_OK);
  nocter_keyed_destroy(queue);
  void *const gone[2] = {queue, pass};
  memcpy(dead, gone, sizeof gone);

  part->queue = make_queue(fixture);
  part->other = make_queue(fixture);
  part->shut = make_queue(fixture);
  nocter_keyed_close(part->shut, NOCTER_CLOSE_DISCARD);
  part->pass = claim(part->queue, "of a pass");
  part->second = claim(part->queue, "of another pass");
  REQUIRE(nocter_keyed_notify(part->queue, nocter_text_of("that waits")) == NOCTER_OK);
  REQUIRE(nocter_keyed_notify_after(part->queue, nocter_text_of("that is delayed"), INT64_C(3600000000000)) ==
          NOCTER_OK);
}

/* Some of these were ended by the call that was tried: doing it again does nothing (FFI-04). */
void keyed_end(struct fixture *fixture) {
  struct keyed_part *part = &fixture->keyed;
  nocter_pass_drop(part->pass);
  nocter_pass_drop(part->second);
  nocter_keyed_destroy(part->queue);
  nocter_keyed_destroy(part->other);
  nocter_keyed_destroy(part->shut);
  nocter_keyed_destroy(part->grave);
  REQUIRE(atomic_load(&fixture->source_drops) <= 1);
}

void keyed_picture(const struct fixture *fixture, struct picture *picture) {
  const nocter_keyed *const queues[3] = {fixture->keyed.queue, fixture->keyed.other, fixture->keyed.shut};
  for (int i = 0; i < 3; i++) {
    nocter_keyed_counts *counts = &picture->keyed_counts[i];
    nocter_keyed_counts_init(counts, sizeof *counts);
    REQUIRE(nocter_keyed_count(queues[i], counts) == NOCTER_OK);
    counts->oldest_waiting_ns = 0;
    counts->longest_active_ns = 0;
  }
  picture->pass_interrupted = nocter_pass_interrupted(fixture->keyed.pass);
  picture->source_drops = atomic_load(&fixture->source_drops);
  const nocter_text key = nocter_pass_key(fixture->keyed.pass);
  REQUIRE(key.size == strlen("of a pass") && memcmp(key.data, "of a pass", key.size) == 0);
}
