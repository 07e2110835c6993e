// The library's own threads running C++ functions, and callbacks that throw.
#include <pthread.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <nocter.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "counted.hpp"

namespace unit_test = boost::unit_test;
using namespace std::chrono_literals;
using nocter::status;
using Service = nocter::blocking<Counted, Counted>;
using Lent = nocter::lent_completion<Counted>;

namespace {

std::unique_ptr<Counted> doubled(std::unique_ptr<Counted> input) {
  input->value *= 2;
  return input;
}

struct NoneLost {
  ~NoneLost() { BOOST_TEST(Counted::alive == 0); }
};

// Wait for what another thread does at the end of its work; fails the test after ten seconds.
template <class Condition>
void require_soon(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  BOOST_REQUIRE(condition());
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(serve, NoneLost)

static_assert(!std::is_copy_constructible_v<nocter::workers> && std::is_nothrow_move_constructible_v<nocter::workers>);

BOOST_AUTO_TEST_CASE(blk_14_functions_and_lambdas_run_jobs, *unit_test::label("BLK-14") * unit_test::label("BND-05")) {
  auto service = Service::create({32, 2}).value();
  auto plain = service.serve(doubled).value();
  std::vector<nocter::job_id> ids;
  for (int i = 0; i < 32; i++) ids.push_back(service.submit(counted(i)).value());
  for (int i = 0; i < 32; i++) BOOST_TEST(service.take(ids[static_cast<std::size_t>(i)], 10s).value()->value == 2 * i);
  BOOST_TEST(plain.stop(10s).ok());
  BOOST_TEST(plain.try_stop().ok());

  // A callable that cannot be copied, with the completion lent to it.
  std::atomic<int> abandoned{0};
  auto with_guard = service
                        .serve([&, offset = std::make_unique<int>(100)](std::unique_ptr<Counted> input, Lent& guard) {
                          abandoned += guard.abandoned();
                          input->value += *offset;
                          return input;
                        })
                        .value();
  auto id = service.submit(counted(1)).value();
  BOOST_TEST(service.take(id, 10s).value()->value == 101);
  BOOST_TEST(abandoned == 0);
}

BOOST_AUTO_TEST_CASE(bnd_05_options_reach_the_threads, *unit_test::label("BND-05")) {
  auto service = nocter::blocking<int, std::string>::create({4, 4}).value();
  std::atomic<int> started{0}, stopped{0};
  nocter::workers_options options;
  options.threads = 3;
  options.stack_size = 256 * 1024;
  options.name = "sums";
  options.start = [&] { return ++started > 0; };
  options.stop = [&] { stopped++; };
  {
    auto threads =
        service
            .serve(
                [](std::unique_ptr<int>) {
                  std::array<char, 16> name{};
                  pthread_getname_np(pthread_self(), name.data(), name.size());
                  pthread_attr_t attributes;
                  std::size_t size = 0;
                  pthread_getattr_np(pthread_self(), &attributes);
                  pthread_attr_getstacksize(&attributes, &size);
                  pthread_attr_destroy(&attributes);
                  return std::make_unique<std::string>(std::string(name.data()) + " " + std::to_string(size));
                },
                options)
            .value();
    BOOST_TEST(started == 3);
    BOOST_TEST(stopped == 0);
    auto id = service.submit(nullptr).value();
    BOOST_TEST(*service.take(id, 10s).value() == "sums 262144");
  }
  BOOST_TEST(stopped == 3);
}

BOOST_AUTO_TEST_CASE(gen_02_a_refused_serve_lets_go_of_the_function, *unit_test::label("GEN-02")) {
  auto service = Service::create({4, 4}).value();
  auto kept = std::make_shared<int>(1);
  auto function = [kept](std::unique_ptr<Counted> input) { return input; };
  std::atomic<int> calls{0}, stops{0};
  nocter::workers_options options;
  options.threads = 4;
  options.start = [&] { return ++calls < 3; };
  options.stop = [&] { stops++; };
  auto refused = service.serve(function, options);
  BOOST_TEST((refused.status() == status::e_state));
  BOOST_TEST(!refused.message().empty());
  BOOST_TEST(stops == 2);
  BOOST_TEST(kept.use_count() == 2);  // this one and the lambda's above

  options = {};
  options.threads = 1025;
  BOOST_TEST((service.serve(function, options).status() == status::e_argument));
  BOOST_REQUIRE(service.shutdown().ok());
  BOOST_TEST((service.serve(function).status() == status::closed));
  BOOST_TEST(kept.use_count() == 2);
}

BOOST_AUTO_TEST_CASE(gen_01_the_function_lives_until_its_threads_have_ended, *unit_test::label("GEN-01")) {
  auto kept = std::make_shared<int>(1);
  {
    auto service = Service::create({4, 2}).value();
    auto threads = service.serve([kept](std::unique_ptr<Counted> input) { return input; }).value();
    BOOST_TEST(kept.use_count() == 2);
    nocter::workers moved = std::move(threads);
    BOOST_TEST(kept.use_count() == 2);
    auto others = service.serve([kept](std::unique_ptr<Counted> input) { return input; }).value();
    others = std::move(moved);  // the threads it had are stopped
    BOOST_TEST(kept.use_count() == 2);
  }
  BOOST_TEST(kept.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(gen_01_a_thread_may_give_up_its_own_workers, *unit_test::label("GEN-01")) {
  auto service = Service::create({4, 2}).value();
  auto kept = std::make_shared<std::string>("still here");
  std::unique_ptr<nocter::workers> threads;
  std::atomic<bool> ready{false};
  auto run = [&, kept](std::unique_ptr<Counted> input) {
    while (!ready) std::this_thread::yield();
    threads.reset();  // does not wait for this thread, and does not pull the function away under it
    input->value = static_cast<int>(kept->size());
    return input;
  };
  threads = std::make_unique<nocter::workers>(service.serve(std::move(run)).value());
  ready = true;
  auto id = service.submit(counted(0)).value();
  BOOST_TEST(service.take(id, 10s).value()->value == 10);
  require_soon([&] { return kept.use_count() == 1; });
}

BOOST_AUTO_TEST_CASE(gen_10_an_exception_is_a_lost_worker, *unit_test::label("GEN-10") * unit_test::label("BLK-06")) {
  auto service = Service::create({4, 1}).value();
  auto threads = service
                     .serve([](std::unique_ptr<Counted> input) -> std::unique_ptr<Counted> {
                       if (input->value == 0) throw std::runtime_error("no");
                       if (input->value == 1) throw 1;
                       return input;
                     })
                     .value();
  for (int i = 0; i < 2; i++) {
    auto id = service.submit(counted(i)).value();
    BOOST_TEST((service.take(id, 10s).status() == status::worker_lost));
  }
  auto id = service.submit(counted(2)).value();
  BOOST_TEST(service.take(id, 10s).value()->value == 2);  // the same thread goes on
  BOOST_TEST(service.count().value().exceptions == 2u);
  BOOST_TEST(service.count().value().completed_lost == 2u);
}

BOOST_AUTO_TEST_CASE(gen_10_forced_unwinding_passes_and_is_a_lost_worker, *unit_test::label("GEN-10")) {
  auto service = Service::create({4, 2}).value();
  std::atomic<int> stopped{0};
  nocter::workers_options options;
  options.stop = [&] { stopped++; };
  {
    auto threads = service
                       .serve(
                           [](std::unique_ptr<Counted> input) -> std::unique_ptr<Counted> {
                             if (input->value == 0) pthread_exit(nullptr);
                             return input;
                           },
                           options)
                       .value();
    auto lost = service.submit(counted(0)).value();
    BOOST_TEST((service.take(lost, 10s).status() == status::worker_lost));
    auto id = service.submit(counted(1)).value();
    BOOST_TEST(service.take(id, 10s).value()->value == 1);  // the other thread
    BOOST_TEST(service.count().value().exceptions == 0u);
  }
  BOOST_TEST(stopped == 2);
}

BOOST_AUTO_TEST_CASE(gen_10_a_notifier_that_throws_is_counted_and_called_again,
                     *unit_test::label("GEN-10") * unit_test::label("GEN-04")) {
  std::atomic<int> wakes{0};
  auto service = Service::create({2,
                                  1,
                                  nocter::notifier([&] {
                                    wakes++;
                                    throw std::runtime_error("no");
                                  }),
                                  {}})
                     .value();
  for (int i = 1; i <= 2; i++) {
    auto id = service.submit(counted(i)).value();
    auto job = service.claim().value().begin().value();
    const int before = wakes;
    BOOST_REQUIRE(job.guard.complete(std::move(job.input)).ok());
    BOOST_TEST(wakes > before);
    BOOST_TEST(service.take(id).value()->value == i);
  }
  BOOST_TEST(service.count().value().exceptions == static_cast<std::uint64_t>(wakes));
}

BOOST_AUTO_TEST_CASE(gen_05_a_notifier_may_ask_and_not_act, *unit_test::label("GEN-05")) {
  Service* made = nullptr;
  std::atomic<int> asked{0}, refused{0};
  auto service = Service::create({2,
                                  1,
                                  nocter::notifier([&] {
                                    if (made->capacity_epoch().ok() && made->count().ok()) asked++;
                                    if (made->try_claim().status() == status::e_reentrant) refused++;
                                  }),
                                  {}})
                     .value();
  made = &service;
  auto id = service.submit(counted(1)).value();
  service.claim().value().drop();
  BOOST_TEST((service.take(id).status() == status::worker_lost));
  BOOST_TEST(asked > 0);
  BOOST_TEST(asked == refused);
}

BOOST_AUTO_TEST_CASE(blk_06_a_function_may_end_its_job_early, *unit_test::label("BLK-06")) {
  auto service = Service::create({4, 2}).value();
  std::atomic<bool> completed{false}, refused{false};  // Boost.Test itself may not be called from several threads
  auto threads = service
                     .serve([&](std::unique_ptr<Counted> input, Lent& guard) {
                       if (input->value == 0) {
                         guard.drop();
                       } else {
                         auto early = counted(100);
                         const bool ended = guard.complete(std::move(early)).ok();
                         completed = ended && !early;
                         auto twice = counted(200);
                         const status second = guard.complete(std::move(twice)).status();
                         refused = second == status::e_argument && twice && twice->value == 200;
                       }
                       return input;  // too late: dropped
                     })
                     .value();
  auto lost = service.submit(counted(0)).value();
  auto early = service.submit(counted(1)).value();
  BOOST_TEST((service.take(lost, 10s).status() == status::worker_lost));
  BOOST_TEST(service.take(early, 10s).value()->value == 100);
  threads.stop(10s).value();
  BOOST_TEST(completed);
  BOOST_TEST(refused);
}

BOOST_AUTO_TEST_CASE(blk_11_a_running_function_learns_that_nobody_waits, *unit_test::label("BLK-11")) {
  auto service = Service::create({4, 1}).value();
  std::atomic<bool> running{false}, told{false};
  auto threads = service
                     .serve([&](std::unique_ptr<Counted> input, Lent& guard) {
                       auto never = nocter::signal::create().value();
                       running = true;
                       const auto outcome = never.wait(never.version(), nocter::wait(10s).with(guard.interrupt()));
                       told = outcome.status() == status::interrupted && guard.abandoned();
                       return input;
                     })
                     .value();
  BOOST_REQUIRE(service.submit(counted(1)).ok());
  require_soon([&] { return running.load(); });
  BOOST_TEST((threads.try_stop().status() == status::pending));
  BOOST_TEST(service.shutdown().ok());
  BOOST_TEST(service.drained(10s).ok());
  BOOST_TEST(told);
}

BOOST_AUTO_TEST_CASE(gen_01_payloads_of_classes_with_bases_are_deleted_as_what_they_are, *unit_test::label("GEN-01")) {
  struct Shape {
    virtual ~Shape() = default;
    virtual int corners() const = 0;
  };
  struct Square final : Shape {
    Counted alive{4};
    int corners() const override { return alive.value; }
  };
  auto service = nocter::blocking<Shape, Shape>::create({2, 1}).value();
  auto id = service.submit(std::make_unique<Square>()).value();
  BOOST_REQUIRE(service.submit(std::make_unique<Square>()).ok());  // dropped by the service
  auto job = service.claim().value().begin().value();
  BOOST_TEST(job.input->corners() == 4);
  BOOST_REQUIRE(job.guard.complete(std::move(job.input)).ok());
  BOOST_TEST(service.take(id).value()->corners() == 4);
}

BOOST_AUTO_TEST_SUITE_END()
