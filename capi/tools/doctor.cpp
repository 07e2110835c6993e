// Whether a store is well: what the file system says of its files, what the library says when it opens it, what the records say.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "commands.hpp"
#include "json.hpp"
#include "text.hpp"

namespace tool {
namespace {

enum class Weight { fine, remark, wrong };

class Findings {
 public:
  void fine(std::string about, std::string words) { add(Weight::fine, std::move(about), std::move(words)); }
  void remark(std::string about, std::string words) { add(Weight::remark, std::move(about), std::move(words)); }
  void wrong(std::string about, std::string words) { add(Weight::wrong, std::move(about), std::move(words)); }
  bool bad() const {
    return std::any_of(findings_.begin(), findings_.end(),
                       [](const Finding& one) { return one.weight == Weight::wrong; });
  }
  void report(const Session& session) const {
    std::vector<std::string> items;
    for (const auto& [weight, about, words] : findings_) {
      const char* name = weight == Weight::fine ? "ok" : weight == Weight::remark ? "note" : "bad";
      const char* colour = weight == Weight::fine ? "\033[32m" : weight == Weight::remark ? "\033[33m" : "\033[1;31m";
      items.push_back(JsonObject().text("finding", name).text("about", about).text("words", words).done());
      if (session.json) continue;
      print((session.colours ? colour : "") + padded(name, 5) + (session.colours ? "\033[0m" : "") + padded(about, 12) +
            words + "\n");
    }
    if (session.json) print(JsonObject().truth("well", !bad()).raw("findings", json_array(items)).done() + "\n");
  }

 private:
  struct Finding {
    Weight weight;
    std::string about, words;
  };
  void add(Weight weight, std::string about, std::string words) {
    findings_.push_back({weight, std::move(about), std::move(words)});
  }
  std::vector<Finding> findings_;
};

// ---- Files ----------------------------------------------------------------------------------------------------------

std::string mode_text(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {" bytes", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  std::uint64_t rest = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); unit++) {
    rest = bytes % 1024;
    bytes /= 1024;
  }
  return std::to_string(bytes) + (unit == 0 ? "" : "." + std::to_string(rest * 10 / 1024)) + kUnits[unit];
}

void look_at_file(const std::string& path, const std::string& about, Findings& findings) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  const std::string name = printable(name_of(path));
  if (S_ISLNK(status.st_mode)) {
    findings.wrong(about, name + " is a symbolic link: whoever may change the link decides what is opened");
  } else if ((status.st_mode & 0077) != 0) {
    findings.remark(about, name + " has the mode " + mode_text(status.st_mode) +
                               ": others of this machine can read or change the tasks; chmod 600 ends that");
  } else {
    findings.fine(about, name + ", " + size_text(static_cast<std::uint64_t>(status.st_size)) + ", mode " +
                             mode_text(status.st_mode));
  }
  if (status.st_uid != geteuid() && geteuid() != 0) findings.remark(about, name + " belongs to another user");
}

void look_at_folder(const std::string& folder, Findings& findings) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) {
    findings.wrong("directory", printable(folder) + ": " + std::strerror(errno));
    return;
  }
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
    findings.wrong("directory", printable(folder) + " has the mode " + mode_text(status.st_mode) +
                                    ": everybody of this machine may replace the database");
  } else {
    findings.fine("directory", printable(folder) + ", mode " + mode_text(status.st_mode));
  }
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) == 0) {
    constexpr std::uint64_t kLittle = 64U << 20;
    const std::uint64_t left = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    if (left < kLittle) {
      findings.wrong("disk", size_text(left) + " are left: soon nothing can be written any more");
    } else {
      findings.fine("disk", size_text(left) + " are left");
    }
  }
}

std::uint32_t big_endian(const unsigned char* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | bytes[3];
}

// The head of the file, as the SQLite file format describes it. Read before the library opens the file: closing a descriptor of it
// afterwards would end the library's locks.
void look_at_head(const std::string& path, Findings& findings) {
  std::array<unsigned char, 100> head{};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    findings.wrong("database", printable(path) + ": " + std::strerror(errno));
    return;
  }
  const ssize_t size = pread(file, head.data(), head.size(), 0);
  close(file);
  if (size == 0) {
    findings.remark("database", "it is empty: opening it makes a new store");
    return;
  }
  if (size != static_cast<ssize_t>(head.size()) || std::memcmp(head.data(), "SQLite format 3", 16) != 0) {
    findings.wrong("database", "it is no SQLite database");
    return;
  }
  const std::uint32_t page =
      head[16] == 0 && head[17] == 1 ? 65536 : static_cast<std::uint32_t>(head[16] << 8 | head[17]);
  const std::uint32_t pages = big_endian(&head[28]), free_pages = big_endian(&head[36]);
  constexpr std::uint32_t kApplication = 0x6E6F6374;  // "noct"
  if (big_endian(&head[68]) == kApplication) {
    findings.fine("schema", "version " + std::to_string(big_endian(&head[60])));
  } else {
    findings.remark("schema",
                    "the head of the file does not say that it is nocter's; what is in the log beside it may");
  }
  if (head[18] == 2 && head[19] == 2) {
    findings.fine("journal", "write-ahead log: readers and the writer do not wait for each other");
  } else {
    findings.remark("journal", "no write-ahead log; opening the store switches it on");
  }
  if (pages != 0 && free_pages > pages / 2 && pages > 1000) {
    findings.remark("database", std::to_string(free_pages) + " of " + std::to_string(pages) + " pages of " +
                                    std::to_string(page) +
                                    " bytes are free: they will be used again; VACUUM would give them back");
  }
}

// Whether some process holds a lock on the file.
bool is_locked(const std::string& path) {
  struct flock lock {};
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool locked = fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(file);
  return locked;
}

// Beside the database lie SQLite's own files, and a folder with one file, which it holds locked, for each process that has it open.
void look_at_neighbours(const std::string& path, Findings& findings) {
  for (const char* end : {"-wal", "-shm", "-journal"}) look_at_file(path + end, "side file", findings);
  std::uint64_t held = 0, left = 0;
  const std::string place = path + ".nocter";
  if (DIR* folder = opendir(place.c_str())) {
    while (const dirent* entry = readdir(folder)) {
      if (entry->d_name[0] != '.') (is_locked(place + "/" + entry->d_name) ? held : left)++;
    }
    closedir(folder);
  }
  if (held != 0) {
    findings.fine("processes", number_text(held, "process has", "processes have") + " it open");
  } else {
    findings.remark("processes", "none has it open: nothing is run");
  }
  if (left != 0) {
    findings.remark("leftovers",
                    number_text(left, "process was", "processes were") +
                        " killed while it was open; what it ran is run again by the next one that works here");
  }
}

// ---- Records --------------------------------------------------------------------------------------------------------

void look_at_counts(const nocter_tasks_counts& counts, Findings& findings) {
  findings.fine("tasks", std::to_string(counts.queued) + " queued, " + std::to_string(counts.running) + " running, " +
                             std::to_string(counts.suspended) + " suspended, " + std::to_string(counts.completed) +
                             " completed, " + std::to_string(counts.failed) + " failed, " +
                             std::to_string(counts.cancelled) + " cancelled; " + std::to_string(counts.purged) +
                             " purged so far");
  if (counts.repairs != 0) {
    findings.wrong("wakes", number_text(counts.repairs, "wake was", "wakes were") +
                                " found lost and made up for: a defect of nocter, or of a disk; please report it");
  } else {
    findings.fine("wakes", "none was ever lost");
  }
  if (counts.rescues != 0) {
    findings.remark("rescues", number_text(counts.rescues, "round was", "rounds were") +
                                   " lost with a worker so far, which was killed or hung");
  } else {
    findings.fine("rescues", "no worker was ever lost");
  }
}

void look_at_queue(const Store& store, const nocter_tasks_counts& counts, Findings& findings) {
  constexpr std::int64_t kLong = 60000;
  constexpr std::uint64_t kCounted = 10000;
  if (counts.ready == 0) {
    findings.fine("queue", "nothing is due");
    return;
  }
  const std::int64_t age = now_ms() - counts.oldest_ready_ms;
  const std::string words = number_text(counts.ready, "task is", "tasks are") + " due; the oldest was submitted " +
                            duration_text(std::max<std::int64_t>(0, age)) + " ago";
  if (age < kLong) {
    findings.fine("queue", words);
    return;
  }
  std::map<std::string, std::uint64_t> unserved;
  nocter_task_filter filter = any_task();
  filter.status = NOCTER_TASK_QUEUED;
  std::uint64_t seen = 0;
  store.each(filter, [&](const nocter_task& task) {
    if (task.due_at_ms <= now_ms()) unserved[std::string(view(task.type))]++;
    return ++seen < kCounted;
  });
  filter.status = NOCTER_TASK_RUNNING;
  seen = 0;
  store.each(filter, [&](const nocter_task& task) {
    unserved.erase(std::string(view(task.type)));
    return ++seen < kCounted;
  });
  std::string types;
  for (const auto& [type, count] : unserved) {
    types +=
        (types.empty() ? "; nobody works on the type " : ", ") + printable(type) + " (" + std::to_string(count) + ")";
  }
  findings.remark("queue", words + types);
}

void look_at_running(const Store& store, Findings& findings) {
  nocter_task_filter filter = any_task();
  std::uint64_t lost = 0;
  std::string example;
  filter.status = NOCTER_TASK_RUNNING;
  store.each(filter, [&](const nocter_task& task) {
    if (task.lease_until_ms >= now_ms()) return true;
    lost++;
    if (example.empty()) example = text_of(task.id);
    return true;
  });
  if (lost != 0) {
    findings.remark("leases", number_text(lost, "task", "tasks") + " of workers that give no sign of life, " + example +
                                  " for one: the next process that has the store open runs them again");
  }
}

// What must hold for every record, whatever happened.
std::string contradiction_of(const nocter_task& task) {
  if (has_ended(task) != (task.ended_at_ms != 0)) return "its status and the time of its end contradict each other";
  if (task.open_children > task.children) return "it has more open children than children";
  if (task.status == NOCTER_TASK_RUNNING && task.node.size == 0) return "it runs, and on no node";
  if (task.status != NOCTER_TASK_SUSPENDED) return {};
  if (task.messages != 0) return "it is parked, and has a message";
  if (task.until != NOCTER_UNTIL_NOTIFIED && task.waiting_open == 0 && task.due_at_ms == 0)
    return "it is parked, and waits for nothing";
  return {};
}

void look_at_records(const Store& store, Findings& findings) {
  std::uint64_t seen = 0, bad = 0;
  const std::int64_t now = now_ms();
  std::string newest;
  store.each(any_task(), [&](const nocter_task& task) {
    constexpr std::uint64_t kNamed = 10;
    constexpr std::int64_t kSkew = 60000;
    const std::string contradiction = contradiction_of(task);
    seen++;
    if (!contradiction.empty() && ++bad <= kNamed) findings.wrong("record", text_of(task.id) + ": " + contradiction);
    if (task.created_at_ms > now + kSkew) newest = text_of(task.id);
    return true;
  });
  if (!newest.empty())
    findings.remark("clock", newest + " was submitted in the future: the clock of this machine has gone back");
  if (bad == 0) findings.fine("records", number_text(seen, "record", "records") + " read, and none contradicts itself");
}

}  // namespace

int doctor(const Session& session, bool full) {
  Findings findings;
  const std::string path = path_of(session.database);
  if (!path.empty()) {
    look_at_folder(folder_of(path), findings);
    look_at_file(path, "database", findings);
    look_at_head(path, findings);
    look_at_neighbours(path, findings);
  }
  try {
    const Store store(session.database, full ? Opening::look_at_all : Opening::look);
    findings.fine("opening", std::string("nocter ") + nocter_version() + " opens it");
    if (full) findings.fine("database", "every page was read, and none is damaged");
    const auto counts = store.counts();
    look_at_counts(counts, findings);
    look_at_queue(store, counts, findings);
    look_at_running(store, findings);
    if (full)
      look_at_records(store, findings);
    else
      findings.fine("records", "not read one by one; doctor --full does, and looks for damage everywhere");
  } catch (const Problem& problem) {
    findings.wrong("opening", printable(problem.message));
  }
  findings.report(session);
  return findings.bad() ? kRefused : 0;
}

}  // namespace tool
