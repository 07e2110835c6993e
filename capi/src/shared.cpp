#include "nocter/shared.h"

#include "tasks.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

using tasks::Answer;
using tasks::Engine;

constexpr base::Kind kLock = base::Kind::lock;

struct LockHandle {
  LockHandle(std::shared_ptr<Engine> e, std::string n) : engine(std::move(e)), name(std::move(n)) {}
  base::Header header{kLock};
  std::shared_ptr<Engine> engine;
  std::string name;
  uint64_t token = 0, fence = 0;
};

LockHandle* core(nocter_lock* handle) { return reinterpret_cast<LockHandle*>(handle); }
const LockHandle* core(const nocter_lock* handle) { return reinterpret_cast<const LockHandle*>(handle); }

static_assert(NOCTER_EVENT_SUBMITTED == static_cast<int>(tasks::Event::Kind::submitted) &&
              NOCTER_EVENT_STARTED == static_cast<int>(tasks::Event::Kind::started) &&
              NOCTER_EVENT_STATE == static_cast<int>(tasks::Event::Kind::state) &&
              NOCTER_EVENT_SUSPENDED == static_cast<int>(tasks::Event::Kind::suspended) &&
              NOCTER_EVENT_WOKEN == static_cast<int>(tasks::Event::Kind::woken) &&
              NOCTER_EVENT_MESSAGE == static_cast<int>(tasks::Event::Kind::message) &&
              NOCTER_EVENT_RETRIED == static_cast<int>(tasks::Event::Kind::retried) &&
              NOCTER_EVENT_RESCUED == static_cast<int>(tasks::Event::Kind::rescued) &&
              NOCTER_EVENT_HANDED_BACK == static_cast<int>(tasks::Event::Kind::handed_back) &&
              NOCTER_EVENT_CANCEL_REQUESTED == static_cast<int>(tasks::Event::Kind::cancel_requested) &&
              NOCTER_EVENT_ENDED == static_cast<int>(tasks::Event::Kind::ended));

struct HandedValues {
  std::vector<std::pair<std::string, std::string>> values;
  std::vector<nocter_shared_value> c;
};
struct HandedEvents {
  std::vector<tasks::Event> events;
  std::vector<nocter_event> c;
  std::vector<const nocter_event*> pointers;
};

nocter_status put_shared(nocter_tasks* tasks, const nocter_text& scope, const nocter_text& key,
                         const nocter_text& value, bool if_absent, nocter_value** out_existing, const char* function) {
  return inside(tasks, function, [&](Engine& engine) {
    tasks::SharedPut put;
    nocter_status status = read_name(scope, "scope", function, put.scope);
    if (status == NOCTER_OK) status = read_name(key, "key", function, put.key);
    if (status == NOCTER_OK) {
      status = read_json(value, engine.limits().json, "maximum_json", engine.limits(), "value", function, put.value);
    }
    if (status != NOCTER_OK) return status;
    put.if_absent = if_absent;
    const Answer answer = engine.ask(put);
    if (answer.status == Status::exists && out_existing != nullptr) *out_existing = make_value(std::move(put.existing));
    return explain(answer, function);
  });
}

nocter_status read_lease(int64_t lease_ms, const char* function) {
  if (lease_ms >= 1 && lease_ms <= kLastMs) return NOCTER_OK;
  return fail_argument(function, "lease_ms", "is less than 1, or longer than people live");
}

}  // namespace

// ---- Shared values --------------------------------------------------------------------------------------------------

void nocter_value_list_free(nocter_value_list* list) {
  if (list == nullptr) return;
  delete static_cast<HandedValues*>(list->memory);
  *list = {};
}

nocter_status nocter_shared_put_if_absent(nocter_tasks* tasks, nocter_text scope, nocter_text key, nocter_text value,
                                          nocter_value** out_existing) {
  if (out_existing != nullptr) *out_existing = nullptr;
  return put_shared(tasks, scope, key, value, true, out_existing, __func__);
}

nocter_status nocter_shared_put(nocter_tasks* tasks, nocter_text scope, nocter_text key, nocter_text value) {
  return put_shared(tasks, scope, key, value, false, nullptr, __func__);
}

nocter_status nocter_shared_get(nocter_tasks* tasks, nocter_text scope, nocter_text key, nocter_value** out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = nullptr;
  return inside(tasks, function, [&](Engine& engine) {
    std::string in, name, value;
    nocter_status status = read_name(scope, "scope", function, in);
    if (status == NOCTER_OK) status = read_name(key, "key", function, name);
    if (status != NOCTER_OK) return status;
    const Answer answer = engine.look([&](tasks::Store& store) { return store.shared(in, name, value); });
    if (answer.status == Status::ok) *out = make_value(std::move(value));
    return explain(answer, function);
  });
}

nocter_status nocter_shared_all(nocter_tasks* tasks, nocter_text scope, nocter_value_list* out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = {};
  return inside(tasks, function, [&](Engine& engine) {
    std::string in;
    if (const nocter_status status = read_name(scope, "scope", function, in); status != NOCTER_OK) return status;
    auto made = std::make_unique<HandedValues>();
    const Answer answer = engine.look([&](tasks::Store& store) { return store.shared_all(in, made->values); });
    if (answer.status < Status::ok || answer.status == Status::closed) return explain(answer, function);
    made->c.reserve(made->values.size());
    for (const auto& [key, value] : made->values) made->c.push_back({c_text(key), c_text(value)});
    out->values = made->c.data();
    out->count = made->c.size();
    out->memory = made.release();
    return static_cast<nocter_status>(NOCTER_OK);
  });
}

nocter_status nocter_shared_clear(nocter_tasks* tasks, nocter_text scope) {
  const char* const function = __func__;
  return inside(tasks, function, [&](Engine& engine) {
    tasks::SharedClear clear;
    const nocter_status status = read_name(scope, "scope", function, clear.scope);
    return status != NOCTER_OK ? status : explain(engine.ask(clear), function);
  });
}

// ---- Locks ----------------------------------------------------------------------------------------------------------

nocter_status nocter_lock_acquire(nocter_tasks* tasks, nocter_text name, int64_t lease_ms, const nocter_wait* wait,
                                  nocter_lock** out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = nullptr;
  return inside(tasks, function, [&](Engine& engine) {
    tasks::LockAcquire acquire;
    nocter_status status = read_name(name, "name", function, acquire.name);
    if (status == NOCTER_OK) status = read_lease(lease_ms, function);
    WaitArgument limits;
    if (status == NOCTER_OK) status = limits.read(wait, function);
    if (status != NOCTER_OK) return status;
    acquire.lease_ms = lease_ms;
    if (!base::random_bytes(&acquire.token, sizeof acquire.token)) {
      return fail(NOCTER_E_UNAVAILABLE, function, "the system has no random bytes");
    }
    acquire.token |= 1;  // never zero
    // Made before, so that nothing can fail once the lock is held.
    auto* const made = base::make_handle<LockHandle, kLock>(engine.shared_from_this(), std::string(acquire.name));
    if (made == nullptr) return fail(NOCTER_E_MEMORY, function, "out of memory");
    struct Unused {
      LockHandle* lock;
      ~Unused() {
        if (lock == nullptr) return;
        lock->header.tag.disarm();
        base::end_handle<kLock>(lock);
      }
    } unused{made};
    const Answer answer = engine.acquire(acquire, limits.pointer());
    if (answer.status != Status::ok) return explain(answer, function);
    unused.lock = nullptr;
    made->token = acquire.token;
    made->fence = acquire.fence;
    *out = reinterpret_cast<nocter_lock*>(made);
    return static_cast<nocter_status>(NOCTER_OK);
  });
}

uint64_t nocter_lock_fence(const nocter_lock* lock) {
  return usable(core(lock), kLock, __func__) ? core(lock)->fence : 0;
}

nocter_status nocter_lock_renew(nocter_lock* lock, int64_t lease_ms) {
  const char* const function = __func__;
  if (const nocter_status status = check(core(lock), kLock, function); status != NOCTER_OK) return status;
  if (const nocter_status status = read_lease(lease_ms, function); status != NOCTER_OK) return status;
  return guarded(function, [&] {
    tasks::LockRenew renew;
    renew.name = core(lock)->name;
    renew.token = core(lock)->token;
    renew.lease_ms = lease_ms;
    return explain(core(lock)->engine->ask(renew), function);
  });
}

nocter_status nocter_lock_release(nocter_lock* lock) {
  const char* const function = __func__;
  if (lock == nullptr) return NOCTER_OK;
  if (const nocter_status status = check(core(lock), kLock, function); status != NOCTER_OK) return status;
  if (!core(lock)->header.tag.end(kLock)) return fail_handle(function, kLock, lock);
  const nocter_status status = guarded(function, [&] {
    tasks::LockRelease release;
    release.name.swap(core(lock)->name);
    release.token = core(lock)->token;
    return explain(core(lock)->engine->ask(release), function);
  });
  base::end_handle<kLock>(core(lock));
  return status;
}

// ---- Events ---------------------------------------------------------------------------------------------------------

void nocter_event_list_free(nocter_event_list* list) {
  if (list == nullptr) return;
  delete static_cast<HandedEvents*>(list->memory);
  *list = {};
}

nocter_status nocter_events_read(nocter_tasks* tasks, uint64_t after, size_t max, const nocter_wait* wait,
                                 nocter_event_list* out) {
  constexpr size_t kMost = 10'000;
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = {};
  return inside(tasks, function, [&](Engine& engine) {
    if (max == 0 || max > kMost) return fail_argument(function, "max", "is not between 1 and 10000");
    if (after > INT64_MAX) return fail_argument(function, "after", "is no sequence");
    WaitArgument limits;
    if (const nocter_status status = limits.read(wait, function); status != NOCTER_OK) return status;
    auto made = std::make_unique<HandedEvents>();
    const Answer answer = engine.events(after, max, limits.pointer(), made->events);
    if (answer.status != Status::ok) return explain(answer, function);
    made->c.reserve(made->events.size());
    made->pointers.reserve(made->events.size());
    for (const tasks::Event& event : made->events) {
      made->c.push_back({event.sequence, event.at, c_id(event.task), static_cast<nocter_event_kind>(event.kind),
                         static_cast<nocter_task_status>(event.status), event.attempt, 0, c_text(event.type),
                         c_text(event.data)});
      made->pointers.push_back(&made->c.back());
    }
    out->events = made->pointers.data();
    out->count = made->pointers.size();
    out->memory = made.release();
    return static_cast<nocter_status>(NOCTER_OK);
  });
}
