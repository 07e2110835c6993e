/// @file nocter.hpp
/// @brief nocter for C++17 and later: handles and guards that end by themselves, typed payloads, no state of its own.
///
/// Every call returns a @ref nocter::result and throws nothing; `.value()` is the way to ask for an exception. Handles
/// and guards move and do not copy. A function that takes a `std::unique_ptr&&` empties it when, and only when, the
/// service took the value over. Everything here works without exceptions and without RTTI too.
///
/// @code
/// auto service = nocter::blocking<std::string, std::size_t>::create({64, 4}).value();
/// auto workers = service.serve([](std::unique_ptr<std::string> path) {
///                          return std::make_unique<std::size_t>(slow_size_of(*path));
///                        }).value();
/// auto id = service.submit(std::make_unique<std::string>("data.bin")).value();
/// auto size = service.take(id, std::chrono::seconds(5));
/// if (size) use(**size);
/// else log(size.message());
/// @endcode
#ifndef NOCTER_HPP
#define NOCTER_HPP

#include "nocter_base.hpp"
#include "nocter_blocking.hpp"
#include "nocter_keyed.hpp"
#include "nocter_retirement.hpp"
#include "nocter_tasks.hpp"
#include "nocter_workers.hpp"

#endif
