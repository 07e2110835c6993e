/// @file nocter_task_records.hpp
/// @brief What durable tasks are made of: identities, records, submissions, and a clock for tests. Included by nocter.hpp.
#ifndef NOCTER_TASK_RECORDS_HPP
#define NOCTER_TASK_RECORDS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nocter_base.hpp"

namespace nocter {

/// A point in time as a store keeps it, in milliseconds; a default one is none.
using task_time = std::chrono::system_clock::time_point;

namespace detail {

template <class Rep, class Period>
std::int64_t milliseconds_of(std::chrono::duration<Rep, Period> duration) {
  return static_cast<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}
inline std::int64_t unix_ms(task_time then) { return milliseconds_of(then.time_since_epoch()); }
inline task_time time_of(std::int64_t ms) { return task_time(std::chrono::milliseconds(ms)); }

// A value that a call handed out, copied and freed.
inline std::string taken(nocter_value* value) {
  std::string copy(view_of(nocter_value_text(value)));
  nocter_value_free(value);
  return copy;
}
// By reference, for the call that writes it and the look at it may stand side by side: nothing when it was written, else
// what there is.
inline result<std::optional<std::string>> existing_of(nocter_status code, nocter_value* const& existing) {
  if (code == NOCTER_EXISTS) return std::optional<std::string>(taken(existing));
  if (code != NOCTER_OK) return refused<std::optional<std::string>>(code);
  return std::optional<std::string>();
}
// Nothing when there is none.
inline result<std::optional<std::string>> value_of(nocter_status code, nocter_value* const& value) {
  if (code == NOCTER_EMPTY) return std::optional<std::string>();
  if (code != NOCTER_OK) return refused<std::optional<std::string>>(code);
  return std::optional<std::string>(taken(value));
}

}  // namespace detail

// ---- Identities --------------------------------------------------------------------------------------------------

/// Which task: a UUID of version 7. A default one is none.
class task_id {
 public:
  /// None.
  task_id() noexcept : native_{} {}
  /// Of the C struct.
  task_id(nocter_task_id native) noexcept : native_(native) {}
  /// One that nobody else has: for a submission that may have to be repeated.
  static task_id make() noexcept { return nocter_task_id_make(); }
  /// Reads one as it is written.
  static result<task_id> parse(std::string_view text) {
    nocter_task_id made;
    const nocter_status code = nocter_task_id_parse(detail::text_of(text), &made);
    if (code != NOCTER_OK) return detail::refused<task_id>(code);
    return task_id(made);
  }
  /// As it is written: 36 characters.
  std::string text() const {
    char room[37];
    nocter_task_id_format(native_, room);
    return std::string(room, 36);
  }
  /// Whether it is one.
  explicit operator bool() const noexcept { return !nocter_task_id_equal(native_, nocter_task_id{}); }
  /// The C struct.
  nocter_task_id native() const noexcept { return native_; }
  /// Whether both name the same task.
  friend bool operator==(task_id a, task_id b) noexcept { return nocter_task_id_equal(a.native_, b.native_); }
  /// Whether they name different ones.
  friend bool operator!=(task_id a, task_id b) noexcept { return !(a == b); }
  /// In the order in which they were made.
  friend bool operator<(task_id a, task_id b) noexcept {
    return std::memcmp(a.native_.bytes, b.native_.bytes, sizeof a.native_.bytes) < 0;
  }

 private:
  nocter_task_id native_;
};

// ---- Where a task stands -----------------------------------------------------------------------------------------

/// Where a task stands.
enum class task_status : nocter_task_status {
  queued = NOCTER_TASK_QUEUED,        ///< Waits for a worker, or for its time.
  running = NOCTER_TASK_RUNNING,      ///< A worker has claimed it.
  suspended = NOCTER_TASK_SUSPENDED,  ///< Waits for others, a message or a time, and holds no worker.
  completed = NOCTER_TASK_COMPLETED,  ///< Ended with a result.
  failed = NOCTER_TASK_FAILED,        ///< Ended with a failure.
  cancelled = NOCTER_TASK_CANCELLED   ///< Ended by a cancel.
};
/// Its name, for example "SUSPENDED".
inline std::string_view name_of(task_status status) noexcept {
  return nocter_task_status_name(static_cast<nocter_task_status>(status));
}

/// Why a round was started.
enum class wake : nocter_wake {
  first = NOCTER_WAKE_FIRST,      ///< It is the first one.
  join = NOCTER_WAKE_JOIN,        ///< What it waited for has ended.
  failure = NOCTER_WAKE_FAILURE,  ///< One of those it waited for failed or was cancelled.
  message = NOCTER_WAKE_MESSAGE,  ///< A message came.
  timer = NOCTER_WAKE_TIMER,      ///< Its time came.
  retry = NOCTER_WAKE_RETRY,      ///< The last try of this round failed.
  rescue = NOCTER_WAKE_RESCUE     ///< Its worker was lost.
};

/// Where a key is the only one of its name.
enum class key_scope : nocter_key_scope {
  live_type = NOCTER_KEY_LIVE_TYPE,  ///< Among the live tasks of its type.
  parent = NOCTER_KEY_PARENT,        ///< Among all children its parent ever had.
  tree = NOCTER_KEY_TREE             ///< In its tree, for ever.
};

// ---- Records -----------------------------------------------------------------------------------------------------

/// Why a try failed, as a record tells it.
class failure_view {
 public:
  /// Of the C struct.
  explicit failure_view(const nocter_task_failure* native) noexcept : native_(native) {}
  /// What sort of failure, for programs; empty: there was none.
  std::string_view kind() const noexcept { return detail::view_of(native_->kind); }
  /// What happened, for people.
  std::string_view message() const noexcept { return detail::view_of(native_->message); }
  /// More of it.
  std::string_view detail() const noexcept { return nocter::detail::view_of(native_->detail); }
  /// Whether there was one.
  explicit operator bool() const noexcept { return native_->kind.size != 0; }
  /// The C struct, with which try it was, where, and when.
  const nocter_task_failure& native() const noexcept { return *native_; }

 private:
  const nocter_task_failure* native_;
};

/// A record, as it was in one moment: valid as long as what it came with.
class task_view {
 public:
  /// Of the C struct.
  explicit task_view(const nocter_task* native) noexcept : native_(native) {}
  /// Which task.
  task_id id() const noexcept { return native_->id; }
  /// The root of its tree.
  task_id root() const noexcept { return native_->root; }
  /// Its parent; none for a root.
  task_id parent() const noexcept { return native_->parent; }
  /// Where it stands.
  task_status status() const noexcept { return static_cast<task_status>(native_->status); }
  /// Whether it has ended.
  bool ended() const noexcept { return native_->ended_at_ms != 0; }
  /// What sort of work it is.
  std::string_view type() const noexcept { return detail::view_of(native_->type); }
  /// Its key, or empty.
  std::string_view key() const noexcept { return detail::view_of(native_->key); }
  /// What it was submitted with, JSON.
  std::string_view payload() const noexcept { return detail::view_of(native_->payload); }
  /// What its worker last wrote, JSON; empty: nothing.
  std::string_view state() const noexcept { return detail::view_of(native_->state); }
  /// What it ended with, JSON; empty: nothing.
  std::string_view result() const noexcept { return detail::view_of(native_->result); }
  /// The last failure.
  failure_view failure() const noexcept { return failure_view(&native_->failure); }
  /// Why the present or next round is made.
  wake woken_by() const noexcept { return static_cast<wake>(native_->woken_by); }
  /// Whether it has suspended before.
  bool resumed() const noexcept { return native_->resumed != 0; }
  /// When it was submitted.
  task_time created_at() const { return detail::time_of(native_->created_at_ms); }
  /// When it comes due, or wakes by time; none: no such time is set.
  task_time due_at() const { return detail::time_of(native_->due_at_ms); }
  /// When it ended; none: it has not.
  task_time ended_at() const { return detail::time_of(native_->ended_at_ms); }
  /// The C struct, with all the numbers.
  const nocter_task& native() const noexcept { return *native_; }

 private:
  const nocter_task* native_;
};

namespace detail {

inline void free_task(nocter_task* task) { nocter_task_free(task); }

// Whatever a call handed out together, and frees together: what can be asked is View of the parts.
template <class List, void (*Free)(List*), class View>
class list {
 public:
  class iterator {
   public:
    using value_type = View;
    using reference = View;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    iterator(const list* owner, std::size_t place) noexcept : owner_(owner), place_(place) {}
    View operator*() const noexcept { return (*owner_)[place_]; }
    iterator& operator++() noexcept {
      ++place_;
      return *this;
    }
    friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.place_ == b.place_; }
    friend bool operator!=(const iterator& a, const iterator& b) noexcept { return a.place_ != b.place_; }

   private:
    const list* owner_;
    std::size_t place_;
  };

  list() noexcept : native_{} {}
  list(list&& other) noexcept : native_(std::exchange(other.native_, List{})) {}
  list& operator=(list&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  ~list() { Free(&native_); }
  std::size_t size() const noexcept { return native_.count; }
  bool empty() const noexcept { return native_.count == 0; }
  View operator[](std::size_t place) const noexcept { return View::of(native_, place); }
  iterator begin() const noexcept { return iterator(this, 0); }
  iterator end() const noexcept { return iterator(this, size()); }
  List* native() noexcept { return &native_; }

 private:
  List native_;
};

struct listed_task : task_view {
  using task_view::task_view;
  static listed_task of(const nocter_task_list& list, std::size_t place) noexcept {
    return listed_task(list.tasks[place]);
  }
};

}  // namespace detail

/// A record of one's own.
class task : public task_view {
 public:
  /// Takes a C record over.
  explicit task(const nocter_task* native) noexcept : task_view(native), handle_(const_cast<nocter_task*>(native)) {}

 private:
  detail::handle<nocter_task, detail::free_task> handle_;
};

/// Records that a call handed out together.
using task_list = detail::list<nocter_task_list, nocter_task_list_free, detail::listed_task>;

// ---- Submitting --------------------------------------------------------------------------------------------------

/// A task to be made. What its texts point to is copied by the call that it is given to.
struct submission {
  std::string_view type;                                ///< What sort of work it is.
  std::string_view payload = {};                        ///< JSON; empty means {}.
  std::string_view key = {};                            ///< Empty: none.
  nocter::key_scope scope = key_scope::live_type;       ///< Where the key is the only one of its name.
  task_id parent = {};                                  ///< None: a root.
  std::optional<std::int32_t> priority = std::nullopt;  ///< Without: 0, or for a child its parent's plus one.
  task_time run_after = {};                             ///< Not to be run before.
  std::uint32_t max_attempts = 1;                       ///< Failed tries of one round before it fails.
  task_id id = {};  ///< From task_id::make(): a repeated submit makes no second task.
};

/// What became of a submission.
struct submitted {
  task_id id;           ///< The task that was made, or that has the key.
  bool exists = false;  ///< Whether it is the latter.
};

/// What became of many.
struct submitted_many {
  std::vector<task_id> ids;  ///< For each, the task that was made, or that has its key.
  bool exists = false;       ///< Whether a key was taken.
};

namespace detail {

inline nocter_submission native_of(const submission& given) {
  nocter_submission native = NOCTER_SUBMISSION_INIT;
  native.type = text_of(given.type);
  native.payload = text_of(given.payload);
  native.key = text_of(given.key);
  native.key_scope = static_cast<nocter_key_scope>(given.scope);
  native.parent = given.parent.native();
  native.priority = given.priority.value_or(0);
  native.flags = given.priority ? NOCTER_SUBMIT_PRIORITY : 0;
  native.run_after_ms = unix_ms(given.run_after);
  native.max_attempts = given.max_attempts;
  native.id = given.id.native();
  return native;
}

// By either of the C calls.
template <class Native, class Call>
result<submitted> submit_one(Native* by, const submission& given, Call call) {
  const nocter_submission native = native_of(given);
  nocter_task_id id;
  const nocter_status code = call(by, &native, 1, &id);
  if (code != NOCTER_OK && code != NOCTER_EXISTS) return refused<submitted>(code);
  return submitted{id, code == NOCTER_EXISTS};
}
template <class Native, class Call>
result<submitted_many> submit_all(Native* by, const std::vector<submission>& given, Call call) {
  std::vector<nocter_submission> native;
  native.reserve(given.size());
  for (const submission& each : given) native.push_back(native_of(each));
  std::vector<nocter_task_id> ids(given.size());
  const nocter_status code = call(by, native.data(), native.size(), ids.data());
  if (code != NOCTER_OK && code != NOCTER_EXISTS) return refused<submitted_many>(code);
  return submitted_many{std::vector<task_id>(ids.begin(), ids.end()), code == NOCTER_EXISTS};
}

}  // namespace detail

// ---- The clock ---------------------------------------------------------------------------------------------------

/// A clock that stands still until it is told to go on: for tests of delays, leases and retention.
class steerable_clock {
 public:
  /// Makes one that shows this time.
  static nocter::result<steerable_clock> create(task_time now) {
    nocter_clock* made = nullptr;
    const nocter_status code = nocter_clock_create(detail::unix_ms(now), &made);
    if (code != NOCTER_OK) return detail::refused<steerable_clock>(code);
    return steerable_clock(made);
  }
  /// Moves it, forward or back. Stores that use it look at once at what has come due.
  template <class Rep, class Period>
  void advance(std::chrono::duration<Rep, Period> by) {
    nocter_clock_advance(handle_.get(), detail::milliseconds_of(by));
  }
  /// What it shows.
  task_time now() const { return detail::time_of(nocter_clock_now_ms(handle_.get())); }
  /// The C handle.
  nocter_clock* native() const noexcept { return handle_.get(); }

 private:
  explicit steerable_clock(nocter_clock* native) noexcept : handle_(native) {}
  detail::handle<nocter_clock, nocter_clock_destroy> handle_;
};

}  // namespace nocter

/// For containers of identities.
template <>
struct std::hash<nocter::task_id> {
  /// Of its bytes, as a string.
  std::size_t operator()(const nocter::task_id& id) const noexcept {
    const nocter_task_id native = id.native();
    return std::hash<std::string_view>()(
        std::string_view(reinterpret_cast<const char*>(native.bytes), sizeof native.bytes));
  }
};

#endif
