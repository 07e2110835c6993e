/// @file nocter_asio_blocking.hpp
/// @brief Blocking operations on Boost.Asio: submit, take and run with any completion token. Included by nocter_asio.hpp.
#ifndef NOCTER_ASIO_BLOCKING_HPP
#define NOCTER_ASIO_BLOCKING_HPP

#include <boost/asio/execution_context.hpp>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "nocter_asio_service.hpp"
#include "nocter_blocking.hpp"

namespace nocter {

namespace detail {

template <class In, class Out>
class asio_blocking_board final : public asio_switchboard {
 public:
  asio_blocking_board(eventfd descriptor, std::shared_ptr<asio_deferred> work, blocking<In, Out> made)
      : asio_switchboard(std::move(descriptor), std::move(work)), service(std::move(made)) {}

  std::uint64_t ended_here = 0;  // how often an operation of ours took a job or cancelled one
  bool shut_down = false;
  blocking<In, Out> service;

 private:
  void refresh(asio_ended& ended) override {
    nocter_job_id ids[64];
    std::size_t count = 0;
    do {
      if (nocter_blocking_completed(service.native(), ids, 64, &count) != NOCTER_OK) break;
      for (std::size_t i = 0; i < count; i++) settle_named({ids[i].service, ids[i].sequence}, ended);
    } while (count == 64);
    settle_others(ended);
    if (anything_named() && ended_elsewhere()) settle_all_named(ended);
  }
  // Shutdown, a cancel or a take by other means: the service names no job then, and whoever waits for it must hear.
  bool ended_elsewhere() {
    nocter_blocking_counts now = NOCTER_BLOCKING_COUNTS_INIT;
    if (nocter_blocking_count(service.native(), &now) != NOCTER_OK) return true;
    const std::uint64_t ended =
        now.taken + now.cancelled_queued + now.cancelled_completed + now.abandoned + now.abandoned_retired;
    const std::uint64_t before = std::exchange(elsewhere_, ended - ended_here);
    shut_down = now.accepting == 0;
    return elsewhere_ != before || shut_down;
  }
  std::uint64_t elsewhere_ = 0;
};

// The part of an operation that waits for a job.
template <class In, class Out>
class asio_job_wait {
 public:
  explicit asio_job_wait(asio_blocking_board<In, Out>& board) noexcept : board_(board) {}

  bool settle(nocter_job_id id, error_code& error, std::unique_ptr<Out>& output) {
    nocter_owned value{nullptr, nullptr};
    nocter_status code = nocter_blocking_take(board_.service.native(), id, nullptr, &value);
    if (code == NOCTER_PENDING) {
      waited_ = true;
      return false;
    }
    if (code == NOCTER_E_UNKNOWN && waited_ && board_.shut_down) code = NOCTER_CLOSED;  // as a wait in a thread ends
    if (code == NOCTER_OK || code == NOCTER_WORKER_LOST) board_.ended_here++;
    if (code == NOCTER_OK) output = received<Out>(value);
    if (code != NOCTER_OK) error = error_of(code);
    return true;
  }
  // A result that was first is delivered.
  void give_up(nocter_job_id id, error_code& error, std::unique_ptr<Out>& output) {
    nocter_job_state was = 0;
    nocter_owned value{nullptr, nullptr};
    const nocter_status code = nocter_blocking_cancel(board_.service.native(), id, &was, &value);
    error = boost::asio::error::operation_aborted;
    if (code != NOCTER_OK) {
      error = error_of(code);
      return;
    }
    board_.ended_here++;
    if (was == NOCTER_JOB_QUEUED) reclaimed_ = received<In>(value);
    if (was != NOCTER_JOB_COMPLETED) return;
    error = value.drop == nullptr ? error_of(NOCTER_WORKER_LOST) : error_code();
    output = received<Out>(value);
  }

 private:
  asio_blocking_board<In, Out>& board_;
  bool waited_ = false;
  std::unique_ptr<In> reclaimed_;  // dropped with the operation, after the lock
};

inline asio_name name_of_job(nocter_job_id id) noexcept { return {id.service, id.sequence}; }

// take: the job is known from the start.
template <class In, class Out, class Handler>
class asio_take final : public asio_operation, asio_handler_of<Handler, std::unique_ptr<Out>> {
 public:
  asio_take(Handler&& handler, const boost::asio::any_io_executor& executor, asio_blocking_board<In, Out>& board,
            job_id id)
      : asio_take::asio_handler_of(std::move(handler), executor), wait_(board), id_(id.native()) {}
  bool settle() override { return wait_.settle(id_, this->error_, std::get<0>(this->results_)); }
  void give_up() override { wait_.give_up(id_, this->error_, std::get<0>(this->results_)); }
  awaits waits_for() const override { return awaits::name; }
  asio_name name() const override { return name_of_job(id_); }
  void deliver() override { this->hand_over(); }

 private:
  asio_job_wait<In, Out> wait_;
  const nocter_job_id id_;
};

// submit: waits for a place.
template <class In, class Out, class Handler>
class asio_submit final : public asio_operation, asio_handler_of<Handler, job_id> {
 public:
  asio_submit(Handler&& handler, const boost::asio::any_io_executor& executor, asio_blocking_board<In, Out>& board,
              std::unique_ptr<In>&& input)
      : asio_submit::asio_handler_of(std::move(handler), executor), board_(board), input_(std::move(input)) {}
  bool settle() override {
    const result<job_id> id = board_.service.submit(std::move(input_));
    if (id.status() == status::saturated) return false;
    if (id) std::get<0>(this->results_) = *id;
    if (!id) this->error_ = id.status();
    return true;
  }
  void give_up() override { this->error_ = boost::asio::error::operation_aborted; }
  awaits waits_for() const override { return awaits::place; }
  void deliver() override { this->hand_over(); }

 private:
  asio_blocking_board<In, Out>& board_;
  std::unique_ptr<In> input_;
};

// run: waits for a place, then for the job.
template <class In, class Out, class Handler>
class asio_run final : public asio_operation, asio_handler_of<Handler, std::unique_ptr<Out>> {
 public:
  asio_run(Handler&& handler, const boost::asio::any_io_executor& executor, asio_blocking_board<In, Out>& board,
           std::unique_ptr<In>&& input)
      : asio_run::asio_handler_of(std::move(handler), executor),
        board_(board),
        wait_(board),
        input_(std::move(input)) {}
  bool settle() override {
    if (!submitted_) {
      const result<job_id> id = board_.service.submit(std::move(input_));
      if (id.status() == status::saturated) return false;
      if (!id) {
        this->error_ = id.status();
        return true;
      }
      submitted_ = true;
      id_ = id->native();
    }
    return wait_.settle(id_, this->error_, std::get<0>(this->results_));
  }
  void give_up() override {
    if (submitted_) return wait_.give_up(id_, this->error_, std::get<0>(this->results_));
    this->error_ = boost::asio::error::operation_aborted;
  }
  awaits waits_for() const override { return submitted_ ? awaits::name : awaits::place; }
  asio_name name() const override { return name_of_job(id_); }
  void deliver() override { this->hand_over(); }

 private:
  asio_blocking_board<In, Out>& board_;
  asio_job_wait<In, Out> wait_;
  std::unique_ptr<In> input_;
  bool submitted_ = false;
  nocter_job_id id_{};
};

}  // namespace detail

/// A bounded service of jobs whose results are awaited on an Asio execution context, with any completion token.
///
/// Every operation is given what it needs by value, and its handler is called by way of this executor on the one associated with
/// the handler, never inside the call that began the operation or cancelled it. Nothing here blocks a thread. An operation may
/// be begun on any thread. While one waits, the context has work.
///
/// Errors: nocter::status (worker_lost, closed, e_unknown and so on), or operation_aborted after a cancellation. Emitting one,
/// of whatever type, asks nocter for cancel: a job that nobody has begun is taken back, one that runs is abandoned, and the
/// output of one that has ended is delivered all the same.
///
/// When the context is destroyed, or this object, what waits here is cancelled likewise; in the first case nobody is told.
template <class In, class Out>
class async_blocking {
 public:
  /// Makes a service, and watches it on this executor's context. Its `waiters` must be empty: they are what is watched.
  static result<async_blocking> create(const boost::asio::any_io_executor& executor, blocking_options options = {}) {
    auto made = detail::asio_board_of<board, blocking<In, Out>>(std::move(options));
    if (!made) return std::move(made).template rejected<async_blocking>();
    return made_of(executor, std::move(*made));
  }
  /// The same on a context, for example an io_context.
  template <class Context, class = std::enable_if_t<std::is_convertible_v<Context&, boost::asio::execution_context&>>>
  static result<async_blocking> create(Context& context, blocking_options options = {}) {
    return create(boost::asio::any_io_executor(context.get_executor()), std::move(options));
  }
  /// The same service on the context of another executor. Each of the contexts is enough to keep all of them going.
  result<async_blocking> on(const boost::asio::any_io_executor& executor) const { return made_of(executor, board_); }

  /// The service itself: for serve(), claim(), cancel(), shutdown(), count(). It lives as long as the last async_blocking of it.
  blocking<In, Out>& service() const noexcept { return board_->service; }
  /// Where handlers run that have no executor of their own.
  const boost::asio::any_io_executor& get_executor() const noexcept { return port_->executor(); }

  /// Hands a job in and waits for its output: `void(error_code, std::unique_ptr<Out>)`. Waits for a place first where all are
  /// taken, in the order of the calls.
  template <class Token>
  auto async_run(std::unique_ptr<In> input, Token&& token) {
    return initiate<detail::asio_run, void(detail::error_code, std::unique_ptr<Out>), Token>(token, std::move(input));
  }
  /// Hands a job in, waiting for a place where all are taken: `void(error_code, job_id)`. An input that is not accepted is
  /// dropped; to keep it, use `service().submit` and async_wait_epoch().
  template <class Token>
  auto async_submit(std::unique_ptr<In> input, Token&& token) {
    return initiate<detail::asio_submit, void(detail::error_code, job_id), Token>(token, std::move(input));
  }
  /// Waits for a job to end; its output: `void(error_code, std::unique_ptr<Out>)`.
  template <class Token>
  auto async_take(job_id id, Token&& token) {
    return initiate<detail::asio_take, void(detail::error_code, std::unique_ptr<Out>), Token>(token, id);
  }
  /// Waits until the capacity epoch is later than this one; the epoch then: `void(error_code, epoch)`.
  template <class Token>
  auto async_wait_epoch(epoch later_than, Token&& token) {
    const auto ask = [on = board_.get(), later_than](detail::error_code& error, epoch& now) {
      nocter_epoch seen{};
      const nocter_status code = nocter_blocking_wait_epoch(on->service.native(), later_than.native(), nullptr, &seen);
      if (code == NOCTER_PENDING) return false;
      now = epoch(seen);
      if (code != NOCTER_OK) error = detail::error_of(code);
      return true;
    };
    using asking = detail::asio_asking<void(detail::error_code, epoch)>;
    return asking::template initiate<Token>(port_.shared(), detail::awaits::change, ask, token);
  }
  /// After `service().shutdown()`: waits until nothing runs any more: `void(error_code)`.
  template <class Token>
  auto async_drained(Token&& token) {
    const auto ask = [on = board_.get()](detail::error_code& error) {
      const nocter_status code = nocter_blocking_drained(on->service.native(), nullptr);
      if (code == NOCTER_PENDING) return false;
      if (code != NOCTER_OK) error = detail::error_of(code);
      return true;
    };
    using asking = detail::asio_asking<void(detail::error_code)>;
    return asking::template initiate<Token>(port_.shared(), detail::awaits::change, ask, token);
  }

 private:
  using board = detail::asio_blocking_board<In, Out>;

  async_blocking(std::shared_ptr<board> of, std::shared_ptr<detail::asio_port> port) noexcept
      : board_(std::move(of)), port_(std::move(port)) {}
  static result<async_blocking> made_of(const boost::asio::any_io_executor& executor, std::shared_ptr<board> of) {
    auto port = detail::asio_port::make(executor, of);
    if (!port) return std::move(port).template rejected<async_blocking>();
    return async_blocking(std::move(of), std::move(*port));
  }

  // Token is a reference where the caller keeps the token.
  template <template <class, class, class> class Operation, class Signature, class Token, class... Arguments>
  auto initiate(Token& token, Arguments&&... arguments) {
    return boost::asio::async_initiate<Token, Signature>(
        [port = port_.shared(), on = board_](auto handler, auto... given) {
          using handler_type = decltype(handler);
          port->template begin<Operation<In, Out, handler_type>>(std::move(handler), *on, std::move(given)...);
        },
        token, std::forward<Arguments>(arguments)...);
  }

  std::shared_ptr<board> board_;
  detail::asio_port_handle port_;
};

}  // namespace nocter

#endif
