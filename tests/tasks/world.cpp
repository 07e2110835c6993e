#include "tasks/world.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "nocter/stores/open.hpp"
#ifdef NOCTER_POSTGRES_BIN
#include "support/postgres_server.hpp"
#endif

namespace tasks_tests {

namespace {

std::string chosen_store() {
  const char* chosen = std::getenv("NOCTER_STORE");
  return chosen != nullptr ? chosen : "memory:";
}

}  // namespace

World::World(bool events, const Limits& limits) : clock_(std::make_shared<SteerableClock>(kStart)) {
  const std::string store = chosen_store();
  url_ = store;
#ifdef NOCTER_POSTGRES_BIN
  if (store == "postgresql:") {
    url_ = nocter_tests::PostgresServer::shared().url();
    nocter_tests::PostgresServer::shared().forget_everything();
    reopens_ = std::getenv("NOCTER_REOPEN") != nullptr;
  }
#endif
  if (const size_t colon = store.find(':'); colon != std::string::npos && colon + 1 < store.size()) {
    static int worlds = 0;
    path_ = store.substr(colon + 1) + "/world" + std::to_string(++worlds);
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    url_ = store.substr(0, colon + 1) + path_ + "/tasks.db";
    reopens_ = std::getenv("NOCTER_REOPEN") != nullptr;
  }
  options_.limits = limits;
  options_.clock = clock_;
  options_.random = std::make_shared<SeededRandom>(7);
  options_.events = events;
  options_.durability = Durability::normal;  // nobody cuts the power here
  open();
  node_ = enter("first");
}

World::~World() {
  store_.reset();
  if (!path_.empty()) std::filesystem::remove_all(path_);
}

void World::open() {
  store_.reset();
  store_ = nocter::stores::open(url_, options_);
}

void World::restart() {
  const int64_t before = node_;
  if (url_ != "memory:") open();
  node_ = enter("second");
  Maintain upkeep;
  upkeep.dead = {before};
  upkeep.search_everything = true;
  maintain(upkeep);
}

int64_t World::enter(const std::string& name) {
  Register node;
  node.name = name;
  node.instance = to_text(make_task_id());
  node.lease_ms = kLease;
  BOOST_REQUIRE_EQUAL(ask(node), Status::ok);
  return node.node;
}

Submission World::task(const std::string& type) {
  Submission submission;
  submission.id = make_task_id();
  submission.type = type;
  submission.payload = "{}";
  return submission;
}

Status World::submit(Submission submission, TaskId* winner) {
  Submit submit;
  submit.tasks.push_back(std::move(submission));
  const Status status = ask(submit);
  if (winner != nullptr) *winner = submit.ids.empty() ? TaskId{} : submit.ids[0];
  return status;
}

TaskId World::root(const std::string& type) {
  const Submission submission = task(type);
  BOOST_REQUIRE_EQUAL(submit(submission), Status::ok);
  return submission.id;
}

TaskId World::child(const TaskId& parent, const std::string& type) {
  Submission submission = task(type);
  submission.parent = parent;
  BOOST_REQUIRE_EQUAL(submit(submission), Status::ok);
  return submission.id;
}

TaskId World::child(const Run& by, const std::string& type) {
  Submit submit;
  submit.tasks.push_back(task(type));
  submit.by = by.claimed;
  BOOST_REQUIRE_EQUAL(ask(submit), Status::ok);
  return submit.ids.at(0);
}

std::vector<Run> World::claim_up_to(uint32_t most, std::vector<std::string> types, uint64_t number, int64_t node) {
  Claim claim;
  claim.types = std::move(types);
  claim.most = most;
  claim.number = number != 0 ? number : ++last_claim_;
  claim.node = node != 0 ? node : node_;
  const Status status = ask(claim);
  BOOST_CHECK_EQUAL(status, claim.tasks.empty() ? Status::empty : Status::ok);
  BOOST_CHECK_LE(claim.tasks.size(), most);
  return std::move(claim.tasks);
}

Run World::claim(const std::string& type) {
  std::vector<Run> runs = claim_up_to(1, {type});
  BOOST_REQUIRE_EQUAL(runs.size(), 1U);
  return runs[0];
}

bool World::idle(const std::string& type) {
  return claim_up_to(1, type.empty() ? std::vector<std::string>{} : std::vector<std::string>{type}).empty();
}

Status World::done(const Run& run, const std::string& result) {
  Settle settle;
  settle.by = run.claimed;
  settle.outcome = Outcome::done;
  settle.result = result;
  return ask(settle);
}

Status World::fail(const Run& run, const std::string& kind, Retry retry, int64_t after) {
  Settle settle;
  settle.by = run.claimed;
  settle.outcome = Outcome::fail;
  settle.failure.kind = kind;
  settle.failure.message = "it went wrong";
  settle.failure.detail = "line 7";
  settle.retry = retry;
  settle.retry_after_ms = after;
  return ask(settle);
}

Status World::suspend(const Run& run, const Suspension& suspension) {
  Settle settle;
  settle.by = run.claimed;
  settle.outcome = Outcome::suspend;
  settle.suspension = suspension;
  return ask(settle);
}

Status World::hand_back(const Run& run) {
  Settle settle;
  settle.by = run.claimed;
  settle.outcome = Outcome::hand_back;
  return ask(settle);
}

Status World::notify(const TaskId& to, const std::string& payload, const std::string& key) {
  Notify notify;
  notify.to = to;
  notify.payload = payload;
  notify.key = key;
  return ask(notify);
}

Status World::cancel(const TaskId& id) {
  Cancel cancel;
  cancel.id = id;
  return ask(cancel);
}

Status World::update(const Run& run, const std::string& state) {
  UpdateState update;
  update.by = run.claimed;
  update.state = state;
  return ask(update);
}

Maintain World::maintain(const Maintain& maintain) {
  Maintain all;
  for (int turns = 0; turns < 10'000; turns++) {
    Maintain one = maintain;
    BOOST_REQUIRE_EQUAL(ask(one), Status::ok);
    all.promoted += one.promoted;
    all.rescued += one.rescued;
    all.repaired += one.repaired;
    all.purged += one.purged;
    all.purged_events += one.purged_events;
    if (!one.more) return all;
  }
  BOOST_FAIL("upkeep that never ends");
  return all;
}

Maintain World::purge(Millis before) {
  Maintain upkeep;
  upkeep.purge_before = before;
  return maintain(upkeep);
}

Record World::get(const TaskId& id) {
  Record record;
  BOOST_REQUIRE_EQUAL(store_->get(id, record).status, Status::ok);
  return record;
}

bool World::exists(const TaskId& id) {
  Record record;
  return store_->get(id, record).status == Status::ok;
}

Counts World::count() {
  Counts counts;
  BOOST_REQUIRE_EQUAL(store_->count(counts).status, Status::ok);
  return counts;
}

std::vector<Event> World::events(uint64_t after) {
  std::vector<Event> events;
  BOOST_REQUIRE_EQUAL(store_->events(after, 100'000, events).status, Status::ok);
  return events;
}

std::vector<Event::Kind> World::history(const TaskId& id) {
  std::vector<Event::Kind> kinds;
  for (const Event& event : events())
    if (event.task == id) kinds.push_back(event.kind);
  return kinds;
}

Suspension until(const std::vector<TaskId>& ids, uint32_t need, bool wake_on_failure, Millis wake_at) {
  Suspension suspension;
  suspension.until = Until::tasks;
  suspension.ids = ids;
  suspension.need = need;
  suspension.wake_on_failure = wake_on_failure;
  suspension.wake_at = wake_at;
  return suspension;
}

Suspension until_children(uint32_t need, bool wake_on_failure, Millis wake_at) {
  Suspension suspension = until({}, need, wake_on_failure, wake_at);
  suspension.until = Until::children;
  return suspension;
}

Suspension until_notified(Millis wake_at) {
  Suspension suspension;
  suspension.wake_at = wake_at;
  return suspension;
}

std::vector<std::string> payloads(const Run& run) {
  std::vector<std::string> found;
  for (const Message& message : run.messages) found.push_back(message.payload);
  return found;
}

}  // namespace tasks_tests
