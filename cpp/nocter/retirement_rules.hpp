// The life of a reservation as one pure function: no lock, no memory, no clock. The service asks it for every move, and the
// tests walk it whole.
//
// A resource that has an owner never becomes free but by way of the queue and a cleanup. From the queue on it is one of three:
// unobserved (its owner was dropped), observed (somebody will ask), detached (somebody would have asked, and does not any more).
#pragma once

#include <cstddef>
#include <cstdint>

#include "nocter/base/status.hpp"

namespace nocter::retirement {

enum class State : uint8_t {
  free,
  permit,
  live,
  queued,
  queued_observed,
  queued_detached,
  running,
  running_observed,
  running_detached,
  completed,
};
enum class Event : uint8_t { reserve, drop_permit, attach, drop, retire, claim, complete, fail, lose, take, detach };
inline constexpr size_t kStates = 10;
inline constexpr size_t kEvents = 11;

struct Step {
  Status status;  // what the caller hears; anything but `ok`: nothing else in here happens
  State next;
  bool tells_waiters;

  constexpr bool allowed() const { return status == Status::ok; }
};

constexpr bool is_queued(State state) {
  return state == State::queued || state == State::queued_observed || state == State::queued_detached;
}
// A place is occupied from reserve until the reservation is free again; a worker from claim until the cleanup has ended.
constexpr bool occupies_place(State state) { return state != State::free; }
constexpr bool occupies_worker(State state) {
  return state == State::running || state == State::running_observed || state == State::running_detached;
}
// Whether its identity is known to somebody who may ask.
constexpr bool observed(State state) {
  return state == State::queued_observed || state == State::running_observed || state == State::completed;
}
// Whether it is, or may come to be, something to claim.
constexpr bool will_be_claimed(State state) {
  return state == State::permit || state == State::live || is_queued(state);
}
constexpr bool frees_place(State from, const Step& step) { return occupies_place(from) && !occupies_place(step.next); }
constexpr bool ends_cleanup(Event event) {
  return event == Event::complete || event == Event::fail || event == Event::lose;
}

constexpr Step step(State state, Event event) {
  using S = State;
  using E = Event;
  const auto refuse = [state](Status status) { return Step{status, state, false}; };
  switch (state) {
    case S::free:
      if (event == E::reserve) return {Status::ok, S::permit, false};
      return refuse(Status::unknown);
    case S::permit:
      if (event == E::attach) return {Status::ok, S::live, false};
      if (event == E::drop_permit) return {Status::ok, S::free, true};
      break;
    case S::live:
      if (event == E::drop) return {Status::ok, S::queued, false};
      if (event == E::retire) return {Status::ok, S::queued_observed, false};
      break;
    case S::queued:
      if (event == E::claim) return {Status::ok, S::running, false};
      break;
    case S::queued_observed:
      if (event == E::claim) return {Status::ok, S::running_observed, false};
      if (event == E::detach) return {Status::ok, S::queued_detached, false};
      if (event == E::take) return refuse(Status::pending);
      break;
    case S::queued_detached:
      if (event == E::claim) return {Status::ok, S::running_detached, false};
      break;
    case S::running:
    case S::running_detached:
      if (ends_cleanup(event)) return {Status::ok, S::free, true};
      break;
    case S::running_observed:
      if (ends_cleanup(event)) return {Status::ok, S::completed, true};
      if (event == E::detach) return {Status::ok, S::running_detached, false};
      if (event == E::take) return refuse(Status::pending);
      break;
    case S::completed:
      if (event == E::take || event == E::detach) return {Status::ok, S::free, true};
      break;
  }
  return refuse(event == E::take || event == E::detach ? Status::unknown : Status::state);
}

}  // namespace nocter::retirement
