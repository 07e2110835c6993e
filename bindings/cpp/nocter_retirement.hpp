/// @file nocter_retirement.hpp
/// @brief Retirement with typed resources: reserve, attach, drop or retire, claim, complete. Included by nocter.hpp.
#ifndef NOCTER_RETIREMENT_HPP
#define NOCTER_RETIREMENT_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "nocter_base.hpp"
#include "nocter_workers.hpp"

namespace nocter {

// ---- Identities ------------------------------------------------------------------------------------------------

/// Which retirement. A value to copy and to compare; a default one is no retirement.
class retirement_id {
 public:
  /// No retirement.
  retirement_id() = default;
  /// Of the C struct.
  explicit retirement_id(nocter_retirement_id native) noexcept : native_(native) {}
  /// The C struct.
  nocter_retirement_id native() const noexcept { return native_; }
  /// Whether both name the same retirement of the same service.
  friend bool operator==(retirement_id a, retirement_id b) noexcept {
    return nocter_retirement_id_equal(a.native_, b.native_);
  }
  /// Whether they do not.
  friend bool operator!=(retirement_id a, retirement_id b) noexcept { return !(a == b); }

 private:
  nocter_retirement_id native_{};
};

/// Where a retirement is.
enum class retirement_state : nocter_retirement_state {
  queued = NOCTER_RETIREMENT_QUEUED,       ///< Waits for a cleanup.
  running = NOCTER_RETIREMENT_RUNNING,     ///< A cleanup has claimed it.
  completed = NOCTER_RETIREMENT_COMPLETED  ///< The cleanup has ended; waits to be taken.
};

// ---- Guards ------------------------------------------------------------------------------------------------------

/// The owner of a live resource. One that goes out of scope queues the resource for its cleanup: no allocation, no wait,
/// no failure, whatever became of the service.
template <class T>
class [[nodiscard]] resource {
 public:
  /// Of nothing.
  resource() = default;
  /// Whether there is a resource.
  explicit operator bool() const noexcept { return handle_.get() != nullptr; }
  /// The resource; nullptr when there is none.
  T* get() const noexcept { return static_cast<T*>(nocter_resource_get(handle_.get())); }
  /// The resource; there must be one.
  T& operator*() const noexcept { return *get(); }
  /// Into the resource; there must be one.
  T* operator->() const noexcept { return get(); }
  /// Queues it for its cleanup, and nobody will ask how it went.
  void drop() noexcept { handle_.reset(nullptr); }
  /// The same, and the identity is to ask with: the completion keeps its place until it is taken or detached.
  /// status::closed: the service is gone, so nobody can ask; the resource is cleaned all the same.
  result<retirement_id> retire() {
    nocter_retirement_id id{};
    const nocter_status code = nocter_resource_retire(handle_.get(), &id);
    if (code == NOCTER_OK || code == NOCTER_CLOSED) handle_.release();
    if (code != NOCTER_OK) return detail::refused<retirement_id>(code);
    return retirement_id(id);
  }
  /// The C guard.
  nocter_resource* native() const noexcept { return handle_.get(); }
  /// Takes a C guard over, whose data is a T.
  explicit resource(nocter_resource* native) noexcept : handle_(native) {}

 private:
  detail::handle<nocter_resource, nocter_resource_drop> handle_;
};

/// A place set apart for a resource that may not exist yet. One that goes out of scope gives the place back.
template <class T>
class [[nodiscard]] permit {
 public:
  /// Takes the resource over, and gives it its owner; consumes this permit. Cannot fail, whatever became of the service.
  /// Only a permit that was consumed before, or comes from a parent process, leaves the resource where it is.
  resource<T> attach(std::unique_ptr<T>&& value) noexcept {
    detail::passing<T> passed(value);
    nocter_resource* owner = nocter_permit_attach(handle_.get(), passed.get());
    if (owner != nullptr) handle_.release();
    return resource<T>(owner);
  }
  /// Gives the place back.
  void drop() noexcept { handle_.reset(nullptr); }
  /// The C guard.
  nocter_permit* native() const noexcept { return handle_.get(); }
  /// Takes a C guard over.
  explicit permit(nocter_permit* native) noexcept : handle_(native) {}

 private:
  detail::handle<nocter_permit, nocter_permit_drop> handle_;
};

/// The one right, and duty, to end one resource. One that goes out of scope is a failed cleanup, and ends the resource if
/// nobody has begun.
template <class T>
class [[nodiscard]] cleanup {
 public:
  /// Takes the resource out; status::e_state when that was done.
  result<std::unique_ptr<T>> begin() {
    nocter_owned owned{nullptr, nullptr};
    const nocter_status code = nocter_cleanup_begin(handle_.get(), &owned);
    if (code != NOCTER_OK) return detail::refused<std::unique_ptr<T>>(code);
    return detail::received<T>(owned);
  }
  /// Ends the cleanup, after the resource: 0 is clean, anything else is told to who takes it. Consumes when it says ok.
  result<void> complete(std::int32_t code = 0) {
    const nocter_status said = nocter_cleanup_complete(handle_.get(), code);
    if (said == NOCTER_OK) handle_.release();
    return detail::said(said);
  }
  /// Gives the cleanup up: it failed.
  void drop() noexcept { handle_.reset(nullptr); }
  /// The C guard.
  nocter_cleanup* native() const noexcept { return handle_.get(); }
  /// Takes a C guard over.
  explicit cleanup(nocter_cleanup* native) noexcept : handle_(native) {}

 private:
  detail::handle<nocter_cleanup, nocter_cleanup_drop> handle_;
};

// ---- The service -------------------------------------------------------------------------------------------------

/// What a service is made of.
struct retirement_options {
  std::uint32_t maximum_resources = 64;  ///< Permits that may be out at once, in whatever became of them.
  std::uint32_t workers = 2;             ///< Cleanups that may run at once.
  notifier waiters = {};                 ///< Woken after every transition a waiter can care about.
  notifier work = {};                    ///< Woken when a claim that found nothing may find something.
  std::uint32_t wait_spins = 0;          ///< 0: the default; NOCTER_WAIT_NONE: none.
  std::uint32_t wait_yields = 0;         ///< 0: the default; NOCTER_WAIT_NONE: none.
};

/// Resources of type T, the end of which may block, and who ends them. The destructor of T is what blocks.
///
/// Going out of scope it closes and detaches every waiter, and waits for nothing: permits, owners and cleanups that are
/// out work as before.
template <class T>
class retirement {
 public:
  /// Makes a service, with all the memory it will ever need besides that of the resources.
  static result<retirement> create(retirement_options options = {}) {
    if (options.waiters.exhausted() || options.work.exhausted()) return detail::no_memory<retirement>();
    nocter_retirement_options native;
    nocter_retirement_options_init(&native, sizeof native);
    native.maximum_resources = options.maximum_resources;
    native.workers = options.workers;
    native.waiters = options.waiters.native();
    native.work = options.work.native();
    native.wait_spins = options.wait_spins;
    native.wait_yields = options.wait_yields;
    nocter_retirement* made = nullptr;
    const nocter_status code = nocter_retirement_create(&native, &made);
    if (code != NOCTER_OK) return detail::refused<retirement>(code);
    options.waiters.release();
    options.work.release();
    return retirement(made);
  }

  /// Sets a place apart, before the resource is made; never waits. After status::saturated `seen` is the epoch of that
  /// moment: waiting for a later one and trying again misses nothing.
  result<permit<T>> reserve(epoch* seen = nullptr) {
    nocter_permit* made = nullptr;
    nocter_epoch now{};
    const nocter_status code = nocter_retirement_reserve(handle_.get(), &made, &now);
    if (seen != nullptr) *seen = epoch(now);
    if (code != NOCTER_OK) return detail::refused<permit<T>>(code);
    return permit<T>(made);
  }
  /// The same, waiting for a place.
  result<permit<T>> reserve(const wait& until) {
    for (;;) {
      epoch seen;
      result<permit<T>> place = reserve(&seen);
      if (place.status() != status::saturated) return place;
      if (auto later = wait_epoch(seen, until); !later) return std::move(later).template rejected<permit<T>>();
    }
  }
  /// Waits for a resource to end.
  result<cleanup<T>> claim(const wait& until = wait::forever()) { return claim_for(until.native()); }
  /// The same without waiting: status::empty when there is none.
  result<cleanup<T>> try_claim() { return claim_for(nullptr); }

  /// Waits for a cleanup to end; the code it ended with.
  result<std::int32_t> take(retirement_id id, const wait& until = wait::forever()) {
    return take_for(id, until.native());
  }
  /// The same without waiting: status::pending when it has not ended.
  result<std::int32_t> try_take(retirement_id id) { return take_for(id, nullptr); }
  /// Where a retirement is.
  result<retirement_state> query(retirement_id id) const {
    nocter_retirement_state state = 0;
    const nocter_status code = nocter_retirement_query(handle_.get(), id.native(), &state);
    if (code != NOCTER_OK) return detail::refused<retirement_state>(code);
    return static_cast<retirement_state>(state);
  }
  /// Ends the interest in a retirement; its cleanup goes on.
  result<void> detach(retirement_id id) { return detail::said(nocter_retirement_detach(handle_.get(), id.native())); }
  /// The same for every identity there is.
  void detach_all() noexcept { nocter_retirement_detach_all(handle_.get()); }

  /// The capacity epoch now.
  result<epoch> capacity_epoch() const {
    nocter_epoch now{};
    const nocter_status code = nocter_retirement_epoch(handle_.get(), &now);
    if (code != NOCTER_OK) return detail::refused<epoch>(code);
    return epoch(now);
  }
  /// Waits until the capacity epoch is later than this one; the epoch then.
  result<epoch> wait_epoch(epoch later_than, const wait& until = wait::forever()) {
    nocter_epoch now{};
    const nocter_status code = nocter_retirement_wait_epoch(handle_.get(), later_than.native(), until.native(), &now);
    if (code != NOCTER_OK) return detail::refused<epoch>(code);
    return epoch(now);
  }

  /// No further permits. Everything that was reserved before goes on.
  void close() noexcept { nocter_retirement_close(handle_.get()); }
  /// Waits until no place is occupied; after close() that is final.
  result<void> drained(const wait& until = wait::forever()) {
    return detail::said(nocter_retirement_drained(handle_.get(), until.native()));
  }
  /// The same without waiting: status::pending while a place is occupied.
  result<void> try_drained() { return detail::said(nocter_retirement_drained(handle_.get(), nullptr)); }
  /// A snapshot of all numbers.
  result<nocter_retirement_counts> count() const {
    nocter_retirement_counts counts = NOCTER_RETIREMENT_COUNTS_INIT;
    const nocter_status code = nocter_retirement_count(handle_.get(), &counts);
    if (code != NOCTER_OK) return detail::refused<nocter_retirement_counts>(code);
    return counts;
  }

  /// Starts threads that end resources by their destructor, which reports code 0. What a destructor throws stops at the
  /// library, and is a failed cleanup.
  result<workers> serve(workers_options options = {}) {
    const auto call = [this](const nocter_workers_options& native, void*, nocter_workers** out) {
      return nocter_retirement_serve(handle_.get(), &native, out);
    };
    return workers::started(nullptr, options, call);
  }

  /// The C handle.
  nocter_retirement* native() const noexcept { return handle_.get(); }

 private:
  explicit retirement(nocter_retirement* native) noexcept : handle_(native) {}

  result<cleanup<T>> claim_for(const nocter_wait* until) {
    nocter_cleanup* made = nullptr;
    const nocter_status code = nocter_retirement_claim(handle_.get(), until, &made);
    if (code != NOCTER_OK) return detail::refused<cleanup<T>>(code);
    return cleanup<T>(made);
  }
  result<std::int32_t> take_for(retirement_id id, const nocter_wait* until) {
    std::int32_t ended_with = 0;
    const nocter_status code = nocter_retirement_take(handle_.get(), id.native(), until, &ended_with);
    if (code != NOCTER_OK) return detail::refused<std::int32_t>(code);
    return ended_with;
  }

  detail::handle<nocter_retirement, nocter_retirement_destroy> handle_;
};

}  // namespace nocter

// So that identities can be keys of unordered containers.
/// @cond
template <>
struct std::hash<nocter::retirement_id> {
  std::size_t operator()(nocter::retirement_id id) const noexcept {
    return static_cast<std::size_t>(id.native().sequence * 0x9E3779B97F4A7C15u ^ id.native().service);
  }
};
/// @endcond

#endif
