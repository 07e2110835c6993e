#include "objects.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

void use_status_names(const char* (*name)(int));
static const bool names_are_known = [] {
  use_status_names(nocter_status_name);
  return true;
}();

static std::vector<int> numbers_in(const char* directory, int except_descriptor_of = 0) {
  std::vector<int> found;
  DIR* const open = opendir(directory);
  CHECK(open != nullptr);
  while (const dirent* entry = readdir(open)) {
    if (entry->d_name[0] == '.') continue;
    const int number = std::atoi(entry->d_name);
    if (except_descriptor_of != 0 && number == dirfd(open)) continue;
    found.push_back(number);
  }
  closedir(open);
  std::sort(found.begin(), found.end());
  return found;
}

int thread_count() {
  // ThreadSanitizer starts a thread of its own with the first one of the program.
  static const bool started_its_own = [] {
    if (kThreadSanitizer) std::thread([] {}).join();
    return true;
  }();
  return started_its_own ? static_cast<int>(numbers_in("/proc/self/task").size()) : 0;
}
std::vector<int> descriptors() { return numbers_in("/proc/self/fd", 1); }

void eventually(const std::function<bool()>& condition) {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 5s;
  while (!condition()) {
    CHECK(std::chrono::steady_clock::now() < end);
    std::this_thread::sleep_for(1ms);
  }
}

int in_child(const std::function<int()>& function) {
  std::fflush(nullptr);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(function());
  int status = 0;
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
