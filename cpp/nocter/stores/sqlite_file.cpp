#include "nocter/stores/sqlite_file.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "nocter/base/monitor.hpp"
#include "nocter/base/planted.hpp"
#include "nocter/tasks/tables.hpp"

namespace nocter::stores {

using base::planted;
using tasks::StoreError;

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw StoreError(Status::store, path + ": " + why);
}
[[noreturn]] void refuse_by_error(const std::string& path, const char* what, int error) {
  refuse(path, std::string(what) + ": " + std::strerror(error));
}

// Between making a file and closing it nobody else of this process may open it: see the head of the header.
constinit base::Mutex making;

std::string folder_of(const std::string& whole_path) {
  const size_t slash = whole_path.rfind('/');
  return slash == 0 ? "/" : whole_path.substr(0, slash);
}

void sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that can be written to and not read: then as the system likes
  fsync(descriptor);
  close(descriptor);
}

void refuse_odd_file(const std::string& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    refuse_by_error(path, "cannot be looked at", errno);
  }
  if (S_ISLNK(status.st_mode)) refuse(path, "is a symbolic link; name the file itself");
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a file");
  // Each of two names would have a log of its own, and neither knows what is in the other's.
  if (status.st_nlink > 1) refuse(path, "has several names (hard links), which SQLite cannot keep apart");
}

}  // namespace

std::string whole_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.empty() || name == "." || name == ".." || path.find('\0') != std::string::npos) {
    throw StoreError(Status::argument, "not the path of a file");
  }
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  char resolved[PATH_MAX];
  if (realpath(folder.c_str(), resolved) == nullptr) refuse_by_error(path, "its folder cannot be opened", errno);
  std::string whole = resolved;
  if (whole.back() != '/') whole += '/';
  return whole + name;
}

bool on_network(int64_t file_system_kind) {
  // NFS, SMB (three of them), AFS (two), Ceph, Coda, 9P, NCP, OCFS2, GFS2, Lustre, the shared folders of VirtualBox.
  constexpr int64_t kNetworks[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x5346414f, 0x6b414653, 0x00c36400,
                                   0x73757245, 0x01021997, 0x564c,     0x7461636f, 0x01161970, 0x0bd00bd0, 0x786f4256};
  for (const int64_t kind : kNetworks) {
    if ((file_system_kind & 0xffffffff) == kind) return true;
  }
  return false;
}

void prepare_file(const std::string& whole_path) {
  const std::string folder = folder_of(whole_path);
  struct statfs system = {};
  if (statfs(folder.c_str(), &system) == 0 && on_network(static_cast<int64_t>(system.f_type))) {
    refuse(whole_path, "lies on a network file system, where processes cannot see each other's locks");
  }
  for (const char* beside : {"-wal", "-shm", "-journal"}) refuse_odd_file(whole_path + beside);

  base::Locked locked(making);
  const mode_t mode = planted("sqlite_file_for_everybody") ? 0666 : 0600;
  const int descriptor = open(whole_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  const int error = errno;
  if (descriptor >= 0) {
    // Exactly this, whatever the umask; SQLite gives its log and its shared memory the same.
    if (fchmod(descriptor, mode) != 0) {
      const int why = errno;
      close(descriptor);
      refuse_by_error(whole_path, "its mode cannot be set", why);
    }
    close(descriptor);
    sync_folder(folder);
    return;
  }
  if (error != EEXIST) refuse_by_error(whole_path, "cannot be made", error);
  refuse_odd_file(whole_path);
}

std::string second_sqlite(const std::string& maps, const std::string& ours) {
  std::istringstream lines(maps);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    std::string file = line.substr(path);
    const size_t name = file.rfind('/') + 1;
    if (file.compare(name, 10, "libsqlite3") == 0 && file != ours) return file;
  }
  return {};
}

void refuse_second_sqlite() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&sqlite3_libversion), &info) == 0 || info.dli_fname == nullptr) return;
  char ours[PATH_MAX];
  if (realpath(info.dli_fname, ours) == nullptr) return;
  std::string maps;
  const int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;  // without /proc it cannot be known
  char piece[4096];
  for (ssize_t got = 0; (got = read(descriptor, piece, sizeof piece)) > 0;)
    maps.append(piece, static_cast<size_t>(got));
  close(descriptor);
  const std::string second = second_sqlite(maps, ours);
  if (!second.empty()) {
    throw StoreError(Status::store, "this process has two copies of SQLite, which drop each other's locks on a file: " +
                                        std::string(ours) + " and " + second);
  }
}

FileIdentity identity_of(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

std::vector<std::string> file_warnings(const std::string& whole_path) {
  std::vector<std::string> out;
  struct stat status = {};
  if (stat(whole_path.c_str(), &status) == 0 && (status.st_mode & 0077) != 0) {
    out.push_back(whole_path + ": others than its owner have access; chmod 600 takes it from them");
  }
  const std::string folder = folder_of(whole_path);
  if (stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
    out.push_back(folder + ": anybody can put another file in the place of the database");
  }
  return out;
}

}  // namespace nocter::stores
