// What every function of the C boundary needs: the check of a handle, the thread's message, sized structs. A boundary function checks, converts, makes one call of the core, and says the status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nocter/base.h"
#include "nocter/base/handle.hpp"
#include "nocter/base/identity.hpp"
#include "nocter/base/interrupt.hpp"
#include "nocter/base/owned.hpp"
#include "nocter/base/status.hpp"

namespace nocter::capi {

// Sets this thread's message, "function: what", and returns the status.
nocter_status fail(nocter_status status, const char* function, const char* what) __attribute__((cold));
nocter_status fail_argument(const char* function, const char* parameter, const char* what) __attribute__((cold));
inline nocter_status fail_null(const char* function, const char* parameter) {
  return fail_argument(function, parameter, "is NULL");
}

// What is wrong with a handle that is not live; NOCTER_CHECK=1 makes it a message on stderr and an abort.
nocter_status fail_handle(const char* function, base::Kind kind, const void* handle) __attribute__((cold));
nocter_status fail_forked(const char* function, base::Kind kind) __attribute__((cold));
// NOCTER_CHECK=1 was in the environment.
extern bool abort_on_misuse;
[[noreturn]] void abort_with(const char* function, const char* what, base::Kind kind) __attribute__((cold));

inline bool live(const base::Tag& tag, base::Kind kind) {
  return (reinterpret_cast<uintptr_t>(&tag) & (alignof(base::Tag) - 1)) == 0 && tag.armed(kind);
}

// Every handle begins with its header, and nothing else of it may be looked at before the tag was.
template <class T>
const base::Header* header_of(const T* object) {
  return reinterpret_cast<const base::Header*>(object);
}

// NOCTER_OK for a live handle of this process. T has a base::Header named header.
template <class T>
__attribute__((always_inline)) inline nocter_status check(const T* object, base::Kind kind, const char* function) {
  const base::Header* const header = header_of(object);
  if (header == nullptr || !live(header->tag, kind)) [[unlikely]]
    return fail_handle(function, kind, object);
  if (header->of_parent()) [[unlikely]]
    return fail_forked(function, kind);
  return NOCTER_OK;
}
// The same for calls without a status: NULL is nothing to complain about, and the thread's message is left alone.
template <class T>
__attribute__((always_inline)) inline bool usable(const T* object, base::Kind kind, const char* function) {
  const base::Header* const header = header_of(object);
  if (header == nullptr) return false;
  if (!live(header->tag, kind)) [[unlikely]] {
    if (abort_on_misuse) abort_with(function, "not a live", kind);
    return false;
  }
  return !header->of_parent();
}

inline base::Owned owned_of(const nocter_owned& value) { return {value.data, value.drop}; }
inline nocter_owned to_c(const base::Owned& value) { return {value.data, value.drop}; }
inline base::Notifier notifier_of(const nocter_notifier& n) { return {n.wake, n.drop, n.user}; }
inline nocter_notifier to_c(const base::Notifier& n) { return {n.wake, n.drop, n.user}; }
inline nocter_epoch to_c(const base::Epoch& epoch) { return {epoch.service, epoch.sequence}; }
inline nocter_status to_c(Status status) { return static_cast<nocter_status>(status); }

// A caller's wait, checked. `pointer()` is null when none was given.
class WaitArgument {
 public:
  nocter_status read(const nocter_wait* wait, const char* function) {
    return wait == nullptr ? NOCTER_OK : read_given(*wait, function);
  }
  const base::Wait* pointer() const { return given_ ? &wait_ : nullptr; }

 private:
  nocter_status read_given(const nocter_wait& wait, const char* function);

  base::Wait wait_;
  bool given_ = false;
};

// Structs that begin with their size. Known sizes are those at which a field ends; a longer struct may only add zeros.
// Copies what the caller knows over the defaults that stand in `to`.
template <class T, size_t n>
nocter_status read_sized(T& to, const T* from, const uint32_t (&ends)[n], const char* function, const char* parameter);
// Copies as much as the caller knows out; its size member keeps the caller's value.
template <class T>
void write_sized(T* to, const T& from, size_t size);
// The same for a struct that is filled in anew: what a newer caller knows beyond that becomes zero.
template <class T>
void init_sized(T* to, const T& from, size_t size) {
  constexpr size_t kLongest = 4096;
  write_sized(to, from, size);
  if (to != nullptr && size > sizeof(T) && size <= kLongest) {
    std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(T), 0, size - sizeof(T));
  }
}

nocter_status check_size(const void* from, size_t ours, const uint32_t* ends, size_t count, const char* function,
                         const char* parameter);

template <class T, size_t n>
nocter_status read_sized(T& to, const T* from, const uint32_t (&ends)[n], const char* function, const char* parameter) {
  if (const nocter_status status = check_size(from, sizeof(T), ends, n, function, parameter); status != NOCTER_OK) {
    return status;
  }
  std::memcpy(&to, from, from->size < sizeof(T) ? from->size : sizeof(T));
  to.size = sizeof(T);
  return NOCTER_OK;
}

template <class T>
void write_sized(T* to, const T& from, size_t size) {
  const size_t known = size < sizeof(T) ? size : sizeof(T);
  if (to == nullptr || known < sizeof(uint32_t)) return;
  std::memcpy(to, &from, known);
  to->size = static_cast<uint32_t>(size < UINT32_MAX ? size : UINT32_MAX);
}

// NOLINTBEGIN(bugprone-macro-parentheses): the name of a member cannot stand in parentheses
#define NOCTER_FIELD_END(type, field) \
  static_cast<uint32_t>(offsetof(type, field) + sizeof(static_cast<type*>(nullptr)->field))
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace nocter::capi
