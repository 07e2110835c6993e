#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "boundary.hpp"
#include "nocter.h"
#include "nocter/base/eventfd.hpp"
#include "nocter/signal.hpp"

namespace nocter::capi {

namespace {

// Initial-exec, so that writing it never allocates; short, for what is loaded late has little of that memory.
constexpr size_t kMessageSize = 192;
thread_local char message[kMessageSize] __attribute__((tls_model("initial-exec"))) = {};

__attribute__((constructor)) void read_environment() {
  const char* value = std::getenv("NOCTER_CHECK");
  abort_on_misuse = value != nullptr && std::strcmp(value, "1") == 0;
}

base::EventFd* core(nocter_eventfd* handle) { return reinterpret_cast<base::EventFd*>(handle); }
const base::EventFd* core(const nocter_eventfd* handle) { return reinterpret_cast<const base::EventFd*>(handle); }
base::InterruptHandle* core(nocter_interrupt* handle) { return reinterpret_cast<base::InterruptHandle*>(handle); }
const base::InterruptHandle* core(const nocter_interrupt* handle) {
  return reinterpret_cast<const base::InterruptHandle*>(handle);
}

constexpr uint32_t kVersion = 0x000100;
static_assert(kVersion == NOCTER_VERSION_NUMBER);
static_assert(NOCTER_FOREVER == base::kForever);
static_assert(NOCTER_WORKER_LOST == static_cast<int>(Status::worker_lost) &&
              NOCTER_EMPTY == static_cast<int>(Status::empty) && NOCTER_PENDING == static_cast<int>(Status::pending) &&
              NOCTER_TIMEOUT == static_cast<int>(Status::timeout) &&
              NOCTER_SATURATED == static_cast<int>(Status::saturated) &&
              NOCTER_COALESCED == static_cast<int>(Status::coalesced) &&
              NOCTER_CLOSED == static_cast<int>(Status::closed) &&
              NOCTER_INTERRUPTED == static_cast<int>(Status::interrupted));
static_assert(
    NOCTER_E_ARGUMENT == static_cast<int>(Status::argument) && NOCTER_E_FOREIGN == static_cast<int>(Status::foreign) &&
    NOCTER_E_UNKNOWN == static_cast<int>(Status::unknown) && NOCTER_E_STATE == static_cast<int>(Status::state) &&
    NOCTER_E_REENTRANT == static_cast<int>(Status::reentrant) && NOCTER_E_MEMORY == static_cast<int>(Status::memory) &&
    NOCTER_E_LIMIT == static_cast<int>(Status::limit) && NOCTER_E_FORKED == static_cast<int>(Status::forked) &&
    NOCTER_E_WOULD_DEADLOCK == static_cast<int>(Status::would_deadlock) &&
    NOCTER_E_INTERNAL == static_cast<int>(Status::internal));

}  // namespace

// Read once, before anybody could change the environment.
bool abort_on_misuse = false;

void abort_with(const char* function, const char* what, base::Kind kind) {
  std::fprintf(stderr, "nocter: %s: %s %s\n", function, what, base::kind_name(kind));
  std::abort();
}

nocter_status fail(nocter_status status, const char* function, const char* what) {
  std::snprintf(message, sizeof message, "%s: %s", function, what);
  return status;
}

nocter_status fail_argument(const char* function, const char* parameter, const char* what) {
  std::snprintf(message, sizeof message, "%s: %s %s", function, parameter, what);
  return NOCTER_E_ARGUMENT;
}

nocter_status fail_handle(const char* function, base::Kind kind, const void* handle) {
  if (handle == nullptr) {
    std::snprintf(message, sizeof message, "%s: the %s is NULL", function, base::kind_name(kind));
  } else {
    std::snprintf(message, sizeof message, "%s: not a live %s: it has ended, or is something else", function,
                  base::kind_name(kind));
    if (abort_on_misuse) abort_with(function, "not a live", kind);
  }
  return NOCTER_E_ARGUMENT;
}

nocter_status fail_forked(const char* function, base::Kind kind) {
  std::snprintf(message, sizeof message, "%s: this %s was made in the parent of this process", function,
                base::kind_name(kind));
  return NOCTER_E_FORKED;
}

nocter_status WaitArgument::read_given(const nocter_wait& wait, const char* function) {
  if (wait.deadline_ns < NOCTER_FOREVER) {
    return fail_argument(function, "wait->deadline_ns", "is negative and not NOCTER_FOREVER");
  }
  if ((wait.flags & ~static_cast<uint32_t>(NOCTER_WAIT_EINTR)) != 0) {
    return fail_argument(function, "wait->flags", "has an unknown flag");
  }
  if (wait.reserved != 0) return fail_argument(function, "wait->reserved", "is not 0");
  wait_.deadline_ns = wait.deadline_ns;
  wait_.ends_on_signal = (wait.flags & NOCTER_WAIT_EINTR) != 0;
  if (wait.interrupt != nullptr) {
    base::InterruptHandle* interrupt = core(wait.interrupt);
    if (const nocter_status status = check(interrupt, base::Kind::interrupt, function); status != NOCTER_OK)
      return status;
    wait_.interrupt = &interrupt->interrupt;
  }
  given_ = true;
  return NOCTER_OK;
}

nocter_status check_reentry(const void* service, base::Kind kind, const char* function) {
  if (abort_on_misuse && base::left_by_longjmp()) abort_with(function, "longjmp out of a notifier of a", kind);
  if (base::inside_notifier_of(service) == nullptr) return NOCTER_OK;
  return fail(NOCTER_E_REENTRANT, function, "a lifecycle call from inside a notifier of the same service");
}

base::Notifier notifier_of(const nocter_notifier& n) {
  base::Notifier notifier{n.wake, n.drop, n.user, nullptr};
  if (n.wake == base::EventFd::wake_of) notifier.asked = base::EventFd::asked_of(n.user);
  if (n.wake == Signal::wake_of) notifier.asked = Signal::asked_of(n.user);
  return notifier;
}

base::Patience patience_of(uint32_t spins, uint32_t yields) {
  const auto of = [](uint32_t option, uint32_t normal) {
    if (option == 0) return normal;
    return option == NOCTER_WAIT_NONE ? 0 : option;
  };
  const base::Patience normal = base::default_patience();
  return {of(spins, normal.spins), of(yields, normal.yields)};
}

nocter_status check_size(const void* from, size_t ours, const uint32_t* ends, size_t count, const char* function,
                         const char* parameter) {
  constexpr size_t kLongest = 4096;
  uint32_t size;
  std::memcpy(&size, from, sizeof size);
  if (size > ours) {
    bool zero = size <= kLongest;
    for (size_t i = ours; zero && i < size; i++) zero = static_cast<const unsigned char*>(from)[i] == 0;
    return zero ? NOCTER_OK
                : fail_argument(function, parameter, "is newer than this library, and uses what this one lacks");
  }
  for (size_t i = 0; i < count; i++) {
    if (ends[i] == size) return NOCTER_OK;
  }
  return fail_argument(function, parameter, "has an unknown size member");
}

}  // namespace nocter::capi

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

const char* nocter_status_name(nocter_status status) {
  static constexpr const char* kOutcomes[] = {"NOCTER_OK",        "NOCTER_EMPTY",       "NOCTER_PENDING",
                                              "NOCTER_SATURATED", "NOCTER_COALESCED",   "NOCTER_WORKER_LOST",
                                              "NOCTER_TIMEOUT",   "NOCTER_INTERRUPTED", "NOCTER_CLOSED",
                                              "NOCTER_EXISTS",    "NOCTER_HELD",        "NOCTER_CANCELLED"};
  static constexpr const char* kErrors[] = {
      "NOCTER_E_ARGUMENT",   "NOCTER_E_FOREIGN", "NOCTER_E_UNKNOWN", "NOCTER_E_STATE",          "NOCTER_E_REENTRANT",
      "NOCTER_E_MEMORY",     "NOCTER_E_JSON",    "NOCTER_E_LIMIT",   "NOCTER_E_STORE",          "NOCTER_E_UNAVAILABLE",
      "NOCTER_E_LEASE_LOST", "NOCTER_E_VERSION", "NOCTER_E_FORKED",  "NOCTER_E_WOULD_DEADLOCK", "NOCTER_E_INTERNAL"};
  if (status >= 0 && status <= NOCTER_CANCELLED) return kOutcomes[status];
  if (status < 0 && status >= NOCTER_E_INTERNAL) return kErrors[-1 - status];
  return "NOCTER_?";
}

const char* nocter_error_message(void) { return message; }
const char* nocter_version(void) { return "0.1.0"; }
uint32_t nocter_version_number(void) { return kVersion; }

nocter_text nocter_text_of(const char* string) { return {string, string == nullptr ? 0 : std::strlen(string)}; }

bool nocter_epoch_equal(nocter_epoch a, nocter_epoch b) { return a.service == b.service && a.sequence == b.sequence; }

nocter_wait nocter_wait_for_ms(int64_t ms) {
  nocter_wait wait = {NOCTER_FOREVER, nullptr, 0, 0};
  const int64_t now = base::now_ns();
  if (ms >= 0 && ms <= (INT64_MAX - now) / 1'000'000) wait.deadline_ns = now + ms * 1'000'000;
  return wait;
}

int64_t nocter_now_ns(void) { return base::now_ns(); }

nocter_status nocter_interrupt_create(nocter_interrupt** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  auto* made = base::make_handle<base::InterruptHandle, base::Kind::interrupt>();
  *out = reinterpret_cast<nocter_interrupt*>(made);
  return made != nullptr ? NOCTER_OK : fail(NOCTER_E_MEMORY, __func__, "out of memory");
}

void nocter_interrupt_raise(nocter_interrupt* interrupt) {
  if (usable(core(interrupt), base::Kind::interrupt, __func__) && !core(interrupt)->is_a_jobs()) {
    core(interrupt)->interrupt.raise();
  }
}

void nocter_interrupt_clear(nocter_interrupt* interrupt) {
  if (usable(core(interrupt), base::Kind::interrupt, __func__) && !core(interrupt)->is_a_jobs()) {
    core(interrupt)->interrupt.clear();
  }
}

bool nocter_interrupt_raised(const nocter_interrupt* interrupt) {
  return usable(core(interrupt), base::Kind::interrupt, __func__) && core(interrupt)->interrupt.raised();
}

void nocter_interrupt_destroy(nocter_interrupt* interrupt) {
  base::InterruptHandle* handle = core(interrupt);
  if (!usable(handle, base::Kind::interrupt, __func__) || handle->is_a_jobs()) return;
  if (handle->header.tag.end(base::Kind::interrupt)) base::end_handle<base::Kind::interrupt>(handle);
}

nocter_status nocter_eventfd_create(nocter_eventfd** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  base::EventFd* made = base::EventFd::create();
  *out = reinterpret_cast<nocter_eventfd*>(made);
  return made != nullptr ? NOCTER_OK : fail(NOCTER_E_MEMORY, __func__, "out of memory or descriptors");
}

int nocter_eventfd_fd(const nocter_eventfd* eventfd) {
  return usable(core(eventfd), base::Kind::eventfd, __func__) ? core(eventfd)->fd() : -1;
}

void nocter_eventfd_clear(nocter_eventfd* eventfd) {
  if (usable(core(eventfd), base::Kind::eventfd, __func__)) core(eventfd)->clear();
}

nocter_notifier nocter_eventfd_notifier(nocter_eventfd* eventfd) {
  if (!usable(core(eventfd), base::Kind::eventfd, __func__)) return {nullptr, nullptr, nullptr};
  return to_c(core(eventfd)->notifier());
}

void nocter_eventfd_destroy(nocter_eventfd* eventfd) {
  if (!usable(core(eventfd), base::Kind::eventfd, __func__)) return;
  if (core(eventfd)->header.tag.end(base::Kind::eventfd)) core(eventfd)->release();
}
