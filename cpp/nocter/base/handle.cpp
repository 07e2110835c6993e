#include "nocter/base/handle.hpp"

#include <pthread.h>

#include "nocter/base/identity.hpp"

namespace nocter::base {

constinit Atomic<uint32_t> fork_count;

namespace {

constexpr size_t kKinds = static_cast<size_t>(Kind::running_job);  // those with memory of their own
constexpr size_t kCells = 128;

alignas(kShellAlign) constinit std::byte cells[kKinds][kCells * kShellSize] = {};
constinit ShellPool pools[kKinds] = {
    {cells[0], kShellSize, kCells}, {cells[1], kShellSize, kCells},  {cells[2], kShellSize, kCells},
    {cells[3], kShellSize, kCells}, {cells[4], kShellSize, kCells},  {cells[5], kShellSize, kCells},
    {cells[6], kShellSize, kCells}, {cells[7], kShellSize, kCells},  {cells[8], kShellSize, kCells},
    {cells[9], kShellSize, kCells}, {cells[10], kShellSize, kCells}, {cells[11], kShellSize, kCells}};

constinit Atomic<uint64_t> service_numbers;

// Only stores: after a fork no lock of the parent's can be waited for.
void in_forked_child() {
  fork_count.jot(fork_count.glance() + 1);
  for (ShellPool& pool : pools) pool.disown_all();
}

__attribute__((constructor)) void watch_forks() { pthread_atfork(nullptr, nullptr, in_forked_child); }

}  // namespace

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[] = {
      "nocter_interrupt",  "nocter_signal",  "nocter_eventfd",     "nocter_blocking",   "nocter_workers",
      "nocter_retirement", "nocter_keyed",   "nocter_tasks",       "nocter_clock",      "nocter_run",
      "nocter_lock",       "nocter_value",   "nocter_running_job", "nocter_completion", "nocter_permit",
      "nocter_resource",   "nocter_cleanup", "nocter_pass"};
  return kNames[static_cast<size_t>(kind)];
}

uint64_t next_service_number() {
  const uint64_t number = service_numbers.fetch_add(1) + 1;
  return number < kServices ? number : 0;
}

ShellPool& shell_pool(Kind kind) { return pools[static_cast<size_t>(kind)]; }

ShellPool::Link* ShellPool::link_of(void* shell) const {
  return reinterpret_cast<Link*>(static_cast<std::byte*>(shell) + kHandleSize);
}
void* ShellPool::shell_of(Link* link) const { return reinterpret_cast<std::byte*>(link) - kHandleSize; }

void* ShellPool::take() {
  {
    Locked lock(mutex_);
    if (fresh_ < cell_count_) return cells_ + cell_size_ * fresh_++;
    if (resting_ > kResting) {
      Link* link = first_;
      first_ = link->next;
      resting_--;
      return shell_of(link);
    }
  }
  return ::operator new (cell_size_, std::align_val_t{kShellAlign}, std::nothrow);
}

void ShellPool::give(void* shell) {
  Link* link = link_of(shell);
  link->next = nullptr;
  Locked lock(mutex_);
  (resting_ != 0 ? last_->next : first_) = link;
  last_ = link;
  resting_++;
}

void ShellPool::disown_all() {
  new (&mutex_) Mutex;
  fresh_ = cell_count_;
  resting_ = 0;
  first_ = last_ = nullptr;
}

}  // namespace nocter::base
