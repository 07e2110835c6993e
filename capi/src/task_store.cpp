#include "nocter/task_store.h"

#include <unistd.h>

#include <cstdio>

#include "nocter/stores/open.hpp"
#include "nocter/tasks/task_id.hpp"
#include "tasks.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

using tasks::Answer;
using tasks::Engine;
using tasks::Record;

constexpr base::Kind kKind = base::Kind::tasks;
constexpr size_t kMostSubmissions = 100'000;

TasksHandle* core(nocter_tasks* handle) { return reinterpret_cast<TasksHandle*>(handle); }

// ---- Options --------------------------------------------------------------------------------------------------------

constexpr nocter_tasks_options kDefaults = NOCTER_TASKS_OPTIONS_INIT;
#define NOCTER_END(field) NOCTER_FIELD_END(nocter_tasks_options, field)
constexpr uint32_t kOptionEnds[] = {
    NOCTER_END(size),
    NOCTER_END(flags),
    NOCTER_END(node),
    NOCTER_END(lease_ms),
    NOCTER_END(retention_ms),
    NOCTER_END(event_retention_ms),
    NOCTER_END(maximum_json),
    NOCTER_END(maximum_message),
    NOCTER_END(maximum_mailbox),
    NOCTER_END(maximum_mailbox_bytes),
    NOCTER_END(maximum_children),
    NOCTER_END(maximum_rescues),
    NOCTER_END(retry_base_ms),
    NOCTER_END(retry_cap_ms),
    NOCTER_END(poll_ms),
    NOCTER_END(clock),  // NOLINT(bugprone-sizeof-expression): a pointer to a struct is meant
    NOCTER_END(log),
    NOCTER_END(log_drop),
    NOCTER_END(log_user),
};
#undef NOCTER_END

constexpr uint32_t kOptionFlags =
    NOCTER_TASKS_NORMAL_SYNC | NOCTER_TASKS_EVENTS | NOCTER_TASKS_BY_HAND | NOCTER_TASKS_CHECK;
constexpr int64_t kLongestLease = 86'400'000;

// The host's, until the store has it for good: then it is ended with it.
class HostLog final : public tasks::Log {
 public:
  explicit HostLog(const nocter_tasks_options& options)
      : log_(options.log), drop_(options.log_drop), user_(options.log_user) {}
  ~HostLog() override {
    if (kept_ && drop_ != nullptr) base::call_foreign(exceptions_, [this] { drop_(user_); });
  }
  void line(Level level, std::string_view text) override {
    if (log_ == nullptr) return;
    base::call_foreign(exceptions_, [&] { log_(user_, static_cast<int32_t>(level), c_text(text)); });
  }
  void keep() { kept_ = true; }

 private:
  void (*const log_)(void* user, int32_t level, nocter_text line);
  void (*const drop_)(void* user);
  void* const user_;
  bool kept_ = false;
  base::Atomic<uint64_t> exceptions_;
};

struct Opening {
  tasks::StoreOptions store;
  tasks::EngineOptions engine;
};

nocter_status check_options(const nocter_tasks_options& options, const char* function) {
  constexpr uint64_t kMost = INT32_MAX;
  if ((options.flags & ~kOptionFlags) != 0) return fail_argument(function, "options->flags", "has an unknown flag");
  if (options.lease_ms != 0 && (options.lease_ms < 100 || options.lease_ms > kLongestLease)) {
    return fail_argument(function, "options->lease_ms", "is not between 100 and a day");
  }
  const struct {
    const char* name;
    int64_t value;
  } times[] = {{"options->retention_ms", options.retention_ms},
               {"options->event_retention_ms", options.event_retention_ms}};
  for (const auto& time : times) {
    if (time.value < 0 || time.value > kLastMs) return fail_argument(function, time.name, "is negative or too long");
  }
  const struct {
    const char* name;
    uint64_t value;
  } bounds[] = {{"options->maximum_json", options.maximum_json},
                {"options->maximum_message", options.maximum_message},
                {"options->maximum_mailbox", options.maximum_mailbox},
                {"options->maximum_mailbox_bytes", options.maximum_mailbox_bytes},
                {"options->maximum_children", options.maximum_children},
                {"options->maximum_rescues", options.maximum_rescues},
                {"options->retry_base_ms", options.retry_base_ms},
                {"options->retry_cap_ms", options.retry_cap_ms},
                {"options->poll_ms", options.poll_ms}};
  for (const auto& bound : bounds) {
    if (bound.value > kMost) return fail_argument(function, bound.name, "is more than 2147483647");
  }
  return NOCTER_OK;
}

std::string default_node() {
  char host[65] = {};
  if (gethostname(host, sizeof host - 1) != 0 || !is_utf8(host, false)) host[0] = 0;
  return std::string(host) + ":" + std::to_string(getpid());
}

void read_limits(const nocter_tasks_options& options, tasks::Limits& limits) {
  const auto set = [](auto& limit, uint64_t given) {
    if (given != 0) limit = static_cast<std::remove_reference_t<decltype(limit)>>(given);
  };
  set(limits.json, options.maximum_json);
  set(limits.message, options.maximum_message);
  set(limits.mailbox, options.maximum_mailbox);
  set(limits.mailbox_bytes, options.maximum_mailbox_bytes);
  set(limits.children, options.maximum_children);
  set(limits.max_rescues, options.maximum_rescues);
  set(limits.retry_base_ms, options.retry_base_ms);
  set(limits.retry_cap_ms, options.retry_cap_ms);
}

nocter_status read_options(const nocter_tasks_options& options, Opening& to, const char* function) {
  if (const nocter_status status = check_options(options, function); status != NOCTER_OK) return status;
  tasks::EngineOptions& engine = to.engine;
  if (const nocter_status status = read_name(options.node, "options->node", function, engine.node, true);
      status != NOCTER_OK) {
    return status;
  }
  if (engine.node.empty()) engine.node = default_node();
  if (options.clock != nullptr) {
    auto* const clock = reinterpret_cast<ClockHandle*>(options.clock);
    if (const nocter_status status = check(clock, base::Kind::clock, function); status != NOCTER_OK) return status;
    to.store.clock = clock->clock;
  }
  if (options.lease_ms != 0) engine.lease_ms = options.lease_ms;
  engine.retention_ms = options.retention_ms;
  engine.event_retention_ms = options.event_retention_ms;
  if (options.poll_ms != 0) engine.poll_ms = options.poll_ms;
  engine.by_hand = (options.flags & NOCTER_TASKS_BY_HAND) != 0;
  engine.clock = to.store.clock;
  read_limits(options, engine.limits);
  to.store.limits = engine.limits;
  to.store.events = (options.flags & NOCTER_TASKS_EVENTS) != 0;
  to.store.check = (options.flags & NOCTER_TASKS_CHECK) != 0;
  to.store.durability =
      (options.flags & NOCTER_TASKS_NORMAL_SYNC) != 0 ? tasks::Durability::normal : tasks::Durability::full;
  return NOCTER_OK;
}

nocter_status open_store(std::string_view url, const nocter_tasks_options& options, const char* function,
                         nocter_tasks** out) {
  Opening opening;
  if (const nocter_status status = read_options(options, opening, function); status != NOCTER_OK) return status;
  // A name may hold more than people should read: only that of a file is told.
  const bool is_file = url.starts_with("sqlite:");
  const std::string what(is_file ? url : url.substr(0, url.find(':') + 1));
  auto host = std::make_unique<HostLog>(options);
  HostLog* const kept = host.get();
  std::unique_ptr<tasks::Log> log = std::move(host);
  auto* made = base::make_handle<TasksHandle, kKind>(nullptr);
  if (made == nullptr) return fail(NOCTER_E_MEMORY, function, "out of memory");
  try {
    auto store = stores::open(url, opening.store);
    opening.engine.warnings = stores::warnings(url);
    made->engine = Engine::open(std::move(store), opening.engine, what, log);
  } catch (const std::exception& thrown) {
    made->header.tag.disarm();
    base::end_handle<kKind>(made);
    const auto* const refused = dynamic_cast<const tasks::StoreError*>(&thrown);
    if (refused == nullptr || refused->status != Status::argument) throw;
    return fail(NOCTER_E_ARGUMENT, function, (std::string("url: ") + thrown.what()).c_str());
  }
  kept->keep();
  *out = reinterpret_cast<nocter_tasks*>(made);
  return NOCTER_OK;
}

// ---- Submissions ----------------------------------------------------------------------------------------------------

constexpr nocter_submission kNoSubmission = NOCTER_SUBMISSION_INIT;
#define NOCTER_END(field) NOCTER_FIELD_END(nocter_submission, field)
constexpr uint32_t kSubmissionEnds[] = {NOCTER_END(size),         NOCTER_END(priority), NOCTER_END(type),
                                        NOCTER_END(payload),      NOCTER_END(key),      NOCTER_END(key_scope),
                                        NOCTER_END(flags),        NOCTER_END(parent),   NOCTER_END(run_after_ms),
                                        NOCTER_END(max_attempts), NOCTER_END(reserved), NOCTER_END(id)};
#undef NOCTER_END

nocter_status read_submission(const nocter_submission& from, const tasks::Limits& limits, const char* function,
                              tasks::Submission& to) {
  nocter_status status = read_name(from.type, "submission.type", function, to.type);
  if (status == NOCTER_OK) status = read_name(from.key, "submission.key", function, to.key, true);
  if (status == NOCTER_OK) status = read_time(from.run_after_ms, "submission.run_after_ms", function);
  if (status != NOCTER_OK) return status;
  if (from.key_scope < NOCTER_KEY_LIVE_TYPE || from.key_scope > NOCTER_KEY_TREE) {
    return fail_argument(function, "submission.key_scope", "is no nocter_key_scope");
  }
  if ((from.flags & ~static_cast<uint32_t>(NOCTER_SUBMIT_PRIORITY)) != 0) {
    return fail_argument(function, "submission.flags", "has an unknown flag");
  }
  if (from.reserved != 0) return fail_argument(function, "submission.reserved", "is not 0");
  status = read_json(from.payload, limits.json, "maximum_json", limits, "submission.payload", function, to.payload);
  if (status != NOCTER_OK) return status;
  to.id = core_id(from.id);
  if (to.id.none()) to.id = tasks::make_task_id();
  if (to.id.none()) return fail(NOCTER_E_UNAVAILABLE, function, "the system has no random bytes");
  to.key_scope = static_cast<tasks::KeyScope>(from.key_scope);
  to.priority = from.priority;
  to.own_priority = (from.flags & NOCTER_SUBMIT_PRIORITY) != 0;
  to.parent = core_id(from.parent);
  to.run_after = from.run_after_ms;
  to.max_attempts = from.max_attempts;
  return NOCTER_OK;
}

}  // namespace

nocter_status nocter::capi::read_submissions(const nocter_submission* from, size_t count, const tasks::Limits& limits,
                                             const char* function, std::vector<tasks::Submission>& out) {
  if (from == nullptr) return fail_null(function, "submissions");
  if (count == 0 || count > kMostSubmissions) return fail_argument(function, "count", "is not between 1 and 100000");
  const uint32_t step = from->size;
  out.reserve(count);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = 0; i < count; i++) {
    const auto* const at = reinterpret_cast<const nocter_submission*>(bytes + i * step);
    if (at->size != step) return fail_argument(function, "submissions", "have different size members");
    nocter_submission read = kNoSubmission;
    nocter_status status = read_sized(read, at, kSubmissionEnds, function, "submissions");
    if (status != NOCTER_OK) return status;
    status = read_submission(read, limits, function, out.emplace_back());
    if (status != NOCTER_OK) return status;
  }
  return NOCTER_OK;
}

// ---- Opening --------------------------------------------------------------------------------------------------------

void nocter_tasks_options_init(nocter_tasks_options* options, size_t size) { init_sized(options, kDefaults, size); }
void nocter_submission_init(nocter_submission* submission, size_t size) { init_sized(submission, kNoSubmission, size); }
void nocter_task_filter_init(nocter_task_filter* filter, size_t size) {
  static constexpr nocter_task_filter kNone = NOCTER_TASK_FILTER_INIT;
  init_sized(filter, kNone, size);
}
void nocter_tasks_counts_init(nocter_tasks_counts* counts, size_t size) {
  static constexpr nocter_tasks_counts kNone = NOCTER_TASKS_COUNTS_INIT;
  init_sized(counts, kNone, size);
}

nocter_status nocter_tasks_open(nocter_text url, const nocter_tasks_options* options, nocter_tasks** out) {
  constexpr size_t kLongest = 4096;
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  const char* const function = __func__;
  std::string_view bytes;
  if (const nocter_status status = read_bytes(url, "url", function, bytes); status != NOCTER_OK) return status;
  if (bytes.empty()) return fail_argument(function, "url", "is empty");
  if (bytes.size() > kLongest) return fail_argument(function, "url", "is longer than 4096 bytes");
  if (bytes.find('\0') != std::string_view::npos) return fail_argument(function, "url", "has a NUL in it");
  nocter_tasks_options read = kDefaults;
  if (options != nullptr) {
    const nocter_status status = read_sized(read, options, kOptionEnds, function, "options");
    if (status != NOCTER_OK) return status;
  }
  return guarded(function, [&] { return open_store(bytes, read, function, out); });
}

void nocter_tasks_close(nocter_tasks* tasks) {
  if (!usable(core(tasks), kKind, __func__) || !core(tasks)->header.tag.end(kKind)) return;
  std::shared_ptr<Engine> engine;
  {
    const base::Locked lock(core(tasks)->mutex);
    engine.swap(core(tasks)->engine);
  }
  engine->close();
  base::end_handle<kKind>(core(tasks));
}

// ---- Submitting, looking --------------------------------------------------------------------------------------------

nocter_status nocter_tasks_submit(nocter_tasks* tasks, const nocter_submission* submissions, size_t count,
                                  nocter_task_id* out_ids) {
  const char* const function = __func__;
  if (count <= kMostSubmissions) write_ids({}, out_ids, count);
  return inside(tasks, function, [&](Engine& engine) {
    tasks::Submit submit;
    const nocter_status status = read_submissions(submissions, count, engine.limits(), function, submit.tasks);
    if (status != NOCTER_OK) return status;
    const Answer answer = engine.ask(submit);
    if (answer.status == Status::ok || answer.status == Status::exists) write_ids(submit.ids, out_ids, count);
    return explain(answer, function);
  });
}

nocter_status nocter_tasks_get(nocter_tasks* tasks, nocter_task_id id, const nocter_task** out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = nullptr;
  return inside(tasks, function, [&](Engine& engine) {
    Record record;
    const Answer answer = engine.look([&](tasks::Store& store) { return store.get(core_id(id), record); });
    if (answer.status == Status::ok) *out = make_task(std::move(record));
    return explain(answer, function);
  });
}

nocter_status nocter_tasks_children(nocter_tasks* tasks, nocter_task_id id, nocter_task_list* out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = {};
  return inside(tasks, function, [&](Engine& engine) {
    std::vector<Record> records;
    const Answer answer = engine.children(core_id(id), records);
    if (answer.status == Status::ok) make_task_list(std::move(records), *out);
    return explain(answer, function);
  });
}

nocter_status nocter_tasks_list(nocter_tasks* tasks, const nocter_task_filter* filter, nocter_task_list* out) {
  constexpr uint32_t kMost = 10'000;
  static constexpr nocter_task_filter kAll = NOCTER_TASK_FILTER_INIT;
#define NOCTER_END(field) NOCTER_FIELD_END(nocter_task_filter, field)
  static constexpr uint32_t kEnds[] = {NOCTER_END(size),
                                       NOCTER_END(status),
                                       NOCTER_END(type),
                                       NOCTER_END(parent),
                                       NOCTER_END(root),
                                       NOCTER_END(after),
                                       NOCTER_END(created_before_ms),
                                       NOCTER_END(limit),
                                       NOCTER_END(roots_only)};
#undef NOCTER_END
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = {};
  return inside(tasks, function, [&](Engine& engine) {
    nocter_task_filter read = kAll;
    nocter_status status = NOCTER_OK;
    if (filter != nullptr) status = read_sized(read, filter, kEnds, function, "filter");
    tasks::Filter wanted;
    if (status == NOCTER_OK) status = read_name(read.type, "filter->type", function, wanted.type, true);
    if (status == NOCTER_OK) status = read_time(read.created_before_ms, "filter->created_before_ms", function);
    if (status != NOCTER_OK) return status;
    if (read.status < 0 || read.status > NOCTER_TASK_CANCELLED) {
      return fail_argument(function, "filter->status", "is neither 0 nor a nocter_task_status");
    }
    if (read.limit > kMost) return fail_argument(function, "filter->limit", "is more than 10000");
    if (read.roots_only > 1) return fail_argument(function, "filter->roots_only", "is neither 0 nor 1");
    if (read.status != 0) wanted.status = static_cast<tasks::TaskStatus>(read.status);
    wanted.parent = core_id(read.parent);
    wanted.root = core_id(read.root);
    wanted.after = core_id(read.after);
    wanted.roots_only = read.roots_only != 0;
    if (read.created_before_ms != 0) wanted.created_before = read.created_before_ms;
    if (read.limit != 0) wanted.most = read.limit;
    std::vector<Record> records;
    const Answer answer = engine.look([&](tasks::Store& store) { return store.list(wanted, records); });
    if (answer.status == Status::ok) make_task_list(std::move(records), *out);
    return explain(answer, function);
  });
}

nocter_status nocter_tasks_await(nocter_tasks* tasks, nocter_task_id id, const nocter_wait* wait,
                                 const nocter_task** out) {
  const char* const function = __func__;
  if (out == nullptr) return fail_null(function, "out");
  *out = nullptr;
  return inside(tasks, function, [&](Engine& engine) {
    WaitArgument limits;
    if (const nocter_status status = limits.read(wait, function); status != NOCTER_OK) return status;
    Record record;
    const Answer answer = engine.await(core_id(id), limits.pointer(), record);
    if (answer.status == Status::ok) *out = make_task(std::move(record));
    return explain(answer, function);
  });
}

nocter_status nocter_tasks_count(nocter_tasks* tasks, nocter_tasks_counts* out) {
  static constexpr auto kEnds = ends_of_counts<sizeof(nocter_tasks_counts), offsetof(nocter_tasks_counts, queued)>();
  const char* const function = __func__;
  return inside(tasks, function, [&](Engine& engine) {
    if (out == nullptr) return fail_null(function, "out");
    const nocter_status status = check_size(out, sizeof(nocter_tasks_counts), kEnds.at, kEnds.count, function, "out");
    if (status != NOCTER_OK) return status;
    tasks::Counts c;
    const Answer answer = engine.look([&](tasks::Store& store) { return store.count(c); });
    if (answer.status != Status::ok) return explain(answer, function);
    const nocter_tasks_counts counts = {.size = out->size,
                                        .reserved = 0,
                                        .queued = c.by_status[NOCTER_TASK_QUEUED],
                                        .running = c.by_status[NOCTER_TASK_RUNNING],
                                        .suspended = c.by_status[NOCTER_TASK_SUSPENDED],
                                        .completed = c.by_status[NOCTER_TASK_COMPLETED],
                                        .failed = c.by_status[NOCTER_TASK_FAILED],
                                        .cancelled = c.by_status[NOCTER_TASK_CANCELLED],
                                        .ready = c.ready,
                                        .oldest_ready_ms = c.oldest_ready,
                                        .rescues = c.rescues,
                                        .repairs = c.repairs,
                                        .purged = c.purged,
                                        .runs = engine.runs()};
    write_sized(out, counts, out->size);
    return static_cast<nocter_status>(NOCTER_OK);
  });
}

// ---- Telling --------------------------------------------------------------------------------------------------------

nocter_status nocter_tasks_notify(nocter_tasks* tasks, nocter_task_id to, nocter_task_id from, nocter_text payload) {
  const char* const function = __func__;
  return inside(tasks, function, [&](Engine& engine) {
    tasks::Notify notify;
    const nocter_status status = read_json(payload, engine.limits().message, "maximum_message", engine.limits(),
                                           "payload", function, notify.payload);
    if (status != NOCTER_OK) return status;
    notify.to = core_id(to);
    notify.from = core_id(from);
    return explain(engine.ask(notify), function);
  });
}

nocter_status nocter_tasks_cancel(nocter_tasks* tasks, nocter_task_id id, uint64_t* out_touched) {
  const char* const function = __func__;
  if (out_touched != nullptr) *out_touched = 0;
  return inside(tasks, function, [&](Engine& engine) {
    uint64_t touched = 0;
    const Answer answer = engine.cancel(core_id(id), touched);
    if (out_touched != nullptr) *out_touched = touched;
    return explain(answer, function);
  });
}

nocter_status nocter_tasks_retry(nocter_tasks* tasks, nocter_task_id id, nocter_task_id* out_id) {
  const char* const function = __func__;
  if (out_id != nullptr) *out_id = {};
  return inside(tasks, function, [&](Engine& engine) {
    tasks::TaskId again;
    const Answer answer = engine.retry(core_id(id), again);
    if (out_id != nullptr) *out_id = c_id(again);
    return explain(answer, function);
  });
}

// ---- Upkeep ---------------------------------------------------------------------------------------------------------

nocter_status nocter_tasks_maintain(nocter_tasks* tasks) {
  const char* const function = __func__;
  return inside(tasks, function, [&](Engine& engine) { return explain(engine.maintain(), function); });
}

nocter_status nocter_tasks_purge(nocter_tasks* tasks, int64_t older_than_ms, uint64_t* out_removed) {
  const char* const function = __func__;
  if (out_removed != nullptr) *out_removed = 0;
  return inside(tasks, function, [&](Engine& engine) {
    if (const nocter_status status = read_time(older_than_ms, "older_than_ms", function); status != NOCTER_OK) {
      return status;
    }
    uint64_t removed = 0;
    const Answer answer = engine.purge(older_than_ms, removed);
    if (out_removed != nullptr) *out_removed = removed;
    return explain(answer, function);
  });
}
