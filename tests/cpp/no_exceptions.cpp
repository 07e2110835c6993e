// The C++ layer in a program that has neither exceptions nor RTTI (BND-05). Boost.Test needs both, so this one checks by hand.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nocter.hpp>
#include <string_view>
#include <thread>

#ifdef __cpp_exceptions
#error "this test is to be compiled with -fno-exceptions"
#endif

using namespace std::chrono_literals;
using nocter::status;

namespace {

int checks = 0, failures = 0;

void check(bool holds, const char* what) {
  checks++;
  if (holds) return;
  failures++;
  std::printf("failed: %s\n", what);
}

void jobs_go_through() {
  auto created = nocter::blocking<int, long>::create({1, 1});
  check(created.ok(), "a service is made");
  auto& service = *created;
  auto threads = service.serve([](std::unique_ptr<int> input, nocter::lent_completion<long>& guard) {
    if (*input < 0) guard.drop();
    return std::make_unique<long>(2L * *input);
  });
  check(threads.ok(), "threads are made");
  auto id = service.submit(std::make_unique<int>(21), nocter::wait(10s));
  check(id.ok(), "a job is accepted");
  auto second = std::make_unique<int>(-1);
  check(service.submit(std::move(second)).status() == status::saturated, "a second one is not");
  check(second != nullptr && *second == -1, "and its input stays");
  auto output = service.take(*id, 10s);
  check(output.ok() && **output == 42, "the output comes back");
  check(output.value() != nullptr, "value() is there too");
  id = service.submit(std::move(second));
  check(service.take(*id, 10s).status() == status::worker_lost, "a dropped guard is a lost worker");
  auto again = service.take(*id, 10s);
  check(again.status() == status::e_unknown && !again.message().empty(), "an error has a message");
}

void tasks_are_worked_off() {
  auto store = nocter::tasks::open("memory:");
  check(store.ok(), "a store of tasks is opened");
  nocter::task_handlers handlers;
  handlers.on("sum", [](nocter::task_run& run) -> nocter::outcome {
    if (!run.resumed() && run.submit_child({"number", "7"}).ok()) return nocter::suspension::children();
    return std::string((*run.children())[0].result());
  });
  handlers.on("number", [](nocter::task_run& run) { return std::string(run.payload()); });
  auto threads = store->serve(handlers, 2);
  check(threads.ok(), "threads work on tasks");
  auto made = store->submit({"sum"});
  check(made.ok() && !made->exists, "a task is made");
  auto ended = store->await(made->id, 10s);
  check(ended.ok() && ended->result() == "7", "a parent adds up its children");
  check(store->get(nocter::task_id()).status() == status::e_unknown, "an unknown task is unknown");
}

void resources_are_retired() {
  auto created = nocter::retirement<int>::create({1, 1});
  check(created.ok(), "a retirement service is made");
  auto threads = created->serve();
  check(threads.ok(), "threads that clean are made");
  auto permit = created->reserve();
  check(permit.ok() && created->reserve().status() == status::saturated, "one place is one permit");
  auto id = permit->attach(std::make_unique<int>(7)).retire();
  check(id.ok() && created->take(*id, 10s).value() == 0, "the resource is ended");
}

void keys_have_passes() {
  auto created = nocter::keyed::create({4, 1});
  check(created.ok(), "a queue is made");
  auto threads = created->serve([](std::string_view key, nocter::lent_pass& pass) {
    if (key == "again" && pass.failures() == 0) (void)pass.retry_after(1ms);
    return key != "fails";
  });
  check(threads.ok() && created->notify_many({"again", "fails"}).ok(), "keys are accepted");
  while (created->count().value().retained != 0) std::this_thread::sleep_for(1ms);
  created->close(nocter::close_mode::drain);
  check(created->drained(10s).ok(), "the queue is drained");
  const auto counts = created->count().value();
  check(counts.completed == 1 && counts.failed == 2, "passes end as the function says");
  check(created->notify("late").status() == status::closed, "a closed queue says so");
}

void refusals_are_results() {
  auto refused = nocter::blocking<int, int>::create({1, 2, nocter::notifier([] {}), {}});
  check(!refused && refused.status() == status::e_argument, "workers may not outnumber the jobs");
}

// There is no other way to go on: the documentation says that it aborts.
void value_of_nothing_aborts() {
  const pid_t child = fork();
  if (child == 0) {
    auto signal = nocter::signal::create();
    (void)signal->try_wait(signal->version()).value();
    _exit(0);
  }
  int how = 0;
  check(waitpid(child, &how, 0) == child && WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT, "value() of nothing aborts");
}

}  // namespace

int main() {
  jobs_go_through();
  tasks_are_worked_off();
  resources_are_retired();
  keys_have_passes();
  refusals_are_results();
  value_of_nothing_aborts();
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 && checks == 25 ? EXIT_SUCCESS : EXIT_FAILURE;
}
