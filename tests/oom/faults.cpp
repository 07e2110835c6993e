#include "oom/faults.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

// What stands behind: the allocator of the C library, or of the sanitizer that took its place.
#if NOCTER_SANITIZED
#define NOCTER_BEHIND(name) __interceptor_##name
#else
#define NOCTER_BEHIND(name) __libc_##name
#endif

extern "C" {
void* NOCTER_BEHIND(malloc)(size_t);
void* NOCTER_BEHIND(calloc)(size_t, size_t);
void* NOCTER_BEHIND(realloc)(void*, size_t);
void* NOCTER_BEHIND(memalign)(size_t, size_t);
void NOCTER_BEHIND(free)(void*);
}

namespace {

struct Plan {
  uint64_t nth = faults::kNone;
  bool from_then_on = false;
  uint64_t asked = 0;
  uint64_t failed = 0;

  bool fails_now() {
    const uint64_t which = asked++;
    const bool fails = which == nth || (from_then_on && which > nth);
    failed += fails ? 1 : 0;
    return fails;
  }
};

// Plain data of the program itself, so that looking at it allocates nothing.
thread_local Plan allocation_plan, thread_plan;
std::atomic<uint64_t> allocation_count, thread_count;
std::atomic<int64_t> live_count;

bool allocation_fails() {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (!allocation_plan.fails_now()) return false;
  errno = ENOMEM;
  return true;
}

void* counted(void* block) {
  if (block != nullptr) live_count.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void arm(Plan& plan, uint64_t nth, faults::How how) { plan = {nth, how == faults::How::from_then_on, 0, 0}; }

}  // namespace

#define NOCTER_REPLACES extern "C" __attribute__((visibility("default")))

NOCTER_REPLACES void* malloc(size_t size) noexcept {
  return allocation_fails() ? nullptr : counted(NOCTER_BEHIND(malloc)(size));
}

NOCTER_REPLACES void* calloc(size_t count, size_t size) noexcept {
  return allocation_fails() ? nullptr : counted(NOCTER_BEHIND(calloc)(count, size));
}

NOCTER_REPLACES void* realloc(void* block, size_t size) noexcept {
  if (block == nullptr) return malloc(size);
  if (size != 0 && allocation_fails()) return nullptr;
  void* const moved = NOCTER_BEHIND(realloc)(block, size);
  if (size == 0) live_count.fetch_sub(1, std::memory_order_relaxed);
  return moved;
}

NOCTER_REPLACES void* memalign(size_t alignment, size_t size) noexcept {
  return allocation_fails() ? nullptr : counted(NOCTER_BEHIND(memalign)(alignment, size));
}

NOCTER_REPLACES void* aligned_alloc(size_t alignment, size_t size) noexcept { return memalign(alignment, size); }

NOCTER_REPLACES int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* const block = memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}

NOCTER_REPLACES void free(void* block) noexcept {
  if (block == nullptr) return;
  live_count.fetch_sub(1, std::memory_order_relaxed);
  NOCTER_BEHIND(free)(block);
}

NOCTER_REPLACES int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                                   void* argument) noexcept {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static Create* const behind = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
  if (thread_plan.fails_now()) return EAGAIN;
  thread_count.fetch_add(1);
  return behind(thread, attributes, run, argument);
}

#if NOCTER_SANITIZED
// A sanitizer brings operators of its own that do not come by malloc. The ones of the C++ library do, and are left
// alone.
#define NOCTER_OPERATOR __attribute__((visibility("default")))

namespace {
void* allocate(size_t size, size_t alignment) {
  void* const block = alignment == 0 ? malloc(size) : memalign(alignment, size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
}  // namespace

NOCTER_OPERATOR void* operator new(size_t size) { return allocate(size, 0); }
NOCTER_OPERATOR void* operator new[](size_t size) { return allocate(size, 0); }
NOCTER_OPERATOR void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
NOCTER_OPERATOR void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
NOCTER_OPERATOR void* operator new(size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
NOCTER_OPERATOR void* operator new[](size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
NOCTER_OPERATOR void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return memalign(static_cast<size_t>(alignment), size);
}
NOCTER_OPERATOR void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return memalign(static_cast<size_t>(alignment), size);
}
NOCTER_OPERATOR void operator delete(void* block) noexcept { free(block); }
NOCTER_OPERATOR void operator delete[](void* block) noexcept { free(block); }
NOCTER_OPERATOR void operator delete(void* block, size_t) noexcept { free(block); }
NOCTER_OPERATOR void operator delete[](void* block, size_t) noexcept { free(block); }
NOCTER_OPERATOR void operator delete(void* block, std::align_val_t) noexcept { free(block); }
NOCTER_OPERATOR void operator delete[](void* block, std::align_val_t) noexcept { free(block); }
NOCTER_OPERATOR void operator delete(void* block, size_t, std::align_val_t) noexcept { free(block); }
NOCTER_OPERATOR void operator delete[](void* block, size_t, std::align_val_t) noexcept { free(block); }
NOCTER_OPERATOR void operator delete(void* block, const std::nothrow_t&) noexcept { free(block); }
NOCTER_OPERATOR void operator delete[](void* block, const std::nothrow_t&) noexcept { free(block); }
NOCTER_OPERATOR void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { free(block); }
NOCTER_OPERATOR void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept { free(block); }
#endif

namespace faults {

uint64_t allocations() { return allocation_count.load(); }
int64_t live_blocks() { return live_count.load(); }
uint64_t threads_made() { return thread_count.load(); }

Allocations::Allocations(uint64_t nth, How how) { arm(allocation_plan, nth, how); }
Allocations::~Allocations() { allocation_plan = {}; }
uint64_t Allocations::asked() const { return allocation_plan.asked; }
uint64_t Allocations::failed() const { return allocation_plan.failed; }

Threads::Threads(uint64_t nth, How how) { arm(thread_plan, nth, how); }
Threads::~Threads() { thread_plan = {}; }
uint64_t Threads::asked() const { return thread_plan.asked; }

Descriptors::Descriptors(uint64_t more) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
  limit_before_ = limit.rlim_cur;
  // The kernel hands out the lowest free number, and none at or above the limit.
  uint64_t lowest = 0;
  for (uint64_t left = more;; lowest++) {
    if (fcntl(static_cast<int>(lowest), F_GETFD) == -1 && errno == EBADF && left-- == 0) break;
  }
  limit.rlim_cur = lowest;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
}

Descriptors::~Descriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
  limit.rlim_cur = limit_before_;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
}

}  // namespace faults
