/// @file nocter_blocking.hpp
/// @brief Blocking operations with typed payloads: submit, claim, begin, complete, take. Included by nocter.hpp.
#ifndef NOCTER_BLOCKING_HPP
#define NOCTER_BLOCKING_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "nocter_base.hpp"
#include "nocter_workers.hpp"

namespace nocter {

// ---- Identities ------------------------------------------------------------------------------------------------

/// Which job. A value to copy and to compare; a default one is no job.
class job_id {
 public:
  /// No job.
  job_id() = default;
  /// Of the C struct.
  explicit job_id(nocter_job_id native) noexcept : native_(native) {}
  /// The C struct.
  nocter_job_id native() const noexcept { return native_; }
  /// Whether both name the same job of the same service.
  friend bool operator==(job_id a, job_id b) noexcept { return nocter_job_id_equal(a.native_, b.native_); }
  /// Whether they do not.
  friend bool operator!=(job_id a, job_id b) noexcept { return !(a == b); }

 private:
  nocter_job_id native_{};
};

/// Where a job is.
enum class job_state : nocter_job_state {
  queued = NOCTER_JOB_QUEUED,       ///< Accepted and not yet claimed.
  running = NOCTER_JOB_RUNNING,     ///< Claimed.
  completed = NOCTER_JOB_COMPLETED  ///< Ended; waits to be taken.
};

// ---- Guards ------------------------------------------------------------------------------------------------------

/// The one right, and duty, to end a job that has begun. One that is dropped tells the waiter status::worker_lost.
template <class Out>
class [[nodiscard]] completion {
 public:
  /// Which job this is.
  job_id id() const noexcept { return job_id(nocter_completion_id(handle_.get())); }
  /// Whether nobody waits for it any more: stop early if you can.
  bool abandoned() const noexcept { return nocter_completion_abandoned(handle_.get()); }
  /// Raised when that happens: to carry in the job's own waits. Valid until the guard ends.
  interrupt_view interrupt() const noexcept { return interrupt_view(nocter_completion_interrupt(handle_.get())); }
  /// Ends the job with an output; takes both when it says ok.
  result<void> complete(std::unique_ptr<Out>&& output) {
    detail::passing<Out> passed(output);
    const nocter_status code = nocter_completion_complete(handle_.get(), passed.get());
    if (code == NOCTER_OK) handle_.release();
    return detail::said(code);
  }
  /// Ends the job without an output.
  void drop() noexcept { handle_.reset(nullptr); }
  /// The C guard.
  nocter_completion* native() const noexcept { return handle_.get(); }
  /// Takes a C guard over.
  explicit completion(nocter_completion* native) noexcept : handle_(native) {}

 private:
  detail::handle<nocter_completion, nocter_completion_drop> handle_;
};

/// A completion lent to a served function: the service ends the job with what the function returns.
template <class Out>
class lent_completion {
 public:
  /// Of the C guard.
  explicit lent_completion(nocter_completion* native) noexcept : native_(native) {}
  lent_completion(const lent_completion&) = delete;
  lent_completion& operator=(const lent_completion&) = delete;
  /// @copydoc completion::id
  job_id id() const noexcept { return job_id(nocter_completion_id(native_)); }
  /// @copydoc completion::abandoned
  bool abandoned() const noexcept { return nocter_completion_abandoned(native_); }
  /// @copydoc completion::interrupt
  interrupt_view interrupt() const noexcept { return interrupt_view(nocter_completion_interrupt(native_)); }
  /// Ends the job before the function returns; what it returns then is not used.
  result<void> complete(std::unique_ptr<Out>&& output) {
    detail::passing<Out> passed(output);
    return detail::said(nocter_completion_complete(native_, passed.get()));
  }
  /// Ends the job without an output: its waiter is told status::worker_lost.
  void drop() noexcept { nocter_completion_drop(native_); }

 private:
  nocter_completion* native_;
};

/// A job that has begun: its input, and the guard that ends it.
template <class In, class Out>
struct begun {
  std::unique_ptr<In> input;  ///< What was submitted.
  completion<Out> guard;      ///< Ends the job.
};

/// A claimed job whose input has not been taken out yet. One that is dropped tells the waiter status::worker_lost.
template <class In, class Out>
class [[nodiscard]] running_job {
 public:
  /// Which job this is.
  job_id id() const noexcept { return job_id(nocter_running_job_id(handle_.get())); }
  /// Parts the input from the completion guard; consumes this one when it says ok.
  result<begun<In, Out>> begin() {
    nocter_owned input{nullptr, nullptr};
    nocter_completion* guard = nullptr;
    const nocter_status code = nocter_running_job_begin(handle_.get(), &input, &guard);
    if (code != NOCTER_OK) return detail::refused<begun<In, Out>>(code);
    handle_.release();
    return begun<In, Out>{detail::received<In>(input), completion<Out>(guard)};
  }
  /// Gives the job up.
  void drop() noexcept { handle_.reset(nullptr); }
  /// The C guard.
  nocter_running_job* native() const noexcept { return handle_.get(); }
  /// Takes a C guard over.
  explicit running_job(nocter_running_job* native) noexcept : handle_(native) {}

 private:
  detail::handle<nocter_running_job, nocter_running_job_drop> handle_;
};

/// A job that take_many() took.
template <class Out>
struct taken {
  job_id id;                    ///< Which.
  std::unique_ptr<Out> output;  ///< Null when the worker was lost.
};

/// What cancel() found and brought back.
template <class In, class Out>
struct cancelled {
  job_state was;                ///< Where the job was.
  std::unique_ptr<In> input;    ///< When it was queued.
  std::unique_ptr<Out> output;  ///< When it was completed.
};

// ---- The service -------------------------------------------------------------------------------------------------

/// What a service is made of.
struct blocking_options {
  std::uint32_t maximum_jobs = 64;  ///< Jobs that may be accepted and not yet gone.
  std::uint32_t workers = 2;        ///< Jobs that may run at once.
  notifier waiters = {};            ///< Woken after every transition a waiter can care about.
  notifier work = {};               ///< Woken when a claim that found nothing may find something.
  std::uint32_t wait_spins = 0;     ///< 0: the default; NOCTER_WAIT_NONE: none.
  std::uint32_t wait_yields = 0;    ///< 0: the default; NOCTER_WAIT_NONE: none.
};

/// A bounded service of jobs that take an In and give an Out.
template <class In, class Out>
class blocking {
 public:
  /// Makes a service, with all the memory it will ever need.
  static result<blocking> create(blocking_options options = {}) {
    if (options.waiters.exhausted() || options.work.exhausted()) return detail::no_memory<blocking>();
    nocter_blocking_options native;
    nocter_blocking_options_init(&native, sizeof native);
    native.maximum_jobs = options.maximum_jobs;
    native.workers = options.workers;
    native.waiters = options.waiters.native();
    native.work = options.work.native();
    native.wait_spins = options.wait_spins;
    native.wait_yields = options.wait_yields;
    nocter_blocking* made = nullptr;
    const nocter_status code = nocter_blocking_create(&native, &made);
    if (code != NOCTER_OK) return detail::refused<blocking>(code);
    options.waiters.release();
    options.work.release();
    return blocking(made);
  }

  /// Hands a job in; never waits. status::saturated leaves the input with the caller, and `seen` is the epoch of that
  /// moment: waiting for a later one and trying again misses nothing.
  result<job_id> submit(std::unique_ptr<In>&& input, epoch* seen = nullptr) {
    nocter_job_id id{};
    nocter_epoch now{};
    detail::passing<In> passed(input);
    const nocter_status code = nocter_blocking_submit(handle_.get(), passed.get(), &id, &now);
    if (seen != nullptr) *seen = epoch(now);
    if (code != NOCTER_OK) return detail::refused<job_id>(code);
    return job_id(id);
  }
  /// The same, waiting for a place.
  result<job_id> submit(std::unique_ptr<In>&& input, const wait& until) {
    for (;;) {
      epoch seen;
      result<job_id> id = submit(std::move(input), &seen);
      if (id.status() != status::saturated) return id;
      if (auto later = wait_epoch(seen, until); !later) return std::move(later).template rejected<job_id>();
    }
  }
  /// Waits for a job to run.
  result<running_job<In, Out>> claim(const wait& until = wait::forever()) { return claim_for(until.native()); }
  /// The same without waiting: status::empty when there is none.
  result<running_job<In, Out>> try_claim() { return claim_for(nullptr); }

  /// Waits for a job to end; its output.
  result<std::unique_ptr<Out>> take(job_id id, const wait& until = wait::forever()) {
    return take_for(id, until.native());
  }
  /// The same without waiting: status::pending when it has not ended.
  result<std::unique_ptr<Out>> try_take(job_id id) { return take_for(id, nullptr); }
  /// Where a job is.
  result<job_state> query(job_id id) const {
    nocter_job_state state = 0;
    const nocter_status code = nocter_blocking_query(handle_.get(), id.native(), &state);
    if (code != NOCTER_OK) return detail::refused<job_state>(code);
    return static_cast<job_state>(state);
  }
  /// Which jobs ended since the last asking, at most so many: a hint for event loops, takes nothing.
  result<std::vector<job_id>> completed(std::size_t capacity = 64) {
    std::vector<nocter_job_id> ids(capacity);
    std::size_t count = 0;
    const nocter_status code = nocter_blocking_completed(handle_.get(), ids.data(), capacity, &count);
    if (code != NOCTER_OK) return detail::refused<std::vector<job_id>>(code);
    return std::vector<job_id>(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
  }
  /// Takes jobs as they end, whichever they are, at most so many, and waits for the first: for a program where one place
  /// takes every job.
  result<std::vector<taken<Out>>> take_many(std::size_t capacity = 64, const wait& until = wait::forever()) {
    return take_many_for(capacity, until.native());
  }
  /// The same without waiting: status::pending when none has ended.
  result<std::vector<taken<Out>>> try_take_many(std::size_t capacity = 64) { return take_many_for(capacity, nullptr); }
  /// Gives a job up: what nobody runs comes back, what runs is abandoned.
  result<cancelled<In, Out>> cancel(job_id id) {
    nocter_job_state was = 0;
    nocter_owned value{nullptr, nullptr};
    const nocter_status code = nocter_blocking_cancel(handle_.get(), id.native(), &was, &value);
    if (code != NOCTER_OK) return detail::refused<cancelled<In, Out>>(code);
    cancelled<In, Out> found{static_cast<job_state>(was), nullptr, nullptr};
    if (found.was == job_state::queued) found.input = detail::received<In>(value);
    if (found.was == job_state::completed) found.output = detail::received<Out>(value);
    return found;
  }

  /// The capacity epoch now.
  result<epoch> capacity_epoch() const {
    nocter_epoch now{};
    const nocter_status code = nocter_blocking_epoch(handle_.get(), &now);
    if (code != NOCTER_OK) return detail::refused<epoch>(code);
    return epoch(now);
  }
  /// Waits until the capacity epoch is later than this one; the epoch then.
  result<epoch> wait_epoch(epoch later_than, const wait& until = wait::forever()) {
    nocter_epoch now{};
    const nocter_status code = nocter_blocking_wait_epoch(handle_.get(), later_than.native(), until.native(), &now);
    if (code != NOCTER_OK) return detail::refused<epoch>(code);
    return epoch(now);
  }

  /// Closes admission, abandons what runs, drops the rest.
  result<void> shutdown() { return detail::said(nocter_blocking_shutdown(handle_.get(), nullptr, nullptr)); }
  /// The same, handing every queued input and every completed output over, in this thread.
  template <class OnInput, class OnOutput>
  result<void> shutdown(OnInput&& on_input, OnOutput&& on_output) {
    std::pair<OnInput&, OnOutput&> sinks(on_input, on_output);
    const auto sink = [](void* user, nocter_job_state was, nocter_owned* value) {
      auto& [input, output] = *static_cast<std::pair<OnInput&, OnOutput&>*>(user);
      if (was == NOCTER_JOB_QUEUED) {
        input(detail::received<In>(*value));
      } else {
        output(detail::received<Out>(*value));
      }
    };
    return detail::said(nocter_blocking_shutdown(handle_.get(), sink, &sinks));
  }
  /// After shutdown(): waits until nothing runs any more.
  result<void> drained(const wait& until = wait::forever()) {
    return detail::said(nocter_blocking_drained(handle_.get(), until.native()));
  }
  /// A snapshot of all numbers.
  result<nocter_blocking_counts> count() const {
    nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
    const nocter_status code = nocter_blocking_count(handle_.get(), &counts);
    if (code != NOCTER_OK) return detail::refused<nocter_blocking_counts>(code);
    return counts;
  }

  /// Starts threads that run jobs: `run(std::unique_ptr<In>)` or `run(std::unique_ptr<In>, lent_completion<Out>&)`, several
  /// at once, gives a std::unique_ptr<Out>. What it throws stops at the library: the waiter is told status::worker_lost.
  template <class Run>
  result<workers> serve(Run run, workers_options options = {}) {
    const auto call = [this](const nocter_workers_options& native, void* user, nocter_workers** out) {
      return nocter_blocking_serve(handle_.get(), run_one<Run>, user, &native, out);
    };
    return workers::started(std::move(run), options, call);
  }

  /// The C handle.
  nocter_blocking* native() const noexcept { return handle_.get(); }

 private:
  explicit blocking(nocter_blocking* native) noexcept : handle_(native) {}

  // Not noexcept: exceptions and forced unwinding pass through to the library, which ends the job.
  template <class Run>
  static void run_one(void* user, nocter_owned* input, nocter_owned* output, nocter_completion* guard) {
    Run& run = static_cast<detail::served<Run>*>(user)->run;
    lent_completion<Out> lent(guard);
    std::unique_ptr<Out> result;
    if constexpr (std::is_invocable_v<Run&, std::unique_ptr<In>, lent_completion<Out>&>) {
      result = run(detail::received<In>(*input), lent);
    } else {
      result = run(detail::received<In>(*input));
    }
    *output = nocter_owned{result.release(), detail::delete_as<Out>};
  }

  result<running_job<In, Out>> claim_for(const nocter_wait* until) {
    nocter_running_job* job = nullptr;
    const nocter_status code = nocter_blocking_claim(handle_.get(), until, &job);
    if (code != NOCTER_OK) return detail::refused<running_job<In, Out>>(code);
    return running_job<In, Out>(job);
  }
  result<std::unique_ptr<Out>> take_for(job_id id, const nocter_wait* until) {
    nocter_owned output{nullptr, nullptr};
    const nocter_status code = nocter_blocking_take(handle_.get(), id.native(), until, &output);
    if (code != NOCTER_OK) return detail::refused<std::unique_ptr<Out>>(code);
    return detail::received<Out>(output);
  }

  result<std::vector<taken<Out>>> take_many_for(std::size_t capacity, const nocter_wait* until) {
    std::vector<nocter_taken> room(capacity);
    std::vector<taken<Out>> some;
    some.reserve(capacity);  // nothing may fail once they are ours
    std::size_t count = 0;
    const nocter_status code = nocter_blocking_take_many(handle_.get(), until, room.data(), capacity, &count);
    if (code != NOCTER_OK) return detail::refused<std::vector<taken<Out>>>(code);
    for (std::size_t i = 0; i < count; i++) {
      some.push_back({job_id(room[i].id), detail::received<Out>(room[i].output)});
    }
    return some;
  }

  detail::handle<nocter_blocking, nocter_blocking_destroy> handle_;
};

}  // namespace nocter

// So that identities can be keys of unordered containers.
/// @cond
template <>
struct std::hash<nocter::job_id> {
  std::size_t operator()(nocter::job_id id) const noexcept {
    return static_cast<std::size_t>(id.native().sequence * 0x9E3779B97F4A7C15u ^ id.native().service);
  }
};
/// @endcond

#endif
