// Benchmark B for nocter's keyed queue, over the C interface: PROGRAM str|u64 PRODUCERS KEYS NOTIFICATIONS [ROUNDS [serve|pull]]
// PRODUCERS threads notify keys picked by mix64; two workers make a no-op pass of each. Ends when the queue has drained. Checked: after its
// last notification every key got a pass. Every round has a new queue; the round with the median rate is reported. `serve` (the
// default) has the library's own workers, `pull` threads of the host that claim and complete.
#include <nocter.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../peers/common/bench.h"

namespace {

void require(nocter_status status, nocter_status expected, const char* what) {
  if (status != expected) {
    std::fprintf(stderr, "%s: %s: %s\n", what, nocter_status_name(status), nocter_error_message());
    std::exit(3);
  }
}

template <class Key>
struct Keys;

// Which key it is: a string ends with its number.
template <>
struct Keys<std::string> {
  std::vector<std::string> names;
  explicit Keys(size_t count) : names(count) {
    for (size_t i = 0; i < count; i++) {
      names[i] = "namespace-" + std::to_string(i % 17) + "/object-" + std::to_string(i);
    }
  }
  nocter_text text(size_t i) const { return {names[i].data(), names[i].size()}; }
  uint32_t index_of(nocter_text key) const {
    uint32_t i = 0, unit = 1;
    for (const char* at = key.data + key.size - 1; *at != '-'; at--, unit *= 10)
      i += static_cast<uint32_t>(*at - '0') * unit;
    return i;
  }
};

template <>
struct Keys<uint64_t> {
  std::vector<uint64_t> names;
  explicit Keys(size_t count) : names(count) {
    for (size_t i = 0; i < count; i++) names[i] = i;
  }
  nocter_text text(size_t i) const { return {reinterpret_cast<const char*>(&names[i]), sizeof names[i]}; }
  uint32_t index_of(nocter_text key) const {
    uint64_t number;
    std::memcpy(&number, key.data, sizeof number);
    return static_cast<uint32_t>(number);
  }
};

template <class Key>
struct Round {
  explicit Round(const Keys<Key>& k) : keys(k), latest(k.names.size()), seen(k.names.size()) {}
  const Keys<Key>& keys;
  std::vector<std::atomic<uint32_t>> latest, seen;
  void pass(nocter_text key) {
    const uint32_t i = keys.index_of(key);
    seen[i].store(latest[i].load());
  }
  static nocter_status run(void* user, nocter_text key, nocter_pass*) {
    static_cast<Round*>(user)->pass(key);
    return NOCTER_OK;
  }
};

struct Result {
  double rate, passes, add_s, cpu;
};

template <class Key>
Result one_round(const Keys<Key>& keys, const std::vector<uint32_t>& sequence, unsigned producers, bool pull) {
  const size_t n = sequence.size();
  Round<Key> round(keys);
  nocter_keyed_options options = NOCTER_KEYED_OPTIONS_INIT;
  options.maximum_keys = static_cast<uint32_t>(std::max<size_t>(keys.names.size(), 2));
  options.workers = 2;
  nocter_keyed* queue = nullptr;
  require(nocter_keyed_create(&options, &queue), NOCTER_OK, "create");
  nocter_workers* workers = nullptr;
  std::vector<std::thread> pulling;
  if (pull) {
    for (int i = 0; i < 2; i++) {
      pulling.emplace_back([&] {
        const nocter_wait forever = {NOCTER_FOREVER, nullptr, 0, 0};
        nocter_pass* pass = nullptr;
        while (nocter_keyed_claim(queue, &forever, &pass) == NOCTER_OK) {
          round.pass(nocter_pass_key(pass));
          require(nocter_pass_complete(pass), NOCTER_OK, "complete");
        }
      });
    }
  } else {
    require(nocter_keyed_serve(queue, Round<Key>::run, &round, nullptr, &workers), NOCTER_OK, "serve");
  }
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < producers; p++) {
    threads.emplace_back([&, p] {
      go.wait(false);
      const size_t end = n * (p + 1) / producers;
      for (size_t x = n * p / producers; x < end; x++) {
        round.latest[sequence[x]].fetch_add(1);
        const nocter_status status = nocter_keyed_notify(queue, keys.text(sequence[x]));
        if (status != NOCTER_OK && status != NOCTER_COALESCED) fail("a notification was refused");
      }
    });
  }
  const uint64_t cpu_before = cpu_ns(), start = now_ns();
  go = true;
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  const uint64_t added = now_ns();
  nocter_keyed_close(queue, NOCTER_CLOSE_DRAIN);
  const nocter_wait forever = {NOCTER_FOREVER, nullptr, 0, 0};
  require(nocter_keyed_drained(queue, &forever), NOCTER_OK, "drained");
  for (std::thread& thread : pulling) thread.join();
  const uint64_t end = now_ns(), cpu_after = cpu_ns();
  for (size_t i = 0; i < keys.names.size(); i++) {
    if (round.latest[i].load() != round.seen[i].load()) fail("a key's last notification got no pass");
  }
  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
  require(nocter_keyed_count(queue, &counts), NOCTER_OK, "count");
  if (counts.accepted_new + counts.coalesced + counts.marked_dirty != n) fail("notifications do not add up");
  nocter_workers_destroy(workers);
  nocter_keyed_destroy(queue);
  return {static_cast<double>(n) * 1e9 / static_cast<double>(end - start), static_cast<double>(counts.started),
          static_cast<double>(added - start) / 1e9,
          static_cast<double>(cpu_after - cpu_before) / static_cast<double>(n)};
}

template <class Key>
void bench(const char* kind, unsigned producers, size_t count, size_t n, int rounds, bool pull) {
  const Keys<Key> keys(count);
  std::vector<uint32_t> sequence(n);
  for (size_t i = 0; i < n; i++) sequence[i] = static_cast<uint32_t>(mix64(i) % count);
  std::vector<Result> results;
  for (int i = 0; i < rounds; i++) results.push_back(one_round(keys, sequence, producers, pull));
  std::sort(results.begin(), results.end(), [](const Result& a, const Result& b) { return a.rate < b.rate; });
  const Result& median = results[results.size() / 2];
  const std::string workload = "producers=" + std::to_string(producers) + ";workers=2;keys=" + std::to_string(count) +
                               ";n=" + std::to_string(n) + ";key=" + kind;
  const char* const peer = pull ? "nocter-pull" : "nocter";
  const auto say = [&](const char* metric, double value) { emit("B", peer, workload.c_str(), metric, value); };
  say("notifications_per_s", median.rate);
  say("passes", median.passes);
  say("coalesced", static_cast<double>(n) - median.passes);
  say("add_phase_s", median.add_s);
  say("cpu_ns_per_notification", median.cpu);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "str";
  const unsigned producers = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  const size_t keys = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 100;
  const size_t n = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1'000'000;
  const int rounds = argc > 5 ? std::atoi(argv[5]) : 5;
  const bool pull = argc > 6 && std::strcmp(argv[6], "pull") == 0;
  if (kind == "str") {
    bench<std::string>("str", producers, keys, n, rounds, pull);
  } else {
    bench<uint64_t>("u64", producers, keys, n, rounds, pull);
  }
}
