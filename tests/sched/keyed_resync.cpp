// Resync: a source of keys that is asked in slices, under no lock and by one thread at a time, and let go of exactly once.
#include "sched/keyed_world.hpp"

namespace sched {

namespace {

// Where keys come from: the first `size` things over and over. Knows what was asked of it.
struct Source {
  explicit Source(int keys) : size(keys) {}

  int size;
  int at = 0;
  int asked = 0, inside = 0, drops = 0;
  bool dropped = false;
  nocter_status says_instead = NOCTER_OK;
  std::function<void()> on_ask;

  nocter_keyed_source source() {
    const auto next = [](void* user, nocter_text* out_key) -> nocter_status {
      Source& self = *static_cast<Source*>(user);
      require_equal(locks_held(), 0, "locks held while a source is asked");
      require(!self.dropped, "KEY-10: a source was asked after it was dropped");
      require_equal(++self.inside, 1, "KEY-10: threads inside of a source");
      self.asked++;
      if (self.on_ask) self.on_ask();
      point("source");
      self.inside--;
      if (self.says_instead != NOCTER_OK) return self.says_instead;
      if (self.at == self.size) {
        self.at = 0;
        return NOCTER_EMPTY;
      }
      *out_key = Keyed::text_of(self.at++);
      return NOCTER_OK;
    };
    const auto drop = [](void* user) {
      Source& self = *static_cast<Source*>(user);
      require_equal(locks_held(), 0, "locks held while a source is dropped");
      require_equal(self.inside, 0, "KEY-10: a source was dropped while it was asked");
      require(!self.dropped, "KEY-10: a source was dropped twice");
      self.dropped = true;
    };
    return {next, drop, this};
  }
};

// One slice and no more: the next one is further away than the clock goes.
constexpr int64_t kOnce = INT64_MAX;

void start(Keyed& world, Source& source, int64_t interval_ns = kMillisecond, uint32_t slice = 2) {
  const nocter_keyed_source given = source.source();
  require_equal(nocter_keyed_resync(world.queue, &given, interval_ns, slice), NOCTER_OK, "resync");
}

// Every key of the source is found by those who claim, though nobody notifies any.
template <uint32_t slice>
void claimers_find_all(Play& play) {
  auto world = keyed({.maximum_keys = 3, .workers = 2});
  auto source = std::make_shared<Source>(3);
  start(*world, *source, kMillisecond, slice);
  for (const char* name : {"one", "other"}) {
    play.thread(name, [=] {
      for (int i = 0; i < 2; i++) {
        const nocter_wait wait = within(3 * kMillisecond);
        const nocter_status heard = world->work_once(&wait);
        require(heard == NOCTER_OK || heard == NOCTER_TIMEOUT, "claim");
      }
    });
  }
  play.at_end([=] {
    // Three slices more are enough for each key to be given once again.
    const nocter_wait wait = within(4 * kMillisecond);
    while (world->work_once(&wait) == NOCTER_OK) {
    }
    for (const int key : {0, 1, 2}) require(world->passes_of(key) != 0, "KEY-10: a key of the source had no pass");
    world->settle();
    require(source->dropped, "the source is let go of by the close");
  });
}

// It is asked for at once by who sleeps already.
void resync_wakes_a_claimer(Play& play) {
  auto world = keyed();
  auto source = std::make_shared<Source>(1);
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("owner", [=] { start(*world, *source, kOnce); });
  play.at_end([=] {
    world->settle();
    require(source->dropped, "the source is let go of at the end");
  });
}

// A full queue ends the slice; the key that found no place is offered first next time, and none is skipped.
void full_queue(Play& play) {
  auto world = keyed({.maximum_keys = 1, .workers = 1});
  auto source = std::make_shared<Source>(3);
  start(*world, *source, kMillisecond, 3);
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
      const int asked = source->asked;
      const auto pass = world->claimed(&wait);
      require_equal(pass.key, i % 3, "KEY-10: keys in the order of the source");
      require(source->asked - asked <= 3, "KEY-10: a slice asks for so many keys at most");
      require(i == 0 || nocter_now_ns() >= last + kMillisecond, "KEY-10: slices come one interval after the other");
      last = nocter_now_ns();
      world->end(pass);
    }
  });
  play.at_end([=] {
    world->settle();
    require(source->dropped, "the source is let go of at the end");
  });
}

// A slice is bounded: what is asked for in one interval is never more.
void bounded_slices(Play& play) {
  auto world = keyed({.maximum_keys = 4, .workers = 1});
  auto source = std::make_shared<Source>(4);
  start(*world, *source, kHour, 2);
  play.thread("worker", [=] {
    const nocter_wait wait = within(kMillisecond);
    const int64_t start_of_all = nocter_now_ns();
    for (const int key : {0, 1}) {
      const auto pass = world->claimed(&wait);
      require_equal(pass.key, key, "keys in the order of the source");
      world->end(pass);
    }
    require_equal(source->asked, 2, "KEY-10: keys asked for in the first slice");
    require_equal(world->work_once(&wait), NOCTER_TIMEOUT, "claim before the second slice");
    require_equal(source->asked, 2, "KEY-10: keys asked for before the second slice");
    int64_t due;
    require_equal(nocter_keyed_next_due(world->queue, &due), NOCTER_OK, "next_due");
    require(due >= start_of_all + kHour && due <= nocter_now_ns() + kHour, "KEY-10: when the next slice is due");
    const nocter_wait longer = forever();
    const auto pass = world->claimed(&longer);
    require_equal(pass.key, 2, "the first key of the second slice");
    require(nocter_now_ns() >= due, "KEY-10: a slice before its time");
    world->end(pass);
    const nocter_keyed_counts counts = world->counts();
    require(counts.resync_keys == 4 && counts.resync_rounds == 0 && counts.resync_failures == 0, "KEY-10: the totals");
  });
  play.at_end([=] {
    world->settle();
    require(source->dropped, "the source is let go of at the end");
  });
}

// Closed, or given up, or replaced, while a thread is inside of the source: it is let go of when that has returned, and not before.
enum class Ending { discard, drain, nothing, another, destroy };
template <Ending how>
void end_against_slice(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 1});
  auto source = std::make_shared<Source>(1);
  auto another = std::make_shared<Source>(2);
  start(*world, *source);
  play.thread("worker", [=] {
    Keyed::Pass pass;
    const nocter_wait wait = within(kMillisecond / 2);
    const nocter_status heard = world->claim(pass, &wait);
    require(heard == NOCTER_OK || heard == NOCTER_TIMEOUT || heard == NOCTER_CLOSED, "claim");
    if (heard == NOCTER_OK) world->end(pass);
  });
  play.thread("owner", [=] {
    switch (how) {
      case Ending::discard:
      case Ending::drain:
        world->close(how == Ending::discard ? NOCTER_CLOSE_DISCARD : NOCTER_CLOSE_DRAIN);
        break;
      case Ending::nothing:
        require_equal(nocter_keyed_resync(world->queue, nullptr, 0, 0), NOCTER_OK, "resync with no source");
        break;
      case Ending::another:
        start(*world, *another);
        break;
      case Ending::destroy:
        wait_until([=] { return source->asked != 0 || ended("worker"); });
        world->destroy();
        break;
    }
    if (how == Ending::discard) {
      const nocter_wait wait = forever();
      require_equal(world->drained(&wait), NOCTER_OK, "drained");
      require_equal(source->inside, 0, "K-21: drained while a source is asked");
    }
  });
  play.at_end([=] {
    require(source->dropped, "KEY-10: a source that was given up was not dropped");
    if (how == Ending::another) require(!another->dropped, "KEY-10: the new source was dropped");
    world->settle();
    if (how == Ending::another) require(another->dropped, "KEY-10: the new source was not dropped at the end");
  });
}

// While one is inside of the source, which waits for long, another serves what is due, also by time.
template <bool by_time>
void slow_source_is_in_nobodys_way(Play& play) {
  auto world = keyed({.maximum_keys = 3, .workers = 2});
  auto source = std::make_shared<Source>(1);
  Keyed* const self = world.get();
  source->on_ask = [self] { wait_until([self] { return self->passes_of(1) != 0; }); };
  start(*world, *source, kOnce);
  play.thread("one", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("other", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("notifier", [=] {
    if (by_time) {
      world->notify_after(1, kMillisecond);
    } else {
      world->accepted(1);
    }
  });
  play.at_end([=] {
    world->settle();
    require(source->dropped, "the source is let go of at the end");
  });
}

// A source that fails ends its slice, not the resync. Inside of it the queue may be asked, and no more, as in a notifier.
void failing_source(Play& play) {
  auto world = keyed({.maximum_keys = 3, .workers = 1});
  auto source = std::make_shared<Source>(2);
  Keyed* const self = world.get();
  source->says_instead = NOCTER_E_UNAVAILABLE;
  source->on_ask = [=, raw = source.get()] {
    nocter_pass* pass = nullptr;
    require_equal(nocter_keyed_notify(self->queue, Keyed::text_of(3)), NOCTER_E_REENTRANT, "notify inside a source");
    require_equal(nocter_keyed_claim(self->queue, nullptr, &pass), NOCTER_E_REENTRANT, "claim inside a source");
    self->counts();
    if (raw->asked == 2) raw->says_instead = NOCTER_OK;
  };
  start(*world, *source, kMillisecond, 2);
  play.thread("worker", [=] {
    const nocter_wait wait = forever();
    const auto pass = world->claimed(&wait);
    require_equal(pass.key, 0, "the first key of the slice after the one that failed");
    world->end(pass);
  });
  play.at_end([=] {
    require_equal(world->counts().resync_failures, 1, "slices that failed");
    require_equal(world->counts().resync_keys, 2, "keys that were given");
    world->settle();
    require(source->dropped, "the source is let go of at the end");
  });
}

// Two claimers and a slice that is due: it is taken by one of them, and the other is not asked to wait for it for ever.
void slice_against_interrupt(Play& play) {
  auto world = keyed({.maximum_keys = 2, .workers = 2});
  auto source = std::make_shared<Source>(1);
  auto interrupt = std::make_shared<OwnInterrupt>();
  start(*world, *source, kOnce);
  play.thread("one", [=] {
    const nocter_wait wait = forever(*interrupt);
    const nocter_status heard = world->work_once(&wait);
    require(heard == NOCTER_OK || heard == NOCTER_INTERRUPTED, "claim");
    if (heard == NOCTER_OK) world->notify(1);
  });
  play.thread("other", [=] {
    const nocter_wait wait = forever();
    require_equal(world->work_once(&wait), NOCTER_OK, "claim");
  });
  play.thread("raiser", [=] { nocter_interrupt_raise(*interrupt); });
  play.at_end([=] {
    world->settle();
    require(source->dropped, "the source is let go of at the end");
  });
}

}  // namespace

std::vector<Scenario> resync_scenarios() {
  return {
      {"resync_claimers_find_all", "KEY-10", claimers_find_all<2>},
      {"resync_claimers_find_all_one_by_one", "KEY-10", claimers_find_all<1>},
      {"resync_wakes_a_claimer", "KEY-10 K-23", resync_wakes_a_claimer},
      {"resync_of_a_full_queue", "KEY-05 KEY-10", full_queue},
      {"resync_in_bounded_slices", "KEY-10", bounded_slices},
      {"resync_slice_against_discard", "KEY-08 KEY-10 K-21", end_against_slice<Ending::discard>},
      {"resync_slice_against_drain", "KEY-08 KEY-10", end_against_slice<Ending::drain>},
      {"resync_slice_against_end_of_resync", "KEY-10", end_against_slice<Ending::nothing>},
      {"resync_slice_against_another_source", "KEY-10", end_against_slice<Ending::another>},
      {"resync_slice_against_destroy", "GEN-01 KEY-10", end_against_slice<Ending::destroy>},
      {"resync_slow_source", "KEY-10 K-10", slow_source_is_in_nobodys_way<false>},
      {"resync_slow_source_and_time", "KEY-10 K-32", slow_source_is_in_nobodys_way<true>},
      {"resync_failing_source", "KEY-10", failing_source},
      {"resync_slice_against_interrupt", "GEN-07 KEY-10", slice_against_interrupt},
  };
}

}  // namespace sched
