// Two threads at one resource, or at one service: exactly one winner, and the loser learns it. GEN-01, R-2, R-8 to.
#include <nocter.h>

#include <vector>

#include "support/fixture.hpp"
#include "support/race.hpp"
#include "support/retirement.hpp"

using namespace nocter_tests;
using namespace nocter_tests::retiring;

namespace {

constexpr uint64_t kRounds = rounds(20'000, 3'000);

// Both sides of a race must have won now and then, or nothing raced.
struct Tally {
  uint64_t one = 0, other = 0;
  bool count(bool first) {
    (first ? one : other)++;
    return true;
  }
  ~Tally() { BOOST_TEST_MESSAGE("one side " << one << ", the other " << other); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retirement_race_suite, EveryTest)

BOOST_AUTO_TEST_CASE(r_02_reserve_or_close, *label("RET-08") * label("R-2")) {
  Tally tally;
  nocter_retirement* service = nullptr;
  Reserved got = {};
  race(
      rounds(5'000, 1'000), 2,
      [&] {
        const nocter_retirement_options options = options_of({.maximum_resources = 1, .workers = 1});
        STATUS(nocter_retirement_create(&options, &service), NOCTER_OK);
      },
      [&] { got = try_reserve(service); }, [&] { nocter_retirement_close(service); },
      [&] {
        const bool reserved = got.status == NOCTER_OK;
        if (reserved) {
          nocter_resource_drop(attach(got.permit, payload(1)));
          HOLDS(clean_one(service) == 1);
        }
        const bool right = (reserved || STATUS(got.status, NOCTER_CLOSED)) &&
                           STATUS(nocter_retirement_drained(service, nullptr), NOCTER_OK);
        nocter_retirement_destroy(service);
        return right && tally.count(reserved);
      });
}

BOOST_AUTO_TEST_CASE(r_08_retire_or_drop_consumes_the_owner_once, *label("RET-03") * label("R-8") * label("GEN-01")) {
  Retirement service({.maximum_resources = 2, .workers = 1});
  Tally tally;
  nocter_resource* resource = nullptr;
  nocter_retirement_id id = {};
  nocter_status heard = 0;
  race(
      kRounds, 8, [&] { resource = own(service, 1); }, [&] { heard = nocter_resource_retire(resource, &id); },
      [&] { nocter_resource_drop(resource); },
      [&] {
        HOLDS(clean_one(service) == 1);
        if (!STATUS(try_claim(service).status, NOCTER_EMPTY)) return false;
        if (heard == NOCTER_OK) return STATUS(take(service, id).status, NOCTER_OK) && tally.count(true);
        return STATUS(heard, NOCTER_E_ARGUMENT) && HOLDS(retiring::is_zero(id)) && tally.count(false);
      });
  BOOST_CHECK_EQUAL(counts_of(service).reserved, 0u);
}

BOOST_AUTO_TEST_CASE(r_09_detach_or_claim, *label("RET-07") * label("R-9")) {
  Retirement service({.maximum_resources = 2, .workers = 1});
  nocter_retirement_id id = {};
  nocter_status detached = 0;
  uint64_t cleaned = 0;
  race(
      kRounds, 9, [&] { id = retire(own(service, 3)); }, [&] { detached = nocter_retirement_detach(service, id); },
      [&] { cleaned = clean_one(service); },
      [&] {
        return STATUS(detached, NOCTER_OK) && HOLDS(cleaned == 3) && HOLDS(counts_of(service).reserved == 0) &&
               STATUS(take(service, id).status, NOCTER_E_UNKNOWN);
      });
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.detached_done + counts.detached_completed, counts.reservations);
  BOOST_TEST_MESSAGE("detached before the end " << counts.detached_done << ", after it " << counts.detached_completed);
}

BOOST_AUTO_TEST_CASE(r_10_detach_or_the_end_of_the_cleanup, *label("RET-07") * label("RET-05") * label("R-10")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  nocter_retirement_id id = {};
  nocter_cleanup* cleanup = nullptr;
  race(
      kRounds, 10,
      [&] {
        id = retire(own(service, 3));
        cleanup = claim(service);
        begin(cleanup);
      },
      [&] { STATUS(nocter_retirement_detach(service, id), NOCTER_OK); }, [&] { complete(cleanup, 1); },
      [&] { return HOLDS(counts_of(service).reserved == 0); });
  const nocter_retirement_counts counts = counts_of(service);
  BOOST_CHECK_EQUAL(counts.epoch, counts.reservations);
  BOOST_CHECK_EQUAL(counts.failed_unobserved, counts.reservations);
}

BOOST_AUTO_TEST_CASE(r_11_take_or_detach, *label("RET-06") * label("RET-07") * label("R-11")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  Tally tally;
  nocter_retirement_id id = {};
  nocter_status taken = 0, detached = 0;
  race(
      kRounds, 11,
      [&] {
        id = retire(own(service, 3));
        clean_one(service);
      },
      [&] { taken = take(service, id).status; }, [&] { detached = nocter_retirement_detach(service, id); },
      [&] {
        if (taken == NOCTER_OK) return STATUS(detached, NOCTER_E_UNKNOWN) && tally.count(true);
        return STATUS(taken, NOCTER_E_UNKNOWN) && STATUS(detached, NOCTER_OK) && tally.count(false);
      });
  BOOST_CHECK_EQUAL(counts_of(service).taken, tally.one);
  BOOST_CHECK_EQUAL(counts_of(service).detached_completed, tally.other);
}

BOOST_AUTO_TEST_CASE(r_12_a_waiting_take_and_the_end, *label("RET-06") * label("R-12") * label("GEN-04")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  nocter_retirement_id id = {};
  nocter_cleanup* cleanup = nullptr;
  nocter_status status = 0;
  int32_t code = 0;
  race(
      kRounds, 12,
      [&] {
        id = retire(own(service, 3));
        cleanup = claim(service);
        begin(cleanup);
      },
      [&] {
        const nocter_wait wait = long_wait();
        const auto taken = take(service, id, &wait);
        status = taken.status;
        code = taken.code;
      },
      [&] { complete(cleanup, 42); }, [&] { return STATUS(status, NOCTER_OK) && HOLDS(code == 42); });
}

BOOST_AUTO_TEST_CASE(r_21_a_saturated_reserver_and_the_place_that_is_freed,
                     *label("RET-04") * label("R-21") * label("R-26")) {
  Retirement service({.maximum_resources = 1, .workers = 1});
  nocter_permit *held = nullptr, *got = nullptr;
  race(
      kRounds, 21, [&] { held = reserve(service); },
      [&] {
        const nocter_wait wait = long_wait();
        Reserved reserved = try_reserve(service);
        while (reserved.status == NOCTER_SATURATED) {
          nocter_epoch now;
          if (!STATUS(nocter_retirement_wait_epoch(service, reserved.epoch, &wait, &now), NOCTER_OK)) break;
          reserved = try_reserve(service);
        }
        got = reserved.permit;
      },
      [&] { nocter_permit_drop(held); },
      [&] {
        const bool right = HOLDS(got != nullptr);
        nocter_permit_drop(got);
        return right;
      });
}

BOOST_AUTO_TEST_CASE(r_07_destroy_or_drop_one_of_them_cleans,
                     *label("RET-03") * label("R-6") * label("R-7") * label("GEN-01")) {
  nocter_retirement* service = nullptr;
  nocter_resource* resource = nullptr;
  std::atomic<int> cleaned{0};
  int wanted = 0;
  race(
      rounds(5'000, 1'000), 7,
      [&] {
        const nocter_retirement_options options = options_of({.maximum_resources = 1, .workers = 1});
        STATUS(nocter_retirement_create(&options, &service), NOCTER_OK);
        resource = own(service, closing([&] { cleaned++; }));
        wanted++;
      },
      [&] { nocter_resource_drop(resource); }, [&] { nocter_retirement_destroy(service); },
      [&] { return HOLDS(cleaned.load() == wanted); });
}

BOOST_AUTO_TEST_CASE(r_07_stop_of_the_last_thread_or_drop, *label("RET-03") * label("R-7") * label("GEN-01")) {
  nocter_resource* resource = nullptr;
  nocter_workers* workers = nullptr;
  std::atomic<int> cleaned{0};
  int wanted = 0;
  race(
      rounds(2'000, 300), 77,
      [&] {
        const nocter_retirement_options options = options_of({.maximum_resources = 1, .workers = 1});
        nocter_retirement* service = nullptr;
        STATUS(nocter_retirement_create(&options, &service), NOCTER_OK);
        STATUS(nocter_retirement_serve(service, nullptr, &workers), NOCTER_OK);
        resource = own(service, closing([&] { cleaned++; }));
        nocter_retirement_destroy(service);
        wanted++;
      },
      [&] { nocter_resource_drop(resource); }, [&] { nocter_workers_destroy(workers); },
      [&] { return HOLDS(cleaned.load() == wanted); });
}

BOOST_AUTO_TEST_CASE(gen_01_owners_given_up_by_many_threads_are_all_cleaned, *label("GEN-01") * label("RET-03")) {
  constexpr uint64_t kEach = rounds(20'000, 2'000);
  Retirement service({.maximum_resources = 64, .workers = 2});
  Cleaners cleaners(service);
  std::atomic<uint64_t> cleaned{0};
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; t++) {
      threads.push_back(std::make_unique<Thread>([&] {
        const nocter_wait wait = long_wait();
        for (uint64_t i = 0; i < kEach; i++) {
          Reserved got = try_reserve(service);
          while (got.status == NOCTER_SATURATED) {
            nocter_epoch now;
            STATUS(nocter_retirement_wait_epoch(service, got.epoch, &wait, &now), NOCTER_OK);
            got = try_reserve(service);
          }
          if (!STATUS(got.status, NOCTER_OK)) return;
          nocter_owned value = {&cleaned, [](void* data) { static_cast<std::atomic<uint64_t>*>(data)->fetch_add(1); }};
          nocter_resource_drop(nocter_permit_attach(got.permit, &value));
        }
      }));
    }
  }
  nocter_retirement_close(service);
  until_drained(service);
  BOOST_CHECK_EQUAL(cleaned.load(), 4 * kEach);
}

BOOST_AUTO_TEST_SUITE_END()
