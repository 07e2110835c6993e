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

// The same for a live service, called from where a call with a status may be made: not from inside its own notifier.
nocter_status check_reentry(const void* service, base::Kind kind, const char* function) __attribute__((cold));
template <class T>
__attribute__((always_inline)) inline nocter_status check_call(const T* service, base::Kind kind,
                                                               const char* function) {
  if (const nocter_status status = check(service, kind, function); status != NOCTER_OK) return status;
  if (base::self().telling != nullptr) [[unlikely]]
    return check_reentry(service, kind, function);
  return NOCTER_OK;
}

// A live guard, or null with the status said; without a place for it, for calls that say nothing. Of(guard) is the record it is a part of,
// which has a member service.
template <class Guard, class Of>
__attribute__((always_inline)) inline auto record_of_guard(const void* handle, base::Kind kind, const char* function,
                                                           nocter_status* status, Of&& of)
    -> decltype(&of(*static_cast<Guard*>(nullptr))) {
  // Every guard begins with its tag, and nothing else of it may be assumed before that was looked at: not even how it is aligned.
  const auto* const tag = static_cast<const base::Tag*>(handle);
  if (tag == nullptr || !live(*tag, kind)) [[unlikely]] {
    if (status != nullptr) *status = fail_handle(function, kind, handle);
    if (status == nullptr && tag != nullptr && abort_on_misuse) abort_with(function, "not a live", kind);
    return nullptr;
  }
  auto& record = of(*static_cast<Guard*>(const_cast<void*>(handle)));
  if (record.service.header.of_parent()) [[unlikely]] {
    if (status != nullptr) *status = fail_forked(function, kind);
    return nullptr;
  }
  return &record;
}

inline base::Owned owned_of(const nocter_owned& value) { return {value.data, value.drop}; }
inline nocter_owned to_c(const base::Owned& value) { return {value.data, value.drop}; }
base::Notifier notifier_of(const nocter_notifier& n);
inline nocter_notifier to_c(const base::Notifier& n) { return {n.wake, n.drop, n.user}; }
inline nocter_epoch to_c(const base::Epoch& epoch) { return {epoch.service, epoch.sequence}; }
inline nocter_status to_c(Status status) { return static_cast<nocter_status>(status); }

// A value of the core's as foreign code sees it for the length of a call.
inline nocter_owned* as_c(base::Owned& value) {
  static_assert(sizeof(nocter_owned) == sizeof(base::Owned) &&
                offsetof(nocter_owned, data) == offsetof(base::Owned, data) &&
                offsetof(nocter_owned, drop) == offsetof(base::Owned, drop));
  return reinterpret_cast<nocter_owned*>(&value);
}

// wait_spins and wait_yields of options.
base::Patience patience_of(uint32_t spins, uint32_t yields);

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

// The sizes at which a field of a counts struct ends: every field is 4 or 8 bytes long and lies at a multiple of its length, so four bytes
// at a time up to the first wide one.
template <size_t size, size_t first_wide>
constexpr auto ends_of_counts() {
  struct {
    uint32_t at[size / 4];
    size_t count = 0;
  } ends{};
  for (uint32_t end = 4; end <= first_wide; end += 4) ends.at[ends.count++] = end;
  for (uint32_t end = first_wide + 8; end <= size; end += 8) ends.at[ends.count++] = end;
  return ends;
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
