#include "sched/keyed_world.hpp"

#include <algorithm>
#include <cstring>

namespace sched {

namespace {

// One of them does not fit in a small place.
constexpr const char* kNames[Keyed::kThings] = {"zero", "one", "two: a key that is longer than what lies in a record",
                                                ""};

}  // namespace

nocter_text Keyed::text_of(int key) { return {kNames[key], std::strlen(kNames[key])}; }

int Keyed::key_of(nocter_text text) {
  for (int key = 0; key < kThings; key++) {
    const nocter_text name = text_of(key);
    if (name.size == text.size && std::memcmp(name.data, text.data, text.size) == 0) return key;
  }
  fail("a pass has a key that nobody notified");
}

Keyed::Keyed(const QueueShape& shape) : workers_(shape.workers) {
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  options.maximum_keys = shape.maximum_keys;
  options.workers = shape.workers;
  options.waiters = waiters.notifier();
  options.work = work.notifier();
  options.wait_spins = NOCTER_WAIT_NONE;
  options.wait_yields = shape.stays_awake ? 1 : NOCTER_WAIT_NONE;
  options.backoff_initial_ns = shape.backoff_initial_ns;
  options.backoff_maximum_ns = shape.backoff_maximum_ns;
  options.backoff_percent = shape.backoff_percent;
  options.backoff_jitter_percent = shape.backoff_jitter_percent;
  require_equal(nocter_keyed_create(&options, &queue), NOCTER_OK, "keyed_create");
}

void Keyed::tell(int key, int state, nocter_status status) {
  switch (status) {
    case NOCTER_OK:
      tally.ok++;
      break;
    case NOCTER_COALESCED:
      tally.coalesced++;
      break;
    case NOCTER_SATURATED:
      tally.saturated++;
      return;
    case NOCTER_CLOSED:
      tally.closed++;
      return;
    default:
      fail(std::string("notify says ") + nocter_status_name(status));
  }
  // A pass that started meanwhile may have seen it.
  things_[key].promised = std::max(things_[key].promised, state);
}

nocter_status Keyed::notify(int key) {
  const int state = change(key);
  const nocter_status status = nocter_keyed_notify(queue, text_of(key));
  tell(key, state, status);
  return status;
}

nocter_status Keyed::notify_after(int key, int64_t delay_ns) {
  const int state = change(key);
  const nocter_status status = nocter_keyed_notify_after(queue, text_of(key), delay_ns);
  tell(key, state, status);
  return status;
}

void Keyed::notify_many(const std::vector<int>& keys) {
  nocter_text texts[8];
  int states[8];
  nocter_status each[8];
  for (size_t i = 0; i < keys.size(); i++) {
    texts[i] = text_of(keys[i]);
    states[i] = change(keys[i]);
  }
  const nocter_status all = nocter_keyed_notify_many(queue, texts, keys.size(), each);
  nocter_status worst = NOCTER_OK;
  for (size_t i = 0; i < keys.size(); i++) {
    tell(keys[i], states[i], each[i]);
    if (each[i] != NOCTER_COALESCED) worst = std::max(worst, each[i]);
  }
  require_equal(all, worst, "what notify_many says of all");
}

void Keyed::accepted(int key) { require_equal(notify(key), NOCTER_OK, "notify"); }

nocter_status Keyed::claim(Pass& pass, const nocter_wait* wait) {
  const bool discarded = discarded_;
  pass = {nullptr, -1};
  const nocter_status status = nocter_keyed_claim(queue, wait, &pass.pass);
  require((status == NOCTER_OK) == (pass.pass != nullptr), "a claim gives a pass when, and only when, it says so");
  require(status != NOCTER_EMPTY || wait == nullptr, "a claim that may wait says empty");
  if (status != NOCTER_OK) return status;
  require(!discarded, "KEY-08: a pass starts after a close that discards");
  pass.key = key_of(nocter_pass_key(pass.pass));
  Thing& thing = things_[pass.key];
  require(!thing.active, "KEY-02: a key has two passes at once");
  thing.active = true;
  thing.passes++;
  thing.seen = thing.state;
  require(++active_ <= static_cast<int>(workers_), "KEY-02: more passes at once than workers");
  tally.started++;
  return status;
}

Keyed::Pass Keyed::claimed(const nocter_wait* wait) {
  Pass pass;
  require_equal(claim(pass, wait), NOCTER_OK, "claim");
  return pass;
}

void Keyed::end(const Pass& pass, Ends how, int64_t retry_after_ns) {
  require_equal(key_of(nocter_pass_key(pass.pass)), pass.key, "the key of a pass");
  const bool discarded = discarded_, interrupted = nocter_pass_interrupted(pass.pass);
  require(discards_ || !interrupted, "KEY-08: a pass is interrupted, and nobody discards");
  require(!discarded || interrupted, "KEY-08: a pass is not interrupted by a close that discards");
  // Before the call: in it the key may have its next pass already.
  active_--;
  things_[pass.key].active = false;
  (how == Ends::completes ? tally.completed : tally.failed)++;
  nocter_status status = NOCTER_OK;
  switch (how) {
    case Ends::completes:
      status = nocter_pass_complete(pass.pass);
      break;
    case Ends::fails:
      status = nocter_pass_fail(pass.pass);
      break;
    case Ends::drops:
      nocter_pass_drop(pass.pass);
      break;
    case Ends::retries:
      status = nocter_pass_retry_after(pass.pass, retry_after_ns);
      break;
    case Ends::backs_off:
      status = nocter_pass_retry_after(pass.pass, -1);
      break;
  }
  require_equal(status, NOCTER_OK, "the end of a pass");
}

nocter_status Keyed::work_once(const nocter_wait* wait, Ends how) {
  Pass pass;
  const nocter_status status = claim(pass, wait);
  if (status == NOCTER_OK) end(pass, how);
  return status;
}

void Keyed::close(nocter_close_mode mode) {
  if (mode == NOCTER_CLOSE_DISCARD) discards_ = true;
  nocter_keyed_close(queue, mode);
  if (mode == NOCTER_CLOSE_DISCARD) discarded_ = true;
}

nocter_status Keyed::drained(const nocter_wait* wait) {
  const nocter_status status = nocter_keyed_drained(queue, wait);
  if (status == NOCTER_OK) {
    require_equal(active_, 0, "K-21: drained while a pass runs");
    require_equal(counts().retained, 0, "K-21: drained while a key is retained");
  }
  return status;
}

nocter_keyed_counts Keyed::counts() {
  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
  require_equal(nocter_keyed_count(queue, &counts), NOCTER_OK, "count");
  check_sums(counts);
  return counts;
}

bool Keyed::glance(nocter_keyed_counts& counts) const {
  counts = NOCTER_KEYED_COUNTS_INIT;
  return locks_free() && nocter_keyed_count(queue, &counts) == NOCTER_OK;
}

void Keyed::destroy() {
  discards_ = true;
  nocter_keyed_destroy(queue);
  discarded_ = true;
  queue = nullptr;
}

void check_sums(const nocter_keyed_counts& c) {
  require_equal(c.retained, c.waiting + c.delayed + c.active, "KEY-07: retained is the sum of the three");
  require(c.retained <= c.maximum_keys, "KEY-02: more keys are retained than may be");
  require(c.active <= c.workers, "KEY-02: more passes run than there are workers");
  require(c.dirty <= c.active, "KEY-07: more keys are dirty than active");
  require_equal(c.started, c.completed + c.failed + c.active, "KEY-07: what was started has ended or is active");
  require_equal(c.accepted_new + c.requeued + c.retried, c.started + c.waiting + c.delayed + c.discarded_waiting,
                "KEY-07: what came to wait was started, discarded, or is there");
  require_equal(c.marked_dirty, c.requeued + c.dirty + c.discarded_dirty,
                "KEY-07: what was marked dirty was kept, discarded, or is there");
  require_equal(c.exceptions, 0, "exceptions");
}

void Keyed::claim_rest() {
  for (;;) {
    const nocter_status heard = work_once();
    if (heard == NOCTER_CLOSED) return;
    require_equal(heard, NOCTER_OK, "a claim of what a closed queue still has");
  }
}

void Keyed::settle() {
  if (queue != nullptr) {
    require_equal(active_, 0, "passes that are still out");
    const nocter_keyed_counts before = counts();
    close(NOCTER_CLOSE_DRAIN);
    claim_rest();
    require_equal(drained(), NOCTER_OK, "drained");
    const nocter_keyed_counts c = counts();
    if (c.resync_keys == 0) {
      require_equal(c.accepted_new + c.marked_dirty, tally.ok, "notifications that said OK");
      require_equal(c.coalesced, tally.coalesced, "notifications that said COALESCED");
      require_equal(c.rejected_full, tally.saturated, "notifications that said SATURATED");
      require_equal(c.rejected_closed, tally.closed, "notifications that said CLOSED");
    }
    require_equal(c.started, tally.started, "passes claimed");
    require_equal(c.completed, tally.completed, "passes that ended well");
    require_equal(c.failed, tally.failed, "passes that failed");
    require_equal(before.rejected_closed, c.rejected_closed, "refused as closed");
    if (!discards_) {
      require_equal(c.discarded_waiting + c.discarded_dirty, 0, "KEY-08: discarded without anybody asking for it");
      for (const Thing& thing : things_) {
        require(thing.seen >= thing.promised, "K-1: the freshest state that was notified was seen by no pass");
      }
    }
    destroy();
  }
  for (const Bell* bell : {&waiters, &work}) {
    require(bell->dropped, "a notifier was not dropped: the queue still lives");
    require_equal(bell->inside, 0, "notifiers that have not returned");
  }
}

}  // namespace sched
