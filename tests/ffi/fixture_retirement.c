/* What the fixture has of the retirement service. */
#include <string.h>

#include "fixture.h"

static nocter_retirement *make_service(struct fixture *fixture) {
  nocter_retirement_options options = fixture->retirement.options;
  options.waiters = fixture_notifier(fixture);
  options.work = fixture_notifier(fixture);
  nocter_retirement *service = NULL;
  REQUIRE(nocter_retirement_create(&options, &service) == NOCTER_OK);
  return service;
}

static nocter_permit *reserve(nocter_retirement *service) {
  nocter_permit *permit = NULL;
  nocter_epoch epoch;
  REQUIRE(nocter_retirement_reserve(service, &permit, &epoch) == NOCTER_OK);
  return permit;
}

static nocter_resource *own(struct fixture *fixture, nocter_retirement *service) {
  nocter_owned value = fixture_payload(fixture);
  nocter_resource *resource = nocter_permit_attach(reserve(service), &value);
  REQUIRE(resource != NULL && value.drop == NULL);
  return resource;
}

static nocter_retirement_id retire(struct fixture *fixture, nocter_retirement *service) {
  nocter_retirement_id id;
  REQUIRE(nocter_resource_retire(own(fixture, service), &id) == NOCTER_OK);
  return id;
}

static nocter_cleanup *claim(nocter_retirement *service) {
  nocter_cleanup *cleanup = NULL;
  REQUIRE(nocter_retirement_claim(service, NULL, &cleanup) == NOCTER_OK);
  return cleanup;
}

static nocter_cleanup *claim_and_begin(nocter_retirement *service) {
  nocter_cleanup *cleanup = claim(service);
  nocter_owned value;
  REQUIRE(nocter_cleanup_begin(cleanup, &value) == NOCTER_OK);
  value.drop(value.data);
  return cleanup;
}

static nocter_job_id bits_of(nocter_retirement_id id) { return (nocter_job_id){id.service, id.sequence}; }

static void make_dead(struct fixture *fixture, void **dead) {
  nocter_retirement *service = make_service(fixture);
  nocter_retirement *grave = fixture->retirement.grave = make_service(fixture);
  nocter_permit *permit = reserve(grave);
  nocter_resource *resource = own(fixture, grave);
  nocter_resource_drop(own(fixture, grave));
  nocter_cleanup *cleanup = claim(grave);
  nocter_cleanup_drop(cleanup);
  nocter_resource_drop(resource);
  REQUIRE(nocter_cleanup_complete(claim_and_begin(grave), 0) == NOCTER_OK);
  nocter_permit_drop(permit);
  nocter_retirement_destroy(service);
  void *const gone[4] = {service, permit, resource, cleanup};
  memcpy(dead, gone, sizeof gone);
}

void retirement_make(struct fixture *fixture, void **dead) {
  struct retirement_part *part = &fixture->retirement;
  nocter_retirement_options_init(&part->options, sizeof part->options);
  part->options.maximum_resources = 8;
  part->options.workers = 4;
  nocter_retirement_counts_init(&part->counts, sizeof part->counts);
  make_dead(fixture, dead);
  part->service = make_service(fixture);
  part->other = make_service(fixture);
  int32_t code;
  const nocter_retirement_id stale = retire(fixture, part->service);
  REQUIRE(nocter_cleanup_complete(claim_and_begin(part->service), 0) == NOCTER_OK);
  REQUIRE(nocter_retirement_take(part->service, stale, NULL, &code) == NOCTER_OK);
  const nocter_retirement_id completed = retire(fixture, part->service);
  REQUIRE(nocter_cleanup_complete(claim_and_begin(part->service), 7) == NOCTER_OK);
  nocter_resource_drop(own(fixture, part->service));
  part->begun = claim_and_begin(part->service);
  nocter_resource_drop(own(fixture, part->service));
  part->cleanup = claim(part->service);
  part->queued = retire(fixture, part->service);
  part->permit = reserve(part->service);
  part->resource = own(fixture, part->service);

  /* The second of each service, so that the sequence numbers may well coincide. */
  (void)retire(fixture, part->other);
  part->ids.foreign = bits_of(retire(fixture, part->other));
  part->ids.stale = bits_of(stale);
  part->ids.completed = bits_of(completed);
  REQUIRE(nocter_retirement_epoch(part->service, &part->ids.epoch) == NOCTER_OK);
  REQUIRE(nocter_retirement_epoch(part->other, &part->ids.foreign_epoch) == NOCTER_OK);
}

/* Some of these were ended by the call that was tried: doing it again does nothing (FFI-04). */
void retirement_end(struct fixture *fixture) {
  struct retirement_part *part = &fixture->retirement;
  nocter_permit_drop(part->permit);
  nocter_resource_drop(part->resource);
  nocter_cleanup_drop(part->cleanup);
  nocter_cleanup_drop(part->begun);
  nocter_retirement_destroy(part->service);
  nocter_retirement_destroy(part->other);
  nocter_retirement_destroy(part->grave);
}

void retirement_picture(const struct fixture *fixture, struct picture *picture) {
  const nocter_retirement *const services[2] = {fixture->retirement.service, fixture->retirement.other};
  for (int i = 0; i < 2; i++) {
    nocter_retirement_counts *counts = &picture->retirement_counts[i];
    nocter_retirement_counts_init(counts, sizeof *counts);
    REQUIRE(nocter_retirement_count(services[i], counts) == NOCTER_OK);
    counts->oldest_queued_ns = 0;
    counts->longest_running_ns = 0;
  }
  REQUIRE(nocter_retirement_query(services[0], fixture->retirement.queued, &picture->retirement_state) == NOCTER_OK);
}
