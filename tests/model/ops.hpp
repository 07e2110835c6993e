// Operations of the random tests as data. They name what they work on by the label of the operation that made it, so that any part of a list
// can be carried out: what names something that was never made does nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tasks_model {

enum class Kind : uint8_t {
  submit,
  notify,
  state,
  step,
  put,
  clear,
  claim,
  done,
  fail,
  suspend,
  hand_back,
  cancel,
  hurry,
  acquire,
  renew_lock,
  release,
  enter,
  renew,
  leave,
  maintain,
  advance,
  crash,
  pause,
  resume,
  reopen,
  list,
};
inline constexpr size_t kKinds = 26;
inline constexpr size_t kMostArguments = 12;

// What happens to the words between a caller and its store.
enum class Fault : uint8_t {
  none,
  lost_reply,      // carried out, and the caller asks again
  lost_request,    // never arrives
  late_duplicate,  // arrives once more, some operations later
};

// What was made is named by 8 * label + place; nothing by kNone; what never was by kNonsense.
using Ref = int64_t;
inline constexpr Ref kNone = -1;
inline constexpr Ref kNonsense = -2;
// The last claim, with another fence, or with another token.
inline constexpr Ref kOtherFence = -3, kOtherToken = -4;
inline constexpr int64_t kPlaces = 8;

struct Op {
  Kind kind = Kind::advance;
  uint32_t label = 0;
  Fault fault = Fault::none;
  int64_t later = 0;    // of a late duplicate: after how many operations
  bool joined = false;  // carried out in one batch with the next
  std::array<int64_t, kMostArguments> arguments{};
  std::vector<Ref> ids;    // of a suspension
  std::vector<Op> staged;  // of an outcome

  int64_t& at(const char* name);
  int64_t at(const char* name) const { return const_cast<Op*>(this)->at(name); }
};

struct Shape {
  const char* name;
  std::array<const char*, kMostArguments> arguments;  // their names; null behind the last
};
const Shape& shape(Kind kind);
bool takes_ids(Kind kind);
bool settles(Kind kind);

// One line each; what is staged follows its outcome, with a `+` in front.
std::string to_text(const std::vector<Op>& ops);
// Lines that begin with `#` are remarks. False: `wrong` says which line is none.
bool parse(const std::string& text, std::vector<Op>& out, std::string& wrong);

// Makes a failing list shorter and simpler, for as long as `fails` says that it still fails, within that time.
template <class Fails>
std::vector<Op> shrink(std::vector<Op> ops, const Fails& fails, double seconds);

}  // namespace tasks_model

#include "model/shrink.hpp"
