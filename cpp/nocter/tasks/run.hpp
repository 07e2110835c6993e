// A round of a task that this process has claimed: what it was given, what it may write, and how it ends. One owner at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nocter/base/handle.hpp"
#include "nocter/base/interrupt.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/tasks/model.hpp"
#include "nocter/tasks/store.hpp"

namespace nocter::tasks {

class Engine;

// Why a run's interrupt was raised, numbered as in the C ABI.
enum class Reason : int32_t { none = 0, cancel = 1, lease_lost = 2, stop = 3 };

class Run {
 public:
  // Null when memory is exhausted. Not yet anybody's: it becomes live when a claim fills it.
  static Run* make(const std::shared_ptr<Engine>& engine);
  explicit Run(const std::shared_ptr<Engine>& engine);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  base::Header header;

  const Claimed& claimed() const { return claimed_; }
  const Record& record() const { return record_; }
  const std::vector<Message>& messages() const { return messages_; }
  Engine& engine() const { return *engine_; }
  base::InterruptHandle& interrupt() { return interrupt_; }
  Reason reason() const { return static_cast<Reason>(reason_.load()); }
  bool cancel_requested() const { return cancel_requested_.load(); }

  // ---- During the round. In an atomic round everything is staged. JSON and names were checked before.
  Answer update_state(std::string state);
  Answer submit(std::vector<Submission> tasks, std::vector<TaskId>& ids);
  Answer notify(const TaskId& to, std::string payload);
  Answer step_get(const std::string& name, std::string_view& out);  // the text ends with the run
  Answer step_put(std::string name, std::string value);
  Answer shared_put(std::string key, std::string value, bool if_absent, std::string& existing);
  Answer shared_get(const std::string& key, std::string& out);
  Answer children(std::vector<Record>& out);
  Answer heartbeat();
  void make_atomic() { atomic_ = true; }

  // ---- Its end
  // `ok`, `cancelled` and `lease_lost` end the round; after any other the run is as before.
  Answer settle(Settle& settle);
  static bool ends(Status status) {
    return status == Status::ok || status == Status::cancelled || status == Status::lease_lost;
  }
  // To be called once its tag has been ended: the store has heard of the outcome, or never will.
  void finish();
  // The same for a round without an outcome: the worker is lost. The store hears of it now, or as soon as it can.
  void drop(const char* kind, const char* message) noexcept;

  // Hands the task back, as if it had not been claimed, and finishes. False when the store did not take it: then the run is as before.
  bool give_back() noexcept;

  // For whoever must still look at it after its end, like the thread that lent it to a function.
  void hold() { references_.fetch_add(1); }
  void release();

  void raise(Reason reason);
  void lease_lost();

  // What the boundary makes of the record, on first asking. It needs no destruction.
  static constexpr size_t kBoundarySize = 384;
  struct ForBoundary {
    alignas(8) std::byte room[kBoundarySize];
    std::unique_ptr<std::byte[]> messages;
    bool made = false;
  } boundary;

 private:
  friend class Engine;
  friend class Spare;
  friend class Serving;
  friend void base::end_handle<base::Kind::run, Run>(Run*);
  ~Run() = default;

  bool lose(const char* kind, const char* message) noexcept;
  void begin();  // it is somebody's now
  template <class Demand>
  Answer ask(Demand& demand);
  Answer heard(Answer answer);
  const Staged* staged_step(std::string_view name) const;
  const Staged* staged_shared(std::string_view key) const;
  bool is_staged_child(const TaskId& id) const;
  Answer stage_submission(std::vector<Submission> tasks, std::vector<TaskId>& ids);
  Answer check_target(const TaskId& to);

  std::shared_ptr<Engine> engine_;
  Run *previous_ = nullptr, *next_ = nullptr;  // in the engine's list
  bool listed_ = false, dropped_late_ = false;
  const void* served_by_ = nullptr;  // the serve call whose thread has it
  base::Atomic<uint32_t> references_{1};
  base::Atomic<int32_t> reason_;
  base::Atomic<bool> cancel_requested_, lost_;
  base::InterruptHandle interrupt_{true};
  Claimed claimed_;
  Record record_;
  std::vector<Message> messages_;
  std::string tree_;  // the scope that the tree shares
  bool atomic_ = false;
  std::vector<Staged> staged_;
  std::list<std::string> handed_out_;
};

}  // namespace nocter::tasks
