// SIG-01, SIG-03, SIG-04 with real threads: every history of versions, publications, waits, interrupts and a close
// has a legal order.
#include <nocter.h>

#include <memory>

#include "lin/checker.hpp"
#include "lin/crew.hpp"

namespace lin {

namespace {

enum class Did {
  read,        // the version is `version`
  published,   // the version moved to it
  refused,     // a publication found it closed
  saw_change,  // a wait saw a version other than `seen`
  saw_same,    // a wait ended early while the version was `seen`
  saw_closed,
  closed,
};
const char* name_of(Did did) {
  static constexpr const char* kNames[] = {"read",     "published",  "refused", "saw change",
                                           "saw same", "saw closed", "closed"};
  return kNames[static_cast<int>(did)];
}

struct Event {
  Did did;
  uint64_t version = 0, seen = 0;
};

// Rules that are broken on purpose, to see that the checker would notice.
enum class Broken { none, publication_moves_by_two, close_moves, change_is_missed };

struct State {
  Broken broken = Broken::none;
  uint64_t version = 1;
  bool closed = false;

  void key(std::string& to) const {
    to.append(reinterpret_cast<const char*>(&version), sizeof version);
    to += closed ? 1 : 0;
  }

  bool apply(const Event& event) {
    switch (event.did) {
      case Did::read:
        return event.version == version;
      case Did::published:
        if (closed) return false;
        version += broken == Broken::publication_moves_by_two ? 2 : 1;
        return event.version == version;
      case Did::refused:
        return closed && event.version == version;
      case Did::saw_change:
        return !closed && event.version == version && version != event.seen;
      case Did::saw_same:
        if (broken == Broken::change_is_missed) return !closed && version != event.seen;
        return !closed && version == event.seen;
      case Did::saw_closed:
        return closed && event.version == version;
      case Did::closed:
        if (broken == Broken::close_moves && !closed) version++;
        closed = true;
        return true;
    }
    return false;
  }
};

struct Shared {
  nocter_signal* signal = nullptr;
  nocter_interrupt* interrupt = nullptr;
};

// A wait that ended early saw the version unchanged, and read the version that it returns after that: two moments,
// both between the start and the end of the call. (That an interrupt was raised is left to the explorer: it may be
// seen before the version or after.)
void record_wait(std::vector<Operation<Event>>& done, int64_t start, nocter_status status, uint64_t seen,
                 uint64_t now) {
  const int64_t end = stamp();
  const auto add = [&](Event event) { done.push_back({start, end, event}); };
  switch (status) {
    case NOCTER_OK:
      add({Did::saw_change, now, seen});
      break;
    case NOCTER_CLOSED:
      add({Did::saw_closed, now, seen});
      break;
    case NOCTER_INTERRUPTED:
    case NOCTER_PENDING:
    case NOCTER_TIMEOUT:
      add({Did::saw_same, seen, seen});
      add({Did::read, now});
      break;
    default:
      give_up("a wait said " + std::string(nocter_status_name(status)));
  }
}

void act(const Shared& shared, Dice& dice, bool may_close, std::vector<Operation<Event>>& done) {
  uint64_t seen = 1;
  for (int i = 0; i < kOperations; i++) {
    dice.dawdle();
    const int64_t start = stamp();
    const auto add = [&](Event event) { done.push_back({start, stamp(), event}); };
    const uint32_t roll = dice.below(100);
    if (roll < 20) {
      seen = nocter_signal_version(shared.signal);
      add({Did::read, seen});
    } else if (roll < 45) {
      uint64_t version;
      const nocter_status status = nocter_signal_publish(shared.signal, &version);
      require(status == NOCTER_OK || status == NOCTER_CLOSED, "publish");
      add({status == NOCTER_OK ? Did::published : Did::refused, version});
    } else if (roll < 90) {
      nocter_wait wait = {nocter_now_ns() + 1000 * dice.below(100), nullptr, 0, 0};
      if (dice.below(3) == 0) wait.interrupt = shared.interrupt;
      uint64_t now;
      const nocter_status status = nocter_signal_wait(shared.signal, seen, dice.below(4) == 0 ? nullptr : &wait, &now);
      record_wait(done, start, status, seen, now);
      seen = now;
    } else if (roll < 94) {
      nocter_interrupt_raise(shared.interrupt);
    } else if (roll < 99) {
      nocter_interrupt_clear(shared.interrupt);
    } else if (may_close) {
      nocter_signal_close(shared.signal);
      add({Did::closed});
    }
  }
}

History<Event> record(Crew& crew, uint64_t seed) {
  Shared shared;
  require(nocter_signal_create(&shared.signal) == NOCTER_OK, "signal_create");
  require(nocter_interrupt_create(&shared.interrupt) == NOCTER_OK, "interrupt_create");
  History<Event> history(kThreads);
  crew.run([&](size_t thread) {
    Dice dice(seed * kThreads + thread);
    act(shared, dice, seed % 2 == 0, history[thread]);
  });
  nocter_signal_destroy(shared.signal);
  nocter_interrupt_destroy(shared.interrupt);
  return history;
}

void print(const History<Event>& history, const Verdict& verdict) {
  for (size_t t = 0; t < history.size(); t++) {
    for (size_t i = 0; i < history[t].size(); i++) {
      const auto& operation = history[t][i];
      std::printf("  %c thread %zu, %ld to %ld: %s, version %lu, seen %lu\n", i < verdict.furthest[t] ? ' ' : '*', t,
                  operation.start, operation.end, name_of(operation.event.did), operation.event.version,
                  operation.event.seen);
    }
  }
}

// Histories written by hand: what the checker must accept, and what it must not.
void controls_by_hand() {
  const History<Event> reordered = {{{0, 10, {Did::published, 3}}}, {{5, 20, {Did::published, 2}}}};
  require(check(State{}, reordered).legal, "the checker refuses an order that is legal");
  const History<Event> too_late = {{{0, 4, {Did::published, 3}}}, {{5, 20, {Did::published, 2}}}};
  require(!check(State{}, too_late).legal, "THE NET HAS A HOLE: an order against real time was accepted");
  const History<Event> lost = {{{0, 4, {Did::published, 2}}}, {{5, 20, {Did::saw_same, 1, 1}}}};
  require(!check(State{}, lost).legal, "THE NET HAS A HOLE: a lost publication was accepted");
}

}  // namespace

}  // namespace lin

int main(int argc, char** argv) {
  using namespace lin;
  const Settings settings = read_settings(argc, argv);
  controls_by_hand();
  constexpr Broken kBroken[] = {Broken::publication_moves_by_two, Broken::close_moves, Broken::change_is_missed};
  uint64_t refused[std::size(kBroken)] = {};
  uint64_t pairs = 0, steps = 0;
  Crew crew;
  for (uint64_t i = 0; i < settings.histories; i++) {
    const History<Event> history = record(crew, settings.seed + i);
    const Verdict verdict = check(State{}, history);
    if (!verdict.legal) {
      std::printf("FAILED: history of seed %lu has no legal order%s; * marks what could not be placed\n",
                  settings.seed + i, verdict.undecided ? " that could be found" : "");
      print(history, verdict);
      return 1;
    }
    pairs += overlaps(history);
    steps += verdict.steps;
    if (i % 7 != 0) continue;
    for (size_t k = 0; k < std::size(kBroken); k++) {
      State broken;
      broken.broken = kBroken[k];
      refused[k] += !check(broken, history).legal;
    }
  }
  for (const uint64_t count : refused) {
    require(count != 0 || settings.histories < 100,
            "THE NET HAS A HOLE: a model with a broken rule fits every history");
  }
  require(pairs / settings.histories >= 3, "the operations hardly overlap: these histories prove nothing");
  std::printf(
      "ok: SIG-01 SIG-03 SIG-04, %lu histories have a legal order; %lu overlapping pairs each, %lu steps each\n",
      settings.histories, pairs / settings.histories, steps / settings.histories);
  return 0;
}
