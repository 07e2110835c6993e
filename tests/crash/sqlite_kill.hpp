// What the worker and the driver of the kill test agree on.
#pragma once

#include <cstdint>
#include <string>

#include "tasks/sqlite_support.hpp"

namespace nocter_tests {

// Works on the database until it is killed; says in the journal, a file of its own outside, what it was told. Lines:
//
//   submit ID            it was accepted
//   state ID N           the state is N, or a later one
//   notify ID KEY        the message is in the mailbox
//   try ID FENCE         a round is about to be ended with an effect inside the database, made in the same step
//   done ID FENCE        it was accepted
//   cancel ID            it will be CANCELLED in the end
int work_until_killed(const std::string& database, const std::string& journal, uint64_t seed);

tasks::StoreOptions options_of_killed();
// Ends a round as done, with its effect: a shared value named by task and fence.
Status done_with_effect(Hand& hand, const tasks::Claimed& claimed);
inline constexpr const char* kEffects = "effects";

}  // namespace nocter_tests
