// Shared values, locks, remembered steps.
#include "tasks/world.hpp"

namespace tasks_tests {

namespace {

Status put(World& world, const std::string& scope, const std::string& key, const std::string& value, bool if_absent,
           std::string* existing = nullptr) {
  SharedPut put;
  put.scope = scope;
  put.key = key;
  put.value = value;
  put.if_absent = if_absent;
  const Status status = world.ask(put);
  if (existing != nullptr) *existing = put.existing;
  return status;
}

struct Holder {
  uint64_t token = 0, fence = 0;
  Millis until = 0;
};
uint64_t last_token = 1000;

Status acquire(World& world, const std::string& name, Holder& holder, int64_t lease = 30'000) {
  LockAcquire acquire;
  acquire.name = name;
  acquire.lease_ms = lease;
  acquire.token = holder.token != 0 ? holder.token : ++last_token;
  const Status status = world.ask(acquire);
  holder = {acquire.token, acquire.fence, acquire.until};
  return status;
}

Status renew(World& world, const std::string& name, const Holder& holder, int64_t lease = 30'000) {
  LockRenew renew{name, holder.token, lease, 0};
  const Status status = world.ask(renew);
  if (status == Status::ok) BOOST_CHECK_EQUAL(renew.until, world.now() + lease);
  return status;
}

Status release(World& world, const std::string& name, const Holder& holder) {
  LockRelease release{name, holder.token};
  return world.ask(release);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sharing)

BOOST_AUTO_TEST_CASE(shr_01_the_first_wins, *label("SHR-01") * label("T-53")) {
  World world;
  std::string existing;
  BOOST_CHECK_EQUAL(put(world, "scope", "key", "1", true, &existing), Status::ok);
  BOOST_CHECK(existing.empty());
  BOOST_CHECK_EQUAL(put(world, "scope", "key", "2", true, &existing), Status::exists);
  BOOST_CHECK_EQUAL(existing, "1");
  std::string value;
  BOOST_CHECK_EQUAL(world.store().shared("scope", "key", value).status, Status::ok);
  BOOST_CHECK_EQUAL(value, "1");
}

// Racing callers meet in the batches of the lane: one of them gets it, also when they share a transaction. Threads race in tests/python.
BOOST_AUTO_TEST_CASE(shr_01_one_of_a_batch_wins, *label("SHR-01") * label("T-55") * label("T-57")) {
  World world;
  std::vector<Request> requests(64);
  std::vector<Request*> batch;
  for (size_t i = 0; i < requests.size(); i++) {
    SharedPut claim;
    claim.scope = "scope";
    claim.key = "key";
    claim.value = std::to_string(i);
    claim.if_absent = true;
    requests[i].demand = claim;
    batch.push_back(&requests[i]);
  }
  Effects effects;
  world.store().execute(std::span(batch).first(32), effects);
  world.store().execute(std::span(batch).subspan(32), effects);
  size_t winners = 0;
  for (const Request& request : requests) {
    winners += request.answer.status == Status::ok ? 1 : 0;
    if (request.answer.status != Status::ok) {
      BOOST_CHECK_EQUAL(request.answer.status, Status::exists);
      BOOST_CHECK_EQUAL(std::get<SharedPut>(request.demand).existing, "0");
    }
  }
  BOOST_CHECK_EQUAL(winners, 1U);
}

BOOST_AUTO_TEST_CASE(shr_02_put_get_all_clear, *label("SHR-02") * label("T-54") * label("T-56") * label("T-58")) {
  World world;
  BOOST_CHECK_EQUAL(put(world, "one", "b", "1", false), Status::ok);
  BOOST_CHECK_EQUAL(put(world, "one", "a", "2", false), Status::ok);
  BOOST_CHECK_EQUAL(put(world, "one", "b", "3", false), Status::ok);  // overwritten
  BOOST_CHECK_EQUAL(put(world, "two", "a", "4", true), Status::ok);   // scopes do not see each other
  std::vector<std::pair<std::string, std::string>> all;
  BOOST_CHECK_EQUAL(world.store().shared_all("one", all).status, Status::ok);
  const std::vector<std::pair<std::string, std::string>> expected = {{"a", "2"}, {"b", "3"}};
  BOOST_CHECK(all == expected);
  SharedClear clear{"one", 0};
  BOOST_CHECK_EQUAL(world.ask(clear), Status::ok);
  BOOST_CHECK_EQUAL(clear.removed, 2U);
  BOOST_CHECK_EQUAL(world.store().shared_all("one", all).status, Status::ok);
  BOOST_CHECK(all.empty());
  BOOST_CHECK_EQUAL(world.ask(clear), Status::ok);
  BOOST_CHECK_EQUAL(clear.removed, 0U);
  std::string value;
  BOOST_CHECK_EQUAL(world.store().shared("one", "a", value).status, Status::empty);
  BOOST_CHECK_EQUAL(world.store().shared("two", "a", value).status, Status::ok);
  BOOST_CHECK_EQUAL(put(world, "one", "b", "5", true), Status::ok);  // a new game
  BOOST_CHECK_EQUAL(put(world, "", "b", "5", true), Status::argument);
  BOOST_CHECK_EQUAL(put(world, "one", "", "5", true), Status::argument);
}

// N-27: whoever claimed a key and died before it submitted the child finds its own claim again, since it names the child's id.
BOOST_AUTO_TEST_CASE(n_27_a_claimed_key_outlives_the_claimer, *label("N-27") * label("SHR-01") * label("TSK-21")) {
  World world;
  Submission parent = World::task("parent");
  BOOST_CHECK_EQUAL(world.submit(parent), Status::ok);
  world.claim("parent");
  Submission child = World::task("child");
  child.parent = parent.id;
  BOOST_CHECK_EQUAL(put(world, to_text(parent.id), "part", '"' + to_text(child.id) + '"', true), Status::ok);
  world.restart();
  const Run again = world.claim("parent");
  std::string existing;
  BOOST_CHECK_EQUAL(put(world, to_text(parent.id), "part", "\"another\"", true, &existing), Status::exists);
  TaskId remembered;
  BOOST_REQUIRE(parse_task_id(existing.substr(1, 36), remembered));
  child.id = remembered;
  BOOST_CHECK_EQUAL(world.submit(child), Status::ok);
  BOOST_CHECK_EQUAL(world.submit(child), Status::ok);
  BOOST_CHECK_EQUAL(world.get(parent.id).row.children, 1);
}

BOOST_AUTO_TEST_CASE(shr_03_one_holder_at_a_time, *label("SHR-03") * label("T-47") * label("T-51") * label("T-52")) {
  World world;
  Holder first, second, other;
  BOOST_CHECK_EQUAL(acquire(world, "lock", first), Status::ok);
  BOOST_CHECK_EQUAL(first.until, kStart + 30'000);
  BOOST_CHECK_EQUAL(acquire(world, "lock", second), Status::held);
  BOOST_CHECK_EQUAL(second.until, first.until);
  BOOST_CHECK_EQUAL(acquire(world, "other", other), Status::ok);
  BOOST_CHECK_EQUAL(release(world, "lock", first), Status::ok);
  BOOST_REQUIRE_EQUAL(world.effects().released.size(), 1U);
  BOOST_CHECK_EQUAL(world.effects().released[0], "lock");
  BOOST_CHECK_EQUAL(acquire(world, "lock", second), Status::ok);
  BOOST_CHECK_EQUAL(release(world, "nobody's", second), Status::lease_lost);
}

BOOST_AUTO_TEST_CASE(shr_03_a_dead_holder_lets_go, *label("SHR-03") * label("T-48") * label("T-50")) {
  World world;
  Holder dead, next;
  BOOST_CHECK_EQUAL(acquire(world, "lock", dead), Status::ok);
  world.advance(29'999);
  BOOST_CHECK_EQUAL(acquire(world, "lock", next), Status::held);
  world.advance(1);
  BOOST_CHECK_EQUAL(renew(world, "lock", dead), Status::lease_lost);  // nobody has taken it, and it is over
  BOOST_CHECK_EQUAL(acquire(world, "lock", next), Status::ok);
  BOOST_CHECK_GT(next.fence, dead.fence);
  BOOST_CHECK_EQUAL(renew(world, "lock", dead), Status::lease_lost);
  BOOST_CHECK_EQUAL(release(world, "lock", dead), Status::lease_lost);
  Holder third;
  BOOST_CHECK_EQUAL(acquire(world, "lock", third), Status::held);  // the late one's release did no harm
  BOOST_CHECK_EQUAL(release(world, "lock", next), Status::ok);
  BOOST_CHECK_EQUAL(acquire(world, "lock", third), Status::ok);
}

BOOST_AUTO_TEST_CASE(shr_03_renewing_keeps_it, *label("SHR-03") * label("T-49")) {
  World world;
  Holder holder, other;
  BOOST_CHECK_EQUAL(acquire(world, "lock", holder), Status::ok);
  world.advance(20'000);
  BOOST_CHECK_EQUAL(renew(world, "lock", holder), Status::ok);
  world.advance(20'000);
  BOOST_CHECK_EQUAL(acquire(world, "lock", other), Status::held);
  BOOST_CHECK_EQUAL(release(world, "lock", holder), Status::ok);
  BOOST_CHECK_EQUAL(renew(world, "lock", holder), Status::lease_lost);
}

BOOST_AUTO_TEST_CASE(shr_03_asked_twice_it_is_the_same_acquisition, *label("SHR-03") * label("SHR-04")) {
  World world;
  Holder holder;
  BOOST_CHECK_EQUAL(acquire(world, "lock", holder), Status::ok);
  const Holder first = holder;
  world.advance(10);
  BOOST_CHECK_EQUAL(acquire(world, "lock", holder), Status::ok);
  BOOST_CHECK_EQUAL(holder.fence, first.fence);
  BOOST_CHECK_EQUAL(holder.until, first.until);
  LockAcquire nobody{"lock", 10, 0, 0, 0};
  BOOST_CHECK_EQUAL(world.ask(nobody), Status::argument);
}

// N-26: over release, expiry and restart.
BOOST_AUTO_TEST_CASE(n_26_fences_rise_for_ever, *label("N-26") * label("SHR-04")) {
  World world;
  uint64_t fence = 0;
  for (int turn = 0; turn < 9; turn++) {
    Holder holder;
    BOOST_CHECK_EQUAL(acquire(world, "lock", holder, 100), Status::ok);
    BOOST_CHECK_GT(holder.fence, fence);
    fence = holder.fence;
    if (turn % 3 == 0) BOOST_CHECK_EQUAL(release(world, "lock", holder), Status::ok);
    if (turn % 3 != 0) world.advance(100);
    if (turn % 3 == 2) world.restart();
  }
}

BOOST_AUTO_TEST_CASE(tsk_22_the_first_value_of_a_step_is_kept, *label("TSK-22")) {
  World world;
  Submission submission = World::task("work");
  submission.max_attempts = 3;
  BOOST_CHECK_EQUAL(world.submit(submission), Status::ok);
  Run run = world.claim("work");
  std::string value;
  BOOST_CHECK_EQUAL(world.store().step(run.claimed, "roll", value).status, Status::empty);
  StepPut step{run.claimed, "roll", "4"};
  BOOST_CHECK_EQUAL(world.ask(step), Status::ok);
  step.value = "5";
  BOOST_CHECK_EQUAL(world.ask(step), Status::exists);
  BOOST_CHECK_EQUAL(step.value, "4");
  BOOST_CHECK_EQUAL(world.fail(run, "Broken", Retry::after, 0), Status::ok);
  run = world.claim("work");  // the next try
  BOOST_CHECK_EQUAL(world.store().step(run.claimed, "roll", value).status, Status::ok);
  BOOST_CHECK_EQUAL(value, "4");
  BOOST_CHECK_EQUAL(world.suspend(run, until_children()), Status::ok);
  world.restart();
  run = world.claim("work");  // the next round
  step = {run.claimed, "roll", "6"};
  BOOST_CHECK_EQUAL(world.ask(step), Status::exists);
  BOOST_CHECK_EQUAL(step.value, "4");
  StepPut other{run.claimed, "other", "1"};
  BOOST_CHECK_EQUAL(world.ask(other), Status::ok);
  StepPut unnamed{run.claimed, "", "1"};
  BOOST_CHECK_EQUAL(world.ask(unnamed), Status::argument);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tasks_tests
