// Durable tasks in a PostgreSQL database, which processes of any number of machines may share.
#pragma once

#include <memory>
#include <string>

#include "nocter/stores/postgres_connection.hpp"
#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"

namespace nocter::stores {

// `url` as libpq reads it: "postgresql://user@host/database?…". Makes the schema `nocter` there, or brings it up to date. Throws
// tasks::StoreError: `argument` for a URL that libpq cannot read, `version` when the schema is somebody else's or a newer version's,
// `unavailable` when the server cannot be reached, `store` in every other case. No password is in any message.
std::unique_ptr<tasks::Store> open_postgres(const std::string& url, const tasks::StoreOptions& options);
std::unique_ptr<tasks::Store> open_postgres(const std::string& url, const tasks::StoreOptions& options,
                                            const postgres::Tuning& tuning);

}  // namespace nocter::stores
