// What a schedule does to memory. Every allocation of C++ is counted, so that what stays behind is seen; and while a
// schedule is played, what is freed is filled with a pattern and kept, so that a look at it or a write to it is seen
// as well.
#pragma once

#include <cstdint>

namespace sched {

int64_t live_allocations();

void keep_freed();
// Frees what was kept; false when some of it was written to after its end.
bool let_freed_go();

}  // namespace sched
