// What a task waits for, in words (TSK-32).
#include <algorithm>
#include <set>

#include "commands.hpp"
#include "json.hpp"
#include "text.hpp"

namespace tool {
namespace {

constexpr std::size_t kShown = 10;         // tasks of one join
constexpr std::uint64_t kCounted = 10000;  // tasks that are looked at to say how many are before it

// One task's answer: a word for programs, sentences for people, the tasks that are waited for.
struct Answer {
  std::string waits_for;
  std::vector<std::string> sentences;
  std::vector<nocter_task_id> tasks;
  std::int64_t until_ms = 0;
  void say(std::string sentence) { sentences.push_back(std::move(sentence)); }
};

std::string when(std::int64_t at_ms) {
  const std::int64_t left = at_ms - now_ms();
  return time_text(at_ms) + (left >= 0 ? ", in " + duration_text(left) : ", " + duration_text(-left) + " ago");
}

std::string quote(nocter_text text) { return "'" + printable(view(text)) + "'"; }

// Who has tasks of the type at this moment, and how many.
std::pair<std::uint64_t, std::set<std::string>> running_of(const Store& store, nocter_text type) {
  nocter_task_filter filter = any_task();
  std::pair<std::uint64_t, std::set<std::string>> running;
  filter.type = type;
  filter.status = NOCTER_TASK_RUNNING;
  store.each(filter, [&](const nocter_task& task) {
    running.second.insert(printable(view(task.node)));
    return ++running.first < kCounted;
  });
  return running;
}

std::uint64_t before_it(const Store& store, const nocter_task& mine) {
  nocter_task_filter filter = any_task();
  std::uint64_t before = 0, seen = 0;
  filter.type = mine.type;
  filter.status = NOCTER_TASK_QUEUED;
  const std::string my_id = text_of(mine.id);
  store.each(filter, [&](const nocter_task& task) {
    const bool ready = task.due_at_ms <= now_ms();
    const bool sooner = task.priority > mine.priority || (task.priority == mine.priority && text_of(task.id) < my_id);
    if (ready && sooner) before++;
    return ++seen < kCounted;
  });
  return before;
}

void explain_queued(const Store& store, const nocter_task& task, Answer& answer) {
  if (task.due_at_ms > now_ms()) {
    answer.waits_for = "time";
    answer.until_ms = task.due_at_ms;
    answer.say("It waits for its time: " + when(task.due_at_ms) + ".");
    if (task.failure.kind.size != 0) {
      answer.say("Its last try failed (" + printable(view(task.failure.kind)) + ": " +
                 printable(view(task.failure.message)) +
                 "); this is the pause before the next one. `nocter retry` ends the pause.");
    }
    return;
  }
  answer.waits_for = "worker";
  const auto [count, nodes] = running_of(store, task.type);
  answer.say("It is due, and waits for a worker that serves the type " + quote(task.type) + ".");
  if (count == 0) {
    answer.say("Nobody works on a task of this type now: either no process serves it, or none has come to it yet.");
  } else {
    std::string names;
    for (const auto& node : nodes) names += (names.empty() ? "" : ", ") + node;
    answer.say(number_text(count, "task", "tasks") + " of this type " + (count == 1 ? "runs" : "run") +
               " now, on: " + names + ".");
  }
  const std::uint64_t before = before_it(store, task);
  if (before != 0) answer.say(number_text(before, "task", "tasks") + " of this type will be claimed before it.");
  if (task.failure.kind.size != 0) answer.say("Its last try failed: " + printable(view(task.failure.message)) + ".");
}

void explain_running(const nocter_task& task, Answer& answer) {
  const std::string node = quote(task.node);
  answer.until_ms = task.lease_until_ms;
  if (task.lease_until_ms >= now_ms()) {
    answer.waits_for = "worker";
    answer.say("It is being worked on by the node " + node + ", which has told that it lives: its lease lasts until " +
               when(task.lease_until_ms) + ".");
  } else {
    answer.waits_for = "lease";
    answer.say("Its worker is lost: the node " + node + " has given no sign of life, and its lease ended at " +
               when(task.lease_until_ms) + ".");
    answer.say("The next process that opens this store, or has it open, runs the task again.");
  }
  if (task.cancel_requested != 0) {
    answer.say("It was cancelled, and its worker has been asked to end; whatever that says, the task ends CANCELLED.");
  }
}

// How many of them are enough, and whether a failure is.
void explain_join(const nocter_task& task, Answer& answer) {
  const std::uint64_t open = task.until == NOCTER_UNTIL_CHILDREN ? task.open_children : task.waiting_open;
  const std::string enough = task.waiting_need >= open ? "all of them have"
                             : task.waiting_need == 1  ? "1 more of them has"
                                                       : std::to_string(task.waiting_need) + " more of them have";
  answer.say("It wakes when " + enough + " ended" +
             (task.wake_on_failure != 0 ? ", or as soon as one fails or is cancelled." : "."));
}

void explain_suspended(const Store& store, const nocter_task& task, Answer& answer) {
  const bool children = task.until == NOCTER_UNTIL_CHILDREN;
  answer.waits_for = children ? "children" : task.until == NOCTER_UNTIL_TASKS ? "tasks" : "message";
  if (children) {
    answer.say("It waits for its children: " + std::to_string(task.open_children) + " of " +
               std::to_string(task.children) + " have not ended.");
  } else if (task.until == NOCTER_UNTIL_TASKS) {
    answer.say("It waits for tasks that it named: " + std::to_string(task.waiting_open) + " of them " +
               (task.waiting_open == 1 ? "has" : "have") + " not ended.");
  } else {
    answer.say("It waits for a message: `nocter notify " + text_of(task.id) + "` sends one.");
  }
  if (task.until != NOCTER_UNTIL_NOTIFIED) explain_join(task, answer);
  if (task.due_at_ms != 0) {
    answer.until_ms = task.due_at_ms;
    answer.say("At " + when(task.due_at_ms) + " it wakes in any case.");
  }
  for (std::size_t i = 0; i < std::min(task.waiting_for_count, kShown); i++)
    answer.tasks.push_back(task.waiting_for[i]);
  if (children && answer.tasks.empty()) {
    nocter_task_filter filter = any_task();
    filter.parent = task.id;
    store.each(filter, [&](const nocter_task& child) {
      if (!has_ended(child)) answer.tasks.push_back(child.id);
      return answer.tasks.size() < kShown;
    });
  }
  if (task.until != NOCTER_UNTIL_NOTIFIED) answer.say("A message wakes it too.");
}

Answer explain(const Store& store, const nocter_task& task) {
  Answer answer;
  if (has_ended(task)) {
    answer.waits_for = "nothing";
    answer.say("It waits for nothing: it ended at " + when(task.ended_at_ms) + ".");
    if (task.status == NOCTER_TASK_FAILED) {
      answer.say("It failed: " + printable(view(task.failure.kind)) + ": " + printable(view(task.failure.message)) +
                 ".");
    }
  } else if (task.status == NOCTER_TASK_QUEUED) {
    explain_queued(store, task, answer);
  } else if (task.status == NOCTER_TASK_RUNNING) {
    explain_running(task, answer);
  } else {
    explain_suspended(store, task, answer);
  }
  if (task.messages != 0 && !has_ended(task)) {
    answer.say("In its mailbox: " + number_text(task.messages, "message", "messages") + ".");
  }
  return answer;
}

std::string headline(const Session& session, const nocter_task& task) {
  return text_of(task.id) + " " + status_text(session, task.status) + " " + printable(view(task.type)) +
         (task.key.size == 0 ? "" : " " + printable(view(task.key)));
}

// Who waits for whom down to a task that waits for no other one: there is the reason of all.
void print_chain(const Session& session, const Store& store, const Answer& first) {
  constexpr int kSteps = 100;
  Answer answer = first;
  for (int step = 0; step < kSteps && !answer.tasks.empty(); step++) {
    const Task next = store.get(answer.tasks.front());
    answer = explain(store, *next);
    if (!answer.tasks.empty()) continue;
    if (step != 0) {
      print("\nIn the end, among others, for:\n  " + headline(session, *next) + "\n");
    } else {
      print("\nThe first of them:\n");
    }
    for (const auto& sentence : answer.sentences) print("  " + sentence + "\n");
  }
}

}  // namespace

void why(const Session& session, const std::string& id) {
  const Store store(session.database, Opening::look);
  const Task task = store.get(store.find(id));
  const Answer answer = explain(store, *task);
  std::vector<std::string> items;
  std::vector<std::string> lines;
  for (const auto& other : answer.tasks) {
    const Task waited = store.get(other);
    lines.push_back("  " + headline(session, *waited) + "\n");
    items.push_back(JsonObject()
                        .text("id", text_of(waited->id))
                        .text("status", nocter_task_status_name(waited->status))
                        .text("type", view(waited->type))
                        .text_or_null("key", view(waited->key))
                        .done());
  }
  if (session.json) {
    std::string words;
    for (const auto& sentence : answer.sentences) words += (words.empty() ? "" : " ") + sentence;
    print(JsonObject()
              .text("id", text_of(task->id))
              .text("status", nocter_task_status_name(task->status))
              .text("waits_for", answer.waits_for)
              .raw("tasks", json_array(items))
              .count("open", task->waiting_open)
              .count("need", task->waiting_need)
              .truth("wake_on_failure", task->wake_on_failure != 0)
              .time("until_ms", answer.until_ms)
              .text_or_null("node", task->status == NOCTER_TASK_RUNNING ? view(task->node) : std::string_view())
              .text("words", words)
              .done() +
          "\n");
    return;
  }
  print(headline(session, *task) + "\n");
  for (const auto& sentence : answer.sentences) print(sentence + "\n");
  for (const auto& line : lines) print(line);
  if (task->waiting_open > answer.tasks.size() && !answer.tasks.empty()) {
    print("  … and " + std::to_string(task->waiting_open - answer.tasks.size()) + " more\n");
  }
  print_chain(session, store, answer);
}

}  // namespace tool
