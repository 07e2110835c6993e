/// @file nocter_workers.hpp
/// @brief The library's own threads, as every serve() makes them. Included by nocter.hpp.
#ifndef NOCTER_WORKERS_HPP
#define NOCTER_WORKERS_HPP

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "nocter_base.hpp"

namespace nocter {

/// How threads are made.
struct workers_options {
  unsigned threads = 0;              ///< How many; 0: as many as the service has workers.
  std::size_t stack_size = 0;        ///< Bytes; 0: the system's default.
  std::string name = {};             ///< As the system shows it; empty: "nocter".
  std::function<bool()> start = {};  ///< First on each thread; false ends them all and fails the call.
  std::function<void()> stop = {};   ///< Last on each thread whose start said true.
};

namespace detail {

// What the threads call. It lives until the last of them is past its stop hook: that may be later than the handle, which
// does not wait when one of the threads gives it up.
template <class Run>
struct served {
  served(Run function, workers_options& options)
      : run(std::move(function)), start(std::move(options.start)), stop(std::move(options.stop)) {}

  static void let_go(void* user) {
    auto* self = static_cast<served*>(user);
    if (self->owners.fetch_sub(1) == 1) delete self;
  }
  static nocter_status on_start(void* user) {
    auto* self = static_cast<served*>(user);
    if (self->start && !self->start()) return NOCTER_E_STATE;
    self->owners.fetch_add(1);
    return NOCTER_OK;
  }
  static void on_stop(void* user) {
    struct last {
      void* user;
      ~last() { let_go(user); }
    } const after_all{user};
    auto* self = static_cast<served*>(user);
    if (self->stop) self->stop();
  }

  Run run;
  std::function<bool()> start;
  std::function<void()> stop;
  std::atomic<std::size_t> owners{1};
};

}  // namespace detail

/// A set of threads that serve a service; going out of scope stops them and waits for them.
class workers {
 public:
  /// No further claims; waits until what runs has ended.
  result<void> stop(const wait& until = wait::forever()) {
    return detail::said(nocter_workers_stop(handle_.get(), until.native()));
  }
  /// The same without waiting: status::pending while some threads still run.
  result<void> try_stop() { return detail::said(nocter_workers_stop(handle_.get(), nullptr)); }
  /// The C handle.
  nocter_workers* native() const noexcept { return handle_.get(); }

  /// For the serve() of each part: keeps `run` for as long as threads may call it, and makes them by `call`, which is
  /// given the C options, the detail::served<Run> that the threads are to pass back, and where the handle goes.
  template <class Run, class Call>
  static result<workers> started(Run run, workers_options& options, const Call& call) {
    using served = detail::served<Run>;
    auto* kept = new (std::nothrow) served(std::move(run), options);
    if (kept == nullptr) return detail::no_memory<workers>();
    nocter_workers_options native;
    nocter_workers_options_init(&native, sizeof native);
    native.threads = options.threads;
    native.stack_size = options.stack_size;
    native.name = options.name.empty() ? nullptr : options.name.c_str();
    native.start = served::on_start;
    native.stop = served::on_stop;
    native.user = kept;
    nocter_workers* made = nullptr;
    const nocter_status code = call(native, kept, &made);
    workers threads(made, kept, served::let_go);
    if (code != NOCTER_OK) return detail::refused<workers>(code);
    return threads;
  }

 private:
  workers(nocter_workers* native, void* served, void (*let_go)(void*)) noexcept
      : served_(served, let_go), handle_(native) {}

  std::unique_ptr<void, void (*)(void*)> served_;  // let go after the threads were stopped
  detail::handle<nocter_workers, nocter_workers_destroy> handle_;
};

}  // namespace nocter

#endif
