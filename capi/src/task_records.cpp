#include "nocter/task_records.h"

#include <cstdio>

#include "nocter/tasks/json.hpp"
#include "nocter/tasks/tables.hpp"
#include "nocter/tasks/task_id.hpp"
#include "tasks.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

using tasks::Record;

static_assert(sizeof(tasks::TaskId) == sizeof(nocter_task_id) && alignof(nocter_task_id) == 1);
static_assert(NOCTER_TASK_QUEUED == static_cast<int>(tasks::TaskStatus::queued) &&
              NOCTER_TASK_RUNNING == static_cast<int>(tasks::TaskStatus::running) &&
              NOCTER_TASK_SUSPENDED == static_cast<int>(tasks::TaskStatus::suspended) &&
              NOCTER_TASK_COMPLETED == static_cast<int>(tasks::TaskStatus::completed) &&
              NOCTER_TASK_FAILED == static_cast<int>(tasks::TaskStatus::failed) &&
              NOCTER_TASK_CANCELLED == static_cast<int>(tasks::TaskStatus::cancelled));
static_assert(NOCTER_WAKE_FIRST == static_cast<int>(tasks::Wake::first) &&
              NOCTER_WAKE_JOIN == static_cast<int>(tasks::Wake::join) &&
              NOCTER_WAKE_FAILURE == static_cast<int>(tasks::Wake::failure) &&
              NOCTER_WAKE_MESSAGE == static_cast<int>(tasks::Wake::message) &&
              NOCTER_WAKE_TIMER == static_cast<int>(tasks::Wake::timer) &&
              NOCTER_WAKE_RETRY == static_cast<int>(tasks::Wake::retry) &&
              NOCTER_WAKE_RESCUE == static_cast<int>(tasks::Wake::rescue));
static_assert(NOCTER_UNTIL_NOTHING == static_cast<int>(tasks::Until::nothing) &&
              NOCTER_UNTIL_TASKS == static_cast<int>(tasks::Until::tasks) &&
              NOCTER_UNTIL_CHILDREN == static_cast<int>(tasks::Until::children) &&
              NOCTER_UNTIL_NOTIFIED == static_cast<int>(tasks::Until::notified));
static_assert(NOCTER_KEY_LIVE_TYPE == static_cast<int>(tasks::KeyScope::live_type) &&
              NOCTER_KEY_PARENT == static_cast<int>(tasks::KeyScope::parent) &&
              NOCTER_KEY_TREE == static_cast<int>(tasks::KeyScope::tree));

// A record that was handed out, with what its texts point into.
struct HandedTask : nocter_task {
  Record record;
};
struct HandedTasks {
  std::vector<Record> records;
  std::vector<nocter_task> tasks;
  std::vector<const nocter_task*> pointers;
};

ClockHandle* core(nocter_clock* handle) { return reinterpret_cast<ClockHandle*>(handle); }
const ClockHandle* core(const nocter_clock* handle) { return reinterpret_cast<const ClockHandle*>(handle); }
ValueHandle* core(nocter_value* handle) { return reinterpret_cast<ValueHandle*>(handle); }
const ValueHandle* core(const nocter_value* handle) { return reinterpret_cast<const ValueHandle*>(handle); }

uint32_t continuation(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return (byte & 0xc0) == 0x80 ? byte & 0x3fU : UINT32_MAX;
}

}  // namespace

namespace nocter::capi {

// ---- What went wrong ------------------------------------------------------------------------------------------------

nocter_status explain(const tasks::Answer& answer, const char* function) {
  if (answer.status >= Status::ok) return to_c(answer.status);
  if (!answer.message.empty()) return fail(to_c(answer.status), function, answer.message.c_str());
  switch (answer.status) {
    case Status::memory:
      return fail(NOCTER_E_MEMORY, function, "out of memory");
    case Status::unknown:
      return fail(NOCTER_E_UNKNOWN, function, "there is no such task");
    case Status::state:
      return fail(NOCTER_E_STATE, function, "the task does not stand where this could be done");
    case Status::lease_lost:
      return fail(NOCTER_E_LEASE_LOST, function, "others may run this task by now");
    default:
      return fail(to_c(answer.status), function, "the store could not do it");
  }
}

nocter_status fail_thrown(const char* function) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(NOCTER_E_MEMORY, function, "out of memory");
  } catch (const tasks::StoreError& error) {
    return fail(to_c(error.status), function, error.what());
  } catch (const std::exception& error) {
    return fail(NOCTER_E_INTERNAL, function, error.what());
  } catch (...) {
    return fail(NOCTER_E_INTERNAL, function, "something that is no exception of ours was thrown");
  }
}

// ---- Arguments ------------------------------------------------------------------------------------------------------

// Strictly: nothing overlong, no half of a surrogate pair, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text, bool control_characters) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    uint32_t point = byte;
    size_t more = 0;
    if (byte >= 0x80) {
      more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      if (byte < 0xc2 || byte > 0xf4 || text.size() - i <= more) return false;
      point = byte & (0x3fU >> more);
      for (size_t k = 1; k <= more; k++) {
        const uint32_t bits = continuation(text, i + k);
        if (bits == UINT32_MAX) return false;
        point = point << 6 | bits;
      }
      constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
      if (point < kLeast[more] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
    }
    if (!control_characters && (point < 0x20 || (point >= 0x7f && point <= 0x9f))) return false;
    i += more + 1;
  }
  return true;
}

nocter_status read_bytes(const nocter_text& text, const char* parameter, const char* function, std::string_view& out) {
  if (text.data == nullptr && text.size != 0)
    return fail_argument(function, parameter, "is NULL and its size is not 0");
  out = {text.data, text.size};
  return NOCTER_OK;
}

nocter_status read_name(const nocter_text& text, const char* parameter, const char* function, std::string& out,
                        bool may_be_empty) {
  constexpr size_t kLongest = 255;
  std::string_view bytes;
  if (const nocter_status status = read_bytes(text, parameter, function, bytes); status != NOCTER_OK) return status;
  if (bytes.empty() && !may_be_empty) return fail_argument(function, parameter, "is empty");
  if (bytes.size() > kLongest) return fail_argument(function, parameter, "is longer than 255 bytes");
  if (!is_utf8(bytes, false)) return fail_argument(function, parameter, "is not UTF-8 without control characters");
  out = bytes;
  return NOCTER_OK;
}

nocter_status read_json(const nocter_text& text, size_t most, const char* bound, const tasks::Limits& limits,
                        const char* parameter, const char* function, std::string& out) {
  std::string_view bytes;
  if (const nocter_status status = read_bytes(text, parameter, function, bytes); status != NOCTER_OK) return status;
  if (bytes.size() > most) {
    char what[128];
    std::snprintf(what, sizeof what, "%s has %zu bytes: %s is %zu", parameter, bytes.size(), bound, most);
    return fail(NOCTER_E_LIMIT, function, what);
  }
  if (bytes.empty()) {
    out = "{}";
    return NOCTER_OK;
  }
  std::string message;
  if (tasks::check_json(bytes, limits.json_depth, message) != Status::ok) {
    return fail(NOCTER_E_JSON, function, (std::string(parameter) + ": " + message).c_str());
  }
  out = bytes;
  return NOCTER_OK;
}

nocter_status read_time(int64_t ms, const char* parameter, const char* function) {
  if (ms >= 0 && ms <= kLastMs) return NOCTER_OK;
  return fail_argument(function, parameter, "is not a Unix time in milliseconds up to the year 9999");
}

// ---- Results --------------------------------------------------------------------------------------------------------

void write_task(const Record& record, nocter_task& out) {
  const tasks::TaskRow& row = record.row;
  const tasks::TaskTexts& texts = record.texts;
  out = {};
  out.size = sizeof out;
  out.status = static_cast<nocter_task_status>(tasks::status_of(row.phase));
  out.id = c_id(row.id);
  out.root = c_id(record.root);
  out.parent = c_id(record.parent);
  out.type = c_text(record.type);
  out.key = c_text(texts.key);
  out.payload = c_text(texts.payload);
  out.state = c_text(texts.state);
  out.result = c_text(texts.result);
  if (!texts.failure.none()) {
    out.failure = {c_text(texts.failure.kind),
                   c_text(texts.failure.message),
                   c_text(texts.failure.detail),
                   texts.failure.attempt,
                   0,
                   c_text(texts.failure.node),
                   texts.failure.at};
  }
  out.key_scope = static_cast<nocter_key_scope>(row.key_scope);
  out.priority = row.priority;
  out.attempt = row.attempt;
  out.max_attempts = row.max_attempts;
  out.deliveries = row.deliveries;
  out.rescues = row.rescues;
  out.woken_by = static_cast<nocter_wake>(row.woken_by);
  out.resumed = row.resumed ? 1 : 0;
  out.cancel_requested = row.cancel_requested ? 1 : 0;
  out.until = static_cast<nocter_until>(row.until);
  out.fence = row.fence;
  out.created_at_ms = row.created_at;
  out.due_at_ms = row.due_at == tasks::kNever ? 0 : row.due_at;
  out.started_at_ms = row.started_at;
  out.ended_at_ms = row.ended_at;
  out.node = c_text(record.node);
  out.lease_until_ms = record.lease_until;
  out.children = static_cast<uint64_t>(row.children);
  out.open_children = static_cast<uint64_t>(row.open_children);
  out.messages = static_cast<uint64_t>(row.mail);
  out.waiting_for = reinterpret_cast<const nocter_task_id*>(record.waiting_for.data());
  out.waiting_for_count = record.waiting_for.size();
  out.waiting_open = static_cast<uint64_t>(record.waiting_open);
  const bool joins =
      !tasks::ended(row.phase) && row.until != tasks::Until::nothing && row.until != tasks::Until::notified;
  out.waiting_need = joins && row.need > 0 ? static_cast<uint64_t>(row.need) : 0;
  out.wake_on_failure = joins && row.wake_on_failure ? 1 : 0;
}

const nocter_task* make_task(Record record) {
  auto made = std::make_unique<HandedTask>();
  made->record = std::move(record);
  write_task(made->record, *made);
  return made.release();
}

void make_task_list(std::vector<Record> records, nocter_task_list& out) {
  auto made = std::make_unique<HandedTasks>();
  made->records = std::move(records);
  made->tasks.resize(made->records.size());
  made->pointers.reserve(made->records.size());
  for (size_t i = 0; i < made->records.size(); i++) {
    write_task(made->records[i], made->tasks[i]);
    made->pointers.push_back(&made->tasks[i]);
  }
  out.tasks = made->pointers.data();
  out.count = made->pointers.size();
  out.memory = made.release();
}

nocter_value* make_value(std::string text) {
  auto* made = base::make_handle<ValueHandle, base::Kind::value>(std::move(text));
  if (made == nullptr) throw std::bad_alloc();
  return reinterpret_cast<nocter_value*>(made);
}

void write_ids(const std::vector<tasks::TaskId>& ids, nocter_task_id* out, size_t count) {
  for (size_t i = 0; out != nullptr && i < count; i++) out[i] = i < ids.size() ? c_id(ids[i]) : nocter_task_id{};
}

}  // namespace nocter::capi

// ---- Identities -----------------------------------------------------------------------------------------------------

nocter_task_id nocter_task_id_make(void) { return c_id(tasks::make_task_id()); }

bool nocter_task_id_equal(nocter_task_id a, nocter_task_id b) {
  return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

nocter_status nocter_task_id_parse(nocter_text text, nocter_task_id* out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = {};
  std::string_view bytes;
  if (const nocter_status status = read_bytes(text, "text", __func__, bytes); status != NOCTER_OK) return status;
  tasks::TaskId id;
  if (bytes.size() != tasks::kTaskIdText || !tasks::parse_task_id(bytes, id)) {
    return fail_argument(__func__, "text", "is not the text of a UUID");
  }
  *out = c_id(id);
  return NOCTER_OK;
}

void nocter_task_id_format(nocter_task_id id, char* out) {
  if (out == nullptr) return;
  tasks::write_task_id(core_id(id), out);
  out[tasks::kTaskIdText] = 0;
}

const char* nocter_task_status_name(nocter_task_status status) {
  static constexpr const char* kNames[] = {"?", "QUEUED", "RUNNING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED"};
  return status >= 0 && status <= NOCTER_TASK_CANCELLED ? kNames[status] : "?";
}

// ---- Records and values ---------------------------------------------------------------------------------------------

void nocter_task_free(const nocter_task* task) { delete static_cast<const HandedTask*>(task); }

void nocter_task_list_free(nocter_task_list* list) {
  if (list == nullptr) return;
  delete static_cast<HandedTasks*>(list->memory);
  *list = {};
}

nocter_text nocter_value_text(const nocter_value* value) {
  if (!usable(core(value), base::Kind::value, __func__)) return {nullptr, 0};
  return c_text(core(value)->text);
}

void nocter_value_free(nocter_value* value) {
  if (!usable(core(value), base::Kind::value, __func__)) return;
  if (core(value)->header.tag.end(base::Kind::value)) base::end_handle<base::Kind::value>(core(value));
}

// ---- The clock ------------------------------------------------------------------------------------------------------

nocter_status nocter_clock_create(int64_t now_ms, nocter_clock** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  *out = nullptr;
  if (now_ms < 0 || now_ms > tasks::SteerableClock::kLast) {
    return fail_argument(__func__, "now_ms", "is not between 0 and the year 2100");
  }
  return guarded(__func__, [&] {
    auto* made = base::make_handle<ClockHandle, base::Kind::clock>(std::make_shared<tasks::SteerableClock>(now_ms));
    *out = reinterpret_cast<nocter_clock*>(made);
    return made != nullptr ? NOCTER_OK : fail(NOCTER_E_MEMORY, "nocter_clock_create", "out of memory");
  });
}

void nocter_clock_advance(nocter_clock* clock, int64_t by_ms) {
  if (usable(core(clock), base::Kind::clock, __func__)) core(clock)->clock->advance(by_ms);
}

int64_t nocter_clock_now_ms(const nocter_clock* clock) {
  return usable(core(clock), base::Kind::clock, __func__) ? core(clock)->clock->now_ms() : 0;
}

void nocter_clock_destroy(nocter_clock* clock) {
  if (!usable(core(clock), base::Kind::clock, __func__)) return;
  if (core(clock)->header.tag.end(base::Kind::clock)) base::end_handle<base::Kind::clock>(core(clock));
}
