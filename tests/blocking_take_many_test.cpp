// Taking jobs as they end, a batch a call. BLK-08, BLK-12, GEN-02, GEN-07.
#include <nocter.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

nocter_blocking* make_service(const Shape& shape) {
  const nocter_blocking_options options = options_of(shape);
  nocter_blocking* service = nullptr;
  status_is(nocter_blocking_create(&options, &service), NOCTER_OK);
  return service;
}

struct Batch {
  nocter_status status;
  std::vector<nocter_taken> taken;
};

Batch take_many(nocter_blocking* service, size_t capacity, const nocter_wait* wait = nullptr) {
  std::vector<nocter_taken> room(capacity);
  size_t count = 77;
  const nocter_status status = nocter_blocking_take_many(service, wait, room.data(), capacity, &count);
  HOLDS(count <= capacity);
  HOLDS((status == NOCTER_OK) == (count != 0));
  room.resize(count);
  return {status, std::move(room)};
}

// Claims the oldest job and completes it with its input, or drops it.
void run_one(nocter_blocking* service, bool lose = false) {
  nocter_running_job* job = nullptr;
  status_is(nocter_blocking_claim(service, nullptr, &job), NOCTER_OK);
  if (lose) return nocter_running_job_drop(job);
  nocter_owned value;
  nocter_completion* completion = nullptr;
  status_is(nocter_running_job_begin(job, &value, &completion), NOCTER_OK);
  status_is(nocter_completion_complete(completion, &value), NOCTER_OK);
}

constexpr nocter_wait kForever = {NOCTER_FOREVER, nullptr, 0, 0};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_take_many_suite, EveryTest)

BOOST_AUTO_TEST_CASE(blk_12_jobs_are_taken_in_the_order_in_which_they_end, *label("BLK-12")) {
  nocter_blocking* service = make_service({.maximum_jobs = 8, .workers = 8});
  BOOST_CHECK_EQUAL(take_many(service, 4).status, NOCTER_PENDING);
  std::vector<nocter_job_id> ids;
  for (uint64_t i = 0; i < 5; i++) ids.push_back(accept(service, i));
  for (int i = 0; i < 5; i++) run_one(service, i == 2);
  Batch first = take_many(service, 3), second = take_many(service, 8);
  BOOST_REQUIRE_EQUAL(first.taken.size(), 3u);
  BOOST_REQUIRE_EQUAL(second.taken.size(), 2u);
  first.taken.insert(first.taken.end(), second.taken.begin(), second.taken.end());
  for (size_t i = 0; i < 5; i++) {
    nocter_taken& taken = first.taken[i];
    BOOST_CHECK(nocter_job_id_equal(taken.id, ids[i]));
    BOOST_CHECK_EQUAL(taken.status, i == 2 ? NOCTER_WORKER_LOST : NOCTER_OK);
    BOOST_CHECK_EQUAL(is_none(taken.output), i == 2);
    if (i != 2) BOOST_CHECK_EQUAL(value_of(taken.output), i);
    discard(taken.output);
    BOOST_CHECK_EQUAL(state_of(service, ids[i]), NOCTER_E_UNKNOWN);
  }
  BOOST_CHECK_EQUAL(counts_of(service).taken, 5u);
  BOOST_CHECK_EQUAL(take_many(service, 1).status, NOCTER_PENDING);
  nocter_blocking_destroy(service);
}

BOOST_AUTO_TEST_CASE(blk_12_what_was_named_or_asked_for_is_left_or_taken_once, *label("BLK-12")) {
  nocter_blocking* service = make_service({.maximum_jobs = 8, .workers = 8});
  std::vector<nocter_job_id> ids;
  for (uint64_t i = 0; i < 3; i++) ids.push_back(accept(service, i));
  run_one(service);
  BOOST_CHECK_EQUAL(state_of(service, ids[0]), NOCTER_JOB_COMPLETED);  // seen, not named
  run_one(service);
  nocter_job_id named = {};
  size_t count = 0;
  status_is(nocter_blocking_completed(service, &named, 1, &count), NOCTER_OK);
  BOOST_CHECK(count == 1 && nocter_job_id_equal(named, ids[0]));
  run_one(service);
  Batch rest = take_many(service, 8);
  BOOST_REQUIRE_EQUAL(rest.taken.size(), 2u);
  BOOST_CHECK(nocter_job_id_equal(rest.taken[0].id, ids[1]) && nocter_job_id_equal(rest.taken[1].id, ids[2]));
  for (nocter_taken& taken : rest.taken) discard(taken.output);
  nocter_owned output;
  status_is(nocter_blocking_take(service, ids[0], nullptr, &output), NOCTER_OK);
  discard(output);
  nocter_blocking_destroy(service);
}

BOOST_AUTO_TEST_CASE(gen_07_a_wait_ends_with_the_first_job_the_deadline_the_interrupt_or_shutdown, *label("GEN-07")) {
  nocter_blocking* service = make_service({.maximum_jobs = 8, .workers = 2});
  const nocter_wait soon = nocter_wait_for_ms(5);
  BOOST_CHECK_EQUAL(take_many(service, 4, &soon).status, NOCTER_TIMEOUT);
  nocter_interrupt* interrupt = nullptr;
  status_is(nocter_interrupt_create(&interrupt), NOCTER_OK);
  nocter_interrupt_raise(interrupt);
  const nocter_wait interrupted = {NOCTER_FOREVER, interrupt, 0, 0};
  BOOST_CHECK_EQUAL(take_many(service, 4, &interrupted).status, NOCTER_INTERRUPTED);
  nocter_interrupt_destroy(interrupt);
  accept(service, 7);
  {
    std::thread worker([&] { run_one(service); });
    Batch batch = take_many(service, 4, &kForever);
    worker.join();
    BOOST_REQUIRE_EQUAL(batch.taken.size(), 1u);
    BOOST_CHECK_EQUAL(value_of(batch.taken[0].output), 7u);
    discard(batch.taken[0].output);
  }
  accept(service, 8);
  {
    std::thread closer([&] { status_is(nocter_blocking_shutdown(service, nullptr, nullptr), NOCTER_OK); });
    BOOST_CHECK_EQUAL(take_many(service, 4, &kForever).status, NOCTER_CLOSED);
    closer.join();
  }
  BOOST_CHECK_EQUAL(take_many(service, 4).status, NOCTER_CLOSED);
  nocter_blocking_destroy(service);
}

BOOST_AUTO_TEST_CASE(gen_02_bad_arguments_take_nothing, *label("GEN-02")) {
  nocter_blocking* service = make_service({.maximum_jobs = 2, .workers = 2});
  accept(service, 1);
  run_one(service);
  nocter_taken taken;
  size_t count = 77;
  const nocter_wait bad = {NOCTER_FOREVER, nullptr, 0, 5};
  BOOST_CHECK_EQUAL(nocter_blocking_take_many(nullptr, nullptr, &taken, 1, &count), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(count, 0u);
  BOOST_CHECK_EQUAL(nocter_blocking_take_many(service, nullptr, nullptr, 1, &count), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_blocking_take_many(service, nullptr, &taken, 0, &count), NOCTER_E_ARGUMENT);
  BOOST_CHECK(std::string(nocter_error_message()).find("capacity") != std::string::npos);
  BOOST_CHECK_EQUAL(nocter_blocking_take_many(service, nullptr, &taken, 1, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_blocking_take_many(service, &bad, &taken, 1, &count), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(counts_of(service).completed, 1u);
  nocter_blocking_destroy(service);
}

// Two takers and two workers of the library's, many jobs: each taken once, none left asleep. Also one taker that goes by identity.
BOOST_AUTO_TEST_CASE(blk_12_many_takers_and_workers_take_every_job_once, *label("BLK-12") * label("GEN-01")) {
  constexpr uint64_t kJobs = 20'000;
  nocter_blocking* service = make_service({.maximum_jobs = 16, .workers = 2});
  nocter_workers* workers = nullptr;
  const auto pass_on = [](void*, nocter_owned* input, nocter_owned* output, nocter_completion*) {
    *output = *input;
    *input = {};
  };
  status_is(nocter_blocking_serve(service, pass_on, nullptr, nullptr, &workers), NOCTER_OK);
  std::atomic<uint64_t> taken{0}, sum{0};
  nocter_interrupt* over = nullptr;
  status_is(nocter_interrupt_create(&over), NOCTER_OK);
  const nocter_wait until_over = {NOCTER_FOREVER, over, 0, 0};
  const auto take_until_over = [&] {
    for (;;) {
      Batch batch = take_many(service, 5, &until_over);
      if (batch.status != NOCTER_OK) {
        status_is(batch.status, NOCTER_INTERRUPTED);
        return;
      }
      for (nocter_taken& one : batch.taken) {
        sum += value_of(one.output);
        discard(one.output);
      }
      if (taken.fetch_add(batch.taken.size()) + batch.taken.size() == kJobs) nocter_interrupt_raise(over);
    }
  };
  std::thread takers[] = {std::thread(take_until_over), std::thread(take_until_over)};
  for (uint64_t i = 0; i < kJobs; i++) {
    nocter_owned input = payload(i);
    for (;;) {
      const Submitted submitted = submit(service, input);
      if (submitted.status == NOCTER_OK) break;
      nocter_epoch now;
      status_is(nocter_blocking_wait_epoch(service, submitted.epoch, &kForever, &now), NOCTER_OK);
    }
  }
  for (std::thread& taker : takers) taker.join();
  BOOST_CHECK_EQUAL(taken.load(), kJobs);
  BOOST_CHECK_EQUAL(sum.load(), kJobs * (kJobs - 1) / 2);
  nocter_interrupt_destroy(over);
  nocter_workers_destroy(workers);
  nocter_blocking_destroy(service);
}

BOOST_AUTO_TEST_SUITE_END()
