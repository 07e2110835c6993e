// What outlives what: close, drained, destroy, the threads that serve, and owners that are given up last of all. RET-08, R-3 to R-7.
#include <nocter.h>
#include <pthread.h>

#include <array>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/retirement.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;
using namespace nocter_tests::retiring;

namespace {

// Which threads cleaned what.
class Record {
 public:
  nocter_owned resource(uint64_t value) {
    return closing([this, value] {
      const std::scoped_lock lock(mutex_);
      values_.push_back(value);
      threads_.push_back(pthread_self());
    });
  }
  std::vector<uint64_t> values() const {
    const std::scoped_lock lock(mutex_);
    return values_;
  }
  size_t count() const { return values().size(); }
  bool all_by(pthread_t thread) const {
    const std::scoped_lock lock(mutex_);
    for (const pthread_t one : threads_) {
      if (pthread_equal(one, thread) == 0) return false;
    }
    return !threads_.empty();
  }
  bool none_by(pthread_t thread) const {
    const std::scoped_lock lock(mutex_);
    for (const pthread_t one : threads_) {
      if (pthread_equal(one, thread) != 0) return false;
    }
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<uint64_t> values_;
  std::vector<pthread_t> threads_;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retirement_lifetime_suite, EveryTest)

BOOST_AUTO_TEST_CASE(ret_08_an_owner_that_outlives_the_close_keeps_it_from_being_drained_scenario_28_r_05,
                     *label("RET-08") * label("R-5")) {
  Retirement service({.maximum_resources = 2, .workers = 1});
  Cleaners cleaners(service);
  nocter_resource* const resource = own(service, 1);
  nocter_retirement_close(service);
  const nocter_wait wait = wait_ms(20);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, &wait), NOCTER_TIMEOUT);
  BOOST_CHECK_EQUAL(try_reserve(service).status, NOCTER_CLOSED);
  // The threads wait on: something may still come.
  BOOST_CHECK_EQUAL(counts_of(service).live, 1u);
  nocter_resource_drop(resource);
  until_drained(service);
  BOOST_CHECK_EQUAL(Ledger::live(), 0u);
  // Nothing will come any more: they end without being asked.
  const nocter_wait longest = long_wait();
  BOOST_CHECK_EQUAL(nocter_workers_stop(cleaners, &longest), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(ret_08_serving_threads_end_by_themselves_when_nothing_is_left, *label("RET-08") * label("R-6")) {
  const size_t before = thread_count();
  Retirement service({.maximum_resources = 4, .workers = 2});
  Cleaners cleaners(service);
  nocter_permit* const permit = reserve(service);
  const nocter_retirement_id id = retire(own(service, 1));
  nocter_retirement_close(service);
  BOOST_CHECK(eventually([&] { return state_of(service, id) == NOCTER_RETIREMENT_COMPLETED; }));
  pause_ms(20);
  BOOST_CHECK_EQUAL(thread_count(), before + 2);  // a permit is out
  nocter_permit_drop(permit);
  // A completion that nobody takes keeps no thread.
  BOOST_CHECK(eventually([&] { return thread_count() == before; }));
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(r_06_after_destroy_the_serving_threads_clean_what_is_given_up_scenario_30_31,
                     *label("RET-03") * label("R-6") * label("R-3") * label("R-4")) {
  Record record;
  const size_t before = thread_count();
  auto* service = new Retirement({.maximum_resources = 8, .workers = 1});
  Cleaners cleaners(*service);
  nocter_resource* const resource = own(*service, record.resource(1));
  nocter_permit* const permit = reserve(*service);
  nocter_resource* const explicitly = own(*service, record.resource(2));
  delete service;
  BOOST_CHECK_EQUAL(record.count(), 0u);
  nocter_resource_drop(resource);
  BOOST_CHECK(eventually([&] { return record.count() == 1; }));
  // Nobody can ask any more; it is cleaned all the same.
  nocter_retirement_id id = {77, 77};
  BOOST_CHECK_EQUAL(nocter_resource_retire(explicitly, &id), NOCTER_CLOSED);
  BOOST_CHECK(retiring::is_zero(id));
  BOOST_CHECK(eventually([&] { return record.count() == 2; }));
  nocter_resource_drop(attach(permit, record.resource(3)));
  BOOST_CHECK(eventually([&] { return record.count() == 3; }));
  BOOST_CHECK(record.none_by(pthread_self()));
  BOOST_CHECK(eventually([&] { return thread_count() == before; }));
}

BOOST_AUTO_TEST_CASE(r_07_without_serving_threads_the_one_who_drops_cleans, *label("RET-03") * label("R-7")) {
  Record record;
  Wakes waiters, work;
  nocter_resource *first, *second;
  nocter_permit* permit;
  {
    Retirement service({.maximum_resources = 8, .workers = 2, .waiters = waiters.notifier(), .work = work.notifier()});
    first = own(service, record.resource(1));
    second = own(service, record.resource(2));
    permit = reserve(service);
    // Queued when the service is destroyed, and nobody serves: the destroying thread cleans it.
    nocter_resource_drop(own(service, record.resource(3)));
    nocter_retirement_id id = retire(own(service, record.resource(4)));
    BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_RETIREMENT_QUEUED);
    BOOST_CHECK_EQUAL(record.count(), 0u);
  }
  BOOST_CHECK((record.values() == std::vector<uint64_t>{3, 4}));
  nocter_resource_drop(first);
  BOOST_CHECK_EQUAL(record.count(), 3u);
  BOOST_CHECK(record.all_by(pthread_self()));
  pthread_t other_thread = {};
  Thread other([&] {
    other_thread = pthread_self();
    nocter_resource_drop(second);
  });
  other.join();
  BOOST_CHECK_EQUAL(record.count(), 4u);
  BOOST_CHECK(!record.all_by(pthread_self()));
  BOOST_CHECK_EQUAL(waiters.drops, 0u);
  nocter_permit_drop(permit);
  // The last reservation is gone, and with it the service.
  BOOST_CHECK_EQUAL(waiters.drops, 1u);
  BOOST_CHECK_EQUAL(work.drops, 1u);
}

BOOST_AUTO_TEST_CASE(r_07_cleaning_in_place_does_not_recurse_r_19, *label("R-7") * label("R-19")) {
  // A chain of resources, each of which owns the next: one that recursed would need a stack of the length of the chain.
  constexpr uint64_t kLinks = 200'000;
  const nocter_retirement_options options = options_of({.maximum_resources = kLinks, .workers = 1});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  uint64_t cleaned = 0;
  size_t depth = 0, deepest = 0;
  nocter_resource* head = nullptr;
  for (uint64_t i = 0; i < kLinks; i++) {
    nocter_resource* const next = head;
    head = own(service, closing([&, next] {
                 deepest = std::max(deepest, ++depth);
                 cleaned++;
                 nocter_resource_drop(next);
                 depth--;
               }));
  }
  nocter_retirement_destroy(service);
  BOOST_CHECK_EQUAL(cleaned, 0u);
  nocter_resource_drop(head);
  BOOST_CHECK_EQUAL(cleaned, kLinks);
  BOOST_CHECK_EQUAL(deepest, 1u);
}

BOOST_AUTO_TEST_CASE(r_07_two_destroyed_services_that_own_each_others_resources, *label("R-7") * label("FFI-13")) {
  constexpr uint64_t kLinks = 2'000;
  const nocter_retirement_options options = options_of({.maximum_resources = kLinks, .workers = 1});
  nocter_retirement* services[2] = {};
  for (nocter_retirement*& service : services) {
    BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  }
  uint64_t cleaned = 0;
  size_t depth = 0, deepest = 0;
  nocter_resource* head = nullptr;
  for (uint64_t i = 0; i < kLinks; i++) {
    nocter_resource* const next = head;
    head = own(services[i % 2], closing([&, next] {
                 deepest = std::max(deepest, ++depth);
                 cleaned++;
                 nocter_resource_drop(next);
                 depth--;
               }));
  }
  for (nocter_retirement* service : services) nocter_retirement_destroy(service);
  nocter_resource_drop(head);
  BOOST_CHECK_EQUAL(cleaned, kLinks);
  BOOST_CHECK_EQUAL(deepest, 2u);  // one turn of each
}

BOOST_AUTO_TEST_CASE(r_07_in_place_no_more_are_cleaned_at_once_than_there_are_workers, *label("R-7")) {
  Gate gate;
  std::atomic<int> running{0}, most{0}, cleaned{0};
  const nocter_retirement_options options = options_of({.maximum_resources = 8, .workers = 1});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  const auto resource = [&](bool waits) {
    return closing([&, waits] {
      most.store(std::max(most.load(), ++running));
      if (waits) gate.pass();
      running--;
      cleaned++;
    });
  };
  nocter_resource* const slow = own(service, resource(true));
  nocter_resource* const quick = own(service, resource(false));
  nocter_retirement_destroy(service);
  Thread first([&] { nocter_resource_drop(slow); });
  gate.until_reached();
  // The one worker slot is in use: who uses it cleans this one too.
  nocter_resource_drop(quick);
  BOOST_CHECK_EQUAL(cleaned.load(), 0);
  gate.open();
  first.join();
  BOOST_CHECK_EQUAL(cleaned.load(), 2);
  BOOST_CHECK_EQUAL(most.load(), 1);
}

BOOST_AUTO_TEST_CASE(r_07_the_end_of_a_cleanup_that_was_out_goes_on_with_what_is_queued,
                     *label("R-7") * label("RET-05")) {
  Record record;
  const nocter_retirement_options options = options_of({.maximum_resources = 8, .workers = 1});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  nocter_resource_drop(own(service, 1));
  nocter_cleanup* const cleanup = claim(service);
  nocter_resource_drop(own(service, record.resource(2)));
  nocter_retirement_destroy(service);
  BOOST_CHECK_EQUAL(record.count(), 0u);  // the guard holds the one worker slot
  BOOST_CHECK_EQUAL(begin(cleanup), 1u);
  complete(cleanup, 3);
  BOOST_CHECK_EQUAL(record.count(), 1u);
}

BOOST_AUTO_TEST_CASE(r_07_threads_stopped_after_destroy_clean_the_queue_before_the_last_one_ends,
                     *label("R-7") * label("R-6")) {
  Record record;
  Gate gate;
  const nocter_retirement_options options = options_of({.maximum_resources = 8, .workers = 2});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  Cleaners cleaners(service);
  nocter_resource* const last = own(service, record.resource(9));
  nocter_resource_drop(own(service, closing([&] { gate.pass(); })));
  nocter_resource_drop(own(service, closing([&] { gate.pass(); })));
  gate.until_reached();
  for (uint64_t i = 0; i < 4; i++) nocter_resource_drop(own(service, record.resource(i)));
  nocter_retirement_destroy(service);
  BOOST_CHECK_EQUAL(nocter_workers_stop(cleaners, nullptr), NOCTER_PENDING);
  gate.open();
  cleaners.stop();
  BOOST_CHECK_EQUAL(record.count(), 4u);
  BOOST_CHECK(record.none_by(pthread_self()));
  // From now on there is only whoever drops.
  nocter_resource_drop(last);
  BOOST_CHECK_EQUAL(record.values().back(), 9u);
  BOOST_CHECK(!record.none_by(pthread_self()));
}

BOOST_AUTO_TEST_CASE(r_07_threads_stopped_before_destroy_leave_the_queue_to_whoever_claims, *label("R-7")) {
  Retirement service({.maximum_resources = 8, .workers = 1});
  {
    Cleaners cleaners(service);
    cleaners.stop();
    nocter_resource_drop(own(service, 1));
    pause_ms(10);
    BOOST_CHECK_EQUAL(counts_of(service).queued, 1u);
  }
  BOOST_CHECK_EQUAL(clean_one(service), 1u);
  nocter_resource_drop(own(service, 2));
  Cleaners others(service);
  until_drained(service);
}

BOOST_AUTO_TEST_CASE(r_07_a_destructor_that_ends_its_thread_leaves_nothing_queued, *label("R-7") * label("FFI-07")) {
  Record record;
  const nocter_retirement_options options = options_of({.maximum_resources = 8, .workers = 1});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  nocter_resource* const inner = own(service, record.resource(2));
  nocter_resource* const outer = own(service, {inner, [](void* data) {
                                                 nocter_resource_drop(static_cast<nocter_resource*>(data));
                                                 pthread_exit(nullptr);
                                               }});
  nocter_retirement_destroy(service);
  Thread([&] {
    pthread_t ends;
    struct Both {
      nocter_resource* outer;
    } both{outer};
    HOLDS(pthread_create(
              &ends, nullptr,
              [](void* data) -> void* {
                nocter_resource_drop(static_cast<Both*>(data)->outer);
                Failures::add(Where::here(), "the thread went on");
                return nullptr;
              },
              &both) == 0);
    pthread_join(ends, nullptr);
  }).join();
  BOOST_CHECK_EQUAL(record.count(), 1u);
}

BOOST_AUTO_TEST_CASE(gen_05_destroy_inside_a_notifier_is_carried_out, *label("GEN-05") * label("R-7")) {
  struct Host {
    nocter_retirement* service = nullptr;
    std::atomic<int> wakes{0}, drops{0};
  } host;
  nocter_retirement_options options = options_of({.maximum_resources = 4, .workers = 1});
  options.waiters = {[](void* user) {
                       Host& h = *static_cast<Host*>(user);
                       h.wakes++;
                       nocter_retirement_destroy(std::exchange(h.service, nullptr));
                     },
                     [](void* user) { static_cast<Host*>(user)->drops++; }, &host};
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &host.service), NOCTER_OK);
  Record record;
  nocter_resource* const resource = own(host.service, record.resource(1));
  nocter_resource_drop(own(host.service, record.resource(2)));
  nocter_permit_drop(reserve(host.service));  // tells: the service is destroyed in there
  BOOST_CHECK(host.service == nullptr);
  BOOST_CHECK_EQUAL(host.drops.load(), 0);
  BOOST_CHECK_EQUAL(record.count(), 1u);
  nocter_resource_drop(resource);
  BOOST_CHECK_EQUAL(record.count(), 2u);
  BOOST_CHECK_EQUAL(host.drops.load(), 1);
  BOOST_CHECK_GE(host.wakes.load(), 2);
}

BOOST_AUTO_TEST_CASE(ret_05_destroy_inside_a_cleanup_lets_the_thread_finish, *label("RET-05") * label("FFI-14")) {
  Record record;
  const nocter_retirement_options options = options_of({.maximum_resources = 8, .workers = 1});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  Cleaners cleaners(service);
  nocter_resource* const late = own(service, record.resource(3));
  Gate gate;
  nocter_resource_drop(own(service, closing([&] {
                             gate.pass();
                             nocter_retirement_destroy(service);
                           })));
  gate.until_reached();
  nocter_resource_drop(own(service, record.resource(1)));
  gate.open();
  BOOST_CHECK(eventually([&] { return record.count() == 1; }));
  nocter_resource_drop(late);
  BOOST_CHECK(eventually([&] { return record.count() == 2; }));
  BOOST_CHECK(record.none_by(pthread_self()));
}

BOOST_AUTO_TEST_CASE(r_24_destroy_under_waiting_callers_ends_their_waits, *label("R-24") * label("GEN-07")) {
  const nocter_retirement_options options = options_of({.maximum_resources = 2, .workers = 1});
  nocter_retirement* service = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  const nocter_retirement_id id = retire(own(service, 1));
  nocter_cleanup* const cleanup = claim(service);
  nocter_permit* const permit = reserve(service);
  const nocter_epoch epoch = epoch_of(service);
  const nocter_wait wait = long_wait();
  Thread taker([&] { STATUS(take(service, id, &wait).status, NOCTER_CLOSED); });
  Thread claimer([&] { STATUS(try_claim(service, &wait).status, NOCTER_CLOSED); });
  Thread reserver([&] {
    nocter_epoch now;
    STATUS(nocter_retirement_wait_epoch(service, epoch, &wait, &now), NOCTER_CLOSED);
  });
  Thread drainer([&] { STATUS(nocter_retirement_drained(service, &wait), NOCTER_OK); });
  for (Thread* thread : {&taker, &claimer, &reserver, &drainer}) BOOST_CHECK(thread->until_asleep());
  nocter_retirement_destroy(service);
  taker.join();
  claimer.join();
  reserver.join();
  BOOST_CHECK(!drainer.ended());
  nocter_permit_drop(permit);
  nocter_cleanup_drop(cleanup);
  drainer.join();
}

BOOST_AUTO_TEST_CASE(r_24_detach_all_under_a_waiting_take, *label("R-24") * label("RET-07")) {
  Retirement service;
  const nocter_retirement_id id = retire(own(service, 1));
  const nocter_wait wait = long_wait();
  Thread taker([&] { STATUS(take(service, id, &wait).status, NOCTER_E_UNKNOWN); });
  BOOST_CHECK(taker.until_asleep());
  nocter_retirement_detach_all(service);
  taker.join();
  BOOST_CHECK_EQUAL(clean_one(service), 1u);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
}

BOOST_AUTO_TEST_CASE(r_23_drained_waits_for_the_last_destructor, *label("R-23") * label("RET-08")) {
  Retirement service({.maximum_resources = 2, .workers = 1});
  Cleaners cleaners(service);
  Gate gate;
  std::atomic<bool> returned{false};
  nocter_resource_drop(own(service, closing([&] {
                             gate.pass();
                             returned.store(true);
                           })));
  gate.until_reached();
  nocter_retirement_close(service);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, nullptr), NOCTER_PENDING);
  gate.open();
  until_drained(service);
  BOOST_CHECK(returned.load());
}

BOOST_AUTO_TEST_CASE(r_21_an_epoch_waiter_hears_of_close, *label("R-2") * label("R-21")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  nocter_permit* const permit = reserve(service);
  const nocter_epoch seen = try_reserve(service).epoch;
  const nocter_wait wait = long_wait();
  Thread waiter([&] {
    nocter_epoch now;
    STATUS(nocter_retirement_wait_epoch(service, seen, &wait, &now), NOCTER_CLOSED);
    HOLDS(nocter_epoch_equal(now, seen));
  });
  BOOST_CHECK(waiter.until_asleep());
  nocter_retirement_close(service);
  waiter.join();
  nocter_permit_drop(permit);
}

BOOST_AUTO_TEST_SUITE_END()
