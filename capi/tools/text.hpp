// Text for people: no control characters, columns that stand under each other, times and durations in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

// One line that does nothing to a terminal: control characters, invisible marks and bytes that are no UTF-8 are written out.
std::string printable(std::string_view text);

// Columns that a printable text takes on a terminal.
std::size_t width(std::string_view text);

// At most so many columns, the last one an ellipsis when something is left out. 0: all of it.
std::string cut(std::string text, std::size_t columns);

// Filled up with blanks.
std::string padded(std::string text, std::size_t columns);

// "2026-03-01 12:00:00", as the clock on the wall says.
std::string time_text(std::int64_t at_ms);

// "350 ms", "12 s", "5 min", "3 h", "12 days": the two largest units.
std::string duration_text(std::int64_t ms);

// "30s", "5m", "2h", "7d", "500ms", "90" (seconds), in milliseconds.
std::optional<std::int64_t> parse_duration(std::string_view text);

// "2026-03-01 12:00:00", the T between them or the seconds as one likes, or a Unix time in milliseconds.
std::optional<std::int64_t> parse_time(const std::string& text);

std::string number_text(std::uint64_t number, std::string_view one, std::string_view many);

std::int64_t now_ms();

// Rows under a head; the last column takes what is left of the width.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : head_(std::move(head)) {}
  // `colour` is an escape sequence for the cell in the second column, or empty.
  void add(std::vector<std::string> row, std::string colour = {});
  std::string text(std::size_t columns, bool colours) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string colour;
  };
  std::vector<std::string> head_;
  std::vector<Row> rows_;
};

}  // namespace tool
