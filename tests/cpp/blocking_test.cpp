// Jobs by hand: submit, claim, begin, complete, take, cancel, shut down, with typed payloads.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <nocter.hpp>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "counted.hpp"

namespace unit_test = boost::unit_test;
using namespace std::chrono_literals;
using nocter::job_state;
using nocter::status;
using Service = nocter::blocking<Counted, Counted>;

namespace {

Service service_for(std::uint32_t jobs, std::uint32_t workers = 1) { return Service::create({jobs, workers}).value(); }

// Every test leaves as many payloads alive as it found.
struct NoneLost {
  ~NoneLost() { BOOST_TEST(Counted::alive == 0); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking, NoneLost)

using Running = nocter::running_job<Counted, Counted>;
using Guard = nocter::completion<Counted>;
static_assert(!std::is_copy_constructible_v<Service> && std::is_nothrow_move_constructible_v<Service>);
static_assert(!std::is_copy_constructible_v<Running> && std::is_nothrow_move_constructible_v<Running>);
static_assert(!std::is_copy_constructible_v<Guard> && std::is_nothrow_move_assignable_v<Guard>);

BOOST_AUTO_TEST_CASE(blk_05_a_job_goes_through_and_its_payloads_with_it,
                     *unit_test::label("BLK-05") * unit_test::label("BND-05")) {
  auto service = service_for(2);
  auto input = counted(20);
  Counted* const same = input.get();
  auto id = service.submit(std::move(input)).value();
  BOOST_TEST(!input);
  BOOST_TEST((service.query(id).value() == job_state::queued));
  BOOST_TEST((service.try_take(id).status() == status::pending));

  auto job = service.claim().value();
  BOOST_TEST((job.id() == id));
  auto begun = job.begin().value();
  BOOST_TEST(begun.input.get() == same);
  BOOST_TEST((begun.guard.id() == id));
  BOOST_TEST(!begun.guard.abandoned());
  BOOST_TEST((service.query(id).value() == job_state::running));
  BOOST_TEST((job.begin().status() == status::e_argument));  // consumed

  begun.input->value++;
  BOOST_TEST(begun.guard.complete(std::move(begun.input)).ok());
  BOOST_TEST((service.query(id).value() == job_state::completed));
  auto output = service.take(id).value();
  BOOST_TEST(output.get() == same);
  BOOST_TEST(output->value == 21);
  BOOST_TEST((service.query(id).status() == status::e_unknown));
}

BOOST_AUTO_TEST_CASE(blk_03_saturation_leaves_the_input_and_tells_the_epoch,
                     *unit_test::label("BLK-03") * unit_test::label("GEN-02")) {
  auto service = service_for(1);
  auto first = service.submit(counted(1)).value();
  auto second = counted(2);
  Counted* const same = second.get();
  nocter::epoch seen;
  BOOST_TEST((service.submit(std::move(second), &seen).status() == status::saturated));
  BOOST_TEST(second.get() == same);
  BOOST_TEST((seen == service.capacity_epoch().value()));
  BOOST_TEST((service.wait_epoch(seen, 1ms).status() == status::timeout));
  BOOST_TEST((service.submit(std::move(second), 1ms).status() == status::timeout));
  BOOST_TEST(second.get() == same);

  auto back = service.cancel(first).value();
  BOOST_TEST((back.was == job_state::queued));
  BOOST_TEST(back.input->value == 1);
  BOOST_TEST(!back.output);
  BOOST_TEST((service.wait_epoch(seen).value() != seen));
  BOOST_TEST(service.submit(std::move(second), 1ms).ok());
  BOOST_TEST(!second);
}

BOOST_AUTO_TEST_CASE(blk_04_a_waiting_submit_gets_the_place_that_becomes_free, *unit_test::label("BLK-04")) {
  auto service = service_for(1);
  auto first = service.submit(counted(1)).value();
  bool cancelled = false;
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    cancelled = service.cancel(first).ok();
  });
  auto second = counted(2);
  const auto id = service.submit(std::move(second), nocter::wait::forever());
  other.join();
  BOOST_TEST(cancelled);
  BOOST_TEST(id.ok());
  BOOST_TEST((*id != first));
}

BOOST_AUTO_TEST_CASE(blk_06_guards_that_go_out_of_scope_tell_the_waiter,
                     *unit_test::label("BLK-06") * unit_test::label("BLK-07")) {
  auto service = service_for(3);
  auto claimed = service.submit(counted(1)).value();
  { auto job = service.claim().value(); }
  BOOST_TEST((service.take(claimed).status() == status::worker_lost));

  auto begun = service.submit(counted(2)).value();
  { auto job = service.claim().value().begin().value(); }
  BOOST_TEST((service.take(begun).status() == status::worker_lost));

  auto dropped = service.submit(counted(3)).value();
  auto job = service.claim().value();
  job.drop();
  job.drop();
  BOOST_TEST((service.take(dropped).status() == status::worker_lost));
  // The one worker slot is free again, each time.
  auto last = service.submit(counted(4)).value();
  auto begun_last = service.claim(0ms).value().begin().value();
  begun_last.guard.drop();
  BOOST_TEST((service.take(last).status() == status::worker_lost));
}

BOOST_AUTO_TEST_CASE(gen_02_complete_on_a_consumed_guard_leaves_the_output, *unit_test::label("GEN-02")) {
  auto service = service_for(1);
  auto id = service.submit(counted(1)).value();
  auto begun = service.claim().value().begin().value();
  Guard moved = std::move(begun.guard);
  auto output = counted(2);
  BOOST_TEST((begun.guard.complete(std::move(output)).status() == status::e_argument));
  BOOST_REQUIRE(output);
  BOOST_TEST(moved.complete(std::move(output)).ok());
  BOOST_TEST(service.take(id).value()->value == 2);
}

BOOST_AUTO_TEST_CASE(blk_09_cancel_brings_back_what_nobody_runs, *unit_test::label("BLK-09")) {
  auto service = service_for(3);
  auto completed = service.submit(counted(1)).value();
  auto job = service.claim().value().begin().value();
  BOOST_REQUIRE(job.guard.complete(counted(10)).ok());
  auto back = service.cancel(completed).value();
  BOOST_TEST((back.was == job_state::completed));
  BOOST_TEST(back.output->value == 10);
  BOOST_TEST(!back.input);

  auto running = service.submit(counted(2)).value();
  auto abandoned = service.claim().value().begin().value();
  auto ender = abandoned.guard.interrupt();
  BOOST_TEST(!ender.raised());
  auto nothing = service.cancel(running).value();
  BOOST_TEST((nothing.was == job_state::running));
  BOOST_TEST((!nothing.input && !nothing.output));
  BOOST_TEST(abandoned.guard.abandoned());
  BOOST_TEST(ender.raised());
  auto signal = nocter::signal::create().value();
  BOOST_TEST((signal.wait(signal.version(), nocter::wait::forever().with(ender)).status() == status::interrupted));
  BOOST_TEST(abandoned.guard.complete(counted(20)).ok());  // dropped: nobody waits
  BOOST_TEST((service.take(running).status() == status::e_unknown));
  BOOST_TEST((service.cancel(running).status() == status::e_unknown));
}

BOOST_AUTO_TEST_CASE(gen_03_identities_compare_hash_and_belong_to_their_service, *unit_test::label("GEN-03")) {
  auto service = service_for(2), other = service_for(2);
  auto first = service.submit(counted(1)).value();
  auto second = service.submit(counted(2)).value();
  auto foreign = other.submit(counted(3)).value();
  std::unordered_map<nocter::job_id, int> numbers{{first, 1}, {second, 2}, {foreign, 3}};
  BOOST_TEST(numbers.size() == 3u);
  BOOST_TEST(numbers.at(second) == 2);
  BOOST_TEST((first != second));
  BOOST_TEST((first != foreign));
  BOOST_TEST((service.take(foreign).status() == status::e_foreign));
  BOOST_TEST((service.wait_epoch(other.capacity_epoch().value(), 0ms).status() == status::e_foreign));
  BOOST_TEST((service.query(nocter::job_id()).status() != status::ok));
}

BOOST_AUTO_TEST_CASE(blk_12_completed_names_each_ended_job_once, *unit_test::label("BLK-12")) {
  auto service = service_for(3, 3);
  std::vector<nocter::job_id> ids;
  for (int i = 0; i < 3; i++) ids.push_back(service.submit(counted(i)).value());
  BOOST_TEST(service.completed().value().empty());
  for (int i = 0; i < 3; i++) {
    auto job = service.claim().value().begin().value();
    BOOST_REQUIRE(job.guard.complete(std::move(job.input)).ok());
  }
  auto two = service.completed(2).value();
  auto rest = service.completed().value();
  BOOST_REQUIRE(two.size() == 2u);
  BOOST_REQUIRE(rest.size() == 1u);
  BOOST_TEST((two[0] == ids[0] && two[1] == ids[1] && rest[0] == ids[2]));
  BOOST_TEST((service.completed(0).status() == status::e_argument));
  for (auto id : ids) BOOST_TEST(service.take(id).ok());
}

BOOST_AUTO_TEST_CASE(blk_12_take_many_takes_jobs_as_they_end, *unit_test::label("BLK-12")) {
  auto service = service_for(3, 3);
  BOOST_TEST((service.try_take_many().status() == status::pending));
  BOOST_TEST((service.take_many(4, 0ms).status() == status::timeout));
  std::vector<nocter::job_id> ids;
  for (int i = 0; i < 3; i++) ids.push_back(service.submit(counted(i)).value());
  for (int i = 0; i < 3; i++) {
    auto job = service.claim().value().begin().value();
    if (i != 1) BOOST_REQUIRE(job.guard.complete(std::move(job.input)).ok());
  }
  auto two = service.take_many(2).value();
  auto rest = service.take_many().value();
  BOOST_REQUIRE(two.size() == 2u);
  BOOST_REQUIRE(rest.size() == 1u);
  BOOST_TEST((two[0].id == ids[0] && two[1].id == ids[1] && rest[0].id == ids[2]));
  BOOST_TEST((two[0].output != nullptr && two[1].output == nullptr && rest[0].output != nullptr));
  BOOST_TEST((service.take_many(0).status() == status::e_argument));
  BOOST_TEST((service.take(ids[0]).status() == status::e_unknown));
}

BOOST_AUTO_TEST_CASE(blk_11_shutdown_hands_inputs_and_outputs_back_typed, *unit_test::label("BLK-11")) {
  auto service = service_for(4, 2);
  auto done = service.submit(counted(1)).value();
  auto running = service.submit(counted(2)).value();
  for (int i = 3; i <= 4; i++) BOOST_REQUIRE(service.submit(counted(i)).ok());
  auto first = service.claim().value().begin().value();
  BOOST_REQUIRE(first.guard.complete(counted(100)).ok());
  auto second = service.claim().value().begin().value();
  BOOST_TEST((service.drained(0ms).status() == status::e_state));

  std::vector<int> inputs, outputs;
  BOOST_TEST(service
                 .shutdown([&](std::unique_ptr<Counted> input) { inputs.push_back(input->value); },
                           [&](std::unique_ptr<Counted> output) { outputs.push_back(output->value); })
                 .ok());
  BOOST_TEST((inputs == std::vector<int>{3, 4}));
  BOOST_TEST((outputs == std::vector<int>{100}));
  BOOST_TEST(second.guard.abandoned());
  BOOST_TEST((service.take(running).status() == status::closed));
  BOOST_TEST((service.take(done).status() != status::ok));
  auto late = counted(5);
  BOOST_TEST((service.submit(std::move(late)).status() == status::closed));
  BOOST_TEST((service.submit(std::move(late), nocter::wait::forever()).status() == status::closed));
  BOOST_TEST(late->value == 5);
  BOOST_TEST((service.claim().status() == status::closed));
  BOOST_TEST((service.drained(1ms).status() == status::timeout));
  second.guard.drop();
  BOOST_TEST(service.drained().ok());
  const auto counts = service.count().value();
  BOOST_TEST(counts.accepting == 0u);
  BOOST_TEST(counts.accepted == 4u);
  BOOST_TEST(counts.shutdown_queued == 2u);
  BOOST_TEST(counts.shutdown_completed == 1u);
  BOOST_TEST(counts.abandoned_retired == 1u);
}

BOOST_AUTO_TEST_CASE(gen_01_a_service_that_goes_away_drops_what_it_holds_and_leaves_the_guards,
                     *unit_test::label("GEN-01")) {
  auto kept = std::make_unique<Service>(service_for(3));
  auto first = kept->submit(counted(1)).value();
  BOOST_REQUIRE(kept->submit(counted(2)).ok());
  auto job = kept->claim().value();
  BOOST_TEST((job.id() == first));
  kept.reset();
  BOOST_TEST(Counted::alive == 1);  // the input of the job that is out
  auto begun = job.begin().value();
  BOOST_TEST(begun.guard.abandoned());
  BOOST_TEST(begun.guard.complete(std::move(begun.input)).ok());
  BOOST_TEST(Counted::alive == 0);
}

BOOST_AUTO_TEST_CASE(gen_01_empty_payloads_are_payloads_too, *unit_test::label("GEN-01")) {
  auto service = service_for(1);
  auto id = service.submit(nullptr).value();
  auto begun = service.claim().value().begin().value();
  BOOST_TEST(!begun.input);
  BOOST_REQUIRE(begun.guard.complete(nullptr).ok());
  auto output = service.take(id);
  BOOST_TEST(output.ok());
  BOOST_TEST(!*output);
}

BOOST_AUTO_TEST_SUITE_END()
