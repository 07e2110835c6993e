/// @file nocter_asio_keyed.hpp
/// @brief The keyed queue on Boost.Asio: notify where the queue is full, and wait for its end, with any completion token.
/// Included by nocter_asio.hpp.
#ifndef NOCTER_ASIO_KEYED_HPP
#define NOCTER_ASIO_KEYED_HPP

#include <boost/asio/execution_context.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "nocter_asio_service.hpp"
#include "nocter_keyed.hpp"

namespace nocter {

/// A keyed queue whose waits are awaited on an Asio execution context. What is said of async_blocking holds here too, but that
/// a cancellation changes nothing in the queue. Passes are made by threads: `service().serve()`.
class async_keyed {
 public:
  /// Makes a queue, and watches it on this executor's context. Its `waiters` must be empty: they are what is watched.
  static result<async_keyed> create(const boost::asio::any_io_executor& executor, keyed_options options = {}) {
    auto made = detail::asio_board_of<board, keyed>(std::move(options));
    if (!made) return std::move(made).rejected<async_keyed>();
    return made_of(executor, std::move(*made));
  }
  /// The same on a context, for example an io_context.
  template <class Context, class = std::enable_if_t<std::is_convertible_v<Context&, boost::asio::execution_context&>>>
  static result<async_keyed> create(Context& context, keyed_options options = {}) {
    return create(boost::asio::any_io_executor(context.get_executor()), std::move(options));
  }
  /// The same queue on the context of another executor.
  result<async_keyed> on(const boost::asio::any_io_executor& executor) const { return made_of(executor, board_); }

  /// The queue itself. It lives as long as the last async_keyed of it.
  keyed& service() const noexcept { return board_->service; }
  /// Where handlers run that have no executor of their own.
  const boost::asio::any_io_executor& get_executor() const noexcept { return port_->executor(); }

  /// Says that a key is due, waiting for a place, in the order of the calls, when it is a new one and the queue is full:
  /// `void(error_code, notified)`.
  template <class Token>
  auto async_notify(std::string key, Token&& token) {
    const auto ask = [on = board_.get(), key = std::move(key)](detail::error_code& error, notified& said) {
      return detail::asio_answered(on->service.notify(key), status::saturated, error, said);
    };
    using asking = detail::asio_asking<void(detail::error_code, notified)>;
    return asking::initiate<Token>(port_.shared(), detail::awaits::place, ask, token);
  }
  /// After `service().close()`: waits until no key is left and no pass runs: `void(error_code)`.
  template <class Token>
  auto async_drained(Token&& token) {
    const auto ask = [on = board_.get()](detail::error_code& error) {
      return detail::asio_answered(on->service.try_drained(), status::pending, error);
    };
    using asking = detail::asio_asking<void(detail::error_code)>;
    return asking::initiate<Token>(port_.shared(), detail::awaits::change, ask, token);
  }

 private:
  using board = detail::asio_plain_board<keyed>;

  async_keyed(std::shared_ptr<board> of, std::shared_ptr<detail::asio_port> port) noexcept
      : board_(std::move(of)), port_(std::move(port)) {}
  static result<async_keyed> made_of(const boost::asio::any_io_executor& executor, std::shared_ptr<board> of) {
    auto port = detail::asio_port::make(executor, of);
    if (!port) return std::move(port).rejected<async_keyed>();
    return async_keyed(std::move(of), std::move(*port));
  }

  std::shared_ptr<board> board_;
  detail::asio_port_handle port_;
};

}  // namespace nocter

#endif
