// The schema nocter in a PostgreSQL database, and how it is made or brought up to date.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nocter/stores/postgres_connection.hpp"

namespace nocter::stores::postgres {

// postgres.sql, built in.
extern const char* const kMigrations;

// The statements of migration 1, 2, …
std::vector<std::string> migrations(std::string_view text);

// Applies the migrations that are missing, each in one transaction, one process at a time. Throws StoreError: `version` when the schema is
// somebody else's or a newer version's, which is then not changed.
void prepare_schema(Connection& connection);

}  // namespace nocter::stores::postgres
