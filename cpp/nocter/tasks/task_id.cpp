#include "nocter/tasks/task_id.hpp"

#include "nocter/base/monitor.hpp"

namespace nocter::tasks {

namespace {

// The first 60 bits that matter of the last one made: its millisecond, and a count of twelve bits below it. When more than that come in one
// millisecond they borrow from the next one, as RFC 9562 allows.
constinit base::Atomic<uint64_t> last_made{0};

uint64_t next_made() {
  const uint64_t by_clock = static_cast<uint64_t>(base::wall_now_ms()) << 12;
  uint64_t last = last_made.load();
  while (true) {
    const uint64_t made = by_clock > last ? by_clock : last + 1;
    if (last_made.compare_exchange(last, made)) return made;
  }
}

constexpr bool dash_before(size_t byte) { return byte == 4 || byte == 6 || byte == 8 || byte == 10; }

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

TaskId make_task_id() {
  TaskId id;
  // Bytes 8 to 15 are random but for the variant.
  if (!base::random_bytes(id.bytes.data() + 8, 8)) return TaskId{};
  const uint64_t made = next_made();
  for (size_t i = 0; i < 6; i++) id.bytes[i] = static_cast<uint8_t>(made >> (52 - 8 * i));
  id.bytes[6] = static_cast<uint8_t>(0x70 | (made >> 8 & 0x0f));
  id.bytes[7] = static_cast<uint8_t>(made);
  id.bytes[8] = static_cast<uint8_t>((id.bytes[8] & 0x3f) | 0x80);
  return id;
}

bool parse_task_id(std::string_view text, TaskId& out) {
  out = TaskId{};
  if (text.size() != kTaskIdText) return false;
  TaskId id;
  size_t at = 0;
  for (size_t i = 0; i < id.bytes.size(); i++) {
    if (dash_before(i) && text[at++] != '-') return false;
    const int high = digit(text[at]), low = digit(text[at + 1]);
    if (high < 0 || low < 0) return false;
    id.bytes[i] = static_cast<uint8_t>(high << 4 | low);
    at += 2;
  }
  out = id;
  return true;
}

void write_task_id(const TaskId& id, char* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < id.bytes.size(); i++) {
    if (dash_before(i)) *out++ = '-';
    *out++ = kDigits[id.bytes[i] >> 4];
    *out++ = kDigits[id.bytes[i] & 15];
  }
}

std::string to_text(const TaskId& id) {
  std::string text(kTaskIdText, '\0');
  write_task_id(id, text.data());
  return text;
}

}  // namespace nocter::tasks
