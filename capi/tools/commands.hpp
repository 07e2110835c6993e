// What each command of the tool does, once its arguments have been read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "records.hpp"

namespace tool {

// What holds for every command.
struct Session {
  std::string database;  // a path or a URL
  bool json = false;
  bool colours = false;
  std::size_t columns = 0;  // of the terminal; 0: standard output is none
  std::size_t rows = 0;
};

// Writes to standard output; throws when that cannot be written to.
void print(std::string_view text);
void flush();

// The escape sequence for a status, or empty.
std::string colour_of(const Session& session, nocter_task_status status);
std::string status_text(const Session& session, nocter_task_status status);

struct ListOptions {
  std::string status, type, parent, root, after;
  bool roots_only = false;
  std::uint32_t limit = 100;
};
void list(const Session& session, const ListOptions& options);
void show(const Session& session, const std::string& id);

struct TreeOptions {
  std::string id;  // empty: every root
  std::uint32_t depth = 20;
  std::uint32_t children = 50;  // shown of one task
};
void tree(const Session& session, const TreeOptions& options);

void why(const Session& session, const std::string& id);

struct SubmitOptions {
  std::string type, payload = "{}", key, key_scope = "live", parent, id, after, at;
  std::int32_t priority = 0;
  bool priority_given = false, create = false;
  std::uint32_t attempts = 1;
};
void submit(const Session& session, const SubmitOptions& options);
void notify(const Session& session, const std::string& id, const std::string& payload);
void cancel(const Session& session, const std::string& id);
void retry(const Session& session, const std::string& id);
void purge(const Session& session, const std::string& older_than, bool all);

struct WatchOptions {
  std::string id;  // empty: the whole store
  bool once = false;
  std::string interval = "1s";
};
void watch(const Session& session, const WatchOptions& options);

struct EventsOptions {
  std::uint64_t after = 0;
  std::uint64_t limit = 0;  // 0: all
  bool follow = false;
  std::string id;  // empty: of every task
};
void events(const Session& session, const EventsOptions& options);

// 0, or kRefused when something is wrong.
int doctor(const Session& session, bool full);

// Sleeps; false as soon as the user has pressed Ctrl-C.
bool pause(std::int64_t ms);

}  // namespace tool
