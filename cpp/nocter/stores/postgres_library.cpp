#include "nocter/stores/postgres_library.hpp"

#include <dlfcn.h>

#include <string>

#include "nocter/tasks/tables.hpp"

namespace nocter::stores::postgres {

namespace {

constexpr const char* kName = "libpq.so.5";

Libpq load() {
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw tasks::StoreError(Status::store, std::string("PostgreSQL's client library cannot be loaded: ") + dlerror());
  }
  Libpq out;
  const auto find = [library](const char* name) {
    void* const found = dlsym(library, name);
    if (found != nullptr) return found;
    throw tasks::StoreError(Status::store, std::string(kName) + " has no " + name + ": it must be 14 or later");
  };
#define NOCTER_LIBPQ_FIND(function) out.function = reinterpret_cast<decltype(out.function)>(find(#function));
  NOCTER_LIBPQ(NOCTER_LIBPQ_FIND)
#undef NOCTER_LIBPQ_FIND
  return out;
}

}  // namespace

const Libpq& libpq() {
  static const Libpq loaded = load();
  return loaded;
}

}  // namespace nocter::stores::postgres
