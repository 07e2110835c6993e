// Makes identities of tasks, and reads and writes them as text.
#pragma once

#include <string>
#include <string_view>

#include "nocter/tasks/model.hpp"

namespace nocter::tasks {

// A UUID version 7 that nobody else has; later ones of this process are greater. None when the kernel gives no random bytes.
TaskId make_task_id();

inline constexpr size_t kTaskIdText = 36;
// 8-4-4-4-12 hexadecimal digits of either case; false, and none, when it is anything else.
bool parse_task_id(std::string_view text, TaskId& out);
void write_task_id(const TaskId& id, char* out);  // kTaskIdText bytes, no NUL
std::string to_text(const TaskId& id);

}  // namespace nocter::tasks
