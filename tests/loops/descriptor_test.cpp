// One descriptor in the event loops of others: epoll, libuv, GLib, Asio. Clear it, then ask; nothing that ended is missed.
#include <boost/mpl/list.hpp>
#include <iostream>
#include <map>

#include "loops.hpp"
#include "support/fixture.hpp"
#include "support/workers.hpp"

using namespace nocter_tests;

namespace {

using AllLoops = boost::mpl::list<EpollLoop<0>, EpollLoop<EPOLLET>, LibuvLoop, GlibLoop, AsioLoop>;

class Eventfd {
 public:
  Eventfd() { STATUS(nocter_eventfd_create(&eventfd_), NOCTER_OK); }
  ~Eventfd() { destroy(); }
  Eventfd(const Eventfd&) = delete;
  Eventfd& operator=(const Eventfd&) = delete;
  operator nocter_eventfd*() const { return eventfd_; }
  int fd() const { return nocter_eventfd_fd(eventfd_); }
  nocter_notifier notifier() { return nocter_eventfd_notifier(eventfd_); }
  void clear() { nocter_eventfd_clear(eventfd_); }
  void destroy() { nocter_eventfd_destroy(std::exchange(eventfd_, nullptr)); }

 private:
  nocter_eventfd* eventfd_ = nullptr;
};

// Takes whatever has ended, in batches that are smaller than what may have come.
template <class OnOutput>
size_t take_ended(nocter_blocking* service, OnOutput&& on_output) {
  size_t taken = 0;
  for (;;) {
    nocter_job_id ids[3];
    size_t count = 0;
    STATUS(nocter_blocking_completed(service, ids, 3, &count), NOCTER_OK);
    for (size_t i = 0; i < count; i++) {
      const Taken output = take(service, ids[i]);
      STATUS(output.status, NOCTER_OK);
      on_output(output.value);
    }
    taken += count;
    if (count < 3) return taken;
  }
}

void ended_in_time(bool ended) { BOOST_CHECK_MESSAGE(ended, "the loop was stopped by its limit: a wake was lost"); }

// Stops the loop after the limit, so that a lost wake fails its test instead of hanging.
template <class Loop>
void limit(Loop& loop) {
  auto ticks = std::make_shared<int>(0);
  loop.every_ms(1'000, [&loop, ticks] {
    if (++*ticks > kLimitMs / 1'000) loop.stop();
  });
}

// Sends so many jobs through, each submitted from the loop as soon as there is a place.
template <class Loop>
void many_jobs(uint64_t total, uint32_t maximum_jobs, uint32_t workers) {
  Eventfd eventfd;
  Service service({.maximum_jobs = maximum_jobs, .workers = workers, .waiters = eventfd.notifier()});
  Runner runner(service, echo);
  Loop loop;
  limit(loop);
  uint64_t submitted = 0, finished = 0, sum = 0, refused = 0, turns = 0;
  bool ended = false;
  const auto turn = [&] {
    turns++;
    eventfd.clear();
    // A take frees a place, so the two are repeated until neither brings anything: no thread waits for the place.
    for (bool moved = true; moved;) {
      moved = take_ended(service, [&](uint64_t value) {
                finished++;
                sum += value;
              }) != 0;
      while (submitted < total) {
        nocter_owned input = payload(submitted);
        if (submit(service, input).status != NOCTER_OK) {
          discard(input);
          refused++;
          break;
        }
        submitted++;
        moved = true;
      }
    }
    if (finished == total) {
      ended = true;
      loop.stop();
    }
  };
  loop.watch(eventfd.fd(), turn);
  turn();
  loop.run();
  ended_in_time(ended);
  BOOST_CHECK_EQUAL(finished, total);
  BOOST_CHECK_EQUAL(sum, total * (total - 1) / 2);
  BOOST_CHECK_GT(refused, 0u);
  std::cout << Loop::kName << ": " << total << " jobs in " << turns << " turns" << std::endl;
}

}  // namespace

// A template takes no labels of its own.
BOOST_FIXTURE_TEST_SUITE(loops, EveryTest, *label("BLK-14") * label("GEN-04"))

BOOST_AUTO_TEST_CASE_TEMPLATE(blk_14_b_30_no_completion_is_lost_in_thousands_of_jobs_beyond_the_bound, Loop, AllLoops) {
  many_jobs<Loop>(rounds(20'000, 2'000), 16, 2);
  many_jobs<Loop>(rounds(10'000, 1'000), 1, 1);  // every wake counts: no later one makes up for a lost one
}

BOOST_AUTO_TEST_CASE_TEMPLATE(blk_14_one_descriptor_serves_several_services, Loop, AllLoops) {
  const uint64_t each = rounds(3'000, 500);
  Eventfd eventfd;
  Service services[3] = {Service({.maximum_jobs = 1, .workers = 1, .waiters = eventfd.notifier()}),
                         Service({.maximum_jobs = 4, .workers = 2, .waiters = eventfd.notifier()}),
                         Service({.maximum_jobs = 64, .workers = 1, .waiters = eventfd.notifier()})};
  Runner first(services[0], echo), second(services[1], echo), third(services[2], echo);
  Loop loop;
  limit(loop);
  uint64_t submitted[3] = {}, finished[3] = {};
  bool ended = false;
  const auto turn = [&] {
    eventfd.clear();
    for (size_t i = 0; i < 3; i++) {
      for (bool moved = true; moved;) {
        moved = take_ended(services[i], [&](uint64_t value) {
                  HOLDS(value == i);
                  finished[i]++;
                }) != 0;
        while (submitted[i] < each) {
          nocter_owned input = payload(i);
          if (submit(services[i], input).status != NOCTER_OK) {
            discard(input);
            break;
          }
          submitted[i]++;
          moved = true;
        }
      }
    }
    ended = finished[0] == each && finished[1] == each && finished[2] == each;
    if (ended) loop.stop();
  };
  loop.watch(eventfd.fd(), turn);
  turn();
  loop.run();
  ended_in_time(ended);
  for (const uint64_t count : finished) BOOST_CHECK_EQUAL(count, each);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gen_04_what_ended_before_the_loop_watches_is_found, Loop, AllLoops) {
  Eventfd eventfd;
  Service service({.maximum_jobs = 4, .workers = 1, .waiters = eventfd.notifier()});
  accept(service, 1);
  run_one(service, 10);
  Loop loop;
  limit(loop);
  uint64_t found = 0;
  loop.watch(eventfd.fd(), [&] {
    eventfd.clear();
    take_ended(service, [&](uint64_t value) { found = value; });
    if (found != 0) loop.stop();
  });
  loop.run();
  BOOST_CHECK_EQUAL(found, 10u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(blk_14_the_loop_runs_on_while_jobs_block_scenario_13, Loop, AllLoops) {
  Eventfd eventfd;
  Gate gate;
  Service service({.maximum_jobs = 2, .workers = 1, .waiters = eventfd.notifier()});
  Runner workers(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion* completion) {
    gate.pass();
    echo(input, output, completion);
  });
  Loop loop;
  limit(loop);
  accept(service, 5);
  gate.until_reached();
  int ticks = 0;
  uint64_t found = 0;
  loop.watch(eventfd.fd(), [&] {
    eventfd.clear();
    take_ended(service, [&](uint64_t value) { found = value; });
    if (found != 0) loop.stop();
  });
  loop.every_ms(1, [&] {
    if (++ticks == 20) gate.open();
  });
  loop.run();
  BOOST_CHECK_EQUAL(found, 5u);
  BOOST_CHECK_GE(ticks, 20);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(blk_14_a_loop_that_ends_with_jobs_in_flight_leaves_nothing, Loop, AllLoops) {
  Eventfd eventfd;
  Gate gate;
  Service service({.maximum_jobs = 8, .workers = 2, .waiters = eventfd.notifier()});
  Runner workers(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion* completion) {
    if (value_of(input) >= 100) gate.pass();
    echo(input, output, completion);
  });
  {
    Loop loop;
    limit(loop);
    uint64_t found = 0;
    loop.watch(eventfd.fd(), [&] {
      eventfd.clear();
      take_ended(service, [&](uint64_t value) { found += value; });
      if (found == 3) loop.stop();
    });
    accept(service, 1);
    accept(service, 2);
    loop.run();
    BOOST_CHECK_EQUAL(found, 3u);
    for (uint64_t value = 100; value < 106; value++) accept(service, value);
    gate.until_reached();
  }
  // The loop is gone. Wakes go on to a descriptor that nobody reads, and what nobody takes waits.
  gate.open();
  BOOST_CHECK(eventually([&] { return counts_of(service).completed == 6; }));
  eventfd.destroy();
  BOOST_CHECK_EQUAL(shut_down(service).size(), 6u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(blk_11_shutdown_is_followed_to_its_end_by_wakes_alone, Loop, AllLoops) {
  Eventfd eventfd;
  Gate gate;
  Service service({.maximum_jobs = 4, .workers = 2, .waiters = eventfd.notifier()});
  Runner workers(service, [&](nocter_owned& input, nocter_owned& output, nocter_completion* completion) {
    gate.pass();
    echo(input, output, completion);
  });
  Loop loop;
  limit(loop);
  for (uint64_t value = 0; value < 4; value++) accept(service, value);
  gate.until_reached();
  BOOST_REQUIRE(eventually([&] { return counts_of(service).running == 2; }));
  BOOST_CHECK_EQUAL(shut_down(service).size(), 2u);
  int looks = 0;
  bool drained = false;
  loop.watch(eventfd.fd(), [&] {
    eventfd.clear();
    const nocter_status status = nocter_blocking_drained(service, nullptr);
    drained = status == NOCTER_OK;
    if (drained)
      loop.stop();
    else
      HOLDS(status == NOCTER_PENDING);
    if (++looks == 1) gate.open();
  });
  loop.run();
  BOOST_CHECK(drained);
  BOOST_CHECK_GE(looks, 2);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(blk_09_a_loop_cancels_what_it_submitted, Loop, AllLoops) {
  const uint64_t total = rounds(4'000, 500);
  Eventfd eventfd;
  Service service({.maximum_jobs = 8, .workers = 2, .waiters = eventfd.notifier()});
  Runner workers(service, echo);
  Loop loop;
  limit(loop);
  auto random = random_stream(9);
  std::map<uint64_t, nocter_job_id> waiting;
  uint64_t submitted = 0, taken = 0, reclaimed = 0, abandoned = 0;
  bool ended = false;
  const auto turn = [&] {
    eventfd.clear();
    for (bool moved = true; moved;) {
      moved = take_ended(service, [&](uint64_t value) {
                taken++;
                HOLDS(waiting.erase(value) == 1);
              }) != 0;
      while (submitted < total) {
        nocter_owned input = payload(submitted);
        const Submitted result = submit(service, input);
        if (result.status != NOCTER_OK) {
          discard(input);
          break;
        }
        waiting[submitted++] = result.id;
        moved = true;
        if (below(random, 3) != 0) continue;
        // Any of them, wherever it is by now.
        auto chosen = waiting.lower_bound(submitted - 1 - below(random, std::min<uint64_t>(submitted, 8)));
        if (chosen == waiting.end()) continue;
        const Cancelled cancelled = cancel(service, chosen->second);
        STATUS(cancelled.status, NOCTER_OK);
        HOLDS(cancelled.was == NOCTER_JOB_RUNNING || cancelled.value == chosen->first);
        (cancelled.was == NOCTER_JOB_RUNNING ? abandoned : reclaimed)++;
        waiting.erase(chosen);
      }
    }
    ended = submitted == total && waiting.empty();
    if (ended) loop.stop();
  };
  loop.watch(eventfd.fd(), turn);
  turn();
  if (!ended) loop.run();
  ended_in_time(ended);
  BOOST_CHECK_EQUAL(taken + reclaimed + abandoned, total);
  BOOST_CHECK_GT(reclaimed, 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gen_04_two_loops_whose_services_wake_each_other, Loop, AllLoops) {
  // Each loop's output is the other one's input, to and fro.
  const uint64_t trips = rounds(2'000, 300);
  Eventfd eventfds[2];
  Service services[2] = {Service({.maximum_jobs = 4, .workers = 1, .waiters = eventfds[0].notifier()}),
                         Service({.maximum_jobs = 4, .workers = 1, .waiters = eventfds[1].notifier()})};
  Runner first(services[0], echo), second(services[1], echo);
  uint64_t seen[2] = {};
  const auto side = [&](size_t mine) {
    Loop loop;
    limit(loop);
    loop.watch(eventfds[mine].fd(), [&, mine] {
      eventfds[mine].clear();
      take_ended(services[mine], [&](uint64_t value) {
        seen[mine]++;
        if (value <= trips) accept(services[1 - mine], value + 1);
        if (value >= trips) loop.stop();
      });
    });
    loop.run();
  };
  Thread other([&] { side(1); });
  accept(services[0], 1);
  side(0);
  other.join();
  BOOST_CHECK_EQUAL(seen[0] + seen[1], trips + 1);
}

BOOST_AUTO_TEST_SUITE_END()
