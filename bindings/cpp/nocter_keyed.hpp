/// @file nocter_keyed.hpp
/// @brief The keyed queue: notify, claim, complete. Included by nocter.hpp.
#ifndef NOCTER_KEYED_HPP
#define NOCTER_KEYED_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nocter_base.hpp"
#include "nocter_workers.hpp"

namespace nocter {

/// What became of a notification that was accepted.
enum class notified : nocter_status {
  accepted = NOCTER_OK,         ///< A further pass was asked for.
  coalesced = NOCTER_COALESCED  ///< One was due already, and will serve both.
};

/// What becomes of the keys that wait when a queue is closed.
enum class close_mode : nocter_close_mode {
  discard = NOCTER_CLOSE_DISCARD,  ///< They are discarded, and passes that run are interrupted.
  drain = NOCTER_CLOSE_DRAIN       ///< Each still gets its pass.
};

namespace detail {

// Nanoseconds, rounded up; what is too long for the clock is as long as there is.
template <class Rep, class Period>
std::int64_t nanoseconds_of(std::chrono::duration<Rep, Period> duration) {
  constexpr double longest = 9.2e18;
  const double length = std::chrono::duration_cast<std::chrono::duration<double, std::nano>>(duration).count();
  if (!(length < longest)) return INT64_MAX;
  if (length <= -longest) return INT64_MIN;
  return static_cast<std::int64_t>(std::chrono::ceil<std::chrono::nanoseconds>(duration).count());
}

// What both kinds of pass can be asked and told.
class pass_calls {
 public:
  static std::string_view key(nocter_pass* pass) noexcept { return view_of(nocter_pass_key(pass)); }
  template <class Rep, class Period>
  static nocter_status retry_after(nocter_pass* pass, std::chrono::duration<Rep, Period> delay) {
    const std::int64_t ns = nanoseconds_of(delay);
    return nocter_pass_retry_after(pass, ns < 0 ? 0 : ns);  // a negative one asks for backoff, which retry() does
  }
};

}  // namespace detail

// ---- Guards ------------------------------------------------------------------------------------------------------

/// One claimed key, and the one right, and duty, to end its pass. One that goes out of scope is a failed pass.
class [[nodiscard]] pass {
 public:
  /// Which key this pass is of. Valid until the guard ends.
  std::string_view key() const noexcept { return detail::pass_calls::key(handle_.get()); }
  /// How often in a row this key has failed.
  std::uint32_t failures() const noexcept { return nocter_pass_failures(handle_.get()); }
  /// Whether the queue was closed by discarding: stop early if you can.
  bool interrupted() const noexcept { return nocter_pass_interrupted(handle_.get()); }
  /// Raised when that happens: to carry in the waits the pass makes. Valid until the guard ends.
  interrupt_view interrupt() const noexcept { return interrupt_view(nocter_pass_interrupt(handle_.get())); }
  /// Ends the pass well. Each of these consumes the guard when it says ok.
  result<void> complete() { return ended(nocter_pass_complete(handle_.get())); }
  /// Ends the pass as failed; the queue does not retry by itself.
  result<void> fail() { return ended(nocter_pass_fail(handle_.get())); }
  /// Ends the pass as failed, with the key kept and due again so long from now.
  template <class Rep, class Period>
  result<void> retry_after(std::chrono::duration<Rep, Period> delay) {
    return ended(detail::pass_calls::retry_after(handle_.get(), delay));
  }
  /// The same, after a time that grows with each failure in a row.
  result<void> retry() { return ended(nocter_pass_retry_after(handle_.get(), -1)); }
  /// Gives the pass up: it failed.
  void drop() noexcept { handle_.reset(nullptr); }
  /// The C guard.
  nocter_pass* native() const noexcept { return handle_.get(); }
  /// Takes a C guard over.
  explicit pass(nocter_pass* native) noexcept : handle_(native) {}

 private:
  result<void> ended(nocter_status code) {
    if (code == NOCTER_OK) handle_.release();
    return detail::said(code);
  }
  detail::handle<nocter_pass, nocter_pass_drop> handle_;
};

/// A pass lent to a served function: the queue ends it by what the function returns or throws, unless the function has.
class lent_pass {
 public:
  /// Of the C guard.
  explicit lent_pass(nocter_pass* native) noexcept : native_(native) {}
  lent_pass(const lent_pass&) = delete;
  lent_pass& operator=(const lent_pass&) = delete;
  /// @copydoc pass::key
  std::string_view key() const noexcept { return detail::pass_calls::key(native_); }
  /// @copydoc pass::failures
  std::uint32_t failures() const noexcept { return nocter_pass_failures(native_); }
  /// @copydoc pass::interrupted
  bool interrupted() const noexcept { return nocter_pass_interrupted(native_); }
  /// @copydoc pass::interrupt
  interrupt_view interrupt() const noexcept { return interrupt_view(nocter_pass_interrupt(native_)); }
  /// Ends the pass well before the function returns.
  result<void> complete() { return detail::said(nocter_pass_complete(native_)); }
  /// @copydoc pass::fail
  result<void> fail() { return detail::said(nocter_pass_fail(native_)); }
  /// @copydoc pass::retry_after
  template <class Rep, class Period>
  result<void> retry_after(std::chrono::duration<Rep, Period> delay) {
    return detail::said(detail::pass_calls::retry_after(native_, delay));
  }
  /// @copydoc pass::retry
  result<void> retry() { return detail::said(nocter_pass_retry_after(native_, -1)); }

 private:
  nocter_pass* native_;
};

// ---- The queue ---------------------------------------------------------------------------------------------------

/// What a queue is made of.
struct keyed_options {
  std::uint32_t maximum_keys = 1024;     ///< Distinct keys that may be retained.
  std::uint32_t workers = 2;             ///< Passes that may run at once.
  std::uint32_t maximum_key_size = 256;  ///< The longest key that is accepted, in bytes.
  notifier waiters = {};          ///< Woken when a key may be accepted again, and when a closed queue is drained.
  notifier work = {};             ///< Woken when a claim that found nothing may find something.
  std::uint32_t wait_spins = 0;   ///< 0: the default; NOCTER_WAIT_NONE: none.
  std::uint32_t wait_yields = 0;  ///< 0: the default; NOCTER_WAIT_NONE: none.
  std::chrono::nanoseconds backoff_initial = std::chrono::milliseconds(10);  ///< After the first failure.
  std::chrono::nanoseconds backoff_maximum = std::chrono::minutes(1);        ///< However often it failed.
  std::uint32_t backoff_percent = 200;        ///< How much longer each time, of the wait before; 200 doubles it.
  std::uint32_t backoff_jitter_percent = 10;  ///< How much of the wait is left to chance.
};

/// A bounded set of keys that are due, each at most once, and each with one pass at a time.
class keyed {
 public:
  /// Makes a queue, with all the memory it will ever need.
  static result<keyed> create(keyed_options options = {}) {
    if (options.waiters.exhausted() || options.work.exhausted()) return detail::no_memory<keyed>();
    nocter_keyed_options native;
    nocter_keyed_options_init(&native, sizeof native);
    native.maximum_keys = options.maximum_keys;
    native.workers = options.workers;
    native.maximum_key_size = options.maximum_key_size;
    native.waiters = options.waiters.native();
    native.work = options.work.native();
    native.wait_spins = options.wait_spins;
    native.wait_yields = options.wait_yields;
    native.backoff_initial_ns = options.backoff_initial.count();
    native.backoff_maximum_ns = options.backoff_maximum.count();
    native.backoff_percent = options.backoff_percent;
    native.backoff_jitter_percent = options.backoff_jitter_percent;
    nocter_keyed* made = nullptr;
    const nocter_status code = nocter_keyed_create(&native, &made);
    if (code != NOCTER_OK) return detail::refused<keyed>(code);
    options.waiters.release();
    options.work.release();
    return keyed(made);
  }

  /// Says that a key is due: a pass of it will start after this call began. Never waits. status::saturated: a new key
  /// and the queue is full, nothing was kept.
  result<notified> notify(std::string_view key) {
    return accepted(nocter_keyed_notify(handle_.get(), detail::text_of(key)));
  }
  /// Says that a key will be due; the earliest time that was asked for wins.
  template <class Rep, class Period>
  result<notified> notify_after(std::string_view key, std::chrono::duration<Rep, Period> delay) {
    const std::int64_t ns = detail::nanoseconds_of(delay);
    return accepted(nocter_keyed_notify_after(handle_.get(), detail::text_of(key), ns));
  }
  /// notify() for many keys, with one wake: what it would have said to each. An error changes nothing.
  result<std::vector<status>> notify_many(const std::vector<std::string_view>& keys) {
    std::vector<nocter_text> texts;
    texts.reserve(keys.size());
    for (const std::string_view key : keys) texts.push_back(detail::text_of(key));
    std::vector<nocter_status> each(keys.size());
    const nocter_status code = nocter_keyed_notify_many(handle_.get(), texts.data(), texts.size(), each.data());
    if (code < 0) return detail::refused<std::vector<status>>(code);
    std::vector<status> said;
    said.reserve(each.size());
    for (const nocter_status one : each) said.push_back(static_cast<status>(one));
    return said;
  }

  /// Waits for a key that is due.
  result<pass> claim(const wait& until = wait::forever()) { return claim_for(until.native()); }
  /// The same without waiting: status::empty when there is none.
  result<pass> try_claim() { return claim_for(nullptr); }

  /// Notifies every key there is again and again, a slice at a time. `next` gives one key at each call, as something that
  /// std::string can be made of, and std::nullopt after the last one; called after that it begins anew. It is called by
  /// the threads that claim, one at a time, and may wait. What it throws ends the slice.
  template <class Next, class Rep, class Period>
  result<void> resync(Next next, std::chrono::duration<Rep, Period> interval, std::uint32_t slice) {
    auto* kept = new (std::nothrow) source<Next>{std::move(next), {}};
    if (kept == nullptr) return detail::no_memory<void>();
    const nocter_keyed_source native{source<Next>::give, detail::delete_as<source<Next>>, kept};
    const nocter_status code = nocter_keyed_resync(handle_.get(), &native, detail::nanoseconds_of(interval), slice);
    auto said = detail::said(code);
    if (code != NOCTER_OK) delete kept;
    return said;
  }
  /// No more of that.
  result<void> end_resync() { return detail::said(nocter_keyed_resync(handle_.get(), nullptr, 0, 0)); }
  /// When a delayed key or a slice of resync() will be due, for event loops that claim without waiting; status::empty
  /// when nothing waits for a time.
  result<std::chrono::steady_clock::time_point> next_due() const {
    using clock = std::chrono::steady_clock;
    std::int64_t due = 0;
    const nocter_status code = nocter_keyed_next_due(handle_.get(), &due);
    if (code != NOCTER_OK) return detail::refused<clock::time_point>(code);
    return clock::time_point(std::chrono::duration_cast<clock::duration>(std::chrono::nanoseconds(due)));
  }

  /// Refuses further notifications for good, and ends resync(). A queue that drains may be closed again by discarding.
  void close(close_mode mode = close_mode::discard) noexcept {
    nocter_keyed_close(handle_.get(), static_cast<nocter_close_mode>(mode));
  }
  /// After close(): waits until no key is left and no pass runs.
  result<void> drained(const wait& until = wait::forever()) {
    return detail::said(nocter_keyed_drained(handle_.get(), until.native()));
  }
  /// The same without waiting: status::pending while there is something left.
  result<void> try_drained() { return detail::said(nocter_keyed_drained(handle_.get(), nullptr)); }
  /// A snapshot of all numbers.
  result<nocter_keyed_counts> count() const {
    nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
    const nocter_status code = nocter_keyed_count(handle_.get(), &counts);
    if (code != NOCTER_OK) return detail::refused<nocter_keyed_counts>(code);
    return counts;
  }

  /// Starts threads that make passes: `run(std::string_view key)` or `run(std::string_view key, lent_pass&)`, several at
  /// once. It gives nothing, or a bool, with which false is a failed pass; so is whatever it throws.
  template <class Run>
  result<workers> serve(Run run, workers_options options = {}) {
    const auto call = [this](const nocter_workers_options& native, void* user, nocter_workers** out) {
      return nocter_keyed_serve(handle_.get(), run_one<Run>, user, &native, out);
    };
    return workers::started(std::move(run), options, call);
  }

  /// The C handle.
  nocter_keyed* native() const noexcept { return handle_.get(); }

 private:
  explicit keyed(nocter_keyed* native) noexcept : handle_(native) {}

  // What resync() keeps: the function, and the key that it gave last.
  template <class Next>
  struct source {
    static nocter_status give(void* user, nocter_text* out_key) {
      auto* self = static_cast<source*>(user);
      auto given = self->next();
      if (!given) return NOCTER_EMPTY;
      self->key = std::string(*std::move(given));
      *out_key = detail::text_of(self->key);
      return NOCTER_OK;
    }
    Next next;
    std::string key;
  };

  // Not noexcept: exceptions and forced unwinding pass through to the library, which ends the pass.
  template <class Run>
  static nocter_status run_one(void* user, nocter_text key, nocter_pass* guard) {
    Run& run = static_cast<detail::served<Run>*>(user)->run;
    lent_pass lent(guard);
    const auto call = [&]() -> decltype(auto) {
      if constexpr (std::is_invocable_v<Run&, std::string_view, lent_pass&>) {
        return run(detail::view_of(key), lent);
      } else {
        return run(detail::view_of(key));
      }
    };
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return NOCTER_OK;
    } else {
      return call() ? NOCTER_OK : NOCTER_E_STATE;
    }
  }

  static result<notified> accepted(nocter_status code) {
    if (code != NOCTER_OK && code != NOCTER_COALESCED) return detail::refused<notified>(code);
    return static_cast<notified>(code);
  }
  result<pass> claim_for(const nocter_wait* until) {
    nocter_pass* made = nullptr;
    const nocter_status code = nocter_keyed_claim(handle_.get(), until, &made);
    if (code != NOCTER_OK) return detail::refused<pass>(code);
    return pass(made);
  }

  detail::handle<nocter_keyed, nocter_keyed_destroy> handle_;
};

}  // namespace nocter

#endif
