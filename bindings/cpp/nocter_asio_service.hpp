/// @file nocter_asio_service.hpp
/// @brief What the services on Boost.Asio are made of. Included by nocter_asio.hpp.
#ifndef NOCTER_ASIO_SERVICE_HPP
#define NOCTER_ASIO_SERVICE_HPP

#include <boost/asio/async_result.hpp>
#include <memory>
#include <tuple>
#include <utility>

#include "nocter_asio_base.hpp"

namespace nocter::detail {

// An operation that asks its service at each wake, by `bool ask(error_code&, Results&...)`.
template <class Handler, class Ask, class... Results>
class asio_question final : public asio_operation, asio_handler_of<Handler, Results...> {
 public:
  asio_question(Handler&& handler, const boost::asio::any_io_executor& port, awaits what, Ask&& ask)
      : asio_question::asio_handler_of(std::move(handler), port), what_(what), ask_(std::move(ask)) {}
  bool settle() override {
    return std::apply([this](auto&... results) { return ask_(this->error_, results...); }, this->results_);
  }
  void give_up() override { this->error_ = boost::asio::error::operation_aborted; }
  awaits waits_for() const override { return what_; }
  void deliver() override { this->hand_over(); }

 private:
  const awaits what_;
  Ask ask_;
};

template <class Signature>
struct asio_asking;

template <class... Results>
struct asio_asking<void(error_code, Results...)> {
  // Token is a reference where the caller keeps the token.
  template <class Token, class Ask>
  static auto initiate(const std::shared_ptr<asio_port>& port, awaits what, Ask ask, Token& token) {
    return boost::asio::async_initiate<Token, void(error_code, Results...)>(
        [port, what](auto handler, auto question) {
          using operation = asio_question<decltype(handler), decltype(question), Results...>;
          port->template begin<operation>(std::move(handler), what, std::move(question));
        },
        token, std::move(ask));
  }
};

// The answer of a call that does not wait: whether it is one, with what it gave.
template <class Result, class Value>
bool asio_answered(Result&& answer, status not_yet, error_code& error, Value& value) {
  if (answer.status() == not_yet) return false;
  if (answer.ok()) value = *std::forward<Result>(answer);
  if (!answer.ok()) error = answer.status();
  return true;
}
inline bool asio_answered(const result<void>& answer, status not_yet, error_code& error) {
  if (answer.status() == not_yet) return false;
  if (!answer.ok()) error = answer.status();
  return true;
}

// A service that names nobody: whoever waits asks at each wake.
template <class Service>
class asio_plain_board final : public asio_switchboard {
 public:
  asio_plain_board(eventfd descriptor, std::shared_ptr<asio_deferred> work, Service made)
      : asio_switchboard(std::move(descriptor), std::move(work)), service(std::move(made)) {}
  Service service;

 private:
  void refresh(asio_ended& ended) override { settle_others(ended); }
};

template <class Board, class Service, class Options>
result<std::shared_ptr<Board>> asio_board_of(Options options) {
  using made = result<std::shared_ptr<Board>>;
  if (options.waiters.native().wake != nullptr)
    return made(answer(NOCTER_E_ARGUMENT, "waiters must be empty: they are what is watched"));
  if (options.work.exhausted()) return no_memory<std::shared_ptr<Board>>();
  auto watched = eventfd::create();
  if (!watched) return std::move(watched).template rejected<std::shared_ptr<Board>>();
  std::shared_ptr<asio_deferred> work;
  if (options.work.native().wake != nullptr) {
    work = std::make_shared<asio_deferred>(std::move(options.work));
    options.work = notifier([work] { work->wake(); });
  }
  options.waiters = watched->notifier();
  auto service = Service::create(std::move(options));
  if (!service) return std::move(service).template rejected<std::shared_ptr<Board>>();
  return std::make_shared<Board>(std::move(*watched), std::move(work), std::move(*service));
}

// The one that a user holds: going out of scope ends what waits.
class asio_port_handle {
 public:
  explicit asio_port_handle(std::shared_ptr<asio_port> port) noexcept : port_(std::move(port)) {}
  asio_port_handle(asio_port_handle&&) = default;
  asio_port_handle& operator=(asio_port_handle&& other) noexcept {
    std::swap(port_, other.port_);
    return *this;
  }
  ~asio_port_handle() {
    if (port_) port_->close();
  }
  asio_port* operator->() const noexcept { return port_.get(); }
  const std::shared_ptr<asio_port>& shared() const noexcept { return port_; }

 private:
  std::shared_ptr<asio_port> port_;
};

}  // namespace nocter::detail

#endif
