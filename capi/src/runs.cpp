#include "nocter/runs.h"

#include <algorithm>

#include "tasks.hpp"
#include "workers.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

using tasks::Answer;
using tasks::Engine;
using tasks::Run;
using tasks::Settle;

constexpr base::Kind kKind = base::Kind::run;
constexpr uint32_t kMostRuns = 1'000;
constexpr size_t kMostTypes = 1'000;
constexpr uint32_t kMostThreads = 1'024;
constexpr int64_t kLongestDelay = kLastMs;

static_assert(NOCTER_REASON_NONE == static_cast<int>(tasks::Reason::none) &&
              NOCTER_REASON_CANCEL == static_cast<int>(tasks::Reason::cancel) &&
              NOCTER_REASON_LEASE_LOST == static_cast<int>(tasks::Reason::lease_lost) &&
              NOCTER_REASON_STOP == static_cast<int>(tasks::Reason::stop));
static_assert(NOCTER_RETRY_BY_POLICY == static_cast<int>(tasks::Retry::by_policy) &&
              NOCTER_RETRY_NEVER == static_cast<int>(tasks::Retry::never) &&
              NOCTER_RETRY_AFTER == static_cast<int>(tasks::Retry::after));
static_assert(sizeof(nocter_task) <= Run::kBoundarySize && alignof(nocter_task) <= 8);

Run* core(nocter_run* handle) { return reinterpret_cast<Run*>(handle); }
const Run* core(const nocter_run* handle) { return reinterpret_cast<const Run*>(handle); }

// A call of a run: call(run), with nothing thrown.
template <class Call>
nocter_status of_run(nocter_run* handle, const char* function, Call&& call) {
  if (const nocter_status status = check(core(handle), kKind, function); status != NOCTER_OK) return status;
  return guarded(function, [&] { return std::forward<Call>(call)(*core(handle)); });
}

nocter_status end_run(Run& run, Settle& settle, const char* function) {
  Answer answer = run.settle(settle);
  if (Run::ends(answer.status)) {
    if (!run.header.tag.end(kKind)) return fail_handle(function, kKind, &run);
    run.finish();
  }
  return explain(answer, function);
}

nocter_status read_value(const Run& run, const nocter_text& text, const char* parameter, const char* function,
                         std::string& out) {
  const tasks::Limits& limits = run.engine().limits();
  return read_json(text, limits.json, "maximum_json", limits, parameter, function, out);
}

// ---- Failures and suspensions ---------------------------------------------------------------------------------------

constexpr nocter_failure kNoFailure = NOCTER_FAILURE_INIT;
constexpr uint32_t kFailureEnds[] = {
    NOCTER_FIELD_END(nocter_failure, size),   NOCTER_FIELD_END(nocter_failure, retry),
    NOCTER_FIELD_END(nocter_failure, kind),   NOCTER_FIELD_END(nocter_failure, message),
    NOCTER_FIELD_END(nocter_failure, detail), NOCTER_FIELD_END(nocter_failure, retry_after_ms)};

// As much of it as may be kept, up to the end of a character.
nocter_status read_prose(const nocter_text& text, size_t most, const char* parameter, const char* function,
                         std::string& out) {
  std::string_view bytes;
  if (const nocter_status status = read_bytes(text, parameter, function, bytes); status != NOCTER_OK) return status;
  bytes = tasks::beginning(bytes, most);
  if (!is_utf8(bytes, true)) return fail_argument(function, parameter, "is not UTF-8");
  out = bytes;
  return NOCTER_OK;
}

nocter_status read_failure(const nocter_failure* from, const tasks::Limits& limits, const char* function, Settle& to) {
  if (from == nullptr) return fail_null(function, "failure");
  nocter_failure read = kNoFailure;
  nocter_status status = read_sized(read, from, kFailureEnds, function, "failure");
  if (status == NOCTER_OK) status = read_name(read.kind, "failure->kind", function, to.failure.kind);
  if (status == NOCTER_OK) {
    status = read_prose(read.message, limits.failure_text, "failure->message", function, to.failure.message);
  }
  if (status == NOCTER_OK) {
    status = read_prose(read.detail, limits.failure_text, "failure->detail", function, to.failure.detail);
  }
  if (status != NOCTER_OK) return status;
  if (read.retry < NOCTER_RETRY_BY_POLICY || read.retry > NOCTER_RETRY_AFTER) {
    return fail_argument(function, "failure->retry", "is no enum nocter_retry_code");
  }
  if (read.retry_after_ms < 0 || read.retry_after_ms > kLongestDelay) {
    return fail_argument(function, "failure->retry_after_ms", "is negative or too long");
  }
  to.outcome = tasks::Outcome::fail;
  to.retry = static_cast<tasks::Retry>(read.retry);
  to.retry_after_ms = read.retry_after_ms;
  return NOCTER_OK;
}

constexpr nocter_suspension kNoSuspension = NOCTER_SUSPENSION_INIT;
// NOLINTBEGIN(bugprone-sizeof-expression): a member that is a pointer to structs is meant
constexpr uint32_t kSuspensionEnds[] = {
    NOCTER_FIELD_END(nocter_suspension, size),      NOCTER_FIELD_END(nocter_suspension, until),
    NOCTER_FIELD_END(nocter_suspension, ids),       NOCTER_FIELD_END(nocter_suspension, count),
    NOCTER_FIELD_END(nocter_suspension, need),      NOCTER_FIELD_END(nocter_suspension, flags),
    NOCTER_FIELD_END(nocter_suspension, wake_at_ms)};
// NOLINTEND(bugprone-sizeof-expression)

nocter_status read_suspension(const nocter_suspension* from, const tasks::Limits& limits, const char* function,
                              Settle& to) {
  if (from == nullptr) return fail_null(function, "suspension");
  nocter_suspension read = kNoSuspension;
  nocter_status status = read_sized(read, from, kSuspensionEnds, function, "suspension");
  if (status == NOCTER_OK) status = read_time(read.wake_at_ms, "suspension->wake_at_ms", function);
  if (status != NOCTER_OK) return status;
  if (read.until < NOCTER_UNTIL_TASKS || read.until > NOCTER_UNTIL_NOTIFIED) {
    return fail_argument(function, "suspension->until", "is none of TASKS, CHILDREN, NOTIFIED");
  }
  if ((read.flags & ~static_cast<uint32_t>(NOCTER_WAKE_ON_FAILURE)) != 0) {
    return fail_argument(function, "suspension->flags", "has an unknown flag");
  }
  if (read.count != 0 && read.ids == nullptr) return fail_null(function, "suspension->ids");
  if (read.count != 0 && read.until != NOCTER_UNTIL_TASKS) {
    return fail_argument(function, "suspension->count", "is not 0, and it does not wait for tasks that it names");
  }
  if (read.count > static_cast<uint64_t>(limits.children)) {
    return fail(NOCTER_E_LIMIT, function, "suspension->count is more than maximum_children");
  }
  to.outcome = tasks::Outcome::suspend;
  to.suspension.until = static_cast<tasks::Until>(read.until);
  to.suspension.ids.reserve(read.count);
  for (size_t i = 0; i < read.count; i++) to.suspension.ids.push_back(core_id(read.ids[i]));
  to.suspension.need = read.need;
  to.suspension.wake_on_failure = (read.flags & NOCTER_WAKE_ON_FAILURE) != 0;
  to.suspension.wake_at = read.wake_at_ms;
  return NOCTER_OK;
}

void call_handler(const Engine::Handler& handler, Run& run) {
  reinterpret_cast<nocter_task_fn>(handler.function)(handler.user, reinterpret_cast<nocter_run*>(&run));
}

constexpr uint32_t kHandlerEnds[] = {
    NOCTER_FIELD_END(nocter_task_handler, size), NOCTER_FIELD_END(nocter_task_handler, reserved),
    NOCTER_FIELD_END(nocter_task_handler, type), NOCTER_FIELD_END(nocter_task_handler, run),
    NOCTER_FIELD_END(nocter_task_handler, user)};

nocter_status read_handlers(const nocter_task_handler* from, size_t count, const char* function,
                            std::vector<Engine::Handler>& out) {
  if (from == nullptr) return fail_null(function, "handlers");
  if (count == 0 || count > kMostTypes) return fail_argument(function, "count", "is not between 1 and 1000");
  const uint32_t step = from->size;
  out.reserve(count);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = 0; i < count; i++) {
    const auto* const at = reinterpret_cast<const nocter_task_handler*>(bytes + i * step);
    if (at->size != step) return fail_argument(function, "handlers", "have different size members");
    nocter_task_handler read = {};
    nocter_status status = read_sized(read, at, kHandlerEnds, function, "handlers");
    Engine::Handler& handler = out.emplace_back();
    if (status == NOCTER_OK) status = read_name(read.type, "handler.type", function, handler.type);
    if (status != NOCTER_OK) return status;
    if (read.reserved != 0) return fail_argument(function, "handler.reserved", "is not 0");
    if (read.run == nullptr) return fail_null(function, "handler.run");
    handler.call = call_handler;
    handler.function = reinterpret_cast<void (*)()>(read.run);
    handler.user = read.user;
  }
  std::vector<std::string_view> types;
  types.reserve(out.size());
  for (const Engine::Handler& handler : out) types.emplace_back(handler.type);
  std::sort(types.begin(), types.end());
  if (std::adjacent_find(types.begin(), types.end()) != types.end()) {
    return fail_argument(function, "handlers", "have a type twice");
  }
  return NOCTER_OK;
}

}  // namespace

// ---- Claiming -------------------------------------------------------------------------------------------------------

nocter_status nocter_tasks_claim(nocter_tasks* tasks, const nocter_text* types, size_t type_count, uint32_t max,
                                 const nocter_wait* wait, nocter_run** out, size_t* out_count) {
  const char* const function = __func__;
  if (out_count != nullptr) *out_count = 0;
  if (out == nullptr) return fail_null(function, "out");
  if (max == 0 || max > kMostRuns) {
    *out = nullptr;
    return fail_argument(function, "max", "is not between 1 and 1000");
  }
  std::fill_n(out, max, nullptr);
  if (out_count == nullptr) return fail_null(function, "out_count");
  return inside(tasks, function, [&](Engine& engine) {
    if (types == nullptr && type_count != 0) return fail_null(function, "types");
    if (type_count > kMostTypes) return fail_argument(function, "type_count", "is more than 1000");
    WaitArgument limits;
    if (const nocter_status status = limits.read(wait, function); status != NOCTER_OK) return status;
    Engine::Types wanted(type_count);
    for (size_t i = 0; i < type_count; i++) {
      if (const nocter_status status = read_name(types[i], "types", function, wanted[i]); status != NOCTER_OK) {
        return status;
      }
    }
    std::vector<Run*> runs(max);
    const Answer answer = engine.claim(wanted, max, limits.pointer(), runs.data(), *out_count);
    for (size_t i = 0; i < *out_count; i++) out[i] = reinterpret_cast<nocter_run*>(runs[i]);
    return explain(answer, function);
  });
}

// ---- What a run was given -------------------------------------------------------------------------------------------

const nocter_task* nocter_run_task(const nocter_run* run) {
  if (!usable(core(run), kKind, __func__)) return nullptr;
  Run::ForBoundary& room = const_cast<Run*>(core(run))->boundary;
  auto* const task = reinterpret_cast<nocter_task*>(room.room);
  if (!room.made) {
    new (room.room) nocter_task;
    write_task(core(run)->record(), *task);
    room.made = true;
  }
  return task;
}

bool nocter_run_resumed(const nocter_run* run) {
  return usable(core(run), kKind, __func__) && core(run)->record().row.resumed;
}

nocter_wake nocter_run_woken_by(const nocter_run* run) {
  return usable(core(run), kKind, __func__) ? static_cast<nocter_wake>(core(run)->record().row.woken_by) : 0;
}

nocter_status nocter_run_notifications(const nocter_run* run, const nocter_notification** out, size_t* out_count) {
  if (out != nullptr) *out = nullptr;
  if (out_count != nullptr) *out_count = 0;
  if (const nocter_status status = check(core(run), kKind, __func__); status != NOCTER_OK) return status;
  if (out == nullptr) return fail_null(__func__, "out");
  if (out_count == nullptr) return fail_null(__func__, "out_count");
  const std::vector<tasks::Message>& messages = core(run)->messages();
  if (messages.empty()) return NOCTER_OK;
  std::unique_ptr<std::byte[]>& room = const_cast<Run*>(core(run))->boundary.messages;
  if (room == nullptr) {
    room.reset(new (std::nothrow) std::byte[messages.size() * sizeof(nocter_notification)]);
    if (room == nullptr) return fail(NOCTER_E_MEMORY, __func__, "out of memory");
    for (size_t i = 0; i < messages.size(); i++) {
      const tasks::Message& message = messages[i];
      new (room.get() + i * sizeof(nocter_notification))
          nocter_notification{c_id(message.from), c_text(message.payload), message.at, message.deliveries, 0};
    }
  }
  *out = reinterpret_cast<const nocter_notification*>(room.get());
  *out_count = messages.size();
  return NOCTER_OK;
}

uint64_t nocter_run_fence(const nocter_run* run) {
  return usable(core(run), kKind, __func__) ? core(run)->claimed().fence : 0;
}

bool nocter_run_cancel_requested(const nocter_run* run) {
  return usable(core(run), kKind, __func__) && core(run)->cancel_requested();
}

nocter_interrupt* nocter_run_interrupt(nocter_run* run) {
  if (!usable(core(run), kKind, __func__)) return nullptr;
  return reinterpret_cast<nocter_interrupt*>(&core(run)->interrupt());
}

int32_t nocter_run_interrupt_reason(const nocter_run* run) {
  return usable(core(run), kKind, __func__) ? static_cast<int32_t>(core(run)->reason()) : NOCTER_REASON_NONE;
}

// ---- During a round -------------------------------------------------------------------------------------------------

nocter_status nocter_run_update_state(nocter_run* run, nocter_text state) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) {
    std::string json;
    const nocter_status status = read_value(of, state, "state", function, json);
    return status != NOCTER_OK ? status : explain(of.update_state(std::move(json)), function);
  });
}

nocter_status nocter_run_heartbeat(nocter_run* run) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) { return explain(of.heartbeat(), function); });
}

nocter_status nocter_run_children(nocter_run* run, nocter_task_list* out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = {};
  return of_run(run, function, [&](Run& of) {
    std::vector<tasks::Record> records;
    const Answer answer = of.children(records);
    if (answer.status == Status::ok) make_task_list(std::move(records), *out);
    return explain(answer, function);
  });
}

nocter_status nocter_run_submit_child(nocter_run* run, const nocter_submission* submissions, size_t count,
                                      nocter_task_id* out_ids) {
  constexpr size_t kMost = 100'000;
  const char* const function = __func__;
  if (count <= kMost) write_ids({}, out_ids, count);
  return of_run(run, function, [&](Run& of) {
    std::vector<tasks::Submission> children;
    const nocter_status status = read_submissions(submissions, count, of.engine().limits(), function, children);
    if (status != NOCTER_OK) return status;
    for (const tasks::Submission& child : children) {
      if (child.parent.none() || child.parent == of.claimed().id) continue;
      return fail_argument(function, "submission.parent", "is another task than the one that submits");
    }
    std::vector<tasks::TaskId> ids;
    const Answer answer = of.submit(std::move(children), ids);
    if (answer.status == Status::ok || answer.status == Status::exists) write_ids(ids, out_ids, count);
    return explain(answer, function);
  });
}

namespace {

nocter_status notify_from(Run& run, const tasks::TaskId& to, const nocter_text& payload, const char* function) {
  const tasks::Limits& limits = run.engine().limits();
  std::string json;
  const nocter_status status = read_json(payload, limits.message, "maximum_message", limits, "payload", function, json);
  return status != NOCTER_OK ? status : explain(run.notify(to, std::move(json)), function);
}

}  // namespace

nocter_status nocter_run_notify(nocter_run* run, nocter_task_id to, nocter_text payload) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) { return notify_from(of, core_id(to), payload, function); });
}

nocter_status nocter_run_notify_parent(nocter_run* run, nocter_text payload) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) {
    if (of.record().parent.none()) return fail(NOCTER_E_STATE, function, "the task has no parent");
    return notify_from(of, of.record().parent, payload, function);
  });
}

nocter_status nocter_run_step_get(nocter_run* run, nocter_text name, nocter_text* out_value) {
  const char* const function = __func__;
  if (out_value == nullptr) return fail_null(function, "out_value");
  *out_value = {nullptr, 0};
  return of_run(run, function, [&](Run& of) {
    std::string step;
    const nocter_status status = read_name(name, "name", function, step);
    if (status != NOCTER_OK) return status;
    std::string_view value;
    const Answer answer = of.step_get(step, value);
    if (answer.status == Status::ok) *out_value = c_text(value);
    return explain(answer, function);
  });
}

nocter_status nocter_run_step_put(nocter_run* run, nocter_text name, nocter_text value) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) {
    std::string step, json;
    nocter_status status = read_name(name, "name", function, step);
    if (status == NOCTER_OK) status = read_value(of, value, "value", function, json);
    return status != NOCTER_OK ? status : explain(of.step_put(std::move(step), std::move(json)), function);
  });
}

namespace {

nocter_status put_shared(nocter_run* run, const nocter_text& key, const nocter_text& value, bool if_absent,
                         nocter_value** out_existing, const char* function) {
  return of_run(run, function, [&](Run& of) {
    std::string name, json, existing;
    nocter_status status = read_name(key, "key", function, name);
    if (status == NOCTER_OK) status = read_value(of, value, "value", function, json);
    if (status != NOCTER_OK) return status;
    const Answer answer = of.shared_put(std::move(name), std::move(json), if_absent, existing);
    if (answer.status == Status::exists && out_existing != nullptr) *out_existing = make_value(std::move(existing));
    return explain(answer, function);
  });
}

}  // namespace

nocter_status nocter_run_shared_put(nocter_run* run, nocter_text key, nocter_text value) {
  return put_shared(run, key, value, false, nullptr, __func__);
}

nocter_status nocter_run_shared_put_if_absent(nocter_run* run, nocter_text key, nocter_text value,
                                              nocter_value** out_existing) {
  if (out_existing != nullptr) *out_existing = nullptr;
  return put_shared(run, key, value, true, out_existing, __func__);
}

nocter_status nocter_run_shared_get(nocter_run* run, nocter_text key, nocter_value** out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = nullptr;
  return of_run(run, function, [&](Run& of) {
    std::string name, value;
    const nocter_status status = read_name(key, "key", function, name);
    if (status != NOCTER_OK) return status;
    const Answer answer = of.shared_get(name, value);
    if (answer.status == Status::ok) *out = make_value(std::move(value));
    return explain(answer, function);
  });
}

nocter_status nocter_run_atomic(nocter_run* run) {
  if (const nocter_status status = check(core(run), kKind, __func__); status != NOCTER_OK) return status;
  core(run)->make_atomic();
  return NOCTER_OK;
}

// ---- Outcomes -------------------------------------------------------------------------------------------------------

void nocter_failure_init(nocter_failure* failure, size_t size) { init_sized(failure, kNoFailure, size); }
void nocter_suspension_init(nocter_suspension* suspension, size_t size) { init_sized(suspension, kNoSuspension, size); }

nocter_status nocter_run_done(nocter_run* run, nocter_text result) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) {
    Settle settle;
    const nocter_status status = read_value(of, result, "result", function, settle.result);
    return status != NOCTER_OK ? status : end_run(of, settle, function);
  });
}

nocter_status nocter_run_fail(nocter_run* run, const nocter_failure* failure) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) {
    Settle settle;
    const nocter_status status = read_failure(failure, of.engine().limits(), function, settle);
    return status != NOCTER_OK ? status : end_run(of, settle, function);
  });
}

nocter_status nocter_run_suspend(nocter_run* run, const nocter_suspension* suspension) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) {
    Settle settle;
    const nocter_status status = read_suspension(suspension, of.engine().limits(), function, settle);
    return status != NOCTER_OK ? status : end_run(of, settle, function);
  });
}

nocter_status nocter_run_hand_back(nocter_run* run) {
  const char* const function = __func__;
  return of_run(run, function, [&](Run& of) {
    Settle settle;
    settle.outcome = tasks::Outcome::hand_back;
    return end_run(of, settle, function);
  });
}

void nocter_run_drop(nocter_run* run) {
  if (!usable(core(run), kKind, __func__) || !core(run)->header.tag.end(kKind)) return;
  core(run)->drop("WorkerLost", "its worker gave it up without an outcome");
}

// ---- Serving --------------------------------------------------------------------------------------------------------

nocter_status nocter_tasks_serve(nocter_tasks* tasks, const nocter_task_handler* handlers, size_t count,
                                 uint32_t concurrency, const nocter_workers_options* options, nocter_workers** out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = nullptr;
  return inside(tasks, function, [&](Engine& engine) {
    std::vector<Engine::Handler> read;
    nocter_status status = read_handlers(handlers, count, function, read);
    if (status != NOCTER_OK) return status;
    if (concurrency == 0 || concurrency > kMostThreads) {
      return fail_argument(function, "concurrency", "is not between 1 and 1024");
    }
    base::ThreadOptions threads;
    status = read_workers_options(options, threads, function);
    if (status != NOCTER_OK) return status;
    if (options != nullptr && threads.threads > 1 && threads.threads != concurrency) {
      return fail_argument(function, "options->threads", "is neither 0 nor concurrency");
    }
    threads.threads = concurrency;
    if (engine.closed()) return static_cast<nocter_status>(NOCTER_CLOSED);
    base::Workers* workers = nullptr;
    const base::Workers::Started started = engine.serve(std::move(read), threads, workers);
    *out = reinterpret_cast<nocter_workers*>(workers);
    return explain_start(started, function);
  });
}
