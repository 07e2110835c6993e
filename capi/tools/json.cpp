#include "json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "records.hpp"
#include "text.hpp"

namespace tool {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') {
      result += '\\';
      result += byte;
    } else if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(byte));
      result += code.data();
    } else {
      result += byte;
    }
  }
  return result + "\"";
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (text_.size() > 1) text_ += ",";
  text_ += quoted(name);
  text_ += ":";
  text_ += json.empty() ? "null" : json;
  return *this;
}

JsonObject& JsonObject::text_or_null(std::string_view name, std::string_view value) {
  return raw(name, value.empty() ? std::string() : quoted(value));
}

JsonObject& JsonObject::time(std::string_view name, std::int64_t at_ms) {
  return raw(name, at_ms == 0 ? std::string() : std::to_string(at_ms));
}

std::string json_array(const std::vector<std::string>& items) {
  std::string result = "[";
  for (const auto& item : items) {
    if (result.size() > 1) result += ",";
    result += item;
  }
  return result + "]";
}

std::string on_one_line(std::string json) {
  std::replace_if(
      json.begin(), json.end(), [](char byte) { return byte == '\n' || byte == '\r'; }, ' ');
  return json;
}

std::string json_of(const nocter_task& task) {
  std::string failure;
  if (task.failure.kind.size != 0) {
    failure = JsonObject()
                  .text("kind", view(task.failure.kind))
                  .text("message", view(task.failure.message))
                  .text("detail", view(task.failure.detail))
                  .count("attempt", task.failure.attempt)
                  .text_or_null("node", view(task.failure.node))
                  .time("at_ms", task.failure.at_ms)
                  .done();
  }
  std::vector<std::string> waiting_for;
  for (std::size_t i = 0; i < task.waiting_for_count; i++) waiting_for.push_back(quoted(text_of(task.waiting_for[i])));
  return JsonObject()
      .text("id", text_of(task.id))
      .text("status", nocter_task_status_name(task.status))
      .text("type", view(task.type))
      .text_or_null("key", view(task.key))
      .text("key_scope", key_scope_name(task.key_scope))
      .text_or_null("parent", is_none(task.parent) ? std::string() : text_of(task.parent))
      .text("root", text_of(task.root))
      .number("priority", task.priority)
      .count("attempt", task.attempt)
      .count("max_attempts", task.max_attempts)
      .count("deliveries", task.deliveries)
      .count("rescues", task.rescues)
      .text("woken_by", wake_name(task.woken_by))
      .truth("resumed", task.resumed != 0)
      .truth("cancel_requested", task.cancel_requested != 0)
      .text("until", until_name(task.until))
      .count("fence", task.fence)
      .time("created_at_ms", task.created_at_ms)
      .time("due_at_ms", task.due_at_ms)
      .time("started_at_ms", task.started_at_ms)
      .time("ended_at_ms", task.ended_at_ms)
      .text_or_null("node", view(task.node))
      .time("lease_until_ms", task.status == NOCTER_TASK_RUNNING ? task.lease_until_ms : 0)
      .count("children", task.children)
      .count("open_children", task.open_children)
      .count("messages", task.messages)
      .raw("waiting_for", json_array(waiting_for))
      .count("waiting_open", task.waiting_open)
      .count("waiting_need", task.waiting_need)
      .truth("wake_on_failure", task.wake_on_failure != 0)
      .raw("payload", view(task.payload))
      .raw("state", view(task.state))
      .raw("result", view(task.result))
      .raw("failure", failure)
      .done();
}

std::string json_of(const nocter_event& event) {
  return JsonObject()
      .count("sequence", event.sequence)
      .number("at_ms", event.at_ms)
      .text("task", text_of(event.task))
      .text("event", event_name(event.kind))
      .text("status", nocter_task_status_name(event.status))
      .count("attempt", event.attempt)
      .text("type", view(event.type))
      .raw("data", view(event.data))
      .done();
}

std::string json_of(const nocter_tasks_counts& counts) {
  return JsonObject()
      .count("queued", counts.queued)
      .count("running", counts.running)
      .count("suspended", counts.suspended)
      .count("completed", counts.completed)
      .count("failed", counts.failed)
      .count("cancelled", counts.cancelled)
      .count("ready", counts.ready)
      .time("oldest_ready_ms", counts.oldest_ready_ms)
      .count("rescues", counts.rescues)
      .count("repairs", counts.repairs)
      .count("purged", counts.purged)
      .done();
}

// ---- Looking into the JSON of others: it is valid, for the store takes nothing else ----------------------------------

namespace {

void skip_blanks(std::string_view json, std::size_t& at) {
  while (at < json.size() && (json[at] == ' ' || json[at] == '\t' || json[at] == '\n' || json[at] == '\r')) at++;
}

void skip_string(std::string_view json, std::size_t& at) {
  for (at++; at < json.size() && json[at] != '"'; at++) {
    if (json[at] == '\\') at++;
  }
  at = std::min(at + 1, json.size());
}

void skip_value(std::string_view json, std::size_t& at) {
  std::size_t depth = 0;
  while (at < json.size()) {
    const char byte = json[at];
    if (byte == '"') {
      skip_string(json, at);
      continue;
    }
    if (depth == 0 && (byte == ',' || byte == '}' || byte == ']')) return;
    if (byte == '{' || byte == '[') depth++;
    if (byte == '}' || byte == ']') depth--;
    at++;
  }
}

std::optional<double> number_of(const std::vector<Member>& members, std::string_view name) {
  for (const auto& member : members) {
    double number = 0;
    if (member.name != name) continue;
    const auto [end, error] = std::from_chars(member.value.data(), member.value.data() + member.value.size(), number);
    if (error == std::errc() && end == member.value.data() + member.value.size()) return number;
  }
  return std::nullopt;
}

std::optional<double> progress_of(const std::vector<Member>& members) {
  const auto done = number_of(members, "done");
  for (const char* name : {"total", "of"}) {
    const auto total = number_of(members, name);
    if (done && total && *total > 0) return *done / *total;
  }
  if (const auto progress = number_of(members, "progress")) return *progress > 1 ? *progress / 100 : *progress;
  if (const auto percent = number_of(members, "percent")) return *percent / 100;
  return std::nullopt;
}

std::string bar(double progress) {
  constexpr std::size_t kColumns = 20;
  const double share = std::isfinite(progress) ? std::clamp(progress, 0.0, 1.0) : 0;
  const auto full = static_cast<std::size_t>(share * kColumns);
  std::array<char, 16> percent{};
  std::snprintf(percent.data(), percent.size(), "] %3.0f %%", std::floor(share * 100));
  return "[" + std::string(full, '=') + std::string(kColumns - full, ' ') + percent.data();
}

}  // namespace

std::vector<Member> members_of(std::string_view json) {
  std::vector<Member> members;
  std::size_t at = 0;
  skip_blanks(json, at);
  if (at >= json.size() || json[at] != '{') return members;
  at++;
  for (;;) {
    skip_blanks(json, at);
    if (at >= json.size() || json[at] != '"') return members;
    const std::size_t name = at + 1;
    skip_string(json, at);
    const std::size_t name_end = at - 1;
    skip_blanks(json, at);
    at++;  // the colon
    skip_blanks(json, at);
    const std::size_t value = at;
    skip_value(json, at);
    if (value > json.size() || name_end < name) return members;
    std::string_view text = json.substr(value, at - value);
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    members.push_back({json.substr(name, name_end - name), text});
    if (at >= json.size() || json[at] != ',') return members;
    at++;
  }
}

std::string summary_of(std::string_view json) {
  const auto members = members_of(json);
  const auto progress = progress_of(members);
  std::string result = progress ? bar(*progress) : std::string();
  if (members.empty()) return result + printable(on_one_line(std::string(json)));
  for (const auto& member : members) {
    const bool string = member.value.size() >= 2 && member.value.front() == '"';
    const std::string_view value = string ? member.value.substr(1, member.value.size() - 2) : member.value;
    if (!result.empty()) result += " ";
    result += printable(member.name) + "=" + printable(on_one_line(std::string(value)));
  }
  return result;
}

}  // namespace tool
