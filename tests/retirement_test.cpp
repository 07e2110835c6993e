// One resource's life, ordered by one thread: what each call says in each state. RET-01 to RET-08.
#include <nocter.h>

#include <array>
#include <string>

#include "nocter/retirement.hpp"
#include "support/fixture.hpp"
#include "support/retirement.hpp"

using namespace nocter_tests;
using namespace nocter_tests::retiring;

BOOST_FIXTURE_TEST_SUITE(retirement_suite, EveryTest)

BOOST_AUTO_TEST_CASE(ret_04_impossible_bounds_are_refused_with_their_names_scenario_40,
                     *label("RET-04") * label("FFI-01")) {
  struct Bounds {
    uint32_t maximum_resources, workers;
    const char* names;
  };
  for (const auto& [resources, workers, names] :
       {Bounds{1, 0, "workers"}, Bounds{0, 1, "maximum_resources"}, Bounds{1, 2, "workers"}, Bounds{0, 0, ""},
        Bounds{NOCTER_RETIREMENT_MAXIMUM_RESOURCES + 1, 1, "maximum_resources"}, Bounds{UINT32_MAX, UINT32_MAX, ""}}) {
    nocter_retirement_options options = options_of({.maximum_resources = resources, .workers = workers});
    nocter_retirement* service = reinterpret_cast<nocter_retirement*>(&options);
    BOOST_CHECK_EQUAL(nocter_retirement_create(&options, &service), NOCTER_E_ARGUMENT);
    BOOST_CHECK(service == nullptr);
    BOOST_CHECK_MESSAGE(std::string(nocter_error_message()).find(names) != std::string::npos,
                        "the message names the limit: " << nocter_error_message());
  }
  // The defaults are fine.
  nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
  nocter_retirement* service = nullptr;
  BOOST_CHECK_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  nocter_retirement_destroy(service);
}

BOOST_AUTO_TEST_CASE(gen_02_a_failed_creation_leaves_the_notifiers_with_the_caller, *label("GEN-02")) {
  Wakes waiters, work;
  nocter_retirement_options options =
      options_of({.maximum_resources = 1, .workers = 2, .waiters = waiters.notifier(), .work = work.notifier()});
  nocter_retirement* service = nullptr;
  BOOST_CHECK_EQUAL(nocter_retirement_create(&options, &service), NOCTER_E_ARGUMENT);
  options.workers = 1;
  options.reserved = 1;
  BOOST_CHECK_EQUAL(nocter_retirement_create(&options, &service), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(waiters.drops + work.drops + waiters.turns + work.turns, 0u);
  options.reserved = 0;
  BOOST_CHECK_EQUAL(nocter_retirement_create(&options, &service), NOCTER_OK);
  nocter_retirement_destroy(service);
  BOOST_CHECK_EQUAL(waiters.drops, 1u);
  BOOST_CHECK_EQUAL(work.drops, 1u);
}

BOOST_AUTO_TEST_CASE(gen_12_the_options_and_counts_initialisers_agree_with_their_functions, *label("GEN-12")) {
  const nocter_retirement_options by_macro = NOCTER_RETIREMENT_OPTIONS_INIT;
  nocter_retirement_options by_function;
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_retirement_options_init(&by_function, sizeof by_function);
  BOOST_CHECK_EQUAL(std::memcmp(&by_macro, &by_function, sizeof by_macro), 0);
  const nocter_retirement_counts counts_by_macro = NOCTER_RETIREMENT_COUNTS_INIT;
  nocter_retirement_counts counts_by_function;
  std::memset(&counts_by_function, 0xee, sizeof counts_by_function);
  nocter_retirement_counts_init(&counts_by_function, sizeof counts_by_function);
  BOOST_CHECK_EQUAL(std::memcmp(&counts_by_macro, &counts_by_function, sizeof counts_by_macro), 0);
  // No more is written than the caller has.
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_retirement_options_init(&by_function, 8);
  BOOST_CHECK_EQUAL(by_function.maximum_resources, 64u);
  BOOST_CHECK_EQUAL(by_function.workers, 0xeeeeeeeeu);
  nocter_retirement_options_init(nullptr, sizeof by_function);
  nocter_retirement_counts_init(nullptr, sizeof counts_by_function);
}

BOOST_AUTO_TEST_CASE(ret_02_a_permit_bounds_what_will_be_before_it_is_scenario_17_r_01,
                     *label("RET-02") * label("RET-04") * label("R-1")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  nocter_permit* const permit = reserve(service);
  BOOST_CHECK_EQUAL(counts_of(service).permits, 1u);
  const Reserved refused = try_reserve(service);
  BOOST_CHECK_EQUAL(refused.status, NOCTER_SATURATED);
  BOOST_CHECK(nocter_epoch_equal(refused.epoch, epoch_of(service)));
  nocter_permit_drop(permit);
  BOOST_CHECK(!nocter_epoch_equal(refused.epoch, epoch_of(service)));
  nocter_permit_drop(reserve(service));
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.permits_dropped, 2u);
  BOOST_CHECK_EQUAL(counts.saturated, 1u);
  BOOST_CHECK_EQUAL(counts.epoch, 2u);
}

BOOST_AUTO_TEST_CASE(ret_03_dropping_an_owner_queues_exactly_one_cleanup_scenario_18,
                     *label("RET-03") * label("RET-05")) {
  Retirement service({.maximum_resources = 2, .workers = 1});
  nocter_resource* const resource = own(service, 5);
  BOOST_CHECK_EQUAL(counts_of(service).live, 1u);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  nocter_resource_drop(resource);
  BOOST_CHECK_EQUAL(counts_of(service).queued, 1u);
  BOOST_CHECK_EQUAL(Ledger::live(), 1u);
  nocter_cleanup* const cleanup = claim(service);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(counts_of(service).running, 1u);
  BOOST_CHECK_EQUAL(begin(cleanup), 5u);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 1u);
  complete(cleanup);
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.reserved, 0u);
  BOOST_CHECK_EQUAL(counts.unobserved_done, 1u);
  BOOST_CHECK_EQUAL(counts.cleaned, 1u);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, nullptr), NOCTER_OK);
  // The owner is gone: a second drop is nothing, and nothing comes of it.
  nocter_resource_drop(resource);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  BOOST_CHECK(nocter_resource_get(resource) == nullptr);
}

BOOST_AUTO_TEST_CASE(ret_06_an_explicit_retirement_is_kept_until_it_is_taken_scenario_19_29_r_12,
                     *label("RET-06") * label("R-12") * label("R-22")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  const nocter_retirement_id id = retire(own(service, 1));
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_RETIREMENT_QUEUED);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_PENDING);
  nocter_cleanup* const cleanup = claim(service);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_RETIREMENT_RUNNING);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_PENDING);
  begin(cleanup);
  complete(cleanup);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_RETIREMENT_COMPLETED);
  // The place is held still.
  BOOST_CHECK_EQUAL(try_reserve(service).status, NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(counts_of(service).completed, 1u);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, nullptr), NOCTER_PENDING);
  const auto taken = take(service, id);
  BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(taken.code, 0);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(nocter_retirement_detach(service, id), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, nullptr), NOCTER_OK);
  nocter_permit_drop(reserve(service));
}

BOOST_AUTO_TEST_CASE(ret_06_the_code_of_a_cleanup_reaches_who_asked_r_17, *label("RET-06") * label("R-17")) {
  Retirement service;
  for (const int32_t code : {0, 5, -5, INT32_MAX, INT32_MIN}) {
    const nocter_retirement_id id = retire(own(service, 1));
    clean_one(service, code);
    const auto taken = take(service, id);
    BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
    BOOST_CHECK_EQUAL(taken.code, code);
  }
  nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.cleaned, 1u);
  BOOST_CHECK_EQUAL(counts.failed, 4u);
  BOOST_CHECK_EQUAL(counts.failed_unobserved, 0u);
  // Nobody hears of these three: dropped, detached while queued, detached when completed.
  nocter_resource_drop(own(service, 1));
  const nocter_retirement_id detached = retire(own(service, 2));
  const nocter_retirement_id completed = retire(own(service, 3));
  STATUS(nocter_retirement_detach(service, detached), NOCTER_OK);
  for (int i = 0; i < 3; i++) clean_one(service, 9);
  STATUS(nocter_retirement_detach(service, completed), NOCTER_OK);
  counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.failed, 7u);
  BOOST_CHECK_EQUAL(counts.failed_unobserved, 3u);
}

BOOST_AUTO_TEST_CASE(ret_07_a_detached_waiter_never_prevents_the_cleanup_scenario_20_r_09,
                     *label("RET-07") * label("R-9") * label("R-10")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  for (const bool while_running : {false, true}) {
    const nocter_retirement_id id = retire(own(service, 7));
    nocter_cleanup* cleanup = while_running ? claim(service) : nullptr;
    BOOST_CHECK_EQUAL(nocter_retirement_detach(service, id), NOCTER_OK);
    BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_E_UNKNOWN);
    BOOST_CHECK_EQUAL(nocter_retirement_detach(service, id), NOCTER_E_UNKNOWN);
    BOOST_CHECK_EQUAL(counts_of(service).reserved, 1u);
    if (cleanup == nullptr) cleanup = claim(service);
    BOOST_CHECK_EQUAL(begin(cleanup), 7u);
    complete(cleanup);
    BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
  }
  const nocter_retirement_id id = retire(own(service, 8));
  clean_one(service);
  const nocter_epoch before = epoch_of(service);
  BOOST_CHECK_EQUAL(nocter_retirement_detach(service, id), NOCTER_OK);
  BOOST_CHECK(!nocter_epoch_equal(before, epoch_of(service)));
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.detached_done, 2u);
  BOOST_CHECK_EQUAL(counts.detached_completed, 1u);
}

BOOST_AUTO_TEST_CASE(ret_07_detach_all_removes_every_waiter_and_no_cleanup_scenario_21_r_13,
                     *label("RET-07") * label("R-13")) {
  Wakes waiters;
  Retirement service({.maximum_resources = 5, .workers = 2, .waiters = waiters.notifier()});
  const nocter_retirement_id completed = retire(own(service, 1));
  clean_one(service);
  const nocter_retirement_id running = retire(own(service, 2));
  nocter_cleanup* const cleanup = claim(service);
  const nocter_retirement_id queued = retire(own(service, 3));
  nocter_resource* const live = own(service, 4);
  nocter_permit* const permit = reserve(service);
  const uint64_t turns = waiters.count();
  nocter_retirement_detach_all(service);
  BOOST_CHECK_EQUAL(waiters.count(), turns + 1);
  for (const nocter_retirement_id id : {completed, running, queued}) {
    BOOST_CHECK_EQUAL(state_of(service, id), NOCTER_E_UNKNOWN);
    BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  }
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 4u);
  begin(cleanup);
  complete(cleanup);
  BOOST_CHECK_EQUAL(clean_one(service), 3u);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 2u);
  // Nothing is left to detach: nobody is woken.
  const uint64_t after = waiters.count();
  nocter_retirement_detach_all(service);
  BOOST_CHECK_EQUAL(waiters.count(), after);
  nocter_resource_drop(live);
  BOOST_CHECK_EQUAL(clean_one(service), 4u);
  nocter_permit_drop(permit);
}

BOOST_AUTO_TEST_CASE(ret_05_a_dropped_cleanup_ends_the_resource_and_frees_the_place_scenario_22,
                     *label("RET-05") * label("GEN-01")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  nocter_resource_drop(own(service, 1));
  nocter_cleanup_drop(claim(service));  // not begun: the service ends the resource
  BOOST_CHECK_EQUAL(Ledger::live(), 0u);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
  nocter_resource_drop(own(service, 2));
  nocter_cleanup* const cleanup = claim(service);
  BOOST_CHECK_EQUAL(begin(cleanup), 2u);
  nocter_cleanup_drop(cleanup);
  BOOST_CHECK_EQUAL(counts_of(service).lost, 2u);
  const nocter_retirement_id id = retire(own(service, 3));
  nocter_cleanup_drop(claim(service));
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_WORKER_LOST);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_E_UNKNOWN);
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.lost, 3u);
  BOOST_CHECK_EQUAL(counts.failed_unobserved, 2u);
  BOOST_CHECK_EQUAL(counts.reserved, 0u);
}

BOOST_AUTO_TEST_CASE(gen_06_a_cleanup_is_begun_once_and_before_it_completes, *label("GEN-06") * label("FFI-04")) {
  Retirement service;
  nocter_resource_drop(own(service, 1));
  nocter_cleanup* const cleanup = claim(service);
  BOOST_CHECK_EQUAL(nocter_cleanup_complete(cleanup, 0), NOCTER_E_STATE);
  BOOST_CHECK_EQUAL(counts_of(service).running, 1u);
  begin(cleanup);
  nocter_owned again = {&again, nullptr};
  BOOST_CHECK_EQUAL(nocter_cleanup_begin(cleanup, &again), NOCTER_E_STATE);
  BOOST_CHECK(is_none(again));
  complete(cleanup);
  BOOST_CHECK_EQUAL(nocter_cleanup_complete(cleanup, 0), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_cleanup_begin(cleanup, &again), NOCTER_E_ARGUMENT);
  nocter_cleanup_drop(cleanup);
  BOOST_CHECK_EQUAL(counts_of(service).cleaned, 1u);
}

BOOST_AUTO_TEST_CASE(ret_08_closing_leaves_what_is_reserved_alone_scenario_23_r_02_r_03_r_04,
                     *label("RET-08") * label("R-2") * label("R-3") * label("R-4")) {
  Retirement service({.maximum_resources = 4, .workers = 1});
  nocter_permit* const permit = reserve(service);
  nocter_resource* const live = own(service, 1);
  const nocter_retirement_id id = retire(own(service, 2));
  nocter_retirement_close(service);
  nocter_retirement_close(service);
  BOOST_CHECK_EQUAL(try_reserve(service).status, NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(counts_of(service).accepting, 0u);
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 3u);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, nullptr), NOCTER_PENDING);
  BOOST_CHECK_EQUAL(clean_one(service), 2u);
  BOOST_CHECK_EQUAL(take(service, id).status, NOCTER_OK);
  nocter_resource_drop(live);
  BOOST_CHECK_EQUAL(clean_one(service), 1u);
  // More may come: a permit is out.
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  nocter_resource_drop(attach(permit, payload(3)));
  BOOST_CHECK_EQUAL(clean_one(service), 3u);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_CLOSED);
  BOOST_CHECK_EQUAL(nocter_retirement_drained(service, nullptr), NOCTER_OK);
  nocter_workers* workers = nullptr;
  BOOST_CHECK_EQUAL(nocter_retirement_serve(service, nullptr, &workers), NOCTER_CLOSED);
}

BOOST_AUTO_TEST_CASE(ret_05_cleanups_are_oldest_first_and_never_more_than_workers, *label("RET-05")) {
  Retirement service({.maximum_resources = 4, .workers = 2});
  const std::array live = {own(service, 1), own(service, 2), own(service, 3), own(service, 4)};
  for (const size_t i : {2, 0, 3, 1}) nocter_resource_drop(live.at(i));
  nocter_cleanup* const first = claim(service);
  nocter_cleanup* const second = claim(service);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(begin(first), 3u);
  BOOST_CHECK_EQUAL(begin(second), 1u);
  complete(second);
  nocter_cleanup* const third = claim(service);
  BOOST_CHECK_EQUAL(try_claim(service).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(begin(third), 4u);
  complete(first);
  BOOST_CHECK_EQUAL(clean_one(service), 2u);
  complete(third);
}

BOOST_AUTO_TEST_CASE(gen_03_identities_and_epochs_of_another_service_are_foreign_scenario_25_r_22,
                     *label("GEN-03") * label("R-21") * label("R-22")) {
  Retirement one, other;
  const nocter_retirement_id id = retire(own(one, 1));
  const nocter_retirement_id same_sequence = retire(own(other, 2));
  BOOST_CHECK_EQUAL(id.sequence, same_sequence.sequence);
  BOOST_CHECK(!nocter_retirement_id_equal(id, same_sequence));
  BOOST_CHECK(nocter_retirement_id_equal(id, id));
  BOOST_CHECK_EQUAL(take(other, id).status, NOCTER_E_FOREIGN);
  BOOST_CHECK_EQUAL(state_of(other, id), NOCTER_E_FOREIGN);
  BOOST_CHECK_EQUAL(nocter_retirement_detach(other, id), NOCTER_E_FOREIGN);
  BOOST_CHECK_EQUAL(state_of(one, nocter_retirement_id{0, 0}), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(state_of(one, nocter_retirement_id{id.service, id.sequence + 1}), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(state_of(one, nocter_retirement_id{id.service + 1, id.sequence}), NOCTER_E_UNKNOWN);
  nocter_epoch now = {77, 77};
  BOOST_CHECK_EQUAL(nocter_retirement_wait_epoch(one, epoch_of(other), nullptr, &now), NOCTER_E_FOREIGN);
  BOOST_CHECK_EQUAL(now.service, 0u);
  nocter_epoch ahead = epoch_of(one);
  ahead.sequence++;
  BOOST_CHECK_EQUAL(nocter_retirement_wait_epoch(one, ahead, nullptr, &now), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_retirement_wait_epoch(one, epoch_of(one), nullptr, &now), NOCTER_PENDING);
  BOOST_CHECK(nocter_epoch_equal(now, epoch_of(one)));
  BOOST_CHECK_EQUAL(state_of(one, id), NOCTER_RETIREMENT_QUEUED);
  clean_one(one);
  clean_one(other);
}

BOOST_AUTO_TEST_CASE(gen_03_a_stale_identity_never_meets_a_later_resource_of_its_place, *label("GEN-03")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  const nocter_retirement_id stale = retire(own(service, 1));
  clean_one(service);
  BOOST_CHECK_EQUAL(take(service, stale).status, NOCTER_OK);
  const nocter_retirement_id later = retire(own(service, 2));
  BOOST_CHECK_EQUAL(later.service, stale.service);  // the same place
  BOOST_CHECK_EQUAL(state_of(service, stale), NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(nocter_retirement_detach(service, stale), NOCTER_E_UNKNOWN);
  clean_one(service);
  BOOST_CHECK_EQUAL(take(service, stale).status, NOCTER_E_UNKNOWN);
  BOOST_CHECK_EQUAL(take(service, later).status, NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(gen_03_r_14_when_identities_run_out_what_is_reserved_goes_on, *label("GEN-03") * label("R-14")) {
  // The core can be told to start near the end of its numbers; the C ABI starts at the beginning.
  nocter::retirement::Options options;
  options.first_sequence = UINT64_MAX - 1;
  nocter::retirement::Service* const core = nocter::retirement::Service::create(options);
  BOOST_REQUIRE(core != nullptr);
  auto* const service = reinterpret_cast<nocter_retirement*>(core);
  nocter_permit* const permit = reserve(service);
  nocter_resource* const resource = own(service, 1);
  for (int i = 0; i < 3; i++) BOOST_CHECK_EQUAL(try_reserve(service).status, NOCTER_E_LIMIT);
  BOOST_CHECK_NE(std::string(nocter_error_message()), "");
  // An identity is set apart with each place: what is reserved lacks nothing.
  const nocter_retirement_id last = retire(resource);
  BOOST_CHECK_EQUAL(last.sequence, UINT64_MAX);
  const nocter_retirement_id last_but_one = retire(attach(permit, payload(2)));
  BOOST_CHECK_EQUAL(last_but_one.sequence, UINT64_MAX - 1);
  BOOST_CHECK_EQUAL(clean_one(service), 1u);
  BOOST_CHECK_EQUAL(clean_one(service, 3), 2u);
  BOOST_CHECK_EQUAL(take(service, last).status, NOCTER_OK);
  BOOST_CHECK_EQUAL(take(service, last_but_one).code, 3);
  BOOST_CHECK_EQUAL(try_reserve(service).status, NOCTER_E_LIMIT);
  nocter_retirement_close(service);
  BOOST_CHECK_EQUAL(try_reserve(service).status, NOCTER_CLOSED);
  nocter_retirement_destroy(service);
}

BOOST_AUTO_TEST_CASE(ret_02_an_empty_resource_goes_the_same_way, *label("RET-02")) {
  Retirement service;
  nocter_resource* const resource = attach(reserve(service), nocter_owned{});
  BOOST_CHECK(nocter_resource_get(resource) == nullptr);
  nocter_resource_drop(resource);
  nocter_cleanup* const cleanup = claim(service);
  nocter_owned value = {&value, nullptr};
  BOOST_CHECK_EQUAL(nocter_cleanup_begin(cleanup, &value), NOCTER_OK);
  BOOST_CHECK(is_none(value));
  complete(cleanup);
}

BOOST_AUTO_TEST_CASE(gen_12_ages_grow_while_something_waits_or_runs_r_18, *label("GEN-12") * label("R-18")) {
  Retirement service({.maximum_resources = 2, .workers = 1});
  BOOST_CHECK_EQUAL(counts_of(service).oldest_queued_ns, 0);
  nocter_resource_drop(own(service, 1));
  nocter_resource_drop(own(service, 2));
  pause_ms(30);
  BOOST_CHECK_GE(counts_of(service).oldest_queued_ns, 20'000'000);
  nocter_cleanup* const cleanup = claim(service);
  pause_ms(30);
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_GE(counts.longest_running_ns, 20'000'000);
  BOOST_CHECK_GE(counts.oldest_queued_ns, 50'000'000);
  nocter_cleanup_drop(cleanup);
  clean_one(service);
  BOOST_CHECK_EQUAL(counts_of(service).longest_running_ns, 0);
}

BOOST_AUTO_TEST_SUITE_END()
