#include "sched/tasks_world.hpp"

#include "nocter/stores/memory.hpp"

namespace sched {

using tasks::Run;

Durable::Durable(bool events) : clock(std::make_shared<tasks::SteerableClock>(1'000'000)) {
  tasks::StoreOptions store;
  store.clock = clock;
  store.random = std::make_shared<tasks::SeededRandom>(1);
  store.events = events;
  tasks::EngineOptions options;
  options.node = "node";
  options.lease_ms = kLeaseMs;
  options.own_keeper = false;
  options.clock = clock;
  std::unique_ptr<tasks::Log> log;
  engine = tasks::Engine::open(nocter::stores::open_memory(store), options, "memory:", log);
}

Durable::~Durable() = default;

tasks::TaskId Durable::id_of(int number) {
  tasks::TaskId id;
  id.bytes[15] = static_cast<uint8_t>(number);
  return id;
}

Status Durable::submit(const std::vector<int>& numbers, const char* type, int parent) {
  tasks::Submit submit;
  for (const int number : numbers) {
    tasks::Submission task;
    task.id = id_of(number);
    task.type = type;
    if (parent != 0) task.parent = id_of(parent);
    submit.tasks.push_back(std::move(task));
  }
  return engine->ask(submit).status;
}

void Durable::accepted(int number, const char* type, int parent) {
  require_equal(static_cast<int>(submit({number}, type, parent)), static_cast<int>(Status::ok), "submit");
}

Run* Durable::claim(const char* type, const nocter::base::Wait* wait, Status& said) {
  Run* run = nullptr;
  size_t count = 0;
  const tasks::Engine::Types types = {type};
  said = engine->claim(types, 1, wait, &run, count).status;
  require((said == Status::ok) == (count == 1), "a claim gives a run when, and only when, it says so");
  return run;
}

Run* Durable::claimed(const char* type) {
  const nocter::base::Wait forever;
  Status said;
  Run* const run = claim(type, &forever, said);
  require_equal(static_cast<int>(said), static_cast<int>(Status::ok), "a claim that waits");
  return run;
}

Run* Durable::running(int number, const char* type, int parent) {
  accepted(number, type, parent);
  Status said;
  Run* const run = claim(type, nullptr, said);
  require(run != nullptr && run->claimed().id == id_of(number), "the task that was claimed");
  return run;
}

Status Durable::end(Run* run, tasks::Settle settle) {
  const Status said = run->settle(settle).status;
  if (Run::ends(said) || said == Status::closed) {
    require(run->header.tag.end(nocter::base::Kind::run), "a run ends once");
    run->finish();
  }
  return said;
}

Status Durable::done(Run* run) { return end(run, {}); }

Status Durable::suspend(Run* run, tasks::Until until, int64_t wake_at) {
  tasks::Settle settle;
  settle.outcome = tasks::Outcome::suspend;
  settle.suspension.until = until;
  settle.suspension.wake_at = wake_at;
  return end(run, std::move(settle));
}

Status Durable::notify(int number) {
  tasks::Notify notify;
  notify.to = id_of(number);
  notify.payload = "1";
  return engine->ask(notify).status;
}

Status Durable::cancel(int number) {
  uint64_t touched;
  return engine->cancel(id_of(number), touched).status;
}

tasks::Record Durable::record(int number) {
  tasks::Record record;
  const Status said = engine->look([&](tasks::Store& store) { return store.get(id_of(number), record); }).status;
  require_equal(static_cast<int>(said), static_cast<int>(Status::ok), "a look at a task");
  return record;
}

void Durable::thread(Play& play, const char* name, std::function<void()> body) {
  bodies_++;
  play.thread(name, [this, body = std::move(body)] {
    body();
    if (--bodies_ != 0 || keeper_ == nullptr) return;
    stop_.raise();
    keeper_->stopping();
  });
}

void Durable::keeper(Play& play) {
  keeper_ = std::make_unique<tasks::Keeper>(engine);
  play.thread("keeper", [this] { keeper_->run(stop_); });
}

std::shared_ptr<Status> Durable::worker(Play& play, Run* run) {
  auto said = std::make_shared<Status>();
  thread(play, "worker", [=, this] { *said = done(run); });
  return said;
}

void Durable::sleeper(Play& play, Run* run, tasks::Until until) {
  thread(play, "worker that waits", [=, this] { is(suspend(run, until), Status::ok, "suspend"); });
}

void Durable::mover(Play& play, int64_t ms) {
  thread(play, "mover", [=, this] { clock->advance(ms); });
}

void Durable::closer(Play& play, const char* name) {
  thread(play, name, [this] { engine->close(); });
}

void Durable::settle() {
  keeper_.reset();
  engine->close();
  require_equal(static_cast<int64_t>(engine->runs()), 0, "runs that are listed after the close");
  std::weak_ptr<tasks::Engine> gone = engine;
  engine.reset();
  require(gone.expired(), "somebody still holds the store");
}

void require_heard(Play& play, const char* teller, const char* hearer, const char* what) {
  play.thread("judge", [=] {
    wait_until([=] { return ended(teller) && asleep(hearer); });
    require(ended(hearer), what);
  });
}

}  // namespace sched
