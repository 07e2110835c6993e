// What the four pages of durable tasks share: entering a store, checking names and JSON, records as C sees them.
#pragma once

#include <cxxabi.h>

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary.hpp"
#include "nocter/task_records.h"
#include "nocter/task_store.h"
#include "nocter/tasks/engine.hpp"

namespace nocter::capi {

// ---- Handles --------------------------------------------------------------------------------------------------------

// An open store. A call takes its own share of the engine, so that a close in another thread waits for it and not it for the close.
struct TasksHandle {
  explicit TasksHandle(std::shared_ptr<tasks::Engine> e) : engine(std::move(e)) {}
  base::Header header{base::Kind::tasks};
  base::Mutex mutex;
  std::shared_ptr<tasks::Engine> engine;
  std::shared_ptr<tasks::Engine> share() {
    const base::Locked lock(mutex);
    return engine;
  }
};
struct ClockHandle {
  explicit ClockHandle(std::shared_ptr<tasks::SteerableClock> c) : clock(std::move(c)) {}
  base::Header header{base::Kind::clock};
  std::shared_ptr<tasks::SteerableClock> clock;
};
struct ValueHandle {
  explicit ValueHandle(std::string t) : text(std::move(t)) {}
  base::Header header{base::Kind::value};
  std::string text;
};

// ---- Calls ----------------------------------------------------------------------------------------------------------

// What a negative answer means here, in its own words.
nocter_status explain(const tasks::Answer& answer, const char* function);

// Nothing that a store or the library throws crosses the boundary; a forced unwinding does.
nocter_status fail_thrown(const char* function) __attribute__((cold));
template <class Call>
nocter_status guarded(const char* function, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return fail_thrown(function);
  }
}
// The same inside a store: call(engine).
template <class Call>
nocter_status inside(nocter_tasks* handle, const char* function, Call&& call) {
  auto* const tasks = reinterpret_cast<TasksHandle*>(handle);
  if (const nocter_status status = check(tasks, base::Kind::tasks, function); status != NOCTER_OK) return status;
  const std::shared_ptr<tasks::Engine> engine = tasks->share();
  if (engine == nullptr) return NOCTER_CLOSED;
  return guarded(function, [&] { return std::forward<Call>(call)(*engine); });
}

// ---- Arguments ------------------------------------------------------------------------------------------------------

// The last moment a time may name: the end of the year 9999.
inline constexpr int64_t kLastMs = 253'402'300'799'999;

bool is_utf8(std::string_view text, bool control_characters);
nocter_status read_bytes(const nocter_text& text, const char* parameter, const char* function, std::string_view& out);
// 1 to 255 bytes of UTF-8 without control characters; or none, where that is meant by `may_be_empty`.
nocter_status read_name(const nocter_text& text, const char* parameter, const char* function, std::string& out,
                        bool may_be_empty = false);
// Its size is looked at before anything of it is. Empty means {}.
nocter_status read_json(const nocter_text& text, size_t most, const char* bound, const tasks::Limits& limits,
                        const char* parameter, const char* function, std::string& out);
nocter_status read_time(int64_t ms, const char* parameter, const char* function);

// The caller's array of structs that begin with their size: all have the first one's.
nocter_status read_submissions(const nocter_submission* from, size_t count, const tasks::Limits& limits,
                               const char* function, std::vector<tasks::Submission>& out);

inline tasks::TaskId core_id(const nocter_task_id& id) {
  tasks::TaskId out;
  std::memcpy(out.bytes.data(), id.bytes, sizeof id.bytes);
  return out;
}
inline nocter_task_id c_id(const tasks::TaskId& id) {
  nocter_task_id out;
  std::memcpy(out.bytes, id.bytes.data(), sizeof out.bytes);
  return out;
}
inline nocter_text c_text(std::string_view text) { return {text.data(), text.size()}; }

// ---- Results --------------------------------------------------------------------------------------------------------

// Points into the record.
void write_task(const tasks::Record& record, nocter_task& out);
const nocter_task* make_task(tasks::Record record);
void make_task_list(std::vector<tasks::Record> records, nocter_task_list& out);
nocter_value* make_value(std::string text);
// Copies what is named; zeroes when there is nothing.
void write_ids(const std::vector<tasks::TaskId>& ids, nocter_task_id* out, size_t count);

}  // namespace nocter::capi
