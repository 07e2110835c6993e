#include "nocter/signal.h"

#include "boundary.hpp"
#include "nocter/signal.hpp"

using namespace nocter;        // NOLINT(google-build-using-namespace): the boundary is one page of C functions
using namespace nocter::capi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr base::Kind kKind = base::Kind::signal;
Signal* core(nocter_signal* handle) { return reinterpret_cast<Signal*>(handle); }
const Signal* core(const nocter_signal* handle) { return reinterpret_cast<const Signal*>(handle); }

}  // namespace

nocter_status nocter_signal_create(nocter_signal** out) {
  if (out == nullptr) return fail_null(__func__, "out");
  Signal* made = Signal::create();
  *out = reinterpret_cast<nocter_signal*>(made);
  return made != nullptr ? NOCTER_OK : fail(NOCTER_E_MEMORY, __func__, "out of memory");
}

uint64_t nocter_signal_version(const nocter_signal* signal) {
  // Reading marks the version as known, which nobody can see but a notifier's wake.
  return usable(core(signal), kKind, __func__) ? core(const_cast<nocter_signal*>(signal))->version() : 0;
}

nocter_status nocter_signal_publish(nocter_signal* signal, uint64_t* out_version) {
  if (out_version != nullptr) *out_version = 0;
  if (const nocter_status status = check(core(signal), kKind, __func__); status != NOCTER_OK) return status;
  uint64_t now;
  const bool open = core(signal)->publish(now, out_version != nullptr);
  if (out_version != nullptr) *out_version = now;
  return open ? NOCTER_OK : NOCTER_CLOSED;
}

nocter_status nocter_signal_wait(nocter_signal* signal, uint64_t seen, const nocter_wait* wait, uint64_t* out_version) {
  if (out_version == nullptr) return fail_null(__func__, "out_version");
  *out_version = 0;
  if (const nocter_status status = check(core(signal), kKind, __func__); status != NOCTER_OK) return status;
  WaitArgument limits;
  if (const nocter_status status = limits.read(wait, __func__); status != NOCTER_OK) return status;
  if (seen == 0 || seen > core(signal)->version()) {
    return fail_argument(__func__, "seen", "is a version that this signal has not had yet");
  }
  return to_c(core(signal)->wait(seen, limits.pointer(), *out_version));
}

void nocter_signal_close(nocter_signal* signal) {
  if (usable(core(signal), kKind, __func__)) core(signal)->close();
}

void nocter_signal_destroy(nocter_signal* signal) {
  if (usable(core(signal), kKind, __func__) && core(signal)->header.tag.end(kKind)) core(signal)->destroy();
}

nocter_notifier nocter_signal_notifier(nocter_signal* signal) {
  if (!usable(core(signal), kKind, __func__)) return {nullptr, nullptr, nullptr};
  return to_c(core(signal)->notifier());
}
