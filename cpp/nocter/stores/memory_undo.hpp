// What a transaction has to undo when it fails. Each step is noted before it is taken and undone without memory, so neither can fail halfway.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace nocter::stores {

class UndoLog {
 public:
  // `undo` is kept and called by roll_back(), which is given it back to fill in what must be kept only then.
  template <class Undo>
  Undo& note(Undo undo) {
    steps_.emplace_back();
    auto step = std::make_unique<StepOf<Undo>>(std::move(undo));
    Undo& kept = step->undo;
    steps_.back() = std::move(step);
    return kept;
  }
  size_t size() const { return steps_.size(); }
  void roll_back(size_t to) noexcept {
    while (steps_.size() > to) {
      if (steps_.back() != nullptr) steps_.back()->run();
      steps_.pop_back();
    }
  }
  void forget() { steps_.clear(); }

 private:
  struct Step {
    Step() = default;
    virtual ~Step() = default;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    virtual void run() noexcept = 0;
  };
  template <class Undo>
  struct StepOf final : Step {
    explicit StepOf(Undo&& what) : undo(std::move(what)) {}
    void run() noexcept override { undo(); }
    Undo undo;
  };
  std::vector<std::unique_ptr<Step>> steps_;
};

// Puts an old value back.
template <class T>
struct Restore {
  T* target;
  T old;
  void operator()() noexcept { std::swap(*target, old); }
};

// Takes out what a map or set was given.
template <class Map>
struct TakeOut {
  Map* map;
  typename Map::key_type key;
  void operator()() noexcept {
    if (const auto found = map->find(key); found != map->end()) map->erase(found);
  }
};

// Puts back what was taken out of one: the node itself, so that it needs no memory.
template <class Map>
struct PutBack {
  Map* map;
  typename Map::node_type node = {};
  void operator()() noexcept {
    if (!node.empty()) map->insert(std::move(node));
  }
};

template <class Map>
void take_out(UndoLog& log, Map& map, typename Map::const_iterator at) {
  PutBack<Map>& undo = log.note(PutBack<Map>{&map});
  undo.node = map.extract(at);
}

// Makes it that value.
template <class T>
void assign(UndoLog& log, T& target, T value) {
  Restore<T>& undo = log.note(Restore<T>{&target, T{}});
  undo.old = std::exchange(target, std::move(value));
}

// Inserts or overwrites.
template <class Map, class Key, class Value>
void put(UndoLog& log, Map& map, const Key& key, Value value) {
  if (const auto found = map.find(key); found != map.end()) {
    assign(log, found->second, std::move(value));
    return;
  }
  log.note(TakeOut<Map>{&map, typename Map::key_type(key)});
  map.emplace(typename Map::key_type(key), std::move(value));
}

template <class Set>
bool add(UndoLog& log, Set& set, const typename Set::key_type& key) {
  if (set.find(key) != set.end()) return false;
  log.note(TakeOut<Set>{&set, key});
  set.insert(key);
  return true;
}

}  // namespace nocter::stores
