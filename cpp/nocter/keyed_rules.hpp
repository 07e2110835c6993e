// The life of a key as one pure function: no lock, no memory, no clock. The queue asks it for every move, and the tests walk it whole.
//
//   absent --notify--> waiting --start--> active --end--> absent
//   absent --notify_later--> delayed --due, notify--> waiting
//   active --notify--> active_dirty --end--> waiting           one further pass, behind all that wait
//   active --notify_later--> active_delayed --end--> delayed   one further pass, when its time has come
//   active --retry--> delayed
#pragma once

#include <cstddef>
#include <cstdint>

#include "nocter/base/status.hpp"

namespace nocter::keyed {

enum class KeyState : uint8_t { absent, waiting, delayed, active, active_dirty, active_delayed };
// complete, fail and retry end a pass: well, as failed, as failed with the key kept. discard is what closing does to a key.
enum class KeyEvent : uint8_t { notify, notify_later, due, start, complete, fail, retry, discard };
inline constexpr size_t kKeyStates = 6;
inline constexpr size_t kKeyEvents = 8;

struct Step {
  Status status;  // what a notifier hears; `state`: nothing happens
  KeyState next;

  constexpr bool allowed() const { return status != Status::state; }
};

constexpr bool retained(KeyState state) { return state != KeyState::absent; }
constexpr bool has_pass(KeyState state) {
  return state == KeyState::active || state == KeyState::active_dirty || state == KeyState::active_delayed;
}
constexpr bool dirty(KeyState state) { return state == KeyState::active_dirty || state == KeyState::active_delayed; }
// Whether a time was asked for that has not come.
constexpr bool has_time(KeyState state) { return state == KeyState::delayed || state == KeyState::active_delayed; }
constexpr bool ends_pass(KeyEvent event) {
  return event == KeyEvent::complete || event == KeyEvent::fail || event == KeyEvent::retry;
}

constexpr Step step(KeyState state, KeyEvent event) {
  using S = KeyState;
  using E = KeyEvent;
  const auto to = [](S next) { return Step{Status::ok, next}; };
  const auto coalesces = [](S next) { return Step{Status::coalesced, next}; };
  const Step refused{Status::state, state};
  switch (state) {
    case S::absent:
      if (event == E::notify) return to(S::waiting);
      if (event == E::notify_later) return to(S::delayed);
      return refused;
    case S::waiting:
      if (event == E::notify || event == E::notify_later) return coalesces(S::waiting);
      if (event == E::start) return to(S::active);
      if (event == E::discard) return to(S::absent);
      return refused;
    case S::delayed:
      if (event == E::notify) return coalesces(S::waiting);
      if (event == E::notify_later) return coalesces(S::delayed);
      if (event == E::due) return to(S::waiting);
      if (event == E::discard) return to(S::absent);
      return refused;
    case S::active:
      if (event == E::notify) return to(S::active_dirty);
      if (event == E::notify_later) return to(S::active_delayed);
      if (event == E::complete || event == E::fail) return to(S::absent);
      if (event == E::retry) return to(S::delayed);
      if (event == E::discard) return to(S::active);
      return refused;
    case S::active_dirty:
      if (event == E::notify || event == E::notify_later) return coalesces(S::active_dirty);
      if (ends_pass(event)) return to(S::waiting);
      if (event == E::discard) return to(S::active);
      return refused;
    case S::active_delayed:
      if (event == E::notify) return coalesces(S::active_dirty);
      if (event == E::notify_later) return coalesces(S::active_delayed);
      if (event == E::due) return to(S::active_dirty);
      if (ends_pass(event)) return to(S::delayed);
      if (event == E::discard) return to(S::active);
      return refused;
  }
  return refused;
}

}  // namespace nocter::keyed
