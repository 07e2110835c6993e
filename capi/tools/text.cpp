#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <cwchar>

namespace tool {
namespace {

struct Letter {
  char32_t code;     // 0xFFFFFFFF: no UTF-8
  std::size_t size;  // bytes
};

constexpr char32_t kInvalid = 0xFFFFFFFF;

// The first one of a text that is not empty; strict.
Letter first_letter(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return {kInvalid, 1};
  char32_t code = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; i++) {
    if ((byte(i) & 0xC0) != 0x80) return {kInvalid, 1};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[size] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {kInvalid, 1};
  return {code, size};
}

// What moves the cursor, turns text around or is not to be seen.
bool hidden(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x180E ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF0 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE0FFF);
}

std::string written_out(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), code < 0x80 ? "\\x%02x" : "\\u{%x}", static_cast<unsigned>(code));
  return text.data();
}

std::size_t columns_of(char32_t code) {
  const int columns = wcwidth(static_cast<wchar_t>(code));
  return columns < 0 ? 1 : static_cast<std::size_t>(columns);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [code, size] = first_letter(text);
    if (code == kInvalid) {
      std::array<char, 8> byte{};
      std::snprintf(byte.data(), byte.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[0])));
      result += byte.data();
    } else if (hidden(code)) {
      result += written_out(code);
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return result;
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const auto [code, size] = first_letter(text);
    columns += code == kInvalid ? 1 : columns_of(code);
    text.remove_prefix(size);
  }
  return columns;
}

std::string cut(std::string text, std::size_t columns) {
  if (columns == 0 || width(text) <= columns) return text;
  std::string_view rest = text;
  std::size_t used = 0;
  while (!rest.empty()) {
    const auto [code, size] = first_letter(rest);
    const std::size_t more = code == kInvalid ? 1 : columns_of(code);
    if (used + more >= columns) break;
    used += more;
    rest.remove_prefix(size);
  }
  text.resize(text.size() - rest.size());
  return text + "…";
}

std::string padded(std::string text, std::size_t columns) {
  const std::size_t used = width(text);
  if (used < columns) text.append(columns - used, ' ');
  return text;
}

std::string time_text(std::int64_t at_ms) {
  const std::time_t seconds = at_ms / 1000;
  std::tm parts{};
  std::array<char, 64> text{};
  if (localtime_r(&seconds, &parts) == nullptr) return std::to_string(at_ms) + " ms";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string duration_text(std::int64_t ms) {
  if (ms < 0) return "-" + duration_text(-std::max(ms, -INT64_MAX));
  if (ms < 1000) return std::to_string(ms) + " ms";
  struct Unit {
    std::int64_t ms;
    const char* one;
    const char* many;
  };
  constexpr std::array<Unit, 4> kUnits = {
      {{86400000, " day", " days"}, {3600000, " h", " h"}, {60000, " min", " min"}, {1000, " s", " s"}}};
  std::string result;
  for (std::size_t i = 0; i < kUnits.size(); i++) {
    const std::int64_t count = ms / kUnits[i].ms;
    if (count == 0) continue;
    result = std::to_string(count) + (count == 1 ? kUnits[i].one : kUnits[i].many);
    const std::int64_t next = i + 1 < kUnits.size() ? ms % kUnits[i].ms / kUnits[i + 1].ms : 0;
    if (next != 0) result += " " + std::to_string(next) + (next == 1 ? kUnits[i + 1].one : kUnits[i + 1].many);
    break;
  }
  return result;
}

std::optional<std::int64_t> parse_duration(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  std::int64_t factor = 0;
  if (unit == "ms") factor = 1;
  if (unit.empty() || unit == "s") factor = 1000;
  if (unit == "m" || unit == "min") factor = 60000;
  if (unit == "h") factor = 3600000;
  if (unit == "d") factor = 86400000;
  if (factor == 0 || number > INT64_MAX / factor) return std::nullopt;
  return number * factor;
}

std::optional<std::int64_t> parse_time(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number > 0) return number;
  for (const char* format : {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"}) {
    std::tm parts{};
    const char* rest = strptime(text.c_str(), format, &parts);
    if (rest == nullptr || *rest != '\0') continue;
    parts.tm_isdst = -1;
    return static_cast<std::int64_t>(std::mktime(&parts)) * 1000;
  }
  return std::nullopt;
}

std::string number_text(std::uint64_t number, std::string_view one, std::string_view many) {
  return std::to_string(number) + " " + std::string(number == 1 ? one : many);
}

std::int64_t now_ms() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

void Table::add(std::vector<std::string> row, std::string colour) {
  rows_.push_back({std::move(row), std::move(colour)});
}

std::string Table::text(std::size_t columns, bool colours) const {
  std::vector<std::size_t> widths;
  for (const auto& cell : head_) widths.push_back(width(cell));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); i++) widths[i] = std::max(widths[i], width(row.cells[i]));
  }
  std::size_t before = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); i++) before += widths[i] + 2;
  const std::size_t left = columns == 0 ? 0 : columns > before + 10 ? columns - before : 10;
  const auto line = [&](const std::vector<std::string>& cells, const std::string& colour) {
    std::string result;
    for (std::size_t i = 0; i + 1 < cells.size(); i++) {
      const bool coloured = i == 1 && colours && !colour.empty();
      result += (coloured ? colour : "") + padded(cells[i], widths[i]) + (coloured ? "\033[0m" : "") + "  ";
    }
    result += cut(cells.back(), left);
    result.erase(result.find_last_not_of(' ') + 1);
    return result + "\n";
  };
  std::string result = line(head_, "");
  if (colours) result = "\033[1m" + result.substr(0, result.size() - 1) + "\033[0m\n";
  for (const auto& row : rows_) result += line(row.cells, row.colour);
  return result;
}

}  // namespace tool
