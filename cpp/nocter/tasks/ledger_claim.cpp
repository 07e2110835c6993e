// Claims: which tasks, in which order, and what their rounds are handed.
#include <algorithm>
#include <string>

#include "nocter/tasks/ledger.hpp"
#include "nocter/tasks/table_store.hpp"

namespace nocter::tasks {

namespace {
constexpr size_t kPromotedAtOnce = 1000;
// Candidates that a claim may end because a cancel is on its way to them, before it leaves the rest to the next one.
constexpr size_t kCancelledAtOnce = 1000;

bool sooner(const TaskRow& a, const TaskRow& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.number < b.number;
}
}  // namespace

uint64_t Ledger::promote(size_t most) {
  std::vector<TaskRow> due;
  write_back();
  tables_.due(now_, most, due);
  std::sort(due.begin(), due.end(), [](const TaskRow& a, const TaskRow& b) { return a.number < b.number; });
  for (const TaskRow& found : due) {
    TaskRow& row = at_hand(found);
    const bool suspended = row.phase == Phase::suspended;
    make_ready(row, Move::come_due, suspended ? Wake::timer : row.woken_by);
    if (suspended) event(row, Event::Kind::woken);
  }
  if (!due.empty()) write_back();
  return due.size();
}

void Ledger::candidates(const Claim& claim, size_t most, std::vector<TaskRow>& out) {
  out.clear();
  if (claim.types.empty()) {
    tables_.ready_of_every_type(most, out);
    return;
  }
  std::vector<int32_t> types;
  for (const std::string& name : claim.types) {
    if (const int32_t type = tables_.find_type(name); type != 0) types.push_back(type);
  }
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  for (const int32_t type : types) tables_.ready(type, most, out);
  if (types.size() > 1) {
    std::sort(out.begin(), out.end(), sooner);
    if (out.size() > most) out.resize(most);
  }
}

Answer Ledger::run(Claim& claim) {
  claim.tasks.clear();
  claim.now = now_;
  if (claim.number == 0) return refuse(Status::argument, "a claim without a number");
  NodeRow node;
  if (!tables_.find_node(claim.node, node) || node.dead)
    return refuse(Status::lease_lost, "the node that claims has been declared dead");
  write_back();
  std::vector<TaskRow> found;
  tables_.claimed_as(claim.node, claim.number, found);
  std::vector<Number> claimed;
  if (!found.empty() && !base::planted("claim_number_is_forgotten")) {
    // Asked again: the reply was lost, or this is a late duplicate. Either way it is the same claim.
    std::sort(found.begin(), found.end(), sooner);
    for (const TaskRow& row : found) claimed.push_back(at_hand(row).number);
  } else if (!known_claims_.contains({claim.node, claim.number})) {
    promote(kPromotedAtOnce);
    size_t cancelled = 0;
    for (bool again = true; again && claimed.size() < claim.most;) {
      again = false;
      candidates(claim, claim.most - claimed.size(), found);
      for (const TaskRow& candidate : found) {
        TaskRow& row = at_hand(candidate);
        if (to_be_cancelled(row)) {
          end_cancelled(row);
          again = ++cancelled < kCancelledAtOnce;
        } else {
          hand_over(row, claim);
          claimed.push_back(row.number);
        }
      }
      write_back();
    }
  }
  if (claimed.empty()) return {Status::empty, {}};
  claims_made_.emplace_back(claim.node, claim.number);
  claim.tasks.resize(claimed.size());
  for (size_t i = 0; i < claimed.size(); i++) describe(*load(claimed[i]), node, claim.tasks[i]);
  return {};
}

void Ledger::hand_over(TaskRow& row, const Claim& claim) {
  move(touch(row), Move::claim, Phase::running);
  row.attempt++;
  row.deliveries++;
  row.fence++;
  row.token = random_->next_token();
  row.claim = claim.number;
  row.node = claim.node;
  row.due_at = kNever;
  if (row.started_at == 0) row.started_at = now_;
  row.failed_children_seen = row.failed_children;
  event(row, Event::Kind::started);
  if (row.mail == 0) return;
  std::vector<Message> waiting;
  tables_.messages(row.number, true, limits_.handed, waiting);
  int64_t bytes = 0;
  for (size_t i = 0; i < waiting.size(); i++) {
    bytes += static_cast<int64_t>(waiting[i].payload.size());
    if (i != 0 && bytes > limits_.handed_bytes) break;
    change().bind_message(row.number, waiting[i].number, row.fence);
  }
}

// As it is in the tables now, so that an answer given a second time is the same. What is at hand is not looked up again.
void Ledger::describe(const TaskRow& row, const NodeRow& node, ClaimedTask& out) {
  out.claimed = {row.id, row.number, row.fence, row.token};
  Record& record = out.record;
  record.row = row;
  record.type = type_name(row.type);
  if (const TaskRow* root = load(row.root)) record.root = root->id;
  if (const TaskRow* parent = row.parent == 0 ? nullptr : load(row.parent)) record.parent = parent->id;
  tables_.read_texts(row.number, record.texts);
  record.node = node.name;
  record.lease_until = node.expires_at;
  read_waiting(tables_, row, record);
  if (row.mail == 0) return;
  tables_.messages(row.number, false, limits_.handed, out.messages);
  std::erase_if(out.messages, [&row](const Message& message) { return message.bound_fence != row.fence; });
}

}  // namespace nocter::tasks
