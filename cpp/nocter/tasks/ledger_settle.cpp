// What a run writes while it goes on, and its outcome.
#include <string>
#include <type_traits>

#include "nocter/tasks/json.hpp"
#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/task_id.hpp"

namespace nocter::tasks {

namespace {

std::string failure_as_json(const Failure& failure) {
  return "{\"kind\":" + quote_json(failure.kind) + ",\"message\":" + quote_json(failure.message) + "}";
}

}  // namespace

Answer Ledger::run(UpdateState& update) {
  Answer answer;
  const TaskRow* row = current(update.by, answer);
  if (row == nullptr) return answer;
  if (update.state.size() > limits_.json) return too_long("the state", limits_.json);
  change().put_state(row->number, update.state);
  event(*row, Event::Kind::state, update.state);
  return {};
}

Answer Ledger::run(StepPut& put) {
  Answer answer;
  const TaskRow* row = current(put.by, answer);
  if (row == nullptr) return answer;
  if (put.name.empty()) return refuse(Status::argument, "a step without a name");
  if (put.name.size() > limits_.name) return too_long("the step's name", limits_.name);
  if (put.value.size() > limits_.json) return too_long("the step's value", limits_.json);
  std::string first;
  if (tables_.find_step(row->number, put.name, first)) {
    put.value = std::move(first);
    return {Status::exists, {}};
  }
  change().add_step(row->number, put.name, put.value);
  return {};
}

Answer Ledger::run(Settle& settle) {
  TaskRow* row = settle.by.number != 0 ? load(settle.by.number) : find(settle.by.id);
  // The reply to the first time was lost: it is answered as it was then.
  if (row != nullptr && row->id == settle.by.id && settle.by.token != 0 && row->token != settle.by.token &&
      row->settled_token == settle.by.token && !base::planted("outcome_is_forgotten"))
    return {static_cast<Status>(row->settled_status), {}};
  Answer answer;
  row = current(settle.by, answer);
  if (row == nullptr) return answer;
  if (settle.result.size() > limits_.json) return too_long("the result", limits_.json);
  if (to_be_cancelled(*row)) {
    settle_cancelled(*row, settle);
    return {Status::cancelled, {}};
  }
  return settle.staged.empty() || settle.outcome == Outcome::hand_back ? settle_as_it_is(*row, settle)
                                                                       : settle_staged(row->number, settle);
}

// What the round has kept back comes first, as if the run had done it just before its outcome; one part that cannot be done undoes all.
Answer Ledger::settle_staged(Number number, Settle& settle) {
  set_mark();
  for (Staged& part : settle.staged) {
    Answer answer = std::visit([this](auto& demand) { return run(demand); }, part);
    // A message that was sent before is no obstacle; a key or a value that somebody else has by now is.
    const bool done =
        answer.status == Status::ok || (answer.status == Status::exists && std::holds_alternative<Notify>(part));
    if (!done && !base::planted("half_a_round_is_kept")) {
      back_to_mark();
      return answer;
    }
  }
  // A message to itself, or a child, has changed the row.
  Answer answer = settle_as_it_is(*load(number), settle);
  if (answer.status == Status::ok) {
    keep_mark();
  } else {
    back_to_mark();
  }
  return answer;
}

Answer Ledger::settle_as_it_is(TaskRow& row, Settle& settle) {
  const uint64_t token = row.token;
  switch (settle.outcome) {
    case Outcome::done:
      finish(row, settle);
      break;
    case Outcome::fail:
      fail(row, settle);
      break;
    case Outcome::suspend:
      if (Answer refused = suspend(row, settle.suspension); refused.status != Status::ok) return refused;
      break;
    case Outcome::hand_back:
      hand_back(row);
      break;
  }
  row.token = 0;
  row.settled_token = token;
  row.settled_status = static_cast<int32_t>(Status::ok);
  return {};
}

void Ledger::finish(TaskRow& row, const Settle& settle) {
  remove_bound(row);
  if (!settle.result.empty()) change().put_result(row.number, settle.result);
  end(row, Move::done, Phase::completed, settle.result);
}

Failure Ledger::put_failure(const TaskRow& row, const Failure& failure) {
  Failure kept = failure;
  kept.kind = beginning(failure.kind, limits_.name);
  kept.message = beginning(failure.message, limits_.failure_text);
  kept.detail = beginning(failure.detail, limits_.failure_text);
  kept.attempt = row.attempt;
  kept.at = now_;
  NodeRow node;
  if (tables_.find_node(row.node, node)) kept.node = node.name;
  change().put_failure(row.number, kept);
  return kept;
}

void Ledger::fail(TaskRow& row, const Settle& settle) {
  touch(row).failures++;
  const Failure failure = put_failure(row, settle.failure);
  base::planted("failed_round_keeps_mail") ? remove_bound(row) : unbind(row);
  if (settle.retry == Retry::never || row.failures >= row.max_attempts + (base::planted("one_try_too_many") ? 1 : 0)) {
    end(row, Move::fail, Phase::failed, failure_as_json(failure));
    return;
  }
  const int64_t delay =
      settle.retry == Retry::after ? settle.retry_after_ms : random_->up_to(longest_backoff(row.failures, limits_));
  row.woken_by = Wake::retry;
  if (delay > 0) {
    move(row, Move::retry, Phase::delayed);
    row.due_at = delay < kNever - now_ ? now_ + delay : kNever - 1;
  } else {
    move(row, Move::retry, Phase::ready);
    ready(row);
  }
  event(row, Event::Kind::retried, failure_as_json(failure));
}

void Ledger::hand_back(TaskRow& row) {
  touch(row);
  row.attempt--;
  row.deliveries--;
  unbind(row);
  make_ready(row, Move::hand_back, row.woken_by);
  event(row, Event::Kind::handed_back);
}

// A cancel was committed first: whatever the round has come to, the task is cancelled. What it reported can still be read.
void Ledger::settle_cancelled(TaskRow& row, const Settle& settle) {
  const uint64_t token = row.token;
  if (settle.outcome == Outcome::done && !settle.result.empty()) change().put_result(row.number, settle.result);
  if (settle.outcome == Outcome::fail) put_failure(row, settle.failure);
  unbind(row);
  end_cancelled(row);
  row.settled_token = token;
  row.settled_status = static_cast<int32_t>(Status::cancelled);
}

}  // namespace nocter::tasks
