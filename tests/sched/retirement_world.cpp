#include "sched/retirement_world.hpp"

#include "nocter/base/interrupt.hpp"
#include "nocter/retirement.hpp"

namespace sched {

Retiring::Retiring(const Places& places) {
  nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
  options.maximum_resources = places.maximum_resources;
  options.workers = places.workers;
  options.waiters = waiters.notifier();
  options.work = work.notifier();
  options.wait_spins = NOCTER_WAIT_NONE;
  options.wait_yields = places.stays_awake ? 1 : NOCTER_WAIT_NONE;
  require_equal(nocter_retirement_create(&options, &service), NOCTER_OK, "retirement_create");
}

nocter_status Retiring::reserve(nocter_permit*& permit, nocter_epoch& epoch) {
  const nocter_status status = nocter_retirement_reserve(service, &permit, &epoch);
  require((status == NOCTER_OK) == (permit != nullptr), "a permit is given when, and only when, it says so");
  require(status == NOCTER_OK || status == NOCTER_SATURATED || status == NOCTER_CLOSED, "what reserve says");
  return status;
}

nocter_permit* Retiring::reserved() {
  nocter_permit* permit;
  nocter_epoch epoch;
  require_equal(reserve(permit, epoch), NOCTER_OK, "reserve");
  return permit;
}

nocter_resource* Retiring::attach(nocter_permit* permit, int number) {
  nocter_owned value = ledger.make(number);
  nocter_resource* const resource = nocter_permit_attach(permit, &value);
  require(resource != nullptr && value.drop == nullptr, "RET-02: attach failed");
  return resource;
}

nocter_retirement_id Retiring::retire(nocter_resource* resource) {
  nocter_retirement_id id;
  require_equal(nocter_resource_retire(resource, &id), NOCTER_OK, "retire");
  return id;
}

nocter_status Retiring::claim(nocter_cleanup*& cleanup, const nocter_wait* wait) {
  const nocter_status status = nocter_retirement_claim(service, wait, &cleanup);
  require((status == NOCTER_OK) == (cleanup != nullptr), "a claim gives a guard when, and only when, it says so");
  require(status != NOCTER_EMPTY || wait == nullptr, "a claim that may wait says empty");
  return status;
}

void Retiring::begin(nocter_cleanup* cleanup) {
  nocter_owned value;
  require_equal(nocter_cleanup_begin(cleanup, &value), NOCTER_OK, "begin");
  ledger.end(value, Ledger::number(value));
}

nocter_status Retiring::clean_once(const nocter_wait* wait, int32_t code) {
  nocter_cleanup* cleanup;
  const nocter_status status = claim(cleanup, wait);
  if (status != NOCTER_OK) return status;
  begin(cleanup);
  require_equal(nocter_cleanup_complete(cleanup, code), NOCTER_OK, "complete");
  return status;
}

void Retiring::cleaned(int32_t code) { require_equal(clean_once(nullptr, code), NOCTER_OK, "claim"); }

nocter_status Retiring::take(nocter_retirement_id id, const nocter_wait* wait, int32_t* code) {
  int32_t heard = 77;
  const nocter_status status = nocter_retirement_take(service, id, wait, &heard);
  require(status == NOCTER_OK || heard == 0, "a code came without NOCTER_OK");
  require(status != NOCTER_PENDING || wait == nullptr, "a take that may wait says pending");
  if (code != nullptr) *code = heard;
  return status;
}

nocter_status Retiring::detach(nocter_retirement_id id) {
  const nocter_status status = nocter_retirement_detach(service, id);
  require(status == NOCTER_OK || status == NOCTER_E_UNKNOWN, "what detach says");
  return status;
}

nocter_status Retiring::wait_epoch(nocter_epoch& later_than, const nocter_wait* wait) {
  nocter_epoch now;
  const nocter_status status = nocter_retirement_wait_epoch(service, later_than, wait, &now);
  require(now.service == later_than.service && now.sequence >= later_than.sequence, "the epoch went back");
  if (status == NOCTER_OK) require(!nocter_epoch_equal(now, later_than), "said later, and it is the same epoch");
  later_than = now;
  return status;
}

nocter_status Retiring::drained(const nocter_wait* wait) { return nocter_retirement_drained(service, wait); }

nocter_retirement_counts Retiring::counts() {
  nocter_retirement_counts c = NOCTER_RETIREMENT_COUNTS_INIT;
  require_equal(nocter_retirement_count(service, &c), NOCTER_OK, "count");
  const uint64_t freed = c.permits_dropped + c.unobserved_done + c.detached_done + c.taken + c.detached_completed;
  require_equal(c.reserved, c.permits + c.live + c.queued + c.running + c.completed, "RET-04: reserved is the sum");
  require(c.reserved <= c.maximum_resources && c.running <= c.workers, "RET-04: the bounds");
  require_equal(c.reservations, freed + c.reserved, "reservations are what was freed and what is there");
  require_equal(c.epoch, freed, "the epoch counts the places that were freed");
  require_equal(c.cleaned + c.failed + c.lost, freed - c.permits_dropped + c.completed, "cleanups that have ended");
  return c;
}

void Retiring::destroy() {
  nocter_retirement_destroy(service);
  service = nullptr;
}

void Retiring::announce_serving(uint32_t threads) {
  auto* core = reinterpret_cast<nocter::retirement::Service*>(service);
  require(core->serving_begins(threads), "nothing to serve");
  for (uint32_t i = 0; i < threads; i++) core->hold();
}

void Retiring::serve(nocter_interrupt* stop) {
  auto* core = reinterpret_cast<nocter::retirement::Service*>(service);
  nocter::base::self().serving = core;
  core->serve_here(reinterpret_cast<nocter::base::InterruptHandle*>(stop)->interrupt);
  nocter::base::self().serving = nullptr;
  core->release();
}

void Retiring::settle() {
  if (service != nullptr) {
    counts();
    nocter_retirement_close(service);
    require_equal(drained(), NOCTER_OK, "drained");
    require_equal(counts().reserved, 0, "places in a drained service");
    destroy();
  }
  ledger.check();
  for (const Bell* bell : {&waiters, &work}) {
    require(bell->dropped, "a notifier was not dropped: the service still lives");
    require_equal(bell->inside, 0, "notifiers that have not returned");
  }
}

}  // namespace sched
