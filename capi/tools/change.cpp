#include <cstdio>

#include "commands.hpp"
#include "json.hpp"
#include "text.hpp"

namespace tool {
namespace {

// "-" stands for what comes on standard input.
std::string json_argument(const std::string& given) {
  if (given != "-") return given;
  std::string text;
  for (int byte = std::getchar(); byte != EOF; byte = std::getchar()) text += static_cast<char>(byte);
  if (std::ferror(stdin) != 0) throw Problem{kRefused, "standard input cannot be read"};
  return text;
}

void print_id(const Session& session, nocter_task_id id) {
  print(session.json ? JsonObject().text("id", text_of(id)).done() + "\n" : text_of(id) + "\n");
}

std::int64_t run_after(const SubmitOptions& options) {
  if (!options.after.empty()) {
    const auto delay = parse_duration(options.after);
    if (!delay) throw Problem{kUsage, "'" + printable(options.after) + "' is no duration: 30s, 5m, 2h, 7d, 500ms"};
    return now_ms() + *delay;
  }
  if (options.at.empty()) return 0;
  const auto at = parse_time(options.at);
  if (!at)
    throw Problem{kUsage, "'" + printable(options.at) + "' is no time: 2026-03-01 12:00:00, or a Unix time in ms"};
  return *at;
}

nocter_key_scope scope_of(const std::string& name) {
  for (const nocter_key_scope scope : {NOCTER_KEY_LIVE_TYPE, NOCTER_KEY_PARENT, NOCTER_KEY_TREE}) {
    if (name == key_scope_name(scope)) return scope;
  }
  throw Problem{kUsage, "'" + printable(name) + "' is no scope: live, parent, tree"};
}

}  // namespace

void submit(const Session& session, const SubmitOptions& options) {
  const std::string payload = json_argument(options.payload);
  nocter_submission submission = NOCTER_SUBMISSION_INIT;
  submission.run_after_ms = run_after(options);
  submission.key_scope = scope_of(options.key_scope);
  if (!options.id.empty() && nocter_task_id_parse(text(options.id), &submission.id) != NOCTER_OK) {
    throw Problem{kUsage, "'" + printable(options.id) + "' is no UUID"};
  }
  const Store store(session.database, options.create ? Opening::create : Opening::change);
  submission.type = text(options.type);
  submission.payload = text(payload);
  submission.key = text(options.key);
  submission.priority = options.priority;
  submission.flags = options.priority_given ? NOCTER_SUBMIT_PRIORITY : 0;
  submission.max_attempts = options.attempts;
  if (!options.parent.empty()) submission.parent = store.find(options.parent);
  nocter_task_id id{};
  const nocter_status status = nocter_tasks_submit(store.handle(), &submission, 1, &id);
  check(status);
  if (status == NOCTER_EXISTS) throw Problem{kRefused, "the key is taken by " + text_of(id)};
  if (status == NOCTER_CANCELLED) throw Problem{kRefused, "the parent was cancelled"};
  print_id(session, id);
}

void notify(const Session& session, const std::string& id, const std::string& payload) {
  const std::string message = json_argument(payload);
  const Store store(session.database, Opening::change);
  const nocter_task_id task = store.find(id);
  check(nocter_tasks_notify(store.handle(), task, {}, text(message)));
  if (session.json) print_id(session, task);
}

void cancel(const Session& session, const std::string& id) {
  const Store store(session.database, Opening::change);
  const nocter_task_id task = store.find(id);
  std::uint64_t touched = 0;
  check(nocter_tasks_cancel(store.handle(), task, &touched));
  print(session.json ? JsonObject().text("id", text_of(task)).count("touched", touched).done() + "\n"
                     : number_text(touched, "task", "tasks") + " ended or asked to end\n");
}

void retry(const Session& session, const std::string& id) {
  const Store store(session.database, Opening::change);
  nocter_task_id again{};
  const nocter_status status = nocter_tasks_retry(store.handle(), store.find(id), &again);
  check(status);
  if (status == NOCTER_EXISTS) throw Problem{kRefused, "a task that has not ended has its key"};
  print_id(session, again);
}

void purge(const Session& session, const std::string& older_than, bool all) {
  const auto age = all ? std::optional<std::int64_t>(0) : parse_duration(older_than);
  if (older_than.empty() && !all) throw Problem{kUsage, "purge needs --older-than DURATION or --all"};
  if (!age) throw Problem{kUsage, "'" + printable(older_than) + "' is no duration: 30s, 5m, 2h, 7d, 500ms"};
  const Store store(session.database, Opening::change);
  std::uint64_t removed = 0;
  check(nocter_tasks_purge(store.handle(), *age, &removed));
  print(session.json ? JsonObject().count("removed", removed).done() + "\n"
                     : number_text(removed, "task", "tasks") + " removed\n");
}

}  // namespace tool
