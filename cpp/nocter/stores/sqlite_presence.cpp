#include "nocter/stores/sqlite_presence.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "nocter/base/handle.hpp"
#include "nocter/base/planted.hpp"
#include "nocter/tasks/tables.hpp"

#ifndef F_OFD_SETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

namespace nocter::stores {

using tasks::StoreError;

namespace {

[[noreturn]] void refuse(const std::string& path, const char* what, int error) {
  throw StoreError(Status::store, path + ": " + what + ": " + std::strerror(error));
}

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Presence::Presence(const std::string& database) : folder_(database + ".nocter"), generation_(base::fork_generation()) {}

Presence::~Presence() {
  // Whoever left in an orderly way has taken its file away; another's stays, unlocked, so that the others see that it has ended.
  for (const auto& [instance, descriptor] : held_) close(descriptor);
  if (generation_ == base::fork_generation()) rmdir(folder_.c_str());  // if it is empty
}

// A name may come out of a database that somebody else wrote: nothing of it may lead out of the folder.
bool Presence::good_name(std::string_view instance) {
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  };
  return !instance.empty() && instance.size() <= 64 && std::all_of(instance.begin(), instance.end(), good);
}

void Presence::hold(const std::string& instance) {
  if (!good_name(instance)) return;  // then only its lease tells
  base::Locked locked(mutex_);
  if (held_.contains(instance)) return;
  const std::string file = file_of(instance);
  // The folder goes with the last process, perhaps just now.
  int descriptor = -1;
  for (int tries = 0; descriptor < 0; tries++) {
    if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) refuse(folder_, "cannot be made", errno);
    descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor < 0 && (errno != ENOENT || tries > 100)) refuse(file, "cannot be made", errno);
  }
  struct flock lock = whole_file();
  if (fcntl(descriptor, F_OFD_SETLK, &lock) != 0) {
    const int error = errno;
    close(descriptor);
    refuse(file, "cannot be locked", error);
  }
  held_[instance] = descriptor;
}

void Presence::forget(const std::string& instance) noexcept {
  if (!good_name(instance)) return;
  base::Locked locked(mutex_);
  try {
    unlink(file_of(instance).c_str());
  } catch (const std::bad_alloc&) {
    // It lies there, and is nobody's.
  }
  const auto found = held_.find(instance);
  if (found == held_.end()) return;
  close(found->second);
  held_.erase(found);
}

bool Presence::gone(const std::string& instance) const {
  if (!good_name(instance)) return false;
  const int descriptor = open(file_of(instance).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct flock lock = whole_file();
  const bool known = fcntl(descriptor, F_OFD_GETLK, &lock) == 0;
  close(descriptor);
  return known && lock.l_type == F_UNLCK && !base::planted("sqlite_death_goes_unseen");
}

}  // namespace nocter::stores
