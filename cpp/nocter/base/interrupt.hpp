// An interrupt with a handle: one of its own, or one inside a job.
#pragma once

#include "nocter/base/handle.hpp"
#include "nocter/base/monitor.hpp"

namespace nocter::base {

struct InterruptHandle {
  explicit InterruptHandle(bool is_a_jobs = false) : header(Kind::interrupt) { header.unused = is_a_jobs ? 1 : 0; }
  bool is_a_jobs() const { return header.unused != 0; }

  Header header;
  Interrupt interrupt;
};

}  // namespace nocter::base
