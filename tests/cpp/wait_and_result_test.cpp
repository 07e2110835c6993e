// Results, waits, interrupts, the signal, the eventfd, notifiers.
#include <poll.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <limits>
#include <nocter.hpp>
#include <string>
#include <thread>
#include <type_traits>

namespace unit_test = boost::unit_test;
using namespace std::chrono_literals;
using nocter::status;

BOOST_AUTO_TEST_SUITE(wait_and_result)

// Handles and guards have one owner; results may not be thrown away.
static_assert(!std::is_copy_constructible_v<nocter::interrupt> &&
              std::is_nothrow_move_constructible_v<nocter::interrupt>);
static_assert(!std::is_copy_constructible_v<nocter::signal> && std::is_nothrow_move_assignable_v<nocter::signal>);
static_assert(!std::is_copy_constructible_v<nocter::eventfd> && std::is_nothrow_move_constructible_v<nocter::eventfd>);
static_assert(!std::is_copy_constructible_v<nocter::notifier> &&
              std::is_nothrow_move_constructible_v<nocter::notifier>);

BOOST_AUTO_TEST_CASE(bnd_05_every_status_has_the_number_and_the_name_of_the_c_one, *unit_test::label("BND-05")) {
  BOOST_TEST(nocter::name_of(status::ok) == "NOCTER_OK");
  BOOST_TEST(nocter::name_of(status::cancelled) == "NOCTER_CANCELLED");
  for (int code = NOCTER_E_INTERNAL; code <= NOCTER_CANCELLED; code++) {
    BOOST_TEST(nocter::name_of(static_cast<status>(code)) == nocter_status_name(code));
  }
  BOOST_TEST(nocter::version_number() == std::uint32_t{NOCTER_VERSION_NUMBER});
  BOOST_TEST(nocter::version() == nocter_version());
}

BOOST_AUTO_TEST_CASE(bnd_05_value_throws_what_went_wrong_and_nothing_else_throws, *unit_test::label("BND-05")) {
  auto signal = nocter::signal::create().value();
  auto nothing = signal.wait(signal.version() + 1000, 0ms);  // a version it has not had
  BOOST_TEST(!nothing.ok());
  BOOST_TEST(!static_cast<bool>(nothing));
  BOOST_TEST((nothing.status() == status::e_argument));
  BOOST_TEST(!nothing.message().empty());
  BOOST_TEST(nothing.message() != "NOCTER_E_ARGUMENT");
  const std::string message(nothing.message());
  BOOST_TEST((signal.wait(0, 0ms).status() == status::e_argument));  // its message does not replace the first
  BOOST_TEST(nothing.message() == message);
  BOOST_CHECK_EXCEPTION(nothing.value(), nocter::error, [&](const nocter::error& error) {
    return error.code() == status::e_argument && error.what() == "NOCTER_E_ARGUMENT: " + message;
  });
  // An outcome has no message of its own.
  auto late = signal.wait(signal.version(), 0ms);
  BOOST_TEST(late.message() == "NOCTER_TIMEOUT");
  BOOST_CHECK_EXCEPTION(std::move(late).value(), nocter::error, [](const nocter::error& error) {
    return error.code() == status::timeout && std::string(error.what()) == "NOCTER_TIMEOUT";
  });
}

BOOST_AUTO_TEST_CASE(gen_07_deadlines_come_from_chrono, *unit_test::label("GEN-07") * unit_test::label("BND-05")) {
  const std::int64_t before = nocter_now_ns();
  const std::int64_t in_an_hour = nocter::wait(1h).native()->deadline_ns;
  const std::int64_t after = nocter_now_ns();
  BOOST_TEST(in_an_hour >= before + 3'600'000'000'000);
  BOOST_TEST(in_an_hour <= after + 3'600'000'000'000);

  const auto then = std::chrono::steady_clock::now() + 5s;
  BOOST_TEST(nocter::wait(then).native()->deadline_ns == then.time_since_epoch() / 1ns);
  BOOST_TEST(nocter::wait(std::chrono::steady_clock::time_point::min()).native()->deadline_ns == 0);

  BOOST_TEST(nocter::wait::forever().native()->deadline_ns == NOCTER_FOREVER);
  BOOST_TEST(nocter::wait(std::chrono::hours::max()).native()->deadline_ns == NOCTER_FOREVER);
  BOOST_TEST(nocter::wait(std::chrono::nanoseconds::max()).native()->deadline_ns == NOCTER_FOREVER);
  const std::chrono::duration<double> endless(std::numeric_limits<double>::infinity());
  BOOST_TEST(nocter::wait(endless).native()->deadline_ns == NOCTER_FOREVER);
  BOOST_TEST(nocter::wait(-1h).native()->deadline_ns == 0);
  BOOST_TEST(nocter::wait(std::chrono::hours::min()).native()->deadline_ns == 0);
  const std::chrono::duration<double> a_little(1e-10);  // rounded up: never earlier than asked
  BOOST_TEST(nocter::wait(a_little).native()->deadline_ns > before);
}

BOOST_AUTO_TEST_CASE(gen_07_a_wait_lasts_as_long_as_it_says, *unit_test::label("GEN-07")) {
  auto signal = nocter::signal::create().value();
  const auto before = std::chrono::steady_clock::now();
  BOOST_TEST((signal.wait(signal.version(), 30ms).status() == status::timeout));
  BOOST_TEST((std::chrono::steady_clock::now() - before >= 30ms));
}

BOOST_AUTO_TEST_CASE(gen_07_an_interrupt_ends_the_waits_that_carry_it, *unit_test::label("GEN-07")) {
  auto interrupt = nocter::interrupt::create().value();
  auto signal = nocter::signal::create().value();
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    interrupt.raise();
  });
  const auto outcome = signal.wait(signal.version(), nocter::wait::forever().with(interrupt));
  other.join();
  BOOST_TEST((outcome.status() == status::interrupted));
  BOOST_TEST(interrupt.raised());
  BOOST_TEST(nocter::interrupt_view(interrupt).raised());
  interrupt.clear();
  BOOST_TEST(!interrupt.raised());
  BOOST_TEST((signal.wait(signal.version(), nocter::wait(1ms).with(interrupt)).status() == status::timeout));
  // A moved handle is the same interrupt.
  nocter::interrupt moved = std::move(interrupt);
  moved.raise();
  BOOST_TEST((signal.wait(signal.version(), nocter::wait(1h).with(moved)).status() == status::interrupted));
}

BOOST_AUTO_TEST_CASE(sig_01_publish_is_seen_by_who_read_the_version_before,
                     *unit_test::label("SIG-01") * unit_test::label("BND-05")) {
  auto signal = nocter::signal::create().value();
  const std::uint64_t seen = signal.version();
  BOOST_TEST((signal.try_wait(seen).status() == status::pending));
  const std::uint64_t published = signal.publish().value();
  BOOST_TEST(published != seen);
  BOOST_TEST(signal.version() == published);
  BOOST_TEST(signal.try_wait(seen).value() == published);
  BOOST_TEST(signal.wait(seen).value() == published);
}

BOOST_AUTO_TEST_CASE(sig_04_close_is_seen_by_everybody, *unit_test::label("SIG-04")) {
  auto signal = nocter::signal::create().value();
  std::thread other([&] {
    std::this_thread::sleep_for(10ms);
    signal.close();
  });
  BOOST_TEST((signal.wait(signal.version()).status() == status::closed));
  other.join();
  BOOST_TEST((signal.publish().status() == status::closed));
}

BOOST_AUTO_TEST_CASE(gen_04_a_signal_and_an_eventfd_can_be_notifiers, *unit_test::label("GEN-04")) {
  auto signal = nocter::signal::create().value();
  auto eventfd = nocter::eventfd::create().value();
  const std::uint64_t before = signal.version();
  auto readable = [&] {
    pollfd entry{eventfd.fd(), POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  };
  BOOST_TEST(!readable());
  {
    auto service = nocter::blocking<int, int>::create({1, 1, signal.notifier(), eventfd.notifier()}).value();
    BOOST_TEST((service.try_claim().status() == status::empty));
    auto id = service.submit(std::make_unique<int>(1)).value();
    BOOST_TEST(readable());  // a claim that found nothing may find something
    eventfd.clear();
    BOOST_TEST(!readable());
    auto begun = service.claim().value().begin().value();
    BOOST_REQUIRE(begun.guard.complete(std::move(begun.input)).ok());
    BOOST_TEST(signal.wait(before).value() != before);
    BOOST_TEST(*service.take(id).value() == 1);
  }
  BOOST_TEST(signal.publish().ok());  // it outlived the service that held a notifier of it
}

BOOST_AUTO_TEST_CASE(gen_01_a_notifier_that_nobody_took_is_dropped_once, *unit_test::label("GEN-01")) {
  auto count = std::make_shared<int>(0);
  {
    nocter::notifier unused([count] {});
    BOOST_TEST(count.use_count() == 2);
    nocter::notifier moved = std::move(unused);
    BOOST_TEST(count.use_count() == 2);
    nocter::notifier replaced([count] {});
    replaced = std::move(moved);
  }
  BOOST_TEST(count.use_count() == 1);
  // Refused: workers may not outnumber the jobs. The notifiers come back and end here.
  auto refused = nocter::blocking<int, int>::create({1, 2, nocter::notifier([count] {}), {}});
  BOOST_TEST((refused.status() == status::e_argument));
  BOOST_TEST(count.use_count() == 1);
  {
    auto service = nocter::blocking<int, int>::create({1, 1, nocter::notifier([count] {}), {}}).value();
    BOOST_TEST(count.use_count() == 2);
  }
  BOOST_TEST(count.use_count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
