// Identities and epochs: whose they are, how long they stay true, what a forged one is worth. GEN-03, FFI-05.
#include <nocter.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "nocter/blocking.hpp"
#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

// What every call with an identity says; all must say the same, and change nothing.
void check_refused(nocter_blocking* service, nocter_job_id id, bool foreign_allowed, bool unknown_allowed) {
  const auto right = [&](nocter_status status) {
    return (foreign_allowed && status == NOCTER_E_FOREIGN) || (unknown_allowed && status == NOCTER_E_UNKNOWN);
  };
  const nocter_blocking_counts before = counts_of(service);
  const int32_t queried = state_of(service, id);
  BOOST_CHECK_MESSAGE(right(queried), nocter_status_name(queried)
                                          << " for " << std::hex << id.service << "," << id.sequence);
  BOOST_CHECK_EQUAL(cancel(service, id).status, queried);
  BOOST_CHECK_EQUAL(take(service, id).status, queried);
  const nocter_wait forever = wait_ms(-1);
  BOOST_CHECK_EQUAL(take(service, id, &forever).status, queried);
  const nocter_blocking_counts after = counts_of(service);
  BOOST_CHECK_EQUAL(after.admitted, before.admitted);
  BOOST_CHECK_EQUAL(after.epoch, before.epoch);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_identity_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_03_b_08_b_26_b_27_nothing_crosses_services_scenario_3,
                     *label("GEN-03") * label("BLK-04") * label("FFI-05")) {
  Service one, two;
  const nocter_job_id of_one = accept(one, 1), of_two = accept(two, 2);
  BOOST_CHECK_EQUAL(of_one.sequence, of_two.sequence);
  BOOST_CHECK(!nocter_job_id_equal(of_one, of_two));
  check_refused(two, of_one, true, false);
  check_refused(one, of_two, true, false);
  nocter_epoch out = {7, 7};
  BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(two, epoch_of(one), nullptr, &out), NOCTER_E_FOREIGN);
  BOOST_CHECK(is_zero(out));
  const nocter_wait forever = wait_ms(-1);
  BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(two, epoch_of(one), &forever, &out), NOCTER_E_FOREIGN);
  BOOST_CHECK(!nocter_epoch_equal(epoch_of(one), epoch_of(two)));
}

BOOST_AUTO_TEST_CASE(gen_03_a_service_in_the_place_of_a_destroyed_one_is_another_one, *label("GEN-03")) {
  nocter_job_id stale = {};
  nocter_epoch stale_epoch = {};
  {
    Service gone({.maximum_jobs = 1, .workers = 1});
    stale = accept(gone, 1);
    stale_epoch = epoch_of(gone);
  }
  for (int i = 0; i < 200; i++) {
    Service service({.maximum_jobs = 1, .workers = 1});
    const nocter_job_id id = accept(service, 2);
    BOOST_REQUIRE(!nocter_job_id_equal(id, stale));
    check_refused(service, stale, true, false);
    nocter_epoch out = {};
    BOOST_REQUIRE_EQUAL(nocter_blocking_wait_epoch(service, stale_epoch, nullptr, &out), NOCTER_E_FOREIGN);
  }
}

BOOST_AUTO_TEST_CASE(gen_03_the_zero_identity_is_no_job, *label("GEN-03") * label("FFI-05")) {
  Service service;
  accept(service, 1);
  check_refused(service, {0, 0}, false, true);
}

BOOST_AUTO_TEST_CASE(gen_03_an_identity_with_any_bit_flipped_is_refused, *label("GEN-03") * label("FFI-05")) {
  Service service({.maximum_jobs = 8, .workers = 2});
  // One in each state, so that a flipped bit that hit a neighbour would be seen.
  const nocter_job_id completed = accept(service, 1);
  run_one(service, 2);
  const nocter_job_id running = accept(service, 3);
  const Begun begun = claim_and_begin(service);
  const nocter_job_id queued = accept(service, 4);
  for (const nocter_job_id id : {completed, running, queued}) {
    for (unsigned bit = 0; bit < 64; bit++) {
      const uint64_t flip = uint64_t{1} << bit;
      check_refused(service, {id.service ^ flip, id.sequence}, true, true);
      check_refused(service, {id.service, id.sequence ^ flip}, false, true);
    }
    check_refused(service, {id.service, 0}, false, true);
    check_refused(service, {0, id.sequence}, true, true);
    check_refused(service, {UINT64_MAX, UINT64_MAX}, true, false);
    check_refused(service, {id.sequence, id.service}, true, true);
  }
  // Place and sequence of two jobs mixed.
  check_refused(service, {completed.service, queued.sequence}, false, true);
  check_refused(service, {queued.service, completed.sequence}, false, true);
  BOOST_CHECK_EQUAL(state_of(service, completed), NOCTER_JOB_COMPLETED);
  BOOST_CHECK_EQUAL(state_of(service, running), NOCTER_JOB_RUNNING);
  BOOST_CHECK_EQUAL(state_of(service, queued), NOCTER_JOB_QUEUED);
  complete(begun.completion, 0);
}

BOOST_AUTO_TEST_CASE(gen_03_random_identities_hit_nothing, *label("GEN-03")) {
  Service service({.maximum_jobs = 64, .workers = 2});
  for (uint64_t i = 0; i < 64; i++) accept(service, i);
  auto random = random_stream(3);
  for (uint64_t i = 0; i < rounds(100'000, 20'000); i++) {
    const int32_t state = state_of(service, {random(), random()});
    BOOST_REQUIRE(state == NOCTER_E_FOREIGN || state == NOCTER_E_UNKNOWN);
  }
}

BOOST_AUTO_TEST_CASE(gen_03_an_epoch_ahead_of_its_service_is_an_argument_error, *label("GEN-03") * label("FFI-05")) {
  Service service;
  const nocter_epoch now = epoch_of(service);
  nocter_epoch out = {7, 7};
  const nocter_wait forever = wait_ms(-1);
  for (const uint64_t ahead : {now.sequence + 1, now.sequence + 2, now.sequence + (uint64_t{1} << 32), UINT64_MAX}) {
    out = {7, 7};
    BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(service, {now.service, ahead}, nullptr, &out), NOCTER_E_ARGUMENT);
    BOOST_CHECK(is_zero(out));
    BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(service, {now.service, ahead}, &forever, &out), NOCTER_E_ARGUMENT);
  }
  const nocter_status zero = nocter_blocking_wait_epoch(service, {0, 0}, &forever, &out);
  BOOST_CHECK(zero == NOCTER_E_FOREIGN || zero == NOCTER_E_ARGUMENT);
  for (unsigned bit = 0; bit < 64; bit++) {
    const nocter_epoch forged = {now.service ^ (uint64_t{1} << bit), now.sequence};
    BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(service, forged, &forever, &out), NOCTER_E_FOREIGN);
  }
  // It was ahead; once the service is there it is an epoch like any other.
  const nocter_epoch next = {now.service, now.sequence + 1};
  cancel(service, accept(service, 1));
  BOOST_CHECK(nocter_epoch_equal(epoch_of(service), next));
  BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(service, next, nullptr, &out), NOCTER_PENDING);
  BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(service, now, nullptr, &out), NOCTER_OK);
  BOOST_CHECK(nocter_epoch_equal(out, next));
}

BOOST_AUTO_TEST_CASE(gen_03_b_28_stale_identities_stay_unknown_over_millions_of_reuses,
                     *label("GEN-03") * label("FFI-05")) {
  // Ten million jobs through few places; a sample of old identities is looked up again and again.
  Service service({.maximum_jobs = 4, .workers = 2});
  auto random = random_stream(28);
  std::array<nocter_job_id, 64> old = {};
  uint64_t last_sequence = 0;
  bool right = true;
  const uint64_t total = rounds(10'000'000, 200'000);
  for (uint64_t i = 0; i < total && right; i++) {
    nocter_owned value = token(i + 1);
    nocter_job_id id = {};
    nocter_epoch epoch = {};
    right = nocter_blocking_submit(service, &value, &id, &epoch) == NOCTER_OK && right;
    right = id.sequence > last_sequence && right;  // so none was ever issued twice
    last_sequence = id.sequence;
    if (i % 3 == 0) {
      nocter_job_state was = 0;
      right = nocter_blocking_cancel(service, id, &was, nullptr) == NOCTER_OK && was == NOCTER_JOB_QUEUED && right;
    } else {
      nocter_running_job* job = nullptr;
      nocter_completion* completion = nullptr;
      right = nocter_blocking_claim(service, nullptr, &job) == NOCTER_OK &&
              nocter_running_job_begin(job, &value, &completion) == NOCTER_OK && right;
      right = nocter_completion_complete(completion, &value) == NOCTER_OK && right;
      right = nocter_blocking_take(service, id, nullptr, &value) == NOCTER_OK && discard(value) == i + 1 && right;
    }
    if (i % 64 == 0) {
      for (const nocter_job_id stale : old) {
        nocter_job_state state = 0;
        right = nocter_blocking_query(service, stale, &state) == NOCTER_E_UNKNOWN && right;
      }
      old[below(random, old.size())] = id;
    }
  }
  BOOST_CHECK(right);
  for (const nocter_job_id stale : old) check_refused(service, stale, false, true);
  const nocter_blocking_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.accepted, total);
  BOOST_CHECK_EQUAL(counts.epoch, total);
}

BOOST_AUTO_TEST_CASE(gen_03_a_stale_identity_never_hits_the_job_in_its_place, *label("GEN-03")) {
  Service service({.maximum_jobs = 1, .workers = 1});
  std::deque<nocter_job_id> old;
  for (uint64_t i = 0; i < 500; i++) {
    const nocter_job_id id = accept(service, i);
    for (const nocter_job_id stale : old) BOOST_REQUIRE_EQUAL(cancel(service, stale).status, NOCTER_E_UNKNOWN);
    BOOST_REQUIRE_EQUAL(state_of(service, id), NOCTER_JOB_QUEUED);
    run_one(service, i);
    for (const nocter_job_id stale : old) BOOST_REQUIRE_EQUAL(take(service, stale).status, NOCTER_E_UNKNOWN);
    BOOST_REQUIRE_EQUAL(take(service, id).value, i);
    old.push_back(id);
  }
}

BOOST_AUTO_TEST_CASE(gen_03_sequences_are_unique_over_many_submitting_threads, *label("GEN-03")) {
  Service service({.maximum_jobs = 256, .workers = 4});
  uint64_t each = rounds(20'000, 2'000);
  std::array<std::vector<nocter_job_id>, 4> issued;
  {
    std::deque<Thread> threads;
    for (std::vector<nocter_job_id>& mine : issued) {
      threads.emplace_back([&service, &mine, each] {
        for (uint64_t i = 0; i < each; i++) {
          const nocter_job_id id = accept(service, i);
          HOLDS(mine.empty() || mine.back().sequence < id.sequence);
          mine.push_back(id);
          STATUS(cancel(service, id).status, NOCTER_OK);
        }
      });
    }
  }
  std::set<std::pair<uint64_t, uint64_t>> all;
  std::set<uint64_t> sequences;
  for (const std::vector<nocter_job_id>& mine : issued) {
    for (const nocter_job_id id : mine) {
      all.emplace(id.service, id.sequence);
      sequences.insert(id.sequence);
    }
  }
  BOOST_CHECK_EQUAL(all.size(), 4 * each);
  BOOST_CHECK_EQUAL(sequences.size(), 4 * each);
}

BOOST_AUTO_TEST_CASE(gen_03_equality_looks_at_every_bit, *label("GEN-03")) {
  const nocter_job_id id = {0x0123456789abcdef, 0xfedcba9876543210};
  const nocter_epoch epoch = {id.service, id.sequence};
  BOOST_CHECK(nocter_job_id_equal(id, id));
  BOOST_CHECK(nocter_epoch_equal(epoch, epoch));
  for (unsigned bit = 0; bit < 64; bit++) {
    const uint64_t flip = uint64_t{1} << bit;
    BOOST_CHECK(!nocter_job_id_equal(id, {id.service ^ flip, id.sequence}));
    BOOST_CHECK(!nocter_job_id_equal(id, {id.service, id.sequence ^ flip}));
    BOOST_CHECK(!nocter_epoch_equal(epoch, {epoch.service ^ flip, epoch.sequence}));
    BOOST_CHECK(!nocter_epoch_equal(epoch, {epoch.service, epoch.sequence ^ flip}));
  }
}

BOOST_AUTO_TEST_CASE(gen_03_b_29_when_identities_run_out_the_input_stays_and_running_jobs_go_on,
                     *label("GEN-03") * label("GEN-02")) {
  // The core can be told to start near the end of its numbers; the C ABI starts at the beginning.
  nocter::blocking::Options options;
  options.maximum_jobs = 8;
  options.first_sequence = UINT64_MAX - 1;
  nocter::blocking::Service* const core = nocter::blocking::Service::create(options);
  BOOST_REQUIRE(core != nullptr);
  nocter_blocking* const service = reinterpret_cast<nocter_blocking*>(core);
  const nocter_job_id last_but_one = accept(service, 1);
  nocter_running_job* const job = claim(service);
  const nocter_job_id last = accept(service, 2);
  BOOST_CHECK_EQUAL(last.sequence, UINT64_MAX);
  for (int i = 0; i < 3; i++) refuse(service, NOCTER_E_LIMIT);
  BOOST_CHECK_NE(std::string(nocter_error_message()), "");
  complete(begin(job).completion, 3);
  run_one(service, 4);
  BOOST_CHECK_EQUAL(take(service, last_but_one).value, 3u);
  BOOST_CHECK_EQUAL(take(service, last).value, 4u);
  refuse(service, NOCTER_E_LIMIT);
  BOOST_CHECK_EQUAL(counts_of(service).accepted, 2u);
  shut_down(service);
  refuse(service, NOCTER_CLOSED);
  nocter_blocking_destroy(service);
}

BOOST_AUTO_TEST_SUITE_END()
