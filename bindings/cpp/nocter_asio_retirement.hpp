/// @file nocter_asio_retirement.hpp
/// @brief Retirement on Boost.Asio: wait for a place, for a cleanup, for the end, with any completion token. Included by
/// nocter_asio.hpp.
#ifndef NOCTER_ASIO_RETIREMENT_HPP
#define NOCTER_ASIO_RETIREMENT_HPP

#include <boost/asio/execution_context.hpp>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "nocter_asio_service.hpp"
#include "nocter_retirement.hpp"

namespace nocter {

/// Retirement whose waits are awaited on an Asio execution context. What is said of async_blocking holds here too, but that a
/// cancellation changes nothing in the service: whoever gave a wait up may begin it anew.
template <class T>
class async_retirement {
 public:
  /// Makes a service, and watches it on this executor's context. Its `waiters` must be empty: they are what is watched.
  static result<async_retirement> create(const boost::asio::any_io_executor& executor,
                                         retirement_options options = {}) {
    auto made = detail::asio_board_of<board, retirement<T>>(std::move(options));
    if (!made) return std::move(made).template rejected<async_retirement>();
    return made_of(executor, std::move(*made));
  }
  /// The same on a context, for example an io_context.
  template <class Context, class = std::enable_if_t<std::is_convertible_v<Context&, boost::asio::execution_context&>>>
  static result<async_retirement> create(Context& context, retirement_options options = {}) {
    return create(boost::asio::any_io_executor(context.get_executor()), std::move(options));
  }
  /// The same service on the context of another executor.
  result<async_retirement> on(const boost::asio::any_io_executor& executor) const { return made_of(executor, board_); }

  /// The service itself. It lives as long as the last async_retirement of it.
  retirement<T>& service() const noexcept { return board_->service; }
  /// Where handlers run that have no executor of their own.
  const boost::asio::any_io_executor& get_executor() const noexcept { return port_->executor(); }

  /// Sets a place apart, waiting for one in the order of the calls: `void(error_code, permit<T>)`.
  template <class Token>
  auto async_reserve(Token&& token) {
    const auto ask = [on = board_.get()](detail::error_code& error, permit<T>& place) {
      return detail::asio_answered(on->service.reserve(), status::saturated, error, place);
    };
    using asking = detail::asio_asking<void(detail::error_code, permit<T>)>;
    return asking::template initiate<Token>(port_.shared(), detail::awaits::place, ask, token);
  }
  /// Waits for a cleanup to end; the code it ended with: `void(error_code, std::int32_t)`.
  template <class Token>
  auto async_take(retirement_id id, Token&& token) {
    const auto ask = [on = board_.get(), id](detail::error_code& error, std::int32_t& code) {
      return detail::asio_answered(on->service.try_take(id), status::pending, error, code);
    };
    using asking = detail::asio_asking<void(detail::error_code, std::int32_t)>;
    return asking::template initiate<Token>(port_.shared(), detail::awaits::change, ask, token);
  }
  /// Waits until no place is occupied; after `service().close()` that is final: `void(error_code)`.
  template <class Token>
  auto async_drained(Token&& token) {
    const auto ask = [on = board_.get()](detail::error_code& error) {
      return detail::asio_answered(on->service.try_drained(), status::pending, error);
    };
    using asking = detail::asio_asking<void(detail::error_code)>;
    return asking::template initiate<Token>(port_.shared(), detail::awaits::change, ask, token);
  }

 private:
  using board = detail::asio_plain_board<retirement<T>>;

  async_retirement(std::shared_ptr<board> of, std::shared_ptr<detail::asio_port> port) noexcept
      : board_(std::move(of)), port_(std::move(port)) {}
  static result<async_retirement> made_of(const boost::asio::any_io_executor& executor, std::shared_ptr<board> of) {
    auto port = detail::asio_port::make(executor, of);
    if (!port) return std::move(port).template rejected<async_retirement>();
    return async_retirement(std::move(of), std::move(*port));
  }

  std::shared_ptr<board> board_;
  detail::asio_port_handle port_;
};

}  // namespace nocter

#endif
