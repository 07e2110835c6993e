// Where keys are kept: a slab of records, and a table that finds the record of a key.
//
// A record keeps its key after the key is gone, until the slab has no other room for a new one: a key that comes back, as keys do, is
// found and not stored again. So the table changes seldom, and looking a key up needs no lock: who looks may be told that a key is
// not there while the table is being changed, and asks again under the lock; what it finds it compares byte by byte, and acts on by a
// compare-and-swap of the record's word, which fails if the record has been given to another key meanwhile.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nocter/base/hash.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/base/planted.hpp"
#include "nocter/keyed_rules.hpp"

namespace nocter::keyed {

// A key as a call brings it.
struct Key {
  const char* data;
  size_t size;
  uint32_t hash;
};

// What a record is about, in one word that changes at once.
class Word {
 public:
  constexpr explicit Word(uint64_t bits = 0) : bits_(bits) {}
  constexpr uint64_t bits() const { return bits_; }
  constexpr KeyState state() const { return static_cast<KeyState>(bits_ & kStateMask); }
  // How many keys the record had before this one.
  constexpr uint64_t version() const { return bits_ >> kVersionShift; }
  // On its way to those who look for a record to give to a new key.
  constexpr bool listed() const { return (bits_ & kListed) != 0; }

  // Somebody coalesced since the last pass began, and so may others without writing anything here: see Service::notify_found.
  constexpr bool noted() const { return (bits_ & kNoted) != 0; }
  constexpr Word with_noted(bool noted) const { return Word((bits_ & ~kNoted) | (noted ? kNoted : 0)); }

  // A key that goes takes its turn with it: a word with an absent key differs from the one before that key came.
  constexpr Word with(KeyState next) const {
    const bool goes = next == KeyState::absent && state() != KeyState::absent;
    return Word(((bits_ & ~kStateMask) | static_cast<uint64_t>(next)) ^ (goes ? kTurn : 0));
  }
  constexpr Word with_listed(bool listed) const { return Word((bits_ & ~kListed) | (listed ? kListed : 0)); }
  constexpr Word of_next_key() const { return Word((version() + 1) << kVersionShift); }

 private:
  static constexpr uint64_t kStateMask = 7, kListed = 8, kTurn = 16, kNoted = 32;
  static constexpr unsigned kVersionShift = 6;
  static_assert(kKeyStates <= kStateMask + 1 && static_cast<int>(KeyState::absent) == 0);
  uint64_t bits_;
};

// One cache line. Records start as zeroed memory.
struct alignas(64) Record {
  static constexpr size_t kInlineWords = 4;

  base::Atomic<uint64_t> word;
  int64_t since = 0;  // waiting: since when; belongs to whoever moves the key there
  base::Atomic<uint32_t> size;
  uint32_t failures = 0;     // in a row; back
  uint32_t hash = 0;         // front
  uint32_t timer_place = 0;  // in the timers, from 1; back
  base::Atomic<uint64_t> key[kInlineWords];

  Word now() const { return Word(word.load()); }
  // False when the word is no longer `expected`, which then is what it is.
  bool change(Word& expected, Word desired) {
    uint64_t bits = expected.bits();
    if (word.compare_exchange(bits, desired.bits())) return true;
    expected = Word(bits);
    return false;
  }
};
static_assert(sizeof(Record) == 64);

class KeyTable {
 public:
  // Where the memory of each lies; all of it zero.
  struct Memory {
    Record* records;
    base::Atomic<uint32_t>* slots;
    base::Atomic<uint64_t>* long_keys;  // null when every key is short
  };
  static constexpr size_t kShort = Record::kInlineWords * 8;
  static constexpr size_t words_of(size_t size) { return (size + 7) / 8; }
  static constexpr size_t long_words_for(size_t maximum_key_size) {
    return maximum_key_size <= kShort ? 0 : words_of(maximum_key_size);
  }
  // At most half full, so that what is not there is found missing soon.
  static constexpr size_t slots_for(uint32_t maximum_keys) { return std::bit_ceil(size_t{maximum_keys} * 2); }

  KeyTable(Memory memory, uint32_t maximum_keys, size_t maximum_key_size)
      : memory_(memory), mask_(slots_for(maximum_keys) - 1), long_words_(long_words_for(maximum_key_size)) {}

  Record& at(uint32_t place) const { return memory_.records[place]; }
  uint32_t place_of(const Record& record) const { return static_cast<uint32_t>(&record - memory_.records); }

  void prefetch(uint32_t hash) const { __builtin_prefetch(&memory_.slots[hash & mask_]); }

  // The record of a key and its word as it was before the key was compared, or null.
  struct Found {
    Record* record;
    Word word;
  };
  Found find(const Key& key) const {
    for (size_t i = key.hash & mask_;; i = (i + 1) & mask_) {
      const uint32_t slot = memory_.slots[i].observe();
      if (slot == kEmpty) return {nullptr, Word()};
      if ((slot ^ tag_of(key.hash)) >> kPlaceBits != 0) continue;
      Record& record = at(slot & kPlaceMask);
      __builtin_prefetch(&record, 1);
      const Word word = record.now();
      if (has_key(record, key)) return {&record, word};
    }
  }

  // Under the front lock, for a record that is in no slot. Whoever compared bytes of two keys finds the record's word moved on: it
  // moves before the bytes are written, and once more after it.
  void put(Record& record, const Key& key) {
    record.word.store(record.now().of_next_key().bits());
    record.size.publish(static_cast<uint32_t>(key.size));
    record.hash = key.hash;
    base::Atomic<uint64_t>* const words = words_at(record, key.size);
    for (size_t i = 0; i < words_of(key.size); i++) words[i].publish(word_of(key, i));
    if (!base::planted("record_moves_on_once")) record.word.store(record.now().of_next_key().bits());
    size_t i = key.hash & mask_;
    while (memory_.slots[i].glance() != kEmpty) i = (i + 1) & mask_;
    memory_.slots[i].publish(tag_of(key.hash) | place_of(record));
  }

  // Under the front lock. What lies behind it and would no longer be found moves up.
  void remove(const Record& record) {
    size_t hole = record.hash & mask_;
    while (memory_.slots[hole].glance() != (tag_of(record.hash) | place_of(record))) hole = (hole + 1) & mask_;
    for (size_t i = (hole + 1) & mask_;; i = (i + 1) & mask_) {
      const uint32_t slot = memory_.slots[i].glance();
      if (slot == kEmpty) break;
      const size_t home = at(slot & kPlaceMask).hash & mask_;
      if (((i - home) & mask_) < ((i - hole) & mask_)) continue;
      memory_.slots[hole].publish(slot);
      hole = i;
    }
    memory_.slots[hole].publish(kEmpty);
  }

  // Of a key that has a pass: it stays.
  const char* data_of(Record& record) const {
    return reinterpret_cast<const char*>(words_at(record, record.size.glance()));
  }

 private:
  static constexpr unsigned kPlaceBits = 24;
  static constexpr uint32_t kPlaceMask = (uint32_t{1} << kPlaceBits) - 1, kEmpty = 0;
  // Never zero, so that no slot in use is empty.
  static constexpr uint32_t tag_of(uint32_t hash) { return (hash | uint32_t{1} << kPlaceBits) & ~kPlaceMask; }

  base::Atomic<uint64_t>* words_at(Record& record, size_t size) const {
    return size <= kShort ? record.key : memory_.long_keys + place_of(record) * long_words_;
  }
  // Eight bytes of a key as memory has them; behind its end zeros.
  static uint64_t word_of(const Key& key, size_t i) {
    uint64_t word = 0;
    const size_t rest = key.size - i * 8;
    if (rest >= 8) {
      std::memcpy(&word, key.data + i * 8, 8);
    } else if (key.size >= 8) {
      std::memcpy(&word, key.data + key.size - 8, 8);
      const unsigned surplus = static_cast<unsigned>(8 - rest) * 8;
      word = std::endian::native == std::endian::little ? word >> surplus : word << surplus;
    } else {
      std::memcpy(&word, key.data + i * 8, rest);
    }
    return word;
  }
  bool has_key(Record& record, const Key& key) const {
    if (record.size.observe() != key.size) return false;
    const base::Atomic<uint64_t>* const words = words_at(record, key.size);
    for (size_t i = 0; i < words_of(key.size); i++) {
      if (words[i].observe() != word_of(key, i)) return false;
    }
    return true;
  }

  const Memory memory_;
  const size_t mask_, long_words_;
};

}  // namespace nocter::keyed
