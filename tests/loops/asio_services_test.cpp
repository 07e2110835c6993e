// Retirement and the keyed queue on Boost.Asio: places, cleanups and ends are awaited, and no thread blocks for them.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include "asio_support.hpp"

using namespace nocter_tests;
using asio::use_awaitable;
using nocter::status;
using Retirement = nocter::async_retirement<Counted>;

BOOST_FIXTURE_TEST_SUITE(asio_services, AsioTest)

BOOST_AUTO_TEST_CASE(ret_01_ret_08_bnd_05_places_and_cleanups_of_many_coroutines, *label("BND-05")) {
  asio::io_context context;
  auto places = Retirement::create(context, {3, 2}).value();
  auto cleaners = places.service().serve().value();
  int done = 0;
  const auto one = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 20; i++) {
      auto owner = (co_await places.async_reserve(use_awaitable)).attach(counted(i));
      const auto id = owner.retire().value();
      BOOST_CHECK_EQUAL(co_await places.async_take(id, use_awaitable), 0);
      done++;
    }
  };
  for (int i = 0; i < 30; i++) asio::co_spawn(context, one(), rethrow);
  run(context);
  BOOST_CHECK_EQUAL(done, 600);
  error_code drained = status::pending;
  places.service().close();
  places.async_drained([&](error_code error) { drained = error; });
  error_code closed;
  places.async_reserve([&](error_code error, nocter::permit<Counted>) { closed = error; });
  run(context);
  BOOST_CHECK(!drained);
  BOOST_CHECK(closed == status::closed);
  BOOST_CHECK_GT(places.service().count().value().saturated, 0u);
}

BOOST_AUTO_TEST_CASE(ret_08_a_wait_that_is_cancelled_leaves_the_retirement_to_be_taken, *label("BND-05")) {
  asio::io_context context;
  auto places = Retirement::create(context, {2, 1}).value();
  auto owner = places.service().reserve().value().attach(counted(1));
  const auto id = owner.retire().value();
  asio::cancellation_signal signal;
  error_code cancelled;
  const auto note = [&](error_code error, std::int32_t) { cancelled = error; };
  places.async_take(id, asio::bind_cancellation_slot(signal.slot(), note));
  context.poll();
  signal.emit(asio::cancellation_type::terminal);
  run(context);
  BOOST_CHECK(cancelled == asio::error::operation_aborted);
  auto cleanup = places.service().try_claim().value();
  cleanup.begin().value().reset();
  auto again = places.async_take(id, asio::use_future);
  context.restart();
  context.poll();
  BOOST_CHECK(cleanup.complete(5).ok());
  run(context);
  BOOST_CHECK_EQUAL(again.get(), 5);
  error_code unknown;
  places.async_take(id, [&](error_code error, std::int32_t) { unknown = error; });
  run(context);
  BOOST_CHECK(unknown == status::e_unknown);
}

BOOST_AUTO_TEST_CASE(key_01_bnd_05_a_full_queue_is_waited_for, *label("BND-05")) {
  asio::io_context context;
  auto queue = nocter::async_keyed::create(context, {2, 1}).value();
  std::vector<std::string> order;
  const auto note = [&](std::string key) {
    return [&, key](error_code error, nocter::notified) {
      BOOST_CHECK(!error);
      order.push_back(key);
    };
  };
  for (const char* key : {"a", "b", "c", "a", "d"}) queue.async_notify(key, note(key));
  context.poll();
  BOOST_CHECK((order == std::vector<std::string>{"a", "b", "a"}));  // the second "a" needs no place of its own
  for (const char* key : {"c", "d"}) {
    BOOST_CHECK(queue.service().try_claim().value().complete().ok());
    context.poll();
    BOOST_CHECK_EQUAL(order.back(), key);
  }
  error_code drained = status::pending, closed;
  queue.async_notify("e", [&](error_code error, nocter::notified) { closed = error; });
  queue.service().close(nocter::close_mode::drain);
  queue.async_drained([&](error_code error) { drained = error; });
  context.restart();
  context.poll();
  BOOST_CHECK(drained == status::pending);
  while (auto pass = queue.service().try_claim()) BOOST_CHECK(pass->complete().ok());
  run(context);
  BOOST_CHECK(!drained);
  BOOST_CHECK(closed == status::closed);
}

BOOST_AUTO_TEST_CASE(gen_01_contexts_and_objects_that_go_first, *label("GEN-01")) {
  int told = 0;
  std::optional<Retirement> places;
  std::optional<nocter::async_keyed> queue;
  {
    asio::io_context context;
    places.emplace(Retirement::create(context, {1, 1}).value());
    queue.emplace(nocter::async_keyed::create(context, {1, 1}).value());
    BOOST_CHECK(queue->service().notify("a").ok());
    auto held = places->service().reserve().value();
    places->async_reserve([&](error_code, auto) { told++; });
    places->async_drained([&](error_code) { told++; });
    queue->async_notify("b", [&](error_code, auto) { told++; });
    context.poll();
    auto other = places->on(context.get_executor()).value();
    int aborted = 0;
    {
      auto gone = std::move(other);
      other = places->on(context.get_executor()).value();
      gone.async_reserve([&](error_code error, auto) { aborted += error == asio::error::operation_aborted; });
    }
    context.poll();
    BOOST_CHECK_EQUAL(aborted, 1);
  }
  BOOST_CHECK_EQUAL(told, 0);
  BOOST_CHECK(places->service().reserve().ok());
  BOOST_CHECK(places->service().count().value().reservations == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
