// The port over tables with one writer: the ledger writes, reads go beside it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/store.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::tasks {

// Where reads find tables: one of its own for each that goes on, or the same for all, which then waits in begin_read().
class Readers {
 public:
  virtual ~Readers() = default;
  Readers() = default;
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  virtual Tables& borrow() = 0;
  virtual void give_back(Tables& tables) noexcept = 0;
};

class TableStore : public Store {
 public:
  TableStore(std::unique_ptr<Tables> writer, std::unique_ptr<Readers> readers, const StoreOptions& options)
      : writer_(std::move(writer)), readers_(std::move(readers)), ledger_(*writer_, options) {}

  void execute(std::span<Request* const> batch, Effects& effects) override { ledger_.execute(batch, effects); }

  Answer get(const TaskId& id, Record& out) override;
  Answer list(const Filter& filter, std::vector<Record>& out) override;
  Answer mail(const TaskId& id, std::vector<Message>& out) override;
  Answer step(const Claimed& by, const std::string& name, std::string& out) override;
  Answer shared(const std::string& scope, const std::string& key, std::string& out) override;
  Answer shared_all(const std::string& scope, std::vector<std::pair<std::string, std::string>>& out) override;
  Answer events(uint64_t after, size_t most, std::vector<Event>& out) override;
  Answer count(Counts& out) override;
  Millis now() override { return ledger_.now(); }

 protected:
  Tables& writer() { return *writer_; }
  // One moment of the tables. What is thrown becomes the answer, except std::bad_alloc.
  template <class Read>
  Answer read(Read&& look);

 private:
  const std::unique_ptr<Tables> writer_;
  const std::unique_ptr<Readers> readers_;
  Ledger ledger_;
};

// ---- reads.cpp: what readers get, from any tables

Record read_record(Tables& tables, const TaskRow& row);
void read_waiting(Tables& tables, const TaskRow& row, Record& record);  // the part of it that tells whom it waits for
// The answer for something that was thrown; std::bad_alloc is `memory`.
Answer answer_of(const std::exception& thrown);

template <class Read>
Answer TableStore::read(Read&& look) {
  struct Borrowed {
    explicit Borrowed(Readers& from) : readers(from), tables(from.borrow()) {}
    ~Borrowed() {
      if (reading) tables.end_read();
      readers.give_back(tables);
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Readers& readers;
    Tables& tables;
    bool reading = false;
  };
  try {
    Borrowed borrowed(*readers_);
    borrowed.tables.begin_read();
    borrowed.reading = true;
    return look(borrowed.tables);
  } catch (const std::exception& thrown) {
    return answer_of(thrown);
  }
}

}  // namespace nocter::tasks
