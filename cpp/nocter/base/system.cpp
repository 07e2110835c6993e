#include "nocter/base/system.hpp"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/random.h>

namespace nocter::base {

constinit std::atomic<bool> barriers_are_light{false};

namespace {

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }
bool may_command_barriers() { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0; }
__attribute__((constructor)) void choose_barriers() {
  barriers_are_light.store(may_command_barriers(), std::memory_order_relaxed);
}

// However long the wait, look again after so much: no wait is ever left to one wake alone.
constexpr int64_t kSlice = 3'600'000'000'000;
// Kernels before 5.16, and some sandboxes, cannot wait for two words: there an interrupt is looked for this often.
constexpr int64_t kWithoutWaitv = 5'000'000;

timespec to_timespec(int64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

Slept result_of(long rc, bool sliced) {
  if (rc >= 0) return Slept::woken;
  switch (errno) {
    case EINTR:
      return Slept::signalled;
    case ETIMEDOUT:
      return sliced ? Slept::woken : Slept::timed_out;
    default:  // EAGAIN: the word has changed already
      return Slept::woken;
  }
}

}  // namespace

// The time-out is always there: only with one does the kernel report a handler installed with SA_RESTART.
Slept futex_sleep(const uint32_t* word, uint32_t expected, const uint32_t* other, uint32_t other_expected,
                  int64_t deadline_ns) {
  int64_t until = now_ns() + kSlice;
  bool sliced = true;
  if (deadline_ns != kForever && deadline_ns < until) {
    until = deadline_ns < 0 ? 0 : deadline_ns;
    sliced = false;
  }
  if (other != nullptr) {
    static std::atomic<bool> without_waitv{false};
    if (!without_waitv.load(std::memory_order_relaxed)) {
      const uint32_t flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
      futex_waitv both[2] = {{expected, reinterpret_cast<uintptr_t>(word), flags, 0},
                             {other_expected, reinterpret_cast<uintptr_t>(other), flags, 0}};
      timespec t = to_timespec(until);
      const long rc = syscall(SYS_futex_waitv, both, 2, 0, &t, CLOCK_MONOTONIC);
      if (rc >= 0 || (errno != ENOSYS && errno != EPERM)) return result_of(rc, sliced);
      without_waitv.store(true, std::memory_order_relaxed);
    }
    if (const int64_t soon = now_ns() + kWithoutWaitv; soon < until) {
      until = soon;
      sliced = true;
    }
  }
  timespec t = to_timespec(until);
  return result_of(syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, &t, nullptr, FUTEX_BITSET_MATCH_ANY),
                   sliced);
}

// A signal handler may come here by way of an interrupt, so errno is put back.
void futex_wake(const uint32_t* word, int count) {
  const int error = errno;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
  errno = error;
}

void heavy_barrier() {
  if (!barriers_are_light.load(std::memory_order_relaxed)) {
    full_barrier();
    return;
  }
  const int error = errno;
  // A process that was forked may have to ask once more.
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 &&
      !(may_command_barriers() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)) {
    // A sandbox that came later forbids it. From now on nobody's barrier is light; those who are in the middle of one have crossed a
    // full one long before this has slept.
    barriers_are_light.store(false);
    constexpr timespec kLongEnough = {0, 1'000'000};
    nanosleep(&kLongEnough, nullptr);
    full_barrier();
  }
  errno = error;
}

unsigned usable_cores() {
  static std::atomic<unsigned> known{0};
  unsigned cores = known.load(std::memory_order_relaxed);
  if (cores == 0) {
    cpu_set_t set;
    cores = sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 2;
    if (cores == 0) cores = 1;
    known.store(cores, std::memory_order_relaxed);
  }
  return cores;
}

void prefer_large_pages(void* memory, size_t size) {
  constexpr uintptr_t kPage = 4096, kWorthwhile = uintptr_t{4} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) & ~(kPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + size) & ~(kPage - 1);
  if (size >= kWorthwhile)
    madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);  // a wish: errors are no matter
}

uint64_t random_seed() {
  uint64_t seed = 0;
  // Before the kernel has gathered enough, or where the call is forbidden: what addresses and clock have of chance.
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof seed)) {
    seed ^= reinterpret_cast<uintptr_t>(&seed) ^ static_cast<uint64_t>(now_ns()) << 20;
  }
  return seed;
}

bool random_bytes(void* out, size_t size) {
  auto* at = static_cast<unsigned char*>(out);
  while (size != 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace nocter::base
