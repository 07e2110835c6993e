#include "model/ops.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace tasks_model {

namespace {

// `node` and `by` are references like the others: to what an `enter` made, to what a `claim` was given.
constexpr Shape kShapes[kKinds] = {
    {"submit",
     {"count", "type", "priority", "own", "parent", "delay", "attempts", "key", "scope", "by", "again", "twist"}},
    {"notify", {"to", "from", "by", "size", "key"}},
    {"state", {"by", "value"}},
    {"step", {"by", "name", "value"}},
    {"put", {"scope", "key", "value", "absent", "by"}},
    {"clear", {"scope"}},
    {"claim", {"node", "types", "most"}},
    {"done", {"by", "value"}},
    {"fail", {"by", "retry", "after", "value"}},
    {"suspend", {"by", "until", "need", "failure", "wake"}},
    {"hand_back", {"by"}},
    {"cancel", {"task"}},
    {"hurry", {"task"}},
    {"acquire", {"name", "token", "lease"}},
    {"renew_lock", {"name", "token", "lease"}},
    {"release", {"name", "token"}},
    {"enter", {"lease"}},
    {"renew", {"node", "lease"}},
    {"leave", {"node"}},
    {"maintain", {"dead", "purge", "events", "search"}},
    {"advance", {"by", "due", "keep"}},
    {"crash", {"node"}},
    {"pause", {"node"}},
    {"resume", {"node"}},
    {"reopen", {}},
    {"list", {"type", "status", "parent", "root", "roots", "most", "after", "before"}},
};
constexpr const char* kFaults[] = {"", "lost_reply", "lost_request", "late_duplicate"};

void write(std::ostringstream& out, const Op& op) {
  out << shape(op.kind).name << " label=" << op.label;
  if (op.fault != Fault::none) out << " fault=" << kFaults[static_cast<int>(op.fault)];
  if (op.later != 0) out << " later=" << op.later;
  if (op.joined) out << " joined=1";
  for (size_t at = 0; at < kMostArguments && shape(op.kind).arguments[at] != nullptr; at++)
    if (op.arguments[at] != 0) out << ' ' << shape(op.kind).arguments[at] << '=' << op.arguments[at];
  if (!op.ids.empty()) out << " ids=";
  for (size_t at = 0; at < op.ids.size(); at++) out << (at == 0 ? "" : ",") << op.ids[at];
  out << '\n';
  for (const Op& part : op.staged) {
    out << "+ ";
    write(out, part);
  }
}

bool set(Op& op, const std::string& name, const std::string& value) {
  const int64_t number = std::strtoll(value.c_str(), nullptr, 10);
  if (name == "label") return (op.label = static_cast<uint32_t>(number), true);
  if (name == "later") return (op.later = number, true);
  if (name == "joined") return (op.joined = number != 0, true);
  if (name == "fault") {
    for (size_t fault = 1; fault < std::size(kFaults); fault++)
      if (value == kFaults[fault]) return (op.fault = static_cast<Fault>(fault), true);
    return false;
  }
  if (name == "ids") {
    std::istringstream list(value);
    for (std::string id; std::getline(list, id, ',');) op.ids.push_back(std::strtoll(id.c_str(), nullptr, 10));
    return true;
  }
  for (size_t at = 0; at < kMostArguments && shape(op.kind).arguments[at] != nullptr; at++)
    if (name == shape(op.kind).arguments[at]) return (op.arguments[at] = number, true);
  return false;
}

bool parse_line(const std::string& line, Op& op) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  size_t kind = 0;
  while (kind < kKinds && word != kShapes[kind].name) kind++;
  if (kind == kKinds) return false;
  op.kind = static_cast<Kind>(kind);
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || !set(op, word.substr(0, equals), word.substr(equals + 1))) return false;
  }
  return true;
}

}  // namespace

const Shape& shape(Kind kind) { return kShapes[static_cast<int>(kind)]; }
bool takes_ids(Kind kind) { return kind == Kind::suspend; }
bool settles(Kind kind) { return kind >= Kind::done && kind <= Kind::hand_back; }

int64_t& Op::at(const char* name) {
  for (size_t at = 0; at < kMostArguments && shape(kind).arguments[at] != nullptr; at++)
    if (std::strcmp(name, shape(kind).arguments[at]) == 0) return arguments[at];
  std::fprintf(stderr, "%s has no argument %s\n", shape(kind).name, name);
  std::abort();
}

std::string to_text(const std::vector<Op>& ops) {
  std::ostringstream out;
  for (const Op& op : ops) write(out, op);
  return out.str();
}

bool parse(const std::string& text, std::vector<Op>& out, std::string& wrong) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    Op op;
    const bool staged = line[0] == '+';
    wrong = line;
    if (!parse_line(staged ? line.substr(1) : line, op) || (staged && out.empty())) return false;
    (staged ? out.back().staged : out).push_back(op);
  }
  wrong.clear();
  return true;
}

}  // namespace tasks_model
