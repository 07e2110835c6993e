#include "nocter/stores/postgres_schema.hpp"

namespace nocter::stores::postgres {

namespace {

constexpr std::string_view kHead = "\n-- migration ";  // at the beginning of a line
// "nocter" and 1: whoever makes or changes the schema of this database has this lock.
constexpr int64_t kMigrationLock = 0x6e6f637465720001;

constexpr Sql kBegin{390, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
constexpr Sql kLimits{391,
                      "SELECT set_config('lock_timeout', $1::bigint::text, true), set_config('statement_timeout', "
                      "$2::bigint::text, true)"};
constexpr Sql kTurn{392, "SELECT pg_advisory_xact_lock($1)"};
constexpr Sql kExists{
    393,
    "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'nocter'), (SELECT count(*) FROM pg_class AS c JOIN "
    "pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'nocter' AND c.relname = 'schema_version')"};
constexpr Sql kVersion{394, "SELECT max(version) FROM nocter.schema_version"};
constexpr Sql kSetVersion{395, "INSERT INTO nocter.schema_version (version) VALUES ($1)"};

// 0: there is none yet.
int64_t version_there(Connection& connection) {
  int64_t schemas = 0, tables = 0, version = 0;
  {
    Query query(connection, kExists);
    query.next();
    query.get(schemas);
    query.get(tables);
  }
  if (schemas == 0) return 0;
  if (tables == 0) connection.fail(Status::version, "has a schema \"nocter\" of another program");
  Query query(connection, kVersion);
  if (query.next()) query.get(version);
  return version;
}

void refuse_newer(Connection& connection, int64_t version, size_t newest) {
  if (version >= 0 && version <= static_cast<int64_t>(newest)) return;
  connection.fail(Status::version, "was made by a newer version of nocter: its schema is number " +
                                       std::to_string(version) + ", and the newest that this one knows is " +
                                       std::to_string(newest));
}

void apply(Connection& connection, const std::string& migration, int64_t number) {
  if (number == 1) {
    connection.run("CREATE SCHEMA nocter");
    connection.run(
        "CREATE TABLE nocter.schema_version (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT "
        "now())");
    connection.run("COMMENT ON SCHEMA nocter IS 'Durable tasks of the library nocter'");
    connection.run("COMMENT ON TABLE nocter.schema_version IS 'Migrations that were applied'");
  }
  connection.run("DO $migration$ BEGIN" + migration + "\nEND $migration$");
  Query(connection, kSetVersion).with(number).send();
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

void prepare_schema(Connection& connection) {
  const std::vector<std::string> all = migrations(kMigrations);
  connection.open();
  for (size_t done = 0; done < all.size();) {
    try {
      Query(connection, kBegin).send();
      Query(connection, kLimits).with(connection.tuning().lock_ms).with(connection.tuning().answer_ms).send();
      // Without the lock for those that find nothing to do: they may have no right to do anything.
      int64_t version = version_there(connection);
      refuse_newer(connection, version, all.size());
      if (version < static_cast<int64_t>(all.size())) {
        Query(connection, kTurn).with(kMigrationLock).send();
        version = version_there(connection);
        refuse_newer(connection, version, all.size());
      }
      done = static_cast<size_t>(version);
      if (done < all.size()) {
        apply(connection, all[done], version + 1);
        done++;
      }
      connection.commit();
    } catch (...) {
      connection.roll_back();
      throw;
    }
  }
}

}  // namespace nocter::stores::postgres
