// Resources by hand and by the library's threads: reserve, attach, drop, retire, claim, begin, complete, take, detach.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <nocter.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "counted.hpp"

namespace unit_test = boost::unit_test;
using namespace std::chrono_literals;
using nocter::retirement_state;
using nocter::status;
using Service = nocter::retirement<Counted>;

namespace {

Service service_for(std::uint32_t resources, std::uint32_t workers = 1) {
  return Service::create({resources, workers}).value();
}

struct NoneLost {
  ~NoneLost() { BOOST_TEST(Counted::alive == 0); }
};

// Ends one resource by hand.
int clean_one(Service& service, std::int32_t code = 0) {
  auto cleanup = service.try_claim().value();
  const int value = cleanup.begin().value()->value;
  BOOST_TEST(cleanup.complete(code).ok());
  return value;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retirement, NoneLost)

using Permit = nocter::permit<Counted>;
using Owner = nocter::resource<Counted>;
using Guard = nocter::cleanup<Counted>;
static_assert(!std::is_copy_constructible_v<Service> && std::is_nothrow_move_constructible_v<Service>);
static_assert(!std::is_copy_constructible_v<Permit> && std::is_nothrow_move_constructible_v<Permit>);
static_assert(!std::is_copy_constructible_v<Owner> && std::is_nothrow_move_assignable_v<Owner>);
static_assert(!std::is_copy_constructible_v<Guard> && std::is_nothrow_move_assignable_v<Guard>);

BOOST_AUTO_TEST_CASE(ret_06_a_resource_goes_its_whole_way,
                     *unit_test::label("RET-02") * unit_test::label("RET-06") * unit_test::label("BND-05")) {
  auto service = service_for(2);
  auto permit = service.reserve().value();
  auto value = counted(20);
  Counted* const same = value.get();
  auto owner = permit.attach(std::move(value));
  BOOST_TEST(!value);
  BOOST_TEST(permit.native() == nullptr);
  BOOST_TEST(owner.get() == same);
  owner->value++;
  BOOST_TEST((*owner).value == 21);

  const auto id = owner.retire().value();
  BOOST_TEST(!owner);
  BOOST_TEST((owner.retire().status() == status::e_argument));
  BOOST_TEST((service.query(id).value() == retirement_state::queued));
  BOOST_TEST((service.try_take(id).status() == status::pending));
  auto cleanup = service.claim().value();
  BOOST_TEST((service.query(id).value() == retirement_state::running));
  BOOST_TEST((cleanup.complete().status() == status::e_state));
  auto resource = cleanup.begin().value();
  BOOST_TEST(resource.get() == same);
  BOOST_TEST((cleanup.begin().status() == status::e_state));
  resource.reset();
  BOOST_TEST(cleanup.complete(-5).ok());
  BOOST_TEST((cleanup.complete().status() == status::e_argument));
  BOOST_TEST((service.query(id).value() == retirement_state::completed));
  BOOST_TEST(service.take(id).value() == -5);
  BOOST_TEST((service.take(id).status() == status::e_unknown));
}

BOOST_AUTO_TEST_CASE(ret_04_saturation_tells_the_epoch, *unit_test::label("RET-04") * unit_test::label("R-21")) {
  auto service = service_for(1);
  auto first = service.reserve().value();
  nocter::epoch seen;
  BOOST_TEST((service.reserve(&seen).status() == status::saturated));
  BOOST_TEST((seen == service.capacity_epoch().value()));
  BOOST_TEST((service.reserve(1ms).status() == status::timeout));
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    first.drop();
  });
  auto second = service.reserve(nocter::wait::forever());
  other.join();
  BOOST_TEST(second.ok());
  BOOST_TEST((service.wait_epoch(seen).value() != seen));
  BOOST_TEST((service.wait_epoch(service.capacity_epoch().value(), 1ms).status() == status::timeout));
}

BOOST_AUTO_TEST_CASE(ret_03_guards_that_go_out_of_scope_close_what_is_open,
                     *unit_test::label("RET-03") * unit_test::label("RET-05") * unit_test::label("R-1")) {
  auto service = service_for(4);
  { auto permit = service.reserve().value(); }
  { auto owner = service.reserve().value().attach(counted(1)); }
  BOOST_TEST(service.count().value().queued == 1u);
  { auto unbegun = service.claim().value(); }
  BOOST_TEST(Counted::alive == 0);

  auto id = service.reserve().value().attach(counted(2)).retire().value();
  {
    auto cleanup = service.claim().value();
    auto resource = cleanup.begin().value();
  }
  BOOST_TEST((service.take(id).status() == status::worker_lost));
  const auto counts = service.count().value();
  BOOST_TEST(counts.reserved == 0u);
  BOOST_TEST(counts.permits_dropped == 1u);
  BOOST_TEST(counts.lost == 2u);
  BOOST_TEST(counts.failed_unobserved == 1u);
}

BOOST_AUTO_TEST_CASE(ret_08_closing_stops_new_permits_only,
                     *unit_test::label("RET-08") * unit_test::label("R-3") * unit_test::label("R-4")) {
  auto service = service_for(4);
  auto permit = service.reserve().value();
  auto live = service.reserve().value().attach(counted(1));
  service.close();
  service.close();
  BOOST_TEST((service.reserve().status() == status::closed));
  BOOST_TEST((service.reserve(nocter::wait::forever()).status() == status::closed));
  auto late = permit.attach(counted(2));
  BOOST_TEST(late->value == 2);
  live.drop();
  late.drop();
  late.drop();
  BOOST_TEST((service.try_drained().status() == status::pending));
  BOOST_TEST(clean_one(service) == 1);
  BOOST_TEST(clean_one(service) == 2);
  BOOST_TEST(service.drained(10s).ok());
  BOOST_TEST((service.claim().status() == status::closed));
}

BOOST_AUTO_TEST_CASE(ret_07_detached_retirements_free_their_places,
                     *unit_test::label("RET-07") * unit_test::label("R-9") * unit_test::label("R-10")) {
  auto service = service_for(4, 2);
  const auto retire = [&](int number) { return service.reserve().value().attach(counted(number)).retire().value(); };
  auto queued = retire(1);
  BOOST_TEST(service.detach(queued).ok());
  BOOST_TEST((service.detach(queued).status() == status::e_unknown));
  clean_one(service);
  auto completed = retire(2);
  clean_one(service, 7);
  BOOST_TEST(service.count().value().completed == 1u);
  BOOST_TEST(service.detach(completed).ok());
  auto first = retire(3), second = retire(4);
  auto running = service.claim().value();
  service.detach_all();
  BOOST_TEST((service.query(first).status() == status::e_unknown));
  BOOST_TEST((service.query(second).status() == status::e_unknown));
  BOOST_TEST(running.begin().value()->value == 3);
  BOOST_TEST(running.complete().ok());
  clean_one(service);
  const auto counts = service.count().value();
  BOOST_TEST(counts.reserved == 0u);
  BOOST_TEST(counts.detached_done == 3u);
  BOOST_TEST(counts.detached_completed == 1u);
}

BOOST_AUTO_TEST_CASE(ret_05_the_librarys_threads_run_the_destructors,
                     *unit_test::label("RET-05") * unit_test::label("BND-05")) {
  auto service = service_for(64, 2);
  std::atomic<int> stopped{0};
  nocter::workers_options options;
  options.name = "ends";
  options.stop = [&] { stopped++; };
  auto threads = service.serve(options).value();
  for (int i = 0; i < 500; i++) {
    auto owner = service.reserve(10s).value().attach(counted(i));
    if (i % 2 == 0) BOOST_TEST(service.take(owner.retire().value(), 10s).value() == 0);
  }
  service.close();
  BOOST_TEST(service.drained(10s).ok());
  BOOST_TEST(threads.stop(10s).ok());
  BOOST_TEST(stopped == 2);
  const auto counts = service.count().value();
  BOOST_TEST(counts.cleaned == 500u);
  BOOST_TEST(counts.taken == 250u);
  BOOST_TEST((service.serve().status() == status::closed));
}

BOOST_AUTO_TEST_CASE(ret_03_guards_outlive_their_service,
                     *unit_test::label("RET-03") * unit_test::label("R-6") * unit_test::label("R-7")) {
  std::optional<Permit> permit;
  Owner served_owner;
  {
    auto service = service_for(4);
    permit = service.reserve().value();
    auto live = service.reserve().value().attach(counted(1));
    auto queued = service.reserve().value().attach(counted(2));
    queued.drop();
    served_owner = std::move(live);
  }
  BOOST_TEST(Counted::alive == 1);  // what was queued had nobody else to end it
  served_owner.drop();
  BOOST_TEST(Counted::alive == 0);
  auto late = permit->attach(counted(3));
  BOOST_TEST((late.retire().status() == status::closed));
  BOOST_TEST(!late);
  BOOST_TEST(Counted::alive == 0);

  // Threads that serve end by themselves once the last owner has been cleaned.
  std::optional<nocter::workers> threads;
  {
    auto service = service_for(4);
    threads = service.serve().value();
    served_owner = service.reserve().value().attach(counted(4));
  }
  BOOST_TEST(Counted::alive == 1);
  served_owner.drop();
  BOOST_TEST(threads->stop(10s).ok());
  BOOST_TEST(Counted::alive == 0);
}

struct Throws {
  explicit Throws(int number) : value(number) {}
  ~Throws() noexcept(false) {
    if (value < 0) throw std::runtime_error("the end has failed");
  }
  int value;
};

BOOST_AUTO_TEST_CASE(ret_05_a_destructor_that_throws_is_a_failed_cleanup,
                     *unit_test::label("RET-05") * unit_test::label("R-15") * unit_test::label("R-16")) {
  auto service = nocter::retirement<Throws>::create({4, 1}).value();
  auto threads = service.serve().value();
  auto bad = service.reserve().value().attach(std::make_unique<Throws>(-1)).retire().value();
  BOOST_TEST((service.take(bad, 10s).status() == status::worker_lost));
  auto good = service.reserve().value().attach(std::make_unique<Throws>(1)).retire().value();
  BOOST_TEST(service.take(good, 10s).value() == 0);
  BOOST_TEST(service.count().value().exceptions == 1u);
}

BOOST_AUTO_TEST_CASE(gen_03_identities_are_foreign_elsewhere_and_can_be_keys,
                     *unit_test::label("GEN-03") * unit_test::label("R-22")) {
  auto here = service_for(2), there = service_for(2);
  auto id = here.reserve().value().attach(counted(1)).retire().value();
  auto other = there.reserve().value().attach(counted(2)).retire().value();
  BOOST_TEST((id != other));
  BOOST_TEST((there.query(id).status() == status::e_foreign));
  BOOST_TEST((there.detach(id).status() == status::e_foreign));
  BOOST_TEST((there.try_take(id).status() == status::e_foreign));
  BOOST_TEST((there.wait_epoch(here.capacity_epoch().value()).status() == status::e_foreign));
  std::unordered_map<nocter::retirement_id, int> names{{id, 1}, {other, 2}};
  BOOST_TEST(names.at(id) == 1);
  BOOST_TEST((nocter::retirement_id() == nocter::retirement_id()));
}

BOOST_AUTO_TEST_CASE(gen_02_refused_options_leave_the_notifiers, *unit_test::label("GEN-02")) {
  auto told = std::make_shared<int>(0);
  {
    auto refused = Service::create({1, 2, nocter::notifier([told] { ++*told; }), {}});
    BOOST_TEST((refused.status() == status::e_argument));
  }
  BOOST_TEST(told.use_count() == 1);
  {
    auto service = Service::create({1, 1, nocter::notifier([told] { ++*told; }), {}}).value();
    BOOST_TEST(told.use_count() == 2);
    { auto permit = service.reserve().value(); }
    BOOST_TEST(*told >= 1);
  }
  BOOST_TEST(told.use_count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
