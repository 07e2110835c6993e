// nocter: looks into a store of durable tasks, and changes it, from the command line.
#include <nocter.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "commands.hpp"
#include "text.hpp"

namespace {

constexpr const char* kAbout =
    "Looks into a store of durable tasks, and changes it. It runs no tasks, and does not disturb those who do.";

constexpr const char* kFooter = R"(
ID is a task's id, or the beginning of one that no other task has.
PAYLOAD is JSON; - reads it from standard input.
DURATION is 500ms, 30s, 5m, 2h, 7d, or a number of seconds.

Exit status: 0: done; 1: the store says no, or doctor found something wrong; 2: the command line is wrong;
130: watch or events ended by Ctrl-C.

Examples:
  nocter --db jobs.db list --status failed
  nocter --db jobs.db why 0197c3
  nocter --db jobs.db tree 0197c3 --depth 3
  nocter --db jobs.db submit mail.send '{"to":"you"}' --key you --attempts 5 --after 10m
  nocter --db jobs.db list --json | jq -r '.[] | select(.failure) | .id'
  NOCTER_DB=jobs.db nocter watch
)";

// Everything that the command line can set, and what is to be done in the end.
struct CommandLine {
  tool::Session session;
  tool::ListOptions list;
  tool::TreeOptions tree;
  tool::SubmitOptions submit;
  tool::WatchOptions watch;
  tool::EventsOptions events;
  std::string id, payload = "{}", older_than;
  bool all = false, full = false;
  std::function<int()> command;
};

void read_with(CLI::App& app, CommandLine& line) {
  const auto& session = line.session;
  CLI::App* list = app.add_subcommand("list", "Lists tasks, oldest first");
  list->add_option("--status", line.list.status,
                   "only those: queued, running, suspended, completed, failed, cancelled");
  list->add_option("--type", line.list.type, "only those of this type");
  list->add_option("--parent", line.list.parent, "only children of this task")->type_name("ID");
  list->add_option("--tree", line.list.root, "only members of this root's tree")->type_name("ID");
  list->add_flag("--roots", line.list.roots_only, "only tasks without a parent");
  list->add_option("--after", line.list.after, "only those after this one")->type_name("ID");
  list->add_option("--limit", line.list.limit, "at most so many; 0: all")->capture_default_str();
  list->callback([&] { line.command = [&] { return tool::list(session, line.list), 0; }; });

  CLI::App* show = app.add_subcommand("show", "Shows all there is to know of a task");
  show->add_option("ID", line.id)->required();
  show->callback([&] { line.command = [&] { return tool::show(session, line.id), 0; }; });

  CLI::App* tree = app.add_subcommand("tree", "Shows a task and everything below it; without ID, every root");
  tree->add_option("ID", line.tree.id);
  tree->add_option("--depth", line.tree.depth, "levels below it")->capture_default_str();
  tree->add_option("--children", line.tree.children,
                   "how many children of one task, and how many roots; all with --json")
      ->capture_default_str();
  tree->callback([&] { line.command = [&] { return tool::tree(session, line.tree), 0; }; });

  CLI::App* why = app.add_subcommand("why", "Explains what a task waits for");
  why->add_option("ID", line.id)->required();
  why->callback([&] { line.command = [&] { return tool::why(session, line.id), 0; }; });
}

void change_with(CLI::App& app, CommandLine& line) {
  const auto& session = line.session;
  CLI::App* submit = app.add_subcommand("submit", "Makes a task and prints its id");
  submit->add_option("TYPE", line.submit.type, "what sort of work")->required();
  submit->add_option("PAYLOAD", line.submit.payload)->capture_default_str();
  submit->add_option("--key", line.submit.key, "a name that only one task may have");
  submit
      ->add_option("--key-scope", line.submit.key_scope, "where: live (of its type, until it has ended), parent, tree")
      ->capture_default_str();
  submit->add_option("--parent", line.submit.parent, "makes it a child of this task")->type_name("ID");
  CLI::Option* priority = submit->add_option("--priority", line.submit.priority,
                                             "claimed sooner when higher; else 0, or its parent's and 1");
  CLI::Option* after =
      submit->add_option("--after", line.submit.after, "not before so long from now")->type_name("DURATION");
  submit->add_option("--at", line.submit.at, "not before: '2026-03-01 12:00:00', or a Unix time in ms")
      ->type_name("TIME")
      ->excludes(after);
  submit->add_option("--attempts", line.submit.attempts, "failed tries before it fails")->capture_default_str();
  submit->add_option("--id", line.submit.id, "its id: a submit that is repeated makes no second task")
      ->type_name("UUID");
  submit->add_flag("--create", line.submit.create, "makes the database if there is none");
  submit->callback([&, priority] {
    line.submit.priority_given = priority->count() != 0;
    line.command = [&] { return tool::submit(session, line.submit), 0; };
  });

  CLI::App* notify = app.add_subcommand("notify", "Sends a message to a task, which wakes it");
  notify->add_option("ID", line.id)->required();
  notify->add_option("PAYLOAD", line.payload)->capture_default_str();
  notify->callback([&] { line.command = [&] { return tool::notify(session, line.id, line.payload), 0; }; });

  CLI::App* cancel = app.add_subcommand("cancel", "Ends a task and everything below it");
  cancel->add_option("ID", line.id)->required();
  cancel->callback([&] { line.command = [&] { return tool::cancel(session, line.id), 0; }; });

  CLI::App* retry =
      app.add_subcommand("retry",
                         "Ends the pause of a task that waits for its next try; of one that failed or was "
                         "cancelled, makes a new one like it. Prints the id of what will run");
  retry->add_option("ID", line.id)->required();
  retry->callback([&] { line.command = [&] { return tool::retry(session, line.id), 0; }; });

  CLI::App* purge = app.add_subcommand("purge", "Removes trees that have ended");
  CLI::Option* older =
      purge->add_option("--older-than", line.older_than, "only those that ended longer ago")->type_name("DURATION");
  purge->add_flag("--all", line.all, "everything that has ended")->excludes(older);
  purge->callback([&] { line.command = [&] { return tool::purge(session, line.older_than, line.all), 0; }; });
}

void follow_with(CLI::App& app, CommandLine& line) {
  const auto& session = line.session;
  CLI::App* watch =
      app.add_subcommand("watch",
                         "Shows what runs and waits, with the state that each task tells, until Ctrl-C; with "
                         "ID, of its tree, until it has ended");
  watch->add_option("ID", line.watch.id);
  watch->add_flag("--once", line.watch.once, "shows it once");
  watch->add_option("--interval", line.watch.interval, "how often")->type_name("DURATION")->capture_default_str();
  watch->callback([&] { line.command = [&] { return tool::watch(session, line.watch), 0; }; });

  CLI::App* events = app.add_subcommand("events", "Prints what happened, if the workers keep a log of it");
  events->add_option("ID", line.events.id, "only what happened to this task");
  events->add_option("--after", line.events.after, "only what came after this number")->capture_default_str();
  events->add_option("--limit", line.events.limit, "at most so many; 0: all")->capture_default_str();
  events->add_flag("--follow,-f", line.events.follow, "waits for more, until Ctrl-C");
  events->callback([&] { line.command = [&] { return tool::events(session, line.events), 0; }; });

  CLI::App* doctor = app.add_subcommand("doctor", "Says whether the store is well");
  doctor->add_flag("--full", line.full, "reads every page and every record");
  doctor->callback([&] { line.command = [&] { return tool::doctor(session, line.full); }; });
}

void find_terminal(tool::Session& session) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0) return;
  session.colours =
      (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
  session.columns = 80;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
  session.columns = size.ws_col;
  session.rows = size.ws_row;
}

int run(CommandLine& line) {
  if (line.session.database.empty()) {
    throw tool::Problem{tool::kUsage, "which database? --db names its path or URL, or NOCTER_DB in the environment"};
  }
  const int status = line.command();
  tool::flush();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for the width of letters; numbers stay as they are
  std::signal(SIGPIPE, SIG_IGN);
  CommandLine line;
  CLI::App app(kAbout, "nocter");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("nocter ") + nocter_version());
  app.add_option("--db", line.session.database, "the database: a path, sqlite:PATH, or another URL that nocter knows")
      ->envname("NOCTER_DB")
      ->type_name("PATH");
  app.add_flag("--json", line.session.json, "JSON for programs: one document, or of watch and events one a line");
  app.require_subcommand(1);
  app.fallthrough();
  try {
    read_with(app, line);
    change_with(app, line);
    follow_with(app, line);
    app.parse(argc, argv);
    find_terminal(line.session);
    return run(line);
  } catch (const CLI::ParseError& error) {
    const bool asked = error.get_exit_code() == 0;  // --help, --version
    app.exit(error, std::cout, std::cerr);
    return asked ? 0 : tool::kUsage;
  } catch (const tool::Problem& problem) {
    std::fflush(stdout);
    if (!problem.message.empty()) std::fprintf(stderr, "nocter: %s\n", tool::printable(problem.message).c_str());
    return problem.exit_status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nocter: %s\n", error.what());
    return tool::kRefused;
  }
}
