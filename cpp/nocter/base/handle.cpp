#include "nocter/base/handle.hpp"

#include <pthread.h>

#include "nocter/base/identity.hpp"

namespace nocter::base {

namespace {

constexpr size_t kKinds = 5;  // those with memory of their own; guards live inside their jobs
constexpr size_t kCells = 128;

alignas(kShellAlign) constinit std::byte cells[kKinds][kCells * kShellSize] = {};
constinit ShellPool pools[kKinds] = {
    {cells[0], kShellSize, kCells}, {cells[1], kShellSize, kCells}, {cells[2], kShellSize, kCells},
    {cells[3], kShellSize, kCells}, {cells[4], kShellSize, kCells}};

constinit Atomic<uint32_t> generation;
constinit Atomic<uint64_t> service_numbers;

// Only stores: after a fork no lock of the parent's can be waited for.
void in_forked_child() {
  generation.jot(generation.glance() + 1);
  for (ShellPool& pool : pools) pool.disown_all();
}

__attribute__((constructor)) void watch_forks() { pthread_atfork(nullptr, nullptr, in_forked_child); }

}  // namespace

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[] = {"nocter_interrupt", "nocter_signal",      "nocter_eventfd",   "nocter_blocking",
                                           "nocter_workers",   "nocter_running_job", "nocter_completion"};
  return kNames[static_cast<size_t>(kind)];
}

uint32_t fork_generation() { return generation.glance(); }

uint64_t next_service_number() {
  const uint64_t number = service_numbers.fetch_add(1) + 1;
  return number < kServices ? number : 0;
}

ShellPool& shell_pool(Kind kind) { return pools[static_cast<size_t>(kind)]; }

ShellPool::Link* ShellPool::link_of(void* shell) const {
  return reinterpret_cast<Link*>(static_cast<std::byte*>(shell) + kHandleSize);
}
void* ShellPool::shell_of(Link* link) const { return reinterpret_cast<std::byte*>(link) - kHandleSize; }

bool ShellPool::is_static(const void* shell) const {
  const auto* byte = static_cast<const std::byte*>(shell);
  return byte >= cells_ && byte < cells_ + cell_size_ * cell_count_;
}

void* ShellPool::take() {
  Locked lock(mutex_);
  if (fresh_ < cell_count_) {
    live_++;
    return cells_ + cell_size_ * fresh_++;
  }
  if (resting_ > kResting) {
    Link* link = first_;
    first_ = link->next;
    if (first_ == nullptr) last_ = nullptr;
    resting_--;
    live_++;
    return shell_of(link);
  }
  live_++;
  lock.unlock();
  void* shell = ::operator new(cell_size_, std::align_val_t{kShellAlign}, std::nothrow);
  if (shell == nullptr) {
    lock.lock();
    live_--;
  }
  return shell;
}

void ShellPool::give(void* shell) {
  Locked lock(mutex_);
  Link* link = link_of(shell);
  link->next = nullptr;
  if (last_ != nullptr) {
    last_->next = link;
  } else {
    first_ = link;
  }
  last_ = link;
  resting_++;
  if (--live_ == 0) free_dynamic();
}

void ShellPool::free_dynamic() {
  Link* link = first_;
  first_ = last_ = nullptr;
  resting_ = 0;
  while (link != nullptr) {
    Link* const next = link->next;
    void* const shell = shell_of(link);
    if (is_static(shell)) {
      link->next = nullptr;
      if (last_ != nullptr) {
        last_->next = link;
      } else {
        first_ = link;
      }
      last_ = link;
      resting_++;
    } else {
      ::operator delete(shell, std::align_val_t{kShellAlign});
    }
    link = next;
  }
}

void ShellPool::disown_all() {
  new (&mutex_) Mutex;
  fresh_ = cell_count_;
  resting_ = live_ = 0;
  first_ = last_ = nullptr;
}

}  // namespace nocter::base
