// nocter in benchmark R, over the C interface. PROGRAM DROPS
#include <nocter.h>

#include <vector>

#include "../peers/r/drop.hpp"

namespace {

class Retirement {
 public:
  static constexpr const char* name = "nocter";

  explicit Retirement(uint32_t places) : owners_(places) {
    nocter_retirement_options options = NOCTER_RETIREMENT_OPTIONS_INIT;
    options.maximum_resources = places;
    options.workers = 1;
    if (nocter_retirement_create(&options, &service_) != NOCTER_OK) fail("retirement");
  }
  ~Retirement() { nocter_retirement_destroy(service_); }
  Retirement(const Retirement&) = delete;
  Retirement& operator=(const Retirement&) = delete;

  void own(uint32_t i) {
    nocter_permit* permit;
    nocter_epoch epoch;
    if (nocter_retirement_reserve(service_, &permit, &epoch) != NOCTER_OK) fail("reserve");
    nocter_owned resource = {this, nullptr};
    owners_[i] = nocter_permit_attach(permit, &resource);
  }
  void drop(uint32_t i) { nocter_resource_drop(owners_[i]); }
  uint32_t clean() {
    for (uint32_t count = 0;; count++) {
      nocter_cleanup* cleanup;
      const nocter_status status = nocter_retirement_claim(service_, nullptr, &cleanup);
      if (status == NOCTER_EMPTY) return count;
      nocter_owned resource;
      if (status != NOCTER_OK || nocter_cleanup_begin(cleanup, &resource) != NOCTER_OK ||
          nocter_cleanup_complete(cleanup, 0) != NOCTER_OK) {
        fail("a cleanup");
      }
    }
  }

 private:
  nocter_retirement* service_ = nullptr;
  std::vector<nocter_resource*> owners_;
};

}  // namespace

int main(int argc, char** argv) { giving_up::run<Retirement>(argc > 1 ? strtoull(argv[1], nullptr, 10) : 1000000); }
