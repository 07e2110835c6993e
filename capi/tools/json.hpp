// JSON as it is handed out for programs, and a first look into the JSON of others for people.
#pragma once

#include <nocter/tasks.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

std::string quoted(std::string_view text);

// An object that is written member by member.
class JsonObject {
 public:
  JsonObject& text(std::string_view name, std::string_view value) { return raw(name, quoted(value)); }
  // null when it is empty.
  JsonObject& text_or_null(std::string_view name, std::string_view value);
  JsonObject& number(std::string_view name, std::int64_t value) { return raw(name, std::to_string(value)); }
  JsonObject& count(std::string_view name, std::uint64_t value) { return raw(name, std::to_string(value)); }
  // null when it is 0.
  JsonObject& time(std::string_view name, std::int64_t at_ms);
  JsonObject& truth(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  // JSON already; null when it is empty.
  JsonObject& raw(std::string_view name, std::string_view json);
  std::string done() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

std::string json_array(const std::vector<std::string>& items);

// Without line ends: between tokens they mean nothing, and in strings there are none.
std::string on_one_line(std::string json);

std::string json_of(const nocter_task& task);
std::string json_of(const nocter_event& event);
std::string json_of(const nocter_tasks_counts& counts);

struct Member {
  std::string_view name;   // as it stands between its quotes
  std::string_view value;  // JSON
};

// The members of an object; none when it is something else.
std::vector<Member> members_of(std::string_view json);

// A state in few words: "[=====     ] 50 %" when it has done and total, progress or percent, then its members.
std::string summary_of(std::string_view json);

}  // namespace tool
