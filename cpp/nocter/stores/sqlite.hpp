// Durable tasks in a file: one SQLite database, which several processes of one machine may share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nocter/stores/sqlite_connection.hpp"
#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"

namespace nocter::stores {

// Opens the file, or makes it. `path` is a path and nothing else (SEC-06). Throws tasks::StoreError: `version` when the file is somebody
// else's or a newer version's, `store` in every other case, and never changes a file that it refuses.
std::unique_ptr<tasks::Store> open_sqlite(const std::string& path, const tasks::StoreOptions& options);
std::unique_ptr<tasks::Store> open_sqlite(const std::string& path, const tasks::StoreOptions& options,
                                          const SqliteTuning& tuning);

// What a person should be told of the file and where it lies.
std::vector<std::string> sqlite_warnings(const std::string& path);

}  // namespace nocter::stores
