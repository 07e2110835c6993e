// The descriptor that becomes readable on a wake. GEN-04, BLK-14.
#include <fcntl.h>
#include <nocter.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

namespace {

class Eventfd {
 public:
  Eventfd() { STATUS(nocter_eventfd_create(&eventfd_), NOCTER_OK); }
  ~Eventfd() { destroy(); }
  Eventfd(const Eventfd&) = delete;
  Eventfd& operator=(const Eventfd&) = delete;
  operator nocter_eventfd*() const { return eventfd_; }
  int fd() const { return nocter_eventfd_fd(eventfd_); }
  bool readable(int ms = 0) const {
    pollfd one = {fd(), POLLIN, 0};
    return poll(&one, 1, ms) == 1 && (one.revents & POLLIN) != 0;
  }
  void destroy() { nocter_eventfd_destroy(std::exchange(eventfd_, nullptr)); }

 private:
  nocter_eventfd* eventfd_ = nullptr;
};

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(eventfd_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_04_it_is_close_on_exec_and_non_blocking, *label("GEN-04")) {
  Eventfd eventfd;
  BOOST_REQUIRE_GE(eventfd.fd(), 0);
  BOOST_CHECK(fcntl(eventfd.fd(), F_GETFD) & FD_CLOEXEC);
  BOOST_CHECK(fcntl(eventfd.fd(), F_GETFL) & O_NONBLOCK);
  BOOST_CHECK(!eventfd.readable());
}

BOOST_AUTO_TEST_CASE(gen_04_null_is_no_eventfd, *label("GEN-04")) {
  BOOST_CHECK_EQUAL(nocter_eventfd_create(nullptr), NOCTER_E_ARGUMENT);
  BOOST_CHECK_EQUAL(nocter_eventfd_fd(nullptr), -1);
  nocter_eventfd_clear(nullptr);
  nocter_eventfd_destroy(nullptr);
  BOOST_CHECK(nocter_eventfd_notifier(nullptr).wake == nullptr);
}

BOOST_AUTO_TEST_CASE(gen_04_b_30_wakes_collapse_and_one_clear_is_enough, *label("GEN-04")) {
  Eventfd eventfd;
  const nocter_notifier notifier = nocter_eventfd_notifier(eventfd);
  for (int i = 0; i < 1'000; i++) notifier.wake(notifier.user);
  BOOST_CHECK(eventfd.readable());
  nocter_eventfd_clear(eventfd);
  BOOST_CHECK(!eventfd.readable());
  nocter_eventfd_clear(eventfd);  // nothing to clear: does not block
  notifier.wake(notifier.user);
  BOOST_CHECK(eventfd.readable());
  notifier.drop(notifier.user);
}

BOOST_AUTO_TEST_CASE(gen_04_b_31_a_full_counter_is_as_good_as_a_wake, *label("GEN-04")) {
  Eventfd eventfd;
  const nocter_notifier notifier = nocter_eventfd_notifier(eventfd);
  const uint64_t almost = UINT64_MAX - 1;
  BOOST_REQUIRE_EQUAL(write(eventfd.fd(), &almost, sizeof almost), ssize_t{sizeof almost});
  notifier.wake(notifier.user);  // must neither block nor fail
  BOOST_CHECK(eventfd.readable());
  nocter_eventfd_clear(eventfd);
  BOOST_CHECK(!eventfd.readable());
  notifier.wake(notifier.user);
  BOOST_CHECK(eventfd.readable());
  notifier.drop(notifier.user);
}

BOOST_AUTO_TEST_CASE(gen_04_it_lives_until_its_last_notifier_is_dropped, *label("GEN-04")) {
  Eventfd eventfd;
  const int fd = eventfd.fd();
  const nocter_notifier first = nocter_eventfd_notifier(eventfd), second = nocter_eventfd_notifier(eventfd);
  eventfd.destroy();
  BOOST_CHECK(is_open(fd));
  first.wake(first.user);
  first.drop(first.user);
  BOOST_CHECK(is_open(fd));
  second.wake(second.user);
  second.drop(second.user);
  BOOST_CHECK(!is_open(fd));
  BOOST_CHECK_EQUAL(errno, EBADF);
}

BOOST_AUTO_TEST_CASE(gen_04_without_notifiers_destroy_closes_it, *label("GEN-04")) {
  Eventfd eventfd;
  const int fd = eventfd.fd();
  eventfd.destroy();
  BOOST_CHECK(!is_open(fd));
}

BOOST_AUTO_TEST_CASE(gen_04_a_service_holds_it_until_its_last_guard_is_gone, *label("GEN-04")) {
  Eventfd eventfd;
  const int fd = eventfd.fd();
  Service service({.waiters = nocter_eventfd_notifier(eventfd)});
  eventfd.destroy();
  accept(service, 1);
  nocter_running_job* const job = claim(service);
  service.destroy();
  BOOST_CHECK(is_open(fd));
  nocter_running_job_drop(job);
  BOOST_CHECK(!is_open(fd));
}

BOOST_AUTO_TEST_CASE(blk_14_an_event_loop_finds_its_exact_result_after_a_wake_scenario_13_15,
                     *label("BLK-14") * label("BLK-12")) {
  Eventfd eventfd;
  Service service({.maximum_jobs = 1, .workers = 1, .waiters = nocter_eventfd_notifier(eventfd)});
  const int loop = epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest = {};
  interest.events = EPOLLIN;
  BOOST_REQUIRE_EQUAL(epoll_ctl(loop, EPOLL_CTL_ADD, eventfd.fd(), &interest), 0);
  const nocter_job_id id = accept(service, 1);
  const nocter_epoch epoch = refuse(service, NOCTER_SATURATED);
  Thread worker([&] {
    pause_ms(10);
    run_one(service, 42);
  });
  Taken taken = {NOCTER_PENDING, kNoValue};
  int wakes = 0;
  while (taken.status == NOCTER_PENDING) {
    epoll_event event;
    BOOST_REQUIRE_EQUAL(epoll_wait(loop, &event, 1, kLimitMs), 1);
    wakes++;
    nocter_eventfd_clear(eventfd);  // clear, then query
    taken = take(service, id);
  }
  BOOST_CHECK_EQUAL(taken.status, NOCTER_OK);
  BOOST_CHECK_EQUAL(taken.value, 42u);
  BOOST_CHECK_GE(wakes, 1);
  // Taking freed the slot, and that was a wake of its own.
  BOOST_CHECK(eventfd.readable());
  nocter_epoch now = {};
  BOOST_CHECK_EQUAL(nocter_blocking_wait_epoch(service, epoch, nullptr, &now), NOCTER_OK);
  close(loop);
}

BOOST_AUTO_TEST_CASE(blk_14_b_30_thousands_of_jobs_through_one_loop_lose_no_wake, *label("BLK-14") * label("BLK-12")) {
  Eventfd eventfd;
  Service service({.maximum_jobs = 16, .workers = 2, .waiters = nocter_eventfd_notifier(eventfd)});
  const uint64_t total = rounds(50'000, 5'000);
  std::vector<std::unique_ptr<Thread>> workers;
  for (int i = 0; i < 2; i++) {
    workers.push_back(std::make_unique<Thread>([&] {
      for (;;) {
        const nocter_wait wait = long_wait();
        const Claimed claimed = try_claim(service, &wait);
        if (claimed.status != NOCTER_OK) {
          STATUS(claimed.status, NOCTER_CLOSED);
          return;
        }
        const Begun begun = begin(claimed.job);
        complete(begun.completion, begun.value + 1);
      }
    }));
  }
  uint64_t submitted = 0, finished = 0, sum = 0;
  while (finished < total) {
    // Clear, then query, then act: what happens after the clear makes it readable again.
    nocter_eventfd_clear(eventfd);
    bool moved = false;
    nocter_job_id ids[4];
    size_t count = 0;
    do {
      STATUS(nocter_blocking_completed(service, ids, 4, &count), NOCTER_OK);
      for (size_t i = 0; i < count; i++) {
        const Taken taken = take(service, ids[i]);
        STATUS(taken.status, NOCTER_OK);
        sum += taken.value;
        finished++;
        moved = true;
      }
    } while (count == 4);
    while (submitted < total) {
      nocter_owned input = payload(submitted);
      if (submit(service, input).status != NOCTER_OK) {
        discard(input);
        break;
      }
      submitted++;
      moved = true;
    }
    if (!moved && !eventfd.readable(kLimitMs)) {
      BOOST_ERROR("a wake was lost at " << finished << " of " << total);
      break;
    }
  }
  BOOST_CHECK_EQUAL(sum, total * (total + 1) / 2);
  shut_down(service);
}

BOOST_AUTO_TEST_SUITE_END()
