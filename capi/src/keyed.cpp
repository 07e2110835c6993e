#include "nocter/keyed.h"

#include <cstdio>

#include "boundary.hpp"
#include "nocter/keyed.hpp"
#include "workers.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

using keyed::Closing;
using keyed::KeyEvent;
using keyed::Pass;
using keyed::Service;

constexpr base::Kind kKind = base::Kind::keyed;

Service* core(nocter_keyed* handle) { return reinterpret_cast<Service*>(handle); }
const Service* core(const nocter_keyed* handle) { return reinterpret_cast<const Service*>(handle); }

__attribute__((always_inline)) inline nocter_status check_call(nocter_keyed* keyed, const char* function) {
  return capi::check_call(core(keyed), kKind, function);
}

Pass* running(const nocter_pass* pass, const char* function, nocter_status* status = nullptr) {
  return record_of_guard<Pass>(pass, base::Kind::pass, function, status, [](Pass& guard) -> Pass& { return guard; });
}

nocter_status fail_key_size(const Service* service, const char* function, size_t size) __attribute__((cold));
nocter_status fail_key_size(const Service* service, const char* function, size_t size) {
  char what[96];
  std::snprintf(what, sizeof what, "a key of %zu bytes: maximum_key_size is %u", size, service->maximum_key_size());
  return fail(NOCTER_E_LIMIT, function, what);
}

// NOCTER_OK for a key that may be passed on.
__attribute__((always_inline)) inline nocter_status check_key(const Service* service, const nocter_text& key,
                                                              const char* function) {
  if (key.data == nullptr && key.size != 0) [[unlikely]]
    return fail_argument(function, "key.data", "is NULL and key.size is not 0");
  if (key.size > service->maximum_key_size()) [[unlikely]]
    return fail_key_size(service, function, key.size);
  return NOCTER_OK;
}

constexpr nocter_keyed_options kDefaults = NOCTER_KEYED_OPTIONS_INIT;
#define NOCTER_END(field) NOCTER_FIELD_END(nocter_keyed_options, field)
constexpr uint32_t kOptionEnds[] = {
    NOCTER_END(size),
    NOCTER_END(maximum_keys),
    NOCTER_END(workers),
    NOCTER_END(maximum_key_size),
    NOCTER_END(waiters),
    NOCTER_END(work),
    NOCTER_END(wait_spins),
    NOCTER_END(wait_yields),
    NOCTER_END(backoff_initial_ns),
    NOCTER_END(backoff_maximum_ns),
    NOCTER_END(backoff_percent),
    NOCTER_END(backoff_jitter_percent),
};
#undef NOCTER_END

nocter_status check_options(const nocter_keyed_options& options, const char* function) {
  if (options.maximum_keys == 0 || options.maximum_keys > NOCTER_KEYED_MAXIMUM_KEYS) {
    return fail_argument(function, "options->maximum_keys", "is not between 1 and NOCTER_KEYED_MAXIMUM_KEYS");
  }
  if (options.workers == 0 || options.workers > options.maximum_keys) {
    return fail_argument(function, "options->workers", "is not between 1 and options->maximum_keys");
  }
  if (options.maximum_key_size == 0 || options.maximum_key_size > NOCTER_KEYED_MAXIMUM_KEY_SIZE) {
    return fail_argument(function, "options->maximum_key_size", "is not between 1 and NOCTER_KEYED_MAXIMUM_KEY_SIZE");
  }
  if (options.backoff_initial_ns < 0) return fail_argument(function, "options->backoff_initial_ns", "is negative");
  if (options.backoff_maximum_ns < options.backoff_initial_ns) {
    return fail_argument(function, "options->backoff_maximum_ns", "is less than options->backoff_initial_ns");
  }
  if (options.backoff_percent < 100 || options.backoff_percent > 10'000) {
    return fail_argument(function, "options->backoff_percent", "is not between 100 and 10000");
  }
  if (options.backoff_jitter_percent > 100) {
    return fail_argument(function, "options->backoff_jitter_percent", "is more than 100");
  }
  return NOCTER_OK;
}

nocter_status read_options(const nocter_keyed_options* given, keyed::Options& to, const char* function) {
  if (given == nullptr) return fail_null(function, "options");
  nocter_keyed_options options = kDefaults;
  if (const nocter_status status = read_sized(options, given, kOptionEnds, function, "options"); status != NOCTER_OK) {
    return status;
  }
  if (const nocter_status status = check_options(options, function); status != NOCTER_OK) return status;
  to.maximum_keys = options.maximum_keys;
  to.workers = options.workers;
  to.maximum_key_size = options.maximum_key_size;
  to.waiters = notifier_of(options.waiters);
  to.work = notifier_of(options.work);
  to.patience = patience_of(options.wait_spins, options.wait_yields);
  to.backoff = {options.backoff_initial_ns, options.backoff_maximum_ns, options.backoff_percent,
                options.backoff_jitter_percent};
  return NOCTER_OK;
}

// Says what a negative status of the core means here.
nocter_status explain_error(Status status, const char* function) __attribute__((cold));
nocter_status explain(Status status, const char* function) {
  return status >= Status::ok ? capi::to_c(status) : explain_error(status, function);
}
nocter_status explain_error(Status status, const char* function) {
  switch (status) {
    case Status::state:
      return fail(NOCTER_E_STATE, function, "the queue was not closed");
    case Status::would_deadlock:
      return fail(NOCTER_E_WOULD_DEADLOCK, function,
                  "only this thread, which runs a pass of this queue, could end the wait");
    default:
      return capi::to_c(status);
  }
}

using NextOfC = nocter_status (*)(void* user, nocter_text* out_key);
Status ask_source(void (*function)(), void* user, const char*& data, size_t& size) {
  nocter_text key = {nullptr, 0};
  const nocter_status status = reinterpret_cast<NextOfC>(function)(user, &key);
  data = key.data;
  size = key.size;
  return static_cast<Status>(status);
}

bool run_served(const Service::Run& run, Service::Text key, Pass& pass) {
  return reinterpret_cast<nocter_keyed_fn>(run.function)(run.user, {key.data, key.size},
                                                         reinterpret_cast<nocter_pass*>(&pass)) == NOCTER_OK;
}

// A function that was lent this pass must hear, when it returns, that the pass has ended already.
bool end_tag(Pass& pass) {
  if (!pass.tag.end(base::Kind::pass)) return false;
  base::ThreadState& thread = base::self();
  if (thread.lent == &pass) thread.lent_consumed = true;
  return true;
}

nocter_status end_pass(nocter_pass* pass, KeyEvent event, int64_t delay_ns, const char* function) {
  nocter_status status = NOCTER_OK;
  Pass* found = running(pass, function, &status);
  if (found == nullptr) return status;
  if (base::self().telling != nullptr) {
    if (status = check_reentry(&found->service, kKind, function); status != NOCTER_OK) return status;
  }
  if (!end_tag(*found)) return fail_handle(function, base::Kind::pass, pass);
  Service::end(*found, event, delay_ns);
  return NOCTER_OK;
}

}  // namespace

void nocter_keyed_options_init(nocter_keyed_options* options, size_t size) { init_sized(options, kDefaults, size); }

void nocter_keyed_counts_init(nocter_keyed_counts* counts, size_t size) {
  static constexpr nocter_keyed_counts kNone = NOCTER_KEYED_COUNTS_INIT;
  init_sized(counts, kNone, size);
}

nocter_status nocter_keyed_create(const nocter_keyed_options* options, nocter_keyed** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  keyed::Options read;
  if (const nocter_status status = read_options(options, read, __func__); status != NOCTER_OK) return status;
  Service* made = Service::create(read);
  *out = reinterpret_cast<nocter_keyed*>(made);
  return made != nullptr ? NOCTER_OK : fail(NOCTER_E_MEMORY, __func__, "out of memory");
}

nocter_status nocter_keyed_notify(nocter_keyed* keyed, nocter_text key) {
  if (const nocter_status status = check_call(keyed, __func__); status != NOCTER_OK) return status;
  if (const nocter_status status = check_key(core(keyed), key, __func__); status != NOCTER_OK) return status;
  return capi::to_c(core(keyed)->notify(key.data, key.size));
}

nocter_status nocter_keyed_notify_after(nocter_keyed* keyed, nocter_text key, int64_t delay_ns) {
  if (const nocter_status status = check_call(keyed, __func__); status != NOCTER_OK) return status;
  if (const nocter_status status = check_key(core(keyed), key, __func__); status != NOCTER_OK) return status;
  if (delay_ns < 0) return fail_argument(__func__, "delay_ns", "is negative");
  return capi::to_c(core(keyed)->notify_after(key.data, key.size, delay_ns));
}

nocter_status nocter_keyed_notify_many(nocter_keyed* keyed, const nocter_text* keys, size_t count,
                                       nocter_status* out_each) {
  for (size_t i = 0; out_each != nullptr && i < count; i++) out_each[i] = NOCTER_OK;
  if (const nocter_status status = check_call(keyed, __func__); status != NOCTER_OK) return status;
  if (keys == nullptr && count != 0) return fail_null(__func__, "keys");
  for (size_t i = 0; i < count; i++) {
    if (const nocter_status status = check_key(core(keyed), keys[i], __func__); status != NOCTER_OK) return status;
  }
  nocter_status worst = NOCTER_OK;
  for (size_t first = 0; first < count; first += Service::kBatch) {
    const size_t size = count - first < Service::kBatch ? count - first : Service::kBatch;
    Service::Text texts[Service::kBatch];
    Status each[Service::kBatch];
    for (size_t i = 0; i < size; i++) texts[i] = {keys[first + i].data, keys[first + i].size};
    core(keyed)->notify_batch(texts, size, each);
    for (size_t i = 0; i < size; i++) {
      if (out_each != nullptr) out_each[first + i] = capi::to_c(each[i]);
      if (each[i] == Status::closed || (each[i] == Status::saturated && worst == NOCTER_OK))
        worst = capi::to_c(each[i]);
    }
  }
  return worst;
}

nocter_status nocter_keyed_claim(nocter_keyed* keyed, const nocter_wait* wait, nocter_pass** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  if (const nocter_status status = check_call(keyed, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  Pass* pass = nullptr;
  const Status status = core(keyed)->claim(limits.pointer(), pass);
  if (status == Status::ok) *out = reinterpret_cast<nocter_pass*>(pass);
  return explain(status, __func__);
}

nocter_text nocter_pass_key(const nocter_pass* pass) {
  const Pass* found = running(pass, __func__);
  if (found == nullptr) return {nullptr, 0};
  const Service::Text key = found->service.key_of(*found);
  return {key.data, key.size};
}

uint32_t nocter_pass_failures(const nocter_pass* pass) {
  const Pass* found = running(pass, __func__);
  return found != nullptr ? found->failures : 0;
}

bool nocter_pass_interrupted(const nocter_pass* pass) {
  const Pass* found = running(pass, __func__);
  return found != nullptr && found->interrupt.interrupt.raised();
}

nocter_interrupt* nocter_pass_interrupt(nocter_pass* pass) {
  Pass* found = running(pass, __func__);
  return found != nullptr ? reinterpret_cast<nocter_interrupt*>(&found->interrupt) : nullptr;
}

nocter_status nocter_pass_complete(nocter_pass* pass) { return end_pass(pass, KeyEvent::complete, 0, __func__); }

nocter_status nocter_pass_fail(nocter_pass* pass) { return end_pass(pass, KeyEvent::fail, 0, __func__); }

nocter_status nocter_pass_retry_after(nocter_pass* pass, int64_t delay_ns) {
  return end_pass(pass, KeyEvent::retry, delay_ns, __func__);
}

void nocter_pass_drop(nocter_pass* pass) {
  Pass* found = running(pass, __func__);
  if (found != nullptr && end_tag(*found)) Service::end(*found, KeyEvent::fail, 0);
}

nocter_status nocter_keyed_resync(nocter_keyed* keyed, const nocter_keyed_source* source, int64_t interval_ns,
                                  uint32_t slice) {
  if (const nocter_status status = check_call(keyed, __func__); status != NOCTER_OK) return status;
  if (source == nullptr) return explain(core(keyed)->resync(nullptr, 0, 0), __func__);
  if (source->next == nullptr) return fail_null(__func__, "source->next");
  if (interval_ns < 1) return fail_argument(__func__, "interval_ns", "is less than 1");
  if (slice == 0) return fail_argument(__func__, "slice", "is 0");
  const keyed::Source read{ask_source, reinterpret_cast<void (*)()>(source->next), source->drop, source->user};
  return explain(core(keyed)->resync(&read, interval_ns, slice), __func__);
}

nocter_status nocter_keyed_next_due(const nocter_keyed* keyed, int64_t* out_due_ns) {
  if (out_due_ns == nullptr) return fail_null(__func__, "out_due_ns");
  *out_due_ns = 0;
  if (const nocter_status status = check(core(keyed), kKind, __func__); status != NOCTER_OK) return status;
  int64_t due;
  const Status status = core(keyed)->next_due(due);
  if (status == Status::ok) *out_due_ns = due;
  return explain(status, __func__);
}

void nocter_keyed_close(nocter_keyed* keyed, nocter_close_mode mode) {
  if (!usable(core(keyed), kKind, __func__)) return;
  core(keyed)->close(mode == NOCTER_CLOSE_DRAIN ? Closing::drain : Closing::discard);
}

nocter_status nocter_keyed_drained(nocter_keyed* keyed, const nocter_wait* wait) {
  if (const nocter_status status = check_call(keyed, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  return explain(core(keyed)->drained(limits.pointer()), __func__);
}

nocter_status nocter_keyed_count(const nocter_keyed* keyed, nocter_keyed_counts* out) {
  if (const nocter_status status = check(core(keyed), kKind, __func__); status != NOCTER_OK) return status;
  if (out == nullptr) return fail_null(__func__, "out");
  static constexpr auto kEnds =
      ends_of_counts<sizeof(nocter_keyed_counts), offsetof(nocter_keyed_counts, accepted_new)>();
  const nocter_status status = check_size(out, sizeof(nocter_keyed_counts), kEnds.at, kEnds.count, __func__, "out");
  if (status != NOCTER_OK) return status;
  const keyed::Counts c = core(keyed)->count();
  const nocter_keyed_counts counts = {
      .size = out->size,
      .accepting = c.accepting ? 1U : 0U,
      .waiting = c.waiting,
      .delayed = c.delayed,
      .active = c.active,
      .dirty = c.dirty,
      .retained = c.retained,
      .maximum_keys = c.maximum_keys,
      .workers = c.workers,
      .reserved = 0,
      .accepted_new = c.accepted_new,
      .coalesced = c.coalesced,
      .marked_dirty = c.marked_dirty,
      .rejected_full = c.rejected_full,
      .rejected_closed = c.rejected_closed,
      .started = c.started,
      .completed = c.completed,
      .failed = c.failed,
      .requeued = c.requeued,
      .retried = c.retried,
      .discarded_waiting = c.discarded_waiting,
      .discarded_dirty = c.discarded_dirty,
      .resync_keys = c.resync_keys,
      .resync_rounds = c.resync_rounds,
      .resync_failures = c.resync_failures,
      .exceptions = c.exceptions,
      .oldest_waiting_ns = c.oldest_waiting_ns,
      .longest_active_ns = c.longest_active_ns,
  };
  write_sized(out, counts, out->size);
  return NOCTER_OK;
}

void nocter_keyed_destroy(nocter_keyed* keyed) {
  if (usable(core(keyed), kKind, __func__) && core(keyed)->header.tag.end(kKind)) core(keyed)->destroy();
}

nocter_status nocter_keyed_serve(nocter_keyed* keyed, nocter_keyed_fn run, void* user,
                                 const nocter_workers_options* options, nocter_workers** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  if (const nocter_status status = check_call(keyed, __func__); status != NOCTER_OK) return status;
  if (run == nullptr) return fail_null(__func__, "run");
  base::ThreadOptions threads;
  if (const nocter_status status = read_workers_options(options, threads, __func__); status != NOCTER_OK) return status;
  if (core(keyed)->discards()) return NOCTER_CLOSED;
  base::Workers* workers = nullptr;
  const Service::Run served{run_served, reinterpret_cast<void (*)()>(run), user};
  const base::Workers::Started started = core(keyed)->serve(served, threads, workers);
  *out = reinterpret_cast<nocter_workers*>(workers);
  return explain_start(started, __func__);
}
