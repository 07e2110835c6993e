#include "nocter/stores/open.hpp"

#include <string>

#include "nocter/stores/memory.hpp"
#include "nocter/tasks/tables.hpp"
#ifdef NOCTER_POSTGRESQL
#include "nocter/stores/postgres.hpp"
#endif
#ifdef NOCTER_SQLITE
#include "nocter/stores/sqlite.hpp"
#endif

namespace nocter::stores {

namespace {

constexpr std::string_view kMemory = "memory:", kSqlite = "sqlite:";
constexpr std::string_view kPostgres[] = {"postgresql://", "postgres://"};

[[noreturn]] void refuse(const std::string& why) { throw tasks::StoreError(Status::argument, why); }

}  // namespace

std::unique_ptr<tasks::Store> open(std::string_view url, const tasks::StoreOptions& options) {
  if (url == kMemory) return open_memory(options);
  if (url.starts_with(kMemory)) refuse("\"memory:\" stands alone: what is in memory has no name");
  if (url.starts_with(kSqlite)) {
#ifdef NOCTER_SQLITE
    if (url.size() == kSqlite.size()) refuse("\"sqlite:\" wants the path of a file");
    return open_sqlite(std::string(url.substr(kSqlite.size())), options);
#else
    refuse("this nocter was built without SQLite (NOCTER_SQLITE)");
#endif
  }
  if (url.starts_with(kPostgres[0]) || url.starts_with(kPostgres[1])) {
#ifdef NOCTER_POSTGRESQL
    return open_postgres(std::string(url), options);
#else
    refuse("this nocter was built without PostgreSQL (NOCTER_POSTGRESQL)");
#endif
  }
  // Not the whole of it, for it may hold a password.
  const size_t colon = url.find(':');
  refuse(colon == std::string_view::npos
             ? "a store is called \"memory:\", \"sqlite:PATH\" or \"postgresql://HOST/DATABASE\""
             : "there is no kind of store called \"" + std::string(url.substr(0, colon)) +
                   ":\"; there is \"memory:\", \"sqlite:PATH\" and \"postgresql://HOST/DATABASE\"");
}

std::vector<std::string> warnings(std::string_view url) {
#ifdef NOCTER_SQLITE
  if (url.starts_with(kSqlite)) return sqlite_warnings(std::string(url.substr(kSqlite.size())));
#endif
  (void)url;
  return {};
}

}  // namespace nocter::stores
