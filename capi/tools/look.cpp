#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "commands.hpp"
#include "json.hpp"
#include "text.hpp"

namespace tool {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) flush();
}

// Nobody who reads any more is no reason to complain.
void flush() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Problem{kRefused, errno == EPIPE ? std::string() : std::string("standard output: ") + std::strerror(errno)};
}

std::string colour_of(const Session& session, nocter_task_status status) {
  if (!session.colours) return {};
  switch (status) {
    case NOCTER_TASK_RUNNING:
      return "\033[1;34m";
    case NOCTER_TASK_SUSPENDED:
      return "\033[36m";
    case NOCTER_TASK_COMPLETED:
      return "\033[32m";
    case NOCTER_TASK_FAILED:
      return "\033[1;31m";
    case NOCTER_TASK_CANCELLED:
      return "\033[33m";
    default:
      return {};
  }
}

std::string status_text(const Session& session, nocter_task_status status) {
  const std::string colour = colour_of(session, status);
  return colour + nocter_task_status_name(status) + (colour.empty() ? "" : "\033[0m");
}

namespace {

nocter_task_status status_of(const std::string& name) {
  for (nocter_task_status status = NOCTER_TASK_QUEUED; status <= NOCTER_TASK_CANCELLED; status++) {
    if (strcasecmp(name.c_str(), nocter_task_status_name(status)) == 0) return status;
  }
  throw Problem{kUsage,
                "'" + printable(name) + "' is no status: queued, running, suspended, completed, failed, cancelled"};
}

std::string tries_of(const nocter_task& task) {
  return task.max_attempts > 1 ? std::to_string(task.attempt) + "/" + std::to_string(task.max_attempts)
                               : std::to_string(task.attempt);
}

std::string failure_text(const nocter_task& task) {
  return printable(view(task.failure.kind)) + ": " + printable(view(task.failure.message));
}

// What there is to say of a task in few words.
std::string remark_of(const nocter_task& task) {
  const std::string failure = task.failure.kind.size == 0 ? std::string() : failure_text(task);
  if (task.status == NOCTER_TASK_FAILED) return failure;
  if (task.status == NOCTER_TASK_COMPLETED) return summary_of(view(task.result));
  std::string remark = summary_of(view(task.state));
  const auto add = [&](const std::string& more) { remark += (remark.empty() ? "" : "; ") + more; };
  if (task.status == NOCTER_TASK_QUEUED && task.due_at_ms > now_ms())
    add("due in " + duration_text(task.due_at_ms - now_ms()));
  if (task.status == NOCTER_TASK_SUSPENDED && task.until == NOCTER_UNTIL_NOTIFIED) add("waits for a message");
  if (task.status == NOCTER_TASK_SUSPENDED && task.waiting_open != 0) {
    add("waits for " + (task.until == NOCTER_UNTIL_CHILDREN ? std::to_string(task.open_children) + " of " +
                                                                  number_text(task.children, "child", "children")
                                                            : number_text(task.waiting_open, "task", "tasks")));
  }
  if (task.cancel_requested != 0 && !has_ended(task)) add("asked to end");
  if (!failure.empty() && !has_ended(task)) add("failed before: " + failure);
  return remark;
}

std::string name_of(const nocter_task& task) {
  return printable(view(task.type)) + (task.key.size == 0 ? "" : " " + printable(view(task.key)));
}

}  // namespace

void list(const Session& session, const ListOptions& options) {
  const Store store(session.database, Opening::look);
  nocter_task_filter filter = any_task();
  if (!options.status.empty()) filter.status = status_of(options.status);
  filter.type = text(options.type);
  if (!options.parent.empty()) filter.parent = store.find(options.parent);
  if (!options.root.empty()) filter.root = store.find(options.root);
  if (!options.after.empty()) filter.after = store.find(options.after);
  filter.roots_only = options.roots_only ? 1 : 0;

  std::vector<std::string> items;
  Table table({"ID", "STATUS", "TRY", "AGE", "TYPE", "KEY", "WHAT"});
  std::uint32_t left = options.limit;
  bool more = false;
  store.each(filter, [&](const nocter_task& task) {
    more = options.limit != 0 && left-- == 0;
    if (more) return false;
    if (session.json) {
      items.push_back(json_of(task));
    } else {
      table.add({text_of(task.id), nocter_task_status_name(task.status), tries_of(task),
                 duration_text(std::max<std::int64_t>(0, now_ms() - task.created_at_ms)), printable(view(task.type)),
                 cut(printable(view(task.key)), 40), remark_of(task)},
                colour_of(session, task.status));
    }
    return true;
  });
  if (session.json) {
    print(json_array(items) + "\n");
    return;
  }
  print(table.empty() ? "no tasks\n" : table.text(session.columns, session.colours));
  if (more) print("… and more: --limit 0 lists all, --after ID those after this one\n");
}

void show(const Session& session, const std::string& id) {
  const Store store(session.database, Opening::look);
  const Task task = store.get(store.find(id));
  if (session.json) {
    print(json_of(*task) + "\n");
    return;
  }
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) print(padded(name, 14) + value + "\n");
  };
  const auto time = [&](const char* name, std::int64_t at_ms) {
    if (at_ms == 0) return;
    const std::int64_t ago = now_ms() - at_ms;
    line(name,
         time_text(at_ms) + (ago >= 0 ? "  (" + duration_text(ago) + " ago)" : "  (in " + duration_text(-ago) + ")"));
  };
  line("id", text_of(task->id));
  line("type", printable(view(task->type)));
  line("status",
       status_text(session, task->status) + (task->cancel_requested != 0 && !has_ended(*task) ? ", asked to end" : ""));
  if (task->key.size != 0) {
    line("key", printable(view(task->key)) + "  (the only one " +
                    (task->key_scope == NOCTER_KEY_TREE     ? "of its tree"
                     : task->key_scope == NOCTER_KEY_PARENT ? "of its parent"
                                                            : "of its type that has not ended") +
                    ")");
  }
  if (!is_none(task->parent)) line("parent", text_of(task->parent));
  if (!nocter_task_id_equal(task->root, task->id)) line("root", text_of(task->root));
  line("priority", std::to_string(task->priority));
  line("tries", std::to_string(task->attempt) + " of " + std::to_string(task->max_attempts) + " in this round, " +
                    number_text(task->deliveries, "claim", "claims") + " in all, " +
                    number_text(task->rescues, "worker", "workers") + " lost");
  line("round", std::string(wake_name(task->woken_by)) + (task->resumed != 0 ? ", suspended before" : ""));
  line("node", printable(view(task->node)));
  time("submitted", task->created_at_ms);
  time("due", task->due_at_ms);
  time("started", task->started_at_ms);
  time("ended", task->ended_at_ms);
  if (task->status == NOCTER_TASK_RUNNING) time("lease until", task->lease_until_ms);
  if (task->children != 0) {
    line("children",
         std::to_string(task->children) + ", " + std::to_string(task->open_children) + " of them not ended");
  }
  if (task->messages != 0) line("mailbox", number_text(task->messages, "message", "messages"));
  if (!has_ended(*task) && task->waiting_open != 0) {
    line("waits for", number_text(task->waiting_open, "task", "tasks") + ": nocter why " + text_of(task->id));
  }
  line("payload", printable(on_one_line(std::string(view(task->payload)))));
  line("state", printable(on_one_line(std::string(view(task->state)))));
  line("result", printable(on_one_line(std::string(view(task->result)))));
  if (task->failure.kind.size != 0) {
    line("failure", failure_text(*task));
    line("  detail", printable(view(task->failure.detail)));
    line("  try", std::to_string(task->failure.attempt) +
                      (task->failure.node.size == 0 ? "" : " on " + printable(view(task->failure.node))));
    time("  at", task->failure.at_ms);
  }
}

// ---- Trees ----------------------------------------------------------------------------------------------------------

namespace {

struct Branch {
  const Session& session;
  const TreeOptions& options;
  const Store& store;
};

// Identities are not shown to the left of the lines, where people look for the shape.
void print_task(const Session& session, const std::string& before, const nocter_task& task) {
  std::string remark = remark_of(task);
  const std::string line = before + status_text(session, task.status) + " " + name_of(task);
  const std::string id = "  " + text_of(task.id);
  if (session.columns != 0) {
    const std::size_t used =
        width(before) + std::strlen(nocter_task_status_name(task.status)) + 1 + width(name_of(task)) + width(id);
    remark = session.columns > used + 12 ? cut(remark, session.columns - used - 2) : std::string();
  } else {
    remark = cut(remark, 100);
  }
  print(line + id + (remark.empty() ? "" : "  " + remark) + "\n");
}

void print_below(const Branch& branch, const nocter_task& task, const std::string& before, std::uint32_t depth) {
  if (task.children == 0) return;
  if (depth == 0) {
    print(before + "└─ … " + number_text(task.children, "child", "children") + "\n");
    return;
  }
  nocter_task_filter filter = any_task();
  filter.parent = task.id;
  std::uint64_t left = std::min<std::uint64_t>(branch.options.children, task.children);
  std::uint64_t shown = 0;
  branch.store.each(filter, [&](const nocter_task& child) {
    if (left-- == 0) return false;
    shown++;
    const bool last = shown == task.children;
    print_task(branch.session, before + (last ? "└─ " : "├─ "), child);
    print_below(branch, child, before + (last ? "   " : "│  "), depth - 1);
    return true;
  });
  if (shown < task.children) print(before + "└─ … " + std::to_string(task.children - shown) + " more\n");
}

std::string json_tree(const Branch& branch, const nocter_task& task, std::uint32_t depth) {
  std::vector<std::string> children;
  if (depth != 0 && task.children != 0) {
    nocter_task_filter filter = any_task();
    filter.parent = task.id;
    branch.store.each(filter, [&](const nocter_task& child) {
      children.push_back(json_tree(branch, child, depth - 1));
      return true;
    });
  }
  std::string json = json_of(task);
  json.pop_back();  // one more member
  return json + ",\"below\":" + json_array(children) + "}";
}

}  // namespace

void tree(const Session& session, const TreeOptions& options) {
  const Store store(session.database, Opening::look);
  const Branch branch{session, options, store};
  std::vector<std::string> trees;
  const auto one = [&](const nocter_task& task) {
    if (session.json) {
      trees.push_back(json_tree(branch, task, options.depth));
    } else {
      print_task(session, "", task);
      print_below(branch, task, "", options.depth);
    }
    return true;
  };
  if (!options.id.empty()) {
    one(*store.get(store.find(options.id)));
    if (session.json) print(trees[0] + "\n");
    return;
  }
  nocter_task_filter filter = any_task();
  filter.roots_only = 1;
  std::uint32_t left = options.children;
  store.each(filter, [&](const nocter_task& task) {
    if (!session.json && left-- == 0) {
      print("… and more: nocter list --roots\n");
      return false;
    }
    return one(task);
  });
  if (session.json) print(json_array(trees) + "\n");
}

}  // namespace tool
