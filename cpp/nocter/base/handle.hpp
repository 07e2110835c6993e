// What every handle begins with, and where its memory comes from: so that a handle used after its end, of another kind, or in
// a forked child is told apart from a live one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "nocter/base/monitor.hpp"

namespace nocter::base {

// Those with memory of their own come first; guards are parts of the records of their service.
enum class Kind : uint32_t {
  interrupt,
  signal,
  eventfd,
  blocking,
  workers,
  retirement,
  keyed,
  tasks,
  clock,
  run,
  lock,
  value,
  running_job,
  completion,
  permit,
  resource,
  cleanup,
  pass
};
const char* kind_name(Kind kind);

// How often this process is a fork of one that had the library loaded; a handle of an earlier generation is a parent's.
extern Atomic<uint32_t> fork_count;
inline uint32_t fork_generation() { return fork_count.glance(); }

// A number mixed with the handle's own address: neither zeroed, nor foreign, nor copied memory has it. Relaxed, for it only
// tells right use from wrong; wrong use racing with itself is not told apart.
class Tag {
 public:
  void arm(Kind kind) { value_.jot(expected(kind)); }
  bool armed(Kind kind) const { return value_.glance() == expected(kind); }
  void disarm() { value_.jot(kDead); }
  // Ends it; false when it was not live: of two racing ends one wins.
  bool end(Kind kind) {
    uint64_t live = expected(kind);
    return value_.compare_exchange(live, kDead);
  }

 private:
  static constexpr uint64_t kDead = 0xdeadULL;
  uint64_t expected(Kind kind) const {
    return (0x6e6f637465720000ULL | static_cast<uint64_t>(kind)) ^ (reinterpret_cast<uintptr_t>(this) << 8);
  }
  Atomic<uint64_t> value_;
};

struct Header {
  Tag tag;
  uint32_t generation;
  uint32_t unused = 0;

  explicit Header(Kind kind) : generation(fork_generation()) { tag.arm(kind); }
  bool of_parent() const { return generation != fork_generation() && !planted("fork_goes_unnoticed"); }
};

// The memory of handles. An ended one rests behind 64 others before it is used again, so that its tag stays dead for a while. It is
// never given back, so that a call on its way out of a handle that another thread ended still reads memory of ours; there is as
// much of it as handles of the kind lived at once, and the first cells of each kind are static.
class ShellPool {
 public:
  constexpr ShellPool(std::byte* cells, size_t cell_size, size_t cell_count)
      : cells_(cells), cell_size_(cell_size), cell_count_(cell_count) {}
  void* take();  // null when memory is exhausted
  void give(void* shell);
  void disown_all();  // in a forked child: what the parent had is left alone

 private:
  static constexpr size_t kResting = 64;
  struct Link {
    Link* next;
  };
  Link* link_of(void* shell) const;
  void* shell_of(Link* link) const;

  std::byte* const cells_;
  const size_t cell_size_, cell_count_;
  Mutex mutex_;
  size_t fresh_ = 0, resting_ = 0;
  Link *first_ = nullptr, *last_ = nullptr;
};

inline constexpr size_t kShellAlign = 64;
ShellPool& shell_pool(Kind kind);
inline constexpr size_t kShellSize = 2048;
// The largest object a handle may be: what lies behind it links resting shells, so that the object stays as its end left it, and
// a call that was on its way in when another thread ended the handle finds a closed object and not another one's.
inline constexpr size_t kHandleSize = kShellSize - sizeof(void*);

// Makes and ends handles of class T in that memory.
template <class T, Kind kind, class... Arguments>
T* make_handle(Arguments&&... arguments) {
  static_assert(sizeof(T) <= kHandleSize && alignof(T) <= kShellAlign);
  void* shell = shell_pool(kind).take();
  return shell == nullptr ? nullptr : new (shell) T(static_cast<Arguments&&>(arguments)...);
}
template <Kind kind, class T>
void end_handle(T* handle) {
  handle->~T();
  shell_pool(kind).give(handle);
}

}  // namespace nocter::base
