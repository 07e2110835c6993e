/// @file nocter_base.hpp
/// @brief What every part shares: results, waits, interrupts, notifiers, the versioned signal. Included by nocter.hpp.
#ifndef NOCTER_BASE_HPP
#define NOCTER_BASE_HPP

#include <nocter.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace nocter {

// ---- Statuses and results --------------------------------------------------------------------------------------

/// What a call says; the numbers are those of enum nocter_status_code.
enum class status : nocter_status {
  ok = NOCTER_OK,                              ///< Done.
  empty = NOCTER_EMPTY,                        ///< Nothing to claim.
  pending = NOCTER_PENDING,                    ///< It has not finished yet.
  saturated = NOCTER_SATURATED,                ///< At its bound: nothing was kept.
  coalesced = NOCTER_COALESCED,                ///< The key was due already.
  worker_lost = NOCTER_WORKER_LOST,            ///< Its owner went away without a result.
  timeout = NOCTER_TIMEOUT,                    ///< The deadline passed.
  interrupted = NOCTER_INTERRUPTED,            ///< The interrupt was raised, or a signal handler ran.
  closed = NOCTER_CLOSED,                      ///< Closed or shut down: nothing further will come.
  exists = NOCTER_EXISTS,                      ///< Somebody was first.
  held = NOCTER_HELD,                          ///< Another owner holds the lock.
  cancelled = NOCTER_CANCELLED,                ///< The task was cancelled.
  e_argument = NOCTER_E_ARGUMENT,              ///< NULL, out of range, of unknown size.
  e_foreign = NOCTER_E_FOREIGN,                ///< Of another service.
  e_unknown = NOCTER_E_UNKNOWN,                ///< No such identity, or consumed already.
  e_state = NOCTER_E_STATE,                    ///< The wrong moment.
  e_reentrant = NOCTER_E_REENTRANT,            ///< From inside a notifier of the same service.
  e_memory = NOCTER_E_MEMORY,                  ///< Memory, threads or descriptors are exhausted.
  e_json = NOCTER_E_JSON,                      ///< Not UTF-8 JSON.
  e_limit = NOCTER_E_LIMIT,                    ///< Larger than a limit.
  e_store = NOCTER_E_STORE,                    ///< The database refused.
  e_unavailable = NOCTER_E_UNAVAILABLE,        ///< The database cannot be reached now.
  e_lease_lost = NOCTER_E_LEASE_LOST,          ///< Another claim fenced this run out.
  e_version = NOCTER_E_VERSION,                ///< A schema this library does not know.
  e_forked = NOCTER_E_FORKED,                  ///< Made in the parent of this process.
  e_would_deadlock = NOCTER_E_WOULD_DEADLOCK,  ///< Only the waiting thread itself could end the wait.
  e_internal = NOCTER_E_INTERNAL               ///< A defect of nocter.
};

/// The name of a status, for example "NOCTER_EMPTY".
inline std::string_view name_of(status code) noexcept { return nocter_status_name(static_cast<nocter_status>(code)); }

/// The version of the loaded library, for example "0.1.0".
inline std::string_view version() noexcept { return nocter_version(); }
/// The version of the loaded library as a number, to compare with NOCTER_VERSION_NUMBER.
inline std::uint32_t version_number() noexcept { return nocter_version_number(); }

/// What `.value()` throws when there is no value.
class error : public std::exception {
 public:
  /// Made by result<T>::value().
  error(status code, std::string text) : code_(code), text_(std::move(text)) {}
  /// Why there is no value.
  status code() const noexcept { return code_; }
  /// The status and its message.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  status code_;
  std::string text_;
};

namespace detail {

// The status of one call and, for an error, its message, copied before another call can replace it.
class answer {
 public:
  explicit answer(nocter_status code) : code_(code) {
    if (code < 0) message_ = nocter_error_message();
  }
  answer(nocter_status code, std::string_view message) : code_(code), message_(message) {}

  nocter::status status() const noexcept { return static_cast<nocter::status>(code_); }
  bool ok() const noexcept { return code_ == NOCTER_OK; }
  std::string_view message() const noexcept {
    return message_.empty() ? name_of(status()) : std::string_view(message_);
  }

  void require() const {
    if (ok()) return;
#if defined(__cpp_exceptions)
    std::string text(name_of(status()));
    if (!message_.empty()) text += ": " + message_;
    throw error(status(), std::move(text));
#else
    std::abort();
#endif
  }

 private:
  nocter_status code_;
  std::string message_;
};

}  // namespace detail

/// A value, or the reason why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  /// A call that worked.
  result(T value) : answer_(NOCTER_OK), value_(std::move(value)) {}
  /// A call that gave no value.
  explicit result(detail::answer why) : answer_(std::move(why)) {}

  /// status::ok exactly when there is a value.
  nocter::status status() const noexcept { return answer_.status(); }
  /// Whether there is a value.
  bool ok() const noexcept { return value_.has_value(); }
  /// Whether there is a value.
  explicit operator bool() const noexcept { return ok(); }
  /// For an error what nocter says about it, else the name of the status.
  std::string_view message() const noexcept { return answer_.message(); }
  /// The same reason as the result of another type; there must be no value.
  template <class U>
  result<U> rejected() && {
    return result<U>(std::move(answer_));
  }

  /// The value; throws nocter::error when there is none (built without exceptions: aborts).
  T& value() & {
    answer_.require();
    return *value_;
  }
  /// @copydoc value
  const T& value() const& {
    answer_.require();
    return *value_;
  }
  /// @copydoc value
  T value() && {
    answer_.require();
    return std::move(*value_);
  }
  /// The value; there must be one.
  T& operator*() & noexcept { return *value_; }
  /// The value; there must be one.
  const T& operator*() const& noexcept { return *value_; }
  /// The value; there must be one.
  T&& operator*() && noexcept { return std::move(*value_); }
  /// Into the value; there must be one.
  T* operator->() noexcept { return &*value_; }
  /// Into the value; there must be one.
  const T* operator->() const noexcept { return &*value_; }

 private:
  detail::answer answer_;
  std::optional<T> value_;
};

/// Done, or the reason why not.
template <>
class [[nodiscard]] result<void> {
 public:
  /// What a call said.
  explicit result(detail::answer what) : answer_(std::move(what)) {}
  /// What the call said.
  nocter::status status() const noexcept { return answer_.status(); }
  /// Whether it is done.
  bool ok() const noexcept { return answer_.ok(); }
  /// Whether it is done.
  explicit operator bool() const noexcept { return ok(); }
  /// For an error what nocter says about it, else the name of the status.
  std::string_view message() const noexcept { return answer_.message(); }
  /// Throws nocter::error when it is not done (built without exceptions: aborts).
  void value() const { answer_.require(); }

 private:
  detail::answer answer_;
};

namespace detail {

inline result<void> said(nocter_status code) { return result<void>(answer(code)); }
template <class T>
result<T> refused(nocter_status code) {
  return result<T>(answer(code));
}
template <class T>
result<T> no_memory() {
  return result<T>(answer(NOCTER_E_MEMORY, "memory for a callable is exhausted"));
}

inline nocter_text text_of(std::string_view text) noexcept { return nocter_text{text.data(), text.size()}; }
inline std::string_view view_of(nocter_text text) noexcept {
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}

// Owns one C handle or guard.
template <class T, void (*End)(T*)>
class handle {
 public:
  handle() = default;
  explicit handle(T* native) noexcept : native_(native) {}
  handle(handle&& other) noexcept : native_(other.release()) {}
  handle& operator=(handle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~handle() { reset(nullptr); }

  T* get() const noexcept { return native_; }
  T* release() noexcept { return std::exchange(native_, nullptr); }
  void reset(T* native) noexcept {
    if (T* before = std::exchange(native_, native)) End(before);
  }

 private:
  T* native_ = nullptr;
};

template <class T>
void delete_as(void* data) {
  delete static_cast<T*>(data);
}

// A unique_ptr on its way through the service. What the service did not take goes back to where it came from.
template <class T>
class passing {
 public:
  explicit passing(std::unique_ptr<T>& from) noexcept : from_(from), owned_{from.release(), delete_as<T>} {}
  passing(const passing&) = delete;
  passing& operator=(const passing&) = delete;
  ~passing() {
    if (owned_.drop != nullptr) from_.reset(static_cast<T*>(owned_.data));
  }
  nocter_owned* get() noexcept { return &owned_; }

 private:
  std::unique_ptr<T>& from_;
  nocter_owned owned_;
};

template <class T>
std::unique_ptr<T> received(nocter_owned& owned) noexcept {
  std::unique_ptr<T> value(static_cast<T*>(owned.data));
  owned = nocter_owned{nullptr, nullptr};
  return value;
}

}  // namespace detail

// ---- Waiting -----------------------------------------------------------------------------------------------------

class interrupt;

/// An interrupt that somebody else owns, for example that of a running job.
class interrupt_view {
 public:
  /// Of the C handle; nullptr is an interrupt that is never raised.
  explicit interrupt_view(nocter_interrupt* native) noexcept : native_(native) {}
  /// Of an interrupt, which must outlive the view.
  interrupt_view(const interrupt& owner) noexcept;
  /// Whether it is raised.
  bool raised() const noexcept { return nocter_interrupt_raised(native_); }
  /// The C handle.
  nocter_interrupt* native() const noexcept { return native_; }

 private:
  nocter_interrupt* native_;
};

/// A flag that ends every wait that carries it.
class interrupt {
 public:
  /// Makes one that is not raised.
  static result<interrupt> create() {
    nocter_interrupt* made = nullptr;
    const nocter_status code = nocter_interrupt_create(&made);
    if (code != NOCTER_OK) return detail::refused<interrupt>(code);
    return interrupt(made);
  }
  /// Ends the waits that carry it, now and later. Async-signal-safe.
  void raise() const noexcept { nocter_interrupt_raise(handle_.get()); }
  /// Takes it back for the waits to come.
  void clear() const noexcept { nocter_interrupt_clear(handle_.get()); }
  /// Whether it is raised.
  bool raised() const noexcept { return nocter_interrupt_raised(handle_.get()); }
  /// The C handle.
  nocter_interrupt* native() const noexcept { return handle_.get(); }

 private:
  explicit interrupt(nocter_interrupt* native) noexcept : handle_(native) {}
  detail::handle<nocter_interrupt, nocter_interrupt_destroy> handle_;
};

inline interrupt_view::interrupt_view(const interrupt& owner) noexcept : native_(owner.native()) {}

/// How long a call may wait and what ends the wait early: made of a duration, of a time, or forever().
class wait {
 public:
  /// No deadline.
  static wait forever() noexcept { return wait(NOCTER_FOREVER); }
  /// Until so long from now; too long for the clock is for ever.
  template <class Rep, class Period>
  wait(std::chrono::duration<Rep, Period> duration) : wait(deadline_after(duration)) {}
  /// Until then.
  wait(std::chrono::steady_clock::time_point then) noexcept : wait(deadline_at(then)) {}

  /// The same wait, ended by this interrupt too, which must outlive it.
  wait with(interrupt_view ender) const noexcept {
    wait copy = *this;
    copy.native_.interrupt = ender.native();
    return copy;
  }
  /// The same wait, ended also by a signal handler that ran on this thread.
  wait ended_by_signals() const noexcept {
    wait copy = *this;
    copy.native_.flags = NOCTER_WAIT_EINTR;
    return copy;
  }
  /// The C struct.
  const nocter_wait* native() const noexcept { return &native_; }

 private:
  explicit wait(std::int64_t deadline_ns) noexcept : native_{deadline_ns, nullptr, 0, 0} {}

  static std::int64_t deadline_at(std::chrono::steady_clock::time_point then) noexcept {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(then.time_since_epoch()).count();
    return ns < 0 ? 0 : static_cast<std::int64_t>(ns);
  }
  template <class Rep, class Period>
  static std::int64_t deadline_after(std::chrono::duration<Rep, Period> duration) {
    using seconds = std::chrono::duration<double>;
    constexpr double clock_end = 9.2e9;  // seconds; a little less than 63 bits of nanoseconds
    const double now = static_cast<double>(nocter_now_ns()) / 1e9;
    const double length = std::chrono::duration_cast<seconds>(duration).count();
    if (!(length + now < clock_end)) return NOCTER_FOREVER;
    if (length <= 0) return 0;
    return nocter_now_ns() + static_cast<std::int64_t>(std::chrono::ceil<std::chrono::nanoseconds>(duration).count());
  }

  nocter_wait native_;
};

// ---- Capacity --------------------------------------------------------------------------------------------------

/// A service's position in time: it advances whenever a slot became free. A default one is no epoch.
class epoch {
 public:
  /// No epoch.
  epoch() = default;
  /// Of the C struct.
  explicit epoch(nocter_epoch native) noexcept : native_(native) {}
  /// The C struct.
  nocter_epoch native() const noexcept { return native_; }
  /// Whether both are the same moment of the same service.
  friend bool operator==(epoch a, epoch b) noexcept { return nocter_epoch_equal(a.native_, b.native_); }
  /// Whether they are not.
  friend bool operator!=(epoch a, epoch b) noexcept { return !(a == b); }

 private:
  nocter_epoch native_{};
};

// ---- Notifiers ---------------------------------------------------------------------------------------------------

/// Who is told that something may have changed: empty, a callable without arguments, or one of a signal or an eventfd.
///
/// A callable is run on the thread that made the change, possibly on several at once; what it throws stops at the
/// library and is counted there.
class notifier {
 public:
  /// Nobody is told.
  notifier() noexcept : native_{nullptr, nullptr, nullptr} {}
  /// Calls a copy of the callable, which lives as long as the service that was given it.
  template <class F, class = std::enable_if_t<std::is_invocable_v<F&> && !std::is_same_v<std::decay_t<F>, notifier>>>
  notifier(F callable) : notifier() {
    auto* kept = new (std::nothrow) F(std::move(callable));
    exhausted_ = kept == nullptr;
    if (kept != nullptr)
      native_ = nocter_notifier{[](void* user) { (*static_cast<F*>(user))(); }, detail::delete_as<F>, kept};
  }
  /// Takes a C notifier over.
  explicit notifier(nocter_notifier native) noexcept : native_(native) {}
  /// Leaves an empty one behind.
  notifier(notifier&& other) noexcept : native_(other.release()), exhausted_(other.exhausted_) {}
  /// Leaves this one's behind, to be dropped with the other.
  notifier& operator=(notifier&& other) noexcept {
    std::swap(native_, other.native_);
    std::swap(exhausted_, other.exhausted_);
    return *this;
  }
  ~notifier() {
    if (native_.drop != nullptr) native_.drop(native_.user);
  }

  /// Gives the C notifier away: to be called once a service has taken it.
  nocter_notifier release() noexcept { return std::exchange(native_, nocter_notifier{nullptr, nullptr, nullptr}); }
  /// The C notifier, still this one's.
  const nocter_notifier& native() const noexcept { return native_; }
  /// Whether there was no memory for the callable.
  bool exhausted() const noexcept { return exhausted_; }

 private:
  nocter_notifier native_;
  bool exhausted_ = false;
};

/// A versioned signal: read the version, test your state, wait only while the version is the one read.
class signal {
 public:
  /// Makes one at its first version.
  static result<signal> create() {
    nocter_signal* made = nullptr;
    const nocter_status code = nocter_signal_create(&made);
    if (code != NOCTER_OK) return detail::refused<signal>(code);
    return signal(made);
  }
  /// The version now.
  std::uint64_t version() const noexcept { return nocter_signal_version(handle_.get()); }
  /// Says that the state has changed; the new version.
  result<std::uint64_t> publish() {
    std::uint64_t now = 0;
    return answered(nocter_signal_publish(handle_.get(), &now), now);
  }
  /// Waits until the version is no longer the one seen; the version then.
  result<std::uint64_t> wait(std::uint64_t seen, const nocter::wait& until = nocter::wait::forever()) {
    std::uint64_t now = 0;
    return answered(nocter_signal_wait(handle_.get(), seen, until.native(), &now), now);
  }
  /// The same without waiting: status::pending when the version is still the one seen.
  result<std::uint64_t> try_wait(std::uint64_t seen) {
    std::uint64_t now = 0;
    return answered(nocter_signal_wait(handle_.get(), seen, nullptr, &now), now);
  }
  /// Closes it for good and wakes everybody.
  void close() noexcept { nocter_signal_close(handle_.get()); }
  /// A notifier each wake of which publishes the signal.
  nocter::notifier notifier() { return nocter::notifier(nocter_signal_notifier(handle_.get())); }
  /// The C handle.
  nocter_signal* native() const noexcept { return handle_.get(); }

 private:
  explicit signal(nocter_signal* native) noexcept : handle_(native) {}
  static result<std::uint64_t> answered(nocter_status code, const std::uint64_t& version) {
    if (code != NOCTER_OK) return detail::refused<std::uint64_t>(code);
    return version;
  }
  detail::handle<nocter_signal, nocter_signal_destroy> handle_;
};

/// A descriptor that becomes readable on a wake, for every event loop. Clear first, then query.
class eventfd {
 public:
  /// Makes one.
  static result<eventfd> create() {
    nocter_eventfd* made = nullptr;
    const nocter_status code = nocter_eventfd_create(&made);
    if (code != NOCTER_OK) return detail::refused<eventfd>(code);
    return eventfd(made);
  }
  /// The descriptor to poll for reading; it stays nocter's.
  int fd() const noexcept { return nocter_eventfd_fd(handle_.get()); }
  /// Makes it unreadable until the next wake.
  void clear() noexcept { nocter_eventfd_clear(handle_.get()); }
  /// A notifier that makes it readable.
  nocter::notifier notifier() { return nocter::notifier(nocter_eventfd_notifier(handle_.get())); }
  /// The C handle.
  nocter_eventfd* native() const noexcept { return handle_.get(); }

 private:
  explicit eventfd(nocter_eventfd* native) noexcept : handle_(native) {}
  detail::handle<nocter_eventfd, nocter_eventfd_destroy> handle_;
};

}  // namespace nocter

#endif
