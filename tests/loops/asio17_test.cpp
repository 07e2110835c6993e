// The header alone, as C++17 and without coroutines.
#include <nocter_asio.hpp>
// The header comes first: it needs nothing before it.
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_CASE(bnd_05_callbacks_and_futures_as_cpp17, *boost::unit_test::label("BND-05")) {
  boost::asio::io_context context;
  auto squares = nocter::async_blocking<int, int>::create(context, {4, 1}).value();
  auto workers = squares.service()
                     .serve([](std::unique_ptr<int> number) { return std::make_unique<int>(*number * *number); })
                     .value();
  int called = 0;
  squares.async_run(std::make_unique<int>(3), [&](boost::system::error_code error, std::unique_ptr<int> square) {
    BOOST_TEST(!error);
    called = *square;
  });
  auto future = squares.async_run(std::make_unique<int>(4), boost::asio::use_future);
  context.run();
  BOOST_TEST(called == 9);
  BOOST_TEST(*future.get() == 16);
}
