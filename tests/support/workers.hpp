// Served functions that are lambdas, and gates that hold one in the middle.
#pragma once

#include <functional>
#include <utility>

#include "support/service.hpp"

namespace nocter_tests {

// A set of workers for the length of a scope, stopped at its end.
class Runner {
 public:
  using Function = std::function<void(nocter_owned& input, nocter_owned& output, nocter_completion* completion)>;
  Runner(nocter_blocking* service, Function function, const nocter_workers_options* options = nullptr,
         Where where = Where::here())
      : function_(std::move(function)) {
    status_is(nocter_blocking_serve(service, run, this, options, &workers_), NOCTER_OK, where);
  }
  ~Runner() { destroy(); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  operator nocter_workers*() const { return workers_; }

  void stop(Where where = Where::here()) {
    const nocter_wait wait = long_wait();
    status_is(nocter_workers_stop(workers_, &wait), NOCTER_OK, where);
  }
  void until_ended(Where where = Where::here()) {
    holds(eventually([this] { return alive() == 0; }), "the served functions ended", where);
    stop(where);
  }
  void destroy() {
    if (workers_ != nullptr) nocter_workers_destroy(std::exchange(workers_, nullptr));
  }
  static void run(void* user, nocter_owned* input, nocter_owned* output, nocter_completion* completion) {
    Runner& self = *static_cast<Runner*>(user);
    self.begun_++;
    struct Ended {
      Runner& runner;
      ~Ended() { runner.ended_++; }
    } ended{self};
    self.function_(*input, *output, completion);
  }

 private:
  uint64_t alive() const { return begun_.load() == 0 ? 1 : begun_.load() - ended_.load(); }
  Function function_;
  std::atomic<uint64_t> begun_{0}, ended_{0};
  nocter_workers* workers_ = nullptr;
};

// The input is the output.
inline void echo(nocter_owned& input, nocter_owned& output, nocter_completion*) {
  output = std::exchange(input, nocter_owned{});
}

// Holds whoever passes until it is opened; once open it stays open.
class Gate {
 public:
  void pass() {
    nocter_signal_publish(reached_, nullptr);
    const nocter_wait wait = long_wait();
    uint64_t version = 0;
    STATUS(nocter_signal_wait(opened_, 1, &wait, &version), NOCTER_OK);
  }
  void until_reached() {
    const nocter_wait wait = long_wait();
    uint64_t version = 0;
    STATUS(nocter_signal_wait(reached_, 1, &wait, &version), NOCTER_OK);
  }
  void open() { nocter_signal_publish(opened_, nullptr); }

 private:
  Signal reached_, opened_;
};

}  // namespace nocter_tests
