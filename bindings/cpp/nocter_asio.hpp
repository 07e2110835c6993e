/// @file nocter_asio.hpp
/// @brief nocter on Boost.Asio (1.81 and later): every operation that waits, with any completion token.
///
/// @code
/// boost::asio::io_context context;
/// auto sizes = nocter::async_blocking<std::string, std::size_t>::create(context, {64, 4}).value();
/// auto workers = sizes.service().serve([](std::unique_ptr<std::string> path) {
///                                   return std::make_unique<std::size_t>(slow_size_of(*path));
///                                 }).value();
/// boost::asio::co_spawn(context, [&]() -> boost::asio::awaitable<void> {
///   auto size = co_await sizes.async_run(std::make_unique<std::string>("data.bin"), boost::asio::use_awaitable);
///   use(*size);
/// }, boost::asio::detached);
/// context.run();
/// @endcode
#ifndef NOCTER_ASIO_HPP
#define NOCTER_ASIO_HPP

#include "nocter.hpp"
#include "nocter_asio_blocking.hpp"
#include "nocter_asio_keyed.hpp"
#include "nocter_asio_retirement.hpp"

#endif
