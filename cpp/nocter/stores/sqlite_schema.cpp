#include "nocter/stores/sqlite_schema.hpp"

#include "nocter/base/planted.hpp"

namespace nocter::stores {

namespace {

constexpr std::string_view kHead = "\n-- migration ";  // at the beginning of a line

// All of a schema in one text, to be compared to the letter.
constexpr const char* kWholeSchema =
    "SELECT group_concat(type || '|' || name || '|' || tbl_name || '|' || ifnull(sql, ''), char(10)) FROM "
    "(SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name)";

std::string expected_schema(const Connection& like) {
  struct InMemory {
    sqlite3* handle = nullptr;
    ~InMemory() { sqlite3_close(handle); }
  } database;
  like.check(sqlite3_open_v2(":memory:", &database.handle,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
                             nullptr));
  for (const std::string& migration : migrations(kSqliteMigrations)) {
    like.check(sqlite3_exec(database.handle, migration.c_str(), nullptr, nullptr, nullptr));
  }
  std::string out;
  like.check(sqlite3_exec(
      database.handle, kWholeSchema,
      [](void* text, int, char** columns, char**) {
        *static_cast<std::string*>(text) = columns[0] != nullptr ? columns[0] : "";
        return 0;
      },
      &out, nullptr));
  return out;
}

void check_numbers(const Connection& connection, int64_t application, int64_t version, bool empty, size_t newest) {
  const bool fresh = application == 0 && version == 0 && empty;
  if (application != kApplicationId && !fresh) {
    connection.fail(Status::version, "is a database of another program");
  }
  if (version < 0 || version > static_cast<int64_t>(newest)) {
    connection.fail(Status::version, "was made by a newer version of nocter: its schema is number " +
                                         std::to_string(version) + ", and the newest that this one knows is " +
                                         std::to_string(newest));
  }
}

}  // namespace

std::vector<std::string> migrations(std::string_view text) {
  std::vector<std::string> out;
  for (size_t begin = text.find(kHead); begin != std::string_view::npos;) {
    const size_t next = text.find(kHead, begin + kHead.size());
    out.emplace_back(text.substr(begin, next == std::string_view::npos ? next : next - begin));
    begin = next;
  }
  return out;
}

void check_owner(const std::string& whole_path, const SqliteTuning& tuning) {
  const size_t newest = migrations(kSqliteMigrations).size();
  for (const Connection::Use use : {Connection::Use::probe, Connection::Use::mender}) {
    Connection probe(whole_path, use, true, tuning);
    try {
      // All of one moment: another process may be making its tables just now.
      probe.run("BEGIN");
      const int64_t application = probe.number("PRAGMA application_id");
      const int64_t version = probe.number("PRAGMA user_version");
      // Of another program's database no more is looked at than its header.
      const bool empty = application == 0 && version == 0 && probe.number("SELECT count(*) FROM sqlite_schema") == 0;
      check_numbers(probe, application, version, empty, newest);
      return;
    } catch (const tasks::StoreError&) {
      const int code = sqlite3_errcode(probe.handle()) & 0xff;
      if (code == SQLITE_NOTADB) probe.fail(Status::version, "is no SQLite database");
      if (code != SQLITE_READONLY || use == Connection::Use::mender) throw;
    }
  }
}

void prepare_schema(Connection& writer) {
  const std::vector<std::string> all = migrations(kSqliteMigrations);
  for (size_t done = 0; done < all.size();) {
    // Another process may be at it too: under the lock one of us finds that it is done.
    writer.begin_write();
    try {
      const int64_t version = writer.number("PRAGMA user_version");
      check_numbers(writer, writer.number("PRAGMA application_id"), version,
                    writer.number("SELECT count(*) FROM sqlite_schema") == 0, all.size());
      done = static_cast<size_t>(version);
      if (done < all.size()) {
        writer.run(all[done].c_str());
        done++;
        writer.run("PRAGMA application_id = 1852793716");
        writer.run(("PRAGMA user_version = " + std::to_string(done)).c_str());
      }
      writer.run("COMMIT");
    } catch (...) {
      writer.roll_back();
      throw;
    }
  }
  if (writer.text(kWholeSchema) != expected_schema(writer) && !base::planted("sqlite_schema_is_believed")) {
    writer.fail(Status::version, "its tables, indexes, views and triggers are not those that nocter makes");
  }
}

}  // namespace nocter::stores
