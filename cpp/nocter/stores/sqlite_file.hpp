// The files of a SQLite database, seen from outside of SQLite: made so that nobody else can read them, refused where they could be
// harmed, and watched for being taken away.
//
// Nothing here opens a database file that is there already: closing it again would drop the locks that another connection of this
// process holds on it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nocter::stores {

// The same file by a path that no link is part of, and that SQLite cannot take for a URI. Throws StoreError.
std::string whole_path(const std::string& path);

// Makes the file, if there is none, and refuses one that is a link, has other names, or lies on a network (SEC-04, DUR-08).
void prepare_file(const std::string& whole_path);

// Refuses to go on when this process has two copies of SQLite: each drops the other's locks.
void refuse_second_sqlite();
// For the tests: what of that is decided without the process. `maps` is the text of /proc/self/maps, `ours` the file that holds our copy.
std::string second_sqlite(const std::string& maps, const std::string& ours);
bool on_network(int64_t file_system_kind);

// Who a file is, whatever it is called.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
// All zero when there is none.
FileIdentity identity_of(const std::string& path);

// What a person should be told: that others can read the file, or put another one in its place.
std::vector<std::string> file_warnings(const std::string& whole_path);

}  // namespace nocter::stores
