// The life of a job as one pure function: no lock, no memory, no clock. The service asks it for every move, and the tests
// walk it whole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nocter/base/status.hpp"

namespace nocter::blocking {

enum class JobState : uint8_t { free, queued, running, abandoned, completed };
enum class JobEvent : uint8_t { submit, claim, complete, lose, take, cancel, shut_down };
inline constexpr size_t kJobStates = 5;
inline constexpr size_t kJobEvents = 7;

// Where the job's value goes in a move. `lose` says it of the output that never came: there is none.
enum class Goes : uint8_t { nowhere, to_service, to_worker, to_caller, dropped };

struct Step {
  Status status;  // what the caller hears; negative or `pending`: nothing else in here happens
  JobState next;
  Goes value;
  bool tells_waiters;

  constexpr bool allowed() const { return status == Status::ok; }
};

// A slot is occupied from submit until the job is free again; a worker from claim until its guard has ended.
constexpr bool occupies_slot(JobState state) { return state != JobState::free; }
constexpr bool occupies_worker(JobState state) { return state == JobState::running || state == JobState::abandoned; }
constexpr bool frees_slot(JobState from, const Step& step) { return occupies_slot(from) && !occupies_slot(step.next); }
constexpr bool frees_worker(JobState from, const Step& step) {
  return occupies_worker(from) && !occupies_worker(step.next);
}

constexpr Step step(JobState state, JobEvent event) {
  using S = JobState;
  using E = JobEvent;
  const auto refuse = [state](Status status) { return Step{status, state, Goes::nowhere, false}; };
  switch (state) {
    case S::free:
      if (event == E::submit) return {Status::ok, S::queued, Goes::to_service, false};
      return refuse(Status::unknown);
    case S::queued:
      if (event == E::claim) return {Status::ok, S::running, Goes::to_worker, false};
      if (event == E::cancel) return {Status::ok, S::free, Goes::to_caller, true};
      if (event == E::shut_down) return {Status::ok, S::free, Goes::to_caller, true};
      return refuse(event == E::take ? Status::pending : Status::state);
    case S::running:
      if (event == E::complete) return {Status::ok, S::completed, Goes::to_service, true};
      if (event == E::lose) return {Status::ok, S::completed, Goes::nowhere, true};
      if (event == E::cancel) return {Status::ok, S::abandoned, Goes::nowhere, false};
      if (event == E::shut_down) return {Status::ok, S::abandoned, Goes::nowhere, true};
      return refuse(event == E::take ? Status::pending : Status::state);
    case S::abandoned:
      if (event == E::complete) return {Status::ok, S::free, Goes::dropped, true};
      if (event == E::lose) return {Status::ok, S::free, Goes::nowhere, true};
      return refuse(Status::state);
    case S::completed:
      if (event == E::take) return {Status::ok, S::free, Goes::to_caller, true};
      if (event == E::cancel) return {Status::ok, S::free, Goes::to_caller, true};
      if (event == E::shut_down) return {Status::ok, S::free, Goes::to_caller, true};
      return refuse(Status::state);
  }
  return refuse(Status::internal);
}

// The moves that there are, each with a number, so that how often each happened can be kept in a row. First those that happen under the
// back lock alone, then the other two that happen to every job.
struct Move {
  JobState from;
  JobEvent event;
};
inline constexpr Move kMoves[] = {
    {JobState::queued, JobEvent::claim},        {JobState::running, JobEvent::complete},
    {JobState::running, JobEvent::lose},        {JobState::free, JobEvent::submit},
    {JobState::completed, JobEvent::take},      {JobState::completed, JobEvent::cancel},
    {JobState::completed, JobEvent::shut_down}, {JobState::queued, JobEvent::cancel},
    {JobState::queued, JobEvent::shut_down},    {JobState::running, JobEvent::cancel},
    {JobState::running, JobEvent::shut_down},   {JobState::abandoned, JobEvent::complete},
    {JobState::abandoned, JobEvent::lose},
};
inline constexpr size_t kMoveCount = sizeof kMoves / sizeof kMoves[0];
inline constexpr size_t kBackMoves = 3;

struct MoveNumbers {
  uint8_t of[kJobStates][kJobEvents];
  constexpr MoveNumbers() : of() {
    for (auto& row : of) {
      for (uint8_t& number : row) number = kMoveCount;
    }
    for (uint8_t i = 0; i < kMoveCount; i++)
      of[static_cast<size_t>(kMoves[i].from)][static_cast<size_t>(kMoves[i].event)] = i;
  }
};
inline constexpr MoveNumbers kMoveNumbers;
// kMoveCount when there is no such move.
constexpr size_t number_of(JobState from, JobEvent event) {
  return kMoveNumbers.of[static_cast<size_t>(from)][static_cast<size_t>(event)];
}

}  // namespace nocter::blocking
