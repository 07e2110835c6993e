#include "nocter/tasks/random.hpp"

#include "nocter/base/monitor.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::tasks {

uint64_t KernelRandom::next() {
  if (left_ == 0) {
    if (!base::random_bytes(numbers_, sizeof numbers_))
      throw StoreError(Status::store, "the kernel gives no random bytes (getrandom)");
    left_ = kAtOnce;
  }
  return numbers_[--left_];
}

}  // namespace nocter::tasks
