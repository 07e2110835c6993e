// Files that somebody else wrote: of other programs, of a newer version, damaged, made to harm. T-HDB, T-INJ.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>

#include "support/fixture.hpp"
#include "tasks/sqlite_support.hpp"

using namespace nocter_tests;

namespace {

// A database of ours with something of everything in it.
void fill(const std::string& path) {
  tasks::StoreOptions options;
  options.events = true;
  Hand hand(path, options);
  const int64_t node = hand.join("filler");
  const tasks::TaskId root = tasks::make_task_id();
  hand.submit(root, "root", R"({"a":1})");
  const tasks::ClaimedTask run = hand.claim(node);
  for (int i = 0; i < 20; i++)
    hand.submit(tasks::make_task_id(), "child", "{}", root, i % 3 == 0 ? "key" + std::to_string(i) : "");
  hand.state(run.claimed, R"({"step":1})");
  tasks::StepPut step{run.claimed, "first", "1"};
  hand.ask(step);
  tasks::SharedPut shared;
  shared.scope = "scope";
  shared.key = "key";
  shared.value = "2";
  hand.ask(shared);
  tasks::LockAcquire lock;
  lock.name = "lock";
  lock.lease_ms = 1000;
  lock.token = 7;
  hand.ask(lock);
  hand.park(run.claimed, tasks::Until::children);
  for (int i = 0; i < 10; i++) hand.done(hand.claim(node).claimed, R"("fine")");
  for (int i = 0; i < 3; i++) hand.notify(root, R"("a message")", "dedupe" + std::to_string(i));
  hand.submit(tasks::make_task_id(), "big", "\"" + std::string(20'000, 'x') + "\"");
}

// Everything that a program does with a store, whatever it answers.
void use(Hand& hand) {
  const int64_t node = hand.join("user");
  const tasks::TaskId id = tasks::make_task_id();
  hand.submit(id);
  tasks::Filter filter;
  filter.most = 1000;
  std::vector<tasks::Record> records;
  hand.store().list(filter, records);
  for (size_t i = 0; i < std::min<size_t>(records.size(), 10); i++) {
    std::vector<tasks::Message> mail;
    hand.store().mail(records[i].row.id, mail);
    hand.notify(records[i].row.id, "1");
  }
  for (int i = 0; i < 4; i++) {
    const tasks::ClaimedTask claimed = hand.claim(node);
    if (claimed.claimed.token != 0) hand.done(claimed.claimed, "1");
  }
  if (!records.empty()) hand.cancel(records.front().row.id);
  tasks::Maintain maintain;
  maintain.search_everything = true;
  hand.ask(maintain);
  maintain = {};
  maintain.purge_before = tasks::kNever - 1;
  hand.ask(maintain);
  std::vector<tasks::Event> events;
  hand.store().events(0, 100, events);
  std::vector<std::pair<std::string, std::string>> values;
  hand.store().shared_all("scope", values);
  hand.counts();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite_foreign, EveryTest)

BOOST_AUTO_TEST_CASE(sec_05_dur_09_other_peoples_files_are_refused_and_left_alone, *label("SEC-05") * label("DUR-09")) {
  const Folder folder;
  const auto refused = [&](const std::string& name, const std::string& word) {
    const std::string content = file_content(folder / name);
    const auto [status, message] = refusal(folder / name);
    BOOST_TEST((status == Status::version), name << ": " << message);
    BOOST_TEST(message.find(word) != std::string::npos, message);
    BOOST_TEST(message.find(folder / name) != std::string::npos, "it names the file: " << message);
    BOOST_TEST((file_content(folder / name) == content), name);
  };
  run_sql(folder / "browser.db", "PRAGMA application_id = 77; CREATE TABLE places (url TEXT)");
  refused("browser.db", "another program");
  run_sql(folder / "tables.db", "CREATE TABLE places (url TEXT)");
  refused("tables.db", "another program");
  run_sql(folder / "wal.db", "PRAGMA journal_mode = WAL; CREATE TABLE places (url TEXT)");
  refused("wal.db", "another program");
  run_sql(folder / "versioned.db", "PRAGMA user_version = 1");
  refused("versioned.db", "another program");
  write_file(folder / "letter.txt",
             "Dear reader, this is no database at all, and long enough to be looked at as one would be.");
  refused("letter.txt", "no SQLite database");
  write_file(folder / "short.txt", "short");
  refused("short.txt", "no SQLite database");

  Hand(folder / "newer.db").close();
  // As many as there are lines that begin one; what a comment says of them is none.
  BOOST_TEST(ask_sql(folder / "newer.db", "PRAGMA user_version") == "1");
  run_sql(folder / "newer.db", "PRAGMA user_version = 1000");
  refused("newer.db", "newer version");

  // An empty file is nobody's: it may have been made for us.
  write_file(folder / "empty.db", "");
  BOOST_TEST((refusal(folder / "empty.db").first == Status::ok));
}

BOOST_AUTO_TEST_CASE(sec_05_a_schema_with_anything_else_in_it_is_refused, *label("SEC-05")) {
  for (const char* evil : {
           "CREATE TRIGGER evil AFTER INSERT ON task BEGIN DELETE FROM task; END",
           "CREATE VIEW evil AS SELECT 1",
           "CREATE INDEX evil ON task (created_at)",
           "CREATE TABLE evil (x)",
           "ALTER TABLE task ADD COLUMN evil INTEGER",
           "ALTER TABLE task ADD COLUMN evil INTEGER GENERATED ALWAYS AS (number * 2)",
           "DROP INDEX task_place",
           "DROP TABLE step; CREATE VIEW step AS SELECT 1 AS task, 'a' AS name, 'b' AS value",
           "DROP INDEX task_place; CREATE INDEX task_place ON task (phase, place)",
           "ANALYZE",
       }) {
    const Folder folder;
    Hand(folder / "tasks.db").close();
    run_sql(folder / "tasks.db", evil);
    const auto [status, message] = refusal(folder / "tasks.db");
    BOOST_TEST((status == Status::version), evil << ": " << message);
  }
}

// What a record says and no version of ours would have written.
BOOST_AUTO_TEST_CASE(dat_05_a_poisoned_record_stops_nobody_else, *label("DAT-05")) {
  const Folder folder;
  const tasks::TaskId bad = tasks::make_task_id(), good = tasks::make_task_id();
  {
    Hand hand(folder / "tasks.db");
    BOOST_REQUIRE((hand.submit(bad) == Status::ok));
    BOOST_REQUIRE((hand.submit(good) == Status::ok));
  }
  run_sql(folder / "tasks.db", "UPDATE task SET woken_by = 99 WHERE number = 1");
  Hand hand(folder / "tasks.db");
  hand.record(bad);
  BOOST_TEST(hand.message.find("task number 1") != std::string::npos, hand.message);
  const tasks::ClaimedTask claimed = hand.claim(hand.join());
  BOOST_TEST((claimed.claimed.id == good));
  BOOST_TEST((hand.done(claimed.claimed) == Status::ok));
}

// Somebody has deleted a row by hand: as if it had been cancelled, for those who wait for it.
BOOST_AUTO_TEST_CASE(tsk_19_tsk_25_a_target_that_is_gone_strands_nobody, *label("TSK-19") * label("TSK-25")) {
  const Folder folder;
  const tasks::TaskId waiter = tasks::make_task_id(), gone = tasks::make_task_id();
  {
    Hand hand(folder / "tasks.db");
    const int64_t node = hand.join();
    BOOST_REQUIRE((hand.submit(waiter) == Status::ok));
    tasks::Settle wait;
    wait.by = hand.claim(node).claimed;
    wait.outcome = tasks::Outcome::suspend;
    wait.suspension.until = tasks::Until::tasks;
    wait.suspension.ids = {gone};
    BOOST_REQUIRE((hand.submit(gone, "gone") == Status::ok));
    BOOST_REQUIRE((hand.ask(wait) == Status::ok));
  }
  run_sql(folder / "tasks.db", "DELETE FROM task WHERE number = 2");
  Hand hand(folder / "tasks.db");
  tasks::Maintain search;
  search.search_everything = true;
  BOOST_REQUIRE((hand.ask(search) == Status::ok));
  BOOST_TEST(search.repaired == 1U);
  const tasks::Record record = hand.record(waiter);
  BOOST_TEST((record.row.phase == tasks::Phase::ready));
  BOOST_TEST((record.row.woken_by == tasks::Wake::join));
}

BOOST_AUTO_TEST_CASE(dur_08_damage_is_an_error_that_names_the_file, *label("DUR-08")) {
  const Folder folder;
  fill(folder / "tasks.db");
  std::string content = file_content(folder / "tasks.db");
  for (size_t i = page_size_of(folder / "tasks.db"); i < content.size(); i++) content[i] = static_cast<char>(i * 7);
  write_file(folder / "tasks.db", content);
  const auto [status, message] = refusal(folder / "tasks.db");
  BOOST_TEST((status == Status::store), message);
  BOOST_TEST(message.find(folder / "tasks.db") != std::string::npos, message);

  // In the middle of the work: pages of tables alone.
  const Folder other;
  fill(other / "tasks.db");
  content = file_content(other / "tasks.db");
  const size_t page =
      std::stoull(ask_sql(other / "tasks.db", "SELECT rootpage FROM sqlite_schema WHERE name = 'task_place'"));
  const size_t size = page_size_of(other / "tasks.db");
  content.replace((page - 1) * size, size, size, static_cast<char>(0xee));
  write_file(other / "tasks.db", content);
  Hand hand(other / "tasks.db");
  const int64_t node = hand.join();
  hand.claim(node);
  BOOST_TEST(hand.message.find(other / "tasks.db") != std::string::npos, hand.message);
  BOOST_TEST(hand.message.find("malformed") != std::string::npos, hand.message);
}

// T-HDB: bytes of a good database changed at random. Refused, an error or harmless: no crash, no hang, no file beside.
BOOST_AUTO_TEST_CASE(sec_05_dat_05_t_hdb_mutated_images_do_no_harm, *label("SEC-05") * label("DAT-05")) {
  const Folder folder;
  const std::string path = folder / "tasks.db";
  fill(path);
  const std::string original = file_content(path);
  const size_t page = page_size_of(path);
  std::mt19937_64 random = random_stream(0x4db);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  uint64_t images = 0, refused = 0;
  std::chrono::steady_clock::duration longest{};
  for (; images < rounds(20'000, 1'500) && std::chrono::steady_clock::now() < until; images++) {
    std::string image = original;
    const uint64_t changes = 1 + below(random, 12);
    for (uint64_t i = 0; i < changes; i++) {
      // Half of them in the head of a page, where the structure is.
      size_t at = below(random, image.size());
      if (below(random, 2) == 0) at = at / page * page + below(random, 128);
      image[at] = static_cast<char>(below(random, 256));
      if (below(random, 40) == 0) image.resize(1 + below(random, image.size() - 1));
      if (below(random, 20) == 0) {  // two pages change places
        const size_t pages = image.size() / page;
        if (pages > 1)
          std::swap_ranges(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(page),
                           image.begin() + static_cast<std::ptrdiff_t>(below(random, pages) * page));
      }
    }
    std::filesystem::remove_all(folder / "tasks.db.nocter");
    for (const char* beside : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(path + beside);
    write_file(path, image);
    const auto began = std::chrono::steady_clock::now();
    try {
      stores::SqliteTuning tuning;
      tuning.busy_ms = 100;
      Hand hand(path, {}, tuning);
      use(hand);
    } catch (const tasks::StoreError& error) {
      refused++;
      BOOST_TEST(
          (error.status == Status::store || error.status == Status::version || error.status == Status::unavailable),
          error.what());
    }
    longest = std::max(longest, std::chrono::steady_clock::now() - began);
  }
  std::cout << "T-HDB: " << images << " images, " << refused << " refused at open, the longest took "
            << std::chrono::duration_cast<std::chrono::milliseconds>(longest).count() << " ms\n";
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename();
    BOOST_TEST(name.rfind("tasks.db", 0) == 0U, name);
  }
}

// T-INJ: no text is ever taken for anything but text.
BOOST_AUTO_TEST_CASE(sec_01_sec_03_t_inj_hostile_texts_come_back_as_data, *label("SEC-01") * label("SEC-03")) {
  const Folder folder;
  Hand hand(folder / "tasks.db");
  const int64_t node = hand.join();
  const std::string tables = ask_sql(folder / "tasks.db", "SELECT count(*) FROM sqlite_schema");
  std::string many;
  for (int i = 0; i < 60; i++) many += "\xf0\x9f\x98\x80";
  const std::vector<std::string> hostile = {"'",
                                            "\"",
                                            "''; DROP TABLE task; --",
                                            "); DELETE FROM task; --",
                                            "%s%n%x",
                                            "${HOME}",
                                            "/* */",
                                            "-- ",
                                            "?1",
                                            ":a",
                                            "@a",
                                            "\\",
                                            "\\u0000",
                                            many,
                                            "\u202e",
                                            "x'41'",
                                            "NULL",
                                            "[x]",
                                            "`x`",
                                            "1; ATTACH 'evil' AS e",
                                            "main.task",
                                            "\xe2\x80\xa8"};
  for (const std::string& text : hostile) {
    const tasks::TaskId id = tasks::make_task_id();
    std::string json = "\"";
    for (const char c : text) json += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    json += '"';
    BOOST_TEST((hand.submit(id, text, json, {}, text) == Status::ok), text << ": " << hand.message);
    const tasks::Record record = hand.record(id);
    BOOST_TEST(record.type == text);
    BOOST_TEST(record.texts.payload == json);
    BOOST_TEST(record.texts.key == text);
    const tasks::ClaimedTask claimed = hand.claim(node);
    BOOST_TEST((claimed.claimed.id == id));
    tasks::StepPut step{claimed.claimed, text, json};
    BOOST_TEST((hand.ask(step) == Status::ok));
    std::string found;
    BOOST_TEST((hand.store().step(claimed.claimed, text, found).status == Status::ok));
    BOOST_TEST(found == json);
    BOOST_TEST((hand.state(claimed.claimed, json) == Status::ok));
    BOOST_TEST((hand.notify(id, json, text) == Status::ok));
    tasks::SharedPut shared;
    shared.scope = text;
    shared.key = text;
    shared.value = json;
    BOOST_TEST((hand.ask(shared) == Status::ok));
    BOOST_TEST((hand.store().shared(text, text, found).status == Status::ok));
    BOOST_TEST(found == json);
    tasks::Settle fail;
    fail.by = claimed.claimed;
    fail.outcome = tasks::Outcome::fail;
    fail.failure.kind = fail.failure.message = fail.failure.detail = text;
    BOOST_TEST((hand.ask(fail) == Status::ok), hand.message);
    BOOST_TEST(hand.record(id).texts.failure.message == text);
    tasks::Filter filter;
    filter.type = text;
    std::vector<tasks::Record> list;
    BOOST_TEST((hand.store().list(filter, list).status == Status::ok));
    BOOST_TEST(list.size() == 1U);
  }
  hand.close();
  BOOST_TEST(ask_sql(folder / "tasks.db", "SELECT count(*) FROM sqlite_schema") == tables);
  BOOST_TEST(inconsistency(folder / "tasks.db") == "");
}

BOOST_AUTO_TEST_SUITE_END()
