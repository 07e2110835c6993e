#include "nocter/retirement.h"

#include "boundary.hpp"
#include "nocter/retirement.hpp"
#include "workers.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

using retirement::Cleanup;
using retirement::Permit;
using retirement::Record;
using retirement::Resource;
using retirement::Service;
using retirement::State;

constexpr base::Kind kKind = base::Kind::retirement;

Service* core(nocter_retirement* handle) { return reinterpret_cast<Service*>(handle); }
const Service* core(const nocter_retirement* handle) { return reinterpret_cast<const Service*>(handle); }

base::Identity core(nocter_retirement_id id) { return {id.service, id.sequence}; }
nocter_retirement_id to_retirement_id(base::Identity id) { return {id.service, id.sequence}; }

nocter_retirement_state to_c(State state) {
  if (state == State::completed) return NOCTER_RETIREMENT_COMPLETED;
  return retirement::is_queued(state) ? NOCTER_RETIREMENT_QUEUED : NOCTER_RETIREMENT_RUNNING;
}

__attribute__((always_inline)) inline nocter_status check_call(nocter_retirement* retirement, const char* function) {
  return capi::check_call(core(retirement), kKind, function);
}
// The same for a call on a guard.
nocter_status check_reentry(const Record& record, const char* function) {
  return base::self().telling == nullptr ? NOCTER_OK : capi::check_reentry(&record.service, kKind, function);
}

Record* permitted(const nocter_permit* permit, const char* function) {
  return record_of_guard<Permit>(permit, base::Kind::permit, function, nullptr,
                                 [](Permit& guard) -> Record& { return retirement::record_of(guard); });
}
Record* owned(const nocter_resource* resource, const char* function, nocter_status* status = nullptr) {
  return record_of_guard<Resource>(resource, base::Kind::resource, function, status,
                                   [](Resource& guard) -> Record& { return retirement::record_of(guard); });
}
Record* cleaning(const nocter_cleanup* cleanup, const char* function, nocter_status* status = nullptr) {
  return record_of_guard<Cleanup>(cleanup, base::Kind::cleanup, function, status,
                                  [](Cleanup& guard) -> Record& { return retirement::record_of(guard); });
}

// Says what a negative status of the core means here.
nocter_status explain_error(Status status, const char* function) __attribute__((cold));
nocter_status explain(Status status, const char* function) {
  return status >= Status::ok ? capi::to_c(status) : explain_error(status, function);
}
nocter_status explain_error(Status status, const char* function) {
  switch (status) {
    case Status::foreign:
      return fail(NOCTER_E_FOREIGN, function, "it was issued by another service");
    case Status::unknown:
      return fail(NOCTER_E_UNKNOWN, function, "no such retirement here: never issued, taken or detached");
    case Status::argument:
      return fail_argument(function, "later_than", "is an epoch that this service has not had yet");
    case Status::limit:
      return fail(NOCTER_E_LIMIT, function, "all 2^64 - 1 identities of this service are used up");
    case Status::would_deadlock:
      return fail(NOCTER_E_WOULD_DEADLOCK, function,
                  "only this thread, which cleans for this service, could end the wait");
    default:
      return capi::to_c(status);
  }
}

constexpr nocter_retirement_options kDefaults = NOCTER_RETIREMENT_OPTIONS_INIT;
#define NOCTER_END(field) NOCTER_FIELD_END(nocter_retirement_options, field)
constexpr uint32_t kOptionEnds[] = {NOCTER_END(size),       NOCTER_END(maximum_resources), NOCTER_END(workers),
                                    NOCTER_END(reserved),   NOCTER_END(waiters),           NOCTER_END(work),
                                    NOCTER_END(wait_spins), NOCTER_END(wait_yields)};
#undef NOCTER_END

nocter_status read_options(const nocter_retirement_options* given, retirement::Options& to, const char* function) {
  if (given == nullptr) return fail_null(function, "options");
  nocter_retirement_options options = kDefaults;
  if (const nocter_status status = read_sized(options, given, kOptionEnds, function, "options"); status != NOCTER_OK) {
    return status;
  }
  if (options.maximum_resources == 0 || options.maximum_resources > NOCTER_RETIREMENT_MAXIMUM_RESOURCES) {
    return fail_argument(function, "options->maximum_resources",
                         "is not between 1 and NOCTER_RETIREMENT_MAXIMUM_RESOURCES");
  }
  if (options.workers == 0 || options.workers > options.maximum_resources) {
    return fail_argument(function, "options->workers", "is not between 1 and options->maximum_resources");
  }
  if (options.reserved != 0) return fail_argument(function, "options->reserved", "is not 0");
  to.maximum_resources = options.maximum_resources;
  to.workers = options.workers;
  to.waiters = notifier_of(options.waiters);
  to.work = notifier_of(options.work);
  to.patience = patience_of(options.wait_spins, options.wait_yields);
  return NOCTER_OK;
}

}  // namespace

bool nocter_retirement_id_equal(nocter_retirement_id a, nocter_retirement_id b) {
  return a.service == b.service && a.sequence == b.sequence;
}

void nocter_retirement_options_init(nocter_retirement_options* options, size_t size) {
  init_sized(options, kDefaults, size);
}

void nocter_retirement_counts_init(nocter_retirement_counts* counts, size_t size) {
  static constexpr nocter_retirement_counts kNone = NOCTER_RETIREMENT_COUNTS_INIT;
  init_sized(counts, kNone, size);
}

nocter_status nocter_retirement_create(const nocter_retirement_options* options, nocter_retirement** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  retirement::Options read;
  if (const nocter_status status = read_options(options, read, __func__); status != NOCTER_OK) return status;
  Service* made = Service::create(read);
  *out = reinterpret_cast<nocter_retirement*>(made);
  return made != nullptr ? NOCTER_OK : fail(NOCTER_E_MEMORY, __func__, "out of memory");
}

// ---- Permits and owners ---------------------------------------------------------------------------------------------

nocter_status nocter_retirement_reserve(nocter_retirement* retirement, nocter_permit** out, nocter_epoch* out_epoch) {
  if (out != nullptr) *out = nullptr;
  if (out_epoch != nullptr) *out_epoch = {0, 0};
  if (const nocter_status status = check_call(retirement, __func__); status != NOCTER_OK) return status;
  if (out == nullptr) return fail_null(__func__, "out");
  if (out_epoch == nullptr) return fail_null(__func__, "out_epoch");
  Record* record = nullptr;
  base::Epoch epoch;
  const Status status = core(retirement)->reserve(record, epoch);
  if (status == Status::ok) *out = reinterpret_cast<nocter_permit*>(&record->permit());
  if (status >= Status::ok) *out_epoch = capi::to_c(epoch);
  return explain(status, __func__);
}

nocter_resource* nocter_permit_attach(nocter_permit* permit, nocter_owned* resource) {
  Record* found = permitted(permit, __func__);
  if (found == nullptr || resource == nullptr || !found->permit().tag.end(base::Kind::permit)) return nullptr;
  base::Owned value = owned_of(*resource);
  *resource = {nullptr, nullptr};
  Service::attach(*found, value);
  return reinterpret_cast<nocter_resource*>(&found->resource());
}

void nocter_permit_drop(nocter_permit* permit) {
  Record* found = permitted(permit, __func__);
  if (found != nullptr && found->permit().tag.end(base::Kind::permit)) Service::drop_permit(*found);
}

void* nocter_resource_get(const nocter_resource* resource) {
  const Record* found = owned(resource, __func__);
  return found != nullptr ? found->value.data : nullptr;
}

void nocter_resource_drop(nocter_resource* resource) {
  Record* found = owned(resource, __func__);
  if (found != nullptr && found->resource().tag.end(base::Kind::resource)) Service::drop(*found);
}

nocter_status nocter_resource_retire(nocter_resource* resource, nocter_retirement_id* out) {
  if (out != nullptr) *out = {0, 0};
  nocter_status status = NOCTER_OK;
  Record* found = owned(resource, __func__, &status);
  if (found == nullptr) return status;
  if (out == nullptr) return fail_null(__func__, "out");
  if (status = check_reentry(*found, __func__); status != NOCTER_OK) return status;
  if (!found->resource().tag.end(base::Kind::resource)) return fail_handle(__func__, base::Kind::resource, resource);
  base::Identity id;
  const Status said = Service::retire(*found, id);
  *out = to_retirement_id(id);
  return capi::to_c(said);
}

// ---- Cleanups -------------------------------------------------------------------------------------------------------

nocter_status nocter_retirement_claim(nocter_retirement* retirement, const nocter_wait* wait, nocter_cleanup** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  if (const nocter_status status = check_call(retirement, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  Record* record = nullptr;
  const Status status = core(retirement)->claim(limits.pointer(), record);
  if (status == Status::ok) *out = reinterpret_cast<nocter_cleanup*>(&record->cleanup());
  return explain(status, __func__);
}

nocter_status nocter_cleanup_begin(nocter_cleanup* cleanup, nocter_owned* out_resource) {
  if (out_resource != nullptr) *out_resource = {nullptr, nullptr};
  nocter_status status = NOCTER_OK;
  Record* found = cleaning(cleanup, __func__, &status);
  if (found == nullptr) return status;
  if (out_resource == nullptr) return fail_null(__func__, "out_resource");
  if (found->begun) return fail(NOCTER_E_STATE, __func__, "the resource was taken out already");
  *out_resource = capi::to_c(Service::begin(*found));
  return NOCTER_OK;
}

nocter_status nocter_cleanup_complete(nocter_cleanup* cleanup, int32_t code) {
  nocter_status status = NOCTER_OK;
  Record* found = cleaning(cleanup, __func__, &status);
  if (found == nullptr) return status;
  if (status = check_reentry(*found, __func__); status != NOCTER_OK) return status;
  if (!found->begun) return fail(NOCTER_E_STATE, __func__, "the resource was not taken out yet");
  if (!found->cleanup().tag.end(base::Kind::cleanup)) return fail_handle(__func__, base::Kind::cleanup, cleanup);
  Service::complete(*found, code);
  return NOCTER_OK;
}

void nocter_cleanup_drop(nocter_cleanup* cleanup) {
  Record* found = cleaning(cleanup, __func__);
  if (found != nullptr && found->cleanup().tag.end(base::Kind::cleanup)) Service::drop_cleanup(*found);
}

// ---- Those who ask --------------------------------------------------------------------------------------------------

nocter_status nocter_retirement_take(nocter_retirement* retirement, nocter_retirement_id id, const nocter_wait* wait,
                                     int32_t* out_code) {
  if (out_code == nullptr) return fail_null(__func__, "out_code");
  *out_code = 0;
  if (const nocter_status status = check_call(retirement, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  int32_t code = 0;
  const Status status = core(retirement)->take(core(id), limits.pointer(), code);
  if (status == Status::ok) *out_code = code;
  return explain(status, __func__);
}

nocter_status nocter_retirement_query(const nocter_retirement* retirement, nocter_retirement_id id,
                                      nocter_retirement_state* out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = 0;
  if (const nocter_status status = check(core(retirement), kKind, __func__); status != NOCTER_OK) return status;
  State state;
  const Status status = core(retirement)->query(core(id), state);
  if (status == Status::ok) *out = to_c(state);
  return explain(status, __func__);
}

nocter_status nocter_retirement_detach(nocter_retirement* retirement, nocter_retirement_id id) {
  if (const nocter_status status = check_call(retirement, __func__); status != NOCTER_OK) return status;
  return explain(core(retirement)->detach(core(id)), __func__);
}

void nocter_retirement_detach_all(nocter_retirement* retirement) {
  if (usable(core(retirement), kKind, __func__)) core(retirement)->detach_all();
}

nocter_status nocter_retirement_epoch(const nocter_retirement* retirement, nocter_epoch* out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = {0, 0};
  if (const nocter_status status = check(core(retirement), kKind, __func__); status != NOCTER_OK) return status;
  *out = capi::to_c(core(retirement)->epoch());
  return NOCTER_OK;
}

nocter_status nocter_retirement_wait_epoch(nocter_retirement* retirement, nocter_epoch later_than,
                                           const nocter_wait* wait, nocter_epoch* out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = {0, 0};
  if (const nocter_status status = check_call(retirement, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  base::Epoch now;
  const Status status = core(retirement)->wait_epoch({later_than.service, later_than.sequence}, limits.pointer(), now);
  if (status >= Status::ok) *out = capi::to_c(now);
  return explain(status, __func__);
}

// ---- The service ----------------------------------------------------------------------------------------------------

void nocter_retirement_close(nocter_retirement* retirement) {
  if (usable(core(retirement), kKind, __func__)) core(retirement)->close();
}

nocter_status nocter_retirement_drained(nocter_retirement* retirement, const nocter_wait* wait) {
  if (const nocter_status status = check_call(retirement, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  return explain(core(retirement)->drained(limits.pointer()), __func__);
}

nocter_status nocter_retirement_count(const nocter_retirement* retirement, nocter_retirement_counts* out) {
  if (const nocter_status status = check(core(retirement), kKind, __func__); status != NOCTER_OK) return status;
  if (out == nullptr) return fail_null(__func__, "out");
  static constexpr auto kEnds =
      ends_of_counts<sizeof(nocter_retirement_counts), offsetof(nocter_retirement_counts, epoch)>();
  const nocter_status status =
      check_size(out, sizeof(nocter_retirement_counts), kEnds.at, kEnds.count, __func__, "out");
  if (status != NOCTER_OK) return status;
  const retirement::Counts c = core(retirement)->count();
  const nocter_retirement_counts counts = {
      .size = out->size,
      .accepting = c.accepting ? 1U : 0U,
      .permits = c.permits,
      .live = c.live,
      .queued = c.queued,
      .running = c.running,
      .completed = c.completed,
      .reserved = c.reserved,
      .maximum_resources = c.maximum_resources,
      .workers = c.workers,
      .epoch = c.epoch,
      .reservations = c.reservations,
      .saturated = c.saturated,
      .permits_dropped = c.permits_dropped,
      .unobserved_done = c.unobserved_done,
      .detached_done = c.detached_done,
      .taken = c.taken,
      .detached_completed = c.detached_completed,
      .cleaned = c.cleaned,
      .failed = c.failed,
      .lost = c.lost,
      .failed_unobserved = c.failed_unobserved,
      .exceptions = c.exceptions,
      .oldest_queued_ns = c.oldest_queued_ns,
      .longest_running_ns = c.longest_running_ns,
  };
  write_sized(out, counts, out->size);
  return NOCTER_OK;
}

nocter_status nocter_retirement_serve(nocter_retirement* retirement, const nocter_workers_options* options,
                                      nocter_workers** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  if (const nocter_status status = check_call(retirement, __func__); status != NOCTER_OK) return status;
  base::ThreadOptions threads;
  if (const nocter_status status = read_workers_options(options, threads, __func__); status != NOCTER_OK) return status;
  base::Workers* workers = nullptr;
  const base::Workers::Started started = core(retirement)->serve(threads, workers);
  if (started.status == Status::closed) return NOCTER_CLOSED;
  *out = reinterpret_cast<nocter_workers*>(workers);
  return explain_start(started, __func__);
}

void nocter_retirement_destroy(nocter_retirement* retirement) {
  if (usable(core(retirement), kKind, __func__) && core(retirement)->header.tag.end(kKind)) core(retirement)->destroy();
}
