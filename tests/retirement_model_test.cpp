// The real service beside a model of it: every sequence of a few calls, and long random ones. After each call the answer, who
// owns the resource, and all counts must be those of the model.
#include <nocter.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "nocter/retirement_rules.hpp"
#include "support/fixture.hpp"
#include "support/retirement.hpp"

using namespace nocter_tests;
using namespace nocter_tests::retiring;
using nocter::retirement::Event;
using nocter::retirement::State;

namespace {

enum class Call {
  reserve,
  claim,
  close,
  detach_all,
  attach,
  drop_permit,
  drop,
  retire,
  begin,
  complete,
  fail,
  lose,
  take,
  detach
};
struct Op {
  Call call;
  size_t place;  // in the order of reservation
};
constexpr bool is_of_service(Call call) { return call <= Call::detach_all; }

struct Reservation {
  uint64_t value;
  State state = State::permit;
  nocter_permit* permit = nullptr;
  nocter_resource* resource = nullptr;
  nocter_cleanup* cleanup = nullptr;
  nocter_retirement_id id = {0, 0};
  uint64_t queued_as = 0;
  bool begun = false;
  bool failed = false, lost = false;
};

class Mirror {
 public:
  Mirror(uint32_t maximum_resources, uint32_t workers)
      : service_({.maximum_resources = maximum_resources, .workers = workers}) {
    expected_.accepting = 1;
    expected_.maximum_resources = maximum_resources;
    expected_.workers = workers;
  }
  // The guards that are out end at last, some of them after the service.
  ~Mirror() {
    service_.destroy();
    for (Reservation& one : all_) {
      nocter_permit_drop(one.permit);
      nocter_resource_drop(one.resource);
      nocter_cleanup_drop(one.cleanup);
    }
  }

  size_t reservations() const { return all_.size(); }
  bool can(const Op& op) const {
    if (is_of_service(op.call)) return true;
    const Reservation& one = all_[op.place];
    switch (op.call) {
      case Call::attach:
      case Call::drop_permit:
        return one.permit != nullptr;
      case Call::drop:
      case Call::retire:
        return one.resource != nullptr;
      case Call::begin:
      case Call::complete:
      case Call::fail:
      case Call::lose:
        return one.cleanup != nullptr;
      default:
        return true;
    }
  }

  bool play(const Op& op) {
    bool right = false;
    switch (op.call) {
      case Call::reserve:
        right = reserve_one();
        break;
      case Call::claim:
        right = claim_one();
        break;
      case Call::close:
        nocter_retirement_close(service_);
        expected_.accepting = 0;
        right = true;
        break;
      case Call::detach_all:
        nocter_retirement_detach_all(service_);
        for (Reservation& one : all_) {
          if (nocter::retirement::observed(one.state)) detached(one);
        }
        right = true;
        break;
      default:
        right = play_on(op.call, all_[op.place]);
        break;
    }
    return right && counts_agree();
  }

 private:
  bool closed() const { return expected_.accepting == 0; }
  template <class Which>
  uint32_t number_of(Which&& which) const {
    return static_cast<uint32_t>(
        std::count_if(all_.begin(), all_.end(), [&](const Reservation& r) { return which(r.state); }));
  }
  uint32_t in(State state) const {
    return number_of([state](State s) { return s == state; });
  }
  uint32_t reserved() const { return number_of(nocter::retirement::occupies_place); }

  void move(Reservation& one, Event event) {
    const auto step = nocter::retirement::step(one.state, event);
    HOLDS(step.allowed());
    expected_.epoch += nocter::retirement::frees_place(one.state, step) ? 1 : 0;
    one.state = step.next;
  }

  bool reserve_one() {
    const Reserved got = try_reserve(service_);
    if (closed()) return STATUS(got.status, NOCTER_CLOSED);
    if (reserved() == expected_.maximum_resources) {
      expected_.saturated++;
      return STATUS(got.status, NOCTER_SATURATED);
    }
    if (!STATUS(got.status, NOCTER_OK)) return false;
    expected_.reservations++;
    all_.push_back({.value = 1000 + all_.size(), .permit = got.permit});
    return true;
  }

  bool claim_one() {
    const auto claimed = try_claim(service_);
    Reservation* oldest = nullptr;
    for (Reservation& one : all_) {
      if (nocter::retirement::is_queued(one.state) && (oldest == nullptr || one.queued_as < oldest->queued_as)) {
        oldest = &one;
      }
    }
    const bool over = closed() && oldest == nullptr && in(State::permit) + in(State::live) == 0;
    if (over) return STATUS(claimed.status, NOCTER_CLOSED);
    if (oldest == nullptr || number_of(nocter::retirement::occupies_worker) == expected_.workers) {
      return STATUS(claimed.status, NOCTER_EMPTY);
    }
    if (!STATUS(claimed.status, NOCTER_OK)) return false;
    move(*oldest, Event::claim);
    oldest->cleanup = claimed.cleanup;
    return true;
  }

  bool play_on(Call call, Reservation& one) {
    switch (call) {
      case Call::attach:
        one.resource = attach(std::exchange(one.permit, nullptr), payload(one.value));
        move(one, Event::attach);
        return true;
      case Call::drop_permit:
        nocter_permit_drop(std::exchange(one.permit, nullptr));
        move(one, Event::drop_permit);
        expected_.permits_dropped++;
        return true;
      case Call::drop:
        nocter_resource_drop(std::exchange(one.resource, nullptr));
        move(one, Event::drop);
        one.queued_as = next_in_queue_++;
        return true;
      case Call::retire:
        one.id = retire(std::exchange(one.resource, nullptr));
        move(one, Event::retire);
        one.queued_as = next_in_queue_++;
        return true;
      case Call::begin:
        return begin_one(one);
      case Call::complete:
      case Call::fail:
        return complete_one(one, call == Call::fail ? 7 : 0);
      case Call::lose:
        return lose_one(one);
      case Call::take:
        return take_one(one);
      default:
        return detach_one(one);
    }
  }

  static bool begin_one(Reservation& one) {
    nocter_owned value = {&value, nullptr};
    const nocter_status status = nocter_cleanup_begin(one.cleanup, &value);
    if (one.begun) return STATUS(status, NOCTER_E_STATE) && HOLDS(is_none(value));
    one.begun = true;
    return STATUS(status, NOCTER_OK) && HOLDS(discard(value) == one.value);
  }

  bool complete_one(Reservation& one, int32_t code) {
    const nocter_status status = nocter_cleanup_complete(one.cleanup, code);
    if (!one.begun) return STATUS(status, NOCTER_E_STATE);
    one.failed = code != 0;
    (one.failed ? expected_.failed : expected_.cleaned)++;
    ended(one, one.failed ? Event::fail : Event::complete);
    return STATUS(status, NOCTER_OK);
  }

  bool lose_one(Reservation& one) {
    const uint64_t dropped = Ledger::dropped();
    nocter_cleanup_drop(one.cleanup);
    one.failed = one.lost = true;
    expected_.lost++;
    ended(one, Event::lose);
    return HOLDS(Ledger::dropped() - dropped == (one.begun ? 0u : 1u));
  }

  void ended(Reservation& one, Event event) {
    one.cleanup = nullptr;
    if (one.state == State::running) expected_.unobserved_done++;
    if (one.state == State::running_detached) expected_.detached_done++;
    if (one.failed && one.state != State::running_observed) expected_.failed_unobserved++;
    move(one, event);
  }

  bool take_one(Reservation& one) {
    const auto taken = take(service_, one.id);
    if (!nocter::retirement::observed(one.state)) return STATUS(taken.status, NOCTER_E_UNKNOWN);
    if (one.state != State::completed) return STATUS(taken.status, NOCTER_PENDING);
    move(one, Event::take);
    expected_.taken++;
    if (one.lost) return STATUS(taken.status, NOCTER_WORKER_LOST);
    return STATUS(taken.status, NOCTER_OK) && HOLDS(taken.code == (one.failed ? 7 : 0));
  }

  bool detach_one(Reservation& one) {
    const nocter_status status = nocter_retirement_detach(service_, one.id);
    if (!nocter::retirement::observed(one.state)) return STATUS(status, NOCTER_E_UNKNOWN);
    detached(one);
    return STATUS(status, NOCTER_OK);
  }

  void detached(Reservation& one) {
    if (one.state == State::completed) {
      expected_.detached_completed++;
      if (one.failed) expected_.failed_unobserved++;
    }
    move(one, Event::detach);
  }

  bool counts_agree() {
    const nocter_retirement_counts real = counts_of(service_);
    nocter_retirement_counts wanted = expected_;
    wanted.size = real.size;
    wanted.permits = in(State::permit);
    wanted.live = in(State::live);
    wanted.queued = number_of(nocter::retirement::is_queued);
    wanted.running = number_of(nocter::retirement::occupies_worker);
    wanted.completed = in(State::completed);
    wanted.reserved = reserved();
    wanted.oldest_queued_ns = real.oldest_queued_ns;
    wanted.longest_running_ns = real.longest_running_ns;
    bool right = HOLDS(std::memcmp(&real, &wanted, sizeof real) == 0);
    right = STATUS(nocter_retirement_drained(service_, nullptr), reserved() == 0 ? NOCTER_OK : NOCTER_PENDING) && right;
    for (const Reservation& one : all_) {
      const int32_t should_be = !nocter::retirement::observed(one.state) ? int32_t{NOCTER_E_UNKNOWN}
                                : one.state == State::queued_observed    ? NOCTER_RETIREMENT_QUEUED
                                : one.state == State::running_observed   ? NOCTER_RETIREMENT_RUNNING
                                                                         : NOCTER_RETIREMENT_COMPLETED;
      right = HOLDS(state_of(service_, one.id) == should_be) && right;
    }
    return right;
  }

  Retirement service_;
  std::deque<Reservation> all_;
  uint64_t next_in_queue_ = 1;
  nocter_retirement_counts expected_ = {};
};

std::string text_of(const std::vector<Op>& sequence) {
  constexpr const char* kNames[] = {"reserve", "claim", "close",    "detach_all", "attach", "drop_permit", "drop",
                                    "retire",  "begin", "complete", "fail",       "lose",   "take",        "detach"};
  std::string text;
  for (const Op& op : sequence) {
    text += kNames[static_cast<size_t>(op.call)];
    text += is_of_service(op.call) ? " " : "(" + std::to_string(op.place) + ") ";
  }
  return text;
}

constexpr Call kOfService[] = {Call::reserve, Call::claim, Call::close, Call::detach_all};
constexpr Call kOfPlace[] = {Call::attach,   Call::drop_permit, Call::drop, Call::retire, Call::begin,
                             Call::complete, Call::fail,        Call::lose, Call::take,   Call::detach};

// Plays the sequence, and then every longer one up to the depth.
uint64_t play_all(std::vector<Op>& sequence, size_t depth) {
  std::vector<Op> next;
  {
    Mirror mirror(2, 1);
    for (const Op& op : sequence) {
      if (!mirror.play(op)) {
        BOOST_ERROR("after " << text_of(sequence));
        return 1;
      }
    }
    if (sequence.size() == depth) return 1;
    for (const Call call : kOfService) next.push_back({call, 0});
    for (size_t place = 0; place < mirror.reservations(); place++) {
      for (const Call call : kOfPlace) {
        if (mirror.can({call, place})) next.push_back({call, place});
      }
    }
  }
  uint64_t played = 1;
  for (const Op& op : next) {
    sequence.push_back(op);
    played += play_all(sequence, depth);
    sequence.pop_back();
  }
  return played;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retirement_model_suite, EveryTest)

BOOST_AUTO_TEST_CASE(ret_04_every_short_sequence_of_calls_agrees_with_the_model,
                     *label("RET-04") * label("GEN-12") * label("GEN-01") * label("RET-07")) {
  // Two resources, one worker. The first calls are given, so that the interesting ones are within reach.
  uint64_t played = 0;
  for (std::vector<Op> start :
       {std::vector<Op>{}, std::vector<Op>{{Call::reserve, 0}, {Call::attach, 0}, {Call::retire, 0}},
        std::vector<Op>{{Call::reserve, 0},
                        {Call::attach, 0},
                        {Call::retire, 0},
                        {Call::claim, 0},
                        {Call::reserve, 0},
                        {Call::attach, 1}}}) {
    played += play_all(start, start.size() + (kSanitized ? 4 : 5));
  }
  BOOST_TEST_MESSAGE(played << " sequences");
  BOOST_CHECK_GT(played, 1'000u);
}

BOOST_AUTO_TEST_CASE(ret_04_long_random_sequences_agree_with_the_model,
                     *label("RET-04") * label("GEN-12") * label("GEN-01") * label("RET-06")) {
  auto random = random_stream(10);
  for (uint64_t round = 0; round < rounds(400, 60); round++) {
    const uint32_t places = 1 + static_cast<uint32_t>(below(random, 8));
    Mirror mirror(places, 1 + static_cast<uint32_t>(below(random, places)));
    std::vector<Op> played;
    for (int i = 0; i < 200; i++) {
      Op op = {below(random, 3) == 0 ? (below(random, 2) == 0 ? Call::reserve : Call::claim)
                                     : kOfPlace[below(random, std::size(kOfPlace))],
               0};
      if (i == 100) op.call = Call::detach_all;
      if (i == 170) op.call = Call::close;
      if (!is_of_service(op.call)) {
        if (mirror.reservations() == 0) continue;
        // Mostly the young ones; now and then one long gone.
        const size_t back =
            below(random, 10) == 0 ? mirror.reservations() : std::min<size_t>(mirror.reservations(), 10);
        op.place = mirror.reservations() - 1 - below(random, back);
        if (!mirror.can(op)) continue;
      }
      played.push_back(op);
      if (!mirror.play(op)) {
        BOOST_ERROR("after " << text_of(played));
        break;
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
