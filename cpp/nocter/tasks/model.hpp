// What a durable task is: its record, the words for where it stands, and the rules that need nothing but a record.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nocter::tasks {

// ---- Identities -----------------------------------------------------------------------------------------------------

// A UUID version 7 (RFC 9562), in the order in which its text is written. All zero: none.
struct TaskId {
  std::array<uint8_t, 16> bytes{};
  bool none() const { return *this == TaskId{}; }
  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};

// A task's own number in its store: the store's monotone sequence (D-12), by which everything else refers to it. Zero: none.
using Number = int64_t;
// Unix time in milliseconds, by the store's clock.
using Millis = int64_t;
inline constexpr Millis kNever = INT64_MAX;

// ---- Where a task stands --------------------------------------------------------------------------------------------

// What everybody sees, numbered as in the C ABI.
enum class TaskStatus : int32_t { queued = 1, running = 2, suspended = 3, completed = 4, failed = 5, cancelled = 6 };

// What the store keeps: QUEUED is in two parts, so that a claim never looks at what is not due.
enum class Phase : int32_t {
  ready = 1,
  delayed = 2,
  running = 3,
  suspended = 4,
  completed = 5,
  failed = 6,
  cancelled = 7
};

constexpr TaskStatus status_of(Phase phase) {
  constexpr TaskStatus kStatuses[] = {TaskStatus::queued,  TaskStatus::queued,    TaskStatus::queued,
                                      TaskStatus::running, TaskStatus::suspended, TaskStatus::completed,
                                      TaskStatus::failed,  TaskStatus::cancelled};
  return kStatuses[static_cast<int>(phase)];
}
constexpr bool ended(Phase phase) { return phase >= Phase::completed; }

// Why the round at hand was started.
enum class Wake : int32_t { first = 1, join = 2, failure = 3, message = 4, timer = 5, retry = 6, rescue = 7 };

// What a suspended task waits for beside messages, which always wake it.
enum class Until : int32_t { nothing = 0, tasks = 1, children = 2, notified = 3 };

enum class KeyScope : int32_t { live_type = 0, parent = 1, tree = 2 };

// What moves a task. The one transition table is allowed() below.
enum class Move : int32_t {
  submit,      // it exists now
  come_due,    // its time has come: a delay, a backoff, or the wake time of a suspension
  claim,       // a worker has it
  done,        // outcomes of a round
  fail,        // no tries are left, or none is wanted
  retry,       // failed, and queued again after a delay
  park,        // suspended
  go_on,       // suspended in form: what it would wait for is there already
  wake,        // what it was suspended for has happened
  hand_back,   // its worker stops and has not begun in earnest: counts as nothing
  rescue,      // its worker is lost
  give_up,     // its worker is lost once too often
  cancel,      // ended by a cancel
  ask_cancel,  // asked to end; it runs on
};

// Whether a task in `from` may make the move to `to`; submit starts from nothing, so `from` is not looked at.
constexpr bool allowed(Move move, Phase from, Phase to) {
  const bool queued_again = to == Phase::ready || to == Phase::delayed;
  switch (move) {
    case Move::submit:
      return queued_again;
    case Move::come_due:
      return (from == Phase::delayed || from == Phase::suspended) && to == Phase::ready;
    case Move::claim:
      return from == Phase::ready && to == Phase::running;
    case Move::done:
      return from == Phase::running && to == Phase::completed;
    case Move::fail:
    case Move::give_up:
      return from == Phase::running && to == Phase::failed;
    case Move::retry:
      return from == Phase::running && queued_again;
    case Move::park:
      return from == Phase::running && to == Phase::suspended;
    case Move::go_on:
    case Move::hand_back:
    case Move::rescue:
      return from == Phase::running && to == Phase::ready;
    case Move::wake:
      return from == Phase::suspended && to == Phase::ready;
    case Move::cancel:
      return !ended(from) && to == Phase::cancelled;
    case Move::ask_cancel:
      return from == Phase::running && to == Phase::running;
  }
  return false;
}

// ---- The record -----------------------------------------------------------------------------------------------------

// The hot part: what claims, ends and wakes read and write. Narrow, with no text in it.
struct TaskRow {
  Number number = 0;
  TaskId id;
  Number root = 0, parent = 0;  // a root is its own root and has no parent
  int32_t type = 0;             // a number that the store gave the name
  int32_t priority = 0;
  Phase phase = Phase::ready;
  Wake woken_by = Wake::first;
  bool resumed = false;           // a suspend was committed, parked or refused (D-01)
  bool cancel_requested = false;  // a cancel was committed: it ends CANCELLED whatever comes
  KeyScope key_scope = KeyScope::live_type;
  bool has_key = false;

  uint32_t attempt = 0;       // tries of the present round; 0 before the first claim and after a suspend (D-02)
  uint32_t failures = 0;      // failed ones of them
  uint32_t max_attempts = 1;  // failed tries of one round
  uint32_t deliveries = 0;    // claims in all
  uint32_t rescues = 0;       // lost workers in all

  uint64_t fence = 0;  // grows with every claim
  uint64_t token = 0;  // random, of the present claim; 0 when nobody holds it
  uint64_t claim = 0;  // the caller's number of the present claim (D-17b)
  uint64_t settled_token =
      0;  // of the claim whose outcome was the last to be committed, and what that outcome was told
  int32_t settled_status = 0;
  int64_t node = 0;  // who runs it, or ran it last

  Millis created_at = 0;
  Millis due_at = kNever;  // when a delayed task comes due, or a suspended one wakes by time; else kNever
  Millis started_at = 0;   // of the first claim; 0: never
  Millis ended_at = 0;     // 0: not ended

  Until until = Until::nothing;  // of the last suspend, kept across wakes: the honest remainder (TSK-07)
  bool wake_on_failure = false;
  bool need_all = false;  // of children: one that is added joins in
  int64_t open = 0;       // for Until::tasks: edges from here. For children see open_children
  int64_t need = 0;       // further ends that the join still wants; <= 0: it is fulfilled

  int64_t children = 0, open_children = 0;
  int64_t failed_children = 0;       // ended other than COMPLETED
  int64_t failed_children_seen = 0;  // the same when the present claim was made
  int64_t mail = 0, mail_bytes = 0;  // what is in the mailbox, bound to a claim or not
  int64_t tree_open = 0;             // on a root: members that have not ended, itself included
  Millis tree_ended_at = kNever;     // on a root: when the last of them ended
};

struct Failure {
  std::string kind, message, detail;
  uint32_t attempt = 0;
  std::string node;
  Millis at = 0;
  bool none() const { return at == 0; }
};

// The cold part: texts, written seldom.
struct TaskTexts {
  std::string payload, key, state, result;  // state and result empty: none
  Failure failure;                          // the last one
};

struct Message {
  int64_t number = 0;  // rises in the order of commits
  TaskId from;         // none: from outside
  std::string payload;
  std::string key;  // dedupe key; empty: none
  Millis at = 0;
  uint64_t bound_fence = 0;  // the claim it was delivered to; 0: waits
  uint32_t deliveries = 0;
};

// All there is to know of a task, as readers get it.
struct Record {
  TaskRow row;
  TaskId root, parent;
  std::string type;
  TaskTexts texts;
  std::string node;                 // who runs it, or ran it last, as long as that one is known
  Millis lease_until = 0;           // while it runs
  std::vector<TaskId> waiting_for;  // open ones: of a join on tasks all, of one on children the first kWaitingShown
  int64_t waiting_open = 0;         // how many there are in all
};
inline constexpr size_t kWaitingShown = 1000;

struct Event {
  enum class Kind : int32_t {
    submitted = 1,
    started = 2,
    state = 3,
    suspended = 4,
    woken = 5,
    message = 6,
    retried = 7,
    rescued = 8,
    handed_back = 9,
    cancel_requested = 10,
    ended = 11,
  };
  uint64_t sequence = 0;
  Millis at = 0;
  TaskId task;
  Kind kind = Kind::submitted;
  TaskStatus status = TaskStatus::queued;  // after it
  uint32_t attempt = 0;
  std::string type;
  std::string data;  // JSON: the new state; of an end, what it ended with. Empty: none
};

// ---- Bounds, all of them options ------------------------------------------------------------------------------------

struct Limits {
  size_t json = 1 << 20;            // payload, result, state, step, shared value
  size_t message = 64 << 10;        // one message
  int64_t mailbox = 10'000;         // messages in one mailbox
  int64_t mailbox_bytes = 8 << 20;  // and their bytes
  size_t handed = 1'000;            // messages handed to one round
  int64_t handed_bytes = 4 << 20;
  int64_t children = 1'000'000;  // of one task, and ids in one waiting set
  size_t failure_text = 8 << 10;
  size_t name = 255;
  uint32_t json_depth = 512;
  int64_t cycle_walk = 100'000;  // edges looked at before a wait is believed to close no cycle
  int64_t cascade = 10'000;      // tasks ended or asked in one transaction of a cancel
  size_t purge = 1'000;          // rows removed in one transaction of a purge
  uint32_t max_rescues = 3;      // lost workers of one task
  int64_t retry_base_ms = 200;   // doubling, full jitter (D-22)
  int64_t retry_cap_ms = 300'000;
};

// What a child inherits, unless it is submitted with a priority of its own: one more, so that trees are finished before new ones are begun.
constexpr int32_t child_priority(int32_t parent) { return parent == INT32_MAX ? parent : parent + 1; }

// The beginning of a text, `most` bytes at the most and no half of a UTF-8 character. Of what is no UTF-8 it takes no more than 3 bytes away.
constexpr std::string_view beginning(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  for (int back = 0; back < 3 && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80; back++) end--;
  return text.substr(0, end);
}

// The longest delay before the try after `failures` failed ones; the delay itself is drawn between 0 and it.
constexpr int64_t longest_backoff(uint32_t failures, const Limits& limits) {
  const uint32_t doublings = failures == 0 ? 0 : failures - 1;
  if (doublings >= 32 || limits.retry_base_ms > (limits.retry_cap_ms >> doublings)) return limits.retry_cap_ms;
  return limits.retry_base_ms << doublings;
}

}  // namespace nocter::tasks
