// The side of those who make passes: which key is next, how a pass ends, and what happens when a time has come.
#include <new>

#include "nocter/base/planted.hpp"
#include "nocter/keyed.hpp"

namespace nocter::keyed {

using base::Interrupt;
using base::Locked;
using base::planted;
using base::status_of;
using base::Wait;
using base::WaitingWorker;
using base::Woken;

// So many keys are few; and how many yields gathering may last: some twenty microseconds in all, less than it takes to wake a sleeper.
static constexpr uint32_t kLeanTurn = 64, kMostLeanTurns = 64, kBarredTurns = 4096;
static constexpr int64_t kLongestGathering = 50'000;  // nanoseconds
// Who waited longer than this for a key claims it at once.
static constexpr int64_t kPause = 5'000;

// ---- Moves --------------------------------------------------------------------------------------------------------------

// A queue that discards takes the further pass away that a notification asked for too late for closing to see it.
Service::Moved Service::move(Record& record, KeyEvent event, uint32_t failures) const {
  const bool discards = ends_pass(event) && closing() == Closing::discard;
  for (Word word = record.now();;) {
    KeyState from = word.state();
    const bool discarded = discards && dirty(from);
    if (discarded) from = KeyState::active;
    if (event == KeyEvent::start && from == KeyState::absent) from = KeyState::waiting;  // see submit
    Step step = keyed::step(from, event);
    if (!step.allowed()) return {from, step, true};
    if (planted("mark_is_lost") && from == KeyState::active_dirty && ends_pass(event)) step.next = KeyState::absent;
    const bool goes = step.next == KeyState::absent;
    // Before the change: whoever finds the key gone may take the record at once.
    record.failures = goes ? 0 : failures;
    if (goes) back_.timers.remove(record);
    const Word next = word.with(step.next).with_noted(word.noted() && event != KeyEvent::start);
    const Word before = word;
    if (!record.change(word, goes ? next.with_listed(true) : next)) continue;
    back_.moves[static_cast<size_t>(from)][static_cast<size_t>(event)]++;
    if (event == KeyEvent::start && before.noted() && !planted("notes_are_not_read")) {
      for (const Stripe& stripe : stripes_) stripe.word.load();
    }
    if (discarded) back_.moves[static_cast<size_t>(before.state())][static_cast<size_t>(KeyEvent::discard)]++;
    return {from, step, before.listed()};
  }
}

void Service::key_gone(Record& record, bool listed, base::After& after) {
  if (!listed) absent_.push(table_.place_of(record));
  back_.released.publish(back_.released.glance() + 1);
  if (back_.refused.glance() != 0) {
    back_.refused.store(0);
    after.tell_waiters = true;
  }
}

// Behind all that were accepted before.
void Service::put_behind(Record& record) {
  take_submitted();
  record.since = base::coarse_now_ns();
  if (planted("dirty_goes_first")) {
    back_.due[--back_.due_first & back_.due_mask] = table_.place_of(record);
    return;
  }
  back_.due[back_.due_end++ & back_.due_mask] = table_.place_of(record);
}

// Where keys come as fast as they are claimed, each pass costs the notifiers more than it is worth: every line it touches moves from core
// to core. So as long as there were but few keys whenever somebody looked, those who claim yield their core a little longer each time
// before they look again; and a key that was notified in its own pass, with no other one waiting, is not claimed again at once. Where
// other threads want the cores a yield takes a time slice in place of microseconds: after one that did, there is none for a good while.
void Service::take_turn(Locked& lock, Reference& staying, bool may_gather) {
  const bool gathers =
      may_gather && shared_.patience.yields != 0 && (back_.again || back_.lean_turns != 0) && !closed();
  if (gathers && back_.barred_turns != 0) {
    back_.barred_turns--;
  } else if (gathers) {
    const uint32_t yields = back_.lean_turns + 1;
    staying.hold();
    claimers_.stay();
    lock.unlock();
    const int64_t since = base::now_ns();
    bool crowded = false;
    for (uint32_t i = 0; i < yields && !crowded; i++) {
      base::yield_core();
      crowded = base::now_ns() - since > kLongestGathering;
    }
    lock.lock();
    if (crowded) back_.barred_turns = kBarredTurns;
    claimers_.stayed();
  }
  take_submitted();
  const uint32_t turn = back_.due_end - back_.due_first;
  if (turn >= kLeanTurn) {
    back_.lean_turns /= 2;
  } else if (turn != 0 && back_.lean_turns < kMostLeanTurns) {
    back_.lean_turns++;
  }
}

// ---- Claims -------------------------------------------------------------------------------------------------------------

Pass& Service::unused_pass() {
  if (back_.carved < shared_.workers + kRestingPasses && back_.at_rest <= kRestingPasses) {
    return *new (&shared_.passes[back_.carved++]) Pass(*this);
  }
  Pass& pass = back_.resting.front();
  back_.resting.pop_front();
  back_.at_rest--;
  return pass;
}

Pass* Service::start_pass(base::After& after) {
  if (!claimable()) return nullptr;
  back_.again = false;
  Record& record = table_.at(back_.due[back_.due_first++ & back_.due_mask]);
  if (back_.due_first != back_.due_end) {
    __builtin_prefetch(&table_.at(back_.due[back_.due_first & back_.due_mask]), 1);
  }
  move(record, KeyEvent::start);
  Pass& pass = unused_pass();
  pass.record = &record;
  pass.failures = record.failures;
  pass.since = base::coarse_now_ns();
  // Its interrupt is fresh: it is raised by a queue that discards, and that starts no pass any more.
  pass.tag.arm(base::Kind::pass);
  pass.interrupt.header.tag.arm(base::Kind::interrupt);
  back_.running.push_back(pass);
  back_.busy++;
  // Whoever was woken for this key may have found another one: pass the wake on.
  if (claimers_.somebody_waits() && claimable()) claimers_.call(after);
  return &pass;
}

// While a queue drains, a pass that runs may still leave its key behind.
bool Service::nothing_will_come() const {
  return closing() == Closing::discard || (closing() == Closing::drain && retained() == 0);
}

Status Service::claim(const Wait* wait, const Interrupt* stop, Pass*& out) {
  Reference staying(*this, stop != nullptr ? Reference::guards : Reference::later);
  base::After after;
  Locked lock(back_.mutex);
  Woken why = Woken::changed;
  for (;;) {
    if (back_.again || back_.due_first == back_.due_end) {
      take_turn(lock, staying, wait != nullptr);
    } else if (back_.busy >= shared_.workers) {
      take_submitted();  // nothing of it can be claimed now, and it would end every wait
    }
    if (stop != nullptr && stop->raised()) {
      // It may have been this thread that was woken for a key it does not take any more.
      if (claimable()) claimers_.call(after);
      why = Woken::interrupted;
      break;
    }
    if (has_time()) {
      const int64_t now = base::now_ns();
      fire_timers(now);
      if (why == Woken::changed && slice_wanted() && back_.resync.due <= now) {
        run_slice(lock, after, staying, now);
        take_submitted();
      }
    }
    if (Pass* const pass = start_pass(after); pass != nullptr) {
      if (stop == nullptr) hold();
      out = pass;
      hand_time_on(after);
      finish(lock, after, staying);
      return Status::ok;
    }
    if (nothing_will_come()) {
      why = Woken::closed;
      break;
    }
    if (wait == nullptr || why != Woken::changed) {
      // As in a wait: said first, then looked once more.
      if (tells_work()) claimers_.miss();
      if (!submitted_.empty() && back_.busy < shared_.workers) continue;
      break;
    }
    const WaitingWorker here(waiting_workers_, serves_here());
    if (here.is_last_of(shared_.workers)) {
      hand_time_on(after);
      finish(lock, after, staying);
      return Status::would_deadlock;
    }
    staying.hold();
    why = wait_for_work(lock, *wait);
  }
  hand_time_on(after);
  finish(lock, after, staying);
  return wait == nullptr && why == Woken::changed ? Status::empty : status_of(why);
}

Pass* Service::claim_for_worker(Interrupt& stop) {
  const Wait until_stopped{base::kForever, &stop, false};
  Pass* pass = nullptr;
  return claim(&until_stopped, &stop, pass) == Status::ok ? pass : nullptr;
}

// ---- Ends ---------------------------------------------------------------------------------------------------------------

void Service::end(Pass& pass, KeyEvent event, int64_t delay_ns) {
  // A pass that one of our own threads lent to its function is held by that thread's workers, and has no reference of its own.
  Reference guard(pass.service, lent_here(pass) ? Reference::guards : Reference::already);
  pass.service.end_pass(pass, event, delay_ns, nullptr, nullptr);
}

void Service::end_pass(Pass& pass, KeyEvent event, int64_t delay_ns, Pass** next, const Interrupt* stop) {
  if (next != nullptr) *next = nullptr;
  const int64_t now = event == KeyEvent::retry ? base::now_ns() : 0;
  Reference staying(*this, Reference::guards);
  base::After after;
  Locked lock(back_.mutex);
  finish_pass(pass, event, now, delay_ns, after);
  // With a time to keep and nobody who does, the next key is claimed by way of a look at the clock.
  const bool comes_back = next != nullptr && !stop->raised();
  if (comes_back && !back_.again && (back_.keeper != 0 || !has_time())) *next = start_pass(after);
  // Who comes back looks by itself.
  if (!comes_back && (claimable() || !submitted_.empty())) claimers_.call(after);
  finish(lock, after, staying);
}

void Service::finish_pass(Pass& pass, KeyEvent event, int64_t now, int64_t delay_ns, base::After& after) {
  Record& record = *pass.record;
  if (event == KeyEvent::retry && closed()) event = KeyEvent::fail;
  uint32_t failures = 0;
  if (event != KeyEvent::complete) failures = record.failures + (record.failures < UINT32_MAX ? 1 : 0);
  if (planted("success_forgets_no_failure") && event == KeyEvent::complete) failures = record.failures;
  pass.interrupt.header.tag.disarm();  // it ends with the guard
  back_.running.erase(back_.running.iterator_to(pass));
  back_.resting.push_back(pass);
  back_.at_rest++;
  back_.busy -= planted("pass_stays_active") ? 0 : 1;

  const Moved moved = move(record, event, failures);
  switch (moved.step.next) {
    case KeyState::absent:
      key_gone(record, moved.listed, after);
      break;
    case KeyState::waiting:
      back_.timers.remove(record);  // of a key that was to be due later, and then notified
      put_behind(record);
      back_.again = back_.due_end - back_.due_first == 1;
      break;
    default:  // delayed
      if (event == KeyEvent::retry) {
        if (delay_ns < 0) delay_ns = shared_.backoff.delay_after(failures, base::next_random(back_.random));
        const int64_t due = later(now, delay_ns);
        const bool nearer = due < next_time();
        back_.timers.set(record, due);
        if (nearer) time_came_nearer(due, after);
      }
      break;
  }
  if (closed() && retained() == 0) {
    claimers_.call_all(after);
    tell_if_drained(after);
  }
}

// ---- Time ---------------------------------------------------------------------------------------------------------------
// One of those who wait for a key keeps the time: it sleeps no longer than until the next thing is due, the others for as long as they
// like. Who keeps it and leaves calls another one, which then finds that nobody does. When a nearer time comes up, whoever keeps the
// old one is relieved, and somebody is called.

int64_t Service::next_time() const {
  // A key that was notified, or whose time was given up otherwise, leaves its timer behind until somebody looks.
  while (!back_.timers.empty() && !keyed::has_time(back_.timers.first().now().state())) {
    back_.timers.remove(back_.timers.first());
  }
  const int64_t slice = slice_wanted() ? back_.resync.due : kNever;
  return back_.timers.first_due() < slice ? back_.timers.first_due() : slice;
}

Status Service::next_due(int64_t& due) const {
  Locked lock(back_.mutex);
  due = next_time();
  return due == kNever ? Status::empty : Status::ok;
}

void Service::fire_timers(int64_t now) {
  while (!back_.timers.empty() && back_.timers.first_due() <= now) {
    Record& record = back_.timers.first();
    back_.timers.remove(record);
    const Step step = move(record, KeyEvent::due).step;
    if (step.allowed() && step.next == KeyState::waiting) put_behind(record);
  }
}

void Service::time_came_nearer(int64_t due, base::After& after) {
  if (planted("nearer_time_wakes_nobody") || (back_.keeper != 0 && back_.keeper_due <= due)) return;
  back_.keeper = 0;
  claimers_.call(after);
}

void Service::hand_time_on(base::After& after) {
  if (planted("time_is_not_handed_on")) return;
  if (back_.keeper == 0 && claimers_.somebody_waits() && has_time()) claimers_.call(after);
}

Woken Service::wait_for_work(Locked& lock, const Wait& wait) {
  Wait shorter = wait;
  bool time_has_come = false;
  const uint64_t ticket = ++back_.last_ticket;
  const int64_t dry_since = base::now_ns();
  Woken why = claimers_.wait(
      lock, shorter, shared_.patience, [this] { return !submitted_.empty(); },
      [&] {
        if (!submitted_.empty() || claimable() || nothing_will_come()) return true;
        const int64_t due = next_time();
        if (due == kNever || back_.keeper != 0) return false;
        time_has_come = due <= base::now_ns();
        if (time_has_come) return true;
        back_.keeper = ticket;
        back_.keeper_due = due;
        if (shorter.deadline_ns == base::kForever || due < shorter.deadline_ns) shorter.deadline_ns = due;
        return false;
      });
  if (back_.keeper == ticket) back_.keeper = 0;
  if (base::now_ns() - dry_since >= kPause) back_.lean_turns = 0;
  // The time that came need not be the caller's; and where time and again something is due, the caller's wait still ends.
  if (why == Woken::timed_out || time_has_come) {
    const bool over = wait.deadline_ns != base::kForever && base::now_ns() >= wait.deadline_ns;
    why = over ? Woken::timed_out : Woken::changed;
    if (!over && wait.interrupt != nullptr && wait.interrupt->raised()) why = Woken::interrupted;
  }
  return why;
}

}  // namespace nocter::keyed
