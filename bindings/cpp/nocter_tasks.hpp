/// @file nocter_tasks.hpp
/// @brief Durable tasks: a store, from outside; values, locks and events that tasks share. Included by nocter.hpp.
#ifndef NOCTER_TASKS_HPP
#define NOCTER_TASKS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nocter_runs.hpp"
#include "nocter_task_records.hpp"
#include "nocter_workers.hpp"

namespace nocter {

/// How serious a line of the log is.
enum class log_level : std::int32_t {
  warning = NOCTER_LOG_WARNING,         ///< Something works worse than it should, and goes on.
  information = NOCTER_LOG_INFORMATION  ///< Worth knowing: opened, rescued, purged.
};

/// How a store is opened; what is zero means the default.
struct tasks_options {
  std::string_view node = {};              ///< What people call this process.
  bool events = false;                     ///< Every transition is kept as an event.
  bool normal_sync = false;                ///< Commits of SQLite do not wait for the disk.
  bool by_hand = false;                    ///< No thread of the library's: maintain() and heartbeat() do what it would.
  bool checked = false;                    ///< The whole database is read first; damage is status::e_store.
  std::chrono::milliseconds lease{0};      ///< Without a sign for so long, others run its tasks; 15 s.
  std::chrono::milliseconds retention{0};  ///< How long ended trees are kept; 0: for ever.
  std::chrono::milliseconds event_retention{0};  ///< How long events are kept; 0: for ever.
  std::uint64_t maximum_json = 0;                ///< Bytes of a payload, result, state, step, shared value; 1 MiB.
  std::uint64_t maximum_message = 0;             ///< Bytes of a message; 64 KiB.
  std::uint64_t maximum_mailbox = 0;             ///< Messages in one mailbox; 10,000.
  std::uint64_t maximum_mailbox_bytes = 0;       ///< Bytes in one mailbox; 8 MiB.
  std::uint64_t maximum_children = 0;            ///< Children of a task, and tasks it may wait for; 1,000,000.
  std::uint32_t maximum_rescues = 0;             ///< Workers that one task may lose before it fails; 3.
  std::chrono::duration<std::uint32_t, std::milli> retry_base{0};  ///< Delay after the first failed try; 200 ms.
  std::chrono::duration<std::uint32_t, std::milli> retry_cap{0};   ///< The longest such delay; 5 minutes.
  std::chrono::duration<std::uint32_t, std::milli> poll{0};        ///< How often a look stands in for a lost wake; 1 s.
  const steerable_clock* clock = nullptr;                          ///< nullptr: the system's.
  std::function<void(log_level, std::string_view)> log = {};       ///< Told what is worth a line, from any thread.
};

/// Which tasks to list; by default the first hundred of all.
struct task_filter {
  std::optional<task_status> status = std::nullopt;  ///< Only those that stand there.
  std::string_view type = {};                        ///< Only those of this type.
  task_id parent = {};                               ///< Only children of this task.
  task_id root = {};                                 ///< Only members of this tree.
  task_id after = {};                                ///< Only those with a later identity: pages.
  task_time created_before = {};                     ///< Only those submitted before.
  std::uint32_t limit = 0;                           ///< At most so many; 0: 100.
  bool roots_only = false;                           ///< Only tasks without a parent.
};

// ---- Shared ------------------------------------------------------------------------------------------------------

/// What happened to a task.
enum class event_kind : nocter_event_kind {
  submitted = NOCTER_EVENT_SUBMITTED,                ///< It was submitted.
  started = NOCTER_EVENT_STARTED,                    ///< A round was claimed.
  state = NOCTER_EVENT_STATE,                        ///< Its worker wrote its state.
  suspended = NOCTER_EVENT_SUSPENDED,                ///< It was parked.
  woken = NOCTER_EVENT_WOKEN,                        ///< It was queued again.
  message = NOCTER_EVENT_MESSAGE,                    ///< A message was sent to it.
  retried = NOCTER_EVENT_RETRIED,                    ///< A try failed, and another follows.
  rescued = NOCTER_EVENT_RESCUED,                    ///< Its worker was lost.
  handed_back = NOCTER_EVENT_HANDED_BACK,            ///< Its worker stopped in an orderly way.
  cancel_requested = NOCTER_EVENT_CANCEL_REQUESTED,  ///< It runs, and was asked to end.
  ended = NOCTER_EVENT_ENDED                         ///< It ended; its status says how.
};

/// One event, valid as long as its list.
class event_view {
 public:
  /// Of a list.
  static event_view of(const nocter_event_list& list, std::size_t place) noexcept {
    return event_view(list.events[place]);
  }
  /// Of the C struct.
  explicit event_view(const nocter_event* native) noexcept : native_(native) {}
  /// Its place: each one is one more than the one before.
  std::uint64_t sequence() const noexcept { return native_->sequence; }
  /// When.
  task_time at() const { return detail::time_of(native_->at_ms); }
  /// The task.
  task_id task() const noexcept { return native_->task; }
  /// What happened.
  event_kind kind() const noexcept { return static_cast<event_kind>(native_->kind); }
  /// Where the task stood after it.
  task_status status() const noexcept { return static_cast<task_status>(native_->status); }
  /// The task's type.
  std::string_view type() const noexcept { return detail::view_of(native_->type); }
  /// JSON: the new state, or what it ended with; else empty.
  std::string_view data() const noexcept { return detail::view_of(native_->data); }
  /// The C struct.
  const nocter_event& native() const noexcept { return *native_; }

 private:
  const nocter_event* native_;
};

/// One of several shared values, valid as long as its list.
struct shared_value {
  /// Of a list.
  static shared_value of(const nocter_value_list& list, std::size_t place) noexcept {
    return {detail::view_of(list.values[place].key), detail::view_of(list.values[place].value)};
  }
  std::string_view key;    ///< Its key.
  std::string_view value;  ///< JSON.
};

/// Events that a call handed out together.
using event_list = detail::list<nocter_event_list, nocter_event_list_free, event_view>;
/// Values that a call handed out together.
using value_list = detail::list<nocter_value_list, nocter_value_list_free, shared_value>;

/// A lock that is held until it is released, goes out of scope, or its lease ends.
class [[nodiscard]] task_lock {
 public:
  /// Takes a C guard over.
  explicit task_lock(nocter_lock* native) noexcept : handle_(native) {}
  /// Greater than that of every acquisition of the name before: hand it to what the lock guards.
  std::uint64_t fence() const noexcept { return nocter_lock_fence(handle_.get()); }
  /// Holds it for so long from now; status::e_lease_lost when its lease had ended.
  template <class Rep, class Period>
  result<void> renew(std::chrono::duration<Rep, Period> lease) {
    return detail::said(nocter_lock_renew(handle_.get(), detail::milliseconds_of(lease)));
  }
  /// Gives it up, whatever it says; status::e_lease_lost when its lease had ended before.
  result<void> release() { return detail::said(nocter_lock_release(handle_.release())); }
  /// The C guard.
  nocter_lock* native() const noexcept { return handle_.get(); }

 private:
  static void give_up(nocter_lock* lock) { nocter_lock_release(lock); }
  detail::handle<nocter_lock, give_up> handle_;
};

/// The values of one scope. Valid as long as the store.
class shared_values {
 public:
  /// Of a store and a scope.
  shared_values(nocter_tasks* tasks, std::string scope) : tasks_(tasks), scope_(std::move(scope)) {}
  /// Writes a value, JSON, if there is none; else what there is. Of all who try, anywhere, one succeeds.
  result<std::optional<std::string>> put_if_absent(std::string_view key, std::string_view json) {
    nocter_value* existing = nullptr;
    const auto code =
        nocter_shared_put_if_absent(tasks_, scope(), detail::text_of(key), detail::text_of(json), &existing);
    return detail::existing_of(code, existing);
  }
  /// Writes a value, whether there was one or not.
  result<void> put(std::string_view key, std::string_view json) {
    return detail::said(nocter_shared_put(tasks_, scope(), detail::text_of(key), detail::text_of(json)));
  }
  /// Reads a value; nothing when there is none.
  result<std::optional<std::string>> get(std::string_view key) const {
    nocter_value* value = nullptr;
    return detail::value_of(nocter_shared_get(tasks_, scope(), detail::text_of(key), &value), value);
  }
  /// Reads all values, by key.
  result<value_list> all() const {
    value_list list;
    const nocter_status code = nocter_shared_all(tasks_, scope(), list.native());
    if (code != NOCTER_OK) return detail::refused<value_list>(code);
    return list;
  }
  /// Removes all values.
  result<void> clear() { return detail::said(nocter_shared_clear(tasks_, scope())); }

 private:
  nocter_text scope() const noexcept { return detail::text_of(scope_); }
  nocter_tasks* tasks_;
  std::string scope_;
};

// ---- The store ---------------------------------------------------------------------------------------------------

/// An open store of tasks. Going out of scope gives it up: waits end, and what was claimed and not ended is handed back.
class tasks {
 public:
  /// Opens a store, and makes or brings up to date what it needs: "memory:", "sqlite:" and the path of a file,
  /// or "postgresql://user@host/database".
  static result<tasks> open(std::string_view url, tasks_options options = {}) {
    nocter_tasks_options native = native_of(options);
    if (options.log) {
      auto* kept = new (std::nothrow) log_function(std::move(options.log));
      if (kept == nullptr) return detail::no_memory<tasks>();
      native.log = log_line;
      native.log_drop = detail::delete_as<log_function>;
      native.log_user = kept;
    }
    nocter_tasks* made = nullptr;
    const nocter_status code = nocter_tasks_open(detail::text_of(url), &native, &made);
    if (code == NOCTER_OK) return tasks(made);
    auto why = detail::refused<tasks>(code);
    if (native.log_user != nullptr) native.log_drop(native.log_user);
    return why;
  }

  /// Makes a task. When it returns the task is kept as surely as the store keeps anything.
  result<submitted> submit(const submission& given) {
    return detail::submit_one(handle_.get(), given, nocter_tasks_submit);
  }
  /// Makes tasks, all or none; the first may be the parent of a later one. Those whose keys are taken are left out.
  result<submitted_many> submit_many(const std::vector<submission>& given) {
    return detail::submit_all(handle_.get(), given, nocter_tasks_submit);
  }

  /// The record of a task.
  result<task> get(task_id id) const {
    const nocter_task* record = nullptr;
    return recorded(nocter_tasks_get(handle_.get(), id.native(), &record), record);
  }
  /// The children of a task, ended ones too.
  result<task_list> children(task_id id) const {
    task_list list;
    return listed(nocter_tasks_children(handle_.get(), id.native(), list.native()), list);
  }
  /// Tasks in the order in which they were made.
  result<task_list> list(const task_filter& filter = {}) const {
    nocter_task_filter native = NOCTER_TASK_FILTER_INIT;
    native.status = filter.status ? static_cast<nocter_task_status>(*filter.status) : 0;
    native.type = detail::text_of(filter.type);
    native.parent = filter.parent.native();
    native.root = filter.root.native();
    native.after = filter.after.native();
    native.created_before_ms = detail::unix_ms(filter.created_before);
    native.limit = filter.limit;
    native.roots_only = filter.roots_only ? 1 : 0;
    task_list list;
    return listed(nocter_tasks_list(handle_.get(), &native, list.native()), list);
  }
  /// The record of a task once it has ended, wherever it runs.
  result<task> await(task_id id, const wait& until = wait::forever()) const { return awaited(id, until.native()); }
  /// The same without waiting: status::pending while it has not ended.
  result<task> try_await(task_id id) const { return awaited(id, nullptr); }
  /// Counts, seen in one moment.
  result<nocter_tasks_counts> count() const {
    nocter_tasks_counts counts = NOCTER_TASKS_COUNTS_INIT;
    const nocter_status code = nocter_tasks_count(handle_.get(), &counts);
    if (code != NOCTER_OK) return detail::refused<nocter_tasks_counts>(code);
    return counts;
  }

  /// Sends a message, JSON, from outside or on behalf of a task: it wakes the task if that is suspended.
  result<void> notify(task_id to, std::string_view json, task_id from = {}) {
    return detail::said(nocter_tasks_notify(handle_.get(), to.native(), from.native(), detail::text_of(json)));
  }
  /// Ends a task and everything below it, and says how many were ended or asked to.
  result<std::uint64_t> cancel(task_id id) {
    std::uint64_t touched = 0;
    return counted(nocter_tasks_cancel(handle_.get(), id.native(), &touched), touched);
  }
  /// Lets a task that waits out a delay run now; of one that has failed or was cancelled, makes a new root like it.
  result<task_id> retry(task_id id) {
    nocter_task_id made;
    const nocter_status code = nocter_tasks_retry(handle_.get(), id.native(), &made);
    if (code != NOCTER_OK) return detail::refused<task_id>(code);
    return task_id(made);
  }
  /// Does now what the store's thread does by itself.
  result<void> maintain() { return detail::said(nocter_tasks_maintain(handle_.get())); }
  /// Removes trees of which every member ended longer ago than that, and says how many tasks.
  template <class Rep, class Period>
  result<std::uint64_t> purge(std::chrono::duration<Rep, Period> older_than) {
    std::uint64_t removed = 0;
    return counted(nocter_tasks_purge(handle_.get(), detail::milliseconds_of(older_than), &removed), removed);
  }

  /// The values of a scope of any name.
  shared_values shared(std::string scope) const { return shared_values(handle_.get(), std::move(scope)); }
  /// The values of a tree, by its root, with which they are purged.
  shared_values shared(task_id root) const { return shared(root.text()); }
  /// Takes a lock, which one owner at a time has.
  template <class Rep, class Period>
  result<task_lock> lock(std::string_view name, std::chrono::duration<Rep, Period> lease,
                         const wait& until = wait::forever()) {
    return locked(name, detail::milliseconds_of(lease), until.native());
  }
  /// The same without waiting: status::held when it is another's.
  template <class Rep, class Period>
  result<task_lock> try_lock(std::string_view name, std::chrono::duration<Rep, Period> lease) {
    return locked(name, detail::milliseconds_of(lease), nullptr);
  }
  /// Reads the log from a point on: after the sequence of the last event seen, at most so many, at least one.
  result<event_list> events(std::uint64_t after, std::size_t maximum, const wait& until = wait::forever()) const {
    return read(after, maximum, until.native());
  }
  /// The same without waiting: status::empty when there are none.
  result<event_list> try_events(std::uint64_t after, std::size_t maximum) const {
    return read(after, maximum, nullptr);
  }

  /// Claims a task of these types that is due, by priority, then by age; without types, of any.
  result<run> claim(const std::vector<std::string_view>& types = {}, const wait& until = wait::forever()) {
    return first_of(claimed(types, 1, until.native()));
  }
  /// The same without waiting: status::empty when there is none.
  result<run> try_claim(const std::vector<std::string_view>& types = {}) {
    return first_of(claimed(types, 1, nullptr));
  }
  /// Claims at least one and at most so many.
  result<std::vector<run>> claim_many(const std::vector<std::string_view>& types, std::uint32_t maximum,
                                      const wait& until = wait::forever()) {
    return claimed(types, maximum, until.native());
  }

  /// Works on tasks with threads of the library's own, so many rounds at once.
  result<workers> serve(task_handlers handlers, std::uint32_t concurrency, workers_options options = {}) {
    const auto call = [&](const nocter_workers_options& native, void* user, nocter_workers** out) {
      const auto all = static_cast<detail::served<task_handlers>*>(user)->run.native(make_round, user);
      return nocter_tasks_serve(handle_.get(), all.data(), all.size(), concurrency, &native, out);
    };
    return workers::started(std::move(handlers), options, call);
  }

  /// The C handle.
  nocter_tasks* native() const noexcept { return handle_.get(); }

 private:
  using log_function = std::function<void(log_level, std::string_view)>;

  explicit tasks(nocter_tasks* native) noexcept : handle_(native) {}

  static nocter_tasks_options native_of(const tasks_options& given) {
    nocter_tasks_options native = NOCTER_TASKS_OPTIONS_INIT;
    native.flags = (given.events ? NOCTER_TASKS_EVENTS : 0u) | (given.normal_sync ? NOCTER_TASKS_NORMAL_SYNC : 0u) |
                   (given.by_hand ? NOCTER_TASKS_BY_HAND : 0u) | (given.checked ? NOCTER_TASKS_CHECK : 0u);
    native.node = detail::text_of(given.node);
    native.lease_ms = given.lease.count();
    native.retention_ms = given.retention.count();
    native.event_retention_ms = given.event_retention.count();
    native.maximum_json = given.maximum_json;
    native.maximum_message = given.maximum_message;
    native.maximum_mailbox = given.maximum_mailbox;
    native.maximum_mailbox_bytes = given.maximum_mailbox_bytes;
    native.maximum_children = given.maximum_children;
    native.maximum_rescues = given.maximum_rescues;
    native.retry_base_ms = given.retry_base.count();
    native.retry_cap_ms = given.retry_cap.count();
    native.poll_ms = given.poll.count();
    native.clock = given.clock == nullptr ? nullptr : given.clock->native();
    return native;
  }
  static void log_line(void* user, std::int32_t level, nocter_text line) {
    (*static_cast<log_function*>(user))(static_cast<log_level>(level), detail::view_of(line));
  }
  // Not noexcept: exceptions and forced unwinding pass through to the library, which ends the run.
  static void make_round(void* user, nocter_run* native) {
    lent_run lent(native);
    (void)static_cast<detail::served<task_handlers>*>(user)->run.make(lent);
  }

  // By reference, for the call that writes it and the look at it stand side by side.
  static result<task> recorded(nocter_status code, const nocter_task* const& record) {
    if (code != NOCTER_OK) return detail::refused<task>(code);
    return task(record);
  }
  static result<task_list> listed(nocter_status code, task_list& list) {
    if (code != NOCTER_OK) return detail::refused<task_list>(code);
    return std::move(list);
  }
  static result<std::uint64_t> counted(nocter_status code, const std::uint64_t& number) {
    if (code != NOCTER_OK) return detail::refused<std::uint64_t>(code);
    return number;
  }
  result<task> awaited(task_id id, const nocter_wait* until) const {
    const nocter_task* record = nullptr;
    return recorded(nocter_tasks_await(handle_.get(), id.native(), until, &record), record);
  }
  result<task_lock> locked(std::string_view name, std::int64_t lease_ms, const nocter_wait* until) {
    nocter_lock* made = nullptr;
    const nocter_status code = nocter_lock_acquire(handle_.get(), detail::text_of(name), lease_ms, until, &made);
    if (code != NOCTER_OK) return detail::refused<task_lock>(code);
    return task_lock(made);
  }
  result<event_list> read(std::uint64_t after, std::size_t maximum, const nocter_wait* until) const {
    event_list list;
    const nocter_status code = nocter_events_read(handle_.get(), after, maximum, until, list.native());
    if (code != NOCTER_OK) return detail::refused<event_list>(code);
    return list;
  }
  result<std::vector<run>> claimed(const std::vector<std::string_view>& types, std::uint32_t maximum,
                                   const nocter_wait* until) {
    std::vector<nocter_text> names;
    names.reserve(types.size());
    for (const std::string_view type : types) names.push_back(detail::text_of(type));
    std::vector<nocter_run*> guards(maximum);
    std::vector<run> runs;
    runs.reserve(maximum);
    std::size_t count = 0;
    const auto code =
        nocter_tasks_claim(handle_.get(), names.data(), names.size(), maximum, until, guards.data(), &count);
    if (code != NOCTER_OK) return detail::refused<std::vector<run>>(code);
    for (std::size_t place = 0; place < count; ++place) runs.emplace_back(guards[place]);
    return runs;
  }
  static result<run> first_of(result<std::vector<run>> claimed) {
    if (!claimed) return std::move(claimed).rejected<run>();
    return std::move(claimed->front());
  }

  detail::handle<nocter_tasks, nocter_tasks_close> handle_;
};

}  // namespace nocter

#endif
