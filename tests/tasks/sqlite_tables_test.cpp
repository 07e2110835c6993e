// The tables themselves: marks, totals, numbers, what is known between transactions. That the rules hold over them is for the conformance tests.
#include <chrono>
#include <filesystem>

#include "nocter/stores/sqlite_tables.hpp"
#include "support/fixture.hpp"
#include "tasks/sqlite_support.hpp"

using namespace nocter_tests;
using stores::Connection;
using stores::SqliteTables;
using tasks::Phase;
using tasks::TaskRow;

namespace {

std::unique_ptr<SqliteTables> open_tables(const std::string& path) {
  return stores::open_sqlite_tables(path, false, {});
}

TaskRow new_row(SqliteTables& tables, int32_t type, Phase phase = Phase::ready, int32_t priority = 0,
                std::string_view payload = "{}") {
  TaskRow row;
  row.id = tasks::make_task_id();
  row.type = type;
  row.phase = phase;
  row.priority = priority;
  row.created_at = 1000;
  tables.insert_task(row, payload, "");
  return row;
}

std::vector<tasks::Number> numbers(const std::vector<TaskRow>& rows) {
  std::vector<tasks::Number> out;
  for (const TaskRow& row : rows) out.push_back(row.number);
  return out;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite_tables, EveryTest)

BOOST_AUTO_TEST_CASE(dur_10_what_follows_a_mark_can_be_taken_back, *label("DUR-10")) {
  const Folder folder;
  const auto tables = open_tables(folder / "tasks.db");
  tables->begin();
  const int32_t type = tables->make_type("kept");
  TaskRow kept = new_row(*tables, type, Phase::ready, 0, "[1]");
  tables->mark();
  const TaskRow dropped = new_row(*tables, tables->make_type("dropped"));
  kept.phase = Phase::running;
  kept.node = 5;
  tables->update_task(kept);
  tables->put_state(kept.number, "[2]");
  tables->put_shared("a", "b", "c");
  tables->set_counter("rescues", 9);
  tables->back_to_mark();
  TaskRow found;
  BOOST_TEST(!tables->load_task(dropped.number, found));
  BOOST_TEST(!tables->find_task(dropped.id, found));
  BOOST_TEST(tables->find_type("dropped") == 0);
  BOOST_REQUIRE(tables->load_task(kept.number, found));
  BOOST_TEST((found.phase == Phase::ready));
  tasks::TaskTexts texts;
  tables->read_texts(kept.number, texts);
  BOOST_TEST(texts.payload == "[1]");
  BOOST_TEST(texts.state == "");
  std::string value;
  BOOST_TEST(!tables->find_shared("a", "b", value));
  BOOST_TEST(tables->counter("rescues") == 0);
  // The number of what was taken back is free again, and a mark that was dropped keeps what followed it.
  tables->mark();
  const TaskRow next = new_row(*tables, type);
  BOOST_TEST(next.number == dropped.number);
  tables->drop_mark();
  tables->mark();
  tables->back_to_mark();
  tables->commit();
  tasks::Counts counts;
  tables->begin_read();
  tables->count(counts);
  tables->end_read();
  BOOST_TEST(counts.tasks == 2U);
  BOOST_TEST(counts.ready == 2U);
}

BOOST_AUTO_TEST_CASE(dat_04_a_row_comes_back_as_it_was, *label("DAT-04")) {
  const Folder folder;
  TaskRow row;
  row.id = tasks::make_task_id();
  row.phase = Phase::delayed;
  row.type = 1;
  row.parent = 7;
  row.root = 3;
  row.priority = INT32_MIN;
  row.woken_by = tasks::Wake::rescue;
  row.resumed = row.cancel_requested = row.has_key = row.wake_on_failure = row.need_all = true;
  row.key_scope = tasks::KeyScope::tree;
  row.attempt = row.failures = row.max_attempts = row.deliveries = row.rescues = UINT32_MAX;
  row.fence = row.token = row.claim = row.settled_token = UINT64_MAX;
  row.settled_status = INT32_MIN;
  row.node = INT64_MIN;
  row.created_at = row.started_at = int64_t{1} << 53;
  row.due_at = 12;
  row.ended_at = 13;
  row.until = tasks::Until::notified;
  row.open = 14;
  row.need = -15;
  row.children = 16;
  row.open_children = 17;
  row.failed_children = 18;
  row.failed_children_seen = 19;
  row.mail = 20;
  row.mail_bytes = 21;
  row.tree_open = 22;
  const auto same = [](const TaskRow& a, const TaskRow& b) {
    return a.number == b.number && a.id == b.id && a.root == b.root && a.parent == b.parent && a.type == b.type &&
           a.priority == b.priority && a.phase == b.phase && a.woken_by == b.woken_by && a.resumed == b.resumed &&
           a.cancel_requested == b.cancel_requested && a.key_scope == b.key_scope && a.has_key == b.has_key &&
           a.attempt == b.attempt && a.failures == b.failures && a.max_attempts == b.max_attempts &&
           a.deliveries == b.deliveries && a.rescues == b.rescues && a.fence == b.fence && a.token == b.token &&
           a.claim == b.claim && a.settled_token == b.settled_token && a.settled_status == b.settled_status &&
           a.node == b.node && a.created_at == b.created_at && a.due_at == b.due_at && a.started_at == b.started_at &&
           a.ended_at == b.ended_at && a.until == b.until && a.wake_on_failure == b.wake_on_failure &&
           a.need_all == b.need_all && a.open == b.open && a.need == b.need && a.children == b.children &&
           a.open_children == b.open_children && a.failed_children == b.failed_children &&
           a.failed_children_seen == b.failed_children_seen && a.mail == b.mail && a.mail_bytes == b.mail_bytes &&
           a.tree_open == b.tree_open && a.tree_ended_at == b.tree_ended_at;
  };
  TaskRow found;
  {
    const auto tables = open_tables(folder / "tasks.db");
    tables->begin();
    tables->make_type("type");
    tables->insert_task(row, "{}", "");
    tables->commit();
  }
  auto tables = open_tables(folder / "tasks.db");
  tables->begin();
  BOOST_REQUIRE(tables->find_task(row.id, found));
  BOOST_TEST(same(found, row));
  // Each group of columns changed alone, read by a connection that knows nothing yet.
  const auto changed = [&](auto&& change) {
    change(row);
    tables->update_task(row);
    tables->commit();
    tables = open_tables(folder / "tasks.db");
    tables->begin();
    return tables->load_task(row.number, found) && same(found, row);
  };
  BOOST_TEST(changed([](TaskRow& r) { r.open_children--; }));
  BOOST_TEST(changed([](TaskRow& r) { r.due_at = tasks::kNever; }));
  BOOST_TEST(changed([](TaskRow& r) { r.node = 0; }));
  BOOST_TEST(changed([](TaskRow& r) { r.priority = 4; }));
  BOOST_TEST(changed([](TaskRow& r) { r.tree_ended_at = 99; }));
  BOOST_TEST(changed([](TaskRow& r) {
    r.phase = Phase::completed;
    r.ended_at = 100;
  }));
  // One that was just submitted, through a claim and an end, and what changes seldom together with these.
  row = TaskRow{};
  row.id = tasks::make_task_id();
  row.type = 1;
  row.key_scope = tasks::KeyScope::tree;
  row.has_key = true;
  row.max_attempts = 3;
  row.tree_open = 1;
  tables->insert_task(row, "{}", "key");
  BOOST_TEST(changed([](TaskRow&) {}));
  BOOST_TEST(changed([](TaskRow& r) {
    r.phase = Phase::running;
    r.fence = 24;
    r.token = 25;
    r.started_at = 26;
    r.attempt = 27;
    r.deliveries = 28;
  }));
  BOOST_TEST(changed([](TaskRow& r) {
    r.phase = Phase::suspended;
    r.resumed = r.need_all = r.wake_on_failure = true;
    r.until = tasks::Until::children;
    r.children = 29;
  }));
  BOOST_TEST(changed([](TaskRow& r) {
    r.phase = Phase::running;
    r.max_attempts = 2;
  }));
  BOOST_TEST(changed([](TaskRow& r) {
    r.phase = Phase::completed;
    r.settled_token = 30;
    r.settled_status = 31;
    r.tree_open = 0;
    r.ended_at = r.tree_ended_at = 101;
  }));
  BOOST_TEST(changed([](TaskRow& r) {
    r.ended_at = 102;
    r.mail = 32;
  }));
  tables->commit();
}

BOOST_AUTO_TEST_CASE(rsc_01_a_transaction_that_is_rolled_back_leaves_nothing, *label("RSC-01")) {
  const Folder folder;
  const auto tables = open_tables(folder / "tasks.db");
  tables->begin();
  const TaskRow first = new_row(*tables, tables->make_type("type"));
  tables->commit();
  tables->begin();
  TaskRow changed = first;
  changed.phase = Phase::running;
  tables->update_task(changed);
  const TaskRow second = new_row(*tables, tables->make_type("other"));
  tasks::NodeRow node;
  node.instance = "gone";
  tables->insert_node(node);
  BOOST_TEST(std::filesystem::exists(folder / "tasks.db.nocter/gone"));
  tables->roll_back();
  BOOST_TEST(!std::filesystem::exists(folder / "tasks.db.nocter/gone"));
  tables->begin();
  TaskRow found;
  BOOST_TEST(tables->find_type("other") == 0);
  BOOST_TEST(!tables->find_task(second.id, found));
  BOOST_TEST((tables->load_task(first.number, found) && found.phase == Phase::ready));
  tasks::Counts counts;
  tables->count(counts);
  BOOST_TEST(counts.tasks == 1U);
  BOOST_TEST(counts.ready == 1U);
  tables->commit();
}

// D-12. A number is never given twice, also not that of the last task after it was removed.
BOOST_AUTO_TEST_CASE(tsk_07_numbers_are_given_once) {
  const Folder folder;
  tasks::Number last = 0;
  for (int round = 0; round < 3; round++) {
    const auto tables = open_tables(folder / "tasks.db");
    tables->begin();
    const int32_t type = round == 0 ? tables->make_type("type") : tables->find_type("type");
    for (int i = 0; i < 3; i++) {
      const TaskRow row = new_row(*tables, type);
      BOOST_TEST(row.number > last);
      BOOST_TEST(row.root == row.number);
      last = row.number;
      tables->remove_task(row);
    }
    tables->commit();
  }
}

BOOST_AUTO_TEST_CASE(tsk_12_ready_ones_come_by_priority_and_then_by_number) {
  const Folder folder;
  const auto tables = open_tables(folder / "tasks.db");
  tables->begin();
  const int32_t one = tables->make_type("one"), two = tables->make_type("two");
  for (const int32_t priority : {0, 5, -5, 5, INT32_MAX, INT32_MIN}) new_row(*tables, one, Phase::ready, priority);
  for (const int32_t priority : {1, 5}) new_row(*tables, two, Phase::ready, priority);
  new_row(*tables, one, Phase::delayed, 100);
  new_row(*tables, one, Phase::suspended, 100);
  std::vector<TaskRow> rows;
  tables->ready(one, 100, rows);
  BOOST_TEST(numbers(rows) == (std::vector<tasks::Number>{5, 2, 4, 1, 3, 6}), boost::test_tools::per_element());
  rows.clear();
  tables->ready_of_every_type(4, rows);
  BOOST_TEST(numbers(rows) == (std::vector<tasks::Number>{5, 2, 4, 8}), boost::test_tools::per_element());
  rows.clear();
  tables->ready(one, 0, rows);
  BOOST_TEST(rows.empty());
  tasks::Counts counts;
  tables->count(counts);
  BOOST_TEST(counts.ready == 8U);
  BOOST_TEST(counts.delayed == 1U);
  BOOST_TEST(counts.oldest_ready == 1000);
  tables->commit();
}

// What one process knows of rows is dropped when another has written.
// The row is read by index between the text and the commit, as when a renewal comes in the same batch.
BOOST_AUTO_TEST_CASE(tsk_01_a_text_outlives_a_look_at_its_row) {
  const Folder folder;
  TaskRow row;
  row.id = tasks::make_task_id();
  row.type = 1;
  {
    const auto tables = open_tables(folder / "tasks.db");
    tables->begin();
    tables->make_type("type");
    tables->insert_task(row, "{}", "");
    tables->commit();
    tables->begin();
    TaskRow found;
    BOOST_REQUIRE(tables->load_task(row.number, found));
    tables->put_state(row.number, "1");
    std::vector<TaskRow> ready;
    tables->ready(1, 10, ready);
    BOOST_TEST(ready.size() == 1U);
    tables->commit();
  }
  const auto tables = open_tables(folder / "tasks.db");
  tables->begin();
  tasks::TaskTexts texts;
  tables->read_texts(row.number, texts);
  BOOST_TEST(texts.state == "1");
  tables->commit();
}

BOOST_AUTO_TEST_CASE(dur_01_two_writers_see_each_others_rows, *label("DUR-01")) {
  const Folder folder;
  const auto one = open_tables(folder / "tasks.db"), two = open_tables(folder / "tasks.db");
  one->begin();
  TaskRow row = new_row(*one, one->make_type("type"));
  one->commit();
  for (int i = 0; i < 10; i++) {
    for (SqliteTables* tables : {two.get(), one.get()}) {
      tables->begin();
      TaskRow found;
      BOOST_REQUIRE(tables->find_task(row.id, found));
      BOOST_TEST(found.fence == row.fence);
      row.fence = ++found.fence;
      tables->update_task(found);
      const TaskRow added = new_row(*tables, found.type);
      BOOST_TEST(added.number > row.number);
      tables->commit();
    }
  }
  one->begin();
  tasks::Counts counts;
  one->count(counts);
  BOOST_TEST(counts.tasks == 21U);
  one->commit();
}

// DUR-02: whether a commit waits for the disk is what the option says, and full when it says nothing.
BOOST_AUTO_TEST_CASE(dur_02_full_is_the_default, *label("DUR-02")) {
  const Folder folder;
  BOOST_TEST((tasks::StoreOptions{}.durability == tasks::Durability::full));
  const auto full = stores::open_sqlite_tables(folder / "tasks.db", true, {});
  BOOST_TEST(full->connection().number("PRAGMA synchronous") == 2);
  const auto normal = stores::open_sqlite_tables(folder / "tasks.db", false, {});
  BOOST_TEST(normal->connection().number("PRAGMA synchronous") == 1);
  BOOST_TEST(normal->connection().text("PRAGMA journal_mode") == "wal");
}

BOOST_AUTO_TEST_SUITE_END()
