// One key's life, ordered by one thread: what each call says in each state. KEY-01 to KEY-07.
#include <nocter.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"

using namespace nocter_tests;

namespace {

using Keys = std::vector<std::string>;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_suite, EveryTest)

BOOST_AUTO_TEST_CASE(key_02_impossible_bounds_are_refused_with_their_names, *label("KEY-02")) {
  const auto refused = [](const char* name, auto change) {
    nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
    change(options);
    nocter_keyed* queue = reinterpret_cast<nocter_keyed*>(&options);
    BOOST_CHECK_EQUAL(nocter_keyed_create(&options, &queue), NOCTER_E_ARGUMENT);
    BOOST_CHECK(queue == nullptr);
    BOOST_CHECK_MESSAGE(std::string(nocter_error_message()).find(name) != std::string::npos,
                        "the message names " << name << ": " << nocter_error_message());
  };
  refused("maximum_keys", [](auto& o) { o.maximum_keys = 0; });
  refused("maximum_keys", [](auto& o) { o.maximum_keys = NOCTER_KEYED_MAXIMUM_KEYS + 1; });
  refused("workers", [](auto& o) { o.workers = 0; });
  refused("workers", [](auto& o) { o.workers = o.maximum_keys + 1; });
  refused("maximum_key_size", [](auto& o) { o.maximum_key_size = 0; });
  refused("maximum_key_size", [](auto& o) { o.maximum_key_size = NOCTER_KEYED_MAXIMUM_KEY_SIZE + 1; });
  refused("backoff_initial_ns", [](auto& o) { o.backoff_initial_ns = -1; });
  refused("backoff_maximum_ns", [](auto& o) { o.backoff_maximum_ns = o.backoff_initial_ns - 1; });
  refused("backoff_percent", [](auto& o) { o.backoff_percent = 99; });
  refused("backoff_percent", [](auto& o) { o.backoff_percent = 10'001; });
  refused("backoff_jitter_percent", [](auto& o) { o.backoff_jitter_percent = 101; });
  refused("options", [](auto& o) { o.size = 5; });
}

BOOST_AUTO_TEST_CASE(gen_12_the_options_and_counts_initialisers_agree_with_their_functions, *label("GEN-12")) {
  const nocter_keyed_options by_macro = NOCTER_KEYED_OPTIONS_INIT;
  nocter_keyed_options by_function;
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_keyed_options_init(&by_function, sizeof by_function);
  BOOST_CHECK_EQUAL(std::memcmp(&by_macro, &by_function, sizeof by_macro), 0);
  const nocter_keyed_counts counts_by_macro = NOCTER_KEYED_COUNTS_INIT;
  nocter_keyed_counts counts_by_function;
  std::memset(&counts_by_function, 0xee, sizeof counts_by_function);
  nocter_keyed_counts_init(&counts_by_function, sizeof counts_by_function);
  BOOST_CHECK_EQUAL(std::memcmp(&counts_by_macro, &counts_by_function, sizeof counts_by_macro), 0);
  std::memset(&by_function, 0xee, sizeof by_function);
  nocter_keyed_options_init(&by_function, 8);
  BOOST_CHECK_EQUAL(by_function.size, 8u);
  BOOST_CHECK_EQUAL(by_function.maximum_keys, 1024u);
  BOOST_CHECK_EQUAL(by_function.workers, 0xeeeeeeeeu);
  nocter_keyed_options_init(nullptr, sizeof by_function);
  nocter_keyed_counts_init(nullptr, sizeof counts_by_function);
}

BOOST_AUTO_TEST_CASE(key_01_a_pass_is_given_the_key_and_nothing_else, *label("KEY-01")) {
  Queue queue;
  BOOST_CHECK_EQUAL(notify(queue, "alpha"), NOCTER_OK);
  nocter_pass* pass = claim(queue, "alpha");
  BOOST_CHECK_EQUAL(nocter_pass_failures(pass), 0u);
  BOOST_CHECK(!nocter_pass_interrupted(pass));
  BOOST_CHECK(nocter_pass_interrupt(pass) != nullptr);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(counts_of(queue).completed, 1u);
}

BOOST_AUTO_TEST_CASE(key_01_the_key_is_a_copy_of_its_bytes_k_25, *label("KEY-01")) {
  Queue queue({.maximum_key_size = 300});
  std::vector<std::string> keys = {"", std::string(1, '\0'), std::string("a\0b", 3), "\xff\xfe"};
  for (size_t size = 1; size <= 300; size += size < 70 ? 1 : 23) keys.push_back(std::string(size, 'k'));
  for (size_t at = 0; at < 40; at++) {
    std::string key(40, 'k');
    key[at] = 'x';
    keys.push_back(key);
  }
  Queue wide({.maximum_keys = 256, .maximum_key_size = 300});
  for (std::string key : keys) {
    BOOST_CHECK_EQUAL(notify(wide, key), NOCTER_OK);
    BOOST_CHECK_EQUAL(notify(wide, std::string(key)), NOCTER_COALESCED);
    for (char& c : key) c = '!';  // the caller's bytes are the caller's again
  }
  BOOST_CHECK(run_all(wide) == keys);
}

BOOST_AUTO_TEST_CASE(key_02_a_key_longer_than_the_bound_is_refused_with_both_numbers, *label("KEY-02")) {
  Queue queue({.maximum_key_size = 5});
  BOOST_CHECK_EQUAL(notify(queue, "12345"), NOCTER_OK);
  BOOST_CHECK_EQUAL(notify(queue, "123456"), NOCTER_E_LIMIT);
  const std::string message = nocter_error_message();
  BOOST_CHECK_MESSAGE(message.find('6') != std::string::npos && message.find('5') != std::string::npos, message);
  BOOST_CHECK_EQUAL(notify_after(queue, "123456", 1), NOCTER_E_LIMIT);
  const nocter_text many[] = {nocter_text_of("a"), nocter_text_of("123456")};
  nocter_status each[2] = {77, 77};
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, many, 2, each), NOCTER_E_LIMIT);
  BOOST_CHECK_EQUAL(each[0], NOCTER_OK);
  BOOST_CHECK_EQUAL(notifications(counts_of(queue)), 1u);
}

BOOST_AUTO_TEST_CASE(key_03_keys_are_claimed_in_the_order_of_their_first_notification_scenario_52_54_77_80,
                     *label("KEY-03")) {
  Queue queue;
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_OK);
  BOOST_CHECK_EQUAL(notify(queue, "b"), NOCTER_OK);
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(notify(queue, "c"), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(queue).waiting, 3u);
  BOOST_CHECK(run_all(queue) == (Keys{"a", "b", "c"}));
  BOOST_CHECK_EQUAL(counts_of(queue).retained, 0u);
  BOOST_CHECK_EQUAL(counts_of(queue).coalesced, 1u);
}

BOOST_AUTO_TEST_CASE(key_03_many_notifications_in_a_pass_are_one_more_behind_all_others_scenario_53_55_109_128_k_3_k_4,
                     *label("KEY-03")) {
  Queue queue;
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(notify(queue, "b"), NOCTER_OK);
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_OK);
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(notify(queue, "c"), NOCTER_OK);
  const nocter_keyed_counts during = counts_of(queue);
  BOOST_CHECK_EQUAL(during.active, 1u);
  BOOST_CHECK_EQUAL(during.dirty, 1u);
  BOOST_CHECK_EQUAL(during.marked_dirty, 1u);
  BOOST_CHECK_EQUAL(during.coalesced, 1u);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == (Keys{"b", "c", "a"}));
  BOOST_CHECK_EQUAL(counts_of(queue).requeued, 1u);
}

BOOST_AUTO_TEST_CASE(key_02_a_key_in_a_pass_is_not_handed_out_again_scenario_78_79_k_10_k_11,
                     *label("KEY-02") * label("KEY-03")) {
  Queue queue({.workers = 3});
  notify(queue, "a");
  nocter_pass* first = claim(queue, "a");
  notify(queue, "a");
  notify(queue, "b");
  notify(queue, "c");
  nocter_pass* second = claim(queue, "b");
  BOOST_CHECK_EQUAL(nocter_pass_complete(first), NOCTER_OK);
  nocter_pass* third = claim(queue, "c");
  nocter_pass* again = claim(queue, "a");
  for (nocter_pass* pass : {second, third, again}) BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(key_02_no_more_passes_than_workers_run, *label("KEY-02")) {
  Queue queue({.workers = 2});
  for (const char* key : {"a", "b", "c"}) notify(queue, key);
  nocter_pass *first = claim(queue, "a"), *second = claim(queue, "b");
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(nocter_pass_complete(first), NOCTER_OK);
  nocter_pass* third = claim(queue, "c");
  BOOST_CHECK_EQUAL(nocter_pass_complete(second), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_pass_complete(third), NOCTER_OK);
}

BOOST_AUTO_TEST_CASE(key_05_a_full_queue_takes_duplicates_and_refuses_new_keys_scenario_126_127_k_5_k_6_k_7,
                     *label("KEY-05") * label("KEY-02")) {
  Queue queue({.maximum_keys = 3, .workers = 1});
  for (const char* key : {"a", "b", "c"}) BOOST_CHECK_EQUAL(notify(queue, key), NOCTER_OK);
  nocter_pass* pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(notify(queue, "d"), NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(notify_after(queue, "d", 1), NOCTER_SATURATED);
  BOOST_CHECK_EQUAL(notify(queue, "b"), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(notify(queue, "c"), NOCTER_COALESCED);
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_OK);
  BOOST_CHECK_EQUAL(counts_of(queue).retained, 3u);
  BOOST_CHECK_EQUAL(counts_of(queue).rejected_full, 2u);
  // The dirty key keeps its own place.
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(notify(queue, "d"), NOCTER_SATURATED);
  BOOST_CHECK(run_all(queue) == (Keys{"b", "c", "a"}));
  BOOST_CHECK_EQUAL(notify(queue, "d"), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == Keys{"d"});
}

BOOST_AUTO_TEST_CASE(key_05_places_are_used_again_by_other_keys_and_by_the_same_scenario_60, *label("KEY-05")) {
  Queue queue({.maximum_keys = 4, .workers = 2});
  auto random = random_stream(2);
  for (uint64_t round = 0; round < rounds(20'000, 4'000); round++) {
    Keys expected;
    for (int i = 0; i < 4; i++) {
      const std::string key = "key " + std::to_string(below(random, 12));
      const nocter_status status = notify(queue, key);
      const bool there = std::find(expected.begin(), expected.end(), key) != expected.end();
      BOOST_REQUIRE_EQUAL(status, there ? NOCTER_COALESCED : NOCTER_OK);
      if (!there) expected.push_back(key);
    }
    BOOST_REQUIRE(run_all(queue) == expected);
  }
}

BOOST_AUTO_TEST_CASE(key_06_a_failed_pass_frees_its_place_and_is_not_retried_scenario_112_130_k_8_k_31,
                     *label("KEY-06")) {
  Queue queue({.maximum_keys = 1, .workers = 1});
  notify(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_fail(claim(queue, "a")), NOCTER_OK);
  notify(queue, "b");
  nocter_pass_drop(claim(queue, "b"));
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
  int64_t due = 77;
  BOOST_CHECK_EQUAL(nocter_keyed_next_due(queue, &due), NOCTER_EMPTY);
  BOOST_CHECK_EQUAL(due, 0);
  const nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.failed, 2u);
  BOOST_CHECK_EQUAL(counts.completed, 0u);
  BOOST_CHECK_EQUAL(counts.retained, 0u);
}

BOOST_AUTO_TEST_CASE(key_06_a_failed_pass_of_a_dirty_key_runs_once_more_scenario_131_k_9, *label("KEY-06")) {
  Queue queue;
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  notify(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_fail(pass), NOCTER_OK);
  pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_failures(pass), 1u);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(try_claim(queue).status, NOCTER_EMPTY);
}

BOOST_AUTO_TEST_CASE(key_03_notify_many_says_to_each_what_notify_would, *label("KEY-03") * label("KEY-05")) {
  Queue queue({.maximum_keys = 3, .workers = 2});
  notify(queue, "active");
  nocter_pass* pass = claim(queue, "active");
  notify(queue, "waiting");
  const Keys keys = {"waiting", "active", "new", "active", "refused", "new"};
  std::vector<nocter_text> texts;
  for (const std::string& key : keys) texts.push_back(text(key));
  std::vector<nocter_status> each(keys.size(), 77);
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, texts.data(), texts.size(), each.data()), NOCTER_SATURATED);
  BOOST_CHECK((each == std::vector<nocter_status>{NOCTER_COALESCED, NOCTER_OK, NOCTER_OK, NOCTER_COALESCED,
                                                  NOCTER_SATURATED, NOCTER_COALESCED}));
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, texts.data(), 2, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, nullptr, 0, nullptr), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == (Keys{"waiting", "new", "active"}));
  BOOST_CHECK_EQUAL(notifications(counts_of(queue)), 10u);
}

BOOST_AUTO_TEST_CASE(key_03_notify_many_of_more_than_a_batch_keeps_the_order, *label("KEY-03")) {
  Queue queue({.maximum_keys = 1000, .workers = 1});
  Keys keys;
  std::vector<nocter_text> texts;
  for (int i = 0; i < 1000; i++) keys.push_back("key " + std::to_string(i));
  for (const std::string& key : keys) texts.push_back(text(key));
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, texts.data(), texts.size(), nullptr), NOCTER_OK);
  BOOST_CHECK(run_all(queue) == keys);
}

BOOST_AUTO_TEST_CASE(key_07_the_counts_name_every_outcome_scenario_74_137, *label("KEY-07")) {
  Queue queue({.maximum_keys = 2, .workers = 1});
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  for (int i = 0; i < 5; i++) notify(queue, "a");
  notify(queue, "b");
  notify(queue, "c");
  nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.accepting, 1u);
  BOOST_CHECK_EQUAL(counts.maximum_keys, 2u);
  BOOST_CHECK_EQUAL(counts.workers, 1u);
  BOOST_CHECK_EQUAL(counts.accepted_new, 2u);
  BOOST_CHECK_EQUAL(counts.marked_dirty, 1u);
  BOOST_CHECK_EQUAL(counts.coalesced, 4u);
  BOOST_CHECK_EQUAL(counts.rejected_full, 1u);
  BOOST_CHECK_EQUAL(counts.waiting, 1u);
  BOOST_CHECK_GT(counts.oldest_waiting_ns, 0);
  BOOST_CHECK_GT(counts.longest_active_ns, 0);
  pause_ms(20);
  BOOST_CHECK_GT(counts_of(queue).longest_active_ns, counts.longest_active_ns);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  run_all(queue);
  nocter_keyed_close(queue, NOCTER_CLOSE_DISCARD);
  BOOST_CHECK_EQUAL(notify(queue, "a"), NOCTER_CLOSED);
  counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.accepting, 0u);
  BOOST_CHECK_EQUAL(counts.completed, 3u);
  BOOST_CHECK_EQUAL(counts.requeued, 1u);
  BOOST_CHECK_EQUAL(counts.rejected_closed, 1u);
  BOOST_CHECK_EQUAL(notifications(counts), 9u);
}

BOOST_AUTO_TEST_CASE(gen_12_a_pass_that_was_consumed_is_refused_k_30, *label("GEN-12") * label("KEY-02")) {
  Queue queue;
  notify(queue, "a");
  nocter_pass* pass = claim(queue, "a");
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_OK);
  BOOST_CHECK_EQUAL(nocter_pass_complete(pass), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_pass_fail(pass), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_pass_retry_after(pass, 0), NOCTER_E_ARGUMENT);
  nocter_pass_drop(pass);
  nocter_pass_drop(nullptr);
  BOOST_CHECK_EQUAL(nocter_pass_key(pass).size, 0u);
  BOOST_CHECK(nocter_pass_key(nullptr).data == nullptr);
  BOOST_CHECK_EQUAL(nocter_pass_failures(pass), 0u);
  BOOST_CHECK(!nocter_pass_interrupted(pass));
  BOOST_CHECK(nocter_pass_interrupt(pass) == nullptr);
  const nocter_keyed_counts counts = counts_of(queue);
  BOOST_CHECK_EQUAL(counts.completed, 1u);
  BOOST_CHECK_EQUAL(counts.failed, 0u);
}

BOOST_AUTO_TEST_CASE(gen_12_wrong_arguments_change_nothing, *label("GEN-12")) {
  Queue queue;
  BOOST_CHECK_EQUAL(nocter_keyed_notify(nullptr, text("a")), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_keyed_notify(queue, {nullptr, 1}), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(notify_after(queue, "a", -1), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_keyed_notify_many(queue, nullptr, 1, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_keyed_claim(queue, nullptr, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_keyed_next_due(queue, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_keyed_count(queue, nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_keyed_drained(queue, nullptr), NOCTER_E_STATE);
  ListSource list;
  nocter_keyed_source source = list.source();
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 0, 1), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 1, 0), NOCTER_E_ARGUMENT);
  source.next = nullptr;
  BOOST_CHECK_EQUAL(nocter_keyed_resync(queue, &source, 1, 1), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(list.drops, 0);
  nocter_workers* workers = nullptr;
  BOOST_CHECK_EQUAL(nocter_keyed_serve(queue, nullptr, nullptr, nullptr, &workers), NOCTER_E_ARGUMENT);
  nocter_keyed_close(nullptr, NOCTER_CLOSE_DRAIN);
  nocter_keyed_destroy(nullptr);
  BOOST_CHECK_EQUAL(notifications(counts_of(queue)), 0u);
}

BOOST_AUTO_TEST_SUITE_END()
