#include "nocter/blocking.h"

#include "boundary.hpp"
#include "nocter/blocking_moves.hpp"
#include "workers.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

using blocking::Completion;
using blocking::Job;
using blocking::JobState;
using blocking::RunningJob;
using blocking::Service;

constexpr base::Kind kKind = base::Kind::blocking;

Service* core(nocter_blocking* handle) { return reinterpret_cast<Service*>(handle); }
const Service* core(const nocter_blocking* handle) { return reinterpret_cast<const Service*>(handle); }

base::Identity core(nocter_job_id id) { return {id.service, id.sequence}; }
nocter_job_id to_job_id(base::Identity id) { return {id.service, id.sequence}; }

static_assert(NOCTER_JOB_QUEUED == static_cast<int>(JobState::queued) &&
              NOCTER_JOB_RUNNING == static_cast<int>(JobState::running));
nocter_job_state to_c(JobState state) {
  return state == JobState::completed ? NOCTER_JOB_COMPLETED : static_cast<nocter_job_state>(state);
}

__attribute__((always_inline)) inline nocter_status check_call(nocter_blocking* blocking, const char* function) {
  return capi::check_call(core(blocking), kKind, function);
}

Job* running(const nocter_running_job* job, const char* function, nocter_status* status = nullptr) {
  return record_of_guard<RunningJob>(job, base::Kind::running_job, function, status,
                                     [](RunningJob& guard) -> Job& { return blocking::job_of(guard); });
}
Job* completing(const nocter_completion* completion, const char* function, nocter_status* status = nullptr) {
  return record_of_guard<Completion>(completion, base::Kind::completion, function, status,
                                     [](Completion& guard) -> Job& { return blocking::job_of(guard); });
}

// A function that was lent this completion must hear, when it returns, that the job has ended already.
void note_end_of_lent(Job& job) {
  base::ThreadState& thread = base::self();
  if (thread.lent == &job.completion()) thread.lent_consumed = true;
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
      return fail(NOCTER_E_UNKNOWN, function, "no such job here: never issued, taken, cancelled or abandoned");
    case Status::state:
      return fail(NOCTER_E_STATE, function, "the job was cancelled and still runs: nobody waits for it any more");
    case Status::argument:
      return fail_argument(function, "later_than", "is an epoch that this service has not had yet");
    case Status::limit:
      return fail(NOCTER_E_LIMIT, function, "all 2^64 - 1 identities of this service are used up");
    case Status::would_deadlock:
      return fail(NOCTER_E_WOULD_DEADLOCK, function,
                  "only this thread, which runs a job of this service, could end the wait");
    default:
      return capi::to_c(status);
  }
}

constexpr nocter_blocking_options kDefaults = NOCTER_BLOCKING_OPTIONS_INIT;
#define NOCTER_END(field) NOCTER_FIELD_END(nocter_blocking_options, field)
constexpr uint32_t kOptionEnds[] = {NOCTER_END(size),       NOCTER_END(maximum_jobs), NOCTER_END(workers),
                                    NOCTER_END(reserved),   NOCTER_END(waiters),      NOCTER_END(work),
                                    NOCTER_END(wait_spins), NOCTER_END(wait_yields)};
#undef NOCTER_END

nocter_status read_options(const nocter_blocking_options* given, blocking::Options& to, const char* function) {
  if (given == nullptr) return fail_null(function, "options");
  nocter_blocking_options options = kDefaults;
  if (const nocter_status status = read_sized(options, given, kOptionEnds, function, "options"); status != NOCTER_OK) {
    return status;
  }
  if (options.maximum_jobs == 0 || options.maximum_jobs > NOCTER_BLOCKING_MAXIMUM_JOBS) {
    return fail_argument(function, "options->maximum_jobs", "is not between 1 and NOCTER_BLOCKING_MAXIMUM_JOBS");
  }
  if (options.workers == 0 || options.workers > options.maximum_jobs) {
    return fail_argument(function, "options->workers", "is not between 1 and options->maximum_jobs");
  }
  if (options.reserved != 0) return fail_argument(function, "options->reserved", "is not 0");
  to.maximum_jobs = options.maximum_jobs;
  to.workers = options.workers;
  to.waiters = notifier_of(options.waiters);
  to.work = notifier_of(options.work);
  to.patience = patience_of(options.wait_spins, options.wait_yields);
  return NOCTER_OK;
}

struct SinkOfC {
  nocter_blocking_sink sink;
  void* user;
  static void call(void* self, JobState was, base::Owned& value) {
    const auto* to = static_cast<const SinkOfC*>(self);
    to->sink(to->user, ::to_c(was), as_c(value));
  }
};

void run_served(const Service::Run& run, base::Owned& input, base::Owned& output, Completion& completion) {
  reinterpret_cast<nocter_blocking_fn>(run.function)(run.user, as_c(input), as_c(output),
                                                     reinterpret_cast<nocter_completion*>(&completion));
}

}  // namespace

bool nocter_job_id_equal(nocter_job_id a, nocter_job_id b) {
  return a.service == b.service && a.sequence == b.sequence;
}

void nocter_blocking_options_init(nocter_blocking_options* options, size_t size) {
  init_sized(options, kDefaults, size);
}

void nocter_blocking_counts_init(nocter_blocking_counts* counts, size_t size) {
  static constexpr nocter_blocking_counts kNone = NOCTER_BLOCKING_COUNTS_INIT;
  init_sized(counts, kNone, size);
}

nocter_status nocter_blocking_create(const nocter_blocking_options* options, nocter_blocking** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  blocking::Options read;
  if (const nocter_status status = read_options(options, read, __func__); status != NOCTER_OK) return status;
  Service* made = Service::create(read);
  *out = reinterpret_cast<nocter_blocking*>(made);
  return made != nullptr ? NOCTER_OK : fail(NOCTER_E_MEMORY, __func__, "out of memory");
}

nocter_status nocter_blocking_submit(nocter_blocking* blocking, nocter_owned* input, nocter_job_id* out_id,
                                     nocter_epoch* out_epoch) {
  nocter_status bad = check_call(blocking, __func__);
  if (bad == NOCTER_OK && input == nullptr) bad = fail_null(__func__, "input");
  if (bad == NOCTER_OK && out_id == nullptr) bad = fail_null(__func__, "out_id");
  if (bad == NOCTER_OK && out_epoch == nullptr) bad = fail_null(__func__, "out_epoch");
  if (bad != NOCTER_OK) [[unlikely]] {
    if (out_id != nullptr) *out_id = {0, 0};
    if (out_epoch != nullptr) *out_epoch = {0, 0};
    return bad;
  }
  base::Owned value = owned_of(*input);
  base::Identity id;
  base::Epoch epoch;
  const Status status = core(blocking)->submit(value, id, epoch);
  if (status == Status::ok) [[likely]] {
    *input = {nullptr, nullptr};
    *out_id = to_job_id(id);
    *out_epoch = capi::to_c(epoch);
    return NOCTER_OK;
  }
  *out_id = {0, 0};
  *out_epoch = status > Status::ok ? capi::to_c(epoch) : nocter_epoch{0, 0};
  return explain(status, __func__);
}

nocter_status nocter_blocking_claim(nocter_blocking* blocking, const nocter_wait* wait, nocter_running_job** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  Job* job = nullptr;
  const Status status = core(blocking)->claim(limits.pointer(), job);
  if (status == Status::ok) *out = reinterpret_cast<nocter_running_job*>(&job->running());
  return explain(status, __func__);
}

nocter_job_id nocter_running_job_id(const nocter_running_job* job) {
  const Job* found = running(job, __func__);
  return found != nullptr ? to_job_id(found->service.identity_of(*found)) : nocter_job_id{0, 0};
}

nocter_status nocter_running_job_begin(nocter_running_job* job, nocter_owned* out_input, nocter_completion** out) {
  if (out_input != nullptr) *out_input = {nullptr, nullptr};
  if (out != nullptr) *out = nullptr;
  nocter_status status = NOCTER_OK;
  Job* found = running(job, __func__, &status);
  if (found == nullptr) return status;
  if (out_input == nullptr) return fail_null(__func__, "out_input");
  if (out == nullptr) return fail_null(__func__, "out");
  *out_input = capi::to_c(Service::begin(*found));
  *out = reinterpret_cast<nocter_completion*>(&found->completion());
  return NOCTER_OK;
}

void nocter_running_job_drop(nocter_running_job* job) {
  Job* found = running(job, __func__);
  if (found != nullptr && found->running().tag.end(base::Kind::running_job)) Service::drop_unbegun(*found);
}

nocter_job_id nocter_completion_id(const nocter_completion* completion) {
  const Job* found = completing(completion, __func__);
  return found != nullptr ? to_job_id(found->service.identity_of(*found)) : nocter_job_id{0, 0};
}

bool nocter_completion_abandoned(const nocter_completion* completion) {
  const Job* found = completing(completion, __func__);
  return found != nullptr && found->service.abandoned(*found);
}

nocter_interrupt* nocter_completion_interrupt(nocter_completion* completion) {
  Job* found = completing(completion, __func__);
  return found != nullptr ? reinterpret_cast<nocter_interrupt*>(&Service::interrupt_of(*found)) : nullptr;
}

nocter_status nocter_completion_complete(nocter_completion* completion, nocter_owned* output) {
  nocter_status status = NOCTER_OK;
  Job* found = completing(completion, __func__, &status);
  if (found == nullptr) return status;
  if (output == nullptr) return fail_null(__func__, "output");
  if (base::self().telling != nullptr) {
    if (status = check_reentry(&found->service, kKind, __func__); status != NOCTER_OK) return status;
  }
  if (!found->completion().tag.end(base::Kind::completion))
    return fail_handle(__func__, base::Kind::completion, completion);
  note_end_of_lent(*found);
  base::Owned value = owned_of(*output);
  *output = {nullptr, nullptr};
  Service::complete(*found, value);
  return NOCTER_OK;
}

void nocter_completion_drop(nocter_completion* completion) {
  Job* found = completing(completion, __func__);
  if (found == nullptr || !found->completion().tag.end(base::Kind::completion)) return;
  note_end_of_lent(*found);
  Service::lose(*found);
}

nocter_status nocter_blocking_take(nocter_blocking* blocking, nocter_job_id id, const nocter_wait* wait,
                                   nocter_owned* out_output) {
  if (out_output == nullptr) return fail_null(__func__, "out_output");
  *out_output = {nullptr, nullptr};
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  base::Owned output;
  const Status status = core(blocking)->take(core(id), limits.pointer(), output);
  *out_output = capi::to_c(output);
  return explain(status, __func__);
}

nocter_status nocter_blocking_take_many(nocter_blocking* blocking, const nocter_wait* wait, nocter_taken* out_taken,
                                        size_t capacity, size_t* out_count) {
  if (out_count != nullptr) *out_count = 0;
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  if (out_taken == nullptr) return fail_null(__func__, "out_taken");
  if (out_count == nullptr) return fail_null(__func__, "out_count");
  if (capacity == 0) return fail_argument(__func__, "capacity", "is 0");
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  size_t count = 0;
  const Status status = core(blocking)->take_many(
      limits.pointer(), capacity, count, [out_taken](size_t i, base::Identity id, base::Owned output, bool lost) {
        out_taken[i] = {to_job_id(id), capi::to_c(output), lost ? NOCTER_WORKER_LOST : NOCTER_OK, 0};
      });
  *out_count = count;
  return explain(status, __func__);
}

nocter_status nocter_blocking_query(const nocter_blocking* blocking, nocter_job_id id, nocter_job_state* out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = 0;
  if (const nocter_status status = check(core(blocking), kKind, __func__); status != NOCTER_OK) return status;
  JobState state;
  const Status status = core(blocking)->query(core(id), state);
  if (status == Status::ok) *out = to_c(state);
  return explain(status, __func__);
}

nocter_status nocter_blocking_completed(nocter_blocking* blocking, nocter_job_id* out_ids, size_t capacity,
                                        size_t* out_count) {
  if (out_count != nullptr) *out_count = 0;
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  if (out_ids == nullptr) return fail_null(__func__, "out_ids");
  if (out_count == nullptr) return fail_null(__func__, "out_count");
  if (capacity == 0) return fail_argument(__func__, "capacity", "is 0");
  *out_count = core(blocking)->completed(capacity, [&](size_t i, base::Identity id) { out_ids[i] = to_job_id(id); });
  return NOCTER_OK;
}

nocter_status nocter_blocking_cancel(nocter_blocking* blocking, nocter_job_id id, nocter_job_state* out_was,
                                     nocter_owned* out_reclaimed) {
  if (out_was != nullptr) *out_was = 0;
  if (out_reclaimed != nullptr) *out_reclaimed = {nullptr, nullptr};
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  if (out_was == nullptr) return fail_null(__func__, "out_was");
  JobState was;
  base::Owned reclaimed;
  const Status status = core(blocking)->cancel(core(id), was, reclaimed, out_reclaimed != nullptr);
  if (status == Status::ok) *out_was = to_c(was);
  if (out_reclaimed != nullptr) *out_reclaimed = capi::to_c(reclaimed);
  return explain(status, __func__);
}

nocter_status nocter_blocking_epoch(const nocter_blocking* blocking, nocter_epoch* out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = {0, 0};
  if (const nocter_status status = check(core(blocking), kKind, __func__); status != NOCTER_OK) return status;
  *out = capi::to_c(core(blocking)->epoch());
  return NOCTER_OK;
}

nocter_status nocter_blocking_wait_epoch(nocter_blocking* blocking, nocter_epoch later_than, const nocter_wait* wait,
                                         nocter_epoch* out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = {0, 0};
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  base::Epoch now;
  const Status status = core(blocking)->wait_epoch({later_than.service, later_than.sequence}, limits.pointer(), now);
  if (status >= Status::ok) *out = capi::to_c(now);
  return explain(status, __func__);
}

nocter_status nocter_blocking_shutdown(nocter_blocking* blocking, nocter_blocking_sink sink, void* user) {
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  SinkOfC target{sink, user};
  core(blocking)->shutdown(sink == nullptr ? nullptr : SinkOfC::call, &target);
  return NOCTER_OK;
}

nocter_status nocter_blocking_drained(nocter_blocking* blocking, const nocter_wait* wait) {
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  const Status status = core(blocking)->drained(limits.pointer());
  if (status == Status::state) return fail(NOCTER_E_STATE, __func__, "the service was not shut down");
  return explain(status, __func__);
}

nocter_status nocter_blocking_count(const nocter_blocking* blocking, nocter_blocking_counts* out) {
  if (const nocter_status status = check(core(blocking), kKind, __func__); status != NOCTER_OK) return status;
  if (out == nullptr) return fail_null(__func__, "out");
  static constexpr auto kEnds =
      ends_of_counts<sizeof(nocter_blocking_counts), offsetof(nocter_blocking_counts, epoch)>();
  const nocter_status status = check_size(out, sizeof(nocter_blocking_counts), kEnds.at, kEnds.count, __func__, "out");
  if (status != NOCTER_OK) return status;
  const blocking::Counts c = core(blocking)->count();
  const auto now_in = [&c](JobState state) { return c.in_state[static_cast<size_t>(state)]; };
  const nocter_blocking_counts counts = {
      .size = out->size,
      .accepting = c.accepting ? 1U : 0U,
      .queued = now_in(JobState::queued),
      .running = now_in(JobState::running),
      .completed = now_in(JobState::completed),
      .abandoned = now_in(JobState::abandoned),
      .admitted = c.admitted,
      .maximum_jobs = c.maximum_jobs,
      .workers = c.workers,
      .reserved = 0,
      .epoch = c.epoch,
      .accepted = c.accepted,
      .saturated = c.saturated,
      .taken = c.taken,
      .cancelled_queued = c.cancelled_queued,
      .cancelled_completed = c.cancelled_completed,
      .shutdown_queued = c.shutdown_queued,
      .shutdown_completed = c.shutdown_completed,
      .abandoned_retired = c.abandoned_retired,
      .completed_ok = c.completed_ok,
      .completed_lost = c.completed_lost,
      .exceptions = c.exceptions,
      .oldest_queued_ns = c.oldest_queued_ns,
      .longest_running_ns = c.longest_running_ns,
  };
  write_sized(out, counts, out->size);
  return NOCTER_OK;
}

void nocter_blocking_destroy(nocter_blocking* blocking) {
  if (usable(core(blocking), kKind, __func__) && core(blocking)->header.tag.end(kKind)) core(blocking)->destroy();
}

nocter_status nocter_blocking_serve(nocter_blocking* blocking, nocter_blocking_fn run, void* user,
                                    const nocter_workers_options* options, nocter_workers** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  if (const nocter_status status = check_call(blocking, __func__); status != NOCTER_OK) return status;
  if (run == nullptr) return fail_null(__func__, "run");
  base::ThreadOptions threads;
  if (const nocter_status status = read_workers_options(options, threads, __func__); status != NOCTER_OK) return status;
  if (core(blocking)->closed()) return NOCTER_CLOSED;
  base::Workers* workers = nullptr;
  const Service::Run served{run_served, reinterpret_cast<void (*)()>(run), user};
  const base::Workers::Started started = core(blocking)->serve(served, threads, workers);
  *out = reinterpret_cast<nocter_workers*>(workers);
  return explain_start(started, __func__);
}
