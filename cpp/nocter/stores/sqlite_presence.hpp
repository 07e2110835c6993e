// Who lives: each process that works on a database holds a lock on a small file of its own beside it, which the kernel lets go when the
// process ends, however it ends (D-19).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "nocter/base/monitor.hpp"

namespace nocter::stores {

class Presence {
 public:
  // `database` is its whole path; the files lie in the folder of the same name with .nocter behind it.
  explicit Presence(const std::string& database);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // Makes the file of this name and locks it. Throws StoreError.
  void hold(const std::string& instance);
  // Lets go of it, or of one that a dead process left behind, and takes the file away.
  void forget(const std::string& instance) noexcept;
  // True when the process that held it has ended. False when it lives, and when nothing can be known: its lease then tells.
  bool gone(const std::string& instance) const;

 private:
  static bool good_name(std::string_view instance);
  std::string file_of(const std::string& instance) const { return folder_ + "/" + instance; }

  const std::string folder_;
  const uint32_t generation_;
  base::Mutex mutex_;
  std::map<std::string, int> held_;  // descriptors by name
};

}  // namespace nocter::stores
