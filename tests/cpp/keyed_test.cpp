// Keys by hand and on the library's threads: notify, claim, end a pass, delays, resync, close, drain.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <nocter.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace unit_test = boost::unit_test;
using namespace std::chrono_literals;
using nocter::close_mode;
using nocter::notified;
using nocter::status;

namespace {

nocter::keyed queue_for(std::uint32_t keys, std::uint32_t workers = 1) {
  return nocter::keyed::create({keys, workers}).value();
}

// Claims one key and ends its pass well.
std::string one_pass(nocter::keyed& queue) {
  auto pass = queue.try_claim().value();
  std::string key(pass.key());
  BOOST_TEST(pass.complete().ok());
  return key;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keyed)

static_assert(!std::is_copy_constructible_v<nocter::keyed> && std::is_nothrow_move_constructible_v<nocter::keyed>);
static_assert(!std::is_copy_constructible_v<nocter::pass> && std::is_nothrow_move_assignable_v<nocter::pass>);

BOOST_AUTO_TEST_CASE(key_03_a_key_coalesces_and_is_due_again_when_dirty,
                     *unit_test::label("KEY-03") * unit_test::label("BND-05") * unit_test::label("K-4")) {
  auto queue = queue_for(4);
  BOOST_TEST((queue.notify("a").value() == notified::accepted));
  BOOST_TEST((queue.notify("a").value() == notified::coalesced));
  BOOST_TEST((queue.notify("b").value() == notified::accepted));
  auto pass = queue.claim().value();
  BOOST_TEST(pass.key() == "a");
  BOOST_TEST(pass.failures() == 0u);
  BOOST_TEST((queue.try_claim().status() == status::empty));  // one worker
  BOOST_TEST((queue.notify("a").value() == notified::accepted));
  BOOST_TEST((queue.notify("a").value() == notified::coalesced));
  BOOST_TEST(pass.complete().ok());
  BOOST_TEST((pass.complete().status() == status::e_argument));
  BOOST_TEST(pass.key().empty());
  BOOST_TEST(one_pass(queue) == "b");
  BOOST_TEST(one_pass(queue) == "a");
  BOOST_TEST((queue.try_claim().status() == status::empty));
  BOOST_TEST((queue.claim(1ms).status() == status::timeout));
}

BOOST_AUTO_TEST_CASE(key_05_a_full_queue_refuses_new_keys_only,
                     *unit_test::label("KEY-05") * unit_test::label("K-5") * unit_test::label("K-6")) {
  auto queue = queue_for(2);
  const auto each = queue.notify_many({"a", "b", "c", "a"}).value();
  BOOST_TEST((each == std::vector<status>{status::ok, status::ok, status::saturated, status::coalesced}));
  BOOST_TEST((queue.notify("c").status() == status::saturated));
  const std::string long_key(257, 'x');
  BOOST_TEST((queue.notify(long_key).status() == status::e_limit));
  BOOST_TEST((queue.notify_many({"a", long_key}).status() == status::e_limit));
  BOOST_TEST(queue.notify_many({}).value().empty());
  const auto counts = queue.count().value();
  BOOST_TEST(counts.retained == 2u);
  BOOST_TEST(counts.rejected_full == 2u);
}

BOOST_AUTO_TEST_CASE(key_06_a_pass_that_goes_out_of_scope_has_failed,
                     *unit_test::label("KEY-06") * unit_test::label("K-8") * unit_test::label("K-9")) {
  auto queue = queue_for(2);
  BOOST_TEST(queue.notify("a").ok());
  { auto pass = queue.claim().value(); }
  BOOST_TEST(queue.count().value().failed == 1u);
  BOOST_TEST(queue.count().value().retained == 0u);
  BOOST_TEST(queue.notify("a").ok());
  {
    auto pass = queue.claim().value();
    BOOST_TEST(queue.notify("a").ok());
    BOOST_TEST(pass.fail().ok());
  }
  auto pass = queue.try_claim().value();
  BOOST_TEST(pass.failures() == 1u);
  BOOST_TEST(pass.retry_after(1h).ok());
  BOOST_TEST(queue.count().value().delayed == 1u);
}

BOOST_AUTO_TEST_CASE(key_06_retries_come_when_they_are_due, *unit_test::label("KEY-06") * unit_test::label("K-32")) {
  nocter::keyed_options options{4, 2};
  options.backoff_initial = 2ms;
  options.backoff_maximum = 4ms;
  options.backoff_jitter_percent = 0;
  auto queue = nocter::keyed::create(std::move(options)).value();
  BOOST_TEST((queue.next_due().status() == status::empty));
  BOOST_TEST(queue.notify_after("later", 1h).ok());
  const auto due = queue.next_due().value() - std::chrono::steady_clock::now();
  BOOST_TEST((due > 59min && due <= 1h));
  BOOST_TEST(queue.notify_after("soon", 1ms).ok());
  BOOST_TEST((queue.notify_after("soon", -1ms).status() == status::e_argument));
  for (std::uint32_t failures = 0; failures < 4; failures++) {
    auto pass = queue.claim(10s).value();
    BOOST_TEST(pass.key() == "soon");
    BOOST_TEST(pass.failures() == failures);
    BOOST_TEST((failures % 2 == 0 ? pass.retry() : pass.retry_after(-5s)).ok());
  }
  BOOST_TEST(one_pass(queue) == "soon");
  BOOST_TEST(queue.notify("later").ok());  // due at once
  BOOST_TEST(one_pass(queue) == "later");
}

BOOST_AUTO_TEST_CASE(key_08_close_by_discarding_interrupts_and_drains,
                     *unit_test::label("KEY-08") * unit_test::label("K-14")) {
  auto queue = queue_for(4, 2);
  BOOST_TEST((queue.try_drained().status() == status::e_state));
  BOOST_TEST(queue.notify_many({"a", "b", "c"}).ok());
  auto pass = queue.claim().value();
  BOOST_TEST(!pass.interrupted());
  BOOST_TEST(!pass.interrupt().raised());
  queue.close();
  BOOST_TEST(pass.interrupted());
  BOOST_TEST(pass.interrupt().raised());
  BOOST_TEST((queue.notify("d").status() == status::closed));
  BOOST_TEST((queue.try_drained().status() == status::pending));
  pass.drop();
  BOOST_TEST(queue.drained(10s).ok());
  BOOST_TEST((queue.claim().status() == status::closed));
  BOOST_TEST((queue.serve([](std::string_view) {}).status() == status::closed));
  BOOST_TEST(queue.count().value().discarded_waiting == 2u);
}

BOOST_AUTO_TEST_CASE(key_08_close_by_draining_gives_each_key_its_pass, *unit_test::label("KEY-08")) {
  auto queue = queue_for(4);
  BOOST_TEST(queue.notify("a").ok());
  BOOST_TEST(queue.notify_after("b", 1h).ok());
  queue.close(close_mode::drain);
  BOOST_TEST(one_pass(queue) == "a");
  BOOST_TEST(one_pass(queue) == "b");
  BOOST_TEST(queue.try_drained().ok());
}

BOOST_AUTO_TEST_CASE(key_01_functions_of_every_shape_are_served,
                     *unit_test::label("KEY-01") * unit_test::label("KEY-04") * unit_test::label("BND-05")) {
  auto queue = queue_for(64, 2);
  std::mutex mutex;
  std::multiset<std::string> seen;
  const auto see = [&](std::string_view key) {
    std::lock_guard lock(mutex);
    seen.emplace(key);
  };
  {
    auto threads = queue.serve([&](std::string_view key) { see(key); }).value();
    for (int i = 0; i < 50; i++) BOOST_TEST(queue.notify("key " + std::to_string(i)).ok());
    while (queue.count().value().completed < 50) std::this_thread::sleep_for(1ms);
  }
  BOOST_TEST(seen.size() == 50u);
  BOOST_TEST(seen.count("key 49") == 1u);

  // A callable that cannot be copied, with the pass lent to it.
  std::atomic<int> same_keys{0}, interrupted{0};
  auto threads = queue
                     .serve([&, suffix = std::make_unique<int>(7)](std::string_view key, nocter::lent_pass& pass) {
                       same_keys += pass.key() == key;
                       interrupted += pass.interrupted() || pass.interrupt().raised();
                       see(std::string(key) + std::to_string(*suffix));
                     })
                     .value();
  BOOST_TEST(queue.notify("key ").ok());
  queue.close(close_mode::drain);
  BOOST_TEST(queue.drained(10s).ok());
  BOOST_TEST(threads.stop(10s).ok());
  BOOST_TEST(seen.count("key 7") == 2u);
  BOOST_TEST(same_keys == 1);
  BOOST_TEST(interrupted == 0);
}

BOOST_AUTO_TEST_CASE(key_06_how_a_served_pass_ends, *unit_test::label("KEY-06") * unit_test::label("K-18")) {
  auto queue = queue_for(16, 1);
  std::atomic<int> again{0}, refused{0};
  auto threads = queue
                     .serve([&](std::string_view key, nocter::lent_pass& pass) {
                       if (key == "throws") throw std::runtime_error("a pass that throws");
                       if (key == "fails") refused += !pass.fail().ok();
                       if (key == "again" && ++again < 3) refused += !pass.retry_after(1ms).ok();
                       return key != "false";
                     })
                     .value();
  BOOST_TEST(queue.notify_many({"false", "throws", "fails", "well", "again"}).ok());
  while (queue.count().value().retained != 0) std::this_thread::sleep_for(1ms);
  const auto counts = queue.count().value();
  BOOST_TEST(counts.failed == 5u);
  BOOST_TEST(counts.completed == 2u);
  BOOST_TEST(counts.retried == 2u);
  BOOST_TEST(counts.exceptions == 1u);
  BOOST_TEST(threads.stop(10s).ok());
  BOOST_TEST(refused == 0);
}

BOOST_AUTO_TEST_CASE(key_10_resync_finds_what_was_refused, *unit_test::label("KEY-10")) {
  auto queue = queue_for(2, 2);
  BOOST_TEST((queue.notify_many({"a", "b", "c", "d"}).value()[3] == status::saturated));
  const std::vector<std::string> all{"a", "b", "c", "d"};
  auto kept = std::make_shared<int>(0);
  const auto source = [&all, kept, at = std::size_t{0}]() mutable -> std::optional<std::string> {
    if (at == all.size()) {
      at = 0;
      return std::nullopt;
    }
    return all[at++];
  };
  BOOST_TEST((queue.resync(source, 0ms, 1).status() == status::e_argument));
  BOOST_TEST(kept.use_count() == 2);
  BOOST_TEST(queue.resync(source, 1ms, 2).ok());
  BOOST_TEST(kept.use_count() == 3);
  std::set<std::string> seen;
  while (seen.size() < all.size()) {
    auto pass = queue.claim(10s).value();
    seen.emplace(pass.key());
    BOOST_TEST(pass.complete().ok());
  }
  BOOST_TEST(queue.end_resync().ok());
  BOOST_TEST(kept.use_count() == 2);

  int calls = 0;
  const auto throws = [&calls]() -> std::optional<std::string> {
    if (++calls == 2) throw std::runtime_error("a source that throws");
    return "e";
  };
  BOOST_TEST(queue.resync(throws, 1ms, 8).ok());
  while (queue.claim(10s).value().key() != "e") {
  }
  BOOST_TEST(queue.count().value().resync_failures >= 1u);
  BOOST_TEST(calls >= 2);
  queue.close();
}

BOOST_AUTO_TEST_CASE(gen_01_a_pass_outlives_its_queue, *unit_test::label("GEN-01") * unit_test::label("GEN-02")) {
  auto told = std::make_shared<int>(0);
  {
    auto pass = [&told] {
      auto refused = nocter::keyed::create({1, 2, 256, nocter::notifier([told] { ++*told; }), {}});
      BOOST_TEST((refused.status() == status::e_argument));
      auto queue = nocter::keyed::create({1, 1, 256, nocter::notifier([told] { ++*told; }), {}}).value();
      BOOST_TEST(queue.notify("a").ok());
      return queue.claim().value();
    }();
    BOOST_TEST(pass.key() == "a");
    BOOST_TEST(pass.interrupted());
    BOOST_TEST(pass.complete().ok());
  }
  BOOST_TEST(told.use_count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
