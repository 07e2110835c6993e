// What a database of ours looks like, and how one is made or brought up to date.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nocter/stores/sqlite_connection.hpp"

namespace nocter::stores {

// sqlite.sql, built in.
extern const char* const kSqliteMigrations;

inline constexpr int64_t kApplicationId = 0x6e6f6374;  // "noct", where `file` finds it

// The statements of migration 1, 2, …
std::vector<std::string> migrations(std::string_view text);

// Throws StoreError with Status::version for a file that is somebody else's or a newer version's. Changes nothing.
void check_owner(const std::string& whole_path, const SqliteTuning& tuning);

// Applies the migrations that are missing, each in one transaction, and compares the schema that is there with the one that there should be.
void prepare_schema(Connection& writer);

}  // namespace nocter::stores
