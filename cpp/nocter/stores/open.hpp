// Opens a store by what it is called: "memory:", "sqlite:PATH", "postgresql://USER@HOST/DATABASE".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"

namespace nocter::stores {

// Throws tasks::StoreError, with Status::argument for a name that no store has.
std::unique_ptr<tasks::Store> open(std::string_view url, const tasks::StoreOptions& options);

// What whoever runs an open store should know of it, in words: who else may read or replace its file.
std::vector<std::string> warnings(std::string_view url);

}  // namespace nocter::stores
