#include "records.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "text.hpp"

namespace tool {

std::string text_of(nocter_task_id id) {
  std::array<char, 37> text{};
  nocter_task_id_format(id, text.data());
  return text.data();
}

const char* key_scope_name(nocter_key_scope scope) {
  if (scope == NOCTER_KEY_PARENT) return "parent";
  return scope == NOCTER_KEY_TREE ? "tree" : "live";
}

const char* wake_name(nocter_wake wake) {
  switch (wake) {
    case NOCTER_WAKE_FIRST:
      return "FIRST";
    case NOCTER_WAKE_JOIN:
      return "JOIN";
    case NOCTER_WAKE_FAILURE:
      return "FAILURE";
    case NOCTER_WAKE_MESSAGE:
      return "MESSAGE";
    case NOCTER_WAKE_TIMER:
      return "TIMER";
    case NOCTER_WAKE_RETRY:
      return "RETRY";
    case NOCTER_WAKE_RESCUE:
      return "RESCUE";
    default:
      return "?";
  }
}

const char* until_name(nocter_until until) {
  switch (until) {
    case NOCTER_UNTIL_NOTHING:
      return "NOTHING";
    case NOCTER_UNTIL_TASKS:
      return "TASKS";
    case NOCTER_UNTIL_CHILDREN:
      return "CHILDREN";
    case NOCTER_UNTIL_NOTIFIED:
      return "NOTIFIED";
    default:
      return "?";
  }
}

const char* event_name(nocter_event_kind kind) {
  switch (kind) {
    case NOCTER_EVENT_SUBMITTED:
      return "SUBMITTED";
    case NOCTER_EVENT_STARTED:
      return "STARTED";
    case NOCTER_EVENT_STATE:
      return "STATE";
    case NOCTER_EVENT_SUSPENDED:
      return "SUSPENDED";
    case NOCTER_EVENT_WOKEN:
      return "WOKEN";
    case NOCTER_EVENT_MESSAGE:
      return "MESSAGE";
    case NOCTER_EVENT_RETRIED:
      return "RETRIED";
    case NOCTER_EVENT_RESCUED:
      return "RESCUED";
    case NOCTER_EVENT_HANDED_BACK:
      return "HANDED_BACK";
    case NOCTER_EVENT_CANCEL_REQUESTED:
      return "CANCEL_REQUESTED";
    case NOCTER_EVENT_ENDED:
      return "ENDED";
    default:
      return "?";
  }
}

bool has_ended(const nocter_task& task) { return task.status >= NOCTER_TASK_COMPLETED; }

void check(nocter_status status) {
  if (status >= 0) return;
  const std::string message = nocter_error_message();
  throw Problem{kRefused, message.empty() ? nocter_status_name(status) : message};
}

std::string url_of(const std::string& database) {
  const std::size_t colon = database.find(':');
  const bool scheme = colon != std::string::npos && colon != 0 &&
                      std::all_of(database.begin(), database.begin() + static_cast<std::ptrdiff_t>(colon),
                                  [](char byte) { return byte >= 'a' && byte <= 'z'; });
  return scheme ? database : "sqlite:" + database;
}

std::string path_of(const std::string& database) {
  const std::string url = url_of(database);
  return url.starts_with("sqlite:") ? url.substr(7) : std::string();
}

Store::Store(const std::string& database, Opening opening) {
  const std::string path = path_of(database);
  struct stat status {};
  if (opening != Opening::create && !path.empty() && stat(path.c_str(), &status) != 0) {
    throw Problem{kRefused, printable(path) + ": " + std::strerror(errno)};
  }
  const std::string url = url_of(database);
  open(url, opening == Opening::look_at_all ? NOCTER_TASKS_CHECK : 0);
  if (opening == Opening::look || opening == Opening::look_at_all) return;
  // Whether the workers of this store keep a log of what happens: then what is changed here belongs into it.
  nocter_event_list events{};
  const nocter_status read = nocter_events_read(handle_, 0, 1, nullptr, &events);
  nocter_event_list_free(&events);
  if (read != NOCTER_OK) return;
  nocter_tasks_close(handle_);
  open(url, NOCTER_TASKS_EVENTS);
}

// By hand: no thread, no upkeep, no claims. Workers do not notice it.
void Store::open(const std::string& url, std::uint32_t flags) {
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  const std::string node = "nocter tool " + std::to_string(getpid());
  options.flags = NOCTER_TASKS_BY_HAND | flags;
  options.node = text(node);
  options.maximum_json = 64U << 20;  // what workers have written with other limits is read all the same
  handle_ = nullptr;
  check(nocter_tasks_open(text(url), &options, &handle_));
}

Task Store::get(nocter_task_id id) const {
  const nocter_task* task = nullptr;
  check(nocter_tasks_get(handle_, id, &task));
  return Task(task);
}

TaskList Store::list(const nocter_task_filter& filter) const {
  nocter_task_list list{};
  check(nocter_tasks_list(handle_, &filter, &list));
  return TaskList(list);
}

void Store::each(nocter_task_filter filter, const std::function<bool(const nocter_task&)>& each) const {
  constexpr std::uint32_t kPage = 500;
  filter.limit = kPage;
  for (;;) {
    const TaskList page = list(filter);
    for (const nocter_task* task : page) {
      if (!each(*task)) return;
    }
    if (page.size() < kPage) return;
    filter.after = page[page.size() - 1].id;
  }
}

nocter_tasks_counts Store::counts() const {
  nocter_tasks_counts counts = NOCTER_TASKS_COUNTS_INIT;
  check(nocter_tasks_count(handle_, &counts));
  return counts;
}

nocter_task_id Store::find(const std::string& given) const {
  std::string digits;
  for (const char byte : given) {
    if (byte == '-') continue;
    if (std::strchr("0123456789abcdefABCDEF", byte) == nullptr || byte == '\0') digits.resize(33);
    if (digits.size() < 33) digits += byte;
  }
  if (digits.empty() || digits.size() > 32) throw Problem{kUsage, "'" + printable(given) + "' is no task's id"};
  const auto value = [&](std::size_t at) -> unsigned {
    if (at >= digits.size()) return 0;
    const char byte = digits[at];
    return static_cast<unsigned>(byte <= '9' ? byte - '0' : (byte | 0x20) - 'a' + 10);
  };
  nocter_task_id id{};
  for (std::size_t i = 0; i < 16; i++) id.bytes[i] = static_cast<std::uint8_t>(value(2 * i) << 4 | value(2 * i + 1));
  if (digits.size() == 32) return id;

  nocter_task_filter filter = any_task();
  filter.limit = 2;
  filter.after = id;  // the one before the first with this beginning
  for (std::size_t i = 16; i-- > 0 && filter.after.bytes[i]-- == 0;) {
  }
  if (is_none(id)) filter.after = {};
  const TaskList found = list(filter);
  const auto begins_so = [&](const nocter_task& task) {
    std::string plain = text_of(task.id);
    std::erase(plain, '-');
    std::string wanted = digits;
    for (char& byte : wanted) byte = byte >= 'A' && byte <= 'F' ? static_cast<char>(byte | 0x20) : byte;
    return plain.starts_with(wanted);
  };
  if (found.size() == 0 || !begins_so(found[0])) throw Problem{kRefused, "no task's id begins with '" + given + "'"};
  if (found.size() == 2 && begins_so(found[1])) {
    throw Problem{kRefused, "more than one task's id begins with '" + given + "': " + text_of(found[0].id) + ", " +
                                text_of(found[1].id) + " …"};
  }
  return found[0].id;
}

nocter_task_filter any_task() {
  nocter_task_filter filter = NOCTER_TASK_FILTER_INIT;
  return filter;
}

}  // namespace tool
