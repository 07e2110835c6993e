// nocter in benchmark C, over the C interface: a signal at each end. PROGRAM pingpong|publish N none|cross
#include <nocter.h>

#include "../peers/c/pingpong.hpp"

namespace {

// The n-th publication moves the signal from its first version to first + n.
class Signal {
 public:
  static constexpr const char* name = "nocter";

  Signal() {
    if (nocter_signal_create(&signal_) != NOCTER_OK) fail("signal");
    first_ = nocter_signal_version(signal_);
  }
  ~Signal() { nocter_signal_destroy(signal_); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void publish(uint64_t) {
    if (nocter_signal_publish(signal_, nullptr) != NOCTER_OK) fail("publish");
  }
  uint64_t wait(uint64_t after) {
    const nocter_wait forever = {NOCTER_FOREVER, nullptr, 0, 0};
    uint64_t version;
    if (nocter_signal_wait(signal_, first_ + after, &forever, &version) != NOCTER_OK) fail("wait");
    return version - first_;
  }

 private:
  nocter_signal* signal_ = nullptr;
  uint64_t first_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "pingpong";
  const uint64_t count = argc > 2 ? strtoull(argv[2], nullptr, 10) : 200000;
  pingpong::run<Signal>(mode, count, argc > 3 ? argv[3] : "none");
}
