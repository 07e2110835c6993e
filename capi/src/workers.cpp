#include "nocter/workers.h"

#include <cstdio>

#include "workers.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr base::Kind kKind = base::Kind::workers;
base::Workers* core(nocter_workers* handle) { return reinterpret_cast<base::Workers*>(handle); }

constexpr nocter_workers_options kDefaults = NOCTER_WORKERS_OPTIONS_INIT;
#define NOCTER_END(field) NOCTER_FIELD_END(nocter_workers_options, field)
constexpr uint32_t kOptionEnds[] = {NOCTER_END(size),  NOCTER_END(threads), NOCTER_END(stack_size), NOCTER_END(name),
                                    NOCTER_END(start), NOCTER_END(stop),    NOCTER_END(user)};
#undef NOCTER_END
constexpr uint32_t kMostThreads = 1024;
constexpr uint64_t kLeastStack = 65536;

}  // namespace

namespace nocter::capi {

nocter_status read_workers_options(const nocter_workers_options* given, base::ThreadOptions& to, const char* function) {
  nocter_workers_options options = kDefaults;
  if (given != nullptr) {
    const nocter_status status = read_sized(options, given, kOptionEnds, function, "options");
    if (status != NOCTER_OK) return status;
  }
  if (options.threads > kMostThreads) return fail_argument(function, "options->threads", "is more than 1024");
  if (options.stack_size != 0 && options.stack_size < kLeastStack) {
    return fail_argument(function, "options->stack_size", "is not 0 and less than 65536");
  }
  to = {options.threads, options.stack_size, options.name, options.start, options.stop, options.user};
  return NOCTER_OK;
}

nocter_status explain_start(const base::Workers::Started& started, const char* function) {
  char what[96];
  if (started.status == Status::ok) return NOCTER_OK;
  if (started.hook != 0) {
    std::snprintf(what, sizeof what, "a start hook failed with %s", nocter_status_name(started.hook));
    return fail(started.hook < 0 ? started.hook : NOCTER_E_STATE, function, what);
  }
  std::snprintf(what, sizeof what, "a thread could not be made: error %d of the system", started.error);
  return fail(to_c(started.status), function, what);
}

}  // namespace nocter::capi

void nocter_workers_options_init(nocter_workers_options* options, size_t size) { init_sized(options, kDefaults, size); }

nocter_status nocter_workers_stop(nocter_workers* workers, const nocter_wait* wait) {
  if (const nocter_status status = check(core(workers), kKind, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  if (wait != nullptr && core(workers)->is_mine()) {
    return fail(NOCTER_E_WOULD_DEADLOCK, __func__, "one of these threads cannot wait for its own end");
  }
  core(workers)->ask_to_stop();
  return to_c(core(workers)->wait_for_end(limits.pointer()));
}

void nocter_workers_destroy(nocter_workers* workers) {
  if (usable(core(workers), kKind, __func__) && core(workers)->header.tag.end(kKind)) core(workers)->destroy();
}
