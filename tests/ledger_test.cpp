// What a store promises when something goes wrong below it: an allocation that fails changes nothing, a request that cannot be done fails
// alone, and wakes that were lost are found again. On the tables in memory, whose undoing is tested with it.
#include <nocter.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "nocter/stores/memory_tables.hpp"
#include "nocter/stores/open.hpp"
#include "nocter/tasks/table_store.hpp"
#include "nocter/tasks/task_id.hpp"
#include "support/fixture.hpp"

namespace {

// One allocation of this thread fails: the one that comes after so many others, or every one from a size on.
thread_local int64_t allowed_allocations = -1;
thread_local size_t too_large = SIZE_MAX;

void* allocate(size_t size) {
  if (size >= too_large || allowed_allocations == 0) {
    if (allowed_allocations == 0) allowed_allocations = -1;
    throw std::bad_alloc();
  }
  if (allowed_allocations > 0) allowed_allocations--;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return allocate(size); }
void* operator new[](size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

using namespace nocter::tasks;
using boost::unit_test::label;
using nocter::Status;
using nocter::stores::MemoryTables;

namespace {

class SameForAll final : public Readers {
 public:
  explicit SameForAll(Tables& tables) : tables_(tables) {}
  Tables& borrow() override { return tables_; }
  void give_back(Tables&) noexcept override {}

 private:
  Tables& tables_;
};

class Fixture {
 public:
  Fixture() {
    options_.clock = clock_;
    options_.random = std::make_shared<SeededRandom>(1);
    options_.events = true;
    auto tables = std::make_unique<MemoryTables>();
    tables_ = tables.get();
    store_ = std::make_unique<TableStore>(std::move(tables), std::make_unique<SameForAll>(*tables_), options_);
    Register node;
    node.lease_ms = 15'000;
    node.name = "node";
    BOOST_REQUIRE_EQUAL(static_cast<int>(ask(node)), 0);
    node_ = node.node;
  }

  template <class D>
  Status ask(D& demand) {
    Request request{demand, {}};
    Request* batch[] = {&request};
    Effects effects;
    store_->execute(batch, effects);
    if (request.answer.status != Status::memory) demand = std::get<D>(request.demand);
    return request.answer.status;
  }
  TaskId submit(const std::string& type, const TaskId& parent = {}) {
    Submit submit;
    submit.tasks.resize(1);
    submit.tasks[0].id = make_task_id();
    submit.tasks[0].type = type;
    submit.tasks[0].payload = "{}";
    submit.tasks[0].parent = parent;
    BOOST_REQUIRE_EQUAL(static_cast<int>(ask(submit)), 0);
    return submit.tasks[0].id;
  }
  Claimed claim(const std::string& type) {
    Claim claim;
    claim.types = {type};
    claim.node = node_;
    claim.number = ++claims_;
    BOOST_REQUIRE_EQUAL(static_cast<int>(ask(claim)), 0);
    return claim.tasks.at(0).claimed;
  }
  Status suspend(const Claimed& by, Until until, const std::vector<TaskId>& ids = {}) {
    Settle settle;
    settle.by = by;
    settle.outcome = Outcome::suspend;
    settle.suspension.until = until;
    settle.suspension.ids = ids;
    return ask(settle);
  }
  Record get(const TaskId& id) {
    Record record;
    BOOST_REQUIRE_EQUAL(static_cast<int>(store_->get(id, record).status), 0);
    return record;
  }

  // All that a reader can see.
  std::string dump() {
    std::ostringstream out;
    Filter filter;
    filter.most = SIZE_MAX;
    std::vector<Record> records;
    store_->list(filter, records);
    for (const Record& record : records) {
      const TaskRow& row = record.row;
      out << to_text(row.id) << ' ' << static_cast<int>(row.phase) << ' ' << static_cast<int>(row.woken_by) << ' '
          << row.attempt << ' ' << row.failures << ' ' << row.deliveries << ' ' << row.rescues << ' ' << row.fence
          << ' ' << row.token << ' ' << row.due_at << ' ' << row.ended_at << ' ' << row.open << ' ' << row.need << ' '
          << row.children << ' ' << row.open_children << ' ' << row.failed_children << ' ' << row.mail << ' '
          << row.mail_bytes << ' ' << row.tree_open << ' ' << row.tree_ended_at << ' ' << record.type << ' '
          << record.texts.payload << record.texts.state << record.texts.result << record.texts.failure.kind;
      for (const TaskId& id : record.waiting_for) out << " <" << to_text(id);
      std::vector<Message> messages;
      store_->mail(row.id, messages);
      for (const Message& message : messages) out << " @" << message.payload << message.deliveries;
      out << '\n';
    }
    std::vector<Event> events;
    store_->events(0, SIZE_MAX, events);
    for (const Event& event : events)
      out << event.sequence << ' ' << static_cast<int>(event.kind) << event.data << '\n';
    std::vector<std::pair<std::string, std::string>> values;
    store_->shared_all("scope", values);
    for (const auto& [key, value] : values) out << key << '=' << value << '\n';
    Counts counts;
    store_->count(counts);
    for (const uint64_t count : counts.by_status) out << count << ' ';
    out << counts.ready << ' ' << counts.delayed << ' ' << counts.oldest_ready << ' ' << counts.purged;
    return out.str();
  }

  // The same request, with one allocation failing, then the next one, until it goes through.
  template <class D>
  void survive(D demand, Status expected = Status::ok) {
    const std::string before = dump();
    for (int64_t allowed = 0;; allowed++) {
      BOOST_REQUIRE_LT(allowed, 100'000);
      Request request{demand, {}};
      Request* batch[] = {&request};
      Effects effects;
      allowed_allocations = allowed;
      store_->execute(batch, effects);
      const bool failed = allowed_allocations < 0;
      allowed_allocations = -1;
      if (request.answer.status != Status::memory) {
        BOOST_CHECK_EQUAL(static_cast<int>(request.answer.status), static_cast<int>(expected));
        if (!failed) return;
        BOOST_REQUIRE_NE(before, dump());  // it was of no consequence
        return;
      }
      BOOST_REQUIRE(failed);
      BOOST_REQUIRE(effects.ready.empty() && effects.ended.empty() && effects.released.empty());
      BOOST_REQUIRE_EQUAL(before, dump());
    }
  }

  const std::shared_ptr<SteerableClock> clock_ = std::make_shared<SteerableClock>(1'700'000'000'000);
  StoreOptions options_;
  MemoryTables* tables_ = nullptr;
  std::unique_ptr<TableStore> store_;
  int64_t node_ = 0;
  uint64_t claims_ = 0;
};

Submission submission(const std::string& type, const std::string& key = {}) {
  Submission made;
  made.id = make_task_id();
  made.type = type;
  made.payload = R"({"a payload":"that is too long to be kept in the string itself"})";
  made.key = key;
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(gen_09_no_request_is_done_by_half, *label("GEN-09") * label("TSK-12")) {
  Fixture store;
  Submit submit;
  submit.tasks = {submission("parent", "key"), submission("other"), submission("third")};
  submit.tasks[2].parent = submit.tasks[0].id;
  store.survive(submit);
  Claim claim;
  claim.types = {"parent"};
  claim.node = store.node_;
  claim.number = 77;
  Notify notify;
  notify.to = submit.tasks[0].id;
  notify.payload = R"("a message that is long enough to need memory of its own")";
  notify.key = "a key that is long enough to need memory of its own, too";
  store.survive(notify);
  store.survive(claim);
  BOOST_REQUIRE_EQUAL(static_cast<int>(store.ask(claim)), 0);  // the same one
  const Claimed by = claim.tasks.at(0).claimed;
  store.survive(UpdateState{by, notify.payload});
  store.survive(StepPut{by, notify.key, notify.payload});
  SharedPut put;
  put.scope = "scope";
  put.key = notify.key;
  put.value = notify.payload;
  store.survive(put);
  Submit children;
  children.by = by;
  children.tasks = {submission("child"), submission("child")};
  Settle settle;
  settle.by = by;
  settle.outcome = Outcome::suspend;
  settle.suspension.until = Until::tasks;
  settle.suspension.ids = {children.tasks[0].id, submit.tasks[1].id};
  settle.staged = {children, StepPut{by, "second", "2"}, put};
  store.survive(settle);
  BOOST_CHECK(store.get(by.id).row.phase == Phase::suspended);
  BOOST_CHECK_EQUAL(store.get(by.id).waiting_for.size(), 2U);
  Settle failing;
  failing.by = store.claim("child");
  failing.outcome = Outcome::fail;
  failing.failure.kind = "a kind of failure that needs memory of its own";
  store.survive(failing);
  store.survive(LockAcquire{"a lock whose name needs memory of its own", 1000, 9, 0, 0});
  store.survive(LockRelease{"a lock whose name needs memory of its own", 9});
  store.survive(Cancel{by.id, 0, false});
  BOOST_CHECK(store.get(by.id).row.phase == Phase::cancelled);
  store.survive(Cancel{submit.tasks[1].id, 0, false});
  store.clock_->advance(10);
  Maintain maintain;
  maintain.purge_before = store.store_->now();
  maintain.events_before = store.store_->now();
  store.survive(maintain);
  Counts counts;
  store.store_->count(counts);
  BOOST_CHECK_EQUAL(counts.tasks, 0U);
}

// DUR-10: only the request for which there is no memory says so.
BOOST_AUTO_TEST_CASE(gen_09_a_request_that_cannot_be_done_fails_alone, *label("GEN-09") * label("TSK-12")) {
  Fixture store;
  const TaskId ending = store.submit("ending");
  const Claimed by = store.claim("ending");
  std::vector<Request> requests(4);
  Submit small, large;
  small.tasks = {submission("small")};
  large.tasks = {submission("large")};
  large.tasks[0].payload.assign(600'000, '1');
  Settle settle;
  settle.by = by;
  requests[0].demand = small;
  requests[1].demand = large;
  requests[2].demand = settle;
  requests[3].demand = UpdateState{by, "1"};  // after its end
  std::vector<Request*> batch;
  for (Request& request : requests) batch.push_back(&request);
  Effects effects;
  too_large = 500'000;
  store.store_->execute(batch, effects);
  too_large = SIZE_MAX;
  BOOST_CHECK_EQUAL(static_cast<int>(requests[0].answer.status), static_cast<int>(Status::ok));
  BOOST_CHECK_EQUAL(static_cast<int>(requests[1].answer.status), static_cast<int>(Status::memory));
  BOOST_CHECK_EQUAL(static_cast<int>(requests[2].answer.status), static_cast<int>(Status::ok));
  BOOST_CHECK_EQUAL(static_cast<int>(requests[3].answer.status), static_cast<int>(Status::lease_lost));
  BOOST_REQUIRE_EQUAL(effects.ended.size(), 1U);
  BOOST_CHECK(effects.ended[0] == ending);
  BOOST_REQUIRE_EQUAL(effects.ready.size(), 1U);
  BOOST_CHECK_EQUAL(effects.ready[0].type, "small");
  Record record;
  BOOST_CHECK(store.store_->get(large.tasks[0].id, record).status == Status::unknown);
}

namespace {

// What no request does: the tables as a file would be that somebody has mended by hand.
template <class Change>
void tamper(Fixture& store, const TaskId& id, Change&& change) {
  store.tables_->begin();
  TaskRow row;
  BOOST_REQUIRE(store.tables_->find_task(id, row));
  change(row);
  store.tables_->update_task(row);
  store.tables_->commit();
}

std::vector<Number> waiters_of(Fixture& store, Number target) {
  std::vector<Number> out;
  store.tables_->waiters_of(target, out);
  return out;
}

Maintain search(Fixture& store) {
  Maintain maintain;
  maintain.search_everything = true;
  BOOST_REQUIRE_EQUAL(static_cast<int>(store.ask(maintain)), 0);
  return maintain;
}

}  // namespace

BOOST_AUTO_TEST_CASE(tsk_19_lost_wakes_are_repaired, *label("TSK-19") * label("T-87")) {
  Fixture store;
  const TaskId parent = store.submit("parent"), waiter = store.submit("waiter"), sleeper = store.submit("sleeper");
  const TaskId joined = store.submit("joined"), fine = store.submit("fine");
  const TaskId child = store.submit("child", parent), other = store.submit("other");
  BOOST_CHECK(store.suspend(store.claim("parent"), Until::children) == Status::ok);
  BOOST_CHECK(store.suspend(store.claim("waiter"), Until::tasks, {child}) == Status::ok);
  BOOST_CHECK(store.suspend(store.claim("sleeper"), Until::notified) == Status::ok);
  BOOST_CHECK(store.suspend(store.claim("joined"), Until::tasks, {other}) == Status::ok);
  BOOST_CHECK(store.suspend(store.claim("fine"), Until::tasks, {other}) == Status::ok);
  BOOST_CHECK_EQUAL(search(store).repaired, 0U);
  // The child's end is there, and what follows from it is not.
  tamper(store, child, [](TaskRow& row) {
    row.phase = Phase::failed;
    row.ended_at = 1;
  });
  tamper(store, joined, [](TaskRow& row) { row.need = 0; });
  tamper(store, sleeper, [](TaskRow& row) { row.mail = 1; });
  Maintain usual;
  BOOST_CHECK(store.ask(usual) == Status::ok);
  BOOST_CHECK_EQUAL(usual.repaired, 2U);  // what the indexes show
  BOOST_CHECK(store.get(joined).row.woken_by == Wake::join);
  BOOST_CHECK(store.get(sleeper).row.woken_by == Wake::message);
  BOOST_CHECK(store.get(parent).row.phase == Phase::suspended);
  BOOST_CHECK_EQUAL(search(store).repaired, 2U);
  for (const TaskId& id : {parent, waiter}) {
    BOOST_CHECK(store.get(id).row.phase == Phase::ready);
    BOOST_CHECK(store.get(id).row.woken_by == Wake::join);
    BOOST_CHECK(store.get(id).waiting_for.empty());
  }
  BOOST_CHECK(store.get(fine).row.phase == Phase::suspended);
  BOOST_CHECK_EQUAL(search(store).repaired, 0U);
  Counts counts;
  store.store_->count(counts);
  BOOST_CHECK_EQUAL(counts.repairs, 4U);
}

// As one that was cancelled: whoever waits for it, and for others, goes on waiting for those.
BOOST_AUTO_TEST_CASE(tsk_19_tsk_25_a_target_that_is_gone_strands_nobody, *label("TSK-19") * label("TSK-25")) {
  Fixture store;
  const TaskId waiter = store.submit("waiter"), second = store.submit("second"), patient = store.submit("patient");
  const TaskId gone = store.submit("gone"), there = store.submit("there");
  BOOST_CHECK(store.suspend(store.claim("waiter"), Until::tasks, {gone}) == Status::ok);
  BOOST_CHECK(store.suspend(store.claim("second"), Until::tasks, {gone}) == Status::ok);
  BOOST_CHECK(store.suspend(store.claim("patient"), Until::tasks, {gone, there}) == Status::ok);
  store.tables_->begin();
  TaskRow row;
  BOOST_REQUIRE(store.tables_->find_task(gone, row));
  const auto waiters = waiters_of(store, row.number);
  store.tables_->remove_task(row);
  for (const Number number : waiters) store.tables_->add_edge(number, row.number);  // removal takes them along
  store.tables_->commit();
  BOOST_CHECK_EQUAL(search(store).repaired, 3U);
  for (const TaskId& id : {waiter, second}) {
    BOOST_CHECK(store.get(id).row.phase == Phase::ready);
    BOOST_CHECK(store.get(id).row.woken_by == Wake::join);
  }
  BOOST_CHECK(store.get(patient).row.phase == Phase::suspended);
  BOOST_CHECK_EQUAL(store.get(patient).waiting_for.size(), 1U);
  BOOST_CHECK_EQUAL(search(store).repaired, 0U);
  Settle done;
  done.by = store.claim("there");
  done.outcome = Outcome::done;
  BOOST_CHECK(store.ask(done) == Status::ok);
  BOOST_CHECK(store.get(patient).row.phase == Phase::ready);
}

BOOST_AUTO_TEST_CASE(tsk_19_a_store_of_any_size_is_searched_in_pieces, *label("TSK-19") * label("T-87")) {
  Fixture store;
  std::vector<TaskId> parents, children;
  for (size_t i = 0; i < 2'500; i++) {
    const TaskId parent = store.submit("parent");
    parents.push_back(parent);
    children.push_back(store.submit("child", parent));
    BOOST_REQUIRE(store.suspend(store.claim("parent"), Until::children) == Status::ok);
  }
  for (const size_t broken : {size_t{3}, size_t{1'200}, size_t{2'499}}) {
    tamper(store, children[broken], [](TaskRow& row) {
      row.phase = Phase::cancelled;
      row.ended_at = 1;
    });
  }
  uint64_t repaired = 0;
  size_t pieces = 0;
  Maintain maintain;
  do {
    const TaskId from = maintain.searched_to;
    maintain = {};
    maintain.search_everything = true;
    maintain.search_from = from;
    BOOST_REQUIRE(store.ask(maintain) == Status::ok);
    repaired += maintain.repaired;
    pieces++;
    BOOST_CHECK_EQUAL(maintain.more, !maintain.searched_to.none());
  } while (!maintain.searched_to.none());
  BOOST_CHECK_EQUAL(repaired, 3U);
  BOOST_CHECK_GT(pieces, 2U);
  for (size_t i = 0; i < parents.size(); i++) {
    const bool broken = i == 3 || i == 1'200 || i == 2'499;
    BOOST_REQUIRE(store.get(parents[i]).row.phase == (broken ? Phase::ready : Phase::suspended));
  }
}

BOOST_AUTO_TEST_CASE(stores_are_called_by_their_kind) {
  const auto refusal = [](const char* url) -> std::string {
    try {
      nocter::stores::open(url, StoreOptions{});
    } catch (const StoreError& error) {
      BOOST_CHECK(error.status == Status::argument);
      return error.what();
    }
    return {};
  };
  BOOST_CHECK(nocter::stores::open("memory:", StoreOptions{}) != nullptr);
  for (const char* url : {"", "memory", "memory:name", "sqlite:", "file.db"})
    BOOST_CHECK_MESSAGE(!refusal(url).empty(), url);
  BOOST_CHECK(refusal("mysql://user:secret@host/db").find("secret") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(tsk_21_identities_rise_and_are_written_as_uuids, *label("TSK-21")) {
  TaskId last;
  for (int i = 0; i < 20'000; i++) {  // more than one millisecond has room for
    const TaskId id = make_task_id();
    BOOST_REQUIRE(last < id);
    BOOST_REQUIRE_EQUAL(id.bytes[6] >> 4, 7);
    BOOST_REQUIRE_EQUAL(id.bytes[8] >> 6, 2);
    last = id;
  }
  const std::string text = to_text(last);
  BOOST_CHECK_EQUAL(text.size(), kTaskIdText);
  TaskId read;
  BOOST_CHECK(parse_task_id(text, read) && read == last);
  std::string upper = text;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  BOOST_CHECK(parse_task_id(upper, read) && read == last);
  BOOST_CHECK_EQUAL(to_text(TaskId{}), "00000000-0000-0000-0000-000000000000");
  for (size_t at = 0; at < text.size(); at++) {
    std::string broken = text;
    broken[at] = broken[at] == '-' ? '0' : 'g';
    BOOST_CHECK_MESSAGE(!parse_task_id(broken, read) && read.none(), broken);
  }
  BOOST_CHECK(!parse_task_id(text.substr(1), read) && !parse_task_id(text + "0", read) && !parse_task_id("", read));
}
