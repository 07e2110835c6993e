// The real queue beside a model of it: every sequence of a few calls, and long random ones. After each call the answer, every pass and
// all counts must be those of the model.
#include <nocter.h>
#include <nocter/keyed.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/fixture.hpp"
#include "support/keyed.hpp"
#include "support/keyed_model.hpp"

using namespace nocter_tests;
using keyed_model::End;
using At = keyed_model::Queue::At;
using Dirty = keyed_model::Queue::Dirty;

namespace {

enum class Call : uint8_t {
  notify,
  notify_later,
  notify_many,
  claim,
  complete,
  fail,
  drop,
  retry_later,
  discard,
  drain
};
struct Op {
  Call call;
  size_t key = 0;
};

constexpr Call kEnds[] = {Call::complete, Call::fail, Call::drop, Call::retry_later};

// Some lie in their record, some beside it; one is empty, two differ in their last byte only.
const std::string kNames[keyed_model::kKeys] = {
    "k",    std::string(), std::string(200, 'x') + "1", std::string(200, 'x') + "2", std::string("with\0zero", 9),
    "other"};

size_t index_of(const std::string& key) {
  return static_cast<size_t>(std::find(std::begin(kNames), std::end(kNames), key) - std::begin(kNames));
}

class Mirror {
 public:
  Mirror(uint32_t maximum_keys, uint32_t workers)
      : queue_(QueueShape{.maximum_keys = maximum_keys, .workers = workers, .maximum_key_size = 256}),
        maximum_keys_(maximum_keys),
        workers_(workers),
        model_(maximum_keys, workers) {}
  // The passes that are out end at last.
  ~Mirror() {
    for (nocter_pass* pass : passes_) nocter_pass_drop(pass);
  }

  bool can(const Op& op) const {
    const bool ends = std::find(std::begin(kEnds), std::end(kEnds), op.call) != std::end(kEnds);
    return !ends || passes_[op.key] != nullptr;
  }

  bool play(const Op& op) { return carry_out(op) && agrees(); }

 private:
  bool carry_out(const Op& op) {
    switch (op.call) {
      case Call::notify:
        return STATUS(notify(queue_, kNames[op.key]), model_.notify(op.key, false));
      case Call::notify_later:
        return STATUS(notify_after(queue_, kNames[op.key], kMuchLater), model_.notify(op.key, true));
      case Call::notify_many:
        return notify_many();
      case Call::claim:
        return claim_one();
      case Call::complete:
        return end(op.key, End::complete, nocter_pass_complete);
      case Call::fail:
        return end(op.key, End::fail, nocter_pass_fail);
      case Call::drop:
        return end(op.key, End::fail, [](nocter_pass* pass) {
          nocter_pass_drop(pass);
          return nocter_status{NOCTER_OK};
        });
      case Call::retry_later:
        return end(op.key, End::retry_later,
                   [](nocter_pass* pass) { return nocter_pass_retry_after(pass, kMuchLater); });
      case Call::discard:
        nocter_keyed_close(queue_, NOCTER_CLOSE_DISCARD);
        model_.close(true);
        return true;
      case Call::drain:
        nocter_keyed_close(queue_, NOCTER_CLOSE_DRAIN);
        model_.close(false);
        return true;
    }
    return false;
  }

  // All of them and the first once more, in one call.
  bool notify_many() {
    nocter_text keys[keyed_model::kKeys + 1];
    nocter_status expected[keyed_model::kKeys + 1], each[keyed_model::kKeys + 1];
    nocter_status worst = NOCTER_OK;
    for (size_t i = 0; i <= keyed_model::kKeys; i++) {
      keys[i] = text(kNames[i % keyed_model::kKeys]);
      expected[i] = model_.notify(i % keyed_model::kKeys, false);
      if (expected[i] != NOCTER_COALESCED) worst = std::max(worst, expected[i]);
    }
    bool right = STATUS(nocter_keyed_notify_many(queue_, keys, std::size(keys), each), worst);
    for (size_t i = 0; i <= keyed_model::kKeys; i++) right = STATUS(each[i], expected[i]) && right;
    return right;
  }

  bool claim_one() {
    const ClaimedPass claimed = try_claim(queue_);
    const nocter_status says = model_.claim_says(false);
    if (says != NOCTER_OK) {
      nocter_pass_drop(claimed.pass);
      return (claimed.status == NOCTER_EMPTY && model_.claim_may_say_not_yet()) || STATUS(claimed.status, says);
    }
    if (!STATUS(claimed.status, NOCTER_OK)) return false;
    const size_t key = index_of(key_of(claimed.pass));
    if (!HOLDS(key < keyed_model::kKeys && passes_[key] == nullptr && model_.may_claim(key))) {
      nocter_pass_drop(claimed.pass);
      return false;
    }
    model_.claim(key);
    passes_[key] = claimed.pass;
    return true;
  }

  template <class Function>
  bool end(size_t key, End how, Function function) {
    model_.end(key, how);
    return STATUS(function(std::exchange(passes_[key], nullptr)), NOCTER_OK);
  }

  bool agrees() {
    const nocter_keyed_counts counts = counts_of(queue_);
    bool right = HOLDS(model_.counts_are(counts));
    right =
        HOLDS(counts.maximum_keys == maximum_keys_ && counts.workers == workers_ && counts.exceptions == 0) && right;
    right = HOLDS(counts.resync_keys == 0 && counts.resync_rounds == 0 && counts.resync_failures == 0) && right;
    right = STATUS(nocter_keyed_drained(queue_, nullptr), model_.drained_says()) && right;
    int64_t due = -7;
    const nocter_status next = nocter_keyed_next_due(queue_, &due);
    right = HOLDS((next == NOCTER_OK && due > 0) || (next == NOCTER_EMPTY && due == 0)) && right;
    if (model_.number_of(At::delayed) != 0) right = STATUS(next, NOCTER_OK) && right;
    for (size_t key = 0; key < keyed_model::kKeys; key++) {
      const nocter_pass* const pass = passes_[key];
      if (pass == nullptr) continue;
      right = HOLDS(key_of(pass) == kNames[key]) && right;
      right = HOLDS(nocter_pass_failures(pass) == model_.key(key).failures) && right;
      right = HOLDS(nocter_pass_interrupted(pass) == model_.interrupts()) && right;
    }
    return right;
  }

  Queue queue_;
  const uint32_t maximum_keys_, workers_;
  keyed_model::Queue model_;
  nocter_pass* passes_[keyed_model::kKeys] = {};
};

const char* name_of(Call call) {
  constexpr const char* kCalls[] = {"notify", "notify_later", "notify_many", "claim",   "complete",
                                    "fail",   "drop",         "retry_later", "discard", "drain"};
  return kCalls[static_cast<size_t>(call)];
}

std::string text_of(const std::vector<Op>& sequence) {
  std::string text;
  for (const Op& op : sequence) text += std::string(name_of(op.call)) + "(" + std::to_string(op.key) + ") ";
  return text;
}

struct Bounds {
  uint32_t maximum_keys, workers;
  size_t keys, depth;
};

// Plays the sequence, and then every longer one up to the depth. Keys are all alike: a new one is always the next.
uint64_t play_all(const Bounds& bounds, std::vector<Op>& sequence, size_t known) {
  std::vector<Op> next;
  {
    Mirror mirror(bounds.maximum_keys, bounds.workers);
    for (const Op& op : sequence) {
      if (!mirror.play(op)) {
        BOOST_ERROR("after " << text_of(sequence));
        return 1;
      }
    }
    if (sequence.size() == bounds.depth) return 1;
    for (const Call call : {Call::claim, Call::discard, Call::drain}) next.push_back({call, 0});
    for (size_t key = 0; key < std::min(known + 1, bounds.keys); key++) {
      next.push_back({Call::notify, key});
      next.push_back({Call::notify_later, key});
      for (const Call call : {Call::complete, Call::fail, Call::retry_later}) {
        if (mirror.can({call, key})) next.push_back({call, key});
      }
    }
  }
  uint64_t played = 1;
  for (const Op& op : next) {
    const bool is_new = (op.call == Call::notify || op.call == Call::notify_later) && op.key == known;
    sequence.push_back(op);
    played += play_all(bounds, sequence, known + (is_new ? 1 : 0));
    sequence.pop_back();
  }
  return played;
}

void play_all_within(const Bounds& bounds) {
  std::vector<Op> sequence;
  const uint64_t played = play_all(bounds, sequence, 0);
  BOOST_TEST_MESSAGE(played << " sequences");
  BOOST_CHECK_GT(played, 1'000u);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_model_suite, EveryTest)

// One key, so that every pair of its states meets; a depth in which it is notified, claimed, notified, failed, claimed again …
BOOST_AUTO_TEST_CASE(key_03_every_sequence_of_calls_on_one_key_agrees_with_the_model,
                     *label("KEY-01") * label("KEY-03") * label("KEY-06") * label("KEY-07") * label("KEY-08") *
                         label("K-4") * label("K-9") * label("GEN-12")) {
  play_all_within({1, 1, 1, kSanitized ? size_t{5} : size_t{7}});
}

// Room for two keys of three, one pass at a time.
BOOST_AUTO_TEST_CASE(key_05_every_sequence_on_a_queue_that_fills_agrees_with_the_model,
                     *label("KEY-02") * label("KEY-05") * label("K-5") * label("K-6") * label("K-7") *
                         label("GEN-12")) {
  play_all_within({2, 1, 3, kSanitized ? size_t{4} : size_t{6}});
}

// Two passes at a time.
BOOST_AUTO_TEST_CASE(key_02_every_sequence_of_two_passes_agrees_with_the_model,
                     *label("KEY-02") * label("KEY-03") * label("K-10") * label("K-11") * label("K-13") *
                         label("K-14") * label("GEN-12")) {
  play_all_within({3, 2, 3, kSanitized ? size_t{4} : size_t{6}});
}

BOOST_AUTO_TEST_CASE(key_03_long_random_sequences_agree_with_the_model,
                     *label("KEY-02") * label("KEY-03") * label("KEY-05") * label("KEY-06") * label("KEY-07") *
                         label("KEY-08") * label("K-12") * label("K-17") * label("GEN-12")) {
  auto random = random_stream(30);
  for (uint64_t round = 0; round < rounds(3'000, 300); round++) {
    const uint32_t maximum_keys = 1 + static_cast<uint32_t>(below(random, keyed_model::kKeys));
    const uint32_t workers = 1 + static_cast<uint32_t>(below(random, maximum_keys));
    Mirror mirror(maximum_keys, workers);
    std::vector<Op> played;
    for (int i = 0; i < 200; i++) {
      constexpr Call kCalls[] = {Call::notify, Call::notify,      Call::notify,     Call::notify_later,
                                 Call::claim,  Call::claim,       Call::complete,   Call::fail,
                                 Call::drop,   Call::retry_later, Call::retry_later};
      Op op = {kCalls[below(random, std::size(kCalls))], below(random, keyed_model::kKeys)};
      if (below(random, 50) == 0) op.call = Call::notify_many;
      if (i > 150 && below(random, 20) == 0) op.call = below(random, 2) == 0 ? Call::drain : Call::discard;
      if (!mirror.can(op)) continue;
      played.push_back(op);
      if (!mirror.play(op)) {
        BOOST_ERROR("after " << text_of(played));
        break;
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
