// Texts that have broken other programs, through every place of the port that takes a text, on each store: they come back as they were, and
// nothing else has changed (SEC-01, DAT-04).
#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nocter/stores/open.hpp"
#include "nocter/tasks/json.hpp"
#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"
#include "support/fixture.hpp"

using namespace nocter_tests;
using namespace nocter::tasks;
using nocter::Status;

namespace {

// Each of these alone, and in the company of others: in front, behind, quoted, doubled, in both cases.
const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> all = [] {
    const std::string zero(1, '\0');
    const std::vector<std::string> seeds = {
        "'",
        "''",
        "\"",
        "\"\"",
        "`",
        "\\",
        "\\'",
        "\\\\'",
        ";",
        "--",
        "-- ",
        "/*",
        "*/",
        "/**/",
        "#",
        "%",
        "%%",
        "_",
        "*",
        "?",
        "'; DROP TABLE task; --",
        "'); DELETE FROM task WHERE ('1'='1",
        "\"; drop schema nocter cascade; --",
        "1 OR 1=1",
        "' OR ''='",
        "' UNION SELECT name FROM sqlite_master --",
        "'||(SELECT 1)||'",
        "x'00'",
        "X'",
        "E'\\'",
        "$$",
        "$1",
        "$tag$",
        ":name",
        "@name",
        "?1",
        "?,?",
        "{}",
        "{0}",
        "{{",
        "${HOME}",
        "$(id)",
        "`id`",
        "|cat",
        "&&",
        ">",
        "<script>alert(1)</script>",
        "</task>",
        "&amp;",
        "&#0;",
        "<![CDATA[",
        "%s",
        "%n",
        "%1$s",
        "%99999999d",
        "%00",
        "%27",
        "\\0",
        "\\x00",
        "\\u0000",
        "\\n",
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\x01",
        "\x1b[31m",
        "\x1b]0;title\x07",
        "\x7f",
        "\b",
        zero,
        "a" + zero + "b",
        zero + zero,
        " ",
        "  ",
        " a",
        "a ",
        "null",
        "NULL",
        "nil",
        "true",
        "0",
        "-1",
        "00",
        "1e400",
        "0x7fffffff",
        "9223372036854775808",
        "NaN",
        "Infinity",
        "undefined",
        "..",
        "../..",
        "/etc/passwd",
        "C:\\",
        "file:x?mode=ro",
        "sqlite_master",
        "task",
        "rowid",
        "_rowid_",
        "pg_catalog",
        "nocter",
        "main.task",
        "temp",
        "NOCASE",
        "abc",
        "ABC",
        "aBc",
        "\xc3\xa9",
        "e\xcc\x81",
        "\xc3\x9f",
        "SS",
        "ss",
        "\xc4\xb0",
        "i",
        "I",
        "\xc4\xb1",
        "\xe2\x84\xaa",
        "K",
        "k",
        "\xe2\x80\xae"
        "abc",
        "\xe2\x80\x8b",
        "\xe2\x80\xa8",
        "\xef\xbb\xbf",
        "\xef\xbf\xbd",
        "\xef\xbf\xbf",
        "\xf0\x9f\x98\x80",
        "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
        "\xf4\x8f\xbf\xbf",
        "\xed\x9f\xbf",
        "\xd8\xb4\xd9\x83\xd8\xb1\xd8\xa7",
        "\xe6\xbc\xa2\xe5\xad\x97",
        "Z\xcc\xb7\xcc\xb8\xcd\x80\xcd\x81",
        "(",
        "((((",
        "[",
        "{",
    };
    std::set<std::string> out(seeds.begin(), seeds.end());
    for (const std::string& seed : seeds) {
      out.insert(seed + seed);
      out.insert("'" + seed + "'");
      out.insert("\"" + seed);
      out.insert(seed + "\\");
    }
    return std::vector<std::string>(out.begin(), out.end());
  }();
  return all;
}

std::string shown(const std::string& text) {
  std::string out;
  for (const char byte : text) out += byte >= 0x20 && byte < 0x7f ? byte : '.';
  return out;
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "nocter-hostile-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

// A store, and what is asked of it one request at a time.
class Port {
 public:
  explicit Port(const std::string& url) : clock_(std::make_shared<SteerableClock>(1'700'000'000'000)) {
    StoreOptions options;
    options.clock = clock_;
    options.random = std::make_shared<SeededRandom>(7);
    options.events = true;
    options.durability = Durability::normal;
    store_ = nocter::stores::open(url, options);
  }

  template <class Asked>
  Status ask(Asked& asked) {
    Request request{std::move(asked), {}};
    Request* batch[] = {&request};
    Effects effects;
    store_->execute(batch, effects);
    asked = std::get<Asked>(std::move(request.demand));
    return request.answer.status;
  }
  Store& operator*() { return *store_; }
  Store* operator->() { return store_.get(); }

 private:
  std::shared_ptr<SteerableClock> clock_;
  std::unique_ptr<Store> store_;
};

TaskId id_of(size_t number, uint8_t kind) {
  TaskId id;
  id.bytes[6] = 0x70;
  id.bytes[8] = 0x80;
  id.bytes[13] = kind;
  id.bytes[14] = static_cast<uint8_t>(number >> 8);
  id.bytes[15] = static_cast<uint8_t>(number);
  return id;
}

#define CAME_BACK(is, text) BOOST_CHECK_MESSAGE((is) == (text), #is << " is not what it was: " << shown(text))

// All of a task's life with one text in every place.
void live_with(Port& port, size_t number, const std::string& text, int64_t node) {
  const std::string json = quote_json(text);
  const TaskId id = id_of(number, 1), failing = id_of(number, 2);
  Submission first{id, text, json, text, KeyScope::live_type, 0, false, {}, 0, 1};
  Submission second = first;
  second.id = failing;
  Submit submit{{first, second}, {}, {}};
  BOOST_REQUIRE(port.ask(submit) == Status::exists);  // the second has the key of the first
  BOOST_CHECK(submit.ids[1] == id);
  second.key = text + "!";
  Submit other{{second}, {}, {}};
  BOOST_REQUIRE(port.ask(other) == Status::ok);

  Notify notify{id, failing, json, text, {}};
  BOOST_CHECK(port.ask(notify) == Status::ok);
  BOOST_CHECK(port.ask(notify) == Status::exists);

  Claim claim;
  claim.types = {text};
  claim.most = 8;
  claim.number = number + 1;
  claim.node = node;
  BOOST_REQUIRE(port.ask(claim) == Status::ok);
  BOOST_REQUIRE_EQUAL(claim.tasks.size(), 2U);
  const ClaimedTask run = claim.tasks[0], other_run = claim.tasks[1];
  BOOST_CHECK(run.claimed.id == id);
  CAME_BACK(run.record.type, text);
  CAME_BACK(run.record.texts.payload, json);
  CAME_BACK(run.record.texts.key, text);
  BOOST_REQUIRE_EQUAL(run.messages.size(), 1U);
  CAME_BACK(run.messages[0].payload, json);
  CAME_BACK(run.messages[0].key, text);

  UpdateState update{run.claimed, json};
  BOOST_CHECK(port.ask(update) == Status::ok);
  StepPut step{run.claimed, text, json};
  BOOST_CHECK(port.ask(step) == Status::ok);
  step.value = "other";
  BOOST_CHECK(port.ask(step) == Status::exists);
  CAME_BACK(step.value, json);
  std::string read;
  BOOST_CHECK(port->step(run.claimed, text, read).status == Status::ok);
  CAME_BACK(read, json);

  SharedPut put{text, text, json, true, {}, {}};
  BOOST_CHECK(port.ask(put) == Status::ok);
  put.value = "other";
  BOOST_CHECK(port.ask(put) == Status::exists);
  CAME_BACK(put.existing, json);
  BOOST_CHECK(port->shared(text, text, read).status == Status::ok);
  CAME_BACK(read, json);
  std::vector<std::pair<std::string, std::string>> values;
  port->shared_all(text, values);
  BOOST_REQUIRE_EQUAL(values.size(), 1U);
  CAME_BACK(values[0].first, text);
  CAME_BACK(values[0].second, json);

  LockAcquire lock{text, 1'000, 5, 0, 0};
  BOOST_CHECK(port.ask(lock) == Status::ok);
  BOOST_CHECK_EQUAL(lock.fence, 1U);
  lock.token = 6;
  BOOST_CHECK(port.ask(lock) == Status::held);

  Settle done;
  done.by = run.claimed;
  done.result = json;
  BOOST_CHECK(port.ask(done) == Status::ok);
  Settle fail;
  fail.by = other_run.claimed;
  fail.outcome = Outcome::fail;
  fail.failure.kind = fail.failure.message = fail.failure.detail = text;
  BOOST_CHECK(port.ask(fail) == Status::ok);

  Record record;
  BOOST_CHECK(port->get(id, record).status == Status::ok);
  CAME_BACK(record.texts.state, json);
  CAME_BACK(record.texts.result, json);
  BOOST_CHECK(port->get(failing, record).status == Status::ok);
  CAME_BACK(record.texts.failure.kind, text);
  CAME_BACK(record.texts.failure.message, text);
  CAME_BACK(record.texts.failure.detail, text);
  Filter filter;
  filter.type = text;
  std::vector<Record> records;
  BOOST_CHECK(static_cast<int>(port->list(filter, records).status) >= 0);
  BOOST_CHECK_MESSAGE(records.size() == 2, "listed by type: " << shown(text));
}

void all_texts(const std::string& url) {
  Port port(url);
  const std::vector<std::string>& texts = hostile_texts();
  BOOST_REQUIRE_GE(texts.size(), 500U);
  for (size_t number = 0; number < texts.size(); number++) {
    Register enter{texts[number], "instance" + std::to_string(number), 1'000'000, 0};
    BOOST_REQUIRE(port.ask(enter) == Status::ok);
    live_with(port, number, texts[number], enter.node);
    Record record;
    port->get(id_of(number, 2), record);
    CAME_BACK(record.texts.failure.node, texts[number]);
  }
  // Each was its own: none took another's place, and all of them are still there.
  Counts counts;
  port->count(counts);
  BOOST_CHECK_EQUAL(counts.tasks, 2 * texts.size());
  BOOST_CHECK_EQUAL(counts.by_status[4], texts.size());
  BOOST_CHECK_EQUAL(counts.by_status[5], texts.size());
  for (size_t number = 0; number < texts.size(); number++) {
    Record record;
    BOOST_REQUIRE(port->get(id_of(number, 1), record).status == Status::ok);
    CAME_BACK(record.type, texts[number]);
    CAME_BACK(record.texts.key, texts[number]);
    std::vector<std::pair<std::string, std::string>> values;
    port->shared_all(texts[number], values);
    BOOST_CHECK_MESSAGE(values.size() == 1, "scope " << shown(texts[number]));
    SharedClear clear{texts[number], 0};
    BOOST_CHECK(port.ask(clear) == Status::ok);
    BOOST_CHECK_EQUAL(clear.removed, 1U);
  }
  std::vector<Event> events;
  port->events(0, 1'000'000, events);
  std::set<std::string> types;
  for (const Event& event : events) types.insert(event.type);
  BOOST_CHECK(types == std::set<std::string>(texts.begin(), texts.end()));
}

// Long ones too, where only values may be long.
void long_texts(const std::string& url) {
  Port port(url);
  std::string smiles, quotes(1 << 19, '\'');
  for (int at = 0; at < 10'000; at++) smiles += "\xf0\x9f\x98\x80";
  for (const std::string& text : {smiles, quotes, std::string(100'000, '\0'), std::string(1 << 19, '%')}) {
    SharedPut put{"scope", "key", text, false, {}, {}};
    BOOST_CHECK(port.ask(put) == Status::ok);
    std::string read;
    BOOST_CHECK(port->shared("scope", "key", read).status == Status::ok);
    CAME_BACK(read, text);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(sec_01_hostile_texts_in_memory, *label("SEC-01") * label("DAT-04") * label("TSK-25")) {
  all_texts("memory:");
  long_texts("memory:");
}

#ifdef NOCTER_SQLITE
BOOST_AUTO_TEST_CASE(sec_01_hostile_texts_in_a_database, *label("SEC-01") * label("DAT-04") * label("TSK-25")) {
  const Folder folder;
  all_texts("sqlite:" + (folder.path / "tasks.db").string());
  long_texts("sqlite:" + (folder.path / "long.db").string());
}
#endif
