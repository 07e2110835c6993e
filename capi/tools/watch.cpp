#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <map>

#include "commands.hpp"
#include "json.hpp"
#include "text.hpp"

namespace tool {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) { interrupted = 1; }

// From here on Ctrl-C ends the loop, and the store is closed as it should be.
void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

bool pause(std::int64_t ms) {
  std::timespec left{ms / 1000, ms % 1000 * 1000000};
  while (interrupted == 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  return interrupted == 0;
}

namespace {

constexpr std::size_t kRows = 30;          // without a terminal that says how many fit
constexpr std::uint64_t kCounted = 20000;  // members of a tree that are counted in one look

struct Picture {
  nocter_tasks_counts counts{};
  bool whole = true;  // whether the counts are of all
  std::vector<Task> active;
};

// What runs, then what is parked, then what waits for a worker.
int rank_of(nocter_task_status status) {
  return status == NOCTER_TASK_RUNNING ? 0 : status == NOCTER_TASK_SUSPENDED ? 1 : 2;
}

void add_active(const Store& store, nocter_task_filter filter, std::size_t rows, Picture& picture) {
  for (const nocter_task_status status : {NOCTER_TASK_RUNNING, NOCTER_TASK_SUSPENDED, NOCTER_TASK_QUEUED}) {
    filter.status = status;
    store.each(filter, [&](const nocter_task& task) {
      if (picture.active.size() >= rows) return false;
      picture.active.push_back(store.get(task.id));
      return true;
    });
  }
}

void count_tree(const Store& store, nocter_task_id root, Picture& picture) {
  nocter_task_filter filter = any_task();
  std::map<nocter_task_status, std::uint64_t> counts;
  std::uint64_t seen = 0;
  filter.root = root;
  store.each(filter, [&](const nocter_task& task) {
    counts[task.status]++;
    return ++seen < kCounted;
  });
  picture.whole = seen < kCounted;
  picture.counts.queued = counts[NOCTER_TASK_QUEUED];
  picture.counts.running = counts[NOCTER_TASK_RUNNING];
  picture.counts.suspended = counts[NOCTER_TASK_SUSPENDED];
  picture.counts.completed = counts[NOCTER_TASK_COMPLETED];
  picture.counts.failed = counts[NOCTER_TASK_FAILED];
  picture.counts.cancelled = counts[NOCTER_TASK_CANCELLED];
}

Picture take_picture(const Store& store, nocter_task_id root, std::size_t rows) {
  Picture picture;
  nocter_task_filter filter = any_task();
  filter.root = root;
  if (is_none(root)) {
    picture.counts = store.counts();
  } else {
    count_tree(store, root, picture);
  }
  add_active(store, filter, rows, picture);
  std::stable_sort(picture.active.begin(), picture.active.end(),
                   [](const Task& a, const Task& b) { return rank_of(a->status) < rank_of(b->status); });
  return picture;
}

std::string counts_line(const Session& session, const Picture& picture) {
  const auto& counts = picture.counts;
  const auto part = [&](std::uint64_t count, nocter_task_status status, const char* name) {
    const std::string colour = count == 0 ? std::string() : colour_of(session, status);
    return colour + std::to_string(count) + " " + name + (colour.empty() ? "" : "\033[0m");
  };
  return part(counts.queued, NOCTER_TASK_QUEUED, "queued") + ", " +
         part(counts.running, NOCTER_TASK_RUNNING, "running") + ", " +
         part(counts.suspended, NOCTER_TASK_SUSPENDED, "suspended") + ", " +
         part(counts.completed, NOCTER_TASK_COMPLETED, "completed") + ", " +
         part(counts.failed, NOCTER_TASK_FAILED, "failed") + ", " +
         part(counts.cancelled, NOCTER_TASK_CANCELLED, "cancelled") +
         (picture.whole ? "" : " among the first " + std::to_string(kCounted));
}

std::string doing(const nocter_task& task) {
  std::string text = summary_of(view(task.state));
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "  ") + more; };
  if (task.status == NOCTER_TASK_SUSPENDED && task.until == NOCTER_UNTIL_CHILDREN) {
    add(std::to_string(task.children - task.open_children) + " of " + number_text(task.children, "child", "children") +
        " ended");
  } else if (task.status == NOCTER_TASK_SUSPENDED && task.waiting_open != 0) {
    add("waits for " + number_text(task.waiting_open, "task", "tasks"));
  } else if (task.status == NOCTER_TASK_SUSPENDED) {
    add("waits for a message");
  }
  if (task.cancel_requested != 0) add("asked to end");
  return text;
}

std::string picture_text(const Session& session, const Picture& picture) {
  std::string result = time_text(now_ms()) + "  " + counts_line(session, picture) + "\n";
  if (picture.active.empty()) return result;
  Table table({"ID", "STATUS", "SINCE", "TYPE", "KEY", "DOING"});
  for (const auto& task : picture.active) {
    const std::int64_t since = task->status == NOCTER_TASK_QUEUED ? task->created_at_ms : task->started_at_ms;
    table.add({text_of(task->id), nocter_task_status_name(task->status),
               duration_text(std::max<std::int64_t>(0, now_ms() - since)), printable(view(task->type)),
               cut(printable(view(task->key)), 30), doing(*task)},
              colour_of(session, task->status));
  }
  return result + table.text(session.columns, session.colours);
}

std::string picture_json(const Picture& picture) {
  std::vector<std::string> tasks;
  for (const auto& task : picture.active) tasks.push_back(json_of(*task));
  return on_one_line(JsonObject()
                         .number("at_ms", now_ms())
                         .raw("counts", json_of(picture.counts))
                         .raw("tasks", json_array(tasks))
                         .done()) +
         "\n";
}

}  // namespace

void watch(const Session& session, const WatchOptions& options) {
  const auto interval = parse_duration(options.interval);
  if (!interval || *interval < 10)
    throw Problem{kUsage, "'" + printable(options.interval) + "' is no duration of at least 10ms"};
  const Store store(session.database, Opening::look);
  const bool live = !options.once && !session.json && session.columns != 0;
  const std::size_t rows = session.rows > 4 ? session.rows - 3 : kRows;
  nocter_task_id id{};
  if (!options.id.empty()) id = store.find(options.id);
  const nocter_task_id root = is_none(id) ? id : store.get(id)->root;
  if (!options.once) catch_interrupts();
  for (;;) {
    const bool over = !is_none(id) && has_ended(*store.get(id));
    const Picture picture = take_picture(store, root, rows);
    if (live) print("\033[H\033[J");
    print(session.json ? picture_json(picture) : picture_text(session, picture));
    flush();
    if (options.once || over) return;
    if (!pause(*interval)) throw Problem{kInterrupted, {}};
  }
}

// ---- Events ---------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kBatch = 1000;
constexpr std::int64_t kLookMs = 100;

std::string event_text(const Session& session, const nocter_event& event) {
  return padded(std::to_string(event.sequence), 6) + " " + time_text(event.at_ms) + "  " + text_of(event.task) + "  " +
         padded(event_name(event.kind), 16) + " " + colour_of(session, event.status) +
         padded(nocter_task_status_name(event.status), 9) +
         (colour_of(session, event.status).empty() ? "" : "\033[0m") + " " + printable(view(event.type)) +
         (event.data.size == 0 ? "" : "  " + cut(summary_of(view(event.data)), 200)) + "\n";
}

}  // namespace

void events(const Session& session, const EventsOptions& options) {
  const Store store(session.database, Opening::look);
  const nocter_task_id only = options.id.empty() ? nocter_task_id{} : store.find(options.id);
  std::uint64_t after = options.after, left = options.limit;
  if (options.follow) catch_interrupts();
  for (;;) {
    nocter_event_list list{};
    const nocter_status status = nocter_events_read(store.handle(), after, kBatch, nullptr, &list);
    check(status);
    bool enough = false;
    for (std::size_t i = 0; i < list.count && !enough; i++) {
      const nocter_event& event = *list.events[i];
      after = event.sequence;
      if (!is_none(only) && !nocter_task_id_equal(only, event.task)) continue;
      print(session.json ? on_one_line(json_of(event)) + "\n" : event_text(session, event));
      enough = options.limit != 0 && --left == 0;
    }
    nocter_event_list_free(&list);
    flush();
    if (enough || (status != NOCTER_OK && !options.follow)) return;
    if (status != NOCTER_OK && !pause(kLookMs)) throw Problem{kInterrupted, {}};
  }
}

}  // namespace tool
