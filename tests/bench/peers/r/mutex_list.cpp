// Benchmark R by hand. PROGRAM DROPS
// limit-cxx-mutex-list: nodes made beforehand, one mutex, a list through the nodes: no totals, no ages, nobody to wake.
// -DALLOCATING floor-cxx-mutex-deque: the same with a std::deque of what is to be cleaned, as it is usually written.
#include <deque>
#include <mutex>
#include <vector>

#include "drop.hpp"

namespace {

struct Node {
  Node *next = nullptr;
  void *resource = nullptr;
};

class Peer {
 public:
#ifdef ALLOCATING
  static constexpr const char *name = "floor-cxx-mutex-deque";
#else
  static constexpr const char *name = "limit-cxx-mutex-list";
#endif
  explicit Peer(uint32_t places) : nodes_(places) {}
  void own(uint32_t i) { nodes_[i].resource = &nodes_[i]; }

#ifdef ALLOCATING
  void drop(uint32_t i) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(nodes_[i].resource);
  }
  uint32_t clean() {
    uint32_t count = 0;
    for (;; count++) {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return count;
      queue_.pop_front();
    }
  }

 private:
  std::deque<void *> queue_;
#else
  void drop(uint32_t i) {
    const std::lock_guard lock(mutex_);
    Node &node = nodes_[i];
    node.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &node;
    last_ = &node;
  }
  uint32_t clean() {
    uint32_t count = 0;
    for (;; count++) {
      const std::lock_guard lock(mutex_);
      if (first_ == nullptr) return count;
      first_ = first_->next;
    }
  }

 private:
  Node *first_ = nullptr, *last_ = nullptr;
#endif
  std::mutex mutex_;
  std::vector<Node> nodes_;
};

}  // namespace

int main(int argc, char **argv) { giving_up::run<Peer>(argc > 1 ? strtoull(argv[1], nullptr, 10) : 1000000); }
