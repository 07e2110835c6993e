// The side of those who notify; closing, counting, and how a queue begins and ends.
#include "nocter/keyed.hpp"

#include <cstdlib>
#include <new>

#include "nocter/base/identity.hpp"
#include "nocter/base/planted.hpp"

namespace nocter::keyed {

using base::BothLocked;
using base::Locked;
using base::planted;
using base::status_of;
using base::Wait;
using base::Woken;

// ---- Birth and end --------------------------------------------------------------------------------------------------

namespace {

// Places of one block of memory, each at a multiple of a cache line. The first time over it only adds up.
class Block {
 public:
  explicit Block(void* start) : start_(static_cast<std::byte*>(start)) {}
  template <class T>
  T* of(size_t count) {
    T* const here = start_ == nullptr ? nullptr : reinterpret_cast<T*>(start_ + size_);
    size_ += (count * sizeof(T) + kLine - 1) / kLine * kLine;
    return here;
  }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kLine = 64;
  std::byte* const start_;
  size_t size_ = 0;
};

Service::Memory lay_out(Block& block, const Options& options) {
  const uint32_t keys = options.maximum_keys;
  const uint32_t cells = base::Crossing::cells_for(keys);
  const size_t long_words = KeyTable::long_words_for(options.maximum_key_size);
  Service::Memory memory{};
  memory.table.records = block.of<Record>(keys);
  memory.table.slots = block.of<base::Atomic<uint32_t>>(KeyTable::slots_for(keys));
  memory.submitted = block.of<base::Atomic<uint64_t>>(cells);
  memory.absent = block.of<base::Atomic<uint64_t>>(cells);
  memory.due = block.of<uint32_t>(cells);
  memory.timers = block.of<Timers::Entry>(keys);
  memory.passes = block.of<Pass>(size_t{options.workers} + kRestingPasses);
  memory.held_key = block.of<char>(options.maximum_key_size);
  memory.table.long_keys = block.of<base::Atomic<uint64_t>>(keys * long_words);
  return memory;
}

}  // namespace

Service* Service::create(const Options& options) {
  // Untouched memory are the system's zero pages: a large queue costs memory only as far as it is filled, but none is asked for later.
  Block measure(nullptr);
  lay_out(measure, options);
  void* const memory = std::calloc(1, measure.size() + alignof(Pass));
  if (memory == nullptr) return nullptr;
  const uintptr_t line = alignof(Pass) - 1;
  Block block(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory) + line) & ~line));
  Memory places = lay_out(block, options);
  places.block = memory;
  // Long keys lie last, each in a place of its own that most never touch.
  base::prefer_large_pages(
      memory, static_cast<size_t>(reinterpret_cast<char*>(places.table.long_keys) - static_cast<char*>(memory)));
  const uint64_t number = base::next_service_number();
  Service* made = number == 0 ? nullptr : base::make_handle<Service, base::Kind::keyed>(options, places, number);
  if (made == nullptr) std::free(memory);
  return made;
}

Service::Shared::Shared(const Options& options, const Memory& m)
    : tells_waiters(options.waiters.wake != nullptr),
      maximum_keys(options.maximum_keys),
      workers(options.workers),
      maximum_key_size(options.maximum_key_size),
      patience(options.patience),
      seed(base::random_seed()),
      memory(m.block),
      passes(m.passes),
      held_key(m.held_key),
      backoff(options.backoff) {}

Service::Service(const Options& options, const Memory& memory, uint64_t number)
    : base::Service<Service, base::Kind::keyed>(number, options.waiters, options.work),
      shared_(options, memory),
      table_(memory.table, options.maximum_keys, options.maximum_key_size),
      back_(memory, table_, base::Crossing::cells_for(options.maximum_keys) - 1, shared_.seed),
      submitted_(memory.submitted, base::Crossing::cells_for(options.maximum_keys)),
      absent_(memory.absent, base::Crossing::cells_for(options.maximum_keys)) {}

Service::~Service() { std::free(shared_.memory); }

// Who looks without a lock since before the queue was closed is on its way out: a few instructions, if its thread runs.
void Service::empty_out() {
  constexpr int64_t kWhile = 100'000;
  base::EventCount never;
  for (Stripe& stripe : stripes_) {
    while ((stripe.word.load() & kLookers) != 0) {
      never.wait(never.version(), Wait{base::now_ns() + kWhile, nullptr, false}, base::default_patience());
    }
  }
}

base::Atomic<uint64_t>& Service::stripe() const { return stripes_[base::thread_number() % kStripes].word; }

Service::Looking::Looking(Service& service) : stripe_(service.stripe()) { stripe_.fetch_add(1); }

// ---- Notifications ----------------------------------------------------------------------------------------------------

Status Service::notify(const char* data, size_t size) {
  if (size > shared_.maximum_key_size) return Status::limit;
  const Key key = key_of(data, size);
  KeyTable::Found found{nullptr, Word()};
  Status status;
  table_.prefetch(key.hash);  // only a hint: the memory may be gone
  {
    Looking looking(*this);
    if (!closed()) {
      found = table_.find(key);
      if (found.record != nullptr && notify_found(found, status, looking)) return status;
    }
  }
  const int64_t now = base::coarse_now_ns();
  Reference staying(*this, Reference::later);
  base::After after;
  Locked lock(front_.mutex);
  status = notify_at_front(key, found, now, after);
  finish(lock, after, staying);
  return status == Status::pending ? notify_seeing_both(key, KeyEvent::notify, kNever) : status;
}

// The pass that will come sees what was done before the notification by the compare-and-swap, which is therefore made also where it
// changes nothing. For a key that many notify at once that is one cache line for all of them. So the first who coalesces notes it in the
// word, and whoever finds that writes to its own stripe alone, before it looks: a claim that finds the note looks at all stripes.
bool Service::notify_found(KeyTable::Found& found, Status& status, Looking& looking) {
  const uint64_t version = found.word.version();
  do {
    const KeyState from = found.word.state();
    if (from == KeyState::absent || from == KeyState::delayed) return false;
    const Step step = keyed::step(from, KeyEvent::notify);
    const bool coalesces = step.status == Status::coalesced && from == step.next;
    const bool noted = coalesces && found.word.noted() && found.record->now().bits() == found.word.bits();
    if (noted || found.record->change(found.word, found.word.with(step.next).with_noted(coalesces))) {
      status = step.status;
      if (status == Status::coalesced) looking.coalesced();
      return true;
    }
  } while (found.word.version() == version);
  found.record = nullptr;
  return false;
}

// The key's record, for a key that is or may be retained.
Status Service::find_or_store(const Key& key, Record*& record) {
  record = table_.find(key).record;
  if (record != nullptr) return Status::ok;
  if (full()) return Status::saturated;
  record = &unused_record();
  table_.put(*record, key);
  return Status::ok;
}

Status Service::notify_at_front(const Key& key, KeyTable::Found found, int64_t now, base::After& after) {
  if (closed()) {
    front_.rejected_closed++;
    return Status::closed;
  }
  Record* record = found.record;
  if (record == nullptr || record->now().version() != found.word.version()) {
    if (find_or_store(key, record) != Status::ok) return refused();
  }
  for (Word word = record->now();;) {
    const KeyState from = word.state();
    // A delayed key has a timer, which is the back's. And as long as a record has a key that is gone there is room: if none can be
    // seen, whoever ends the pass has yet to count it.
    if (from == KeyState::delayed || (from == KeyState::absent && full())) return Status::pending;
    const Step step = keyed::step(from, KeyEvent::notify);
    if (from == KeyState::absent) {
      front_.admitted++;
      submit(*record, word, now, after);
      return step.status;
    }
    if (!record->change(word, word.with(step.next))) continue;
    if (step.status == Status::coalesced) stripe().fetch_add(kCoalesced);
    return step.status;
  }
}

Status Service::refused() {
  if (shared_.tells_waiters && back_.refused.glance() == 0) return Status::pending;  // the back is to know
  front_.rejected_full++;
  return Status::saturated;
}

// Pushed first, so that a key which others see waiting is where those who claim see it too. Whoever claims it at once finds the record
// as it was, and does for it what is done here; if it even is gone again, its turn is over and nothing is changed here.
void Service::submit(Record& record, Word word, int64_t now, base::After& after) {
  record.since = now;
  submitted_.push(table_.place_of(record));
  record.change(word, word.with(KeyState::waiting));
  if (!planted("notify_wakes_nobody")) claimers_.call(after);
}

bool Service::full() {
  if (front_.admitted - front_.released_seen < shared_.maximum_keys) return false;
  front_.released_seen = back_.released.observe();
  return front_.admitted - front_.released_seen >= shared_.maximum_keys;
}

// A record that was never used, or the one whose key has been gone for longest: there is one, for the queue is not full, and each whose
// key is gone is listed.
Record& Service::unused_record() {
  if (front_.carved < shared_.maximum_keys) return table_.at(front_.carved++);
  for (;;) {
    Record* record = nullptr;
    absent_.take(
        1, [](uint32_t) {}, [&](uint32_t place) { record = &table_.at(place); });
    for (Word word = record->now();;) {
      if (word.state() == KeyState::absent) {
        table_.remove(*record);
        return *record;
      }
      if (record->change(word, word.with_listed(false))) break;  // its key came back: it is listed again when it goes
    }
  }
}

Status Service::notify_after(const char* data, size_t size, int64_t delay_ns) {
  if (delay_ns == 0) return notify(data, size);
  if (size > shared_.maximum_key_size) return Status::limit;
  return notify_seeing_both(key_of(data, size), KeyEvent::notify_later, later(base::now_ns(), delay_ns));
}

Status Service::notify_seeing_both(const Key& key, KeyEvent event, int64_t due) {
  Reference staying(*this, Reference::later);
  base::After after;
  BothLocked lock(back_.mutex, front_.mutex);
  if (closed()) {
    front_.rejected_closed++;
    return Status::closed;
  }
  Record* record;
  if (find_or_store(key, record) != Status::ok) {
    back_.refused.store(1);
    front_.rejected_full++;
    return Status::saturated;
  }
  const Moved moved = move(*record, event);
  if (moved.from == KeyState::absent) front_.admitted++;
  if (moved.step.status == Status::coalesced) stripe().fetch_add(kCoalesced);
  if (moved.step.next == KeyState::waiting && moved.from != KeyState::waiting) {
    back_.timers.remove(*record);
    put_behind(*record);
    claimers_.call(after);
  } else if (keyed::has_time(moved.step.next)) {
    const bool nearer = due < next_time();
    back_.timers.set(*record, due);
    if (nearer) time_came_nearer(due, after);
  }
  finish(lock, after, staying);
  return moved.step.status;
}

void Service::notify_batch(const Text* keys, size_t count, Status* each) {
  Key hashed[kBatch];
  for (size_t i = 0; i < count; i++) {
    hashed[i] = key_of(keys[i].data, keys[i].size);
    table_.prefetch(hashed[i].hash);
  }
  const int64_t now = base::coarse_now_ns();
  for (size_t i = 0; i < count;) {
    {
      Reference staying(*this, Reference::later);
      base::After after;
      Locked lock(front_.mutex);
      for (; i < count; i++) {
        each[i] = notify_at_front(hashed[i], {nullptr, Word()}, now, after);
        if (each[i] == Status::pending) break;
      }
      finish(lock, after, staying);
    }
    if (i < count) {
      each[i] = notify_seeing_both(hashed[i], KeyEvent::notify, kNever);
      i++;
    }
  }
}

// ---- Closing and counting ---------------------------------------------------------------------------------------------

void Service::close(Closing mode) {
  Reference staying(*this, Reference::later);
  base::After after;
  Source source;
  BothLocked lock(back_.mutex, front_.mutex);
  const Closing before = closing();
  if (before == Closing::discard || before == mode) return;
  staying.hold();
  take_submitted();
  shared_.closing.store(static_cast<uint8_t>(mode));
  const bool drop = take_source(source);
  if (mode == Closing::drain && !planted("drain_discards")) {
    fire_timers(kNever);
  } else {
    discard_all(after);
  }
  claimers_.call_all(after);
  after.tell_waiters = true;
  tell_if_drained(after);
  finish(lock, after, staying);
  if (drop) drop_source(source);
}

void Service::discard_all(base::After& after) {
  const auto discard = [&](Record& record) {
    const Moved moved = move(record, KeyEvent::discard);
    if (moved.step.next == KeyState::absent) key_gone(record, moved.listed, after);
  };
  for (; back_.due_first != back_.due_end; back_.due_first++) {
    discard(table_.at(back_.due[back_.due_first & back_.due_mask]));
  }
  while (!back_.timers.empty()) {
    Record& record = back_.timers.first();
    back_.timers.remove(record);
    if (record.now().state() == KeyState::delayed) discard(record);
  }
  for (Pass& pass : back_.running) {
    discard(*pass.record);
    if (!planted("close_interrupts_nobody")) pass.interrupt.interrupt.raise();
  }
}

bool Service::is_drained() const {
  return closed() && retained() == 0 && !back_.resync.running && back_.resync.dropping == 0;
}

void Service::tell_if_drained(base::After& after) {
  if (!is_drained()) return;
  back_.drained.tell_all(after.wakes);
  after.tell_waiters = true;
}

Status Service::drained(const Wait* wait) {
  Reference staying(*this, Reference::later);
  Locked lock(back_.mutex);
  if (!closed()) return Status::state;
  for (Woken why = Woken::changed;;) {
    if (is_drained()) return Status::ok;
    if (wait == nullptr) return Status::pending;
    if (serves_here()) return Status::would_deadlock;
    if (why != Woken::changed) return status_of(why);
    staying.hold();
    why = back_.drained.wait(lock, *wait, shared_.patience);
  }
}

Counts Service::count() const {
  const int64_t now = base::coarse_now_ns();
  const auto age = [now](int64_t since) -> int64_t { return now > since ? now - since : 1; };
  using S = KeyState;
  using E = KeyEvent;
  BothLocked lock(back_.mutex, front_.mutex);
  take_submitted();
  const auto happened = [this](S from, E event) {
    return back_.moves[static_cast<size_t>(from)][static_cast<size_t>(event)];
  };
  const auto ended = [&](S from) {
    return happened(from, E::complete) + happened(from, E::fail) + happened(from, E::retry);
  };
  Counts c{};
  c.accepting = !closed();
  c.active = back_.busy;
  for (const Pass& pass : back_.running) c.dirty += dirty(pass.record->now().state()) ? 1 : 0;
  c.waiting = back_.due_end - back_.due_first;
  c.retained = static_cast<uint32_t>(retained());
  c.delayed = c.retained - c.waiting - c.active;
  c.maximum_keys = shared_.maximum_keys;
  c.workers = shared_.workers;
  c.accepted_new = front_.admitted;
  for (const Stripe& stripe : stripes_) c.coalesced += stripe.word.load() / kCoalesced;
  c.rejected_full = front_.rejected_full;
  c.rejected_closed = front_.rejected_closed;
  c.started = happened(S::waiting, E::start);
  for (const S from : {S::active, S::active_dirty, S::active_delayed}) {
    c.completed += happened(from, E::complete);
    c.failed += happened(from, E::fail) + happened(from, E::retry);
  }
  c.requeued = ended(S::active_dirty) + ended(S::active_delayed);
  c.retried = happened(S::active, E::retry);
  c.discarded_waiting = happened(S::waiting, E::discard) + happened(S::delayed, E::discard);
  c.discarded_dirty = happened(S::active_dirty, E::discard) + happened(S::active_delayed, E::discard);
  c.marked_dirty = c.requeued + c.dirty + c.discarded_dirty;
  c.resync_keys = back_.resync.keys;
  c.resync_rounds = back_.resync.rounds;
  c.resync_failures = back_.resync.failures;
  c.exceptions = exceptions_thrown();
  if (c.waiting != 0) c.oldest_waiting_ns = age(table_.at(back_.due[back_.due_first & back_.due_mask]).since);
  if (!back_.running.empty()) c.longest_active_ns = age(back_.running.front().since);
  return c;
}

// ---- What both sides share ----------------------------------------------------------------------------------------------

// Closing took what there was, and nothing comes after it.
void Service::take_submitted() const {
  if (closed()) return;
  submitted_.take(
      SIZE_MAX, [](uint32_t) {}, [this](uint32_t place) { back_.due[back_.due_end++ & back_.due_mask] = place; });
}

}  // namespace nocter::keyed
