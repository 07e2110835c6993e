// The port between the engine and a store. What must be atomic is one request; a store executes a batch of them in one transaction,
// in order, and none of them can make another fail (DUR-10). The engine knows nothing of a store but this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "nocter/base/planted.hpp"
#include "nocter/base/status.hpp"
#include "nocter/tasks/model.hpp"

namespace nocter::tasks {

// What a request was answered; `message` in words for every negative status.
struct Answer {
  Status status = Status::ok;
  std::string message;
};

// A claim, by which everything its run writes is checked: no zombie changes anything (TSK-17).
struct Claimed {
  TaskId id;
  Number number = 0;
  uint64_t fence = 0, token = 0;
};
// Whether the task is still held by this claim; who compares less than that lets a zombie write.
inline bool holds(const Claimed& by, const TaskRow& row) {
  return row.id == by.id && row.phase == Phase::running && by.token != 0 && row.token == by.token &&
         (row.fence == by.fence || base::planted("fence_is_not_checked"));
}

struct Submission {
  TaskId id;  // made by the caller, always: a repeat makes no second task (TSK-21)
  std::string type, payload, key;
  KeyScope key_scope = KeyScope::live_type;
  int32_t priority = 0;
  bool own_priority = false;  // take it as given, also for a child
  TaskId parent;              // none: a root
  Millis run_after = 0;       // 0: now
  uint32_t max_attempts = 1;
};

// ---- Requests -------------------------------------------------------------------------------------------------------

// All or none. `exists` when a key was taken: ids[i] is then the one that has it.
struct Submit {
  std::vector<Submission> tasks;
  std::optional<Claimed> by;  // submitted by this run, as children of its task
  std::vector<TaskId> ids;    // answer: what each submission is named, its own id or the first one's
};

struct Notify {
  TaskId to, from;  // `from` none: outside
  std::string payload;
  std::string key;            // dedupe key: a second message with it is not kept, and answered `exists`
  std::optional<Claimed> by;  // sent by this run
};

struct UpdateState {
  Claimed by;
  std::string state;
};

// `exists` when there was a value: it stays, and is in `value`.
struct StepPut {
  Claimed by;
  std::string name, value;
};

struct SharedPut {
  std::string scope, key, value;
  bool if_absent = false;     // `exists` when there was a value, which is in `existing`
  std::optional<Claimed> by;  // written by this run
  std::string existing;
};

struct SharedClear {
  std::string scope;
  uint64_t removed = 0;
};

// Claims up to `most` tasks of these types; `empty` when none is ready. A claim number that was used before answers with what it got then.
struct ClaimedTask {
  Claimed claimed;
  Record record;
  std::vector<Message> messages;  // bound to this claim
};
struct Claim {
  std::vector<std::string> types;  // none given: of every type
  uint32_t most = 1;
  uint64_t number = 0;  // the caller's, unique, never 0
  int64_t node = 0;
  std::vector<ClaimedTask> tasks;
  Millis now = 0;
};

struct Suspension {
  Until until = Until::notified;
  std::vector<TaskId> ids;
  uint32_t need = 0;  // 0: all
  bool wake_on_failure = false;
  Millis wake_at = 0;  // 0: never by time
};

enum class Outcome : int32_t { done, fail, suspend, hand_back };
enum class Retry : int32_t { by_policy, never, after };

// The end of a round. What was staged by an atomic round commits with it or not at all (TSK-31), in this order.
using Staged = std::variant<Submit, Notify, UpdateState, StepPut, SharedPut>;
struct Settle {
  Claimed by;
  Outcome outcome = Outcome::done;
  std::string result;  // done
  Failure failure;     // fail
  Retry retry = Retry::by_policy;
  int64_t retry_after_ms = 0;
  Suspension suspension;
  std::vector<Staged> staged;
};

// Answers `ok` when everything below will be CANCELLED in the end; `more` while parts of a big tree are still to be told.
struct Cancel {
  TaskId id;
  uint64_t touched = 0;
  bool more = false;
};

// A task that waits out a delay or a backoff becomes due at once. An ended one is `state`.
struct Hurry {
  TaskId id;
};

struct LockAcquire {
  std::string name;
  int64_t lease_ms = 0;
  uint64_t token = 0;  // random, the caller's: the owner's name
  uint64_t fence = 0;  // answer
  Millis until = 0;    // answer, also of `held`: when it may be free
};
struct LockRenew {
  std::string name;
  uint64_t token = 0;
  int64_t lease_ms = 0;
  Millis until = 0;
};
struct LockRelease {
  std::string name;
  uint64_t token = 0;
};

// A process that opened the store: what claims are made by, and whose one lease covers all it runs.
struct Register {
  std::string name;      // for people
  std::string instance;  // random, and where the store can see whether the process lives: the name of its lock file
  int64_t lease_ms = 0;
  int64_t node = 0;  // answer
};
// `lease_lost` when somebody has declared the node dead: what it ran is no longer its own.
struct Renew {
  int64_t node = 0;
  int64_t lease_ms = 0;
  std::vector<Claimed> cancelled;  // answer: what runs here and was asked to end
};
// The node ends in an orderly way: nothing runs there any more.
struct Leave {
  int64_t node = 0;
};

// One bounded piece of upkeep: ends nodes whose lease is over and rescues what they ran, goes on with cancels of big trees, repairs lost
// wakes, purges. `more` when it should be asked again at once.
struct Maintain {
  std::vector<int64_t> dead;       // nodes of which the caller knows that their process has ended
  Millis purge_before = kNever;    // trees that ended before that; kNever: purge nothing
  Millis events_before = kNever;   // events older than that; kNever: none
  bool search_everything = false;  // also for wakes that a look at the indexes does not show: after open
  TaskId search_from;              // of that, the piece after this task; none: the first one
  TaskId searched_to;              // answer: where the next piece begins; none: that was all
  uint64_t promoted = 0, rescued = 0, repaired = 0, purged = 0, purged_events = 0;  // answers
  bool more = false;
};

using Demand = std::variant<Submit, Notify, UpdateState, StepPut, SharedPut, SharedClear, Claim, Settle, Cancel, Hurry,
                            LockAcquire, LockRenew, LockRelease, Register, Renew, Leave, Maintain>;
struct Request {
  Demand demand;
  Answer answer;
};

// What a committed batch changed that somebody may wait for.
struct Effects {
  struct Ready {
    std::string type;
    size_t count = 0;
  };
  std::vector<Ready> ready;           // tasks that may be claimed now
  std::vector<TaskId> ended;          // terminal now
  std::vector<Claimed> cancelled;     // running, and asked to end
  std::vector<std::string> released;  // locks
  bool events = false;                // the event log has grown
  Millis next_due = kNever;           // the earliest time at which something comes due
  bool lost = false;                  // there was no memory to name all of it: everybody has to look
};

// ---- Reads ----------------------------------------------------------------------------------------------------------

struct Filter {
  std::string type;  // empty: every type
  std::optional<TaskStatus> status;
  TaskId parent, root;  // none: any
  bool roots_only = false;
  Millis created_before = kNever;
  TaskId after;  // pages: only those with a later id
  size_t most = 100;
};

struct Counts {
  uint64_t by_status[7] = {};  // at the status's number
  uint64_t ready = 0, delayed = 0;
  Millis oldest_ready = 0;  // when the ready task that was submitted first was; 0: none is ready
  uint64_t rescues = 0, repairs = 0, purged = 0;
  uint64_t tasks = 0;  // records in all
};

// Any thread may call a read; they see what was committed before. `unknown` when there is no such thing.
class Store {
 public:
  virtual ~Store() = default;
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // One call at a time. Answers stand in the requests; a batch that could not be committed answers each with the reason.
  virtual void execute(std::span<Request* const> batch, Effects& effects) = 0;

  virtual Answer get(const TaskId& id, Record& out) = 0;
  virtual Answer list(const Filter& filter, std::vector<Record>& out) = 0;  // in the order of ids
  virtual Answer mail(const TaskId& id, std::vector<Message>& out) = 0;     // of an ended task, what nobody was handed
  virtual Answer step(const Claimed& by, const std::string& name, std::string& out) = 0;  // `empty`: none; `lease_lost`
  virtual Answer shared(const std::string& scope, const std::string& key, std::string& out) = 0;  // `empty`: none
  virtual Answer shared_all(const std::string& scope, std::vector<std::pair<std::string, std::string>>& out) = 0;
  virtual Answer events(uint64_t after, size_t most, std::vector<Event>& out) = 0;
  virtual Answer count(Counts& out) = 0;

  virtual Millis now() = 0;  // the store's clock
  // A number that moves when another process has committed something; for stores that others share.
  virtual uint64_t changes_by_others() { return 0; }
  virtual bool shared_with_others() const { return false; }
  // Nodes of which it can be seen at once that their process has ended.
  virtual std::vector<int64_t> dead_nodes() { return {}; }
};

}  // namespace nocter::tasks
