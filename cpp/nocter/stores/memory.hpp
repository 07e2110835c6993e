// Durable tasks that live as long as the process: for tests, and for programs that want their rules and no file.
#pragma once

#include <memory>

#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"

namespace nocter::stores {

std::unique_ptr<tasks::Store> open_memory(const tasks::StoreOptions& options);

}  // namespace nocter::stores
