// Completion tokens of Boost.Asio: who awaits a job gets its outcome, once, on its own executor, and no thread blocks for it.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <nocter_asio.hpp>
#include <vector>

#include "asio_support.hpp"

using namespace nocter_tests;
using namespace std::chrono_literals;
using asio::use_awaitable;
using nocter::job_state;
using nocter::status;

BOOST_FIXTURE_TEST_SUITE(asio_tokens, AsioTest)

// ---- Every kind of token -------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(bnd_05_blk_14_hundreds_of_coroutines_await_their_jobs_beyond_the_bound,
                     *label("BND-05") * label("BLK-14")) {
  asio::io_context context(1);
  auto jobs = Jobs::create(context, {16, 2}).value();
  auto workers = serve(jobs);
  const int coroutines = 200, each = static_cast<int>(rounds(50, 10));
  std::uint64_t sum = 0;
  const auto one = [&](int first) -> asio::awaitable<void> {
    for (int i = 0; i < each; i++) {
      const auto output = co_await jobs.async_run(counted(first + i), use_awaitable);
      BOOST_CHECK_EQUAL(output->value, 2 * (first + i));
      sum += static_cast<std::uint64_t>(output->value);
    }
  };
  for (int i = 0; i < coroutines; i++) asio::co_spawn(context, one(i), rethrow);
  run(context);
  const auto total = static_cast<std::uint64_t>(coroutines);
  const auto rows = static_cast<std::uint64_t>(each);
  BOOST_CHECK_EQUAL(sum, 2 * (rows * total * (total - 1) / 2 + total * rows * (rows - 1) / 2));
  BOOST_CHECK_EQUAL(counts(jobs).taken, total * rows);
  BOOST_CHECK_GT(counts(jobs).saturated, 0u);
}

BOOST_AUTO_TEST_CASE(bnd_05_futures_callbacks_deferred_and_tuples, *label("BND-05") * label("BLK-14")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {8, 2}).value();
  auto workers = serve(jobs);
  auto future = jobs.async_run(counted(1), asio::use_future);
  auto lost = jobs.async_run(counted(kLost), asio::use_future);
  auto id = jobs.async_submit(counted(2), asio::use_future);
  int called = 0;
  jobs.async_run(counted(3), [&](error_code error, std::unique_ptr<Counted> output) {
    BOOST_CHECK(!error);
    called = output->value;
  });
  auto later = jobs.async_run(counted(4), asio::deferred);
  int deferred = 0;
  std::move(later)([&](error_code, std::unique_ptr<Counted> output) { deferred = output->value; });
  asio::co_spawn(
      context,
      [](Jobs& on) -> asio::awaitable<void> {
        auto [error, output] = co_await on.async_run(counted(kLost), asio::as_tuple(use_awaitable));
        BOOST_CHECK(error == status::worker_lost);
        BOOST_CHECK(!output);
      }(jobs),
      rethrow);
  run(context);
  BOOST_CHECK_EQUAL(called, 6);
  BOOST_CHECK_EQUAL(deferred, 8);
  BOOST_CHECK_EQUAL(future.get()->value, 2);
  BOOST_CHECK_EXCEPTION(lost.get(), boost::system::system_error, [](const boost::system::system_error& thrown) {
    return thrown.code() == status::worker_lost && std::string(thrown.what()).find("NOCTER_WORKER_LOST") == 0;
  });
  auto taken = jobs.async_take(id.get(), asio::use_future);
  context.restart();
  run(context);
  BOOST_CHECK_EQUAL(taken.get()->value, 4);
}

BOOST_AUTO_TEST_CASE(bnd_05_a_handler_runs_on_its_executor_and_never_inside_the_call, *label("BND-05")) {
  asio::io_context context, other;
  auto jobs = Jobs::create(context, {8, 1}).value();
  const auto id = jobs.service().submit(counted(1)).value();
  complete_one(jobs);
  bool called = false;
  const auto check = [&](error_code error, std::unique_ptr<Counted> output) {
    BOOST_CHECK(!error);
    BOOST_CHECK_EQUAL(output->value, 2);
    BOOST_CHECK(other.get_executor().running_in_this_thread());
    called = true;
  };
  jobs.async_take(id, asio::bind_executor(other.get_executor(), check));
  BOOST_CHECK(!called);  // it had ended before, and is told of all the same
  run(context);
  BOOST_CHECK(!called);
  run(other);
  BOOST_CHECK(called);
}

BOOST_AUTO_TEST_CASE(bnd_05_a_context_has_work_exactly_while_something_waits, *label("BND-05")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {8, 1}).value();
  BOOST_CHECK_EQUAL(context.run(), 0u);
  context.restart();
  bool ended = false;
  jobs.async_run(counted(1), [&](error_code, std::unique_ptr<Counted>) { ended = true; });
  context.poll();
  BOOST_CHECK(!context.stopped());
  BOOST_CHECK(!ended);
  complete_one(jobs);
  run(context);
  BOOST_CHECK(ended);
  BOOST_CHECK(context.stopped());
}

// ---- Cancellation ----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(blk_09_b_1_cancelling_takes_back_what_nobody_began_and_abandons_what_runs,
                     *label("BLK-09") * label("BND-05")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {2, 1}).value();
  asio::cancellation_signal signals[3];
  std::vector<std::pair<int, error_code>> ended;
  const auto note = [&](int number) {
    return asio::bind_cancellation_slot(signals[number].slot(),
                                        [&, number](error_code error, std::unique_ptr<Counted> output) {
                                          BOOST_CHECK(!output);
                                          ended.emplace_back(number, error);
                                        });
  };
  for (int number = 0; number < 3; number++)
    jobs.async_run(counted(number), note(number));  // the last one finds no place
  auto job = jobs.service().try_claim().value().begin().value();
  BOOST_CHECK_EQUAL(counts(jobs).queued, 1u);
  for (const int number : {2, 1, 0}) signals[number].emit(asio::cancellation_type::terminal);
  BOOST_CHECK(ended.empty());
  BOOST_CHECK(job.guard.abandoned());
  BOOST_CHECK(job.guard.interrupt().raised());
  run(context);
  BOOST_REQUIRE_EQUAL(ended.size(), 3u);
  for (const auto& [number, error] : ended) BOOST_CHECK(error == asio::error::operation_aborted);
  BOOST_CHECK_EQUAL(counts(jobs).cancelled_queued, 1u);
  BOOST_CHECK_EQUAL(counts(jobs).abandoned, 1u);
  for (auto& signal : signals) signal.emit(asio::cancellation_type::terminal);  // too late: does nothing
  BOOST_CHECK(job.guard.complete(counted(9)).ok());
  BOOST_CHECK_EQUAL(counts(jobs).admitted, 0u);
}

BOOST_AUTO_TEST_CASE(blk_09_b_2_a_result_that_came_first_is_delivered, *label("BLK-09") * label("BLK-10")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {2, 1}).value();
  asio::cancellation_signal signals[2];
  int value = 0;
  error_code loss;
  jobs.async_run(counted(20), asio::bind_cancellation_slot(signals[0].slot(), [&](error_code error, auto output) {
                   BOOST_CHECK(!error);
                   value = output->value;
                 }));
  jobs.async_run(counted(1),
                 asio::bind_cancellation_slot(signals[1].slot(), [&](error_code error, auto) { loss = error; }));
  complete_one(jobs);
  jobs.service().try_claim().value().drop();
  // Both have ended, and the context has had no turn to see it.
  for (auto& signal : signals) signal.emit(asio::cancellation_type::total);
  run(context);
  BOOST_CHECK_EQUAL(value, 40);
  BOOST_CHECK(loss == status::worker_lost);
  BOOST_CHECK_EQUAL(counts(jobs).cancelled_completed, 2u);
}

BOOST_AUTO_TEST_CASE(blk_09_a_timer_and_a_job_whoever_is_first, *label("BLK-09") * label("GEN-07")) {
  using namespace asio::experimental::awaitable_operators;
  asio::io_context context;
  auto jobs = Jobs::create(context, {4, 2}).value();
  Gate gate;
  auto workers = jobs.service()
                     .serve([&](std::unique_ptr<Counted> input) {
                       if (input->value == 1) gate.pass();
                       return input;
                     })
                     .value();
  bool timed_out = false, in_time = false;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
        auto first = co_await (jobs.async_run(counted(1), use_awaitable) || timer.async_wait(use_awaitable));
        timed_out = first.index() == 1;
        timer.expires_after(std::chrono::milliseconds(kLimitMs));
        auto second = co_await (jobs.async_run(counted(2), use_awaitable) || timer.async_wait(use_awaitable));
        in_time = second.index() == 0 && std::get<0>(second)->value == 2;
      },
      rethrow);
  run(context);
  BOOST_CHECK(timed_out);
  BOOST_CHECK(in_time);
  BOOST_CHECK_EQUAL(counts(jobs).abandoned, 1u);
  gate.open();
}

BOOST_AUTO_TEST_CASE(blk_10_jobs_that_others_take_cancel_or_shut_down_end_their_wait,
                     *label("BLK-10") * label("BLK-12")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {8, 3}).value();
  auto& service = jobs.service();
  std::map<int, error_code> ended;
  const auto note = [&](int number) {
    return [&, number](error_code error, std::unique_ptr<Counted>) { ended[number] = error; };
  };
  std::vector<nocter::job_id> ids;
  for (int number = 0; number < 5; number++) {
    ids.push_back(service.submit(counted(number)).value());
    jobs.async_take(ids.back(), note(number));
  }
  jobs.async_take(ids[4], note(14));  // two that wait for one job
  context.poll();
  complete_one(jobs);
  BOOST_CHECK(service.take(ids[0]).ok());
  auto running = service.try_claim().value();
  BOOST_CHECK(service.cancel(ids[1]).ok());
  BOOST_CHECK(service.cancel(ids[2]).ok());
  context.poll();
  BOOST_CHECK_EQUAL(ended.size(), 3u);
  BOOST_CHECK(ended[0] == status::e_unknown);
  BOOST_CHECK(ended[1] == status::e_state);
  BOOST_CHECK(ended[2] == status::e_unknown);

  auto claimed = service.try_claim().value();
  error_code drained = status::pending;
  BOOST_CHECK(service.shutdown().ok());
  jobs.async_drained([&](error_code error) { drained = error; });
  jobs.async_run(counted(7), note(7));
  context.poll();
  for (const int number : {3, 4, 14, 7}) BOOST_CHECK(ended[number] == status::closed);
  BOOST_CHECK(drained == status::pending);
  running.drop();
  claimed.drop();
  run(context);
  BOOST_CHECK(!drained);
}

BOOST_AUTO_TEST_CASE(blk_14_two_that_wait_for_one_job, *label("BLK-14") * label("BLK-10")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {8, 1}).value();
  const auto id = jobs.service().submit(counted(3)).value();
  int got = 0, unknown = 0;
  const auto note = [&](error_code error, std::unique_ptr<Counted> output) {
    (error ? unknown : got)++;
    BOOST_CHECK(error ? error == status::e_unknown : output->value == 6);
  };
  jobs.async_take(id, note);
  jobs.async_take(id, note);
  complete_one(jobs);
  run(context);
  BOOST_CHECK_EQUAL(got, 1);
  BOOST_CHECK_EQUAL(unknown, 1);
}

// ---- Places ------------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(blk_03_b_22_b_24_saturated_submits_wait_in_order_and_no_thread_with_them,
                     *label("BLK-03") * label("BLK-04") * label("BLK-14")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {1, 1}).value();
  std::vector<int> order;
  for (int number = 0; number < 5; number++) {
    jobs.async_submit(counted(number), [&, number](error_code error, nocter::job_id) {
      BOOST_CHECK(!error);
      order.push_back(number);
    });
  }
  for (int number = 0; number < 5; number++) {
    context.poll();
    BOOST_CHECK_EQUAL(order.size(), static_cast<std::size_t>(number + 1));
    auto job = jobs.service().try_claim().value().begin().value();
    BOOST_CHECK_EQUAL(job.input->value, number);
    const auto id = job.guard.id();
    BOOST_CHECK(job.guard.complete(std::move(job.input)).ok());
    BOOST_CHECK(jobs.service().try_take(id).ok());
  }
  BOOST_CHECK((order == std::vector<int>{0, 1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(blk_03_b_23_an_input_is_kept_by_who_waits_for_the_epoch, *label("BLK-03") * label("BLK-04")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {1, 1}).value();
  const auto first = jobs.service().submit(counted(1)).value();
  bool accepted = false;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        auto input = counted(2);
        Counted* const same = input.get();
        nocter::epoch seen;
        const auto begun = jobs.service().capacity_epoch().value();
        while (jobs.service().submit(std::move(input), &seen).status() == status::saturated) {
          BOOST_CHECK(input.get() == same);
          co_await jobs.async_wait_epoch(seen, use_awaitable);
        }
        accepted = true;
        auto [error, now] = co_await jobs.async_wait_epoch(begun, asio::as_tuple(use_awaitable));
        BOOST_CHECK(!error);
        BOOST_CHECK((now == seen && now != begun));
      },
      rethrow);
  context.poll();
  BOOST_CHECK(!accepted);
  BOOST_CHECK(jobs.service().cancel(first).ok());
  run(context);
  BOOST_CHECK(accepted);
}

BOOST_AUTO_TEST_CASE(blk_11_b_25_shutdown_ends_waits_for_a_place, *label("BLK-11")) {
  asio::io_context context;
  auto jobs = Jobs::create(context, {1, 1}).value();
  auto running = [&] {
    BOOST_REQUIRE(jobs.service().submit(counted(1)).ok());
    return jobs.service().try_claim().value();
  }();
  int closed = 0;
  const auto epoch = jobs.service().capacity_epoch().value();
  jobs.async_run(counted(2), [&](error_code error, auto) { closed += error == status::closed; });
  jobs.async_submit(counted(3), [&](error_code error, auto) { closed += error == status::closed; });
  jobs.async_wait_epoch(epoch, [&](error_code error, auto) { closed += error == status::closed; });
  jobs.async_drained([&](error_code error) { BOOST_CHECK(error == status::e_state); });  // it was not shut down
  context.poll();
  BOOST_CHECK_EQUAL(closed, 0);
  BOOST_CHECK(jobs.service().shutdown().ok());  // frees no place: what runs goes on
  run(context);
  BOOST_CHECK_EQUAL(closed, 3);
}

BOOST_AUTO_TEST_CASE(gen_05_a_work_notifier_may_use_the_service_and_begin_operations, *label("GEN-05")) {
  asio::io_context context;
  Jobs* all = nullptr;
  int woken = 0, ended = 0;
  nocter::blocking_options options{4, 1};
  options.work = nocter::notifier([&] {
    if (woken++ == 0) all->async_submit(counted(2), [&](error_code error, auto) { ended += !error; });
  });
  auto jobs = Jobs::create(context, std::move(options)).value();
  all = &jobs;
  BOOST_CHECK(jobs.service().try_claim().status() == status::empty);  // asks to be told
  jobs.async_submit(counted(1), [&](error_code error, auto) { ended += !error; });
  run(context);
  BOOST_CHECK_GE(woken, 1);
  BOOST_CHECK_EQUAL(ended, 2);
}

// ---- Who goes first ------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(gen_01_a_context_that_is_destroyed_gives_up_what_waits, *label("GEN-01") * label("BLK-09")) {
  std::optional<Jobs> jobs;
  std::vector<nocter::running_job<Counted, Counted>> running;
  int told = 0;
  {
    asio::io_context context;
    jobs.emplace(Jobs::create(context, {3, 1}).value());
    const auto note = [&, kept = std::make_shared<Counted>(0)](error_code, auto) { told++; };
    for (int number = 0; number < 5; number++) jobs->async_run(counted(number), note);
    asio::co_spawn(
        context,
        [&, frame = counted(5)]() -> asio::awaitable<void> {
          co_await jobs->async_run(counted(6), use_awaitable);
          told++;
        },
        asio::detached);
    context.poll();
    running.push_back(jobs->service().try_claim().value());
    BOOST_CHECK_GT(Counted::alive, 5);
  }
  BOOST_CHECK_EQUAL(told, 0);
  const auto now = counts(*jobs);
  BOOST_CHECK_EQUAL(now.cancelled_queued, 2u);
  BOOST_CHECK_EQUAL(now.abandoned, 1u);
  BOOST_CHECK_EQUAL(now.admitted, 1u);
  BOOST_CHECK_EQUAL(Counted::alive, 1);  // what runs
  running.clear();
  BOOST_CHECK(jobs->service().submit(counted(9)).ok());  // the service works on without the context
}

BOOST_AUTO_TEST_CASE(gen_01_a_context_that_is_destroyed_with_the_object_in_a_frame, *label("GEN-01")) {
  auto context = std::make_unique<asio::io_context>();
  asio::co_spawn(
      *context,
      []() -> asio::awaitable<void> {
        auto jobs = Jobs::create(co_await asio::this_coro::executor, {3, 1}).value();
        auto workers = jobs.service()
                           .serve([](std::unique_ptr<Counted> input, nocter::lent_completion<Counted>& guard) {
                             auto never = nocter::signal::create().value();
                             (void)never.wait(never.version(), nocter::wait::forever().with(guard.interrupt()));
                             return input;
                           })
                           .value();
        co_await jobs.async_run(counted(1), use_awaitable);
      },
      asio::detached);
  context->poll();
  BOOST_CHECK(!context->stopped());
  context.reset();  // gives the job up, and so ends what it waits for: the workers' end waits for that
}

BOOST_AUTO_TEST_CASE(blk_09_an_object_that_is_destroyed_cancels_what_waits_on_it, *label("BLK-09") * label("GEN-01")) {
  asio::io_context context;
  int aborted = 0, delivered = 0;
  {
    auto jobs = Jobs::create(context, {2, 2}).value();
    const auto note = [&](error_code error, std::unique_ptr<Counted> output) {
      aborted += error == asio::error::operation_aborted;
      delivered += output != nullptr;
    };
    for (int number = 0; number < 4; number++) jobs.async_run(counted(number), note);
    complete_one(jobs);
    auto moved = std::move(jobs);
    jobs = Jobs::create(context, {1, 1}).value();
  }
  run(context);
  BOOST_CHECK_EQUAL(aborted, 3);
  BOOST_CHECK_EQUAL(delivered, 1);
}

// ---- Several contexts, several threads ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(blk_14_several_contexts_of_one_service_each_on_its_thread, *label("BLK-14") * label("BND-05")) {
  asio::io_context first, second;
  auto here = Jobs::create(first, {4, 2}).value();
  auto there = here.on(second.get_executor()).value();
  auto workers = serve(here);
  const int each = static_cast<int>(rounds(3'000, 300));
  const auto loop = [](Jobs& jobs, asio::io_context& mine, int& done) -> asio::awaitable<void> {
    for (int i = 0; i < each; i++) {
      const auto output = co_await jobs.async_run(counted(i), use_awaitable);
      HOLDS(output->value == 2 * i);
      HOLDS(mine.get_executor().running_in_this_thread());
      done++;
    }
  };
  int done[4] = {};
  for (int i = 0; i < 2; i++) {
    asio::co_spawn(first, loop(here, first, done[i]), rethrow);
    asio::co_spawn(second, loop(there, second, done[2 + i]), rethrow);
  }
  Thread other([&] { run(second); });
  run(first);
  other.join();
  for (const int count : done) BOOST_CHECK_EQUAL(count, each);
}

BOOST_AUTO_TEST_CASE(blk_14_a_context_that_has_stopped_holds_nobody_else_up, *label("BLK-14")) {
  asio::io_context first;
  auto here = Jobs::create(first, {8, 1}).value();
  int told = 0;
  {
    asio::io_context second;
    auto there = here.on(second.get_executor()).value();
    for (int number = 0; number < 2; number++) {
      there.async_run(counted(number), [&](error_code, auto) { told++; });
      here.async_run(counted(number), [&](error_code, auto) { told += 10; });
    }
    second.stop();
    for (int i = 0; i < 4; i++) complete_one(here);
    run(first);
    BOOST_CHECK_EQUAL(told, 20);
  }  // told by the first one, and never run: destroyed with their context
  BOOST_CHECK_EQUAL(told, 20);
  BOOST_CHECK_EQUAL(counts(here).taken, 4u);
}

BOOST_AUTO_TEST_CASE(blk_14_gen_01_a_storm_on_pools_with_random_cancels,
                     *label("BLK-14") * label("BLK-10") * label("GEN-01")) {
  const int total = static_cast<int>(rounds(20'000, 2'000));
  std::atomic<int> delivered{0}, aborted{0}, lost{0};
  {
    asio::thread_pool pool(2);
    asio::io_context context;
    auto guard = asio::make_work_guard(context);
    Thread runner([&] { context.run(); });
    auto jobs = Jobs::create(pool, {8, 2}).value();
    auto also = jobs.on(context.get_executor()).value();
    auto workers = serve(jobs);
    const auto coroutine = [&](Jobs& on, uint64_t stream, int rounds_to_run) -> asio::awaitable<void> {
      using namespace asio::experimental::awaitable_operators;
      auto random = random_stream(stream);
      asio::steady_timer timer(co_await asio::this_coro::executor);
      for (int i = 0; i < rounds_to_run; i++) {
        const bool loses = below(random, 50) == 0;
        auto job = on.async_run(counted(loses ? kLost : i), asio::as_tuple(use_awaitable));
        error_code error;
        if (below(random, 4) == 0) {
          timer.expires_after(std::chrono::microseconds(below(random, 100)));
          auto outcome = co_await (std::move(job) || timer.async_wait(asio::as_tuple(use_awaitable)));
          if (outcome.index() == 0) error = std::get<0>(std::get<0>(outcome));
          if (outcome.index() == 1) error = asio::error::operation_aborted;
        } else {
          auto [result, output] = co_await std::move(job);
          error = result;
          HOLDS(!!output == !error);
        }
        if (!error) delivered++;
        if (error == asio::error::operation_aborted) aborted++;
        if (error == status::worker_lost) lost++;
      }
    };
    const int coroutines = 20;
    std::atomic<int> left{coroutines};
    for (int i = 0; i < coroutines; i++) {
      const bool pooled = i % 2 == 0;
      const auto executor =
          pooled ? asio::any_io_executor(asio::make_strand(pool)) : asio::any_io_executor(context.get_executor());
      asio::co_spawn(executor, coroutine(pooled ? jobs : also, static_cast<uint64_t>(i), total / coroutines),
                     [&](std::exception_ptr thrown) {
                       HOLDS(thrown == nullptr);
                       left--;
                     });
    }
    BOOST_CHECK(eventually([&] { return left == 0; }));
    guard.reset();
    runner.join();
    pool.join();
    BOOST_CHECK(eventually([&] { return counts(jobs).admitted == 0; }));
  }
  BOOST_CHECK_EQUAL(delivered + aborted + lost, total);
  BOOST_CHECK_GT(delivered, 0);
  BOOST_CHECK_GT(lost, 0);
}

BOOST_AUTO_TEST_CASE(gen_02_misuse_is_an_answer, *label("GEN-02")) {
  asio::io_context context;
  nocter::blocking_options options{4, 1};
  options.waiters = nocter::notifier([] {});
  const auto refused = Jobs::create(context, std::move(options));
  BOOST_CHECK(refused.status() == status::e_argument);
  BOOST_CHECK(refused.message().find("waiters") != std::string::npos);
  BOOST_CHECK(Jobs::create(context, {0, 1}).status() == status::e_argument);

  auto jobs = Jobs::create(context, {4, 1}).value();
  auto other = Jobs::create(context, {4, 1}).value();
  const auto foreign = other.service().submit(counted(1)).value();
  error_code errors[3];
  jobs.async_take(nocter::job_id(), [&](error_code error, auto) { errors[0] = error; });
  jobs.async_take(foreign, [&](error_code error, auto) { errors[1] = error; });
  jobs.async_wait_epoch(other.service().capacity_epoch().value(), [&](error_code error, auto) { errors[2] = error; });
  run(context);
  BOOST_CHECK(errors[0] == status::e_unknown);
  BOOST_CHECK(errors[1] == status::e_foreign);
  BOOST_CHECK(errors[2] == status::e_foreign);
  BOOST_CHECK_EQUAL(std::string(errors[1].category().name()), "nocter");
}

BOOST_AUTO_TEST_SUITE_END()
