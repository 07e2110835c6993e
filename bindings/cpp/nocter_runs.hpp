/// @file nocter_runs.hpp
/// @brief A worker's side of durable tasks: one round, and the ways to end it. Included by nocter.hpp.
#ifndef NOCTER_RUNS_HPP
#define NOCTER_RUNS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "nocter_task_records.hpp"
#include "nocter_workers.hpp"

namespace nocter {

/// Why a run's interrupt was raised.
enum class interrupt_reason : std::int32_t {
  none = NOCTER_REASON_NONE,              ///< It was not.
  cancel = NOCTER_REASON_CANCEL,          ///< The task was cancelled.
  lease_lost = NOCTER_REASON_LEASE_LOST,  ///< Others may run the task now.
  stop = NOCTER_REASON_STOP               ///< The workers are being stopped, or the store closed.
};

// ---- Outcomes ----------------------------------------------------------------------------------------------------

/// Why a round failed, and what follows: another try by the task's policy, unless it says otherwise.
struct failure {
  std::string kind;                                                     ///< What sort, for programs.
  std::string message = {};                                             ///< What happened, for people.
  std::string detail = {};                                              ///< More of it.
  bool never_retry = false;                                             ///< No further try: the task has failed.
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;  ///< When the next try comes.

  /// The C struct, of which the texts are these.
  nocter_failure native() const {
    nocter_failure native = NOCTER_FAILURE_INIT;
    native.kind = nocter::detail::text_of(kind);
    native.message = nocter::detail::text_of(message);
    native.detail = nocter::detail::text_of(detail);
    native.retry = never_retry ? NOCTER_RETRY_NEVER : retry_after ? NOCTER_RETRY_AFTER : NOCTER_RETRY_BY_POLICY;
    native.retry_after_ms = retry_after ? retry_after->count() : 0;
    return native;
  }
};

/// What a task waits for. A message always wakes it, whatever it waits for.
class suspension {
 public:
  /// Until all of its children have ended.
  static suspension children() { return suspension(NOCTER_UNTIL_CHILDREN, {}); }
  /// Until all of these have ended.
  static suspension tasks(const std::vector<task_id>& ids) { return suspension(NOCTER_UNTIL_TASKS, ids); }
  /// Until a message comes.
  static suspension notified() { return suspension(NOCTER_UNTIL_NOTIFIED, {}); }
  /// So many of them are enough; 0: all.
  suspension& need(std::uint32_t tasks) {
    need_ = tasks;
    return *this;
  }
  /// The first of them that fails or is cancelled wakes it too.
  suspension& or_failure() {
    on_failure_ = true;
    return *this;
  }
  /// It wakes then, whatever has happened.
  suspension& or_at(task_time then) {
    wake_at_ = then;
    return *this;
  }
  /// The C struct, of which the identities are these.
  nocter_suspension native() const {
    nocter_suspension native = NOCTER_SUSPENSION_INIT;
    native.until = until_;
    native.ids = ids_.data();
    native.count = ids_.size();
    native.need = need_;
    native.flags = on_failure_ ? NOCTER_WAKE_ON_FAILURE : 0;
    native.wake_at_ms = detail::unix_ms(wake_at_);
    return native;
  }

 private:
  suspension(nocter_until until, const std::vector<task_id>& ids) : until_(until) {
    for (const task_id id : ids) ids_.push_back(id.native());
  }
  nocter_until until_;
  std::vector<nocter_task_id> ids_;
  std::uint32_t need_ = 0;
  bool on_failure_ = false;
  task_time wake_at_;
};

/// Given back as if it had not been claimed.
struct hand_back {};

/// How a round ends: with a result in JSON, a failure, a suspension, or handed back.
using outcome = std::variant<std::string, failure, suspension, hand_back>;

// ---- Runs --------------------------------------------------------------------------------------------------------

/// One round of a task, as every handler sees it. What it writes is refused with status::e_lease_lost once somebody
/// else has its task.
class task_run {
 public:
  task_run(const task_run&) = delete;
  task_run& operator=(const task_run&) = delete;

  /// The record as it was claimed.
  task_view task() const noexcept { return task_view(nocter_run_task(native_)); }
  /// What the task was submitted with, JSON.
  std::string_view payload() const noexcept { return task().payload(); }
  /// Whether the task has suspended before: false in its first round, on every try of that.
  bool resumed() const noexcept { return nocter_run_resumed(native_); }
  /// Why this round was started.
  wake woken_by() const noexcept { return static_cast<wake>(nocter_run_woken_by(native_)); }
  /// The messages handed to this round, oldest first; they end with the run.
  result<std::vector<nocter_notification>> messages() const {
    const nocter_notification* first = nullptr;
    std::size_t count = 0;
    const nocter_status code = nocter_run_notifications(native_, &first, &count);
    if (code != NOCTER_OK) return detail::refused<std::vector<nocter_notification>>(code);
    return std::vector<nocter_notification>(first, first + count);
  }
  /// Grows with every claim of the task: for what the run changes outside.
  std::uint64_t fence() const noexcept { return nocter_run_fence(native_); }
  /// Whether the task was cancelled meanwhile.
  bool cancelled() const noexcept { return nocter_run_cancel_requested(native_); }
  /// Raised on a cancel, a lost lease, a stop: to carry in the waits that the run makes.
  interrupt_view interrupt() const noexcept { return interrupt_view(nocter_run_interrupt(native_)); }
  /// Why it was raised.
  interrupt_reason reason() const noexcept {
    return static_cast<interrupt_reason>(nocter_run_interrupt_reason(native_));
  }

  /// Writes the task's state, JSON, which every reader sees at once and every later round is given.
  result<void> update_state(std::string_view json) {
    return detail::said(nocter_run_update_state(native_, detail::text_of(json)));
  }
  /// Renews the lease, and asks whether the task is still this run's. Only needed with a store opened by hand.
  result<void> heartbeat() { return detail::said(nocter_run_heartbeat(native_)); }
  /// The task's children as they are now, ended ones too.
  result<task_list> children() const {
    task_list list;
    const nocter_status code = nocter_run_children(native_, list.native());
    if (code != NOCTER_OK) return detail::refused<task_list>(code);
    return list;
  }
  /// Makes a child.
  result<submitted> submit_child(const submission& child) {
    return detail::submit_one(native_, child, nocter_run_submit_child);
  }
  /// Makes children, all or none.
  result<submitted_many> submit_children(const std::vector<submission>& children) {
    return detail::submit_all(native_, children, nocter_run_submit_child);
  }
  /// Sends a message, JSON, from this task.
  result<void> notify(task_id to, std::string_view json) {
    return detail::said(nocter_run_notify(native_, to.native(), detail::text_of(json)));
  }
  /// Sends a message, JSON, to this task's parent.
  result<void> notify_parent(std::string_view json) {
    return detail::said(nocter_run_notify_parent(native_, detail::text_of(json)));
  }
  /// A remembered step, JSON; status::empty: no round has put it.
  result<std::string> step_get(std::string_view name) const {
    nocter_text value;
    const nocter_status code = nocter_run_step_get(native_, detail::text_of(name), &value);
    if (code != NOCTER_OK) return detail::refused<std::string>(code);
    return std::string(detail::view_of(value));
  }
  /// Remembers a step for all later rounds and tries; status::exists: there was one, which stays.
  result<void> step_put(std::string_view name, std::string_view json) {
    return detail::said(nocter_run_step_put(native_, detail::text_of(name), detail::text_of(json)));
  }
  /// What `make()` gave the first time, JSON: in later rounds and tries it is not called.
  template <class Make>
  result<std::string> step(std::string_view name, Make make) {
    auto known = step_get(name);
    if (known.status() != status::empty) return known;
    std::string made = make();
    auto put = step_put(name, made);
    if (put.ok()) return made;
    if (put.status() == status::exists) return step_get(name);
    return detail::refused<std::string>(static_cast<nocter_status>(put.status()));
  }
  /// Writes a value, JSON, that the task's tree shares.
  result<void> shared_put(std::string_view key, std::string_view json) {
    return detail::said(nocter_run_shared_put(native_, detail::text_of(key), detail::text_of(json)));
  }
  /// Writes it if there is none; else what there is.
  result<std::optional<std::string>> shared_put_if_absent(std::string_view key, std::string_view json) {
    nocter_value* existing = nullptr;
    const auto code = nocter_run_shared_put_if_absent(native_, detail::text_of(key), detail::text_of(json), &existing);
    return detail::existing_of(code, existing);
  }
  /// Reads a value that the task's tree shares; nothing when there is none.
  result<std::optional<std::string>> shared_get(std::string_view key) const {
    nocter_value* value = nullptr;
    return detail::value_of(nocter_run_shared_get(native_, detail::text_of(key), &value), value);
  }
  /// From here on children, messages, state, steps and shared values commit with the outcome, or not at all.
  result<void> atomic() { return detail::said(nocter_run_atomic(native_)); }

  /// Ends the round. status::cancelled and status::e_lease_lost: it has ended, otherwise; what else is not ok has
  /// changed nothing, and the run is still there.
  result<void> end(const outcome& how) {
    const nocter_status code = std::visit([this](const auto& each) { return end_by(each); }, how);
    if (code == NOCTER_OK || code == NOCTER_CANCELLED || code == NOCTER_E_LEASE_LOST) native_ = nullptr;
    return detail::said(code);
  }
  /// The task has completed, with a result in JSON; empty means {}. Like end().
  result<void> done(std::string json = {}) { return end(outcome(std::move(json))); }
  /// This try has failed. Like end().
  result<void> fail(failure why) { return end(outcome(std::move(why))); }
  /// The round ends, the task does not. Like end().
  result<void> suspend(suspension until) { return end(outcome(std::move(until))); }
  /// Gives the task back as if it had not been claimed. Like end().
  result<void> give_back() { return end(outcome(hand_back{})); }
  /// The C guard; nullptr once the round has ended.
  nocter_run* native() const noexcept { return native_; }

 protected:
  /// Of the C guard.
  explicit task_run(nocter_run* native) noexcept : native_(native) {}
  ~task_run() = default;
  /// The C guard.
  nocter_run* native_;

 private:
  nocter_status end_by(const std::string& json) { return nocter_run_done(native_, detail::text_of(json)); }
  nocter_status end_by(const failure& why) {
    const nocter_failure native = why.native();
    return nocter_run_fail(native_, &native);
  }
  nocter_status end_by(const suspension& until) {
    const nocter_suspension native = until.native();
    return nocter_run_suspend(native_, &native);
  }
  nocter_status end_by(hand_back) { return nocter_run_hand_back(native_); }
};

/// One round of a task: the one right to work on it, and the duty to end it. One that goes out of scope without an end
/// is a lost worker, which counts as a failed try.
class [[nodiscard]] run : public task_run {
 public:
  /// Takes a C guard over.
  explicit run(nocter_run* native) noexcept : task_run(native) {}
  /// Moves; the other one has no round any more.
  run(run&& other) noexcept : task_run(std::exchange(other.native_, nullptr)) {}
  /// @copydoc run(run&&)
  run& operator=(run&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  ~run() { drop(); }
  /// Gives it up: the worker is lost.
  void drop() noexcept {
    if (nocter_run* before = std::exchange(native_, nullptr)) nocter_run_drop(before);
  }
};

/// A round whose guard is somebody else's: what is not ended here is ended there.
class lent_run : public task_run {
 public:
  /// Of the C guard.
  explicit lent_run(nocter_run* native) noexcept : task_run(native) {}
};

// ---- Handlers ----------------------------------------------------------------------------------------------------

/// Who works on tasks of which type.
class task_handlers {
 public:
  /// What a handler is in the end.
  using handler = std::function<outcome(task_run&)>;

  /// Works on tasks of a type with `work(task_run&)`, several at once. It gives the result as a JSON string, or nothing
  /// for {}, or a failure, a suspension, a hand_back, or an outcome. What it throws is a failed try.
  template <class Work>
  task_handlers& on(std::string_view type, Work work) {
    using given = decltype(work(std::declval<task_run&>()));
    by_type_[std::string(type)] = [work = std::move(work)](task_run& run) mutable -> outcome {
      if constexpr (std::is_void_v<given>) {
        work(run);
        return std::string();
      } else {
        return outcome(work(run));
      }
    };
    return *this;
  }
  /// Makes a round and ends it; an outcome that is refused is a failed try. What the handler throws comes out.
  result<void> make(task_run& run) const {
    const auto found = by_type_.find(run.task().type());
    if (found == by_type_.end()) return run.fail({"NoHandler"});
    const outcome how = found->second(run);
    if (run.native() == nullptr) return detail::said(NOCTER_OK);  // the handler has ended it
    auto said = run.end(how);
    if (run.native() == nullptr) return said;
    return run.fail({std::string(name_of(said.status())), std::string(said.message())});
  }
  /// For the C call: each type with the function that the threads call and what they pass to it.
  std::vector<nocter_task_handler> native(nocter_task_fn function, void* user) const {
    std::vector<nocter_task_handler> all;
    all.reserve(by_type_.size());
    for (const auto& each : by_type_) {
      all.push_back({sizeof(nocter_task_handler), 0, detail::text_of(each.first), function, user});
    }
    return all;
  }

 private:
  std::map<std::string, handler, std::less<>> by_type_;
};

}  // namespace nocter

#endif
