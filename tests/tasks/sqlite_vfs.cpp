#include "tasks/sqlite_vfs.hpp"

#include <sqlite3.h>

#include <cstring>

namespace nocter_tests {

namespace {

using Kind = Disk::Step::Kind;

Disk* disk;
sqlite3_vfs* real;
sqlite3_vfs shim;

struct File {
  sqlite3_file base;
  const char* name;
  sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
File* of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* below(sqlite3_file* file) { return of(file)->below(); }
std::string name_of(sqlite3_file* file) { return of(file)->name == nullptr ? "" : of(file)->name; }

int failure(int io_error) {
  const int code = disk->next_operation();
  return code == SQLITE_IOERR ? io_error : code;
}

int close_file(sqlite3_file* file) { return below(file)->pMethods->xClose(below(file)); }
int read_file(sqlite3_file* file, void* to, int size, sqlite3_int64 at) {
  if (const int code = failure(SQLITE_IOERR_READ)) return code == SQLITE_FULL ? SQLITE_IOERR_READ : code;
  return below(file)->pMethods->xRead(below(file), to, size, at);
}
int write_file(sqlite3_file* file, const void* from, int size, sqlite3_int64 at) {
  if (const int code = failure(SQLITE_IOERR_WRITE)) return code;
  disk->note(Kind::write, name_of(file), at, from, size);
  return below(file)->pMethods->xWrite(below(file), from, size, at);
}
int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = failure(SQLITE_IOERR_TRUNCATE)) return code;
  disk->note(Kind::truncate, name_of(file), size, nullptr, 0);
  return below(file)->pMethods->xTruncate(below(file), size);
}
int sync_file(sqlite3_file* file, int) {
  if (const int code = failure(SQLITE_IOERR_FSYNC)) return code;
  disk->note(Kind::sync, name_of(file), 0, nullptr, 0);
  return SQLITE_OK;  // nothing here has to survive more than this process
}
int file_size(sqlite3_file* file, sqlite3_int64* out) {
  if (const int code = failure(SQLITE_IOERR_FSTAT)) return code == SQLITE_FULL ? SQLITE_IOERR_FSTAT : code;
  return below(file)->pMethods->xFileSize(below(file), out);
}
int lock(sqlite3_file* file, int level) { return below(file)->pMethods->xLock(below(file), level); }
int unlock(sqlite3_file* file, int level) { return below(file)->pMethods->xUnlock(below(file), level); }
int check_lock(sqlite3_file* file, int* out) { return below(file)->pMethods->xCheckReservedLock(below(file), out); }
int control(sqlite3_file* file, int what, void* with) {
  return below(file)->pMethods->xFileControl(below(file), what, with);
}
int sector_size(sqlite3_file* file) { return below(file)->pMethods->xSectorSize(below(file)); }
// As a disk that promises nothing.
int characteristics(sqlite3_file*) { return 0; }
int map_shared(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  if (const int code = failure(SQLITE_IOERR_SHMMAP)) return code;
  return below(file)->pMethods->xShmMap(below(file), page, size, extend, out);
}
int lock_shared(sqlite3_file* file, int offset, int count, int flags) {
  return below(file)->pMethods->xShmLock(below(file), offset, count, flags);
}
void barrier(sqlite3_file* file) { below(file)->pMethods->xShmBarrier(below(file)); }
int unmap_shared(sqlite3_file* file, int remove) { return below(file)->pMethods->xShmUnmap(below(file), remove); }

const sqlite3_io_methods kMethods = {
    2,           close_file, read_file,    write_file, truncate_file, sync_file,       file_size,
    lock,        unlock,     check_lock,   control,    sector_size,   characteristics, map_shared,
    lock_shared, barrier,    unmap_shared, nullptr,    nullptr};

int open_file(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (const int code = failure(SQLITE_CANTOPEN)) return code == SQLITE_FULL ? SQLITE_CANTOPEN : code;
  of(file)->name = name;
  const int code = real->xOpen(real, name, below(file), flags, out_flags);
  if (code == SQLITE_OK) file->pMethods = &kMethods;
  return code;
}
int remove_file(sqlite3_vfs*, const char* name, int sync_folder) {
  if (const int code = failure(SQLITE_IOERR_DELETE)) return code;
  disk->note(Kind::remove, name, 0, nullptr, 0);
  return real->xDelete(real, name, sync_folder);
}
int access_file(sqlite3_vfs*, const char* name, int flags, int* out) {
  if (const int code = failure(SQLITE_IOERR_ACCESS)) return code == SQLITE_FULL ? SQLITE_IOERR_ACCESS : code;
  return real->xAccess(real, name, flags, out);
}

}  // namespace

Disk::Disk() {
  disk = this;
  real = sqlite3_vfs_find(nullptr);
  shim = *real;
  shim.pNext = nullptr;
  shim.zName = name();
  shim.szOsFile = static_cast<int>(sizeof(File)) + real->szOsFile;
  shim.xOpen = open_file;
  shim.xDelete = remove_file;
  shim.xAccess = access_file;
  sqlite3_vfs_register(&shim, 0);
}

Disk::~Disk() {
  sqlite3_vfs_unregister(&shim);
  disk = nullptr;
}

void Disk::fail_at(uint64_t at, int code, bool for_ever) {
  operations_ = 0;
  failed_ = false;
  fail_at_ = at;
  code_ = code;
  for_ever_ = for_ever;
}

int Disk::next_operation() {
  operations_++;
  if (fail_at_ == 0 || operations_ < fail_at_ || (operations_ > fail_at_ && !for_ever_)) return 0;
  failed_ = true;
  return code_;
}

void Disk::note(Step::Kind kind, const std::string& file, int64_t at, const void* data, int64_t size) {
  if (!recording_) return;
  const auto [number, fresh] = numbers_.try_emplace(file, static_cast<uint32_t>(files_.size()));
  if (fresh) files_.push_back(file);
  steps_.push_back({kind, number->second, at, std::string(static_cast<const char*>(data), static_cast<size_t>(size))});
}

}  // namespace nocter_tests
