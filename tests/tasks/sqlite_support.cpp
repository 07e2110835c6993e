#include "tasks/sqlite_support.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace nocter_tests {

Folder::Folder() {
  std::string pattern = (access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
                        "/nocter-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for a test");
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

unsigned mode_of(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0170000;
}

namespace {

struct Database {
  explicit Database(const std::string& path) {
    if (sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) != SQLITE_OK) {
      throw std::runtime_error("cannot open " + path);
    }
    sqlite3_busy_timeout(handle, 10'000);
  }
  ~Database() { sqlite3_close(handle); }
  std::string ask(const std::string& sql) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
      return std::string("error: ") + sqlite3_errmsg(handle);
    }
    std::string out;
    const int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
      const unsigned char* text = sqlite3_column_text(statement, 0);
      if (text != nullptr) out = reinterpret_cast<const char*>(text);
    } else if (code != SQLITE_DONE) {
      out = std::string("error: ") + sqlite3_errmsg(handle);
    }
    sqlite3_finalize(statement);
    return out;
  }
  sqlite3* handle = nullptr;
};

}  // namespace

void run_sql(const std::string& path, const std::string& sql) {
  const Database database(path);
  if (sqlite3_exec(database.handle, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(database.handle));
  }
}

std::string ask_sql(const std::string& path, const std::string& sql) { return Database(path).ask(sql); }

std::string inconsistency(const std::string& path) {
  const Database database(path);
  const std::string integrity = database.ask("PRAGMA integrity_check");
  if (integrity != "ok") return "SQLite: " + integrity;
  if (database.ask("SELECT count(*) FROM sqlite_schema") == "0") return {};  // it was never used
  // Each finds the number of a task, or of something else, with which something is wrong.
  static constexpr std::pair<const char*, const char*> kQuestions[] = {
      {"I-01: ended is when a task is in an end phase",
       "SELECT number FROM task WHERE (phase >= 5) <> (ended_at <> 0)"},
      {"a place that is not the task's",
       "SELECT number FROM task WHERE (place, rank) <> (CASE phase WHEN 1 THEN type WHEN 3 THEN node WHEN 2 THEN "
       "ifnull(due_at, "
       "9223372036854775807) WHEN 4 THEN ifnull(due_at, 9223372036854775807) ELSE ifnull(tree_ended_at, "
       "9223372036854775807) END, "
       "CASE phase WHEN 1 THEN -priority WHEN 3 THEN claim ELSE 0 END)"},
      {"a number that could come again",
       "SELECT number FROM message WHERE number > (SELECT value FROM counter WHERE name = 'last_message')"},
      {"I-03: a suspended task with mail", "SELECT number FROM task WHERE phase = 4 AND mail > 0"},
      {"I-03: a suspended task whose join is fulfilled",
       "SELECT number FROM task WHERE phase = 4 AND until IN (1, 2) AND need <= 0"},
      {"I-04: an edge at one that has ended",
       "SELECT waiter FROM edge LEFT JOIN task a ON a.number = waiter LEFT JOIN task b ON b.number = target "
       "WHERE a.number IS NULL OR b.number IS NULL OR a.ended_at <> 0 OR b.ended_at <> 0"},
      {"I-04: the counter of edges",
       "SELECT number FROM task WHERE until = 1 AND ended_at = 0 AND open <> (SELECT count(*) FROM edge WHERE waiter = "
       "number)"},
      {"counters of children",
       "SELECT number FROM task p WHERE children <> (SELECT count(*) FROM task c WHERE c.parent = p.number) OR "
       "open_children <> (SELECT count(*) FROM task c WHERE c.parent = p.number AND c.ended_at = 0) OR failed_children "
       "<> "
       "(SELECT count(*) FROM task c WHERE c.parent = p.number AND c.phase IN (6, 7))"},
      {"the counter of a tree",
       "SELECT number FROM task r WHERE parent = 0 AND tree_open <> (SELECT count(*) FROM task m WHERE m.root = "
       "r.number AND "
       "m.ended_at = 0)"},
      {"a counter of mail",
       "SELECT number FROM task t WHERE mail <> (SELECT count(*) FROM message m WHERE m.task = t.number) OR mail_bytes "
       "<> "
       "(SELECT ifnull(sum(length(CAST(payload AS BLOB))), 0) FROM message m WHERE m.task = t.number)"},
      {"which texts a task has",
       "SELECT number FROM task WHERE (texts & 1 <> 0) <> EXISTS (SELECT 1 FROM task_payload t WHERE t.task = number) "
       "OR "
       "(texts & 2 <> 0) <> EXISTS (SELECT 1 FROM task_state t WHERE t.task = number) OR "
       "(texts & 4 <> 0) <> EXISTS (SELECT 1 FROM task_result t WHERE t.task = number) OR "
       "(texts & 8 <> 0) <> EXISTS (SELECT 1 FROM task_failure t WHERE t.task = number)"},
      {"something of a task that is gone",
       "SELECT task FROM (SELECT task FROM message UNION SELECT task FROM message_key UNION SELECT task FROM step "
       "UNION "
       "SELECT task FROM key UNION SELECT task FROM task_payload UNION SELECT task FROM task_state UNION SELECT task "
       "FROM "
       "task_result UNION SELECT task FROM task_failure) WHERE task NOT IN (SELECT number FROM task)"},
      {"I-13: a gap in the events",
       "SELECT 1 FROM (SELECT max(sequence) - min(sequence) + 1 AS span, count(*) AS n FROM event) WHERE span <> n"},
      {"a claim of no node", "SELECT number FROM task WHERE phase = 3 AND node NOT IN (SELECT number FROM node)"},
  };
  for (const auto& [what, question] : kQuestions) {
    const std::string found = database.ask(question);
    if (!found.empty()) return std::string(what) + ": " + found;
  }
  return {};
}

std::pair<Status, std::string> refusal(const std::string& path, const stores::SqliteTuning& tuning) {
  try {
    stores::open_sqlite(path, tasks::StoreOptions{}, tuning);
  } catch (const tasks::StoreError& error) {
    return {error.status, error.what()};
  }
  return {Status::ok, {}};
}

// ---- Hand -----------------------------------------------------------------------------------------------------------

int64_t Hand::join(const std::string& instance, int64_t lease_ms) {
  tasks::Register node{"test", instance, lease_ms, 0};
  return ask(node) == Status::ok ? node.node : 0;
}

Status Hand::submit(const tasks::TaskId& id, const std::string& type, const std::string& payload,
                    const tasks::TaskId& parent, const std::string& key) {
  tasks::Submit submit;
  tasks::Submission& task = submit.tasks.emplace_back();
  task.id = id;
  task.type = type;
  task.payload = payload;
  task.parent = parent;
  task.key = key;
  return ask(submit);
}

tasks::ClaimedTask Hand::claim(int64_t node) {
  tasks::Claim claim;
  claim.number = (static_cast<uint64_t>(node) << 32) + ++claims_;
  claim.node = node;
  return ask(claim) == Status::ok && !claim.tasks.empty() ? claim.tasks.front() : tasks::ClaimedTask{};
}

Status Hand::done(const tasks::Claimed& claimed, const std::string& result) {
  tasks::Settle settle;
  settle.by = claimed;
  settle.result = result;
  return ask(settle);
}

Status Hand::park(const tasks::Claimed& claimed, tasks::Until until) {
  tasks::Settle settle;
  settle.by = claimed;
  settle.outcome = tasks::Outcome::suspend;
  settle.suspension.until = until;
  return ask(settle);
}

Status Hand::state(const tasks::Claimed& claimed, const std::string& state) {
  tasks::UpdateState update{claimed, state};
  return ask(update);
}

Status Hand::notify(const tasks::TaskId& to, const std::string& payload, const std::string& key) {
  tasks::Notify notify;
  notify.to = to;
  notify.payload = payload;
  notify.key = key;
  return ask(notify);
}

Status Hand::cancel(const tasks::TaskId& id) {
  tasks::Cancel cancel;
  cancel.id = id;
  return ask(cancel);
}

tasks::Record Hand::record(const tasks::TaskId& id) {
  tasks::Record out;
  const tasks::Answer answer = store_->get(id, out);
  message = answer.message;
  return answer.status == Status::ok ? out : tasks::Record{};
}

tasks::Counts Hand::counts() {
  tasks::Counts out;
  store_->count(out);
  return out;
}

}  // namespace nocter_tests
