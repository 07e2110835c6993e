// Values that exactly one party owns, and those who are told that something may have changed. Both call foreign code, so
// neither is ever called under a lock.
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <utility>

#include "nocter/base/monitor.hpp"

namespace nocter::base {

// Calls foreign code. What it throws is swallowed and counted, all but a forced unwinding (pthread_exit, cancellation), which
// must reach the start of its thread (and binds its reference to nothing, which UBSan would report).
template <class Call>
__attribute__((no_sanitize("null"))) bool call_foreign(Atomic<uint64_t>& exceptions, Call&& call) {
  scheduling_point("foreign code");
  try {
    std::forward<Call>(call)();
    return true;
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    exceptions.fetch_add(1);
    return false;
  }
}

// Foreign code sees it as nocter_owned, which is laid out alike, and may change it: the compiler must not take the two for strangers.
struct [[gnu::may_alias]] Owned {
  void* data = nullptr;
  void (*drop)(void*) = nullptr;

  bool ends_itself() const { return drop != nullptr; }
  Owned release() { return std::exchange(*this, Owned{}); }
  void end(Atomic<uint64_t>& exceptions) {
    if (ends_itself()) {
      call_foreign(exceptions, [value = release()] { value.drop(value.data); });
    } else {
      data = nullptr;
    }
  }
};

struct Notifier {
  void (*wake)(void*) = nullptr;
  void (*drop)(void*) = nullptr;
  void* user = nullptr;
  // The library's own (signal, eventfd) keep a word in which kAsked says that somebody has looked since the last wake. Where nobody has,
  // one more wake would change nothing, and one load says so; it may be done under a lock, after the change.
  const Atomic<uint64_t>* asked = nullptr;
  static constexpr uint64_t kAsked = EventCount::kObserved;

  bool is_noticed() const { return wake != nullptr && (asked == nullptr || (asked->load() & kAsked) != 0); }
};

// One notifier that this thread is inside of. They nest when the notifier of one service calls another service.
struct Telling {
  const void* service;
  const Notifier* notifier;
  bool again;      // it was woken from inside itself
  bool destroyed;  // its service was destroyed from inside it
  Telling* outer;
};

// The outermost of this service's notifiers that this thread is inside of, or null.
inline Telling* inside_notifier_of(const void* service) {
  Telling* found = nullptr;
  for (Telling* t = self().telling; t != nullptr; t = t->outer) {
    if (t->service == service) found = t;
  }
  return found;
}

// Whether a notifier was left by longjmp: its frame lies where the stack has been taken back. Only a hint, for stacks may be
// switched.
inline bool left_by_longjmp() {
  return self().telling != nullptr &&
         reinterpret_cast<uintptr_t>(self().telling) < reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
}

// Wakes; inside that very notifier the wake becomes one more turn of it, so that nothing recurses. True when the service was
// destroyed meanwhile and the caller must let go of it.
inline bool tell(const void* service, const Notifier& notifier, Atomic<uint64_t>& exceptions) {
  if (notifier.wake == nullptr) return false;
  ThreadState& thread = self();
  for (Telling* t = thread.telling; t != nullptr; t = t->outer) {
    if (t->notifier == &notifier) {
      t->again = true;
      return false;
    }
  }
  struct Frame : Telling {
    ThreadState& thread;
    Frame(const void* s, const Notifier* n, ThreadState& t) : Telling{s, n, false, false, t.telling}, thread(t) {
      thread.telling = this;
    }
    ~Frame() { thread.telling = outer; }
  } frame(service, &notifier, thread);
  do {
    frame.again = false;
    call_foreign(exceptions, [&] { notifier.wake(notifier.user); });
  } while (frame.again);
  return frame.destroyed;
}

}  // namespace nocter::base
