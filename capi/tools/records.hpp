// The store as the tool sees it: what it refuses is thrown, what it hands out frees itself.
#pragma once

#include <nocter/tasks.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

constexpr int kRefused = 1;  // exit statuses
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

// Ends the program with a message on standard error.
struct Problem {
  int exit_status;
  std::string message;
};

inline std::string_view view(nocter_text text) { return {text.data == nullptr ? "" : text.data, text.size}; }
inline nocter_text text(std::string_view text) { return {text.data(), text.size()}; }
inline bool is_none(nocter_task_id id) { return nocter_task_id_equal(id, {}); }

std::string text_of(nocter_task_id id);
const char* key_scope_name(nocter_key_scope scope);
const char* wake_name(nocter_wake wake);
const char* until_name(nocter_until until);
const char* event_name(nocter_event_kind kind);
bool has_ended(const nocter_task& task);

// Throws what the library says of a negative status.
void check(nocter_status status);

struct FreeTask {
  void operator()(const nocter_task* task) const { nocter_task_free(task); }
};
using Task = std::unique_ptr<const nocter_task, FreeTask>;

class TaskList {
 public:
  explicit TaskList(nocter_task_list list) : list_(list) {}
  TaskList(TaskList&& other) noexcept : list_(other.list_) { other.list_ = {}; }
  TaskList& operator=(TaskList&& other) noexcept {
    std::swap(list_, other.list_);
    return *this;
  }
  TaskList(const TaskList&) = delete;
  TaskList& operator=(const TaskList&) = delete;
  ~TaskList() { nocter_task_list_free(&list_); }
  std::size_t size() const { return list_.count; }
  const nocter_task& operator[](std::size_t at) const { return *list_.tasks[at]; }
  const nocter_task* const* begin() const { return list_.tasks; }
  const nocter_task* const* end() const { return list_.tasks + list_.count; }

 private:
  nocter_task_list list_;
};

enum class Opening { look, look_at_all, change, create };

class Store {
 public:
  // A file that is not there is an error, but for create; with look_at_all damage is one too, wherever it is. Those that change something
  // keep the log of events going.
  Store(const std::string& database, Opening opening);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() { nocter_tasks_close(handle_); }

  nocter_tasks* handle() const { return handle_; }
  Task get(nocter_task_id id) const;
  TaskList list(const nocter_task_filter& filter) const;
  // Page by page, until all have been seen or `each` says false.
  void each(nocter_task_filter filter, const std::function<bool(const nocter_task&)>& each) const;
  nocter_tasks_counts counts() const;
  // A whole identity, or the beginning of one that no other task has.
  nocter_task_id find(const std::string& given) const;

 private:
  void open(const std::string& url, std::uint32_t flags);
  nocter_tasks* handle_ = nullptr;
};

nocter_task_filter any_task();

// "sqlite:PATH" of a plain path; what has a scheme stays as it is.
std::string url_of(const std::string& database);
// The path of a SQLite store, else empty.
std::string path_of(const std::string& database);

}  // namespace tool
