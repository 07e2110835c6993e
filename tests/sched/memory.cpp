#include "sched/memory.hpp"

#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "sched/explorer.hpp"

namespace {

int64_t live = 0;
bool keeping = false;
constexpr int kFreed = 0xdd;  // what system.hpp takes for freed memory
struct Block {
  unsigned char* memory;
  size_t size;
};
constexpr size_t kRoom = 4096;
Block kept[kRoom];
size_t kept_count = 0;

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  live++;
  return memory;
}
void* counted_or_null(void* memory) noexcept {
  if (memory != nullptr) live++;
  return memory;
}
void* aligned(size_t size, std::align_val_t alignment) {
  const size_t unit = static_cast<size_t>(alignment);
  return std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
}
void give_back(void* memory) {
  if (memory == nullptr) return;
  live--;
  if (!keeping || kept_count == kRoom) {
    std::free(memory);
    return;
  }
  const size_t size = malloc_usable_size(memory);
  std::memset(memory, kFreed, size);
  kept[kept_count++] = {static_cast<unsigned char*>(memory), size};
}

}  // namespace

void* operator new(size_t size) { return counted(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t unit) { return counted(aligned(size, unit)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return sched::memory_refused() ? nullptr : counted_or_null(std::malloc(size));
}
void* operator new(size_t size, std::align_val_t unit, const std::nothrow_t&) noexcept {
  return sched::memory_refused() ? nullptr : counted_or_null(aligned(size, unit));
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, std::align_val_t unit) { return operator new(size, unit); }
void* operator new[](size_t size, const std::nothrow_t& none) noexcept { return operator new(size, none); }
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { give_back(memory); }

namespace sched {

int64_t live_allocations() { return live; }

void keep_freed() { keeping = true; }

bool let_freed_go() {
  keeping = false;
  bool untouched = true;
  for (size_t i = 0; i < kept_count; i++) {
    const Block& block = kept[i];
    for (size_t k = 0; k < block.size && untouched; k++) untouched = block.memory[k] == kFreed;
    std::free(block.memory);
  }
  kept_count = 0;
  return untouched;
}

}  // namespace sched
