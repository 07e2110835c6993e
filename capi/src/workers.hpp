// What every `serve` of the boundary shares: reading the options of threads, and saying how their start went.
#pragma once

#include "boundary.hpp"
#include "nocter/base/threads.hpp"
#include "nocter/workers.h"

namespace nocter::capi {

// NULL: the defaults.
nocter_status read_workers_options(const nocter_workers_options* given, base::ThreadOptions& to, const char* function);
nocter_status explain_start(const base::Workers::Started& started, const char* function);

}  // namespace nocter::capi
